// SPDX-License-Identifier: MIT
/* grammar/token_class.c - detection of states that accept any text of certain kinds of characters,
 * such as "any letters" or "up to 20 characters". mask.c then adds tokens and trie subtrees of such
 * text without walking them. gram_kind_of() defines the kinds. To test a kind, the state is stepped
 * through every byte class of the kind's UTF-8. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "grammar/gram_int.h"

#define ALL_KINDS ((1u << GRAM_KINDS) - 1)

/* Automaton for the UTF-8 of the last kind: all characters above 0x7f except surrogates and the
 * line ends U+2028 and U+2029. From state `at`, a byte in [from, to] leads to `next`. */
enum high {
    BEGIN,
    ONE,
    TWO,
    THREE,
    AFTER_E0,
    AFTER_E2,
    AFTER_E2_80,
    AFTER_ED,
    AFTER_F0,
    AFTER_F4,
    DONE
};
static const struct high_row {
    uint8_t at, from, to, next;
} high_rows[] = {
    {BEGIN, 0xc2, 0xdf, ONE},
    {BEGIN, 0xe0, 0xe0, AFTER_E0},
    {BEGIN, 0xe1, 0xe1, TWO},
    {BEGIN, 0xe2, 0xe2, AFTER_E2},
    {BEGIN, 0xe3, 0xec, TWO},
    {BEGIN, 0xed, 0xed, AFTER_ED},
    {BEGIN, 0xee, 0xef, TWO},
    {BEGIN, 0xf0, 0xf0, AFTER_F0},
    {BEGIN, 0xf1, 0xf3, THREE},
    {BEGIN, 0xf4, 0xf4, AFTER_F4},
    {ONE, 0x80, 0xbf, DONE},
    {TWO, 0x80, 0xbf, ONE},
    {THREE, 0x80, 0xbf, TWO},
    {AFTER_E0, 0xa0, 0xbf, ONE},
    {AFTER_E2, 0x80, 0x80, AFTER_E2_80},
    {AFTER_E2, 0x81, 0xbf, ONE},
    {AFTER_E2_80, 0x80, 0xa7, DONE},
    {AFTER_E2_80, 0xaa, 0xbf, DONE},
    {AFTER_ED, 0x80, 0x9f, ONE},
    {AFTER_F0, 0x90, 0xbf, TWO},
    {AFTER_F4, 0x80, 0x8f, TWO},
};

/* Adds the class of a byte to the set. */
static void add_class(const struct grammar *g, struct gset *s, int byte) {
    s->w[g->cls[byte] / 64] |= (uint64_t)1 << g->cls[byte] % 64;
}

void gram_fit_classes(struct grammar *g) {
    g->high_cls = xcalloc(COUNT_OF(high_rows), sizeof *g->high_cls);
    for (int b = 0; b < 0x80; b++)
        if (gram_kind_of((uint32_t)b) >= 0)
            add_class(g, &g->kind_cls[gram_kind_of((uint32_t)b)], b);
    for (size_t i = 0; i < COUNT_OF(high_rows); i++)
        for (int b = high_rows[i].from; b <= high_rows[i].to; b++) add_class(g, &g->high_cls[i], b);
}

/* States that a text of n characters can lead to. Level n + 1 is computed from all states of level
 * n at once. */
enum { STATES_MAX = 96, STEPS_MAX = 1024 };
struct states {
    gnode v[STATES_MAX];
    int n, from; /* [from, n): states of the next level */
    int steps;   /* steps so far */
    bool quick;  /* stop as soon as a character is not allowed */
    bool live, dead, loop, lost;
};

/* Adds a state. Records loops and that states were lost at the limit. */
static void add_state(struct states *s, gnode x) {
    for (int i = 0; i < s->n; i++)
        if (s->v[i] == x) {
            s->loop = s->loop || i < s->from;
            return;
        }
    if (s->n == STATES_MAX)
        s->lost = true;
    else
        s->v[s->n++] = x;
}

