// SPDX-License-Identifier: MIT
/* convert/lora_bind.c - LoRA deltas: finds the adapter's tensors for a weight and adds them.
 *
 * peft does not store the parameter's name for fused experts (target_parameters). It nests
 * wrappers, "...experts" and "...experts.base_layer", around one module; only their shapes tell
 * them apart. Which side of the matrix A spans depends on the version of peft. It also follows from
 * the shapes, except for square matrices. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "convert/lora_int.h"
#include "base/attr.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"

/* ---- finding ---- */

/* Parts of names that differ between checkpoints or tables and models in memory. */
static const char *const alias[][2] = {
    {NULL, NULL},
    {"block_sparse_moe.", "mlp."},
    {"block_sparse_moe.gate.", "mlp.router."}, /* PhiMoE */
    {"block_sparse_moe.router.layer.", "block_sparse_moe.router."},
    {"mlp.router.gate.", "mlp.gate."},
    {"mlp.shared_expert.", "mlp.shared_experts."},
    {"mlp.shared_mlp.", "mlp.shared_experts."},
    {"mlp.experts.e_score_correction_bias", "mlp.gate.e_score_correction_bias"},
    {"block_sparse_moe.e_score_correction_bias", "mlp.gate.e_score_correction_bias"},
    {"mlp.gate.expert_bias", "mlp.gate.e_score_correction_bias"},
    {"mlp.expert_bias", "mlp.gate.e_score_correction_bias"},
    {"attention.dense.", "self_attn.o_proj."}, /* Bailing */
    {"attention.f_proj.", "self_attn.forget_gate.f_proj."},
    {"attention.dt_bias", "self_attn.forget_gate.dt_bias"},
    {"attention.A_log", "self_attn.forget_gate.A_log"},
    {"attention.", "self_attn."},
    {"self_attn.f_", "self_attn.forget_gate.f_"}, /* Kimi Linear */
    {"self_attn.dt_bias", "self_attn.forget_gate.dt_bias"},
    {"self_attn.A_log", "self_attn.forget_gate.A_log"},
    {"self_attn.index_", "self_attn.indexer."},
    {"word_embeddings.", "embed_tokens."},
    {"backbone.", "model."},
    {"embed_out.", "lm_head."}};
/* Fused experts whose module and parameter have other names in memory (Granite MoE). */
static const char *const expert_alias[][2] = {
    {".block_sparse_moe.input_linear.weight", ".block_sparse_moe.experts.gate_up_proj"},
    {".block_sparse_moe.output_linear.weight", ".block_sparse_moe.experts.down_proj"}};

/* Returns the index of the tensor named stem + tail, with swap[0] replaced by swap[1]; -1: none. */
static int64_t find_as(const struct lora *l, const char *const swap[2], const char *stem,
                       size_t len, const char *tail) {
    char name[2 * DQ_NAME];
    if (len + strlen(tail) + 32 >= sizeof name) return -1;
    memcpy(name, stem, len);
    memcpy(name + len, tail, strlen(tail) + 1);
    char *at = swap[0] ? strstr(name, swap[0]) : NULL;
    if (swap[0] && (!at || (at != name && at[-1] != '.'))) return -1;
    if (at) {
        const size_t n = strlen(swap[0]), m = strlen(swap[1]);
        memmove(at + m, at + n, strlen(at + n) + 1);
        memcpy(at, swap[1], m);
    }
    return strmap_get(l->by_name, name, strlen(name));
}

/* Returns the index of a module's tensor, under any of its aliases; -1: not found. */
static int64_t find_tensor(const struct lora *l, const char *stem, size_t len, const char *tail) {
    int64_t i = -1;
    for (size_t k = 0; k < COUNT_OF(alias) && i < 0; k++) i = find_as(l, alias[k], stem, len, tail);
    return i;
}

/* Finds the two matrices of a module and sets *crossed if they belong to an embedding. False: one
 * is missing. */
