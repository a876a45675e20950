// SPDX-License-Identifier: MIT
/* containers/hfdir.c - Hugging Face model folder: configuration, weight shards, tokenizer and
 * template files.
 *
 * hfshards.h finds the weight files. If a tensor has two copies, the index decides which one
 * counts. A tensor that the index names must exist; one that it does not name is used only if the
 * model needs it. Opening reads only headers, and shards stay mapped. Other JSON and text files are
 * read on first use and cached. */
#include "containers/hfdir.h"

#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/hash.h"
#include "containers/hfshards.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/printable.h"
#include "base/str.h"

enum { SHOWN = 3, PROBED = 64 << 10 };
#define WHOLE "model.safetensors"

/* A JSON or text file, read on first use. json and text are NULL if it does not exist. */
struct extra {
    char *name;
    struct json *json;
    char *text;
    size_t len; /* bytes of text */
    bool is_text;
};
struct hfdir {
    char *path, *base;
    struct json *config, *index;
    const struct json *text_config;
    char *target_path; /* folder of a draft's model; NULL: none */
    struct json *target;
    const struct json *over, *under; /* set by hfdir_complete; NULL: none */
    bool *assumed;                   /* [members of `under`] the default was used */
    struct arena arena;
    struct st **file;
    int n_files;
    struct st_tensor *store; /* all tensors, by file and data offset */
    int64_t n_tensors;
    struct strmap *names;
    struct strmap *placed; /* tensor name -> file, from the index; NULL: no index */
    struct extra *extra;
    int n_extra;
};

/* ---- tensors --------------------------------------------------------------------------------- */

/* Returns the file in which the index places a tensor; -1: not in the index. */
static int file_in_index(const struct hfdir *h, const char *name) {
    return h->placed ? (int)strmap_get(h->placed, name, strlen(name)) : -1;
}

/* Returns the k-th file to scan. Without an index, model.safetensors comes first, because
 * transformers then reads no other. */
static int nth_file(const struct hfdir *h, int k) {
    int whole = 0;
    while (whole < h->n_files && strcmp(io_base(st_path(h->file[whole])), WHOLE) != 0) whole++;
    if (h->placed || whole == h->n_files) return k;
    return k == 0 ? whole : k - (k <= whole);
}

/* Keeps one of two copies of a tensor, slot `at` or t: the one in the file that the index names, or
 * in model.safetensors. */
static int choose_copy(struct hfdir *h, int64_t at, const struct st_tensor *t, struct err *e) {
    struct st_tensor *had = &h->store[at];
    int want = file_in_index(h, t->name);
    if (want < 0 && strcmp(io_base(st_path(h->file[had->file])), WHOLE) == 0) want = had->file;
    if (want < 0)
        return err_set(e, ERR_DATA, "%s: tensor \"%s\" is in %s and in %s: remove one of them",
                       h->path, show_n(t->name, strlen(t->name)).s,
                       io_base(st_path(h->file[had->file])), io_base(st_path(h->file[t->file])));
    if (want == t->file) *had = *t;
    log_debug("%s is in two files: that in %s counts", show_n(t->name, strlen(t->name)).s,
              io_base(st_path(h->file[want])));
    return 0;
}

/* Lists the tensors of all files; a tensor in two files is taken from one of them. */
static int collect_tensors(struct hfdir *h, struct err *e) {
    int64_t n = 0, n_copies = 0;
    for (int f = 0; f < h->n_files; f++) n += st_n_tensors(h->file[f]);
    if (!(h->store = try_calloc((size_t)n + 1, sizeof *h->store, "the list of tensors", e)) ||
        !(h->names = strmap_try_new((size_t)n, "the list of tensors", e)))
        return ERR_SYS;
    for (int k = 0; k < h->n_files; k++) {
        const int f = nth_file(h, k);
        for (int64_t i = 0; i < st_n_tensors(h->file[f]); i++) {
            struct st_tensor t = *st_tensor_at(h->file[f], i);
            t.file = f;
            const int64_t at = strmap_get(h->names, t.name, strlen(t.name));
            if (at >= 0) {
                TRY(choose_copy(h, at, &t, e));
                n_copies++;
                continue;
            }
            strmap_add(h->names, t.name, strlen(t.name), h->n_tensors);
            h->store[h->n_tensors++] = t;
        }
    }
    if (n_copies)
        log_warn("%s: %lld tensors are in two files; using those %s", h->path, (long long)n_copies,
                 h->index ? "named by the index" : "of " WHOLE);
    return 0;
}

