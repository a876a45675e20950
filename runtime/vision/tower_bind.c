// SPDX-License-Identifier: MIT
/* runtime/vision/tower_bind.c - binds the rows of a tower's tables to the tensors of a projector
 * file: every row must find its tensors with the shapes that the rows before it imply, and every
 * tensor of the file must have a row. Nothing is computed from a file that fails either check. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/printable.h"
#include "models/arch.h"
#include "runtime/vision/tower_int.h"

enum { NAME = 128, MAX_WIDTH = 1 << 20 };

/* Returns a tensor of the file, and marks it as used; NULL: missing. `name` receives its name. */
static const struct gguf_tensor *look(struct vision_tower *v, const char *base, const char *suffix,
                                      int block, char name[NAME]) {
    char pattern[NAME];
    snprintf(pattern, sizeof pattern, "%s%s", base, suffix);
    (void)arch_name(name, NAME, pattern, strlen(pattern), block, 0);
    const struct gguf_tensor *t = gguf_find_tensor(v->file, name);
    if (t) v->used[t - gguf_tensor_at(v->file, 0)] = 1;
    return t;
}
/* Returns whether the file has tensor base + suffix of a block. */
static bool has(const struct vision_tower *v, const char *base, const char *suffix, int block) {
    char pattern[NAME], name[NAME];
    snprintf(pattern, sizeof pattern, "%s%s", base, suffix);
    (void)arch_name(name, sizeof name, pattern, strlen(pattern), block, 0);
    return gguf_find_tensor(v->file, name) != NULL;
}

/* Sets ERR_DATA about one measure of a tensor and returns it. */
static int bad_shape(const struct vision_tower *v, const char *name, const char *what, int64_t is,
                     int64_t want, struct err *e) {
    err_set(e, ERR_DATA, "%s: %s of tensor %s is %lld, expected %lld", gguf_path(v->file), what,
            name, (long long)is, (long long)want);
    return err_about(e, gguf_path(v->file), name);
}
/* Sets and returns the error for a tensor that is missing. */
static int missing(const struct vision_tower *v, const char *name, struct err *e) {
    err_set(e, ERR_DATA, "%s: tensor %s is missing, which a %s tower needs", gguf_path(v->file),
            name, v->type->family);
    return err_about(e, gguf_path(v->file), name);
}

/* Adds memory that is freed with the tower; frees it at once if out of memory. */
static int keep(struct vision_tower *v, void *mem, struct err *e) {
    void **own = try_realloc(v->own, (size_t)v->n_own + 1, sizeof *own, "a vision tower", e);
    if (!own) {
        mem_free(mem);
        return (int)e->code;
    }
    v->own = own;
    v->own[v->n_own++] = mem;
    return 0;
}

/* Returns a tensor's values if it is stored as floats; NULL: another type. */
static const float *in_place(const struct gguf_tensor *t) {
    if (qtype_info((int64_t)t->type)->scale.kind != QS_F32) return NULL;
    return (const float *)(const void *)t->data;
}

/* Sets *out to a tensor's values as floats; decodes other types once. */
static int floats(struct vision_tower *v, const struct gguf_tensor *t, const float **out,
                  struct err *e) {
    int64_t n = t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3];
    void *mem = NULL;
    *out = in_place(t);
    if (*out) return 0;
    if (!kern_has(&v->kern, t->type))
        return err_set(e, ERR_DATA, "%s: tensor %s has type %s, which is not computed",
                       gguf_path(v->file), t->name, qtype_name(t->type));
    TRY(mem_alloc(&mem, (uint64_t)n * sizeof(float), t->name, e));
    TRY(keep(v, mem, e));
    v->kern.op[t->type].decode(t->data, mem, n);
    *out = mem;
    return 0;
}

/* Binds a vector of n values (0: any number); *out NULL: missing. */
static int vector(struct vision_tower *v, const char *base, const char *suffix, int block,
                  int64_t n, const float **out, struct err *e) {
    char name[NAME];
    const struct gguf_tensor *t = look(v, base, suffix, block, name);
    *out = NULL;
    if (!t) return 0;
    if (n && (t->ne[0] != n || t->ne[1] * t->ne[2] * t->ne[3] != 1))
        return bad_shape(v, name, "the length", t->ne[0] * t->ne[1], n, e);
    return floats(v, t, out, e);
}