static bool find_pair(const struct lora *l, const char *stem, size_t len, int64_t *a, int64_t *b,
                      bool *crossed) {
    *crossed = false;
    *a = find_tensor(l, stem, len, ".lora_A.weight");
    *b = find_tensor(l, stem, len, ".lora_B.weight");
    if (*a >= 0 && *b >= 0) return true;
    *crossed = true;
    *a = find_tensor(l, stem, len, ".lora_embedding_A");
    *b = find_tensor(l, stem, len, ".lora_embedding_B");
    return *a >= 0 && *b >= 0;
}

/* Returns the length of the module's name within a tensor name. */
static size_t stem_of(const char *name) {
    const size_t len = strlen(name);
    return str_ends(name, ".weight") ? len - 7 : str_ends(name, ".bias") ? len - 5 : len;
}

/* Returns the adapter's tensor that replaces the named one as a whole, or -1. */
static int64_t find_whole(const struct lora *l, const char *name) {
    const size_t len = strlen(name), stem = stem_of(name);
    int64_t i = find_tensor(l, name, len, "");
    if (i < 0 && stem < len)
        i = find_tensor(l, name, stem,
                        str_ends(name, ".bias") ? ".base_layer.bias" : ".base_layer.weight");
    return i;
}

bool lora_touches(const struct lora *l, const char *name) {
    int64_t a, b;
    bool crossed;
    return find_whole(l, name) >= 0 || find_pair(l, name, stem_of(name), &a, &b, &crossed);
}

const struct st_tensor *lora_whole(struct lora *l, const char *name) {
    const int64_t i = find_whole(l, name);
    if (i < 0) return NULL;
    l->used[i] = true;
    return st_tensor_at(l->st, i);
}

/* ---- binding ---- */

/* Returns whether tensor i is a matrix of this size. */
static bool is_matrix(const struct lora *l, int64_t i, int64_t rows, int64_t cols) {
    const struct st_tensor *t = st_tensor_at(l->st, i);
    return t->n_dims == 2 && t->shape[0] == rows && t->shape[1] == cols;
}

/* Sets and returns the error for a tensor that does not fit the model. */
static int bad_pair(const struct lora *l, int64_t i, struct err *e) {
    return err_set(e, ERR_DATA,
                   "%s: %s does not fit the model: the adapter was made for another model",
                   st_path(l->st), LORA_SHOW(st_tensor_at(l->st, i)->name));
}

/* Sets and returns the error for tensor i, of rank r, whose rank in the configuration is `want`. */
static int bad_rank(const struct lora *l, int64_t i, int64_t r, double want, struct err *e) {
    const char *name = st_tensor_at(l->st, i)->name;
    if (l->no_rank && !(fabs(want - l->rank) > 0))
        return err_set(e, ERR_DATA,
                       "%s: r is missing: peft assumes 8, but %s has rank %lld; if that is right, "
                       "write it as r",
                       l->path, LORA_SHOW(name), (long long)r);
    return err_set(e, ERR_DATA,
                   "%s: %s has rank %lld, but %s gives it rank %g: the two files belong to "
                   "different adapters; copy both from one save",
                   st_path(l->st), LORA_SHOW(name), (long long)r, l->path, want);
}

/* Binds tensors i (A) and j (B) to q. param: the parameter within the module; "" for the module's
 * weight. */
static int bind_pair(struct lora *l, struct dq *q, int64_t i, int64_t j, const char *param,
                     struct lora_delta d, struct err *e) {
    struct lora_delta *out = arena_alloc(&l->arena, sizeof *out);
    char *module = xstrdup(l->module[i]), *at = strstr(module, ".lora_");
    double alpha = l->alpha, rank = l->rank;
    if (at) *at = 0;
    while ((at = strstr(module, ".base_layer"))) memmove(at, at + 11, strlen(at + 11) + 1);
    char *key = *param ? xasprintf("%s.%s", module, param) : xstrdup(module);
    int rc = lora_pattern(l, "alpha_pattern", key, &alpha, e);
    if (!rc) rc = lora_pattern(l, "rank_pattern", key, &rank, e);
    if (!rc && fabs(rank - (double)d.rank) > 0) rc = bad_rank(l, i, d.rank, rank, e);
    free(module);
    free(key);
    if (rc) return rc;
    l->used[i] = l->used[j] = true;
    d.a = st_tensor_at(l->st, i);
    d.b = st_tensor_at(l->st, j);
    d.scale = (float)(alpha / (l->rslora ? sqrt((double)d.rank) : (double)d.rank));
    *out = d;
    q->delta = out;
    return 0;
}

