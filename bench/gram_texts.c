// SPDX-License-Identifier: MIT
/* bench/gram_texts.c - texts that constrained decoding accepts and generates: gram_texts < CASES,
 * run by tests/gram/judge.py.
 *
 * CASES: lines {"schema": ... | "gbnf": ... | "lark": ... | "regex": ..., "texts": ["..."],
 * "walks": 20, "steps": ["..."], "tokens": ["hex"]}. A line with tokens sets the vocabulary from
 * there on; until then tokens are bytes. Prints a line per case: {"error"} or {"notes", "takes":
 * [bool], "made": [text], "masks": [[hex per prefix that ends at a byte of the text, until one is
 * refused]]}. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"
#include "grammar/gram.h"
#include "tok/tok.h"

enum { LONG = 60, TOO_LONG = 3000, TOKENS_MAX = 1 << 16 };

struct vocab {
    char *text[TOKENS_MAX];
    size_t len[TOKENS_MAX];
    int n; /* followed by the end token */
    struct gram_vocab *v;
};

/* Creates the vocabulary of the texts, with an end token after them. */
static int vocab_make(struct vocab *v, struct err *e) {
    gram_vocab_free(v->v);
    v->v = NULL;
    v->text[v->n] = xstrdup("");
    v->len[v->n] = 0;
    return gram_vocab_of(&v->v, (const char *const *)v->text, v->len, v->n + 1, v->n, e);
}

/* Creates the vocabulary of the 256 single bytes. */
static int vocab_bytes(struct vocab *v, struct err *e) {
    for (v->n = 0; v->n < 256; v->n++) {
        const char c = (char)(unsigned char)v->n;
        v->text[v->n] = xcalloc(2, 1);
        v->text[v->n][0] = c;
        v->len[v->n] = 1;
    }
    return vocab_make(v, e);
}

/* Creates the vocabulary from a JSON list of tokens in hex. */
static int vocab_read(struct vocab *v, const struct json *tokens, struct err *e) {
    for (int i = 0; i <= v->n; i++) free(v->text[i]);
    v->n = 0;
    for (const struct json *t = json_first(tokens); t && v->n < TOKENS_MAX - 1; t = json_next(t)) {
        const char *s = json_str(t);
        const size_t n = strlen(s) / 2;
        char *to = xcalloc(n + 1, 1);
        for (size_t i = 0; i < n; i++) {
            const char two[3] = {s[2 * i], s[2 * i + 1], 0};
            to[i] = (char)(unsigned char)strtoul(two, NULL, 16);
        }
        v->text[v->n] = to;
        v->len[v->n++] = n;
    }
    return vocab_make(v, e);
}

static int compile_case(struct grammar **g, const struct vocab *v, const struct json *c,
                        struct buf *notes, struct err *e) {
    const struct gram_opts o = {.any_order = json_bool(json_get(c, "any_order"), false),
                                .open = !json_bool(json_get(c, "closed"), false),
                                .strict = json_bool(json_get(c, "strict"), false),
                                .space = json_bool(json_get(c, "dense"), false) ? GRAM_SPACE_NONE
                                                                                : GRAM_SPACE_FREE,
                                .notes = notes};
    const char *t = json_str(json_get(c, "regex"));
    if (t) return grammar_of_regex(g, v->v, t, strlen(t), e);
    t = json_str(json_get(c, "grammar"));
    if (t) return grammar_of_text(g, v->v, t, strlen(t), e);
    return grammar_of_schema(g, v->v, json_get(c, "schema"), &o, e);
}

/* Returns whether the grammar accepts the whole text. */
static bool takes_text(struct grammar *g, const char *text) {
    struct err e;
    struct gram_state *s = gram_begin(g);
    const bool ok = gram_accept_text(s, text, strlen(text), &e) == 0 && gram_may_end(s);
    gram_end(s);
    return ok;
}

static bool has_bit(const uint32_t *bits, int i) {
    return bits[i / 32] >> i % 32 & 1;
}

/* Chooses an allowed token; in long texts, one that closes something, or else the first. */
static int choose(const struct vocab *v, const uint32_t *bits, struct rng *r, size_t len) {
    const int from = (int)(rng_u64(r) % (uint64_t)v->n);
    if (len > LONG)
        for (int i = 0; i < v->n; i++)
            if (has_bit(bits, i) && v->len[i] == 1 && strchr("\"}]", v->text[i][0])) return i;
    for (int i = 0; i < v->n; i++)
        if (has_bit(bits, (from + i) % v->n)) return (from + i) % v->n;
    return -1;
}