/* Binds the limits of a clipped product: all four, or none. */
static int limits(struct vision_tower *v, const char *base, int block, struct tower_mat *m,
                  struct err *e) {
    static const char *const end[] = {".input_min", ".input_max", ".output_min", ".output_max"};
    int n = 0;
    for (int i = 0; i < 4; i++) {
        const float *at;
        TRY(vector(v, base, end[i], block, 1, &at, e));
        n += at != NULL;
        if (at) m->clip[i] = *at;
    }
    m->clipped = n == 4;
    if (n && n < 4)
        return err_set(e, ERR_DATA, "%s: %s has %d of the 4 limits of a clipped product",
                       gguf_path(v->file), base, n);
    return 0;
}

/* Binds a matrix with `in` inputs. A bias may be missing, but then in every block. */
static int matrix(struct vision_tower *v, const char *base, int block, int64_t in,
                  struct tower_mat *m, struct err *e) {
    char name[NAME];
    const struct gguf_tensor *t = look(v, base, ".weight", block, name);
    if (!t) return missing(v, name, e);
    const int last = t->n_dims > 1 ? t->n_dims - 1 : 1;
    *m = (struct tower_mat){.floats = in_place(t), .blocks = t->data, .type = t->type};
    m->in = 1;
    m->out = t->ne[last];
    for (int i = 0; i < last; i++)
        if (!mul_ok_i64(m->in, t->ne[i], &m->in)) m->in = 0;
    if (m->in != in) return bad_shape(v, name, "the row length", m->in, in, e);
    if (m->out > MAX_WIDTH) return bad_shape(v, name, "the number of rows", m->out, MAX_WIDTH, e);
    if (!kern_has(&v->kern, t->type) || !qtype_row_bytes(t->type, in))
        return err_set(e, ERR_DATA, "%s: tensor %s has type %s, which is not computed",
                       gguf_path(v->file), name, qtype_name(t->type));
    TRY(vector(v, base, ".bias", block, m->out, &m->bias, e));
    if (block > 0 && !m->bias && has(v, base, ".bias", 0)) {
        (void)look(v, base, ".bias", block, name);
        return missing(v, name, e);
    }
    v->panel = max_i64(v->panel, TOWER_PANEL * in);
    return limits(v, base, block, m, e);
}

/* Replaces a matrix that the file stores transposed, with inputs as rows, by one of floats. */
static int transpose(struct vision_tower *v, const char *base, int block, int64_t in,
                     struct tower_mat *m, struct err *e) {
    char name[NAME];
    const float *from;
    const struct gguf_tensor *t = look(v, base, ".weight", block, name);
    void *mem = NULL;
    if (!t) return missing(v, name, e);
    if (t->ne[1] != in || t->ne[2] * t->ne[3] != 1)
        return bad_shape(v, name, "the number of rows", t->ne[1], in, e);
    const int64_t out = t->ne[0];
    TRY(floats(v, t, &from, e));
    TRY(mem_alloc(&mem, (uint64_t)(in * out) * sizeof(float), name, e));
    TRY(keep(v, mem, e));
    float *to = mem;
    for (int64_t i = 0; i < out; i++)
        for (int64_t k = 0; k < in; k++) to[i * in + k] = from[k * out + i];
    *m = (struct tower_mat){.floats = mem, .in = in, .out = out};
    v->panel = max_i64(v->panel, TOWER_PANEL * in);
    return 0;
}

/* Binds the patch kernel. If it covers two frames, which show the same image here, keeps the
 * sum. */
