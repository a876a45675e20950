// SPDX-License-Identifier: MIT
/* chat/tool_formats.c - the table of tool-call syntaxes, one per row. Detection takes the first row
 * that matches, so rows with more conditions come first. */
#include "chat/tool_int.h"

#include "chat/calls.h"

#include <stdio.h>
#include <string.h>

// clang-format off
#define FUNCTION .fn_open = "<function=", .fn_name_end = ">", .fn_close = "</function>"
#define PARAMETER .par_open = "<parameter=", .par_name_end = ">", .par_close = "</parameter>"
#define INVOKE .fn_open = "<invoke name=", .fn_name_end = ">", .fn_close = "</invoke>", \
               .par_open = "<parameter name=", .par_name_end = ">", .par_close = "</parameter>"
#define ARG_KEY(x) .par_open = "<arg_key" x ">", .par_name_end = "</arg_key" x ">", \
                   .val_open = "<arg_value" x ">", .par_close = "</arg_value" x ">"
#define FLAGGED(x) .fn_open = "<" x "invoke name=", .fn_name_end = ">", .fn_close = "</" x "invoke>", \
                   .par_open = "<" x "parameter name=", .par_name_end = ">", .par_close = "</" x "parameter>", .flag = TEXT_FLAG, .is_text = "true"
