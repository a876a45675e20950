// SPDX-License-Identifier: MIT
/* kernels/cuda/matmul.cu - exact products of weights of any type with f32 activations: weights are
 * decoded as in kernels/ref, products are f32 multiply-adds, and sums have a fixed order. One
 * kernel computes dense products, gated units and the weighted sum over experts; expert ids are
 * read on the device.
 *
 * A warp owns a row of one matrix; its lanes take turns with groups of 32 weights (single weights
 * if floats). Used for exact products of few tokens, and for routers; the launchers pass other
 * products to gemv.cu and gemm.cu. Few tokens are fewer than EXACT_MANY if all products of the
 * session are exact, otherwise up to CU_FEW as in gemv.cu, so a session has one limit. */
#include "kernels/cuda/fast.cuh"
#include "kernels/cuda/group.cuh"

enum { ROW_WARPS = 4, EXACT_MANY = 4 };

struct product {
    const uint8_t *w;
    uint64_t row_bytes, mat_bytes;
    int64_t k, rows;
    const int32_t *ids; /* matrix of each input row; NULL: matrix 0 */
    const float *x;     /* input row i is x + i / x_div * ldx */
    int64_t ldx, x_div, n_in;
    const float *p;   /* factor of each input row, or NULL */
    int64_t n_sum;    /* consecutive input rows that add up to an output row */
    const float *mul; /* NULL, or the factors of the outputs: out = act(out) * mul */
    bool gelu;
    float *y;
    int64_t ldy;
    const struct kern_grid *grid;
};

/* Shared memory holds two chunks of activations. A chunk has 32 values for each lane, LINE apart,
 * so that lanes read 16 bytes each without bank conflicts. */
enum { CHUNK = 1024, LINE = 36, CHUNK_LD = 32 * LINE };

/* Returns the lane's share of row . x. All threads of the block call it, with the same x. which:
 * the chunk to use next. Chunks alternate, also across calls, so one barrier suffices. */
template <class B>
CU_DEV float dot(const struct product &j, const uint8_t *row, const float *x,
                 float (*chunk)[CHUNK_LD], int *which) {
    if constexpr (cu_block<B>::elems == 1) {
        return cu_dot_float<B>(row, x, j.k);
    } else {
        const int lane = (int)threadIdx.x % 32;
        float acc = 0;
        for (int64_t k0 = 0; k0 < j.k; k0 += CHUNK) {
            const int64_t g = k0 / 32 + lane;
            float *xs = chunk[*which];
            struct cu_group o;
            if (g < j.k / 32) cu_row_group<B>(row, g, j.grid, &o);
            CU_UNROLL
            for (int c = 0; c < CHUNK; c += 32 * ROW_WARPS) {
                const int i = c + (int)threadIdx.x;
                if (k0 + i < j.k) xs[i / 32 * LINE + lane] = x[k0 + i];
            }
            __syncthreads(); /* this also frees the other chunk */
            if (g < j.k / 32) {
                CU_UNROLL
                for (int l = 0; l < 32; l += 4) {
                    const float4 v = *(const float4 *)(const void *)(xs + lane * LINE + l);
                    acc = fmaf(cu_weight(&o, l), v.x, acc);
                    acc = fmaf(cu_weight(&o, l + 1), v.y, acc);
                    acc = fmaf(cu_weight(&o, l + 2), v.z, acc);
                    acc = fmaf(cu_weight(&o, l + 3), v.w, acc);
                }
            }
            *which ^= 1;
        }
        return acc;
    }
}

CU_DEV void store(const struct product &j, int64_t out, int64_t r, float v) {
    float *y = j.y + out * j.ldy + r;
    *y = j.mul ? cu_gate(v, j.gelu) * j.mul[out * j.ldy + r] : v;
}

/* Computes products whose input rows may use different matrices. The grid is matrix rows times
 * output rows; blocks that read the same weights are adjacent. A warp beyond the last row
 * recomputes that row. */
template <class B> CU_KERNEL product_rows(struct product j) {
    CU_SHARED(float4, mem, [2 * CHUNK_LD / 4]); /* aligned */
    float(*const chunk)[CHUNK_LD] = (float(*)[CHUNK_LD])(void *)mem;
    const unsigned n_out = (unsigned)(j.n_in / j.n_sum), n_blocks = gridDim.x / n_out;
    const int64_t out = j.ids ? blockIdx.x / n_blocks : blockIdx.x % n_out;
    const unsigned block = j.ids ? blockIdx.x % n_blocks : blockIdx.x / n_out;
    const int64_t row = (int64_t)block * ROW_WARPS + threadIdx.x / 32;
    const int64_t r = cu_min(row, j.rows - 1);
    float sum = 0;
    int which = 0;
    for (int64_t i = out * j.n_sum; i < (out + 1) * j.n_sum; i++) {
        const uint64_t mat = j.ids ? (uint64_t)j.ids[i] : 0;
        const uint8_t *w = j.w + mat * j.mat_bytes + (uint64_t)r * j.row_bytes;
        const float acc = cu_warp_sum(dot<B>(j, w, j.x + i / j.x_div * j.ldx, chunk, &which));
        sum = j.p ? fmaf(j.p[i], acc, sum) : acc;
    }
    if (threadIdx.x % 32 == 0 && row < j.rows) store(j, out, r, sum);
}

