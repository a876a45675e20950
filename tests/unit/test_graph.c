// SPDX-License-Identifier: MIT
/* Forward graphs: every weight in the table is used once with its shape (except in MTP blocks),
 * every register is written before it is read, by the operation that the formulas in ops.def
 * require, all blocks share the registers of one, and block outputs are probes. */
#include "base/mem.h"
#include "models/arch.h"
#include "models/graph.h"
#include "tests/check.h"

static struct hparams tiny(bool moe, int64_t layers) {
    struct hparams h = {0};
    static const int64_t v[][2] = {{HD_ONE, 1},           {HD_VOCAB, 97},      {HD_MTP, 1},
                                   {HD_CTX, 512},         {HD_EMBD, 64},       {HD_HEADS, 4},
                                   {HD_KV_HEADS, 2},      {HD_HEAD_DIM, 32},   {HD_ROT, 8},
                                   {HD_FULL_INTERVAL, 4}, {HD_LIN_K_HEADS, 2}, {HD_LIN_V_HEADS, 6},
                                   {HD_LIN_K_DIM, 16},    {HD_LIN_V_DIM, 16},  {HD_CONV_K, 4}};
    for (size_t i = 0; i < COUNT_OF(v); i++) h.d[v[i][0]] = v[i][1];
    h.d[HD_LAYERS] = layers;
    h.f[HF_RMS_EPS] = 1e-6;
    h.f[HF_ROPE_BASE] = 1e7;
    h.d[HD_FF] = moe ? 0 : 128;
    if (moe) {
        h.d[HD_EXPERTS] = 8;
        h.d[HD_EXPERTS_USED] = 3;
        h.d[HD_FF_EXP] = 24;
        h.d[HD_FF_SHEXP] = 20;
    }
    return h;
}

static void make(const char *name, struct hparams *h, struct graph *g) {
    struct err e;
    graph_init(g);
    CHECK_OK(arch_find(name)->derive(h, &e));
    CHECK_OK(arch_build(arch_find(name), h, g, &e));
}

static int count_op(const struct graph *g, enum gr_op op) {
    int n = 0;
    for (int i = 0; i < g->n_nodes; i++) n += g->node[i].op == op;
    return n;
}

/* Checks that the weights are the table's tensors without the MTP block, each once, with the same
 * shapes. */
static void check_weights(const char *name, const struct hparams *h, const struct graph *g) {
    struct err e;
    struct tensor_inst *t = NULL;
    int64_t n = 0;
    int found = 0;
    CHECK_OK(arch_tensors(arch_find(name), h, &t, &n, &e));
    for (int64_t i = 0; i < n; i++) {
        int uses = 0;
        for (int w = 0; w < g->n_weights; w++)
            if (strcmp(g->weight[w].name, t[i].name) == 0) {
                uses++;
                CHECK(memcmp(g->weight[w].ne, t[i].ne, sizeof t[i].ne) == 0);
            }
        found += uses;
        if (uses != (t[i].block < h->d[HD_LAYERS])) CHECK_FAIL("%s: %d uses", t[i].name, uses);
    }
    CHECK_EQ_I64(found, g->n_weights);
    free(t);
}

