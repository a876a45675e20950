// SPDX-License-Identifier: MIT
/* make/acceptance.c - the steps of `hone make` that measure how many drafts are accepted, along the
 * evaluation text: those of the MTP block, in each file, or those of each draft file, by its
 * model. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "calib/imatrix.h"
#include "make/make.h"
#include "models/arch.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/progress.h"
#include "base/str.h"
#include "runtime/generate/drafter.h"
#include "runtime/measure/eval.h"
#include "runtime/measure/job.h"
#include "work/device.h"
#include "work/open.h"

/* Returns the number of windows to measure; 0: all, because the text is shorter. */
static int64_t windows(const struct make *mk) {
    return mk->eval_chunks > 0 ? min_i64(mk->eval_chunks, MAKE_DRAFT_WINDOWS) : MAKE_DRAFT_WINDOWS;
}

/* Reads the evaluation texts, or the built-in ones. */
static int load_texts(const struct make *mk, const struct model *m, struct ids *ids,
                      struct err *e) {
    struct eval_texts t = {0};
    for (int i = 0; i < mk->eval.n; i++) TRY(corpus_load(m, mk->eval.v[i], true, ids, e));
    if (mk->eval.n) return 0;
    const int rc = eval_texts_add(&t, m, NULL, "builtin", e);
    for (int i = 0; i < t.n && !rc; i++)
        for (int64_t k = 0; k < t.ids[i].n; k++) ids_add(ids, t.ids[i].v[k]);
    eval_texts_release(&t);
    return rc;
}

/* Measures one file: its MTP block or, if the job makes draft files, that file with its model. */
static int measure(struct make *mk, const struct made *f, struct eval_mtp *r, struct err *e) {
    const char *path = mk->target_file ? mk->target_file : f->path;
    const char *how = mk->target_file ? f->path : "mtp";
    struct model *m = NULL;
    struct session *s = NULL;
    struct drafter *draft = NULL;
    struct ids ids = {0};
    int rc;
    struct session_opts o = {
        .n_ctx = mk->eval_ctx, .isa = mk->w->isa, .act = ACT_F32, .pool = mk->w->pool};
    if (!mk->target_file) o.device = device_alone(mk->w);
    TRY_GOTO(out, rc, open_model(mk->w, &m, path, e));
    TRY_GOTO(out, rc, session_new(&s, m, &o, e));
    TRY_GOTO(out, rc, drafter_open(&draft, s, how, e));
    TRY_GOTO(out, rc, load_texts(mk, m, &ids, e));
    eval_spread_chunks(&ids, mk->eval_ctx, windows(mk));
    TRY_GOTO(out, rc, eval_mtp(s, draft, &ids, mk->eval_ctx, windows(mk), r, NULL, e));
out:
    ids_release(&ids);
    drafter_close(draft);
    session_free(s);
    model_close(m);
    return rc;
}

/* Measures a file, or reuses the recorded result. */
static int accept_one(struct make *mk, struct made *f, struct err *e) {
    char *name = xasprintf("drafts-%s", f->is_base ? "base" : f->recipe);
    struct step s;
    cJSON *found = NULL;
    int rc = 0;
    step_init(&s, &mk->job, name);
    free(name);
    step_key(&s, "file", "%s", f->hash);
    step_key(&s, "ctx", "%" PRId64 " %" PRId64, mk->eval_ctx, windows(mk));
    if (mk->target_file) {
        char hex[33];
        rc = job_file_hash(&mk->job, mk->target_file, hex, e);
        step_key(&s, "target", "%s", hex);
    }
    for (int i = 0; i < mk->eval.n && rc == 0; i++) {
        char hex[33];
        rc = job_file_hash(&mk->job, mk->eval.v[i], hex, e);
        step_key(&s, "text", "%s", hex);
    }
    if (rc == 0 && !make_reuse(mk, &s, &found)) {
        struct eval_mtp r;
        if (make_counts(mk)) mk->extra_missing = true;
        if (!make_counts(mk)) rc = measure(mk, f, &r, e);
        if (rc == 0 && !make_counts(mk)) {
            found = doc_new();
            doc_put_num(found, "acceptance", r.acceptance);
            doc_put_num(found, "acceptance_stderr", r.acceptance_stderr);
            doc_put_i64(found, "n_drafts", r.n_tokens);
            rc = step_save(&s, NULL, 0, found, e);
        }
    }
    make_keep(&f->drafts, found);
    step_release(&s);
    return rc;
}

int make_acceptance(struct make *mk, struct err *e) {
    for (int i = 0; i < mk->n_files; i++) {
        progress_set_item("file", i + 1, mk->n_files);
        const int rc = accept_one(mk, &mk->file[i], e);
        const bool other = rc == ERR_DATA && mk->target_file;
        if (other || (rc == ERR_SYS && e->no_memory)) {
            log_warn("%s; the acceptance of drafts is not measured", e->msg);
            make_left_out(mk, "acceptance of drafts: %s",
                          other ? "the drafts do not fit the model of --target-model-dir"
                                : "too little free memory for two sessions");
            break;
        }
        if (rc) return rc;
    }
    progress_set_item(NULL, 0, 0);
    return 0;
}

int make_draft_target(struct make *mk, struct err *e) {
    struct io_names names = {0};
    uint64_t most = 0;
    if (!mk->target || !arch_runs_draft(mk->draft)) return 0;
    const int rc = io_list(&names, mk->target, e);
    for (int i = 0; i < names.n && !rc; i++) {
        char *path = io_join(mk->target, names.v[i]);
        struct gguf *g = NULL;
        struct err ignored;
        uint64_t size = 0;
        const bool fits = str_ends(path, ".gguf") && !gguf_open(&g, path, 0, &ignored) &&
                          gguf_part_of(g) == GGUF_MODEL && !model_computes(g, &ignored);
        if (fits && !io_file_size(path, &size, &ignored) && size > most) {
            most = size;
            mk->target_file = arena_strdup(&mk->w->mem, path);
        }
        gguf_close(g);
        free(path);
    }
    io_names_release(&names);
    return rc;
}
