// SPDX-License-Identifier: MIT
/* jobs/synth_job.c - hone synth: a model with random weights and the shapes of a real one. */
#include "jobs/synth_job.h"
#include "containers/hfdir.h"
#include "quantize/synth.h"
#include "tok/tok.h"

static void emit_result(struct emit *m, const struct synth_opts *a, const struct synth_report *r) {
    char size[48];
    emit_fmt_bytes(size, r->file_bytes);
    if (!a->dry_run) emit_str(m, "output", "output", a->out);
    emit_str(m, "architecture", "architecture", r->arch);
    emit_str(m, "recipe", "recipe", r->recipe);
    emit_i64(m, "n_layers", "layers", r->n_layers);
    emit_i64(m, "n_tensors", "tensors", r->n_tensors);
    emit_i64(m, "n_weights", "weights", r->n_weights);
    emit_i64(m, "tensor_bytes", NULL, (int64_t)r->tensor_bytes);
    emit_i64(m, "size_bytes", NULL, (int64_t)r->file_bytes);
    emit_str(m, "size", "size", size);
    if (!a->dry_run) emit_num(m, "seconds", "seconds", r->seconds, 1);
}

/* Writes the tokenizer and the chat template of a folder, for synth_run; ud is its path. */
static int write_vocab(void *ud, int64_t n_vocab, struct gguf_w *w, struct err *e) {
    struct tok *t = NULL;
    struct hfdir *dir;
    const char *tmpl = NULL;
    TRY(hfdir_open(&dir, ud, e));
    int rc = tok_from_dir(&t, ud, n_vocab, NULL, e);
    if (!rc) rc = hfdir_chat_template(dir, &tmpl, e);
    if (!rc) tok_to_gguf(t, w);
    if (!rc && tmpl) gguf_w_str(w, "tokenizer.chat_template", tmpl);
    tok_free(t);
    hfdir_close(dir);
    return rc;
}

const struct synth_job_opts synth_usual = {.o = {.shape = "Qwen3.5-35B-A3B", .recipe = "Q4_K_M"},
                                           .seed = 1};

int synth_job_run(struct work *w, struct synth_job_opts *x, struct emit *m, struct err *e) {
    struct synth_opts *o = &x->o;
    o->seed = (uint64_t)x->seed;
    if (!o->out && !o->dry_run) return err_set(e, ERR_USAGE, "-o OUT.gguf is missing");
    if (!(o->skew >= 0 && o->skew <= 10))
        return err_set(e, ERR_USAGE, "--skew: a number between 0 and 10 is expected");
    struct synth_report r;
    TRY(work_pool(w, e));
    o->pool = w->pool;
    o->overwrite = w->overwrite;
    if (x->tokenizer) {
        o->vocab = write_vocab;
        o->vocab_ud = arena_strdup(&w->mem, x->tokenizer);
    }
    TRY(synth_run(o, &r, e));
    emit_result(m, o, &r);
    return 0;
}
