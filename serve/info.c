// SPDX-License-Identifier: MIT
/* serve/info.c - handlers of /health, /v1/models, /props, /slots and /metrics. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "containers/gguf.h"
#include "base/mem.h"
#include "base/progress.h"
#include "models/arch.h"
#include "serve/images.h"
#include "serve/server.h"

/* Returns a copy of the state of file i. For use by threads other than the keeper. */
static struct listed listed_at(struct server *s, int i) {
    pthread_mutex_lock(&s->lock);
    const struct listed l = s->models.v[i];
    pthread_mutex_unlock(&s->lock);
    return l;
}

/* Writes the state of a file in the format of llama-server's router. */
static void put_status(const struct listed *l, struct jw *w) {
    jw_obj(w, "status");
    jw_str(w, "value", models_word(l));
    if (l->state == MODEL_BROKEN) jw_bool(w, "failed", true);
    jw_end(w);
    if (models_wrong(l)) jw_str(w, "error", models_wrong(l));
}

void info_health(struct server *s, struct job *j) {
    struct fault f;
    struct buf b = {0};
    struct jw w;
    if (atomic_load(&s->drain)) {
        fault_set(&f, 503, NULL, NULL, "the server is stopping");
        route_fail(j, &f);
        return;
    }
    if (s->o.n_files == 1 || !route_trusts(s, j)) {
        static const char ok[] = "{\"status\": \"ok\"}\n";
        job_answer(j, 200, "application/json", ok, sizeof ok - 1);
        return;
    }
    jw_init(&w, &b, false);
    jw_obj(&w, NULL);
    jw_str(&w, "status", "ok");
    jw_arr(&w, "models");
    for (int i = 0; i < s->o.n_files; i++) {
        const struct listed l = listed_at(s, i);
        jw_obj(&w, NULL);
        jw_str(&w, "id", l.file->id);
        put_status(&l, &w);
        jw_end(&w);
    }
    jw_end(&w);
    jw_end(&w);
    answer_line(j, &b);
}

/* Writes the entry of file i in the list of models. */
static void put_model(struct server *s, int i, struct jw *w) {
    const struct listed l = listed_at(s, i);
    const struct serve_file *f = l.file;
    char when[40];
    struct tm tm;
    const time_t t = (time_t)s->created;
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&t, &tm));
    jw_obj(w, NULL);
    jw_str(w, "id", f->id);
    jw_str(w, "object", "model");
    jw_str(w, "type", "model");
    jw_i64(w, "created", s->created);
    jw_str(w, "created_at", when);
    jw_str(w, "owned_by", "hone");
    jw_str(w, "display_name", f->id);
    put_status(&l, w);
    if (i == s->o.first && s->o.n_files > 1) jw_bool(w, "default", true);
    jw_i64(w, "max_model_len", f->n_ctx);
    jw_i64(w, "context_window", f->n_ctx);
    jw_i64(w, "max_input_tokens", f->n_ctx);
    jw_i64(w, "max_tokens", f->n_ctx);
    jw_obj(w, "meta");
    jw_i64(w, "n_ctx", f->n_ctx);
    jw_i64(w, "n_ctx_train", f->n_ctx_train);
    jw_i64(w, "n_params", f->n_params);
    jw_u64(w, "size_bytes", f->n_bytes);
    if (f->need) jw_u64(w, "memory_bytes", f->need);
    jw_str(w, "type", f->type);
    jw_i64(w, "vocab", f->n_vocab);
    jw_str(w, "file", f->file);
    jw_str(w, "architecture", f->arch);
    jw_end(w);
    jw_end(w);
}

