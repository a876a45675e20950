// SPDX-License-Identifier: MIT
/* runtime/measure/suite.h - evaluation suites: cases that a model answers, and checks of the
 * answers. The file is .jsonl, one case a line (docs/formats/suite.md):
 *
 *   {"id": "..", "messages": [..], "tools": [..], "expect": {"name": .., "arguments": {..}}}
 *   {"prompt": "..", "checks": {"contains": "..", "regex": "..", "json_schema": {..}, ..}}
 *
 * Nothing here runs a model: a case and the text that came back go in, verdicts come out. */
#ifndef HONE_RUNTIME_MEASURE_SUITE_H
#define HONE_RUNTIME_MEASURE_SUITE_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "template/chat.h"
#include "chat/toolfmt.h"

struct suite_case {
    char id[100];
    const char *line; /* the case as written; rendered from it, so that 1.0 stays 1.0 */
    size_t len;
    struct json *json;
    const struct json *expect; /* NULL: tool calls are not checked; a call, a list of them, or null
                                  (none is due) */
    int64_t max_tokens;        /* 0: the file does not say */
};
struct suite {
    char *text;
    size_t len;
    struct suite_case *c;
    int n;
};
/* Reads a suite. `path` names the text in messages. ERR_DATA, naming the line, when a case holds
 * no prompt or no check, a check is malformed, or an expected call does not fit the tools
 * offered. */
int suite_open(struct suite *s, const char *path, struct err *e); /* .gz too */
int suite_parse(struct suite *s, const char *text, size_t len, const char *path, struct err *e);
/* Conversations that end in an answer of the assistant: each is a case whose answer must call what
 * that one called. Lines of which no case can be made are left out, and counted in a warning. */
int suite_open_answers(struct suite *s, const char *path, struct err *e); /* .gz too */
void suite_close(struct suite *s);
/* Returns which of n_all cases is the i-th of n that are evenly spread over them. */
int suite_spread(int n_all, int n, int i);
/* Makes what a model continues. Cases of "text" are taken as they are, behind BOS where texts
 * begin with it; for these chat may be NULL. */
int suite_prompt(const struct suite_case *c, const struct chat *chat, const struct tok *t,
                 struct chat_prompt *out, struct err *e);
/* Adds "exact, contains, ..." to out, for help and messages. */
void suite_checks(struct buf *out);
/* Tells whether some case expects calls. */
bool suite_calls(const struct suite *s);

/* What a model wrote, taken apart. */
struct answer {
    struct toolparse *parse;
    const struct json
        *json;           /* content, reasoning, tool_calls, problems (chat/toolfmt.h), in parse */
    const char *content; /* the same; never NULL */
};
/* Takes a text apart. `prompt` is what was rendered; its end says whether reasoning is open. f
 * is NULL for templates without a known syntax of calls. strict_calls: bare JSON is no call. */
int answer_read(struct answer *a, const struct toolfmt *f, const struct suite_case *c,
                const char *prompt, const char *text, size_t len, bool strict_calls, struct err *e);
void answer_release(struct answer *a);
/* Tells whether two answers have the same calls or, without calls, the same content. */
bool answer_same(const struct answer *a, const struct answer *b);
/* Adds the calls as one line of text, or the content in quotes. */
void answer_show(const struct answer *a, struct buf *out);

struct verdict {
    bool pass; /* all checks */
    /* Tool calls, false where none is expected but one came: */
    bool parsed;    /* there is a call */
    bool valid;     /* and each is of an offered tool, with arguments that its schema allows */
    bool named;     /* names as expected, in order */
    bool equal;     /* names and arguments */
    struct buf why; /* the first check that failed and why; empty when passed */
};
int answer_judge(const struct suite_case *c, const struct answer *a, struct verdict *v,
                 struct err *e);
void verdict_release(struct verdict *v);

#endif
