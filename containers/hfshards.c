// SPDX-License-Identifier: MIT
/* containers/hfshards.c - weight files of a Hugging Face folder. With an index, model*.safetensors
 * files that it does not name are left over from an earlier save, and are ignored with a note.
 * Without an index, names show which files belong together; an ambiguous folder is refused. */
#include "containers/hfshards.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/str.h"
#include "containers/gguf.h"
#include "containers/hfdir.h"
#include "base/mem.h"

static bool begins_with(const char *s, const char *with) {
    return strncmp(s, with, strlen(with)) == 0;
}
/* Returns whether a file name is that of Hugging Face weights. */
static bool is_weights(const char *s) {
    return begins_with(s, "model") && str_ends(s, ".safetensors");
}

static bool file_exists(const char *dir, const char *name) {
    char *p = io_join(dir, name);
    const bool is = io_exists(p);
    free(p);
    return is;
}

/* Returns whether only the header of a shard is left (`hone convert --consume`). */
static bool is_consumed(const char *dir, const char *name) {
    char *rest = xasprintf("%s%s", name, HF_CONSUMED);
    const bool is = !file_exists(dir, name) && file_exists(dir, rest);
    free(rest);
    return is;
}

static int refuse_consumed(const char *dir, const char *name, struct err *e) {
    return err_set(e, ERR_DATA,
                   "%s: %s was consumed by a run of hone convert --consume that did not end: run "
                   "the same command to finish it",
                   dir, name);
}

/* What else the folder contains; it determines the wording of an error. */
struct others {
    bool pickles, consolidated, params, ggufs;
};
/* Records a file that helps to explain why weights are missing. */
static void note_other(struct others *o, const char *s) {
    if (begins_with(s, "consolidated") && str_ends(s, ".safetensors")) o->consolidated = true;
    if (str_ends(s, ".bin") || str_ends(s, ".pt") || str_ends(s, ".pth")) o->pickles = true;
    if (strcmp(s, "params.json") == 0) o->params = true;
    if (str_ends(s, ".gguf")) o->ggufs = true;
}

/* Returns whether a GGUF file is a language model, not an importance matrix, second moments or a
 * vision tower. */
static bool is_model(const char *path) {
    struct gguf *g;
    struct err why;
    if (gguf_open(&g, path, GGUF_TOLERANT, &why)) return false;
    const bool yes = gguf_find(g, "general.architecture") != NULL && gguf_part_of(g) == GGUF_MODEL;
    gguf_close(g);
    return yes;
}

/* Returns an error for a folder of GGUF files, such as hone's own output. */
static int only_ggufs(const char *dir, struct err *e) {
    struct io_names all;
    bool found = false;
    TRY(io_list(&all, dir, e));
    for (int i = 0; i < all.n && !found; i++) {
        char *path = str_ends(all.v[i], ".gguf") ? io_join(dir, all.v[i]) : NULL;
        found = path && is_model(path);
        if (found)
            err_set(e, ERR_DATA, "%s holds GGUF files and no safetensors: name one, such as %s",
                    dir, path);
        free(path);
    }
    io_names_release(&all);
    return found ? ERR_DATA
                 : err_set(e, ERR_DATA,
                           "%s holds no safetensors, and no GGUF file in it is a model: download "
                           "the weights",
                           dir);
}

/* Sets and returns the error for Mistral's own layout. */
static int mistral_layout(const char *dir, struct err *e) {
    return err_set(
        e, ERR_DATA,
        "%s has only Mistral's own layout (params.json, consolidated*.safetensors), which "
        "is not supported: download config.json and model*.safetensors of the same repository, or "
        "make them with transformers' convert_mistral_weights_to_hf.py",
        dir);
}

/* Sets and returns the error for a folder without weights, depending on its other files. */
static int no_weights(const char *dir, const struct others *o, struct err *e) {
    if (o->ggufs && !o->pickles && !o->consolidated) return only_ggufs(dir, e);
    if (o->pickles)
        return err_set(
            e, ERR_DATA,
            "%s: the weights are pickled PyTorch files, which can run code and are not read; "
            "get the safetensors form of the model",
            dir);
    if (o->consolidated) return mistral_layout(dir, e);
    return err_set(e, ERR_DATA, "%s: there is no model*.safetensors; download the weights", dir);
}

/* Returns the path of a folder below `dir` that has a config.json: one level down or, with
 * `snapshots`, in snapshots/REVISION of the Hub's cache. NULL: none. */
