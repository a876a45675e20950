// SPDX-License-Identifier: MIT
/* tests/unit/test_tool_leaks.c - answers as models write them, not as templates do: headers in any
 * order, several calls in one tag, values without line breaks, calls as bare JSON. The complete
 * expected result is given for each, and streams split at every position must agree with it in the
 * content that they show, and in the calls while these arrive. */
#include "tests/unit/tool_cuts.h"

static const char tools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"edit\",\"parameters\":{\"type\":\"object\","
    "\"properties\":{\"path\":{\"type\":\"string\"},\"old\":{\"type\":\"string\"},\"n\":{\"type\":"
    "\"integer\"}},\"required\":[\"path\"]}}},{\"type\":\"function\",\"function\":{\"name\":"
    "\"bash\",\"parameters\":{\"type\":\"object\",\"properties\":{\"command\":{\"type\":"
    "\"string\"}},\"required\":[\"command\"]}}}]";

#define RESULT(content, reasoning, calls, problems)                                                \
    "{\"content\": \"" content "\", \"reasoning\": \"" reasoning "\", \"tool_calls\": [" calls     \
    "], \"problems\": [" problems "]}"
#define LOOSE(calls, n)                                                                            \
    "{\"content\": \"\", \"reasoning\": \"\", \"tool_calls\": [" calls                             \
    "], \"problems\": [], \"loose\": " n "}"
#define BASH(x) "{\"name\": \"bash\", \"arguments\": {\"command\": \"" x "\"}}"
#define A "{\"name\": \"bash\", \"arguments\": {\"command\": \"a\"}}"
#define EDIT "{\"name\": \"edit\", \"arguments\": {\"path\": \"a.py\", \"old\": \"x\"}}"
#define LS "{\"command\": \"ls\"}<|call|>"
#define START "<|start|>assistant"

#define CALL_OF(tool, parameters)                                                                  \
    "<atem:function_calls>\n<atem:invoke name=\"" tool "\">\n" parameters                          \
    "</atem:invoke>\n</atem:function_calls>"
#define PAR(name, value) "<atem:parameter name=\"" name "\">" value "</atem:parameter>\n"
#define ATEM_LS CALL_OF("bash", PAR("command", "ls"))

