// SPDX-License-Identifier: MIT
/* jobs/serve_job.c - hone serve: checks the options, runs the server, prints the ready line.
 * serve_files.c finds the files; the server itself is in serve/. */
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/serve_files.h"
#include "jobs/serve_job.h"
#include "base/io.h"
#include "base/lines.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/os.h"
#include "base/str.h"
#include "base/num.h"
#include "base/progress.h"
#include "runtime/generate/drafter.h"
#include "runtime/engine/kv_type.h"
#include "runtime/vision/image.h"
#include "serve/ask.h"
#include "serve/record_dedup.h"
#include "serve/preset.h"
#include "serve/serve.h"

#define CONTINUED_S 600 /* a conversation without requests for this time has ended */
enum { MAX_KEYS_FILE = 1 << 20, MAX_TEMPLATE = 4 << 20, LEAST_KEY = 16, LEAST_BODY = 1024 };

/* ---- keys ---- */

/* Returns whether the address is reachable only from this machine. */
static bool is_loopback(const char *host) {
    return strncmp(host, "unix:", 5) == 0 || strcmp(host, "localhost") == 0 ||
           strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0;
}

/* Adds an API key. where: its source, for messages. ERR_USAGE: too short. */
static int add_key(struct work *w, struct str_list *keys, const char *key, const char *where,
                   struct err *e) {
    if (strlen(key) < LEAST_KEY)
        return err_set(e, ERR_USAGE, "%s: keys must have at least %d characters", where, LEAST_KEY);
    work_list_add(w, keys, key);
    return 0;
}

/* Reads keys, one per line; '#' begins a comment. */
static int read_keys(struct work *w, const struct serve_job_opts *a, struct str_list *keys,
                     struct err *e) {
    char *text = NULL;
    size_t len = 0;
    int rc = 0;
    if (a->key && *a->key) TRY(add_key(w, keys, arena_strdup(&w->mem, a->key), a->key_from, e));
    if (!a->key_file) return 0;
    TRY(io_read_file(&text, &len, a->key_file, MAX_KEYS_FILE, e));
    for (char *s = text; *s && !rc;) {
        const size_t n = strcspn(s, "\r\n");
        if (n && *s != '#') rc = add_key(w, keys, arena_strndup(&w->mem, s, n), a->key_file, e);
        s += n;
        s += strspn(s, "\r\n");
    }
    free(text);
    return rc        ? rc
           : keys->n ? 0
                     : err_set(e, ERR_USAGE, "%s: there is no key in this file", a->key_file);
}

/* Reads the file of --template; *out is NULL if none is given or the model's template is to be
 * repaired. */
static int read_template(struct work *w, const struct serve_job_opts *a, const char **out,
                         struct err *e) {
    char *text;
    *out = NULL;
    size_t len;
    if (!a->tmpl || serve_repairs(a)) return 0;
    TRY(io_read_file(&text, &len, a->tmpl, MAX_TEMPLATE, e));
    const int rc = str_no_nul(text, len, a->tmpl, e);
    *out = arena_strndup(&w->mem, text, len);
    free(text);
    return rc;
}

/* Reads and checks --preset; without it, leaves *out unchanged. */
static int read_presets(const struct serve_job_opts *a, struct json **out, struct err *e) {
    if (!a->preset) return 0;
    TRY(json_read(out, a->preset, MAX_TEMPLATE, e));
    return presets_check(*out, a->preset, e);
}

/* Returns ERR_USAGE if the server would be reachable without a key. */
static int check_access(const struct serve_job_opts *a, const struct str_list *keys,
                        struct err *e) {
    for (int i = 0; i < a->host.n; i++)
        if (!is_loopback(a->host.v[i]) && !keys->n && !a->no_key)
            return err_set(e, ERR_USAGE,
                           "--host %s is reachable from other machines, so a key is needed: "
                           "--api-key-file FILE, HONE_API_KEY, or --no-key to serve without one",
                           a->host.v[i]);
    return 0;
}

/* ---- start ---- */

