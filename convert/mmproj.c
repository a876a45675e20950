// SPDX-License-Identifier: MIT
/* convert/mmproj.c - vision tower conversion: binds the rows of convert/vision.c to the folder's
 * tensors, compares shapes, checks that no tensor of the tower is left over, then converts tensor
 * by tensor, row by row.
 *
 * Kernels of the patch convolution are F32 (F16 with --type f16); norms, biases and position tables
 * are F32; everything else has the output type. */
#include "convert/mmproj.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convert/conv_plan.h"
#include "convert/vision.h"
#include "base/out.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/progress.h"
#include "base/printable.h"

struct part { /* a tensor of the output */
    const struct vision_row *row;
    const struct st_tensor *src;
    char name[64];
    enum qtype type;
    int n_dims;
    int64_t ne[4], n; /* shape and number of elements */
};
struct run {
    struct conv_plan plan; /* folder, architecture and type */
    struct vision v;
    struct part *part;
    int64_t n_parts, cap;
    uint8_t *claimed; /* [tensors of the folder] flags */
    struct gguf_w *w;
    int64_t n_params;
};

/* ---- tensors of the tower ---------------------------------------------------------------------
 */

/* Returns whether a tensor that is not the language model's belongs to audio instead of vision. */
static bool is_audio(const char *name) {
    static const char *const part[] = {"audio", "talker", "token2wav", "code2wav", "speech"};
    for (size_t i = 0; i < COUNT_OF(part); i++)
        if (strstr(name, part[i])) return true;
    return false;
}

static int64_t count_tower(const struct conv_plan *p) {
    int64_t n = 0;
    for (int64_t i = 0; i < hfdir_n_tensors(p->dir); i++)
        n += hf_names_other_part(p->arch, p->names.name[i]) && !is_audio(p->names.name[i]);
    return n;
}

/* ---- binding ---- */

static int64_t find_tensor(const struct run *r, const char *name) {
    static const char *const head[] = {"model.", "", "model.model."};
    char full[256];
    for (size_t i = 0; i < COUNT_OF(head); i++) {
        snprintf(full, sizeof full, "%s%s", head[i], name);
        for (int64_t k = 0; k < hfdir_n_tensors(r->plan.dir); k++)
            if (strcmp(r->plan.names.name[k], full) == 0) return k;
    }
    return -1;
}

/* Sets want[] to a row's shape in the folder and returns its number of dimensions. */
static int source_shape(const struct vision *v, const struct vision_row *row, int64_t want[5]) {
    int n = 0;
    if (row->dim[0] == VD_ONE) return 0; /* scalar */
    for (; n < 4 && row->dim[n]; n++) want[n] = v->d[row->dim[n]];
    if (row->xf == VX_FRAME_0 || row->xf == VX_FRAME_1) {
        memmove(want + 3, want + 2, 2 * sizeof *want);
        want[2] = 2;
        return 5;
    }
    if (row->xf != VX_RGB_LAST) return n;
    want[1] = v->d[VD_PIXELS];
    return 2;
}

static int check_shape(const struct run *r, const struct st_tensor *t, const struct vision_row *row,
                       struct err *e) {
    int64_t want[5] = {0};
    int n = source_shape(&r->v, row, want);
    bool same = t->n_dims == n || (!n && t->n_elems == 1);
    for (int i = 0; i < n && same; i++) same = t->shape[i] == want[i];
    bool real = t->dtype == ST_F32 || t->dtype == ST_F16 || t->dtype == ST_BF16;
    if (same && real) return 0;
    return err_set(e, ERR_DATA,
                   same ? "%s: tensor %s is %s: quantized vision towers are not supported, convert "
                          "the original release"
                        : "%s: the shape of tensor %s does not match vision_config (%s)",
                   st_path(hfdir_file(r->plan.dir, t->file)), show_n(t->name, strlen(t->name)).s,
                   st_dtype_name(t->dtype));
}

