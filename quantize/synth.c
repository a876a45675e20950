// SPDX-License-Identifier: MIT
/* quantize/synth.c - random GGUF models: they have the tensors and keys that converting a
 * checkpoint with this config.json would give, in a recipe's types, with random contents.
 *
 * Matrix weights have a root mean square of 0.02; norms are 1; decay rates and time steps are in
 * the range of trained ones, so activations stay finite through any number of layers. Router
 * weights are rounded to BF16, as in published checkpoints, and choose every expert about equally
 * often, the worst case for caches. A skew s divides the row of the expert of rank r by 1 + s r, so
 * that few experts get most tokens. There is no vocabulary: tokenizer.ggml.model is no_vocab, which
 * other engines read as vocab_size dummy tokens.
 *
 * A tensor is filled in chunks of CHUNK_BLOCKS blocks. Each chunk has its own generator, seeded by
 * (seed, tensor name, chunk), so the bytes depend on nothing else. */
#include "quantize/synth.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/attr.h"
#include "base/bytes.h"
#include "base/fp.h"
#include "base/hash.h"
#include "containers/hfdir.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/progress.h"
#include "quantize/qplan.h"

enum { BATCH_BYTES = 16 << 20, CHUNK_BLOCKS = 512, MAX_CONFIG = 64 << 20 };

static const struct {
    const char *name, *config;
} shapes[] = {
#define SHAPE(name, config) {name, config},
#include "quantize/synth_shapes.def"
#undef SHAPE
};

struct synth {
    const struct synth_opts *o;
    struct hfdir *dir;
    const struct arch *arch;
    struct hparams hp;
    struct tensor_inst *inst;
    struct qplan plan; /* one item per tensor */
    struct gguf_w *w;
    struct progress prog;
    uint8_t *batch;
};

/* ---- tensors and types ----------------------------------------------------------------------- */

/* Reads the built-in or given config.json that names the shape. */
static int read_shape(struct synth *s, struct err *e) {
    const char *name = s->o->shape;
    for (size_t i = 0; i < COUNT_OF(shapes); i++)
        if (strcasecmp(shapes[i].name, name) == 0)
            return hfdir_from_config(&s->dir, shapes[i].config, strlen(shapes[i].config),
                                     shapes[i].name, e);
    char *text;
    size_t len;
    if (!io_exists(name))
        return err_set(e, ERR_USAGE, "%s is neither a config.json nor one of %s, %s and %s", name,
                       shapes[0].name, shapes[1].name, shapes[2].name);
    TRY(io_read_file(&text, &len, name, MAX_CONFIG, e));
    int rc = hfdir_from_config(&s->dir, text, len, name, e);
    free(text);
    return rc;
}

/* Derives architecture and hyperparameters; --layers replaces the number of layers. */
static int read_model(struct synth *s, struct err *e) {
    TRY(read_shape(s, e));
    const char *cls = json_str(json_first(json_get(hfdir_config(s->dir), "architectures")));
    s->arch = cls ? arch_find_dir(cls, s->dir) : NULL;
    if (!s->arch) return arch_refuse_class(s->o->shape, cls ? cls : "(none)", e);
    TRY(hparams_from_hf(&s->hp, s->arch, s->dir, e));
    if (s->o->layers > HP_MAX_LAYERS)
        return err_set(e, ERR_USAGE, "--layers: at most %d", HP_MAX_LAYERS);
    if (s->o->layers) s->hp.d[HD_LAYERS] = s->o->layers;
    s->hp.d[HD_MTP] = 0;
    return s->arch->derive(&s->hp, e);
}

enum qtype synth_stored(const struct tensor_inst *t) {
    return t->n_dims == 1 || (t->row->flags & TR_F32) ? QT_F32 : QT_BF16;
}

/* Lists every tensor that conversion would create, in the type that a BF16 checkpoint would give
 * it, and applies the recipe. */
static int choose_types(struct synth *s, struct err *e) {
    struct qplan *p = &s->plan;
    int64_t n, kept = 0;
    TRY(arch_tensors(s->arch, &s->hp, &s->inst, &n, e));
    p->item = xcalloc((size_t)n + 1, sizeof *p->item);
    for (int64_t i = 0; i < n; i++) {
        struct tensor_inst *t = &s->inst[i];
        if (t->optional) continue;
        s->inst[kept] = *t;
        struct recipe_item *it = &p->item[kept];
        it->from = synth_stored(t);
        memcpy(it->ne, t->ne, sizeof it->ne);
        kept++;
    }
    for (int64_t i = 0; i < kept; i++) p->item[i].name = s->inst[i].name;
    p->n = kept;
    const struct recipe_model m = {.arch = s->arch,
                                   .n_blocks = s->hp.d[HD_LAYERS],
                                   .heads = hp_dim(&s->hp, 0, HD_HEADS),
                                   .kv_heads = hp_dim(&s->hp, 0, HD_KV_HEADS),
                                   .experts = s->hp.d[HD_EXPERTS],
                                   .tied = s->hp.tied,
                                   .imatrix = true};
    const struct quantize_opts q = {.recipe = s->o->recipe};
    recipe_roles(&m, p->item, p->n);
    return qplan_choose(p, &m, &q, e);
}

