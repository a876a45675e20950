// SPDX-License-Identifier: MIT
/* jobs/meta_job.c - hone meta: lists or edits the metadata of a GGUF file.
 *
 * All changes of a command are written together (containers/gguf_edit.c). Before the first byte is
 * written, the file is opened with its new header, and everything that could be read before must
 * still be readable. So an edit cannot contradict the tensors, namely their alignment, the number
 * of blocks, the sizes of an architecture that hone supports, or the arrays of the vocabulary. */
#include "jobs/meta_job.h"

#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/printable.h"
#include "runtime/engine/model.h"
#include "template/jinja.h"
#include "work/kv_parse.h"
#include "work/kv_text.h"

/* ---- listing --------------------------------------------------------------------------------- */

/* Writes the row of a key. all: the value is not cut; json: it is written as JSON, not cut. */
static void emit_key(struct emit *m, const struct gguf_kv *kv, bool all, bool json) {
    struct buf v = {0};
    char type[32];
    kv_type(type, kv);
    emit_row(m);
    emit_cell_str(m, kv->key);
    emit_cell_str(m, type);
    if (json) {
        kv_json(&v, kv);
        emit_cell_json(m, v.data);
    } else {
        kv_value(&v, kv, all);
        emit_cell_str(m, v.data);
    }
    buf_release(&v);
}

/* Lists the keys that o->set names, or all. */
static int list_keys(const struct meta_opts *o, const struct gguf *g, struct emit *m,
                     struct err *e) {
    emit_table(m, "keys", "");
    emit_col(m, "key", "key");
    emit_col(m, "type", "type");
    emit_col(m, "value", "value");
    for (int64_t i = 0; i < gguf_n_kv(g) && !o->set.n; i++)
        emit_key(m, gguf_kv_at(g, i), false, o->in_full);
    for (int i = 0; i < o->set.n; i++) {
        const struct gguf_kv *kv = gguf_find(g, o->set.v[i]);
        if (!kv)
            return err_set(e, ERR_DATA, "%s: key \"%s\" is missing", gguf_path(g),
                           show_n(o->set.v[i], strlen(o->set.v[i])).s);
        emit_key(m, kv, true, o->in_full);
    }
    return 0;
}

/* ---- what an edit must keep ------------------------------------------------------------------ */

/* Parts of a file that a reader needs; an edit may not break those that were intact. */
struct whole {
    bool vocab, computes, blocks;
};

/* Returns whether "ARCH.block_count" is the number of blocks among the tensors. */
static int check_blocks(const struct gguf *g, struct err *e) {
    const char *arch = gguf_str_or(g, "general.architecture", NULL);
    if (!arch) return err_set(e, ERR_USAGE, "key \"general.architecture\" is missing");
    char *key = xasprintf("%s.block_count", arch);
    uint64_t n = 0;
    long most = -1;
    for (int64_t i = 0; i < gguf_n_tensors(g); i++) {
        const char *name = gguf_tensor_at(g, i)->name;
        const long k = strncmp(name, "blk.", 4) == 0 ? strtol(name + 4, NULL, 10) : -1;
        if (k > most) most = k;
    }
    int rc = most < 0 ? 0 : gguf_get_u64(g, key, &n, e);
    if (!rc && most >= 0 && n != (uint64_t)most + 1)
        rc = err_set(e, ERR_USAGE, "the tensors have %ld blocks, but key \"%s\" is %llu", most + 1,
                     show_n(key, strlen(key)).s, (unsigned long long)n);
    free(key);
    return rc;
}

/* Returns which checks the file passes. */
static struct whole examine(struct gguf *g) {
    struct err ignored;
    return (struct whole){gguf_check_tokenizer(g, &ignored) == 0, model_computes(g, &ignored) == 0,
                          check_blocks(g, &ignored) == 0};
}

/* Rejects an edit after which the file lacks something that it had. */
static int check_whole(struct gguf *edited, void *arg, struct err *e) {
    const struct whole *had = arg;
    int rc = had->blocks ? check_blocks(edited, e) : 0;
    if (!rc && had->vocab) rc = gguf_check_tokenizer(edited, e);
    if (!rc && had->computes) rc = model_computes(edited, e);
    return rc;
}