/* Binds the two matrices of one module, a linear layer or an embedding. */
static int bind_module(struct lora *l, const char *name, bool turned, struct dq *q, struct err *e) {
    int64_t i, j, rows = q->rows, cols = q->cols;
    bool crossed;
    if (!find_pair(l, name, stem_of(name), &i, &j, &crossed)) return 0;
    const struct st_tensor *a = st_tensor_at(l->st, i);
    const int64_t r = a->n_dims == 2 ? a->shape[0] : 0;
    /* A single matrix stored transposed is bound in its stored shape. */
    if (turned && q->mats == 1 && r > 0 && !is_matrix(l, i, r, crossed ? rows : cols)) {
        rows = q->cols;
        cols = q->rows;
    }
    if (q->mats != 1 || r < 1 || !is_matrix(l, i, r, crossed ? rows : cols) ||
        !is_matrix(l, j, crossed ? cols : rows, r))
        return bad_pair(l, i, e);
    return bind_pair(
        l, q, i, j, "",
        (struct lora_delta){.rank = r, .n_experts = 1, .expert = -1, .crossed = crossed}, e);
}

/* Binds the two matrices of a layer in which the model fuses gate and up, which the folder stores
 * apart (MiniMax M3). */
static int bind_gate_up(struct lora *l, const char *name, struct dq *q, struct err *e) {
    static const char *const part[] = {".gate_proj.", ".up_proj."};
    char fused[2 * DQ_NAME];
    for (int k = 0; k < 2 && q->mats == 1; k++) {
        const char *at = strstr(name, part[k]);
        int64_t i, j;
        bool crossed;
        if (!at) continue;
        snprintf(fused, sizeof fused, "%.*s.gate_up_proj.%s", (int)(at - name), name,
                 at + strlen(part[k]));
        if (!find_pair(l, fused, stem_of(fused), &i, &j, &crossed) || crossed) continue;
        const struct st_tensor *a = st_tensor_at(l->st, i);
        const int64_t r = a->n_dims == 2 ? a->shape[0] : 0;
        if (r < 1 || !is_matrix(l, i, r, q->cols) || !is_matrix(l, j, 2 * q->rows, r))
            return bad_pair(l, i, e);
        return bind_pair(
            l, q, i, j, "",
            (struct lora_delta){.rank = r, .n_experts = 1, .expert = -1, .row0 = k * q->rows}, e);
    }
    return 0;
}

/* A parameter of fused experts, and the source that holds all or part of it. */
struct fused {
    const char *name;
    size_t stem; /* length of the module's name */
    char param[32];
    int64_t n_experts, expert; /* expert -1: the source has all */
    int64_t rows, cols, row0;  /* the parameter's shape in the model; offset of the source in it */
    int64_t twin_rows, twin_cols; /* shape of the module's other parameter */
    bool turned;                  /* stored as [cols][rows] */
};

static const char *const wraps[] = {"", ".base_layer", ".base_layer.base_layer"};

/* Returns the rank of the matrices *i and *j of a wrapper if they fit a parameter [rows][cols]; 0:
 * they do not. */
