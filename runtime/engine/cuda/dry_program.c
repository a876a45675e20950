// SPDX-License-Identifier: MIT
/* runtime/engine/cuda/dry_program.c - a model's graph and weight types, and the programs that the
 * executors would run for it. */
#include "runtime/engine/cuda/dry_program.h"

#include <stdlib.h>

#include "base/mem.h"
#include "models/arch.h"
#include "runtime/engine/cuda/exec.h"

/* Returns the tensor of weight w or, if that is missing, of the weight that replaces it; NULL:
 * neither exists. */
static const struct gguf_tensor *find_weight(const struct gguf *f, const struct graph *g, gr_w w) {
    const struct gguf_tensor *t = gguf_find_tensor(f, g->weight[w].name);
    while (!t && (w = g->weight[w].optional_of) >= 0) t = gguf_find_tensor(f, g->weight[w].name);
    return t;
}

/* Reads types and sizes of the graph's weights; a missing one is ERR_DATA. */
static int read_weights(struct dry_program *o, const struct gguf *f, struct err *e) {
    const size_t n = (size_t)o->g.n_weights;
    o->type = xcalloc(n + 1, sizeof *o->type);
    o->n_bytes = xcalloc(n + 1, sizeof *o->n_bytes);
    for (gr_w w = 0; w < o->g.n_weights; w++) {
        const struct gguf_tensor *t = find_weight(f, &o->g, w);
        if (!t)
            return err_set(e, ERR_DATA, "tensor %s is missing: the file is incomplete",
                           o->g.weight[w].name);
        o->type[w] = t->type;
        o->n_bytes[w] = t->n_bytes;
    }
    return 0;
}

int dry_program_open(struct dry_program *o, const struct gguf *f, enum act_mode act,
                     struct err *e) {
    const char *name = gguf_str_or(f, "general.architecture", "");
    struct hparams *h = xcalloc(1, sizeof *h);
    *o = (struct dry_program){
        .arch = arch_find(name), .exact = act == ACT_F32, .mask = CUDA_DEFAULT};
    graph_init(&o->g);
    int rc = o->arch ? 0 : arch_refuse(gguf_path(f), name, e);
    if (!rc) rc = hparams_from_gguf(h, o->arch, f, e);
    h->tied = !gguf_find_tensor(f, "output.weight");
    if (!rc) rc = arch_build(o->arch, h, &o->g, e);
    if (!rc) rc = read_weights(o, f, e);
    free(h);
    if (rc) dry_program_close(o);
    return rc;
}

void dry_program_close(struct dry_program *o) {
    graph_release(&o->g);
    free(o->type);
    free(o->n_bytes);
    free(o->layer_of);
    free(o->part_of);
    *o = (struct dry_program){0};
}

/* ---- executors ---- */

struct target dry_program_cpu(const struct dry_program *o, enum batch batch) {
    (void)o;
    return exec_target(batch);
}

/* Returns the weight's shape and type, without data. */
static struct cu_weight shape_of(const struct dry_program *o, gr_w w) {
    const int64_t *ne = o->g.weight[w].ne;
    return (struct cu_weight){.type = o->type[w],
                              .k = ne[0],
                              .rows = ne[1],
                              .mats = ne[2],
                              .row_bytes = qtype_row_bytes(o->type[w], ne[0]),
                              .mat_bytes = qtype_row_bytes(o->type[w], ne[0]) * (uint64_t)ne[1]};
}
/* Returns whether gate and up can run as one product; up GR_NONE: `gate` holds both. */
static bool glu_joins(const void *ud, gr_w gate, gr_w up) {
    const struct dry_program *o = ud;
    const struct cu_weight s = shape_of(o, gate);
    return up != GR_NONE ? o->type[gate] == o->type[up]
                         : s.rows / 2 % 16 == 0 || !cu_packed_bytes(&s);
}
/* Returns the layouts of weight w on a device, by the rules of exec_cuda_find_uses: the file's
 * layout for routers; packed for products where possible, plus the file's layout if the types of
 * gate and up differ. */
static unsigned way(const void *ud, gr_w w) {
    const struct dry_program *o = ud;
    bool product = false, read = o->exact;
    for (int i = 0; i < o->g.facts.n_uses; i++) {
        const struct gr_use *u = &o->g.facts.use[i];
        const struct gr_role_info *r = &gr_roles[u->role];
        if (u->w != w) continue;
        const struct gr_moe *m = &o->g.node[u->node].moe;
        const bool unit = u->role == USE_EXP_GATE || u->role == USE_EXP_UP;
        product |= r->product;
        read |= (r->matrix && !r->product) || (unit && !glu_joins(o, m->gate, m->up));
    }
    uint8_t there = 0; /* only compared with NULL */
    struct cu_weight s = shape_of(o, w);
    const bool packed = product && !o->exact && cu_packed_bytes(&s) > 0;
    s.packed = packed ? &there : NULL;
    s.data = read || !packed ? &there : NULL;
    return (cu_part_can(&s, true) ? WAY_FLOATS : 0U) | (cu_part_can(&s, false) ? WAY_BYTES : 0U);
}
/* Returns where a node runs in a pass of few rows: on the device or on the host. */
static enum node_way way_with_few(const void *ud, int node) {
    const struct dry_program *o = ud;
    const struct gr_node *n = &o->g.node[node];
    return n->op == OP_MOE && (!exec_cuda_has_experts(&n->moe) ||
                               placement_experts(o->place, n->layer) == PLACE_CPU)
               ? NODE_HOST
               : NODE_HERE;
}
/* Does the same as way_with_few for many rows, in which case experts may be copied to the
 * device. */
