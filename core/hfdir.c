// SPDX-License-Identifier: MIT
/* core/hfdir.c - a Hugging Face model folder: configuration, weight shards, tokenizer and template
 * files.
 *
 * Weights are what model.safetensors.index.json names, else model*.safetensors;
 * consolidated*.safetensors (another layout of the same weights) is never read. With an index the
 * set of tensors in the files and in the index must be equal, both ways. Only headers are read at
 * open; shards stay mapped. Other JSON and text files are read on first use and kept. */
#include "core/hfdir.h"

#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "core/hash.h"
#include "core/io.h"
#include "core/limits.h"
#include "core/log.h"
#include "core/mem.h"
#include "core/show.h"
#include "core/str.h"

static const char index_name[] = "model.safetensors.index.json";
enum { SHOWN = 3 };

/* A JSON or text file, which is read when it is used first. Both are NULL when there is none. */
struct extra {
    char *name;
    struct json *json;
    char *text;
    bool is_text;
};
struct hfdir {
    char *path, *base;
    struct json *config, *index;
    const struct json *text_config;
    struct st **file;
    int n_files;
    struct st_tensor *store; /* All tensors, file by file in the order of data. */
    int64_t n_tensors;
    struct strmap *names;
    struct extra *extra;
    int n_extra;
};

/* ---- which files ----------------------------------------------------------------------------- */

static bool begins(const char *s, const char *with) {
    return strncmp(s, with, strlen(with)) == 0;
}

static int check_index_name(const char *s, struct err *e) {
    if (!*s || *s == '.' || strchr(s, '/') || strchr(s, '\\') || strlen(s) > 255 ||
        !str_ends(s, ".safetensors"))
        return err_set(
            e, ERR_DATA,
            "%s names the file \"%s\"; only plain names of safetensors files are allowed",
            index_name, show_n(s, strlen(s)).s);
    return 0;
}

/* Lists the files that weight_map names, each once. */
static int index_files(const struct json *map, struct io_names *l, struct strmap *seen,
                       struct err *e) {
    for (const struct json *c = json_first(map); c; c = json_next(c)) {
        const char *s = json_str(c);
        if (!s)
            return err_set(e, ERR_DATA, "%s gives no file name for \"%s\"", index_name,
                           show_n(json_name(c), strlen(json_name(c))).s);
        if (!strmap_add(seen, s, strlen(s), l->n)) continue;
        TRY(check_index_name(s, e));
        if ((uint64_t)l->n >= limit_of(LIM_HF_FILES))
            return err_set(e, ERR_DATA, "%s names more than %llu files", index_name,
                           (unsigned long long)limit_of(LIM_HF_FILES));
        io_names_add(l, s);
    }
    return 0;
}

static int names_from_index(struct hfdir *h, struct io_names *l, struct err *e) {
    char *path = io_join(h->path, index_name);
    int rc = json_read(&h->index, path, limit_of(LIM_HF_JSON), e);
    free(path);
    TRY(rc);
    const struct json *map = json_get(h->index, "weight_map");
    if (json_type(map) != JSON_OBJ || !json_first(map))
        return err_set(e, ERR_DATA, "%s: \"weight_map\" is missing or empty in %s", h->path,
                       index_name);
    struct strmap *seen = strmap_new(64);
    rc = index_files(map, l, seen, e);
    strmap_free(seen);
    if (rc) return err_wrap(e, "%s", h->path);
    io_names_sort(l);
    for (int i = 0; i < l->n; i++) {
        char *p = io_join(h->path, l->v[i]);
        bool there = io_exists(p);
        free(p);
        if (!there)
            return err_set(e, ERR_DATA, "%s: shard %s, named by %s, is missing; download it again",
                           h->path, l->v[i], index_name);
    }
    return 0;
}

