// SPDX-License-Identifier: MIT
/* jobs/replay.c - hone replay: reproduces a quantized file and compares the two byte by byte.
 *
 * Takes from the file its record (search, options, inputs by hash), the types of its tensors, the
 * keys general.file_type and hone.mix.*, which describe the types, and the chat template. All other
 * metadata and every byte of data must come out the same. A file that was merged or split since is
 * compared without its keys split.*. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/replay.h"
#include "work/device.h"
#include "base/buf.h"
#include "containers/gguf.h"
#include "base/io.h"
#include "base/map.h"
#include "base/os.h"
#include "base/out.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "quantize/record.h"

enum { MAX_NOTES = 32 };
struct replay {
    struct work *w;
    /* path: the file; out: where to keep the copy, NULL: remove it */
    const char *path, *out;
    struct gguf *g, *source;
    struct record rec;
    char *source_path, *imatrix, *gram; /* paths of the inputs, owned */
    char *shown;                        /* the source's path as given */
    struct buf missing;                 /* list of the inputs that were not found */
    int n_missing, n_wrong;             /* their number, and how many have a file of their name */
    char *dir;                          /* temporary folder, NULL: none yet */
    char *link[2]; /* links in it to inputs whose names differ from the recorded ones */
    char *plan;    /* file in it with the types */
    char *copy;
    int n_copy; /* files of the copy; 0: not written */
    struct quant_note note[MAX_NOTES];
    char *note_text[MAX_NOTES];
    int n_notes;
    struct quant_override *over;
    int n_over;
};

/* ---- inputs ---------------------------------------------------------------------------------- */

enum { PLACES = 2 };

/* Lists in path[] the files to try for an input: `given`, or else those with the recorded name in
 * the file's folder and in FOLDER.work, where hone make keeps them. Returns their number; the
 * caller frees them. */
static int places(const struct replay *r, const char *given, const char *name, char *path[PLACES]) {
    int n = 0;
    if (given) path[n++] = xstrdup(given);
    if (given || !*name || strchr(name, '/')) return n;
    const size_t len = (size_t)(io_base(r->path) - r->path);
    char *dir = len ? xstrndup(r->path, len) : xstrdup("."), *folder = io_real(dir);
    path[n++] = xasprintf("%.*s%s", (int)len, r->path, name);
    if (!io_exists(path[0])) free(path[--n]);
    path[n++] = xasprintf("%s.work/%s", folder ? folder : dir, name);
    if (!io_exists(path[n - 1])) free(path[--n]);
    free(folder);
    free(dir);
    return n;
}

/* Adds an input that is missing to the list of all of them. wrong: a file of its name with other
 * contents, or NULL. */
static void add_missing(struct replay *r, const char *what, const char *name, const char *option,
                        const char *wrong) {
    buf_fmt(&r->missing, "%sthe %s%s%s (%s", r->missing.len ? ", " : "", what, *name ? " " : "",
            name, option);
    if (wrong) buf_fmt(&r->missing, "; %s is another file", wrong);
    buf_chr(&r->missing, ')');
    r->n_missing++;
    r->n_wrong += wrong != NULL;
}

/* Opens a file as the source that the file was made from. ERR_DATA: it is another one. */
static int open_source(struct replay *r, const char *path, struct err *e) {
    char hash[33];
    TRY(gguf_open(&r->source, path, 0, e));
    record_source_hash(r->source, hash);
    if (strcmp(hash, r->rec.source_hash) == 0 && gguf_file_bytes(r->source) == r->rec.source_bytes)
        return 0;
    gguf_close(r->source);
    r->source = NULL;
    return err_set(e, ERR_DATA,
                   "%s is not the source of %s (its headers differ); name the source with --source",
                   path, r->path);
}

/* Opens the source that the file was made from. Notes that it is missing. */
static int find_source(struct replay *r, const char *given, struct err *e) {
    char *path[PLACES];
    const int n = places(r, given, r->rec.source, path);
    int rc = 0;
    for (int i = 0; i < n && !r->source; i++) {
        rc = open_source(r, path[i], e);
        if (!rc) r->source_path = xstrdup(path[i]);
    }
    if (!r->source && !given)
        add_missing(r, "source", r->rec.source, "--source", n ? path[0] : NULL);
    for (int i = 0; i < n; i++) free(path[i]);
    if (r->source) r->shown = xstrdup(r->source_path);
    return given ? rc : 0;
}