static enum node_way way_with_many(const void *ud, int node) {
    const struct dry_program *o = ud;
    const enum node_way way = way_with_few(ud, node);
    return way == NODE_HOST && o->brings && exec_cuda_has_experts(&o->g.node[node].moe)
               ? NODE_BROUGHT
               : way;
}

/* Returns the number of the device that runs the node. */
static int device_of(const void *ud, int node) {
    const struct dry_program *o = ud;
    return o->part_of[o->layer_of[node]];
}

void dry_program_split(struct dry_program *o, const struct device *d) {
    const int n_devices = d->n_more + 1;
    int first, n;
    if (d->kind == DEVICE_CPU || n_devices == 1) return;
    o->layer_of = xcalloc((size_t)o->g.n_nodes + 1, sizeof *o->layer_of);
    graph_layers(&o->g, &first, &n, o->layer_of);
    int *part = o->part_of = xcalloc((size_t)n + 1, sizeof *part);
    for (int i = 0; i < n; i++) {
        const int want = placement_layer(o->place, first + i);
        part[i] = i * n_devices / n;
        for (int k = 0; k < n_devices; k++)
            if (device_index(d, k) == want) part[i] = k;
    }
    /* A layer that reads another layer's keys must be on the same device. */
    for (int i = 0; i < graph_count(&o->g, OP_ATTN); i++) {
        const struct gr_node *a = graph_nth(&o->g, OP_ATTN, i);
        part[a->layer - first] = part[o->g.facts.kv[a->slot].layer - first];
    }
}

struct target dry_program_cuda(const struct dry_program *o, enum batch batch) {
    const bool few = !o->exact && batch != BATCH_MANY;
    return (struct target){.fusions = FUSE_BIT(COUNT) - 1,
                           .batch = batch,
                           .exact = o->exact,
                           .few = few,
                           .many = few && (o->mask & CUDA_FUSE_MANY),
                           .all_keys = true,
                           .way = way,
                           .joins = glu_joins,
                           .where = batch == BATCH_MANY ? way_with_many : way_with_few,
                           .device = o->part_of ? device_of : NULL,
                           .ud = o};
}

/* ---- what to say ---- */

/* Returns the first weight of the step used in a product, or GR_NONE. */
gr_w dry_program_product(const struct dry_program *o, const struct step *s) {
    for (int i = s->first; i < s->first + s->n_nodes; i++) {
        const struct gr_node *n = &o->g.node[i];
        const struct gr_op_weight *w = gr_ops[n->op].w;
        for (int k = 0; k < GR_WEIGHTS && w[k].role; k++)
            if (gr_roles[w[k].role].product && gr_node_weight(n, k) != GR_NONE)
                return gr_node_weight(n, k);
    }
    return GR_NONE;
}

/* Returns a note if the step's first node could begin a fusion but no pattern matched; otherwise
 * NULL. */
static const char *why_alone(const struct dry_program *o, const struct step *s,
                             const struct target *t) {
    const bool might = s->fusion == FUSE_NONE && fuse_begins(o->g.node[s->first].op, t);
    return might ? "not fused: no pattern matches" : NULL;
}

const char *dry_program_cpu_note(const struct dry_program *o, const struct step *s,
                                 enum batch batch, const struct kern *k) {
    const gr_w w = dry_program_product(o, s);
    const struct target t = dry_program_cpu(o, batch);
    if (w != GR_NONE && !o->exact) {
        const struct kern_ops *op = &k->op[o->type[w]];
        if (!op->dot && !op->gemm)
            return "decoded to f32: its type has no products with 8-bit activations";
        if (!op->gemm) return "row by row: its type has no packed rows";
    }
    return why_alone(o, s, &t);
}

const char *dry_program_cuda_note(const struct dry_program *o, const struct step *s,
                                  enum batch batch) {
    const struct target t = dry_program_cuda(o, batch);
    if (s->kind == STEP_HOST) return "on the CPU, with copies there and back";
    if (s->kind == STEP_BRING) return "copied from main memory for every pass of many rows";
    if (s->kind != STEP_RUN) return NULL;
    for (int i = s->first; i < s->first + s->n_nodes; i++) {
        const struct gr_node *n = &o->g.node[i];
        if (!exec_cuda_has(n)) return "not supported by CUDA";
        if (gr_ops[n->op].state == STATE_KV &&
            (n->attn.softcap > 0 || n->attn.sinks != GR_NONE || n->attn.chunked))
            return "soft cap, sinks or chunks: uses the general attention kernel";
    }
    const gr_w w = dry_program_product(o, s);
    if (w != GR_NONE && t.few && !way(o, w)) return "its type has no product kernel for few rows";
    return why_alone(o, s, &t);
}
