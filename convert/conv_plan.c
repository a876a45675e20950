// SPDX-License-Identifier: MIT
/* convert/conv_plan.c - the first pass of a conversion, which makes the plan: architecture,
 * hyperparameters, tensor map, output types and sizes. Rejects folders that would convert to
 * garbage. Reads only headers and a few norm vectors. */
#include "convert/conv_plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/printable.h"
#include "base/str.h"
#include "convert/vision.h"

/* Returns whether the class name has the suffix of a language model. Other classes, such as
 * LlamaForSequenceClassification, have a different head. */
static bool is_language_model(const char *cls) {
    return !cls || str_ends(cls, "ForCausalLM") || str_ends(cls, "ForConditionalGeneration") ||
           str_ends(cls, "LMHeadModel") || str_ends(cls, "Model");
}

/* Finds the architecture by model_type, as transformers does without code from the folder. NULL:
 * unknown, or some tensors do not match its names. */
static const struct arch *by_type(struct hfdir *dir, const char *cls) {
    config_complete(dir);
    const char *type = json_str(hfdir_hparam(dir, "model_type"));
    const struct arch *a = is_language_model(cls) && !json_get(hfdir_config(dir), "auto_map")
                               ? arch_find_type(type)
                               : NULL;
    if (a && a->which) a = a->which(dir);
    if (!a || !named_as(dir, a)) return NULL;
    if (cls && !vision_find(cls))
        log_warn("model class %s is not known; read as %s according to its model_type, %s",
                 show_n(cls, strlen(cls)).s, a->family, type);
    return a;
}

/* Returns the architecture of model_type if the folder's tensor names fit it and not `a`, the
 * architecture of the class; otherwise `a`. transformers 5 runs some models, such as EXAONE 3, with
 * another model's class, and saves the name of that class. */
static const struct arch *of_names(struct hfdir *dir, const struct arch *a) {
    const char *type = json_str(hfdir_hparam(dir, "model_type"));
    const struct arch *b = arch_find_type(type);
    if (b && b->which) b = b->which(dir);
    if (!b || b == a || named_as(dir, a) || !named_as(dir, b)) return a;
    log_info("the tensors have the names of model_type %s: read as %s", type, b->family);
    return b;
}

const struct arch *convert_arch(struct hfdir *dir, const char **cls) {
    const struct json *cfg = hfdir_config(dir);
    const char *outer = json_str(json_first(json_get(cfg, "architectures")));
    const char *inner = json_str(json_first(json_get(hfdir_text_config(dir), "architectures")));
    const struct arch *whole = outer ? arch_find_hf(outer) : NULL;
    /* Drafts name the class of their layers inside. */
    *cls = inner && !(whole && whole->draft) ? inner : outer;
    const struct arch *a = *cls ? arch_find_dir(*cls, dir) : NULL;
    if (!a && inner && outer) a = arch_find_dir(outer, dir);
    return a ? of_names(dir, a) : by_type(dir, *cls);
}

/* Finds the architecture from config.json. */
static int find_arch(struct conv_plan *p, struct err *e) {
    const char *cls;
    p->arch = convert_arch(p->dir, &cls);
    if (p->arch) return 0;
    if (!cls)
        return err_set(e, ERR_DATA,
                       "%s/config.json names no model class in \"architectures\": add "
                       "the one of the original release",
                       hfdir_path(p->dir));
    return unknown_class(p->dir, cls, e);
}

/* Returns the first weight file written by MLX; NULL: none. */
static const struct st *mlx_file(const struct hfdir *dir) {
    for (int i = 0; i < hfdir_n_files(dir); i++) {
        const char *format = st_meta(hfdir_file(dir, i), "format");
        if (format && strcmp(format, "mlx") == 0) return hfdir_file(dir, i);
    }
    return NULL;
}

/* Rejects folders quantized by MLX. */
static int check_mlx(const struct hfdir *dir, struct err *e) {
    const struct st *f = mlx_file(dir);
    for (int64_t i = 0; f && i < hfdir_n_tensors(dir); i++)
        if (hfdir_tensor_at(dir, i)->dtype == ST_U32)
            return err_set(e, ERR_DATA,
                           "%s is quantized for MLX: dequantize it with mlx_lm.convert "
                           "--dequantize, or convert the original Hugging Face release",
                           st_path(f));
    return 0;
}

/* Rejects unquantized MLX folders with weights that MLX transforms: convolutions, experts, norms
 * used as 1 + w, multipliers. MLX does not change plain decoders. */
