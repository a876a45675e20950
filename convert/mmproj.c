// SPDX-License-Identifier: MIT
/* convert/mmproj.c - vision tower conversion: binds the table's rows (convert/vision.h) to the
 * folder's tensors, compares shapes, checks that no tensor of the tower is left over, then converts
 * tensor by tensor, row by row.
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
    int xf; /* enum vxform */
    int n_dims;
    int64_t ne[4], n; /* shape and number of elements */
    int64_t unit;     /* elements computed at a time: a row, or a patch kernel */
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

/* ---- tensors of the tower ---- */

/* Returns whether the name contains one of the parts, a list that ends in NULL. */
static bool has_any(const char *name, const char *const *part) {
    while (*part && !strstr(name, *part)) part++;
    return *part != NULL;
}

/* Returns whether a tensor outside the language model belongs to its audio part, not to vision. */
static bool is_audio(const char *name) {
    static const char *const part[] = {"audio", "talker", "2wav", "speech", NULL};
    return has_any(name, part);
}

bool plan_is_tower(const struct conv_plan *p, int64_t i) {
    static const char *const part[] = {"vis",   "vit_",      "vpm",       "mm_",    "multi_modal",
                                       "mlp1.", "connector", "resampler", "merger", NULL};
    const char *name = p->names.name[i];
    return hf_names_other_part(p->arch, name) && has_any(name, part) && !is_audio(name);
}

int64_t plan_count_tower(const struct conv_plan *p) {
    int64_t n = 0;
    for (int64_t i = 0; i < hfdir_n_tensors(p->dir); i++) n += plan_is_tower(p, i);
    return n;
}

/* ---- binding ---- */

/* Finds a tensor by the name in a table row, with or without "vision_model.", which newer versions
 * of transformers omit; -1: missing. */
static int64_t find_named(const struct run *r, const char *name) {
    static const char *const head[] = {"model.", "", "model.model.", "thinker."};
    static const char part[] = "vision_model.";
    const char *at = strstr(name, part);
    char full[256];
    for (size_t i = 0; i < 2 * COUNT_OF(head); i++) {
        const bool shorter = i >= COUNT_OF(head);
        if (shorter && !at) break;
        snprintf(full, sizeof full, "%s%.*s%s", head[i % COUNT_OF(head)],
                 shorter ? (int)(at - name) : 0, name, shorter ? at + sizeof part - 1 : name);
        for (int64_t k = 0; k < hfdir_n_tensors(r->plan.dir); k++)
            if (strcmp(r->plan.names.name[k], full) == 0) return k;
    }
    return -1;
}

/* Finds a row's tensor for block b. Sets `name` to the tensor's name, or if it is missing to the
 * first spelling, and *xf to its transform. Returns its index, -1 if missing. */
static int64_t find_tensor(const struct run *r, const struct vision_row *row, int64_t b,
                           char name[128], int *xf) {
    int64_t found = -1;
    const char *s = row->hf;
    *xf = row->xf;
    while (s && found < 0) {
        const size_t n = strcspn(s, "|");
        if (s > row->hf && row->flags & VR_APART) *xf = VX_COPY;
        (void)arch_name(name, 128, s, n, b, 0);
        found = find_named(r, name);
        s = s[n] ? s + n + 1 : NULL;
    }
    if (found < 0) (void)arch_name(name, 128, row->hf, strcspn(row->hf, "|"), b, 0);
    return found;
}

/* Sets want[] to the shape that the folder's tensor should have if transform xf is applied to it.
 * Returns the number of dimensions; 0: any scalar. */
static int source_shape(const struct vision *v, const struct vision_row *row, int xf,
                        int64_t want[5]) {
    int n = 0;
    if (row->dim[0] == VD_ONE && !row->dim[1]) return 0;
    for (; n < 4 && row->dim[n]; n++) want[n] = v->d[row->dim[n]];
    switch (xf) {
    case VX_FRAME_0:
    case VX_FRAME_1:
        memmove(want + 3, want + 2, 2 * sizeof *want);
        want[2] = 2;
        return 5;
    case VX_RGB_LAST:
        if (!row->dim[1]) return n;
        want[1] = v->d[VD_PIXELS];
        return 2;
    case VX_SWAP:
        want[0] = want[1];
        want[1] = 2;
        return n;
    case VX_Q:
    case VX_K:
    case VX_V:
        want[0] *= 3;
        return n;
    case VX_BREAK:
        want[1] = want[0];
        want[0] = -1;
        return 2;
    default:
        return n;
    }
}

