// SPDX-License-Identifier: MIT
/* calib/pair.c - the base model's rows of one chunk, indexed by weight, expert and token.
 *
 * A row's token is known from its position in the sequence or, for an expert, in the list of tokens
 * routed to it. The input of gate and up is the same for all experts of a token, so it is stored
 * once per token, and found whichever experts the base chose; the input of down is stored per
 * expert. Memory: the rows of one chunk, 4 bytes per column. */
#include "calib/pair.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"

enum { ANY_EXPERT = -2, BLOCKS = 4096 };

struct route { /* experts that a router chose for each row, [n_rows][n_used] */
    int32_t *expert;
    int64_t n_used, n_rows;
};
/* Input rows of one product; row i belongs to token[i]. */
struct kept {
    const char *name; /* weight's name, borrowed from the base's graph */
    int64_t expert, n, n_rows;
    int32_t *token;
    float *row;
};
struct pair {
    struct route route[2][BLOCKS];
    struct kept *kept;
    int64_t n, cap;
    bool sorted;
    struct err err; /* ERR_SYS: a row could not be stored */
};

struct pair *pair_new(void) {
    return xcalloc(1, sizeof(struct pair));
}

void pair_begin(struct pair *p) {
    for (int64_t i = 0; i < p->n; i++) {
        free(p->kept[i].token);
        free(p->kept[i].row);
    }
    p->n = 0;
    p->sorted = false;
    p->err.code = 0;
}

int pair_check(const struct pair *p, struct err *e) {
    return p->err.code ? err_set(e, p->err.code, "%s", p->err.msg) : 0;
}

void pair_free(struct pair *p) {
    if (!p) return;
    pair_begin(p);
    for (int s = 0; s < 2; s++)
        for (int b = 0; b < BLOCKS; b++) free(p->route[s][b].expert);
    free(p->kept);
    free(p);
}

void pair_route(struct pair *p, enum pair_side side, int block, const int32_t *expert,
                int64_t n_used, int64_t n_rows) {
    if (block < 0 || block >= BLOCKS) return;
    struct route *r = &p->route[side][block];
    r->expert = xreallocarray(r->expert, (size_t)(n_used * n_rows), sizeof *expert);
    memcpy(r->expert, expert, (size_t)(n_used * n_rows) * sizeof *expert);
    r->n_used = n_used;
    r->n_rows = n_rows;
}

/* Returns the block's routing on that side; NULL if the weight does not belong to experts or no
 * routing is kept. */
static const struct route *route_of(const struct pair *p, enum pair_side side,
                                    const struct gr_weight *w) {
    char *end;
    const long block = strncmp(w->name, "blk.", 4) == 0 ? strtol(w->name + 4, &end, 10) : -1;
    if (block < 0 || block >= BLOCKS || !p->route[side][block].expert || !strstr(w->name, "_exps"))
        return NULL;
    return &p->route[side][block];
}

int32_t *pair_tokens(const struct pair *p, enum pair_side side, const struct gr_weight *w,
                     int64_t expert, int64_t n_rows) {
    const struct route *r = expert < 0 ? NULL : route_of(p, side, w);
    int32_t *t = xcalloc((size_t)n_rows, sizeof *t);
    int64_t n = 0;
    for (int64_t i = 0; !r && i < n_rows; i++) t[n++] = (int32_t)i;
    for (int64_t i = 0; r && i < r->n_rows; i++)
        for (int64_t k = 0; k < r->n_used; k++)
            if (r->expert[i * r->n_used + k] == expert) {
                if (n < n_rows) t[n] = (int32_t)i;
                n++;
            }
    if (n == n_rows) return t;
    free(t);
    return NULL;
}

/* Returns the expert index under which rows are stored. Inputs of gate and up are the same for
 * every expert of a token, so they share one index. */
static int64_t place_of(const struct pair *p, enum pair_side side, const struct gr_weight *w,
                        int64_t expert) {
    return expert >= 0 && route_of(p, side, w) && !strstr(w->name, "ffn_down") ? ANY_EXPERT
                                                                               : expert;
}