static int check_mlx_items(const struct conv_plan *p, struct err *e) {
    const struct st *f = mlx_file(p->dir);
    for (int64_t i = 0; f && i < p->n_items; i++) {
        const struct item *it = &p->item[i];
        if (it->xf == XF_ADD1 || it->xf == XF_MULTIPLY || it->xf == XF_MULTIPLY_IN ||
            role_is_routed(it->inst.row->role) || strstr(it->inst.name, "conv"))
            return err_set(e, ERR_DATA,
                           "%s was written for MLX, which transforms weights such as %s: convert "
                           "the original Hugging Face release instead",
                           st_path(f), it->inst.name);
    }
    return 0;
}

/* Looks for norms that are already stored as 1 + w. Norms used as 1 + w should be stored as w,
 * around 0; a mean near 1 over the whole model suggests that 1 was already added. Adding it twice
 * would give a model that loads, but produces nonsense. MLX adds 1 in models with linear attention,
 * whose norms are trained to stay near 0, so those are rejected; norms of others, such as Gemma's,
 * may have any mean. */
static int check_norms(const struct conv_plan *p, struct err *e) {
    double sum = 0;
    int64_t n = 0;
    for (int64_t i = 0; i < p->n_items; i++) {
        const struct item *it = &p->item[i];
        if (it->xf != XF_ADD1 || !strstr(it->inst.name, ".attn_norm.")) continue;
        double mean;
        TRY(xform_mean(p->src[it->src].part[0], &mean, e));
        sum += mean;
        n++;
    }
    double mean = n ? sum / (double)n : 0;
    if (!(mean > 0.85 && mean < 1.15)) return 0;
    if (p->hp.d[HD_LIN_V_HEADS])
        return err_set(
            e, ERR_DATA,
            "%s: the mean of the input norms is %.3f, so 1 was already added to them (an "
            "MLX export?): convert the original Hugging Face release instead, or "
            "subtract 1 from all norms of this folder that are used as 1 + w",
            hfdir_path(p->dir), mean);
    log_warn("the mean of the input norms is %.3f: if another program has already added 1 to them, "
             "the file will produce nonsense: then convert the original Hugging Face release",
             mean);
    return 0;
}

/* Returns whether a factor changes the fractions of weights, not only their exponents. */
static bool is_odd(float factor) {
    int exponent;
    const float fraction = fabsf(frexpf(factor, &exponent));
    return fraction > 0.5f;
}
/* Returns whether weights are multiplied by factors after which they no longer fit the bits of
 * their own type (Falcon-H1). */
static bool has_odd_factors(const struct conv_plan *p) {
    bool odd = false;
    for (int64_t i = 0; i < p->n_items && !odd; i++) {
        const struct item *it = &p->item[i];
        const bool parts = it->xf == XF_MULTIPLY_IN;
        const int first = parts ? MUL_Z : it->inst.row->group, last = parts ? MUL_DT : first;
        if (!parts && it->xf != XF_MULTIPLY) continue;
        for (int k = first; k <= last; k++) odd = odd || is_odd(p->hp.mul[k]);
    }
    return odd;
}

/* Returns the output type for `auto`: the type with the most bytes or, if any tensor is quantized,
 * BF16, which does not overflow. */
static enum qtype auto_type(const struct conv_plan *p) {
    uint64_t bytes[ST_COUNT] = {0};
    for (int64_t i = 0; i < p->n_src; i++) {
        const struct st_tensor *t = p->src[i].part[0];
        if (p->src[i].foreign) continue; /* adapters do not change the type */
        if (!dq_is_plain(&p->src[i])) return QT_BF16;
        bytes[t->dtype] += t->n_bytes;
    }
    enum st_dtype best = ST_BF16;
    for (int t = 0; t < ST_COUNT; t++)
        if (bytes[t] > bytes[best]) best = (enum st_dtype)t;
    enum qtype t;
    if (!st_dtype_qtype(best, &t)) t = best == ST_F64 ? QT_F32 : QT_BF16;
    if (t == QT_F32 || !has_odd_factors(p)) return t;
    log_info("multipliers become part of the weights, which %s would round again: their type is "
             "f32 (hone convert --type %s: half the size, a mean divergence of about 1e-5)",
             qtype_name(t), qtype_name(t));
    return QT_F32;
}

/* Sets the output type; name NULL or "auto": chosen from the source. */
static int pick_type(struct conv_plan *p, const char *name, struct err *e) {
    if (!name || strcmp(name, "auto") == 0) {
        p->type = auto_type(p);
        return 0;
    }
    if (qtype_parse(name, &p->type) && (qtype_info(p->type)->flags & QF_CONVERT)) return 0;
    return err_set(e, ERR_USAGE, "--type %s is not one of auto, f32, f16, bf16, q8_0", name);
}

