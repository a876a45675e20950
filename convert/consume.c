// SPDX-License-Identifier: MIT
/* convert/consume.c - deletion of source shards during a conversion.
 *
 * Order of the steps for a shard: the output is synced, the record is updated, SHARD.consumed
 * appears, the shard disappears. A kill between any two of them loses nothing: the record counts
 * only synced tensors, and no tensor after them reads a deleted shard. */
#include "convert/consume.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/os.h"
#include "base/out.h"
#include "base/progress.h"
#include "base/str.h"

enum { SMALL = 1 << 20, MAX_STATE = 16 << 20 };

/* ---- what can be deleted --------------------------------------------------------------------- */

int consume_check(const struct convert_opts *o, struct err *e) {
    if (o->links && !o->consume)
        return err_set(e, ERR_USAGE, "--consume-links goes with --consume");
    if (!o->consume) return 0;
    if (o->lora)
        return err_set(e, ERR_USAGE,
                       "--consume and --lora cannot be used together: the adapter applies "
                       "to shards that would be gone");
    if (o->mtp_only)
        return err_set(e, ERR_USAGE,
                       "--consume and --mtp-only cannot be used together: the rest of the "
                       "model would be lost");
    if (o->split_max)
        return err_set(e, ERR_USAGE,
                       "--consume and --split-max cannot be used together: convert to one "
                       "file, or give --split-max to hone quantize");
    return 0;
}

static void note_reads(struct consume *c, int64_t i) {
    const struct item *it = &c->p->item[i];
    for (int64_t s = it->src; s < it->src + it->n_src; s++)
        for (int k = 0; k < DQ_PARTS; k++) {
            const struct st_tensor *t = c->p->src[s].part[k];
            if (t && c->last[t->file] < i) c->last[t->file] = i;
        }
}

/* Returns whether deleting shards makes room for the output. */
static bool same_disk(const struct consume *c) {
    struct os_stat in, out;
    if (!c->o->out) return true;
    const size_t n = (size_t)(io_base(c->o->out) - c->o->out);
    char *dir = n ? xstrndup(c->o->out, n) : xstrdup(".");
    const bool same =
        os_stat(hfdir_path(c->p->dir), &in) == 0 && os_stat(dir, &out) == 0 && in.dev == out.dev;
    free(dir);
    return same;
}

/* Sets c->extra: simulates the job, in which the output grows and shards disappear. */
static void simulate(struct consume *c) {
    const bool frees = same_disk(c);
    int64_t now = (int64_t)gguf_w_total_bytes(c->w), most = 0;
    for (int64_t i = 0; i < c->p->n_items; i++) now -= (int64_t)c->p->item[i].n_bytes;
    for (int64_t i = 0; i < c->p->n_items; i++) {
        now += (int64_t)c->p->item[i].n_bytes;
        if (now > most) most = now;
        for (int f = 0; f < c->n_files && i + 1 < c->p->n_items && frees; f++)
            if (c->last[f] == i) now -= (int64_t)st_file_bytes(hfdir_file(c->p->dir, f));
    }
    c->extra = (uint64_t)most;
}

static bool is_rest(const struct st *s) {
    return str_ends(st_path(s), HF_CONSUMED);
}

/* Rejects a shard that is a link, and warns about one with several names. */
static int check_file(const struct consume *c, int f, struct err *e) {
    const char *path = st_path(hfdir_file(c->p->dir, f));
    struct os_stat st;
    if (is_rest(hfdir_file(c->p->dir, f))) return 0;
    if (os_lstat(path, &st) != 0) return err_sys(e, "cannot examine %s", path);
    char *target = st.kind == OS_LINK ? io_real(path) : NULL;
    int rc = 0;
    if (target && !c->o->links)
        rc = err_set(e, ERR_USAGE,
                     "%s is a link to %s, which other programs may use (a shared cache): "
                     "--consume-links deletes that file too",
                     path, target);
    else if (target)
        log_warn("%s will be deleted together with the file that it is a link to, %s", path,
                 target);
    else if (st.n_links > 1)
        log_warn("%s has other names: deleting it frees no space", path);
    free(target);
    return rc;
}

int consume_open(struct consume *c, const struct conv_plan *p, const struct convert_opts *o,
                 struct gguf_w *w, struct err *e) {
    c->p = p;
    c->o = o;
    c->w = w;
    c->n_files = hfdir_n_files(p->dir);
    c->last = xcalloc((size_t)c->n_files + 1, sizeof *c->last);
    c->gone = xcalloc((size_t)c->n_files + 1, sizeof *c->gone);
    c->hash = xcalloc((size_t)p->n_items + 1, sizeof *c->hash);
    c->state = o->out ? xasprintf("%s.part.state", o->out) : NULL;
    gguf_w_header_hash(w, c->key);
    for (int f = 0; f < c->n_files; f++) c->last[f] = -1;
    for (int64_t i = 0; i < p->n_items; i++) note_reads(c, i);
    for (int f = 0; f < c->n_files; f++) {
        c->gone[f] = is_rest(hfdir_file(p->dir, f));
        if (p->keeps[f]) c->last[f] = p->n_items;
        if (p->keeps[f])
            log_info("%s is kept: the output leaves out some of its tensors",
                     io_base(st_path(hfdir_file(p->dir, f))));
        else
            TRY(check_file(c, f, e));
    }
    simulate(c);
    return 0;
}

