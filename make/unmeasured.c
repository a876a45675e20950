// SPDX-License-Identifier: MIT
/* make/unmeasured.c - `hone make` for models that hone converts and quantizes but cannot run alone:
 * the job makes presets without an importance matrix, measures at most the acceptance of drafts,
 * and the card has no measurements. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "make/make.h"
#include "models/arch.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "text/shell.h"
#include "work/shapes.h"

/* Presets that need no importance matrix. */
#define USUAL "Q8_0,Q6_K,Q5_K_M,Q4_K_M,IQ4_XS,Q3_K_M"
#define USUAL_DRAFTS "Q8_0,Q6_K,Q5_K_M,Q4_K_M" /* smaller ones would not differ from Q4_K */

int make_ask_unmeasured(struct make *mk, const char **recipes, struct err *e) {
    if (mk->budget.n)
        return err_set(e, ERR_USAGE,
                       "--budget needs measurements, but hone cannot run this model; "
                       "`hone quantize --budget` makes a mix by the roles of tensors");
    mk->plain = true;
    if (mk->seconds > 0 && mk->seconds != make_usual.seconds)
        log_warn("--time has no effect: hone cannot run this model, so nothing can be left out");
    if (!*recipes) *recipes = mk->draft ? USUAL_DRAFTS : USUAL;
    TRY(make_draft_target(mk, e));
    if (mk->draft)
        log_warn("this is a draft model: making presets, none below Q4_K; its acceptance rate is "
                 "%s%s",
                 mk->target_file ? "measured with " : "not measured",
                 mk->target_file ? mk->target_file : "");
    else
        log_warn(
            "hone converts and quantizes this model but cannot run it: making presets without an "
            "importance matrix; nothing is measured");
    return 0;
}

/* Emits the table of files; bytes: sizes of the base and of each preset. */
static void emit_files(const struct make *mk, const uint64_t *bytes, struct emit *m) {
    emit_table(m, "files", "");
    emit_col(m, "file", "file");
    emit_col(m, "size_bytes", "bytes");
    for (int i = 0; i <= mk->recipes.n; i++) {
        char called[RECIPE_FILE];
        if (i) recipe_file(mk->recipes.v[i - 1], called);
        char *file =
            i ? xasprintf("%s-%s.gguf", mk->name, called) : xasprintf("%s (converted)", mk->name);
        emit_row(m);
        emit_cell_str(m, file);
        emit_cell_i64(m, (int64_t)bytes[i]);
        free(file);
    }
}

/* Emits the answer and the space that the job takes in the folder `out`. */
static void say_space(const struct make *mk, const struct shapes *s, const char *out,
                      struct emit *m) {
    struct make_disk disk;
    struct err full;
    char files[32], temporary[32], answer[2304], *work = job_work(out);
    make_disk_of(mk, s, out, &disk);
    plan_amount_text((double)disk.files, files);
    plan_amount_text((double)disk.work, temporary);
    const bool no_room = io_need_space(out, disk.left, &full) != 0;
    snprintf(answer, sizeof answer,
             "Presets without an importance matrix: %s of files and %s of temporary files in "
             "%.1024s; nothing was written.%s%s%s",
             files, temporary, work ? work : "", no_room ? " Note: " : "", no_room ? full.msg : "",
             no_room ? "." : "");
    free(work);
    emit_answer(m, answer);
    emit_i64(m, "file_bytes", "files, bytes", (int64_t)disk.files);
    emit_i64(m, "work_bytes", "temporary files, bytes", (int64_t)disk.work);
    emit_bool(m, "over_free_space", NULL, no_room);
}

/* Reads the shapes of a job's model, which gets no importance matrix. */
static int open_shapes(struct shapes *s, const struct make *mk, struct err *e) {
    const int rc = shapes_open(s, mk->src, mk->type, mk->target, e);
    s->model.imatrix = false;
    return rc;
}

int make_space_unmeasured(const struct make *mk, const char *out, struct err *e) {
    struct shapes s;
    int rc = open_shapes(&s, mk, e);
    if (!rc) rc = make_need_disk(mk, &s, out, e);
    shapes_close(&s);
    return rc;
}

int make_dry_unmeasured(struct make *mk, const char *out, struct emit *m, struct err *e) {
    struct shapes s;
    uint64_t *bytes = xcalloc((size_t)mk->recipes.n + 1, sizeof *bytes);
    int rc = open_shapes(&s, mk, e);
    if (!rc) {
        bytes[0] = s.base_bytes;
        for (int i = 0; i < mk->recipes.n; i++) bytes[i + 1] = shapes_preset(&s, mk->recipes.v[i]);
        say_space(mk, &s, out, m);
        emit_files(mk, bytes, m);
    }
    shapes_close(&s);
    free(bytes);
    return rc;
}

/* Emits the acceptance of a draft file; empty cells if it could not be measured. */
static void emit_acceptance(const struct made *f, struct emit *m) {
    static const char *const key[] = {"acceptance", "acceptance_stderr"};
    for (int k = 0; k < 2; k++)
        if (f->drafts)
            emit_cell_num(m, doc_num(f->drafts, key[k], 0), 4);
        else
            emit_cell_none(m);
}

int make_show_unmeasured(struct make *mk, double seconds, struct emit *m, struct buf *after,
                         struct err *e) {
    emit_str(m, "folder", "folder", mk->job.dir);
    emit_num(m, "seconds", "seconds", seconds, 1);
    emit_table(m, "files", "");
    emit_col(m, "file", "file");
    emit_col(m, "size_bytes", "bytes");
    if (mk->target_file) {
        emit_col(m, "acceptance", "drafted tokens accepted");
        emit_col(m, "acceptance_stderr", "standard error");
    }
    for (int i = 0; i < mk->n_files; i++) {
        uint64_t size;
        TRY(io_file_size(mk->file[i].path, &size, e));
        emit_row(m);
        emit_cell_str(m, mk->file[i].file);
        emit_cell_i64(m, (int64_t)size);
        if (mk->target_file) emit_acceptance(&mk->file[i], m);
    }
    struct buf fault = {0};
    make_say_fault(mk, &fault);
    if (fault.len)
        buf_fmt(after, "\n%s", fault.data);
    else
        buf_fmt(after, "\nTo publish, upload the folder %s.", mk->job.dir);
    buf_release(&fault);
    buf_fmt(after, " %s.\n",
            mk->target_file ? "Only the acceptance was measured" : "Nothing was measured");
    if (!mk->target_file && arch_runs_draft(mk->draft)) {
        buf_str(after, "How many drafts the model accepts: hone eval mtp MODEL.gguf ");
        shell_word(after, mk->job.dir);
        buf_str(after, "/*.gguf TEXT, or a GGUF file of the model in the folder of "
                       "--target-model-dir\n");
    }
    if (mk->draft && mk->n_files > 1) {
        buf_str(after, "With its model: llama-server -m MODEL -md ");
        shell_word(after, mk->file[1].path);
        buf_fmt(after, " --spec-type draft-%s\n", mk->draft);
    }
    return 0;
}
