// SPDX-License-Identifier: MIT
/* cli/cmd_eval.c - hone eval ppl | speed | logits: options in, numbers out. The procedures
 * are in runtime/eval/eval_*.c; nothing is computed here. The others have files of their own. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "calib/imatrix.h"
#include "cli/cmd.h"
#include "cli/eval.h"
#include "jobs/kept.h"
#include "runtime/engine/kv_type.h"
#include "core/bytes.h"
#include "core/io.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/prog.h"

enum { MAX_UBATCH = 2048 };

/* ---- ppl ---- */

static int run_ppl(struct cli *c, const struct eval_args *a, struct err *e) {
    struct eval_loaded l;
    struct ids ids = {0};
    struct eval_ppl r = {0};
    struct kept_of kept = {0};
    struct keep *k = NULL;
    TRY(eval_open_one(&c->work, a, c->arg[0], a->ctx + a->stride / 2, &l, e));
    int rc = eval_load_text(l.m, c->arg[1], &ids, e);
    if (!rc) rc = kept_open(&k, a->keep, e);
    kept_model(&kept, k, l.s, NULL);
    if (!rc) rc = eval_ppl(l.s, &ids, a->ctx, a->stride, a->chunks, kept.of, &r, e);
    kept_release(&kept);
    keep_close(k, false);
    if (!rc) {
        struct emit *m = emit_new();
        emit_str(m, "model", "model", c->arg[0]);
        emit_num(m, "ppl", "perplexity", r.ppl, 4);
        emit_num(m, "ppl_stderr", "standard error", r.ppl_stderr, 4);
        emit_i64(m, "n_tokens", "scored tokens", r.n_tokens);
        emit_i64(m, "n_chunks", "chunks", r.n_chunks);
        emit_i64(m, "ctx", "ctx", r.ctx);
        if (a->stride) emit_i64(m, "stride", "stride", a->stride);
        emit_str(m, "kv_type", "kv type", a->kv_type);
        emit_str(m, "act", "activations", a->act);
        emit_num(m, "tok_per_s", "tokens/s", r.tok_per_s, 1);
        cli_emit(c, m);
        emit_free(m);
    }
    ids_release(&ids);
    eval_close_one(&l);
    return rc;
}

static int cmd_ppl(struct cli *c, int argc, char **argv, struct err *e) {
    struct eval_args a = {.ctx = 512, .kv_type = KV_EXACT, .act = ACT_EXACT};
    const struct opt opts[] = {
        {"ctx", 0, OPT_I64, &a.ctx, "N", "tokens of a window (512)"},
        {"chunks", 0, OPT_I64, &a.chunks, "N", "windows to run; 0: all (default)"},
        {"stride", 0, OPT_I64, &a.stride, "N",
         "overlapping windows advanced by N, last N tokens scored"},
        EVAL_OPT_KV(a),
        EVAL_OPT_ACT(a),
        EVAL_OPT_PRE(a),
        EVAL_OPT_KEEP(a),
    };
    const struct cmd_spec spec = {
        .name = "eval ppl",
        .synopsis = "MODEL.gguf TEXT [--ctx 512] [--chunks N] [--stride N] [--kv-type T]",
        .about = "Perplexity of a text: windows of ctx tokens, second half scored, as published "
                 "numbers are made.\n"
                 "TEXT is plain text, .gz, or .jsonl of conversations rendered with the model's "
                 "template.",
        .opts = opts,
        .n_opts = (int)COUNT_OF(opts),
        .min_args = 2,
        .max_args = 2,
    };
    TRY(cli_parse(c, &spec, argc, argv, e));
    return c->done ? 0 : run_ppl(c, &a, e);
}

/* ---- speed ---- */

