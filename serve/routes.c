// SPDX-License-Identifier: MIT
/* serve/routes.c - routing table and access control. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/progress.h"
#include "serve/server.h"

#define NOW(path, fn, api, open)                                                                   \
    { "GET", path, fn, NULL, NULL, api, open, NULL }
#define LATER(method, path, fn, api)                                                               \
    { method, path, NULL, fn, NULL, api, false, NULL }
static const struct route routes[] = {
    NOW("/health", info_health, NULL, true),
    NOW("/v1/health", info_health, NULL, true),
    NOW("/v1/models", info_models, NULL, false),
    NOW("/models", info_models, NULL, false),
    NOW("/props", info_props, NULL, false),
    NOW("/slots", info_slots, NULL, false),
    NOW("/metrics", info_metrics, NULL, false),
    LATER("POST", "/v1/chat/completions", later_generate, &api_chat),
    LATER("POST", "/chat/completions", later_generate, &api_chat),
    LATER("POST", "/v1/chat/completions/input_tokens", later_count, &api_chat),
    LATER("POST", "/chat/completions/input_tokens", later_count, &api_chat),
    LATER("POST", "/v1/completions", later_generate, &api_text),
    LATER("POST", "/completions", later_generate, &api_text),
    LATER("POST", "/v1/messages", later_generate, &api_messages),
    LATER("POST", "/v1/messages/count_tokens", later_count, &api_count),
    LATER("POST", "/v1/responses", later_generate, &api_responses),
    LATER("POST", "/responses", later_generate, &api_responses),
    LATER("POST", "/v1/responses/input_tokens", later_count, &api_responses),
    LATER("POST", "/responses/input_tokens", later_count, &api_responses),
    LATER("POST", "/api/chat", later_generate, &api_ollama_chat),
    LATER("POST", "/api/generate", later_generate, &api_ollama_text),
    {"POST", "/api/show", NULL, NULL, named_show, &api_ollama_chat, false, NULL},
    NOW("/api/tags", info_tags, &api_ollama_chat, false),
    NOW("/api/ps", info_ps, &api_ollama_chat, false),
    NOW("/api/version", info_version, &api_ollama_chat, false),
    NOW("/", info_page, NULL, true),
    NOW("/index.html", info_page, NULL, true),
    LATER("POST", "/tokenize", later_tokenize, NULL),
    LATER("GET", "/tokenizer_info", later_tokenizer, NULL),
    LATER("POST", "/detokenize", later_detokenize, NULL),
    LATER("POST", "/apply-template", later_template, &api_chat),
};
#undef NOW
#undef LATER

#define EMBEDS "embeddings are not supported"
#define STORES "answers are not stored"
#define FILES "file storage is not supported"
#define AGENTS "conversations are not stored; clients keep them"
#define RANKS "reranking is not supported"
#define OTHERS "only text is supported"
/* Endpoints of other servers that hone does not implement; each gets an error message that says
 * why. method NULL: any method, and any path that begins with this one. */
#define NOT(method, path, why, api)                                                                \
    { method, path, NULL, NULL, NULL, api, false, why }
