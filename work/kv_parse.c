// SPDX-License-Identifier: MIT
/* work/kv_parse.c - GGUF metadata values from text.
 *
 * Programs that read a key expect one type and refuse a different one, or abort: general.name must
 * be str even if the name is "7", and rope.freq_base f32 even if it is 10000. `expected` lists the
 * expected types of keys for which a guess from the value could be wrong. */
#include "work/kv_parse.h"

#include <errno.h>
#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/bytes.h"
#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/printable.h"
#include "base/str.h"

enum { MAX_TEXT = 64 << 20 };

/* Types that readers expect; the first row whose pattern matches counts. */
static const struct {
    const char *keys;
    enum gguf_vtype type, elem; /* elem: of arrays */
} expected[] = {
    {"general.alignment", GV_U32, GV_U32},
    {"general.quantization_version", GV_U32, GV_U32},
    {"general.file_type", GV_U32, GV_U32},
    {"general.*.count", GV_U32, GV_U32},
    {"general.tags", GV_ARR, GV_STR},
    {"general.languages", GV_ARR, GV_STR},
    {"general.datasets", GV_ARR, GV_STR},
    {"general.sampling.sequence", GV_STR, GV_STR},
    {"general.sampling.top_k", GV_I32, GV_I32},
    {"general.sampling.penalty_last_n", GV_I32, GV_I32},
    {"general.sampling.mirostat", GV_I32, GV_I32},
    {"general.sampling.*", GV_F32, GV_F32},
    {"general.*", GV_STR, GV_STR},
    {"split.no", GV_U16, GV_U16},
    {"split.count", GV_U16, GV_U16},
    {"split.tensors.count", GV_I32, GV_I32},
    {"tokenizer.chat_templates", GV_ARR, GV_STR},
    {"tokenizer.chat_template*", GV_STR, GV_STR},
    {"tokenizer.ggml.model", GV_STR, GV_STR},
    {"tokenizer.ggml.pre", GV_STR, GV_STR},
    {"tokenizer.ggml.tokens", GV_ARR, GV_STR},
    {"tokenizer.ggml.merges", GV_ARR, GV_STR},
    {"tokenizer.ggml.scores", GV_ARR, GV_F32},
    {"tokenizer.ggml.token_type", GV_ARR, GV_I32},
    {"tokenizer.ggml.suppress_tokens", GV_ARR, GV_I32},
    {"tokenizer.ggml.add_*", GV_BOOL, GV_BOOL},
    {"tokenizer.ggml.*_whitespaces", GV_BOOL, GV_BOOL},
    {"tokenizer.ggml.*_token_id", GV_U32, GV_U32},
    {"adapter.lora.alpha", GV_F32, GV_F32},
    {"*.rope.freq_base*", GV_F32, GV_F32},
    {"*.rope.scale_linear", GV_F32, GV_F32},
    {"*.rope.scaling.factor", GV_F32, GV_F32},
    {"*.rope.scaling.attn_factor", GV_F32, GV_F32},
    {"*.rope.scaling.yarn_*", GV_F32, GV_F32},
    {"*.rope.scaling.finetuned", GV_BOOL, GV_BOOL},
    {"*epsilon", GV_F32, GV_F32},
    {"*_softcapping", GV_F32, GV_F32},
    {"*.clamp_kqv", GV_F32, GV_F32},
    {"*.max_alibi_bias", GV_F32, GV_F32},
    {"*_scale", GV_F32, GV_F32},
    {"*.attention.scale", GV_F32, GV_F32},
    {"*.expert_weights_norm", GV_BOOL, GV_BOOL},
    {"clip.vision.image_mean", GV_ARR, GV_F32},
    {"clip.vision.image_std", GV_ARR, GV_F32},
};

struct value_type {
    enum gguf_vtype type, elem;
};

/* Returns whether readers expect a particular type for this key, and sets *t to it. */
static bool expected_type(const char *key, struct value_type *t) {
    for (size_t i = 0; i < COUNT_OF(expected); i++) {
        if (fnmatch(expected[i].keys, key, 0) != 0) continue;
        *t = (struct value_type){expected[i].type, expected[i].elem};
        return true;
    }
    return false;
}