static int kernel(struct vision_tower *v, struct tower_step *s, struct err *e) {
    const int64_t pixels = 3 * v->patch * v->patch;
    char name[NAME];
    TRY(matrix(v, s->row->name, 0, pixels, &s->mat, e));
    v->wide = max_i64(v->wide, v->chunk * pixels);
    const struct gguf_tensor *next = look(v, s->row->name, ".weight.1", 0, name);
    v->width = s->mat.out;
    if (!next) return 0;
    const struct gguf_tensor *first = look(v, s->row->name, ".weight", 0, name);
    if (memcmp(next->ne, first->ne, sizeof next->ne) != 0)
        return err_set(e, ERR_DATA, "%s: the two kernels %s and %s differ in shape",
                       gguf_path(v->file), first->name, next->name);
    const float *a, *b;
    void *mem = NULL;
    TRY(floats(v, first, &a, e));
    TRY(floats(v, next, &b, e));
    TRY(mem_alloc(&mem, (uint64_t)(pixels * v->width) * sizeof(float), name, e));
    TRY(keep(v, mem, e));
    for (int64_t i = 0; i < pixels * v->width; i++) ((float *)mem)[i] = a[i] + b[i];
    s->mat.floats = mem;
    return 0;
}

/* Binds the position table. */
static int positions(struct vision_tower *v, struct tower_step *s, struct err *e) {
    char name[NAME];
    const struct gguf_tensor *t = look(v, s->row->name, ".weight", 0, name);
    if (!t) return s->row->flags & ROW_OPT ? 0 : missing(v, name, e);
    if (t->ne[0] != v->width) return bad_shape(v, name, "the row length", t->ne[0], v->width, e);
    v->n_pos = t->ne[1] * t->ne[2] * t->ne[3];
    const int64_t n = v->n_pos - has(v, "v.class_embd", "", 0);
    const int64_t side = (int64_t)(sqrt((double)n) + .5);
    const bool axes = v->type->pos == POS_AXES;
    if (v->n_pos > 1 << 24 || (axes ? t->n_dims != 3 || t->ne[2] != 2 : side * side != n))
        return err_set(e, ERR_DATA, "%s: tensor %s with %lld rows is not a %s", gguf_path(v->file),
                       name, (long long)v->n_pos,
                       axes ? "table for each of two axes" : "square table");
    return floats(v, t, &v->pos, e);
}

/* Binds the norms of query and key: of heads or of whole rows. */
static int qk_norms(struct vision_tower *v, struct tower_step *s, struct err *e) {
    char name[NAME];
    const struct gguf_tensor *q = look(v, s->row->name, "q_norm.weight", s->block, name);
    const struct gguf_tensor *k = look(v, s->row->name, "k_norm.weight", s->block, name);
    if (!q && !k) return 0;
    if (!q || !k) return missing(v, k ? "attn_q_norm" : name, e);
    s->n_w = q->ne[0];
    if (s->n_w != v->head_dim && (s->n_w != v->heads * v->head_dim || v->heads != v->kv_heads))
        return bad_shape(v, q->name, "the length", s->n_w, v->head_dim, e);
    TRY(vector(v, s->row->name, "q_norm.weight", s->block, s->n_w, &s->w, e));
    return vector(v, s->row->name, "k_norm.weight", s->block, s->n_w, &s->b, e);
}

/* Binds the matrices of query, key and value: one, or one for each. Sets *q and *k to the rows of
 * queries and keys. */
static int head_matrices(struct vision_tower *v, struct tower_step *s, int64_t width, int64_t *q,
                         int64_t *k, struct err *e) {
    static const char *const end[] = {"q", "k", "v", "qkv"};
    struct tower_mat *const to[] = {&s->mat, &s->second, &s->third, &s->mat};
    const bool fused = has(v, s->row->name, "qkv.weight", s->block);
    for (int i = fused ? 3 : 0; i < (fused ? 4 : 3); i++) {
        char base[NAME];
        snprintf(base, sizeof base, "%s%s", s->row->name, end[i]);
        TRY(matrix(v, base, s->block, width, to[i], e));
    }
    *q = fused ? s->mat.out / 3 : s->mat.out;
    *k = fused ? *q : s->second.out;
    if (fused ? s->mat.out % 3 == 0 : s->third.out == *k) return 0;
    return err_set(e, ERR_DATA, "%s: the rows of queries, keys and values in block %d do not match",
                   gguf_path(v->file), s->block);
}

