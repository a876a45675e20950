// SPDX-License-Identifier: MIT
/* runtime/measure/measurement_cache.c - opening of results caches, and the keys of measurements. */
#include "runtime/measure/measurement_cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/os.h"
#include "base/ranks.h"

int kept_open(struct results_cache **out, const char *path, struct err *e) {
    *out = NULL;
    if (!path) return 0;
    if (ranks_n() > 1)
        return err_set(e, ERR_USAGE, "--keep is for one process: start without mpirun");
    return results_cache_open(out, path, e);
}

struct results_cache *kept_open_own(const char *path) {
    struct results_cache *k = NULL;
    struct err e;
    if (results_cache_open(&k, path, &e) == 0) return k;
    log_warn("%s: starting afresh", e.msg);
    (void)os_unlink(path);
    if (results_cache_open(&k, path, &e) == 0) return k;
    log_warn("%s; if interrupted, the current measurement is lost", e.msg);
    return NULL;
}

void kept_text(struct kept_of *x, struct results_cache *k, char *what) {
    x->of = xreallocarray(x->of, (size_t)x->n + 1, sizeof *x->of);
    x->of[x->n++] = (struct results_cache_of){k, what};
}

void kept_model(struct kept_of *x, struct results_cache *k, const struct session *s,
                const char *hash) {
    kept_text(x, k, k ? eval_keep_model(s, hash) : xstrdup(""));
}

void kept_pair(struct kept_of *x, struct results_cache *k, const struct session *base,
               const char *base_hash, const char *base_file, const struct session *s,
               const char *hash) {
    if (!k) {
        kept_text(x, k, xstrdup(""));
        return;
    }
    struct os_stat st = {0};
    char *model = eval_keep_model(s, hash), *from = NULL;
    if (base) {
        from = eval_keep_model(base, base_hash);
    } else {
        /* st stays zero if stat fails; opening the file will report why. */
        (void)os_stat(base_file, &st);
        from = xasprintf("%s;%lld;%lld.%09ld;", io_base(base_file), (long long)st.size,
                         (long long)st.mtime_s, st.mtime_ns);
    }
    kept_text(x, k, xasprintf("base %s%s", from, model));
    free(from);
    free(model);
}

void kept_weights(struct kept_of *x, struct results_cache *k, const struct gguf *g,
                  const char *imatrix_hash, const struct gguf *moments) {
    struct buf b = {0};
    buf_fmt(&b, "importance %s;weights ", imatrix_hash);
    if (k) gguf_stamp(g, &b);
    if (k && moments) buf_str(&b, "moments ");
    if (k && moments) gguf_stamp(moments, &b);
    kept_text(x, k, buf_take(&b));
}

void kept_release(struct kept_of *x) {
    for (int i = 0; i < x->n; i++) free((void *)(uintptr_t)x->of[i].what);
    free(x->of);
    memset(x, 0, sizeof *x);
}

static const char share_of[] = "share";

void kept_put_share(struct results_cache *k, const char *name, double share) {
    const struct results_cache_of w = {k, name};
    results_cache_put(&w, share_of, &share, sizeof share);
}

double kept_share(struct results_cache *k, const char *name) {
    const struct results_cache_of w = {k, name};
    double share = 0;
    const bool known = results_cache_get(&w, share_of, &share, sizeof share);
    return known && share > 0 && share <= 1 ? share : 0;
}
