// SPDX-License-Identifier: MIT
/* make/report.c - the last step of `hone make`: writes results.json, report.html, and the files of
 * `hone publish`: README.md, Modelfile, manifest.json, SHA256SUMS and so on. */
#include <math.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "work/device.h"
#include "make/size_ladder.h"
#include "containers/gguf.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/out.h"
#include "base/log.h"
#include "base/num.h"
#include "models/arch.h"
#include "quantize/exact.h"
#include "quantize/qplan.h"
#include "report/result.h"

enum { MAX_RESULTS = 256 << 20 };

void make_machine(const struct make *mk, char out[512]) {
    char *text = NULL, cpu[128] = "this machine";
    size_t len = 0;
    struct err ignored;
    if (io_read_file(&text, &len, "/proc/cpuinfo", 1 << 22, &ignored) == 0) {
        const char *p = strstr(text, "model name");
        p = p ? strchr(p, ':') : NULL;
        if (p) snprintf(cpu, sizeof cpu, "%.*s", (int)strcspn(p + 2, "\n"), p + 2);
        free(text);
    }
    char device[256];
    device_name(mk->w, device);
    snprintf(out, 512, "%s, %d threads, %s%s%s", cpu, pool_size(mk->w->pool),
             kern_isa_name(mk->w->isa), device[0] ? ", " : "", device);
}

int make_checksum(struct make *mk, const char *path, const char *hash, char hex[65],
                  struct err *e) {
    char name[96];
    struct step s;
    cJSON *found;
    snprintf(name, sizeof name, "sha256-%s", hash);
    step_init(&s, &mk->job, name);
    int rc = 0;
    const char *known = make_reuse(mk, &s, &found) ? doc_str(found, "sha256") : NULL;
    if (known && strlen(known) == 64) {
        memcpy(hex, known, 65);
    } else {
        rc = sha256_file(path, hex, e);
        make_keep(&found, doc_new());
        doc_put_str(found, "sha256", hex);
        if (rc == 0) rc = step_save(&s, NULL, 0, found, e);
    }
    cJSON_Delete(found);
    step_release(&s);
    return rc;
}

/* Returns whether a file was made with one of llama.cpp's presets. */
static bool is_preset(const struct made *f) {
    return !f->is_base && !f->is_mix && recipe_find(f->recipe) && !recipe_about(f->recipe);
}

/* Notes which tensors a file holds without loss (quantization-aware training, int4, FP4). Q8_0
 * blocks copied from the base are not listed. */
static void note_exact(struct make *mk, const struct made *f, const struct gguf *base,
                       const struct gguf *g) {
    struct exact_tally n;
    struct buf text = {0};
    exact_count(base, g, &n);
    for (int t = 0; t < QT_COUNT && mk->base.q8; t++)
        if (qtype_info(t) && (qtype_info(t)->flags & QF_CONVERT))
            for (int how = 0; how < EXACT_HOW_COUNT; how++) n.n[how][t] = 0;
    exact_words(&n, &text);
    if (text.len) make_note(mk, "%s stores without loss: %s.", f->file, text.data);
    buf_release(&text);
}

/* Compares the types of a finished file with those of the base and of llama.cpp's preset. */
static int compare_types(struct make *mk, struct made *f, const struct gguf *g, struct err *e) {
    struct gguf *base;
    TRY(gguf_open(&base, mk->file[0].path, 0, e));
    note_exact(mk, f, base, g);
    if (is_preset(f)) f->n_unlike = qplan_unlike(base, g, f->recipe, mk->imatrix != NULL);
    gguf_close(base);
    return 0;
}

/* Opens a finished file like any other GGUF file, to get its actual size and bits per weight. */
static int describe_file(struct make *mk, struct made *f, int64_t *n_params, struct err *e) {
    struct gguf *g = NULL;
    TRY(gguf_open(&g, f->path, 0, e));
    if (f->is_base) requant_look(g, &mk->base);
    int rc = f->is_base ? 0 : compare_types(mk, f, g, e);
    *n_params = 0;
    uint64_t bytes = 0;
    for (int64_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        *n_params += t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3];
        bytes += t->n_bytes;
        f->type_bytes[t->type] += t->n_bytes;
    }
    f->size_bytes = (int64_t)gguf_file_bytes(g);
    f->bpw = *n_params ? (double)bytes * 8 / (double)*n_params : 0;
    gguf_sample_hash(g, f->sample);
    gguf_weights_hash(g, f->weights);
    gguf_close(g);
    return rc;
}

