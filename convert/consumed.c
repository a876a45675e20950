// SPDX-License-Identifier: MIT
/* convert/consumed.c - the note in a folder whose shards `hone convert --consume` has deleted.
 *
 * It is written before the last shards are deleted. After a run that was killed during these
 * deletions, the same command can tell a finished job from a folder without weights. Lines:
 * "out: NAME", "header: HASH" of that file's header, "vision tensors: N" of the folder,
 * "shard: NAME" for each deleted shard, and "kept: SIZE TIME NAME" for each that was kept because
 * the output leaves out some of its tensors. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/os.h"
#include "base/out.h"
#include "base/printable.h"
#include "base/str.h"
#include "convert/consume.h"

enum { MAX_NOTE = 4 << 20 };

/* Sets hex to the hash of a GGUF file's header. Returns false if the file is missing or is no GGUF
 * file. */
static bool header_of(const char *path, char hex[33]) {
    struct gguf *g;
    struct err ignored;
    uint64_t n;
    if (!io_exists(path) || gguf_open(&g, path, 0, &ignored)) return false;
    const uint8_t *raw = gguf_shard_header(g, 0, &n);
    hash_xxh128_hex(hex, raw, n);
    gguf_close(g);
    return true;
}
static bool has_header(const char *path, const char *want) {
    char hex[33];
    return header_of(path, hex) && strcmp(hex, want) == 0;
}

/* Returns the line of a kept shard, by which a changed file is recognised; the caller frees it. */
static char *kept_line(const char *dir, const char *name) {
    struct os_stat st = {0};
    char *path = io_join(dir, name);
    (void)os_stat(path, &st);
    free(path);
    return xasprintf("%llu %lld.%09ld %s", (unsigned long long)st.size, (long long)st.mtime_s,
                     st.mtime_ns, name);
}

int consumed_write(const struct consume *c, struct err *e) {
    struct buf b = {0};
    char *path = io_join(hfdir_path(c->p->dir), CONSUMED_NOTE);
    char hex[33] = "";
    (void)header_of(c->o->out, hex); /* just written */
    buf_fmt(&b,
            "The weights of this folder were converted by `hone convert --consume`. The shards\n"
            "listed here as \"shard\" were deleted.\n"
            "out: %s\nheader: %s\nvision tensors: %lld\n",
            io_base(c->o->out), hex, (long long)plan_count_tower(c->p));
    for (int f = 0; f < c->n_files; f++) {
        const char *name = io_base(st_path(hfdir_file(c->p->dir, f)));
        if (c->last[f] == c->p->n_items) {
            char *line = kept_line(hfdir_path(c->p->dir), name);
            buf_fmt(&b, "kept: %s\n", line);
            free(line);
            continue;
        }
        const size_t len = strlen(name), k = strlen(HF_CONSUMED);
        buf_fmt(&b, "shard: %.*s\n", (int)(str_ends(name, HF_CONSUMED) ? len - k : len), name);
    }
    const int rc = out_write_file(path, b.data, b.len, true, e);
    free(path);
    buf_release(&b);
    return rc;
}

/* Returns whether `name` is a plain name of a safetensors file. */
static bool is_shard(const char *name) {
    return *name != '.' && !strchr(name, '/') && !strchr(name, '\\') &&
           str_ends(name, ".safetensors");
}

/* Describes the finished file in the report. */
static void report_file(const char *path, struct convert_report *rep) {
    struct gguf *g;
    struct err ignored;
    if (gguf_open(&g, path, 0, &ignored)) return;
    const char *type = qtype_ftype_name((int64_t)gguf_u64_or(g, "general.file_type", 1 << 20));
    snprintf(rep->arch, sizeof rep->arch, "%s", gguf_str_or(g, "general.architecture", ""));
    snprintf(rep->type, sizeof rep->type, "%s", type ? type : "");
    rep->n_tensors = gguf_n_tensors(g);
    rep->size_bytes = gguf_file_bytes(g);
    for (int64_t i = 0; i < rep->n_tensors; i++) {
        const int64_t *ne = gguf_tensor_at(g, i)->ne;
        rep->n_params += ne[0] * ne[1] * ne[2] * ne[3];
    }
    gguf_close(g);
}

