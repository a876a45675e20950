// SPDX-License-Identifier: MIT
/* cli/cmd_eval.c - hone eval ppl | kld | speed | logits: options in, numbers out. The procedures
 * are in runtime/eval_*.c; nothing is computed here. */
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calib/imatrix.h"
#include "cli/cmd.h"
#include "core/bytes.h"
#include "core/io.h"
#include "core/kld_file.h"
#include "core/log.h"
#include "core/mem.h"
#include "core/num.h"
#include "runtime/eval.h"

enum { MAX_UBATCH = 2048, MAX_MODELS = 64, MAX_DEPTHS = 32 };

struct args {
    int64_t ctx, chunks, stride, pp, tg, reps;
    const char *kv_type, *act, *base, *base_file, *save_base, *depths, *ids, *out;
    bool by_depth;
};
struct loaded {
    struct model *m;
    struct session *s;
};

static int parse_kv(const char *name, enum qtype *out, struct err *e) {
    static const enum qtype ok[] = {QT_F32, QT_F16, QT_Q8_0};
    enum qtype t;
    if (qtype_parse(name, &t))
        for (size_t i = 0; i < COUNT_OF(ok); i++)
            if (ok[i] == t) {
                *out = t;
                return 0;
            }
    return err_set(e, ERR_USAGE, "--kv-type: '%s' is not one of f32, f16, q8_0", name);
}

static int parse_act(const char *name, enum act_mode *out, struct err *e) {
    if (strcmp(name, "f32") == 0)
        *out = ACT_F32;
    else if (strcmp(name, "q8") == 0)
        *out = ACT_Q8;
    else
        return err_set(e, ERR_USAGE, "--act: '%s' is not f32 or q8", name);
    return 0;
}

static int session_options(struct cli *c, const struct args *a, int64_t n_ctx,
                           struct session_opts *o, struct err *e) {
    *o = (struct session_opts){
        .n_ctx = n_ctx, .n_ubatch = min_i64(n_ctx, MAX_UBATCH), .isa = c->isa};
    TRY(parse_kv(a->kv_type, &o->kv_type, e));
    TRY(parse_act(a->act, &o->act, e));
    TRY(cli_pool(c, e));
    o->pool = c->pool;
    return 0;
}

static void close_one(struct loaded *l) {
    session_free(l->s);
    model_close(l->m);
    l->s = NULL;
    l->m = NULL;
}
static int open_one(struct cli *c, const struct args *a, const char *path, int64_t n_ctx,
                    struct loaded *l, struct err *e) {
    struct session_opts o;
    memset(l, 0, sizeof *l);
    TRY(session_options(c, a, n_ctx, &o, e));
    TRY(model_open(&l->m, path, e));
    int rc = session_new(&l->s, l->m, &o, e);
    if (rc) close_one(l);
    return rc;
}

static int load_text(const struct model *m, const char *path, struct ids *ids, struct err *e) {
    if (!m->tok)
        return err_set(e, ERR_DATA, "%s has no tokenizer, so the text cannot be read",
                       gguf_path(m->gguf));
    return corpus_load(m, path, false, ids, e);
}

/* ---- ppl ---- */

static int run_ppl(struct cli *c, const struct args *a, struct err *e) {
    struct loaded l;
    struct ids ids = {0};
    struct eval_ppl r;
    TRY(open_one(c, a, c->arg[0], a->ctx + a->stride / 2, &l, e));
    int rc = load_text(l.m, c->arg[1], &ids, e);
    if (!rc) rc = eval_ppl(l.s, &ids, a->ctx, a->stride, a->chunks, &r, e);
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
    close_one(&l);
    return rc;
}