/* Ends a text in the shortest way. Returns false if none is known. */
static bool end(struct gram_state *s, const struct vocab *v, struct buf *out) {
    struct ids way = {0};
    struct err e;
    bool ok = gram_way_out(s, &way);
    for (int64_t i = 0; i < way.n && ok; i++) {
        ok = gram_accept(s, way.v[i], &e) == 0;
        buf_add(out, v->text[way.v[i]], v->len[way.v[i]]);
    }
    ids_release(&way);
    return ok && gram_may_end(s);
}

/* Writes a random text. Returns false if it did not end; out then has its beginning. */
static bool walk(struct grammar *g, const struct vocab *v, uint32_t *bits, struct rng *r,
                 struct buf *out) {
    struct err e;
    struct gram_state *s = gram_begin(g);
    bool done = false;
    buf_str(out, "");
    while (!done && out->len < TOO_LONG) {
        if (out->len > LONG && rng_u64(r) % 64 == 0 && end(s, v, out)) done = true;
        if (done || gram_mask(s, bits, &e)) break;
        const int id = choose(v, bits, r, out->len);
        if (out->len + 64 > TOO_LONG && end(s, v, out)) {
            done = true;
            break;
        }
        done = has_bit(bits, v->n) && (id < 0 || out->len > LONG || rng_u64(r) % 4 == 0);
        if (done || id < 0 || gram_accept(s, id, &e)) break;
        buf_add(out, v->text[id], v->len[id]);
    }
    gram_end(s);
    return done;
}

/* Writes the mask before each byte and at the end, until the text is refused. */
static void masks(struct grammar *g, const struct vocab *v, uint32_t *bits, const char *text,
                  struct jw *w) {
    struct gram_state *s = gram_begin(g);
    struct err e;
    const size_t n = strlen(text), n_bytes = ((size_t)v->n + 8) / 8;
    for (size_t i = 0;; i++) {
        struct buf hex = {0};
        if (gram_mask(s, bits, &e)) break;
        for (size_t k = 0; k < n_bytes; k++)
            buf_fmt(&hex, "%02x", bits[k / 4] >> (8 * (k % 4)) & 0xff);
        jw_str(w, NULL, hex.data);
        buf_release(&hex);
        if (i == n || gram_accept_text(s, text + i, 1, &e)) break;
    }
    gram_end(s);
}

/* Compiles a case; writes which texts it accepts, the texts that it generates, and masks. */
static void run_case(const struct vocab *v, const struct json *c, struct jw *w) {
    struct grammar *g = NULL;
    struct err e;
    struct buf notes = {0};
    uint32_t *bits = xcalloc((size_t)v->n / 32 + 2, sizeof *bits);
    struct rng r;
    int64_t n = 0;
    rng_seed(&r, 7);
    jw_obj(w, NULL);
    if (compile_case(&g, v, c, &notes, &e)) {
        jw_str(w, "error", e.msg);
    } else {
        if (notes.len) jw_str(w, "notes", notes.data);
        jw_arr(w, "takes");
        for (const struct json *t = json_first(json_get(c, "texts")); t; t = json_next(t))
            jw_bool(w, NULL, json_str(t) && takes_text(g, json_str(t)));
        jw_end(w);
        jw_arr(w, "made");
        for (int64_t i = 0; json_i64(json_get(c, "walks"), &n) && i < n; i++) {
            struct buf b = {0};
            if (walk(g, v, bits, &r, &b)) jw_strn(w, NULL, b.data, b.len);
            buf_release(&b);
        }
        jw_end(w);
        jw_arr(w, "masks");
        for (const struct json *t = json_first(json_get(c, "steps")); t; t = json_next(t)) {
            jw_arr(w, NULL);
            masks(g, v, bits, json_str(t), w);
            jw_end(w);
        }
        jw_end(w);
        grammar_free(g);
    }
    jw_end(w);
    buf_release(&notes);
    free(bits);
}

int main(void) {
    static struct vocab v;
    struct err e;
    char *line = NULL;
    size_t cap = 0;
    if (vocab_bytes(&v, &e)) return 1;
    for (ssize_t n; (n = getline(&line, &cap, stdin)) > 0;) {
        struct json *c = NULL;
        struct buf out = {0};
        struct jw w;
        jw_init(&w, &out, false);
        if (json_parse(&c, line, (size_t)n, "case", &e)) {
            jw_obj(&w, NULL);
            jw_str(&w, "unread", e.msg);
            jw_end(&w);
        } else if (json_get(c, "tokens")) {
            if (vocab_read(&v, json_get(c, "tokens"), &e)) return 1;
            jw_obj(&w, NULL);
            jw_end(&w);
        } else {
            run_case(&v, c, &w);
        }
        puts(out.data);
        fflush(stdout);
        json_free(c);
        buf_release(&out);
    }
    free(line);
    for (int i = 0; i <= v.n; i++) free(v.text[i]);
    gram_vocab_free(v.v);
    return 0;
}
