// SPDX-License-Identifier: MIT
/* report/release.c - reader for a folder of GGUF files to be published. */
#include "report/release.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "report/report_text.h"

/* ---- keys ------------------------------------------------------------------------------------ */

/* Returns a copy in the release's memory; "" for NULL. */
static const char *keep_text(struct release *r, const char *s) {
    return s ? arena_strdup(&r->arena, s) : "";
}

/* Adds a stop text unless it is empty, too long or already listed, or the list is full. */
static void add_stop(struct release *r, const char *s, size_t n) {
    if (!n || n > 200 || memchr(s, 0, n) || r->n_stops == RELEASE_MAX_STOPS) return;
    for (int i = 0; i < r->n_stops; i++)
        if (strlen(r->stop[i]) == n && memcmp(r->stop[i], s, n) == 0) return;
    r->stop[r->n_stops++] = arena_strndup(&r->arena, s, n);
}

/* Reads the texts of the end-of-turn tokens. */
static void read_tokens(struct release *r, const struct gguf *g) {
    static const char *const ends[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    const struct gguf_kv *kv = gguf_find(g, "tokenizer.ggml.tokens");
    if (!kv || kv->type != GV_ARR || kv->elem != GV_STR) return;
    const uint8_t *pos = kv->data;
    const struct gguf_kv *more = gguf_find(g, "tokenizer.ggml.eos_token_ids");
    uint64_t id[3], bos = gguf_u64_or(g, "tokenizer.ggml.bos_token_id", UINT64_MAX);
    if (more && (more->type != GV_ARR || more->elem != GV_I32)) more = NULL;
    for (int i = 0; i < 3; i++) id[i] = gguf_u64_or(g, ends[i], UINT64_MAX);
    for (uint64_t t = 0; t < kv->count; t++) {
        const char *s;
        uint64_t len;
        gguf_kv_str_next(kv, &pos, &s, &len);
        for (int i = 0; i < 3; i++)
            if (id[i] == t) add_stop(r, s, (size_t)len);
        for (uint64_t i = 0; more && i < more->count && i < RELEASE_MAX_STOPS; i++)
            if (gguf_kv_i64(more, i) == (int64_t)t) add_stop(r, s, (size_t)len);
        if (t == bos && len < 200 && !memchr(s, 0, (size_t)len))
            r->bos = arena_strndup(&r->arena, s, (size_t)len);
    }
}

/* Copies a key's array of strings to out; returns their number. */
static int read_list(struct release *r, const struct gguf *g, const char *key, const char **out) {
    const struct gguf_kv *kv = gguf_find(g, key);
    int n = 0;
    if (!kv || kv->type != GV_ARR || kv->elem != GV_STR) return 0;
    const uint8_t *pos = kv->data;
    for (uint64_t i = 0; i < kv->count && n < RELEASE_MAX_LIST; i++) {
        const char *s;
        uint64_t len;
        gguf_kv_str_next(kv, &pos, &s, &len);
        if (len && len < 200 && !memchr(s, 0, (size_t)len))
            out[n++] = arena_strndup(&r->arena, s, (size_t)len);
    }
    return n;
}

/* Returns "org/name" of the source model according to the metadata; "": unknown. The keys
 * general.base_model.* name the model that the source was trained from. */
static const char *base_of(struct release *r, const struct gguf *g) {
    static const char hub[] = "https://huggingface.co/";
    const char *url = gguf_str_or(g, "general.source.repo_url", "");
    return strncmp(url, hub, sizeof hub - 1) == 0 ? keep_text(r, url + sizeof hub - 1) : "";
}

/* Reads the facts of a model from its keys. */
static void read_keys(struct release *r, const struct gguf *g) {
    char key[128];
    r->title = keep_text(r, gguf_str_or(g, "general.name", ""));
    r->arch = keep_text(r, gguf_str_or(g, "general.architecture", ""));
    r->size_label = keep_text(r, gguf_str_or(g, "general.size_label", ""));
    r->license = keep_text(r, gguf_str_or(g, "general.license", ""));
    r->license_name = keep_text(r, gguf_str_or(g, "general.license.name", ""));
    r->license_link = keep_text(r, gguf_str_or(g, "general.license.link", ""));
    r->base_model = base_of(r, g);
    r->template = keep_text(r, gguf_str_or(g, "tokenizer.chat_template", ""));
    r->n_languages = read_list(r, g, "general.languages", r->language);
    r->n_tags = read_list(r, g, "general.tags", r->tag);
    snprintf(key, sizeof key, "%.100s.context_length", r->arch);
    uint64_t ctx = gguf_u64_or(g, key, 0);
    r->ctx = ctx < INT32_MAX ? (int64_t)ctx : 0;
    snprintf(key, sizeof key, "%.100s.nextn_predict_layers", r->arch);
    r->has_mtp = gguf_u64_or(g, key, 0) > 0;
    r->temp = gguf_f64_or(g, "general.sampling.temp", (double)NAN);
    r->top_p = gguf_f64_or(g, "general.sampling.top_p", (double)NAN);
    r->min_p = gguf_f64_or(g, "general.sampling.min_p", (double)NAN);
    r->repeat = gguf_f64_or(g, "general.sampling.penalty_repeat", (double)NAN);
    uint64_t k = gguf_u64_or(g, "general.sampling.top_k", UINT64_MAX);
    r->top_k = k < INT32_MAX ? (int64_t)k : -1;
    read_tokens(r, g);
}

/* ---- the folder ------------------------------------------------------------------------------ */

/* Orders files by size, largest first, then by name, for qsort. */
static int by_size(const void *a, const void *b) {
    const struct release_file *x = a, *y = b;
    if (x->size_bytes != y->size_bytes) return x->size_bytes < y->size_bytes ? 1 : -1;
    return strcmp(x->file, y->file);
}

/* Lists the regular files, except hidden ones. */
static int list_names(struct release *r, struct err *e) {
    struct io_names all;
    int rc = io_list(&all, r->dir, e);
    r->name = xcalloc((size_t)all.n + 1, sizeof *r->name);
    for (int i = 0; i < all.n && rc == 0; i++) {
        bool plain = false;
        char *path = io_join(r->dir, all.v[i]);
        if (all.v[i][0] != '.') rc = io_is_file(&plain, path, e);
        if (plain) r->name[r->n_names++] = arena_strdup(&r->arena, all.v[i]);
        free(path);
    }
    io_names_release(&all);
    return rc;
}

/* Computes the file's parameters and bits per weight. */
static void measure_file(struct release_file *f, const struct gguf *g) {
    uint64_t bytes = 0, type = gguf_u64_or(g, "general.file_type", UINT64_MAX);
    f->is_float = true;
    for (int64_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        bytes += t->n_bytes;
        f->n_params += t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3];
        if (qtype_info((int64_t)t->type)->flags & QF_QUANT) f->is_float = false;
    }
    f->size_bytes = gguf_file_bytes(g);
    f->n_shards = gguf_n_shards(g);
    f->bpw = f->n_params ? 8.0 * (double)bytes / (double)f->n_params : 0;
    f->file_type = type < INT32_MAX ? (int64_t)type : -1;
}

