// SPDX-License-Identifier: MIT
/* convert/vision.c - vision towers: looks up a tower's table, reads its hyperparameters, and writes
 * the keys of the projector file. A new tower needs a table of rows, a function that reads its
 * hyperparameters (both in a tower_*.c) and an entry in `kinds`. */
#include "convert/vision.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/log.h"
#include "base/num.h"
#include "base/printable.h"

static const struct vision_kind *const kinds[] = {
    &vision_qwen2,   &vision_qwen25,  &vision_qwen3,    &vision_gemma3,   &vision_gemma4,
    &vision_gemma4u, &vision_pixtral, &vision_idefics3, &vision_internvl, &vision_lfm2,
    &vision_glm4v,   &vision_kimi,    &vision_minicpm};

const struct vision_kind *vision_find(const char *cls) {
    for (size_t i = 0; cls && i < COUNT_OF(kinds); i++)
        for (const char *const *c = kinds[i]->classes; *c; c++)
            if (strcmp(*c, cls) == 0) return kinds[i];
    return NULL;
}

void vision_list(struct buf *out) {
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        buf_fmt(out, "%s%s", i ? ", " : "", kinds[i]->name);
}

int vision_number(const struct json *cfg, const char *names, int64_t otherwise, int64_t *out,
                  struct err *e) {
    const struct json *j = NULL;
    char name[64];
    for (const char *s = names; !j && s; s = strchr(s, '|') ? strchr(s, '|') + 1 : NULL) {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(s, "|"), s);
        j = json_get(cfg, name);
    }
    *out = otherwise;
    if (json_type(j) == JSON_ARR) j = json_first(j);
    if ((!j || json_type(j) == JSON_NULL) && otherwise > 0) return 0;
    if (json_i64(j, out) && *out > 0 && *out <= 1 << 20) return 0;
    return err_set(e, ERR_DATA, "vision_config.%.*s is missing or not a valid number",
                   (int)strcspn(names, "|"), names);
}

int vision_transformer(struct vision *v, const struct json *cfg, struct err *e) {
    TRY(vision_number(cfg, "num_hidden_layers", v->kind->usual.blocks, &v->blocks, e));
    TRY(vision_number(cfg, "num_attention_heads", v->kind->usual.heads, &v->heads, e));
    if (v->image_size) return 0;
    return vision_number(cfg, "image_size", v->kind->usual.image, &v->image_size, e);
}

int vision_preprocessor(struct hfdir *dir, const char *name, const struct json **out,
                        struct err *e) {
    static const char *const file[] = {"processor_config.json", "preprocessor_config.json"};
    *out = NULL;
    for (size_t i = 0; i < COUNT_OF(file) && !*out; i++) {
        const struct json *j;
        TRY(hfdir_json(dir, file[i], &j, e));
        *out = json_get(json_get(j, "image_processor"), name);
        if (!*out) *out = json_get(j, name);
    }
    return 0;
}

/* Finds the image processor's config: in processor_config.json, or else the older file. NULL:
 * none. name: the file's, for messages. */
static int find_processor(struct hfdir *dir, const struct json **out, const char **name,
                          struct err *e) {
    const struct json *j;
    *name = "processor_config.json";
    TRY(hfdir_json(dir, *name, &j, e));
    *out = json_get(j, "image_processor");
    if (json_type(*out) == JSON_OBJ) return 0;
    *name = "preprocessor_config.json";
    TRY(hfdir_json(dir, *name, &j, e));
    *out = json_get(j, "image_processor");
    if (json_type(*out) != JSON_OBJ) *out = j;
    return 0;
}

/* Writes the forms of a size that are supported. */
static const char *size_forms(int forms) {
    if (forms == VS_EDGE) return "{\"longest_edge\": N}";
    return forms == VS_SQUARE ? "N or {\"height\": N, \"width\": N}"
                              : "N, {\"longest_edge\": N} or {\"height\": N, \"width\": N}";
}

int vision_size(const struct vision *v, struct hfdir *dir, int forms, int64_t otherwise,
                int64_t *out, struct err *e) {
    static const char *const name[] = {"longest_edge", "height", "width"};
    const struct json *from, *size;
    const char *file;
    int64_t n[3] = {0};
    TRY(find_processor(dir, &from, &file, e));
    if (!from) return 0;
    size = json_get(from, "size");
    *out = otherwise;
    if (json_type(size) == JSON_NULL) return 0;
    bool known = json_i64(size, &n[1]) || json_type(size) == JSON_OBJ;
    if (json_type(size) == JSON_NUM) n[2] = n[1];
    for (const struct json *j = json_type(size) == JSON_OBJ ? json_first(size) : NULL; j;
         j = json_next(j)) {
        int k = 0;
        while (k < 3 && strcmp(json_name(j), name[k]) != 0) k++;
        known &= json_type(j) == JSON_NULL || (k < 3 && json_i64(j, &n[k]));
    }
    *out = n[0] ? n[0] : n[1];
    known &= n[0] ? (forms & VS_EDGE) && !n[1] && !n[2] : (forms & VS_SQUARE) && n[1] == n[2];
    if (known && *out > 0 && *out <= 1 << 20) return 0;
    struct buf value = {0};
    json_write(&value, size);
    const struct show shown = show_n(value.data, value.len);
    buf_release(&value);
    return err_set(e, ERR_DATA, "%s/%s: size is %s: for a tower of %s only %s is supported",
                   hfdir_path(dir), file, shown.s, v->kind->name, size_forms(forms));
}

