// SPDX-License-Identifier: MIT
/* jobs/work.c - see work.h. */
#include "jobs/work.h"

#include <string.h>

int work_pool(struct work *w, struct err *e) {
    TRY(ctx_team(w->ctx, w->threads, e));
    w->pool = w->ctx->pool;
    return 0;
}

void work_list_add(struct work *w, struct str_list *l, const char *value) {
    /* The array is full at every power of two. The old one stays in the arena, so that it takes
     * twice the size in all. */
    if ((l->n & (l->n - 1)) == 0) {
        const char **v = arena_array(&w->mem, l->n ? 2 * (size_t)l->n : 1, sizeof *v);
        if (l->n) memcpy(v, l->v, (size_t)l->n * sizeof *v);
        l->v = v;
    }
    l->v[l->n++] = value;
}

void work_split(struct work *w, const char *text, struct str_list *out) {
    while (*text) {
        size_t n = strcspn(text, ",");
        if (n) work_list_add(w, out, arena_strndup(&w->mem, text, n));
        text += n + (text[n] == ',');
    }
}

int act_parse(const char *text, enum act_mode *out, struct err *e) {
    const bool exact = strcmp(text, ACT_EXACT) == 0;
    if (!exact && strcmp(text, ACT_FAST) != 0)
        return err_set(e, ERR_USAGE, "--act: '%s' is not " ACT_EXACT " or " ACT_FAST, text);
    *out = exact ? ACT_F32 : ACT_Q8;
    return 0;
}