/* Tests Muse Glimmer's headers, which name the recipient of a message. */
static void test_recipients(void) {
    static const char *const one[] = {
        " to=bash<|message|>" ATEM_LS "<|eot|>",
        "to=bash<|message|>" ATEM_LS,
        START " to=bash<|message|>" ATEM_LS "<|eot|>",
        START "<|message|>" ATEM_LS "<|eot|>",
        " to=bash.bash<|message|>" CALL_OF("bash.bash", PAR("command", "ls")) "<|eot|>",
        (" to=bash<|message|><atem:function_calls><atem:invoke name='bash'><atem:parameter "
         "name='command'>ls</atem:parameter></atem:invoke></atem:function_calls>"),
    };
    for (size_t i = 0; i < COUNT_OF(one); i++)
        every_cut("atem", TOOL_THINK_NONE, true, one[i], RESULT("", "", BASH("ls"), ""));
    every_cut("atem", TOOL_THINK_NONE, true, " to=user<|message|>Go to=x, to <b>.<|eot|>",
              RESULT("Go to=x, to <b>.", "", "", ""));
    every_cut("atem", TOOL_THINK_NONE, true, "<|message|>Hi to<|eot|>",
              RESULT("Hi to", "", "", ""));
    every_cut("atem", TOOL_THINK_NONE, true, "Hi", RESULT("Hi", "", "", ""));
    every_cut("atem", TOOL_THINK_NONE, true,
              " to=self<|message|>why<|eom|>" START " to=user<|message|>Done.<|eot|>",
              RESULT("Done.", "why", "", ""));
    every_cut("atem", TOOL_THINK_NONE, true,
              " to=self<|message|>why<|eom|>" START " to=bash<|message|>" ATEM_LS "<|eot|>",
              RESULT("", "why", BASH("ls"), ""));
    every_cut("atem", TOOL_THINK_NONE, true,
              " to=self<|message|>one<|eom|>" START " to=user<|message|>Wait.<|eom|>" START
              " to=self<|message|>two<|eom|>" START " to=bash<|message|>" ATEM_LS "<|eom|>" START
              " to=edit<|message|>" CALL_OF("edit", PAR("path", "a.py") PAR("old", "x")) "<|eot|>",
              RESULT("Wait.", "one\\ntwo", BASH("ls") ", " EDIT, ""));
    /* Recipients are switched without an end of the message. */
    every_cut("atem", TOOL_THINK_NONE, true,
              " to=self<|message|>why to=user<|message|>Done.<|eot|>",
              RESULT("Done.", "why", "", ""));
    every_cut("atem", TOOL_THINK_NONE, true, " to=self<|message|>still thinking",
              RESULT("", "still thinking", "", "\"the reasoning was not closed\""));
    /* Values are not stripped, and tags in them are text. */
    every_cut("atem", TOOL_THINK_NONE, true,
              " to=edit<|message|>" CALL_OF("edit",
                                            PAR("path", " a </atem:parameter> b\n") PAR("n", "3")),
              RESULT("", "",
                     "{\"name\": \"edit\", \"arguments\": {\"path\": \" a </atem:parameter> "
                     "b\\n\", \"n\": 3}}",
                     ""));
    /* A call in a message to the user is text, until the message ends or the next header. */
#define QUOTED "Run:\n\n```xml\n" ATEM_LS "\n```\n" ATEM_LS "\nNever."
    static const char *const before[] = {" to=user<|message|>", START " to=user<|message|>\n",
                                         " to=self<|message|>why<|eom|>" START
                                         " to=user<|message|>"};
    static const char *const end[] = {"", "<|eot|>", " to=bash<|message|>" ATEM_LS,
                                      "<|eom|>" START " to=bash<|message|>" ATEM_LS "<|eot|>",
                                      "<|eom|>" START "<|message|>" ATEM_LS};
    struct buf text = {0}, want = {0};
    for (size_t i = 0; i < COUNT_OF(before) * COUNT_OF(end); i++) {
        const size_t b = i % COUNT_OF(before), k = i / COUNT_OF(before);
        buf_reset(&text);
        buf_reset(&want);
        buf_fmt(&text, "%s" QUOTED "%s", before[b], end[k]);
        buf_str(&want, "{\"content\": ");
        json_quote(&want, QUOTED, strlen(QUOTED));
        buf_fmt(&want, ", \"reasoning\": \"%s\", \"tool_calls\": [%s], \"problems\": []}",
                b == 2 ? "why" : "", k >= 2 ? BASH("ls") : "");
        every_cut("atem", TOOL_THINK_NONE, true, text.data, want.data);
    }
    buf_release(&text);
    buf_release(&want);
    every_cut(
        "atem", TOOL_THINK_NONE, true, " to=user<|message|>" A "<|eot|>",
        RESULT("{\\\"name\\\": \\\"bash\\\", \\\"arguments\\\": {\\\"command\\\": \\\"a\\\"}}", "",
               "", ""));
    /* A header within a value is part of the value. */
    every_cut("atem", TOOL_THINK_NONE, true,
              CALL_OF("bash",
                      PAR("command", "a to=user<|message|>b") "</atem:invoke>\n"
                                                              "<atem:invoke name=\"bash\">\n" PAR(
                                                                  "command", "pwd")) "\n" ATEM_LS,
              RESULT("", "", BASH("a to=user<|message|>b") ", " BASH("pwd") ", " BASH("ls"), ""));
    /* Two calls in one block. */
    every_cut(
        "atem", TOOL_THINK_NONE, true,
        CALL_OF("bash", PAR("command", "ls") "</atem:invoke>\n<atem:invoke name=\"bash\">\n" PAR(
                            "command", "pwd")),
        RESULT("", "", BASH("ls") ", " BASH("pwd"), ""));
}