/* Binds the query, key and value matrices, fused or separate, of an attention step. */
static int heads(struct vision_tower *v, struct tower_step *s, int64_t width, struct err *e) {
    int64_t q, k;
    TRY(head_matrices(v, s, width, &q, &k, e));
    if (!v->head_dim) {
        v->head_dim = q / v->heads;
        v->kv_heads = v->head_dim ? k / v->head_dim : 0;
    }
    if (!v->head_dim || q != v->heads * v->head_dim || k != v->kv_heads * v->head_dim ||
        !v->kv_heads || v->heads % v->kv_heads || (v->type->rope != ROPE_NONE && v->head_dim % 4))
        return err_set(e, ERR_DATA,
                       "%s: block %d has %lld query and %lld key rows, which do not make %lld "
                       "heads",
                       gguf_path(v->file), s->block, (long long)q, (long long)k,
                       (long long)v->heads);
    TRY(qk_norms(v, s, e));
    s->width = q + 2 * k;
    return 0;
}

/* ---- steps ---- */

/* Returns the name that the file has for a matrix: older converters wrote the first product of
 * feed-forward networks as ffn_down and the second as ffn_up. */
static const char *name_of(const struct vision_tower *v, const char *base) {
    static const char up[] = "v.blk.%d.ffn_up", down[] = "v.blk.%d.ffn_down";
    const struct gguf_tensor *t = gguf_find_tensor(v->file, "v.blk.0.ffn_down.weight");
    if (!t || t->ne[0] != v->width || t->ne[1] == v->width) return base;
    return strcmp(base, up) == 0 ? down : strcmp(base, down) == 0 ? up : base;
}

/* Binds a norm's weight and bias. NORM_AUTO becomes a LayerNorm if there is a bias. */
static int norm(struct vision_tower *v, struct tower_step *s, int64_t width, struct err *e) {
    char name[NAME];
    s->width = width;
    if (s->kind == NORM_BARE) return 0;
    TRY(vector(v, s->row->name, ".weight", s->block, width, &s->w, e));
    if (!s->w) {
        (void)look(v, s->row->name, ".weight", s->block, name);
        return missing(v, name, e);
    }
    if (s->kind != NORM_RMS) TRY(vector(v, s->row->name, ".bias", s->block, width, &s->b, e));
    if (s->kind == NORM_AUTO) s->kind = s->b ? NORM_LAYER : NORM_RMS;
    return 0;
}

/* Binds the row's one or two vectors, which must be present. */
static int columns(struct vision_tower *v, struct tower_step *s, int64_t width, struct err *e) {
    const struct tower_row *row = s->row;
    const char *end = row->second ? "" : ".weight";
    s->width = width;
    TRY(vector(v, row->name, end, s->block, width, &s->w, e));
    if (row->second) TRY(vector(v, row->second, "", s->block, width, &s->b, e));
    char name[NAME];
    (void)look(v, s->w ? row->second ? row->second : row->name : row->name, end, s->block, name);
    return s->w && (s->b || !row->second) ? 0 : missing(v, name, e);
}

/* Binds the two matrices of a gated step, which must have the same number of rows. */
static int gated(struct vision_tower *v, struct tower_step *s, int64_t width, struct err *e) {
    TRY(matrix(v, s->row->name, s->block, width, &s->mat, e));
    TRY(matrix(v, name_of(v, s->row->second), s->block, width, &s->second, e));
    s->width = s->mat.out;
    if (s->second.out == s->mat.out) return 0;
    return bad_shape(v, s->row->second, "the number of rows", s->second.out, s->mat.out, e);
}

/* Binds the embedding of the class token. */
static int class_row(struct vision_tower *v, struct tower_step *s, struct err *e) {
    char name[NAME];
    const struct gguf_tensor *t = look(v, s->row->name, "", 0, name);
    if (!t) return missing(v, name, e);
    if (t->ne[0] != v->width || t->ne[1] * t->ne[2] * t->ne[3] != 1)
        return bad_shape(v, name, "the length", t->ne[0], v->width, e);
    return floats(v, t, &v->cls, e);
}

/* Returns ERR_DATA unless `is` equals `want`; what: subject of the message, plural. */
static int same_width(const struct vision_tower *v, int64_t is, int64_t want, const char *what,
                      struct err *e) {
    if (is == want) return 0;
    return err_set(e, ERR_DATA, "%s: %s are %lld values wide, expected %lld", gguf_path(v->file),
                   what, (long long)is, (long long)want);
}