/* Writes the type's name to out, as "arr u32", and returns out. */
static const char *type_text(struct value_type t, char out[32]) {
    const struct gguf_kv kv = {.type = t.type, .elem = t.elem};
    snprintf(out, 32, "%s%s", kv.type == GV_ARR ? "arr " : "",
             gguf_vtype_name(kv.type == GV_ARR ? kv.elem : kv.type));
    return out;
}

/* Parses the name of a type: "u32", "arr str". False: unknown name. */
static bool parse_type(const char *s, size_t n, struct value_type *out) {
    for (int i = 0; i < GV_COUNT; i++) {
        char arr[32];
        const struct value_type one = {(enum gguf_vtype)i, (enum gguf_vtype)i},
                                many = {GV_ARR, (enum gguf_vtype)i};
        if (i == GV_ARR) continue;
        const bool is_arr = strlen(type_text(many, arr)) == n && strncmp(arr, s, n) == 0;
        if (!is_arr && (strlen(arr) - 4 != n || strncmp(arr + 4, s, n) != 0)) continue;
        *out = is_arr ? many : one;
        return true;
    }
    return false;
}

/* ---- scalars --------------------------------------------------------------------------------- */

/* Appends a whole number of the given type. Returns false if the text is not one that fits. */
static bool add_int(struct buf *b, enum gguf_vtype t, const char *s) {
    const int bits = 8 * gguf_vtype_bytes(t);
    const bool is_signed = t == GV_I8 || t == GV_I16 || t == GV_I32 || t == GV_I64;
    uint8_t raw[8];
    char *end;
    errno = 0;
    if (!s[0] || strspn(s, "+-0123456789") != strlen(s)) return false;
    if (is_signed) {
        const long long v = strtoll(s, &end, 10);
        const long long top = INT64_MAX >> (64 - bits);
        if (v > top || v < -top - 1) return false;
        store_u64(raw, (uint64_t)v);
    } else {
        const unsigned long long v = strtoull(s, &end, 10);
        if (s[0] == '-' || v > UINT64_MAX >> (64 - bits)) return false;
        store_u64(raw, v);
    }
    if (errno || *end) return false;
    buf_add(b, raw, (size_t)bits / 8);
    return true;
}

/* Appends the number in s as f32 or f64; false if invalid or not finite. */
static bool add_float(struct buf *b, enum gguf_vtype t, const char *s) {
    char *end;
    const double v = strtod(s, &end);
    const float f = (float)v;
    if (!s[0] || *end || strchr(" \t\n", s[0]) || !isfinite(v)) return false;
    if (t == GV_F32 && !isfinite(f)) return false;
    if (t == GV_F32)
        buf_add(b, &f, sizeof f);
    else
        buf_add(b, &v, sizeof v);
    return true;
}

/* Appends "true" or "false", in any case, or "1" or "0", as a byte; false for other texts. */
static bool add_bool(struct buf *b, const char *s) {
    const bool yes = strcasecmp(s, "true") == 0 || strcmp(s, "1") == 0;
    if (!yes && strcasecmp(s, "false") != 0 && strcmp(s, "0") != 0) return false;
    buf_chr(b, yes);
    return true;
}

/* Appends the number in s in the type's bytes; false if it does not fit. */
static bool add_scalar(struct buf *b, enum gguf_vtype t, const char *s) {
    if (t == GV_BOOL) return add_bool(b, s);
    return t == GV_F32 || t == GV_F64 ? add_float(b, t, s) : add_int(b, t, s);
}

/* Returns the type guessed from a text that is not an array. */
static enum gguf_vtype guess_scalar(const char *s) {
    static const enum gguf_vtype order[] = {GV_U32, GV_I32, GV_U64, GV_I64, GV_F32};
    struct buf b = {0};
    enum gguf_vtype found = GV_STR;
    if (strcasecmp(s, "true") == 0 || strcasecmp(s, "false") == 0) return GV_BOOL;
    for (size_t i = 0; i < COUNT_OF(order) && found == GV_STR; i++)
        if (add_scalar(&b, order[i], s)) found = order[i];
    buf_release(&b);
    return found;
}

/* ---- arrays ---------------------------------------------------------------------------------- */

