// SPDX-License-Identifier: MIT
/* models/config.c - normalization of published config.json files before architectures read them.
 * Publishers and releases of transformers differ in three ways:
 *
 * - keys may be absent if the value is the default of the model's configuration class;
 *   models/defaults.json has the defaults (tests/oracle/config_defaults.py);
 * - keys may have two names (attribute_map of the class): both are made available;
 * - RoPE: rope_theta, rope_scaling and others at the top level, or all of it in rope_parameters, as
 *   one object or as one per kind of layer. Architectures see a complete rope_parameters
 * (hf_rope). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/attr.h"
#include "base/buf.h"
#include "containers/hfdir.h"
#include "base/incbin.h"
#include "base/json.h"
#include "base/log.h"
#include "models/arch.h"

INCBIN(hone_config_defaults, "models/defaults.json")

/* Returns the entry of defaults.json for a model type or class; NULL: none. An entry is one line;
 * the entry of an alias is only the name of its type. */
static const struct json *entry_of(struct arena *a, const char *type) {
    char key[128];
    const struct json *j;
    struct err ignored;
    size_t used;
    for (int hops = 0; type && hops < 3; hops++) {
        const int n = snprintf(key, sizeof key, "\n\"%s\": ", type);
        const char *at = n > 0 && n < (int)sizeof key ? strstr(hone_config_defaults, key) : NULL;
        static const struct json_opts plain;
        if (!at || json_parse_in(&j, a, at + n, (size_t)(hone_config_defaults_end - at - n), &plain,
                                 "defaults", &used, &ignored))
            return NULL;
        if (json_type(j) == JSON_OBJ) return j;
        type = json_str(j);
    }
    return NULL;
}

/* Returns the table's entry for the model's class or type; NULL: unknown. */
static const struct json *find_entry(struct hfdir *dir) {
    const struct json *root = hfdir_config(dir), *text = hfdir_text_config(dir);
    const struct json *cls = json_first(json_get(text, "architectures"));
    if (!cls) cls = json_first(json_get(root, "architectures"));
    const struct json *const names[] = {json_get(text, "model_type"), json_get(root, "model_type"),
                                        cls};
    const struct json *j = NULL;
    for (size_t i = 0; i < COUNT_OF(names) && !j; i++)
        j = entry_of(hfdir_arena(dir), json_str(names[i]));
    return j;
}

/* ---- rope ---- */

/* Sets a member unless v is null. */
static void put_if_set(struct arena *a, struct json *obj, const char *name, const struct json *v) {
    if (json_type(v) != JSON_NULL) json_put(a, obj, name, strlen(name), v);
}

/* Sets a member that obj lacks, from the top level of config.json if one of `names` is a number
 * there (or a string, which its reader will reject), otherwise from `fill`. */
static void put_missing(struct hfdir *dir, struct json *obj, const char *name, const char *names,
                        const struct json *fill) {
    const struct json *top = names ? hfdir_said(dir, names) : NULL;
    if (json_type(json_get(obj, name)) != JSON_NULL) return;
    put_if_set(hfdir_arena(dir), obj, name,
               json_type(top) == JSON_NUM || json_str(top) ? top : json_get(fill, name));
}

#define UNREAD "(unread)" /* a member of completed parameters: the name of one that is lost */
#define ORIGINAL "original_max_position_embeddings"
/* Returns the complete RoPE parameters for one kind of layers, from `from`, the top level of
 * config.json, and the defaults in `fill` and `keys`. theta: top-level names of the base. */
