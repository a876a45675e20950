// SPDX-License-Identifier: MIT
/* work/shapes.c - tensor shapes of a model, read from a GGUF, a folder or config.json, and the
 * memory that they imply. */
#include "work/shapes.h"
#include "work/passes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "convert/convert.h"
#include "convert/mmproj.h"
#include "containers/hfdir.h"
#include "base/io.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "grad/grad.h"
#include "models/arch.h"
#include "models/sizes.h"
#include "quantize/synth.h"
#include "runtime/engine/kv_type.h"

enum { PAD = 32 };

/* Appends a tensor with a copy of its name. */
static void add_item(struct shapes *s, const char *name, enum qtype type, const int64_t ne[4]) {
    if (s->n == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 256;
        s->item = xreallocarray(s->item, (size_t)s->cap, sizeof *s->item);
    }
    s->item[s->n] = (struct recipe_item){.name = arena_strdup(&s->mem, name), .from = type};
    memcpy(s->item[s->n++].ne, ne, sizeof s->item->ne);
}

/* Adds a tensor that the conversion would write; a callback of convert. */
static void add_planned(void *ud, const char *name, enum qtype type, int n_dims,
                        const int64_t ne[4], uint64_t n_bytes) {
    struct shapes *s = ud;
    int64_t full[4] = {1, 1, 1, 1};
    for (int i = 0; i < n_dims && i < 4; i++) full[i] = ne[i];
    add_item(s, name, type, full);
    s->head_bytes -= (n_bytes + PAD - 1) / PAD * PAD;
}

/* Returns the number of floats per token in the buffers of a pass and of its gradients. Two
 * sessions, the gradients, and a block's activations for the backward pass take at most 7 times the
 * registers, as measured on models of five architectures. */
static int64_t pass_floats(const struct graph *g, const struct hparams *h) {
    int64_t sum = (3 * h->d[HD_LAYERS] + 2) * h->d[HD_EMBD], moe = 0;
    for (int i = 0; i < g->n_regs; i++) sum += 7 * g->reg_width[i];
    for (int i = 0; i < graph_count(g, OP_MOE); i++) {
        const struct gr_node *n = graph_nth(g, OP_MOE, i);
        const int64_t d = g->weight[n->moe.gate].ne[0], f = g->weight[n->moe.gate].ne[1];
        moe = max_i64(moe, n->moe.n_used * (8 * d + 7 * f));
    }
    return sum + moe;
}

/* Returns how many bytes of keys and values a long context takes per token; those of windows do not
 * grow with it. */
static double kv_token(const struct arch *a, const struct hparams *h) {
    enum { LONG = 1 << 17 };
    const enum qtype type = kv_type_find(KV_USUAL)->type;
    struct sizes z;
    struct err ignored;
    uint64_t half = 0, whole = 0;
    if (sizes_init(&z, a, h, &ignored) || !sizes_kv(&z, 0, 1, LONG / 2, type, true, &half) ||
        !sizes_kv(&z, 0, 1, LONG, type, true, &whole))
        return 0;
    return (double)(whole - half) / (LONG / 2);
}

/* Builds the model's graph to find out whether it has gradients and how much memory a pass
 * takes. */
static void look_at_graph(struct shapes *s, const struct arch *a, const struct hparams *h) {
    struct graph g;
    struct err ignored;
    graph_init(&g);
    if (a->decoder && arch_build(a, h, &g, &ignored) == 0) {
        s->gradients = grad_can_graph(&g, NULL);
        s->separable = true;
        for (int b = 1; b < h->d[HD_LAYERS]; b++)
            s->separable = s->separable && graph_can_begin(&g, g.hidden_nodes[b - 1] + 1, true);
        s->pass_floats = pass_floats(&g, h);
        s->row_bytes = passes_row_bytes(&g);
        s->n_vocab = g.weight[g.output].ne[1];
        s->kv_token = kv_token(a, h);
    }
    graph_release(&g);
}

/* Reads the fields that recipes need from config.json, and finds out whether the model has
 * gradients. `mtp`: the converted file has the MTP blocks. */
static int read_config(struct shapes *s, const char *src, bool mtp, struct err *e) {
    struct hfdir *dir;
    struct hparams h;
    const struct arch *a = s->model.arch;
    if (!a || a->draft) return 0; /* drafts are one block or a few, without experts */
    TRY(hfdir_open(&dir, src, e));
    const int rc = hparams_from_hf(&h, a, dir, e);
    hfdir_close(dir);
    TRY(rc);
    look_at_graph(s, a, &h);
    s->model.experts = h.d[HD_EXPERTS];
    s->model.experts_used = h.d[HD_EXPERTS_USED];
    s->model.n_mtp = mtp ? h.d[HD_MTP] : 0;
    s->model.n_blocks = h.d[HD_LAYERS] + s->model.n_mtp;
    return 0;
}