/* Returns an element of an array as add_scalar takes it, or NULL. */
static const char *scalar_text(const struct json *j) {
    if (json_type(j) == JSON_BOOL) return json_bool(j, false) ? "true" : "false";
    return json_num_text(j);
}

/* Returns the element type that can hold all values of arr: i32, u32, i64, u64, f32, bool, str. */
static enum gguf_vtype guess_elem(const struct json *arr) {
    static const enum gguf_vtype order[] = {GV_I32, GV_U32, GV_I64, GV_U64, GV_F32};
    const enum json_type first = json_type(json_first(arr));
    if (first == JSON_BOOL) return GV_BOOL;
    if (first != JSON_NUM) return GV_STR;
    for (size_t i = 0; i < COUNT_OF(order); i++) {
        struct buf b = {0};
        bool all = true;
        for (const struct json *j = json_first(arr); j && all; j = json_next(j))
            all = json_num_text(j) && add_scalar(&b, order[i], json_num_text(j));
        buf_release(&b);
        if (all) return order[i];
    }
    return GV_F32;
}

/* Appends element i of an array in the type's bytes. */
static int add_elem(struct buf *b, enum gguf_vtype t, const struct json *j, int64_t i,
                    struct err *e) {
    if (t == GV_STR && json_type(j) == JSON_STR) {
        size_t n;
        uint8_t len[8];
        const char *s = json_strn(j, &n);
        store_u64(len, n);
        buf_add(b, len, 8);
        buf_add(b, s, n);
        return 0;
    }
    const bool may = (json_type(j) == JSON_BOOL) == (t == GV_BOOL);
    if (t != GV_STR && may && scalar_text(j) && add_scalar(b, t, scalar_text(j))) return 0;
    return err_set(e, ERR_USAGE, "element %lld of the array is not %s", (long long)i,
                   gguf_vtype_name(t));
}

/* Sets the value to the elements of a JSON array. */
static int add_array(struct kv_new *n, const struct json *arr, struct err *e) {
    int64_t i = 0;
    if (json_type(arr) != JSON_ARR)
        return err_set(e, ERR_USAGE, "the key is an array; give a JSON array: '[1, 2]'");
    for (const struct json *j = json_first(arr); j; j = json_next(j))
        TRY(add_elem(&n->value, n->kv.elem, j, i++, e));
    n->kv.count = (uint64_t)i;
    return 0;
}

/* ---- a key and its value --------------------------------------------------------------------- */

/* Checks a key: printable ASCII without blanks, so that it can be typed again. */
static int check_key(const char *key, struct err *e) {
    const size_t n = strlen(key);
    if (!n || n > 65535)
        return err_set(e, ERR_USAGE, "a metadata key has 1 to 65535 bytes; give KEY=VALUE");
    for (size_t i = 0; i < n; i++)
        if (key[i] <= 32 || key[i] >= 127)
            return err_set(e, ERR_USAGE,
                           "the key \"%s\" has a character that is not printable ASCII",
                           show_n(key, n).s);
    return 0;
}

/* Splits "KEY:TYPE=VALUE". Sets *typed if there is a type. */
static int split_text(struct kv_new *n, const struct gguf *g, const char *text, const char **value,
                      struct value_type *t, bool *typed, struct err *e) {
    const char *eq = strchr(text, '=');
    *typed = false;
    if (!eq) return err_set(e, ERR_USAGE, "'%.100s': give KEY=VALUE, or --unset KEY", text);
    n->key = xstrndup(text, (size_t)(eq - text));
    *value = eq + 1;
    char *colon = strrchr(n->key, ':');
    if (colon && !gguf_find(g, n->key)) {
        if (!parse_type(colon + 1, strlen(colon + 1), t))
            return err_set(e, ERR_USAGE,
                           "'%.40s' is not a type; give u8, i8, u16, i16, u32, i32, u64, i64, f32, "
                           "f64, bool, str, or an array such as 'arr i32'",
                           colon + 1);
        *colon = 0;
        *typed = true;
    }
    n->kv.key = n->key;
    return check_key(n->key, e);
}