static int64_t fitting_rank(const struct lora *l, const struct fused *f, size_t wrap, bool crossed,
                            int64_t rows, int64_t cols, int64_t *i, int64_t *j) {
    char tail[64];
    snprintf(tail, sizeof tail, "%s.lora_A.weight", wraps[wrap]);
    *i = find_tensor(l, f->name, f->stem, tail);
    snprintf(tail, sizeof tail, "%s.lora_B.weight", wraps[wrap]);
    *j = find_tensor(l, f->name, f->stem, tail);
    if (*i < 0 || *j < 0) return 0;
    const struct st_tensor *a = st_tensor_at(l->st, *i);
    const int64_t all = a->n_dims == 2 ? a->shape[0] : 0, r = all / f->n_experts;
    const bool fit = r > 0 && is_matrix(l, *i, r * f->n_experts, crossed ? rows : cols) &&
                     is_matrix(l, *j, crossed ? cols : rows, r * f->n_experts);
    return fit ? r : 0;
}

/* Determines which side A spans: from the module's other parameter if that is not square, otherwise
 * from the version of peft. */
static bool is_crossed(const struct lora *l, const struct fused *f) {
    int64_t i, j;
    for (size_t w = 0; w < COUNT_OF(wraps) && f->twin_rows != f->twin_cols; w++) {
        if (fitting_rank(l, f, w, false, f->twin_rows, f->twin_cols, &i, &j)) return false;
        if (fitting_rank(l, f, w, true, f->twin_rows, f->twin_cols, &i, &j)) return true;
    }
    if (l->swapped_0) return true; /* A spans the rows in either case */
    return l->rows_first ? !f->turned : false;
}

/* Returns whether the adapter may train this parameter of the experts. Its config lists the trained
 * ones; names that do not end in _proj may differ from the checkpoint's and always pass. */
static bool is_target(const struct lora *l, const char *param) {
    const struct json *list = json_get(l->cfg, "target_parameters");
    const size_t n = strlen(param);
    if (json_type(list) != JSON_ARR || !str_ends(param, "_proj")) return true;
    for (const struct json *j = json_first(list); j; j = json_next(j)) {
        const char *s = json_str(j);
        const size_t len = s ? strlen(s) : 0;
        if (len >= n && strcmp(s + len - n, param) == 0 && (len == n || s[len - n - 1] == '.'))
            return true;
    }
    return false;
}

/* Binds the adapter of a fused expert tensor to one of its matrices. */
static int bind_fused(struct lora *l, const struct fused *f, struct dq *q, struct err *e) {
    const bool crossed = is_crossed(l, f), down = strcmp(f->param, "down_proj") == 0;
    if (!is_target(l, f->param)) return 0;
    for (int k = 0; k < 2; k++)
        for (size_t w = 0; w < COUNT_OF(wraps); w++) {
            int64_t i, j;
            const bool is = k ? !crossed : crossed;
            const size_t wrap = down ? w : COUNT_OF(wraps) - 1 - w; /* last: outermost */
            const int64_t r = fitting_rank(l, f, wrap, is, f->rows, f->cols, &i, &j);
            if (r)
                return bind_pair(l, q, i, j, f->param,
                                 (struct lora_delta){.rank = r,
                                                     .n_experts = f->n_experts,
                                                     .expert = f->expert,
                                                     .row0 = f->row0,
                                                     .crossed = is},
                                 e);
        }
    return 0;
}

/* Binds the matrices of fused experts to q. q may be a part, such as "...experts.7.up_proj.weight",
 * in checkpoints that store experts separately. */
