// SPDX-License-Identifier: MIT
/* Programs: every pattern of runtime/engine/fusions.def matches nodes that meet its conditions, and
 * does not match if one condition is violated. Programs of whole models contain each node once, in
 * the steps that docs/design/cuda.md lists, for each batch class. Fusions that a target lacks are
 * not used.
 */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "models/arch.h"
#include "runtime/engine/program.h"
#include "runtime/engine/placement.h"
#include "tests/check.h"
#include "tests/unit/tmpdir.h"

/* ---- a target that can do everything, and its opposites ---- */

static unsigned no_way = 0; /* 1 + index of a weight that passes of few rows cannot use */
static unsigned way(const void *ud, gr_w w) {
    (void)ud;
    return no_way == (unsigned)w + 1 ? 0 : WAY_BYTES | WAY_FLOATS;
}
static bool no_joins;
static enum node_way first_is = NODE_HERE; /* where node 0 is computed */
static bool joins(const void *ud, gr_w gate, gr_w up) {
    (void)ud, (void)gate, (void)up;
    return !no_joins;
}
static enum node_way where(const void *ud, int node) {
    (void)ud;
    return node == 0 ? first_is : NODE_HERE;
}
static struct target all_of(enum batch b) {
    return (struct target){.fusions = FUSE_BIT(COUNT) - 1,
                           .batch = b,
                           .few = b != BATCH_MANY,
                           .many = true,
                           .way = way,
                           .joins = joins,
                           .where = where};
}

/* ---- nodes of each pattern ---- */

struct nodes {
    struct graph g;
    gr_reg r[16]; /* registers of equal width; 0: the residual, 1: its norm */
};
static struct gr_node *add(struct nodes *n, enum gr_op op, int dst, int a, int b) {
    struct gr_node *x = graph_node(&n->g, op, 0);
    x->dst = n->r[dst];
    x->src[0] = a < 0 ? GR_NONE : n->r[a];
    x->src[1] = b < 0 ? GR_NONE : n->r[b];
    return x;
}
static gr_w weight(struct nodes *n) {
    return graph_weight(&n->g, "w", 0, 64, 64, 1);
}
static void product(struct nodes *n, int dst, int src) {
    const gr_w w = weight(n);
    add(n, OP_MATMUL, dst, src, -1)->product.matrix = w;
}
static void norm(struct nodes *n, enum gr_op op, int dst, int src) {
    const gr_w w = weight(n);
    struct gr_node *x = add(n, op, dst, src, -1);
    x->norm.weight = w;
    x->norm.head_dim = 16;
    x->norm.eps = 1e-6f;
}
static void residual(struct nodes *n, int by) {
    add(n, OP_ADD, 0, 0, by);
    norm(n, OP_RMS, 1, 0);
}
static void add_rms(struct nodes *n) {
    residual(n, 2);
}
static void gate_add_rms(struct nodes *n) {
    const gr_w w = weight(n);
    add(n, OP_GATE_ADD, 2, 3, 1)->gate.row = w;
    residual(n, 2);
}
static void glu(struct nodes *n) {
    product(n, 4, 1);
    product(n, 5, 1);
    add(n, OP_SWIGLU, 4, 4, 5);
}
static void rope(struct nodes *n, int r) {
    struct gr_node *x = add(n, OP_ROPE, r, r, -1);
    x->rope.head_dim = 16;
    x->rope.n_rot = 16;
    x->rope.base = 1e4;
}
static void heads(struct nodes *n) {
    norm(n, OP_RMS_HEADS, 4, 4);
    rope(n, 4);
    norm(n, OP_RMS_HEADS, 5, 5);
    rope(n, 5);
    struct gr_node *x = add(n, OP_ATTN, 7, 4, 5);
    x->src[2] = n->r[6];
    x->attn.n_heads = x->attn.n_kv_heads = 4;
    x->attn.head_dim = 16;
}
static void qkv(struct nodes *n) {
    product(n, 3, 1);
    struct gr_node *x = add(n, OP_SPLIT_GATE, 4, 3, -1);
    x->dst2 = n->r[8];
    x->heads.head_dim = 16;
    product(n, 5, 1);
    product(n, 6, 1);
    heads(n);
    add(n, OP_SIGMOID_MUL, 7, 8, -1);
}
static void attn_gate(struct nodes *n) {
    add(n, OP_ATTN, 7, 4, 5)->src[2] = n->r[6];
    add(n, OP_SIGMOID_MUL, 7, 8, -1);
}
static void moe(struct nodes *n) {
    const gr_w w[4] = {weight(n), weight(n), weight(n), weight(n)};
    struct gr_node *x = add(n, OP_MOE, 2, 1, -1);
    x->moe.router = w[0];
    x->moe.gate = w[1];
    x->moe.up = w[2];
    x->moe.down = w[3];
    x->moe.n_used = 2;
    glu(n);
    product(n, 3, 4);
    gate_add_rms(n);
}
static void products(struct nodes *n) {
    product(n, 4, 1);
    product(n, 5, 1);
    product(n, 6, 1);
}
static void product_norm(struct nodes *n) {
    product(n, 2, 7);
    residual(n, 2);
}
static void delta(struct nodes *n) {
    const gr_w w = weight(n);
    add(n, OP_CONV_SILU, 4, 4, -1)->conv.weight = w;
    struct gr_node *x = add(n, OP_DELTA, 7, 4, 5);
    x->src[2] = n->r[6];
    x->delta.n_v_heads = x->delta.n_k_heads = 4;
    x->delta.k_dim = x->delta.v_dim = 16;
    norm(n, OP_GATED_RMS, 7, 7);
    n->g.node[2].src[1] = n->r[8];
}