struct input { /* an input other than the source */
    const char *what, *option, *given;
    const char *name, *hash; /* recorded */
    char **path;             /* result */
};

/* Finds an input by its recorded name and hash. Notes that it is missing. */
static int find_input(struct replay *r, const struct input *in, struct err *e) {
    char *path[PLACES], hash[33];
    int rc = 0;
    if (strcmp(in->hash, RECORD_NONE) == 0) return 0;
    const int n = places(r, in->given, in->name, path);
    for (int i = 0; i < n && !rc && !*in->path; i++) {
        rc = record_file_hash(path[i], hash, e);
        if (!rc && strcmp(hash, in->hash) == 0) *in->path = xstrdup(path[i]);
    }
    if (!rc && !*in->path && in->given)
        rc = err_set(e, ERR_DATA, "%s: %s is not the file that was used (XXH3 %s, recorded %s)",
                     in->option, in->given, hash, in->hash);
    else if (!rc && !*in->path)
        add_missing(r, in->what, in->name, in->option, n ? path[0] : NULL);
    for (int i = 0; i < n; i++) free(path[i]);
    return rc;
}

/* Finds all inputs; the error names every one that is missing. */
static int find_inputs(struct replay *r, const struct replay_opts *o, const char *imatrix,
                       struct err *e) {
    const struct input in[] = {
        {"importance matrix", "--imatrix", o->imatrix, imatrix, r->rec.imatrix, &r->imatrix},
        {"second moments", "--gram", o->gram, "gram.gguf", r->rec.gram, &r->gram}};
    TRY(find_source(r, o->source, e));
    for (size_t i = 0; i < COUNT_OF(in); i++) TRY(find_input(r, &in[i], e));
    if (!r->n_missing) return 0;
    const bool moments = strcmp(r->rec.gram, RECORD_NONE) != 0 && !r->gram;
    return err_set(e, r->n_wrong == r->n_missing ? ERR_DATA : ERR_USAGE,
                   "%s: cannot be made again without %s: name %s with %s%s", r->path,
                   r->missing.data, r->n_missing > 1 ? "them" : "it",
                   r->n_missing > 1 ? "these options" : "this option",
                   moments ? "; the moments of quantize --sequential and of make --effort high "
                             "exist only if quantize --gram kept them"
                           : "");
}

/* Makes the temporary folder for links and the plan, unless it is there. */
static int need_dir(struct replay *r, struct err *e) {
    if (r->dir) return 0;
    r->dir = xasprintf("%s/hone-replay-XXXXXX", r->w->tmp);
    if (os_mkdtemp(r->dir)) return 0;
    free(r->dir);
    r->dir = NULL;
    return err_sys(e, "cannot make a temporary folder");
}

/* Links an input under its recorded name, since the names of inputs become metadata. */
static int link_input(struct replay *r, char **path, const char *name, char **link, struct err *e) {
    if (!*path || strcmp(io_base(*path), name) == 0) return 0;
    /* The keys will then differ, which is reported. */
    if (!*name || strchr(name, '/')) return 0;
    TRY(need_dir(r, e));
    *link = xasprintf("%s/%s", r->dir, name);
    char *real = io_real(*path);
    const int rc = real && os_symlink(real, *link) == 0
                       ? 0
                       : err_sys(e, "%s: cannot make a link to it", *path);
    free(real);
    if (rc) return rc;
    free(*path);
    *path = xstrdup(*link);
    return 0;
}

/* ---- making it again ------------------------------------------------------------------------- */