static int bind_experts(struct lora *l, const char *name, int64_t n_experts, bool turned,
                        struct dq *q, struct err *e) {
    static const char mark[] = ".experts.";
    const char *at = strstr(name, mark);
    if (n_experts < 1 || (!at && q->mats != n_experts)) return 0;
    char *rest = NULL;
    struct fused f = {.name = name,
                      .n_experts = n_experts,
                      .expert = -1,
                      .turned = turned,
                      .rows = q->rows,
                      .cols = q->cols};
    f.stem = at ? (size_t)(at - name) + sizeof mark - 2 : stem_of(name);
    if (at) f.expert = strtoll(at + sizeof mark - 1, &rest, 10);
    const bool single = at && rest != at + sizeof mark - 1;
    if (!single) f.expert = -1;
    if (!single && q->mats != n_experts) return 0;
    const char *leaf = single ? rest + (*rest == '.') : at ? at + sizeof mark - 1 : "weight";
    const bool down = strstr(leaf, "down_proj") || strncmp(leaf, "w2", 2) == 0;
    const bool up =
        !strstr(leaf, "gate") && (strstr(leaf, "up_proj") || strncmp(leaf, "w3", 2) == 0);
    const char *param = single ? down ? "down_proj" : "gate_up_proj" : leaf;
    snprintf(f.param, sizeof f.param, "%.*s", (int)strcspn(param, "."), param);
    if (!single || down) {
        f.twin_rows = down ? 2 * f.cols : f.cols;
        f.twin_cols = down ? f.rows : f.rows / 2;
        return bind_fused(l, &f, q, e);
    }
    f.rows = 2 * q->rows; /* the model fuses gate and up */
    f.row0 = up ? q->rows : 0;
    f.twin_rows = q->cols;
    f.twin_cols = q->rows;
    TRY(bind_fused(l, &f, q, e));
    if (q->delta || !up) return 0;
    f.rows = q->rows; /* no gate */
    f.row0 = 0;
    snprintf(f.param, sizeof f.param, "up_proj");
    return bind_fused(l, &f, q, e);
}

int lora_bind(struct lora *l, const char *name, int64_t n_experts, bool turned, struct dq *q,
              struct err *e) {
    if (q->part[0]->n_dims < 2 && dq_is_plain(q)) return 0;
    TRY(bind_module(l, name, turned, q, e));
    if (!q->delta) TRY(bind_gate_up(l, name, q, e));
    if (!q->delta) TRY(bind_experts(l, name, n_experts, turned, q, e));
    for (size_t k = 0; k < COUNT_OF(expert_alias) && !q->delta; k++) {
        char other[2 * DQ_NAME];
        if (!str_ends(name, expert_alias[k][0])) continue;
        snprintf(other, sizeof other, "%.*s%s", (int)(strlen(name) - strlen(expert_alias[k][0])),
                 name, expert_alias[k][1]);
        TRY(bind_experts(l, other, n_experts, turned, q, e));
    }
    return 0;
}

/* ---- embeddings and head ---- */

/* The adapter's tensors for the embeddings or the head. */
struct end {
    const struct st_tensor *whole;
    bool delta;
};

/* Returns the adapter's replacement or delta for the embeddings or the head. */
static struct end end_of(struct lora *l, const char *names) {
    struct end x = {NULL, false};
    for (const char *s = names; s && *s; s += strcspn(s, "|"), s += *s == '|') {
        char name[DQ_NAME];
        int64_t a, b;
        bool crossed;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(s, "|"), s);
        const int64_t i = find_whole(l, name);
        if (i >= 0) x.whole = st_tensor_at(l->st, i);
        x.delta = x.delta || find_pair(l, name, stem_of(name), &a, &b, &crossed);
    }
    return x;
}

/* Returns whether two tensors have the same values; two NULLs are equal. */
static bool same_values(const struct st_tensor *a, const struct st_tensor *b) {
    enum { N = 1024 };
    float x[N], y[N];
    struct err ignored;
    if (!a || !b || a->n_elems != b->n_elems) return a == b;
    for (int64_t i = 0; i < a->n_elems; i += N) {
        const int64_t n = min_i64(N, a->n_elems - i);
        if (st_to_f32(a, i, n, x, &ignored) || st_to_f32(b, i, n, y, &ignored)) return false;
        if (memcmp(x, y, (size_t)n * sizeof *x) != 0) return false;
    }
    return true;
}

/* Sets *vocab to the adapter's number of rows. Fails if it replaces only one of embeddings and
 * head. */