static void emit_speed(struct cli *c, const struct eval_args *a, const struct eval_loaded *l,
                       const struct eval_speed *r, int n) {
    struct emit *m = emit_new();
    char size[48];
    emit_fmt_bytes(size, gguf_file_bytes(l->m->gguf));
    emit_str(m, "model", "model", c->arg[0]);
    emit_i64(m, "size_bytes", NULL, (int64_t)gguf_file_bytes(l->m->gguf));
    emit_str(m, "size", "size", size);
    emit_str(m, "kv_type", "kv type", a->kv_type);
    emit_str(m, "act", "activations", a->act);
    const struct session_offload off = session_offload(l->s);
    emit_str(m, "device", "device", session_device(l->s));
    emit_i64(m, "offload_blocks", off.n_blocks ? "blocks with experts in main memory" : NULL,
             off.n_blocks);
    emit_i64(m, "offload_bytes", NULL, off.n_bytes);
    emit_i64(m, "stream_from", off.from ? "tokens of a pass that copies them" : NULL, off.from);
    emit_str(m, "isa", "instruction set", kern_isa_name(c->work.isa));
    emit_i64(m, "n_threads", "threads", pool_size(c->work.pool));
    bool settled;
    emit_i64(m, "n_threads_tg", "threads of a token", session_threads(l->s, &settled));
    const uint64_t packed = model_packed_bytes(l->m, false),
                   mapped = model_packed_bytes(l->m, true);
    emit_fmt_bytes(size, packed + mapped);
    emit_i64(m, "packed_bytes", NULL, (int64_t)(packed + mapped));
    emit_i64(m, "packed_mapped_bytes", NULL, (int64_t)mapped); /* of a --pack-cache */
    emit_str(m, "packed", "weights in packed rows", size);
    emit_num(m, "open_seconds", "seconds to open", l->seconds, 3);
    emit_num(m, "bandwidth_gb_per_s", "memory read GB/s", eval_bandwidth(c->work.pool), 1);
    emit_table(m, "tests", "tests");
    emit_col(m, "test", "test");
    emit_col(m, "depth", "depth");
    emit_col(m, "tok_per_s", "tokens/s");
    emit_col(m, "tok_per_s_stddev", "+-");
    emit_col(m, "gb_per_s", "GB/s");
    emit_col(m, "share_of_bandwidth", "of bandwidth");
    emit_col(m, "bytes_per_token", NULL);
    for (int i = 0; i < n; i++) {
        bool gen = r[i].gb_per_s > 0;
        emit_row(m);
        emit_cell_str(m, r[i].test);
        emit_cell_i64(m, r[i].depth);
        emit_cell_num(m, r[i].tok_per_s, 2);
        emit_cell_num(m, r[i].tok_per_s_stddev, 2);
        if (gen) {
            emit_cell_num(m, r[i].gb_per_s, 2);
            emit_cell_num(m, r[i].share_of_bandwidth, 3);
            emit_cell_num(m, r[i].bytes_per_token, 0);
        } else
            for (int k = 0; k < 3; k++) emit_cell_none(m);
    }
    cli_emit(c, m);
    emit_free(m);
}

static int run_speed(struct cli *c, const struct eval_args *a, struct err *e) {
    int64_t depth[EVAL_MAX_LIST], deepest = 0;
    struct eval_speed r[2 * EVAL_MAX_LIST];
    struct eval_loaded l;
    int n_depths, n = 0;
    TRY(eval_parse_list(a->depths, "--depths", depth, &n_depths, e));
    for (int i = 0; i < n_depths; i++) deepest = max_i64(deepest, depth[i]);
    if (deepest > INT32_MAX || a->pp > INT32_MAX || a->tg > INT32_MAX || a->reps > INT32_MAX)
        return err_set(e, ERR_USAGE, "eval speed: the numbers are too large");
    TRY(eval_open_one(&c->work, a, c->arg[0], deepest + max_i64(max_i64(a->pp, a->tg), 1), &l, e));
    int rc = eval_speed(l.s, a->pp, a->tg, depth, n_depths, (int)a->reps,
                        eval_bandwidth(c->work.pool), NULL, r, &n, e);
    if (!rc) emit_speed(c, a, &l, r, n);
    eval_close_one(&l);
    return rc;
}

static int cmd_speed(struct cli *c, int argc, char **argv, struct err *e) {
    struct eval_args a = {
        .pp = 512, .tg = 128, .reps = 5, .depths = "0", .kv_type = KV_USUAL, .act = ACT_FAST};
    const struct opt opts[] = {
        {"pp", 0, OPT_I64, &a.pp, "N", "tokens of the prompt test (512); 0: none"},
        {"tg", 0, OPT_I64, &a.tg, "N", "tokens of the generation test (128); 0: none"},
        {"depths", 0, OPT_STR, &a.depths, "LIST", "context already filled: 0,4096 (0)"},
        {"reps", 0, OPT_I64, &a.reps, "N", "repetitions (5)"},
        {"kv-type", 0, OPT_STR, &a.kv_type, "T",
         "cache of keys and values: f16 (default), q8_0, tq4, ... or K/V"},
        {"act", 0, OPT_STR, &a.act, "MODE", "activations: f32 or q8 (default)"},
    };
    const struct cmd_spec spec = {
        .name = "eval speed",
        .synopsis = "MODEL.gguf [--pp 512] [--tg 128] [--depths 0,4096] [--reps 5] [--kv-type T]",
        .about = "Tokens per second of prompts and of generation, and the share of the machine's "
                 "measured read\n"
                 "bandwidth that generation reaches.",
        .opts = opts,
        .n_opts = (int)COUNT_OF(opts),
        .min_args = 1,
        .max_args = 1,
    };
    TRY(cli_parse(c, &spec, argc, argv, e));
    return c->done ? 0 : run_speed(c, &a, e);
}

/* ---- logits ---- */