/* A change to one property of a node. */
enum what { DST, DST2, SRC0, SRC1, OP, NUMBER, WEIGHT };
struct change {
    int node;
    enum what what;
    int to; /* a register, an operation */
};
static void change(struct nodes *n, const struct change *c) {
    struct gr_node *x = &n->g.node[c->node];
    switch (c->what) {
    case DST:
        x->dst = n->r[c->to];
        return;
    case DST2:
        x->dst2 = n->r[c->to];
        return;
    case SRC0:
        x->src[0] = n->r[c->to];
        return;
    case SRC1:
        x->src[1] = c->to < 0 ? GR_NONE : n->r[c->to];
        return;
    case OP:
        x->op = (enum gr_op)c->to;
        return;
    case NUMBER: /* the operation's parameter that the rule checks */
        if (x->op == OP_ROPE) x->rope.base *= 2;
        if (x->op == OP_RMS_HEADS) x->norm.eps *= 2;
        if (x->op == OP_GATED_RMS) x->norm.head_dim *= 2;
        if (x->op == OP_ATTN) x->attn.head_dim *= 2;
        if (x->op == OP_DELTA) x->delta.n_k_heads *= 2;
        if (x->op == OP_MOE) x->moe.limit = 7;
        if (x->op == OP_GEGLU) x->pick.offset = 8;
        return;
    case WEIGHT: /* of a type that the kernels for few rows do not support */
        no_way = (unsigned)gr_node_weight(x, c->to) + 1;
        return;
    }
}

/* A fusion that matches `whole` nodes for the batch classes in `classes` only, and not after any
 * one of the changes. */
