// SPDX-License-Identifier: MIT
/* Tests of models/config.c over every micro checkpoint: its config.json as two releases of
 * transformers save it again, without each key that they can do without, and with null in its
 * place. tests/golden/configs/resaved.json has what transformers makes of each
 * (tests/oracle/config_matrix.py); both files must give the same model. */
#include <string.h>

#include "containers/hfdir.h"
#include "base/json.h"
#include "base/log.h"
#include "tests/unit/micro.h"

static struct json *table; /* by checkpoint */

/* ---- changes of a config ---- */

static bool listed(const struct json *list, const char *name) {
    for (const struct json *x = json_first(list); x; x = json_next(x))
        if (json_str(x) && strcmp(json_str(x), name) == 0) return true;
    return false;
}

/* Returns obj with a change applied: without the members in "drop", then changed by "in" and
 * "set". */
static struct json *changed(struct arena *a, const struct json *obj, const struct json *change) {
    struct json *to = json_new(a, JSON_OBJ);
    for (const struct json *m = json_first(obj); m; m = json_next(m)) {
        const struct json *in = json_get(json_get(change, "in"), json_name(m));
        if (listed(json_get(change, "drop"), json_name(m))) continue;
        json_put(a, to, json_name(m), strlen(json_name(m)), in ? changed(a, m, in) : m);
    }
    for (const struct json *m = json_first(json_get(change, "set")); m; m = json_next(m))
        json_put(a, to, json_name(m), strlen(json_name(m)), m);
    return to;
}

/* Returns obj without the member at path "a.b", or with that member set to null. */
static struct json *without(struct arena *a, const struct json *obj, const char *path, bool null) {
    struct json *to = json_new(a, JSON_OBJ);
    const size_t n = strcspn(path, ".");
    for (const struct json *m = json_first(obj); m; m = json_next(m)) {
        const char *name = json_name(m);
        const bool is = strlen(name) == n && strncmp(name, path, n) == 0;
        const struct json *v = !is       ? m
                               : path[n] ? without(a, m, path + n + 1, null)
                               : null    ? json_new(a, JSON_NULL)
                                         : NULL;
        if (v) json_put(a, to, name, strlen(name), v);
    }
    return to;
}

/* Returns obj with a member renamed: "old=new". */
static struct json *renamed(struct arena *a, const struct json *obj, const char *names) {
    struct json *to = json_new(a, JSON_OBJ);
    const size_t n = strcspn(names, "=");
    for (const struct json *m = json_first(obj); m; m = json_next(m)) {
        const char *name = json_name(m);
        if (strlen(name) == n && strncmp(name, names, n) == 0) name = names + n + 1;
        json_put(a, to, name, strlen(name), m);
    }
    return to;
}

/* ---- what is read of one ---- */

struct reading {
    const struct arch *arch;
    int rc;
    struct hparams h;
    struct err e;
};

static void read_config(struct reading *r, const struct json *config) {
    struct buf b = {0};
    struct hfdir *dir = NULL;
    json_write(&b, config);
    memset(r, 0, sizeof *r);
    r->rc = hfdir_from_config(&dir, b.data, b.len, "it", &r->e);
    if (!r->rc) {
        r->arch = arch_find_dir(json_str(json_first(json_get(config, "architectures"))), dir);
        r->rc = r->arch ? hparams_from_hf(&r->h, r->arch, dir, &r->e) : ERR_DATA;
    }
    hfdir_close(dir);
    buf_release(&b);
}

/* Compares everything except how per-layer numbers were given (own). */
static bool same_numbers(const struct hparams *a, const struct hparams *b) {
#define SAME(member) (memcmp(&a->member, &b->member, sizeof a->member) == 0)
    return SAME(d) && SAME(f) && SAME(d_windowed) && SAME(f_windowed) && SAME(layer) && SAME(far) &&
           SAME(near) && SAME(mul) && a->tied == b->tied && a->not_causal == b->not_causal;
}