/* Steps the state s by a byte of each class in the set, then by the bytes that high_rows allows,
 * starting in its state `next`. Adds the states after complete characters to out. */
static void step_set(struct grammar *g, gnode s, const struct gset *set, enum high next,
                     struct states *out) {
    for (int w = 0; w < 4; w++)
        for (uint64_t bits = set->w[w]; bits && !out->lost && !(out->quick && out->dead);
             bits &= bits - 1) {
            const gnode x = gn_step(g, s, 64 * w + __builtin_ctzll(bits));
            out->steps++;
            if (x == G_NONE) {
                out->dead = true;
            } else if (gn_null(g, x)) {
                out->lost = true; /* mask.c must record an exit here */
            } else if (next == DONE) {
                out->live = true;
                add_state(out, x);
            } else {
                for (size_t i = 0; i < COUNT_OF(high_rows); i++)
                    if (high_rows[i].at == next)
                        step_set(g, x, &g->high_cls[i], (enum high)high_rows[i].next, out);
            }
        }
}

/* Steps the state s by each character of the kinds (bits) and adds the resulting states to out. */
static void step_kinds(struct grammar *g, gnode s, unsigned kinds, struct states *out) {
    for (int k = 0; k < GRAM_KINDS; k++)
        if (kinds >> k & 1) step_set(g, s, &g->kind_cls[k], DONE, out);
    if (!(kinds >> (GRAM_KINDS - 1) & 1)) return;
    for (size_t i = 0; i < COUNT_OF(high_rows) && high_rows[i].at == BEGIN; i++)
        step_set(g, s, &g->high_cls[i], (enum high)high_rows[i].next, out);
}

/* ---- slices ---- */

/* Returns whether `head` is the rest of a JSON string in its common form: a repetition of any
 * characters, then the closing quotation mark. Sets *most to the repetition's upper limit. */
static bool json_text(const struct grammar *g, gnode head, uint32_t *most) {
    const struct gnode_data *d = gn(g, head), *rep = gn(g, d->a);
    if (d->kind != G_CAT || rep->kind != G_REP || rep->a != g->json_char || !g->json_char)
        return false;
    const struct gnode_data *rest = gn(g, d->b);
    if (rest->kind == G_CAT) rest = gn(g, rest->a);
    const struct gset quote = {{(uint64_t)1 << '"', 0, 0, 0}};
    *most = rep->hi;
    return rest->kind == G_SET && memcmp(&g->set[rest->a], &quote, sizeof quote) == 0;
}

/* Returns how many characters of slice k, whichever they are, state `head` accepts in a row; at
 * most GRAM_SLICE_CHARS. Returns -1 if that depends on which characters they are. Sets *forever if
 * there is no limit. */
static int slice_fit(struct grammar *g, gnode head, int k, bool *forever) {
    struct states s = {.v = {head}, .n = 1};
    int at = 0;
    uint32_t most;
    if (json_text(g, head, &most)) {
        *forever = most == GRAM_INF;
        return most < GRAM_SLICE_CHARS ? (int)most : GRAM_SLICE_CHARS;
    }
    for (int n = 0; n < GRAM_SLICE_CHARS; n++) {
        s.from = s.n;
        s.live = s.dead = false;
        for (; at < s.from && !s.lost; at++) step_kinds(g, s.v[at], gram_slice_kinds(k), &s);
        if (s.lost || (s.dead && (s.live || s.loop))) return -1;
        if (!s.live) return n;
        *forever = s.n == s.from;
        if (*forever) break;
    }
    return GRAM_SLICE_CHARS;
}

/* Returns whether the node is certain to match finitely many texts. */
static bool is_finite(const struct grammar *g, gnode n, int depth) {
    const struct gnode_data *d = gn(g, n);
    if (depth > 100) return false;
    if (d->kind == G_NONE || d->kind == G_EPS || d->kind == G_SET) return true;
    for (; d->kind == G_CAT; d = gn(g, d->b))
        if (!is_finite(g, d->a, depth + 1)) return false;
    if (d->kind == G_REP) return d->hi < GRAM_INF && is_finite(g, d->a, depth + 1);
    bool all = d->kind == G_ALT || d->kind == G_SET;
    for (uint32_t i = 0; d->kind == G_ALT && i < d->b && all; i++)
        all = is_finite(g, g->list[d->a + i], depth + 1);
    return all;
}