static const struct pattern_case {
    void (*build)(struct nodes *n);
    enum fusion f;
    unsigned classes;
    int whole;
    struct change not [14]; /* changes that prevent the fusion; ends at {0, DST, 0} */
} cases[] = {
    {add_rms,
     FUSE_ADD_RMS,
     7,
     2,
     {{1, SRC0, 3}, {1, DST, 0}, {1, OP, OP_LAYER_NORM}, {0, OP, OP_SWIGLU}}},
    {gate_add_rms,
     FUSE_GATE_ADD_RMS,
     7,
     3,
     {{0, DST, 5}, {1, DST, 5}, {1, SRC1, 5}, {2, SRC0, 3}, {2, OP, OP_LAYER_NORM}}},
    {glu,
     FUSE_GLU,
     7,
     3,
     {{0, DST, 6},
      {1, DST, 6},
      {1, SRC0, 2},
      {2, SRC0, 5},
      {2, SRC1, 4},
      {2, OP, OP_ADD},
      {1, OP, OP_BIAS}}},
    {qkv,
     FUSE_QKV,
     7,
     10,
     {{1, SRC0, 2},
      {2, DST, 3},
      {3, DST, 3},
      {1, DST, 9},
      {4, DST, 9},
      {4, NUMBER, 0},
      {5, NUMBER, 0},
      {7, DST, 9},
      {8, SRC0, 9},
      {8, SRC1, -1},
      {8, NUMBER, 0},
      {9, SRC0, 9},
      {6, OP, OP_ROPE}}},
    {attn_gate, FUSE_ATTN_GATE, 7, 2, {{1, DST, 6}, {1, OP, OP_ADD}}},
    {moe,
     FUSE_MOE,
     3,
     5,
     {{0, NUMBER, 0}, {0, DST, 1}, {0, WEIGHT, 0}, {0, WEIGHT, 1}, {0, WEIGHT, 2}, {0, WEIGHT, 3}}},
    {products, FUSE_PRODUCTS, 3, 3, {{1, DST, 4}, {2, DST, 5}, {0, WEIGHT, 0}, {0, DST, 1}}},
    {product_norm, FUSE_PRODUCTS, 3, 1, {{0, WEIGHT, 0}, {0, DST, 7}}},
    {delta,
     FUSE_DELTA,
     1,
     3,
     {{1, SRC0, 5},
      {2, SRC0, 6},
      {2, DST, 6},
      {2, NUMBER, 0},
      {1, NUMBER, 0},
      {2, OP, OP_RMS_HEADS}}},
};

static void start(struct nodes *n, const struct pattern_case *c) {
    graph_init(&n->g);
    for (int i = 0; i < 16; i++) n->r[i] = graph_reg(&n->g, 64);
    c->build(n);
    no_way = 0;
}

/* Returns the fusion found at node 0, and its number of nodes. */
static enum fusion found(const struct nodes *n, const struct target *t, int *n_nodes) {
    struct match m;
    const enum fusion f = fuse_at(&n->g, 0, n->g.n_nodes, t, &m);
    *n_nodes = m.n_nodes;
    CHECK(m.n_nodes >= 1 && m.n_nodes <= n->g.n_nodes);
    return f;
}

static void test_patterns(void) {
    struct nodes n;
    int k, seen[FUSE_COUNT] = {0};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const struct pattern_case *c = &cases[i];
        seen[c->f]++;
        for (int b = 0; b < BATCH_COUNT; b++) {
            start(&n, c);
            struct target t = all_of((enum batch)b);
            const bool is = found(&n, &t, &k) == c->f;
            const bool want = (c->classes >> b & 1) != 0;
            if (is != want || (is && k != c->whole))
                CHECK_FAIL("%s, class %d: %d nodes", fuse_name(c->f), b, k);
            t.fusions &= ~(UINT32_C(1) << c->f);
            CHECK(found(&n, &t, &k) != c->f);
            t = all_of((enum batch)b);
            t.sees_all = true;
            CHECK(found(&n, &t, &k) == FUSE_NONE && k == 1);
            graph_release(&n.g);
        }
        for (const struct change *x = c->not ; x->node || x->what || x->to; x++) {
            start(&n, c);
            change(&n, x);
            const struct target t = all_of(BATCH_ONE);
            /* the first two of three products may still share a launch */
            if (found(&n, &t, &k) == c->f && !(c->build == products && x->node == 2 && k == 2))
                CHECK_FAIL("%s with node %d changed (%d to %d): %d nodes", fuse_name(c->f), x->node,
                           (int)x->what, x->to, k);
            graph_release(&n.g);
        }
    }
    for (int f = 0; f < FUSE_COUNT; f++)
        if (!seen[f]) CHECK_FAIL("no case for %s", fuse_name((enum fusion)f));
}

/* Tests experts that are copied: each matrix comes before the part that computes with it, and the
 * node has no other steps; gate and up may be one tensor. */