/* Offending tensors: their number, and the names of the first few for the message. */
struct offenders {
    int64_t n;
    struct buf names;
};
/* Counts a name; keeps the first few for the message. */
static void add_offender(struct offenders *o, const char *name) {
    if (o->n++ < SHOWN)
        buf_fmt(&o->names, "%s\"%s\"", o->n > 1 ? ", " : "", show_n(name, strlen(name)).s);
}

/* Returns whether some file contains the tensor with a zero dimension, and therefore without
 * values. */
static bool is_empty_somewhere(const struct hfdir *h, const char *name) {
    for (int f = 0; f < h->n_files; f++)
        if (st_is_empty(h->file[f], name)) return true;
    return false;
}

/* Compares the index with the shards. A tensor that no shard contains is an error. One that is in a
 * shard other than the index says, or not in the index, is only reported. */
static int check_index(struct hfdir *h, struct err *e) {
    struct offenders lost = {0}, moved = {0}, extra = {0};
    int rc = 0;
    for (const struct json *c = json_first(json_get(h->index, "weight_map")); c; c = json_next(c)) {
        const char *name = json_name(c);
        const struct st_tensor *t = hfdir_find(h, name);
        if (!t && !is_empty_somewhere(h, name)) add_offender(&lost, name);
        if (t && t->file != file_in_index(h, name)) add_offender(&moved, name);
    }
    for (int64_t t = 0; h->store && t < h->n_tensors; t++)
        if (hfdir_unlisted(h, t)) add_offender(&extra, h->store[t].name);
    if (lost.n)
        rc = err_set(e, ERR_DATA,
                     "%s: the index names tensors that no shard has (%lld: %s%s); download the "
                     "folder again",
                     h->path, (long long)lost.n, lost.names.data, lost.n > SHOWN ? ", ..." : "");
    if (!rc && moved.n)
        log_warn("%s: %lld tensors are not in the shards that the index names (%s%s)", h->path,
                 (long long)moved.n, moved.names.data, moved.n > SHOWN ? ", ..." : "");
    if (!rc && extra.n)
        log_warn("%s: %lld tensors of the shards are not in the index (%s%s); they are used only "
                 "where the model needs them",
                 h->path, (long long)extra.n, extra.names.data, extra.n > SHOWN ? ", ..." : "");
    buf_release(&lost.names);
    buf_release(&moved.names);
    buf_release(&extra.names);
    return rc;
}

/* Fills the map from tensor names to file numbers; l lists the files in the same order. */
static void read_places(struct hfdir *h, const struct io_names *l) {
    struct strmap *file = strmap_new((size_t)l->n);
    for (int i = 0; i < l->n; i++) strmap_add(file, l->v[i], strlen(l->v[i]), i);
    h->placed = strmap_new(1024);
    for (const struct json *c = json_first(json_get(h->index, "weight_map")); c; c = json_next(c)) {
        const char *name = json_name(c), *in = json_str(c);
        strmap_add(h->placed, name, strlen(name), strmap_get(file, in, strlen(in)));
    }
    strmap_free(file);
}

/* Returns whether two tensors have the same dtype and shape, and begin with the same bytes. */
static bool begin_alike(const struct st_tensor *a, const struct st_tensor *b) {
    bool same = a->dtype == b->dtype && a->n_dims == b->n_dims && a->n_bytes == b->n_bytes;
    for (int i = 0; i < a->n_dims && same; i++) same = a->shape[i] == b->shape[i];
    return same && memcmp(a->data, b->data, a->n_bytes < PROBED ? a->n_bytes : PROBED) == 0;
}

/* Rejects a folder whose model.safetensors and indexed shards differ in a tensor of the same name:
 * transformers reads the former despite the index, other programs the latter. A copy of the same
 * model is accepted. */