static int n_read, n_refused;
/* Compares the settings read from two configs. If both are refused, the reasons may differ. */
static void same(const struct json *one, const struct json *other, const char *what,
                 const char *key) {
    static struct reading a, b;
    read_config(&a, one);
    read_config(&b, other);
    n_read += !a.rc;
    n_refused += a.rc != 0;
    if (a.rc != b.rc)
        CHECK_FAIL("%s %s: %d \"%s\", but transformers' file gives %d \"%s\"", what, key, a.rc,
                   a.rc ? a.e.msg : "", b.rc, b.rc ? b.e.msg : "");
    else if (!a.rc && (a.arch != b.arch || !same_numbers(&a.h, &b.h)))
        CHECK_FAIL("%s %s: not read as transformers' file", what, key);
    for (int i = 0; !a.rc && !b.rc && i < HD_COUNT; i++)
        if (a.h.d[i] != b.h.d[i])
            CHECK_FAIL("%s: slot %d is %lld, not %lld", key, i, (long long)a.h.d[i],
                       (long long)b.h.d[i]);
}

static struct json *config_of(const char *checkpoint) {
    char *path = xasprintf("tests/golden/%s/config.json", checkpoint);
    struct json *j = NULL;
    struct err e = {0};
    CHECK_OK(json_read(&j, path, 1 << 20, &e));
    free(path);
    return j;
}

/* Puts the text model's part of a config back into the whole config. */
static const struct json *whole(struct arena *a, const struct json *config, const struct json *text,
                                const struct json *part) {
    struct json *to = json_new(a, JSON_OBJ);
    if (text == config) return part;
    for (const struct json *m = json_first(config); m; m = json_next(m))
        json_put(a, to, json_name(m), strlen(json_name(m)), m == text ? part : m);
    return to;
}
static const struct json *text_of(const struct json *config) {
    const struct json *t = json_get(config, "text_config");
    return json_type(t) == JSON_OBJ ? t : config;
}

static void check_keys(struct arena *a, const struct json *row, const struct json *config,
                       const struct json *v5) {
    static const char *const kinds[] = {"absent", "null", "absent5", "alias"};
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        const bool rope = i == 2;
        const struct json *base = rope ? v5 : config, *t = text_of(base);
        for (const struct json *k = json_first(json_get(row, kinds[i])); k; k = json_next(k)) {
            char *path = xasprintf("%s%s", rope ? "rope_parameters." : "", json_name(k));
            char *what = xasprintf("%s, %s", json_name(row), kinds[i]);
            const struct json *part = i == 3 ? renamed(a, t, path) : without(a, t, path, i == 1);
            same(whole(a, base, t, part), changed(a, v5, k), what, json_name(k));
            free(path);
            free(what);
        }
    }
}

static void test_keys(void) {
    for (const struct json *row = json_first(table); row; row = json_next(row)) {
        struct arena a;
        struct json *config = config_of(json_name(row));
        const struct json *v4 = json_get(row, "v4"), *v5 = json_get(row, "v5");
        arena_init(&a);
        if (v4) same(config, changed(&a, config, v4), json_name(row), "by 4");
        if (v5) {
            const struct json *saved = changed(&a, config, v5);
            same(config, saved, json_name(row), "by 5");
            check_keys(&a, row, config, saved);
        }
        arena_release(&a);
        json_free(config);
    }
    printf("%d read, %d refused\n", n_read, n_refused);
    CHECK(n_read > 2000 && n_refused < n_read / 10);
}

/* ---- what else is published ---- */

/* Reads a checkpoint's config.json with the members in `set` (JSON text of an object) replaced. */
static void read_with(struct reading *r, const char *checkpoint, const char *set) {
    struct arena a;
    struct err e = {0};
    struct json *config = config_of(checkpoint);
    const struct json *change = NULL;
    const struct json_opts plain = {.python = true};
    char *text = xasprintf("{\"set\": %s}", set);
    arena_init(&a);
    CHECK_OK(json_parse_in(&change, &a, text, strlen(text), &plain, "change", NULL, &e));
    read_config(r, changed(&a, config, change));
    free(text);
    json_free(config);
    arena_release(&a);
}

