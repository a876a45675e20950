// SPDX-License-Identifier: MIT
/* runtime/vision/params.c - how each projector type's images are prepared: keys of the projector
 * file, and the published models' values where the file has none. */
#include <stdio.h>
#include <string.h>

#include "base/attr.h"
#include "base/num.h"
#include "base/printable.h"
#include "runtime/vision/image.h"

static const struct row {
    const char *name;               /* value of clip.projector_type */
    const char *merge_key;          /* key of `merge` after "clip.vision." */
    int merge;                      /* if that key is missing */
    int64_t min_tokens, max_tokens; /* of a view, without keys of its pixels; 0: not limited. GLM
                                     * counts an image twice */
    int min_tiles, max_tiles;
} rows[PROJ_COUNT] = {
    [PROJ_QWEN2VL] = {"qwen2vl_merger", "spatial_merge_size", 2, 4, 16384, 0, 0},
    [PROJ_QWEN25VL] = {"qwen2.5vl_merger", "spatial_merge_size", 2, 4, 16384, 0, 0},
    [PROJ_QWEN3VL] = {"qwen3vl_merger", "spatial_merge_size", 2, 64, 16384, 0, 0},
    [PROJ_GEMMA3] = {"gemma3", "projector.scale_factor", 4, 0, 0, 0, 0},
    [PROJ_GEMMA4] = {"gemma4v", "projector.scale_factor", 3, 0, 280, 0, 0},
    [PROJ_GEMMA4U] = {"gemma4uv", "projector.scale_factor", 3, 0, 280, 0, 0},
    [PROJ_PIXTRAL] = {"pixtral", "spatial_merge_size", 1, 0, 0, 0, 0},
    [PROJ_IDEFICS3] = {"idefics3", "projector.scale_factor", 2, 0, 0, 0, 0},
    [PROJ_INTERNVL] = {"internvl", "projector.scale_factor", 2, 0, 0, 1, 12},
    [PROJ_LFM2] = {"lfm2", "projector.scale_factor", 2, 64, 256, 2, 10},
    [PROJ_GLM4V] = {"glm4v", "spatial_merge_size", 2, 16, 12288, 0, 0},
    [PROJ_KIMIVL] = {"kimivl", "projector.scale_factor", 2, 0, 1024, 0, 0},
    [PROJ_MINICPMV] = {"minicpmv4_6", "projector.scale_factor", 4, 0, 0, 1, 9},
};

/* Sets *type to the file's projector type. ERR_DATA: none, or not supported. */
static int find_type(const struct gguf *g, enum projector *type, struct err *e) {
    const char *name = gguf_projector_type(g);
    if (!*name)
        return err_set(e, ERR_DATA,
                       "%s is not a projector (mmproj) file: it has no key clip.projector_type",
                       gguf_path(g));
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (strcmp(rows[i].name, name) == 0) {
            *type = (enum projector)i;
            return 0;
        }
    return err_set(e, ERR_DATA, "%s: images for projector type %s are not supported", gguf_path(g),
                   show_n(name, strlen(name)).s);
}

/* Reads the integer key "clip.vision.<name>". otherwise: the value if the key is missing; high: the
 * largest accepted value. */
static int read_number(const struct gguf *g, const char *name, int64_t otherwise, int64_t high,
                       int64_t *out, struct err *e) {
    char key[64];
    uint64_t n = 0;
    snprintf(key, sizeof key, "clip.vision.%s", name);
    *out = otherwise;
    if (!gguf_find(g, key)) return 0;
    TRY(gguf_get_u64(g, key, &n, e));
    if (n < 1 || n > (uint64_t)high)
        return err_set(e, ERR_DATA, "%s: %s is %llu, not a number from 1 to %lld", gguf_path(g),
                       key, (unsigned long long)n, (long long)high);
    *out = (int64_t)n;
    return 0;
}

/* Reads an integer key up to `high`; a missing one is `otherwise`. */
static int read_small(const struct gguf *g, const char *name, int otherwise, int high, int *out,
                      struct err *e) {
    int64_t n;
    TRY(read_number(g, name, otherwise, high, &n, e));
    *out = (int)n;
    return 0;
}

/* Reads an array of three floats, one per color. ERR_DATA: missing or different. */
static int read_colours(const struct gguf *g, const char *key, float out[3], struct err *e) {
    const struct gguf_kv *kv = gguf_find(g, key);
    if (!kv || kv->type != GV_ARR || kv->elem != GV_F32 || kv->count != 3)
        return err_set(e, ERR_DATA, "%s: %s is missing or not three numbers", gguf_path(g), key);
    for (uint64_t i = 0; i < 3; i++) out[i] = (float)gguf_kv_f64(kv, i);
    return 0;
}

int vision_params_read(const struct gguf *g, struct vision_params *p, struct err *e) {
    enum { MAX_SIDE = 1 << 14 };
    memset(p, 0, sizeof *p);
    TRY(find_type(g, &p->type, e));
    const struct row *r = &rows[p->type];
    TRY(read_small(g, "patch_size", 0, 1024, &p->patch, e));
    TRY(read_small(g, "image_size", 0, MAX_SIDE, &p->image_size, e));
    if (!p->patch || !p->image_size)
        return err_set(e, ERR_DATA, "%s: clip.vision.%s is missing", gguf_path(g),
                       p->patch ? "image_size" : "patch_size");
    TRY(read_small(g, r->merge_key, r->merge, 64, &p->merge, e));
    TRY(read_small(g, "preproc_image_size", 0, MAX_SIDE, &p->longest, e));
    TRY(read_small(g, "preproc_min_tiles", r->min_tiles, 256, &p->min_tiles, e));
    TRY(read_small(g, "preproc_max_tiles", r->max_tiles, 256, &p->max_tiles, e));
    const int64_t token = (int64_t)p->patch * p->merge * p->patch * p->merge;
    TRY(read_number(g, "image_min_pixels", r->min_tokens * token, INT32_MAX, &p->min_pixels, e));
    TRY(read_number(g, "image_max_pixels", r->max_tokens * token, INT32_MAX, &p->max_pixels, e));
    p->min_pixels = min_i64(p->min_pixels, IMAGE_MAX_PIXELS); /* no image has more */
    p->max_pixels = min_i64(p->max_pixels, IMAGE_MAX_PIXELS);
    TRY(read_colours(g, "clip.vision.image_mean", p->mean, e));
    TRY(read_colours(g, "clip.vision.image_std", p->std, e));
    for (int c = 0; c < 3; c++)
        if (!(p->std[c] > 0))
            return err_set(e, ERR_DATA, "%s: clip.vision.image_std is not positive", gguf_path(g));
    return 0;
}