/* Adds a row's tensor, for block `from` of the folder and `to` of the output. */
static int add_part(struct run *r, const struct vision_row *row, int64_t from, int64_t to,
                    struct err *e) {
    char name[128];
    struct part p = {.row = row, .n = 1};
    (void)arch_name(name, sizeof name, row->hf, strlen(row->hf), from, 0);
    (void)arch_name(p.name, sizeof p.name, row->gguf, strlen(row->gguf), to, 0);
    int64_t i = find_tensor(r, name);
    if (i < 0)
        return err_set(e, ERR_DATA,
                       "%s: tensor %s (for %s) is missing: the vision tower is incomplete",
                       hfdir_path(r->plan.dir), name, p.name);
    p.src = hfdir_tensor_at(r->plan.dir, i);
    r->claimed[i] = 1;
    TRY(check_shape(r, p.src, row, e));
    while (p.n_dims < 4 && row->dim[p.n_dims]) p.n_dims++;
    for (int d = 0; d < 4; d++) p.ne[d] = d < p.n_dims ? r->v.d[row->dim[p.n_dims - 1 - d]] : 1;
    for (int d = 0; d < 4; d++)
        if (!mul_ok_i64(p.n, p.ne[d], &p.n)) return err_set(e, ERR_DATA, "%s is too large", p.name);
    if (r->n_parts == r->cap) {
        r->cap = r->cap ? 2 * r->cap : 512;
        r->part = xreallocarray(r->part, (size_t)r->cap, sizeof *r->part);
    }
    r->part[r->n_parts++] = p;
    r->n_params += p.n;
    return 0;
}

static int add_row(struct run *r, const struct vision_row *row, struct err *e) {
    const struct vision *v = &r->v;
    bool deep = row->flags & VR_DEEP, blocks = !deep && strstr(row->hf, "%d");
    int64_t n = deep ? v->n_deep : blocks ? v->blocks : 1;
    if ((row->flags & VR_CLIP && !v->clip) || (row->flags & VR_STD && !v->standardize)) return 0;
    for (int64_t i = 0; i < n; i++) TRY(add_part(r, row, i, deep ? v->deep[i] : i, e));
    return 0;
}

/* Refuses unused tensors of the tower; audio tensors belong to another file. */
static int check_leftovers(const struct run *r, struct err *e) {
    int64_t n_audio = 0;
    for (int64_t i = 0; i < hfdir_n_tensors(r->plan.dir); i++) {
        const struct st_tensor *t = hfdir_tensor_at(r->plan.dir, i);
        bool tower = false;
        for (const char *const *s = r->plan.arch->skip; s && *s && !tower; s++)
            tower = strstr(t->name, *s) != NULL;
        if (!tower || r->claimed[i]) continue;
        if (is_audio(t->name)) {
            n_audio++;
            continue;
        }
        return err_set(e, ERR_DATA,
                       "%s: tensor %s is not part of a %s vision tower: it would be lost",
                       st_path(hfdir_file(r->plan.dir, t->file)),
                       show_n(t->name, strlen(t->name)).s, r->v.kind->projector);
    }
    if (n_audio)
        log_warn("%lld audio tensors are left out: only the vision tower is written",
                 (long long)n_audio);
    return 0;
}

static enum qtype type_of(const struct run *r, const struct part *p) {
    enum qtype t = r->plan.type;
    if (p->row->flags & VR_F32) return QT_F32;
    if (p->row->flags & VR_CONV) return t == QT_F16 ? QT_F16 : QT_F32;
    return qtype_fit(t, p->ne[0]);
}

/* Determines the types; `auto` is the type of the largest tensor. */
static void settle_types(struct run *r, const char *asked) {
    const struct st_tensor *big = r->part[0].src;
    enum qtype t;
    for (int64_t i = 0; i < r->n_parts; i++)
        if (r->part[i].src->n_elems > big->n_elems) big = r->part[i].src;
    if (!asked || strcmp(asked, "auto") == 0)
        r->plan.type = st_dtype_qtype(big->dtype, &t) ? t : QT_BF16;
    for (int64_t i = 0; i < r->n_parts; i++) r->part[i].type = type_of(r, &r->part[i]);
}