static const struct route missing[] = {
    NOT("POST", "/v1/embeddings", EMBEDS, NULL),
    NOT("POST", "/embeddings", EMBEDS, NULL),
    NOT("POST", "/embedding", EMBEDS, NULL),
    NOT("POST", "/api/embed", EMBEDS, &api_ollama_chat),
    NOT("POST", "/api/embeddings", EMBEDS, &api_ollama_chat),
    NOT("POST", "/v1/rerank", RANKS, NULL),
    NOT("POST", "/rerank", RANKS, NULL),
    NOT("POST", "/v1/reranking", RANKS, NULL),
    NOT("POST", "/reranking", RANKS, NULL),
    NOT("POST", "/v1/score", RANKS, NULL),
    NOT("POST", "/score", RANKS, NULL),
    NOT("POST", "/v1/moderations", "moderation is not supported", NULL),
    NOT("POST", "/infill", "infill (fill-in-the-middle) is not supported", NULL),
    NOT("POST", "/completion", "use /v1/completions", NULL),
    NOT("POST", "/v1/responses/compact",
        "compaction is not supported; clients shorten conversations", NULL),
    NOT(NULL, "/v1/messages/batches", STORES, &api_messages),
    NOT(NULL, "/v1/batches", STORES, NULL),
    NOT(NULL, "/v1/files", FILES, NULL),
    NOT(NULL, "/v1/uploads", FILES, NULL),
    NOT(NULL, "/v1/vector_stores", FILES, NULL),
    NOT(NULL, "/v1/conversations", AGENTS, NULL),
    NOT(NULL, "/v1/assistants", AGENTS, NULL),
    NOT(NULL, "/v1/threads", AGENTS, NULL),
    NOT(NULL, "/v1/fine_tuning", "fine-tuning is not supported", NULL),
    NOT(NULL, "/v1/audio", OTHERS, NULL),
    NOT(NULL, "/v1/images", OTHERS, NULL),
    NOT(NULL, "/v1/videos", OTHERS, NULL),
    NOT(NULL, "/v1/realtime", OTHERS, NULL),
    NOT(NULL, "/lora-adapters", "LoRA adapters are not supported", NULL),
    NOT("POST", "/api/pull", "this server does not download models", &api_ollama_chat),
    NOT("POST", "/api/push", "this server does not upload models", &api_ollama_chat),
    NOT("POST", "/api/create", "this server does not create models", &api_ollama_chat),
    NOT("POST", "/api/copy", "this server does not copy models", &api_ollama_chat),
    NOT("DELETE", "/api/delete", "this server does not delete models", &api_ollama_chat),
    NOT(NULL, "/api/blobs", FILES, &api_ollama_chat),
};
#undef NOT

/* Returns whether p is the path s, ignoring one trailing slash in p. */
static bool path_matches(struct http_text p, const char *s) {
    if (p.n > 1 && p.s[p.n - 1] == '/') p.n--;
    return http_is(p, s);
}

/* Returns whether a request matches a row. */
static bool asks_for(const struct http_req *r, const struct route *m) {
    const size_t n = strlen(m->path);
    if (m->method) return path_matches(r->path, m->path) && http_is(r->method, m->method);
    return r->path.n >= n && memcmp(r->path.s, m->path, n) == 0 &&
           (r->path.n == n || r->path.s[n] == '/');
}

/* Returns the route of a request or NULL. *known: the path exists, possibly with another method. */
static const struct route *find(const struct http_req *r, bool *known) {
    const struct http_text method =
        http_is(r->method, "HEAD") ? (struct http_text){"GET", 3} : r->method;
    *known = false;
    for (size_t i = 0; i < COUNT_OF(routes); i++) {
        if (!path_matches(r->path, routes[i].path)) continue;
        *known = true;
        if (http_is(method, routes[i].method)) return &routes[i];
    }
    return NULL;
}

/* ---- errors ---- */

void route_fail(struct job *j, const struct fault *f) {
    const struct route *r = j->route;
    struct buf b = {0};
    const bool began = job_began(j); /* a ping has started the stream */
    const int status = (r && r->api ? r->api->fail : openai_fail)(f, j->id, began, &b);
    if (began) {
        job_write(j, b.data, b.len);
        job_end(j, false);
    } else {
        if (status == 429 || status == 503 || status == 529) job_field(j, "retry-after", "1");
        job_answer(j, status, "application/json", b.data, b.len);
    }
    buf_release(&b);
}

void route_error(void *ud, int status, const char *why, struct buf *out) {
    struct fault f = {0};
    (void)ud;
    fault_set(&f, status, NULL, NULL, "%s", why);
    (void)openai_fail(&f, "", false, out);
}

void route_refuse(struct server *s, struct job *j, const struct fault *f) {
    ledger_refused(s, j, f);
    route_fail(j, f);
}

void answer_json(struct job *j, const struct buf *b) {
    job_answer(j, 200, "application/json", b->data ? b->data : "", b->len);
}

void answer_line(struct job *j, struct buf *b) {
    buf_str(b, "\n");
    answer_json(j, b);
    buf_release(b);
}