static void test_channels(void) {
    static const char *const one[] = {
        "<|channel|>analysis to=functions.bash code<|message|>" LS,
        "<|channel|>analysis to=functions.bash <|constrain|>json<|message|>" LS,
        "<|channel|>commentary to=functions.bash <|constrain|>json<|message|>" LS,
        "<|channel|>commentary to=functions.bash<|message|>" LS,
        " to=functions.bash<|channel|>commentary json<|message|>" LS,
        " to=functions.bash<|channel|>analysis <|constrain|>json<|message|>" LS,
        " to=bash<|channel|>commentary json<|message|>" LS,
        "<|channel|>commentary to=bash <|constrain|>json<|message|>" LS,
        START " to=functions.bash<|channel|>commentary json<|message|>" LS,
        START " to=bash<|channel|>analysis json<|message|>" LS,
        START "<|channel|>final to=functions.bash json<|message|>" LS,
    };
    for (size_t i = 0; i < COUNT_OF(one); i++)
        every_cut("harmony", TOOL_THINK_NONE, true, one[i], RESULT("", "", BASH("ls"), ""));
    every_cut("harmony", TOOL_THINK_NONE, true,
              "<|channel|>analysis<|message|>why<|end|>" START
              "<|channel|>analysis to=functions.bash code<|message|>" LS,
              RESULT("", "why", BASH("ls"), ""));
    every_cut("harmony", TOOL_THINK_NONE, true,
              "<|channel|>analysis<|message|>one<|end|>" START
              "<|channel|>analysis<|message|>two<|end|>" START
              "<|channel|>final<|message|>Done.<|return|>",
              RESULT("Done.", "one\\ntwo", "", ""));
    every_cut("harmony", TOOL_THINK_NONE, true,
              "<|channel|>analysis<|message|>one<|channel|>final<|message|>Done.",
              RESULT("Done.", "one", "", ""));
    every_cut("harmony", TOOL_THINK_NONE, true,
              "<|channel|>commentary<|message|>Wait.<|end|>" START
              "<|channel|>analysis<|message|>hm<|end|>" START
              "<|channel|>commentary to=functions.bash json<|message|>" LS START
              "<|channel|>final<|message|>Done.<|return|>",
              RESULT("Wait.\\nDone.", "hm", BASH("ls"), ""));
    every_cut("harmony", TOOL_THINK_NONE, true,
              "<|channel|>commentary<|message|>Wait.<|end|>" START
              "<|channel|>final<|message|>Done.<|return|>",
              RESULT("Wait.\\nDone.", "", "", ""));
    every_cut("harmony", TOOL_THINK_NONE, true,
              "<|channel|>analysis to=python code<|message|>print(1)<|call|>",
              RESULT("print(1)", "", "", "\"what begins like a call at byte 0 is not one\""));
}

static void test_tags_of_text(void) {
    every_cut("gemma4", TOOL_THINK_NONE, true, "<|channel>thought\n<channel|>Hi",
              RESULT("Hi", "", "", ""));
    every_cut("gemma4", TOOL_THINK_NONE, true, "<channel|>Hi", RESULT("Hi", "", "", ""));
    every_cut("gemma4", TOOL_THINK_OPEN, true, "\n<channel|>Hi", RESULT("Hi", "", "", ""));
    every_cut("gemma4", TOOL_THINK_UNKNOWN, true,
              "<|channel>thought\n<channel|><|channel>thought\nb<channel|>Hi<turn|>",
              RESULT("Hi", "b", "", ""));
    every_cut("gemma4", TOOL_THINK_NONE, true,
              "<|tool_call>call:bash{command:<|\"|>ls<|\"|>}<tool_call|><|channel>thought\n"
              "<channel|>",
              RESULT("", "", BASH("ls"), ""));
    every_cut("gemma4", TOOL_THINK_NONE, true, "Hi<|channel>thought\n<channel|> you",
              RESULT("Hi\\nyou", "", "", ""));
    every_cut("command-r-list", TOOL_THINK_NONE, true,
              "<|START_THINKING|>why<|END_THINKING|><|START_TEXT|>Hi<|END_TEXT|>"
              "<|START_ACTION|>[{\"tool_call_id\": \"0\", \"tool_name\": \"bash\", \"parameters\": "
              "{\"command\": \"ls\"}}]<|END_ACTION|><|END_OF_TURN_TOKEN|>",
              RESULT("Hi", "why", BASH("ls"), ""));
    every_cut("command-r-list", TOOL_THINK_NONE, true, "<|START_TEXT|>Hi<|END_TEXT|>",
              RESULT("Hi", "", "", ""));
    every_cut("glm-argkv", TOOL_THINK_NONE, true,
              "<tool_call>bash<arg_key>command</arg_key><arg_value>a</arg_value></tool_call>\n"
              "</assistant>\n",
              RESULT("", "", BASH("a"), ""));
    every_cut("qwen-xml", TOOL_THINK_NONE, true, "</think>\n\nHi", RESULT("Hi", "", "", ""));
    every_cut("qwen-xml", TOOL_THINK_NONE, true,
              "<think>\n\n</think>\n\n<think>\nb\n</think>\n\nHi", RESULT("Hi", "b", "", ""));
}

