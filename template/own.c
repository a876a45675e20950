// SPDX-License-Identifier: MIT
/* template/own.c - the built-in chat templates, embedded with the assembler's .incbin (paths
 * relative to the root of the source tree, where make runs), and their match with a given template.
 *
 * A family is recognised by texts that only its templates contain: the model's markers, not the
 * code around them. */
#include "template/own.h"

#include <stdbool.h>
#include <string.h>

#include "base/attr.h"
#include "base/incbin.h"

INCBIN(hone_tmpl_qwen35, "template/own/qwen3.5.jinja")
INCBIN(hone_tmpl_qwen35_small, "template/own/qwen3.5-small.jinja")
INCBIN(hone_tmpl_qwen3, "template/own/qwen3.jinja")
INCBIN(hone_tmpl_gemma4, "template/own/gemma4.jinja")
INCBIN(hone_tmpl_gemma4_small, "template/own/gemma4-small.jinja")
INCBIN(hone_tmpl_mistral, "template/own/mistral-small.jinja")

enum { MAX_MARKS = 4 };
static const struct row {
    struct own_template t;
    const char *has[MAX_MARKS], *lacks[MAX_MARKS];
} rows[] = {
    {{"qwen3.5", "Qwen3.5, 4B and larger: thinks unless told not to", hone_tmpl_qwen35,
      hone_tmpl_qwen35_end},
     {"<|im_start|>", "<function=example_function_name>", "add_vision_id",
      "enable_thinking is false"},
     {"preserve_thinking is undefined"}},
    {{"qwen3.5-small", "Qwen3.5, 0.8B and 2B: thinks only when told to", hone_tmpl_qwen35_small,
      hone_tmpl_qwen35_small_end},
     {"<|im_start|>", "<function=example_function_name>", "add_vision_id",
      "enable_thinking is true"},
     {"preserve_thinking is undefined"}},
    {{"qwen3", "Qwen3, thinking and non-thinking", hone_tmpl_qwen3, hone_tmpl_qwen3_end},
     {"<|im_start|>", "<function-name>", "<tool_response>", "enable_thinking is false"},
     {"vision_start", "generation %}"}},
    {{"gemma4", "Gemma 4, 12B and larger", hone_tmpl_gemma4, hone_tmpl_gemma4_end},
     {"<|turn>", "<|tool_call>call:", "thought\\n<channel|>'"},
     {NULL}},
    {{"gemma4-small", "Gemma 4 E2B and E4B", hone_tmpl_gemma4_small, hone_tmpl_gemma4_small_end},
     {"<|turn>", "<|tool_call>call:"},
     {"thought\\n<channel|>'"}},
    {{"mistral-small", "Mistral Small 3.2", hone_tmpl_mistral, hone_tmpl_mistral_end},
     {"[SYSTEM_PROMPT]", "[CALL_ID]", "[TOOL_CONTENT]", "Mistral Small 3"},
     {NULL}},
};

const struct own_template *own_at(int i) {
    return i >= 0 && (size_t)i < COUNT_OF(rows) ? &rows[i].t : NULL;
}

size_t own_len(const struct own_template *t) {
    return (size_t)(t->end - t->text);
}

const struct own_template *own_find(const char *name) {
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (strcmp(rows[i].t.name, name) == 0) return &rows[i].t;
    return NULL;
}

static bool contains_text(const char *src, size_t len, const char *mark) {
    return memmem(src, len, mark, strlen(mark)) != NULL;
}

const struct own_template *own_for(const char *src, size_t len) {
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        bool fits = true;
        for (int k = 0; k < MAX_MARKS && rows[i].has[k]; k++)
            fits = fits && contains_text(src, len, rows[i].has[k]);
        for (int k = 0; k < MAX_MARKS && rows[i].lacks[k]; k++)
            fits = fits && !contains_text(src, len, rows[i].lacks[k]);
        if (fits) return own_at((int)i);
    }
    return NULL;
}
