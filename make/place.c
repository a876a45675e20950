// SPDX-License-Identifier: MIT
/* make/place.c - the rule that an output folder of `hone make` belongs to one model. The job
 * records its source in DIR.work/source.json. A later job with a different source is an error, so
 * that the card, report and checksums of the first one stay. Without that record, results.json or
 * manifest.json is used. */
#include <stdlib.h>
#include <string.h>

#include "make/make.h"
#include "base/io.h"
#include "base/os.h"
#include "base/mem.h"
#include "base/str.h"
#include "report/manifest.h"

static const char source_file[] = "source.json";
enum { MAX_RESULTS = 256 << 20 };

/* Like io_real, but the last components of the path need not exist. */
static char *real_or_new(const char *path) {
    char *real = io_real(path);
    if (real) return real;
    char *parent = xstrdup(path);
    size_t n = strlen(parent);
    while (n > 1 && os_is_slash(parent[n - 1])) parent[--n] = 0;
    const char *name = io_base(parent);
    char *last = xstrdup(name), *above;
    if (name == parent)
        above = real_or_new(".");
    else
        parent[name - parent > 1 ? name - parent - 1 : 1] = 0, above = real_or_new(parent);
    real = io_join(above, last);
    free(last);
    free(above);
    free(parent);
    return real;
}

/* Returns the name of a file with original weights in the folder `dir`, freed by the caller; NULL:
 * there is no such file. */
static char *original_weights(const char *dir) {
    struct io_names all = {0};
    struct err ignored;
    char *found = NULL;
    if (io_is_dir(dir) && io_list(&all, dir, &ignored) == 0)
        for (int i = 0; i < all.n && !found; i++)
            if (str_ends(all.v[i], ".safetensors") || str_ends(all.v[i], ".safetensors.index.json"))
                found = xstrdup(all.v[i]);
    io_names_release(&all);
    return found;
}

struct source { /* model of the job in a folder; strings are borrowed from root */
    cJSON *root;
    const char *name, *path, *hash, *weights; /* NULL: unknown */
};

/* Reads the source from a file of the folder `dir`. Returns false if the file does not name one. */
static bool source_read(struct source *s, const char *dir, const char *file, const char *member) {
    *s = (struct source){.root = doc_find(dir, file, MAX_RESULTS)};
    if (!s->root) return false;
    const cJSON *o = member ? doc_get(s->root, member) : s->root;
    const bool results = member && strcmp(member, "model") == 0;
    /* The name in results.json may be for display only (`publish --name`). */
    s->name = doc_str(o, results ? "source" : "name");
    s->path = doc_str(o, "path");
    s->hash = doc_str(o, results ? "source_xxh128" : "xxh128");
    s->weights = doc_str(o, results ? "source_weights_xxh128" : "weights_xxh128");
    return s->name != NULL;
}

/* Finds the source of the job in the folder `out`: in the job's state, or else in the published
 * files. False: not found. */
static bool source_find(struct source *s, const char *state, const char *out) {
    const struct {
        const char *dir, *file, *member;
    } witness[] = {
        {state, source_file, NULL}, {out, "results.json", "model"}, {out, MANIFEST_NAME, "source"}};
    for (size_t i = 0; i < COUNT_OF(witness); i++) {
        if (witness[i].dir && source_read(s, witness[i].dir, witness[i].file, witness[i].member))
            return true;
        cJSON_Delete(s->root);
        s->root = NULL;
    }
    return false;
}

/* Returns whether the path `p` is the folder `dir` or inside it. */
static bool within(const char *p, const char *dir) {
    const size_t n = strlen(dir);
    return strncmp(p, dir, n) == 0 && (!p[n] || p[n] == '/' || (n && dir[n - 1] == '/'));
}

/* Returns an error if the resolved path `to` is inside the results or the state of an earlier job:
 * they would then be published or deleted together. */
static int check_outer(const char *to, const char *out, struct err *e) {
    int rc = 0;
    char *dir = xstrdup(to);
    for (bool self = true; !rc && *dir; self = false) {
        struct source s = {0};
        char *state = job_work(dir);
        const bool is_state = str_ends(dir, ".work") && source_read(&s, dir, source_file, NULL);
        if (is_state || (!self && source_find(&s, state, dir)))
            rc = err_set(e, ERR_USAGE,
                         "%s is inside %.300s, which holds %s of another job (%.100s): choose a "
                         "folder elsewhere with -o",
                         out, dir, is_state ? "the state" : "the results", s.name);
        cJSON_Delete(s.root);
        free(state);
        char *slash = strrchr(dir, '/');
        *(slash ? slash : dir) = 0;
    }
    free(dir);
    return rc;
}