static void test_published(void) {
#define FULL "\"full_attention\", \"full_attention\", \"full_attention\", \"full_attention\""
#define WINDOW "\"full_attention\", \"sliding_attention\""
    static const struct {
        const char *checkpoint, *set, *refused; /* NULL: read as the file without `set` */
    } c[] = {
        {"archs/nemotron_h", "{\"time_step_limit\": [0.0, Infinity], \"initializer_range\": NaN}",
         NULL},
        {"archs/nemotron_h", "{\"time_step_limit\": [0.0, {\"__float__\": \"Infinity\"}]}", NULL},
        {"archs/nemotron_h",
         "{\"hybrid_override_pattern\": null, \"num_hidden_layers\": null, "
         "\"layers_block_type\": [\"mamba\", \"mlp\", \"mamba\", \"attention\", \"mlp\", "
         "\"mamba\"]}",
         NULL},
        {"archs/nemotron_h_moe",
         "{\"hybrid_override_pattern\": null, \"layers_block_type\": [\"mamba\", \"moe\", "
         "\"attention\", "
         "\"moe\", \"mamba\"]}",
         NULL},
        {"archs/nemotron_h", "{\"layers_block_type\": [\"mamba\", \"mlp\", \"what\"]}",
         "layers_block_type"},
        {"archs/olmo3",
         "{\"rope_scaling\": {\"full_attention\": {\"rope_theta\": 5e5}, "
         "\"sliding_attention\": {\"rope_theta\": 1e4}}}",
         "one number"},
        {"archs/qwen2moe", "{\"per_layer_config\": {\"1\": {\"head_dim\": 8}}}",
         "per_layer_config"},
        {"archs/qwen2moe", "{\"per_layer_config\": {}, \"pad_token_id\": -1, \"dtype\": null}",
         NULL},
        {"archs/gptoss",
         "{\"rope_theta\": null, "
         "\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 150000.0}}",
         NULL},
        {"archs/qwen2moe",
         "{\"rope_theta\": null, \"rope_scaling\": {}, "
         "\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 1e6}}",
         NULL},
        /* transformers reads rope_scaling alone: the first two have its base, the third does not */
        {"archs/qwen2moe",
         "{\"rope_scaling\": {\"rope_type\": \"default\"}, \"rope_parameters\": {\"rope_theta\": "
         "5e3}}",
         NULL},
        {"archs/qwen2moe",
         "{\"rope_theta\": null, \"rope_scaling\": {\"rope_type\": \"default\", \"rope_theta\": "
         "1e6}, "
         "\"rope_parameters\": {\"rope_theta\": 5e3}}",
         NULL},
        {"archs/qwen2moe",
         "{\"rope_theta\": null, \"rope_scaling\": {\"rope_type\": \"default\"}, "
         "\"rope_parameters\": {\"rope_theta\": 1e6}}",
         "remove it"},
        {"archs/granite4", "{\"layer_types\": [" FULL "]}", NULL},
        {"models/qwen2", "{\"use_sliding_window\": true}", NULL}, /* max_window_layers is 2 */
        {"models/qwen2", "{\"use_sliding_window\": true, \"layer_types\": [" WINDOW "]}",
         "use_sliding_window"},
        {"archs/qwen2moe", "{\"use_sliding_window\": true}", "use_sliding_window"},
        {"archs/qwen2moe", "{\"use_sliding_window\": true, \"layer_types\": [" FULL "]}", NULL},
        {"archs/qwen2moe", "{\"rope_scaling\": {\"rope_type\": 5}}", "rope_type \"(not text)\""},
        {"archs/qwen2moe", "{\"rope_scaling\": {\"type\": 5}}", "rope_type \"(not text)\""},
        {"archs/qwen2moe", "{\"rms_norm_eps\": NaN}", "rms_norm_eps is nan"},
        {"archs/qwen2moe", "{\"hidden_size\": Infinity}", "hidden_size is not an integer"},
    };
    for (size_t i = 0; i < COUNT_OF(c); i++) {
        static struct reading a, b;
        read_with(&a, c[i].checkpoint, "{}");
        read_with(&b, c[i].checkpoint, c[i].set);
        if (c[i].refused ? !b.rc || !strstr(b.e.msg, c[i].refused)
                         : a.rc || b.rc || a.arch != b.arch || !same_numbers(&a.h, &b.h))
            CHECK_FAIL("%s with %s: %d \"%s\"", c[i].checkpoint, c[i].set, b.rc,
                       b.rc ? b.e.msg : "");
    }
}

