// SPDX-License-Identifier: MIT
/* serve/info_ollama.c - Ollama's /api/tags, /api/ps, /api/show and /api/version. */
#include <string.h>
#include <time.h>

#include "containers/gguf.h"
#include "models/arch.h"
#include "serve/images.h"
#include "serve/server.h"

static void put_details(const struct serve_file *f, struct jw *w) {
    jw_obj(w, "details");
    jw_str(w, "parent_model", "");
    jw_str(w, "format", "gguf");
    jw_str(w, "family", f->arch);
    jw_arr(w, "families");
    jw_str(w, NULL, f->arch);
    jw_end(w);
    jw_str(w, "parameter_size", f->size_label);
    jw_str(w, "quantization_level", f->type);
    jw_i64(w, "context_length", f->n_ctx);
    jw_end(w);
}

/* Writes an entry of /api/ps or, if `loaded` is NULL, of /api/tags. */
static void put_entry(struct server *s, int i, struct jw *w, const struct served *loaded) {
    const struct serve_file *f = &s->o.file[i];
    char when[40];
    struct tm tm;
    const time_t t = (time_t)s->created;
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&t, &tm));
    jw_obj(w, NULL);
    jw_str(w, "name", f->id);
    jw_str(w, "model", f->id);
    jw_str(w, "modified_at", when);
    jw_u64(w, "size", f->n_bytes);
    jw_str(w, "digest", f->digest);
    if (f->wrong) jw_str(w, "error", f->wrong);
    put_details(f, w);
    if (loaded) {
        jw_str(w, "expires_at", "2318-01-01T00:00:00Z"); /* no time limit */
        jw_u64(w, "size_vram",
               session_get_opts(loaded->core.s)->device.kind == DEVICE_CPU ? 0 : f->n_bytes);
        jw_i64(w, "context_length", f->n_ctx);
    }
    jw_end(w);
}

/* Answers with the list of all models or, with only_loaded, of those in memory. */
static void tell_models(struct server *s, struct job *j, bool only_loaded) {
    struct buf b = {0};
    struct jw w;
    jw_init(&w, &b, false);
    jw_obj(&w, NULL);
    jw_arr(&w, "models");
    for (int i = 0; i < s->o.n_files; i++) {
        struct served *d = only_loaded ? models_peek(s, i) : NULL;
        if (d || !only_loaded) put_entry(s, i, &w, d);
        if (d) models_drop(d);
    }
    jw_end(&w);
    jw_end(&w);
    answer_line(j, &b);
}

void info_tags(struct server *s, struct job *j) {
    tell_models(s, j, false);
}
void info_ps(struct server *s, struct job *j) {
    tell_models(s, j, true);
}

void info_version(struct server *s, struct job *j) {
    static const char text[] =
        /* The version of Ollama whose API is implemented; clients compare it. */
        "{\"version\": \"0.12.0\"}\n";
    (void)s;
    job_answer(j, 200, "application/json", text, sizeof text - 1);
}

void info_root(struct server *s, struct job *j) {
    static const char text[] = "Ollama is running";
    (void)s;
    job_answer(j, 200, "text/plain; charset=utf-8", text, sizeof text - 1);
}

/* Writes the file's scalar metadata, except the template. */
static void put_metadata(const struct gguf *g, struct jw *w) {
    for (int64_t i = 0; i < gguf_n_kv(g); i++) {
        const struct gguf_kv *kv = gguf_kv_at(g, i);
        if (kv->type == GV_ARR || strcmp(kv->key, "tokenizer.chat_template") == 0) continue;
        if (kv->type == GV_STR)
            jw_str(w, kv->key, gguf_kv_text(g, kv));
        else if (kv->type == GV_BOOL)
            jw_bool(w, kv->key, gguf_kv_i64(kv, 0) != 0);
        else if (kv->type == GV_F32 || kv->type == GV_F64)
            jw_num(w, kv->key, gguf_kv_f64(kv, 0));
        else
            jw_i64(w, kv->key, gguf_kv_i64(kv, 0));
    }
}

void named_show(struct server *s, int i, struct job *j) {
    const struct serve_file *f = &s->o.file[i];
    struct served *d = models_peek(s, i);
    struct gguf *g = NULL;
    struct buf b = {0};
    struct jw w;
    struct err e = {0};
    struct fault fault = {0};
    if (!d && (f->wrong || gguf_open(&g, f->path, 0, &e))) {
        fault_set(&fault, 500, NULL, NULL, "%s", f->wrong ? f->wrong : e.msg);
        route_fail(j, &fault);
        return;
    }
    jw_init(&w, &b, false);
    jw_obj(&w, NULL);
    jw_str(&w, "modelfile", "");
    jw_str(&w, "parameters", "");
    jw_str(&w, "template", f->tmpl);
    put_details(f, &w);
    jw_obj(&w, "model_info");
    put_metadata(d ? d->core.m->gguf : g, &w);
    jw_i64(&w, "general.parameter_count", f->n_params);
    jw_end(&w);
    jw_arr(&w, "capabilities");
    jw_str(&w, NULL, "completion");
    if (*f->tmpl) jw_str(&w, NULL, "tools"); /* generic tool calling works with any template */
    if (strstr(f->tmpl, "enable_thinking") || strstr(f->tmpl, "<think>"))
        jw_str(&w, NULL, "thinking");
    if (d && images_possible(d)) jw_str(&w, NULL, "vision");
    jw_end(&w);
    jw_end(&w);
    if (d) models_drop(d);
    gguf_close(g);
    answer_line(j, &b);
}