/* Returns whether the NVFP4 sources of a matrix give each output matrix one scale. */
static bool one_scale(const struct conv_plan *p, const struct item *it) {
    const struct dq *q = &p->src[it->src];
    const int64_t n = it->inst.ne[2], per = it->n_src / n;
    bool ok = it->n_src == 1 || (per > 0 && it->n_src == per * n);
    for (int64_t i = 0; i < it->n_src && ok; i++) {
        const float s = dq_nvfp4_scale(&q[i], 0);
        ok = s > 0 && isfinite(s);
        if (it->n_src > 1) ok = ok && s == dq_nvfp4_scale(&q[i / per * per], 0);
    }
    for (int64_t m = 0; m < n && ok && it->n_src == 1; m++)
        ok = dq_nvfp4_scale(q, m) > 0 && isfinite(dq_nvfp4_scale(q, m));
    return ok;
}

/* Sets out to X.scale, the name of the scales of X.weight. Returns false if the matrix has another
 * kind of name, or the architecture has another tensor X.scale (Gemma 4). */
static bool scales_name(const struct conv_plan *p, const struct item *it, char out[64]) {
    const size_t n = strlen(it->inst.name);
    if (n < 6 || strcmp(it->inst.name + n - 6, "weight") != 0) return false;
    memcpy(out, it->inst.name, n - 6);
    memcpy(out + n - 6, "scale", 6);
    return !arch_row_of(p->arch, &p->hp, out, NULL);
}

/* Returns whether a matrix can keep its NVFP4 blocks, apart from what keeps_blocks checks.
 * Embedding tables cannot: only products apply X.scale. */
static bool fits_nvfp4(const struct conv_plan *p, const struct item *it) {
    char name[64];
    const enum role role = it->inst.row->role;
    return it->inst.ne[0] % 64 == 0 && role != ROLE_OTHER && role != ROLE_TOKEN_EMBD &&
           role != ROLE_PLE_EMBD && scales_name(p, it, name) && one_scale(p, it);
}

/* Returns whether a matrix can keep its FP4 blocks: its transform only permutes rows. nvfp4:
 * NVFP4 blocks, otherwise MXFP4 blocks. */
static bool keeps_blocks(const struct conv_plan *p, const struct item *it, bool nvfp4) {
    static const bool rows_only[XF_COUNT] = {
        [XF_COPY] = true,        [XF_V_ROWS] = true,       [XF_V_ROWS_TAIL] = true,
        [XF_SPLIT_FIRST] = true, [XF_SPLIT_SECOND] = true, [XF_ROPE_PAIRS] = true,
        [XF_ROPE_HALVES] = true, [XF_QKV_ALL] = true,      [XF_QKV_Q] = true,
        [XF_QKV_K] = true,       [XF_QKV_V] = true,        [XF_EVEN] = true,
        [XF_ODD] = true,         [XF_TURN] = true,         [XF_TURN_FIRST] = true,
        [XF_TURN_SECOND] = true, [XF_QKVZ_QKV] = true,     [XF_QKVZ_Z] = true};
    bool all = it->n_src > 0 && it->inst.n_dims >= 2 && rows_only[it->xf];
    for (int64_t i = 0; i < it->n_src && all; i++) {
        const struct dq *q = &p->src[it->src + i];
        all = (nvfp4 ? dq_is_nvfp4(q) : dq_is_mxfp4(q)) && !q->delta;
    }
    return all && (!nvfp4 || fits_nvfp4(p, it));
}

/* Adds after each NVFP4 matrix the tensor with its scales. */
static void add_scales(struct conv_plan *p) {
    int64_t n = 0;
    struct item *all = xcalloc((size_t)(p->n_items + p->n_nvfp4) + 1, sizeof *all);
    for (int64_t i = 0; i < p->n_items; i++) {
        const struct item *it = &p->item[i];
        all[n++] = *it;
        if (it->type != QT_NVFP4) continue;
        struct item *s = &all[n++];
        *s = *it;
        s->scales = true;
        s->type = QT_F32;
        s->inst.n_dims = 1;
        s->inst.ne[0] = it->inst.ne[2];
        s->inst.ne[1] = s->inst.ne[2] = 1;
        s->n_bytes = (uint64_t)s->inst.ne[0] * sizeof(float);
        scales_name(p, it, s->inst.name);
    }
    free(p->item);
    p->item = all;
    p->n_items = n;
}