static int check_rows(const struct lora *l, const struct end *x, const struct end *y, bool tied,
                      int64_t *vocab, struct err *e) {
    const int64_t a = x->whole && x->whole->n_dims == 2 ? x->whole->shape[0] : 0,
                  b = y->whole && y->whole->n_dims == 2 ? y->whole->shape[0] : 0;
    const int64_t rows = a ? a : b;
    if (!rows || (rows == *vocab && (!b || b == rows))) return 0;
    if ((a && b && a != b) || (!(a && b) && !(tied && a)))
        return err_set(e, ERR_DATA,
                       "%s: the adapter has %lld tokens, the base %lld, and only one of embeddings "
                       "and head has rows for all: " LORA_MERGE,
                       st_path(l->st), (long long)rows, (long long)*vocab);
    log_info("the adapter has %lld tokens, the base %lld: using the adapter's rows",
             (long long)rows, (long long)*vocab);
    *vocab = rows;
    return 0;
}

int lora_head(struct lora *l, const char *embd_names, const char *head_names,
              const struct st_tensor *embd, bool tied, int64_t *vocab, bool *untie, struct err *e) {
    const struct end in = end_of(l, embd_names), out = end_of(l, head_names);
    const int64_t before = *vocab;
    *untie = false;
    TRY(check_rows(l, &in, &out, tied, vocab, e));
    if (!tied || (!in.whole && !in.delta && !out.whole && !out.delta)) return 0;
    if (!out.whole && !out.delta && *vocab != before) {
        log_warn(
            "the adapter has rows for new tokens only in the embeddings: the head also uses them");
        return 0;
    }
    const bool alike = !in.delta && !out.delta &&
                       same_values(in.whole ? in.whole : embd, out.whole ? out.whole : embd);
    if (alike && out.whole)
        for (int64_t i = 0; i < l->n; i++) l->used[i] |= st_tensor_at(l->st, i) == out.whole;
    *untie = !alike;
    return 0;
}

/* ---- adding ---- */

/* Returns value i of a tensor; 0 if it cannot be converted. */
static float value_at(const struct st_tensor *t, int64_t i) {
    float v = 0;
    struct err ignored; /* the shapes were checked on binding */
    return st_to_f32(t, i, 1, &v, &ignored) ? 0 : v;
}

int lora_begin(struct lora_delta *d, struct err *e) {
    if (!d || !d->crossed || d->turned) return 0;
    const int64_t cols = d->b->shape[0], n = d->n_experts, r = d->rank;
    /* Range of the required experts. */
    const int64_t x0 = d->expert < 0 ? 0 : d->expert, x1 = d->expert < 0 ? n : d->expert + 1;
    void *p;
    TRY(mem_alloc(&p, (uint64_t)((x1 - x0) * r * cols) * sizeof(float), "a matrix of the adapter",
                  e));
    d->turned = p;
    for (int64_t c = 0; c < cols; c++)
        for (int64_t k = 0; k < r; k++)
            for (int64_t x = x0; x < x1; x++)
                d->turned[((x - x0) * r + k) * cols + c] = value_at(d->b, (c * r + k) * n + x);
    return 0;
}

void lora_end(struct lora_delta *d) {
    if (!d) return;
    mem_free(d->turned);
    d->turned = NULL;
}

void lora_add(const struct lora_delta *d, int64_t mat, int64_t row, int64_t cols, float *dst,
              float *sum, float *tmp) {
    const int64_t x = d->n_experts > 1 ? d->expert < 0 ? mat : d->expert : 0, r = d->rank;
    struct err ignored;
    memset(sum, 0, (size_t)cols * sizeof *sum);
    row += d->row0;
    for (int64_t k = 0; k < r; k++) {
        const float by = d->crossed ? value_at(d->a, (x * r + k) * d->a->shape[1] + row)
                                    : value_at(d->b, (row * r + k) * d->n_experts + x);
        const float *v = tmp;
        if (d->crossed)
            v = d->turned + ((d->expert < 0 ? x : 0) * r + k) * cols;
        else if (st_to_f32(d->a, (x * r + k) * cols, cols, tmp, &ignored))
            return;
        for (int64_t i = 0; i < cols; i++) sum[i] += by * v[i];
    }
    for (int64_t i = 0; i < cols; i++) dst[i] += sum[i] * d->scale;
}