static void test_sections(void) {
#define KIMI(s, id, x)                                                                             \
    "<|tool_call" s "_section_begin|><|tool_call_begin|>functions.bash:" id                        \
    "<|tool_call_argument_begin|>{\"command\": \"" x "\"}<|tool_call_end|><|tool_call" s           \
    "_section_end|>"
    every_cut("kimi", TOOL_THINK_NONE, true, "Hi" KIMI("s", "0", "a"),
              RESULT("Hi", "", BASH("a"), ""));
    every_cut("kimi", TOOL_THINK_NONE, true, "Hi " KIMI("", "0", "a") "\n",
              RESULT("Hi", "", BASH("a"), ""));
    every_cut("kimi", TOOL_THINK_NONE, true, KIMI("", "0", "a") "\n" KIMI("s", "1", "b"),
              RESULT("", "", BASH("a") ", " BASH("b"), ""));
    every_cut("kimi", TOOL_THINK_NONE, true,
              "<|tool_call_section_begin|>\n<|tool_call_begin|>functions.bash:0"
              "<|tool_call_argument_begin|>{\"command\": \"a\"}<|tool_call_end|>\n"
              "<|tool_call_section_end|><|im_end|>",
              RESULT("", "", BASH("a"), ""));
    every_cut("kimi", TOOL_THINK_OPEN, true, "hm" KIMI("s", "0", "a"),
              RESULT("", "hm", BASH("a"), "\"the reasoning was not closed\""));
#define DS(x) "<\xef\xbd\x9c" x "\xef\xbd\x9c>"
#define LOW "\xe2\x96\x81"
#define V3(a, b)                                                                                   \
    DS("tool" LOW "calls" LOW "begin")                                                             \
    DS("tool" LOW "call" LOW "begin")                                                              \
    "function" DS("tool" LOW "sep") "bash\n" a                                                     \
                                    "{\"command\": \"a\"}" b DS("tool" LOW "call" LOW "end")       \
                                        DS("tool" LOW "calls" LOW "end")                           \
                                            DS("end" LOW "of" LOW "sentence")
    every_cut("deepseek-v31", TOOL_THINK_NONE, true, V3("```json\n", "\n```"),
              RESULT("", "", BASH("a"), ""));
    every_cut("deepseek-v31", TOOL_THINK_NONE, true, V3("", ""), RESULT("", "", BASH("a"), ""));
}

/* Tests several calls in one tag. */
static void test_several(void) {
#define B "{\"name\": \"bash\", \"arguments\": {\"command\": \"b\"}}"
    static const char *const two[][2] = {
        {"hermes-json", "<tool_call>\n" A "\n" B "\n</tool_call>"},
        {"hermes-json", "<tool_call>\n[" A ", " B "]\n</tool_call><|im_end|>"},
        {"hermes-json", "<tool_call>" A "," B "</tool_call>"},
        {"hermes-json", "<tool_call>\n" A "\n</tool_call>\n<tool_call>\n" B "\n</tool_call>"},
        {"hermes-json", "<tool_call>\n" A "\n<tool_call>\n" B "\n</tool_call>"},
        {"qwen-xml", "<tool_call>\n<function=bash>\n<parameter=command>\na\n</parameter>\n"
                     "</function>\n<function=bash>\n<parameter=command>\nb\n</parameter>\n"
                     "</function>\n</tool_call>"},
        {"seed-xml", "<seed:tool_call>\n<function=bash>\n<parameter=command>a</parameter>\n"
                     "</function>\n<function=bash>\n<parameter=command>b</parameter>\n"
                     "</function>\n</seed:tool_call>"},
        {"gemma4", "<|tool_call>call:bash{command:<|\"|>a<|\"|>}call:bash{command:<|\"|>b<|\"|>}"
                   "<tool_call|>"},
        {"mistral-args", "[TOOL_CALLS]bash[ARGS]{\"command\": \"a\"}bash[ARGS]{\"command\": "
                         "\"b\"}</s>"},
        {"mistral-args", "[TOOL_CALLS]bash[ARGS]{\"command\": \"a\"}[TOOL_CALLS]bash[CALL_ID]"
                         "abcdefghi[ARGS]{\"command\": \"b\"}</s>"},
        {"llama-json", "{\"name\": \"bash\", \"parameters\": {\"command\": \"a\"}}; {\"name\": "
                       "\"bash\", \"parameters\": {\"command\": \"b\"}}<|eot_id|>"},
        {"command-r-action", "Action: ```json\n[\n    {\"tool_name\": \"bash\", \"parameters\": "
                             "{\"command\": \"a\"}},\n    {\"tool_name\": \"bash\", "
                             "\"parameters\": {\"command\": \"b\"}}\n]```<|END_OF_TURN_TOKEN|>"},
        {"python-list", "<|tool_call_start|>[bash(command=\"a\"), bash(command='b')]"
                        "<|tool_call_end|>"},
    };
    for (size_t i = 0; i < COUNT_OF(two); i++)
        every_cut(two[i][0], TOOL_THINK_NONE, true, two[i][1],
                  RESULT("", "", BASH("a") ", " BASH("b"), ""));
    every_cut(
        "hermes-json", TOOL_THINK_NONE, true, "<tool_call>\n" A "\nand so on\n</tool_call>\nHi",
        RESULT("Hi", "", BASH("a"), "\"what follows a call in its tag is not one: and so on\\n\""));
    every_cut("hermes-json", TOOL_THINK_NONE, true,
              "<tool_call>\n" A "\n" B "\n</tool_call>\n<tool_call>\n" A "\n</tool_call>",
              RESULT("", "", BASH("a") ", " BASH("b") ", " BASH("a"), ""));
    every_cut("gigachat-31", TOOL_THINK_NONE, true,
              "Hi<|message_sep|><|function_call|>" A "<|message_sep|>",
              RESULT("Hi", "", BASH("a"), ""));
    every_cut("command-r-action", TOOL_THINK_NONE, true,
              "Action:\n```json\n[\n{\"tool_name\": \"directly-answer\", \"parameters\": {}}\n]```",
              RESULT("", "", "", ""));
}