int make_check_place(const char *src, const char *out, struct err *e) {
    char *from = io_real(src), *to = real_or_new(out), *weights = original_weights(out);
    const bool folder = from && io_is_dir(src);
    int rc = 0;
    if (folder && within(to, from))
        rc = err_set(e, ERR_USAGE,
                     "%s is the model's own folder or inside it: results would mix with the "
                     "source; choose a folder elsewhere with -o",
                     out);
    else if (weights)
        rc = err_set(e, ERR_USAGE,
                     "%s holds the original weights of a model (%.100s): results would mix with "
                     "them; choose a folder elsewhere with -o",
                     out, weights);
    else if (folder && within(from, to))
        rc = err_set(e, ERR_USAGE,
                     "%s contains the model's own folder, which would be published with the "
                     "results; choose a folder elsewhere with -o",
                     out);
    else if (from && within(from, to))
        rc = err_set(e, ERR_USAGE,
                     "%s is inside %.300s, where it would be published with the results; choose a "
                     "folder elsewhere with -o",
                     src, out);
    else
        rc = check_outer(to, out, e);
    free(from);
    free(to);
    free(weights);
    return rc;
}

/* Returns whether the job in a folder is for this model: same name and same weights. Texts of the
 * source, such as its card or template, may differ. A source without hashes (mk->weights "") is
 * compared by name alone. */
static bool same_model(const struct make *mk, const struct source *s) {
    if (strcmp(s->name, mk->name) != 0) return false;
    if (!mk->weights[0] || !s->hash || strcmp(s->hash, mk->src_hash) == 0) return true;
    return s->weights && strcmp(s->weights, mk->weights) == 0;
}

/* Sets the error for a folder `out` that holds `s`, another model's job. */
static int another_model(const struct make *mk, const struct source *s, const char *out,
                         struct err *e) {
    char *here = io_real(mk->src);
    const bool changed = here && s->path && strcmp(here, s->path) == 0;
    free(here);
    if (changed && strcmp(s->name, mk->name) != 0)
        return err_set(e, ERR_USAGE,
                       "%s already holds this model's files under the name %.100s: continue with "
                       "--name %.100s, or choose another folder with -o",
                       out, s->name, s->name);
    if (changed)
        return err_set(e, ERR_USAGE,
                       "%s already holds the job of another model (what %.300s was before its "
                       "weights changed): choose another folder with -o, or move this one and its "
                       ".work folder away",
                       out, s->path);
    return err_set(e, ERR_USAGE,
                   "%s already holds the job of another model (%.100s%s%.300s): choose another "
                   "folder with -o, or move this one and its .work folder away",
                   out, s->name, s->path ? ", from " : "", s->path ? s->path : "");
}

/* Returns a model that manifest.json in the folder `out` lists; NULL if any listed model has the
 * name of this one. Borrowed from *root, which the caller frees. */
static const char *listed_model(const struct make *mk, const char *out, cJSON **root) {
    const char *other = NULL;
    const size_t n = strlen(mk->name);
    *root = doc_find(out, MANIFEST_NAME, MAX_RESULTS);
    for (const cJSON *f = doc_first(doc_get(*root, "files")); f; f = f->next) {
        const char *s = doc_str(f, "file");
        if (!s || !str_ends(s, ".gguf") || strcmp(s, "imatrix.gguf") == 0) continue;
        if (strncmp(s, mk->name, n) == 0 && s[n] == '-') return NULL;
        other = s;
    }
    return other;
}

int make_check_earlier(const struct make *mk, const char *out, struct err *e) {
    struct source s;
    char *state = job_work(out);
    int rc = 0;
    bool same;
    if (source_find(&s, state, out))
        same = same_model(mk, &s);
    else
        same = !(s.name = listed_model(mk, out, &s.root));
    if (!same) rc = another_model(mk, &s, out, e);
    cJSON_Delete(s.root);
    free(state);
    return rc;
}

bool make_known_weights(struct make *mk) {
    struct source s;
    const bool known = source_read(&s, mk->job.state, source_file, NULL) && s.hash && s.weights &&
                       strcmp(s.hash, mk->src_hash) == 0 && strlen(s.weights) == 32;
    if (known) memcpy(mk->weights, s.weights, 33);
    cJSON_Delete(s.root);
    return known;
}

int make_check_before(struct make *mk, const char *out, struct err *e) {
    char *old = io_join(out, ".hone"); /* state of an earlier version, which job_open would move */
    const bool taken = io_exists(old);
    free(old);
    int rc = job_look(&mk->job, out, e);
    if (!rc && !taken) rc = make_check_folder(mk, e);
    mk->counting = true;
    if (!rc && (io_is_dir(out) || io_is_dir(mk->job.state))) rc = make_source(mk, e);
    mk->counting = false;
    job_close(&mk->job);
    return rc;
}

int make_keep_source(const struct make *mk, struct err *e) {
    cJSON *root = doc_new();
    char *path = io_join(mk->job.state, source_file), *real = io_real(mk->src);
    doc_put_str(root, "name", mk->name);
    if (real) doc_put_str(root, "path", real);
    if (mk->src_hash[0]) doc_put_str(root, "xxh128", mk->src_hash);
    if (mk->weights[0]) doc_put_str(root, "weights_xxh128", mk->weights);
    const int rc = doc_write(root, path, true, e);
    cJSON_Delete(root);
    free(real);
    free(path);
    return rc;
}