/* Writes the keys and declares the tensors of the synthetic file. */
static int declare_output(struct synth *s, struct synth_report *r, struct err *e) {
    char key[64];
    s->w = gguf_w_new();
    gguf_w_str(s->w, "general.architecture", s->arch->name);
    gguf_w_str(s->w, "general.type", "model");
    gguf_w_str(s->w, "general.name", "random weights");
    hparams_write(&s->hp, s->arch, s->w);
    if (strlen(s->arch->name) + sizeof ".vocab_size" <= sizeof key) {
        memcpy(key, s->arch->name, strlen(s->arch->name) + 1);
        memcpy(key + strlen(key), ".vocab_size", sizeof ".vocab_size");
        gguf_w_u32(s->w, key, (uint32_t)s->hp.d[HD_VOCAB]);
    }
    gguf_w_u32(s->w, "general.file_type", (uint32_t)max_i64(0, s->plan.ftype));
    gguf_w_u32(s->w, "general.quantization_version", 2);
    if (s->o->vocab)
        TRY(s->o->vocab(s->o->vocab_ud, s->hp.d[HD_VOCAB], s->w, e));
    else
        gguf_w_str(s->w, "tokenizer.ggml.model", "no_vocab");
    for (int64_t i = 0; i < s->plan.n; i++) {
        const struct tensor_inst *t = &s->inst[i];
        enum qtype type = s->plan.item[i].type;
        struct rng none = {0};
        uint8_t probe[512];
        if (!synth_blocks(type, &none, probe, 1))
            return err_set(e, ERR_USAGE, "random blocks of type %s cannot be made",
                           qtype_name(type));
        TRY(gguf_w_tensor(s->w, t->name, type, t->n_dims, t->ne, e));
        int64_t rows = t->ne[1] * t->ne[2] * t->ne[3];
        r->n_weights += t->ne[0] * rows;
        r->tensor_bytes += qtype_row_bytes(type, t->ne[0]) * (uint64_t)rows;
    }
    r->file_bytes = gguf_w_total_bytes(s->w);
    r->n_tensors = s->plan.n;
    r->n_layers = s->hp.d[HD_LAYERS];
    memcpy(r->recipe, s->plan.name, sizeof r->recipe);
    size_t len = strlen(s->arch->name);
    memcpy(r->arch, s->arch->name, len < sizeof r->arch ? len : sizeof r->arch - 1);
    return 0;
}

/* ---- weights --------------------------------------------------------------------------------- */

enum fill { FILL_BLOCKS, FILL_UNIFORM, FILL_NORMAL, FILL_ROUTER };
static const struct special { /* by name ending; all are F32 */
    const char *end;
    enum fill fill;
    /* Range of a uniform fill, standard deviation of a normal fill, or of a router. */
    float a, b;
} specials[] = {
    {"ssm_a", FILL_UNIFORM, -8, -0.1f},
    {"ssm_dt.bias", FILL_UNIFORM, -6, 1},
    {"ssm_conv1d.weight", FILL_NORMAL, 0.3f, 0},
    {"ffn_gate_inp.weight", FILL_ROUTER, 0.02f, 0},
};
static const struct special ones = {"", FILL_UNIFORM, 1, 1};

/* Returns how to fill tensors such as norms; NULL: with random weights. */
static const struct special *special_of(const struct tensor_inst *t) {
    size_t n = strlen(t->name);
    for (size_t i = 0; i < COUNT_OF(specials); i++) {
        size_t k = strlen(specials[i].end);
        if (n >= k && strcmp(t->name + n - k, specials[i].end) == 0) return &specials[i];
    }
    return t->n_dims == 1 ? &ones : NULL;
}

struct job {
    const struct tensor_inst *t;
    const struct special *sp;
    enum qtype type;
    uint64_t seed; /* each tensor has its own */
    double skew;
    int64_t first;    /* first chunk of the current batch */
    int64_t n_blocks; /* blocks in the batch */
    uint8_t *out;
};

/* Returns a seed for item b of a. */
static uint64_t mix_seeds(uint64_t a, uint64_t b) {
    struct rng r = {a ^ (b + 1) * 0x9e3779b97f4a7c15u};
    return rng_u64(&r) ^ a;
}

