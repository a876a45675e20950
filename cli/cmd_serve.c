// SPDX-License-Identifier: MIT
/* cli/cmd_serve.c - hone serve: options of a server. What it does is in serve/. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "runtime/generate/run_set.h"
#include "core/io.h"
#include "core/log.h"
#include "core/mem.h"
#include "core/num.h"
#include "models/sizes.h"
#include "runtime/engine/kv_type.h"
#include "serve/ask.h"
#include "serve/serve.h"

enum { MAX_KEYS_FILE = 1 << 20, LEAST_KEY = 16, CTX_STEP = 4096 };

struct serve_args {
    struct str_list host, allow_host, allow_origin;
    const char *alias, *kv_type, *act, *kwargs, *reasoning, *key_file, *log, *special, *pre;
    uint64_t context_memory, max_body;
    int64_t port, ctx, parallel, queue, max_connections, max_tokens, n_think;
    double max_step, drain;
    bool no_key, strict;
};
struct given {
    const char *name, *text;
};

/* ---- keys ---- */

static bool is_loopback(const char *host) {
    return strncmp(host, "unix:", 5) == 0 || strcmp(host, "localhost") == 0 ||
           strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0;
}

static int add_key(struct cli *c, struct str_list *keys, const char *key, const char *where,
                   struct err *e) {
    if (strlen(key) < LEAST_KEY)
        return err_set(e, ERR_USAGE, "%s: keys have %d characters at least", where, LEAST_KEY);
    work_list_add(&c->work, keys, key);
    return 0;
}

/* One key a line; lines that begin with '#' are for people. */
static int read_keys(struct cli *c, const struct serve_args *a, struct str_list *keys,
                     struct err *e) {
    char *text = NULL;
    size_t len = 0;
    const char *env = getenv("HONE_API_KEY");
    int rc = 0;
    if (env && *env) TRY(add_key(c, keys, arena_strdup(&c->work.mem, env), "HONE_API_KEY", e));
    if (!a->key_file) return 0;
    TRY(io_read_file(&text, &len, a->key_file, MAX_KEYS_FILE, e));
    for (char *s = text; *s && !rc;) {
        const size_t n = strcspn(s, "\r\n");
        if (n && *s != '#')
            rc = add_key(c, keys, arena_strndup(&c->work.mem, s, n), a->key_file, e);
        s += n;
        s += strspn(s, "\r\n");
    }
    free(text);
    return rc        ? rc
           : keys->n ? 0
                     : err_set(e, ERR_USAGE, "%s: there is no key in this file", a->key_file);
}

static int check_access(const struct serve_args *a, const struct str_list *keys, struct err *e) {
    for (int i = 0; i < a->host.n; i++)
        if (!is_loopback(a->host.v[i]) && !keys->n && !a->no_key)
            return err_set(e, ERR_USAGE,
                           "--host %s can be reached by others, so a key is needed: "
                           "--api-key-file FILE, HONE_API_KEY, or --no-key if everybody may ask",
                           a->host.v[i]);
    return 0;
}

/* ---- memory ---- */

/* The longest context of one sequence that takes at most half of the memory. */
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

static void log_line(void *ud, const char *line) {
    FILE *f = ud;
    fprintf(f, "%s\n", line);
    fflush(f);
}

/* The file's name without folders and without .gguf. */
static const char *stem(struct cli *c, const char *path) {
    const char *base = io_base(path);
    const size_t n = strlen(base);
    return n > 5 && strcmp(base + n - 5, ".gguf") == 0 ? arena_strndup(&c->work.mem, base, n - 5)
                                                       : base;
}

static void say_ready(struct cli *c, const struct serve_opts *o, int port) {
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
    jw_str(&w, NULL, o->alias);
    jw_end(&w);
    jw_end(&w);
    fprintf(c->out, "%s\n", b.data);
    fflush(c->out);
    log_info("%s: %s, a context of %" PRId64 " tokens, %d at a time, %.1f MiB of context memory",
             url.data, o->alias, session_get_opts(o->s)->n_ctx, o->n_live,
             (double)o->context_bytes / (1 << 20));
    log_info("OPENAI_BASE_URL=%s/v1", url.data);
    buf_release(&b);
    buf_release(&url);
}

