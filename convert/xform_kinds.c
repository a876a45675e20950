// SPDX-License-Identifier: MIT
/* convert/xform_kinds.c - table of tensor transforms: which source row an output row comes from,
 * and what happens to its values. */
#include "convert/xform_int.h"

#include "base/attr.h"
#include "base/fp.h"

int64_t xform_v_group(const struct hparams *h, const struct tensor_inst *t) {
    const uint8_t of = t->row->group;
    return h->d[HD_LIN_V_HEADS] == h->d[HD_LIN_K_HEADS] ? 0 : of ? h->d[of] : 1;
}
int64_t xform_v_old(const struct hparams *h, int64_t g, int64_t i) {
    int64_t hk = h->d[HD_LIN_K_HEADS], per = h->d[HD_LIN_V_HEADS] / hk;
    int64_t head = i / g;
    return ((head % hk) * per + head / hk) * g + i % g;
}
/* Returns the source row of output row r, for value heads in another order. */
static int64_t src_row_v(const struct hparams *h, const struct tensor_inst *t, int64_t r) {
    const int64_t g = xform_v_group(h, t);
    return g ? xform_v_old(h, g, r) : r;
}
/* Returns the source row of output row r, for value heads stored after queries and keys. */
static int64_t src_row_v_tail(const struct hparams *h, const struct tensor_inst *t, int64_t r) {
    const int64_t fixed = 2 * h->d[HD_LIN_K_HEADS] * h->d[HD_LIN_K_DIM];
    return r < fixed ? r : fixed + src_row_v(h, t, r - fixed);
}

/* Returns the source row of row r. The first `rot` of each head's `head` rows are interleaved in
 * pairs, or separated into halves if `apart` is set. */
static int64_t pair_old(int64_t head, int64_t rot, bool apart, int64_t r) {
    const int64_t i = r % head, half = rot / 2;
    if (i >= rot) return r;
    return r - i + (apart ? i % half * 2 + i / half : i % 2 * half + i / 2);
}
/* Like pair_old, with the head size and rotated dimensions of the tensor row's group. */
static int64_t rope_old(const struct hparams *h, const struct tensor_inst *t, bool apart,
                        int64_t r) {
    const int block = t->block;
    const int64_t head = hp_dim(h, block, t->row->group), rot = hp_dim(h, block, HD_ROT);
    return pair_old(head, rot < 2 || rot > head ? head : rot, apart, r);
}
/* Returns the source row of output row r, for heads rotated in pairs. */
static int64_t src_row_rope_pairs(const struct hparams *h, const struct tensor_inst *t, int64_t r) {
    return rope_old(h, t, false, r);
}
/* Returns the source row of output row r, for heads rotated in halves. */
static int64_t src_row_rope_halves(const struct hparams *h, const struct tensor_inst *t,
                                   int64_t r) {
    return h->d[HD_ROPE_SEC0] ? rope_old(h, t, true, r) : r;
}

/* Returns the row in wqkv, which is grouped by key head, of row r of q (`of` 0), k (1) or v (2). */
static int64_t qkv_old(const struct layer_hp *l, int of, int64_t r) {
    const int64_t hd = l->head_dim, per = l->heads / l->kv_heads, head = r / hd;
    const int64_t kv = of ? head : head / per, part = of ? per + of - 1 : head % per;
    return (kv * (per + 2) + part) * hd + r % hd;
}
/* Returns the hyperparameters of the tensor's layer. */
static const struct layer_hp *layer_of(const struct hparams *h, const struct tensor_inst *t) {
    return &h->layer[t->block];
}
/* Returns the source row of output row r of the queries in a fused matrix, rotated in pairs. */
static int64_t src_row_qkv_q(const struct hparams *h, const struct tensor_inst *t, int64_t r) {
    const int64_t head = layer_of(h, t)->head_dim;
    return qkv_old(layer_of(h, t), 0, pair_old(head, head, false, r));
}
/* Returns the source row of output row r of the keys in a fused matrix, rotated in pairs. */
static int64_t src_row_qkv_k(const struct hparams *h, const struct tensor_inst *t, int64_t r) {
    const int64_t head = layer_of(h, t)->head_dim;
    return qkv_old(layer_of(h, t), 1, pair_old(head, head, false, r));
}
/* Returns the source row of output row r of the values in a fused matrix. */
static int64_t src_row_qkv_v(const struct hparams *h, const struct tensor_inst *t, int64_t r) {
    return qkv_old(layer_of(h, t), 2, r);
}
/* Returns the source row of output row r of a fused matrix that is sorted into queries, keys and
 * values. */