static struct json *complete_rope(struct hfdir *dir, const struct json *from, const char *theta,
                                  const struct json *fill, const struct json *keys) {
    static const char *const longer[] = {"llama3", "yarn", "longrope"};
    struct arena *a = hfdir_arena(dir);
    struct json *r = json_new(a, JSON_OBJ);
    const struct json *context = hfdir_said(dir, "max_position_embeddings");
    if (!context) context = json_get(keys, "max_position_embeddings");
    for (const struct json *m = json_first(from); m; m = json_next(m))
        if (json_type(m) != JSON_OBJ) put_if_set(a, r, json_name(m), m);
    const struct json *type = json_get(r, "rope_type");
    if (!json_str(type)) {
        if (!type) type = json_get(r, "type");
        const char *text = type ? "(not text)" : "default"; /* the first will be refused */
        put_if_set(a, r, "rope_type", json_str(type) ? type : json_new_str(a, text, strlen(text)));
    }
    put_missing(dir, r, "rope_theta", theta, fill);
    put_missing(dir, r, "partial_rotary_factor", "partial_rotary_factor|rotary_pct", fill);
    /* As in transformers, the top level takes precedence, and the default is the model's context.
     */
    put_if_set(a, r, ORIGINAL, hfdir_said(dir, ORIGINAL));
    for (size_t i = 0; i < COUNT_OF(longer) && !json_get(r, ORIGINAL); i++)
        if (strcmp(json_str(json_get(r, "rope_type")), longer[i]) == 0)
            put_if_set(a, r, ORIGINAL,
                       json_get(keys, ORIGINAL) ? json_get(keys, ORIGINAL) : context);
    return r;
}

/* Returns whether rope parameters are given for each kind of layer. */
static bool is_nested(const struct json *rope) {
    for (const struct json *m = json_first(rope); m; m = json_next(m))
        if (json_type(m) == JSON_OBJ) return true;
    return false;
}

/* Adds the RoPE parameters of one kind of layer, completed with the class's defaults. */
static void add_kind(struct hfdir *dir, struct json *to, const char *kind, const struct json *from,
                     const struct json *entry) {
    const struct json *fill = json_get(entry, "fill"), *keys = json_get(entry, "keys");
    const struct json *mine = is_nested(fill) ? json_get(fill, kind) : fill;
    const struct json *theta = json_get(mine, "rope_theta"),
                      *main = json_get(json_get(fill, ROPE_FULL), "rope_theta");
    /* Sliding-window layers have their own base if the class gives them one. */
    const bool own = strcmp(kind, ROPE_FULL) != 0 && is_nested(fill) && !json_equal(theta, main);
    put_if_set(hfdir_arena(dir), to, kind,
               complete_rope(dir, from, own ? "rope_local_base_freq|swa_rope_theta" : "rope_theta",
                             mine, keys));
}

/* Returns rope_scaling. Notes a base or rotated part that only rope_parameters has: transformers
 * ignores it next to rope_scaling and uses the class's. */
static const struct json *scaling_of(struct hfdir *dir, const struct json *scaling,
                                     const struct json *fill) {
    static const char *const basic[] = {"rope_theta", "partial_rotary_factor"};
    const struct json *other = hfdir_said(dir, "rope_parameters");
    struct json *r = json_new(hfdir_arena(dir), JSON_OBJ);
    if (is_nested(scaling) || is_nested(other)) return scaling;
    for (const struct json *m = json_first(scaling); m; m = json_next(m))
        put_if_set(hfdir_arena(dir), r, json_name(m), m);
    for (size_t i = 0; i < COUNT_OF(basic); i++) {
        const struct json *v = json_get(other, basic[i]), *usual = json_get(fill, basic[i]);
        if (json_type(v) != JSON_NUM || json_get(r, basic[i]) || hfdir_said(dir, basic[i]))
            continue;
        if (fabs(json_num(v, 0) - json_num(usual, 0)) > 0)
            put_if_set(hfdir_arena(dir), r, UNREAD,
                       json_new_str(hfdir_arena(dir), basic[i], strlen(basic[i])));
    }
    return r;
}

/* Returns the RoPE parameters in the newer form: one object, or one per kind of layer. */
static const struct json *rope_of(struct hfdir *dir, const struct json *entry) {
    const struct json *from = hfdir_said(dir, "rope_scaling|rope_parameters");
    const struct json *fill = json_get(entry, "fill");
    if (from == hfdir_said(dir, "rope_scaling"))
        from = json_type(from) == JSON_OBJ && json_len(from) ? scaling_of(dir, from, fill)
                                                             : hfdir_said(dir, "rope_parameters");
    if (json_type(from) != JSON_OBJ || !json_len(from)) from = json_get(entry, "rope");
    if (!is_nested(from) && !is_nested(fill))
        return complete_rope(dir, from, "rope_theta", fill, json_get(entry, "keys"));
    struct json *r = json_new(hfdir_arena(dir), JSON_OBJ);
    if (!is_nested(from)) {
        add_kind(dir, r, ROPE_FULL, from, entry);
        from = NULL;
    }
    for (const struct json *m = json_first(from); m; m = json_next(m))
        if (json_type(m) == JSON_OBJ) add_kind(dir, r, json_name(m), m, entry);
    for (const struct json *m = json_first(fill); m; m = json_next(m))
        if (json_type(m) == JSON_OBJ && !json_get(r, json_name(m)))
            add_kind(dir, r, json_name(m), NULL, entry);
    return r;
}

