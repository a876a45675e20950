// SPDX-License-Identifier: MIT
/* jobs/serve_job.c - a server of one model: checks its options, opens the model, says that it is
 * ready. What it does then is in serve/. */
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobs/serve_job.h"
#include "runtime/generate/draft.h"
#include "runtime/generate/run_set.h"
#include "core/io.h"
#include "core/lines.h"
#include "core/log.h"
#include "core/mem.h"
#include "core/str.h"
#include "core/num.h"
#include "models/sizes.h"
#include "runtime/engine/kv_type.h"
#include "core/prog.h"
#include "serve/ask.h"
#include "serve/latest.h"
#include "serve/preset.h"
#include "serve/serve.h"

#define CONTINUED_S 600 /* a conversation goes on within it, or has ended */
enum {
    MAX_KEYS_FILE = 1 << 20,
    MAX_TEMPLATE = 4 << 20,
    LEAST_KEY = 16,
    LEAST_BODY = 1024,
    CTX_STEP = 4096
};

/* ---- keys ---- */

static bool is_loopback(const char *host) {
    return strncmp(host, "unix:", 5) == 0 || strcmp(host, "localhost") == 0 ||
           strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0;
}

static int add_key(struct work *w, struct str_list *keys, const char *key, const char *where,
                   struct err *e) {
    if (strlen(key) < LEAST_KEY)
        return err_set(e, ERR_USAGE, "%s: keys have %d characters at least", where, LEAST_KEY);
    work_list_add(w, keys, key);
    return 0;
}

/* Reads keys, one a line; lines that begin with '#' are for people. */
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

static int read_template(struct work *w, const struct serve_job_opts *a, struct serve_opts *o,
                         struct err *e) {
    char *text;
    size_t len;
    if (!a->tmpl) return 0;
    TRY(io_read_file(&text, &len, a->tmpl, MAX_TEMPLATE, e));
    const int rc = str_no_nul(text, len, a->tmpl, e);
    o->tmpl = arena_strndup(&w->mem, text, len);
    free(text);
    return rc;
}

static int read_presets(const struct serve_job_opts *a, struct json **out, struct err *e) {
    if (!a->preset) return 0;
    TRY(json_read(out, a->preset, MAX_TEMPLATE, e));
    return presets_check(*out, a->preset, e);
}

static int check_access(const struct serve_job_opts *a, const struct str_list *keys,
                        struct err *e) {
    for (int i = 0; i < a->host.n; i++)
        if (!is_loopback(a->host.v[i]) && !keys->n && !a->no_key)
            return err_set(e, ERR_USAGE,
                           "--host %s can be reached by others, so a key is needed: "
                           "--api-key-file FILE, HONE_API_KEY, or --no-key if everybody may ask",
                           a->host.v[i]);
    return 0;
}

/* ---- memory ---- */

/* Returns the longest context of one sequence that takes at most half of the memory. */
static int64_t usual_ctx(const struct model *m, const struct kv_type *k, const struct kv_type *v,
                         uint64_t bytes) {
    struct sizes z;
    struct err ignored;
    const struct kv_rows rows = kv_type_rows(k, v);
    const int64_t trained = max_i64(m->hp.d[HD_CTX], 1);
    int64_t best = min_i64(CTX_STEP, trained);
    if (sizes_init(&z, m->arch, &m->hp, &ignored)) return best;
    for (int64_t n = best; n <= trained; n += CTX_STEP) {
        uint64_t kv;
        if (!sizes_kv_paged(&z, 1, n, 512, &rows, &kv) || kv + sizes_state(&z, 0) > bytes / 2)
            break;
        best = n;
    }
    return best;
}

/* ---- start ---- */

/* Returns the file's name without folders and without .gguf. */
static const char *stem(struct work *w, const char *path) {
    const char *base = io_base(path);
    const size_t n = strlen(base);
    return n > 5 && strcmp(base + n - 5, ".gguf") == 0 ? arena_strndup(&w->mem, base, n - 5) : base;
}