static void test_values(void) {
    static const char *const texts[][2] = {
        {"qwen-xml", "<tool_call>\n<function=edit>\n<parameter=path>a.py</parameter>\n"
                     "<parameter=old>\nx\n</parameter>\n</function>\n</tool_call>"},
        {"qwen-xml", "<tool_call>\n<function=edit>\n<parameter=path>\na.py</parameter>\n"
                     "<parameter=old>\nx\n</parameter>\n</function>\n</tool_call>"},
        {"qwen-xml", "<tool_call>\n<function=edit>\n<parameter=path>\na.py\n</parameter>\n"
                     "<parameter=old>x</parameter>\n</function>\n</tool_call>"},
        {"qwen-xml", "<tool_call><function=edit><parameter=path>a.py</parameter><parameter=old>x"
                     "</parameter></function></tool_call>"},
        {"seed-xml", "<seed:tool_call><function=edit><parameter=path>a.py</parameter>\n"
                     "<parameter=old>x</parameter></function></seed:tool_call>"},
        {"glm-argkv", "<tool_call>edit<arg_key>path</arg_key><arg_value>a.py</arg_value>\n<arg_key>"
                      "old</arg_key>\n<arg_value>x</arg_value></tool_call>"},
        {"minimax-invoke", "<minimax:tool_call><invoke name=\"edit\"><parameter name=\"path\">a.py"
                           "</parameter>\n<parameter name=\"old\">x</parameter></invoke>"
                           "</minimax:tool_call>"},
        {"minicpm-xml", "<function name=\"edit\"><param name=\"path\">a.py</param><param "
                        "name=\"old\">x</param></function>"},
    };
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        every_cut(texts[i][0], TOOL_THINK_NONE, true, texts[i][1], RESULT("", "", EDIT, ""));
    static const char *const blanks[] = {
        "{path: <|\"|>a.py<|\"|>, old: <|\"|>x<|\"|>}",
        "{\n  path: <|\"|>a.py<|\"|>,\n  old: <|\"|>x<|\"|>\n}",
        "{ <|\"|>path<|\"|> : <|\"|>a.py<|\"|> , old:<|\"|>x<|\"|> }",
        "{\"path\": \"a.py\", \"old\": \"x\"}",
    };
    for (size_t i = 0; i < COUNT_OF(blanks); i++) {
        char text[200];
        snprintf(text, sizeof text, "<|tool_call>call:edit%s<tool_call|><|tool_response>",
                 blanks[i]);
        every_cut("gemma4", TOOL_THINK_NONE, true, text, RESULT("", "", EDIT, ""));
    }
    every_cut("minimax-invoke", TOOL_THINK_NONE, true, /* other quotes */
              "<minimax:tool_call><invoke name='edit'><parameter name='path'>a.py</parameter>"
              "<parameter name='old'>x</parameter></invoke></minimax:tool_call>",
              RESULT("", "", EDIT, ""));
    every_cut("glm-argkv", TOOL_THINK_NONE, true, /* not closed */
              "<tool_call>edit<arg_key>path</arg_key><arg_value>a.py<arg_key>old</arg_key>"
              "<arg_value>x</arg_value></tool_call>",
              RESULT("", "", EDIT, "\"parameter 'path' was not closed\""));
    every_cut("mistral-array", TOOL_THINK_NONE, true,
              "[TOOL_CALLS] [{\"name\": \"bash\", \"arguments\": {\"command\": \"[ARGS]\"}}]</s>",
              RESULT("", "", BASH("[ARGS]"), ""));
    every_cut("qwen-xml", TOOL_THINK_NONE, true, /* the last value swallows no call */
              "<tool_call>\n<function=bash>\n<parameter=command>\na</parameter>\n</function>\n"
              "</tool_call>\n<tool_call>\n<function=bash>\n<parameter=command>\nb\n</parameter>\n"
              "</function>\n</tool_call>",
              RESULT("", "", BASH("a") ", " BASH("b"), ""));
    every_cut("qwen-xml", TOOL_THINK_NONE, true, /* text that only looks like a parameter */
              "<tool_call>\n<function=bash>\n<parameter=command>\na</parameter>\n<parameter=zz>\n"
              "b\n</parameter>\n</function>\n</tool_call>",
              RESULT("", "", BASH("a</parameter>\\n<parameter=zz>\\nb"), ""));
    every_cut("qwen-xml", TOOL_THINK_NONE, true, /* not closed */
              "<tool_call>\n<function=edit>\n<parameter=path>a.py\n<parameter=old>x</parameter>\n"
              "</function>\n</tool_call>",
              RESULT("", "", EDIT, "\"parameter 'path' was not closed\""));
}