bool vision_one_of(const char *s, const char *list) {
    for (size_t n; s && list; list = list[n] ? list + n + 1 : NULL) {
        n = strcspn(list, "|");
        if (strlen(s) == n && strncmp(s, list, n) == 0) return true;
    }
    return false;
}

/* Reads a list of exactly three numbers. Returns false for anything else. */
static bool read_three(const struct json *list, float out[3]) {
    int n = 0;
    for (const struct json *j = json_first(list); j && n < 4; j = json_next(j), n++) {
        if (n == 3 || json_type(j) != JSON_NUM) return false;
        out[n] = (float)json_num(j, 0);
    }
    return n == 3;
}

/* Returns whether an option of the image processor that is true by default is not false or null. */
static bool is_on(const struct json *from, const char *name) {
    const struct json *j = json_get(from, name);
    return !j || json_bool(j, json_type(j) != JSON_NULL);
}

/* Multiplies the mean and deviation so that they suit pixels from 0 to 1, which projector files
 * assume, although the image processor scales by rescale_factor, or not at all, and may not
 * normalize. */
static int scale_colours(struct vision *v, struct hfdir *dir, struct err *e) {
    const struct json *from;
    const char *file;
    TRY(find_processor(dir, &from, &file, e));
    const double factor =
        is_on(from, "do_rescale") ? json_num(json_get(from, "rescale_factor"), 1.0 / 255) : 1;
    const double k = 255 * factor;
    if (!(k > 1e-6 && k < 1e6))
        return err_set(e, ERR_DATA, "%s/%s: rescale_factor is %g, not a positive number near 1/255",
                       hfdir_path(dir), file, factor);
    for (int c = 0; c < 3; c++) {
        if (!is_on(from, "do_normalize")) v->mean[c] = 0, v->std[c] = 1;
        if (!(v->std[c] > 0))
            return err_set(e, ERR_DATA,
                           "%s/%s: image_std is %g for one of the colours: only positive numbers "
                           "are supported",
                           hfdir_path(dir), file, (double)v->std[c]);
        if (fabs(k - 1) < 1e-6) continue;
        v->mean[c] = (float)((double)v->mean[c] / k);
        v->std[c] = (float)((double)v->std[c] / k);
    }
    return 0;
}

/* Reads the mean and standard deviation for normalizing each colour channel. */
static int read_colours(struct vision *v, struct hfdir *dir, struct err *e) {
    static const float clip_mean[] = {.48145466f, .4578275f, .40821073f},
                       clip_std[] = {.26862954f, .26130258f, .27577711f};
    const struct json *from;
    const char *file;
    TRY(find_processor(dir, &from, &file, e));
    const bool clip = from && v->kind->clip_colours;
    const struct json *mean = json_get(from, "image_mean"), *std = json_get(from, "image_std");
    memcpy(v->mean, clip ? clip_mean : v->kind->mean, sizeof v->mean);
    memcpy(v->std, clip ? clip_std : v->kind->std, sizeof v->std);
    if ((mean && !read_three(mean, v->mean)) || (std && !read_three(std, v->std)))
        return err_set(e, ERR_DATA, "%s/%s: image_mean and image_std are not three numbers each",
                       hfdir_path(dir), file);
    if (!from)
        log_warn("%s has no preprocessor_config.json: writing mean %g and deviation %g for "
                 "colours, as in the published models",
                 hfdir_path(dir), (double)v->mean[0], (double)v->std[0]);
    return 0;
}

/* Reads a limit, in units of `unit` pixels, unless it is missing. */
static int read_limit(const struct json *from, const char *name, int64_t unit, struct hfdir *dir,
                      int64_t *out, struct err *e) {
    const struct json *j = name ? json_get(from, name) : NULL;
    int64_t n;
    if (!j || json_type(j) == JSON_NULL) return 0;
    if (!json_i64(j, &n) || n < 1 || !mul_ok_i64(n, unit, &n) || n > INT32_MAX)
        return err_set(e, ERR_DATA, "%s: the image processor's %s is not a valid number",
                       hfdir_path(dir), name);
    *out = n;
    return 0;
}

