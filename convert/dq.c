// SPDX-License-Identifier: MIT
/* convert/dq.c - table of the storage formats of quantized checkpoints, and detection of a
 * checkpoint's format. A format is recognised by the main tensor's name and dtype, by its required
 * parts and, if two formats share names, by quant_method. */
#include "convert/dq.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "convert/dq_int.h"
#include "base/printable.h"
#include "base/str.h"

#define SCALES DQ_FLOATS
#define FP8 (DQ_T(ST_F8_E4M3) | DQ_T(ST_F8_E5M2))
#define EXPS (DQ_T(ST_U8) | DQ_T(ST_F8_E8M0))
#define INT DQ_INTS
#define OPT DQ_OPTIONAL
#define BNB_STATE ".quant_state.bitsandbytes__nf4|.quant_state.bitsandbytes__fp4"
// clang-format off
static const struct dq_form forms[] = {
    {"plain", NULL, {{"", DQ_FLOATS | DQ_T(ST_F64)}}, NULL, NULL},
    {"FP8", NULL, {{"", FP8}, {"_scale_inv|_scale|_weight_scale|^qscale_weight|^scale", SCALES | EXPS}}, dq_fp8_fit, dq_fp8_row},
    {"int8", NULL, {{"", DQ_T(ST_I8)}, {"_scale", SCALES}, {"_zero_point", DQ_T(ST_I8) | OPT}, {"_g_idx", INT | OPT}}, dq_int8_fit, dq_int8_row},
    {"packed integers", NULL, {{"_packed", DQ_T(ST_I32)}, {"_scale", SCALES}, {"_zero_point", DQ_T(ST_I32) | DQ_T(ST_I8) | OPT}, {"_g_idx", INT | OPT}, {"_shape", INT | OPT}}, dq_pack_fit, dq_pack_row},
    {"GPTQ", "gptq", {{"^qweight", DQ_T(ST_I32)}, {"^scales", SCALES}, {"^qzeros", DQ_T(ST_I32)}, {"^g_idx", INT | OPT}}, dq_gptq_fit, dq_gptq_row},
    {"AWQ", "awq", {{"^qweight", DQ_T(ST_I32)}, {"^scales", SCALES}, {"^qzeros", DQ_T(ST_I32)}}, dq_awq_fit, dq_awq_row},
    {"NVFP4", NULL, {{"_packed", DQ_T(ST_U8)}, {"_scale", DQ_T(ST_F8_E4M3)}, {"_global_scale", SCALES}}, dq_nvfp4_fit, dq_nvfp4_div_row},
    {"NVFP4", NULL, {{"", DQ_T(ST_U8)}, {"_scale|_weight_scale", DQ_T(ST_F8_E4M3)}, {"_scale_2|_weight_scale_2", SCALES}}, dq_nvfp4_fit, dq_nvfp4_mul_row},
    {"MXFP4", NULL, {{"_packed", DQ_T(ST_U8)}, {"_scale", EXPS}}, dq_mxfp4_fit, dq_mxfp4_row},
    {"MXFP4", NULL, {{"", DQ_T(ST_I8) | DQ_T(ST_U8)}, {"_scale|^scale", EXPS}}, dq_mxfp4_fit, dq_mxfp4_row},
    {"MXFP4", NULL, {{"_blocks", DQ_T(ST_U8)}, {"_scales", EXPS}}, dq_mxfp4_fit, dq_mxfp4_row},
    {"bitsandbytes int8", NULL, {{"", DQ_T(ST_I8)}, {"^SCB", DQ_T(ST_F32)}, {"^weight_format", DQ_T(ST_U8) | OPT}}, dq_bnb8_fit, dq_bnb8_row},
    {"bitsandbytes 4-bit", NULL, {{"", DQ_T(ST_U8) | DQ_T(ST_I8) | DQ_FLOATS}, {".absmax", DQ_T(ST_F32) | DQ_T(ST_U8)}, {".quant_map", DQ_T(ST_F32)}, {BNB_STATE, DQ_T(ST_U8)}, {".nested_absmax", DQ_T(ST_F32) | OPT}, {".nested_quant_map", DQ_T(ST_F32) | OPT}}, dq_bnb4_fit, dq_bnb4_row},
};
// clang-format on