/* Returns the factor that shrinks the row of an expert. Ranks are spread over the experts: row * 37
 * visits each expert once unless 37 divides their number. */
static float row_scale(const struct job *j, int64_t row) {
    int64_t rank = row * 37 % j->t->ne[1];
    return (float)(1 / (1 + j->skew * (double)rank));
}

/* Fills n values, starting at value `first` of the tensor, by the rule j->sp. */
static void fill_floats(const struct job *j, struct rng *r, int64_t first, int64_t n, uint8_t *p) {
    for (int64_t i = 0; i < n; i++) {
        float v = j->sp->a;
        if (j->sp->fill == FILL_UNIFORM)
            v = rng_f32(r, j->sp->a, j->sp->b);
        else
            v *= rng_normal(r);
        if (j->sp->fill == FILL_ROUTER)
            v = fp_bf16_to_f32(fp_f32_to_bf16(v * row_scale(j, (first + i) / j->t->ne[0])));
        store_f32(p + 4 * i, v);
    }
}

/* Fills chunks [begin, end) of blocks; each has its own seed. */
static void fill_chunks(void *ctx, int64_t begin, int64_t end, int worker) {
    const struct job *j = ctx;
    int64_t size = qtype_info(j->type)->block_bytes;
    (void)worker;
    for (int64_t c = begin; c < end; c++) {
        struct rng r;
        int64_t at = c * CHUNK_BLOCKS, n = min_i64(CHUNK_BLOCKS, j->n_blocks - at);
        rng_seed(&r, mix_seeds(j->seed, (uint64_t)(j->first + c)));
        if (j->sp)
            fill_floats(j, &r, j->first * CHUNK_BLOCKS + at, n, j->out + at * size);
        else
            synth_blocks(j->type, &r, j->out + at * size, n);
    }
}

/* Writes the random blocks of tensor i, batch by batch. */
static int write_tensor(struct synth *s, int64_t i, struct err *e) {
    const struct tensor_inst *t = &s->inst[i];
    struct job j = {.t = t, .type = s->plan.item[i].type, .skew = s->o->skew, .out = s->batch};
    const struct qtype_info *info = qtype_info(j.type);
    j.sp = special_of(t);
    j.seed = mix_seeds(s->o->seed, hash_u64(t->name, strlen(t->name)));
    int64_t left = t->ne[0] / info->block_elems * t->ne[1] * t->ne[2] * t->ne[3];
    int64_t chunks = BATCH_BYTES / info->block_bytes / CHUNK_BLOCKS;
    for (; left > 0; left -= j.n_blocks, j.first += chunks) {
        if (progress_interrupted()) return err_set(e, ERR_INTR, "interrupted");
        j.n_blocks = min_i64(left, chunks * CHUNK_BLOCKS);
        pool_for(s->o->pool, div_up(j.n_blocks, CHUNK_BLOCKS), 1, fill_chunks, &j);
        uint64_t bytes = (uint64_t)j.n_blocks * (uint64_t)info->block_bytes;
        TRY(gguf_w_data(s->w, s->batch, bytes, e));
        progress_update(&s->prog, s->prog.done + bytes);
    }
    return 0;
}

/* Writes all tensors with random blocks and commits the file; bytes: their total size. */
static int write_all(struct synth *s, uint64_t bytes, struct err *e) {
    void *p;
    int rc = 0;
    TRY(mem_alloc(&p, BATCH_BYTES, "random blocks", e));
    s->batch = p;
    TRY(gguf_w_begin(s->w, s->o->out, s->o->overwrite, e));
    progress_begin(&s->prog, s->plan.name, PROG_BYTES, bytes);
    for (int64_t i = 0; i < s->plan.n && rc == 0; i++) rc = write_tensor(s, i, e);
    progress_end(&s->prog);
    return rc ? rc : gguf_w_commit(s->w, e);
}

int synth_run(const struct synth_opts *o, struct synth_report *r, struct err *e) {
    struct synth s = {.o = o};
    double t0 = progress_now_s();
    int rc;
    memset(r, 0, sizeof *r);
    TRY_GOTO(out, rc, read_model(&s, e));
    TRY_GOTO(out, rc, choose_types(&s, e));
    TRY_GOTO(out, rc, declare_output(&s, r, e));
    if (!o->dry_run) rc = write_all(&s, r->tensor_bytes, e);
out:
    gguf_w_free(s.w);
    qplan_release(&s.plan);
    free(s.inst);
    hfdir_close(s.dir);
    mem_free(s.batch);
    r->seconds = progress_now_s() - t0;
    return rc;
}
