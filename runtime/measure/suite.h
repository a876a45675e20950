// SPDX-License-Identifier: MIT
/* runtime/measure/suite.h - evaluation suites: cases for a model to answer, and checks of the
 * answers. The file is .jsonl, one case per line (docs/formats/suite.md):
 *
 *     {"id": "..", "messages": [..], "tools": [..], "expect": {"name": .., "arguments": {..}}}
 *     {"prompt": "..", "checks": {"contains": "..", "regex": "..", "json_schema": {..}, ..}}
 *
 * Runs no model: takes a case and the text of an answer, and returns a verdict. */
#ifndef HONE_RUNTIME_MEASURE_SUITE_H
#define HONE_RUNTIME_MEASURE_SUITE_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "template/chat.h"
#include "chat/toolfmt.h"

enum { SUITE_STOPS = 16, SUITE_STOP_LEN = 256 }; /* of a case, as for requests to a server */
struct suite_case {
    char id[100];
    const char
        *line; /* the case as written; prompts are rendered from this text, so that 1.0 stays 1.0 */
    size_t len;
    struct json *json;
    const struct json *expect; /* a call, a list of them, or null (no call expected); NULL: calls
                                  are not checked */
    int64_t max_tokens;        /* 0: not set */
    const char *stop[SUITE_STOPS]; /* [n_stop] texts that end the answer, borrowed from json */
    int n_stop;
    bool loop;   /* has several steps (runtime/measure/loop.h) */
    bool record; /* from a record; schemas of tools that its answer does not call may be bad */
};
struct suite {
    char *text;
    size_t len;
    struct suite_case *c;
    int n;
};
/* Reads a suite. `path` names the text in messages. ERR_DATA, naming the line, if a case has no
 * prompt or no check, a check is malformed, or an expected call does not fit the tools offered. */
int suite_open(struct suite *s, const char *path, struct err *e); /* .gz too */
/* Parses JSON Lines, one case per line; on error, nothing is left to close. */
int suite_parse(struct suite *s, const char *text, size_t len, const char *path, struct err *e);
/* Reads conversations that end with an assistant's answer, one per line. Each becomes a case that
 * expects the same calls as that answer. Unusable lines are skipped and counted in a warning. */
int suite_open_answers(struct suite *s, const char *path, struct err *e); /* .gz too */
void suite_close(struct suite *s);
/* Returns the index of the i-th of n cases spaced evenly among n_all. */
int suite_spread(int n_all, int n, int i);
/* Builds the prompt. "text" cases are used verbatim, after BOS if the vocabulary adds it; for
 * these, chat may be NULL. */
int suite_prompt(const struct suite_case *c, const struct chat *chat, const struct tok *t,
                 struct chat_prompt *out, struct err *e);
/* Appends the names of the checks ("exact, contains, ..."), for help and messages. */
void suite_checks(struct buf *out);
/* Returns whether any case expects calls. */
bool suite_calls(const struct suite *s);
/* Removes the cases that expect calls, unless no others would remain; returns the number removed.
 */
int suite_drop_calls(struct suite *s);

/* A model's answer, parsed. */
struct answer {
    struct toolparse *parse;
    const struct json
        *json; /* result of parse: content, reasoning, tool_calls, problems (chat/toolfmt.h) */
    const char *content; /* up to the case's first stop text; never NULL */
    struct buf shown;    /* owns it */
    struct buf trace;    /* of a loop: all its calls, as text; empty: none */
    bool loop;           /* the last of a loop's answers */
};
struct answer_text {
    const char *prompt; /* rendered; its end shows whether reasoning has already been opened */
    const char *text;
    size_t len;
    bool cut;          /* by the limit: the beginning of a call is not content */
    bool strict_calls; /* bare JSON is not a call */
};
/* Parses an answer as `hone serve` does: without tools, calls are content, and only content can be
 * ended by a stop text. f NULL: the template's call syntax is unknown. */
int answer_read(struct answer *a, const struct toolfmt *f, const struct suite_case *c,
                const struct answer_text *t, struct err *e);
void answer_release(struct answer *a);
/* Returns whether a stop text of the case is in the content of an answer that is being written. */
bool answer_stopped(const struct toolfmt *f, const struct suite_case *c,
                    const struct answer_text *t);
/* Returns whether two answers have the same calls or, without calls, the same content. Of loops,
 * the calls of all steps are compared or, if neither made any, the last content. */
bool answer_same(const struct answer *a, const struct answer *b);
/* Appends the calls as one line of text or, without calls, the content in quotes; of a loop, all
 * calls and the last content. */
void answer_show(const struct answer *a, struct buf *out);

struct verdict {
    bool pass; /* all checks passed */
    /* Tool calls; all false if no call is expected but one was made: */
    bool parsed;    /* a call was made */
    bool valid;     /* every call names an offered tool and satisfies its schema */
    bool named;     /* expected names, in order */
    bool equal;     /* expected names and arguments */
    struct buf why; /* first failed check and the reason; empty if passed */
};
/* Judges an answer by the expected call and the checks of its case. */
int answer_judge(const struct suite_case *c, const struct answer *a, struct verdict *v,
                 struct err *e);
void verdict_release(struct verdict *v);

#endif