/* Returns the first of the names that is a GGUF file; NULL: none is. */
static const char *first_gguf(const struct io_names *all) {
    for (int i = 0; i < all->n; i++)
        if (str_ends(all->v[i], ".gguf")) return all->v[i];
    return NULL;
}

/* Refuses a folder of finished files, such as hone's own output. */
static int only_ggufs(const char *dir, const char *name, struct err *e) {
    return err_set(e, ERR_DATA,
                   "%s holds GGUF files and no safetensors: name one of them, such as %s/%s", dir,
                   dir, name);
}

static int no_weights(const struct hfdir *h, bool pickles, bool consolidated, struct err *e) {
    if (pickles)
        return err_set(
            e, ERR_DATA,
            "%s: the weights are pickled PyTorch files, which can run code and are not read; "
            "get the safetensors form of the model",
            h->path);
    if (consolidated)
        return err_set(
            e, ERR_DATA,
            "%s: only consolidated*.safetensors (Mistral's own layout) is there; get the "
            "model*.safetensors files",
            h->path);
    return err_set(e, ERR_DATA, "%s: there is no model*.safetensors; download the weights",
                   h->path);
}

/* Returns true for model-00002-of-00003.safetensors, and sets *n to 3. */
static bool shard_of(const char *s, int *n) {
    size_t len = strlen(s), tail = strlen("-00001-of-00003.safetensors");
    if (len < tail) return false;
    s += len - tail;
    if (*s != '-' || strncmp(s + 6, "-of-", 4) != 0) return false;
    *n = 0;
    for (int i = 10; i < 15; i++) {
        if (s[i] < '0' || s[i] > '9') return false;
        *n = *n * 10 + (s[i] - '0');
    }
    return true;
}

static int names_from_folder(struct hfdir *h, struct io_names *l, struct err *e) {
    bool pickles = false, consolidated = false;
    struct io_names all;
    int rc = io_list(&all, h->path, e);
    for (int i = 0; i < all.n && rc == 0; i++) {
        const char *s = all.v[i];
        if (begins(s, "model") && str_ends(s, ".safetensors")) io_names_add(l, s);
        if (begins(s, "consolidated") && str_ends(s, ".safetensors")) consolidated = true;
        if (str_ends(s, ".bin") || str_ends(s, ".pt") || str_ends(s, ".pth")) pickles = true;
    }
    const char *gguf = first_gguf(&all);
    if (!rc && !l->n && gguf && !pickles && !consolidated) rc = only_ggufs(h->path, gguf, e);
    io_names_release(&all);
    TRY(rc);
    if (!l->n) return no_weights(h, pickles, consolidated, e);
    if ((uint64_t)l->n > limit_of(LIM_HF_FILES))
        return err_set(e, ERR_DATA, "%s: more than %llu weight files", h->path,
                       (unsigned long long)limit_of(LIM_HF_FILES));
    int n;
    if (shard_of(l->v[0], &n) && n != l->n)
        return err_set(e, ERR_DATA,
                       "%s: %d of the %d shards (%s ...) are there; download the others", h->path,
                       l->n, n, l->v[0]);
    return 0;
}

/* ---- tensors --------------------------------------------------------------------------------- */

static int collect(struct hfdir *h, struct err *e) {
    int64_t n = 0;
    for (int f = 0; f < h->n_files; f++) n += st_n_tensors(h->file[f]);
    h->store = xcalloc((size_t)n + 1, sizeof *h->store);
    h->names = strmap_new((size_t)n);
    for (int f = 0; f < h->n_files; f++) {
        for (int64_t i = 0; i < st_n_tensors(h->file[f]); i++) {
            struct st_tensor *t = &h->store[h->n_tensors];
            *t = *st_tensor_at(h->file[f], i);
            t->file = f;
            if (!strmap_add(h->names, t->name, strlen(t->name), h->n_tensors))
                return err_set(e, ERR_DATA, "%s: tensor \"%s\" is in %s and in %s", h->path,
                               show_n(t->name, strlen(t->name)).s,
                               io_base(st_path(h->file[hfdir_find(h, t->name)->file])),
                               io_base(st_path(h->file[f])));
            h->n_tensors++;
        }
    }
    return 0;
}

