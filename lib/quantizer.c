// SPDX-License-Identifier: MIT
/* lib/quantizer.c - quantizer handles: encode f32 rows, quantize files. */
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/progress.h"
#include "mix/mixer.h"
#include "lib/handles.h"
#include "quantize/batch.h"
#include "quantize/quantize.h"
#include "quantize/requant.h"

/* Creates a quantizer with its threads; *out is NULL on error. */
int hone_quantizer_new(struct hone_quantizer **out, const struct hone_opts *o,
                       struct hone_error *e) {
    struct call c;
    *out = NULL;
    struct hone_quantizer *q = lib_new(sizeof *q, e);
    int rc = q ? owner_new(&q->owner, o, NULL, e) : HONE_SYSTEM;
    if (rc) {
        free(q);
        return rc;
    }
    rc = call_begin(&c, q->owner, e);
    if (!rc) rc = call_end(&c, pool_new(&q->pool, q->owner->o.n_threads, &c.err), e);
    if (rc)
        hone_quantizer_free(q);
    else
        *out = q;
    return rc;
}

void hone_quantizer_free(struct hone_quantizer *q) {
    if (!q) return;
    pool_free(q->pool);
    owner_drop(q->owner);
    free(q);
}

enum { STEP_WEIGHTS = 1 << 20 }; /* weights encoded between two checks for cancellation */

/* Encodes rows as a whole tensor, with the result that quantizing a file would give. */
static int encode(struct hone_quantizer *q, int type, const struct gguf_tensor *t,
                  const float *importance, void *out, struct err *e) {
    struct kern ref;
    struct batch_job b = {.t = t,
                          .to = (enum qtype)type,
                          .search = SEARCH_FAST,
                          .keep = true,
                          .imp = importance,
                          .out = out,
                          .pool = q->pool};
    kern_init(&ref, KERN_REF);
    int rc = batch_open(&b, &ref, e);
    const int64_t step = max_i64(STEP_WEIGHTS / t->ne[0], 1);
    for (int64_t r = 0; !rc && r < t->ne[1]; r += step) {
        b.out = (uint8_t *)out + (uint64_t)r * hone_type_row_bytes(type, t->ne[0]);
        rc = progress_interrupted() ? err_set(e, ERR_INTR, "interrupted")
                                    : batch_encode(&b, r, min_i64(step, t->ne[1] - r), "rows", e);
    }
    batch_close(&b);
    return rc;
}

int hone_quantizer_rows(struct hone_quantizer *q, int type, const float *rows, int64_t n_rows,
                        int64_t n_cols, const float *importance, void *out, struct hone_error *e) {
    struct call c;
    const struct gguf_tensor t = {.name = "given",
                                  .n_dims = 2,
                                  .ne = {n_cols, n_rows, 1, 1},
                                  .type = QT_F32,
                                  .n_bytes = (uint64_t)n_rows * (uint64_t)n_cols * sizeof *rows,
                                  .data = (const uint8_t *)rows};
    if (n_rows < 0 || !hone_type_row_bytes(type, n_cols))
        return lib_error(e, HONE_USAGE, "rows of %lld weights cannot be of tensor type %d",
                         (long long)n_cols, type);
    if (!enc_find((enum qtype)type))
        return lib_error(e, HONE_USAGE, "type %s cannot be written", qtype_name((enum qtype)type));
    int rc = call_begin(&c, q->owner, e);
    return rc ? rc : call_end(&c, encode(q, type, &t, importance, out, &c.err), e);
}

/* ---- files ---- */

/* Parses texts "REGEX=TYPE", split at the last '='. */
static int read_overrides(const char *const *text, struct quant_override **out, int *n,
                          struct err *e) {
    *n = 0;
    *out = NULL;
    for (; text && text[*n]; ++*n) {
        const char *s = text[*n], *eq = strrchr(s, '=');
        enum qtype type;
        if (!eq || eq == s || !qtype_parse(eq + 1, &type))
            return err_set(e, ERR_USAGE, "'%.200s' is not REGEX=TYPE", s);
        *out = xreallocarray(*out, (size_t)*n + 1, sizeof **out);
        (*out)[*n] = (struct quant_override){xstrndup(s, (size_t)(eq - s)), type};
    }
    return 0;
}

/* Releases the n overrides and their texts. */
static void free_overrides(struct quant_override *ov, int n) {
    for (int i = 0; i < n; i++) {
        char *s;
        memcpy(&s, &ov[i].regex, sizeof s); /* allocated by read_overrides */
        free(s);
    }
    free(ov);
}

/* Quantizes `in` to `path` and fills r; the recipe is required. */
static int quantize_file(const struct hone_quantizer *q, const char *in, const char *path,
                         const struct hone_quantize_opts *o, struct quantize_report *r,
                         struct err *e) {
    struct quant_override *over = NULL;
    struct requant base = {0};
    int n = 0;
    enum search search;
    if (!o->recipe) return err_set(e, ERR_USAGE, "hone_quantize_opts.recipe is missing");
    if (o->type || o->sequential || o->learn || o->without)
        return err_set(e, ERR_USAGE, "hone_quantize_opts.%s is an option of hone_quantize",
                       o->type         ? "type"
                       : o->sequential ? "sequential"
                       : o->learn      ? "learn"
                                       : "without");
    TRY(mix_search(o->search, &search, e));
    int rc = requant_check(in, &base, e);
    if (rc && !(base.quantized && o->requantize)) return rc;
    rc = read_overrides(o->tensor, &over, &n, e);
    const struct quantize_opts qo = {.in = in,
                                     .out = path,
                                     .recipe = o->recipe,
                                     .imatrix = o->imatrix,
                                     .gram = o->gram,
                                     .search = search,
                                     .plan_out = o->plan_out,
                                     .split_max = o->split_max,
                                     .over = over,
                                     .n_over = n,
                                     .pure = o->pure != 0,
                                     .overwrite = o->overwrite != 0,
                                     .dry_run = o->dry_run != 0,
                                     .resume = o->resume ? RESUME_ALWAYS : RESUME_AUTO,
                                     .pool = q->pool};
    if (!rc) rc = quantize_run(&qo, r, e);
    free_overrides(over, n);
    return rc;
}

int hone_quantizer_file(struct hone_quantizer *q, const char *in, const char *path,
                        const struct hone_quantize_opts *opts, struct hone_quantize_report *report,
                        struct hone_error *e) {
    NEED(in, e);
    struct hone_quantize_opts o;
    struct quantize_report r = {0};
    struct call c;
    int rc = lib_take(&o, opts, sizeof o, "hone_quantize_opts", e);
    if (rc || (rc = call_begin(&c, q->owner, e))) return rc;
    rc = quantize_file(q, in, path, &o, &r, &c.err);
    const struct hone_quantize_report full = {.n_tensors = r.n_tensors,
                                              .n_quantized = r.n_quantized,
                                              .in_bytes = r.in_bytes,
                                              .out_bytes = r.out_bytes,
                                              .file_bytes = r.file_bytes,
                                              .bits_per_weight = r.bpw,
                                              .seconds = r.seconds};
    quantize_report_release(&r);
    rc = call_end(&c, rc, e);
    return rc || !report ? rc : lib_give(report, &full, sizeof full, "hone_quantize_report", e);
}