static int64_t src_row_qkv_all(const struct hparams *h, const struct tensor_inst *t, int64_t r) {
    const struct layer_hp *l = layer_of(h, t);
    const int64_t n_q = l->heads * l->head_dim, n_k = l->kv_heads * l->head_dim;
    return r < n_q ? qkv_old(l, 0, r) : qkv_old(l, r < n_q + n_k ? 1 : 2, (r - n_q) % n_k);
}

/* Returns the row in Qwen3-Next's fused matrix, which stores q, k, v and z for each key head in
 * turn. */
static int64_t qkvz_qkv(const struct hparams *h, const struct tensor_inst *t, int64_t r) {
    UNUSED(t);
    const int64_t dk = h->d[HD_LIN_K_DIM], hk = h->d[HD_LIN_K_HEADS],
                  v = h->d[HD_LIN_INNER] / hk; /* values per key head */
    const int64_t all = 2 * dk + 2 * v;
    if (r < hk * dk) return r / dk * all + r % dk;
    r -= hk * dk;
    if (r < hk * dk) return r / dk * all + dk + r % dk;
    r -= hk * dk;
    return r / v * all + 2 * dk + r % v;
}
/* Returns the source row of output row r of the gate in a fused linear attention matrix. */
static int64_t src_row_qkvz_z(const struct hparams *h, const struct tensor_inst *t, int64_t r) {
    UNUSED(t);
    const int64_t dk = h->d[HD_LIN_K_DIM], v = h->d[HD_LIN_INNER] / h->d[HD_LIN_K_HEADS];
    return r / v * (2 * dk + 2 * v) + 2 * dk + v + r % v;
}

/* Returns the source row of row r of the indexer's keys, which follow its queries. */
static int64_t src_row_index_k(const struct hparams *h, const struct tensor_inst *t, int64_t r) {
    UNUSED(t);
    return h->d[HD_INDEX_Q] + r;
}

/* Returns the row, in stripes of q, k and v, of row r of part `of`. */
static int64_t stripe_old(const struct hparams *h, const struct tensor_inst *t, int of, int64_t r) {
    static const int part[] = {HD_ATTN_OUT, HD_KV_OUT, HD_V_OUT};
    const int64_t n = h->d[HD_QKV_STRIPES];
    const int block = t->block;
    int64_t before = 0;
    for (int k = 0; k < of; k++) before += hp_dim(h, block, part[k]) / n;
    const int64_t all = hp_dim(h, block, HD_QKV_OUT) / n, per = hp_dim(h, block, part[of]) / n;
    return r / per * all + before + r % per;
}
/* Returns the source row of row r of the queries in stripes. */
static int64_t src_row_stripe_q(const struct hparams *h, const struct tensor_inst *t, int64_t r) {
    return stripe_old(h, t, 0, r);
}
/* Returns the source row of row r of the keys in stripes. */
static int64_t src_row_stripe_k(const struct hparams *h, const struct tensor_inst *t, int64_t r) {
    return stripe_old(h, t, 1, r);
}
/* Returns the source row of row r of the values in stripes. */
static int64_t src_row_stripe_v(const struct hparams *h, const struct tensor_inst *t, int64_t r) {
    return stripe_old(h, t, 2, r);
}

