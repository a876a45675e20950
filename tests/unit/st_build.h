// SPDX-License-Identifier: MIT
/* tests/unit/st_build.h - builder for safetensors files in memory. Start with a zeroed struct. */
#ifndef HONE_TESTS_ST_BUILD_H
#define HONE_TESTS_ST_BUILD_H

#include <inttypes.h>

#include "base/buf.h"
#include "base/os.h"
#include "base/out.h"
#include "containers/safetensors.h"
#include "tests/check.h"

struct st_build {
    struct buf header, data;
};

static inline void st_add(struct st_build *b, const char *name, const char *dtype, int n,
                          const int64_t *shape, const void *p, size_t n_bytes) {
    buf_fmt(&b->header, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", b->header.len ? "," : "{", name,
            dtype);
    for (int i = 0; i < n; i++) buf_fmt(&b->header, "%s%" PRId64, i ? "," : "", shape[i]);
    buf_fmt(&b->header, "],\"data_offsets\":[%zu,%zu]}", b->data.len, b->data.len + n_bytes);
    buf_add(&b->data, p, n_bytes);
}

static inline void st_copy(struct st_build *b, const char *name, const struct st_tensor *t) {
    st_add(b, name, st_dtype_name(t->dtype), t->n_dims, t->shape, t->data, (size_t)t->n_bytes);
}

/* Writes the file and empties b. */
static inline void st_finish(struct st_build *b, const char *path) {
    struct err e;
    struct buf all = {0};
    buf_str(&b->header, "}");
    uint64_t n = b->header.len;
    buf_add(&all, &n, 8);
    buf_add(&all, b->header.data, b->header.len);
    buf_add(&all, b->data.data, b->data.len);
    CHECK_OK(out_write_file(path, all.data, all.len, true, &e));
    buf_release(&all);
    buf_release(&b->header);
    buf_release(&b->data);
}

/* Rewrites the tensors of a file. fn adds what replaces a tensor, or returns 0 to keep it. */
static inline void st_rewrite(const char *path,
                              int (*fn)(struct st_build *b, const struct st_tensor *t)) {
    struct st_build b = {{0}, {0}};
    struct st *s = NULL;
    struct err e;
    CHECK_OK(st_open(&s, path, &e));
    for (int64_t i = 0; s && i < st_n_tensors(s); i++) {
        const struct st_tensor *t = st_tensor_at(s, i);
        if (!fn(&b, t)) st_copy(&b, t->name, t);
    }
    os_unlink(path);
    st_finish(&b, path);
    st_close(s);
}

#endif