/* Multiplies many tokens by a float matrix of few rows, that is, a router. A warp has SIDE_ROWS
 * rows and SIDE_TOK tokens, so each loaded value is used several times. The grid is groups of
 * rows and groups of tokens. */
enum { SIDE_ROWS = 4, SIDE_TOK = 8, SIDE_MOST = 512 };
template <class B> CU_KERNEL __launch_bounds__(32 * ROW_WARPS) product_side(struct product j) {
    const int64_t r0 = ((int64_t)blockIdx.x * ROW_WARPS + threadIdx.x / 32) * SIDE_ROWS;
    const int64_t t0 = (int64_t)blockIdx.y * SIDE_TOK;
    const int lane = (int)threadIdx.x % 32;
    if (r0 >= j.rows) return;
    const uint8_t *w[SIDE_ROWS];
    const float *x[SIDE_TOK];
    float acc[SIDE_ROWS * SIDE_TOK] = {};
    CU_UNROLL
    for (int r = 0; r < SIDE_ROWS; r++)
        w[r] = j.w + (uint64_t)cu_min(r0 + r, j.rows - 1) * j.row_bytes;
    CU_UNROLL
    for (int t = 0; t < SIDE_TOK; t++) x[t] = j.x + cu_min(t0 + t, j.n_in - 1) * j.ldx;
    for (int64_t i = lane; i < j.k; i += 32) {
        float a[SIDE_ROWS], b[SIDE_TOK];
        CU_UNROLL
        for (int r = 0; r < SIDE_ROWS; r++) a[r] = cu_float((const B *)w[r], i);
        CU_UNROLL
        for (int t = 0; t < SIDE_TOK; t++) b[t] = x[t][i];
        CU_UNROLL
        for (int r = 0; r < SIDE_ROWS; r++) CU_UNROLL
        for (int t = 0; t < SIDE_TOK; t++)
            acc[r * SIDE_TOK + t] = fmaf(a[r], b[t], acc[r * SIDE_TOK + t]);
    }
    cu_warp_sum_each<float, SIDE_ROWS * SIDE_TOK>(acc);
    if (lane) return;
    CU_UNROLL
    for (int r = 0; r < SIDE_ROWS; r++) CU_UNROLL
    for (int t = 0; t < SIDE_TOK; t++)
        if (r0 + r < j.rows && t0 + t < j.n_in) store(j, t0 + t, r0 + r, acc[r * SIDE_TOK + t]);
}

typedef void (*product_fn)(struct product);
static const struct product_kernel {
    enum qtype type;
    product_fn rows, side; /* side: may be NULL */
} table[] = {
#define ROW(T) {QT_##T, product_rows<struct blk_##T>, NULL},
    CU_GROUP_TYPES(ROW)
#undef ROW
#define ROW(T) {QT_##T, product_rows<struct blk_##T>, product_side<struct blk_##T>},
        CU_FLOAT_TYPES(ROW)
#undef ROW
};

/* Returns the kernel for a type; NULL: not supported. */
static const struct product_kernel *find_kernel(enum qtype t) {
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (table[i].type == t) return &table[i];
    return NULL;
}

bool cu_has_type(enum qtype t) {
    return find_kernel(t) != NULL;
}

/* Launches product_rows, or product_side. */
static int launch(struct cu_stream *s, enum qtype t, struct product *j, bool side, struct err *e) {
    const struct product_kernel *k = find_kernel(t);
    if (!k) return err_set(e, ERR_USAGE, "CUDA: no product with weights of type %s", qtype_name(t));
    j->grid = s->c->grid;
    const int64_t n = side ? div_up(j->n_in, SIDE_TOK) : j->n_in / j->n_sum;
    const int64_t blocks = div_up(j->rows, ROW_WARPS * (side ? SIDE_ROWS : 1));
    if (n > 65535 || n * blocks > INT32_MAX)
        return err_set(e, ERR_USAGE, "CUDA: %lld rows in one product are too many", (long long)n);
    if (n == 0 || j->rows == 0) return 0;
    const dim3 grid((unsigned)(side ? blocks : n * blocks), (unsigned)(side ? n : 1));
    const product_fn fn = side ? k->side : k->rows;
    CU_LAUNCH(e, fn, grid, 32 * ROW_WARPS, 0, s, *j);
    return 0;
}