void info_models(struct server *s, struct job *j) {
    struct buf b = {0};
    struct jw w;
    jw_init(&w, &b, false);
    jw_obj(&w, NULL);
    jw_str(&w, "object", "list");
    jw_arr(&w, "data");
    for (int i = 0; i < s->o.n_files; i++) put_model(s, i, &w);
    jw_end(&w);
    jw_str(&w, "first_id", s->o.file[0].id);
    jw_str(&w, "last_id", s->o.file[s->o.n_files - 1].id);
    jw_bool(&w, "has_more", false);
    jw_end(&w);
    answer_line(j, &b);
}

/* Returns the index of the file that a path or a query names. exact: if the server has a single
 * file, accept only its id. On failure, answers with an error and returns -1. */
static int file_of(struct server *s, struct job *j, struct http_text t, bool exact) {
    struct buf name = {0};
    struct fault f = {0};
    int i = 0;
    http_unescape(t, &name);
    int rc = models_find(s, name.data, &i, &f);
    if (!rc && exact && s->o.n_files == 1 && strcmp(name.data, s->o.file[0].id) != 0)
        rc = fault_set(&f, 404, "model_not_found", "model", "no such model; available: %.100s",
                       s->o.file[0].id);
    buf_release(&name);
    if (rc) route_fail(j, &f);
    return rc ? -1 : i;
}

void info_model(struct server *s, struct job *j, const char *id, size_t n) {
    struct buf b = {0};
    struct jw w;
    const int i = file_of(s, j, (struct http_text){id, n}, true);
    if (i < 0) return;
    jw_init(&w, &b, false);
    put_model(s, i, &w);
    answer_line(j, &b);
}

void put_sample(const struct sample_opts *o, struct jw *w) {
    jw_num(w, "temperature", (double)o->temp);
    jw_i64(w, "top_k", o->top_k);
    jw_num(w, "top_p", (double)o->top_p);
    jw_num(w, "min_p", (double)o->min_p);
    jw_num(w, "repeat_penalty", (double)o->repeat_penalty);
    jw_i64(w, "repeat_last_n", o->repeat_last_n);
    jw_num(w, "presence_penalty", (double)o->presence_penalty);
    jw_num(w, "frequency_penalty", (double)o->frequency_penalty);
}

/* Writes the model's default settings. */
static void put_settings(const struct server *s, const struct serve_file *f, struct jw *w) {
    jw_obj(w, "default_generation_settings");
    jw_i64(w, "n_ctx", f->n_ctx);
    jw_obj(w, "params");
    put_sample(&f->sample, w);
    jw_i64(w, "n_predict", s->o.n_max);
    jw_end(w);
    jw_end(w);
}

/* Writes the properties that are known only while a file is loaded. */
static void put_loaded(struct server *s, struct served *d, struct jw *w) {
    pthread_mutex_lock(&s->lock);
    const uint64_t budget = d->counts.budget_bytes, held = d->counts.held_bytes;
    pthread_mutex_unlock(&s->lock);
    texts_specials(d->core.m->tok, w);
    jw_str(w, "tool_format",
           d->generic                  ? "generic"
           : d->fmt == toolfmt_plain() ? NULL
                                       : toolfmt_name(d->fmt));
    jw_obj(w, "memory");
    jw_u64(w, "context_bytes", budget);
    jw_u64(w, "held_bytes", held);
    jw_end(w);
}

void info_props(struct server *s, struct job *j) {
    struct buf b = {0};
    struct jw w;
    const int i = file_of(s, j, route_query(j, "model"), false);
    if (i < 0) return;
    const struct listed l = listed_at(s, i);
    const struct serve_file *f = l.file;
    struct served *d = models_peek(s, i);
    jw_init(&w, &b, false);
    jw_obj(&w, NULL);
    put_settings(s, f, &w);
    jw_i64(&w, "total_slots", s->o.n_live);
    jw_str(&w, "model_path", f->file);
    if (s->o.n_files > 1) jw_str(&w, "model_alias", f->id);
    if (s->o.n_files > 1) put_status(&l, &w);
    jw_str(&w, "chat_template", f->tmpl);
    jw_obj(&w, "modalities");
    jw_bool(&w, "vision", d && images_possible(d));
    jw_bool(&w, "audio", false);
    jw_end(&w);
    jw_str(&w, "build_info", "hone " HONE_VERSION);
    jw_bool(&w, "is_sleeping", !d);
    if (d) put_loaded(s, d, &w);
    jw_end(&w);
    if (d) models_drop(d);
    answer_line(j, &b);
}

