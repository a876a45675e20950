// SPDX-License-Identifier: MIT
/* plan/memory_plan.c - hone plan: a model's memory needs, computed from headers alone: weights,
 * keys and values, recurrent state, working memory. Also finds what fits a card, the context that
 * fits, and what stays in main memory, and prints command lines. Byte counts are exact except
 * `compute`, which is only an estimate for the GPU backends of other engines, and marked as
 * such. */
#include <stdlib.h>
#include <string.h>

#include "plan/memory_plan.h"
#include "plan/plan_files.h"
#include "plan/plan_plot.h"
#include "plan/plan_program.h"
#include "plan/plan_split.h"
#include "work/apart.h"
#include "work/plot.h"
#include "work/open.h"
#include "base/buf.h"
#include "containers/gguf.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/printable.h"
#include "models/fit.h"
#include "quantize/quantize.h"
#include "text/shell.h"
#include "text/size.h"
#include "runtime/engine/kv_type.h"

enum {
    USUAL_KEYS = 4096, /* cached tokens assumed for --launches */
};
struct plan {
    const char *path;
    const struct arch *arch;
    struct sizes z;
    uint64_t file_bytes;
    struct fit_ask ask;
    const struct kv_type *k, *v; /* cache types */
    struct fit fit;
    bool have_fit;
    struct plan_split split; /* distribution of blocks over several cards */
    uint64_t vram;           /* memory of all cards */
};

/* Returns whether other engines also have this cache type and use it by default: floats, or blocks
 * of rotated rows. */
