// SPDX-License-Identifier: MIT
/* lib/form.h - tables that map the options of library calls to the options of jobs.
 *
 * A call that runs a job has a form: its command, its options struct, and the command's rows, which
 * give the place of each option in that struct and in the job's. A new option is a new row, a new
 * call a new form. tests/unit/test_lib_forms.c writes docs/reference.md from both. */
#ifndef HONE_LIB_FORM_H
#define HONE_LIB_FORM_H

#include <stddef.h>

#include "commands/option.h"
#include "base/emit.h"
#include "work/work.h"
#include "lib/call.h"

struct form {
    const char *call;         /* "hone_eval_ppl" */
    const char *command;      /* "eval ppl"; several: "eval tools|eval checks" */
    const char *opts;         /* "hone_eval_opts"; "": the function has only arguments */
    size_t size;              /* bytes of the struct */
    const struct option *row; /* [n] rows of the command (commands/NAME.def) */
    int n, which;             /* number of rows; index of the call in the rows' `in` */
};
/* Initialize the form of hone_CALL: with an options struct OPTS, or with arguments only. */
#define FORM(call, command, opts, rows)                                                            \
    { "hone_" #call, command, #opts, sizeof(struct opts), rows, (int)COUNT_OF(rows), CALL_##call }
#define FORM_OF_ARGUMENTS(call, command, rows)                                                     \
    { "hone_" #call, command, "", 0, rows, (int)COUNT_OF(rows), CALL_##call }

/* Forms of the calls in each file of lib/; a form without a call ends a list. */
extern const struct form forms_steps[], forms_evals[], forms_files[], forms_templates[],
    forms_serve[], forms_handles[];
/* Returns the i-th of these lists, counted from 0; NULL past the end. */
const struct form *form_list(int i);

/* A call that runs a job; its owner lives as long as the call. */
struct task {
    struct owner *owner;
    struct call c;
    struct work w;
    struct emit *m;
    struct buf text; /* JSON document that the job wrote instead of m, or empty */
};
/* Begins a call without an options struct. On failure there is nothing to end. */
int task_begin(struct task *t, const struct hone_opts *o, char **json, struct hone_error *e);
/* Begins a call with options. `given`: the caller's options, or NULL. Copies them to `own`, this
 * version's struct, and by the rows of the form to `job`, which holds the defaults. Returns
 * HONE_USAGE if a field is set that belongs only to other calls with this struct. */
int task_begin_form(struct task *t, const struct form *f, const void *given, void *own, void *job,
                    const struct hone_opts *o, char **json, struct hone_error *e);
/* Ends the call. If rc is success or a verdict, stores the result in *json. */
int task_end(struct task *t, int rc, char **json, struct hone_error *e);

/* Converts a NULL-terminated list of texts for jobs. The task owns the list; the texts are
 * borrowed. */
struct str_list task_list(struct task *t, const char *const *texts);
/* Returns ERR_USAGE if a needed path is NULL. */
int task_need(const char *path, bool is_needed, struct err *e);
/* Sets {"name": text} as the result of a task. */
void task_text(struct task *t, const char *name, const struct buf *text);

#endif
