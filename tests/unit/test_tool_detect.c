// SPDX-License-Identifier: MIT
/* tests/unit/test_tool_detect.c - detection of a template's call syntax. The templates here are
 * ours, in the shapes of published ones: names of tokens in variables, markers put together,
 * templates that render no calls. Where ../shared/golden/templates is present, the vendors' own are
 * also tried; section 5 of its description lists their requirements. */
#include "chat/toolfmt.h"
#include "base/io.h"
#include "base/mem.h"
#include "tests/check.h"

static struct err e;

#define USERS                                                                                      \
    "{%- for m in messages -%}{%- if m.role == 'user' -%}{{- '<|im_start|>user\\n' + m.content + " \
    "'<|im_end|>\\n' -}}{%- elif m.role == 'assistant' -%}{{- '<|im_start|>assistant\\n' -}}"
#define END                                                                                        \
    "{{- '<|im_end|>\\n' -}}{%- endif -%}{%- endfor -%}"                                           \
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"
#define CALLS "{%- for c in m.tool_calls or [] -%}{%- set f = c.function -%}"
#define NEXT "{%- endfor -%}"
#define BAR "\xef\xbd\x9c"

static const char *const own[][2] = {
    /* markers that no text of the template contains as a whole */
    {"dsml-v4",
     "{%- set d = '" BAR "DSML" BAR "' -%}" USERS "{{- '<' + d + 'tool_calls>\\n' -}}" CALLS
     "{{- '<' + d + 'invoke name=\"' + f.name + '\">\\n' -}}{%- for k, v in "
     "f.arguments.items() -%}{%- if v is string -%}{{- '<' + d + 'parameter name=\"' + k "
     "+ '\" string=\"true\">' + v + '</' + d + 'parameter>\\n' -}}{%- else -%}{{- '<' + "
     "d + 'parameter name=\"' + k + '\" string=\"false\">' + (v | tojson) + '</' + d + "
     "'parameter>\\n' -}}{%- endif -%}{%- endfor -%}{{- '</' + d + 'invoke>\\n' -}}" NEXT
     "{{- '</' + d + 'tool_calls>' -}}" END},
    {"dsml",
     "{%- set d = '" BAR "DSML" BAR "' -%}" USERS "{{- '<' ~ d ~ 'function_calls>\\n' -}}" CALLS
     "{{- '<' ~ d ~ 'invoke name=\"' ~ f.name ~ '\">\\n' -}}{%- set args = f.arguments | "
     "from_json if f.arguments is string else f.arguments -%}{%- for k in args -%}{{- '<' ~ "
     "d ~ 'parameter name=\"' ~ k ~ '\" string=\"' ~ ('true' if args[k] is string else "
     "'false') ~ '\">' ~ (args[k] if args[k] is string else args[k] | tojson) ~ '</' ~ d ~ "
     "'parameter>\\n' -}}{%- endfor -%}{{- '</' ~ d ~ 'invoke>\\n' -}}" NEXT
     "{{- '</' ~ d ~ 'function_calls>' -}}" END},
    {"command-r-action",
     USERS "{{- '\\nAction:\\n```json\\n[\\n' -}}" CALLS
           "{{- '{\"tool_name\": \"' + f.name + '\", \"parameters\": ' + (f.arguments "
           "| tojson(indent=4)) + '}' -}}" NEXT "{{- '\\n]```\\n' -}}" END},
    {"gigachat-31", "{%- set s = {'c': '<|' ~ 'function_call' ~ '|>'} -%}" USERS CALLS
                    "{{- s.c + ({'name': f.name, 'arguments': f.arguments} | tojson) -}}" NEXT END},
    {"functionary-v32", USERS CALLS "{{- '>>' ~ '>' + f.name + '\\n' + f.arguments -}}" NEXT END},
    {"kimi", "{%- set q = [] -%}{%- set _ = q.append(1) -%}" USERS
             "{{- '<|tool_calls_section_' ~ 'begin|>' -}}{%- for c in m.tool_calls -%}{{- "
             "'<|tool_call_' ~ 'begin|>' + c.id + '<|tool_call_argument_' ~ 'begin|>' + "
             "(c.function.arguments | tojson) + '<|tool_call_end|>' -}}{%- endfor -%}{{- "
             "'<|tool_calls_section_end|>' -}}" END},
    {"python-list",
     USERS "{{- '<|tool_call_' ~ 'start|>[' -}}" CALLS
           "{{- f.name ~ '(' -}}{%- for k, v in f.arguments.items() -%}{{- k ~ '=' ~ (v | "
           "tojson) ~ (', ' if not loop.last else '') -}}{%- endfor -%}{{- ')' -}}" NEXT
           "{{- ']<|tool_call_' ~ 'end|>' -}}" END},
    {"hermes-json", "{%- set t = 'tool_' ~ 'call' -%}" USERS CALLS
                    "{{- '<' ~ t ~ '>\\n' + ({'name': f.name, 'arguments': f.arguments} | tojson) "
                    "~ '\\n</' ~ t ~ '>' -}}" NEXT END},
    {"mistral-args", USERS CALLS
     "{%- if (c.id | length) != 9 -%}{{- raise_exception('nine') -}}{%- endif -%}{{- '[TOOL' ~ "
     "'_CALLS]' ~ f.name ~ '[AR' ~ 'GS]' ~ (f.arguments | tojson) -}}" NEXT END},
    {"mistral-array",
     USERS "{{- '[TOOL' ~ '_CALLS][' -}}" CALLS
           "{{- {'name': f.name, 'arguments': f.arguments, 'id': c.id} | tojson -}}" NEXT
           "{{- ']' -}}" END},
    {"llama-json", USERS CALLS
     "{{- '{\"name\": \"' ~ f.name ~ '\", \"parameters\"' ~ ': ' ~ (f.arguments | tojson) ~ '}' "
     "-}}" NEXT END},
    {"deepseek-v31", "{%- set b = '<" BAR "tool"
                     "\xe2\x96\x81' -%}" USERS CALLS "{{- b ~ 'calls\xe2\x96\x81"
                     "begin" BAR ">' ~ b ~ 'call\xe2\x96\x81"
                     "begin" BAR ">' ~ f.name ~ b ~ 'sep" BAR ">' ~ (f.arguments | tojson) ~ b ~ "
                     "'call\xe2\x96\x81"
                     "end" BAR ">' ~ b ~ 'calls\xe2\x96\x81"
                     "end" BAR ">' -}}" NEXT END},
    {"harmony", USERS CALLS "{{- '<|channel|>comm' ~ 'entary to=func' ~ 'tions.' ~ f.name ~ ' "
                            "<|constrain|>json<|message|>' "
                            "~ (f.arguments | tojson) ~ '<|call|>' -}}" NEXT END},
    {"atem",
     USERS CALLS "{{- '<|start|>assistant to=' ~ f.name ~ '<|message|><at' ~ "
                 "'em:function_calls>\n<at' ~ 'em:invoke name=\"' ~ f.name ~ '\">\n' -}}"
                 "{%- for k, v in f.arguments.items() -%}{{- '<at' ~ 'em:parameter name=\"' "
                 "~ k ~ '\">' ~ v ~ '</at' ~ 'em:parameter>\n' -}}{%- endfor -%}{{- '</at' "
                 "~ 'em:invoke>\n</at' ~ 'em:function_calls><|eot|>' -}}" NEXT END},
    {"dsml-v41",
     "{%- set d = '" BAR "DSML" BAR " ' -%}" USERS "{{- '<' ~ d ~ 'calls>\n' -}}" CALLS
     "{{- '<' ~ d ~ 'invoke name=\"' ~ f.name ~ '\">\n' -}}{%- for k, v in f.arguments.items() "
     "-%}{{- '<' ~ d ~ 'parameter name=\"' ~ k ~ '\" string=\"' ~ ('true' if v is string else "
     "'false') ~ '\">' ~ (v if v is string else v | tojson) ~ '</' ~ d ~ 'parameter>\n' -}}"
     "{%- endfor -%}{{- '</' ~ d ~ 'invoke>\n' -}}" NEXT "{{- '</' ~ d ~ 'calls>' -}}" END},
    {"kimi-k3",
     "{%- macro o(t) -%}{{- '<|open|>' ~ t ~ '<|sep|>' -}}{%- endmacro -%}{%- macro c(t) -%}{{- "
     "'<|close|>' ~ t ~ '<|sep|>' -}}{%- endmacro -%}" USERS "{{- o('response') ~ c('response') ~ "
     "o('tools') -}}{%- for t in m.tool_calls or [] -%}{{- o('call tool=\"' ~ t.function.name ~ "
     "'\" index=\"' ~ loop.index ~ '\"') -}}{%- for k, v in t.function.arguments.items() -%}{{- "
     "o('argument key=\"' ~ k ~ '\" type=\"' ~ ('string' if v is string else 'number') ~ '\"') ~ "
     "v ~ c('argument') -}}{%- endfor -%}{{- c('call') -}}{%- endfor -%}{{- c('tools') -}}" END},
    {"functiongemma",
     USERS CALLS "{{- '<start_function_' ~ 'call>call:' ~ f.name ~ '{' -}}{%- for k, v in "
                 "f.arguments | dictsort -%}{{- k ~ ':' ~ ('<escape>' ~ v ~ '<escape>' if v is "
                 "string else v | tojson) ~ (',' if not loop.last else '') -}}{%- endfor -%}{{- "
                 "'}<end_function_' ~ 'call>' -}}" NEXT END},
    {"python-lines",
     USERS "{{- '<function_' ~ 'calls>' -}}" CALLS
           "{{- f.name ~ '(' -}}{%- for k, v in f.arguments.items() -%}{{- k ~ '=' ~ (v | "
           "tojson) ~ (', ' if not loop.last else '') -}}{%- endfor -%}{{- ')\n' -}}" NEXT
           "{{- '</function_calls>' -}}" END},
    {"phi4-mini", USERS CALLS "{{- '<|tool_' ~ 'call|>' ~ ({'name': f.name, 'arguments': "
                              "f.arguments} | tojson) ~ '<|/tool_call|>' -}}" NEXT END},
    {"granite-list",
     USERS "{{- '<|tool_' ~ 'call|>[' -}}" CALLS
           "{{- {'name': f.name, 'arguments': f.arguments} | tojson -}}" NEXT "{{- ']' -}}" END},
    {"internlm",
     USERS CALLS "{{- '<|action_' ~ 'start|><|plugin|>\n{\"name\": \"' ~ f.name ~ '\", "
                 "\"parameters\": ' ~ (f.arguments | tojson) ~ '}<|action_end|>' -}}" NEXT END},
    {"inkling",
     "{%- for m in messages -%}{{- '<|message_' ~ ('model|>' if m.role == 'assistant' else "
     "'user|>') -}}{%- if m.content -%}{{- '<|content_text|>' ~ m.content ~ '<|end_message|>' -}}"
     "{%- endif -%}" CALLS
     "{{- f.name ~ '<|content_invoke_' ~ 'tool_json|>{\"name\":\"' ~ f.name ~ "
     "'\",\"args\":' ~ (f.arguments | tojson) ~ '}<|end_message|>' -}}" NEXT NEXT},
    {"pangu-list", USERS "{{- '[unused' ~ '11][' -}}" CALLS
                         "{{- {'name': f.name, 'arguments': f.arguments} | tojson -}}" NEXT
                         "{{- '][unused12]' -}}" END},
    /* a call of no known syntax, whatever else the template's text looks like */
    {"", "{#- " BAR "DSML" BAR "function_calls> -#}" USERS CALLS "{{- '<" BAR "DSML" BAR
         "run ' ~ f.name ~ '>' ~ (f.arguments | tojson) ~ '</run>' -}}" NEXT END},
    {"", "{#- <tool_call> -#}" USERS CALLS
         "{{- '<tool_call>' ~ f.name ~ '>' ~ (f.arguments | tojson) ~ '</tool_call>' -}}" NEXT END},
    /* the text about tools, since no calls are rendered */
    {"python-list",
     "{%- if tools -%}{{- 'List of ' ~ 'tools: <|tool_list_start|>[' -}}{%- for t in "
     "tools -%}{{- t | tojson -}}{%- endfor -%}{{- ']<|tool_list_end|>' -}}{%- endif "
     "-%}" USERS "{{- m.content -}}" END},
    {"python-lines",
     "{%- if tools -%}{{- 'Output any calls within <function_calls></function_calls> XML tags.' "
     "-}}{%- endif -%}" USERS "{{- m.content -}}" END},
    {"python-list",
     "{%- if tools -%}{{- 'List of tools: [' -}}{%- for t in tools -%}{{- t | tojson "
     "-}}{%- endfor -%}{{- ']' -}}{%- endif -%}" USERS "{{- m.content -}}" END},
    /* words that the template never writes in a call */
    {"hermes-json",
     "{#- <function=f> <parameter=p> [TOOL_CALLS] -#}" USERS CALLS
     "{{- '<tool_call>\\n' + ({'name': f.name, 'arguments': f.arguments} | tojson) + "
     "'\\n</tool_call>' -}}" NEXT END},
    {"", USERS "{{- m.content -}}" END},
    {"", "{{ messages[0].content }}{% for x in range(99999) %}{% for y in range(99999) %}{{ y }}{% "
         "endfor %}{% endfor %}"},
};