/* Adds a projector file, quantized ones last. */
static void add_mmproj(struct release *r, const char *name, const struct gguf *g) {
    struct release_file about = {0};
    if (r->n_mmproj == RELEASE_MAX_MMPROJ) return;
    measure_file(&about, g);
    int at = r->n_mmproj++;
    for (; about.is_float && at > 0; at--) r->mmproj[at] = r->mmproj[at - 1];
    r->mmproj[at] = (struct release_mmproj){.file = arena_strdup(&r->arena, name),
                                            .projector = keep_text(r, gguf_projector_type(g)),
                                            .size_bytes = about.size_bytes};
}

/* Adds a GGUF file of the folder to the release. drafts: the files released are drafts. */
static int read_model(struct release *r, const char *name, bool drafts, struct err *e) {
    struct gguf *g;
    char *path = io_join(r->dir, name);
    int rc = gguf_open(&g, path, GGUF_TOLERANT, e);
    free(path);
    if (rc) return rc;
    const char *type = gguf_str_or(g, "general.type", "model");
    if (strcmp(type, "imatrix") == 0) r->has_imatrix = true;
    const enum gguf_part part = gguf_part_of(g);
    if (part == GGUF_TOWER && !drafts) add_mmproj(r, name, g);
    if (part == GGUF_DRAFT && !drafts && !r->draft.file) {
        r->draft.file = arena_strdup(&r->arena, name);
        r->draft.kind = gguf_draft_kind(g);
        r->draft.size_bytes = gguf_file_bytes(g);
    }
    if (part == (drafts ? GGUF_DRAFT : GGUF_MODEL)) {
        if (r->n_files == 0) read_keys(r, g);
        r->file = xreallocarray(r->file, (size_t)r->n_files + 1, sizeof *r->file);
        struct release_file *f = &r->file[r->n_files++];
        memset(f, 0, sizeof *f);
        char *stem = gguf_stem(name);
        f->file = arena_strdup(&r->arena, name);
        f->stem = arena_strdup(&r->arena, stem);
        free(stem);
        (void)gguf_name_encoding(name, f->encoding);
        measure_file(f, g);
    }
    gguf_close(g);
    return 0;
}