struct http_text route_query(const struct job *j, const char *name) {
    const struct http_text q = j->req.query;
    const size_t n_name = strlen(name);
    for (size_t i = 0; i < q.n;) {
        const char *amp = memchr(q.s + i, '&', q.n - i);
        const size_t n = amp ? (size_t)(amp - q.s) - i : q.n - i;
        if (n > n_name && memcmp(q.s + i, name, n_name) == 0 && q.s[i + n_name] == '=')
            return (struct http_text){q.s + i + n_name + 1, n - n_name - 1};
        i += n + 1;
    }
    return (struct http_text){NULL, 0};
}

/* ---- access ---- */

/* Returns whether both keys are equal, in time that does not depend on their contents. */
static bool same_key(struct http_text given, const char *key) {
    const size_t n = strlen(key);
    unsigned differ = given.n != n;
    for (size_t i = 0; i < given.n; i++)
        differ |= (unsigned char)given.s[i] ^ (unsigned char)key[i < n ? i : 0];
    return !differ;
}

/* Returns whether the request has a valid API key, and sets j->key to its hash. */
static bool has_key(const struct server *s, struct job *j) {
    static const char bearer[] = "Bearer ";
    const size_t n = sizeof bearer - 1;
    const struct http_text *auth = http_find(&j->req, "authorization"),
                           *key = http_find(&j->req, "x-api-key");
    struct http_text by_name = key ? *key : (struct http_text){"", 0}, by_auth = {"", 0};
    int found = -1;
    if (auth && auth->n > n && http_is_word((struct http_text){auth->s, n}, bearer))
        by_auth = (struct http_text){auth->s + n, auth->n - n};
    for (int i = 0; i < s->o.n_keys;
         i++) { /* check both headers: some clients put a placeholder into one */
        const bool named = same_key(by_name, s->o.key[i]),
                   authorized = same_key(by_auth, s->o.key[i]);
        if (named || authorized) found = i;
    }
    if (found < 0) return false;
    j->key = hash_u64(s->o.key[found], strlen(s->o.key[found]));
    return true;
}

/* Returns whether the request's origin is allowed. Web pages of other origins must not use a server
 * on their visitor's machine. */
static bool origin_ok(const struct server *s, struct job *j) {
    const struct http_text *origin = http_find(&j->req, "origin"),
                           *site = http_find(&j->req, "sec-fetch-site");
    static const char http[] = "http://";
    const size_t n = sizeof http - 1;
    if (!origin) return !site || !http_is_word(*site, "cross-site");
    const struct http_text host = j->req.host;
    if (origin->n == n + host.n && strncmp(origin->s, http, n) == 0 &&
        memcmp(origin->s + n, host.s, host.n) == 0)
        return true;
    for (int i = 0; i < s->o.n_allow_origins; i++)
        if (http_is(*origin, s->o.allow_origin[i])) {
            job_field(j, "access-control-allow-origin", s->o.allow_origin[i]);
            job_field(j, "vary", "origin");
            return true;
        }
    return false;
}

/* Returns whether the body's content type is JSON. From clients other than browsers, also accepts
 * the types that curl and HTTP libraries send by default. */
static bool type_ok(const struct job *j) {
    static const char *const untold[] = {"application/x-www-form-urlencoded",
                                         "application/octet-stream", "text/plain"};
    const struct http_text *t = http_find(&j->req, "content-type");
    const bool page = http_find(&j->req, "origin") || http_find(&j->req, "sec-fetch-site");
    if (!t) return !page;
    struct http_text kind = *t;
    const char *semi = memchr(kind.s, ';', kind.n);
    if (semi) kind.n = (size_t)(semi - kind.s);
    while (kind.n && kind.s[kind.n - 1] == ' ') kind.n--;
    for (size_t i = 0; i < COUNT_OF(untold) && !page; i++)
        if (http_is_word(kind, untold[i])) return true;
    return http_is_word(kind, "application/json");
}

bool route_trusts(const struct server *s, struct job *j) {
    return !s->o.n_keys || has_key(s, j);
}

