// SPDX-License-Identifier: MIT
/* serve/history.c - ring buffer of recent calls with their reasoning and exact arguments. Entries
 * are found by the call's id, which clients send back. */
#include "serve/history.h"

#include <ctype.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

enum { CALLS = 8192, LONGEST = 256 << 10, MOST_BYTES = 16 << 20 };

struct call {
    uint64_t id;            /* hash of the key and the call's id */
    char *reasoning, *args; /* args NULL: no call */
    size_t n_bytes;
    int next; /* 1 + the next call of the same bucket; 0: none */
};
struct history {
    pthread_mutex_t lock;    /* held only briefly: the engine thread needs it too */
    struct call call[CALLS]; /* ring buffer */
    int bucket[CALLS];       /* by id: 1 + the first call; 0: none */
    int next;
    size_t n_bytes;
};

struct history *history_new(void) {
    struct history *r = xcalloc(1, sizeof *r);
    pthread_mutex_init(&r->lock, NULL);
    return r;
}

static void release_call(struct call *c) {
    free(c->reasoning);
    free(c->args);
    *c = (struct call){0};
}

/* Removes a remembered call, if there is one, from its bucket and from memory. */
static void forget_call(struct history *r, struct call *c) {
    int *at = &r->bucket[c->id % CALLS];
    if (!c->args) return;
    while (&r->call[*at - 1] != c) at = &r->call[*at - 1].next;
    *at = c->next;
    r->n_bytes -= c->n_bytes;
    release_call(c);
}