static int write_logits(struct eval_loaded *l, const int32_t *ids, int64_t n, struct out *o,
                        struct err *e) {
    enum { BLOCK = 64 };
    int64_t d = l->m->hp.d[HD_EMBD], v = l->m->hp.d[HD_VOCAB];
    void *h = NULL, *x = NULL;
    int rc = buf_alloc(&h, (uint64_t)(BLOCK * d) * sizeof(float), "hidden rows", e);
    if (!rc) rc = buf_alloc(&x, (uint64_t)(BLOCK * v) * sizeof(float), "logits", e);
    for (int64_t i = 0; i < n && !rc; i += BLOCK) {
        int64_t k = min_i64(BLOCK, n - i);
        rc = session_forward(l->s, ids + i, k, h, e);
        if (!rc) rc = session_head(l->s, h, k, x, e);
        if (!rc) rc = out_write(o, x, (uint64_t)(k * v) * sizeof(float), e);
    }
    buf_free(h);
    buf_free(x);
    return rc;
}

static int run_logits(struct cli *c, const struct eval_args *a, struct err *e) {
    struct map map = {0};
    struct eval_loaded l = {0};
    struct out *o = NULL;
    int32_t *ids = NULL;
    if (!a->ids || !a->out)
        return err_set(e, ERR_USAGE, "eval logits: --ids FILE and -o FILE are needed");
    TRY(map_open(&map, a->ids, e));
    int64_t n = (int64_t)(map.size / 4);
    int rc = 0;
    if (map.size % 4 || n < 1 || n > INT32_MAX)
        rc = err_set(e, ERR_DATA, "%s: %" PRIu64 " bytes are not a list of 4-byte token ids",
                     a->ids, map.size);
    if (!rc) {
        ids = xcalloc((size_t)n, sizeof *ids);
        for (int64_t i = 0; i < n; i++) ids[i] = load_i32(map.data + 4 * i);
        rc = eval_open_one(&c->work, a, c->arg[0], n, &l, e);
    }
    for (int64_t i = 0; i < n && !rc; i++)
        if (ids[i] < 0 || ids[i] >= l.m->hp.d[HD_VOCAB])
            rc = err_set(e, ERR_DATA,
                         "%s: id %" PRId32 " at position %" PRId64
                         " is outside the vocabulary of %" PRId64 " entries",
                         a->ids, ids[i], i, l.m->hp.d[HD_VOCAB]);
    if (!rc) rc = out_open(&o, a->out, c->work.overwrite, e);
    if (!rc) rc = write_logits(&l, ids, n, o, e);
    if (!rc) rc = out_commit(o, e);
    if (!rc) {
        struct emit *m = emit_new();
        emit_str(m, "output", "output", a->out);
        emit_i64(m, "n_tokens", "tokens", n);
        emit_i64(m, "n_vocab", "vocabulary", l.m->hp.d[HD_VOCAB]);
        cli_emit(c, m);
        emit_free(m);
    }
    out_close(o);
    eval_close_one(&l);
    free(ids);
    map_close(&map);
    return rc;
}

static int cmd_logits(struct cli *c, int argc, char **argv, struct err *e) {
    struct eval_args a = {.kv_type = KV_EXACT, .act = ACT_EXACT};
    const struct opt opts[] = {
        {"ids", 0, OPT_STR, &a.ids, "FILE", "little-endian int32 token ids"},
        {"output", 'o', OPT_STR, &a.out, "FILE", "float32 [n][n_vocab], little-endian"},
        EVAL_OPT_KV(a),
        EVAL_OPT_ACT(a),
        EVAL_OPT_PRE(a),
    };
    const struct cmd_spec spec = {
        .name = "eval logits",
        .synopsis = "MODEL.gguf --ids FILE -o FILE",
        .about = "Logits of every position of one sequence, for comparison with other programs.",
        .opts = opts,
        .n_opts = (int)COUNT_OF(opts),
        .min_args = 1,
        .max_args = 1,
    };
    TRY(cli_parse(c, &spec, argc, argv, e));
    return c->done ? 0 : run_logits(c, &a, e);
}

int cmd_eval(struct cli *c, int argc, char **argv, struct err *e) {
    static const struct subcommand sub[] = {
        {"ppl", cmd_ppl, "perplexity of a text"},
        {"kld", eval_cmd_kld, "divergence from a base model"},
        {"mtp", eval_cmd_mtp, "acceptance of drafted tokens"},
        {"tools", eval_cmd_tools, "tool calls: valid, as expected"},
        {"checks", eval_cmd_checks, "checks of answers"},
        {"choice", eval_cmd_choice, "multiple choice"},
        {"needle", eval_cmd_needle, "numbers in a long text"},
        {"suite", eval_cmd_suite, "the standard set, as one file"},
        {"compare", eval_cmd_compare, "two such files"},
        {"speed", cmd_speed, "tokens per second"},
        {"kv", eval_cmd_kv, "KV cache types without a model"},
        {"logits", cmd_logits, "raw logits of a sequence"}};
    return cli_sub(c, sub, (int)COUNT_OF(sub), "MODEL.gguf ...", argc, argv, e);
}