static void test_brought(void) {
    static const struct {
        enum step_kind kind;
        int what, n_nodes; /* the part of a STEP_RUN, the role of a STEP_BRING */
    } want[] = {{STEP_RUN, PART_CHOOSE, 0},    {STEP_BRING, USE_EXP_GATE, 0},
                {STEP_BRING, USE_EXP_UP, 0},   {STEP_RUN, PART_EXPAND, 0},
                {STEP_BRING, USE_EXP_DOWN, 0}, {STEP_RUN, PART_CONTRACT, 1}};
    struct nodes n;
    start(&n, &cases[5]);
    first_is = NODE_BROUGHT;
    for (int joined = 0; joined < 2; joined++) {
        struct target t = all_of(BATCH_MANY);
        struct program p = {0};
        int at = 0;
        if (joined) n.g.node[0].moe.up = GR_NONE;
        program_compile(&p, &n.g, 0, &t);
        for (size_t i = 0; i < COUNT_OF(want); i++) {
            if (joined && want[i].kind == STEP_BRING && want[i].what == USE_EXP_UP) continue;
            const struct step *s = &p.step[at++];
            CHECK(s->kind == want[i].kind && s->first == 0 && s->fusion == FUSE_NONE);
            CHECK_EQ_I64(s->kind == STEP_RUN ? (int)s->part : (int)s->role, want[i].what);
            CHECK_EQ_I64(s->n_nodes, want[i].n_nodes);
        }
        CHECK(p.step[at].kind == STEP_RUN && p.step[at].part == PART_ALL && p.step[at].first == 1);
        program_release(&p);
    }
    first_is = NODE_HERE;
    graph_release(&n.g);
}

/* Tests optional parts, and fusions that the target lacks. */
static void test_parts(void) {
    struct nodes n;
    struct target t = all_of(BATCH_ONE);
    int k;
    start(&n, &cases[5]); /* without the shared expert: one node */
    n.g.node[4].src[0] = n.r[9];
    CHECK(found(&n, &t, &k) == FUSE_MOE && k == 1);
    t.many = false;
    CHECK(found(&n, &t, &k) == FUSE_MOE && k == 1);
    t.sees_routes = true;
    CHECK(found(&n, &t, &k) == FUSE_NONE);
    t.sees_routes = false;
    first_is = NODE_HOST; /* three steps, and the next ones on their own */
    struct program p = {0};
    program_compile(&p, &n.g, 0, &t);
    CHECK(p.step[0].kind == STEP_FETCH && p.step[1].kind == STEP_HOST &&
          p.step[2].kind == STEP_SEND);
    CHECK(p.step[0].first == 0 && p.step[1].first == 0 && p.step[2].first == 0);
    CHECK(p.step[3].kind == STEP_RUN && p.step[3].first == 1 && p.step[3].fusion == FUSE_GLU);
    program_release(&p);
    first_is = NODE_HERE;
    no_joins = true;
    CHECK(found(&n, &t, &k) == FUSE_NONE);
    no_joins = false;
    t.few = false;
    CHECK(found(&n, &t, &k) == FUSE_NONE);
    graph_release(&n.g);

    start(&n, &cases[6]); /* each separately if several at once are not supported */
    t = all_of(BATCH_ONE);
    t.many = false;
    CHECK(found(&n, &t, &k) == FUSE_PRODUCTS && k == 1);
    graph_release(&n.g);

    start(&n, &cases[2]); /* two types: only exact, for many rows and for few */
    no_joins = true;
    t = all_of(BATCH_MANY);
    CHECK(found(&n, &t, &k) == FUSE_NONE);
    t.exact = true;
    CHECK(found(&n, &t, &k) == FUSE_GLU && k == 3);
    no_joins = false;
    graph_release(&n.g);

    start(&n, &cases[3]); /* heads separately, after their products; queries without gates */
    t = all_of(BATCH_ONE);
    struct match m;
    n.g.node[9].dst = n.r[9];
    CHECK(fuse_at(&n.g, 4, n.g.n_nodes, &t, &m) == FUSE_QKV && m.n_nodes == 5 && !m.qkv.gate &&
          !m.qkv.split);
    CHECK(m.qkv.attn == &n.g.node[8] && m.qkv.q_norm == &n.g.node[4]);
    graph_release(&n.g);
}