/* Checks that each source was written by the expected operation; -1: any. */
static void check_flow(const struct graph *g) {
    int writer[64];
    CHECK(g->n_regs <= 64);
    memset(writer, -1, sizeof writer);
    for (int i = 0; i < g->n_nodes; i++) {
        const struct gr_node *n = &g->node[i];
        for (int s = 0; s < 3; s++) {
            if (n->src[s] == GR_NONE) continue;
            CHECK(n->src[s] < g->n_regs);
            if (writer[n->src[s]] < 0)
                CHECK_FAIL("node %d %s reads an unwritten register", i, gr_op_name(n->op));
        }
#define FROM(s, want)                                                                              \
    if (writer[n->src[s]] < 0 || g->node[writer[n->src[s]]].op != (want) ||                        \
        g->node[writer[n->src[s]]].layer != n->layer)                                              \
    CHECK_FAIL("node %d %s: source %d is from the wrong operation", i, gr_op_name(n->op), s)
        if (n->op == OP_ATTN) {
            FROM(0, OP_ROPE);
            FROM(1, OP_ROPE);
            FROM(2, OP_MATMUL);
            CHECK(n->dst != n->src[0] && n->dst != n->src[1] && n->dst != n->src[2]);
            CHECK_EQ_I64(g->reg_width[n->src[1]], n->attn.n_kv_heads * n->attn.head_dim);
            CHECK_CLOSE(n->attn.scale * n->attn.scale * (float)n->attn.head_dim, 1, 1e-6);
        } else if (n->op == OP_DELTA) {
            FROM(0, OP_CONV_SILU);
            FROM(1, OP_MATMUL);
            FROM(2, OP_MATMUL);
            CHECK_EQ_I64(g->reg_width[n->src[0]], 2 * n->delta.n_k_heads * n->delta.k_dim +
                                                      n->delta.n_v_heads * n->delta.v_dim);
            CHECK(strstr(g->weight[n->delta.a].name, "ssm_a") &&
                  strstr(g->weight[n->delta.dt].name, "ssm_dt.bias"));
            CHECK(strstr(g->weight[g->node[writer[n->src[1]]].product.matrix].name, "ssm_beta"));
            CHECK(strstr(g->weight[g->node[writer[n->src[2]]].product.matrix].name, "ssm_alpha"));
        } else if (n->op == OP_GATED_RMS) {
            FROM(0, OP_DELTA);
            CHECK(strstr(g->weight[g->node[writer[n->src[1]]].product.matrix].name, "attn_gate"));
        } else if (n->op == OP_MOE || (n->op == OP_MATMUL && n->layer >= 0 &&
                                       strstr(g->weight[n->product.matrix].name, "attn_q"))) {
            FROM(0, OP_RMS);
        } else if (n->op == OP_SWIGLU) {
            FROM(0, OP_MATMUL);
            FROM(1, OP_MATMUL);
            CHECK(n->src[0] != n->src[1]);
            CHECK(strstr(g->weight[g->node[writer[n->src[0]]].product.matrix].name, "gate"));
        } else if (n->op == OP_GATE_ADD) {
            FROM(0, OP_MATMUL);
            FROM(1, OP_RMS);
            CHECK(g->node[writer[n->dst]].op == OP_MOE);
        } else if (n->op == OP_SIGMOID_MUL) {
            FROM(0, OP_SPLIT_GATE);
            CHECK(g->node[writer[n->dst]].op == OP_ATTN);
        }
        if (n->op == OP_MATMUL) {
            CHECK_EQ_I64(g->reg_width[n->src[0]], g->weight[n->product.matrix].ne[0]);
            CHECK_EQ_I64(g->reg_width[n->dst], g->weight[n->product.matrix].ne[1]);
            CHECK(n->dst != n->src[0]);
        }
        CHECK(n->dst >= 0 && n->dst < g->n_regs);
        writer[n->dst] = i;
        if (n->dst2 != GR_NONE) writer[n->dst2] = i;
    }
}

static void check_probes(const struct hparams *h, const struct graph *g) {
    for (int64_t i = 0; i < h->d[HD_LAYERS]; i++) {
        const struct gr_node *n = &g->node[g->hidden_nodes[i]];
        CHECK(n->op == OP_ADD && n->dst == g->residual && n->layer == i);
        CHECK(g->node[g->hidden_nodes[i] + 1].layer != i);
    }
    CHECK_EQ_I64(g->hidden_nodes[h->d[HD_LAYERS]], g->n_nodes - 1);
    CHECK(g->node[g->n_nodes - 1].op == OP_RMS && g->node[g->n_nodes - 1].dst == g->hidden_out);
    CHECK(g->node[0].op == OP_EMBED && g->node[0].dst == g->residual);
    CHECK_EQ_STR(g->weight[g->output].name, "output.weight");
    CHECK_EQ_STR(g->weight[g->weight[g->output].optional_of].name, "token_embd.weight");
}

