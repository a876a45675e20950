// SPDX-License-Identifier: MIT
/* make/report.c - the last step of `hone make`: results.json, report.html, and what `hone
 * publish` writes: README.md, Modelfile, manifest.json, SHA256SUMS and so on. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "work/device.h"
#include "make/make.h"
#include "containers/gguf.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/out.h"
#include "base/log.h"
#include "models/arch.h"
#include "report/result.h"

enum { MAX_RESULTS = 256 << 20 };

/* Describes the machine: "AMD EPYC, 2 threads, avx512, NVIDIA H200". */
static void machine(const struct make *mk, char out[512]) {
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

/* Finds the SHA-256 of an output, which is remembered by the hash of its content. */
static int checksum(struct make *mk, const char *path, const char *hash, char hex[65],
                    struct err *e) {
    char name[96], json[128];
    struct step s;
    struct json *root = NULL;
    const struct json *result;
    snprintf(name, sizeof name, "sha256-%s", hash);
    step_init(&s, &mk->job, name);
    int rc = 0;
    const char *known = NULL;
    if (make_reuse(mk, &s, &root, &result)) known = json_str(json_get(result, "sha256"));
    if (known && strlen(known) == 64) {
        memcpy(hex, known, 65);
    } else {
        rc = sha256_file(path, hex, e);
        snprintf(json, sizeof json, "{\"sha256\": \"%s\"}", hex);
        if (rc == 0) rc = step_save(&s, NULL, 0, json, e);
    }
    json_free(root);
    step_release(&s);
    return rc;
}

/* Opens a finished file as a reader would; size and bits per weight from what is really there. */
static int describe_file(struct made *f, int64_t *n_params, struct requant *base, struct err *e) {
    struct gguf *g = NULL;
    TRY(gguf_open(&g, f->path, 0, e));
    if (f->is_base) requant_look(g, base);
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
    gguf_close(g);
    return 0;
}

static int model_json(struct make *mk, int64_t n_params, struct err *e) {
    struct gguf *g = NULL;
    struct jw w;
    char key[128];
    TRY(gguf_open(&g, mk->file[0].path, 0, e));
    const char *arch = gguf_str_or(g, "general.architecture", "");
    const struct arch *a = arch_find(arch);
    snprintf(key, sizeof key, "%s.context_length", arch);
    jw_init(&w, &mk->model_json, true);
    jw_obj(&w, NULL);
    jw_str(&w, "name", mk->name);
    jw_str(&w, "arch", arch);
    jw_str(&w, "arch_note", a ? a->size_note : "");
    jw_i64(&w, "n_params", n_params);
    jw_u64(&w, "ctx", gguf_u64_or(g, key, 0));
    jw_str(&w, "license", gguf_str_or(g, "general.license", ""));
    jw_str(&w, "source", mk->name);
    jw_str(&w, "source_xxh128", mk->src_hash);
    jw_str(&w, "source_weights_xxh128", mk->weights);
    jw_end(&w);
    gguf_close(g);
    return 0;
}

/* Writes the types inside with their shares of the tensors' bytes, the largest first. */
static void types_json(struct jw *w, const struct made *f) {
    uint64_t left[QT_COUNT], sum = 0;
    memcpy(left, f->type_bytes, sizeof left);
    for (int i = 0; i < QT_COUNT; i++) sum += left[i];
    jw_arr(w, "types");
    for (;;) {
        int top = 0;
        for (int i = 1; i < QT_COUNT; i++)
            if (left[i] > left[top]) top = i;
        if (!left[top]) break;
        jw_obj(w, NULL);
        jw_str(w, "type", qtype_name((enum qtype)top));
        jw_num(w, "share", (double)left[top] / (double)sum);
        jw_end(w);
        left[top] = 0;
    }
    jw_end(w);
}

static void file_json(struct jw *w, const struct made *f) {
    jw_obj(w, NULL);
    jw_str(w, "file", f->file);
    jw_str(w, "recipe", f->recipe);
    jw_bool(w, "is_base", f->is_base);
    jw_i64(w, "size_bytes", f->size_bytes);
    jw_num(w, "size_gib", (double)f->size_bytes / 0x1p30);
    jw_num(w, "bpw", f->bpw);
    jw_str(w, "sha256", f->sha256);
    if (f->size_class[0]) jw_str(w, "size_class", f->size_class);
    if (!f->is_base) {
        jw_str(w, "made", f->is_mix ? "mix" : "preset");
        jw_bool(w, "feedback", f->feedback);
    }
    if (f->why && f->why[0]) jw_str(w, "why", f->why);
    if (f->preset_kld > 0) jw_num(w, "preset_kld", f->preset_kld);
    types_json(w, f);
    const struct buf *part[] = {&f->eval, &f->speed, &f->tools};
    for (size_t i = 0; i < COUNT_OF(part); i++) {
        struct json *o = NULL;
        struct err ignored;
        struct buf text = {0};
        buf_fmt(&text, "{%s}", part[i]->len ? part[i]->data : "");
        if (json_parse(&o, text.data, text.len, "step", &ignored) == 0)
            for (const struct json *m = json_first(o); m; m = json_next(m))
                jw_copy(w, json_name(m), m);
        json_free(o);
        buf_release(&text);
    }
    jw_end(w);
}

/* Ends the text on the evaluation with its counts of tokens and chunks, which are those of the
 * base's record. */
static void finish_eval(struct make *mk) {
    struct buf text = {0};
    struct json *o = NULL;
    struct err ignored;
    int64_t n_tokens = 0, n_chunks = 0;
    buf_fmt(&text, "{%s}", mk->file[0].eval.len ? mk->file[0].eval.data : "");
    if (json_parse(&o, text.data, text.len, "step", &ignored) == 0) {
        json_i64(json_get(o, "n_tokens"), &n_tokens);
        json_i64(json_get(o, "n_chunks"), &n_chunks);
    }
    json_free(o);
    buf_release(&text);
    buf_fmt(&mk->eval_json, ", \"n_tokens\": %lld, \"n_chunks\": %lld}", (long long)n_tokens,
            (long long)n_chunks);
}

/* Writes results.json. With `now`, its text without the files of the earlier run `old`, those are
 * added. */
static void results_text(struct make *mk, const struct json *old, const struct json *now,
                         struct buf *out) {
    struct jw w;
    char text[512];
    jw_init(&w, out, true);
    jw_obj(&w, NULL);
    jw_str(&w, "hone_version", HONE_VERSION);
    machine(mk, text);
    jw_str(&w, "machine", text);
    jw_str(&w, "base_type", mk->base.type);
    jw_bool(&w, "base_is_quantized", mk->base.quantized);
    jw_raw(&w, "model", mk->model_json.data);
    jw_raw(&w, "imatrix", mk->imatrix_json.len ? mk->imatrix_json.data : "{}");
    jw_raw(&w, "eval", mk->eval_json.data);
    jw_arr(&w, "notes");
    for (int i = 0; i < mk->notes.n; i++) jw_str(&w, NULL, mk->notes.v[i]);
    jw_end(&w);
    jw_arr(&w, "left_out");
    for (int i = 0; i < mk->left_out.n; i++) jw_str(&w, NULL, mk->left_out.v[i]);
    for (int i = 0; i < mk->cut_short.n; i++) jw_str(&w, NULL, mk->cut_short.v[i]);
    jw_end(&w);
    jw_arr(&w, "files");
    for (int i = 0; i < mk->n_files; i++) file_json(&w, &mk->file[i]);
    if (now) make_earlier(mk, old, now, &w);
    jw_end(&w);
    jw_end(&w);
    buf_chr(out, '\n');
}

static int write_text(struct make *mk, const char *name, const struct buf *text, struct err *e) {
    char *path = job_path(&mk->job, name);
    int rc = out_write_file(path, text->data, text->len, true, e);
    free(path);
    return rc;
}

static bool holds_model(const struct make *mk) {
    for (int i = 0; i < mk->n_files; i++)
        if (!mk->file[i].outside) return true;
    return false;
}

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
        report_readme(&r, NULL, &text);
        rc = write_text(mk, "README.md", &text, e);
    }
    result_close(&r);
    buf_release(&text);
    return rc;
}

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

