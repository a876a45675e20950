// SPDX-License-Identifier: MIT
/* plan/plan_program.c - tables of the steps in a model's passes. Consecutive steps of a block form
 * a run; identical runs are printed once, with the list of their blocks. */
#include "plan/plan_program.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/num.h"
#include "runtime/engine/cost.h"

enum { FEW_ROWS = 4, MANY_ROWS = 512 };
static const struct {
    const char *key, *what;
    int64_t n_rows;
} classes[BATCH_COUNT] = {{"one", "one row", 1},
                          {"few", "few rows (4)", FEW_ROWS},
                          {"many", "many rows (512)", MANY_ROWS}};

bool plan_brings(const struct device *d) {
    return d->stream_from >= 0 && d->stream_from <= MANY_ROWS;
}

static bool is_cuda(const struct work *w) {
    return w->device.kind != DEVICE_CPU;
}
/* Compiles the graph for the batch class on the chosen device. */
static void compile_program(struct program *p, const struct work *w, const struct dry_program *o,
                            enum batch b) {
    const struct target t = is_cuda(w) ? dry_program_cuda(o, b) : dry_program_cpu(o, b);
    program_compile(p, &o->g, 0, &t);
}

/* Appends the names of a step's operations: "add rms". */
static void ops_of(const struct graph *g, const struct step *s, struct buf *b) {
    for (int i = 0; i < s->n_nodes; i++)
        buf_fmt(b, "%s%s", i ? " " : "", gr_op_name(g->node[s->first + i].op));
}
/* Returns the name shown for the step: its kind, part, fusion or operation. */
static const char *name_of(const struct graph *g, const struct step *s) {
    static const char *const kinds[] = {
        [STEP_FETCH] = "fetch", [STEP_SEND] = "send", [STEP_MOVE] = "move", [STEP_BRING] = "bring"};
    static const char *const parts[] = {
        [PART_CHOOSE] = "choose", [PART_EXPAND] = "expand", [PART_CONTRACT] = "contract"};
    if (s->kind != STEP_RUN && s->kind != STEP_HOST) return kinds[s->kind];
    if (s->part != PART_ALL) return parts[s->part];
    return s->fusion == FUSE_NONE ? gr_op_name(g->node[s->first].op) : fuse_name(s->fusion);
}

/* ---- runs of steps ---- */

struct run {
    int first, n, layer; /* steps [first, first + n) of a block; layer -1: not in a block */
    int same;            /* first earlier run with the same text, or this one */
    int times;           /* number of equal runs, counted in the first of them */
};
struct shown {
    const struct dry_program *o;
    struct program p;
    struct cost *cost; /* [n_steps] */
    struct run *run;
    int n_runs;
};

/* Returns the layer of the step's first node; negative outside the layers. */
static int layer_of(const struct shown *s, int step) {
    return s->o->g.node[s->p.step[step].first].layer;
}
/* Returns whether the steps have the same nodes and costs. */
static bool same_step(const struct shown *s, int a, int b) {
    const struct step *x = &s->p.step[a], *y = &s->p.step[b];
    const struct graph *g = &s->o->g;
    if (x->kind != y->kind || x->fusion != y->fusion || x->n_nodes != y->n_nodes) return false;
    if (x->device != y->device || x->from != y->from) return false;
    if (x->part != y->part || x->role != y->role) return false;
    for (int i = 0; i < x->n_nodes; i++)
        if (g->node[x->first + i].op != g->node[y->first + i].op) return false;
    return s->cost[a].n_read == s->cost[b].n_read && s->cost[a].n_written == s->cost[b].n_written &&
           !(s->cost[a].flop < s->cost[b].flop) && !(s->cost[a].flop > s->cost[b].flop);
}
/* Returns whether two runs of steps look the same, so that one row shows both. */
static bool same_run(const struct shown *s, const struct run *a, const struct run *b) {
    bool same = a->n == b->n && (a->layer < 0) == (b->layer < 0);
    for (int i = 0; i < a->n && same; i++) same = same_step(s, a->first + i, b->first + i);
    return same;
}
/* Groups the steps by layer and finds the groups that repeat. */
static void find_runs(struct shown *s) {
    s->run = xcalloc((size_t)s->p.n_steps + 1, sizeof *s->run);
    for (int i = 0; i < s->p.n_steps; i++) {
        struct run *r = &s->run[s->n_runs];
        if (!i || layer_of(s, i) != layer_of(s, i - 1)) {
            r = &s->run[s->n_runs++];
            *r = (struct run){.first = i, .layer = layer_of(s, i)};
        } else
            r--;
        r->n++;
    }
    for (int i = 0; i < s->n_runs; i++) {
        int k = 0;
        /* Ends at run i itself at the latest. */
        while (!same_run(s, &s->run[k], &s->run[i])) k++;
        s->run[i].same = k;
        s->run[k].times++;
    }
}

