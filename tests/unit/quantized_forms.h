// SPDX-License-Identifier: MIT
/* tests/unit/quantized_forms.h - folders with one of the quantized checkpoint forms.
 * tests/golden/quantized holds modules as the forms' own tools store them and the SHA-256 of the
 * tools' own dequantization (tests/oracle/quantized.py). */
#ifndef HONE_TEST_QUANTIZED_FORMS_H
#define HONE_TEST_QUANTIZED_FORMS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "containers/gguf.h"
#include "convert/convert.h"
#include "base/hash.h"
#include "containers/hfdir.h"
#include "tests/check.h"
#include "tests/unit/st_build.h"
#include "tests/unit/tmpdir.h"

#define DIR "tests/golden/quantized"

/* Returns whether a form replaces the base's tensor. */
static bool removed(const struct json *list, const char *name) {
    for (const struct json *r = json_first(list); r; r = json_next(r))
        if (strncmp(name, json_str(r), strlen(json_str(r))) == 0) return true;
    return false;
}

/* Changes one stored tensor; NULL data in *t: it is left out. */
typedef void (*damage_fn)(struct st_tensor *t);

/* Adds the tensors of a form whose names contain `part`. */
static void add_form(struct st_build *b, const struct json *form, const char *part,
                     damage_fn damage) {
    struct err e;
    struct st *st = NULL;
    char path[512];
    snprintf(path, sizeof path, DIR "/%s.safetensors", json_str(json_get(form, "name")));
    CHECK_OK(st_open(&st, path, &e));
    for (int64_t i = 0; st && i < st_n_tensors(st); i++) {
        struct st_tensor t = *st_tensor_at(st, i);
        if (damage) damage(&t);
        if (t.data && strstr(t.name, part)) st_copy(b, t.name, &t);
    }
    st_close(st);
}

/* Creates a copy of the base folder in <scratch>/hf with its modules replaced by those of one form
 * or, if `down` is not NULL, k_proj by that of `form` and down_proj by that of `down`. */
static void build_two(const struct json *form, const struct json *down, damage_fn damage) {
    static const char *const copied[] = {"tokenizer.json", "tokenizer_config.json"};
    struct err e;
    struct st *st = NULL;
    struct st_build b = {{0}, {0}};
    char path[512];
    snprintf(path, sizeof path, "tests/golden/models/%s/model.safetensors",
             json_str(json_get(form, "base")));
    CHECK_OK(st_open(&st, path, &e));
    for (int64_t i = 0; st && i < st_n_tensors(st); i++) {
        const struct st_tensor *t = st_tensor_at(st, i);
        if (!removed(json_get(form, "remove"), t->name)) st_copy(&b, t->name, t);
    }
    st_close(st);
    add_form(&b, form, down ? "k_proj" : "", damage);
    if (down) add_form(&b, down, "down_proj", damage);
    mkdir(tmp_path("hf"), 0700);
    st_finish(&b, tmp_path("hf/model.safetensors"));
    for (size_t i = 0; i < COUNT_OF(copied); i++) {
        char *p = NULL, to[64];
        size_t n = 0;
        snprintf(path, sizeof path, "tests/golden/models/%s/%s", json_str(json_get(form, "base")),
                 copied[i]);
        snprintf(to, sizeof to, "hf/%s", copied[i]);
        CHECK_OK(io_read_file(&p, &n, path, 1 << 24, &e));
        tmp_write(to, p, n);
        free(p);
    }
}

/* Creates the copy with all modules of one form. */
static void build(const struct json *form, damage_fn damage) {
    build_two(form, NULL, damage);
}