/* Adds files of an earlier run to the text of results.json. */
static void add_earlier(struct make *mk, struct buf *results) {
    struct json *old = NULL, *now = NULL;
    struct err ignored;
    char *path = job_path(&mk->job, "results.json");
    if (io_exists(path) && json_read(&old, path, MAX_RESULTS, &ignored) == 0 &&
        json_parse(&now, results->data, results->len, path, &ignored) == 0) {
        buf_reset(results);
        results_text(mk, old, now, results);
    }
    json_free(old);
    json_free(now);
    free(path);
}

int make_report(struct make *mk, struct err *e) {
    int64_t n_params = 0, base_params = 0;
    if (make_counts(mk)) return 0;
    log_info("writing the report");
    for (int i = 0; i < mk->n_files; i++) {
        TRY(describe_file(&mk->file[i], &n_params, &mk->base, e));
        if (i == 0) base_params = n_params;
        TRY(checksum(mk, mk->file[i].path, mk->file[i].hash, mk->file[i].sha256, e));
    }
    TRY(model_json(mk, base_params, e));
    struct buf results = {0};
    int rc;
    finish_eval(mk);
    results_text(mk, NULL, NULL, &results);
    add_earlier(mk, &results);
    if (holds_model(mk)) {
        rc = make_publish(mk, results.data, e);
    } else { /* There is nothing to publish. */
        rc = write_text(mk, "results.json", &results, e);
        if (rc == 0) rc = write_reports(mk, e);
        if (rc == 0) rc = write_sums(mk, e);
    }
    buf_release(&results);
    return rc;
}