static const struct toolfmt formats[] = {
    {.name = "seed-xml", .parse = tool_parse_tags, .grammar = call_tags, .written = {"", "<seed:tool_call>\n", "\n</seed:tool_call>", "\n", "", true, NULL, NULL},
    .marker = {"<seed:tool_call>", "<function="},
     .tags = {FUNCTION, PARAMETER}, .detect = {"<seed:tool_call>"}, .think = {"<seed:think>", "</seed:think>"}},
    {.name = "qwen-xml", .parse = tool_parse_tags, .grammar = call_tags, .written = {"", "<tool_call>\n", "\n</tool_call>", "\n", "", true, NULL, NULL},
    .marker = {"<tool_call>", "<function="},
     .tags = {FUNCTION, PARAMETER, .newline = true}, .detect = {"<function=", "<parameter="}},
    {.name = "hy3", .parse = tool_parse_glm, .grammar = call_keys, .written = {"<tool_calls" HY ">\n", "", "", "\n", "\n</tool_calls" HY ">", false, NULL, NULL},
    .marker = {"<tool_calls" HY ">", "<tool_call" HY ">"},
     .tags = {.fn_open = "<tool_call" HY ">", .fn_name_end = "<tool_sep" HY ">", .fn_close = "</tool_call" HY ">", ARG_KEY(HY)},
     .detect = {HY, "arg_key"}, .think = {"<think" HY ">", "</think" HY ">"}},
    {.name = "hy3-preview", .parse = tool_parse_glm, .grammar = call_keys, .written = {"<tool_calls>\n", "", "", "\n", "\n</tool_calls>", false, NULL, NULL},
    .marker = {"<tool_calls>", "<tool_call>"},
     .tags = {.fn_open = "<tool_call>", .fn_name_end = "<tool_sep>", .fn_close = "</tool_call>", ARG_KEY("")},
     .detect = {"<tool_sep>", "<arg_key>"}},
    {.name = "glm-argkv", .parse = tool_parse_glm, .grammar = call_keys, .written = {"", "", "", "\n", "", false, NULL, NULL},
    .marker = {"<tool_call>"},
     .tags = {.fn_open = "<tool_call>", .fn_name_end = "", .fn_close = "</tool_call>", ARG_KEY("")}, .detect = {"<arg_key>"}, .frame = {"</assistant>"}},
    {.name = "minimax-m3", .parse = tool_parse_elements, .grammar = call_elements, .written = {M3_GUARD "<tool_call>\n", M3_GUARD "<invoke name=\"", "", "\n", "\n" M3_GUARD "</tool_call>", false, NULL, NULL},
    .marker = {M3_GUARD "<tool_call>", M3_GUARD "<invoke name="},
     .detect = {M3_GUARD}, .think = {"<mm:think>", "</mm:think>"}},
    {.name = "minimax-invoke", .parse = tool_parse_tags, .grammar = call_tags, .written = {"<minimax:tool_call>\n", "", "", "\n", "\n</minimax:tool_call>", true, NULL, NULL},
    .marker = {"<minimax:tool_call>", "<invoke name="},
     .tags = {INVOKE},
     .detect = {"<minimax:tool_call>"}},
    {.name = "atem", .parse = tool_parse_tags, .grammar = call_tags, .written = {"", "<atem:function_calls>\n", "\n</atem:function_calls>", "<|eom|><|start|>assistant", "", true, NULL, " to="},
    .marker = {"<atem:function_calls>", "<atem:invoke name="},
     .tags = {.fn_open = "<atem:invoke name=", .fn_name_end = ">", .fn_close = "</atem:invoke>",
              .par_open = "<atem:parameter name=", .par_name_end = ">", .par_close = "</atem:parameter>"},
     .detect = {"<atem:function_calls>"}, .think = {"to=self<|message|>", "<|eom|>"}, .think_end = {"<|start|>", "to=user<|message|>"}, .think_tagged = true,
     .frame = {"<|start|>assistant", "<|message|>", "<|eom|>", "<|eot|>"}, .headers = &tool_atem_headers},
    {.name = "dsml-v41", .parse = tool_parse_tags, .grammar = call_tags, .written = {"<" DSML " calls>\n", "", "", "\n", "\n</" DSML " calls>", true, NULL, NULL},
    .marker = {"<" DSML " calls>", "<" DSML " invoke name="},
     .tags = {FLAGGED(DSML " ")}, .detect = {DSML " calls>"}},
    {.name = "dsml-v4", .parse = tool_parse_tags, .grammar = call_tags, .written = {"<" DSML "tool_calls>\n", "", "", "\n", "\n</" DSML "tool_calls>", true, NULL, NULL},
    .marker = {"<" DSML "function_calls>", "<" DSML "tool_calls>", "<" DSML "invoke name="},
     .tags = {FLAGGED(DSML)}, .detect = {DSML, "tool_calls>"}},
    {.name = "dsml", .parse = tool_parse_tags, .grammar = call_tags, .written = {"<" DSML "function_calls>\n", "", "", "\n", "\n</" DSML "function_calls>", true, NULL, NULL},
    .marker = {"<" DSML "function_calls>", "<" DSML "tool_calls>", "<" DSML "invoke name="},
     .tags = {FLAGGED(DSML)}, .detect = {DSML, "function_calls>"}},
    {.name = "gcml", .parse = tool_parse_tags, .grammar = call_tags, .written = {"<" GCML "tool_calls>\n", "", "", "\n", "\n</" GCML "tool_calls>", true, NULL, NULL},
    .marker = {"<" GCML "tool_calls>", "<" GCML "invoke name="},
     .tags = {FLAGGED(GCML)}, .detect = {GCML}, .frame = {"<|message_sep|>"}},
    {.name = "dots", .parse = tool_parse_tags, .grammar = call_tags, .written = {"<dots_function_call>\n", "", "", "\n", "\n</dots_function_call>", true, NULL, NULL},
    .marker = {"<dots_function_call>", "<invoke name="},
     .tags = {INVOKE}, .detect = {"<dots_function_call>"}},
    {.name = "kimi-k3", .parse = tool_parse_tags, .grammar = call_tags, .written = {K3_OPEN("tools<|sep|>"), "", "", "", K3_CLOSE("tools"), false, K3_OPEN("response<|sep|>") K3_CLOSE("response"), NULL},
    .marker = {K3_OPEN("tools<|sep|>"), K3_OPEN("call tool=")},
     .tags = {.fn_open = K3_OPEN("call tool="), .fn_name_end = "<|sep|>", .fn_close = K3_CLOSE("call"), .counter = "\" index=\"",
              .par_open = K3_OPEN("argument key="), .par_name_end = "<|sep|>", .par_close = K3_CLOSE("argument"), .flag = "\" type=\"", .is_text = "string"},
     .detect = {"<|open|>", "<|close|>"}, .think = {K3_OPEN("think<|sep|>"), K3_CLOSE("think")},
     .frame = {K3_OPEN("response<|sep|>"), K3_CLOSE("response"), K3_CLOSE("message"), "<|end_of_msg|>"}},
    {.name = "minicpm-xml", .parse = tool_parse_tags, .grammar = call_tags, .written = {"", "", "", "\n", "", false, NULL, NULL},
    .marker = {"<function name="},
     .tags = {.fn_open = "<function name=", .fn_name_end = ">", .fn_close = "</function>",
              .par_open = "<param name=", .par_name_end = ">", .par_close = "</param>"},
     .detect = {"<param name="}},
    {.name = "gemma4", .parse = tool_parse_gemma, .grammar = call_gemma, .written = {"", "<|tool_call>call:", "<tool_call|>", "", "", false, NULL, NULL},
    .marker = {"<|tool_call>"}, .named = {"<|tool_call>", NULL, "<tool_call|>", NULL, false}, .quote = "<|\"|>", .detect = {"<|tool_call>call:"},
     .think = {"<|channel>thought", "<channel|>"}, .frame = {"<|tool_response>"}},
    {.name = "functiongemma", .parse = tool_parse_gemma, .grammar = call_gemma, .written = {"", "<start_function_call>call:", "<end_function_call>", "", "", false, NULL, NULL},
    .marker = {"<start_function_call>"}, .named = {"<start_function_call>", NULL, "<end_function_call>", NULL, false}, .quote = "<escape>",
     .detect = {"<start_function_call>"}, .frame = {"<start_function_response>"}},
    {.name = "kimi", .parse = tool_parse_named, .grammar = call_named, .written = {"<|tool_calls_section_begin|>", "<|tool_call_begin|>functions.", "<|tool_call_end|>", "", "<|tool_calls_section_end|>", false, NULL, NULL},
    .marker = {"<|tool_call_begin|>"},
     .named = {"<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>", .numbered = true},
     .detect = {"<|tool_call_argument_begin|>"}, 
     .frame = {"<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_section_begin|>", "<|tool_call_section_end|>"}},
    {.name = "deepseek-v3", .parse = tool_parse_deepseek, .grammar = call_deepseek_v3, .written = {DS_CALLS, DS_CALL "function" DS_SEP, "\n```" DS_CALL_END, "\n", DS_CALLS_END, false, NULL, NULL},
    .marker = {DS_CALLS, DS_CALL},
     .detect = {"tool" DS_LOW "call" DS_LOW "begin", "```json"}, .frame = {DS_CALLS_END}},
    {.name = "deepseek-v31", .parse = tool_parse_deepseek, .grammar = call_deepseek, .written = {DS_CALLS, DS_CALL, DS_CALL_END, "", DS_CALLS_END, false, NULL, NULL},
    .marker = {DS_CALLS, DS_CALL},
     .detect = {"tool" DS_LOW "call" DS_LOW "begin"}, .frame = {DS_CALLS_END}},
    {.name = "harmony", .parse = tool_parse_harmony, .grammar = call_harmony, .written = {"", "to=functions.", "<|call|>", NULL, "", false, "<|channel|>commentary ", NULL},
    .marker = {"to=functions.", CHANNEL("analysis to="), CHANNEL("commentary to="), CHANNEL("final to="), "<|start|>assistant to="},
     .detect = {"functions.", "<|channel|>"},
     .think = {"<|channel|>analysis<|message|>", "<|end|>"}, .think_end = {"<|start|>", "<|channel|>"}, .think_tagged = true,
     .frame = {"<|start|>assistant", CHANNEL("commentary"), CHANNEL("final"), CHANNEL("analysis"), "<|message|>", "<|constrain|>", "<|channel|>", "<|start|>"}, .headers = &tool_harmony_headers},
    {.name = "solar", .parse = tool_parse_named, .grammar = call_named, .written = {"", "<|tool_call:begin|>", "<|tool_call:end|>", "", "", false, NULL, NULL},
    .marker = {"<|tool_call:begin|>"},
     .named = {"<|tool_call:begin|>", "<|tool_call:args|>", "<|tool_call:end|>", .behind_id = "<|tool_call:name|>"}, .detect = {"<|tool_call:begin|>"},
     .think = {"<|think|>", "<|end|>"}, .think_tagged = true,
     .frame = {"<|begin|>assistant", "<|content|>", "<|tool_calls|>", "<|calls|>", "<|flush|>"}},
    {.name = "mistral-args", .parse = tool_parse_mistral, .grammar = call_args, .written = {"", "[TOOL_CALLS]", "", "", "", false, NULL, NULL},
    .marker = {"[TOOL_CALLS]"}, .named = {"[TOOL_CALLS]", "[ARGS]", "", NULL, false},
     .detect = {"[TOOL_CALLS]", "[ARGS]"}, .think = {"[THINK]", "[/THINK]"}},
    {.name = "mistral-array", .parse = tool_parse_mistral, .grammar = call_item_id, .written = {"[TOOL_CALLS][", "", "", ", ", "]", false, NULL, NULL},
    .marker = {"[TOOL_CALLS]"}, .named = {"[TOOL_CALLS]", NULL, "</s>", NULL, false},
     .detect = {"[TOOL_CALLS]"}, .think = {"[THINK]", "[/THINK]"}},
    {.name = "apertus-list", .parse = tool_parse_list, .grammar = call_item_key, .written = {"<|tools_prefix|>[", "", "", ", ", "]<|tools_suffix|>", false, NULL, NULL},
    .marker = {"<|tools_prefix|>"},
     .named = {"<|tools_prefix|>", NULL, "<|tools_suffix|>", NULL, false}, .detect = {"<|tools_prefix|>"},
     .think = {"<|inner_prefix|>", "<|inner_suffix|>"}, .frame = {"<|inner_suffix|>", "<|assistant_end|>"}},
    {.name = "nemotron-list", .parse = tool_parse_list, .grammar = call_item, .written = {"<TOOLCALL>[", "", "", ", ", "]</TOOLCALL>", false, NULL, NULL},
    .marker = {"<TOOLCALL>"}, .named = {"<TOOLCALL>", NULL, "</TOOLCALL>", NULL, false},
     .detect = {"<TOOLCALL>"}},
    {.name = "apriel-list", .parse = tool_parse_list, .grammar = call_item, .written = {"<tool_calls>[", "", "", ", ", "]</tool_calls>", false, NULL, NULL},
    .marker = {"<tool_calls>"}, .named = {"<tool_calls>", NULL, "</tool_calls>", NULL, false},
     .detect = {"<tool_calls>["}, .think = {"Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]"},
     .frame = {"[END FINAL RESPONSE]"}},
    {.name = "firefunction-list", .parse = tool_parse_list, .grammar = call_item, .written = {"functools[", "", "", ", ", "]", false, NULL, NULL},
    .marker = {"functools["}, .named = {"functools", NULL, "", NULL, false},
     .detect = {"functools["}},
    {.name = "command-r-list", .parse = tool_parse_list, .grammar = call_item_command, .written = {"<|START_ACTION|>[", "", "", ", ", "]<|END_ACTION|>", false, NULL, NULL},
    .marker = {"<|START_ACTION|>"},
     .named = {"<|START_ACTION|>", NULL, "<|END_ACTION|>", NULL, false}, .detect = {"<|START_ACTION|>"},
     .think = {"<|START_THINKING|>", "<|END_THINKING|>"},
     .frame = {"<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>", "<|END_OF_TURN_TOKEN|>",
               "<|START_OF_TURN_TOKEN|>", "<|CHATBOT_TOKEN|>"}},
    {.name = "command-r-action", .parse = tool_parse_list, .grammar = call_item_action, .written = {"Action: ```json\n[", "", "", ", ", "]\n```", false, NULL, NULL},
    .marker = {"Action:"}, .named = {"Action:", NULL, "```", NULL, false},
     .detect = {"Action:", "tool_name"}, .frame = {"<|END_OF_TURN_TOKEN|>", "<|START_OF_TURN_TOKEN|>", "<|CHATBOT_TOKEN|>"}},
    {.name = "phi4-mini", .parse = tool_parse_list, .grammar = call_item, .written = {"", "<|tool_call|>", "<|/tool_call|>", "", "", false, NULL, NULL},
    .marker = {"<|tool_call|>"}, .named = {"<|tool_call|>", NULL, "<|/tool_call|>", NULL, false},
     .detect = {"<|tool_call|>", "<|/tool_call|>"}},
    {.name = "granite-list", .parse = tool_parse_list, .grammar = call_item, .written = {"<|tool_call|>[", "", "", ", ", "]", false, NULL, NULL},
    .marker = {"<|tool_call|>"}, .named = {"<|tool_call|>", NULL, "", NULL, false},
     .detect = {"<|tool_call|>"}},
    {.name = "gigachat-31", .parse = tool_parse_hermes, .grammar = call_item, .written = {"", "<|function_call|>", "", NULL, "", false, NULL, NULL},
    .marker = {"<|function_call|>"}, .named = {"<|function_call|>", NULL, "", NULL, false}, .detect = {"<|function_call|>", "<|role_sep|>"},
     .frame = {"<|message_sep|>"}},
    {.name = "gigachat", .parse = tool_parse_hermes, .grammar = call_item, .written = {"", "function call<|role_sep|>\n", "", NULL, "", false, NULL, NULL},
    .marker = {"function call<|role_sep|>"},
     .named = {"function call<|role_sep|>", NULL, "", NULL, false}, .detect = {"function call", "<|role_sep|>"}, .frame = {"<|message_sep|>"}},
    {.name = "functionary-v31", .parse = tool_parse_named, .grammar = call_named, .written = {"", "<function=", "</function>", "", "", false, NULL, NULL},
    .marker = {"<function="}, .named = {"<function=", ">", "</function>", NULL, false},
     .detect = {"<function=", "</function>"}},
    {.name = "functionary-v32", .parse = tool_parse_named, .grammar = call_named, .written = {"", ">>>", "", "", "", false, NULL, NULL},
    .marker = {">>>"}, .named = {">>>", "\n", "", NULL, false},
     .detect = {">>>", "recipient"}, .frame = {">>>all\n"}},
    {.name = "inkling", .parse = tool_parse_hermes, .grammar = call_item_args, .written = {"", INVOKE_JSON, "<|end_message|>", "<|message_model|>", "", false, NULL, NULL},
    .marker = {INVOKE_JSON}, .named = {INVOKE_JSON, NULL, "<|end_message|>", NULL, false}, .detect = {INVOKE_JSON},
     .think = {"<|content_thinking|>", "<|end_message|>"}, .think_end = {"<|message_model|>", "<|content_model_end_sampling|>"}, .think_tagged = true,
     .frame = {"<|message_model|>", "<|content_text|>", "<|content_model_end_sampling|>"}, .headers = &tool_inkling_headers},
    {.name = "pangu-list", .parse = tool_parse_list, .grammar = call_item, .written = {"[unused11][", "", "", ", ", "][unused12]", false, NULL, NULL},
    .marker = {"[unused11]"}, .named = {"[unused11]", NULL, "[unused12]", NULL, false}, .detect = {"[unused11]", "[unused12]"},
     .think = {"[unused16]", "[unused17]"}, .frame = {"[unused10]"}},
    {.name = "python-list", .parse = tool_parse_python, .grammar = call_python, .written = {"<|tool_call_start|>[", "", "", ", ", "]<|tool_call_end|>", false, NULL, NULL},
    .marker = {"<|tool_call_start|>"}, .named = {"<|tool_call_start|>", NULL, "<|tool_call_end|>", NULL, false}, .detect = {"<|tool_call_start|>"}, .hint = {"<|tool_list_start|>", "List of tools: ["},
     .frame = {"<|tool_call_end|>"}},
    {.name = "python-lines", .parse = tool_parse_python, .grammar = call_python, .written = {"<function_calls>\n", "", "", "\n", "\n</function_calls>", false, NULL, NULL},
    .marker = {"<function_calls>"}, .named = {"<function_calls>", NULL, "</function_calls>", NULL, false},
     .detect = {"<function_calls>", "</function_calls>"}, .hint = {"<function_calls></function_calls>"}},
    {.name = "internlm", .parse = tool_parse_hermes, .grammar = call_item_llama, .written = {"", "<|action_start|><|plugin|>\n", "<|action_end|>", "", "", false, NULL, NULL},
    .marker = {"<|action_start|><|plugin|>"}, .named = {"<|action_start|><|plugin|>", NULL, "<|action_end|>", NULL, false},
     .detect = {"<|action_start|>", "<|plugin|>"}},
    {.name = "hermes-json", .parse = tool_parse_hermes, .grammar = call_item, .written = {"", "<tool_call>\n", "\n</tool_call>", "\n", "", false, NULL, NULL},
    .marker = {"<tool_call>"}, .named = {"<tool_call>", NULL, "</tool_call>", NULL, false},
     .detect = {"<tool_call>"}},
    {.name = "llama-json", .parse = tool_parse_llama, .grammar = call_item_llama, .written = {"", "", "", NULL, "", false, NULL, NULL},
    .marker = {"{\"name\"", "{\"type\"", "<|python_tag|>"}, .bare = true,
     .detect = {"\"parameters\": "}},
};
// clang-format on

/* The syntax of a model without tool calls: it has no markers, and only reasoning is separated from
 * content. */
static const struct toolfmt plain = {.name = "none"};

const struct toolfmt *toolfmt_plain(void) {
    return &plain;
}
int toolfmt_count(void) {
    return (int)COUNT_OF(formats);
}
const struct toolfmt *toolfmt_at(int i) {
    return &formats[i];
}
const char *toolfmt_name(const struct toolfmt *f) {
    return f->name;
}
void toolfmt_list(char *out, size_t cap) {
    size_t n = 0;
    *out = 0;
    for (int i = 0; i < toolfmt_count() && n < cap; i++)
        n += (size_t)snprintf(out + n, cap - n, "%s%s", i ? ", " : "", toolfmt_name(toolfmt_at(i)));
}
bool toolfmt_numbers(const struct toolfmt *f) {
    return f->named.numbered;
}
const struct toolfmt *toolfmt_find(const char *name) {
    for (size_t i = 0; i < COUNT_OF(formats); i++)
        if (strcmp(formats[i].name, name) == 0) return &formats[i];
    return NULL;
}