/* ---- conversion ---- */

static void convert_as(const struct json *config, const char *out) {
    struct buf b = {0};
    struct err e = {0};
    struct convert_report r;
    struct convert_opts o = {.src = tmp_path("hf"), .out = out, .type = "f32", .overwrite = true};
    json_write(&b, config);
    tmp_write("hf/config.json", b.data, b.len);
    CHECK_OK(convert_run(&o, &r, &e));
    buf_release(&b);
}

static void same_files(const char *one, const char *other, const char *what) {
    char *a = NULL, *b = NULL;
    size_t n = 0, m = 0;
    struct err e = {0};
    CHECK_OK(io_read_file(&a, &n, one, 1 << 30, &e));
    CHECK_OK(io_read_file(&b, &m, other, 1 << 30, &e));
    if (n != m || !n || memcmp(a, b, n) != 0) CHECK_FAIL("%s: another file", what);
    free(a);
    free(b);
}

/* Checks that the tensors, not config.json, decide whether there is an MTP block. */
static void test_mtp(void) {
    static const char *const checkpoint[] = {"archs/deepseek-v3", "archs/glm4moe",
                                             "archs/glm4moe-lite"};
    static const char *const said[] = {"0", "1", "null"};
    for (size_t i = 0; i < COUNT_OF(checkpoint); i++)
        for (size_t k = 0; k < COUNT_OF(said); k++) {
            struct arena a;
            struct err e = {0};
            const struct json *change = NULL;
            const struct json_opts plain = {0};
            struct json *config = config_of(checkpoint[i]);
            char *dir = xasprintf("tests/golden/%s", checkpoint[i]),
                 *text = xasprintf("{\"set\": {\"num_nextn_predict_layers\": %s}}", said[k]),
                 *out = xasprintf("%s", tmp_path(k ? "second.gguf" : "first.gguf"));
            arena_init(&a);
            micro_folder(dir, NULL);
            CHECK_OK(json_parse_in(&change, &a, text, strlen(text), &plain, "change", NULL, &e));
            convert_as(changed(&a, config, change), out);
            if (k) same_files(tmp_path("first.gguf"), out, dir);
            arena_release(&a);
            json_free(config);
            free(dir);
            free(text);
            free(out);
        }
}

/* Checks that converting the re-saved files gives the same bytes. */
static void test_files(void) {
    for (const struct json *row = json_first(table); row; row = json_next(row)) {
        static const char *const by[] = {"v4", "v5"};
        struct arena a;
        struct json *config = config_of(json_name(row));
        char *dir = xasprintf("tests/golden/%s", json_name(row));
        arena_init(&a);
        char *shards = xasprintf("%s/model.safetensors.index.json", dir);
        const bool split = io_exists(shards);
        free(shards);
        if (split) {
            free(dir);
            json_free(config);
            continue;
        }
        if (strncmp(json_name(row), "archs/", 6) == 0)
            micro_folder(dir, NULL);
        else
            golden_edited(dir, "tests/golden/models/qwen3", NULL);
        char *first = xasprintf("%s", tmp_path("first.gguf")),
             *second = xasprintf("%s", tmp_path("second.gguf"));
        convert_as(config, first);
        for (int i = 0; i < 2; i++) {
            const struct json *change = json_get(row, by[i]);
            if (!change) continue;
            convert_as(changed(&a, config, change), second);
            same_files(first, second, json_name(row));
        }
        free(first);
        free(second);
        free(dir);
        arena_release(&a);
        json_free(config);
    }
}

int main(void) {
    struct err e = {0};
    log_set_level(LOG_ERROR);
    tmp_make();
    if (json_read_py(&table, "tests/golden/configs/resaved.json", 1 << 24, &e))
        CHECK_FAIL("%s", e.msg);
    RUN(test_keys);
    RUN(test_published);
    RUN(test_mtp);
    RUN(test_files);
    json_free(table);
    tmp_remove();
    return check_done();
}