void info_slots(struct server *s, struct job *j) {
    struct fault f = {0};
    struct buf b = {0};
    const struct http_text name = route_query(j, "model");
    int64_t n_running = 0, n_places = 0;
    const int only = name.s ? file_of(s, j, name, false) : -1;
    if (name.s && only < 0) return;
    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < s->o.n_files; i++) {
        const struct served *d = s->models.v[i].served;
        if (!d || !d->slots.len || (only >= 0 && i != only)) continue;
        buf_chr(&b, b.len ? ',' : '[');
        buf_add(&b, d->slots.data + 1, d->slots.len - 2); /* without the list's brackets */
        n_running += d->counts.n_running;
        n_places += s->o.n_live;
    }
    pthread_mutex_unlock(&s->lock);
    buf_str(&b, b.len ? "]\n" : "[]\n");
    if (n_places && n_running >= n_places && http_is(j->req.query, "fail_on_no_slot=1")) {
        fault_set(&f, 503, NULL, NULL, "all slots are in use");
        route_fail(j, &f);
    } else {
        answer_json(j, &b);
    }
    buf_release(&b);
}

enum {
    OF_LOADED,
    OF_BYTES,
    OF_LOADS,
    OF_LOAD_S,
    OF_REQUESTS,
    OF_WAITING,
    OF_RUNNING,
    OF_PROMPT,
    OF_CACHED,
    OF_OUT,
    OF_CONTEXT,
    OF_COUNT
};

/* Sets v to the values of file i's metrics. */
static void numbers_of(struct server *s, int i, double v[OF_COUNT]) {
    pthread_mutex_lock(&s->lock);
    const struct listed *l = &s->models.v[i];
    const struct sched_counts n = models_counts_of(l);
    const double all[OF_COUNT] = {[OF_LOADED] = l->state == MODEL_LOADED,
                                  [OF_BYTES] = l->state == MODEL_LOADED ? (double)l->file->need : 0,
                                  [OF_LOADS] = (double)l->n_loads,
                                  [OF_LOAD_S] = l->load_s,
                                  [OF_REQUESTS] = (double)l->n_requests,
                                  [OF_WAITING] = (double)l->waiting.n + (double)n.n_waiting,
                                  [OF_RUNNING] = (double)n.n_running,
                                  [OF_PROMPT] = (double)n.n_prompt,
                                  [OF_CACHED] = (double)n.n_cached,
                                  [OF_OUT] = (double)n.n_out,
                                  [OF_CONTEXT] = (double)n.held_bytes};
    memcpy(v, all, sizeof all);
    pthread_mutex_unlock(&s->lock);
}

