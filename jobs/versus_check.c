// SPDX-License-Identifier: MIT
/* jobs/versus_check.c - metadata of a file compared with its base's: whether both are the same
 * model, and faults that a user of the file would meet. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/template_defects.h"
#include "jobs/versus_int.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/printable.h"
#include "runtime/generate/pictures_prompt.h"

/* Keys that decide how text is encoded and where answers end. A file that lacks one which the base
 * has behaves differently. */
static const char *const vital[] = {
    "tokenizer.ggml.bos_token_id",     "tokenizer.ggml.eos_token_id",
    "tokenizer.ggml.eot_token_id",     "tokenizer.ggml.eom_token_id",
    "tokenizer.ggml.add_bos_token",    "tokenizer.ggml.add_eos_token",
    "tokenizer.ggml.add_space_prefix", "tokenizer.ggml.pre"};

enum { TOKEN_UNUSED = 5 }; /* tokenizer.ggml.token_type of padding tokens, which have any name */

/* Adds a fault; takes ownership of the text. */
static void add_fault(struct versus_file *x, char *text) {
    if (x->n_faults < VERSUS_MAX_FAULTS)
        x->fault[x->n_faults] = text;
    else
        free(text);
    x->n_faults++;
}

/* Returns a value as text; the caller frees it. NULL: not a scalar. */
static char *value_text(const struct gguf *g, const struct gguf_kv *kv) {
    const char *s = gguf_kv_text(g, kv);
    if (s) return xstrdup(show_n(s, strlen(s)).s);
    if (kv->type == GV_ARR) return NULL;
    return xasprintf("%.9g", gguf_kv_f64(kv, 0));
}

/* Returns whether two values are equal; numbers of different types are compared by value. */
static bool is_equal(const struct gguf_kv *a, const struct gguf_kv *b) {
    const bool scalar = a->type != GV_ARR && a->type != GV_STR;
    if (scalar && b->type != GV_ARR && b->type != GV_STR)
        return !(fabs(gguf_kv_f64(a, 0) - gguf_kv_f64(b, 0)) > 1e-6 * fabs(gguf_kv_f64(a, 0)));
    if (a->type == GV_ARR && b->type == GV_ARR && a->elem != GV_STR && b->elem != GV_STR) {
        bool same = a->count == b->count;
        for (uint64_t i = 0; same && i < a->count; i++)
            same = !(fabs(gguf_kv_f64(a, i) - gguf_kv_f64(b, i)) > 0);
        return same;
    }
    return a->type == b->type && a->n_bytes == b->n_bytes &&
           memcmp(a->data, b->data, a->n_bytes) == 0;
}

/* Adds a fault if a key of the base has another value in x. */
static void compare_key(const struct versus *v, struct versus_file *x, const struct gguf_kv *of) {
    const struct gguf *a = v->base.m->gguf, *b = x->m->gguf;
    const struct gguf_kv *kv = gguf_find(b, of->key);
    if (!kv || is_equal(of, kv)) return;
    char *have = value_text(b, kv), *want = value_text(a, of);
    if (have && want)
        add_fault(x, xasprintf("%s is %s, in the base %s", of->key, have, want));
    else
        add_fault(x, xasprintf("%s differs from the base's", of->key));
    free(have);
    free(want);
}

/* Compares the keys that change results: those of the architecture and of the tokenizer's use. The
 * number of blocks depends on whether the file has MTP blocks, which are shown separately. */
static void compare_keys(const struct versus *v, struct versus_file *x) {
    const struct gguf *a = v->base.m->gguf;
    const char *arch = gguf_str_or(a, "general.architecture", "");
    const size_t n = strlen(arch);
    for (int64_t i = 0; i < gguf_n_kv(a); i++) {
        const struct gguf_kv *of = gguf_kv_at(a, i);
        const bool own = strncmp(of->key, arch, n) == 0 && of->key[n] == '.';
        if (own && strcmp(of->key + n, ".block_count") != 0 &&
            strcmp(of->key + n, ".nextn_predict_layers") != 0)
            compare_key(v, x, of);
    }
    for (size_t i = 0; i < COUNT_OF(vital); i++) {
        const struct gguf_kv *of = gguf_find(a, vital[i]), *kv = gguf_find(x->m->gguf, vital[i]);
        if (of && kv)
            compare_key(v, x, of);
        else if (of && !kv)
            add_fault(x, xasprintf("%s is missing", vital[i]));
    }
}

/* Returns the type of token i; 0 if the file does not specify it. */
static int64_t token_type(const struct gguf *g, uint64_t i) {
    const struct gguf_kv *kv = gguf_find(g, "tokenizer.ggml.token_type");
    return kv && kv->type == GV_ARR && kv->elem != GV_STR && i < kv->count ? gguf_kv_i64(kv, i) : 0;
}