static const char *name_of(const char *text, size_t len) {
    const struct toolfmt *f = toolfmt_detect(text, len);
    return f ? toolfmt_name(f) : "";
}

static void test_own(void) {
    for (size_t i = 0; i < COUNT_OF(own); i++) {
        const char *got = name_of(own[i][1], strlen(own[i][1]));
        if (strcmp(got, own[i][0]) != 0)
            CHECK_FAIL("template %zu: '%s', not '%s'", i, got, own[i][0]);
    }
}

/* Tests that a tag of no known syntax before bare JSON is found, and only that. */
static void test_stray_tag(void) {
    static const char *const t[][2] = {
        {"<run>", USERS "{{- m.content -}}" CALLS "{{- '<run>' ~ ({'name': f.name, 'arguments': "
                        "f.arguments} | tojson) ~ '</run>' -}}" NEXT END},
        {"<|run|>",
         "{%- for m in messages -%}{{- '<|' ~ m.role ~ '|>' -}}{{- '<|text|>' ~ m.content "
         "if m.content -}}" CALLS "{{- '<|run|>' ~ ({'name': f.name, 'arguments': "
         "f.arguments} | tojson) -}}" NEXT NEXT},
        {"",
         USERS "{{- m.content -}}" CALLS "{{- {'name': f.name, 'parameters': f.arguments} | tojson "
               "-}}" NEXT END},
    };
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        struct buf tag = {0};
        const size_t n = strlen(t[i][1]);
        buf_str(&tag, "");
        CHECK_EQ_STR(name_of(t[i][1], n), "llama-json");
        toolfmt_stray_tag(toolfmt_detect(t[i][1], n), t[i][1], n, &tag);
        CHECK_EQ_STR(tag.data, t[i][0]);
        buf_release(&tag);
    }
}