void history_free(struct history *r) {
    if (!r) return;
    for (int i = 0; i < CALLS; i++) forget_call(r, &r->call[i]);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

/* Returns the hash of a call's id for the API key `key`. */
static uint64_t hash_id(uint64_t key, const char *id) {
    const uint64_t both[2] = {key, hash_u64(id, strlen(id))};
    return hash_u64(both, sizeof both);
}

void history_note(struct history *r, uint64_t key, const struct reply_choice *c) {
    const size_t n_think = c->reasoning.len;
    pthread_mutex_lock(&r->lock);
    for (int i = 0; i < c->n_calls; i++) {
        const struct buf *args = &c->call[i].args;
        if (n_think + args->len > LONGEST) continue;
        struct call k = {.id = hash_id(key, c->call[i].id), .n_bytes = n_think + args->len};
        k.reasoning = n_think ? xstrndup(c->reasoning.data, n_think) : NULL;
        k.args = xstrndup(args->len ? args->data : "{}", args->len ? args->len : 2);
        forget_call(r, &r->call[r->next]);
        int *first = &r->bucket[k.id % CALLS];
        k.next = *first;
        *first = r->next + 1;
        r->call[r->next] = k;
        r->n_bytes += k.n_bytes;
        r->next = (r->next + 1) % CALLS;
        for (int old = r->next; r->n_bytes > MOST_BYTES; old = (old + 1) % CALLS)
            forget_call(r, &r->call[old]);
    }
    pthread_mutex_unlock(&r->lock);
}

struct fill { /* restoring of a conversation */
    struct history *r;
    uint64_t key;
    size_t left; /* bytes that may still be restored; many calls may have the same id */
};

/* Sets *out to a copy of the remembered call with the id of `call`; zeros: not found. */
static void take_call(struct fill *f, const struct json *call, struct call *out) {
    const char *id = json_str(json_get(call, "id"));
    const uint64_t h = id ? hash_id(f->key, id) : 0;
    struct history *r = f->r;
    *out = (struct call){0};
    if (!id) return;
    pthread_mutex_lock(&r->lock);
    int i = r->bucket[h % CALLS];
    while (i && r->call[i - 1].id != h) i = r->call[i - 1].next;
    const struct call *c = i ? &r->call[i - 1] : NULL;
    if (c && c->n_bytes <= f->left) {
        f->left -= c->n_bytes;
        out->reasoning = c->reasoning ? xstrdup(c->reasoning) : NULL;
        out->args = xstrdup(c->args);
    }
    pthread_mutex_unlock(&r->lock);
}

/* Returns whether a text contains a number of 16 or more digits. JSON parsers round such numbers,
 * so they cannot be compared. */
static bool has_long_number(const char *s) {
    int n = 0;
    for (; *s && n < 16; s++) n = isdigit((unsigned char)*s) ? n + 1 : 0;
    return n >= 16;
}

/* Returns whether the arguments `given` (an object, or text that contains one) have the same values
 * as the call's, but are spelled differently. */
static bool spelled_otherwise(const struct json *given, const struct call *c) {
    struct json *was = NULL, *is = NULL;
    struct err e;
    const char *text = json_str(given);
    if (has_long_number(c->args) || json_parse_mend(&was, c->args, strlen(c->args), "call", &e))
        return false;
    bool same = !text || strcmp(text, c->args) != 0;
    if (same && text) {
        same = !has_long_number(text) &&
               json_parse_mend(&is, text, strlen(text), "call", &e) == 0 && json_equal(is, was);
    } else if (same) {
        same = json_equal(given, was);
    }
    json_free(was);
    json_free(is);
    return same;
}

/* Writes a call, with its original arguments if they were changed only in spelling. Returns whether
 * they were. */
static bool put_call(struct jw *w, struct fill *f, const struct json *call) {
    const struct json *fn = json_get(call, "function"), *args = json_get(fn, "arguments");
    struct call c;
    take_call(f, call, &c);
    if (!c.args || !spelled_otherwise(args, &c)) {
        ask_put(w, NULL, call);
        release_call(&c);
        return false;
    }
    jw_obj(w, NULL);
    jw_str(w, "id", json_str(json_get(call, "id")));
    jw_str(w, "type", "function");
    jw_obj(w, "function");
    jw_str(w, "name", json_str(json_get(fn, "name")));
    if (json_str(args))
        jw_str(w, "arguments", c.args);
    else
        jw_raw(w, "arguments", c.args);
    jw_end(w);
    jw_end(w);
    release_call(&c);
    return true;
}

/* Writes a message with lost reasoning and original calls restored. Returns whether it changed. */
static bool put_message(struct jw *w, struct fill *f, const struct json *m) {
    const struct json *calls = json_get(m, "tool_calls"), *call = json_first(calls);
    const char *thought = json_str(json_get(m, "reasoning_content"));
    char *lost = NULL;
    bool changed = false;
    for (; call && !(thought && *thought) && !lost; call = json_next(call)) {
        struct call c;
        take_call(f, call, &c);
        lost = c.reasoning;
        c.reasoning = NULL;
        release_call(&c);
    }
    jw_obj(w, NULL);
    if (lost) jw_str(w, "reasoning_content", lost);
    for (const struct json *x = json_first(m); x; x = json_next(x)) {
        const char *name = json_name(x);
        if (strcmp(name, "reasoning_content") == 0 && lost) continue;
        if (x != calls) {
            ask_put(w, name, x);
            continue;
        }
        jw_arr(w, name);
        for (call = json_first(calls); call; call = json_next(call))
            changed |= put_call(w, f, call);
        jw_end(w);
    }
    jw_end(w);
    changed |= lost != NULL;
    free(lost);
    return changed;
}

char *history_fill(struct history *r, uint64_t key, const char *conv) {
    struct fill f = {r, key, 2 * MOST_BYTES}; /* each call is taken at most twice */
    struct json *j = NULL;
    struct buf out = {0};
    struct jw w;
    struct err e;
    bool changed = false;
    if (!strstr(conv, "\"tool_calls\"") ||
        json_parse_mend(&j, conv, strlen(conv), "conversation", &e))
        return NULL;
    jw_init(&w, &out, false);
    jw_obj(&w, NULL);
    jw_arr(&w, "messages");
    for (const struct json *m = json_first(json_get(j, "messages")); m; m = json_next(m))
        changed |= put_message(&w, &f, m);
    jw_end(&w);
    ask_copy(&w, "tools", j, "tools");
    jw_end(&w);
    json_free(j);
    if (changed) return buf_take(&out);
    buf_release(&out);
    return NULL;
}