/* Binds a step; `width` is that of the chunk before it. */
static int bind(struct vision_tower *v, struct tower_step *s, int64_t width, struct err *e) {
    const struct tower_row *row = s->row;
    s->width = width;
    switch (row->op) {
    case TOP_PIXELS:
        s->width = 3 * v->patch * v->patch;
        return 0;
    case TOP_PATCH:
        TRY(kernel(v, s, e));
        s->width = v->width;
        return 0;
    case TOP_POS:
        return positions(v, s, e);
    case TOP_CLASS:
        return class_row(v, s, e);
    case TOP_LOAD:
        s->width = v->width;
        return 0;
    case TOP_STORE:
    case TOP_ADD:
        return same_width(v, width, v->width, "rows of the residual stream", e);
    case TOP_NORM:
        return norm(v, s, width, e);
    case TOP_LINEAR:
        TRY(s->kind ? transpose(v, row->name, s->block, width, &s->mat, e)
                    : matrix(v, name_of(v, row->name), s->block, width, &s->mat, e));
        s->width = s->mat.out;
        if (!v->width) v->width = s->width;
        return 0;
    case TOP_GATED:
        return gated(v, s, width, e);
    case TOP_COLUMNS:
    case TOP_CENTRE:
        return columns(v, s, width, e);
    case TOP_QKV:
        return heads(v, s, width, e);
    case TOP_ATTEND:
        s->width = v->heads * v->head_dim;
        return 0;
    case TOP_MERGE:
    case TOP_SHUFFLE:
        s->width = width * v->side * v->side;
        return 0;
    case TOP_SHRINK:
        v->shrunk *= v->side * v->side;
        v->side = (int)v->merge / v->side;
        return same_width(v, width, v->width, "rows of the residual stream", e);
    case TOP_OUT:
        if (!v->text) v->text = width;
        return same_width(v, width, v->text, "embeddings", e);
    case TOP_DEEP:
        v->n_deep++;
        if (!v->text) v->text = width;
        return same_width(v, width, v->text, "deepstack embeddings", e);
    default:
        return 0;
    }
}

/* Adds the steps of the table `row` for a block; skips optional ones without tensors. */
static int add_steps(struct vision_tower *v, const struct tower_row *row, int block,
                     struct err *e) {
    int64_t width = 0;
    int square = 1;
    for (; row->op != TOP_END; row++) {
        if (row->flags & ROW_OPT &&
            !has(v, row->name, row->op == TOP_CENTRE ? "" : ".weight", block))
            continue;
        if (v->n_steps == v->cap_steps) {
            const int cap = v->cap_steps ? 2 * v->cap_steps : 64;
            void *p = try_realloc(v->step, (size_t)cap, sizeof *v->step, "a vision tower", e);
            if (!p) return (int)e->code;
            v->step = p;
            v->cap_steps = cap;
        }
        struct tower_step *s = &v->step[v->n_steps++];
        *s = (struct tower_step){.row = row, .block = block, .kind = row->kind};
        if (s->kind == ACT_KEYS && row->op != TOP_NORM && row->op != TOP_LINEAR)
            s->kind = v->use_gelu ? ACT_ERF : v->use_silu ? ACT_SILU : ACT_QUICK;
        TRY(bind(v, s, width, e));
        width = s->width;
        if (row->op == TOP_MERGE || row->op == TOP_SHUFFLE || row->op == TOP_POOL)
            square = v->side * v->side;
        s->square = square;
        v->wide = max_i64(v->wide, v->chunk / square * width);
    }
    return 0;
}

/* Rejects tensors of the tower that no row has used. Those of blocks that are not computed may
 * remain. */