static int serve(struct cli *c, struct serve_opts *o, struct err *e) {
    struct server *s;
    TRY(serve_new(&s, o, e));
    say_ready(c, o, serve_port(s));
    const int rc = serve_run(s, e);
    serve_free(s);
    return rc;
}

static int check_args(const struct serve_args *a, struct serve_opts *o, struct err *e) {
    static const char *const think[] = {"auto", "on", "off"};
    if (a->port > 65535) return err_set(e, ERR_USAGE, "--port: 0 to 65535");
    if (a->parallel < 1 || a->parallel > 256)
        return err_set(e, ERR_USAGE, "--parallel: 1 to 256 sequences");
    if (!(a->max_step > 0)) return err_set(e, ERR_USAGE, "--max-step: more than 0 seconds");
    if (a->reasoning) {
        o->think = -1;
        for (int i = 0; i < 3; i++)
            if (strcmp(a->reasoning, think[i]) == 0) o->think = i;
        if (o->think < 0)
            return err_set(e, ERR_USAGE, "--reasoning: '%s' is not one of on, off, auto",
                           a->reasoning);
    }
    if (a->special && strcmp(a->special, "plain") != 0 && strcmp(a->special, "parse") != 0)
        return err_set(e, ERR_USAGE, "--special-in-content: '%s' is not one of plain, parse",
                       a->special);
    o->special = a->special && strcmp(a->special, "parse") == 0 ? CHAT_PARSE : CHAT_PLAIN;
    return 0;
}

/* Members of the object that --kwargs is. */
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

/* The type that most of its bytes are of, and its size. */
static void describe(struct serve_opts *o) {
    uint64_t bytes[QT_COUNT] = {0};
    int most = 0;
    const struct gguf *g = o->m->gguf;
    for (int64_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        int64_t n = 1;
        for (int k = 0; k < 4; k++) n *= t->ne[k];
        o->n_params += n;
        bytes[t->type] += t->n_bytes;
        if (bytes[t->type] > bytes[most]) most = (int)t->type;
    }
    o->type = qtype_name((enum qtype)most);
    o->n_bytes = gguf_file_bytes(g);
}

static int open_session(struct cli *c, const struct serve_args *a, struct serve_opts *o,
                        struct session **out, struct err *e) {
    struct session_opts so = {.isa = c->work.isa,
                              .device = c->work.device,
                              .pack = true,
                              .pack_cache = c->work.pack_cache,
                              .guests = true,
                              .whole = true};
    TRY(kv_type_parse(a->kv_type, "--kv-type", &so.kv_k, &so.kv_v, e));
    TRY(act_parse(a->act, &so.act, e));
    TRY(work_pool(&c->work, e));
    so.pool = c->work.pool;
    const uint64_t quarter = mem_available() / 4, most = (uint64_t)8 << 30;
    o->context_bytes = a->context_memory ? a->context_memory : quarter < most ? quarter : most;
    so.n_ctx = a->ctx ? a->ctx : usual_ctx(o->m, so.kv_k, so.kv_v, o->context_bytes);
    TRY(session_new(out, o->m, &so, e));
    const uint64_t one = session_seq_bytes(*out, so.n_ctx) + session_seq_bytes(*out, 1);
    if (one > o->context_bytes)
        return err_set(e, ERR_SYS,
                       "a context of %" PRId64 " tokens takes %" PRIu64
                       " bytes, and --context-memory is %" PRIu64 ": use a smaller --ctx",
                       so.n_ctx, one, o->context_bytes);
    return 0;
}

