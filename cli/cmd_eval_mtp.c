// SPDX-License-Identifier: MIT
/* cli/cmd_eval_mtp.c - hone eval mtp: how often the MTP block's guess of the token after next is
 * the trunk's. */
#include "calib/imatrix.h"
#include "cli/cmd.h"
#include "cli/eval.h"
#include "runtime/generate/draft.h"

static void report(struct cli *c, const struct eval_args *a, const struct eval_mtp *r) {
    struct emit *m = emit_new();
    emit_str(m, "model", "model", c->arg[0]);
    emit_num(m, "acceptance", "same token as the trunk", r->acceptance, 4);
    emit_num(m, "acceptance_stderr", "standard error", r->acceptance_stderr, 4);
    emit_num(m, "overlap", "overlap of probabilities", r->overlap, 4);
    emit_num(m, "overlap_stderr", "standard error", r->overlap_stderr, 4);
    emit_num(m, "trunk_top1", "trunk's token is the text's", r->trunk_top1, 4);
    emit_num(m, "draft_top1", "block's token is the text's", r->draft_top1, 4);
    emit_i64(m, "n_tokens", "scored tokens", r->n_tokens);
    emit_i64(m, "n_chunks", "chunks", r->n_chunks);
    emit_i64(m, "ctx", "ctx", r->ctx);
    emit_str(m, "kv_type", "kv type", a->kv_type);
    emit_str(m, "act", "activations", a->act);
    emit_num(m, "tok_per_s", "tokens/s", r->tok_per_s, 1);
    cli_emit(c, m);
    emit_free(m);
}

static int run(struct cli *c, const struct eval_args *a, struct err *e) {
    struct eval_loaded l;
    struct model *dm = NULL;
    struct session *ds = NULL;
    struct ids ids = {0};
    struct eval_mtp r;
    TRY(eval_open_one(&c->work, a, c->arg[0], a->ctx, &l, e));
    int rc = draft_session(l.s, &dm, &ds, e);
    if (!rc) rc = eval_load_text(l.m, c->arg[1], &ids, e);
    if (!rc) rc = eval_mtp(l.s, ds, &ids, a->ctx, a->chunks, &r, e);
    if (!rc) report(c, a, &r);
    ids_release(&ids);
    session_free(ds);
    model_close(dm);
    eval_close_one(&l);
    return rc;
}

int eval_cmd_mtp(struct cli *c, int argc, char **argv, struct err *e) {
    struct eval_args a = {.ctx = 512, .kv_type = KV_EXACT, .act = ACT_EXACT};
    const struct opt opts[] = {
        {"ctx", 0, OPT_I64, &a.ctx, "N", "tokens of a window (512)"},
        {"chunks", 0, OPT_I64, &a.chunks, "N", "windows to run; 0: all (default)"},
        EVAL_OPT_KV(a),
        EVAL_OPT_ACT(a),
        EVAL_OPT_PRE(a),
    };
    const struct cmd_spec spec = {
        .name = "eval mtp",
        .synopsis = "MODEL.gguf TEXT [--ctx 512] [--chunks N] [--kv-type T]",
        .about =
            "Acceptance of the token that the MTP block drafts: how often its favourite is the "
            "trunk's,\nalong the second halves of the windows of a text.",
        .opts = opts,
        .n_opts = (int)COUNT_OF(opts),
        .min_args = 2,
        .max_args = 2,
    };
    TRY(cli_parse(c, &spec, argc, argv, e));
    return c->done ? 0 : run(c, &a, e);
}