static void say_ready(const struct serve_job_opts *a, const struct serve_opts *o,
                      const struct server *s) {
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
    jw_i64(&w, "pid", getpid());
    jw_arr(&w, "models");
    jw_str(&w, NULL, o->file.id);
    jw_end(&w);
    jw_end(&w);
    if (a->ready) a->ready(a->ready_ud, b.data);
    log_info("%s: %s, a context of %" PRId64 " tokens, %d at a time, %.1f MiB of context memory",
             url.data, o->file.id, session_get_opts(o->core.s)->n_ctx, o->n_live,
             (double)o->core.context_bytes / (1 << 20));
    if (strncmp(host, "unix:", 5) != 0) {
        log_info("open %s in a browser to chat", url.data);
        log_info("OPENAI_BASE_URL=%s/v1 ANTHROPIC_BASE_URL=%s OLLAMA_HOST=%s", url.data, url.data,
                 url.data);
    }
    if (serve_has_shelf(s))
        log_info("--cache-dir: files in %s hold what clients send", a->cache_dir);
    if (a->record) log_info("--record: %s holds what clients send, and the answers", a->record);
    buf_release(&b);
    buf_release(&url);
}

static int serve(const struct serve_job_opts *a, struct serve_opts *o, struct err *e) {
    struct server *s;
    TRY(serve_new(&s, o, e));
    say_ready(a, o, s);
    const int rc = serve_run(s, e);
    serve_free(s);
    return rc;
}

static int check_args(const struct serve_job_opts *a, struct serve_opts *o, struct err *e) {
    static const char *const think[] = {"auto", "on", "off"};
    /* The names stand in the order of enum guards_mode. */
    static const char *const constrain[] = {"auto", "strict", "off"};
    if (a->port > 65535) return err_set(e, ERR_USAGE, "--port: 0 to 65535");
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
    if (o->draft && strcmp(a->draft, "auto") != 0 && strcmp(a->draft, "mtp") != 0)
        return err_set(e, ERR_USAGE, "--draft: '%s' is not one of auto, mtp, off", a->draft);
    if (a->special && strcmp(a->special, "plain") != 0 && strcmp(a->special, "parse") != 0)
        return err_set(e, ERR_USAGE, "--special-in-content: '%s' is not one of plain, parse",
                       a->special);
    o->special = a->special && strcmp(a->special, "parse") == 0 ? CHAT_PARSE : CHAT_PLAIN;
    return 0;
}

/* Appends the members of the object that --kwargs is. */
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

/* Describes the model by the type of most of its bytes, and by its size. */
static void describe(struct serve_opts *o) {
    uint64_t bytes[QT_COUNT] = {0};
    int most = 0;
    const struct gguf *g = o->core.m->gguf;
    for (int64_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        int64_t n = 1;
        for (int k = 0; k < 4; k++) n *= t->ne[k];
        o->file.n_params += n;
        bytes[t->type] += t->n_bytes;
        if (bytes[t->type] > bytes[most]) most = (int)t->type;
    }
    o->file.type = qtype_name((enum qtype)most);
    o->file.n_bytes = gguf_file_bytes(g);
}

static int open_session(struct work *w, const struct serve_job_opts *a, struct serve_opts *o,
                        struct session **out, struct err *e) {
    struct session_opts so = {.isa = w->isa,
                              .device = w->device,
                              .pack = true,
                              .pack_cache = w->pack_cache,
                              .guests = true,
                              .whole = true};
    TRY(kv_type_parse(a->kv_type, "--kv-type", &so.kv_k, &so.kv_v, e));
    TRY(act_parse(a->act, &so.act, e));
    TRY(work_pool(w, e));
    so.pool = w->pool;
    const uint64_t quarter = mem_available() / 4, most = (uint64_t)8 << 30;
    o->core.context_bytes = a->context_memory ? a->context_memory : quarter < most ? quarter : most;
    so.n_ctx = a->ctx ? a->ctx : usual_ctx(o->core.m, so.kv_k, so.kv_v, o->core.context_bytes);
    TRY(session_new(out, o->core.m, &so, e));
    const uint64_t room = session_room(*out); /* The room of a device. */
    if (room < o->core.context_bytes) {
        if (a->context_memory)
            log_warn("--context-memory: the device has room for %" PRIu64 " MiB", room >> 20);
        o->core.context_bytes = room;
    }
    const uint64_t one = session_seq_bytes(*out, so.n_ctx) + session_seq_bytes(*out, 1);
    if (one > o->core.context_bytes)
        return err_set(e, ERR_SYS,
                       "a context of %" PRId64 " tokens takes %.1f MiB, and there is room for %.1f "
                       "(--context-memory): give it %" PRIu64 "MiB, or use a smaller --ctx",
                       so.n_ctx, (double)one / (1 << 20), (double)o->core.context_bytes / (1 << 20),
                       (one >> 20) + 1);
    return 0;
}