static int refuse_two_models(const struct hfdir *h, struct err *e) {
    char *path = io_join(h->path, WHOLE);
    struct err ignored;
    struct st *s = NULL;
    int rc = 0;
    for (int i = 0; i < h->n_files; i++)
        if (strcmp(io_base(st_path(h->file[i])), WHOLE) == 0) goto done;
    if (!io_exists(path) || st_open(&s, path, &ignored)) goto done;
    for (int64_t i = 0; i < st_n_tensors(s) && !rc; i++) {
        const struct st_tensor *t = st_tensor_at(s, i), *had = hfdir_find(h, t->name);
        if (had && !begin_alike(t, had))
            rc = err_set(e, ERR_DATA,
                         "%s: %s and the shards of %s are two models, which differ in %s: remove "
                         "%s, or the shards and their index",
                         h->path, WHOLE, HF_INDEX, show_n(t->name, strlen(t->name)).s, WHOLE);
    }
done:
    st_close(s);
    free(path);
    return rc;
}

/* Opens all weight files and checks them against the index. */
static int open_weights(struct hfdir *h, bool consumed, struct err *e) {
    struct io_names l = {0};
    int rc;
    TRY_GOTO(done, rc, hfshards_list(h->path, consumed, &l, &h->index, e));
    if (h->index) read_places(h, &l);
    h->file = xcalloc((size_t)l.n, sizeof(struct st *));
    for (int i = 0; i < l.n; i++) {
        char *p = io_join(h->path, l.v[i]), *rest = xasprintf("%s%s", p, HF_CONSUMED);
        rc = st_open(&h->file[i], consumed && !io_exists(p) ? rest : p, e);
        free(p);
        free(rest);
        if (rc) goto done;
        h->n_files++;
    }
    TRY_GOTO(done, rc, collect_tensors(h, e));
    if (h->index) rc = check_index(h, e);
    if (h->index && !rc) rc = refuse_two_models(h, e);
done:
    io_names_release(&l);
    return rc;
}

/* ---- the folder ------------------------------------------------------------------------------ */

/* Returns the part of config.json that describes the language model; NULL: no separate part. */
static const struct json *find_text_config(const struct json *config) {
    static const char *const name[] = {"text_config", "llm_config", "language_config",
                                       "transformer_layer_config"};
    const struct json *thinker = json_get(config, "thinker_config"), *j = NULL;
    for (size_t i = 0; i < COUNT_OF(name) && !j; i++) {
        j = json_get(json_type(thinker) == JSON_OBJ ? thinker : config, name[i]);
        if (json_type(j) != JSON_OBJ) j = NULL;
    }
    return j;
}

/* Returns ERR_DATA unless config.json is an object; finds its text part. */
static int check_config(struct hfdir *h, const char *what, struct err *e) {
    if (json_type(h->config) != JSON_OBJ)
        return err_set(e, ERR_DATA, "%s: not a JSON object", what);
    h->text_config = find_text_config(h->config);
    return 0;
}

int hfdir_set_target(struct hfdir *h, const char *dir, struct err *e) {
    char *p = io_join(dir, "config.json");
    const struct json *j = NULL;
    int rc = 0;
    if (!io_exists(p))
        rc = err_set(e, ERR_USAGE, "%s: no config.json in the folder of the draft's model", dir);
    if (!rc) rc = json_read_py(&h->target, p, limit_of(LIM_HF_JSON), e);
    j = h->target;
    if (!rc && json_type(j) != JSON_OBJ) rc = err_set(e, ERR_DATA, "%s: not a JSON object", p);
    if (!rc) h->target_path = xstrdup(dir);
    free(p);
    return rc;
}

const char *hfdir_target(const struct hfdir *h) {
    return h->target_path;
}

static int read_config(struct hfdir *h, struct err *e) {
    char *p = io_join(h->path, "config.json");
    int rc = 0;
    if (!io_exists(p)) rc = hfshards_no_config(h->path, e);
    if (!rc) rc = json_read_py(&h->config, p, limit_of(LIM_HF_JSON), e);
    if (!rc) rc = check_config(h, p, e);
    free(p);
    return rc;
}

static int open_dir(struct hfdir **out, const char *dir, bool consumed, struct err *e) {
    *out = NULL;
    if (!io_exists(dir)) return err_set(e, ERR_USAGE, "%s: no such folder", dir);
    if (!io_is_dir(dir) && str_ends(dir, ".gguf"))
        return err_set(e, ERR_USAGE,
                       "%s: not a folder but a GGUF file already; hone quantize makes smaller ones",
                       dir);
    if (!io_is_dir(dir))
        return err_set(e, ERR_USAGE,
                       "%s: not a folder: name the one that holds config.json and "
                       "model*.safetensors",
                       dir);
    char *real = io_real(dir);
    if (!real) return err_sys(e, "%s", dir);
    struct hfdir *h = xcalloc(1, sizeof *h);
    int rc;
    arena_init(&h->arena);
    h->path = xstrdup(dir);
    h->base = xstrdup(io_base(real));
    free(real);
    TRY_GOTO(fail, rc, read_config(h, e));
    TRY_GOTO(fail, rc, open_weights(h, consumed, e));
    *out = h;
    return 0;
fail:
    hfdir_close(h);
    return rc;
}

