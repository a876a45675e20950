// SPDX-License-Identifier: MIT
/* work/apart.c - check that a command writes none of the files that it reads. */
#include "work/apart.h"

#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/os.h"
#include "base/out.h"
#include "containers/gguf.h"

void apart_in(struct apart *a, const char *path) {
    int at, n;
    size_t len;
    if (!path) return;
    work_list_add(a->w, &a->in, path);
    if (!gguf_split_parse(path, &at, &n, &len)) return;
    for (int i = 0; i < n; i++) {
        char *shard = gguf_split_name(path, i, n);
        if (!io_exists(shard)) n = 0; /* no set: opening it gives the reason */
        if (n) work_list_add(a->w, &a->in, arena_strndup(&a->w->mem, shard, strlen(shard)));
        free(shard);
    }
}

void apart_in_all(struct apart *a, const char *const *path, int n) {
    for (int i = 0; i < n; i++) apart_in(a, path[i]);
}

void apart_out(struct apart *a, const char *path) {
    if (path) work_list_add(a->w, &a->out, path);
}

/* Returns the path with links resolved (the caller frees it); the file need not exist. */
static char *real_path(const char *path) {
    char *real = io_real(path);
    if (real) return real;
    const char *base = io_base(path);
    char *dir = base == path ? xstrdup(".") : xstrndup(path, (size_t)(base - path));
    char *folder = io_real(dir);
    real = folder ? io_join(folder, base) : xstrdup(path);
    free(folder);
    free(dir);
    return real;
}

bool apart_same(const char *a, const char *b) {
    struct os_stat s, u;
    if (os_stat(a, &s) == 0 && os_stat(b, &u) == 0) return os_same_file(&s, &u);
    char *x = real_path(a), *y = real_path(b);
    const bool same = strcmp(x, y) == 0;
    free(x);
    free(y);
    return same;
}

int apart_check(const struct apart *a, struct err *e) {
    for (int i = 0; i < a->out.n; i++) {
        TRY(out_apart(a->out.v[i], a->in.v, (size_t)a->in.n, e));
        for (int k = 0; k < i; k++)
            if (apart_same(a->out.v[i], a->out.v[k]))
                return err_set(e, ERR_USAGE, "%s is named for two outputs; give each its own file",
                               a->out.v[i]);
    }
    return 0;
}
