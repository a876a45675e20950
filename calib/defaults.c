// SPDX-License-Identifier: MIT
/* calib/defaults.c - the files of calib/text/, embedded with the assembler's .incbin. Paths are
 * relative to the root of the source tree, where make runs. */
#include "calib/defaults.h"

#include <string.h>

#include "base/attr.h"
#include "base/incbin.h"

INCBIN(hone_calib_txt, "calib/text/calib.txt")
INCBIN(hone_calib_chat, "calib/text/calib.jsonl")
INCBIN(hone_eval_txt, "calib/text/eval.txt")
INCBIN(hone_eval_chat, "calib/text/eval.jsonl")
INCBIN(hone_suite, "calib/text/tools.jsonl")
INCBIN(hone_loops, "calib/text/loops.jsonl")
INCBIN(hone_checks, "calib/text/checks.jsonl")

/* Increment the version whenever a text changes (tests/unit/test_imatrix.c). */
#define PROSE "stories, letters, manuals, forum threads, source code, mathematics, many languages"
#define CHATS "conversations, a third of them with tool calls"
#define OURS "; written for hone, version 2"
static const struct default_text texts[] = {
    {"default-calib.txt", hone_calib_txt, hone_calib_txt_end, PROSE OURS, false, false},
    {"default-calib.jsonl", hone_calib_chat, hone_calib_chat_end, CHATS OURS, false, true},
    {"default-eval.txt", hone_eval_txt, hone_eval_txt_end, PROSE OURS, true, false},
    {"default-eval.jsonl", hone_eval_chat, hone_eval_chat_end, CHATS OURS, true, true},
};
static const struct {
    const char *name; /* as users give it */
    struct default_text text;
} suites[] = {
    {"builtin",
     {"default-tools.jsonl", hone_suite, hone_suite_end, "60 tool calls" OURS, true, true}},
    {"loops",
     {"default-loops.jsonl", hone_loops, hone_loops_end, "12 tools in loops" OURS, true, true}},
    {"checks",
     {"default-checks.jsonl", hone_checks, hone_checks_end, "16 checks" OURS, true, true}},
};

const struct default_text *default_text_at(int i) {
    return i >= 0 && (size_t)i < COUNT_OF(texts) ? &texts[i] : NULL;
}

const char *default_text_about(const char *name) {
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        if (strcmp(texts[i].name, name) == 0) return texts[i].about;
    return NULL;
}

const struct default_text *default_suite(const char *name) {
    for (size_t i = 0; i < COUNT_OF(suites); i++)
        if (strcmp(suites[i].name, name) == 0) return &suites[i].text;
    return NULL;
}

size_t default_text_len(const struct default_text *t) {
    return (size_t)(t->end - t->data);
}