/* Sets the type and bytes of each item and counts the parameters. keep, keep_nv: keep MXFP4 and
 * NVFP4 blocks. */
static int size_items(struct conv_plan *p, bool keep, bool keep_nv, struct err *e) {
    for (int64_t i = 0; i < p->n_items; i++) {
        struct item *it = &p->item[i];
        const int64_t *ne = it->inst.ne;
        bool f32 = (it->inst.row->flags & TR_F32) || it->inst.n_dims < 2;
        it->type = f32 ? QT_F32 : qtype_fit(p->type, ne[0]);
        if (it->inst.row->flags & TR_I32) it->type = QT_I32;
        if (it->inst.row->flags & TR_I64) it->type = QT_I64;
        if (keep && !f32 && keeps_blocks(p, it, false)) {
            it->type = QT_MXFP4;
            p->n_kept++;
        } else if (keep_nv && !f32 && keeps_blocks(p, it, true)) {
            it->type = QT_NVFP4;
            p->n_nvfp4++;
        }
        uint64_t n = qtype_row_bytes(it->type, ne[0]);
        int64_t elems = ne[0];
        bool ok = n > 0;
        for (int d = 1; d < 4; d++)
            ok = ok && mul_ok(n, (uint64_t)ne[d], &n) && mul_ok_i64(elems, ne[d], &elems);
        if (!ok) return err_set(e, ERR_DATA, "%s is too large", it->inst.name);
        it->n_bytes = n;
        p->n_params += elems;
        if (it->inst.block >= p->hp.d[HD_LAYERS]) p->n_mtp_tensors++;
    }
    return 0;
}

/* Opens the folder of a draft's model. ERR_USAGE: it is not a draft. */
static int check_target(struct conv_plan *p, const struct convert_opts *o, struct err *e) {
    if (!o->target) return 0;
    if (!p->arch->draft)
        return err_set(e, ERR_USAGE,
                       "--target-model-dir is for drafts, but %s is a model (%s) of its own",
                       hfdir_path(p->dir), p->arch->family);
    return hfdir_set_target(p->dir, o->target, e);
}

/* Returns the output tensor of a name; NULL: not found. */
static const struct item *find_item(const struct conv_plan *p, const char *name) {
    for (int64_t i = 0; i < p->n_items; i++)
        if (strcmp(p->item[i].inst.name, name) == 0) return &p->item[i];
    return NULL;
}

/* Checks that a table of n tokens names each of the model's tokens at most once. The table lists
 * tokens, or what to add to their index (`offsets`). used[token] is set for those it names. */
static int check_ids(const struct conv_plan *p, const struct item *ids, int64_t n, bool offsets,
                     bool *used, struct err *e) {
    const struct st_tensor *t = p->src[ids->src].part[0];
    const int64_t n_all = p->hp.d[HD_VOCAB];
    float *v = xcalloc((size_t)n, sizeof *v);
    int rc = st_to_f32(t, 0, n, v, e);
    for (int64_t i = 0; i < n && !rc; i++) {
        const double id = (double)v[i] + (offsets ? (double)i : 0);
        if (!(id >= 0 && id < (double)n_all) || used[(int64_t)id])
            rc = err_set(e, ERR_DATA, "%s: %s[%lld] is %.0f, which makes token %.0f of %lld%s",
                         hfdir_path(p->dir), t->name, (long long)i, (double)v[i], id,
                         (long long)n_all,
                         id >= 0 && id < (double)n_all ? ", as an earlier entry does" : "");
        else
            used[(int64_t)id] = true;
    }
    free(v);
    return rc;
}

/* Compares the tokens that d2t names with t2d, which marks the same tokens, if the folder has it.
 */
static int check_t2d(const struct conv_plan *p, const bool *used, struct err *e) {
    const struct st_tensor *t = hfdir_find(p->dir, "t2d");
    const int64_t n = p->hp.d[HD_VOCAB];
    if (!t) return 0;
    if (t->n_elems != n)
        return err_set(e, ERR_DATA, "%s: t2d has %lld entries for %lld tokens", hfdir_path(p->dir),
                       (long long)t->n_elems, (long long)n);
    for (int64_t i = 0; i < n; i++) {
        float v = 0;
        TRY(st_to_f32(t, i, 1, &v, e));
        if ((v != 0) != used[i])
            return err_set(e, ERR_DATA,
                           used[i] ? "%s: d2t names token %lld, but t2d does not mark it"
                                   : "%s: t2d marks token %lld, but d2t does not name it",
                           hfdir_path(p->dir), (long long)i);
    }
    return 0;
}