/* Returns n without its conditions that exclude only finitely many texts. Where any number of
 * characters can follow, such a condition never rules out a prefix. */
static gnode without_few(struct grammar *g, gnode n) {
    const struct gnode_data d = *gn(g, n);
    if (d.kind == G_CAT) {
        const gnode a = without_few(g, d.a);
        return a == d.a ? n : gn_cat(g, a, d.b);
    }
    gnode v[8];
    uint32_t m = 0;
    if (d.kind != G_AND || d.b > COUNT_OF(v)) return n;
    for (uint32_t i = 0; i < d.b; i++) {
        const gnode x = g->list[d.a + i];
        if (gn(g, x)->kind != G_NOT || !is_finite(g, gn(g, x)->a, 0)) v[m++] = x;
    }
    return m < d.b ? gn_ands(g, v, m) : n;
}

int gram_slice_of(struct grammar *g, gnode head, int *chars) {
    const gnode wide = without_few(g, head);
    for (int k = 0; k < GRAM_SLICES; k++) {
        bool forever = false;
        *chars = slice_fit(g, wide, k, &forever);
        if (*chars > 0 && (wide == head || forever)) return k;
    }
    return -1;
}

gnode gram_wider(struct grammar *g, gnode head) {
    enum { PARTS_MAX = 8 };
    gnode part[PARTS_MAX], rest = head;
    int n = 0;
    for (; n < PARTS_MAX && gn(g, rest)->kind == G_CAT; rest = gn(g, rest)->b)
        part[n++] = gn(g, rest)->a;
    gnode out = n < PARTS_MAX ? without_few(g, rest) : rest;
    while (n-- > 0) out = gn_cat(g, without_few(g, part[n]), out);
    return out ? out : head;
}

/* ---- subtrees ---- */

/* Returns, as bits, the kinds of which state n accepts every character. */
static unsigned first_kinds(struct grammar *g, gnode n) {
    unsigned kinds = 0;
    for (int k = 0; k < GRAM_KINDS; k++) {
        struct states s = {.v = {n}, .n = 1, .from = 1, .quick = true};
        step_kinds(g, n, 1u << k, &s);
        if (!s.dead && !s.lost) kinds |= 1u << k;
    }
    return kinds;
}

/* Returns how many characters of the kinds, whichever they are, state n accepts in a row:
 * GRAM_CHARS_MAX if there is no limit, GRAM_SLICE_CHARS if the search ended before it found one. */
static int how_many(struct grammar *g, gnode n, unsigned kinds) {
    struct states s = {.v = {n}, .n = 1, .quick = true};
    for (int chars = 0, at = 0; chars < GRAM_SLICE_CHARS; chars++) {
        s.from = s.n;
        for (; at < s.from; at++) step_kinds(g, s.v[at], kinds, &s);
        if (s.dead || s.lost || s.steps > STEPS_MAX) return chars;
        if (s.n == s.from) return GRAM_CHARS_MAX; /* no new states: there is no limit */
    }
    return GRAM_SLICE_CHARS;
}

void gram_fit(struct grammar *g, gnode n) {
    unsigned kinds = ALL_KINDS;
    uint32_t most;
    int chars;
    if (gn(g, n)->flags & GF_FIT) return;
    if (json_text(g, n, &most)) {
        chars = most < GRAM_CHARS_MAX ? (int)most : GRAM_CHARS_MAX;
    } else {
        kinds = first_kinds(g, n);
        chars = kinds ? how_many(g, n, kinds) : 0;
    }
    struct gnode_data *d = &g->node[n];
    d->kinds = (uint8_t)(chars > 0 ? kinds : 0);
    d->chars = (uint8_t)chars;
    d->flags |= GF_FIT;
}
