// SPDX-License-Identifier: MIT
/* lib/form.h - calls of include/hone.h that are jobs of jobs/, and the tables that say how options
 * of a caller become options of a job.
 *
 * A call has a form: the command that it is, the struct of its options, and the command's rows,
 * which say where each option is in that struct and in the job's. To add an option is to add a row;
 * to add a call is to add a form. tests/unit/test_lib_forms.c writes docs/reference.md from both.
 */
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
    const char *opts;         /* "hone_eval_opts"; "": the function has arguments alone */
    size_t size;              /* of that struct */
    const struct option *row; /* [n] of the command (commands/NAME.def) */
    int n, which;             /* number of rows; which of their `in` is the call's */
};
/* Forms: hone_CALL takes a struct OPTS, or arguments alone. */
#define FORM(call, command, opts, rows)                                                            \
    { "hone_" #call, command, #opts, sizeof(struct opts), rows, (int)COUNT_OF(rows), CALL_##call }
#define FORM_OF_ARGUMENTS(call, command, rows)                                                     \
    { "hone_" #call, command, "", 0, rows, (int)COUNT_OF(rows), CALL_##call }

/* The forms of each file; the last has no call. */
extern const struct form forms_steps[], forms_evals[], forms_files[], forms_templates[],
    forms_serve[], forms_handles[];
/* Returns the i-th of these lists, counted from 0, or NULL past the last. */
const struct form *form_list(int i);

/* A call that is a job: its owner lives as long. */
struct task {
    struct owner *owner;
    struct call c;
    struct work w;
    struct emit *m;
    struct buf text; /* a JSON document in place of m, where the job wrote one */
};
/* Begins a call without options of its own. When it returns anything but HONE_OK, the call was not
 * begun. */
int task_begin(struct task *t, const struct hone_opts *o, char **json, struct hone_error *e);
/* Begins a call with options: `given` are the caller's, or NULL; `own` gets them as this version
 * has them; `job`, which holds what is usual, gets them by the rows of the form. Returns HONE_USAGE
 * when a field is set that only other calls with this struct have. */
int task_begin_form(struct task *t, const struct form *f, const void *given, void *own, void *job,
                    const struct hone_opts *o, char **json, struct hone_error *e);
/* Ends the call; what was found goes to *json where rc says that it is whole. */
int task_end(struct task *t, int rc, char **json, struct hone_error *e);

/* Returns a list of texts, NULL behind the last, in the form that jobs take; the task's memory
 * holds the list, and the texts are borrowed. */
struct str_list task_list(struct task *t, const char *const *texts);
/* Returns ERR_USAGE when a path is needed and there is none. */
int task_need(const char *path, bool is_needed, struct err *e);
/* Makes {"name": text} the result of a task. */
void task_text(struct task *t, const char *name, const struct buf *text);

#endif
