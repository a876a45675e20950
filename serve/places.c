// SPDX-License-Identifier: MIT
/* serve/places.c - index of calls or results by their ids: a list that is sorted when it is first
 * searched. */
#include "serve/places.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* Orders placements by id, then by place, for qsort. */
static int by_id(const void *a, const void *b) {
    const struct placement *x = a, *y = b;
    const int c = strcmp(x->id, y->id);
    return c ? c : x->at - y->at;
}

void places_add(struct places *p, const char *id, const struct json *item, int at) {
    if (!id) return;
    if (p->n == p->cap) {
        p->cap = p->cap ? 2 * p->cap : 16;
        p->v = xreallocarray(p->v, p->cap, sizeof *p->v);
    }
    p->v[p->n++] = (struct placement){id, at, item};
    p->sorted = false;
}

const struct placement *places_find(struct places *p, const char *id, int from) {
    const struct placement want = {id, from, NULL};
    size_t low = 0, high = p->n;
    if (!id || !p->n) return NULL;
    if (!p->sorted) qsort(p->v, p->n, sizeof *p->v, by_id);
    p->sorted = true;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (by_id(&p->v[mid], &want) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low < p->n && strcmp(p->v[low].id, id) == 0 ? &p->v[low] : NULL;
}

void places_clear(struct places *p) {
    p->n = 0;
}

void places_release(struct places *p) {
    free(p->v);
    *p = (struct places){0};
}
