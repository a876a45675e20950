// SPDX-License-Identifier: MIT
/* jobs/run.h - hone run: streamed answers of one model to prompts and conversations.
 *
 * The caller displays them through a struct run_view. run_answer.c generates answers, run_gram.c
 * compiles their constraints. */
#ifndef HONE_JOBS_RUN_H
#define HONE_JOBS_RUN_H

#include "chat/talk.h"
#include "chat/toolfmt.h"
#include "work/work.h"
#include "runtime/engine/kv_type.h"
#include "runtime/generate/gen.h"
#include "runtime/generate/pictures_prompt.h"
#include "runtime/generate/run_set.h"
#include "template/chat.h"

struct json;

/* Callbacks that display an answer while it is generated; `ud` is passed to each. */
struct run_view {
    void *ud;
    /* An answer begins; not called when one continues. */
    void (*begin)(void *ud);
    /* More of the answer has been parsed into reasoning, content and calls. n_drawn: tokens so far.
     */
    void (*update)(void *ud, struct toolparse *p, int64_t n_drawn);
    /* More raw text. */
    void (*text)(void *ud, const char *s, size_t n);
    /* The answer is complete. */
    void (*end)(void *ud, const char *reasoning, const char *content, const struct json *calls,
                struct toolparse *p);
    /* The raw text has ended. */
    void (*newline)(void *ud);
};

#include "commands/members.h"
struct run_args { /* options of the command line */
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
    struct pictures *pictures;  /* opened for the first image; else NULL */
    struct picture_files files; /* of the conversation's images */
    const char *path;           /* of the model */
    struct gram_vocab *vocab;   /* set with --schema, --grammar, --regex, --choices; else NULL */
    struct grammar *grammar;
    struct chat *chat; /* the model's template, or NULL */
    const char *tmpl;
    const struct toolfmt *fmt;
    struct talk talk;
    int skip;     /* number of messages that no longer fit (talk_skip) */
    bool lasting; /* more turns may follow: keep a checkpoint */
    struct run_view view;
    bool shown; /* output is streamed: never hold text back waiting for more */
};

/* An answer, with its tokens and timing. */
struct run_answer {
    struct ids prompt;
    struct buf prompt_end; /* the prompt's text */
    struct gen_answer gen;
    struct buf part, text; /* incomplete character; complete text */
    struct toolparse *parse;
    struct run *r;
    const char *content, *reasoning; /* borrowed from parse, never NULL */
    const struct json *calls;        /* likewise; NULL: calls were not parsed */
    int64_t n_prompt;                /* tokens computed for the prompt */
    double prompt_s;
};
void run_answer_release(struct run_answer *a);

/* Checks --draft before a model is opened. ERR_USAGE: neither mtp nor a file. */
int run_check_draft(const struct run_args *a, struct err *e);
/* Returns n_ctx, or the largest context that the model supports at all if that is smaller. */
int64_t run_most_ctx(const struct run *r, int64_t n_ctx);
/* Creates the session and the generator for n_ctx tokens, and the grammar and the drafts that the
 * options request. */
int run_start(struct run *r, int64_t n_ctx, struct err *e);
/* Compiles the options' grammar, if any: reads its files and indexes the vocabulary. */
int run_grammar(struct run *r, struct err *e);
void run_grammar_free(struct run *r);
/* Returns the grammar, and the reasoning markers between which it does not apply to an answer to
 * `prompt`. prompt NULL: text without a template, which has no markers. */
struct constrain_opts run_constrain(const struct run *r, const char *prompt);
/* Appends "; the grammar overruled 3 of 40 tokens and forced 12"; nothing without a grammar. */
void run_overruled(const struct run_answer *a, struct buf *out);
/* Renders the conversation without the messages that talk_write() skips, and fills `out` with the
 * prompt's tokens. gen: with the generation prompt. text receives the rendered text, or is NULL. */
int run_render(struct run *r, int skip, bool gen, struct ids *out, struct buf *text, struct err *e);
/* Generates and streams an answer to r->talk, without adding it there. After ERR_INTR, a holds the
 * answer so far. */
int run_answer_make(struct run *r, struct run_answer *a, struct err *e);
/* Continues an answer that was cut; prompt: NULL, or a shorter one that replaces a's. */
int run_answer_more(struct run *r, struct run_answer *a, const struct ids *prompt, struct err *e);
/* Continues the plain text of a->prompt. */
int run_answer_text(struct run *r, struct run_answer *a, struct err *e);
/* Appends the speed of an answer: "312 tokens, 41.3/s; prompt 1204 tokens, 310/s; seed 7". */
void run_speed(const struct run_answer *a, struct buf *out);
/* Appends the reason why an answer was cut and how to continue it; nothing if it was not. */
void run_cut(const struct run *r, const struct run_answer *a, bool in_chat, struct buf *out);
/* Builds the JSON text of the template's variables: --kwargs and the switch for thinking. *out is
 * freed by the caller; NULL: no variables. *none: the options switch thinking, but the template has
 * no switch for it. */
int run_kwargs(const struct run *r, char **out, bool *none, struct err *e);

/* Reads the model's template, and adds the conversation of r->a.chat and the system message
 * r->a.system to r->talk. */
int run_prepare_turns(struct run *r, struct err *e);
/* Adds an image file to the next turn, after computing it. */
int run_add_image(struct run *r, const char *path, struct err *e);
/* Forgets the bytes of image files, for a new conversation. */
void run_forget_images(struct run *r);
/* Adds the user's turn to r->talk. It begins with the images of r->a.image. */
void run_add_turn(struct run *r, const char *text, size_t len);
/* Opens a model, with its sampling defaults in r->set. Call run_close even after an error. */
int run_open(struct run *r, const char *path, struct err *e);
void run_close(struct run *r);

/* Adds the user's turn, text [len], to r->talk and answers it; text NULL: answers r->talk. With -p,
 * or without a template, continues the text. Creates the session. */
int run_once(struct run *r, const char *text, size_t len, struct run_answer *a, struct err *e);
/* Fills m with an answer, its settings and timing. turn: it answers a conversation. */
void run_describe(const struct run *r, const struct run_answer *a, bool turn, struct emit *m);

#endif