/* Logs the files and the memory of each. */
static void say_files(const struct serve_opts *o, const char *url, uint64_t context_bytes) {
    const double mib = 1 << 20;
    if (o->n_files == 1) {
        log_info("%s: %s, context of %" PRId64
                 " tokens, up to %d concurrent answers, %.1f MiB of context memory",
                 url, o->file[0].id, o->file[0].n_ctx, o->n_live, (double)context_bytes / mib);
        return;
    }
    for (int i = 0; i < o->n_files; i++) {
        const struct serve_file *f = &o->file[i];
        if (f->wrong)
            log_warn("%s cannot be served: %s", f->id, f->wrong);
        else
            log_info("%s: %.1f MiB (%.1f with contexts and buffers); context of %" PRId64
                     " tokens%s%s",
                     f->id, (double)f->n_bytes / mib, (double)f->need / mib, f->n_ctx,
                     i == o->first ? "; the default" : "",
                     f->need > o->max_bytes ? "; too large for this server" : "");
    }
    log_info("%s: %d files, loaded on demand; at most %.1f MiB together (--max-memory)", url,
             o->n_files, (double)o->max_bytes / mib);
}

/* Reports that the server is listening, and its address. */
static void say_ready(const struct serve_job_opts *a, const struct serve_opts *o,
                      uint64_t context_bytes, const struct server *s) {
    const int port = serve_port(s);
    struct buf b = {0}, url = {0};
    struct jw w;
    const char *host = o->net.host[0];
    if (strncmp(host, "unix:", 5) == 0)
        buf_str(&url, host);
    else
        buf_fmt(&url, strchr(host, ':') ? "http://[%s]:%d" : "http://%s:%d", host, port);
    jw_init(&w, &b, false);
    jw_obj(&w, NULL);
    jw_str(&w, "url", url.data);
    jw_i64(&w, "pid", os_pid());
    jw_arr(&w, "models");
    for (int i = 0; i < o->n_files; i++) jw_str(&w, NULL, o->file[i].id);
    jw_end(&w);
    jw_end(&w);
    if (a->ready) a->ready(a->ready_ud, b.data);
    say_files(o, url.data, context_bytes);
    if (strncmp(host, "unix:", 5) != 0) {
        log_info("open %s in a browser to chat", url.data);
        log_info("OPENAI_BASE_URL=%s/v1 ANTHROPIC_BASE_URL=%s OLLAMA_HOST=%s", url.data, url.data,
                 url.data);
    }
    if (serve_has_shelf(s))
        log_info("--cache-dir: files in %s contain the texts that clients send", a->cache_dir);
    if (a->record) log_info("--record: %s contains all requests and answers", a->record);
    buf_release(&b);
    buf_release(&url);
}

/* Runs the server until it is stopped. */
static int run_server(const struct serve_job_opts *a, const struct serve_files *f,
                      struct serve_opts *o, struct err *e) {
    struct server *s;
    TRY(serve_new(&s, o, e));
    say_ready(a, o, f->context_bytes, s);
    const int rc = serve_run(s, e);
    serve_free(s);
    return rc;
}