/* Appends the metrics that have a label for the file, if there are several files. */
static void put_files(struct server *s, struct buf *out) {
    static const struct {
        const char *name, *type, *help;
    } rows[OF_COUNT] = {
        [OF_LOADED] = {"hone_model_loaded", "gauge", "1: the file is loaded"},
        [OF_BYTES] = {"hone_model_bytes", "gauge",
                      "bytes a loaded file may use: weights, contexts, buffers"},
        [OF_LOADS] = {"hone_model_loads_total", "counter", "loads of the file"},
        [OF_LOAD_S] = {"hone_model_load_seconds_total", "counter", "time of these loads"},
        [OF_REQUESTS] = {"hone_model_requests_total", "counter", "finished answers"},
        [OF_WAITING] = {"hone_model_requests_waiting", "gauge",
                        "answers waiting for a slot or for the file"},
        [OF_RUNNING] = {"hone_model_requests_running", "gauge", "sequences being computed"},
        [OF_PROMPT] = {"hone_model_prompt_tokens_total", "counter", "prompt tokens"},
        [OF_CACHED] = {"hone_model_prompt_tokens_cached_total", "counter",
                       "prompt tokens from the cache"},
        [OF_OUT] = {"hone_model_output_tokens_total", "counter", "generated tokens"},
        [OF_CONTEXT] = {"hone_model_context_bytes", "gauge",
                        "bytes of keys, values and states in use"}};
    const int n = s->o.n_files;
    double(*v)[OF_COUNT] = xcalloc((size_t)n, sizeof *v);
    for (int i = 0; i < n; i++) numbers_of(s, i, v[i]);
    for (int k = 0; k < OF_COUNT && n > 1; k++) {
        buf_fmt(out, "# HELP %s %s\n# TYPE %s %s\n", rows[k].name, rows[k].help, rows[k].name,
                rows[k].type);
        for (int i = 0; i < n; i++) {
            buf_fmt(out, "%s{model=", rows[k].name);
            json_quote(out, s->o.file[i].id, strlen(s->o.file[i].id));
            buf_fmt(out, "} %.17g\n", v[i][k]);
        }
    }
    free(v);
}