static char *folder_below(const char *dir, bool snapshots) {
    struct io_names all = {0};
    struct err ignored;
    char *found = NULL;
    if (io_list(&all, dir, &ignored)) all.n = 0;
    for (int i = 0; i < all.n && !found; i++) {
        char *sub = io_join(dir, all.v[i]);
        if (file_exists(sub, "config.json"))
            found = xstrdup(sub);
        else if (snapshots && strcmp(all.v[i], "snapshots") == 0)
            found = folder_below(sub, false);
        free(sub);
    }
    io_names_release(&all);
    return found;
}

/* Sets and returns the error for a folder without config.json. */
static int not_a_model(const char *dir, struct err *e) {
    char *below = folder_below(dir, true);
    const int rc = below ? err_set(e, ERR_DATA,
                                   "%s: there is no config.json; name the folder that has it, "
                                   "such as %s",
                                   dir, below)
                         : err_set(e, ERR_DATA,
                                   "%s: there is no config.json; this is not a model folder", dir);
    free(below);
    return rc;
}

int hfshards_no_config(const char *dir, struct err *e) {
    struct io_names all;
    struct others o = {0};
    int rc = io_list(&all, dir, e);
    for (int i = 0; i < all.n && !rc; i++) note_other(&o, all.v[i]);
    if (rc)
        ;
    else if (o.ggufs)
        rc = only_ggufs(dir, e);
    else if (o.consolidated)
        rc = mistral_layout(dir, e);
    else if (o.params && o.pickles)
        rc = err_set(e, ERR_DATA,
                     "%s has only Meta's own layout (params.json, consolidated.*.pth), which "
                     "is not supported: download the Hugging Face form of the model (config.json, "
                     "model*.safetensors), or make it with transformers' "
                     "convert_llama_weights_to_hf.py",
                     dir);
    else
        rc = not_a_model(dir, e);
    io_names_release(&all);
    return rc;
}

/* ---- with an index --------------------------------------------------------------------------- */

/* Returns ERR_DATA unless the index names a plain safetensors file. */
static int check_index_name(const char *s, struct err *e) {
    if (!*s || *s == '.' || strchr(s, '/') || strchr(s, '\\') || strlen(s) > 255 ||
        !str_ends(s, ".safetensors"))
        return err_set(
            e, ERR_DATA,
            "%s names the file \"%s\"; only plain names of safetensors files are allowed", HF_INDEX,
            show_n(s, strlen(s)).s);
    return 0;
}

/* Lists the files named in weight_map, each once. */
static int index_files(const struct json *map, struct io_names *l, struct strmap *seen,
                       struct err *e) {
    for (const struct json *c = json_first(map); c; c = json_next(c)) {
        const char *s = json_str(c);
        if (!s)
            return err_set(e, ERR_DATA, "%s gives no file name for \"%s\"", HF_INDEX,
                           show_n(json_name(c), strlen(json_name(c))).s);
        if (!strmap_add(seen, s, strlen(s), l->n)) continue;
        TRY(check_index_name(s, e));
        if ((uint64_t)l->n >= limit_of(LIM_HF_FILES))
            return err_set(e, ERR_DATA, "%s names more than %llu files", HF_INDEX,
                           (unsigned long long)limit_of(LIM_HF_FILES));
        io_names_add(l, s);
    }
    return 0;
}

/* Warns about weight files that the index does not name. */
static int note_strays(const char *dir, const struct strmap *named, struct err *e) {
    struct io_names all;
    TRY(io_list(&all, dir, e));
    for (int i = 0; i < all.n; i++)
        if (is_weights(all.v[i]) && strmap_get(named, all.v[i], strlen(all.v[i])) < 0)
            log_warn("%s: %s is ignored, since %s does not name it", dir,
                     show_n(all.v[i], strlen(all.v[i])).s, HF_INDEX);
    io_names_release(&all);
    return 0;
}

/* Lists the files that the index names, and returns the index. */
static int list_by_index(const char *dir, bool consumed, struct io_names *l, struct json **index,
                         struct err *e) {
    char *path = io_join(dir, HF_INDEX);
    int rc = json_read_py(index, path, limit_of(LIM_HF_JSON), e);
    free(path);
    TRY(rc);
    const struct json *map = json_get(*index, "weight_map");
    if (json_type(map) != JSON_OBJ || !json_first(map))
        return err_set(e, ERR_DATA, "%s: \"weight_map\" is missing or empty in %s", dir, HF_INDEX);
    struct strmap *seen = strmap_new(64);
    rc = index_files(map, l, seen, e);
    if (rc) rc = err_wrap(e, "%s", dir);
    io_names_sort(l);
    for (int i = 0; i < l->n && !rc; i++)
        if (is_consumed(dir, l->v[i]))
            rc = consumed ? 0 : refuse_consumed(dir, l->v[i], e);
        else if (!file_exists(dir, l->v[i]))
            rc = err_set(e, ERR_DATA, "%s: shard %s, named by %s, is missing; download it again%s",
                         dir, l->v[i], HF_INDEX,
                         file_exists(dir, "model.safetensors")
                             ? ", or remove the index if model.safetensors is the whole model"
                             : "");
    if (!rc) rc = note_strays(dir, seen, e);
    strmap_free(seen);
    return rc;
}