static int go(struct cli *c, const struct serve_args *a, const struct given *g, size_t n,
              struct err *e) {
    struct serve_opts o = {.alias = a->alias ? a->alias : stem(c, c->arg[0]),
                           .file = io_base(c->arg[0]),
                           .strict = a->strict,
                           .n_think = a->n_think,
                           .n_max = a->max_tokens ? a->max_tokens : -1,
                           .n_live = (int)a->parallel,
                           .n_queue = (int)min_i64(a->queue, 100000),
                           .max_step_s = a->max_step,
                           .drain_s = a->drain};
    struct str_list keys = {0}, host = a->host;
    struct run_set set;
    struct session *s = NULL;
    struct model *m = NULL;
    struct buf kwargs = {0};
    FILE *log = NULL;
    if (!host.n) work_list_add(&c->work, &host, "127.0.0.1");
    TRY(check_args(a, &o, e));
    TRY(read_keys(c, a, &keys, e));
    TRY(check_access(a, &keys, e));
    TRY(kwargs_members(a->kwargs, &kwargs, e));
    TRY(model_open(&m, c->arg[0], e));
    o.m = m;
    o.net =
        (struct net_opts){.host = host.v,
                          .n_hosts = host.n,
                          .port = (int)a->port,
                          .max_body = (size_t)a->max_body,
                          .max_connections = (int)min_i64(max_i64(a->max_connections, 1), 60000)};
    describe(&o);
    o.kwargs = kwargs.len ? kwargs.data : NULL;
    o.key = keys.v, o.n_keys = keys.n;
    o.allow_host = a->allow_host.v, o.n_allow_hosts = a->allow_host.n;
    o.allow_origin = a->allow_origin.v, o.n_allow_origins = a->allow_origin.n;
    int rc = model_use_pre(m, a->pre, e);
    if (!rc) rc = model_need_tok(m, e);
    if (!rc) rc = run_set_init(&set, m->gguf, e);
    for (size_t i = 0; i < n && !rc; i++)
        if (g[i].text) rc = run_set(&set, "--", g[i].name, g[i].text, e);
    if (!rc) {
        o.sample = set.sample;
        o.seed = set.seed_given ? set.seed : -1;
        if (a->log && strcmp(a->log, "off") != 0) log = fopen(a->log, "ae");
        if (a->log && strcmp(a->log, "off") != 0 && !log) rc = err_path(e, "--log %s", a->log);
        o.log = a->log && strcmp(a->log, "off") == 0 ? NULL : log_line;
        o.log_ud = log ? log : stderr;
    }
    if (!rc) rc = open_session(c, a, &o, &s, e);
    o.s = s;
    if (!rc) rc = serve(c, &o, e);
    if (log) fclose(log);
    session_free(s);
    model_close(m);
    buf_release(&kwargs);
    return rc;
}