/* Returns the kernel arguments of y [n_in][rows] = x . W^T. */
static struct product product_of(const struct cu_weight *w, const float *x, int64_t ldx,
                                 int64_t n_in, float *y, int64_t ldy) {
    struct product j = {};
    j.w = (const uint8_t *)w->data;
    j.row_bytes = w->row_bytes;
    j.mat_bytes = w->mat_bytes;
    j.k = w->k;
    j.rows = w->rows;
    j.x = x;
    j.ldx = ldx;
    j.x_div = 1;
    j.n_in = n_in;
    j.n_sum = 1;
    j.y = y;
    j.ldy = ldy;
    return j;
}

/* Returns the size of one packed matrix; 0: it cannot be packed. */
static uint64_t packed_mat_bytes(const struct cu_weight *w) {
    return w->mats ? cu_packed_bytes(w) / (uint64_t)w->mats : 0;
}

/* Returns the rows of a weight, starting at `first`; exact: in file order. Packed rows come in
 * groups of 16. */
static struct cu_rows rows_of(const struct cu_weight *w, int64_t first, bool exact) {
    const bool packed = w->packed && first % 16 == 0 && !exact;
    struct cu_rows o = {w->type, packed, NULL, w->mat_bytes, w->row_bytes};
    uint64_t at = (uint64_t)first * w->row_bytes;
    if (o.packed) {
        o.mat_bytes = packed_mat_bytes(w);
        at = first ? o.mat_bytes / (uint64_t)div_up(w->rows, 16) * (uint64_t)(first / 16) : 0;
    }
    const void *p = o.packed ? w->packed : w->data;
    if (p) o.w = (const uint8_t *)p + at;
    return o;
}

/* Fills *p for weight w. gated: a gated unit with `up`, or with the second half of w if that is
 * NULL. */
void cu_fast_of(struct cu_product *p, const struct cu_weight *w, const struct cu_weight *up,
                bool gated, bool exact) {
    memset(p, 0, sizeof *p);
    p->k = w->k;
    p->rows = gated && !up ? w->rows / 2 : w->rows;
    p->n_mats = w->mats;
    p->exact = exact;
    p->w = rows_of(w, 0, exact);
    if (gated) p->up = up ? rows_of(up, 0, exact) : rows_of(w, p->rows, exact);
}

/* Describes the same product for gemv.cu and gemm.cu. `up` holds the weights of the gated unit's
 * second half, or is NULL. */
static struct cu_product fast_of(const struct cu_weight *w, const struct cu_weight *up, bool gated,
                                 bool exact, const struct product *j) {
    struct cu_product p;
    cu_fast_of(&p, w, up, gated, exact);
    p.ids = j->ids;
    p.x = j->x;
    p.ldx = j->ldx;
    p.x_div = j->x_div;
    p.n_in = j->n_in;
    p.p = j->p;
    p.n_sum = j->n_sum;
    p.gelu = j->gelu;
    p.y = j->y;
    p.ldy = j->ldy;
    return p;
}

/* Returns whether the fast kernels support p for this number of tokens. */
static bool is_fast(const struct cu_product *p, int64_t n_tok) {
    const struct cu_rows *const r[2] = {&p->w, &p->up};
    const bool few = n_tok <= CU_FEW;
    for (int i = 0; i < 2; i++)
        if (r[i]->w && !r[i]->packed && !cu_plain_can(r[i]->type, p->k, few)) return false;
    return p->w.w != NULL && (!few || !p->up.w || cu_same_rows(p));
}

/* Computes a product exactly. For gated units that gemm.cu does not support, sets *left instead.
 * The kernel depends on the weights and on whether there are `many` tokens. */
static int exact_product(struct cu_stream *s, const struct cu_weight *w, const struct cu_weight *up,
                         bool gated, struct product *j, bool many, bool *left, struct err *e) {
    const struct product_kernel *k = find_kernel(w->type);
    const bool side = many && k && k->side && !gated && !j->ids && j->rows <= SIDE_MOST;
    *left = false;
    if (j->n_in == 0 || j->rows == 0) return 0;
    if (many && !side && k && w->mats <= CU_GEMM_MATS) {
        const struct cu_product p = fast_of(w, up, gated, true, j);
        return cu_gemm(s, &p, e);
    }
    *left = gated;
    return gated ? 0 : launch(s, w->type, j, side, e);
}

