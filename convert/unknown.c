// SPDX-License-Identifier: MIT
/* convert/unknown.c - error message for an unsupported model class. It names the known architecture
 * with the most similar tensor names, and the tensors that it lacks. */
#include <stdlib.h>
#include <string.h>

#include "convert/conv_plan.h"
#include "base/buf.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/printable.h"

enum { MOST_NAMES = 6 };

/* Appends a name as a pattern: without "language_model.", and with N for each number, %d and %e. */
static void add_pattern(struct buf *out, const char *name, size_t len) {
    static const char nested[] = "language_model.";
    for (const char *s = name, *end = name + len; s < end;) {
        const char *dot = memchr(s, '.', (size_t)(end - s));
        const size_t n = (size_t)((dot ? dot : end) - s);
        const bool part = n + 1 == sizeof nested - 1 && memcmp(s, nested, n) == 0;
        const bool number = n > 0 && (strspn(s, "0123456789") >= n || (n == 2 && s[0] == '%'));
        if (!part && number) buf_chr(out, 'N');
        if (!part && !number) buf_add(out, s, n);
        if (!part && dot) buf_chr(out, '.');
        s += n + (dot != NULL);
    }
}

/* Adds the text of `b`, copied to `keys`, to the set. Returns false if the set already has it. */
static bool add_key(struct strmap *set, struct arena *keys, const struct buf *b) {
    if (strmap_get(set, b->data, b->len) >= 0) return false;
    return strmap_add(set, arena_strdup(keys, b->data), b->len, 0);
}

/* Returns the set of patterns of an architecture's Hugging Face tensor names. */
static struct strmap *patterns_of(const struct arch *a, struct arena *keys) {
    struct strmap *map = strmap_new(64);
    struct buf b = {0};
    for (const struct tensor_row *r = a->tensors; r->gguf; r++)
        for (const char *s = r->hf; s && *s;) {
            const size_t n = strcspn(s, "|");
            buf_reset(&b);
            add_pattern(&b, s, n);
            if (b.len) add_key(map, keys, &b);
            s += n + (s[n] == '|');
        }
    buf_release(&b);
    return map;
}

/* Counts the tensors of the folder that are named as in `a` or do not belong to the language model;
 * appends the patterns of the others. */
static int64_t count_named(const struct hfdir *dir, const struct arch *a, struct buf *others) {
    struct arena keys;
    arena_init(&keys);
    struct strmap *map = patterns_of(a, &keys), *seen = strmap_new(64);
    struct buf b = {0};
    int64_t n = 0, n_others = 0;
    for (int64_t i = 0; i < hfdir_n_tensors(dir); i++) {
        const char *name = hfdir_tensor_at(dir, i)->name;
        buf_reset(&b);
        add_pattern(&b, name, strlen(name));
        if (!b.len) continue;
        if (hf_names_other_part(a, name) || strmap_get(map, b.data, b.len) >= 0) {
            n++;
        } else if (add_key(seen, &keys, &b) && n_others++ < MOST_NAMES) {
            buf_fmt(others, "%s%s", n_others > 1 ? ", " : "", show_n(b.data, b.len).s);
        }
    }
    if (n_others > MOST_NAMES)
        buf_fmt(others, " and %lld more", (long long)(n_others - MOST_NAMES));
    buf_release(&b);
    strmap_free(map);
    strmap_free(seen);
    arena_release(&keys);
    return n;
}

/* Counts the tensors that every model of `a` has and the folder lacks. */
static int64_t count_lacking(const struct hfdir *dir, const struct arch *a) {
    struct arena keys;
    arena_init(&keys);
    struct strmap *there = strmap_new(64);
    struct buf b = {0};
    int64_t n = 0;
    for (int64_t i = 0; i < hfdir_n_tensors(dir); i++) {
        const char *name = hfdir_tensor_at(dir, i)->name;
        buf_reset(&b);
        add_pattern(&b, name, strlen(name));
        if (b.len) add_key(there, &keys, &b);
    }
    for (const struct tensor_row *r = a->tensors; r->gguf; r++) {
        const bool always = !(r->flags & (TR_OPTIONAL | TR_TIED)) && !(r->flags >> TR_IF_SHIFT);
        bool found = !always || !r->hf || r->where == W_MTP;
        for (const char *s = r->hf; s && *s && !found;) {
            const size_t len = strcspn(s, "|");
            buf_reset(&b);
            add_pattern(&b, s, len);
            found = b.len && strmap_get(there, b.data, b.len) >= 0;
            s += len + (s[len] == '|');
        }
        n += !found;
    }
    buf_release(&b);
    strmap_free(there);
    arena_release(&keys);
    return n;
}

bool named_as(const struct hfdir *dir, const struct arch *a) {
    struct buf others = {0};
    (void)count_named(dir, a, &others);
    const bool all = !others.len;
    buf_release(&others);
    return all;
}

int unknown_class(const struct hfdir *dir, const char *cls, struct err *e) {
    const struct arch *best = NULL;
    struct buf others = {0}, near = {0};
    const struct arch *of_type = arch_find_type(json_str(hfdir_hparam(dir, "model_type")));
    int64_t most = 0, fewest = 0;
    for (int i = 0; arch_at(i); i++) {
        const struct arch *a = arch_at(i);
        struct buf own = {0};
        const int64_t n = count_named(dir, a, &own);
        const int64_t lacking = n >= most && n > 0 ? count_lacking(dir, a) : 0;
        const bool closer = n == most && n > 0 && (lacking < fewest || a == of_type);
        if (n > most || (closer && best != of_type)) {
            most = n;
            fewest = lacking;
            best = a;
            buf_release(&others);
            others = own;
        } else {
            buf_release(&own);
        }
    }
    if (best) {
        buf_fmt(&near, "the nearest is %s, which names %lld of its %lld tensors", best->family,
                (long long)most, (long long)hfdir_n_tensors(dir));
        if (others.len) buf_fmt(&near, ", but not %s", others.data);
    } else {
        buf_str(&near, "none of its tensor names occurs in a known model");
    }
    err_set(
        e, ERR_DATA,
        "%.200s: model class %s is not known, so its tensors and hyperparameters have no names in "
        "GGUF; %.500s. Add a table of them (CONTRIBUTING.md, \"architecture\"), or use a GGUF "
        "from another program: hone can quantize that. inspect, verify, tokenize and template "
        "lint work on the folder; `hone doctor --models` lists the known classes",
        hfdir_path(dir), show_n(cls, strlen(cls)).s, near.data);
    buf_release(&others);
    buf_release(&near);
    return (int)e->code;
}