static void test_loose(void) {
    static const char *const fmts[] = {"hermes-json",  "qwen-xml", "harmony",
                                       "mistral-args", "kimi",     NULL};
    static const char *const yes[] = {
        A,
        "\n" A "\n",
        "```json\n" A "\n```",
        "```\n" A "\n```<|im_end|>",
        "```json\n" A,
        "{\n  \"name\": \"bash\",\n  \"arguments\": {\n    \"command\": \"a\"\n  }\n}",
        "{\"name\": \"bash\", \"parameters\": {\"command\": \"a\"}}",
        "{\"arguments\": {\"command\": \"a\"}, \"name\": \"bash\"}",
        "```json\n[" A "]\n```\n",
        "```tool_call\n" A "\n```",
        "```json \r\n" A "\n```",
        "{\"name\": \"bash\", \"arguments\": \"{\\\"command\\\": \\\"a\\\"}\"}",
        "{\"type\": \"function\", \"function\": " A "}",
    };
    static const char *const no[] = {
        "{\"name\": \"nope\", \"arguments\": {\"command\": \"a\"}}",
        "{\"name\": \"bash\", \"arguments\": {\"command\": 1}}",
        "{\"name\": \"bash\", \"arguments\": {}}",
        "{\"name\": \"bash\", \"arguments\": {\"command\": \"a\", \"x\": 1}}",
        "{\"name\": \"bash\", \"arguments\": {\"command\": \"a\"}, \"why\": 1}",
        "{\"name\": \"bash\"}",
        "{\"name\": \"bash\", \"arguments\": \"ls\"}",
        "{\"function\": {\"function\": " A "}}",
        "```json\n" A "\n```\nor\n```json\n" A "\n```",
        "{\"name\": \"bash\", \"arguments\": {\"command\": \"a\"",
        A " is the call",
        "Call: " A,
        "```json\n" A "\n``` as told",
        "```python\n" A "\n```",
        "```json\n{\"name\": \"Ann\", \"age\": 3}\n```",
        "[1, 2]",
        "{}",
        "[]",
        "```",
    };
    struct buf want = {0};
    for (size_t f = 0; f < COUNT_OF(fmts); f++) {
        for (size_t i = 0; i < COUNT_OF(yes); i++)
            every_cut(fmts[f], TOOL_THINK_NONE, true, yes[i], LOOSE(BASH("a"), "1"));
        for (size_t i = 0; i < COUNT_OF(no); i++) {
            buf_reset(&want);
            buf_str(&want, "{\"content\": ");
            json_quote(&want, no[i], strlen(no[i]));
            buf_str(&want, ", \"reasoning\": \"\", \"tool_calls\": [], \"problems\": []}");
            every_cut(fmts[f], TOOL_THINK_NONE, true, no[i], want.data);
        }
        every_cut(fmts[f], TOOL_THINK_NONE, false, "```json\n{\"name\": \"bash\"}\n```",
                  RESULT("```json\\n{\\\"name\\\": \\\"bash\\\"}\\n```", "", "", ""));
        every_cut(fmts[f], TOOL_THINK_NONE, true, "```json\n" A "\n```\n\n```json\n" A "\n```\n",
                  LOOSE(BASH("a") ", " BASH("a"), "2"));
        every_cut(fmts[f], TOOL_THINK_NONE, true, A "\n" A, LOOSE(BASH("a") ", " BASH("a"), "2"));
    }
    every_cut("hermes-json", TOOL_THINK_OPEN, true, "why\n</think>\n\n```json\n" A "\n```",
              "{\"content\": \"\", \"reasoning\": \"why\", \"tool_calls\": [" BASH(
                  "a") "], \"problems\": [], \"loose\": 1}");
    every_cut("llama-json", TOOL_THINK_NONE, true, "```json\n" A "\n```", LOOSE(BASH("a"), "1"));
    every_cut("llama-json", TOOL_THINK_NONE, true, A, RESULT("", "", BASH("a"), ""));
    every_cut("llama-json", TOOL_THINK_NONE, false,
              "{\"name\": \"bash\", \"parameters\": {\"command\": \"a\nb\"}}",
              RESULT("", "", BASH("a\\nb"),
                     "\"a text of a call has a line break or tab that is not escaped\""));
    buf_release(&want);
}