/* Rejects keys that belong to the container. */
static int check_own(const struct gguf *g, const struct gguf_kv *kv, struct err *e) {
    const struct gguf_kv *old = gguf_find(g, kv->key);
    if (strcmp(kv->key, "hone.padding") == 0)
        return err_set(e, ERR_USAGE,
                       "key \"hone.padding\" is reserved as room for edits; leave it unchanged");
    if (strncmp(kv->key, "split.", 6) != 0) return 0;
    if (old && kv->data && kv->type != GV_STR && kv->type != GV_ARR && old->type != GV_STR &&
        old->type != GV_ARR && gguf_kv_i64(kv, 0) == gguf_kv_i64(old, 0))
        return 0;
    return err_set(
        e, ERR_USAGE,
        "key \"%s\" describes the files of a set; `hone split` and `hone merge` write it",
        show_n(kv->key, strlen(kv->key)).s);
}

/* ---- editing --------------------------------------------------------------------------------- */

struct changes {
    struct kv_new *v; /* [n_set] values, then keys to remove */
    struct gguf_kv *kv;
    int n;
};

static void release_changes(struct changes *c) {
    for (int i = 0; i < c->n; i++) kv_new_release(&c->v[i]);
    free(c->v);
    free(c->kv);
}

/* Adds a change: "KEY=VALUE", or a key to remove. A key to remove that the file lacks gives only a
 * warning, so that a command can be repeated. */
static int add_change(struct changes *c, const struct gguf *g, const char *text, bool unset,
                      struct err *e) {
    struct kv_new *v = &c->v[c->n];
    if (unset && !gguf_find(g, text)) {
        log_warn("%s has no key \"%s\"; nothing was removed", gguf_path(g),
                 show_n(text, strlen(text)).s);
        return 0;
    }
    c->n++;
    if (unset)
        v->kv.key = v->key = xstrdup(text);
    else
        TRY(kv_parse(v, g, text, e));
    if (!unset) TRY(meta_check_value(&v->kv, e));
    c->kv[c->n - 1] = v->kv;
    for (int k = 0; k + 1 < c->n; k++)
        if (strcmp(c->kv[k].key, v->key) == 0)
            return err_set(e, ERR_USAGE, "key \"%s\" is changed twice",
                           show_n(v->key, strlen(v->key)).s);
    return check_own(g, &v->kv, e);
}

/* Parses the changes of --set and --unset. */
static int parse_changes(struct changes *c, const struct meta_opts *o, const struct gguf *g,
                         struct err *e) {
    const size_t most = (size_t)o->set.n + (size_t)o->unset.n + 1;
    c->v = xcalloc(most, sizeof *c->v);
    c->kv = xcalloc(most, sizeof *c->kv);
    for (int i = 0; i < o->set.n; i++) TRY(add_change(c, g, o->set.v[i], false, e));
    for (int i = 0; i < o->unset.n; i++) TRY(add_change(c, g, o->unset.v[i], true, e));
    return 0;
}

/* Returns the key's value as one line of text, or the complete value as JSON. NULL: no value. The
 * caller frees it. */
static char *value_of(const struct gguf_kv *kv, bool json) {
    struct buf b = {0};
    if (!kv || !kv->data) return NULL;
    if (json)
        kv_json(&b, kv);
    else
        kv_value(&b, kv, false);
    return buf_take(&b);
}

/* Adds the table of changed keys; in_full: values as JSON, not shortened. */
static void emit_changes(const struct changes *c, const struct gguf *g, bool in_full,
                         struct emit *m) {
    emit_table(m, "changes", "");
    emit_col(m, "key", "key");
    emit_col(m, "type", "type");
    emit_col(m, "old", "old");
    emit_col(m, "new", "new");
    for (int i = 0; i < c->n; i++) {
        const struct gguf_kv *old = gguf_find(g, c->kv[i].key);
        char *was = value_of(old, in_full), *is = value_of(&c->kv[i], in_full), type[32];
        kv_type(type, c->kv[i].data ? &c->kv[i] : old);
        emit_row(m);
        emit_cell_str(m, c->kv[i].key);
        emit_cell_str(m, type);
        in_full ? emit_cell_json(m, was) : emit_cell_str(m, was);
        in_full ? emit_cell_json(m, is) : emit_cell_str(m, is);
        free(was);
        free(is);
    }
}