/* Copies the file's hone.mix.* strings, which the rebuilt file must also have. */
static void copy_notes(struct replay *r) {
    for (int64_t i = 0; i < gguf_n_kv(r->g) && r->n_notes < MAX_NOTES; i++) {
        const struct gguf_kv *kv = gguf_kv_at(r->g, i);
        if (strncmp(kv->key, "hone.mix.", 9) != 0 || kv->type != GV_STR) continue;
        r->note_text[r->n_notes] = xstrdup(gguf_str_or(r->g, kv->key, ""));
        r->note[r->n_notes] = (struct quant_note){kv->key, r->note_text[r->n_notes]};
        r->n_notes++;
    }
}

/* Returns the regular expression "^name$", with special characters in brackets. */
static char *exactly(const char *name) {
    struct buf b = {0};
    buf_chr(&b, '^');
    for (const char *s = name; *s; s++) {
        if (strchr(".[]()*+?{}|^$\\", *s))
            buf_fmt(&b, "\\%c", *s);
        else
            buf_chr(&b, *s);
    }
    buf_chr(&b, '$');
    char *out = xstrdup(b.data);
    buf_release(&b);
    return out;
}

/* Returns the name of the file's general.file_type; NULL: none. It need not be that of most
 * weights, because rows that do not fit it have another type. */
static const char *file_type(const struct replay *r) {
    const struct gguf_kv *kv = gguf_find(r->g, "general.file_type");
    return kv && kv->type == GV_U32 ? qtype_ftype_name(gguf_kv_i64(kv, 0)) : NULL;
}

/* Adds an override by name for each tensor whose type differs from the preset's. */
static int set_types(struct replay *r, struct quantize_opts *o, struct err *e) {
    struct quantize_report q;
    struct quantize_opts dry = *o;
    dry.dry_run = dry.want_rows = true;
    TRY(quantize_run(&dry, &q, e));
    r->over = xcalloc((size_t)q.n_tensors + 1, sizeof *r->over);
    for (int64_t i = 0; i < q.n_tensors; i++) {
        const struct gguf_tensor *t = gguf_find_tensor(r->g, q.rows[i].name);
        if (!t || t->type == q.rows[i].to) continue;
        r->over[r->n_over++] = (struct quant_override){exactly(q.rows[i].name), t->type};
    }
    quantize_report_release(&q);
    o->over = r->over;
    o->n_over = r->n_over;
    return 0;
}