/* Adds all GGUF files of the folder, as read_model does. */
static int read_models(struct release *r, bool drafts, struct err *e) {
    for (int i = 0; i < r->n_names; i++) {
        int k = 0, n = 0;
        size_t len = strlen(r->name[i]);
        if (len < 6 || strcmp(r->name[i] + len - 5, ".gguf") != 0) continue;
        if (gguf_split_parse(r->name[i], &k, &n, &len) && k > 0) continue;
        TRY(read_model(r, r->name[i], drafts, e));
    }
    return 0;
}

/* Names the release after its first file, without the encoding, or after the folder if a file is
 * called "Q4_K_M.gguf". */
static void name_by_file(struct release *r) {
    const struct release_file *f = &r->file[0];
    size_t n = strlen(f->stem), m = strlen(f->encoding);
    bool bare = false;
    for (int i = 0; i < r->n_files; i++)
        bare |= strlen(r->file[i].stem) == strlen(r->file[i].encoding);
    if (m && n > m + 1) n -= m + 1;
    r->title = arena_strndup(&r->arena, f->stem, n);
    char *real = bare ? io_real(r->dir) : NULL;
    if (real && *io_base(real)) r->title = arena_strdup(&r->arena, io_base(real));
    free(real);
}

int release_open(struct release *r, const char *dir, struct err *e) {
    memset(r, 0, sizeof *r);
    r->recommended = -1;
    arena_init(&r->arena);
    r->dir = dir;
    r->title = r->arch = r->size_label = r->license = r->license_name = r->license_link = "";
    r->base_model = r->template = r->bos = "";
    int rc = list_names(r, e);
    if (rc == 0) rc = read_models(r, false, e);
    if (rc == 0 && r->n_files == 0 && r->draft.file) {
        r->drafts = r->draft.kind;
        r->draft = (struct release_draft){0};
        rc = read_models(r, true, e);
    }
    if (rc == 0 && r->n_files == 0)
        rc = err_set(e, ERR_USAGE, "%s: no GGUF model in this folder", dir);
    if (rc) {
        release_close(r);
        return rc;
    }
    qsort(r->file, (size_t)r->n_files, sizeof *r->file, by_size);
    r->n_params = r->file[0].n_params;
    if (!*r->title) name_by_file(r);
    return 0;
}

void release_close(struct release *r) {
    free(r->file);
    free(r->name);
    arena_release(&r->arena);
    memset(r, 0, sizeof *r);
}

bool release_has(const struct release *r, const char *name) {
    for (int i = 0; i < r->n_names; i++)
        if (strcmp(r->name[i], name) == 0) return true;
    return false;
}

int release_pick(const struct release *r) {
    if (r->recommended >= 0) return r->recommended;
    for (int i = 0; i < r->n_files; i++)
        if (strcmp(r->file[i].encoding, "Q4_K_M") == 0) return i;
    return r->n_files - 1;
}

uint64_t release_projector(const struct release *r) {
    return r->n_mmproj ? r->mmproj[0].size_bytes : 0;
}

void release_longest(const struct release *r, struct buf *out) {
    int64_t most = 0;
    char digits[32];
    for (int k = 0; k < RELEASE_CONTEXTS; k++) most = max_i64(most, r->fit_ctx[k]);
    text_thousands(digits, most);
    if (r->ctx > 0 && most >= r->ctx)
        buf_str(out, "its whole context");
    else
        buf_fmt(out, "%s tokens", digits);
}
