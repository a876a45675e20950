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
INCBIN(hone_domain_code, "calib/text/domain/code.txt")
INCBIN(hone_domain_math, "calib/text/domain/math.txt")
INCBIN(hone_domain_tools, "calib/text/domain/tools.jsonl")
INCBIN(hone_domain_de, "calib/text/domain/de.txt")
INCBIN(hone_domain_fr, "calib/text/domain/fr.txt")
INCBIN(hone_domain_es, "calib/text/domain/es.txt")
INCBIN(hone_domain_ru, "calib/text/domain/ru.txt")
INCBIN(hone_domain_zh, "calib/text/domain/zh.txt")
INCBIN(hone_domain_ja, "calib/text/domain/ja.txt")

/* Increment the version whenever a text changes (tests/unit/test_imatrix.c). */
#define PROSE "stories, letters, manuals, forum threads, source code, mathematics, many languages"
#define CHATS "conversations, a third of them with tool calls"
#define OURS "; written for hone, version 2"
#define EVAL_TXT                                                                                   \
    { "default-eval.txt", hone_eval_txt, hone_eval_txt_end, PROSE OURS, true, false }
#define EVAL_CHAT                                                                                  \
    { "default-eval.jsonl", hone_eval_chat, hone_eval_chat_end, CHATS OURS, true, true }
static const struct default_text texts[] = {
    {"default-calib.txt", hone_calib_txt, hone_calib_txt_end, PROSE OURS, false, false},
    {"default-calib.jsonl", hone_calib_chat, hone_calib_chat_end, CHATS OURS, false, true},
    EVAL_TXT,
    EVAL_CHAT,
};

/* Increment the version whenever one of these changes (tests/unit/test_domains.c). */
#define DOMAINS "; written for hone, version 1"
#define LANGUAGE "letters, news, instructions, dialogue, essays, forum threads" DOMAINS
#define TEXT(name) hone_domain_##name, hone_domain_##name##_end
static const struct default_domain domains[] = {
    {"prose", EVAL_TXT},
    {"chat", EVAL_CHAT},
    {"code",
     {"code.txt", TEXT(code), "small programs in seven languages, settings" DOMAINS, true, false}},
    {"math",
     {"math.txt", TEXT(math), "proofs and exercises, LaTeX and plain" DOMAINS, true, false}},
    {"tools", {"tools.jsonl", TEXT(tools), "conversations with tools" DOMAINS, true, true}},
    {"de", {"de.txt", TEXT(de), LANGUAGE, true, false}},
    {"fr", {"fr.txt", TEXT(fr), LANGUAGE, true, false}},
    {"es", {"es.txt", TEXT(es), LANGUAGE, true, false}},
    {"ru", {"ru.txt", TEXT(ru), LANGUAGE, true, false}},
    {"zh", {"zh.txt", TEXT(zh), LANGUAGE, true, false}},
    {"ja", {"ja.txt", TEXT(ja), LANGUAGE, true, false}},
};
static const struct {
    const char *name; /* as users give it */
    struct default_text text;
} suites[] = {
    {"builtin",
     {"default-tools.jsonl", hone_suite, hone_suite_end, "60 tool calls" OURS, true, true}},
    {"loops",
     {"default-loops.jsonl", hone_loops, hone_loops_end, "13 tools in loops" OURS, true, true}},
    {"checks",
     {"default-checks.jsonl", hone_checks, hone_checks_end, "16 checks" OURS, true, true}},
};

const struct default_text *default_text_at(int i) {
    return i >= 0 && (size_t)i < COUNT_OF(texts) ? &texts[i] : NULL;
}

const struct default_domain *default_domain_at(int i) {
    return i >= 0 && (size_t)i < COUNT_OF(domains) ? &domains[i] : NULL;
}

const struct default_domain *default_domain(const char *name) {
    for (size_t i = 0; i < COUNT_OF(domains); i++)
        if (strcmp(domains[i].name, name) == 0) return &domains[i];
    return NULL;
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