/* Appends the blocks of a run and of all equal runs: "0-2,4-6". */
static void blocks_of(const struct shown *s, int run, struct buf *b) {
    int from = -1;
    for (int i = run, last = -1; i <= s->n_runs; i++) {
        if (i < s->n_runs && s->run[i].same != run) continue;
        const int layer = i < s->n_runs ? s->run[i].layer : -2;
        if (from >= 0 && layer != last + 1) {
            buf_fmt(b, last > from ? "%s%d-%d" : "%s%d", b->len ? "," : "", from, last);
            from = -1;
        }
        if (from < 0) from = layer;
        last = layer;
    }
}

/* ---- tables ---- */

/* Adds a cell with the device: "cpu", "cuda" or, with several devices, "cuda:1". */
static void device_cell(struct emit *m, const struct work *w, int device, bool on_host) {
    char text[24] = "cuda";
    if (w->device.n_more) snprintf(text, sizeof text, "cuda:%d", device_index(&w->device, device));
    emit_cell_str(m, is_cuda(w) && !on_host ? text : "cpu");
}
/* Adds the cells of bytes read, bytes written and MFLOP. */
static void cost_cells(struct emit *m, const struct cost *c) {
    emit_cell_i64(m, (int64_t)c->n_read);
    emit_cell_i64(m, (int64_t)c->n_written);
    emit_cell_num(m, c->flop / 1e6, c->flop < 1e8 ? 3 : 0);
}
/* Adds step i's row; blocks: the layers with the same step. */
static void emit_step(struct emit *m, const struct work *w, const struct shown *s, int i,
                      const struct run *r, const char *blocks) {
    const struct step *step = &s->p.step[i];
    struct buf ops = {0};
    ops_of(&s->o->g, step, &ops);
    emit_row(m);
    if (r->layer >= 0)
        emit_cell_i64(m, r->layer);
    else
        emit_cell_none(m);
    emit_cell_str(m, blocks);
    emit_cell_i64(m, r->times);
    emit_cell_str(m, name_of(&s->o->g, step));
    emit_cell_i64(m, step->n_nodes);
    emit_cell_str(m, ops.data);
    device_cell(m, w, step->device, step->kind == STEP_HOST);
    cost_cells(m, &s->cost[i]);
    buf_release(&ops);
}
/* Adds the table of the program for one batch class. */
static void emit_class(struct emit *m, const struct work *w, const struct shown *s, enum batch b,
                       const struct cost *head) {
    char key[32], title[96];
    snprintf(key, sizeof key, "program_%s", classes[b].key);
    snprintf(title, sizeof title, "program for %s", classes[b].what);
    emit_table(m, key, title);
    emit_col(m, "block", "block");
    emit_col(m, "blocks", NULL);
    emit_col(m, "n_times", "times");
    emit_col(m, "step", "step");
    emit_col(m, "n_operations", "operations");
    emit_col(m, "operations", NULL);
    emit_col(m, "device", "device");
    emit_col(m, "read_bytes", "bytes read");
    emit_col(m, "written_bytes", "bytes written");
    emit_col(m, "mflop", "MFLOP");
    for (int i = 0; i < s->n_runs; i++) {
        const struct run *r = &s->run[i];
        struct buf blocks = {0};
        if (r->same != i) continue;
        if (r->layer >= 0) blocks_of(s, i, &blocks);
        for (int k = 0; k < r->n; k++)
            emit_step(m, w, s, r->first + k, r, blocks.len ? blocks.data : "-");
        buf_release(&blocks);
    }
    emit_row(m);
    emit_cell_none(m);
    emit_cell_str(m, "-");
    emit_cell_i64(m, 1);
    emit_cell_str(m, "head");
    emit_cell_i64(m, 1);
    emit_cell_str(m, "matmul");
    device_cell(m, w, s->p.n_steps ? s->p.step[s->p.n_steps - 1].device : 0, false);
    cost_cells(m, head);
}

