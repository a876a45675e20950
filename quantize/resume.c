// SPDX-License-Identifier: MIT
/* quantize/resume.c - resumable outputs: computes the key, checks a partial output, and continues
 * it. */
#include "quantize/resume.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/os.h"
#include "base/progress.h"
#include "base/str.h"
#include "quantize/journal.h"

struct resume {
    struct gguf_w *w; /* of the caller */
    const char *out;  /* output path, borrowed */
    struct journal j;
    struct xxh128 *hash; /* running hash of the tensor being written */
    int64_t n_tensors;
    bool begun; /* the journal is ours and valid */
};

/* Sets key to the hash of the output's headers and the source; *n_files: the output's shards. */
static int make_key(struct gguf_w *w, const struct gguf *source, char key[33], int *n_files,
                    struct err *e) {
    struct buf b = {0};
    *n_files = gguf_w_header_hash(w, key);
    buf_str(&b, key);
    for (int i = 0; i < gguf_n_shards(source); i++) {
        struct os_stat st;
        const char *path = gguf_shard_path(source, i);
        if (os_stat(path, &st) != 0) {
            buf_release(&b);
            return err_sys(e, "cannot examine %s", path);
        }
        buf_fmt(&b, ";%s;%lld;%lld.%09ld", path, (long long)st.size, (long long)st.mtime_s,
                st.mtime_ns);
    }
    hash_xxh128_hex(key, b.data, b.len);
    buf_release(&b);
    return 0;
}

/* Returns the name of an output's i-th .part file, to be freed. */
static char *part_name(const char *out, int i, int n_files) {
    char *name = n_files > 1 ? gguf_split_name(out, i, n_files) : xstrdup(out);
    char *part = xasprintf("%s.part", name);
    free(name);
    return part;
}

/* Removes the .part files of an earlier run with a different key. n_files: number of its output
 * files. */
static void remove_parts(const char *out, int n_files) {
    for (int i = 0; i < n_files; i++) {
        char *part = part_name(out, i, n_files);
        (void)os_unlink(part);
        free(part);
    }
}

/* Reports a .part with data but no journal as foreign: hone starts the journal before the .part and
 * removes it afterwards. */
char *resume_foreign(const char *out, int n_files) {
    char *log = xasprintf("%s.part.log", out);
    const bool there = io_exists(log);
    if (there && journal_is_foreign(log)) return log;
    free(log);
    for (int i = 0; i < n_files && !there; i++) {
        char *part = part_name(out, i, n_files);
        struct os_stat st;
        if (os_stat(part, &st) == 0 && st.size > 0) return part;
        free(part);
    }
    return NULL;
}

/* Returns ERR_USAGE if a .part file or the log is another program's. */
static int refuse_foreign(const char *out, int n_files, struct err *e) {
    char *path = resume_foreign(out, n_files);
    if (!path) return 0;
    const int rc =
        str_ends(path, ".log")
            ? err_set(e, ERR_USAGE,
                      "%s was not written by hone; rename it, or use -f to replace it", path)
            : err_set(e, ERR_USAGE,
                      "%s exists, but not hone's log of such a file, %s.log; rename it, "
                      "or use -f to replace it",
                      path, io_base(path));
    free(path);
    return rc;
}

/* Counts the tensors in the journal that match the partial file. */
static int check_part(struct resume *s, int64_t *n_done, struct err *e) {
    *n_done = 0;
    /* No run of this program can have written that many. */
    if (s->j.n > s->n_tensors) s->j.n = 0;
    if (!s->j.n) return 0;
    log_info("%s.part: resuming; verifying %lld of %lld tensors", s->out, (long long)s->j.n,
             (long long)s->n_tensors);
    for (; *n_done < s->j.n; ++*n_done) {
        char hex[33];
        struct err why;
        if (progress_interrupted()) return err_set(e, ERR_INTR, "interrupted");
        int rc = gguf_w_part_hash(s->w, *n_done, hex, &why);
        if (rc && rc != ERR_DATA) {
            *e = why;
            return rc;
        }
        if (rc || strcmp(hex, s->j.line[*n_done].hash) != 0) break;
    }
    if (*n_done < s->j.n)
        log_warn("%s.part: only %lld of %lld tensors are as recorded; the others are encoded again",
                 s->out, (long long)*n_done, (long long)s->j.n);
    return 0;
}

int resume_begin(struct resume **out, struct gguf_w *w, const struct quantize_opts *o,
                 const struct gguf *source, int64_t *n_done, struct err *e) {
    char key[33];
    int n_files;
    enum journal_found found;
    struct resume *s = *out = xcalloc(1, sizeof *s);
    s->w = w;
    s->out = o->out;
    s->j.fd = -1;
    s->hash = xxh128_new();
    s->n_tensors = gguf_n_tensors(source);
    TRY(make_key(w, source, key, &n_files, e));
    if (!o->overwrite) TRY(refuse_foreign(o->out, n_files, e));
    TRY(journal_open(&s->j, o->out, key, n_files, &found, e));
    s->begun = true;
    if (found == JOURNAL_OTHER) {
        log_warn("%s.part is from other options, another input or another version: starting afresh",
                 o->out);
        remove_parts(o->out, s->j.n_files);
    }
    TRY(gguf_w_begin_part(w, o->out, o->overwrite, found != JOURNAL_SAME, e));
    TRY(check_part(s, n_done, e));
    TRY(journal_cut(&s->j, *n_done, e));
    return gguf_w_resume(w, *n_done, e);
}

double resume_alpha(const struct resume *s, int64_t tensor) {
    return s->j.line[tensor].alpha;
}

int resume_data(struct resume *s, const void *p, uint64_t n, double alpha, struct err *e) {
    char hex[33];
    xxh128_add(s->hash, p, (size_t)n);
    if (gguf_w_n_complete(s->w) == s->j.n) return 0;
    xxh128_hex(s->hash, hex);
    xxh128_reset(s->hash);
    /* If the process is killed, data that has not been passed to the system is lost. */
    TRY(gguf_w_flush(s->w, e));
    return journal_add(&s->j, hex, alpha, e);
}

void resume_end(struct resume *s, int rc) {
    if (!s) return;
    /* After ERR_DATA the input has to change, so the partial file is useless. */
    bool keep = rc && rc != ERR_DATA && s->j.n > 0;
    if (keep) {
        gguf_w_keep(s->w);
        log_warn("%lld of %lld tensors are kept in %s.part: run the same command to resume, or "
                 "remove it and %s.part.log to give up",
                 (long long)s->j.n, (long long)s->n_tensors, s->out, io_base(s->out));
    }
    journal_close(&s->j, s->begun && !keep);
    xxh128_free(s->hash);
    free(s);
}