/* Fills in how requests are answered, as far as that needs no model. */
static int plain_options(struct work *w, const struct serve_job_opts *a, struct str_list *keys,
                         struct buf *kwargs, struct serve_opts *o, struct err *e) {
    *o = (struct serve_opts){
        .file = {.id = a->alias ? a->alias : stem(w, a->path), .file = io_base(a->path)},
        .strict = a->strict,
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
    TRY(read_template(w, a, o, e));
    if (a->record_last && !a->record)
        return err_set(e, ERR_USAGE, "--record-last says which lines --record FILE keeps");
    TRY(kwargs_members(a->kwargs, kwargs, e));
    o->kwargs = kwargs->len ? kwargs->data : NULL;
    o->key = keys->v, o->n_keys = keys->n;
    o->allow_host = a->allow_host.v, o->n_allow_hosts = a->allow_host.n;
    o->allow_origin = a->allow_origin.v, o->n_allow_origins = a->allow_origin.n;
    return 0;
}

static int sampling(const struct serve_job_opts *a, struct serve_opts *o, struct err *e) {
    static const char *const name[SERVE_SETS] = {[SERVE_TEMP] = "temp",
                                                 [SERVE_TOP_K] = "top-k",
                                                 [SERVE_TOP_P] = "top-p",
                                                 [SERVE_MIN_P] = "min-p",
                                                 [SERVE_REPEAT_PENALTY] = "repeat-penalty",
                                                 [SERVE_REPEAT_LAST_N] = "repeat-last-n",
                                                 [SERVE_SEED] = "seed"};
    struct run_set set;
    TRY(run_set_init(&set, o->core.m->gguf, e));
    for (int i = 0; i < SERVE_SETS; i++)
        if (a->set[i]) TRY(run_set(&set, "--", name[i], a->set[i], e));
    o->core.sample = set.sample;
    o->core.seed = set.seed_given ? set.seed : -1;
    return 0;
}

static void put_log(void *ud, const char *line) {
    (void)lines_put(ud, line);
}
static void put_record(void *ud, const char *line) {
    if (!lines_put(ud, line)) log_warn("--record: a line was not written");
}

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

static void record_latest(void *ud, const char *line) {
    latest_add(ud, line, prog_now_s());
}

/* Opens the record for its owner alone, since it holds everything that clients sent, and every
 * answer. */
static int open_record(const struct serve_job_opts *a, struct lines **l, struct serve_opts *o,
                       struct err *e) {
    if (!a->record) return 0;
    TRY(lines_open(l, a->record, "--record", true, e));
    o->record = put_record;
    o->record_ud = *l;
    log_info("--record: %s gets all that clients send, and every answer", a->record);
    return 0;
}

static int with_model(struct work *w, const struct serve_job_opts *a, struct serve_opts *o,
                      struct err *e) {
    struct session *s = NULL, *mtp = NULL;
    struct model *block = NULL;
    struct latest *latest = NULL;
    struct lines *log = NULL, *record = NULL;
    TRY(model_use_pre(o->core.m, a->pre, e));
    TRY(model_need_tok(o->core.m, e));
    TRY(sampling(a, o, e));
    int rc = open_log(a, &log, o, e);
    if (!rc) rc = open_record(a, &record, o, e);
    if (!rc && a->record && a->record_last) {
        latest = latest_new(CONTINUED_S, put_record, record);
        o->record = record_latest;
        o->record_ud = latest;
    }
    if (!rc) rc = open_session(w, a, o, &s, e);
    if (!rc && a->draft && strcmp(a->draft, "mtp") == 0) rc = draft_session(s, &block, &mtp, e);
    o->core.s = s;
    o->core.mtp = mtp;
    if (!rc) rc = serve(a, o, e);
    latest_free(latest);
    lines_close(log);
    lines_close(record);
    session_free(mtp);
    model_close(block);
    session_free(s);
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
    struct str_list keys = {0}, host = a->host;
    struct model *m = NULL;
    struct json *presets = NULL;
    struct buf kwargs = {0};
    if (!host.n) work_list_add(w, &host, "127.0.0.1");
    int rc = plain_options(w, a, &keys, &kwargs, &o, e);
    if (!rc) rc = read_presets(a, &presets, e);
    if (!rc) rc = model_open(&m, a->path, e);
    if (!rc) {
        o.core.m = m;
        o.presets = presets;
        o.net = (struct net_opts){.host = host.v,
                                  .n_hosts = host.n,
                                  .port = (int)a->port,
                                  .max_body = (size_t)a->max_body,
                                  .max_connections =
                                      (int)min_i64(max_i64(a->max_connections, 1), 60000)};
        describe(&o);
        rc = with_model(w, a, &o, e);
    }
    model_close(m);
    json_free(presets);
    buf_release(&kwargs);
    return rc;
}
