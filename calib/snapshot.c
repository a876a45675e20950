// SPDX-License-Identifier: MIT
/* calib/snapshot.c - writing and reading snapshots of importance matrices.
 *
 * State: number of chunks and of entries (8 bytes each); per entry the length of its name, ne0 and
 * n_mat (8 bytes each), the name, sum2, count and, with moments, sum1 and sum4; then the output of
 * gram_col_save. A snapshot that does not match the run is rejected as a whole, even if its
 * checksum is valid. */
#include "calib/snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"

enum { MAX_NAME = 1024 };

static int put_u64(struct checkpoint_w *w, uint64_t v, struct err *e) {
    return checkpoint_put(w, &v, sizeof v, e);
}

/* Writes the entry: sizes, name, sums and counts. */
static int put_entry(struct checkpoint_w *w, const struct imat_entry *en, struct err *e) {
    const size_t len = strlen(en->name);
    const uint64_t values = (uint64_t)(en->ne0 * en->n_mat) * sizeof(double);
    TRY(put_u64(w, len, e));
    TRY(put_u64(w, (uint64_t)en->ne0, e));
    TRY(put_u64(w, (uint64_t)en->n_mat, e));
    TRY(checkpoint_put(w, en->name, len, e));
    TRY(checkpoint_put(w, en->sum2, values, e));
    TRY(checkpoint_put(w, en->count, (uint64_t)en->n_mat * sizeof(double), e));
    if (en->sum1) TRY(checkpoint_put(w, en->sum1, values, e));
    return en->sum4 ? checkpoint_put(w, en->sum4, values, e) : 0;
}

int calib_save(const char *path, const char *what, const struct imat *m,
               const struct gram_col *gram, struct err *e) {
    struct checkpoint_w *w;
    int rc = checkpoint_begin(&w, path, what, e);
    if (!rc) rc = put_u64(w, m->n_chunks, e);
    if (!rc) rc = put_u64(w, (uint64_t)m->n_entries, e);
    for (int64_t i = 0; i < m->n_entries && !rc; i++) rc = put_entry(w, &m->entry[i], e);
    if (!rc && gram) rc = gram_col_save(gram, w, e);
    if (!rc) rc = checkpoint_commit(w, e);
    checkpoint_end(w);
    return rc;
}

/* Reads an entry into m; false if it is invalid or cut off. */
static bool get_entry(struct checkpoint_r *r, struct imat *m) {
    uint64_t len, ne0, n_mat, values, need;
    char name[MAX_NAME + 1];
    if (!checkpoint_get(r, &len, sizeof len) || !checkpoint_get(r, &ne0, sizeof ne0) ||
        !checkpoint_get(r, &n_mat, sizeof n_mat) || len > MAX_NAME || !checkpoint_get(r, name, len))
        return false;
    name[len] = 0;
    if (!ne0 || !n_mat || strlen(name) != len || !mul_ok(ne0, n_mat, &values) ||
        !mul_ok(values, sizeof(double), &need) || need > checkpoint_left(r))
        return false;
    const int64_t before = m->n_entries;
    struct imat_entry *en = imat_add(m, name, (int64_t)ne0, (int64_t)n_mat);
    return en && m->n_entries > before && checkpoint_get(r, en->sum2, need) &&
           checkpoint_get(r, en->count, n_mat * sizeof(double)) &&
           (!en->sum1 || (checkpoint_get(r, en->sum1, need) && checkpoint_get(r, en->sum4, need)));
}

/* Reads the whole checkpoint; false if it does not match this run. */
static bool get_all(struct checkpoint_r *r, struct imat *m, struct gram_col *gram,
                    int64_t max_chunks) {
    uint64_t n_chunks, n_entries;
    if (!checkpoint_get(r, &n_chunks, sizeof n_chunks) ||
        !checkpoint_get(r, &n_entries, sizeof n_entries) || n_chunks > (uint64_t)max_chunks)
        return false;
    for (uint64_t i = 0; i < n_entries; i++)
        if (!get_entry(r, m)) return false;
    m->n_chunks = (uint32_t)n_chunks;
    return gram ? gram_col_load(gram, r) : checkpoint_left(r) == 0;
}

enum checkpoint_found calib_load(const char *path, const char *what, struct imat *m,
                                 struct gram_col *gram, int64_t max_chunks) {
    struct checkpoint_r r;
    struct imat found;
    enum checkpoint_found is = checkpoint_open(&r, path, what);
    if (is == SNAP_SAME) {
        imat_init(&found);
        found.moments = m->moments;
        if (get_all(&r, &found, gram, max_chunks)) {
            m->n_chunks = found.n_chunks;
            m->entry = found.entry;
            m->n_entries = found.n_entries;
            m->cap = found.cap;
        } else {
            log_warn("%s does not match this run's chunks: starting afresh", path);
            is = SNAP_OTHER;
            imat_release(&found);
        }
    }
    checkpoint_close(&r);
    return is;
}