static void check_arch(const char *name, bool moe, int n_rec) {
    struct hparams h = tiny(moe, 4), deep = tiny(moe, 8);
    if (!n_rec) h.d[HD_MTP] = deep.d[HD_MTP] = 0;
    struct graph g, g8;
    make(name, &h, &g);
    make(name, &deep, &g8);
    CHECK_EQ_I64(g8.n_regs, g.n_regs); /* registers do not grow with depth */
    CHECK_EQ_I64(g.n_attn_slots, 4 - n_rec);
    CHECK_EQ_I64(g.n_rec_slots, n_rec);
    CHECK_EQ_I64(count_op(&g, OP_ATTN), 4 - n_rec);
    CHECK_EQ_I64(count_op(&g, OP_DELTA), n_rec);
    CHECK_EQ_I64(count_op(&g, OP_MOE), moe ? 4 : 0);
    CHECK_EQ_I64(count_op(&g, OP_ADD), 8);
    h.tied = false;
    check_weights(name, &h, &g);
    check_flow(&g);
    check_probes(&h, &g);
    CHECK_CLOSE(g.rope_base, 1e7, 0);
    graph_release(&g);
    graph_release(&g8);
}

static void test_qwen35(void) {
    check_arch("qwen35", false, 3);
}
static void test_qwen35moe(void) {
    check_arch("qwen35moe", true, 3);
}
static void test_qwen3(void) {
    check_arch("qwen3", false, 0);
}
static void test_qwen3moe(void) {
    check_arch("qwen3moe", true, 0);
}
/* Checks that the draft graph uses every tensor of the MTP block once, uses the trunk's embeddings,
 * norm and head only if the block has none, and concatenates its two inputs with the embedding
 * first. */
static void check_draft(const char *name, bool moe) {
    struct hparams h = tiny(moe, 4);
    struct graph g;
    struct err e;
    struct tensor_inst *t = NULL;
    int64_t n = 0;
    graph_init(&g);
    CHECK_OK(arch_find(name)->derive(&h, &e));
    CHECK_OK(arch_build_draft(arch_find(name), &h, &g, &e));
    CHECK_OK(arch_tensors(arch_find(name), &h, &t, &n, &e));
    for (int64_t i = 0; i < n; i++) {
        int uses = 0, lent = 0;
        for (int w = 0; w < g.n_weights; w++) {
            if (strcmp(g.weight[w].name, t[i].name) != 0) continue;
            uses++;
            CHECK(memcmp(g.weight[w].ne, t[i].ne, sizeof t[i].ne) == 0);
            for (int k = 0; k < g.n_weights; k++) lent += g.weight[k].optional_of == w;
        }
        if (uses != (t[i].block == 4 || t[i].block < 0)) CHECK_FAIL("%s: %d uses", t[i].name, uses);
        if (t[i].block < 0 && !lent) CHECK_FAIL("%s replaces nothing", t[i].name);
    }
    CHECK_EQ_I64(g.n_attn_slots, 1);
    CHECK_EQ_I64(g.n_rec_slots, 0);
    CHECK_EQ_I64(count_op(&g, OP_MOE), moe);
    for (int i = 0; i < g.n_nodes; i++) {
        const struct gr_node *c = &g.node[i];
        CHECK_EQ_I64(c->layer, 4);
        if (c->op != OP_CONCAT) continue;
        const struct gr_node *before[2] = {NULL, NULL};
        for (int k = 0; k < i; k++)
            for (int s = 0; s < 2; s++)
                if (g.node[k].dst == c->src[s]) before[s] = &g.node[k];
        CHECK(before[0] && strstr(g.weight[before[0]->norm.weight].name, "enorm"));
        CHECK(before[1] && strstr(g.weight[before[1]->norm.weight].name, "hnorm"));
        CHECK(before[1] && before[1]->src[0] == g.hidden_in);
        CHECK(g.node[i + 1].op == OP_MATMUL && g.node[i + 1].src[0] == c->dst);
    }
    h.d[HD_MTP] = 0;
    graph_release(&g);
    CHECK_ERR(arch_build_draft(arch_find(name), &h, &g, &e), ERR_DATA, "no MTP block");
    graph_release(&g);
    free(t);
}
static void test_draft(void) {
    check_draft("qwen35", false);
    check_draft("qwen35moe", true);
    CHECK(!arch_find("qwen3")->drafts);
}

