// SPDX-License-Identifier: MIT
/* make/show.c - final output of `hone make`: a table of the files, and the recommendation in
 * words. */
#include <math.h>
#include <stdlib.h>

#include "make/make.h"
#include "base/log.h"
#include "base/mem.h"
#include "report/pick.h"
#include "report/result.h"
#include "text/shell.h"

/* Appends a command with one file of the folder, or two, whose paths are quoted for the shell. */
static void add_command(const struct make *mk, const char *before, const char *file,
                        const char *option, const char *second, const char *end, struct buf *to) {
    const char *const words[][2] = {{before, file}, {option, second}};
    for (size_t i = 0; i < COUNT_OF(words) && words[i][0]; i++) {
        char *path = job_path(&mk->job, words[i][1]);
        buf_str(to, words[i][0]);
        shell_word(to, path);
        free(path);
    }
    buf_str(to, end);
}

int make_show(struct make *mk, double seconds, struct emit *m, struct buf *after, struct err *e) {
    struct result r;
    char *path = job_path(&mk->job, "results.json");
    int rc = result_open(&r, path, e);
    free(path);
    if (rc) return rc;
    static const char *const col[][2] = {{"file", "file"},
                                         {"size_bytes", "bytes"},
                                         {"bpw", "bpw"},
                                         {"ppl", "PPL"},
                                         {"mean_kld", "mean KLD"},
                                         {"gain", "vs llama.cpp"},
                                         {"kld_p999", "99.9 %"},
                                         {"same_top1", "same top-1"},
                                         {"pp_tok_per_s", "pp t/s"},
                                         {"tg_tok_per_s", "tg t/s"}};
    struct buf answer = {0};
    struct buf others = {0};
    make_say_fault(mk, &answer);
    if (answer.len) buf_chr(&answer, ' ');
    pick_head(&r, &answer);
    if (answer.len) buf_chr(&answer, ' ');
    pick_numbers(&r, &answer);
    pick_others(&r, &others);
    if (answer.len && others.len) buf_fmt(&answer, " %s", others.data);
    buf_release(&others);
    if (answer.len) emit_str(m, "answer", NULL, answer.data);
    emit_str(m, "folder", "folder", mk->job.dir);
    emit_num(m, "seconds", "seconds", seconds, 1);
    emit_table(m, "files", "");
    for (size_t i = 0; i < COUNT_OF(col); i++) emit_col(m, col[i][0], col[i][1]);
    if (result_sees(&r)) emit_col(m, "images_kld", "images");
    if (result_sees(&r)) emit_col(m, "images_changed", NULL);
    for (int i = 0; i < r.n_files; i++) {
        const struct result_file *f = &r.file[i];
        emit_row(m);
        emit_cell_str(m, f->file);
        emit_cell_i64(m, f->size_bytes);
        emit_cell_num(m, f->bpw, 2);
        emit_cell_num(m, f->ppl, 4);
        if (f->is_base) {
            for (int k = 0; k < 4; k++) emit_cell_none(m);
        } else {
            emit_cell_num(m, f->mean_kld, 6);
            if (isfinite(pick_gain(&r, i)))
                emit_cell_num(m, pick_gain(&r, i), 1);
            else
                emit_cell_none(m);
            emit_cell_num(m, f->kld_p999, 4);
            emit_cell_num(m, f->same_top1, 4);
        }
        emit_cell_num(m, f->pp_tok_per_s, 0);
        emit_cell_num(m, f->tg_tok_per_s, 1);
        if (!result_sees(&r) || !isfinite(f->images.kld)) continue;
        emit_cell_num(m, f->images.kld, 6);
        emit_cell_num(m, f->images.changed, 4);
    }
    const int best = pick_file(&r);
    char *take = best >= 0 ? xstrdup(r.file[best].file) : NULL;
    result_close(&r);
    for (int i = 0; i < mk->left_out.n; i++) log_info("skipped: %s", mk->left_out.v[i]);
    for (int i = 0; i < mk->cut_short.n; i++) log_info("skipped: %s", mk->cut_short.v[i]);
    if (answer.len) buf_fmt(after, "\n%s\n", answer.data);
    buf_fmt(after, "The report is %s/report.html.", mk->job.dir);
    if (!mk->tmpl_fault) buf_fmt(after, " To publish, upload the folder %s.", mk->job.dir);
    buf_chr(after, '\n');
    if (take && !mk->tmpl_fault)
        add_command(mk, "To serve it: hone serve ", take, NULL, NULL, "\n", after);
    const char *tower = make_extra_file(mk, EXTRA_TOWER), *draft = make_extra_file(mk, EXTRA_DRAFT);
    if (take && tower)
        add_command(mk, "With images: llama-server -m ", take, " --mmproj ", tower, "\n", after);
    if (take && draft)
        add_command(mk, "With drafts: llama-server -m ", take, " -md ", draft,
                    " --spec-type draft-mtp\n", after);
    free(take);
    buf_release(&answer);
    return 0;
}