const struct json *hf_rope(const struct hfdir *dir, const char *kind) {
    const struct json *r = hfdir_hparam(dir, "rope_parameters"), *of = json_get(r, kind);
    if (json_type(of) == JSON_OBJ) return of;
    return !is_nested(r) ? r : strcmp(kind, ROPE_FULL) != 0 ? NULL : json_first(r);
}

int hf_check_unread(const struct hfdir *dir, struct err *e) {
    const char *name = json_str(json_get(hf_rope(dir, ROPE_FULL), UNREAD));
    return !name ? 0
                 : err_set(e, ERR_DATA,
                           "rope_scaling is next to rope_parameters, whose %s transformers then "
                           "ignores: move what rope_scaling says into rope_parameters and remove "
                           "it",
                           name);
}

/* ---- the whole config ---- */

/* Copies each key that has two names to the name that config.json does not use. */
static void put_aliases(struct hfdir *dir, struct json *over, const struct json *map) {
    for (const struct json *m = json_first(map); m; m = json_next(m)) {
        const char *name[] = {json_name(m), json_str(m)};
        for (int i = 0; i < 2; i++)
            if (!hfdir_said(dir, name[i]))
                put_if_set(hfdir_arena(dir), over, name[i], hfdir_said(dir, name[1 - i]));
    }
}

/* Sets the number of layers to the length of the list of layer kinds, if config.json has no number.
 * In Nemotron-H the list layers_block_type takes precedence over num_hidden_layers. */
static void put_layers(struct hfdir *dir, struct json *over) {
    const struct json *list = hfdir_said(dir, "layers_block_type"), *n;
    const char *const count = "num_hidden_layers|n_layers|n_layer|num_layers";
    struct err ignored;
    char text[24];
    size_t used;
    if (json_type(list) != JSON_ARR && hfdir_said(dir, count)) return;
    if (json_type(list) != JSON_ARR) list = hfdir_said(dir, "layer_types|hybrid_override_pattern");
    const char *letters = json_str(list); /* of Nemotron-H */
    if (json_type(list) != JSON_ARR && !letters) return;
    const int len = snprintf(text, sizeof text, "%lld",
                             letters ? (long long)strlen(letters) : (long long)json_len(list));
    static const struct json_opts plain;
    if (!json_parse_in(&n, hfdir_arena(dir), text, (size_t)len, &plain, "layers", &used, &ignored))
        put_if_set(hfdir_arena(dir), over, "num_hidden_layers", n);
}

void config_complete(struct hfdir *dir) {
    struct arena *a = hfdir_arena(dir);
    if (hfdir_completed(dir)) return;
    const struct json *entry = find_entry(dir);
    struct json *over = json_new(a, JSON_OBJ);
    put_aliases(dir, over, json_get(entry, "also"));
    put_layers(dir, over);
    put_if_set(a, over, "rope_parameters", rope_of(dir, entry));
    hfdir_complete(dir, over, json_get(entry, "keys"));
}

/* Records a default that matters: a number, or a switch that is on. */
static void note_default(void *ud, const struct json *m) {
    struct buf *b = ud;
    if (strstr(json_name(m), "nextn")) return; /* determined from the tensors */
    if (json_type(m) != JSON_NUM && !json_bool(m, false)) return;
    buf_fmt(b, "%s%s ", b->len ? ", " : "", json_name(m));
    json_write(b, m);
}

void config_log_defaults(const struct hfdir *dir) {
    struct buf b = {0};
    hfdir_assumed(dir, note_default, &b);
    if (b.len) log_info("using the class's defaults for keys that config.json omits: %s", b.data);
    buf_release(&b);
}