/* Orders kept rows by weight and expert, for qsort. */
static int by_place(const void *a, const void *b) {
    const struct kept *x = a, *y = b;
    const int c = strcmp(x->name, y->name);
    return c ? c : (x->expert > y->expert) - (x->expert < y->expert);
}

/* Appends copies of the rows; sets p->err if memory runs out. */
static void add_rows(struct pair *p, struct kept *k, const int32_t *token, const float *x,
                     int64_t n_rows, int64_t ld) {
    const size_t n = (size_t)k->n, rows = (size_t)(k->n_rows + n_rows);
    void *t = try_realloc(k->token, rows, sizeof *token, "rows of the base", &p->err);
    if (t) k->token = t;
    float *row = t ? try_realloc(k->row, rows * n, sizeof *row, "rows of the base", &p->err) : NULL;
    if (!row) return;
    k->row = row;
    memcpy(k->token + k->n_rows, token, (size_t)n_rows * sizeof *token);
    for (int64_t r = 0; r < n_rows; r++)
        memcpy(row + (size_t)(k->n_rows + r) * n, x + r * ld, n * sizeof *x);
    k->n_rows += n_rows;
}

void pair_keep(struct pair *p, const struct gr_weight *w, int64_t expert, const float *x,
               int64_t n_rows, int64_t ld) {
    const int64_t n = w->ne[0], at = place_of(p, PAIR_BASE, w, expert);
    int32_t *token = pair_tokens(p, PAIR_BASE, w, expert, n_rows);
    struct kept *k = NULL;
    if (!token) return;
    if (p->n && strcmp(p->kept[p->n - 1].name, w->name) == 0 && p->kept[p->n - 1].expert == at)
        k = &p->kept[p->n - 1];
    if (!k) {
        if (p->n == p->cap) {
            p->cap = p->cap ? 2 * p->cap : 256;
            p->kept = xreallocarray(p->kept, (size_t)p->cap, sizeof *p->kept);
        }
        k = &p->kept[p->n++];
        *k = (struct kept){.name = w->name, .expert = at, .n = n};
    }
    add_rows(p, k, token, x, n_rows, ld);
    p->sorted = false;
    free(token);
}

/* Returns the base's row of a token; NULL: none. */
static const float *row_of(const struct kept *k, const int64_t *where, int64_t token,
                           int64_t n_tokens) {
    return token < n_tokens && where[token] >= 0 ? k->row + where[token] * k->n : NULL;
}

int64_t pair_differences(struct pair *p, const struct gr_weight *w, int64_t expert, const float *x,
                         int64_t n_rows, int64_t ld, float *d) {
    const int64_t n = w->ne[0];
    if (!p->sorted) qsort(p->kept, (size_t)p->n, sizeof *p->kept, by_place);
    p->sorted = true;
    const struct kept want = {.name = w->name, .expert = place_of(p, PAIR_OTHER, w, expert)};
    const struct kept *k =
        p->n ? bsearch(&want, p->kept, (size_t)p->n, sizeof *p->kept, by_place) : NULL;
    int32_t *token = pair_tokens(p, PAIR_OTHER, w, expert, n_rows);
    int64_t found = 0, n_tokens = 0;
    memset(d, 0, (size_t)(n_rows * n) * sizeof *d);
    if (k && k->n == n && token) {
        for (int64_t i = 0; i < k->n_rows; i++) n_tokens = max_i64(n_tokens, k->token[i] + 1);
        int64_t *where = xcalloc((size_t)n_tokens, sizeof *where);
        for (int64_t i = 0; i < n_tokens; i++) where[i] = -1;
        for (int64_t i = 0; i < k->n_rows; i++) where[k->token[i]] = i;
        for (int64_t r = 0; r < n_rows; r++) {
            const float *b = row_of(k, where, token[r], n_tokens);
            for (int64_t i = 0; b && i < n; i++) d[r * n + i] = b[i] - x[r * ld + i];
            found += b != NULL;
        }
        free(where);
    }
    free(token);
    return found;
}
