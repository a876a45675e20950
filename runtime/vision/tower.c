// SPDX-License-Identifier: MIT
/* runtime/vision/tower.c - opening and closing of projector files. */
#include "runtime/vision/tower.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "runtime/vision/tower_int.h"

/* Reads a count after "clip.vision.". */
static int read_count(const struct vision_tower *v, const char *key, uint64_t most, int64_t *out,
                      struct err *e) {
    uint64_t n = 0;
    TRY(gguf_get_u64(v->file, key, &n, e));
    if (n < 1 || n > most)
        return err_set(e, ERR_DATA, "%s: %s is %llu, not a number from 1 to %llu",
                       gguf_path(v->file), key, (unsigned long long)n, (unsigned long long)most);
    *out = (int64_t)n;
    return 0;
}

/* Reads the block that the middle steps follow: the key's only entry. */
static int read_middle(struct vision_tower *v, struct err *e) {
    const struct gguf_kv *kv = gguf_find(v->file, "clip.vision.wa_layer_indexes");
    v->middle = -1;
    if (!v->type->middle) return 0;
    const bool list =
        kv && kv->type == GV_ARR && kv->count == 1 && (kv->elem == GV_I32 || kv->elem == GV_U32);
    const int64_t at = list ? gguf_kv_i64(kv, 0) : -1;
    if (at < 0 || at >= v->n_blocks || v->merge != 4)
        return err_set(e, ERR_DATA,
                       "%s: clip.vision.wa_layer_indexes does not name one of the blocks, or "
                       "clip.vision.projector.scale_factor is not 4",
                       gguf_path(v->file));
    v->middle = (int)at;
    return 0;
}

/* Reads the tower's sizes and options. */
static int read_keys(struct vision_tower *v, struct err *e) {
    int64_t n = 0, every = 0;
    const char *pattern = "clip.vision.n_wa_pattern";
    TRY(vision_params_read(v->file, &v->params, e));
    v->type = &tower_types[v->params.type];
    if (!v->type->embed)
        return err_set(e, ERR_DATA, "%s: the towers of this projector type cannot be computed yet",
                       gguf_path(v->file));
    v->patch = v->params.patch * (v->type->whole ? v->params.merge : 1);
    v->merge = v->type->whole ? 1 : v->params.merge;
    if (v->type->block) {
        TRY(read_count(v, "clip.vision.block_count", TOWER_MAX_BLOCKS, &n, e));
        v->n_blocks = (int)n;
        TRY(read_count(v, "clip.vision.attention.head_count", 1024, &v->heads, e));
    }
    double eps = 1e-6;
    TRY(gguf_opt_f64(v->file, "clip.vision.attention.layer_norm_epsilon", &eps, e));
    v->eps = (float)eps;
    if (!(v->eps > 0 && v->eps < 1))
        return err_set(e, ERR_DATA, "%s: clip.vision.attention.layer_norm_epsilon is %g",
                       gguf_path(v->file), (double)v->eps);
    TRY(gguf_opt_bool(v->file, "clip.use_gelu", &v->use_gelu, e));
    TRY(gguf_opt_bool(v->file, "clip.use_silu", &v->use_silu, e));
    const int64_t square = v->merge * v->merge;
    v->chunk = max_i64(TOWER_CHUNK / square, 1) * square;
    v->panel = 1 << 16;
    TRY(read_middle(v, e));
    if (!v->type->window) return 0;
    v->window = max_i64(v->type->window / v->merge / v->patch, 1);
    if (gguf_find(v->file, pattern)) TRY(read_count(v, pattern, TOWER_MAX_BLOCKS, &every, e));
    v->every = every ? every : v->type->every;
    return 0;
}

/* Compares a key, if the file has it, with the width of the tensors. */
static int check_key(const struct vision_tower *v, const char *key, int64_t is, struct err *e) {
    uint64_t said = (uint64_t)is;
    TRY(gguf_opt_u64(v->file, key, &said, e));
    if (said == (uint64_t)is) return 0;
    return err_set(e, ERR_DATA, "%s: %s is %llu, but the tensors are %lld wide", gguf_path(v->file),
                   key, (unsigned long long)said, (long long)is);
}

/* Opens the file, reads its keys and binds its tensors. */
static int open_steps(struct vision_tower *v, const char *path, struct err *e) {
    TRY(gguf_open(&v->file, path, 0, e));
    TRY(read_keys(v, e));
    TRY(tower_bind(v, e));
    return check_key(v, "clip.vision.embedding_length", v->width, e);
}

int vision_open(struct vision_tower **out, const char *path, struct pool *pool, enum kern_isa isa,
                struct err *e) {
    struct vision_tower *v = xcalloc(1, sizeof *v);
    v->pool = pool;
    kern_init(&v->kern, isa);
    const int rc = open_steps(v, path, e);
    if (rc) {
        vision_close(v);
        v = NULL;
    }
    *out = v;
    return rc;
}

const struct vision_params *vision_params(const struct vision_tower *v) {
    return &v->params;
}
const char *vision_family(enum projector type) {
    return tower_types[type].family;
}

int64_t vision_width(const struct vision_tower *v) {
    return v->text;
}

void vision_close(struct vision_tower *v) {
    if (!v) return;
    for (int i = 0; i < v->n_own; i++) mem_free(v->own[i]);
    free(v->own);
    free(v->used);
    free(v->segment);
    free(v->step);
    gguf_close(v->file);
    free(v);
}