/* Returns ERR_DATA if the vocabularies differ, apart from the names of unused tokens. */
static int same_tokens(const struct versus *v, const struct versus_file *x, struct err *e) {
    static const char key[] = "tokenizer.ggml.tokens";
    const struct gguf_kv *a = gguf_find(v->base.m->gguf, key), *b = gguf_find(x->m->gguf, key);
    if (!a || !b || a->type != GV_ARR || b->type != GV_ARR || a->elem != GV_STR ||
        b->elem != GV_STR)
        return err_set(e, ERR_DATA, "%s has no vocabulary", a ? x->path : v->base.path);
    if (a->count != b->count)
        return err_set(e, ERR_DATA,
                       "%s is not the model of %s: its vocabulary has %" PRIu64 " tokens instead "
                       "of %" PRIu64,
                       x->path, v->base.path, b->count, a->count);
    if (a->n_bytes == b->n_bytes && memcmp(a->data, b->data, a->n_bytes) == 0) return 0;
    const uint8_t *p = a->data, *q = b->data;
    for (uint64_t i = 0; i < a->count; i++) {
        const char *s, *t;
        uint64_t ns, nt;
        gguf_kv_str_next(a, &p, &s, &ns);
        gguf_kv_str_next(b, &q, &t, &nt);
        if (ns == nt && memcmp(s, t, ns) == 0) continue;
        if (token_type(v->base.m->gguf, i) == TOKEN_UNUSED &&
            token_type(x->m->gguf, i) == TOKEN_UNUSED)
            continue;
        return err_set(e, ERR_DATA,
                       "%s is not the model of %s: token %" PRIu64 " is \"%s\" instead of \"%s\"",
                       x->path, v->base.path, i, show_n(t, (size_t)nt).s, show_n(s, (size_t)ns).s);
    }
    return 0;
}

/* Returns ERR_DATA if the shapes show another model. */
static int same_shape(const struct versus *v, const struct versus_file *x, struct err *e) {
    static const struct {
        int dim;
        const char *what;
    } dims[] = {
        {HD_EMBD, "embedding width"}, {HD_LAYERS, "number of layers"}, {HD_VOCAB, "vocabulary"}};
    const char *a = gguf_str_or(v->base.m->gguf, "general.architecture", ""),
               *b = gguf_str_or(x->m->gguf, "general.architecture", "");
    if (strcmp(a, b) != 0)
        return err_set(e, ERR_DATA,
                       "%s is not the model of %s: its architecture is %s instead of %s", x->path,
                       v->base.path, b, a);
    for (size_t i = 0; i < COUNT_OF(dims); i++) {
        const int64_t n = v->base.m->hp.d[dims[i].dim], k = x->m->hp.d[dims[i].dim];
        if (n != k)
            return err_set(e, ERR_DATA,
                           "%s is not the model of %s: its %s is %" PRId64 " instead of %" PRId64,
                           x->path, v->base.path, dims[i].what, k, n);
    }
    return 0;
}

/* Judges the chat template; a template equal to the base's has the base's verdict. */
static void judge_template(const struct versus *v, struct versus_file *x) {
    const char *text = gguf_str_or(x->m->gguf, "tokenizer.chat_template", ""),
               *base = gguf_str_or(v->base.m->gguf, "tokenizer.chat_template", "");
    struct buf first = {0};
    x->n_template = -1;
    x->other_template = strcmp(text, base) != 0;
    if (!*text) {
        if (*base) add_fault(x, xstrdup("the chat template is missing"));
        return;
    }
    if (x != &v->base && !x->other_template) {
        x->n_template = v->base.n_template;
        x->first_template = v->base.first_template ? xstrdup(v->base.first_template) : NULL;
        return;
    }
    x->n_template = template_judge(text, &first);
    x->first_template = first.len ? xstrdup(first.data) : NULL;
    buf_release(&first);
}

int versus_inspect(const struct versus *v, struct versus_file *x, struct err *e) {
    struct err ignored;
    char *mmproj = NULL;
    const struct gguf *g = x->m->gguf;
    uint64_t bytes = 0, weights = 0;
    if (x != &v->base) {
        TRY(same_shape(v, x, e));
        TRY(same_tokens(v, x, e));
        compare_keys(v, x);
    }
    for (int64_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        bytes += t->n_bytes;
        weights += (uint64_t)(t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3]);
    }
    x->n_bytes = (int64_t)gguf_file_bytes(g);
    x->bpw = weights ? 8.0 * (double)bytes / (double)weights : 0;
    x->mtp = x->m->hp.d[HD_MTP];
    x->vision = pictures_find(x->m, x->path, &mmproj, &ignored) == 0 && mmproj;
    free(mmproj);
    judge_template(v, x);
    return 0;
}