/* Names of what is wrong: their number, and the first few for the message. */
struct offenders {
    int64_t n;
    struct buf names;
};
static void offend(struct offenders *o, const char *name) {
    if (o->n++ < SHOWN)
        buf_fmt(&o->names, "%s\"%s\"", o->n > 1 ? ", " : "", show_n(name, strlen(name)).s);
}
static int report(struct offenders *o, const char *dir, const char *what, struct err *e) {
    int rc = 0;
    if (o->n)
        rc = err_set(e, ERR_DATA, "%s: %s (%lld: %s%s); download the folder again", dir, what,
                     (long long)o->n, o->names.data, o->n > SHOWN ? ", ..." : "");
    buf_release(&o->names);
    return rc;
}

static bool is_empty_somewhere(const struct hfdir *h, const char *name) {
    for (int f = 0; f < h->n_files; f++)
        if (st_is_empty(h->file[f], name)) return true;
    return false;
}

static int check_index(struct hfdir *h, struct err *e) {
    const struct json *map = json_get(h->index, "weight_map");
    struct offenders lost = {0}, extra = {0};
    struct strmap *in_index = strmap_new((size_t)h->n_tensors);
    int64_t i = 0;
    for (const struct json *c = json_first(map); c; c = json_next(c)) {
        const char *name = json_name(c);
        strmap_add(in_index, name, strlen(name), i++);
        if (!hfdir_find(h, name) && !is_empty_somewhere(h, name)) offend(&lost, name);
    }
    for (int64_t t = 0; h->store && t < h->n_tensors; t++) {
        const char *name = h->store[t].name;
        if (strmap_get(in_index, name, strlen(name)) < 0) offend(&extra, name);
    }
    strmap_free(in_index);
    int rc = report(&lost, h->path, "the index names tensors that no shard has", e);
    if (rc) {
        buf_release(&extra.names);
        return rc;
    }
    return report(&extra, h->path, "the shards have tensors that the index lacks", e);
}

static int open_weights(struct hfdir *h, struct err *e) {
    struct io_names l = {0};
    char *index = io_join(h->path, index_name);
    bool has_index;
    int rc = io_there(&has_index, index, e);
    free(index);
    if (rc) return rc;
    TRY_GOTO(done, rc, has_index ? names_from_index(h, &l, e) : names_from_folder(h, &l, e));
    h->file = xcalloc((size_t)l.n, sizeof(struct st *));
    for (int i = 0; i < l.n; i++) {
        char *p = io_join(h->path, l.v[i]);
        rc = st_open(&h->file[i], p, e);
        free(p);
        if (rc) goto done;
        h->n_files++;
    }
    TRY_GOTO(done, rc, collect(h, e));
    if (has_index) rc = check_index(h, e);
done:
    io_names_release(&l);
    return rc;
}

/* ---- the folder ------------------------------------------------------------------------------ */

static int check_config(struct hfdir *h, const char *what, struct err *e) {
    if (json_type(h->config) != JSON_OBJ)
        return err_set(e, ERR_DATA, "%s: not a JSON object", what);
    h->text_config = json_get(h->config, "text_config");
    return 0;
}

static int no_config(const struct hfdir *h, struct err *e) {
    struct io_names all;
    int rc = io_list(&all, h->path, e);
    const char *gguf = first_gguf(&all);
    if (!rc)
        rc = gguf ? only_ggufs(h->path, gguf, e)
                  : err_set(e, ERR_DATA, "%s: there is no config.json; this is not a model folder",
                            h->path);
    io_names_release(&all);
    return rc;
}

