// SPDX-License-Identifier: MIT
/* cli/cmd_synth.c - hone synth: a model of random weights with the shapes of a real one. */
#include "cli/cmd.h"
#include "core/hfdir.h"
#include "quantize/synth.h"
#include "tok/tok.h"

struct args {
    const char *shape, *out, *recipe, *tokenizer;
    int64_t layers, seed;
    double skew;
    bool dry_run;
};

static void emit_result(struct cli *c, const struct args *a, const struct synth_report *r) {
    struct emit *m = emit_new();
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
    cli_emit(c, m);
    emit_free(m);
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

#define AT(member) offsetof(struct args, member)
static const struct opt synth_opts[] = {
    {"output", 'o', OPT_STR, AT(out), "FILE", "the GGUF to write"},
    {"arch-from", 0, OPT_STR, AT(shape), "CONFIG.json|NAME",
     "shapes: Qwen3.5-35B-A3B (default), Qwen3.5-27B, Qwen3-30B-A3B, or a config.json"},
    {"layers", 0, OPT_I64, AT(layers), "N", "layers (as the shape has)"},
    {"recipe", 0, OPT_STR, AT(recipe), "NAME", "a preset or one type (Q4_K_M)"},
    {"tokenizer", 0, OPT_STR, AT(tokenizer), "DIR", "the vocabulary of this folder (none)"},
    {"seed", 0, OPT_I64, AT(seed), "N", "of the random numbers (1)"},
    {"skew", 0, OPT_NUM, AT(skew), "S", "how unevenly routers choose experts (0)"},
    {"dry-run", 0, OPT_FLAG, AT(dry_run), NULL, "print the exact size, write nothing"},
};
#undef AT
static const struct cmd_spec synth_spec = {
    .name = "synth",
    .synopsis = "[--arch-from CONFIG.json|NAME] [--layers N] [--recipe R] [--tokenizer DIR] -o "
                "OUT.gguf",
    .about = "Writes a model of random weights with the shapes, types and keys of a real one: for "
             "speed and\nmemory work without weights. Loadable everywhere. It has no vocabulary, "
             "unless --tokenizer gives one.",
    .opts = synth_opts,
    .n_opts = (int)COUNT_OF(synth_opts),
    .min_args = 0,
    .max_args = 0,
};

int cmd_synth(struct cli *c, int argc, char **argv, struct err *e) {
    struct args a = {.shape = "Qwen3.5-35B-A3B", .recipe = "Q4_K_M", .seed = 1};
    TRY(cli_parse(c, &synth_spec, &a, argc, argv, e));
    if (c->done) return 0;
    if (!a.out && !a.dry_run) return err_set(e, ERR_USAGE, "-o OUT.gguf is missing");
    if (!(a.skew >= 0 && a.skew <= 10))
        return err_set(e, ERR_USAGE, "--skew: a number between 0 and 10 is expected");
    TRY(work_pool(&c->work, e));
    struct synth_report r;
    char *tokenizer = a.tokenizer ? arena_strdup(&c->work.mem, a.tokenizer) : NULL;
    struct synth_opts o = {.shape = a.shape,
                           .recipe = a.recipe,
                           .out = a.out,
                           .layers = a.layers,
                           .seed = (uint64_t)a.seed,
                           .skew = a.skew,
                           .overwrite = c->work.overwrite,
                           .dry_run = a.dry_run,
                           .pool = c->work.pool};
    if (a.tokenizer) o.vocab = write_vocab, o.vocab_ud = tokenizer;
    TRY(synth_run(&o, &r, e));
    emit_result(c, &a, &r);
    return 0;
}