/* Reads the shapes of a folder to be converted, by a dry run. */
static int from_folder(struct shapes *s, const char *src, const char *type, const char *target,
                       struct err *e) {
    struct convert_report r;
    struct convert_opts o = {.src = src,
                             .target = target,
                             .type = type,
                             .dry_run = true,
                             .plan = add_planned,
                             .plan_ud = s};
    enum log_level level = log_get_level();
    log_set_level(LOG_ERROR); /* the conversion itself will repeat the messages */
    int rc = convert_run(&o, &r, e);
    log_set_level(level);
    TRY(rc);
    s->base_bytes = r.size_bytes;
    s->head_bytes += r.size_bytes;
    memcpy(s->type, r.type, sizeof s->type);
    s->model.arch = arch_find_table(r.arch);
    return read_config(s, src, r.n_mtp_tensors > 0, e);
}

static int from_gguf(struct shapes *s, const char *src, struct err *e) {
    struct gguf *g;
    TRY(gguf_open(&g, src, 0, e));
    recipe_model_from(&s->model, g);
    for (int64_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        add_item(s, t->name, t->type, t->ne);
    }
    struct hparams h;
    struct err ignored;
    if (s->model.arch && s->model.arch->decoder &&
        hparams_from_gguf(&h, s->model.arch, g, &ignored) == 0)
        look_at_graph(s, s->model.arch, &h);
    s->base_bytes = gguf_file_bytes(g);
    gguf_shard_header(g, 0, &s->head_bytes);
    gguf_close(g);
    return 0;
}

/* Returns the tensor's number of weights. */
static double count_weights(const struct recipe_item *it) {
    return (double)it->ne[0] * (double)it->ne[1] * (double)it->ne[2] * (double)it->ne[3];
}

/* Computes the totals over all tensors. */
static void summarize_items(struct shapes *s) {
    bool head = false;
    for (int64_t i = 0; i < s->n; i++) head |= s->item[i].role == ROLE_OUTPUT;
    s->model.tied = !head;
    for (int64_t i = 0; i < s->n; i++) {
        const struct recipe_item *it = &s->item[i];
        const bool routed =
            role_is_routed(it->role) && s->model.experts > 1 && s->model.experts_used > 0;
        const bool table = (it->role == ROLE_TOKEN_EMBD && head) || it->role == ROLE_PLE_EMBD;
        if (it->role == ROLE_TOKEN_EMBD) s->n_embd = it->ne[0];
        if (it->quant) s->weights += count_weights(it);
        if (it->quant) s->widest = max_i64(s->widest, it->ne[0]);
        if (!table && it->ne[1] > 1)
            s->active += routed
                             ? count_weights(it) * (double)s->model.experts_used / (double)it->ne[2]
                             : count_weights(it);
    }
}

int shapes_open(struct shapes *s, const char *src, const char *type, const char *target,
                struct err *e) {
    memset(s, 0, sizeof *s);
    arena_init(&s->mem);
    s->model.imatrix = true;
    TRY(io_is_dir(src) ? from_folder(s, src, type, target, e) : from_gguf(s, src, e));
    s->model.imatrix = true;
    recipe_roles(&s->model, s->item, s->n);
    summarize_items(s);
    return 0;
}

/* ---- from config.json alone ------------------------------------------------------------------ */

/* Returns the path of config.json; src is this file or its folder. The caller frees it. */
static char *config_path(const char *src) {
    return io_is_dir(src) ? io_join(src, "config.json") : xstrdup(src);
}

bool shapes_is_config(const char *src) {
    struct io_names all;
    struct err ignored;
    char *config = config_path(src);
    bool yes = str_ends(config, ".json") && io_exists(config);
    free(config);
    if (!yes || !io_is_dir(src)) return yes;
    if (io_list(&all, src, &ignored)) return false;
    for (int i = 0; i < all.n; i++)
        yes &= !str_ends(all.v[i], ".safetensors") && !str_ends(all.v[i], ".bin");
    io_names_release(&all);
    return yes;
}

/* Reads architecture and hyperparameters of a folder, without the draft block. */
static int read_numbers(struct hfdir *dir, const char *path, const struct arch **a,
                        struct hparams *h, struct err *e) {
    const char *cls = json_str(json_first(json_get(hfdir_config(dir), "architectures")));
    *a = cls ? arch_find_dir(cls, dir) : NULL;
    if (!*a) return arch_refuse_class(path, cls ? cls : "(none)", e);
    if (!(*a)->decoder) return arch_refuse(path, (*a)->name, e);
    TRY(hparams_from_hf(h, *a, dir, e));
    h->d[HD_MTP] = 0; /* the draft block is not counted */
    return (*a)->derive(h, e);
}