/* Reads the limits of the number of pixels of an image. */
static int read_limits(struct vision *v, struct hfdir *dir, struct err *e) {
    static const struct {
        bool size;           /* also the members of "size" */
        const char *name[2]; /* least, most; NULL: none */
    } rows[] = {[VL_SIZE] = {true, {NULL, NULL}},
                [VL_PIXELS] = {true, {"min_pixels", "max_pixels"}},
                [VL_IMAGE_TOKENS] = {false, {"min_image_tokens", "max_image_tokens"}},
                [VL_SOFT_TOKENS] = {false, {NULL, "max_soft_tokens"}},
                [VL_PATCHES] = {false, {NULL, "in_token_limit"}}};
    static const char *const edge[] = {"shortest_edge", "longest_edge"};
    const enum vision_limits l = v->kind->limits;
    const int64_t patch = v->patch_key ? v->patch_key : v->d[VD_PATCH];
    int64_t unit = 1, side = v->scale ? v->scale : 1;
    const struct json *from;
    const char *file;
    if (l == VL_NONE) return 0;
    if (l == VL_SOFT_TOKENS && !v->scale) side = 3;
    if (l == VL_PATCHES) side = 1;
    if (l >= VL_IMAGE_TOKENS) unit = patch * side * patch * side;
    TRY(find_processor(dir, &from, &file, e));
    for (int i = 0; i < 2; i++) {
        if (rows[l].size)
            TRY(read_limit(json_get(from, "size"), edge[i], 1, dir, &v->pixels[i], e));
        TRY(read_limit(from, rows[l].name[i], unit, dir, &v->pixels[i], e));
    }
    if (v->pixels[0] <= v->pixels[1] || !v->pixels[1]) return 0;
    return err_set(e, ERR_DATA,
                   "%s: the image processor's limits contradict each other: at least %lld and at "
                   "most %lld pixels",
                   hfdir_path(dir), (long long)v->pixels[0], (long long)v->pixels[1]);
}

/* ---- fields that must have a certain value ---- */

/* Returns the member "a.b" of j; NULL: missing. */
static const struct json *member(const struct json *j, const char *path) {
    for (const char *s = path; s; s = strchr(s, '.') ? strchr(s, '.') + 1 : NULL)
        j = json_getn(j, s, strcspn(s, "."));
    return j;
}

/* Returns whether the value is one of those of row f; numbers may be written differently, and an
 * object with a height means that number. Image processors take null for false. */
static bool is_supported(const struct vision *v, const struct vision_fixed *f,
                         const struct json *j) {
    const char *s = json_str(j);
    if (j && json_type(j) == JSON_NULL && f->place == VP_IMAGE && vision_one_of("true", f->want))
        return false;
    if (json_type(j) == JSON_OBJ) j = json_get(j, "height");
    if (!j || json_type(j) == JSON_NULL) return true;
    if (json_type(j) == JSON_NUM)
        return json_num(j, 0) == (f->dim ? (double)v->d[f->dim] : strtod(f->want, NULL));
    if (json_type(j) == JSON_BOOL) s = json_bool(j, false) ? "true" : "false";
    return !f->dim && vision_one_of(s, f->want);
}

/* Refuses a value of row f that is not supported. */
static int refuse(const struct vision *v, const struct vision_fixed *f, const struct json *j,
                  const char *file, struct hfdir *dir, struct err *e) {
    struct buf value = {0}, want = {0};
    const char *str = json_str(j);
    if (!str) json_write(&value, j);
    if (f->dim) buf_fmt(&want, "%lld, as in config.json,", (long long)v->d[f->dim]);
    for (const char *s = f->dim ? NULL : f->want; s; s = strchr(s, '|') ? strchr(s, '|') + 1 : NULL)
        buf_fmt(&want, "%s%.*s", s == f->want ? "" : ", ", (int)strcspn(s, "|"), s);
    const struct show shown = str ? show_n(str, strlen(str)) : show_n(value.data, value.len);
    err_set(e, ERR_DATA, "%s/%s: %s%s is %s: for a tower of %s only %s is supported",
            hfdir_path(dir), file, f->place == VP_TOWER ? "vision_config." : "", f->field, shown.s,
            v->kind->name, want.data);
    buf_release(&value);
    buf_release(&want);
    return ERR_DATA;
}

/* Compares the fields of the kind's table. */
static int check_fixed(const struct vision *v, struct hfdir *dir, const struct json *cfg,
                       struct err *e) {
    const struct json *image;
    const char *file;
    TRY(find_processor(dir, &image, &file, e));
    for (const struct vision_fixed *f = v->kind->fixed; f && f->field; f++) {
        const struct json *in = f->place == VP_TOWER  ? cfg
                                : f->place == VP_ROOT ? hfdir_config(dir)
                                                      : image;
        const struct json *j = member(in, f->field);
        if (!is_supported(v, f, j))
            return refuse(v, f, j, f->place == VP_IMAGE ? file : "config.json", dir, e);
    }
    return 0;
}