static int leftovers(const struct vision_tower *v, struct err *e) {
    static const char *const skip[] = {"v.token_embd.", "mm.a."};
    for (int64_t i = 0; i < gguf_n_tensors(v->file); i++) {
        const char *name = gguf_tensor_at(v->file, i)->name;
        const bool block = strncmp(name, "v.blk.", 6) == 0;
        if (v->used[i] || (strncmp(name, "v.", 2) != 0 && strncmp(name, "mm.", 3) != 0)) continue;
        if (block && strtol(name + 6, NULL, 10) >= v->n_blocks) continue;
        bool known = false;
        for (size_t k = 0; k < sizeof skip / sizeof *skip; k++)
            known |= strncmp(name, skip[k], strlen(skip[k])) == 0;
        if (known) continue;
        err_set(e, ERR_DATA,
                "%s: tensor %s is not part of a %s tower as hone computes it: the embeddings "
                "would be wrong",
                gguf_path(v->file), show_n(name, strlen(name)).s, v->type->family);
        return err_about(e, gguf_path(v->file), name);
    }
    return 0;
}

/* Adds a segment of the steps since the last one. */
static void end_segment(struct vision_tower *v, bool patches, int shrunk) {
    struct tower_segment *last = v->n_segments ? &v->segment[v->n_segments - 1] : NULL;
    const int first = last ? last->first + last->n : 0;
    v->segment[v->n_segments++] =
        (struct tower_segment){first, v->n_steps - first, patches, shrunk};
}

/* Adds steps with attention, which begins a segment. */
static int add_attention(struct vision_tower *v, const struct tower_row *row, int b,
                         struct err *e) {
    const int first = v->n_steps, shrunk = v->shrunk;
    TRY(add_steps(v, row, b, e));
    for (int i = first, end = v->n_steps; i < end; i++)
        if (v->step[i].row->op == TOP_ATTEND) {
            v->n_steps = i;
            end_segment(v, false, shrunk);
            v->n_steps = end;
        }
    end_segment(v, false, shrunk);
    return 0;
}

/* Adds the steps of block b, and of the middle and the deepstack branch that follow it. */
static int add_block(struct vision_tower *v, int b, struct err *e) {
    TRY(add_attention(v, v->type->block, b, e));
    if (b == v->middle) TRY(add_attention(v, v->type->middle, b, e));
    if (!v->type->deep || !has(v, "v.deepstack.%d.fc1", ".weight", b)) return 0;
    if (v->n_deep == TOWER_MAX_DEEP)
        return err_set(e, ERR_DATA, "%s: more than %d blocks have deepstack tensors",
                       gguf_path(v->file), TOWER_MAX_DEEP);
    TRY(add_steps(v, v->type->deep, b, e));
    end_segment(v, true, v->shrunk);
    return 0;
}

/* Compares the blocks that have deepstack tensors with the file's list. */
static int check_deep(const struct vision_tower *v, struct err *e) {
    const struct gguf_kv *kv = gguf_find(v->file, "clip.vision.is_deepstack_layers");
    if (!v->type->deep || !kv || kv->type != GV_ARR || kv->elem != GV_BOOL) return 0;
    for (uint64_t i = 0; i < kv->count && i < (uint64_t)v->n_blocks; i++)
        if ((gguf_kv_i64(kv, i) != 0) != has(v, "v.deepstack.%d.fc1", ".weight", (int)i))
            return err_set(e, ERR_DATA,
                           "%s: clip.vision.is_deepstack_layers and the tensors v.deepstack.* "
                           "disagree about block %d",
                           gguf_path(v->file), (int)i);
    return 0;
}

int tower_bind(struct vision_tower *v, struct err *e) {
    const size_t most = (size_t)v->n_blocks * 3 + 4;
    v->used = try_calloc((size_t)gguf_n_tensors(v->file) + 1, 1, "a vision tower", e);
    v->segment = v->used ? try_calloc(most, sizeof *v->segment, "a vision tower", e) : NULL;
    if (!v->segment) return (int)e->code;
    TRY(check_deep(v, e));
    v->shrunk = 1;
    v->side = v->type->middle ? 2 : (int)v->merge;
    TRY(add_steps(v, v->type->embed, 0, e));
    end_segment(v, true, 1);
    for (int b = 0; b < v->n_blocks; b++) TRY(add_block(v, b, e));
    TRY(add_steps(v, v->type->project, 0, e));
    end_segment(v, true, v->shrunk);
    return leftovers(v, e);
}
