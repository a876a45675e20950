// SPDX-License-Identifier: MIT
/* containers/gguf_part.c - purpose of a GGUF file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "containers/gguf.h"

/* Returns whether all blocks of the file are MTP blocks, the last ones of block_count. */
static bool only_mtp(const struct gguf *g, const char *arch) {
    char key[2][160];
    if (snprintf(key[0], sizeof key[0], "%s.block_count", arch) >= (int)sizeof key[0]) return false;
    if (snprintf(key[1], sizeof key[1], "%s.nextn_predict_layers", arch) >= (int)sizeof key[1])
        return false;
    const uint64_t n = gguf_u64_or(g, key[0], 0), n_mtp = gguf_u64_or(g, key[1], 0);
    bool any = false;
    if (!n_mtp || n_mtp >= n) return false;
    for (int64_t i = 0; i < gguf_n_tensors(g); i++) {
        const char *name = gguf_tensor_at(g, i)->name;
        if (strncmp(name, "blk.", 4) != 0) continue;
        any = true;
        if (strtoull(name + 4, NULL, 10) < n - n_mtp) return false;
    }
    return any;
}

const char *gguf_draft_kind(const struct gguf *g) {
    static const char *const kinds[][2] = {
        {"eagle3", "eagle3"}, {"dflash", "dflash"}, {"gemma4-assistant", "mtp"}};
    const char *arch = gguf_str_or(g, "general.architecture", "");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(arch, kinds[i][0]) == 0) return kinds[i][1];
    return only_mtp(g, arch) ? "mtp" : NULL;
}

const char *gguf_projector_type(const struct gguf *g) {
    const char *own = gguf_str_or(g, "clip.vision.projector_type", "");
    return *own ? own : gguf_str_or(g, "clip.projector_type", "");
}

enum gguf_part gguf_part_of(const struct gguf *g) {
    if (strcmp(gguf_str_or(g, "general.architecture", ""), "clip") == 0) return GGUF_TOWER;
    if (strcmp(gguf_str_or(g, "general.type", "model"), "model") != 0) return GGUF_OTHER;
    return gguf_draft_kind(g) ? GGUF_DRAFT : GGUF_MODEL;
}