/* Sets the type of a value whose text is known. */
static void choose_type(struct kv_new *n, const struct gguf *g, const struct json *arr,
                        const char *value, struct value_type *t, bool typed) {
    const struct gguf_kv *old = gguf_find(g, n->key);
    if (!typed && old)
        *t = (struct value_type){old->type, old->elem};
    else if (!typed && !expected_type(n->key, t))
        *t = arr ? (struct value_type){GV_ARR, guess_elem(arr)}
                 : (struct value_type){guess_scalar(value), GV_STR};
    n->kv.type = t->type;
    n->kv.elem = t->type == GV_ARR ? t->elem : t->type;
}

/* Sets the value to len bytes of UTF-8 text without NUL. */
static int set_text(struct kv_new *n, const char *s, size_t len, struct err *e) {
    if (len > MAX_TEXT)
        return err_set(e, ERR_USAGE, "the text has %zu bytes; the limit is %d", len, MAX_TEXT);
    TRY(str_no_nul(s, len, "the text", e));
    for (size_t i = 0; i < len;) {
        const int k = json_utf8((const unsigned char *)s + i, len - i);
        if (k <= 0) return err_set(e, ERR_USAGE, "byte %zu of the text is not valid UTF-8", i);
        i += (size_t)k;
    }
    buf_add(&n->value, s, len);
    n->kv.count = len;
    return 0;
}

/* Rejects an explicit type that readers would not accept. */
static int check_typed(const struct kv_new *n, struct err *e) {
    struct value_type want;
    char is[32], must[32];
    const struct value_type has = {n->kv.type, n->kv.elem};
    if (!expected_type(n->key, &want) ||
        (want.type == has.type && (want.type != GV_ARR || want.elem == has.elem)))
        return 0;
    return err_set(e, ERR_USAGE, "readers expect %s, not %s", type_text(want, must),
                   type_text(has, is));
}

/* Sets the value from its text: the argument's, or a file's. */
static int set_value(struct kv_new *n, const struct gguf *g, const char *s, size_t len,
                     struct value_type t, bool typed, struct err *e) {
    struct json *arr = NULL;
    struct err ignored;
    char name[32];
    const bool maybe = s[strspn(s, " \t\r\n")] == '[';
    int rc = maybe ? json_parse(&arr, s, len, "value", &ignored) : 0;
    choose_type(n, g, rc ? NULL : arr, s, &t, typed);
    rc = typed ? check_typed(n, e) : 0;
    if (!rc && t.type == GV_STR)
        rc = set_text(n, s, len, e);
    else if (!rc && t.type == GV_ARR)
        rc = add_array(n, arr, e);
    else if (!rc && !add_scalar(&n->value, t.type, s))
        rc = err_set(e, ERR_USAGE, "'%.100s' is not %s%s", s, type_text(t, name),
                     t.type == GV_BOOL ? " (true or false)" : "");
    if (!rc && t.type != GV_STR && t.type != GV_ARR) n->kv.count = 1;
    json_free(arr);
    buf_reserve(&n->value, 0);
    n->kv.data = (const uint8_t *)n->value.data;
    n->kv.n_bytes = n->value.len;
    return rc;
}

int kv_parse(struct kv_new *out, const struct gguf *g, const char *text, struct err *e) {
    struct value_type t = {GV_STR, GV_STR};
    const char *value = "";
    char *file = NULL;
    size_t len;
    bool typed;
    *out = (struct kv_new){0};
    TRY(split_text(out, g, text, &value, &t, &typed, e));
    if (value[0] == '@' && value[1] != '@') {
        if (io_read_file(&file, &len, value + 1, MAX_TEXT, e))
            return err_wrap(e, "key \"%s\": @ names a file (a text begins with @@)", out->key);
    } else {
        value += value[0] == '@';
        len = strlen(value);
    }
    const size_t bom = file && len >= 3 && memcmp(file, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    int rc = set_value(out, g, file ? file + bom : value, len - bom, t, typed, e);
    free(file);
    return rc ? err_wrap(e, "key \"%s\"", show_n(out->key, strlen(out->key)).s) : 0;
}

void kv_new_release(struct kv_new *n) {
    free(n->key);
    buf_release(&n->value);
    *n = (struct kv_new){0};
}
