// SPDX-License-Identifier: MIT
/* runtime/measure/base_rows.c - store of a base's hidden rows, so that comparisons one after the
 * other run the base once. Logits follow from the rows by the head alone, with the same bits. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "runtime/measure/kld_int.h"

struct eval_rows {
    struct known {
        char *key;   /* eval_keep_window */
        float *rows; /* owned; mem_free */
    } * v;
    int64_t n;
};

struct eval_rows *eval_rows_new(void) {
    return xcalloc(1, sizeof(struct eval_rows));
}

void eval_rows_free(struct eval_rows *s) {
    if (!s) return;
    for (int64_t i = 0; i < s->n; i++) {
        free(s->v[i].key);
        mem_free(s->v[i].rows);
    }
    free(s->v);
    free(s);
}

const float *eval_rows_get(const struct eval_rows *s, const char *key) {
    for (int64_t i = 0; s && i < s->n; i++)
        if (strcmp(s->v[i].key, key) == 0) return s->v[i].rows;
    return NULL;
}

void eval_rows_put(struct eval_rows *s, char *key, float *rows) {
    s->v = xreallocarray(s->v, (size_t)s->n + 1, sizeof *s->v);
    s->v[s->n++] = (struct known){key, rows};
}
