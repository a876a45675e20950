// SPDX-License-Identifier: MIT
/* work/open.c - opening of models, and checks of the source files of commands. */
#include "work/open.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "containers/gguf.h"
#include "base/io.h"
#include "base/log.h"
#include "base/num.h"
#include "base/str.h"
#include "quantize/quantize.h"
#include "quantize/requant.h"

/* Returns whether general.type, if present, is "model". */
static bool is_typed_model(const struct gguf *g) {
    return strcmp(gguf_str_or(g, "general.type", "model"), "model") == 0;
}

bool open_is_companion(const struct gguf *g) {
    static const char *const archs[] = {"clip", "imatrix"};
    const char *arch = gguf_str_or(g, "general.architecture", "");
    for (size_t i = 0; i < COUNT_OF(archs); i++)
        if (strcmp(arch, archs[i]) == 0) return true;
    return !is_typed_model(g);
}

int open_model(const struct work *w, struct model **out, const char *path, struct err *e) {
    struct model *m;
    TRY(model_open(&m, path, e));
    const int rc = model_use_pre(m, w->pre, e);
    if (rc)
        model_close(m);
    else
        *out = m;
    return rc;
}

void open_warn_context(struct work *w, const struct model *m, int64_t n_ctx) {
    const int64_t trained = m->hp.d[HD_CTX];
    if (w->warned_context || trained <= 0 || n_ctx <= trained) return;
    w->warned_context = true;
    log_warn("%" PRId64 " tokens of context, but the model was trained for %" PRId64
             ": results beyond that are not representative",
             n_ctx, trained);
}

bool unknown_model(const char *path, struct err *why) {
    struct gguf *g;
    if (gguf_open(&g, path, GGUF_TOLERANT, why)) return false;
    const bool unknown = is_typed_model(g) && model_computes(g, why) == ERR_DATA;
    gguf_close(g);
    return unknown;
}

int unknown_refuse(const char *path, const char *option, struct err *e) {
    struct err why;
    if (!unknown_model(path, &why)) return 0;
    return err_set(e, ERR_DATA, "%.800s; %s needs a pass through the model, so leave it out",
                   why.msg, option);
}

/* Adds the table of recipes with the file size that each gives for the model. */
static int emit_recipes(struct emit *m, const char *path, struct err *e) {
    emit_table(m, "recipes", "this model by recipe");
    emit_col(m, "recipe", "recipe");
    emit_col(m, "size_bytes", "file bytes");
    emit_col(m, "size_gib", "GiB");
    emit_col(m, "bpw", "bits");
    for (int i = 0; recipe_name(i); i++) {
        const struct quantize_opts o = {.in = path, .recipe = recipe_name(i), .dry_run = true};
        struct quantize_report r;
        TRY(quantize_run(&o, &r, e));
        emit_row(m);
        emit_cell_str(m, recipe_name(i));
        emit_cell_i64(m, (int64_t)r.file_bytes);
        emit_cell_num(m, (double)r.file_bytes / 0x1p30, 4);
        emit_cell_num(m, r.bpw, 2);
    }
    return 0;
}

int unknown_plan(const char *path, const struct err *why, uint64_t vram, uint64_t reserve,
                 bool recipes, struct emit *m, struct err *e) {
    struct gguf *g;
    uint64_t weights = 0;
    char text[48];
    TRY(gguf_open(&g, path, GGUF_TOLERANT, e));
    for (int64_t i = 0; i < gguf_n_tensors(g); i++) weights += gguf_tensor_at(g, i)->n_bytes;
    const bool fits = weights + reserve <= vram;
    emit_str(m, "file", "file", io_base(path));
    emit_str(m, "arch", "architecture", gguf_str_or(g, "general.architecture", "-"));
    emit_fmt_bytes(text, gguf_file_bytes(g));
    emit_str(m, "size", "file size", text);
    emit_i64(m, "size_bytes", NULL, (int64_t)gguf_file_bytes(g));
    emit_fmt_bytes(text, weights);
    emit_str(m, "weights", "weights", text);
    emit_i64(m, "weights_bytes", NULL, (int64_t)weights);
    emit_str(m, "kv", "keys and values", "not known");
    emit_str(m, "kv_why", "  because", why->msg);
    if (vram)
        emit_str(m, "fits", "what fits",
                 fits ? "the weights, without keys and values and working memory"
                      : "not even the weights");
    int rc = recipes ? emit_recipes(m, path, e) : 0;
    gguf_close(g);
    if (rc || !vram || fits) return rc;
    return err_set(e, ERR_VERDICT, "%s: its weights do not fit into %llu bytes with %llu kept free",
                   path, (unsigned long long)vram, (unsigned long long)reserve);
}

/* ---- sources --------------------------------------------------------------------------------- */

/* Returns whether a GGUF is a whole, unquantized model. */
static bool is_original(const char *path) {
    struct gguf *g;
    struct requant r;
    struct err why;
    if (gguf_open(&g, path, 0, &why)) return false;
    const bool model = is_typed_model(g) && model_computes(g, &why) == 0;
    requant_look(g, &r);
    gguf_close(g);
    return model && !r.quantized && !r.q8;
}

int source_check(const char *dir, const char *command, bool ggufs, struct err *e) {
    struct io_names all;
    bool weights = false, some = false;
    char *original = NULL;
    TRY(io_list(&all, dir, e));
    for (int i = 0; i < all.n; i++) {
        const char *name = all.v[i];
        weights |= str_ends(name, ".safetensors") || str_ends(name, ".bin") ||
                   str_ends(name, ".pt") || str_ends(name, ".pth");
        some |= str_ends(name, ".gguf");
    }
    for (int i = 0; i < all.n && some && !weights && !original; i++) {
        char *path = str_ends(all.v[i], ".gguf") ? io_join(dir, all.v[i]) : NULL;
        if (path && is_original(path)) original = path;
        if (path != original) free(path);
    }
    io_names_release(&all);
    if (!some || weights) return 0;
    if (original && ggufs)
        err_set(e, ERR_DATA, "%s holds GGUF files: name the one to start from: hone %s %s", dir,
                command, original);
    else if (original)
        err_set(e, ERR_DATA,
                "%s holds GGUF files and no safetensors, so there is nothing to convert: hone make "
                "and hone quantize start from %s",
                dir, original);
    else
        err_set(e, ERR_DATA,
                "%s holds GGUF files%s and no safetensors: hone %s starts from the model's "
                "original folder",
                dir, ggufs ? ", all quantized," : "", command);
    free(original);
    return ERR_DATA;
}
