// SPDX-License-Identifier: MIT
/* convert/plan.c - the first pass: architecture, hyperparameters, tensor map, output types and
 * sizes, and the refusals of folders that would convert to garbage. Reads headers and a few norm
 * vectors only. */
#include "convert/plan.h"

#include <stdlib.h>
#include <string.h>

#include "core/json.h"
#include "core/num.h"

static int find_arch(struct plan *p, struct err *e) {
    const struct json *cfg = hfdir_config(p->dir);
    const struct json *list = json_get(json_get(cfg, "text_config"), "architectures");
    const char *cls = json_str(json_first(list));
    if (!cls) cls = json_str(json_first(json_get(cfg, "architectures")));
    if (!cls)
        return err_set(e, ERR_DATA,
                       "%s/config.json names no model class in \"architectures\": add "
                       "the one of the original release",
                       hfdir_path(p->dir));
    p->arch = arch_find_hf(cls);
    if (p->arch) return 0;
    return err_set(e, ERR_DATA,
                   "%s/config.json: model class %.80s is not supported; known "
                   "architectures: %s",
                   hfdir_path(p->dir), cls, arch_list());
}

/* quantization_config: FP8 with block scales is read, everything else refused by name. */
static int check_quant(struct plan *p, struct err *e) {
    const struct json *q = hfdir_hparam(p->dir, "quantization_config");
    if (json_type(q) != JSON_OBJ) return 0;
    const char *method = json_str(json_get(q, "quant_method"));
    if (!method || strcmp(method, "fp8") != 0)
        return err_set(e, ERR_DATA,
                       "%s is quantized with quant_method \"%.40s\", which cannot be "
                       "converted: use the unquantized (BF16) release",
                       hfdir_path(p->dir), method ? method : "unknown");
    const struct json *blk = json_first(json_get(q, "weight_block_size"));
    if (!blk) return 0;
    if (!json_i64(blk, &p->scale_rows) || !json_i64(json_next(blk), &p->scale_cols) ||
        p->scale_rows < 1 || p->scale_cols < 1)
        return err_set(e, ERR_DATA, "%s/config.json: weight_block_size is not two positive numbers",
                       hfdir_path(p->dir));
    return 0;
}

static int check_mlx(const struct plan *p, struct err *e) {
    for (int i = 0; i < hfdir_n_files(p->dir); i++) {
        const char *format = st_meta(hfdir_file(p->dir, i), "format");
        if (format && strcmp(format, "mlx") == 0)
            return err_set(e, ERR_DATA,
                           "%s was written for MLX, whose weights are already "
                           "transformed: convert the original Hugging Face release instead",
                           st_path(hfdir_file(p->dir, i)));
    }
    return 0;
}

/* Norms that are stored around 0 and used as 1 + w: a mean near 1 over the whole model says that 1
 * was added before (an MLX or other export). Adding it twice would give a model that loads and
 * talks nonsense. */
static int check_norms(const struct plan *p, struct err *e) {
    double sum = 0;
    int64_t n = 0;
    for (int64_t i = 0; i < p->n_items; i++) {
        const struct item *it = &p->item[i];
        if (it->xf != XF_ADD1 || !strstr(it->inst.name, ".attn_norm.")) continue;
        double mean;
        TRY(xform_mean(p->src[it->src].t, &mean, e));
        sum += mean;
        n++;
    }
    double mean = n ? sum / (double)n : 0;
    if (!(mean > 0.85 && mean < 1.15)) return 0;
    return err_set(e, ERR_DATA,
                   "%s: the mean of the input norms is %.3f, so 1 was already added to "
                   "them (an MLX export?): convert the original Hugging Face release instead",
                   hfdir_path(p->dir), mean);
}

/* auto: the dtype that holds most bytes; FP8 and mixtures of it become BF16, which does not
 * overflow. */
static enum qtype auto_type(const struct plan *p) {
    uint64_t bytes[ST_COUNT] = {0};
    for (int64_t i = 0; i < p->n_src; i++) bytes[p->src[i].t->dtype] += p->src[i].t->n_bytes;
    enum st_dtype best = ST_BF16;
    for (int t = 0; t < ST_COUNT; t++)
        if (bytes[t] > bytes[best]) best = (enum st_dtype)t;
    return best == ST_F16 ? QT_F16 : best == ST_F32 ? QT_F32 : QT_BF16;
}

static int pick_type(struct plan *p, const char *name, struct err *e) {
    static const struct {
        const char *name;
        enum qtype type;
    } known[] = {{"f32", QT_F32}, {"f16", QT_F16}, {"bf16", QT_BF16}, {"q8_0", QT_Q8_0}};
    if (!name || strcmp(name, "auto") == 0) {
        p->type = auto_type(p);
        return 0;
    }
    for (size_t i = 0; i < COUNT_OF(known); i++)
        if (strcmp(known[i].name, name) == 0) {
            p->type = known[i].type;
            return 0;
        }
    return err_set(e, ERR_USAGE, "--type %s is not one of auto, f32, f16, bf16, q8_0", name);
}

static int size_items(struct plan *p, struct err *e) {
    for (int64_t i = 0; i < p->n_items; i++) {
        struct item *it = &p->item[i];
        const int64_t *ne = it->inst.ne;
        bool f32 = (it->inst.row->flags & TR_F32) || it->inst.n_dims < 2;
        it->type = f32 ? QT_F32 : p->type;
        if (!qtype_row_bytes(it->type, ne[0]))
            it->type = QT_F16; /* rows that blocks do not divide */
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

int plan_make(struct plan *p, const struct convert_opts *o, struct err *e) {
    memset(p, 0, sizeof *p);
    arena_init(&p->arena);
    TRY(pick_type(p, o->type, e)); /* a wrong option shows before anything is read */
    TRY(hfdir_open(&p->dir, o->src, e));
    TRY(find_arch(p, e));
    TRY(check_quant(p, e));
    TRY(check_mlx(p, e));
    TRY(hparams_from_hf(&p->hp, p->arch, p->dir, e));
    TRY(map_tensors(p, o->no_mtp, e));
    TRY(pick_type(p, o->type, e));
    TRY(size_items(p, e));
    return check_norms(p, e);
}

void plan_release(struct plan *p) {
    free(p->item);
    free(p->src);
    if (p->dir) hfdir_close(p->dir);
    arena_release(&p->arena);
    memset(p, 0, sizeof *p);
}
