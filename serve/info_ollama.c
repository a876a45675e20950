// SPDX-License-Identifier: MIT
/* serve/info_ollama.c - what Ollama's clients ask about a server and its model (server.h). */
#include <string.h>
#include <time.h>

#include "core/gguf.h"
#include "models/arch.h"
#include "serve/server.h"

static void put_details(struct server *s, struct jw *w) {
    const char *family = s->o.m->arch->name;
    jw_obj(w, "details");
    jw_str(w, "parent_model", "");
    jw_str(w, "format", "gguf");
    jw_str(w, "family", family);
    jw_arr(w, "families");
    jw_str(w, NULL, family);
    jw_end(w);
    jw_str(w, "parameter_size", gguf_str_or(s->o.m->gguf, "general.size_label", ""));
    jw_str(w, "quantization_level", s->o.type);
    jw_i64(w, "context_length", session_get_opts(s->o.s)->n_ctx);
    jw_end(w);
}

static void put_entry(struct server *s, struct jw *w) {
    char when[40], id[33];
    struct tm tm;
    const time_t t = (time_t)s->created;
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&t, &tm));
    model_id(s->o.m, id);
    jw_obj(w, NULL);
    jw_str(w, "name", s->o.alias);
    jw_str(w, "model", s->o.alias);
    jw_str(w, "modified_at", when);
    jw_u64(w, "size", s->o.n_bytes);
    jw_str(w, "digest", id);
    put_details(s, w);
    jw_end(w);
}

void info_tags(struct server *s, struct job *j) {
    struct buf b = {0};
    struct jw w;
    jw_init(&w, &b, false);
    jw_obj(&w, NULL);
    jw_arr(&w, "models");
    put_entry(s, &w);
    jw_end(&w);
    jw_end(&w);
    buf_str(&b, "\n");
    answer_json(j, &b);
    buf_release(&b);
}

void info_version(struct server *s, struct job *j) {
    static const char text[] = "{\"version\": \"0.12.0-hone\"}\n";
    (void)s;
    job_answer(j, 200, "application/json", text, sizeof text - 1);
}

void info_root(struct server *s, struct job *j) {
    static const char text[] = "Ollama is running";
    (void)s;
    job_answer(j, 200, "text/plain; charset=utf-8", text, sizeof text - 1);
}

void later_show(struct server *s, struct job *j) {
    struct buf b = {0};
    struct jw w;
    jw_init(&w, &b, false);
    jw_obj(&w, NULL);
    jw_str(&w, "modelfile", "");
    jw_str(&w, "parameters", "");
    jw_str(&w, "template", s->tmpl);
    put_details(s, &w);
    jw_obj(&w, "model_info");
    jw_str(&w, "general.architecture", s->o.m->arch->name);
    jw_i64(&w, "general.parameter_count", s->o.n_params);
    jw_i64(&w, "context_length", session_get_opts(s->o.s)->n_ctx);
    jw_end(&w);
    jw_arr(&w, "capabilities");
    jw_str(&w, NULL, "completion");
    if (s->fmt != toolfmt_plain()) jw_str(&w, NULL, "tools");
    if (strstr(s->tmpl, "enable_thinking") || strstr(s->tmpl, "<think>"))
        jw_str(&w, NULL, "thinking");
    jw_end(&w);
    jw_end(&w);
    buf_str(&b, "\n");
    answer_json(j, &b);
    buf_release(&b);
}