/* Returns whether the tensor has the shape want [n], where -1 allows any size. */
static bool has_shape(const struct st_tensor *t, const struct vision_row *row, int n,
                      const int64_t *want) {
    int64_t elems = 1;
    bool same = t->n_dims == n || (!n && t->n_elems == 1);
    for (int i = 0; i < n && same; i++) same = want[i] < 0 || t->shape[i] == want[i];
    if (!(row->flags & VR_FLAT) || same) return same;
    for (int i = 0; i < n; i++)
        if (!mul_ok_i64(elems, want[i], &elems)) return false;
    return t->n_elems == elems && t->n_dims && t->shape[t->n_dims - 1] == want[n - 1];
}

/* Returns ERR_DATA unless the part's tensor has the shape that its row requires. */
static int check_shape(const struct run *r, const struct part *p, struct err *e) {
    const struct st_tensor *t = p->src;
    int64_t want[5] = {0};
    int n = source_shape(&r->v, p->row, p->xf, want);
    const bool same =
        has_shape(t, p->row, n, want) && (p->xf != VX_BREAK || r->v.line_break < t->shape[0]);
    bool real = t->dtype == ST_F32 || t->dtype == ST_F16 || t->dtype == ST_BF16;
    if (same && real) return 0;
    return err_set(e, ERR_DATA,
                   same ? "%s: tensor %s is %s: quantized vision towers are not supported, convert "
                          "the original release"
                        : "%s: the shape of tensor %s does not match vision_config (%s)",
                   st_path(hfdir_file(r->plan.dir, t->file)), show_n(t->name, strlen(t->name)).s,
                   st_dtype_name(t->dtype));
}

/* Sets a part's shape and number of elements from its row. */
static int set_shape(const struct vision *v, struct part *p, struct err *e) {
    const struct vision_row *row = p->row;
    p->n = 1;
    while (p->n_dims < 4 && row->dim[p->n_dims]) p->n_dims++;
    for (int d = 0; d < 4; d++) p->ne[d] = d < p->n_dims ? v->d[row->dim[p->n_dims - 1 - d]] : 1;
    for (int d = 0; d < 4; d++)
        if (!mul_ok_i64(p->n, p->ne[d], &p->n))
            return err_set(e, ERR_DATA, "%s is too large", row->gguf);
    return 0;
}

/* Adds a row's tensor; its block is `from` in the folder and `to` in the output. */
static int add_part(struct run *r, const struct vision_row *row, int64_t from, int64_t to,
                    struct err *e) {
    char name[128];
    struct part p = {.row = row};
    const int64_t i = find_tensor(r, row, from, name, &p.xf);
    if (i >= 0) r->claimed[i] = 1;
    if (!row->gguf) return 0;
    (void)arch_name(p.name, sizeof p.name, row->gguf, strlen(row->gguf), to, 0);
    if (i < 0)
        return err_set(e, ERR_DATA,
                       "%s: tensor %s (for %s) is missing: the vision tower is incomplete",
                       hfdir_path(r->plan.dir), name, p.name);
    p.src = hfdir_tensor_at(r->plan.dir, i);
    TRY(check_shape(r, &p, e));
    TRY(set_shape(&r->v, &p, e));
    const bool kernel = row->xf == VX_FRAME_0 || row->xf == VX_FRAME_1 || row->xf == VX_RGB_LAST;
    p.unit = kernel ? r->v.d[VD_PIXELS] : p.ne[0];
    if (r->n_parts == r->cap) {
        r->cap = r->cap ? 2 * r->cap : 512;
        r->part = xreallocarray(r->part, (size_t)r->cap, sizeof *r->part);
    }
    r->part[r->n_parts++] = p;
    r->n_params += p.n;
    return 0;
}