/* Adds the totals of the program for one batch class. */
static void emit_sums(struct emit *m, const struct shown *s, enum batch b,
                      const struct cost *head) {
    struct cost all = *head;
    int fused = 0;
    char key[48], text[160];
    for (int i = 0; i < s->p.n_steps; i++) {
        all.n_read += s->cost[i].n_read;
        all.n_written += s->cost[i].n_written;
        all.flop += s->cost[i].flop;
        fused += s->p.step[i].fusion != FUSE_NONE;
    }
    snprintf(text, sizeof text,
             "%d steps, %d of them fused; %.3f GB read, %.3f GB written, %.3f GFLOP",
             s->p.n_steps + 1, fused, (double)all.n_read / 1e9, (double)all.n_written / 1e9,
             all.flop / 1e9);
    snprintf(key, sizeof key, "pass_%s", classes[b].key);
    emit_str(m, key, classes[b].what, text);
    snprintf(key, sizeof key, "n_steps_%s", classes[b].key);
    emit_i64(m, key, NULL, s->p.n_steps + 1);
    snprintf(key, sizeof key, "read_%s_bytes", classes[b].key);
    emit_i64(m, key, NULL, (int64_t)all.n_read);
    snprintf(key, sizeof key, "gflop_%s", classes[b].key);
    emit_num(m, key, NULL, all.flop / 1e9, 3);
}

void plan_program(struct emit *m, const struct work *w, const struct dry_program *o,
                  const struct kv_rows *kv, int64_t n_keys) {
    struct shown s[BATCH_COUNT];
    struct cost head[BATCH_COUNT];
    for (int b = 0; b < BATCH_COUNT; b++) {
        const struct cost_of of = {&o->g, o->n_bytes, kv, classes[b].n_rows, n_keys};
        s[b] = (struct shown){.o = o};
        compile_program(&s[b].p, w, o, (enum batch)b);
        s[b].cost = xcalloc((size_t)s[b].p.n_steps + 1, sizeof *s[b].cost);
        for (int i = 0; i < s[b].p.n_steps; i++) s[b].cost[i] = cost_of_step(&of, &s[b].p.step[i]);
        head[b] = cost_of_head(&of);
        find_runs(&s[b]);
        emit_sums(m, &s[b], (enum batch)b, &head[b]);
    }
    emit_i64(m, "n_keys", "tokens in the cache", n_keys);
    for (int b = 0; b < BATCH_COUNT; b++) {
        emit_class(m, w, &s[b], (enum batch)b, &head[b]);
        program_release(&s[b].p);
        free(s[b].cost);
        free(s[b].run);
    }
}

/* ---- slower paths ---- */

struct note {
    const char *op, *type, *why;
    enum batch batch;
    int64_t n;
};
struct notes {
    struct note *v; /* [n] notes, owned */
    int n;
};

/* Adds a note, or counts it if the same one is already listed. */
static void add_note(struct notes *a, const struct note *new) {
    for (int i = 0; i < a->n; i++) {
        struct note *o = &a->v[i];
        if (o->op == new->op && o->type == new->type && o->why == new->why &&
            o->batch == new->batch) {
            o->n++;
            return;
        }
    }
    a->v = xreallocarray(a->v, (size_t)a->n + 1, sizeof *a->v);
    a->v[a->n++] = *new;
}

void plan_notes(struct emit *m, const struct work *w, const struct dry_program *o) {
    struct kern *k = xcalloc(1, sizeof *k);
    struct notes a = {0};
    kern_init(k, w->isa);
    for (int b = 0; b < BATCH_COUNT; b++) {
        struct program p = {0};
        compile_program(&p, w, o, (enum batch)b);
        for (int i = 0; i < p.n_steps; i++) {
            const struct step *s = &p.step[i];
            const gr_w weight = dry_program_product(o, s);
            const char *why = is_cuda(w) ? dry_program_cuda_note(o, s, (enum batch)b)
                                         : dry_program_cpu_note(o, s, (enum batch)b, k);
            if (why)
                add_note(&a, &(struct note){name_of(&o->g, s),
                                            weight == GR_NONE ? NULL : qtype_name(o->type[weight]),
                                            why, (enum batch)b, 1});
        }
        program_release(&p);
    }
    if (!a.n) emit_answer(m, "No operation falls back to a slower path.");
    emit_table(m, "parts", a.n ? "not fused, or on a slower path" : NULL);
    emit_col(m, "rows", "rows");
    emit_col(m, "step", "step");
    emit_col(m, "n_times", "times");
    emit_col(m, "type", "type");
    emit_col(m, "why", "why");
    for (int i = 0; i < a.n; i++) {
        emit_row(m);
        emit_cell_str(m, classes[a.v[i].batch].key);
        emit_cell_str(m, a.v[i].op);
        emit_cell_i64(m, a.v[i].n);
        if (a.v[i].type)
            emit_cell_str(m, a.v[i].type);
        else
            emit_cell_none(m);
        emit_cell_str(m, a.v[i].why);
    }
    free(a.v);
    free(k);
}