void consume_close(struct consume *c, int rc) {
    if (rc && c->state && !c->o->dry_run && io_exists(c->state))
        log_warn("%s.part is kept: run the same command to resume", c->o->out);
    free(c->last);
    free(c->gone);
    free(c->hash);
    free(c->state);
    *c = (struct consume){0};
}

/* ---- the record ------------------------------------------------------------------------------ */

/* Records that the first n items are on disk, with their hashes. */
static int write_state(struct consume *c, int64_t n, struct err *e) {
    struct buf b = {0};
    int rc = 0;
    for (; c->n_hashed < n && !rc; c->n_hashed += !rc)
        rc = gguf_w_part_hash(c->w, c->n_hashed, c->hash[c->n_hashed], e);
    buf_fmt(&b, "%s %" PRId64 "\n", c->key, n);
    for (int64_t i = 0; i < n; i++) buf_fmt(&b, "%s\n", c->hash[i]);
    if (!rc) rc = out_write_file(c->state, b.data, b.len, true, e);
    buf_release(&b);
    return rc;
}

/* Reads the record of an earlier run with the same output. Returns false if it is missing or of
 * another output. */
static bool read_state(struct consume *c, int64_t *n) {
    char *text = NULL, *save, key[33];
    size_t len;
    struct err ignored;
    const bool ok =
        io_exists(c->state) && !io_read_file(&text, &len, c->state, MAX_STATE, &ignored);
    const char *line = ok ? strtok_r(text, "\n", &save) : NULL;
    bool same = line && sscanf(line, "%32s %" SCNd64, key, n) == 2 && strcmp(key, c->key) == 0 &&
                *n >= 0 && *n <= c->p->n_items;
    for (int64_t i = 0; same && i < *n; i++) {
        line = strtok_r(NULL, "\n", &save);
        same = line && strlen(line) == 32;
        if (same) memcpy(c->hash[i], line, 33);
    }
    free(text);
    return same;
}

/* Returns whether a file begins as a record does: with a hash and a number. */
static bool is_record(const char *path) {
    char *text = NULL, key[34];
    size_t len;
    int64_t n;
    struct err ignored;
    const bool is = io_exists(path) && !io_read_file(&text, &len, path, MAX_STATE, &ignored) &&
                    sscanf(text, "%33s %" SCNd64, key, &n) == 2 && strlen(key) == 32 &&
                    strspn(key, "0123456789abcdef") == 32;
    free(text);
    return is;
}

/* Fails if the partial output or its record is another program's. The record is written first, so a
 * partial output without one is not hone's. */
static int refuse_foreign(const struct consume *c, const char *part, struct err *e) {
    struct os_stat st;
    const char *foreign = NULL;
    if (c->o->overwrite || is_record(c->state)) return 0;
    if (os_stat(part, &st) == 0 && st.size > 0) foreign = part;
    if (os_stat(c->state, &st) == 0 && st.size > 0) foreign = c->state;
    if (!foreign) return 0;
    return err_set(e, ERR_USAGE, "%s was not written by hone; rename it, or use -f to replace it",
                   foreign);
}

/* Fails if a deleted shard is needed after the first n items. */
static int check_gone(const struct consume *c, int64_t n, struct err *e) {
    for (int f = 0; f < c->n_files; f++)
        if (c->gone[f] && c->last[f] >= n)
            return err_set(e, ERR_DATA,
                           "%s was consumed by another run, whose output %s.part is missing or "
                           "different: run that command, or download the shard again and remove "
                           "%s%s",
                           st_path(hfdir_file(c->p->dir, f)), c->o->out, "the file ",
                           io_base(st_path(hfdir_file(c->p->dir, f))));
    return 0;
}

/* Checks the recorded items in the partial output. If one has changed, *n becomes its number;
 * ERR_DATA if its shard is gone. */
static int check_part(struct consume *c, int64_t *n, struct err *e) {
    char hex[33];
    for (int64_t i = 0; i < *n; i++) {
        if (progress_interrupted()) return err_set(e, ERR_INTR, "interrupted");
        TRY(gguf_w_part_hash(c->w, i, hex, e));
        c->n_hashed = i;
        if (strcmp(hex, c->hash[i]) == 0) continue;
        for (int f = 0; f < c->n_files; f++)
            if (c->gone[f] && c->last[f] >= i)
                return err_set(e, ERR_DATA,
                               "%s.part: %s has changed since it was written, and %s is gone: "
                               "download that shard again and remove %s.part",
                               c->o->out, c->p->item[i].inst.name,
                               io_base(st_path(hfdir_file(c->p->dir, f))), c->o->out);
        log_warn("%s.part: %s has changed since it was written; converting it again", c->o->out,
                 c->p->item[i].inst.name);
        *n = i;
    }
    c->n_hashed = *n;
    return 0;
}