/* Checks that a stream shows what follows a quoted call, at once. */
static void test_quoted_shown(void) {
    static const char text[] = " to=user<|message|>" QUOTED;
    struct toolparse *p;
    size_t n = 0;
    CHECK_OK(toolparse_new(&p, toolfmt_find("atem"), tools, sizeof tools - 1, TOOL_THINK_NONE, &e));
    for (size_t i = 0; i + 1 < sizeof text; i++) {
        toolparse_feed(p, text + i, 1);
        (void)toolparse_content(p, &n);
    }
    CHECK_EQ_I64((int64_t)n, (int64_t)strlen(QUOTED));
    toolparse_free(p);
}

/* Checks that a stream shows an answer as it arrives if it cannot be a loose call. */
static void test_held(void) {
    static const char *const shown[] = {"{\"answer\": 1, \"", "```python\nimport os\n",
                                        "```json\n{\"a\"", "{\"name\": \"Ann\", \"", "[1"};
    for (size_t i = 0; i < COUNT_OF(shown); i++) {
        struct toolparse *p;
        size_t n;
        CHECK_OK(toolparse_new(&p, toolfmt_find("hermes-json"), tools, sizeof tools - 1,
                               TOOL_THINK_NONE, &e));
        toolparse_allow_loose(p);
        toolparse_feed(p, shown[i], strlen(shown[i]));
        (void)toolparse_content(p, &n);
        if (!n) CHECK_FAIL("'%s' is held back", shown[i]);
        toolparse_free(p);
    }
}

/* Checks that an answer in JSON that a limit cuts off counts as one, not as half a call. */
static void test_cut_answer(void) {
    static const char *const texts[] = {"{\"name\": \"Ann\", \"ag", "{\"name\": \"bash\", \"para"};
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct toolparse *p;
        CHECK_OK(toolparse_new(&p, toolfmt_find("llama-json"), tools, sizeof tools - 1,
                               TOOL_THINK_NONE, &e));
        toolparse_feed(p, texts[i], strlen(texts[i]));
        toolparse_limited(p);
        CHECK_EQ_STR(json_str(json_get(toolparse_finish(p), "content")), texts[i]);
        CHECK(toolparse_broken(p) == (i == 1)); /* the rest of a broken call is dropped */
        toolparse_free(p);
    }
}

/* Tests Functionary's prompts, which end with the marker of the first call or text. */
static void test_opened(void) {
    static const char one[] = "bash\n{\"command\": \"a\"}";
    char two[200];
    prompt = "assistant<|end_header_id|>\n\n>>>";
    snprintf(two, sizeof two, "all\nHi>>>%s>>>%s<|eot_id|>", one, one);
    for (int loose = 0; loose < 2; loose++) {
        every_cut("functionary-v32", TOOL_THINK_NONE, loose, one, RESULT("", "", BASH("a"), ""));
        every_cut("functionary-v32", TOOL_THINK_NONE, loose, " bash\n{\"command\": \"a\"}",
                  RESULT("", "", BASH("a"), ""));
        every_cut("functionary-v32", TOOL_THINK_NONE, loose, two,
                  RESULT("Hi", "", BASH("a") ", " BASH("a"), ""));
        every_cut("functionary-v32", TOOL_THINK_NONE, loose, two + 6,
                  RESULT("", "", BASH("a") ", " BASH("a"), "")); /* the model repeated the marker */
        every_cut("functionary-v32", TOOL_THINK_NONE, loose, "all\nHi", RESULT("Hi", "", "", ""));
        every_cut("functionary-v32", TOOL_THINK_NONE, loose, "all\nHi>> there",
                  RESULT("Hi>> there", "", "", ""));
        every_cut("functionary-v32", TOOL_THINK_NONE, loose, "Hi", RESULT("Hi", "", "", ""));
        every_cut("functionary-v32", TOOL_THINK_NONE, loose, "Hi there.\n{}",
                  RESULT("Hi there.\\n{}", "", "", ""));
        every_cut("functionary-v32", TOOL_THINK_NONE, loose, "allow\nit",
                  RESULT("allow\\nit", "", "", ""));
        every_cut("functionary-v32", TOOL_THINK_NONE, loose, "bash\n{a",
                  RESULT("bash\\n{a", "", "", "\"what begins like a call at byte 0 is not one\""));
    }
    every_cut("functionary-v32", TOOL_THINK_NONE, true,
              "{\"name\": \"bash\", \"arguments\": {\"command\": \"a\"}}", LOOSE(BASH("a"), "1"));
    prompt = "";
    every_cut("functionary-v32", TOOL_THINK_NONE, false, one,
              RESULT("bash\\n{\\\"command\\\": \\\"a\\\"}", "", "", ""));
}