/* Writes the facts about the model. */
static int put_model(const struct make *mk, cJSON *to, int64_t n_params, struct err *e) {
    struct gguf *g = NULL;
    char key[128];
    TRY(gguf_open(&g, mk->file[0].path, 0, e));
    const char *arch = gguf_str_or(g, "general.architecture", "");
    const struct arch *a = arch_find_table(arch);
    snprintf(key, sizeof key, "%s.context_length", arch);
    cJSON *o = doc_obj(to, "model");
    doc_put_str(o, "name", mk->name);
    doc_put_str(o, "arch", arch);
    doc_put_str(o, "arch_note", a ? a->size_note : "");
    doc_put_i64(o, "n_params", n_params);
    doc_put_i64(o, "ctx", (int64_t)gguf_u64_or(g, key, 0));
    doc_put_str(o, "license", gguf_str_or(g, "general.license", ""));
    doc_put_str(o, "source", mk->name);
    doc_put_str(o, "source_xxh128", mk->src_hash);
    doc_put_str(o, "source_weights_xxh128", mk->weights);
    gguf_close(g);
    return 0;
}

/* Appends the types with their shares of the tensor bytes, largest first. */
static void put_types(cJSON *to, const struct made *f) {
    uint64_t left[QT_COUNT], sum = 0;
    memcpy(left, f->type_bytes, sizeof left);
    for (int i = 0; i < QT_COUNT; i++) sum += left[i];
    cJSON *rows = doc_arr(to, "types");
    for (;;) {
        int top = 0;
        for (int i = 1; i < QT_COUNT; i++)
            if (left[i] > left[top]) top = i;
        if (!left[top]) return;
        cJSON *row = doc_obj(rows, NULL);
        doc_put_str(row, "type", qtype_name((enum qtype)top));
        doc_put_num(row, "share", (double)left[top] / (double)sum);
        left[top] = 0;
    }
}

/* Writes the results of one file. */
static void put_file(cJSON *files, const struct made *f) {
    const cJSON *const part[] = {
        f->eval,   f->speed, f->tools[SUITE_TOOLS], f->tools[SUITE_LOOPS], f->tools[SUITE_CHECKS],
        f->drafts, f->images};
    cJSON *o = doc_obj(files, NULL);
    doc_put_str(o, "file", f->file);
    doc_put_str(o, "recipe", f->recipe);
    doc_put_bool(o, "is_base", f->is_base);
    doc_put_i64(o, "size_bytes", f->size_bytes);
    doc_put_num(o, "size_gib", (double)f->size_bytes / 0x1p30);
    doc_put_num(o, "bpw", f->bpw);
    doc_put_str(o, "sha256", f->sha256);
    doc_put_str(o, "sample_xxh128", f->sample);
    doc_put_str(o, "weights_xxh128", f->weights);
    if (f->size_class[0]) doc_put_str(o, "size_class", f->size_class);
    if (!f->is_base) {
        doc_put_str(o, "made", f->is_mix ? "mix" : "preset");
        doc_put_bool(o, "feedback", f->feedback);
    }
    if (is_preset(f)) doc_put_i64(o, "unlike_preset", f->n_unlike);
    if (f->why && f->why[0]) doc_put_str(o, "why", f->why);
    if (f->preset_kld > 0) doc_put_num(o, "preset_kld", f->preset_kld);
    if (f->preset_kld > 0 && isfinite(f->preset_sure))
        doc_put_num(o, "preset_sure", f->preset_sure);
    if (f->preset_chunks > 0) doc_put_i64(o, "preset_chunks", f->preset_chunks);
    put_types(o, f);
    for (size_t i = 0; i < COUNT_OF(part); i++)
        for (const cJSON *m = doc_first(part[i]); m; m = m->next)
            if (cJSON_IsNumber(m) || cJSON_IsArray(m)) doc_put_copy(o, m->string, m);
}

/* Appends the settings of the evaluation, with the numbers of tokens and chunks from the base's
 * record. */
static void put_eval(const struct make *mk, cJSON *to) {
    static const char *const count[] = {"n_tokens", "n_chunks"};
    doc_put_copy(to, "eval", mk->about_eval);
    cJSON *o = cJSON_GetObjectItemCaseSensitive(to, "eval");
    for (size_t i = 0; i < COUNT_OF(count); i++) {
        int64_t n = 0;
        (void)doc_i64(mk->file[0].eval, count[i], &n);
        doc_put_i64(o, count[i], n);
    }
}

/* Records how many comparisons with presets ended early. */
static void note_comparisons(struct make *mk) {
    int64_t of = 0, least = INT64_MAX, most = 0;
    int n = 0, early = 0;
    (void)doc_i64(mk->file[0].eval, "n_chunks", &of);
    for (int i = 0; i < mk->n_files; i++) {
        const int64_t k = mk->file[i].preset_chunks;
        n += k > 0;
        if (k < 1 || k >= of) continue;
        early++;
        least = min_i64(least, k);
        most = max_i64(most, k);
    }
    if (!n) return;
    if (early)
        make_note(mk,
                  "%d of %d comparisons with presets ended after %" PRId64 " to %" PRId64
                  " of %" PRId64 " windows, once the better file was clear (chance of an error: at "
                  "most %g %%); the files here were measured on all windows.",
                  early, n, least, most, of, 100 * LADDER_ERROR);
    else
        make_note(mk, "Comparisons with presets: all on %" PRId64 " windows.", of);
}