bool dq_is_mxfp4(const struct dq *q) {
    return q->form->row == dq_mxfp4_row;
}

bool dq_is_nvfp4(const struct dq *q) {
    return q->form->row == dq_nvfp4_mul_row || q->form->row == dq_nvfp4_div_row;
}

/* ---- messages ---- */

static void fmt_shape(char out[128], const struct st_tensor *t) {
    size_t k = 0;
    out[k++] = '[';
    for (int i = 0; i < t->n_dims && k < 100; i++)
        k += (size_t)snprintf(out + k, 128 - k, "%s%lld", i ? ", " : "", (long long)t->shape[i]);
    snprintf(out + k, 128 - k, "]");
}

int dq_bad(const struct dq *q, int i, struct err *e, const char *fmt, ...) {
    const struct st_tensor *t = q->part[i];
    char text[512], shape[128];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    fmt_shape(shape, t);
    return err_set(e, ERR_DATA, "tensor %s (%s %s, stored as %s) %s",
                   show_n(t->name, strlen(t->name)).s, st_dtype_name(t->dtype), shape,
                   q->form->name, text);
}

/* ---- steps shared by formats ---- */

int dq_shape(const struct dq *q, int i, int64_t rows, int64_t cols, struct err *e) {
    const struct st_tensor *t = q->part[i];
    int n = t->n_dims;
    int64_t mats = 1;
    /* Cannot overflow, since n_elems was checked. */
    for (int d = 0; d < n - 2; d++) mats *= t->shape[d];
    if (n >= 2 && mats == q->mats && t->shape[n - 2] == rows && t->shape[n - 1] == cols) return 0;
    return dq_bad(q, i, e,
                  "should end in [%lld, %lld] for a matrix [%lld, %lld]: config.json belongs to "
                  "another model, or this layout is not supported, then convert the unquantized "
                  "(BF16) release",
                  (long long)rows, (long long)cols, (long long)q->rows, (long long)q->cols);
}

float dq_scale_at(const struct st_tensor *t, int64_t i) {
    float v = 0;
    struct err ignored; /* index and dtype were checked earlier */
    if (t->dtype == ST_U8) return fp_e8m0_to_f32(t->data[i]);
    return st_to_f32(t, i, 1, &v, &ignored) ? 0 : v;
}

static void swap_i64(int64_t *a, int64_t *b) {
    const int64_t was = *a;
    *a = *b;
    *b = was;
}

/* Returns the number of elements per scale along a side with `size` elements and `n` scales:
 * `block` if it fits (the last block may be short), otherwise size / n if `divides` is set and n
 * divides size. 0: no fit. */
static int64_t per_scale(int64_t size, int64_t n, int64_t block, bool divides) {
    if (n == size) return 1;
    if (n == 1) return size;
    if (block > 0 && div_up(size, block) == n) return block;
    return divides && n > 0 && size % n == 0 ? size / n : 0;
}

/* Returns the rows of each stripe of a fused qkv_proj if its n rows of scales are those of stripes
 * with blocks of their own; 0: they are not. */
static int64_t stripe_of(const struct dq *q, const struct dq_config *c, int64_t n) {
    const int64_t k = c->stripes, rows = k > 1 && q->rows % k == 0 ? q->rows / k : 0;
    const bool fits = rows && c->block_rows > 0 && n == k * div_up(rows, c->block_rows);
    return fits && str_ends(q->part[0]->name, ".qkv_proj.weight") ? rows : 0;
}

