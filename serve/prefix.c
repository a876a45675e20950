// SPDX-License-Identifier: MIT
/* serve/prefix.c - kept sequences (prefix.h): a list, since a comparison of ids costs a microsecond
 * where the tokens would cost seconds.
 *
 * What is worth least goes first: the time to compute it again, halved every ten minutes that
 * nobody asked, times what its kind proved to be good for, per byte. */
#include "serve/prefix.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/num.h"
#include "core/prog.h"

enum { MAX_KEPT = 256 };
#define HALF_LIFE_S 600.0

struct kept {
    int32_t *ids;
    int64_t n;
    uint64_t key;
    struct seq *q;
    enum prefix_use use;
    double last_s;
    int64_t n_hits;
};
struct prefix {
    struct session *s;
    bool can_trim;
    struct kept kept[MAX_KEPT];
    int n;
    int64_t n_dropped;
};

struct prefix *prefix_new(struct session *s) {
    struct prefix *p = xcalloc(1, sizeof *p);
    p->s = s;
    p->can_trim = session_can_trim(s);
    return p;
}

static void drop(struct prefix *p, int i) {
    free(p->kept[i].ids);
    seq_free(p->kept[i].q);
    p->kept[i] = p->kept[--p->n];
}

void prefix_free(struct prefix *p) {
    if (!p) return;
    while (p->n) drop(p, p->n - 1);
    free(p);
}

static int64_t common(const int32_t *a, const int32_t *b, int64_t n) {
    int64_t i = 0;
    while (i < n && a[i] == b[i]) i++;
    return i;
}

/* The kept sequence that serves best, and how far. */
static int best(const struct prefix *p, const int32_t *ids, int64_t n, uint64_t key,
                int64_t *length) {
    int found = -1;
    *length = 0;
    for (int i = 0; i < p->n; i++) {
        const struct kept *k = &p->kept[i];
        if (k->key != key || (!p->can_trim && (k->n >= n || k->n <= *length))) continue;
        int64_t same = common(k->ids, ids, min_i64(k->n, n - 1));
        if (!p->can_trim && same < k->n) same = 0;
        if (same <= *length) continue;
        *length = same;
        found = i;
    }
    return found;
}

int64_t prefix_match(const struct prefix *p, const int32_t *ids, int64_t n, uint64_t key) {
    int64_t length;
    (void)best(p, ids, n, key, &length);
    return length;
}

int prefix_take(struct prefix *p, const int32_t *ids, int64_t n, uint64_t key, struct seq **out,
                struct err *e) {
    int64_t length;
    const int i = best(p, ids, n, key, &length);
    *out = NULL;
    if (i < 0) return 0;
    TRY(seq_fork(out, p->kept[i].q, e));
    const int rc = seq_trim(*out, length, e);
    if (rc) {
        seq_free(*out);
        *out = NULL;
        return rc;
    }
    p->kept[i].last_s = prog_now_s();
    p->kept[i].n_hits++;
    return 0;
}

/* Is a's sequence part of b's, and of no use beside it? */
static bool covered(const struct prefix *p, const struct kept *a, const struct kept *b) {
    return a->key == b->key && a->n <= b->n && (a->n == b->n || p->can_trim) &&
           common(a->ids, b->ids, a->n) == a->n;
}

void prefix_keep(struct prefix *p, const int32_t *ids, int64_t n, uint64_t key, enum prefix_use use,
                 struct seq *q) {
    if (n < 1) {
        seq_free(q);
        return;
    }
    struct kept k = {.n = n, .key = key, .q = q, .use = use, .last_s = prog_now_s()};
    k.ids = xcalloc((size_t)n, sizeof *k.ids);
    memcpy(k.ids, ids, (size_t)n * sizeof *ids);
    for (int i = 0; i < p->n;) {
        if (!covered(p, &p->kept[i], &k)) {
            i++;
            continue;
        }
        if (p->kept[i].use == PREFIX_HEAD) k.use = PREFIX_HEAD;
        k.n_hits += p->kept[i].n_hits;
        drop(p, i);
    }
    if (p->n == MAX_KEPT) (void)prefix_drop(p);
    p->kept[p->n++] = k;
}

static double worth(const struct prefix *p, const struct kept *k, double now) {
    static const double by_use[] = {1, 1.5, 4, 1, 0.25};
    const double bytes = (double)session_seq_bytes(p->s, k->n) + 1;
    return (double)k->n * exp2((k->last_s - now) / HALF_LIFE_S) * by_use[k->use] *
           (double)(1 + k->n_hits) / bytes;
}

bool prefix_drop(struct prefix *p) {
    const double now = prog_now_s();
    int least = 0;
    if (!p->n) return false;
    for (int i = 1; i < p->n; i++)
        if (worth(p, &p->kept[i], now) < worth(p, &p->kept[least], now)) least = i;
    drop(p, least);
    p->n_dropped++;
    return true;
}

struct prefix_counts prefix_counts(const struct prefix *p) {
    struct prefix_counts c = {p->n, 0, p->n_dropped};
    for (int i = 0; i < p->n; i++) c.n_tokens += p->kept[i].n;
    return c;
}