int64_t xform_latent_head(const struct hparams *h) {
    return h->d[HD_NOPE] + h->d[HD_VALUE_MLA];
}

static void scale_values(float *x, int64_t n, float by) {
    for (int64_t i = 0; i < n; i++) x[i] *= by;
}
/* Multiplies row r, of n values, by the factor of its tensor. */
static void times_factor(const struct hparams *h, const struct tensor_inst *t, int64_t r, float *x,
                         int64_t n) {
    (void)r;
    scale_values(x, n, h->mul[t->row->group]);
}
/* Multiplies a row of Mamba's ssm_in by the factor of its part (z, x, B, C or dt). */
static void by_part(const struct hparams *h, const struct tensor_inst *t, int64_t r, float *x,
                    int64_t n) {
    UNUSED(t);
    const int64_t bc = h->d[HD_LIN_K_HEADS] * h->d[HD_LIN_K_DIM];
    const int64_t rows[] = {h->d[HD_LIN_INNER], h->d[HD_LIN_INNER], bc, bc};
    int k = 0;
    for (; k < 4 && r >= rows[k]; k++) r -= rows[k];
    scale_values(x, n, h->mul[MUL_Z + k]);
}
/* Adds 1 to n values, then applies the tensor's factor if it has one. */
static void add_one(const struct hparams *h, const struct tensor_inst *t, int64_t r, float *x,
                    int64_t n) {
    for (int64_t i = 0; i < n; i++) x[i] += 1.0f;
    if (t->row->group) times_factor(h, t, r, x, n);
}
/* Adds the index of each value. */
static void add_index(const struct hparams *h, const struct tensor_inst *t, int64_t r, float *x,
                      int64_t n) {
    UNUSED(h);
    UNUSED(t);
    UNUSED(r);
    for (int64_t i = 0; i < n; i++) x[i] += (float)i;
}
/* Replaces x by -exp(x). */
static void neg_exp(const struct hparams *h, const struct tensor_inst *t, int64_t r, float *x,
                    int64_t n) {
    UNUSED(h);
    UNUSED(t);
    UNUSED(r);
    for (int64_t i = 0; i < n; i++) x[i] = (float)-fp_exp((double)x[i]);
}

/* Replaces the values by their exponentials. */
static void plain_exp(const struct hparams *h, const struct tensor_inst *t, int64_t r, float *x,
                      int64_t n) {
    UNUSED(h);
    UNUSED(t);
    UNUSED(r);
    for (int64_t i = 0; i < n; i++) x[i] = (float)fp_exp((double)x[i]);
}

/* Returns the divisor of frequency i: 1 within the rotated dimensions, 1e30 beyond them. */
static float rope_freq(const struct hparams *h, int64_t i) {
    return i < h->d[HD_FREQS_ROT] / 2 ? 1.0f : 1e30f;
}
/* Returns Llama 3's divisor of rotary pair i. */
static float rope_llama3(const struct hparams *h, int64_t i) {
    return (float)llama3_divisor(h, i);
}
/* Returns the divisor of rotary pair i for contexts beyond the trained one. */
static float rope_far(const struct hparams *h, int64_t i) {
    return h->far[i];
}
/* Returns the divisor of rotary pair i within the trained context. */
static float rope_near(const struct hparams *h, int64_t i) {
    return h->near[i];
}
static float fill_q(const struct hparams *h, int64_t i) {
    (void)i;
    return h->mul[MUL_Q];
}
static float fill_one(const struct hparams *h, int64_t i) {
    (void)h, (void)i;
    return 1;
}