static int cmd_ppl(struct cli *c, int argc, char **argv, struct err *e) {
    struct args a = {.ctx = 512, .kv_type = "f32", .act = "f32"};
    const struct opt opts[] = {
        {"ctx", 0, OPT_I64, &a.ctx, "N", "tokens of a window (512)"},
        {"chunks", 0, OPT_I64, &a.chunks, "N", "windows to run; 0: all (default)"},
        {"stride", 0, OPT_I64, &a.stride, "N",
         "overlapping windows advanced by N, last N tokens scored"},
        {"kv-type", 0, OPT_STR, &a.kv_type, "T",
         "cache of keys and values: f32 (default), f16, q8_0"},
        {"act", 0, OPT_STR, &a.act, "MODE", "activations: f32 (default) or q8"},
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

/* ---- kld ---- */

struct kld_key {
    const char *key;
    const char *title; /* of a table's column; NULL: only in JSON and CSV */
    const char *label; /* when there is one model; NULL: the title */
    size_t off;
    int prec;
};
#define K(field, title, label, prec)                                                               \
    { #field, title, label, offsetof(struct eval_kld, field), prec }
static const struct kld_key kld_keys[] = {
    K(ppl, "ppl", NULL, 4),
    K(ppl_stderr, NULL, "ppl +-", 4),
    K(ppl_base, "ppl base", NULL, 4),
    K(ppl_base_stderr, NULL, "ppl base +-", 4),
    K(ppl_ratio, NULL, "ppl ratio", 6),
    K(ppl_ratio_stderr, NULL, "ppl ratio +-", 6),
    K(ln_ppl_ratio, "ln ratio", "ln ppl ratio", 5),
    K(mean_kld, "mean KLD", NULL, 6),
    K(mean_kld_stderr, "+-", "mean KLD +-", 6),
    K(median_kld, "median", "median KLD", 6),
    K(kld_p90, NULL, "90 % KLD", 6),
    K(kld_p95, NULL, "95 % KLD", 6),
    K(kld_p99, "99 %", "99 % KLD", 5),
    K(kld_p999, "99.9 %", "99.9 % KLD", 5),
    K(max_kld, "max", "max KLD", 4),
    K(min_kld, NULL, "min KLD", 6),
    K(kld_p10, NULL, "10 % KLD", 6),
    K(kld_p05, NULL, "5 % KLD", 6),
    K(kld_p01, NULL, "1 % KLD", 6),
    K(rms_dp, "RMS dp", NULL, 5),
    K(rms_dp_stderr, NULL, "RMS dp +-", 6),
    K(mean_dp, NULL, "mean dp", 6),
    K(mean_dp_stderr, NULL, "mean dp +-", 6),
    K(same_top1, "same top", "same top token", 4),
    K(same_top1_stderr, NULL, "same top token +-", 5),
    K(correlation, NULL, "correlation of ln ppl", 5),
    K(tok_per_s, NULL, "tokens/s", 1),
};
#undef K

static double kld_value(const struct eval_kld *k, size_t i) {
    double v;
    memcpy(&v, (const char *)k + kld_keys[i].off, sizeof v);
    return v;
}

/* Mean divergence by position in the window: what long contexts add. */
static void emit_by_depth(struct emit *m, const float *kld, const struct eval_kld *k) {
    enum { BINS = 8 };
    int64_t per_chunk = k->ctx - 1 - k->ctx / 2;
    emit_table(m, "by_depth", "by position in the window");
    emit_col(m, "from", "from");
    emit_col(m, "to", "to");
    emit_col(m, "mean_kld", "mean KLD");
    emit_col(m, "mean_kld_stderr", "+-");
    for (int64_t b = 0; b < BINS; b++) {
        int64_t r0 = per_chunk * b / BINS, r1 = per_chunk * (b + 1) / BINS, n = 0;
        double s = 0, s2 = 0;
        for (int64_t i = 0; i < k->n_tokens; i++) {
            int64_t r = i % per_chunk;
            if (r < r0 || r >= r1) continue;
            s += (double)kld[i];
            s2 += (double)kld[i] * (double)kld[i];
            n++;
        }
        if (!n) continue;
        double mean = s / (double)n,
               var = n > 1 ? (s2 / (double)n - mean * mean) / (double)(n - 1) : 0;
        emit_row(m);
        emit_cell_i64(m, k->ctx / 2 + r0);
        emit_cell_i64(m, k->ctx / 2 + r1 - 1);
        emit_cell_num(m, mean, 6);
        emit_cell_num(m, var > 0 ? sqrt(var) : 0, 6);
    }
}

static void emit_one_kld(struct emit *m, const struct eval_kld *k) {
    for (size_t i = 0; i < COUNT_OF(kld_keys); i++)
        emit_num(m, kld_keys[i].key, kld_keys[i].label ? kld_keys[i].label : kld_keys[i].title,
                 kld_value(k, i), kld_keys[i].prec);
}
static void emit_many_kld(struct emit *m, struct cli *c, const struct eval_kld *k, int n) {
    emit_table(m, "candidates", "candidates");
    emit_col(m, "model", "model");
    for (size_t i = 0; i < COUNT_OF(kld_keys); i++) emit_col(m, kld_keys[i].key, kld_keys[i].title);
    for (int j = 0; j < n; j++) {
        emit_row(m);
        emit_cell_str(m, io_base(c->arg[j]));
        for (size_t i = 0; i < COUNT_OF(kld_keys); i++)
            emit_cell_num(m, kld_value(&k[j], i), kld_keys[i].prec);
    }
}

static void emit_kld(struct cli *c, const struct args *a, const struct eval_kld *k, int n,
                     float *const *kld) {
    struct emit *m = emit_new();
    emit_str(m, "base", "base", a->base ? a->base : a->base_file);
    if (n == 1) emit_str(m, "model", "model", c->arg[0]);
    emit_i64(m, "n_tokens", "scored tokens", k->n_tokens);
    emit_i64(m, "n_chunks", "chunks", k->n_chunks);
    emit_i64(m, "ctx", "ctx", k->ctx);
    emit_str(m, "kv_type", "kv type", a->kv_type);
    emit_str(m, "act", "activations", a->act);
    if (n == 1)
        emit_one_kld(m, k);
    else
        emit_many_kld(m, c, k, n);
    if (n == 1 && a->by_depth && kld) emit_by_depth(m, kld[0], k);
    cli_emit(c, m);
    emit_free(m);
}

static int kld_models(struct cli *c, const struct args *a, int n, struct err *e) {
    struct loaded base, cand[MAX_MODELS] = {{0}};
    struct session *s[MAX_MODELS];
    struct eval_kld k[MAX_MODELS];
    float *kld[MAX_MODELS] = {0};
    struct ids ids = {0};
    TRY(open_one(c, a, a->base, a->ctx, &base, e));
    int rc = load_text(base.m, c->arg[n], &ids, e);
    for (int i = 0; i < n && !rc; i++) {
        rc = open_one(c, a, c->arg[i], a->ctx, &cand[i], e);
        s[i] = cand[i].s;
    }
    if (!rc) rc = eval_kld(base.s, s, n, &ids, a->ctx, a->chunks, k, kld, e);
    if (!rc) emit_kld(c, a, k, n, kld);
    for (int i = 0; i < n; i++) {
        close_one(&cand[i]);
        free(kld[i]);
    }
    ids_release(&ids);
    close_one(&base);
    return rc;
}

static int kld_base_file(struct cli *c, const struct args *a, struct err *e) {
    struct loaded l;
    struct eval_kld k;
    if (c->n_args > 1)
        log_warn("%s is not read: the tokens are those of %s", c->arg[1], a->base_file);
    struct kld_r *file = NULL;
    TRY(kld_r_open(&file, a->base_file, e));
    int64_t ctx = kld_r_ctx(file);
    kld_r_close(file);
    TRY(open_one(c, a, c->arg[0], ctx, &l, e));
    int rc = eval_kld_file(l.s, a->base_file, a->chunks, &k, e);
    if (!rc) emit_kld(c, a, &k, 1, NULL);
    close_one(&l);
    return rc;
}

static int kld_save(struct cli *c, const struct args *a, struct err *e) {
    struct loaded l;
    struct ids ids = {0};
    TRY(open_one(c, a, c->arg[0], a->ctx, &l, e));
    int rc = load_text(l.m, c->arg[1], &ids, e);
    if (!rc) rc = eval_kld_save(l.s, &ids, a->ctx, a->chunks, a->save_base, c->overwrite, e);
    uint64_t size = 0;
    if (!rc) rc = io_file_size(a->save_base, &size, e);
    if (!rc) {
        struct emit *m = emit_new();
        emit_str(m, "output", "output", a->save_base);
        emit_i64(m, "ctx", "ctx", a->ctx);
        emit_i64(m, "n_chunks", "chunks",
                 a->chunks > 0 ? min_i64(a->chunks, ids.n / a->ctx) : ids.n / a->ctx);
        emit_i64(m, "size_bytes", "bytes", (int64_t)size);
        cli_emit(c, m);
        emit_free(m);
    }
    ids_release(&ids);
    close_one(&l);
    return rc;
}

static int run_kld(struct cli *c, const struct args *a, struct err *e) {
    if (!!a->base + !!a->base_file + !!a->save_base != 1)
        return err_set(e, ERR_USAGE, "eval kld: give one of --base, --base-file and --save-base");
    if (a->base_file) {
        if (c->n_args > 2)
            return err_set(e, ERR_USAGE, "eval kld --base-file compares one model at a time");
        return kld_base_file(c, a, e);
    }
    if (c->n_args < 2) return err_set(e, ERR_USAGE, "eval kld: the TEXT is missing");
    if (a->save_base) {
        if (c->n_args > 2) return err_set(e, ERR_USAGE, "eval kld --save-base takes one model");
        return kld_save(c, a, e);
    }
    if (c->n_args - 1 > MAX_MODELS)
        return err_set(e, ERR_USAGE, "eval kld: at most %d models at a time", MAX_MODELS);
    if (a->by_depth && c->n_args > 2)
        return err_set(e, ERR_USAGE, "eval kld --by-depth takes one model");
    return kld_models(c, a, c->n_args - 1, e);
}

static int cmd_kld(struct cli *c, int argc, char **argv, struct err *e) {
    struct args a = {.ctx = 512, .kv_type = "f32", .act = "f32"};
    const struct opt opts[] = {
        {"base", 0, OPT_STR, &a.base, "FILE", "the model to compare with, run at the same time"},
        {"base-file", 0, OPT_STR, &a.base_file, "FILE",
         "base logits in the field's format instead"},
        {"save-base", 0, OPT_STR, &a.save_base, "FILE", "write the model's logits in that format"},
        {"ctx", 0, OPT_I64, &a.ctx, "N", "tokens of a window (512; with --base-file the file's)"},
        {"chunks", 0, OPT_I64, &a.chunks, "N", "windows to run; 0: all (default)"},
        {"by-depth", 0, OPT_FLAG, &a.by_depth, NULL, "also by position in the window"},
        {"kv-type", 0, OPT_STR, &a.kv_type, "T",
         "cache of keys and values: f32 (default), f16, q8_0"},
        {"act", 0, OPT_STR, &a.act, "MODE", "activations: f32 (default) or q8"},
    };
    const struct cmd_spec spec = {
        .name = "eval kld",
        .synopsis = "MODEL.gguf... TEXT --base BASE.gguf | MODEL.gguf --base-file F | BASE.gguf "
                    "TEXT --save-base F",
        .about =
            "Divergence of next-token distributions from a base model's. Several models are "
            "compared with\n"
            "the base in one pass over the text; nothing of size tokens x vocabulary is stored.",
        .opts = opts,
        .n_opts = (int)COUNT_OF(opts),
        .min_args = 1,
        .max_args = -1,
    };
    TRY(cli_parse(c, &spec, argc, argv, e));
    return c->done ? 0 : run_kld(c, &a, e);
}

/* ---- speed ---- */

static int parse_depths(const char *text, int64_t out[MAX_DEPTHS], int *n, struct err *e) {
    *n = 0;
    for (const char *p = text;;) {
        char *end;
        int64_t v = strtoll(p, &end, 10);
        if (end == p || v < 0 || (*end && *end != ',') || *n >= MAX_DEPTHS)
            return err_set(e, ERR_USAGE, "--depths: '%s' is not a list of token counts (0,4096)",
                           text);
        out[(*n)++] = v;
        if (!*end) return 0;
        p = end + 1;
    }
}

static void emit_speed(struct cli *c, const struct args *a, const struct loaded *l,
                       const struct eval_speed *r, int n) {
    struct emit *m = emit_new();
    char size[48];
    emit_fmt_bytes(size, gguf_file_bytes(l->m->gguf));
    emit_str(m, "model", "model", c->arg[0]);
    emit_i64(m, "size_bytes", NULL, (int64_t)gguf_file_bytes(l->m->gguf));
    emit_str(m, "size", "size", size);
    emit_str(m, "kv_type", "kv type", a->kv_type);
    emit_str(m, "act", "activations", a->act);
    emit_num(m, "bandwidth_gb_per_s", "memory read GB/s", eval_bandwidth(c->pool), 1);
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

static int run_speed(struct cli *c, const struct args *a, struct err *e) {
    int64_t depth[MAX_DEPTHS], deepest = 0;
    struct eval_speed r[2 * MAX_DEPTHS];
    struct loaded l;
    int n_depths, n = 0;
    TRY(parse_depths(a->depths, depth, &n_depths, e));
    for (int i = 0; i < n_depths; i++) deepest = max_i64(deepest, depth[i]);
    if (deepest > INT32_MAX || a->pp > INT32_MAX || a->tg > INT32_MAX || a->reps > INT32_MAX)
        return err_set(e, ERR_USAGE, "eval speed: the numbers are too large");
    TRY(open_one(c, a, c->arg[0], deepest + max_i64(max_i64(a->pp, a->tg), 1), &l, e));
    int rc = eval_speed(l.s, a->pp, a->tg, depth, n_depths, (int)a->reps, eval_bandwidth(c->pool),
                        r, &n, e);
    if (!rc) emit_speed(c, a, &l, r, n);
    close_one(&l);
    return rc;
}

static int cmd_speed(struct cli *c, int argc, char **argv, struct err *e) {
    struct args a = {.pp = 512, .tg = 128, .reps = 5, .depths = "0", .kv_type = "f16", .act = "q8"};
    const struct opt opts[] = {
        {"pp", 0, OPT_I64, &a.pp, "N", "tokens of the prompt test (512); 0: none"},
        {"tg", 0, OPT_I64, &a.tg, "N", "tokens of the generation test (128); 0: none"},
        {"depths", 0, OPT_STR, &a.depths, "LIST", "context already filled: 0,4096 (0)"},
        {"reps", 0, OPT_I64, &a.reps, "N", "repetitions (5)"},
        {"kv-type", 0, OPT_STR, &a.kv_type, "T",
         "cache of keys and values: f32, f16 (default), q8_0"},
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

static int write_logits(struct loaded *l, const int32_t *ids, int64_t n, struct out *o,
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

static int run_logits(struct cli *c, const struct args *a, struct err *e) {
    struct map map = {0};
    struct loaded l = {0};
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
        rc = open_one(c, a, c->arg[0], n, &l, e);
    }
    if (!rc) rc = out_open(&o, a->out, c->overwrite, e);
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
    close_one(&l);
    free(ids);
    map_close(&map);
    return rc;
}

static int cmd_logits(struct cli *c, int argc, char **argv, struct err *e) {
    struct args a = {.kv_type = "f32", .act = "f32"};
    const struct opt opts[] = {
        {"ids", 0, OPT_STR, &a.ids, "FILE", "little-endian int32 token ids"},
        {"output", 'o', OPT_STR, &a.out, "FILE", "float32 [n][n_vocab], little-endian"},
        {"kv-type", 0, OPT_STR, &a.kv_type, "T",
         "cache of keys and values: f32 (default), f16, q8_0"},
        {"act", 0, OPT_STR, &a.act, "MODE", "activations: f32 (default) or q8"},
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
    static const struct {
        const char *name;
        int (*run)(struct cli *c, int argc, char **argv, struct err *e);
        const char *summary;
    } sub[] = {{"ppl", cmd_ppl, "perplexity of a text"},
               {"kld", cmd_kld, "divergence from a base model"},
               {"speed", cmd_speed, "tokens per second"},
               {"logits", cmd_logits, "raw logits of a token sequence"}};
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        printf("usage: hone eval ppl|kld|speed|logits MODEL.gguf ...\n\n");
        for (size_t i = 0; i < COUNT_OF(sub); i++)
            printf("  %-8s %s\n", sub[i].name, sub[i].summary);
        printf("\n'hone eval ppl --help' describes one of them\n");
        return 0;
    }
    for (size_t i = 0; i < COUNT_OF(sub) && argc > 1; i++)
        if (strcmp(argv[1], sub[i].name) == 0) return sub[i].run(c, argc - 1, argv + 1, e);
    if (argc < 2) return err_set(e, ERR_USAGE, "eval: say what: ppl, kld, speed or logits");
    return err_set(e, ERR_USAGE, "eval: unknown subcommand '%s'; known are ppl, kld, speed, logits",
                   argv[1]);
}