static int read_config(struct hfdir *h, struct err *e) {
    char *p = io_join(h->path, "config.json");
    int rc = 0;
    if (!io_exists(p)) rc = no_config(h, e);
    if (!rc) rc = json_read(&h->config, p, limit_of(LIM_HF_JSON), e);
    if (!rc) rc = check_config(h, p, e);
    free(p);
    return rc;
}

int hfdir_open(struct hfdir **out, const char *dir, struct err *e) {
    *out = NULL;
    if (!io_exists(dir)) return err_set(e, ERR_USAGE, "%s: no such folder", dir);
    if (!io_is_dir(dir) && str_ends(dir, ".gguf"))
        return err_set(e, ERR_USAGE,
                       "%s: not a folder but a GGUF file already; hone quantize makes smaller ones",
                       dir);
    if (!io_is_dir(dir)) return err_set(e, ERR_USAGE, "%s: not a folder", dir);
    char *real = io_real(dir);
    if (!real) return err_sys(e, "%s", dir);
    struct hfdir *h = xcalloc(1, sizeof *h);
    int rc;
    h->path = xstrdup(dir);
    h->base = xstrdup(io_base(real));
    free(real);
    TRY_GOTO(fail, rc, read_config(h, e));
    TRY_GOTO(fail, rc, open_weights(h, e));
    *out = h;
    return 0;
fail:
    hfdir_close(h);
    return rc;
}

int hfdir_from_config(struct hfdir **out, const char *text, size_t len, const char *name,
                      struct err *e) {
    struct hfdir *h = xcalloc(1, sizeof *h);
    int rc;
    *out = NULL;
    h->path = xstrdup(name);
    h->base = xstrdup(io_base(name));
    TRY_GOTO(fail, rc, json_parse(&h->config, text, len, name, e));
    TRY_GOTO(fail, rc, check_config(h, name, e));
    h->names = strmap_new(1);
    *out = h;
    return 0;
fail:
    hfdir_close(h);
    return rc;
}

void hfdir_close(struct hfdir *h) {
    if (!h) return;
    for (int i = 0; i < h->n_files; i++) st_close(h->file[i]);
    for (int i = 0; i < h->n_extra; i++) {
        free(h->extra[i].name);
        json_free(h->extra[i].json);
        free(h->extra[i].text);
    }
    free(h->extra);
    free(h->file);
    free(h->store);
    strmap_free(h->names);
    json_free(h->config);
    json_free(h->index);
    free(h->path);
    free(h->base);
    free(h);
}

const char *hfdir_path(const struct hfdir *h) {
    return h->path;
}
const char *hfdir_base(const struct hfdir *h) {
    return h->base;
}
const struct json *hfdir_config(const struct hfdir *h) {
    return h->config;
}
int hfdir_n_files(const struct hfdir *h) {
    return h->n_files;
}
const struct st *hfdir_file(const struct hfdir *h, int i) {
    return i >= 0 && i < h->n_files ? h->file[i] : NULL;
}
int64_t hfdir_n_tensors(const struct hfdir *h) {
    return h->n_tensors;
}
const struct st_tensor *hfdir_tensor_at(const struct hfdir *h, int64_t i) {
    return i >= 0 && i < h->n_tensors ? &h->store[i] : NULL;
}
const struct st_tensor *hfdir_find(const struct hfdir *h, const char *name) {
    int64_t i = strmap_get(h->names, name, strlen(name));
    return i < 0 ? NULL : &h->store[i];
}
void hfdir_drop(const struct hfdir *h, const struct st_tensor *t) {
    st_drop(h->file[t->file], t->off, t->n_bytes);
}

/* ---- hyperparameters ------------------------------------------------------------------------- */

/* Returns the first spelling of "a|b|c" that obj has with a value other than null. A spelling that
 * `hides` has is passed over, even with a null, which there says that there is no value. NULL when
 * there is none. */
