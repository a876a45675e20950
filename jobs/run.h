// SPDX-License-Identifier: MIT
/* jobs/run.h - answers to prompts and conversations with one model: options in, text out as it is
 * made. Who shows it gives a struct run_view. run_answer.c makes an answer to the conversation so
 * far, run_gram.c what answers must be. */
#ifndef HONE_JOBS_RUN_H
#define HONE_JOBS_RUN_H

#include "chat/talk.h"
#include "chat/toolfmt.h"
#include "work/work.h"
#include "runtime/engine/kv_type.h"
#include "runtime/generate/gen.h"
#include "runtime/generate/run_set.h"
#include "template/chat.h"

struct json;

/* Who looks on while an answer is made; every function is called with `ud`. */
struct run_view {
    void *ud;
    /* An answer begins; not one that goes on. */
    void (*begin)(void *ud);
    /* More of it can be told apart into reasoning, content and calls. n_drawn: tokens so far. */
    void (*update)(void *ud, struct toolparse *p, int64_t n_drawn);
    /* More of a text that is shown as it is. */
    void (*text)(void *ud, const char *s, size_t n);
    /* The whole answer is read. */
    void (*end)(void *ud, const char *reasoning, const char *content, const struct json *calls,
                struct toolparse *p);
    /* A text that was shown as it is has ended. */
    void (*newline)(void *ud);
};

#include "commands/members.h"
struct run_args { /* as given */
    const char *set[RUN_SETS];
    enum chat_special special;
#include "commands/run.def"
};
struct run {
    struct work *w;
    struct run_args a;
    struct run_set set;
    struct model *m;
    struct session *s;
    struct draft *draft; /* --draft, or NULL */
    struct gen *gen;
    struct gram_vocab *vocab; /* with --schema, --grammar, --regex, --choices; else NULL */
    struct grammar *grammar;
    struct chat *chat; /* the model's template; NULL: it has none */
    const char *tmpl;
    const struct toolfmt *fmt;
    struct talk talk;
    int skip;     /* messages that no longer fit (talk_skip) */
    bool lasting; /* more turns may follow: worth a mark */
    struct run_view view;
    bool shown; /* somebody looks on: nothing may wait for what may never come */
};

/* What a model answered, and how. */
struct run_answer {
    struct ids prompt;
    struct buf prompt_end; /* the prompt's text */
    struct gen_answer gen;
    struct buf part, text; /* bytes of half a character; all others */
    struct toolparse *parse;
    struct run *r;
    const char *content, *reasoning; /* in parse, never NULL */
    const struct json *calls;        /* the same; NULL: none were looked for */
    int64_t n_prompt;                /* tokens computed for the prompt */
    double prompt_s;
};
void run_answer_release(struct run_answer *a);

/* Makes the session and the generator, with room for n_ctx tokens, and the grammar and the draft
 * that were asked for. */
int run_start(struct run *r, int64_t n_ctx, struct err *e);
/* Makes the grammar that was asked for, if any: its files are read and the vocabulary is
 * indexed. */
int run_grammar(struct run *r, struct err *e);
void run_grammar_free(struct run *r);
/* Returns the grammar and the marks between which an answer to `prompt` is free of it, which are
 * those of reasoning; prompt NULL: a text without a template, which has none. */
struct constrain_opts run_constrain(const struct run *r, const char *prompt);
/* Appends how often the grammar overruled the model: "; the grammar overruled 3 of 40 tokens and
 * forced 12". Without a grammar it appends nothing. */
void run_overruled(const struct run_answer *a, struct buf *out);
/* Renders the conversation from message `skip` on with the template, and fills `out` with the
 * tokens of the prompt; `gen` asks for the beginning of an answer at its end. `text` gets what the
 * template wrote; NULL: nobody asks. */
int run_render(struct run *r, int skip, bool gen, struct ids *out, struct buf *text, struct err *e);
/* Answers r->talk, shown as it is made; nothing is added to r->talk. After ERR_INTR a holds what
 * there is. */
int run_answer_make(struct run *r, struct run_answer *a, struct err *e);
/* Goes on with an answer that was cut; prompt: NULL, or a shorter one in place of a's. */
int run_answer_more(struct run *r, struct run_answer *a, const struct ids *prompt, struct err *e);
/* Continues the plain text of a->prompt. */
int run_answer_text(struct run *r, struct run_answer *a, struct err *e);
/* Appends how fast an answer was made: "312 tokens, 41.3/s; prompt 1204 tokens, 310/s; seed 7". */
void run_speed(const struct run_answer *a, struct buf *out);
/* Appends why an answer was cut and what lets it go on; nothing when it was not. */
void run_cut(const struct run *r, const struct run_answer *a, bool in_chat, struct buf *out);
/* Makes the JSON text of the template's variables: --kwargs, and the switch of thinking. The caller
 * frees *out with free(); it is NULL when there are none. *none tells that thinking is to be
 * switched and the template cannot. */
int run_kwargs(const struct run *r, char **out, bool *none, struct err *e);

/* Reads the model's template, and adds to r->talk what is said before the first turn: the
 * conversation of r->a.chat and the system message r->a.system. */
int run_prepare_turns(struct run *r, struct err *e);
/* Opens the model of a path, with its sampling values in r->set. run_close also after an error. */
int run_open(struct run *r, const char *path, struct err *e);
void run_close(struct run *r);

/* Makes one answer to r->talk and a turn of the user's, text[len], or, for a model without a
 * template, continues that text. It makes the session with room for both. text NULL: r->talk
 * alone. */
int run_once(struct run *r, const char *text, size_t len, struct run_answer *a, struct err *e);
/* Fills m with an answer and how it was made. turn: it was one of a conversation. */
void run_describe(const struct run *r, const struct run_answer *a, bool turn, struct emit *m);

#endif