/* Parses options whose values are words. ERR_USAGE: unknown word. */
static int check_args(const struct serve_job_opts *a, struct serve_opts *o, struct err *e) {
    static const char *const think[] = {"auto", "on", "off"};
    /* in the order of enum guards_mode */
    static const char *const constrain[] = {"auto", "strict", "off"};
    if (a->port > 65535)
        return err_set(e, ERR_USAGE, "--port: %lld is not from 0 to 65535", (long long)a->port);
    if (a->parallel < 1 || a->parallel > 256)
        return err_set(e, ERR_USAGE, "--parallel: 1 to 256 sequences");
    if (!(a->drain >= 0)) return err_set(e, ERR_USAGE, "--drain: 0 seconds or more");
    if (a->max_body < LEAST_BODY)
        return err_set(e, ERR_USAGE, "--max-body: %d bytes at least", LEAST_BODY);
    if (!(a->max_step > 0)) return err_set(e, ERR_USAGE, "--max-step: more than 0 seconds");
    if (a->reasoning) {
        o->think = -1;
        for (int i = 0; i < 3; i++)
            if (strcmp(a->reasoning, think[i]) == 0) o->think = i;
        if (o->think < 0)
            return err_set(e, ERR_USAGE, "--reasoning: '%s' is not one of on, off, auto",
                           a->reasoning);
    }
    if (a->constrain) {
        o->constrain = -1;
        for (int i = 0; i < 3; i++)
            if (strcmp(a->constrain, constrain[i]) == 0) o->constrain = i;
        if (o->constrain < 0)
            return err_set(e, ERR_USAGE, "--constrain: '%s' is not one of auto, strict, off",
                           a->constrain);
    }
    o->draft = a->draft && strcmp(a->draft, "off") != 0;
    if (o->draft && strcmp(a->draft, "auto") != 0)
        TRY(drafter_check(a->draft, "--draft", "one of auto, mtp, off", e));
    if (a->special && strcmp(a->special, "plain") != 0 && strcmp(a->special, "parse") != 0)
        return err_set(e, ERR_USAGE, "--special-in-content: '%s' is not one of plain, parse",
                       a->special);
    o->special = a->special && strcmp(a->special, "parse") == 0 ? CHAT_PARSE : CHAT_PLAIN;
    return 0;
}

/* Returns an error unless --mmproj is a projector file. */
static int check_projector(const char *path, struct err *e) {
    struct vision_params ignored;
    struct gguf *g;
    TRY(gguf_open(&g, path, GGUF_TOLERANT, e));
    const int rc = vision_params_read(g, &ignored, e);
    gguf_close(g);
    return rc;
}

/* Appends the members of the JSON object in --kwargs. */
static int kwargs_members(const char *kwargs, struct buf *out, struct err *e) {
    struct json *j = NULL;
    if (!kwargs) return 0;
    if (json_parse(&j, kwargs, strlen(kwargs), "--kwargs", e)) {
        e->code = ERR_USAGE;
        return ERR_USAGE;
    }
    int rc =
        json_type(j) == JSON_OBJ ? 0 : err_set(e, ERR_USAGE, "--kwargs: a JSON object is needed");
    for (const struct json *m = json_first(j); m && !rc; m = json_next(m)) {
        if (out->len) buf_str(out, ", ");
        json_quote(out, json_name(m), strlen(json_name(m)));
        buf_str(out, ": ");
        json_write(out, m);
    }
    json_free(j);
    return rc;
}

/* Sets the options of requests that need no model. */
static int plain_options(struct work *w, const struct serve_job_opts *a, struct str_list *keys,
                         struct buf *kwargs, struct serve_opts *o, struct err *e) {
    *o = (struct serve_opts){.strict = a->strict,
                             .open_objects = a->open_objects,
                             .strict_calls = a->strict_calls,
                             .n_think = a->n_think,
                             .n_max = a->max_tokens ? a->max_tokens : -1,
                             .n_live = (int)a->parallel,
                             .n_queue = (int)min_i64(a->queue, 100000),
                             .max_step_s = a->max_step,
                             .drain_s = a->drain,
                             .cache_dir = a->cache_dir,
                             .cache_bytes = a->cache_disk};
    TRY(check_args(a, o, e));
    TRY(read_keys(w, a, keys, e));
    TRY(check_access(a, keys, e));
    o->tmpl_name = a->tmpl ? "--template" : NULL;
    o->mmproj = a->mmproj;
    if (a->mmproj) TRY(check_projector(a->mmproj, e));
    if (a->record_last && !a->record)
        return err_set(e, ERR_USAGE,
                       "--record-last selects the lines that --record FILE keeps: give both");
    TRY(kwargs_members(a->kwargs, kwargs, e));
    o->kwargs = kwargs->len ? kwargs->data : NULL;
    o->key = keys->v, o->n_keys = keys->n;
    o->allow_host = a->allow_host.v, o->n_allow_hosts = a->allow_host.n;
    o->allow_origin = a->allow_origin.v, o->n_allow_origins = a->allow_origin.n;
    return 0;
}