/* Builds results.json for the files of this run. */
static int results_of(struct make *mk, int64_t n_params, cJSON *root, struct err *e) {
    char text[512];
    doc_put_str(root, "hone_version", HONE_VERSION);
    make_machine(mk, text);
    doc_put_str(root, "machine", text);
    doc_put_str(root, "base_type", mk->base.type);
    doc_put_bool(root, "base_is_quantized", mk->base.quantized);
    TRY(put_model(mk, root, n_params, e));
    if (mk->about_imatrix)
        doc_put_copy(root, "imatrix", mk->about_imatrix);
    else
        doc_obj(root, "imatrix");
    put_eval(mk, root);
    make_put_images(mk, root);
    note_comparisons(mk);
    doc_put_list(root, "notes", mk->notes.v, mk->notes.n);
    doc_put_list(root, "left_out", mk->left_out.v, mk->left_out.n);
    cJSON *left_out = cJSON_GetObjectItemCaseSensitive(root, "left_out");
    for (int i = 0; i < mk->cut_short.n; i++) doc_put_str(left_out, NULL, mk->cut_short.v[i]);
    char gap[640];
    if (make_mmproj_gap(mk, gap, sizeof gap)) doc_put_str(left_out, NULL, gap);
    TRY(make_put_extras(mk, root, e));
    cJSON *files = doc_arr(root, "files");
    for (int i = 0; i < mk->n_files; i++) put_file(files, &mk->file[i]);
    return doc_check(root, e);
}

static int write_text(struct make *mk, const char *name, const struct buf *text, struct err *e) {
    char *path = job_path(&mk->job, name);
    int rc = out_write_file(path, text->data, text->len, true, e);
    free(path);
    return rc;
}

/* Returns whether any file is in the output folder. */
static bool holds_model(const struct make *mk) {
    for (int i = 0; i < mk->n_files; i++)
        if (!mk->file[i].outside) return true;
    return false;
}

/* Writes the HTML report and README.md from results.json. */
static int write_reports(struct make *mk, struct err *e) {
    struct result r;
    struct buf text = {0};
    char *path = job_path(&mk->job, "results.json");
    int rc = result_open(&r, path, e);
    free(path);
    if (rc) return rc;
    report_html(&r, NULL, &text);
    rc = write_text(mk, "report.html", &text, e);
    if (rc == 0) {
        buf_reset(&text);
        report_readme(&r, NULL, NULL, &text);
        rc = write_text(mk, "README.md", &text, e);
    }
    result_close(&r);
    buf_release(&text);
    return rc;
}

/* Writes SHA256SUMS for models and reports. */
static int write_sums(struct make *mk, struct err *e) {
    static const char *const small[] = {"results.json", "README.md", "report.html"};
    struct buf text = {0};
    char hex[65];
    int rc = 0;
    for (int i = 0; i < mk->n_files; i++)
        if (!mk->file[i].outside) buf_fmt(&text, "%s  %s\n", mk->file[i].sha256, mk->file[i].file);
    if (mk->imatrix) {
        rc = sha256_file(mk->imatrix, hex, e);
        buf_fmt(&text, "%s  %s\n", hex, io_base(mk->imatrix));
    }
    for (size_t i = 0; i < COUNT_OF(small) && rc == 0; i++) {
        char *path = job_path(&mk->job, small[i]);
        rc = sha256_file(path, hex, e);
        free(path);
        buf_fmt(&text, "%s  %s\n", hex, small[i]);
    }
    if (rc == 0) rc = write_text(mk, "SHA256SUMS", &text, e);
    buf_release(&text);
    return rc;
}

/* Writes only results and reports; used if the job does not publish a model. */
static int write_alone(struct make *mk, const cJSON *results, struct err *e) {
    char *path = job_path(&mk->job, "results.json");
    int rc = doc_write(results, path, true, e);
    free(path);
    if (rc == 0) rc = write_reports(mk, e);
    return rc ? rc : write_sums(mk, e);
}

int make_report(struct make *mk, struct err *e) {
    int64_t n_params = 0, base_params = 0;
    if (make_counts(mk)) return 0;
    if (mk->unmeasured) return make_publish(mk, NULL, e);
    log_info("writing the report");
    for (int i = 0; i < mk->n_files; i++) {
        TRY(describe_file(mk, &mk->file[i], &n_params, e));
        if (i == 0) base_params = n_params;
        TRY(make_checksum(mk, mk->file[i].path, mk->file[i].hash, mk->file[i].sha256, e));
    }
    cJSON *now = doc_new(), *old = doc_find(mk->job.dir, "results.json", MAX_RESULTS);
    int rc = results_of(mk, base_params, now, e);
    if (rc == 0) {
        make_earlier(mk, old, now);
        rc = holds_model(mk) ? make_publish(mk, now, e) : write_alone(mk, now, e);
    }
    cJSON_Delete(old);
    cJSON_Delete(now);
    return rc;
}