void info_metrics(struct server *s, struct job *j) {
    struct buf b = {0};
    const struct net_counts net = net_counts(s->net);
    pthread_mutex_lock(&s->lock);
    const struct sched_counts n = models_counts(s);
    const double requests = (double)s->n_requests, failures = (double)s->n_failed,
                 left = (double)s->n_left + (double)n.n_cancelled;
    ledger_metrics(&s->ledger, &b);
    pthread_mutex_unlock(&s->lock);
    const struct {
        const char *name, *type, *help;
        double v;
    } rows[] = {
        {"hone_requests_prepared_total", "counter", "requests prepared for the engine", requests},
        {"hone_requests_failed_total", "counter", "prepared requests that ended with an error",
         failures},
        {"hone_requests_cancelled_total", "counter", "requests whose client disconnected", left},
        {"hone_prompt_tokens_total", "counter", "prompt tokens", (double)n.n_prompt},
        {"hone_prompt_tokens_cached_total", "counter", "prompt tokens taken from the cache",
         (double)n.n_cached},
        {"hone_prompt_tokens_computed_total", "counter",
         "prompt tokens computed, including those recomputed after preemption", (double)n.n_fed},
        {"hone_output_tokens_total", "counter", "generated tokens", (double)n.n_out},
        {"hone_reasoning_tokens_total", "counter", "generated tokens that are reasoning",
         (double)n.n_think},
        {"hone_constrained_tokens_total", "counter", "tokens drawn under a schema or grammar",
         (double)n.n_held},
        {"hone_overruled_tokens_total", "counter",
         "constrained tokens that differ from the model's own choice", (double)n.n_overruled},
        {"hone_overruled_name_tokens_total", "counter",
         "overruled tokens in tool names, in answers with tools",
         (double)n.n_overruled_at[TOOL_PLACE_NAME]},
        {"hone_overruled_key_tokens_total", "counter",
         "overruled tokens in argument names, in answers with tools",
         (double)n.n_overruled_at[TOOL_PLACE_KEY]},
        {"hone_overruled_value_tokens_total", "counter",
         "overruled tokens in argument values, in answers with tools",
         (double)n.n_overruled_at[TOOL_PLACE_VALUE]},
        {"hone_overruled_structure_tokens_total", "counter",
         "overruled tokens in the syntax around names and values, in answers with tools",
         (double)n.n_overruled_at[TOOL_PLACE_STRUCTURE]},
        {"hone_overruled_text_tokens_total", "counter", "the same outside of complete calls",
         (double)n.n_overruled_at[TOOL_PLACE_TEXT]},
        {"hone_forced_tokens_total", "counter", "tokens not sampled, because no other was allowed",
         (double)n.n_jumped},
        {"hone_draft_tokens_total", "counter", "draft tokens of speculative decoding",
         (double)n.n_guessed},
        {"hone_draft_right_total", "counter", "draft tokens accepted", (double)n.n_right},
        {"hone_preemptions_total", "counter", "answers preempted for lack of memory",
         (double)n.n_preempted},
        {"hone_cache_evictions_total", "counter", "cached sequences dropped",
         (double)n.prefix.n_dropped},
        {"hone_http_rejected_total", "counter", "malformed HTTP requests", (double)net.refused},
        {"hone_steps_total", "counter", "forward passes", (double)n.n_steps},
        {"hone_rows_total", "counter", "tokens computed in forward passes", (double)n.n_rows},
        {"hone_busy_seconds_total", "counter", "time spent in forward passes", n.busy_s},
        {"hone_requests_running", "gauge", "sequences being computed", (double)n.n_running},
        {"hone_requests_waiting", "gauge", "answers waiting for a slot", (double)n.n_waiting},
        {"hone_connections", "gauge", "open connections", (double)net.open},
        {"hone_kept_sequences", "gauge", "sequences in the prefix cache", (double)n.prefix.n_kept},
        {"hone_disk_cache_bytes", "gauge", "size of the files in --cache-dir",
         (double)n.shelf.n_bytes},
        {"hone_disk_cache_sequences", "gauge", "sequences in --cache-dir", (double)n.shelf.n},
        {"hone_disk_cache_loaded_total", "counter", "sequences loaded from --cache-dir",
         (double)n.shelf.n_loaded},
        {"hone_disk_cache_saved_total", "counter", "sequences written to --cache-dir",
         (double)n.shelf.n_saved},
        {"hone_disk_cache_evictions_total", "counter", "files removed to make room",
         (double)n.shelf.n_dropped},
        {"hone_disk_cache_refused_total", "counter", "damaged files removed",
         (double)n.shelf.n_refused},
        {"hone_context_bytes", "gauge", "bytes of keys, values and states in use",
         (double)n.held_bytes},
        {"hone_context_budget_bytes", "gauge", "limit of hone_context_bytes",
         (double)n.budget_bytes},
        {"hone_uptime_seconds", "gauge", "time since the start", progress_now_s() - s->t_start},
        {"llamacpp:prompt_tokens_total", "counter", "as hone_prompt_tokens_total",
         (double)n.n_prompt},
        {"llamacpp:tokens_predicted_total", "counter", "as hone_output_tokens_total",
         (double)n.n_out},
        {"llamacpp:requests_processing", "gauge", "as hone_requests_running", (double)n.n_running},
        {"llamacpp:requests_deferred", "gauge", "as hone_requests_waiting", (double)n.n_waiting},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        buf_fmt(&b, "# HELP %s %s\n# TYPE %s %s\n%s %.17g\n", rows[i].name, rows[i].help,
                rows[i].name, rows[i].type, rows[i].name, rows[i].v);
    histogram_put(&n.interval, "hone_token_interval_seconds", "time between tokens of an answer",
                  &b);
    histogram_put(&n.step, "hone_step_seconds", "time of a forward pass", &b);
    histogram_put(&n.mask, "hone_mask_seconds", "time to choose a constrained token", &b);
    put_files(s, &b);
    struct served *d = models_peek(s, s->o.first);
    buf_fmt(&b,
            "# HELP hone_info version, weight type and device\n# TYPE hone_info gauge\n"
            "hone_info{version=\"%s\",type=\"%s\",device=\"%s\"} 1\n",
            HONE_VERSION, s->o.file[s->o.first].type, d ? session_info(d->core.s).device : "");
    if (d) models_drop(d);
    job_answer(j, 200, "text/plain; version=0.0.4; charset=utf-8", b.data, b.len);
    buf_release(&b);
}