int dq_grid_fit(struct dq *q, int i, const struct dq_config *c, struct err *e) {
    const struct st_tensor *t = q->part[i];
    int n = t->n_dims;
    int64_t mats = 1, rows = 1, cols = 1, block_rows = c->block_rows, block_cols = c->block_cols;
    q->scale = (struct dq_grid){.t = t};
    if (t->n_elems == 1) {
        q->scale.per_row = q->rows;
        q->scale.per_col = q->cols;
        return 0;
    }
    if (n == 4 && t->shape[1] == 1 && t->shape[3] == 1) { /* of blocks [rows, 1, columns, 1] */
        rows = t->shape[0];
        cols = t->shape[2];
    } else if (n >= 2 && !(n == 2 && q->mats > 1)) { /* rows and columns of scales */
        for (int d = 0; d < n - 2; d++) mats *= t->shape[d];
        rows = t->shape[n - 2];
        cols = t->shape[n - 1];
    } else { /* one scale per row, per matrix, or per row of several matrices */
        if (q->mats > 1) mats = t->shape[0];
        if (n == 2 || q->mats == 1) rows = t->shape[n == 2];
    }
    /* Blocks of a transposed matrix are transposed too. Its rows may have scales [rows, 1]. */
    if (q->turned && n >= 3 && !(rows == q->rows && cols == 1)) {
        swap_i64(&rows, &cols);
        swap_i64(&block_rows, &block_cols);
        q->scale.turned = true;
    }
    q->scale.n_rows = rows;
    q->scale.n_cols = cols;
    q->scale.stripe = stripe_of(q, c, rows);
    q->scale.per_row = q->scale.stripe ? block_rows : per_scale(q->rows, rows, block_rows, false);
    /* With a scale in each row, scales belong to groups of columns, otherwise to blocks. */
    const bool each = rows == q->rows;
    const int64_t wide = c->group && (each || !block_cols) ? c->group : block_cols;
    q->scale.per_col = per_scale(q->cols, cols, wide, each && !c->bad_block);
    if (mats == q->mats && q->scale.per_row && q->scale.per_col) return 0;
    if (c->bad_block)
        return dq_bad(q, i, e,
                      "needs a block size, but %s is not two positive numbers: correct config.json",
                      c->bad_block);
    return dq_bad(q, i, e,
                  "does not fit a matrix [%lld, %lld] with the weight_block_size or group_size of "
                  "config.json",
                  (long long)q->rows, (long long)q->cols);
}

void dq_grid_scale(const struct dq *q, int64_t mat, int64_t row, float *dst) {
    const struct dq_grid *g = &q->scale;
    const int64_t stripe = g->stripe ? g->stripe : q->rows;
    const int64_t above = row / stripe * div_up(stripe, g->per_row);
    const int64_t r = above + row % stripe / g->per_row, step = g->turned ? g->n_rows : 1;
    const int64_t first = mat * g->n_rows * g->n_cols + r * (g->turned ? 1 : g->n_cols);
    for (int64_t c = 0, i = 0; i < q->cols; c++) {
        float s = dq_scale_at(g->t, g->n_rows ? first + c * step : 0);
        int64_t to = min_i64(i + g->per_col, q->cols);
        if (q->divides)
            for (; i < to; i++) dst[i] /= s;
        else
            for (; i < to; i++) dst[i] *= s;
    }
}

/* ---- recognition ---- */

struct finder {
    const char *name;
    dq_find find;
    void *ud;
};

/* Returns the source tensor of a part. spellings: its possible names. NULL: not found. */
static const struct st_tensor *find_part(const struct finder *f, const char *spellings) {
    char name[DQ_NAME];
    size_t len = strlen(f->name), stem = len;
    if (len >= 7 && strcmp(f->name + len - 7, ".weight") == 0) stem = len - 6;
    for (const char *s = spellings;;) {
        size_t n = strcspn(s, "|"), keep = *s == '^' ? stem : len;
        const char *tail = *s == '^' ? s + 1 : s;
        size_t n_tail = n - (*s == '^');
        const struct st_tensor *t = NULL;
        if (!(*s == '^' && stem == len) && keep + n_tail < sizeof name) {
            memcpy(name, f->name, keep);
            memcpy(name + keep, tail, n_tail);
            name[keep + n_tail] = 0;
            t = f->find(f->ud, name);
        }
        if (t) return t;
        if (!s[n]) return NULL;
        s += n + 1;
    }
}

/* Returns whether the part may have the tensor's dtype. */
static bool allows_dtype(const struct dq_part *p, const struct st_tensor *t) {
    return (p->dtypes >> t->dtype & 1) != 0;
}