/* Deletes a shard that the note lists, and its header. */
static int delete_listed(const struct convert_opts *o, const char *name, struct err *e) {
    struct os_stat st;
    char *path = io_join(o->src, name), *rest = xasprintf("%s%s", path, HF_CONSUMED);
    const bool there = os_lstat(path, &st) == 0;
    int rc = there && st.kind == OS_LINK && !o->links
                 ? err_set(e, ERR_USAGE, "%s is a link: --consume-links deletes it", path)
                 : 0;
    if (!rc) rc = consume_remove(path, e);
    if (!rc && there) log_info("deleted %s: its tensors are on disk", path);
    if (!rc) rc = consume_remove(rest, e);
    free(path);
    free(rest);
    return rc;
}

/* A note as read from a folder. */
struct note {
    char *out, *header;
    int64_t n_tower; /* 0 in notes of older versions */
    struct io_names shards;
    int n_kept;
    bool changed; /* a kept shard is no longer the one that was converted */
};

/* Returns whether the kept shard of a line is unchanged. */
static bool is_same(const char *dir, const char *line) {
    const char *name = strchr(line, ' ');
    name = name ? strchr(name + 1, ' ') : NULL;
    if (!name || !is_shard(name + 1)) return false;
    char *now = kept_line(dir, name + 1);
    const bool same = strcmp(now, line) == 0;
    free(now);
    return same;
}

/* Parses the note's lines; false if they are not such a note. */
static bool parse_note(struct note *n, const char *dir, char *text) {
    char *save;
    bool ok = true;
    for (char *s = strtok_r(text, "\n", &save); s && ok; s = strtok_r(NULL, "\n", &save)) {
        if (strncmp(s, "out: ", 5) == 0) n->out = s + 5;
        if (strncmp(s, "header: ", 8) == 0) n->header = s + 8;
        if (strncmp(s, "vision tensors: ", 16) == 0)
            n->n_tower = max_i64(strtoll(s + 16, NULL, 10), 0);
        if (strncmp(s, "kept: ", 6) == 0) {
            n->changed = n->changed || !is_same(dir, s + 6);
            n->n_kept++;
        }
        if (strncmp(s, "shard: ", 7) != 0) continue;
        ok = is_shard(s + 7);
        if (ok) io_names_add(&n->shards, s + 7);
    }
    return ok && n->out && n->header && (n->shards.n > 0 || n->n_kept > 0);
}

/* Returns whether a listed shard is missing from the folder. */
static bool lacks_shard(const char *dir, const struct note *n) {
    bool lacks = false;
    for (int i = 0; i < n->shards.n && !lacks; i++) {
        char *path = io_join(dir, n->shards.v[i]);
        lacks = !io_exists(path);
        free(path);
    }
    return lacks;
}

/* Returns whether the note's job is done, and no later one is under way: its shards are gone or, if
 * none could be deleted, its output is there and the shards have not changed. */
static bool is_done(const struct convert_opts *o, const struct note *n, const char *state) {
    const bool there = has_header(o->out, n->header);
    if (!n->shards.n) return there && !n->changed;
    return lacks_shard(o->src, n) && (there || !io_exists(state));
}

/* Finishes the job that the note describes. */
static int finish(const struct convert_opts *o, const struct note *n, struct convert_report *rep,
                  struct err *e) {
    if (!has_header(o->out, n->header))
        return err_set(e, ERR_DATA,
                       "%s: the weights were converted to %s and deleted: name that file with "
                       "-o, or download them again",
                       o->src, show_n(n->out, strlen(n->out)).s);
    for (int i = 0; i < n->shards.n && !o->dry_run; i++) TRY(delete_listed(o, n->shards.v[i], e));
    char *state = xasprintf("%s.part.state", o->out);
    int rc = o->dry_run ? 0 : consume_remove(state, e);
    free(state);
    if (!rc) log_info("%s is complete already: an earlier run has converted the folder", o->out);
    report_file(o->out, rep);
    rep->n_tower = n->n_tower;
    return rc;
}

int consumed_finish(const struct convert_opts *o, bool *done, struct convert_report *rep,
                    struct err *e) {
    char *path = io_join(o->src, CONSUMED_NOTE), *text = NULL;
    size_t len;
    struct note n = {0};
    int rc = 0;
    *done = false;
    if (o->out && io_exists(path)) rc = io_read_file(&text, &len, path, MAX_NOTE, e);
    char *state = xasprintf("%s.part.state", o->out ? o->out : "");
    if (!rc && text && parse_note(&n, o->src, text) && is_done(o, &n, state)) {
        rc = finish(o, &n, rep, e);
        *done = !rc;
    }
    free(state);
    io_names_release(&n.shards);
    free(text);
    free(path);
    return rc;
}