/* ---- whole models ---- */

static void hparams(struct hparams *h, bool is_moe) {
    static const int64_t v[][2] = {{HD_ONE, 1},         {HD_VOCAB, 97},      {HD_CTX, 512},
                                   {HD_EMBD, 64},       {HD_HEADS, 4},       {HD_KV_HEADS, 2},
                                   {HD_HEAD_DIM, 32},   {HD_ROT, 8},         {HD_FULL_INTERVAL, 2},
                                   {HD_LIN_K_HEADS, 2}, {HD_LIN_V_HEADS, 6}, {HD_LIN_K_DIM, 16},
                                   {HD_LIN_V_DIM, 16},  {HD_CONV_K, 4},      {HD_LAYERS, 2}};
    memset(h, 0, sizeof *h);
    for (size_t i = 0; i < COUNT_OF(v); i++) h->d[v[i][0]] = v[i][1];
    h->f[HF_RMS_EPS] = 1e-6;
    h->f[HF_ROPE_BASE] = 1e7;
    h->d[HD_FF] = is_moe ? 0 : 128;
    if (!is_moe) return;
    h->d[HD_EXPERTS] = 8;
    h->d[HD_EXPERTS_USED] = 3;
    h->d[HD_FF_EXP] = 24;
    h->d[HD_FF_SHEXP] = 20;
}

/* Writes a program as text: "name" for single nodes, "name:nodes" for fusions. */
static void program_text(const struct program *p, const struct graph *g, char *out, size_t size) {
    size_t at = 0;
    int next = p->first;
    for (int i = 0; i < p->n_steps; i++) {
        const struct step *s = &p->step[i];
        CHECK(s->first == next && s->n_nodes >= 1);
        next += s->n_nodes;
        if (s->fusion == FUSE_NONE)
            at += (size_t)snprintf(out + at, size - at, " %s", gr_op_name(g->node[s->first].op));
        else
            at += (size_t)snprintf(out + at, size - at, " %s:%d", fuse_name(s->fusion), s->n_nodes);
        CHECK(at < size);
    }
    CHECK_EQ_I64(next, g->n_nodes);
}

/* Derived manually from the operations of a layer. Nothing follows the last norm, so both layers
 * end in the same way. */
static const struct {
    const char *arch;
    bool moe;
    const char *one, *few, *many;
} models[] = {
    {"qwen3", false,
     " embed rms products:3 qkv:5 products:1 add_rms:2 glu:3 products:1 add_rms:2"
     " products:3 qkv:5 products:1 add_rms:2 glu:3 products:1 add_rms:2",
     " embed rms products:3 qkv:5 products:1 add_rms:2 glu:3 products:1 add_rms:2"
     " products:3 qkv:5 products:1 add_rms:2 glu:3 products:1 add_rms:2",
     " embed rms matmul matmul matmul qkv:5 matmul add_rms:2 glu:3 matmul add_rms:2"
     " matmul matmul matmul qkv:5 matmul add_rms:2 glu:3 matmul add_rms:2"},
    {"qwen3moe", true,
     " embed rms products:3 qkv:5 products:1 add_rms:2 moe:1 add_rms:2"
     " products:3 qkv:5 products:1 add_rms:2 moe:1 add_rms:2",
     " embed rms products:3 qkv:5 products:1 add_rms:2 moe:1 add_rms:2"
     " products:3 qkv:5 products:1 add_rms:2 moe:1 add_rms:2",
     " embed rms matmul matmul matmul qkv:5 matmul add_rms:2 moe add_rms:2"
     " matmul matmul matmul qkv:5 matmul add_rms:2 moe add_rms:2"},
    /* a delta net layer, then one with gated attention */
    {"qwen35moe", true,
     " embed rms products:4 delta:3 products:1 add_rms:2 moe:5 gate_add_rms:3"
     " qkv:10 products:1 add_rms:2 moe:5 gate_add_rms:3",
     " embed rms products:4 conv_silu delta gated_rms products:1 add_rms:2 moe:5 gate_add_rms:3"
     " qkv:10 products:1 add_rms:2 moe:5 gate_add_rms:3",
     " embed rms matmul matmul matmul matmul conv_silu delta gated_rms matmul add_rms:2"
     " moe glu:3 matmul gate_add_rms:3 qkv:10 matmul add_rms:2 moe glu:3 matmul gate_add_rms:3"},
};