/* The format that the tensors match best if they match none. */
struct nearest {
    const struct st_tensor *values; /* its main tensor; NULL: no format has one */
    const char *lacks;              /* names of its first missing part; NULL: nothing is missing */
    int n_found;
    const struct st_tensor *odd; /* a part with a dtype that the format does not allow */
};

/* Returns 1 if the tensors have this format, 0 if not, and -1 if the main tensor exists but a part
 * is missing or has a dtype that the format does not allow. */
static int try_form(struct dq *q, const struct dq_form *form, const struct dq_config *c,
                    const struct finder *f, struct nearest *near) {
    const struct st_tensor *t = find_part(f, form->part[0].name);
    const char *lacks = NULL;
    bool odd = false;
    int n_found = 0;
    if (!t || !allows_dtype(&form->part[0], t)) return 0;
    if (form->method && c->method[0] && strcmp(form->method, c->method) != 0) return 0;
    /* bitsandbytes can store its bytes in tensors of floats */
    if (form == &forms[0] && find_part(f, BNB_STATE)) return 0;
    memset(q->part, 0, sizeof q->part);
    q->part[0] = t;
    for (int i = 1; i < DQ_PARTS && form->part[i].name; i++) {
        const struct dq_part *p = &form->part[i];
        const struct st_tensor *part = find_part(f, p->name);
        if (part && allows_dtype(p, part)) {
            q->part[i] = part;
            n_found++;
        } else if (part && p->dtypes & DQ_OPTIONAL) {
            near->odd = part;
            odd = true;
        } else if (!(p->dtypes & DQ_OPTIONAL) && !lacks) {
            lacks = p->name;
        }
    }
    if (lacks && (!near->lacks || n_found > near->n_found))
        *near = (struct nearest){t, lacks, n_found, near->odd};
    if (lacks || odd) return -1;
    q->form = form;
    return 1;
}

/* Writes the possible names of a part as "a or b". */
static void spell(char out[128], const char *names) {
    size_t k = 0;
    for (const char *p = names; *p && k < 120; p++) {
        if (*p == '|') k += (size_t)snprintf(out + k, 128 - k, " or ");
        if (*p != '|' && *p != '^') out[k++] = *p;
    }
    out[k] = 0;
}

/* Rejects a main tensor whose dtype or parts match no format. */
static int unknown_form(const struct st_tensor *t, const char *lacks, struct err *e) {
    char part[128] = "";
    if (lacks) spell(part, lacks);
    if (lacks && (t->dtype == ST_F8_E4M3 || t->dtype == ST_F8_E5M2))
        snprintf(part, sizeof part, "its scales (weight_scale_inv, weight_scale)");
    return err_set(
        e, ERR_DATA,
        "tensor %s has dtype %s%s%s: it is neither plain numbers nor stored in a known format "
        "(FP8, compressed-tensors, GPTQ, AWQ, NVFP4, MXFP4, bitsandbytes); "
        "%sconvert the unquantized (BF16) release",
        show_n(t->name, strlen(t->name)).s, st_dtype_name(t->dtype), lacks ? " without " : "", part,
        lacks ? "download the folder again if it should have them, or " : "");
}

/* Returns whether two shapes are equal apart from dimensions of 1. */
static bool same_but_ones(const int64_t *a, int n_a, const int64_t *b, int n_b) {
    int i = 0, k = 0;
    for (;; i++, k++) {
        while (i < n_a && a[i] == 1) i++;
        while (k < n_b && b[k] == 1) k++;
        if (i == n_a || k == n_b) return i == n_a && k == n_b;
        if (a[i] != b[k]) return false;
    }
}

/* Checks the shape of plain floats against want[n]. The source may have an additional second
 * dimension of 1, or be a vector with as many values as the matrix. If four dimensions are wanted,
 * dimensions of 1 are ignored. */