/* ---- deletion -------------------------------------------------------------------------------- */

/* Writes the header and the small tensors of a shard to SHARD.consumed, a sparse file of the same
 * size. */
static int write_rest(const struct st *s, const char *rest, struct err *e) {
    struct out *o;
    uint64_t n;
    const uint8_t *header = st_header(s, &n);
    TRY(out_open(&o, rest, true, e));
    int rc = out_write(o, header, n, e);
    if (!rc) rc = out_cut(o, st_file_bytes(s), e);
    for (int64_t i = 0; i < st_n_tensors(s) && !rc; i++) {
        const struct st_tensor *t = st_tensor_at(s, i);
        if (t->n_bytes <= SMALL) rc = out_pwrite(o, t->data, t->n_bytes, t->off, e);
    }
    if (!rc) rc = out_commit(o, e);
    out_close(o);
    return rc;
}

static int remove_file(const char *path, struct err *e) {
    return os_unlink(path) == 0 || errno == ENOENT ? 0 : err_sys(e, "cannot delete %s", path);
}

int consume_remove(const char *path, struct err *e) {
    struct os_stat st;
    char *target = os_lstat(path, &st) == 0 && st.kind == OS_LINK ? io_real(path) : NULL;
    int rc = remove_file(path, e);
    if (!rc && target) rc = remove_file(target, e);
    free(target);
    return rc;
}

static int consume_file(struct consume *c, int f, struct err *e) {
    const struct st *s = hfdir_file(c->p->dir, f);
    char *rest = xasprintf("%s%s", st_path(s), HF_CONSUMED);
    int rc = write_rest(s, rest, e);
    free(rest);
    if (!rc) hfdir_end_file(c->p->dir, f); /* a mapped file keeps its blocks */
    if (!rc) rc = consume_remove(st_path(s), e);
    c->gone[f] = !rc;
    if (!rc) log_info("deleted %s: its tensors are on disk", st_path(s));
    return rc;
}

/* ---- the job ----------------------------------------------------------------------------------
 */

int consume_begin(struct consume *c, int64_t *n_done, struct err *e) {
    char *part = xasprintf("%s.part", c->o->out);
    const bool known = read_state(c, n_done), has_part = io_exists(part);
    const int bad = refuse_foreign(c, part, e);
    free(part);
    TRY(bad);
    if (known && *n_done == c->p->n_items && !has_part && io_exists(c->o->out)) {
        *n_done = -1;
        return 0;
    }
    if (!known || !has_part) *n_done = 0;
    TRY(check_gone(c, *n_done, e));
    TRY(out_check(c->o->out, c->o->overwrite, e));
    if (!*n_done) TRY(io_need_space(c->o->out, c->extra, e));
    char *note = io_join(hfdir_path(c->p->dir), CONSUMED_NOTE); /* of an earlier job */
    const int rc = consume_remove(note, e);
    free(note);
    TRY(rc);
    gguf_w_any_space(c->w);
    if (!*n_done) TRY(write_state(c, 0, e));
    TRY(gguf_w_begin_part(c->w, c->o->out, c->o->overwrite, *n_done == 0, e));
    gguf_w_keep(c->w);
    if (*n_done)
        log_info("%s.part: resuming after %" PRId64 " of %" PRId64 " tensors", c->o->out, *n_done,
                 c->p->n_items);
    TRY(check_part(c, n_done, e));
    TRY(gguf_w_resume(c->w, *n_done, e));
    TRY(write_state(c, *n_done, e));
    for (int f = 0; f < c->n_files && *n_done < c->p->n_items; f++)
        if (c->last[f] < *n_done && c->last[f] >= 0 && !c->gone[f]) TRY(consume_file(c, f, e));
    return 0;
}

int consume_item(struct consume *c, int64_t i, struct err *e) {
    bool any = i + 1 == c->p->n_items;
    for (int f = 0; f < c->n_files; f++) any |= c->last[f] == i && !c->gone[f];
    if (!any) return 0;
    TRY(gguf_w_sync(c->w, e));
    TRY(write_state(c, i + 1, e));
    for (int f = 0; f < c->n_files && i + 1 < c->p->n_items; f++)
        if (c->last[f] == i && !c->gone[f]) TRY(consume_file(c, f, e));
    return 0;
}

int consume_end(struct consume *c, struct err *e) {
    TRY(consumed_write(c, e));
    for (int f = 0; f < c->n_files; f++) {
        const char *path = st_path(hfdir_file(c->p->dir, f));
        char *rest = xasprintf("%s%s", path, is_rest(hfdir_file(c->p->dir, f)) ? "" : HF_CONSUMED);
        const bool kept = c->last[f] == c->p->n_items || c->gone[f];
        int rc = kept ? 0 : consume_remove(path, e);
        if (!rc && !kept) log_info("deleted %s: its tensors are on disk", path);
        if (!rc) rc = remove_file(rest, e);
        free(rest);
        TRY(rc);
    }
    return remove_file(c->state, e);
}