/* Writes a value as JSON. */
static void dump(struct jw *w, const char *name, const struct json *j) {
    int64_t v;
    switch (json_type(j)) {
    case JSON_OBJ:
    case JSON_ARR:
        if (json_type(j) == JSON_OBJ)
            jw_obj(w, name);
        else
            jw_arr(w, name);
        for (const struct json *c = json_first(j); c; c = json_next(c))
            dump(w, json_type(j) == JSON_OBJ ? json_name(c) : NULL, c);
        jw_end(w);
        break;
    case JSON_STR:
        jw_str(w, name, json_str(j));
        break;
    case JSON_NUM:
        if (json_i64(j, &v))
            jw_i64(w, name, v);
        else
            jw_num(w, name, json_num(j, 0));
        break;
    case JSON_BOOL:
        jw_bool(w, name, json_bool(j, false));
        break;
    case JSON_NULL:
        jw_null(w, name);
        break;
    }
}

/* Writes the base's config.json with a quantization_config. */
static bool in_text_config; /* the base's members are in a text_config, with a null */
static void write_quantization(const struct json *form, const struct json *quantization) {
    struct err e;
    struct json *cfg = NULL;
    struct buf b = {0};
    struct jw w;
    char path[512];
    snprintf(path, sizeof path, "tests/golden/models/%s/config.json",
             json_str(json_get(form, "base")));
    CHECK_OK(json_read(&cfg, path, 1 << 20, &e));
    jw_init(&w, &b, false);
    jw_obj(&w, NULL);
    for (const struct json *c = json_first(cfg); c; c = json_next(c)) dump(&w, json_name(c), c);
    dump(&w, "quantization_config", quantization);
    if (in_text_config) {
        jw_obj(&w, "text_config");
        for (const struct json *c = json_first(cfg); c; c = json_next(c)) dump(&w, json_name(c), c);
        jw_null(&w, "quantization_config");
        jw_end(&w);
    }
    jw_end(&w);
    tmp_write("hf/config.json", b.data, b.len);
    buf_release(&b);
    json_free(cfg);
}

/* Writes the base's config.json with the form's quantization_config. */
static void write_config(const struct json *form) {
    write_quantization(form, json_get(form, "quantization_config"));
}

static bool keep; /* --keep-mxfp4 */
/* Converts <scratch>/hf to <scratch>/out.gguf. */
static int convert(const char *type, struct convert_report *r, struct err *e) {
    struct convert_opts o = {.src = tmp_path("hf"),
                             .out = tmp_path("out.gguf"),
                             .type = type,
                             .keep_mxfp4 = keep,
                             .overwrite = true};
    return convert_run(&o, r, e);
}

/* Checks type and SHA-256 of a tensor. */
static void check_hash(const struct gguf *g, const char *form, const char *name, const char *want,
                       const char *type) {
    const struct gguf_tensor *t = gguf_find_tensor(g, name);
    struct sha256 h;
    char hex[65] = "";
    if (t) {
        CHECK_EQ_STR(qtype_name(t->type), type);
        sha256_init(&h);
        sha256_add(&h, t->data, t->n_bytes);
        sha256_hex(&h, hex);
    }
    if (strcmp(hex, want) != 0)
        CHECK_FAIL("%s: %s as %s differs from the tool's own", form, name, type);
}

static struct json *all; /* forms.json */

/* Returns the form of this name. */
static const struct json *form(const char *name) {
    for (const struct json *f = json_first(all); f; f = json_next(f))
        if (strcmp(json_str(json_get(f, "name")), name) == 0) return f;
    CHECK_FAIL("no form %s", name);
    return NULL;
}

/* Returns the tensor of the form's stored file; NULL: it has none of this name. */
static const struct st_tensor *stored(const struct st *st, const char *name) {
    for (int64_t i = 0; i < st_n_tensors(st); i++)
        if (strcmp(st_tensor_at(st, i)->name, name) == 0) return st_tensor_at(st, i);
    CHECK_FAIL("no tensor %s", name);
    return NULL;
}

/* Checks that a damaged form is refused with a message, and that nothing is written. */
static void refused(const char *name, damage_fn damage, const char *message) {
    struct err e = {0};
    struct convert_report r;
    build(form(name), damage);
    write_config(form(name));
    unlink(tmp_path("out.gguf"));
    CHECK_ERR(convert("f32", &r, &e), ERR_DATA, message);
    CHECK(!io_exists(tmp_path("out.gguf")));
}

#endif