static int plain_shape(const struct st_tensor *t, const int64_t *want, int n, struct err *e) {
    bool same = t->n_dims == n || (t->n_dims == n + 1 && n >= 1 && t->shape[1] == 1);
    for (int i = 0; same && i < n; i++) same = want[i] == t->shape[i && t->n_dims > n ? i + 1 : i];
    if (n == 2 && t->n_dims == 1 && t->shape[0] == want[0] * want[1]) same = true;
    /* the matrices of all experts one below the other (DBRX) */
    if (n == 3 && t->n_dims == 2 && t->shape[0] == want[0] * want[1] && t->shape[1] == want[2])
        same = true;
    if (same || ((n == 4 || n == 1) && same_but_ones(t->shape, t->n_dims, want, n))) return 0;
    struct st_tensor asked = {.n_dims = n};
    memcpy(asked.shape, want, (size_t)n * sizeof *want);
    char have[128], need[128];
    fmt_shape(have, t);
    fmt_shape(need, &asked);
    if (n == 2 && t->n_dims == 3 && t->shape[2] == 1 && t->shape[1] == want[1])
        return err_set(e, ERR_DATA,
                       "tensor %s has shape %s, the layout of a folder already transformed for "
                       "MLX: convert the original Hugging Face release instead",
                       show_n(t->name, strlen(t->name)).s, have);
    return err_set(e, ERR_DATA,
                   "tensor %s has shape %s, but config.json asks for %s: the weights and "
                   "config.json do not match",
                   show_n(t->name, strlen(t->name)).s, have, need);
}

int dq_open(struct dq *q, const struct dq_config *c, const char *name, const int64_t *want, int n,
            bool turned, dq_find find, void *ud, bool *found, struct err *e) {
    struct finder f = {name, find, ud};
    struct nearest near = {0};
    memset(q, 0, sizeof *q);
    q->mats = 1;
    for (int d = 0; d < n - 2; d++) q->mats *= want[d];
    q->rows = n >= 2 ? want[n - 2] : 1;
    q->cols = want[n - 1];
    *found = false;
    for (size_t i = 0; i < COUNT_OF(forms) && !q->form; i++) {
        *found = try_form(q, &forms[i], c, &f, &near) != 0 || *found;
    }
    const int64_t swapped[] = {want[0], want[n - 1], q->rows};
    if (q->form && dq_is_plain(q))
        return plain_shape(q->part[0], turned && n == 3 ? swapped : want, n, e);
    q->turned = turned && n == 3 && q->form && q->form->row == dq_fp8_row;
    if (q->form && n >= 2) return q->form->fit(q, c, e);
    if (q->form) return dq_bad(q, 0, e, "is quantized, but a vector is expected");
    q->part[0] = near.values ? near.values : find_part(&f, "");
    if (near.odd)
        return err_set(e, ERR_DATA,
                       "tensor %s has dtype %s, which no known storage format has for it: convert "
                       "the unquantized (BF16) release",
                       show_n(near.odd->name, strlen(near.odd->name)).s,
                       st_dtype_name(near.odd->dtype));
    *found = q->part[0] != NULL;
    return *found ? unknown_form(q->part[0], near.lacks, e) : 0;
}

int dq_open_integers(struct dq *q, const char *name, const struct st_tensor *t, const int64_t *want,
                     int n, struct err *e) {
    memset(q, 0, sizeof *q);
    q->form = &forms[0];
    q->part[0] = t;
    q->mats = 1;
    q->rows = want[0];
    q->cols = want[n - 1];
    if (!(INT >> t->dtype & 1))
        return err_set(e, ERR_DATA, "tensor %s has dtype %s, not integers",
                       show_n(name, strlen(name)).s, st_dtype_name(t->dtype));
    return plain_shape(t, want, n, e);
}

bool dq_is_plain(const struct dq *q) {
    return q->form == &forms[0];
}

bool dq_row(const struct dq *q, int64_t mat, int64_t row, float *dst, float *scratch) {
    return q->form->row(q, mat, row, dst, scratch);
}

void dq_drop(const struct dq *q, const struct hfdir *dir) {
    for (int i = q->foreign; i < DQ_PARTS; i++)
        if (q->part[i]) hfdir_drop(dir, q->part[i]);
}
