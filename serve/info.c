// SPDX-License-Identifier: MIT
/* serve/info.c - what a server says about itself (server.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/gguf.h"
#include "core/prog.h"
#include "models/arch.h"
#include "serve/server.h"

void info_health(struct server *s, struct job *j) {
    struct fault f;
    const char ok[] = "{\"status\": \"ok\"}\n";
    if (!atomic_load(&s->drain)) {
        job_answer(j, 200, "application/json", ok, sizeof ok - 1);
        return;
    }
    fault_set(&f, 503, NULL, NULL, "the server is stopping");
    route_fail(j, &f);
}

static void put_model(struct server *s, struct jw *w, const char *name) {
    char when[40];
    struct tm tm;
    const time_t t = (time_t)s->created;
    const struct model *m = s->served->core.m;
    const int64_t n_ctx = session_get_opts(s->served->core.s)->n_ctx;
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&t, &tm));
    jw_obj(w, name);
    jw_str(w, "id", s->served->file.id);
    jw_str(w, "object", "model");
    jw_str(w, "type", "model");
    jw_i64(w, "created", s->created);
    jw_str(w, "created_at", when);
    jw_str(w, "owned_by", "hone");
    jw_str(w, "display_name", s->served->file.id);
    jw_i64(w, "max_model_len", n_ctx);
    jw_i64(w, "context_window", n_ctx);
    jw_i64(w, "max_input_tokens", n_ctx);
    jw_i64(w, "max_tokens", n_ctx);
    jw_obj(w, "meta");
    jw_i64(w, "n_ctx", n_ctx);
    jw_i64(w, "n_ctx_train", m->hp.d[HD_CTX]);
    jw_i64(w, "n_params", s->served->file.n_params);
    jw_u64(w, "size_bytes", s->served->file.n_bytes);
    jw_str(w, "type", s->served->file.type);
    jw_i64(w, "vocab", m->hp.d[HD_VOCAB]);
    jw_str(w, "file", s->served->file.file);
    jw_str(w, "architecture", m->arch->name);
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
    put_model(s, &w, NULL);
    jw_end(&w);
    jw_str(&w, "first_id", s->served->file.id);
    jw_str(&w, "last_id", s->served->file.id);
    jw_bool(&w, "has_more", false);
    jw_end(&w);
    buf_str(&b, "\n");
    answer_json(j, &b);
    buf_release(&b);
}

/* Tells whether the n bytes at p, of a path, are the text s: as it is, or with %XX for bytes, as
 * libraries write the slash of a name. */
static bool is_named(const char *p, size_t n, const char *s) {
    for (size_t i = 0; i < n; i++, s++) {
        char c = p[i];
        if (c == '%' && *s != '%' && n - i > 2) {
            const char hex[] = {p[i + 1], p[i + 2], 0};
            c = (char)strtoul(hex, NULL, 16);
            i += 2;
        }
        if (!*s || c != *s) return false;
    }
    return !*s;
}

void info_model(struct server *s, struct job *j, const char *id, size_t n) {
    struct buf b = {0};
    struct jw w;
    struct fault f = {0};
    if (!is_named(id, n, s->served->file.id)) {
        fault_set(&f, 404, "model_not_found", "model", "there is no such model, but '%.100s'",
                  s->served->file.id);
        route_fail(j, &f);
        return;
    }
    jw_init(&w, &b, false);
    put_model(s, &w, NULL);
    buf_str(&b, "\n");
    answer_json(j, &b);
    buf_release(&b);
}

/* Writes the texts of special tokens, which templates and other tools ask for; null: none. */
static void put_specials(struct jw *w, const struct tok *t) {
    static const struct {
        const char *name;
        enum tok_special which;
    } rows[] = {{"bos_token", TS_BOS}, {"eos_token", TS_EOS}, {"pad_token", TS_PAD}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const int64_t id = tok_special(t, rows[i].which);
        struct buf text = {0};
        if (id >= 0) tok_decode(t, (int32_t)id, true, &text);
        if (id < 0)
            jw_null(w, rows[i].name);
        else
            jw_strn(w, rows[i].name, text.data ? text.data : "", text.len);
        buf_release(&text);
    }
}