static void test_models(void) {
    char text[4096];
    for (size_t i = 0; i < COUNT_OF(models); i++) {
        struct hparams h;
        struct graph g;
        struct err e;
        struct programs all = {0};
        const char *const want[BATCH_COUNT] = {models[i].one, models[i].few, models[i].many};
        hparams(&h, models[i].moe);
        graph_init(&g);
        CHECK_OK(arch_find(models[i].arch)->derive(&h, &e));
        CHECK_OK(arch_build(arch_find(models[i].arch), &h, &g, &e));
        for (int b = 0; b < BATCH_COUNT; b++) {
            struct target t = all_of((enum batch)b);
            const struct program *p = programs_get(&all, &g, 0, &t);
            program_text(p, &g, text, sizeof text);
            CHECK_EQ_STR(text, want[b]);
            CHECK(programs_get(&all, &g, 0, &t) == p); /* not compiled again */
            t.sees_all = true;                         /* replaced by a different program */
            CHECK_EQ_I64(programs_get(&all, &g, 0, &t)->n_steps, g.n_nodes);
            CHECK_EQ_I64(programs_get(&all, &g, g.hidden_nodes[0] + 1, &t)->n_steps,
                         g.n_nodes - g.hidden_nodes[0] - 1);
            t.sees_all = false;
            program_text(programs_get(&all, &g, 0, &t), &g, text, sizeof text);
            CHECK_EQ_STR(text, want[b]);
        }
        programs_forget(&all);
        graph_release(&g);
    }
}

static void test_classes(void) {
    CHECK(batch_of(1) == BATCH_ONE && batch_of(2) == BATCH_FEW && batch_of(8) == BATCH_FEW);
    CHECK(batch_of(9) == BATCH_MANY && batch_of(4096) == BATCH_MANY);
}

/* ---- maps of experts ---- */

static int read_map(struct placement *p, const char *text, struct err *e) {
    return placement_read(p, tmp_write("map", text, strlen(text)), e);
}
static void test_place(void) {
    static const char *const bad[] = {"experts",           "experts 1",         "experts 1 gpu",
                                      "experts 2-1 cpu",   "experts 512 cpu",   "experts -1 cpu",
                                      "experts 1-x cpu",   "layers 1 cpu",      "experts 1 cpu now",
                                      "experts 99999 cpu", "experts 1 - 2 cpu", "experts # 1 cpu"};
    struct placement p;
    struct err e;
    CHECK_OK(read_map(&p, "# a map\n\n  experts 2-4 cpu # these\r\nexperts 3 device\n", &e));
    for (int i = 0; i < PLACE_BLOCKS; i++)
        CHECK_EQ_I64(placement_experts(&p, i), i == 2 || i == 4 ? PLACE_CPU
                                               : i == 3         ? PLACE_DEVICE
                                                                : PLACE_FREE);
    CHECK(placement_experts(&p, -1) == PLACE_FREE &&
          placement_experts(&p, PLACE_BLOCKS) == PLACE_FREE);
    CHECK(placement_experts(NULL, 2) == PLACE_FREE);
    CHECK_OK(read_map(&p, "experts 0-511 device", &e));
    CHECK(placement_experts(&p, 0) == PLACE_DEVICE && placement_experts(&p, 511) == PLACE_DEVICE);
    CHECK_OK(read_map(&p, "", &e));
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        char text[64];
        snprintf(text, sizeof text, "\n%s\n", bad[i]);
        CHECK_ERR(read_map(&p, text, &e), ERR_DATA, "line 2");
    }
    CHECK_ERR(placement_read(&p, tmp_path("absent"), &e), ERR_USAGE, "absent");
}

int main(void) {
    tmp_make();
    RUN(test_patterns);
    RUN(test_brought);
    RUN(test_parts);
    RUN(test_models);
    RUN(test_classes);
    RUN(test_place);
    tmp_remove();
    return check_done();
}