/* ---- by names -------------------------------------------------------------------------------- */

struct shard {
    size_t base; /* length of the name before the number */
    long at, of;
};
/* Parses up to seven digits and advances *s past them; -1: no digit. */
static long parse_digits(const char **s) {
    long n = 0;
    const char *from = *s;
    while (**s >= '0' && **s <= '9' && *s - from < 7) n = 10 * n + *(*s)++ - '0';
    return *s > from ? n : -1;
}
/* Parses model-00002-of-00003.safetensors; returns false for other names. */
static bool shard_of(const char *s, struct shard *out) {
    const char *mid = strstr(s, "-of-"), *tail, *head = mid;
    for (const char *next = mid; next; next = strstr(next + 1, "-of-")) mid = next;
    if (!mid) return false;
    for (head = mid; head > s && head[-1] >= '0' && head[-1] <= '9';) head--;
    out->base = (size_t)(head - s);
    out->at = parse_digits(&head);
    tail = mid + 4;
    out->of = parse_digits(&tail);
    return head == mid && out->at >= 0 && out->of > 0 && strcmp(tail, ".safetensors") == 0;
}

/* Rejects shards of two sets, an incomplete set, and a set next to a complete model. */
static int check_set(const char *dir, const struct io_names *l, struct err *e) {
    const char *first = NULL;
    struct shard set = {0}, s;
    bool whole = false;
    long n = 0;
    for (int i = 0; i < l->n; i++) {
        whole = whole || strcmp(l->v[i], "model.safetensors") == 0;
        if (!shard_of(l->v[i], &s)) continue;
        if (!first) set = s;
        if (!first) first = l->v[i];
        if (s.of != set.of || s.base != set.base || strncmp(l->v[i], first, s.base) != 0)
            return err_set(e, ERR_DATA,
                           "%s: %s and %s are shards of two copies of the model, and there is no "
                           "%s to choose between them: remove the files of one copy",
                           dir, first, l->v[i], HF_INDEX);
        n++;
    }
    if (first && n != set.of)
        return err_set(e, ERR_DATA,
                       "%s: %ld of the %ld shards (%s ...) are there; download the others%s", dir,
                       n, set.of, first,
                       whole ? ", or remove these if model.safetensors is the whole model" : "");
    if (first && whole)
        return err_set(e, ERR_DATA,
                       "%s: model.safetensors and %ld shards (%s ...) are both there, and there is "
                       "no %s to choose between them: remove one or the other",
                       dir, n, first, HF_INDEX);
    return 0;
}

/* Lists the weight files by their names, and checks that the set is complete. */
static int list_by_names(const char *dir, bool consumed, struct io_names *l, struct err *e) {
    struct io_names all;
    struct others o = {0};
    int rc = io_list(&all, dir, e);
    for (int i = 0; i < all.n && !rc; i++) {
        const size_t n = strlen(all.v[i]), k = n - strlen(HF_CONSUMED);
        char *base = xstrndup(all.v[i], str_ends(all.v[i], HF_CONSUMED) ? k : n);
        const bool rest = strlen(base) < n && is_consumed(dir, base);
        if (is_weights(base) && rest && !consumed) rc = refuse_consumed(dir, base, e);
        if (is_weights(base) && (rest || strlen(base) == n)) io_names_add(l, base);
        note_other(&o, all.v[i]);
        free(base);
    }
    io_names_sort(l);
    io_names_release(&all);
    if (rc) return rc;
    if (!l->n) return no_weights(dir, &o, e);
    if ((uint64_t)l->n > limit_of(LIM_HF_FILES))
        return err_set(e, ERR_DATA, "%s: more than %llu weight files", dir,
                       (unsigned long long)limit_of(LIM_HF_FILES));
    return check_set(dir, l, e);
}

int hfshards_list(const char *dir, bool consumed, struct io_names *l, struct json **index,
                  struct err *e) {
    char *path = io_join(dir, HF_INDEX);
    bool has;
    *index = NULL;
    int rc = io_there(&has, path, e);
    free(path);
    TRY(rc);
    return has ? list_by_index(dir, consumed, l, index, e) : list_by_names(dir, consumed, l, e);
}