/* Returns the role that a weight's name implies, to compare with models/ops.def. */
static enum gr_role role_by_name(const char *name) {
    static const struct {
        const char *part;
        enum gr_role role;
    } by[] = {{"token_embd", USE_ROWS},
              {"_norm", USE_VEC},
              {"ffn_gate_inp_shexp", USE_DOT},
              {"ffn_gate_inp", USE_ROUTER},
              {"ffn_gate_exps", USE_EXP_GATE},
              {"ffn_up_exps", USE_EXP_UP},
              {"ffn_down_exps", USE_EXP_DOWN},
              {"ssm_a", USE_VEC},
              {"ssm_dt", USE_VEC},
              {"ssm_conv1d", USE_VEC}};
    if (strstr(name, "ssm_alpha")) return USE_MATRIX;
    for (size_t i = 0; i < COUNT_OF(by); i++)
        if (strstr(name, by[i].part)) return by[i].role;
    return USE_MATRIX;
}

static void check_facts(const char *name, bool moe) {
    struct hparams h = tiny(moe, 8); /* blocks 3 and 7 have attention, the other six a delta net */
    struct graph g;
    make(name, &h, &g);
    const struct graph_facts *f = &g.facts;
    int of_ops = 0, last = -1;
    for (int op = 0; op < OP_COUNT; op++) {
        CHECK_EQ_I64(graph_count(&g, (enum gr_op)op), count_op(&g, (enum gr_op)op));
        for (int i = 0; i < graph_count(&g, (enum gr_op)op); i++)
            CHECK(graph_nth(&g, (enum gr_op)op, i)->op == (enum gr_op)op);
        of_ops += graph_count(&g, (enum gr_op)op);
    }
    CHECK_EQ_I64(of_ops, g.n_nodes);
    CHECK_EQ_I64(f->n_uses, g.n_weights - 1); /* every weight once; the head is not a node */
    for (int i = 0; i < f->n_uses; i++) {
        const struct gr_use *u = &f->use[i];
        CHECK(u->node >= last);
        last = u->node;
        if (u->role != role_by_name(g.weight[u->w].name))
            CHECK_FAIL("%s has role %d", g.weight[u->w].name, u->role);
    }
    CHECK_EQ_I64(g.n_attn_slots, 2);
    CHECK_EQ_I64(g.n_rec_slots, 6);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ_I64(f->kv[i].layer, 4 * i + 3);
        CHECK_EQ_I64(f->kv[i].n_heads, 2);
        CHECK_EQ_I64(f->kv[i].k_dim, 32);
    }
    for (int i = 0; i < 6; i++) { /* 2 x 2 key heads of 16 and 6 value heads of 16: 160 channels */
        CHECK_EQ_I64(f->rec[i].layer, i + i / 3);
        CHECK_EQ_I64(f->rec[i].n_conv, 3 * 160);
        CHECK_EQ_I64(f->rec[i].n_scan, 6 * 16 * 16);
    }
    graph_release(&g);
}

static void test_facts(void) {
    check_facts("qwen35", false);
    check_facts("qwen35moe", true);
}

static void test_names(void) {
    for (int i = 0; arch_at(i); i++) CHECK(arch_at(i)->family && arch_at(i)->size_note);
    for (int i = 0; i < OP_COUNT; i++) CHECK(gr_op_name((enum gr_op)i)[0] != '?');
}

int main(void) {
    RUN(test_qwen35);
    RUN(test_qwen35moe);
    RUN(test_qwen3);
    RUN(test_qwen3moe);
    RUN(test_draft);
    RUN(test_facts);
    RUN(test_names);
    return check_done();
}
