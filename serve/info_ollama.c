// SPDX-License-Identifier: MIT
/* serve/info_ollama.c - what Ollama's clients ask about a server and its model (server.h). */
#include <string.h>
#include <time.h>

#include "core/gguf.h"
#include "models/arch.h"
#include "serve/server.h"

static void put_details(struct server *s, struct jw *w) {
    const char *family = s->served->core.m->arch->name;
    jw_obj(w, "details");
    jw_str(w, "parent_model", "");
    jw_str(w, "format", "gguf");
    jw_str(w, "family", family);
    jw_arr(w, "families");
    jw_str(w, NULL, family);
    jw_end(w);
    jw_str(w, "parameter_size", gguf_str_or(s->served->core.m->gguf, "general.size_label", ""));
    jw_str(w, "quantization_level", s->served->file.type);
    jw_i64(w, "context_length", session_get_opts(s->served->core.s)->n_ctx);
    jw_end(w);
}

/* Writes the model as an entry of the list of what is in memory (loaded), or of what there is. */
static void put_entry(struct server *s, struct jw *w, bool loaded) {
    char when[40], id[33];
    struct tm tm;
    const time_t t = (time_t)s->created;
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&t, &tm));
    model_id(s->served->core.m, id);
    jw_obj(w, NULL);
    jw_str(w, "name", s->served->file.id);
    jw_str(w, "model", s->served->file.id);
    jw_str(w, "modified_at", when);
    jw_u64(w, "size", s->served->file.n_bytes);
    jw_str(w, "digest", id);
    put_details(s, w);
    if (loaded) {
        jw_str(w, "expires_at", "2318-01-01T00:00:00Z"); /* it stays */
        jw_u64(w, "size_vram",
               session_get_opts(s->served->core.s)->device.kind == DEVICE_CPU
                   ? 0
                   : s->served->file.n_bytes);
        jw_i64(w, "context_length", session_get_opts(s->served->core.s)->n_ctx);
    }
    jw_end(w);
}

static void tell_models(struct server *s, struct job *j, bool loaded) {
    struct buf b = {0};
    struct jw w;
    jw_init(&w, &b, false);
    jw_obj(&w, NULL);
    jw_arr(&w, "models");
    put_entry(s, &w, loaded);
    jw_end(&w);
    jw_end(&w);
    buf_str(&b, "\n");
    answer_json(j, &b);
    buf_release(&b);
}

void info_tags(struct server *s, struct job *j) {
    tell_models(s, j, false);
}
void info_ps(struct server *s, struct job *j) {
    tell_models(s, j, true);
}

void info_version(struct server *s, struct job *j) {
    static const char text[] =
        "{\"version\": \"0.12.0\"}\n"; /* whose API this is; clients compare it */
    (void)s;
    job_answer(j, 200, "application/json", text, sizeof text - 1);
}

void info_root(struct server *s, struct job *j) {
    static const char text[] = "Ollama is running";
    (void)s;
    job_answer(j, 200, "text/plain; charset=utf-8", text, sizeof text - 1);
}

/* Writes the file's own values, without lists and the template. */
static void put_metadata(struct served *d, struct jw *w) {
    const struct gguf *g = d->core.m->gguf;
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

void later_show(struct served *d, struct job *j) {
    struct buf b = {0};
    struct jw w;
    jw_init(&w, &b, false);
    jw_obj(&w, NULL);
    jw_str(&w, "modelfile", "");
    jw_str(&w, "parameters", "");
    jw_str(&w, "template", d->tmpl);
    put_details(d->server, &w);
    jw_obj(&w, "model_info");
    put_metadata(d, &w);
    jw_i64(&w, "general.parameter_count", d->file.n_params);
    jw_end(&w);
    jw_arr(&w, "capabilities");
    jw_str(&w, NULL, "completion");
    if (d->fmt != toolfmt_plain()) jw_str(&w, NULL, "tools");
    if (strstr(d->tmpl, "enable_thinking") || strstr(d->tmpl, "<think>"))
        jw_str(&w, NULL, "thinking");
    jw_end(&w);
    jw_end(&w);
    buf_str(&b, "\n");
    answer_json(j, &b);
    buf_release(&b);
}