/* XF_COPY does nothing; latent_rows() of xform.c implements XF_LATENT_K. */
static const struct xform_kind kinds[XF_COUNT] = {
    [XF_ADD1] = {.value = add_one},
    [XF_TOKEN_IDS] = {.value = add_index},
    [XF_NEG_EXP] = {.value = neg_exp},
    [XF_EXP] = {.value = plain_exp},
    [XF_V_ROWS] = {.row = src_row_v, .elements = true},
    [XF_V_ROWS_TAIL] = {.row = src_row_v_tail, .elements = true},
    [XF_V_COLS] = {.columns = true, .elements = true},
    [XF_NEG_EXP_V] = {.row = src_row_v, .value = neg_exp, .elements = true},
    [XF_SPLIT_FIRST] = {.half = 1},
    [XF_SPLIT_SECOND] = {.half = 2},
    [XF_ROPE_PAIRS] = {.row = src_row_rope_pairs, .elements = true},
    [XF_ROPE_HALVES] = {.row = src_row_rope_halves, .elements = true},
    [XF_QKV_Q] = {.row = src_row_qkv_q, .is_qkv = true},
    [XF_QKV_K] = {.row = src_row_qkv_k, .is_qkv = true},
    [XF_QKV_V] = {.row = src_row_qkv_v, .is_qkv = true},
    [XF_QKV_ALL] = {.row = src_row_qkv_all, .is_qkv = true, .elements = true},
    [XF_EVEN] = {.every = 1, .turns = true},
    [XF_ODD] = {.every = 2, .turns = true},
    [XF_TURN] = {.turns = true},
    [XF_TURN_FIRST] = {.half = 1, .turns = true},
    [XF_TURN_SECOND] = {.half = 2, .turns = true},
    [XF_QKVZ_QKV] = {.row = qkvz_qkv, .is_qkvz = true},
    [XF_QKVZ_Z] = {.row = src_row_qkvz_z, .is_qkvz = true},
    [XF_MULTIPLY] = {.value = times_factor},
    [XF_MULTIPLY_IN] = {.value = by_part},
    [XF_ROPE_FREQS] = {.made = rope_freq},
    [XF_ROPE_LLAMA3] = {.made = rope_llama3},
    [XF_LATENT_K] = {.is_latent = true},
    [XF_LATENT_V] = {.is_latent = true},
    [XF_ROPE_FAR] = {.made = rope_far},
    [XF_ROPE_NEAR] = {.made = rope_near},
    [XF_FILL_Q] = {.made = fill_q},
    [XF_FILL_ONE] = {.made = fill_one},
    [XF_INDEX_Q] = {.is_index = true},
    [XF_INDEX_K] = {.row = src_row_index_k, .is_index = true},
    [XF_STRIPE_Q] = {.row = src_row_stripe_q, .is_qkv = true},
    [XF_STRIPE_K] = {.row = src_row_stripe_k, .is_qkv = true},
    [XF_STRIPE_V] = {.row = src_row_stripe_v, .is_qkv = true},
};

const struct xform_kind *xform_kind(enum xform xf) {
    return &kinds[xf];
}

bool xform_turns(enum xform xf) {
    return kinds[xf].turns;
}
bool xform_makes(enum xform xf) {
    return kinds[xf].made != NULL;
}
int xform_latent_source(const struct hparams *h, int64_t want[4]) {
    want[0] = h->d[HD_HEADS] * xform_latent_head(h);
    want[1] = h->d[HD_KV_RANK];
    return 2;
}
void xform_want(const struct hparams *h, const struct item *it, int64_t want[4]) {
    const struct xform_kind *k = &kinds[it->xf];
    const int n = it->inst.n_dims;
    if (k->half) want[n - 2] *= 2;
    if (k->every) want[1] *= 2;
    if (it->xf == XF_TURN && n == 2) { /* a single matrix is copied as stored */
        const int64_t rows = want[0];
        want[0] = want[1];
        want[1] = rows;
    }
    if (k->is_qkv) want[n > 1 ? n - 2 : 0] = hp_dim(h, it->inst.block, HD_QKV_OUT);
    if (k->is_index) want[0] = h->d[HD_INDEX_Q] + h->d[HD_INDEX_DIM];
    if (k->is_qkvz) want[0] = h->d[HD_CONV_CH] + h->d[HD_LIN_INNER];
}