/* Computes a product, exactly if required or if the fast kernels do not support it; *left as in
 * exact_product(). */
static int product(struct cu_stream *s, const struct cu_weight *w, const struct cu_weight *up,
                   bool gated, struct product *j, int64_t n_tok, bool exact, bool *left,
                   struct err *e) {
    const struct cu_product p = fast_of(w, up, gated, false, j);
    const bool few = n_tok <= CU_FEW;
    *left = false;
    if (j->n_in == 0 || j->rows == 0) return 0;
    if (!exact && (!gated || p.up.w) && is_fast(&p, n_tok))
        return few ? cu_gemv(s, &p, e) : cu_gemm(s, &p, e);
    return exact_product(s, w, up, gated, j, exact ? n_tok >= EXACT_MANY : !few, left, e);
}

/* Computes y = x . W^T for n_tok rows; exact: inputs are not rounded. */
int cu_matmul(struct cu_stream *s, const struct cu_weight *w, const float *x, int64_t ldx,
              int64_t n_tok, float *y, int64_t ldy, bool exact, struct err *e) {
    struct product j = product_of(w, x, ldx, n_tok, y, ldy);
    bool left;
    return product(s, w, NULL, false, &j, n_tok, exact, &left, e);
}

/* Computes the products of a router. mixed: the session's other products are not exact. */
int cu_router(struct cu_stream *s, const struct cu_weight *w, const float *x, int64_t n_tok,
              float *y, bool mixed, struct err *e) {
    struct product j = product_of(w, x, w->k, n_tok, y, w->rows);
    bool left;
    const bool many = n_tok >= (mixed ? CU_FEW + 1 : EXACT_MANY);
    return exact_product(s, w, NULL, false, &j, many, &left, e);
}

/* Computes h = act(gate x) * (up x). up NULL: gate holds both. ids: experts per token, or NULL. */
int cu_glu(struct cu_stream *s, const struct cu_weight *gate, const struct cu_weight *up,
           const float *x, int64_t ldx, int64_t n_tok, const int32_t *ids, int64_t n_used,
           bool gelu, float *h, bool exact, struct err *e) {
    const int64_t f = up ? gate->rows : gate->rows / 2;
    struct product j = product_of(up ? up : gate, x, ldx, n_tok * n_used, h, f);
    bool left;
    j.rows = f;
    j.ids = ids;
    j.x_div = n_used;
    j.gelu = gelu;
    TRY(product(s, gate, up, true, &j, n_tok, exact, &left, e));
    if (!left) return 0;
    if (!up) j.w += (uint64_t)f * gate->row_bytes;
    TRY(launch(s, up ? up->type : gate->type, &j, false, e));
    j.w = (const uint8_t *)gate->data;
    j.row_bytes = gate->row_bytes;
    j.mat_bytes = gate->mat_bytes;
    j.mul = h;
    return launch(s, gate->type, &j, false, e);
}

/* Computes a product for each chosen expert of each token. */
int cu_moe_rows(struct cu_stream *s, const struct cu_weight *w, const float *x, int64_t ldx,
                int64_t n_tok, const int32_t *ids, int64_t n_used, float *y, bool exact,
                struct err *e) {
    struct product j = product_of(w, x, ldx, n_tok * n_used, y, w->rows);
    bool left;
    j.ids = ids;
    j.x_div = n_used;
    return product(s, w, NULL, false, &j, n_tok, exact, &left, e);
}

/* Computes the experts' outputs and their sum weighted by p, for each token. */
int cu_moe_down(struct cu_stream *s, const struct cu_weight *down, const float *h, int64_t n_tok,
                const int32_t *ids, const float *p, int64_t n_used, float *y, int64_t ldy,
                bool exact, struct err *e) {
    struct product j = product_of(down, h, down->k, n_tok * n_used, y, ldy);
    bool left;
    j.ids = ids;
    j.p = p;
    j.n_sum = n_used;
    return product(s, down, NULL, false, &j, n_tok, exact, &left, e);
}

uint64_t cu_scratch_bytes(const struct cu_weight *w, int64_t n_in, int64_t x_div, int64_t n_sum,
                          bool exact) {
    struct product j = product_of(w, NULL, 0, n_in, NULL, 0);
    if (w->k % 32 && !exact) return 0;
    j.x_div = x_div;
    j.n_sum = n_sum;
    const struct cu_product p = fast_of(w, NULL, false, exact, &j);
    const uint64_t few = exact ? 0 : (uint64_t)(CU_ACT_BYTES(p.k) * (n_in / x_div));
    return max_u64(few, cu_gemm_scratch(&p));
}