int cmd_serve(struct cli *c, int argc, char **argv, struct err *e) {
    struct serve_args a = {.kv_type = KV_USUAL,
                           .act = ACT_FAST,
                           .port = 8080,
                           .parallel = 4,
                           .queue = 64,
                           .max_connections = 1024,
                           .max_body = 32 << 20,
                           .max_step = 1,
                           .n_think = -1,
                           .drain = 30};
    struct given g[] = {{"temp", NULL},  {"top-k", NULL},          {"top-p", NULL},
                        {"min-p", NULL}, {"repeat-penalty", NULL}, {"repeat-last-n", NULL},
                        {"seed", NULL}};
    const struct opt opts[] = {
        {"host", 0, OPT_LIST, &a.host, "ADDR", "where to listen (127.0.0.1), or unix:PATH"},
        {"port", 0, OPT_I64, &a.port, "N", "port (8080); 0: any, told on standard output"},
        {"alias", 0, OPT_STR, &a.alias, "NAME", "the model's id for clients (the file's name)"},
        {"ctx", 0, OPT_I64, &a.ctx, "N",
         "longest context of a request (as --context-memory allows)"},
        {"parallel", 0, OPT_I64, &a.parallel, "N", "answers computed at once (4)"},
        {"context-memory", 0, OPT_SIZE, &a.context_memory, "SIZE",
         "for all contexts, kept ones too (a quarter of what is free, at most 8 GiB)"},
        {"api-key-file", 0, OPT_STR, &a.key_file, "FILE",
         "keys that clients must give, one a line"},
        {"no-key", 0, OPT_FLAG, &a.no_key, NULL, "everybody who reaches --host may ask"},
        {"max-tokens", 0, OPT_I64, &a.max_tokens, "N",
         "of an answer, for requests that do not say"},
        {"reasoning", 0, OPT_STR, &a.reasoning, "HOW", "thinking: on, off, auto (default)"},
        {"reasoning-budget", 0, OPT_I64, &a.n_think, "N",
         "tokens of thinking, then it is ended; for requests that do not say"},
        {"kwargs", 0, OPT_STR, &a.kwargs, "JSON", "more variables for the template"},
        {"temp", 0, OPT_STR, &g[0].text, "T", "for requests that do not say, as the five below"},
        {"top-k", 0, OPT_STR, &g[1].text, "K", "only the K likeliest; 0: all"},
        {"top-p", 0, OPT_STR, &g[2].text, "P", "only the likeliest with total probability P"},
        {"min-p", 0, OPT_STR, &g[3].text, "P", "none below P times the likeliest"},
        {"repeat-penalty", 0, OPT_STR, &g[4].text, "X", "penalty for repeated tokens; 1: none"},
        {"repeat-last-n", 0, OPT_STR, &g[5].text, "N", "how far back the penalties look (64)"},
        {"seed", 0, OPT_STR, &g[6].text, "N", "same seed, same text (default: another each time)"},
        {"kv-type", 0, OPT_STR, &a.kv_type, "T",
         "cache of keys and values: f16 (default), q8_0, ..."},
        {"act", 0, OPT_STR, &a.act, "MODE", "activations: f32 or q8 (default)"},
        {"max-step", 0, OPT_NUM, &a.max_step, "SECONDS",
         "a running answer waits so long for others' prompts (1)"},
        {"queue", 0, OPT_I64, &a.queue, "N", "requests that may wait (64)"},
        {"log", 0, OPT_STR, &a.log, "FILE",
         "a line of JSON per request (standard error); off: none"},
        {"strict", 0, OPT_FLAG, &a.strict, NULL, "other model ids than --alias are refused"},
        {"allow-host", 0, OPT_LIST, &a.allow_host, "NAME", "a name of this server in Host"},
        {"allow-origin", 0, OPT_LIST, &a.allow_origin, "URL", "an origin whose pages may ask"},
        {"special-in-content", 0, OPT_STR, &a.special, "HOW",
         "texts of control tokens in messages: plain (default), parse"},
        {"drain", 0, OPT_NUM, &a.drain, "SECONDS",
         "answers may take so long to end at the end (30)"},
        {"max-connections", 0, OPT_I64, &a.max_connections, "N", "open at once (1024)"},
        {"max-body", 0, OPT_SIZE, &a.max_body, "SIZE", "of a request (32 MiB)"},
        {"pre", 0, OPT_STR, &a.pre, "NAME", CLI_HELP_PRE},
    };
    const struct cmd_spec spec = {
        .name = "serve",
        .synopsis = "MODEL.gguf [--host ADDR] [--port N] [--ctx N] [--parallel N] "
                    "[--context-memory SIZE]",
        .about =
            "Answers programs that speak HTTP as OpenAI's clients do, from this file, with the "
            "model's own\n"
            "template. Many at once; each gets the answer that it would get alone. Ctrl-C lets "
            "answers end.",
        .opts = opts,
        .n_opts = (int)COUNT_OF(opts),
        .min_args = 1,
        .max_args = 1,
    };
    TRY(cli_parse(c, &spec, argc, argv, e));
    return c->done ? 0 : go(c, &a, g, COUNT_OF(g), e);
}
