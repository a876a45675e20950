// SPDX-License-Identifier: MIT
/* jobs/meta_limits.c - ranges of metadata values. Programs read these keys without a check, so a
 * value out of range breaks them, or is ignored. */
#include <fnmatch.h>
#include <string.h>

#include "base/attr.h"
#include "containers/qtype.h"
#include "jobs/meta_job.h"
#include "runtime/generate/run_set.h"

/* The first row whose pattern matches counts. hone's own sampling settings are in run_set.h. */
static const struct {
    const char *keys;
    double least, most;
} limits[] = {
    {"general.sampling.xtc_*", 0, 1},
    {"general.sampling.mirostat", 0, 2},
    {"general.sampling.mirostat_*", 0, 100},
    {"*.context_length", 1, INT32_MAX},
    {"*.embedding_length", 1, INT32_MAX},
    {"*.vocab_size", 1, INT32_MAX},
    {"*.rope.freq_base*", 1e-3, 1e15},
    {"*.rope.scaling.factor", 0, 1e6}, /* 0: no scaling */
    {"*.rope.scale_linear", 0, 1e6},   /* the same in older files */
    {"*.rope.scaling.original_context_length", 1, INT32_MAX},
    {"*_epsilon", 1e-30, 1},
};

/* Finds the range of a key; false: any value is valid. */
static bool range_of(const char *key, double *least, double *most) {
    if (run_set_range(key, least, most)) return true;
    for (size_t i = 0; i < COUNT_OF(limits); i++) {
        if (fnmatch(limits[i].keys, key, 0) != 0) continue;
        *least = limits[i].least;
        *most = limits[i].most;
        return true;
    }
    return false;
}

/* Returns ERR_USAGE unless general.file_type is the number of a type. */
static int check_file_type(const struct gguf_kv *kv, struct err *e) {
    enum { MOST = 1024 };
    int64_t last = 0;
    const double v = gguf_kv_f64(kv, 0);
    if (v <= MOST && qtype_ftype_name((int64_t)v)) return 0;
    for (int64_t i = 0; i < MOST; i++) /* MOST itself is the flag "guessed" */
        if (qtype_ftype_name(i)) last = i;
    return err_set(e, ERR_USAGE,
                   "key \"%s\": %.17g is not the number of a type; they are 0 to %lld, such as %d "
                   "for Q4_K_M",
                   kv->key, v, (long long)last, qtype_ftype_id("Q4_K_M"));
}

int meta_check_value(const struct gguf_kv *kv, struct err *e) {
    double least, most;
    if (kv->elem == GV_STR) return 0;
    if (strcmp(kv->key, "general.file_type") == 0) return check_file_type(kv, e);
    if (!range_of(kv->key, &least, &most)) return 0;
    for (uint64_t i = 0; i < kv->count; i++) {
        const double v = gguf_kv_f64(kv, i);
        if (v >= least && v <= most) continue; /* false for NaN */
        return err_set(e, ERR_USAGE, "key \"%s\": %.9g is out of range; values are %.10g to %.10g",
                       kv->key, v, least, most);
    }
    return 0;
}