/* After WRONG_KEYS wrong keys within WRONG_S seconds, an address that sends another one gets status
 * 429 until that time is over. Valid keys work all the same, since the clients of a proxy share its
 * address. If there are too many such addresses, the oldest one is forgotten. */
enum { WRONG_KEYS = 10 };
#define WRONG_S 10.0
/* Returns the entry that counts a peer's wrong keys; a new one replaces the oldest. */
static struct stranger *stranger_of(struct server *s, uint64_t peer, double now) {
    struct stranger *old = &s->stranger[0];
    for (int i = 0; i < SERVE_STRANGERS; i++) {
        struct stranger *x = &s->stranger[i];
        if (now - x->since > WRONG_S) x->n = 0;
        if (x->n && x->peer == peer) return x;
        if (!x->n || (old->n && x->since < old->since)) old = x;
    }
    *old = (struct stranger){peer, now, 0};
    return old;
}

/* Returns 0, 401 for a wrong key, or 429 after too many of them. */
static int need_key(struct server *s, struct job *j, struct fault *f) {
    if (has_key(s, j)) return 0;
    struct stranger *x = stranger_of(s, j->key, progress_now_s());
    if (x->n >= WRONG_KEYS)
        return fault_set(f, 429, NULL, NULL, "too many wrong keys; try again in 10s");
    x->n++;
    return fault_set(f, 401, "invalid_api_key", NULL,
                     "an API key is required: Authorization: Bearer KEY, or x-api-key");
}

/* Finds the route and checks host, origin and key; returns 0 or an HTTP status. */
static int may_ask(struct server *s, struct job *j, struct fault *f) {
    bool known;
    const struct route *r = find(&j->req, &known);
    const bool open = r && r->open;
    j->route = r;
    if (!http_host_ok(j->req.host, s->o.allow_host, s->o.n_allow_hosts)) {
        const char *colon = memchr(j->req.host.s, ':', j->req.host.n);
        const size_t n = colon ? (size_t)(colon - j->req.host.s) : j->req.host.n;
        return fault_set(
            f, 403, NULL, NULL,
            "the Host header is not a name of this server; --allow-host %.*s would allow it",
            n > 100 ? 100 : (int)n, j->req.host.s);
    }
    if (!origin_ok(s, j))
        return fault_set(f, 403, NULL, NULL,
                         "pages of other origins are not allowed; --allow-origin allows one");
    if (http_is(j->req.method, "OPTIONS") && http_find(&j->req, "origin")) return 0;
    return s->o.n_keys && !open ? need_key(s, j, f) : 0;
}

/* Returns the id that follows /v1/models/ or /models/ in a path; .s NULL: the path is not of this
 * form. */
static struct http_text model_of(struct http_text path) {
    static const char *const before[] = {"/v1/models/", "/models/"};
    for (size_t i = 0; i < COUNT_OF(before); i++) {
        const size_t n = strlen(before[i]);
        if (path.n > n && strncmp(path.s, before[i], n) == 0)
            return (struct http_text){path.s + n, path.n - n};
    }
    return (struct http_text){NULL, 0};
}

/* Reports an unknown path. If it ends with a known path, the message names it, because a
 * common mistake is a base URL with an extra /v1 or a trailing slash. */
static int no_such_path(struct http_text p, struct fault *f) {
    for (size_t i = 0; i < COUNT_OF(routes); i++) {
        const size_t n = strlen(routes[i].path);
        if (n > 1 && p.n > n && memcmp(p.s + p.n - n, routes[i].path, n) == 0)
            return fault_set(f, 404, NULL, NULL,
                             "no such path, but there is %s: is the base URL right?",
                             routes[i].path);
    }
    return fault_set(f, 404, NULL, NULL, "no such path");
}

/* Reports a method that the path does not support. The error and the Allow header, which RFC 9110
 * requires, list those that it does. */