void info_tokenizer(struct server *s, struct job *j) {
    struct buf b = {0};
    struct jw w;
    jw_init(&w, &b, false);
    jw_obj(&w, NULL);
    jw_str(&w, "tokenizer_class", tok_model(s->served->core.m->tok));
    put_specials(&w, s->served->core.m->tok);
    jw_bool(&w, "add_bos_token", tok_add_bos(s->served->core.m->tok));
    jw_i64(&w, "model_max_length", session_get_opts(s->served->core.s)->n_ctx);
    jw_str(&w, "chat_template", s->served->tmpl);
    jw_end(&w);
    buf_str(&b, "\n");
    answer_json(j, &b);
    buf_release(&b);
}

void info_props(struct server *s, struct job *j) {
    struct buf b = {0};
    struct jw w;
    const struct sample_opts *o = &s->served->core.sample;
    pthread_mutex_lock(&s->lock);
    const struct sched_counts n = s->served->counts;
    pthread_mutex_unlock(&s->lock);
    jw_init(&w, &b, false);
    jw_obj(&w, NULL);
    jw_obj(&w, "default_generation_settings");
    jw_i64(&w, "n_ctx", session_get_opts(s->served->core.s)->n_ctx);
    jw_obj(&w, "params");
    jw_num(&w, "temperature", (double)o->temp);
    jw_i64(&w, "top_k", o->top_k);
    jw_num(&w, "top_p", (double)o->top_p);
    jw_num(&w, "min_p", (double)o->min_p);
    jw_num(&w, "repeat_penalty", (double)o->repeat_penalty);
    jw_i64(&w, "repeat_last_n", o->repeat_last_n);
    jw_num(&w, "presence_penalty", (double)o->presence_penalty);
    jw_num(&w, "frequency_penalty", (double)o->frequency_penalty);
    jw_i64(&w, "n_predict", s->o.n_max);
    jw_end(&w);
    jw_end(&w);
    jw_i64(&w, "total_slots", s->o.n_live);
    jw_str(&w, "model_path", s->served->file.file);
    jw_str(&w, "chat_template", s->served->tmpl);
    put_specials(&w, s->served->core.m->tok);
    jw_obj(&w, "modalities");
    jw_bool(&w, "vision", false);
    jw_bool(&w, "audio", false);
    jw_end(&w);
    jw_str(&w, "build_info", "hone " HONE_VERSION);
    jw_bool(&w, "is_sleeping", false);
    jw_str(&w, "tool_format",
           s->served->generic                  ? "generic"
           : s->served->fmt == toolfmt_plain() ? NULL
                                               : toolfmt_name(s->served->fmt));
    jw_obj(&w, "memory");
    jw_u64(&w, "context_bytes", n.budget_bytes);
    jw_u64(&w, "held_bytes", n.held_bytes);
    jw_end(&w);
    jw_end(&w);
    buf_str(&b, "\n");
    answer_json(j, &b);
    buf_release(&b);
}

void info_slots(struct server *s, struct job *j) {
    struct fault f = {0};
    pthread_mutex_lock(&s->lock);
    struct buf b = {0};
    buf_str(&b, s->served->slots.data ? s->served->slots.data : "[]");
    const bool full = s->served->counts.n_running >= s->o.n_live;
    pthread_mutex_unlock(&s->lock);
    buf_str(&b, "\n");
    if (full && http_is(j->req.query, "fail_on_no_slot=1")) {
        fault_set(&f, 503, NULL, NULL, "all slots are in use");
        route_fail(j, &f);
    } else {
        answer_json(j, &b);
    }
    buf_release(&b);
}

