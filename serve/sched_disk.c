// SPDX-License-Identifier: MIT
/* serve/sched_disk.c - the scheduler's use of the on-disk prefix cache. Shared prefixes are written
 * when the server is idle, the rest at shutdown.
 *
 * The engine thread reads and writes the files, so a request may wait for one file. */
#include <stdlib.h>

#include "base/log.h"
#include "base/num.h"
#include "base/progress.h"
#include "serve/sched_int.h"

enum { GAIN = 256 /* minimum tokens that loading a file must save */ };
#define READ_BYTES_S 500e6 /* lowest speed expected of reading and checking a file, bytes/s */
#define END_S 20.0         /* time limit for writing all files at shutdown */
#define IDLE_S 1.0         /* idle time after which a file is written */

void sched_from_shelf(struct sched *s, const struct run *r, uint64_t need) {
    const struct task *t = r->task;
    if (!s->o.shelf) return;
    const int64_t have = prefix_cache_match(s->prefix, r->all.v, r->all.n, t->key).n;
    const struct prefix_disk_found at =
        prefix_disk_match(s->o.shelf, r->all.v, r->all.n, t->key, have + GAIN);
    if (!at.n) return;
    const uint64_t bytes = session_seq_bytes(s->s, at.n);
    const double computing = (double)(at.use - have) * s->row_s;
    struct seq *q = NULL;
    struct err e = {0};
    if (computing > 0 && (double)bytes / READ_BYTES_S > computing) return;
    if (!sched_room(s, bytes + need)) return;
    if (prefix_disk_load(s->o.shelf, &at, t->key, &q, &e))
        return; /* if it fails, the prefix is computed */
    prefix_cache_keep(s->prefix, at.ids, at.n, t->key, PREFIX_HEAD, q);
}

struct shelve {
    struct sched *s;
    bool all, wrote;
    double until_s;
};
/* Writes an entry to disk if it belongs there and is missing. Returns false to stop. */
static bool shelve(void *ud, const struct prefix_cache_kept *k) {
    struct shelve *w = ud;
    struct prefix_disk *f = w->s->o.shelf;
    const bool head =
        !session_info(w->s->s).can_trim && (k->use == PREFIX_HEAD || k->use == PREFIX_SPLIT);
    struct err e = {0};
    if (w->all ? k->use == PREFIX_EVERY : !head) return true;
    for (int64_t i = 0; i < k->n; i++)
        if (k->ids[i] < 0) return true; /* ids of images are valid in this process only */
    if (!prefix_disk_wants(f, k->ids, k->n, k->key)) return true;
    if (prefix_disk_save(f, k->ids, k->n, k->key, k->q, &e)) {
        log_warn("--cache-dir: %s; nothing more is written", e.msg);
        w->s->shelf_full = true;
        return false;
    }
    w->wrote = true;
    return w->all && progress_now_s() < w->until_s;
}

bool sched_shelve(struct sched *s, bool all) {
    struct shelve w = {.s = s, .all = all, .until_s = progress_now_s() + END_S};
    if (!s->o.shelf || s->shelf_full) return false;
    if (!all && (!s->has_new || progress_now_s() - s->t_busy < IDLE_S)) return false;
    prefix_cache_show(s->prefix, shelve, &w);
    s->has_new = w.wrote;
    return w.wrote;
}