/* Tests lists of calls that break off: the calls before the break are kept. */
static void test_broken_lists(void) {
#define OFF "\"the list of calls breaks off after 1\""
#define REST "\"what follows a call in its tag is not one: "
    static const char *const c[][3] = {
        /* text, content, problems */
        {"[" A ", garbage", "garbage", OFF},
        {"[" A " and so on", "and so on", OFF},
        {"[" A, "", OFF},
        {"[" A ",", "", OFF},
        {"[" A ", {\"name\": \"bash\", \"argu", "{\\\"name\\\": \\\"bash\\\", \\\"argu", OFF},
        {"[ " A "}", "}", OFF},
        {"[" A ", null]", "", "\"an entry of the list of calls is not a call\""},
    };
    static const char *const python[][3] = {
        {"[bash(command='a'), garbage", "garbage", OFF},
        {"[bash(command='a'), bash(comm", "bash(comm", OFF},
        {"[bash(command='a') x()", "",
         "\"the tool 'x' was not declared\", \"the list of calls breaks off after 2\""},
        {"[bash(command='a'", "[bash(command='a'",
         "\"what begins like a call at byte 0 is not one\""},
    };
    static const char *const open[][2] = {
        {"nemotron-list", "<TOOLCALL>"},        {"apriel-list", "<tool_calls>"},
        {"granite-list", "<|tool_call|>"},      {"firefunction-list", "functools"},
        {"command-r-list", "<|START_ACTION|>"}, {"mistral-array", "[TOOL_CALLS]"},
    };
    char text[300], want[500];
    for (size_t f = 0; f < COUNT_OF(open); f++)
        for (size_t i = 0; i < COUNT_OF(c); i++) {
            snprintf(text, sizeof text, "Hm.\n%s%s", open[f][1], c[i][0]);
            snprintf(want, sizeof want, RESULT("Hm.%s%s", "", BASH("a"), "%s"),
                     *c[i][1] ? "\\n" : "", c[i][1], c[i][2]);
            every_cut(open[f][0], TOOL_THINK_NONE, false, text, want);
        }
    for (size_t i = 0; i < COUNT_OF(python); i++) {
        const bool call = i != 3, two = i == 2;
        snprintf(text, sizeof text, "<|tool_call_start|>%s", python[i][0]);
        snprintf(want, sizeof want, RESULT("%s%s", "", "%s%s", "%s"),
                 call ? "" : "<|tool_call_start|>", python[i][1], call ? BASH("a") : "",
                 two ? ", {\"name\": \"x\", \"arguments\": {}}" : "", python[i][2]);
        every_cut("python-list", TOOL_THINK_NONE, false, text, want);
    }
    every_cut("nemotron-list", TOOL_THINK_NONE, false, "<TOOLCALL>[" A ", x]</TOOLCALL>\nHi",
              RESULT("Hi", "", BASH("a"), OFF ", " REST "x]\""));
    every_cut("python-list", TOOL_THINK_NONE, false,
              "<|tool_call_start|>[bash(command='a'), x]<|tool_call_end|>Hi",
              RESULT("Hi", "", BASH("a"), OFF ", " REST "x]\""));
    every_cut(
        "nemotron-list", TOOL_THINK_NONE, false,
        "<TOOLCALL>[" A ", {\"name\": \"bash\", \"arguments\": {\"command\": \"b\"</TOOLCALL>",
        RESULT("", "", BASH("a") ", " BASH("b"),
               "\"a call lacks closing brackets\", \"the list of calls breaks off after 2\""));
    every_cut("mistral-array", TOOL_THINK_NONE, false,
              "[TOOL_CALLS][" A
              ", x\n[TOOL_CALLS][{\"name\": \"bash\", \"arguments\": {\"command\": "
              "\"b\"}}]</s>",
              RESULT("x", "", BASH("a") ", " BASH("b"), OFF));
}

int main(void) {
    offered = tools;
    RUN(test_channels);
    RUN(test_recipients);
    RUN(test_tags_of_text);
    RUN(test_sections);
    RUN(test_several);
    RUN(test_values);
    RUN(test_loose);
    RUN(test_held);
    RUN(test_cut_answer);
    RUN(test_quoted_shown);
    RUN(test_opened);
    RUN(test_broken_lists);
    return check_done();
}
