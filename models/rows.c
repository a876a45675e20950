// SPDX-License-Identifier: MIT
/* models/rows.c - what derive() and from_hf() of several architectures do. */
#include "models/rows.h"

#include <string.h>

#include "core/hfdir.h"
#include "core/json.h"

int derive_experts(struct hparams *h, struct err *e) {
    if (h->d[HD_EXPERTS_USED] > h->d[HD_EXPERTS])
        return err_set(e, ERR_DATA, "%lld experts are used of only %lld",
                       (long long)h->d[HD_EXPERTS_USED], (long long)h->d[HD_EXPERTS]);
    return hparams_mul(h, HD_FF_EXP2, 2, h->d[HD_FF_EXP], e);
}

/* What a config.json without it would mean. */
static const char *without_rope(const char *type) {
    return strcmp(type, "dynamic") == 0
               ? ": it changes positions beyond the original context length only, so without it "
                 "the model is right up to there"
               : "; leaving it out of config.json would give wrong positions, and no error";
}

int hf_check_rope(const struct hfdir *dir, struct err *e) {
    static const char *const where[] = {"rope_parameters", "rope_scaling"};
    for (int i = 0; i < 2; i++) {
        const struct json *rope = hfdir_hparam(dir, where[i]);
        const char *type = json_str(json_get(rope, "rope_type"));
        if (!type) type = json_str(json_get(rope, "type"));
        if (type && strcmp(type, "default") != 0 && strcmp(type, "mrope") != 0 &&
            strcmp(type, "yarn") != 0)
            return err_set(e, ERR_DATA,
                           "%s asks for rope_type \"%.40s\", which is not computed yet, so this "
                           "model cannot be converted%s",
                           where[i], type, without_rope(type));
    }
    return 0;
}

int hf_check_off(const struct hfdir *dir, const char *const *names, struct err *e) {
    for (; *names; names++)
        if (json_bool(hfdir_hparam(dir, *names), false))
            return err_set(e, ERR_DATA, "%s is true, which this architecture cannot hold", *names);
    return 0;
}