/* Returns whether config.json describes the release in MXFP4 of a model whose blocks conversion
 * keeps; these are the routed experts. */
static bool has_mxfp4(const struct arch *a, const struct hfdir *dir) {
    const struct json *q = hfdir_hparam(dir, "quantization_config");
    const char *method = json_str(json_get(q, "quant_method"));
    return a->mxfp4 && method && strcmp(method, "mxfp4") == 0;
}

/* Returns whether a member of an object is a text that names NVFP4. */
static bool is_nvfp4(const struct json *o, const char *member) {
    const char *s = json_str(json_get(o, member));
    return s && (strstr(s, "NVFP4") || strstr(s, "nvfp4"));
}

/* Returns whether config.json describes matrices in NVFP4, whose blocks conversion keeps: as
 * ModelOpt or compressed-tensors write it. */
static bool has_nvfp4(const struct hfdir *dir) {
    const struct json *q = hfdir_hparam(dir, "quantization_config"), *g;
    bool has = is_nvfp4(q, "quant_algo") || is_nvfp4(q, "format") || is_nvfp4(q, "quant_method");
    for (g = json_first(json_get(q, "config_groups")); g; g = json_next(g))
        has |= is_nvfp4(g, "format");
    return has;
}

/* Adds the tensors of a model with these hyperparameters. mxfp4: as in has_mxfp4. */
static int list_tensors(struct shapes *s, const struct hparams *h, bool mxfp4, struct err *e) {
    struct tensor_inst *t;
    int64_t n;
    TRY(arch_tensors(s->model.arch, h, &t, &n, e));
    for (int64_t i = 0; i < n; i++) {
        if (t[i].optional) continue;
        const bool kept = mxfp4 && t[i].ne[1] > 1 && role_is_routed(t[i].row->role);
        const enum qtype type = kept ? qtype_fit(QT_MXFP4, t[i].ne[0]) : synth_stored(&t[i]);
        add_item(s, t[i].name, type, t[i].ne);
        s->base_bytes +=
            qtype_row_bytes(type, t[i].ne[0]) * (uint64_t)(t[i].ne[1] * t[i].ne[2] * t[i].ne[3]);
    }
    free(t);
    return 0;
}

int shapes_from_config(struct shapes *s, const char *src, struct hparams *h, struct err *e) {
    struct hfdir *dir = NULL;
    char *path = config_path(src), *text = NULL;
    size_t len;
    memset(s, 0, sizeof *s);
    arena_init(&s->mem);
    int rc = io_read_file(&text, &len, path, limit_of(LIM_HF_JSON), e);
    if (!rc) rc = hfdir_from_config(&dir, text, len, path, e);
    if (!rc) rc = read_numbers(dir, path, &s->model.arch, h, e);
    if (!rc) rc = list_tensors(s, h, has_mxfp4(s->model.arch, dir), e);
    if (!rc && has_nvfp4(dir))
        log_warn(
            "%s: matrices in NVFP4 stay so in every file, and the config does not list them: "
            "sizes are those of a BF16 release; those of the folder with its weights are exact",
            path);
    if (!rc) {
        s->projector = mmproj_config_bytes(s->model.arch, dir);
        s->model.imatrix = true;
        s->model.experts = h->d[HD_EXPERTS];
        s->model.experts_used = h->d[HD_EXPERTS_USED];
        s->model.n_blocks = h->d[HD_LAYERS];
        recipe_roles(&s->model, s->item, s->n);
        summarize_items(s);
    }
    hfdir_close(dir);
    free(text);
    free(path);
    return rc;
}

void shapes_close(struct shapes *s) {
    free(s->item);
    arena_release(&s->mem);
    memset(s, 0, sizeof *s);
}

uint64_t shapes_recipe(const struct shapes *s, const char *recipe,
                       void (*each)(void *ud, const char *name, uint64_t n_bytes), void *ud) {
    uint64_t sum = s->head_bytes + 512; /* plus the keys that quantization adds */
    struct recipe_item *it = xcalloc((size_t)s->n + 1, sizeof *it);
    memcpy(it, s->item, (size_t)s->n * sizeof *it);
    for (int64_t i = 0; i < s->n; i++) it[i].type = it[i].from;
    recipe_apply(recipe, recipe_default(recipe), &s->model, it, s->n);
    recipe_keep_released(it, s->n);
    for (int64_t i = 0; i < s->n; i++) {
        uint64_t row = qtype_row_bytes(it[i].type, it[i].ne[0]);
        uint64_t bytes = row * (uint64_t)(it[i].ne[1] * it[i].ne[2] * it[i].ne[3]);
        sum += (bytes + PAD - 1) / PAD * PAD;
        if (each) each(ud, it[i].name, bytes);
    }
    free(it);
    return sum;
}

