// SPDX-License-Identifier: MIT
/* jobs/versus_check.c - metadata of a file compared with its base's: whether both are the same
 * model, and faults that a user of the file would meet. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "template/judge.h"
#include "chat/toolfmt.h"
#include "jobs/versus_int.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/printable.h"
#include "base/str.h"
#include "runtime/generate/pictures_prompt.h"

#define TOK(name) "tokenizer.ggml." name
enum { ADDS_BOS = TS_COUNT, ADDS_EOS, ADDS_SPACE, ALWAYS, NEVER };

/* Keys that decide how text is encoded and where answers end. A file that lacks one which the base
 * has behaves differently. */
static const struct {
    const char *key;
    /* If only the file has the key, it is a fault if this differs: an enum tok_special or ADDS_...
     */
    int added;
} vital[] = {{TOK("model"), ALWAYS},
             {TOK("pre"), ALWAYS},
             {TOK("bos_token_id"), TS_BOS},
             {TOK("eos_token_id"), TS_EOS},
             {TOK("eot_token_id"), TS_EOT},
             {TOK("eom_token_id"), TS_EOM},
             {TOK("add_bos_token"), ADDS_BOS},
             {TOK("add_eos_token"), ADDS_EOS},
             {TOK("add_space_prefix"), ADDS_SPACE},
             {TOK("token_type"), NEVER},
             {TOK("merges"), NEVER},
             {TOK("scores"), NEVER}};

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

/* Adds a fault for a list of numbers that has other values in x. */
static void add_list_fault(struct versus_file *x, const struct gguf_kv *of,
                           const struct gguf_kv *kv) {
    uint64_t n = 0, first = 0;
    for (uint64_t i = of->count; i-- > 0;)
        if (fabs(gguf_kv_f64(of, i) - gguf_kv_f64(kv, i)) > 0) {
            first = i;
            n++;
        }
    add_fault(x, xasprintf("%s differs from the base's in %" PRIu64 " place%s, first %" PRIu64
                           " (%.9g, in the base %.9g)",
                           of->key, n, str_s((int64_t)n), first, gguf_kv_f64(kv, first),
                           gguf_kv_f64(of, first)));
}

/* Adds a fault if a key that both have has another value in x. */
static void compare_key(const struct versus *v, struct versus_file *x, const struct gguf_kv *of,
                        const struct gguf_kv *kv) {
    if (is_equal(of, kv)) return;
    char *have = value_text(x->m->gguf, kv), *want = value_text(v->base.m->gguf, of);
    if (have && want)
        add_fault(x, xasprintf("%s is %s, in the base %s", of->key, have, want));
    else if (!have && !want && of->elem != GV_STR && kv->elem != GV_STR && of->count == kv->count)
        add_list_fault(x, of, kv);
    else
        add_fault(x, xasprintf("%s differs from the base's", of->key));
    free(have);
    free(want);
}

/* Adds a fault for a key that only one of x and the base has. */
static void add_lone(const struct versus *v, struct versus_file *x, const struct gguf_kv *of,
                     const struct gguf_kv *kv) {
    char *s = kv ? value_text(x->m->gguf, kv) : value_text(v->base.m->gguf, of);
    const char *value = s ? s : "a list";
    add_fault(x, kv ? xasprintf("%s is %s, in the base it is missing", kv->key, value)
                    : xasprintf("%s is missing, in the base %s", of->key, value));
    free(s);
}

/* ---- keys of the architecture ---- */

/* Returns whether a hyperparameter is the same in both models, in every layer. */
static bool same_slot(const struct hparams *a, const struct hparams *b, const struct hp_row *r) {
    const bool w = (r->flags & HPF_WINDOWED) != 0;
    if (r->flags & HPF_REAL)
        return !(fabs((w ? a->f_windowed : a->f)[r->slot] - (w ? b->f_windowed : b->f)[r->slot]) >
                 0);
    if ((w ? a->d_windowed : a->d)[r->slot] != (w ? b->d_windowed : b->d)[r->slot]) return false;
    for (int i = 0; i < a->d[HD_LAYERS]; i++)
        if (hp_dim(a, i, r->slot) != hp_dim(b, i, r->slot)) return false;
    return true;
}

/* Returns whether a key, without the architecture's name, sets hyperparameters that are the same in
 * both models: the model without the key has them by default. */
static bool is_default(const struct model *a, const struct model *b, const char *key) {
    bool found = false;
    for (const struct hp_row *r = a->arch->hp; r->slot >= 0; r++) {
        if (!r->key || (r->flags & HPF_NO_KEY) || strcmp(r->key, key) != 0) continue;
        if (!same_slot(&a->hp, &b->hp, r)) return false;
        found = true;
    }
    return found || strcmp(key, "vocab_size") == 0; /* the vocabularies are equal */
}

/* Returns the part of a key after the architecture's name if it is one of the architecture's that
 * change results, else NULL. The number of blocks depends on whether the file has MTP blocks, which
 * are shown separately. */
static const char *own_key(const struct gguf *base, const struct gguf_kv *kv) {
    const char *arch = gguf_str_or(base, "general.architecture", "");
    const size_t n = strlen(arch);
    if (strncmp(kv->key, arch, n) != 0 || kv->key[n] != '.') return NULL;
    const char *key = kv->key + n + 1;
    return strcmp(key, "block_count") == 0 || strcmp(key, "nextn_predict_layers") == 0 ? NULL : key;
}