static const struct json *find_spelling(const struct json *obj, const struct json *hides,
                                        const char *names) {
    char name[128];
    for (const char *p = names; *p;) {
        size_t n = strcspn(p, "|");
        if (n < sizeof name) {
            memcpy(name, p, n);
            name[n] = 0;
            const struct json *j = hides && json_get(hides, name) ? NULL : json_get(obj, name);
            if (j && json_type(j) != JSON_NULL) return j;
        }
        p += n;
        if (*p) p++;
    }
    return NULL;
}

const struct json *hfdir_hparam(const struct hfdir *h, const char *names) {
    const struct json *text = json_type(h->text_config) == JSON_OBJ ? h->text_config : NULL;
    const struct json *j = text ? find_spelling(text, NULL, names) : NULL;
    return j ? j : find_spelling(h->config, text, names);
}

/* ---- other files ----------------------------------------------------------------------------- */

static struct extra *find_extra(const struct hfdir *h, const char *name, bool is_text) {
    for (int i = 0; i < h->n_extra; i++)
        if (h->extra[i].is_text == is_text && strcmp(h->extra[i].name, name) == 0)
            return &h->extra[i];
    return NULL;
}
static int read_extra(struct hfdir *h, const char *name, struct extra *x, struct err *e) {
    char *p = io_join(h->path, name);
    size_t len;
    bool there;
    int rc = io_there(&there, p, e);
    if (!rc && there)
        rc = x->is_text ? io_read_file(&x->text, &len, p, limit_of(LIM_HF_JSON), e)
                        : json_read(&x->json, p, limit_of(LIM_HF_JSON), e);
    free(p);
    return rc;
}
/* Finds the slot of a file and fills it; it is borrowed until the next call. */
static int need_extra(struct hfdir *h, const char *name, bool is_text, struct extra **out,
                      struct err *e) {
    *out = find_extra(h, name, is_text);
    if (*out) return 0;
    struct extra x = {.is_text = is_text};
    TRY(read_extra(h, name, &x, e));
    x.name = xstrdup(name);
    h->extra = xreallocarray(h->extra, (size_t)h->n_extra + 1, sizeof *h->extra);
    h->extra[h->n_extra] = x;
    *out = &h->extra[h->n_extra++];
    return 0;
}

int hfdir_json(struct hfdir *h, const char *name, const struct json **out, struct err *e) {
    struct extra *x;
    *out = NULL;
    TRY(need_extra(h, name, false, &x, e));
    *out = x->json;
    return 0;
}
int hfdir_text(struct hfdir *h, const char *name, const char **text, struct err *e) {
    struct extra *x;
    *text = NULL;
    TRY(need_extra(h, name, true, &x, e));
    *text = x->text;
    return 0;
}

/* Returns the template that tokenizer_config.json holds: a string, or the default one of a list of
 * {name, template}. */
static const char *config_template(const struct json *j) {
    if (json_type(j) != JSON_ARR) return json_str(j);
    for (const struct json *c = json_first(j); c; c = json_next(c)) {
        const char *name = json_str(json_get(c, "name"));
        if (name && strcmp(name, "default") == 0) return json_str(json_get(c, "template"));
    }
    return NULL;
}

int hfdir_chat_template(struct hfdir *h, const char **text, struct err *e) {
    const struct json *conf, *json;
    *text = NULL;
    TRY(hfdir_text(h, "chat_template.jinja", text, e));
    TRY(hfdir_json(h, "tokenizer_config.json", &conf, e));
    const char *other = config_template(json_get(conf, "chat_template"));
    if (*text && other && strcmp(*text, other) != 0)
        log_warn("%s: chat_template.jinja and tokenizer_config.json hold different chat templates; "
                 "chat_template.jinja is used",
                 h->path);
    if (!*text) *text = other;
    if (*text) return 0;
    TRY(hfdir_json(h, "chat_template.json", &json, e));
    *text = config_template(json_get(json, "chat_template"));
    return 0;
}