static int wrong_method(struct job *j, struct fault *f) {
    const char *methods = model_of(j->req.path).s ? "GET, HEAD" : NULL;
    for (size_t i = 0; i < COUNT_OF(routes) && !methods; i++)
        if (path_matches(j->req.path, routes[i].path))
            methods = strcmp(routes[i].method, "GET") == 0 ? "GET, HEAD" : routes[i].method;
    job_field(j, "allow", methods);
    return fault_set(f, 405, NULL, NULL, "wrong method for this path; allowed: %s", methods);
}

/* Returns whether a path refers to a stored answer. */
static bool is_stored(struct http_text path) {
    static const char *const before[] = {"/v1/responses/", "/v1/chat/completions/"};
    for (size_t i = 0; i < COUNT_OF(before); i++) {
        const size_t n = strlen(before[i]);
        if (path.n > n && memcmp(path.s, before[i], n) == 0) return true;
    }
    return false;
}

/* Checks method, encoding and content type; returns 0 or an HTTP status. */
static int check_request(const struct server *s, struct job *j, struct fault *f) {
    bool known;
    const struct route *r = find(&j->req, &known);
    const struct http_text *coding = http_find(&j->req, "content-encoding");
    for (size_t i = 0; i < COUNT_OF(missing) && !r; i++)
        if (asks_for(&j->req, &missing[i])) {
            j->route = &missing[i];                  /* so that errors have the form of its API */
            job_field(j, "x-should-retry", "false"); /* client libraries would retry after a 5xx */
            return fault_set(f, 501, NULL, NULL, "%s", missing[i].why);
        }
    if (!r && is_stored(j->req.path))
        return fault_set(f, 404, NULL, NULL, "no such answer: " STORES);
    const bool one_model = model_of(j->req.path).s != NULL;
    if (!r && !one_model) return known ? wrong_method(j, f) : no_such_path(j->req.path, f);
    if (one_model && !http_is(j->req.method, "GET") && !http_is(j->req.method, "HEAD"))
        return wrong_method(j, f);
    if (coding && !http_is_word(*coding, "identity")) {
        job_field(j, "accept-encoding", "identity");
        return fault_set(f, 415, NULL, NULL, "content-encoding '%.*s' is not supported",
                         coding->n > 40 ? 40 : (int)coding->n, coding->s);
    }
    if (http_is(j->req.method, "POST") && !type_ok(j))
        return fault_set(f, 415, NULL, NULL, "the content-type must be application/json");
    if (atomic_load(&s->drain) && !(r && r->now))
        return fault_set(f, 503, NULL, NULL, "the server is stopping");
    return 0;
}

/* Allows an origin to send all headers it lists, because client libraries add their own. */
static void allow_fields(struct job *j) {
    const struct http_text *want = http_find(&j->req, "access-control-request-headers");
    char list[400] = "authorization, content-type, x-api-key";
    size_t n = 0;
    while (want && n < want->n && (isalnum((unsigned char)want->s[n]) || strchr("-, ", want->s[n])))
        n++;
    if (want && n == want->n && n < sizeof list)
        snprintf(list, sizeof list, "%.*s", (int)n, want->s);
    job_field(j, "access-control-allow-headers", list);
}

bool route_head(void *ud, struct job *j) {
    struct server *s = ud;
    struct fault f = {0};
    if (may_ask(s, j, &f)) {
        ledger_refused(s, j, &f);
        route_fail(j, &f);
        return false;
    }
    if (http_is(j->req.method, "OPTIONS") && http_find(&j->req, "origin")) {
        job_field(j, "access-control-allow-methods", "GET, POST");
        allow_fields(j);
        job_answer(j, 204, "text/plain", "", 0);
        return false;
    }
    if (!check_request(s, j, &f)) return true;
    ledger_refused(s, j, &f);
    route_fail(j, &f);
    return false;
}

void route_request(void *ud, struct job *j) {
    struct server *s = ud;
    const struct route *r = j->route;
    if (!r) {
        const struct http_text id = model_of(j->req.path);
        info_model(s, j, id.s, id.n);
        return;
    }
    if (r->now) {
        r->now(s, j);
        return;
    }
    pthread_mutex_lock(&s->lock);
    s->n_requests++;
    job_hold(j);
    serve_hand(s, j, NULL);
    pthread_mutex_unlock(&s->lock);
}