bool mmproj_known(const char *arch) {
    return vision_find(arch) != NULL;
}

static int make_plan(struct run *r, const struct convert_opts *o, struct err *e) {
    TRY(plan_open(&r->plan, o, e));
    const struct vision_kind *k = vision_find(r->plan.arch->name);
    if (!k) {
        struct buf known = {0};
        vision_list(&known);
        err_set(e, ERR_DATA,
                "%s: the vision towers of %s models are not supported, only those of %s",
                hfdir_path(r->plan.dir), r->plan.arch->family, known.data);
        buf_release(&known);
        return ERR_DATA;
    }
    TRY(vision_read(&r->v, k, r->plan.dir, e));
    r->claimed = xcalloc((size_t)hfdir_n_tensors(r->plan.dir) + 1, 1);
    for (const struct vision_row *row = k->rows; row->hf; row++) TRY(add_row(r, row, e));
    TRY(check_leftovers(r, e));
    settle_types(r, o->type);
    return 0;
}

/* ---- writing ---- */

/* Rearranges x, which has two frames or the channels last, to an output kernel [3][p*p]. */
static void arrange_kernel(const struct vision *v, int xf, const float *x, float *y) {
    int64_t n = v->d[VD_PATCH] * v->d[VD_PATCH];
    for (int64_t c = 0; c < 3; c++)
        for (int64_t i = 0; i < n; i++)
            y[c * n + i] =
                xf == VX_RGB_LAST ? x[3 * i + c] : x[(2 * c + (xf == VX_FRAME_1)) * n + i];
}

static int write_part(struct run *r, const struct part *p, struct err *e) {
    const int xf = p->row->xf;
    const int64_t unit = xf ? r->v.d[VD_PIXELS] : p->ne[0];
    const int64_t from = xf == VX_FRAME_0 || xf == VX_FRAME_1 ? 2 * unit : unit;
    const uint64_t bytes = qtype_row_bytes(p->type, p->ne[0]) * (uint64_t)(unit / p->ne[0]);
    void *mem = NULL;
    struct tally t = {0};
    TRY(mem_alloc(&mem, (uint64_t)(from + 2 * unit) * sizeof(float), "rows of a vision tensor", e));
    float *x = mem, *y = x + from;
    uint8_t *out = (uint8_t *)(y + unit);
    int rc = 0;
    for (int64_t i = 0; i < p->n / unit && !rc; i++) {
        rc = st_to_f32(p->src, i * from, from, x, e);
        if (xf) arrange_kernel(&r->v, xf, x, y);
        xform_encode(p->type, xf ? y : x, out, unit, &t);
        if (!rc) rc = gguf_w_data(r->w, out, bytes, e);
        if (!rc && progress_interrupted()) rc = err_set(e, ERR_INTR, "interrupted");
    }
    hfdir_drop(r->plan.dir, p->src);
    mem_free(mem);
    if (!rc && t.n_nan)
        log_warn("%s: %lld values are not numbers (NaN)", p->name, (long long)t.n_nan);
    if (!rc && t.n_inf) log_warn("%s: %lld values are infinite", p->name, (long long)t.n_inf);
    if (!rc && t.n_overflow)
        log_warn("%s: %lld values do not fit %s and became infinite: use --type bf16", p->name,
                 (long long)t.n_overflow, qtype_name(p->type));
    return rc;
}

static int declare_output(struct run *r, const struct convert_opts *o, struct err *e) {
    struct gguf_w *w = r->w = gguf_w_new();
    gguf_w_str(w, "general.architecture", "clip");
    gguf_w_str(w, "general.type", "mmproj");
    if (o->name) gguf_w_str(w, "general.name", o->name);
    gguf_w_u32(w, "general.file_type", (uint32_t)qtype_ftype_id(qtype_name(r->plan.type)));
    gguf_w_u32(w, "general.quantization_version", 2);
    vision_keys(&r->v, w);
    for (int64_t i = 0; i < r->n_parts; i++) {
        const struct part *p = &r->part[i];
        TRY(gguf_w_tensor(w, p->name, p->type, p->n_dims, p->ne, e));
        if (o->plan)
            o->plan(o->plan_ud, p->name, p->type, p->n_dims, p->ne,
                    qtype_row_bytes(p->type, p->ne[0]) * (uint64_t)(p->n / p->ne[0]));
    }
    return 0;
}