/* Writes a line of the log (ud); ignores failures. */
static void put_log(void *ud, const char *line) {
    (void)lines_put(ud, line);
}
/* Writes a line of the record (ud); warns if that fails. */
static void put_record(void *ud, const char *line) {
    if (!lines_put(ud, line)) log_warn("--record: a line was not written");
}

/* Sets where log lines go; opens the file of --log if given. */
static int open_log(const struct serve_job_opts *a, struct lines **l, struct serve_opts *o,
                    struct err *e) {
    o->log = a->log_line;
    o->log_ud = a->log_ud;
    if (!a->log) return 0;
    TRY(lines_open(l, a->log, "--log", false, e));
    o->log = put_log;
    o->log_ud = *l;
    return 0;
}

/* Passes a line to the filter that drops superseded requests (ud). */
static void record_latest(void *ud, const char *line) {
    record_dedup_add(ud, line, progress_now_s());
}

/* Opens the record, readable only by its owner because it contains all requests and answers. */
static int open_record(const struct serve_job_opts *a, struct lines **l, struct serve_opts *o,
                       struct err *e) {
    if (!a->record) return 0;
    TRY(lines_open(l, a->record, "--record", true, e));
    o->record = put_record;
    o->record_ud = *l;
    log_info("--record: %s receives everything that clients send, and every answer", a->record);
    return 0;
}

/* Opens log and record, and serves the files. */
static int serve_with_files(const struct serve_job_opts *a, struct serve_files *f,
                            struct serve_opts *o, struct err *e) {
    struct record_dedup *latest = NULL;
    struct lines *log = NULL, *record = NULL;
    o->file = f->v;
    o->n_files = f->n;
    o->first = f->first;
    o->max_bytes = f->max_bytes;
    o->load = serve_files_load;
    o->unload = serve_files_unload;
    o->load_ud = f;
    int rc = open_log(a, &log, o, e);
    if (!rc) rc = open_record(a, &record, o, e);
    if (!rc && a->record && a->record_last) {
        latest = record_dedup_new(CONTINUED_S, put_record, record);
        o->record = record_latest;
        o->record_ud = latest;
    }
    if (!rc) rc = run_server(a, f, o, e);
    record_dedup_free(latest);
    lines_close(log);
    lines_close(record);
    return rc;
}

const struct serve_job_opts serve_job_usual = {.kv_type = KV_USUAL,
                                               .act = ACT_FAST,
                                               .port = 8080,
                                               .parallel = 4,
                                               .queue = 64,
                                               .max_connections = 1024,
                                               .max_body = 32 << 20,
                                               .cache_disk = UINT64_C(32) << 30,
                                               .max_step = 1,
                                               .n_think = -1,
                                               .drain = 30};

int serve_job_run(struct work *w, const struct serve_job_opts *a, struct err *e) {
    struct serve_opts o;
    struct serve_files f = {0};
    struct str_list keys = {0}, host = a->host;
    struct json *presets = NULL;
    struct buf kwargs = {0};
    const char *tmpl = NULL;
    if (!host.n) work_list_add(w, &host, "127.0.0.1");
    int rc = plain_options(w, a, &keys, &kwargs, &o, e);
    if (!rc) rc = read_template(w, a, &tmpl, e);
    if (!rc) rc = read_presets(a, &presets, e);
    if (!rc) rc = serve_files_read(&f, w, a, tmpl, e);
    if (!rc) {
        o.presets = presets;
        o.net = (struct net_opts){.host = host.v,
                                  .n_hosts = host.n,
                                  .port = (int)a->port,
                                  .max_body = (size_t)a->max_body,
                                  .max_connections =
                                      (int)min_i64(max_i64(a->max_connections, 1), 60000)};
        rc = serve_with_files(a, &f, &o, e);
    }
    serve_files_release(&f);
    json_free(presets);
    buf_release(&kwargs);
    return rc;
}