/* Returns whether the folder has a row's tensor in one of n blocks. */
static bool has_row(const struct run *r, const struct vision_row *row, int64_t n) {
    char name[128];
    int xf;
    bool has = false;
    for (int64_t i = 0; i < n && !has; i++) has = find_tensor(r, row, i, name, &xf) >= 0;
    return has;
}

/* Returns the number of tensors of a row: one per block if it has blocks; 0: no such tensor. */
static int64_t row_count(const struct vision *v, const struct vision_row *row) {
    if ((row->flags & VR_CLIP && !v->clip) || (row->flags & VR_STD && !v->standardize)) return 0;
    if (row->flags & VR_DEEP) return v->n_deep;
    return strstr(row->hf, "%d") ? v->blocks : 1;
}

/* Adds the tensors of a row. */
static int add_row(struct run *r, const struct vision_row *row, struct err *e) {
    const struct vision *v = &r->v;
    const bool deep = row->flags & VR_DEEP;
    const int64_t n = row_count(v, row);
    if (row->flags & VR_OPT && !has_row(r, row, n)) return 0;
    for (int64_t i = 0; i < n; i++) TRY(add_part(r, row, i, deep ? v->deep[i] : i, e));
    return 0;
}

/* Rejects unused tensors of the tower. Audio tensors may remain unused. */
static int check_leftovers(const struct run *r, struct err *e) {
    int64_t n_audio = 0;
    for (int64_t i = 0; i < hfdir_n_tensors(r->plan.dir); i++) {
        const struct st_tensor *t = hfdir_tensor_at(r->plan.dir, i);
        n_audio += is_audio(t->name);
        if (r->claimed[i] || !plan_is_tower(&r->plan, i)) continue;
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

/* Returns the output type of a part. */
static enum qtype type_of(const struct run *r, const struct part *p) {
    enum qtype t = r->plan.type;
    if (p->row->flags & VR_F32) return QT_F32;
    if (p->row->flags & VR_F16) return QT_F16;
    if (p->row->flags & VR_CONV) return t == QT_F16 ? QT_F16 : QT_F32;
    return qtype_fit(t, p->ne[0]);
}

/* Determines the output types; "auto" means the type of the largest tensor. */
static void settle_types(struct run *r, const char *asked) {
    const struct st_tensor *big = r->part[0].src;
    enum qtype t;
    for (int64_t i = 0; i < r->n_parts; i++)
        if (r->part[i].src->n_elems > big->n_elems) big = r->part[i].src;
    if (!asked || strcmp(asked, "auto") == 0)
        r->plan.type = st_dtype_qtype(big->dtype, &t) ? t : QT_BF16;
    for (int64_t i = 0; i < r->n_parts; i++) r->part[i].type = type_of(r, &r->part[i]);
}

/* Returns the first known vision tower among an architecture's model classes; NULL: none. */
static const struct vision_kind *usual_kind(const struct arch *a) {
    const struct vision_kind *k = NULL;
    for (const char *const *c = a ? a->hf_classes : NULL; c && *c && !k; c++) k = vision_find(*c);
    return k;
}

/* Returns the tower of the folder's model class; NULL: unknown. */
static const struct vision_kind *kind_of(const struct conv_plan *p) {
    const struct vision_kind *k = NULL;
    const struct json *j = json_first(json_get(hfdir_config(p->dir), "architectures"));
    if (!j) return usual_kind(p->arch);
    for (; j && !k; j = json_next(j)) k = vision_find(json_str(j));
    return k;
}

bool mmproj_known(const char *arch) {
    return usual_kind(arch_find(arch)) != NULL;
}

/* Adds the bytes of a row's tensors, including optional ones, which are small. */
static int add_bytes(const struct run *r, const struct vision_row *row, uint64_t *sum,
                     struct err *e) {
    struct part p = {.row = row};
    if (!row->gguf) return 0;
    TRY(set_shape(&r->v, &p, e));
    uint64_t n = qtype_row_bytes(type_of(r, &p), p.ne[0]);
    if (p.n < 1 || (mul_ok(n, (uint64_t)(p.n / p.ne[0]), &n) &&
                    mul_ok(n, (uint64_t)row_count(&r->v, row), &n) && add_ok(*sum, n, sum)))
        return 0;
    return err_set(e, ERR_DATA, "%s is too large", row->gguf);
}

uint64_t mmproj_config_bytes(const struct arch *a, struct hfdir *dir) {
    struct run *r = xcalloc(1, sizeof *r);
    struct err ignored;
    uint64_t sum = 0;
    const enum log_level level = log_get_level();
    log_set_level(LOG_ERROR); /* the conversion itself will repeat the messages */
    r->plan = (struct conv_plan){.dir = dir, .arch = a, .type = QT_BF16};
    const struct vision_kind *k = kind_of(&r->plan);
    int rc = k ? vision_read(&r->v, k, dir, &ignored) : 0;
    for (const struct vision_row *row = k ? k->rows : NULL; row && row->hf && !rc; row++)
        rc = add_bytes(r, row, &sum, &ignored);
    log_set_level(level);
    free(r);
    return rc ? 0 : sum;
}

/* Lists the tensors of the projector file. ERR_DATA: unknown or incomplete tower. */
static int make_plan(struct run *r, const struct convert_opts *o, struct err *e) {
    TRY(plan_open(&r->plan, o, e));
    const struct vision_kind *k = kind_of(&r->plan);
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

/* Rearranges a kernel x, with two frames or with channels last, to the output's [3][p*p]. */
static void arrange_kernel(const struct vision *v, int xf, const float *x, float *y) {
    int64_t n = v->d[VD_PATCH] * v->d[VD_PATCH];
    for (int64_t c = 0; c < 3; c++)
        for (int64_t i = 0; i < n; i++)
            y[c * n + i] =
                xf == VX_RGB_LAST ? x[3 * i + c] : x[(2 * c + (xf == VX_FRAME_1)) * n + i];
}

/* Returns the row of the source for row i of the output. */
static int64_t source_row(const struct run *r, const struct part *p, int64_t i) {
    const int64_t rows = p->n / p->unit, head = r->v.d[VD_HEAD], k = head ? i % head : 0;
    switch (p->xf) {
    case VX_Q:
    case VX_K:
    case VX_V:
        return i + rows * (p->xf - VX_Q);
    case VX_ROPE:
        return i - k + k % 2 * (head / 2) + k / 2;
    case VX_SWAP:
        return i % (rows / 2) * 2 + i / (rows / 2);
    case VX_BREAK:
        return r->v.line_break;
    default:
        return i;
    }
}

/* Computes row i of the output from the source's row x. Returns the result: x itself, or y. */
static const float *compute_row(const struct run *r, const struct part *p, float *x, float *y) {
    switch (p->xf) {
    case VX_FRAME_0:
    case VX_FRAME_1:
    case VX_RGB_LAST:
        arrange_kernel(&r->v, p->xf, x, y);
        return y;
    case VX_ADD1:
        for (int64_t i = 0; i < p->unit; i++) x[i] += 1;
        return x;
    default:
        return x;
    }
}

/* Converts and writes one tensor. */
static int write_part(struct run *r, const struct part *p, struct err *e) {
    const int xf = p->xf;
    const int64_t from = xf == VX_FRAME_0 || xf == VX_FRAME_1 ? 2 * p->unit : p->unit;
    const uint64_t bytes = qtype_row_bytes(p->type, p->ne[0]) * (uint64_t)(p->unit / p->ne[0]);
    void *mem = NULL;
    struct tally t = {0};
    TRY(mem_alloc(&mem, (uint64_t)(from + 2 * p->unit) * sizeof(float), "rows of a vision tensor",
                  e));
    float *x = mem, *y = x + from;
    uint8_t *out = (uint8_t *)(y + p->unit);
    int rc = 0;
    for (int64_t i = 0; i < p->n / p->unit && !rc; i++) {
        rc = st_to_f32(p->src, source_row(r, p, i) * from, from, x, e);
        if (!rc) xform_encode(p->type, compute_row(r, p, x, y), out, p->unit, &t);
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

/* Writes the keys and declares the tensors. */
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

/* Plans and, unless it is a dry run, writes the vision tower. */
static int run_steps(struct run *r, const struct convert_opts *o, const char *out,
                     struct mmproj_report *rep, struct err *e) {
    if (!o->dry_run) TRY(convert_apart(o, out, e));
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

/* Plans a file of one type and adds it to l; with `blocks`, only if at least half of the weights
 * fit its blocks. */
static int look_at(const struct convert_opts *from, const char *type, bool blocks,
                   struct mmproj_look *l, struct err *e) {
    struct convert_opts o = *from;
    o.type = type;
    struct mmproj_report *r = &l->file[l->n_files];
    TRY(mmproj_run(&o, "", r, e));
    if (!blocks || 2 * r->n_quantized >= r->n_params) l->n_files++;
    return 0;
}

/* Determines which projector files the folder yields, and their sizes. */
static int look(const struct convert_opts *o, struct mmproj_look *l, struct err *e) {
    if (o->type && strcmp(o->type, "auto") != 0) return look_at(o, o->type, false, l, e);
    TRY(look_at(o, "auto", false, l, e));
    if (strcmp(l->file[0].type, qtype_name(QT_F16)) != 0) {
        l->n_files = 0;
        TRY(look_at(o, "bf16", false, l, e));
    }
    for (int t = 0; t < QT_COUNT && l->n_files < (int)COUNT_OF(l->file); t++) {
        const struct qtype_info *q = qtype_info(t);
        if (q && q->flags & QF_CONVERT && q->flags & QF_QUANT) TRY(look_at(o, q->name, true, l, e));
    }
    return 0;
}

/* Sets l->why to an error's text, without the folder's path, which may be private. */
static void take_reason(struct mmproj_look *l, const char *src, const char *text) {
    const size_t n = strlen(src);
    if (n && strncmp(text, src, n) == 0) text += n + strspn(text + n, "/\\: ");
    snprintf(l->why, sizeof l->why, "%.*s", (int)sizeof l->why - 1, text);
}

int mmproj_look(const char *src, const char *type, const char *name, struct mmproj_look *l,
                struct err *e) {
    const struct convert_opts o = {.src = src, .type = type, .name = name, .dry_run = true};
    struct conv_plan p;
    const enum log_level level = log_get_level();
    memset(l, 0, sizeof *l);
    log_set_level(LOG_ERROR); /* the conversion itself will repeat the messages */
    int rc = plan_open(&p, &o, e);
    if (rc == 0) l->n_tensors = plan_count_tower(&p);
    plan_release(&p);
    if (l->n_tensors) {
        l->tower = TOWER_KNOWN;
        rc = look(&o, l, e);
        if (rc) {
            l->tower = TOWER_UNKNOWN;
            l->n_files = 0;
            take_reason(l, src, e->msg);
        }
    }
    log_set_level(level);
    return rc == ERR_USAGE || rc == ERR_DATA ? 0 : rc;
}

static void run_free(struct run *r) {
    if (r->w) gguf_w_free(r->w);
    free(r->part);
    free(r->claimed);
    plan_release(&r->plan);
    free(r);
}

int mmproj_keys(const struct convert_opts *o, struct gguf **out, struct buf *header,
                struct err *e) {
    struct run *r = xcalloc(1, sizeof *r);
    const enum log_level level = log_get_level();
    log_set_level(LOG_ERROR); /* the conversion itself will repeat the messages */
    int rc = make_plan(r, o, e);
    if (!rc) rc = declare_output(r, o, e);
    log_set_level(level);
    if (!rc) {
        gguf_w_header(r->w, header);
        rc = gguf_open_edited(out, o->src, header, gguf_w_total_bytes(r->w), 0, e);
    }
    run_free(r);
    return rc;
}

int mmproj_run(const struct convert_opts *o, const char *out, struct mmproj_report *rep,
               struct err *e) {
    struct run *r = xcalloc(1, sizeof *r);
    memset(rep, 0, sizeof *rep);
    const int rc = run_steps(r, o, out, rep, e);
    run_free(r);
    return rc;
}