static void test_vendors(void) {
    static const char dir[] = "../shared/golden/templates/jinja";
    static const char *const files[][2] = {
        {"Apertus-8B-Instruct", "apertus-list"},
        {"ByteDance-Seed-OSS", "seed-xml"},
        {"CohereForAI-c4ai-command-r-plus-tool_use", "command-r-action"},
        {"CohereForAI-c4ai-command-r7b-12-2024-tool_use", "command-r-list"},
        {"GLM-4.6", "glm-argkv"},
        {"GLM-5.2", "glm-argkv"},
        {"GigaChat3-10B-A1.8B", "gigachat"},
        {"HuggingFaceTB-SmolLM3-3B", ""},
        {"Kimi-K2-Instruct", "kimi"},
        {"LFM2-8B-A1B", "python-list"},
        {"LFM2.5-Instruct", "python-list"},
        {"MiMo-VL", "hermes-json"},
        {"MiniMax-M2", "minimax-invoke"},
        {"Mistral-Small-3.2-24B-Instruct-2506", "mistral-args"},
        {"NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "qwen-xml"},
        {"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", "hermes-json"},
        {"Qwen-Qwen2.5-7B-Instruct", "hermes-json"},
        {"Qwen3-Coder", "qwen-xml"},
        {"Qwen3.5-4B", "qwen-xml"},
        {"Qwen3.8", "qwen-xml"},
        {"StepFun3.5-Flash", "qwen-xml"},
        {"deepseek-ai-DeepSeek-V3.1", "deepseek-v31"},
        {"deepseek-ai-DeepSeek-V3", "deepseek-v3"},
        {"deepseek-ai-DeepSeek-V4", "dsml-v4"},
        {"deepseek-ai-DeepSeek-V4-ik", "dsml-v4"},
        {"google-gemma-2-2b-it", ""},
        {"google-gemma-4-31B-it", "gemma4"},
        {"ibm-granite-granite-3.3-2B-Instruct", "granite-list"},
        {"ibm-granite-granite-4.0", "hermes-json"},
        {"meetkai-functionary-medium-v3.2", "functionary-v32"},
        {"meta-llama-Llama-3.1-8B-Instruct", "llama-json"},
        {"mistralai-Mistral-Nemo-Instruct-2407", "mistral-array"},
        {"openai-gpt-oss-120b", "harmony"},
        {"poolside-Laguna-XS.2", "glm-argkv"},
        {"unsloth-Apriel-1.5", "apriel-list"},
    };
    if (!io_is_dir(dir)) {
        fprintf(stderr, "SKIP: %s is not here\n", dir);
        return;
    }
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        char path[300], *text;
        size_t len;
        snprintf(path, sizeof path, "%s/%s.jinja", dir, files[i][0]);
        CHECK_OK(io_read_file(&text, &len, path, 1 << 24, &e));
        const char *got = name_of(text, len);
        if (strcmp(got, files[i][1]) != 0)
            CHECK_FAIL("%s: '%s', not '%s'", files[i][0], got, files[i][1]);
        free(text);
    }
}

int main(void) {
    RUN(test_own);
    RUN(test_stray_tag);
    RUN(test_vendors);
    return check_done();
}