int vision_read(struct vision *v, const struct vision_kind *k, struct hfdir *dir, struct err *e) {
    const struct json *root = hfdir_config(dir), *cfg = json_get(root, "vision_config");
    if (!cfg) cfg = json_get(json_get(root, "thinker_config"), "vision_config");
    memset(v, 0, sizeof *v);
    v->kind = k;
    v->line_break = -1;
    if (json_type(cfg) != JSON_OBJ)
        return err_set(e, ERR_DATA,
                       "%s/config.json has no vision_config: the model has no vision tower, so "
                       "there is nothing for --mmproj to write",
                       hfdir_path(dir));
    int64_t *d = v->d;
    d[VD_ONE] = 1;
    d[VD_TWO] = 2;
    d[VD_RGB] = 3;
    if (!json_i64(hfdir_hparam(dir, "hidden_size"), &d[VD_TEXT]) || d[VD_TEXT] < 1)
        return err_set(e, ERR_DATA, "%s/config.json: hidden_size is missing", hfdir_path(dir));
    TRY(vision_number(cfg, "hidden_size", k->usual.width, &d[VD_C], e));
    TRY(vision_number(cfg, "intermediate_size", k->usual.ff, &d[VD_FF], e));
    TRY(vision_number(cfg, "patch_size", k->usual.patch, &d[VD_PATCH], e));
    if (d[VD_PATCH] > 1024) return err_set(e, ERR_DATA, "vision_config.patch_size is too large");
    TRY(k->read(v, dir, cfg, e));
    d[VD_QKV] = 3 * d[VD_C];
    d[VD_PIXELS] = 3 * d[VD_PATCH] * d[VD_PATCH];
    if (v->blocks > VISION_MAX_BLOCKS)
        return err_set(e, ERR_DATA, "the vision tower has more than %d blocks", VISION_MAX_BLOCKS);
    if (v->heads && !d[VD_Q] && d[VD_C] % v->heads)
        return err_set(e, ERR_DATA,
                       "%s/config.json: the vision tower's %lld heads do not divide its width %lld",
                       hfdir_path(dir), (long long)v->heads, (long long)d[VD_C]);
    TRY(check_fixed(v, dir, cfg, e));
    TRY(read_limits(v, dir, e));
    TRY(read_colours(v, dir, e));
    return scale_colours(v, dir, e);
}

void vision_keys(const struct vision *v, struct gguf_w *w) {
    static const char p[] = "clip.vision.";
    const int64_t ff = v->ff_key ? v->ff_key : v->d[VD_FF];
    const struct {
        const char *key;
        int64_t n; /* 0: not written */
    } row[] = {{"projection_dim", v->d[VD_TEXT]},
               {"image_size", v->image_size},
               {"patch_size", v->patch_key ? v->patch_key : v->d[VD_PATCH]},
               {"embedding_length", v->d[VD_C]},
               {"feed_forward_length", ff},
               {"block_count", v->block_key ? v->block_key : v->blocks},
               {"attention.head_count", v->heads},
               {"spatial_merge_size", v->merge_key},
               {"projector.scale_factor", v->scale},
               {"n_wa_pattern", v->full_every},
               {"preproc_image_size", v->longest},
               {"preproc_min_tiles", v->tiles[0]},
               {"preproc_max_tiles", v->tiles[1]},
               {"image_min_pixels", v->pixels[0]},
               {"image_max_pixels", v->pixels[1]}};
    gguf_w_bool(w, "clip.has_vision_encoder", true);
    gguf_w_bool(w, "clip.has_audio_encoder", false);
    gguf_w_str(w, v->kind->projector_key ? v->kind->projector_key : "clip.projector_type",
               v->kind->projector);
    for (size_t i = 0; i < COUNT_OF(row); i++) {
        char key[64];
        snprintf(key, sizeof key, "%s%s", p, row[i].key);
        if (row[i].n > 0) gguf_w_u32(w, key, (uint32_t)row[i].n);
    }
    if (v->gelu) gguf_w_bool(w, "clip.use_gelu", true);
    if (v->silu) gguf_w_bool(w, "clip.use_silu", true);
    gguf_w_arr(w, "clip.vision.image_mean", GV_F32, v->mean, 3);
    gguf_w_arr(w, "clip.vision.image_std", GV_F32, v->std, 3);
    gguf_w_f32(w, "clip.vision.attention.layer_norm_epsilon", (float)v->eps);
    if (v->kind->keys) v->kind->keys(v, w);
}