uint64_t shapes_preset(const struct shapes *s, const char *recipe) {
    return shapes_recipe(s, recipe, NULL, NULL);
}

/* Cost of gradients besides the forward pass of calibration, in forward passes: the blocks run
 * forward once more, then backward. */
enum { GRADIENT_PASSES = 2 };
/* Returns whether second moments are counted for weights of this role. The other roles share the
 * input of one of these. */
static bool leads(enum role r) {
    return r == ROLE_ATTN_Q || r == ROLE_ATTN_QKV || r == ROLE_ATTN_OUTPUT || r == ROLE_SSM_OUT ||
           r == ROLE_SSM_IN || r == ROLE_FFN_GATE || r == ROLE_FFN_DOWN || r == ROLE_EXP_GATE ||
           r == ROLE_EXP_GATE_UP || r == ROLE_EXP_DOWN || r == ROLE_SHEXP_GATE ||
           r == ROLE_SHEXP_DOWN;
}

/* Returns whether moments of a weight's gradients are kept: true for matrices in blocks. */
static bool has_gradients(const struct recipe_item *it) {
    return it->quant && it->ne[1] > 1 && it->role != ROLE_TOKEN_EMBD && it->role != ROLE_OUTPUT &&
           it->role != ROLE_PLE_EMBD;
}

/* Block shapes of calib/moments.c. Inputs (outputs) of up to IN_FULL (OUT_FULL) columns are one
 * block, wider ones have blocks of IN_BLOCK (OUT_BLOCK). If every matrix has its own moments, which
 * then take at most own_bytes, blocks have OWN_BLOCK columns. */
enum { IN_FULL = 4096, IN_BLOCK = 2048, OUT_FULL = 2048, OUT_BLOCK = 1024, OWN_BLOCK = 256 };
static const double own_bytes = 0x1p27;

/* Returns whether each of n_mats experts has its own moments. */
static bool has_own(double n, double n_mats) {
    return n_mats > 1 && 8 * n_mats * n * fmin(n, OWN_BLOCK) <= own_bytes;
}

/* Returns the size of the blocks in which the moments of n inputs are kept. */
static double block_of(double n, bool own, double full, double block) {
    return own ? fmin(n, OWN_BLOCK) : n <= full ? n : block;
}

void shapes_input(const struct recipe_item *it, struct shapes_input *out) {
    const double n = (double)it->ne[0], mats = (double)it->ne[2];
    const bool own = has_own(n, mats);
    *out = (struct shapes_input){.block = block_of(n, own, IN_FULL, IN_BLOCK),
                                 .n_mats = own ? mats : 1,
                                 .leads = leads(it->role) || it->role == ROLE_OUTPUT ||
                                          it->role == ROLE_TOKEN_EMBD};
}

void shapes_gram(const struct shapes *s, struct shapes_gram *out) {
    double out_flops = s->gradients ? GRADIENT_PASSES * 2 * s->active : 0;
    *out = (struct shapes_gram){0};
    if (s->n_embd) { /* input of the output head */
        const double n = (double)s->n_embd, block = block_of(n, false, IN_FULL, IN_BLOCK);
        out->inputs = 8 * n * block;
        out->flops = n * block;
    }
    for (int64_t i = 0; i < s->n; i++) {
        const struct recipe_item *it = &s->item[i];
        const double n = (double)it->ne[0], rows = (double)it->ne[1], experts = (double)it->ne[2];
        const double used = experts > 1 ? fmax(1, (double)s->model.experts_used) : 1;
        const bool own_out = it->role != ROLE_EXP_DOWN && has_own(rows, experts);
        struct shapes_input in;
        shapes_input(it, &in);
        if (leads(it->role)) {
            out->inputs += 8 * in.n_mats * n * in.block;
            out->flops += used * n * in.block;
        }
        if (s->gradients && has_gradients(it) &&
            (experts <= 1 || own_out || it->role == ROLE_EXP_DOWN)) {
            const double block = block_of(rows, own_out, OUT_FULL, OUT_BLOCK);
            out->answers += 8 * (own_out ? experts : 1) * rows * block;
            out_flops += used * rows * block;
        }
    }
    out->flops += out_flops;
}

double shapes_passes(const struct shapes *s, int64_t ctx, int threads) {
    /* fixed: panels, states and importance sums; per thread: one panel of rows and one of logits */
    const double fixed = 0x1p25, panel = 1024 * (double)s->widest,
                 logits = 160 * (double)s->n_vocab;
    return fixed + 4 * (double)ctx * (double)s->pass_floats + logits +
           threads * (panel + 8 * (double)s->n_vocab);
}