void info_metrics(struct server *s, struct job *j) {
    struct buf b = {0};
    const struct net_counts net = net_counts(s->net);
    pthread_mutex_lock(&s->lock);
    const struct sched_counts n = s->served->counts;
    const double requests = (double)s->n_requests, failures = (double)s->n_failed,
                 left = (double)s->n_left + (double)n.n_cancelled;
    ledger_metrics(&s->ledger, &b);
    pthread_mutex_unlock(&s->lock);
    const struct {
        const char *name, *type, *help;
        double v;
    } rows[] = {
        {"hone_requests_prepared_total", "counter", "requests that were prepared", requests},
        {"hone_requests_failed_total", "counter", "of them that ended with an error", failures},
        {"hone_requests_cancelled_total", "counter", "clients that left", left},
        {"hone_prompt_tokens_total", "counter", "tokens of prompts", (double)n.n_prompt},
        {"hone_prompt_tokens_cached_total", "counter", "of them known from earlier requests",
         (double)n.n_cached},
        {"hone_prompt_tokens_computed_total", "counter",
         "tokens of prompts that were computed, those of answers that had to wait too",
         (double)n.n_fed},
        {"hone_output_tokens_total", "counter", "tokens made", (double)n.n_out},
        {"hone_reasoning_tokens_total", "counter", "of them thinking", (double)n.n_think},
        {"hone_constrained_tokens_total", "counter", "tokens that a schema or grammar had a say in",
         (double)n.n_held},
        {"hone_overruled_tokens_total", "counter",
         "of them those that the model alone would have said otherwise", (double)n.n_overruled},
        {"hone_overruled_name_tokens_total", "counter",
         "overruled in names of tools, where tools are offered",
         (double)n.n_overruled_at[TOOL_PLACE_NAME]},
        {"hone_overruled_key_tokens_total", "counter", "the same in names of arguments",
         (double)n.n_overruled_at[TOOL_PLACE_KEY]},
        {"hone_overruled_value_tokens_total", "counter", "the same in values",
         (double)n.n_overruled_at[TOOL_PLACE_VALUE]},
        {"hone_overruled_structure_tokens_total", "counter", "the same in what stands around them",
         (double)n.n_overruled_at[TOOL_PLACE_STRUCTURE]},
        {"hone_overruled_text_tokens_total", "counter", "the same outside of complete calls",
         (double)n.n_overruled_at[TOOL_PLACE_TEXT]},
        {"hone_forced_tokens_total", "counter", "tokens not drawn, since no others could come",
         (double)n.n_jumped},
        {"hone_draft_tokens_total", "counter", "tokens that were guessed", (double)n.n_guessed},
        {"hone_draft_right_total", "counter", "of them those that came", (double)n.n_right},
        {"hone_preemptions_total", "counter", "answers that lost their memory for a while",
         (double)n.n_preempted},
        {"hone_cache_evictions_total", "counter", "kept sequences that were dropped",
         (double)n.prefix.n_dropped},
        {"hone_http_rejected_total", "counter", "requests that were none", (double)net.refused},
        {"hone_steps_total", "counter", "passes", (double)n.n_steps},
        {"hone_rows_total", "counter", "tokens in passes", (double)n.n_rows},
        {"hone_busy_seconds_total", "counter", "time spent in passes", n.busy_s},
        {"hone_requests_running", "gauge", "sequences being computed", (double)n.n_running},
        {"hone_requests_waiting", "gauge", "answers that wait for a place", (double)n.n_waiting},
        {"hone_connections", "gauge", "open connections", (double)net.open},
        {"hone_kept_sequences", "gauge", "sequences kept for later requests",
         (double)n.prefix.n_kept},
        {"hone_disk_cache_bytes", "gauge", "bytes of files in --cache-dir",
         (double)n.shelf.n_bytes},
        {"hone_disk_cache_sequences", "gauge", "sequences there", (double)n.shelf.n},
        {"hone_disk_cache_loaded_total", "counter", "of them read again", (double)n.shelf.n_loaded},
        {"hone_disk_cache_saved_total", "counter", "sequences written there",
         (double)n.shelf.n_saved},
        {"hone_disk_cache_evictions_total", "counter", "files that made room for others",
         (double)n.shelf.n_dropped},
        {"hone_disk_cache_refused_total", "counter", "files that were damaged, and removed",
         (double)n.shelf.n_refused},
        {"hone_context_bytes", "gauge", "bytes of keys, values and states in use",
         (double)n.held_bytes},
        {"hone_context_budget_bytes", "gauge", "bytes that they may take", (double)n.budget_bytes},
        {"hone_uptime_seconds", "gauge", "since the start", prog_now_s() - s->t_start},
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
    hist_put(&n.interval, "hone_token_interval_seconds", "between tokens of an answer", &b);
    hist_put(&n.step, "hone_step_seconds", "a pass", &b);
    hist_put(&n.mask, "hone_mask_seconds", "choosing a token that a schema or grammar has a say in",
             &b);
    buf_fmt(&b,
            "# HELP hone_info what this is\n# TYPE hone_info gauge\n"
            "hone_info{version=\"%s\",type=\"%s\",device=\"%s\"} 1\n",
            HONE_VERSION, s->served->file.type, session_device(s->served->core.s));
    job_answer(j, 200, "text/plain; version=0.0.4; charset=utf-8", b.data, b.len);
    buf_release(&b);
}