/* Writes the file's types as a plan, in the temporary folder. */
static int write_types(struct replay *r, struct err *e) {
    struct buf b = {0};
    TRY(need_dir(r, e));
    r->plan = io_join(r->dir, "plan.tsv");
    for (int64_t i = 0; i < gguf_n_tensors(r->g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(r->g, i);
        buf_fmt(&b, "%s\t%s\n", t->name, qtype_name(t->type));
    }
    int rc = out_write_file(r->plan, b.data ? b.data : "", b.len, false, e);
    buf_release(&b);
    return rc;
}

/* Quantizes the source to a copy, as the record specifies. */
static int make_again(struct replay *r, struct err *e) {
    struct quantize_report q;
    const char *type = file_type(r);
    struct quantize_opts o = {.in = r->source_path,
                              .out = r->copy,
                              .recipe = type ? recipe_find(type) : NULL, /* NULL: a plan */
                              .file_type = type,
                              /* `hone make` may have repaired it. */
                              .tmpl = gguf_str_or(r->g, "tokenizer.chat_template", NULL),
                              .imatrix = r->imatrix,
                              .gram = r->gram,
                              .search = r->rec.search,
                              .without = r->rec.without,
                              .tau = r->rec.tau,
                              .split_max = r->rec.split_max,
                              .spared = r->g,
                              .note = r->note,
                              .n_notes = r->n_notes,
                              .overwrite = r->w->overwrite || !r->out,
                              .pool = r->w->pool};
    o.device = device_quantize(r->w);
    TRY(o.recipe ? set_types(r, &o, e) : write_types(r, e));
    if (!o.recipe) o.recipe = r->plan;
    TRY(quantize_run(&o, &q, e));
    r->n_copy = q.n_files;
    return 0;
}

/* ---- comparing ------------------------------------------------------------------------------- */

struct verdict {
    bool equal, resplit; /* resplit: file and copy distribute the tensors differently over files */
    int n_files, n_copy;
    int64_t n_tensors, n_same, first_byte; /* first_byte -1: none, or not compared */
    char first[80];                        /* first tensor that differs */
};

/* Compares two files. *at: the first byte that differs. */
static int same_file(const char *a, const char *b, bool *same, int64_t *at, struct err *e) {
    struct map x = {0}, y = {0};
    TRY(map_open(&x, a, e));
    int rc = map_open(&y, b, e);
    if (!rc) {
        const uint8_t *p = x.data, *q = y.data;
        uint64_t n = x.size < y.size ? x.size : y.size, i = 0;
        for (uint64_t k; i < n; i += k) { /* differences are rare: compare pieces first */
            k = n - i < 1 << 20 ? n - i : 1 << 20;
            if (memcmp(p + i, q + i, k) == 0) continue;
            while (p[i] == q[i]) i++;
            break;
        }
        *same = i == n && x.size == y.size;
        *at = *same ? -1 : (int64_t)i;
        map_close(&y);
    }
    map_close(&x);
    return rc;
}

/* Returns the name of file i of the copy; free it. */
static char *copy_name(const struct replay *r, int i) {
    return r->n_copy > 1 ? gguf_split_name(r->copy, i, r->n_copy) : xstrdup(r->copy);
}

/* Returns whether every key of a but split.* is in b with the same value. */
static bool has_keys(const struct gguf *a, const struct gguf *b) {
    for (int64_t i = 0; i < gguf_n_kv(a); i++) {
        const struct gguf_kv *x = gguf_kv_at(a, i), *y = gguf_find(b, x->key);
        if (strncmp(x->key, "split.", 6) == 0) continue;
        if (!y || x->type != y->type || x->elem != y->elem || x->n_bytes != y->n_bytes ||
            memcmp(x->data, y->data, (size_t)x->n_bytes) != 0)
            return false;
    }
    return true;
}

/* Compares the tensors of file and copy. */
static void compare_tensors(const struct gguf *g, const struct gguf *n, struct verdict *v) {
    v->n_tensors = gguf_n_tensors(g);
    v->resplit = gguf_n_shards(g) != gguf_n_shards(n);
    for (int64_t i = 0; i < v->n_tensors; i++) {
        const struct gguf_tensor *a = gguf_tensor_at(g, i), *b = gguf_find_tensor(n, a->name);
        bool same = b && a->type == b->type && a->n_bytes == b->n_bytes &&
                    memcmp(a->data, b->data, a->n_bytes) == 0;
        v->n_same += same;
        v->resplit |= b && a->shard != b->shard;
        if (!same && !v->first[0] && strlen(a->name) < sizeof v->first)
            memcpy(v->first, a->name, strlen(a->name) + 1);
    }
}

/* Compares the copy with the file by tensors, and by bytes unless they are split differently. */
static int compare_copy(const struct replay *r, struct verdict *v, struct err *e) {
    struct gguf *n;
    char *first = copy_name(r, 0);
    *v = (struct verdict){.first_byte = -1, .n_files = gguf_n_shards(r->g), .n_copy = r->n_copy};
    int rc = gguf_open(&n, first, 0, e);
    free(first);
    if (rc) return rc;
    compare_tensors(r->g, n, v);
    v->equal = v->n_same == v->n_tensors && v->n_tensors == gguf_n_tensors(n);
    if (v->resplit) v->equal = v->equal && has_keys(r->g, n) && has_keys(n, r->g);
    for (int i = 0; i < v->n_files && !v->resplit && v->first_byte < 0 && !rc; i++)
        rc = same_file(gguf_shard_path(r->g, i), gguf_shard_path(n, i), &v->equal, &v->first_byte,
                       e);
    gguf_close(n);
    return rc;
}

/* Returns whether the copy got the file's chat template in place of another one of the source. */
static bool has_own_template(const struct replay *r) {
    static const char key[] = "tokenizer.chat_template";
    const char *file = gguf_str_or(r->g, key, ""), *source = gguf_str_or(r->source, key, "");
    return *file && *source && strcmp(file, source) != 0;
}

static void emit_verdict(const struct replay *r, const struct verdict *v, struct emit *m) {
    emit_bool(m, "equal", v->resplit ? "equal except for the split" : "equal to the byte",
              v->equal);
    emit_str(m, "file", "file", io_base(r->path));
    emit_str(m, "source", "made from", r->shown);
    emit_str(m, "recorded_version", "by hone", r->rec.version);
    emit_i64(m, "n_tensors", "tensors", v->n_tensors);
    emit_i64(m, "n_tensors_same", "of them equal", v->n_same);
    emit_i64(m, "first_byte", v->first_byte < 0 ? NULL : "first byte that differs", v->first_byte);
    emit_str(m, "first_tensor", v->first[0] ? "first tensor that differs" : NULL, v->first);
    emit_i64(m, "n_files", v->resplit ? "files" : NULL, v->n_files);
    emit_i64(m, "n_files_recorded", v->resplit ? "files when it was made" : NULL, v->n_copy);
    if (has_own_template(r))
        emit_str(m, "chat_template", "chat template", "taken from the file; not the source's");
    if (r->out) emit_str(m, "output", "output", r->out);
}

/* ---- the command ----------------------------------------------------------------------------- */

/* Removes the files of the copy. */
static void remove_copy(const struct replay *r) {
    for (int i = 0; i < r->n_copy && !r->out; i++) {
        char *name = copy_name(r, i);
        os_unlink(name);
        free(name);
    }
}

/* Frees r and deletes the copy unless it was requested. */
static void release_replay(struct replay *r) {
    remove_copy(r);
    for (int i = 0; i < 2; i++)
        if (r->link[i]) os_unlink(r->link[i]);
    if (r->plan) os_unlink(r->plan);
    if (r->dir) os_rmdir(r->dir);
    for (int i = 0; i < r->n_notes; i++) free(r->note_text[i]);
    for (int i = 0; i < r->n_over; i++) {
        char *s;
        memcpy(&s, &r->over[i].regex, sizeof s); /* allocated by exactly() */
        free(s);
    }
    free(r->over);
    buf_release(&r->missing);
    free(r->source_path);
    free(r->shown);
    free(r->imatrix);
    free(r->gram);
    free(r->dir);
    free(r->link[0]);
    free(r->link[1]);
    free(r->plan);
    free(r->copy);
    gguf_close(r->g);
    gguf_close(r->source);
}

/* Reads the record, makes the file again and compares. *equal: all bytes are equal. */
static int run_replay(struct replay *r, const struct replay_opts *o, struct emit *m, bool *equal,
                      struct err *e) {
    struct verdict v;
    TRY(gguf_open(&r->g, r->path, 0, e));
    TRY(record_read(&r->rec, r->g, e));
    if (strcmp(r->rec.version, HONE_VERSION) != 0)
        log_warn("made by hone %s, this is %s: bytes may differ for that reason", r->rec.version,
                 HONE_VERSION);
    const char *name = gguf_str_or(r->g, "quantize.imatrix.file", "");
    TRY(find_inputs(r, o, name, e));
    TRY(link_input(r, &r->imatrix, name, &r->link[0], e));
    if (gguf_n_shards(r->source) == 1)
        TRY(link_input(r, &r->source_path, r->rec.source, &r->link[1], e));
    copy_notes(r);
    r->copy = r->out ? xstrdup(r->out) : xasprintf("%s.replay-%ld.gguf", r->path, (long)os_pid());
    TRY(make_again(r, e));
    TRY(compare_copy(r, &v, e));
    emit_verdict(r, &v, m);
    *equal = v.equal;
    return 0;
}

int replay_run(struct work *w, const struct replay_opts *o, struct emit *m, struct err *e) {
    struct replay r = {.w = w, .path = o->path, .out = o->out};
    bool equal = false;
    int rc = work_pool(w, e);
    if (!rc) rc = run_replay(&r, o, m, &equal, e);
    release_replay(&r);
    if (rc) return rc;
    return equal ? 0
                 : err_set(e, ERR_VERDICT, "%s differs from the file that its record produces",
                           o->path);
}