void meta_log_edit(const char *path, const struct gguf_edit *how) {
    if (how->n_room)
        log_info("%s: inserted %llu bytes of room before the tensors, whose bytes stay unchanged",
                 path, (unsigned long long)how->n_room);
    else if (how->in_place && !how->n_bytes)
        log_info("%s has these values already; nothing was written", path);
    else if (how->in_place)
        log_info("%s: wrote %llu bytes of metadata in place; tensors are unchanged", path,
                 (unsigned long long)how->n_bytes);
    else
        log_info("%s: the text did not fit before the tensors, so the whole file was written "
                 "again, with room for later edits",
                 path);
    if (!how->in_place && how->n_links > 1)
        log_warn("%s had %llu other names (hard links); they still have the old metadata", path,
                 (unsigned long long)how->n_links - 1);
}

/* Warns that the checksums in the file's folder are out of date. */
static void warn_sums(const char *path) {
    static const char *const sums[] = {"SHA256SUMS", "manifest.json"};
    const size_t n = (size_t)(io_base(path) - path);
    for (size_t i = 0; i < COUNT_OF(sums); i++) {
        char *name = xasprintf("%.*s%s", (int)n, path, sums[i]);
        if (io_exists(name))
            log_warn("%s may list the file's old checksum; `hone publish` updates it", name);
        free(name);
    }
}

/* Adds how the file was changed and how many header bytes were written. */
static void emit_edit(const char *path, const struct gguf_edit *how, struct emit *m) {
    emit_str(m, "file", NULL, path);
    emit_str(m, "how", NULL,
             how->n_room     ? "room inserted"
             : how->in_place ? "in place"
                             : "file rewritten");
    emit_i64(m, "header_bytes_written", NULL, (int64_t)how->n_bytes);
}

/* Warns about a new chat template that cannot be used. */
static void warn_template(const struct gguf_kv *kv) {
    struct jinja *t = NULL;
    struct err e;
    if (strncmp(kv->key, "tokenizer.chat_template", 23) != 0 || !kv->data || kv->type != GV_STR)
        return;
    if (jinja_compile_mode(&t, (const char *)kv->data, kv->count, kv->key, JINJA_LENIENT, NULL, &e))
        log_warn("the new chat template cannot be used: %s", e.msg);
    jinja_free(t);
}

/* Changes the keys of a file, unless that would make a valid file invalid. */
static int edit_keys(const struct meta_opts *o, struct gguf **g, struct emit *m, struct err *e) {
    struct changes c = {0};
    struct gguf_edit how;
    int rc = parse_changes(&c, o, *g, e);
    if (!rc) {
        struct whole had = examine(*g);
        emit_changes(&c, *g, o->in_full, m);
        gguf_close(*g); /* inserting room requires that the file is not open */
        *g = NULL;
        rc = gguf_edit_keys(o->path, c.kv, c.n, check_whole, &had, &how, e);
    }
    if (!rc) {
        emit_edit(o->path, &how, m);
        meta_log_edit(o->path, &how);
        warn_sums(o->path);
        for (int i = 0; i < c.n; i++) warn_template(&c.kv[i]);
    }
    release_changes(&c);
    return rc;
}

int meta_run(const struct meta_opts *o, struct emit *m, struct err *e) {
    struct gguf *g;
    bool edits = o->unset.n > 0;
    for (int i = 0; i < o->set.n; i++) edits |= strchr(o->set.v[i], '=') != NULL;
    TRY(gguf_open(&g, o->path, GGUF_TOLERANT, e));
    int rc = edits ? edit_keys(o, &g, m, e) : list_keys(o, g, m, e);
    gguf_close(g);
    return rc;
}