static bool is_common(const struct kv_type *t) {
    return t->type != QT_COUNT && t->rotated == kv_type_is_blocks(t);
}
static bool has_flag(const struct kv_type *t, enum kv_flag flag) {
    return (t->flags & flag) != 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

int plan_sizes(const struct gguf *g, struct sizes *z, const struct arch **a, struct err *e) {
    const char *name = gguf_str_or(g, "general.architecture", "");
    TRY(model_check_kind(g, e));
    *a = arch_find(name);
    if (!*a) return arch_refuse(gguf_path(g), name, e);
    struct hparams *h = xcalloc(1, sizeof *h); /* 24 KB: too large for the stack */
    int rc = hparams_from_gguf(h, *a, g, e);
    if (!rc) rc = sizes_init(z, *a, h, e);
    free(h);
    return rc;
}

int plan_read_sizes(const char *path, struct sizes *z, const struct arch **a, uint64_t *file_bytes,
                    struct err *e) {
    struct gguf *g;
    TRY(gguf_open(&g, path, GGUF_TOLERANT, e));
    int rc = plan_sizes(g, z, a, e);
    for (int64_t i = 0; i < gguf_n_tensors(g) && rc == 0; i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        sizes_add(z, *a, t->name, t->n_bytes);
    }
    *file_bytes = gguf_file_bytes(g);
    gguf_close(g);
    return rc;
}

int memory_plan_check(const struct memory_plan_opts *o, struct err *e) {
    if (o->slots < 1 || o->slots > 65536)
        return err_set(e, ERR_USAGE, "--slots: %lld is not from 1 to 65536", (long long)o->slots);
    if (o->ctx > INT32_MAX)
        return err_set(e, ERR_USAGE, "--ctx: %lld tokens are too many", (long long)o->ctx);
    return 0;
}

/* Checks the options and computes whether the model fits. */
static int settle_options(struct plan *p, const struct memory_plan_opts *a, struct err *e) {
    struct fit_use u;
    struct plan_split *s = &p->split;
    TRY(memory_plan_check(a, e));
    TRY(kv_type_parse(a->kv_name, "--kv-type", &p->k, &p->v, e));
    if (a->vram) TRY(plan_split_parse(s, a->vram, e));
    for (int i = 0; i < s->n_cards; i++) p->vram += s->memory[i];
    s->reserve = a->reserve == PLAN_USUAL_RESERVE
                     ? fit_reserve(p->vram / (uint64_t)max_i64(s->n_cards, 1))
                     : a->reserve;
    TRY(plan_split_check(s, e));
    p->ask = (struct fit_ask){.memory = p->vram,
                              .reserve = s->reserve * (uint64_t)max_i64(s->n_cards, 1),
                              .n_ctx = a->ctx ? a->ctx : p->z.n_ctx_train,
                              .n_slots = a->slots,
                              .rows = kv_type_rows(p->k, p->v)};
    if (!p->ask.n_ctx) p->ask.n_ctx = 4096;
    if (a->ctx > p->z.n_ctx_train && p->z.n_ctx_train > 0)
        plan_warn_trained(p->z.n_ctx_train, false);
    if (!fit_use(&p->z, &p->ask, 0, 0, &u))
        return err_set(e, ERR_USAGE,
                       "--kv-type %s does not fit this model's heads, or --ctx %lld times --slots "
                       "%lld is too large",
                       a->kv_name, (long long)p->ask.n_ctx, (long long)p->ask.n_slots);
    if (!p->vram) return 0;
    p->have_fit = plan_split_fit(s, &p->z, &p->ask, &p->fit);
    return 0;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

/* Adds a size as text under `key` and in bytes under `key`_bytes. */
static void size_field(struct emit *m, const char *key, const char *title, uint64_t n) {
    char text[48], name[64];
    emit_fmt_bytes(text, n);
    emit_str(m, key, title, text);
    snprintf(name, sizeof name, "%s_bytes", key);
    emit_i64(m, name, NULL, (int64_t)n);
}

/* Adds the memory of weights, cache and working buffers. */
static void emit_sizes(struct emit *m, const struct plan *p) {
    const struct sizes *z = &p->z;
    struct fit_use u;
    uint64_t experts = 0, kv;
    char kv_name[40];
    (void)fit_use(z, &p->ask, 0, 0, &u); /* cannot fail: settle_options() checked it */
    for (int i = 0; i < z->n_blocks; i++) experts += z->block[i].experts;
    kv_type_text(kv_name, p->k, p->v);
    emit_str(m, "file", "file", io_base(p->path));
    emit_str(m, "arch", "architecture", p->arch->name);
    emit_i64(m, "n_blocks", "blocks, without the head", z->n_blocks);
    emit_i64(m, "n_attn", "  with keys and values", sizes_n_kv(z));
    emit_i64(m, "n_recurrent", sizes_n_state(z) ? "  recurrent" : NULL, sizes_n_state(z));
    emit_i64(m, "ctx_train", "trained context", z->n_ctx_train);
    emit_i64(m, "ctx", "planned context per slot", p->ask.n_ctx);
    emit_i64(m, "slots", "slots", p->ask.n_slots);
    emit_str(m, "kv_type", "type of keys and values", kv_name);
    size_field(m, "size", "file size", p->file_bytes);
    size_field(m, "weights", "weights", sizes_weights(z));
    size_field(m, "host", "  kept in main memory", z->embd);
    size_field(m, "device", "  on a GPU", sizes_device(z));
    size_field(m, "experts", experts ? "  routed experts" : NULL, experts);
    size_field(m, "mtp", z->mtp ? "  draft blocks" : NULL, z->mtp);
    size_field(m, "kv", "keys and values", u.kv);
    if (sizes_kv_paged(z, p->ask.n_slots, p->ask.n_ctx, PLAN_PASS, &p->ask.rows, &kv))
        size_field(m, "kv_hone", "  in hone, in pages", kv);
    size_field(m, "state", sizes_n_state(z) ? "recurrent state" : NULL, u.state);
    size_field(m, "compute", "working memory, estimate", u.compute);
    size_field(m, "activations", NULL, (uint64_t)z->reg_floats * sizeof(float) * PLAN_PASS);
    size_field(m, "total", "total on a GPU", u.total);
}

/* Adds the table of memory by context length and type of cache. */
static void emit_contexts(struct emit *m, const struct plan *p) {
    emit_table(m, "contexts", "memory by context, MiB");
    emit_col(m, "ctx", "context");
    for (int i = 0; kv_type_at(i); i++) {
        char key[40], title[40];
        if (!has_flag(kv_type_at(i), KV_SHOWN)) continue;
        snprintf(key, sizeof key, "kv_%s_mib", kv_type_at(i)->name);
        snprintf(title, sizeof title, "KV %s", kv_type_at(i)->name);
        emit_col(m, key, title);
    }
    emit_col(m, "total_mib", "total");
    if (p->have_fit) emit_col(m, "fits", "fits");
    for (int64_t ctx = 0; (ctx = plan_next_ctx(&p->z, p->ask.n_ctx, ctx)) != 0;) {
        struct fit_ask a = p->ask;
        struct fit_use u;
        uint64_t n;
        a.n_ctx = ctx;
        emit_row(m);
        emit_cell_i64(m, ctx);
        for (int i = 0; kv_type_at(i); i++) {
            if (!has_flag(kv_type_at(i), KV_SHOWN)) continue;
            if (sizes_kv(&p->z, 0, a.n_slots, ctx, kv_type_at(i)->type, true, &n))
                emit_cell_num(m, (double)n / 0x1p20, 1);
            else
                emit_cell_none(m);
        }
        if (fit_use(&p->z, &a, 0, 0, &u)) {
            emit_cell_num(m, (double)u.total / 0x1p20, 0);
            if (p->have_fit) emit_cell_str(m, ctx <= p->fit.max_ctx ? "yes" : "no");
        }
    }
}

/* ---- recipes --------------------------------------------------------------------------------- */

/* Adds one recipe's row: file size and whether it fits. */
static int recipe_row(struct emit *m, const struct plan *p, const char *name, struct err *e) {
    struct quantize_opts o = {.in = p->path, .recipe = name, .dry_run = true, .want_rows = true};
    struct quantize_report r;
    struct sizes z;
    struct fit f = {0};
    struct fit_use u;
    memcpy(&z, &p->z, sizeof z);
    for (int i = 0; i < z.n_blocks; i++) z.block[i].dense = z.block[i].experts = 0;
    z.embd = z.output = z.tied_head = z.mtp = 0;
    TRY(quantize_run(&o, &r, e));
    for (int64_t i = 0; i < r.n_tensors; i++)
        sizes_add(&z, p->arch, r.rows[i].name, r.rows[i].out_bytes);
    emit_row(m);
    emit_cell_str(m, name);
    emit_cell_i64(m, (int64_t)r.file_bytes);
    emit_cell_num(m, (double)r.file_bytes / 0x1p30, 4);
    emit_cell_num(m, r.bpw, 2);
    if (fit_use(&z, &p->ask, 0, 0, &u))
        emit_cell_num(m, (double)u.total / 0x1p30, 2);
    else
        emit_cell_none(m);
    struct plan_split split = p->split;
    if (p->have_fit && plan_split_fit(&split, &z, &p->ask, &f)) {
        emit_cell_str(m, f.way == FIT_ALL ? "yes" : "no");
        emit_cell_i64(m, f.max_ctx);
    }
    quantize_report_release(&r);
    return 0;
}

/* Adds the table of recipes for this model. */
static int emit_recipes(struct emit *m, const struct plan *p, struct err *e) {
    emit_table(m, "recipes", "this model by recipe");
    emit_col(m, "recipe", "recipe");
    emit_col(m, "size_bytes", "file bytes");
    emit_col(m, "size_gib", "GiB");
    emit_col(m, "bpw", "bits");
    emit_col(m, "total_gib", "GPU GiB");
    if (p->have_fit) emit_col(m, "fits", "fits");
    if (p->have_fit) emit_col(m, "max_ctx", "longest context");
    for (int i = 0; recipe_name(i); i++) TRY(recipe_row(m, p, recipe_name(i), e));
    return 0;
}

/* ---- the answer, and commands ---------------------------------------------------------------- */

/* Appends what part of the model fits, and for how many tokens. */
static void fit_text(const struct plan *p, struct buf *b) {
    const struct fit *f = &p->fit;
    const bool beyond = p->z.n_ctx_train && p->ask.n_ctx > p->z.n_ctx_train;
    switch (f->way) {
    case FIT_ALL:
        if (!beyond) buf_str(b, "all of it, with ");
        break;
    case FIT_EXPERTS:
        buf_fmt(b, "all but the experts of %d of %d blocks, with ", f->n, p->z.n_blocks);
        break;
    case FIT_BLOCKS:
        buf_fmt(b, "the last %d of %d blocks%s, with ", f->n, p->z.n_blocks,
                sizes_has_experts(&p->z) ? ", without their experts" : "");
        break;
    case FIT_NONE:
        buf_str(b, "no part of it, with ");
        break;
    }
    buf_fmt(b, "%lld tokens", (long long)p->ask.n_ctx);
    if (beyond) buf_fmt(b, ", more than the %lld it was trained for", (long long)p->z.n_ctx_train);
}

/* Emits the answer: whether the model fits, the memory it takes, and what a smaller cache would
 * save. */
static void fit_answer(struct emit *m, const struct plan *p, const char *what) {
    const struct kv_type *small = kv_type_find(KV_SMALL);
    struct fit_ask less = p->ask;
    struct fit_use u;
    struct buf b = {0};
    less.rows = kv_type_rows(small, small);
    buf_fmt(&b, "%s: %s, ",
            p->fit.way == FIT_ALL    ? "Fits"
            : p->fit.way == FIT_NONE ? "Does not fit"
                                     : "Fits in part",
            what);
    if (p->fit.way == FIT_NONE) {
        buf_str(&b, show_bytes(p->fit.use.total).s);
        plan_usable(&b, &p->ask);
    } else {
        plan_of_memory(&b, p->fit.use.total, p->vram);
    }
    if (p->fit.way == FIT_ALL && p->k != small && p->split.n_cards < 2 &&
        fit_use(&p->z, &less, 0, 0, &u) && u.total < p->fit.use.total) {
        buf_str(&b, "; with --kv-type " KV_SMALL " ");
        buf_str(&b, show_bytes(u.total).s);
    }
    plan_host_memory(&b, &p->fit);
    buf_chr(&b, '.');
    emit_answer(m, b.data);
    buf_release(&b);
}

/* Emits the answer for a plan without --vram: the memory that the model takes. */
static void size_answer(struct emit *m, const struct plan *p) {
    struct buf b = {0};
    struct fit_use u;
    (void)fit_use(&p->z, &p->ask, 0, 0, &u); /* cannot fail: settle_options() checked it */
    buf_str(&b, "Takes ");
    buf_str(&b, show_bytes(u.total).s);
    buf_fmt(&b, " on a card with %lld tokens of context; add --vram SIZE to see whether it fits.",
            (long long)p->ask.n_ctx);
    emit_answer(m, b.data);
    buf_release(&b);
}

/* Adds how the model fits in vram bytes; without a card, only its size. */
static void emit_fit(struct emit *m, const struct plan *p, uint64_t vram) {
    static const char *const way[] = {"all", "experts", "blocks", "none"};
    struct buf text = {0};
    const struct fit *f = &p->fit;
    if (!p->have_fit) {
        size_answer(m, p);
        return;
    }
    fit_text(p, &text);
    fit_answer(m, p, text.data);
    size_field(m, "vram", p->split.n_cards > 1 ? "memory of the cards" : "memory of the card",
               vram);
    size_field(m, "reserve", "  kept free", p->ask.reserve);
    emit_str(m, "fit", NULL, way[f->way]);
    emit_i64(m, "fit_n", NULL, f->n);
    emit_str(m, "fits", "what fits", text.data);
    size_field(m, "used", "  takes", f->use.total);
    size_field(m, "used_host", f->way == FIT_EXPERTS || f->way == FIT_BLOCKS ? "main memory" : NULL,
               f->host);
    emit_i64(m, "max_ctx", "longest context fully on the card", f->max_ctx);
    buf_release(&text);
}

/* Adds the command line in b as a field and empties b. */
static void emit_command(struct emit *m, const char *key, const char *title, struct buf *b) {
    emit_str(m, key, title, b->data);
    buf_reset(b);
}

/* Adds the command line for hone run with cache type kv; b is scratch. */
static void hone_command(struct emit *m, const struct plan *p, const char *kv, struct buf *b) {
    bool fits = p->have_fit && (p->fit.way == FIT_ALL || p->fit.way == FIT_EXPERTS);
    buf_str(b, "hone run ");
    shell_word(b, p->path);
    buf_fmt(b, " --ctx %lld --kv-type %s", (long long)p->ask.n_ctx, kv);
    /* CUDA supports every model, but not every cache type. */
    if (fits && has_flag(p->k, KV_ON_CUDA) && has_flag(p->v, KV_ON_CUDA)) {
        buf_str(b, p->split.n_cards > 1 ? " --device cuda:0" : " --device auto");
        for (int i = 1; i < p->split.n_cards; i++) buf_fmt(b, ",%d", i);
    }
    emit_command(m, "cmd_hone", "hone", b);
}

/* Adds llama-server's options that place experts and blocks. Returns false if the cards do not hold
 * the model as llama.cpp splits it. */
static bool llama_place(const struct plan *p, enum fit_way way, struct buf *b) {
    struct plan_split s = p->split;
    if (way == FIT_BLOCKS && sizes_has_experts(&p->z)) buf_str(b, " --cpu-moe");
    if (p->split.n_cards > 1) {
        const bool whole = way != FIT_BLOCKS;
        if (whole && !plan_split_llama(&p->split, &p->z, &p->ask, &s)) return false;
        if (whole && s.n_cpu_experts) buf_fmt(b, " --n-cpu-moe %d", s.n_cpu_experts);
        for (int c = 0; c < s.n_cards; c++)
            buf_fmt(b, "%s%d", c ? "," : " -ts ", plan_split_layers(&s, &p->z, c));
        return true;
    }
    if (way == FIT_EXPERTS) buf_fmt(b, " --n-cpu-moe %d", p->fit.n);
    return true;
}

/* Adds the command line for llama-server, or a note that its split does not fit; b is scratch. */
static void llama_command(struct emit *m, const struct plan *p, struct buf *b) {
    int64_t ctx = p->ask.n_ctx;
    enum fit_way way = p->have_fit ? p->fit.way : FIT_ALL;
    /* llama.cpp counts from the end: the head, the MTP blocks, then the trunk. */
    int ngl = 1 + p->z.n_mtp + (way == FIT_BLOCKS ? p->fit.n : p->z.n_blocks);
    if (!is_common(p->k) || !is_common(p->v)) return;
    buf_str(b, "llama-server -m ");
    shell_word(b, p->path);
    buf_fmt(b, " -c %lld -np %lld -fa on -ngl %d", (long long)(ctx * p->ask.n_slots),
            (long long)p->ask.n_slots, ngl);
    if (!llama_place(p, way, b)) {
        buf_reset(b);
        emit_str(m, "cmd_note", "note",
                 "no command for llama-server: split as it does, the model does not fit");
        return;
    }
    const struct kv_type *usual = kv_type_find(KV_USUAL);
    if (p->k != usual || p->v != usual) buf_fmt(b, " -ctk %s -ctv %s", p->k->name, p->v->name);
    buf_str(b, " --jinja");
    emit_command(m, "cmd_llama_server", "llama-server", b);
}

/* Adds commands for Ollama, which has three cache types and places the blocks itself. */
static void ollama_commands(struct emit *m, const struct plan *p, struct buf *b) {
    if (p->k != p->v || !has_flag(p->k, KV_SHOWN)) return;
    buf_fmt(b,
            "OLLAMA_FLASH_ATTENTION=1 OLLAMA_KV_CACHE_TYPE=%s OLLAMA_NUM_PARALLEL=%lld "
            "OLLAMA_CONTEXT_LENGTH=%lld ollama serve",
            p->k->name, (long long)p->ask.n_slots, (long long)p->ask.n_ctx);
    emit_command(m, "cmd_ollama_serve", "Ollama, server", b);
    buf_str(b, "echo FROM ");
    shell_word(b, p->path);
    buf_str(b, " > Modelfile; ollama create my-model -f Modelfile; ollama run my-model");
    emit_command(m, "cmd_ollama_create", "Ollama, model", b);
}

/* Emits command lines, unless the model does not fit. */
static void emit_commands(struct emit *m, const struct plan *p) {
    struct buf b = {0};
    char kv[40];
    if (p->have_fit && p->fit.way == FIT_NONE) return;
    kv_type_text(kv, p->k, p->v);
    hone_command(m, p, kv, &b);
    llama_command(m, p, &b);
    ollama_commands(m, p, &b);
    if (!is_common(p->k) || !is_common(p->v))
        emit_str(m, "cmd_note", "note",
                 "other engines lack this cache type, so they are not listed");
    buf_release(&b);
}

/* Returns ERR_VERDICT, with a remedy, if the model does not fit. */
static int verdict(const struct plan *p, struct err *e) {
    if (!p->have_fit || p->fit.way != FIT_NONE) return 0;
    char memory[48], reserve[48], shorter[64] = "use a smaller file";
    emit_fmt_bytes(memory, p->ask.memory);
    emit_fmt_bytes(reserve, p->ask.reserve);
    if (p->fit.max_ctx)
        snprintf(shorter, sizeof shorter, "it fits with --ctx %lld", (long long)p->fit.max_ctx);
    return err_set(e, ERR_VERDICT,
                   "%s: no part of it fits %s with %s kept free: %s%s; on the CPU it needs no "
                   "card",
                   p->path, memory, reserve, shorter,
                   p->ask.reserve && p->fit.use.total <= p->ask.memory ? ", or a smaller --reserve"
                                                                       : "");
}

/* ---- programs -------------------------------------------------------------------------------- */

/* Emits only the tables of --launches. */
static int show_programs(struct work *w, const struct plan *p, const struct memory_plan_opts *a,
                         struct emit *m, struct err *e) {
    struct gguf *g;
    struct dry_program o;
    enum act_mode act = ACT_Q8;
    if (a->act) TRY(act_parse(a->act, &act, e));
    TRY(gguf_open(&g, p->path, GGUF_TOLERANT, e));
    int rc = dry_program_open(&o, g, act, e);
    if (!rc) {
        work_device(w);
        if (w->device.masked) o.mask = w->device.mask;
        o.place = w->device.place;
        o.brings = plan_brings(&w->device);
        dry_program_split(&o, &w->device);
        emit_str(m, "file", "file", io_base(p->path));
        emit_str(m, "arch", "architecture", p->arch->name);
        emit_str(m, "act", "activations", a->act ? a->act : "q8");
        plan_program(m, w, &o, &p->ask.rows, a->ctx ? a->ctx : min_i64(USUAL_KEYS, p->ask.n_ctx));
        dry_program_close(&o);
    }
    gguf_close(g);
    return rc;
}

/* Plans a model that hone cannot run but whose weights have known sizes. */
static int plan_unknown(const struct memory_plan_opts *o, const struct err *why, struct emit *m,
                        struct err *e) {
    if (o->ctx || o->plot)
        log_warn("--ctx and --plot need keys and values, which are unknown for this model");
    uint64_t vram = 0;
    if (o->vram) TRY(size_parse(o->vram, "--vram", &vram, e));
    return unknown_plan(o->path[0], why, vram,
                        o->reserve == PLAN_USUAL_RESERVE ? fit_reserve(vram) : o->reserve,
                        o->recipes, m, e);
}

const struct memory_plan_opts memory_plan_usual = {
    .kv_name = KV_USUAL, .slots = 1, .reserve = PLAN_USUAL_RESERVE};

int memory_plan_run(struct work *w, const struct memory_plan_opts *o, struct emit *m,
                    struct err *e) {
    if (plan_is_choice(o)) return plan_files_run(w, o, m, e);
    struct apart files = {.w = w};
    apart_in(&files, o->path[0]);
    apart_out(&files, o->plot);
    TRY(apart_check(&files, e));
    struct plan *p = arena_array(&w->mem, 1, sizeof *p); /* 24 KB: too large for the stack */
    struct err why;
    *p = (struct plan){.path = o->path[0]};
    int rc = plan_read_sizes(p->path, &p->z, &p->arch, &p->file_bytes, e);
    if (rc == ERR_DATA && unknown_model(p->path, &why)) return plan_unknown(o, &why, m, e);
    if (rc) return rc;
    TRY(settle_options(p, o, e));
    if (o->launches) return show_programs(w, p, o, m, e);
    if (o->act) return err_set(e, ERR_USAGE, "--act is for --launches");
    emit_sizes(m, p);
    emit_fit(m, p, p->vram);
    emit_commands(m, p);
    if (o->plot) emit_str(m, "plot", "plot", o->plot);
    if (p->split.n_cards > 1) plan_split_emit(m, &p->split, &p->z);
    emit_contexts(m, p);
    if (o->recipes) TRY(emit_recipes(m, p, e));
    if (o->plot) TRY(plan_plot(w, &p->z, &p->ask, o->plot, e));
    return verdict(p, e);
}