/* Checks a draft's table d2t, which a draft with fewer tokens than its model needs. */
static int check_d2t(const struct conv_plan *p, bool *used, struct err *e) {
    const struct item *ids = find_item(p, "d2t"), *head = find_item(p, "output.weight");
    const int64_t n = p->hp.d[HD_DRAFT_VOCAB], n_all = p->hp.d[HD_VOCAB];
    if (!ids && (n == n_all || !head)) return 0;
    if (!ids)
        return err_set(e, ERR_DATA,
                       "%s: the draft has %lld of %lld tokens, but no tensor d2t that names them",
                       hfdir_path(p->dir), (long long)n, (long long)n_all);
    if (!head)
        return err_set(e, ERR_DATA, "%s: the draft has d2t, but no lm_head.weight of its own",
                       hfdir_path(p->dir));
    TRY(check_ids(p, ids, n, true, used, e));
    return check_t2d(p, used, e);
}

/* Checks the tables of tokens of a draft: d2t, and the order of tokens in clusters. */
static int check_tokens(const struct conv_plan *p, struct err *e) {
    const struct item *order = find_item(p, "masked_embd_ordering");
    const int64_t n_all = p->hp.d[HD_VOCAB];
    if (!p->arch->draft) return 0;
    bool *used = xcalloc((size_t)n_all, sizeof *used);
    const int rc = order ? check_ids(p, order, n_all, false, used, e) : check_d2t(p, used, e);
    free(used);
    return rc;
}

int plan_open(struct conv_plan *p, const struct convert_opts *o, struct err *e) {
    memset(p, 0, sizeof *p);
    arena_init(&p->arena);
    TRY(pick_type(p, o->type, e)); /* report a wrong option before reading anything */
    TRY(o->consume ? hfdir_open_consumed(&p->dir, o->src, e) : hfdir_open(&p->dir, o->src, e));
    TRY(find_arch(p, e));
    TRY(check_target(p, o, e));
    TRY(hf_names_make(&p->names, p->dir, p->arch, &p->arena, e));
    return check_mlx(p->dir, e);
}

int plan_make(struct conv_plan *p, const struct convert_opts *o, struct err *e) {
    const struct json *modules;
    if (o->keep_mxfp4 && o->pad)
        return err_set(e, ERR_USAGE, "--keep-mxfp4 and --pad cannot be used together");
    TRY(plan_open(p, o, e));
    TRY(hfdir_json(p->dir, "modules.json", &modules, e));
    p->embeds = modules != NULL;
    if (o->lora) TRY(lora_open(&p->lora, o->lora, e));
    TRY(dq_config_read(&p->quant, p->dir, e));
    TRY(hparams_from_hf(&p->hp, p->arch, p->dir, e));
    if (p->hp.not_causal)
        log_warn("is_causal is false: every token attends to later ones, so hone converts and "
                 "quantizes this model, but cannot run it");
    p->quant.stripes = p->hp.d[HD_QKV_STRIPES];
    config_log_defaults(p->dir);
    TRY(map_tensors(p, o, e));
    TRY(pick_type(p, o->type, e));
    const bool as_stored = !o->type || strcmp(o->type, "auto") == 0;
    if (!as_stored && p->type != QT_F32 && qtype_info(p->type)->block_elems == 1 &&
        has_odd_factors(p))
        log_warn("multipliers become part of the weights, which %s rounds again: a mean divergence "
                 "of about 1e-5 from the original; --type f32 keeps them",
                 qtype_name(p->type));
    TRY(size_items(p, o->keep_mxfp4 || (p->arch->mxfp4 && !o->pad), as_stored && !o->pad, e));
    if (p->n_nvfp4) add_scales(p);
    TRY(check_mlx_items(p, e));
    TRY(check_tokens(p, e));
    return check_norms(p, e);
}

int convert_known(const char *src, bool *runs, const char **draft, struct err *e) {
    const struct convert_opts o = {.src = src};
    struct conv_plan p;
    int rc = plan_open(&p, &o, e);
    *runs = !rc && p.arch->decoder && json_bool(hfdir_hparam(p.dir, "is_causal"), true);
    *draft = rc ? NULL : p.arch->draft;
    plan_release(&p);
    return rc;
}

void plan_release(struct conv_plan *p) {
    free(p->item);
    free(p->src);
    free(p->keeps);
    if (p->dir) hfdir_close(p->dir);
    lora_close(p->lora);
    arena_release(&p->arena);
    memset(p, 0, sizeof *p);
}