int hfdir_open(struct hfdir **out, const char *dir, struct err *e) {
    return open_dir(out, dir, false, e);
}
int hfdir_open_consumed(struct hfdir **out, const char *dir, struct err *e) {
    return open_dir(out, dir, true, e);
}

int hfdir_from_config(struct hfdir **out, const char *text, size_t len, const char *name,
                      struct err *e) {
    struct hfdir *h = xcalloc(1, sizeof *h);
    int rc;
    *out = NULL;
    arena_init(&h->arena);
    h->path = xstrdup(name);
    h->base = xstrdup(io_base(name));
    TRY_GOTO(fail, rc, json_parse_py(&h->config, text, len, name, e));
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
    free(h->assumed);
    arena_release(&h->arena);
    free(h->file);
    free(h->store);
    strmap_free(h->names);
    strmap_free(h->placed);
    json_free(h->config);
    json_free(h->index);
    json_free(h->target);
    free(h->target_path);
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
const struct json *hfdir_text_config(const struct hfdir *h) {
    return h->text_config;
}
int hfdir_n_files(const struct hfdir *h) {
    return h->n_files;
}
const struct st *hfdir_file(const struct hfdir *h, int i) {
    return i >= 0 && i < h->n_files ? h->file[i] : NULL;
}
void hfdir_end_file(struct hfdir *h, int i) {
    st_end(h->file[i]);
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
bool hfdir_unlisted(const struct hfdir *h, int64_t i) {
    const struct st_tensor *t = hfdir_tensor_at(h, i);
    return t && h->placed && strmap_get(h->placed, t->name, strlen(t->name)) < 0;
}
void hfdir_drop(const struct hfdir *h, const struct st_tensor *t) {
    st_drop(h->file[t->file], t->off, t->n_bytes);
}

/* ---- hyperparameters ------------------------------------------------------------------------- */

/* Returns whether a member of text_config hides the root's. Even a null does, since it means that
 * the value is absent, except for the quantization, which is that of the folder's tensors. */
static bool hides_root(const struct json *j, const char *name) {
    return j && (json_type(j) != JSON_NULL || strcmp(name, "quantization_config") != 0);
}

/* Returns the first name in "a|b|c" with a non-null value in obj; NULL: not found. Skips names that
 * `hides` hides. */
static const struct json *find_spelling(const struct json *obj, const struct json *hides,
                                        const char *names) {
    char name[128];
    for (const char *p = names; *p;) {
        size_t n = strcspn(p, "|");
        if (n < sizeof name) {
            memcpy(name, p, n);
            name[n] = 0;
            const bool hidden = hides && hides_root(json_get(hides, name), name);
            const struct json *j = hidden ? NULL : json_get(obj, name);
            if (j && json_type(j) != JSON_NULL) return j;
        }
        p += n;
        if (*p) p++;
    }
    return NULL;
}

/* Returns the language model's config in a multimodal one; NULL: it is not separate. */
static const struct json *text_config_of(const struct hfdir *h) {
    return json_type(h->text_config) == JSON_OBJ ? h->text_config : NULL;
}

/* Returns a hyperparameter of config, whose part `text` describes the language model. */
static const struct json *said_in(const struct json *config, const struct json *text,
                                  const char *names) {
    const struct json *j = find_spelling(text, NULL, names);
    if (!j) j = find_spelling(json_get(config, "thinker_config"), text, names);
    return j ? j : find_spelling(config, text, names);
}

const struct json *hfdir_said(const struct hfdir *h, const char *names) {
    const struct json *j = find_spelling(h->over, NULL, names);
    return j ? j : said_in(h->config, text_config_of(h), names);
}

const struct json *hfdir_target_hparam(const struct hfdir *h, const char *names) {
    return said_in(h->target, find_text_config(h->target), names);
}

const struct json *hfdir_hparam(const struct hfdir *h, const char *names) {
    const struct json *text = text_config_of(h), *j = hfdir_said(h, names);
    if (j || !h->under) return j;
    j = find_spelling(h->under, text ? text : h->config, names);
    int64_t i = 0;
    for (const struct json *m = json_first(h->under); m && j; m = json_next(m), i++)
        if (m == j) h->assumed[i] = true;
    return j;
}

int hfdir_whole(const struct json *j, const char *name, int64_t otherwise, int64_t *out,
                struct err *e) {
    *out = otherwise;
    if (!j || json_type(j) == JSON_NULL) return 0;
    return json_i64(j, out) && *out >= INT32_MIN && *out <= INT32_MAX
               ? 0
               : err_set(e, ERR_DATA, "%s is not a valid integer", name);
}

void hfdir_complete(struct hfdir *h, const struct json *over, const struct json *under) {
    h->over = over;
    h->under = under;
    free(h->assumed);
    h->assumed = xcalloc((size_t)json_len(under) + 1, sizeof *h->assumed);
}

bool hfdir_completed(const struct hfdir *h) {
    return h->assumed != NULL;
}

void hfdir_assumed(const struct hfdir *h, void (*fn)(void *ud, const struct json *member),
                   void *ud) {
    int64_t i = 0;
    for (const struct json *m = json_first(h->under); m; m = json_next(m), i++)
        if (h->assumed[i]) fn(ud, m);
}

struct arena *hfdir_arena(struct hfdir *h) {
    return &h->arena;
}

/* ---- other files ----------------------------------------------------------------------------- */

/* Returns a file that was read before; NULL: not yet. */
static struct extra *find_extra(const struct hfdir *h, const char *name, bool is_text) {
    for (int i = 0; i < h->n_extra; i++)
        if (h->extra[i].is_text == is_text && strcmp(h->extra[i].name, name) == 0)
            return &h->extra[i];
    return NULL;
}
/* Reads a file of the folder as text or JSON; leaves *x empty if it is missing. */
static int read_extra(struct hfdir *h, const char *name, struct extra *x, struct err *e) {
    char *p = io_join(h->path, name);
    bool there;
    int rc = io_there(&there, p, e);
    if (!rc && there)
        rc = x->is_text ? io_read_file(&x->text, &x->len, p, limit_of(LIM_HF_JSON), e)
                        : json_read_py(&x->json, p, limit_of(LIM_HF_JSON), e);
    free(p);
    return rc;
}
/* Finds the slot of a file, reading the file if needed; *out is valid until the next call. */
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
    if (!x->text || !str_no_nul(x->text, x->len, name, e)) return 0;
    return err_wrap(e, "%s", h->path);
}

/* Returns the template in "chat_template", which is a string, or a list of {name, template} or an
 * object {name: template} whose default counts. NULL: it has no default. */
static const struct json *default_template(const struct json *j) {
    if (json_type(j) == JSON_OBJ) return json_get(j, "default");
    if (json_type(j) != JSON_ARR) return j;
    for (const struct json *c = json_first(j); c; c = json_next(c)) {
        const char *name = json_str(json_get(c, "name"));
        if (name && strcmp(name, "default") == 0) return json_get(c, "template");
    }
    return NULL;
}

/* Sets *text to the template in j, the contents of file `name`; NULL: none. */
static int config_template(const struct hfdir *h, const char *name, const struct json *j,
                           const char **text, struct err *e) {
    const struct json *t = default_template(json_get(j, "chat_template"));
    size_t n;
    *text = json_strn(t, &n);
    if (!*text || !str_no_nul(*text, n, name, e)) return 0;
    return err_wrap(e, "%s", h->path);
}

int hfdir_chat_template(struct hfdir *h, const char **text, struct err *e) {
    const struct json *conf, *json;
    *text = NULL;
    TRY(hfdir_text(h, "chat_template.jinja", text, e));
    TRY(hfdir_json(h, "tokenizer_config.json", &conf, e));
    const char *other;
    TRY(config_template(h, "tokenizer_config.json", conf, &other, e));
    if (*text && other && strcmp(*text, other) != 0)
        log_warn("%s: chat_template.jinja and tokenizer_config.json hold different chat templates; "
                 "chat_template.jinja is used",
                 h->path);
    if (!*text) *text = other;
    if (*text) return 0;
    TRY(hfdir_json(h, "chat_template.json", &json, e));
    return config_template(h, "chat_template.json", json, text, e);
}