static int run_steps(struct run *r, const struct convert_opts *o, const char *out,
                     struct mmproj_report *rep, struct err *e) {
    if (!o->dry_run) TRY(out_check(out, o->overwrite, e));
    TRY(make_plan(r, o, e));
    TRY(declare_output(r, o, e));
    snprintf(rep->projector, sizeof rep->projector, "%s", r->v.kind->projector);
    snprintf(rep->type, sizeof rep->type, "%s", qtype_name(r->plan.type));
    rep->n_tensors = r->n_parts;
    rep->n_params = r->n_params;
    for (int64_t i = 0; i < r->n_parts; i++)
        if (qtype_info((int64_t)r->part[i].type)->flags & QF_QUANT)
            rep->n_quantized += r->part[i].n;
    rep->size_bytes = gguf_w_total_bytes(r->w);
    if (o->dry_run) return 0;
    TRY(gguf_w_begin(r->w, out, o->overwrite, e));
    for (int64_t i = 0; i < r->n_parts; i++) TRY(write_part(r, &r->part[i], e));
    return gguf_w_commit(r->w, e);
}

/* Plans the file of one type and adds it to l. */
static int look_at(const struct convert_opts *from, const char *type, struct mmproj_look *l,
                   struct err *e) {
    struct convert_opts o = *from;
    o.type = type;
    struct mmproj_report *r = &l->file[l->n_files];
    TRY(mmproj_run(&o, "", r, e));
    if (strcmp(type, "q8_0") != 0 || 2 * r->n_quantized >= r->n_params) l->n_files++;
    return 0;
}

static int look(const struct convert_opts *o, struct mmproj_look *l, struct err *e) {
    const bool usual = !o->type || strcmp(o->type, "auto") == 0;
    if (!usual) return look_at(o, o->type, l, e);
    TRY(look_at(o, "auto", l, e));
    if (strcmp(l->file[0].type, "F16") != 0) {
        l->n_files = 0;
        TRY(look_at(o, "bf16", l, e));
    }
    return look_at(o, "q8_0", l, e);
}

/* Sets l->why to an error's text without the path of the folder, which is the user's. */
static void take_reason(struct mmproj_look *l, const char *src, const char *text) {
    const size_t n = strlen(src);
    if (n && strncmp(text, src, n) == 0) text += n + strspn(text + n, "/: ");
    snprintf(l->why, sizeof l->why, "%.*s", (int)sizeof l->why - 1, text);
}

void mmproj_look(const char *src, const char *type, const char *name, struct mmproj_look *l) {
    const struct convert_opts o = {.src = src, .type = type, .name = name, .dry_run = true};
    struct conv_plan p;
    struct err e;
    const enum log_level level = log_get_level();
    memset(l, 0, sizeof *l);
    log_set_level(LOG_ERROR); /* the real run repeats the messages */
    if (plan_open(&p, &o, &e) == 0) l->n_tensors = count_tower(&p);
    plan_release(&p);
    if (l->n_tensors) {
        l->tower = TOWER_KNOWN;
        if (look(&o, l, &e)) {
            l->tower = TOWER_UNKNOWN;
            l->n_files = 0;
            take_reason(l, src, e.msg);
        }
    }
    log_set_level(level);
}

int mmproj_run(const struct convert_opts *o, const char *out, struct mmproj_report *rep,
               struct err *e) {
    struct run *r = xcalloc(1, sizeof *r);
    memset(rep, 0, sizeof *rep);
    int rc = run_steps(r, o, out, rep, e);
    if (r->w) gguf_w_free(r->w);
    free(r->part);
    free(r->claimed);
    plan_release(&r->plan);
    free(r);
    return rc;
}