/* Compares the keys of the architecture: those of the base, then those that only x has. */
static void compare_own(const struct versus *v, struct versus_file *x) {
    const struct model *a = v->base.m, *b = x->m;
    for (int64_t i = 0; i < gguf_n_kv(a->gguf); i++) {
        const struct gguf_kv *of = gguf_kv_at(a->gguf, i), *kv = gguf_find(b->gguf, of->key);
        const char *key = own_key(a->gguf, of);
        if (key && kv)
            compare_key(v, x, of, kv);
        else if (key && !is_default(a, b, key))
            add_lone(v, x, of, NULL);
    }
    for (int64_t i = 0; i < gguf_n_kv(b->gguf); i++) {
        const struct gguf_kv *kv = gguf_kv_at(b->gguf, i);
        const char *key = own_key(a->gguf, kv);
        if (key && !gguf_find(a->gguf, kv->key) && !is_default(a, b, key)) add_lone(v, x, NULL, kv);
    }
}

/* ---- keys of the tokenizer ---- */

/* Returns whether a vital key that only one file has makes the tokenizers differ. */
static bool changes_use(const struct tok *a, const struct tok *b, int what) {
    switch (what) {
    case ADDS_BOS:
        return tok_add_bos(a) != tok_add_bos(b);
    case ADDS_EOS:
        return tok_add_eos(a) != tok_add_eos(b);
    case ADDS_SPACE:
        return tok_add_space(a) != tok_add_space(b);
    case ALWAYS:
        return true;
    case NEVER:
        return false;
    default:
        return tok_special(a, (enum tok_special)what) != tok_special(b, (enum tok_special)what);
    }
}

/* Compares the keys that decide how text is encoded and where answers end. */
static void compare_tokenizer(const struct versus *v, struct versus_file *x) {
    for (size_t i = 0; i < COUNT_OF(vital); i++) {
        const struct gguf_kv *of = gguf_find(v->base.m->gguf, vital[i].key),
                             *kv = gguf_find(x->m->gguf, vital[i].key);
        if (of && kv)
            compare_key(v, x, of, kv);
        else if (of || (kv && changes_use(v->base.m->tok, x->m->tok, vital[i].added)))
            add_lone(v, x, of, kv);
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

const struct toolfmt *versus_calls(const struct model *m) {
    const char *t = gguf_str_or(m->gguf, "tokenizer.chat_template", "");
    return *t ? toolfmt_detect(t, strlen(t)) : NULL;
}

/* Returns the name of a named template, such as tool_use, from its key; NULL: a different key. Some
 * programs use these templates instead of the default one. */
static const char *template_name(const struct gguf_kv *kv) {
    static const char key[] = "tokenizer.chat_template.";
    const size_t n = sizeof key - 1;
    return strncmp(kv->key, key, n) == 0 && kv->type == GV_STR ? kv->key + n : NULL;
}

/* Adds a fault for each named template that only one of x and the base has, or that differs. */
static void compare_named(const struct versus *v, struct versus_file *x) {
    const struct gguf *a = v->base.m->gguf, *b = x->m->gguf;
    for (int64_t i = 0; i < gguf_n_kv(a); i++) {
        const struct gguf_kv *of = gguf_kv_at(a, i), *kv = gguf_find(b, of->key);
        if (template_name(of) && !(kv && is_equal(of, kv)))
            add_fault(x, xasprintf("the chat template '%s' %s",
                                   show_n(template_name(of), strlen(template_name(of))).s,
                                   kv ? "differs from the base's" : "is missing"));
    }
    for (int64_t i = 0; i < gguf_n_kv(b); i++) {
        const struct gguf_kv *kv = gguf_kv_at(b, i);
        if (template_name(kv) && !gguf_find(a, kv->key))
            add_fault(x, xasprintf("the base has no chat template '%s'",
                                   show_n(template_name(kv), strlen(template_name(kv))).s));
    }
}

/* Judges the chat template; a template equal to the base's has the base's verdict. */
static void judge_template(const struct versus *v, struct versus_file *x) {
    const char *text = gguf_str_or(x->m->gguf, "tokenizer.chat_template", ""),
               *base = gguf_str_or(v->base.m->gguf, "tokenizer.chat_template", "");
    struct template_verdict t;
    struct err ignored;
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
    const struct toolfmt *calls = versus_calls(v->base.m);
    if (calls && !versus_calls(x->m))
        add_fault(x, xasprintf("the chat template has no known syntax of tool calls, the base's "
                               "has that of %s",
                               toolfmt_name(calls)));
    if (template_judge(&t, text, strlen(text), REPAIR_NEVER, &ignored)) return; /* interrupted */
    x->n_template = t.n_errors;
    x->first_template = t.n_errors ? xstrdup(t.why) : NULL;
    template_verdict_free(&t);
}

int versus_inspect(const struct versus *v, struct versus_file *x, struct err *e) {
    struct err ignored;
    char *mmproj = NULL;
    const struct gguf *g = x->m->gguf;
    uint64_t bytes = 0, weights = 0;
    if (x != &v->base) {
        TRY(same_shape(v, x, e));
        TRY(same_tokens(v, x, e));
        compare_own(v, x);
        compare_tokenizer(v, x);
        compare_named(v, x);
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
