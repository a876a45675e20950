// SPDX-License-Identifier: MIT
/* work/work.c - settings of a job, choice of device, and lists of strings. */
#include "work/work.h"

#include <string.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/machine.h"
#include "work/isa_choice.h"
#include "kernels/cuda/cuda.h"
#include "quantize/enc/enc.h"
#include "runtime/engine/placement.h"
#include "text/size.h"

/* Parses --max-vram: one size ("20GiB"), or one per device ("20GiB,10GiB"). */
static int most_of(const char *text, struct device *d, struct err *e) {
    char one[32];
    for (int i = 0;; i++) {
        const size_t n = strcspn(text, ",");
        if (n >= sizeof one || (i && i > d->n_more))
            return err_set(e, ERR_USAGE,
                           "--max-vram: give a size, or one for each device of --device");
        memcpy(one, text, n);
        one[n] = 0;
        TRY(size_parse(one, "--max-vram", i ? &d->more_bytes[i - 1] : &d->max_bytes, e));
        if (!text[n]) return 0;
        text += n + 1;
    }
}

/* Chooses the device and its memory limit. */
static int set_device(struct work *w, const struct work_how *how, struct err *e) {
    TRY(device_parse(how->device, &w->device, e));
    const bool asked = how->device && strcmp(how->device, "auto") != 0;
    w->device.by_default = how->default_device && !asked;
    if (w->device.by_default && cu_built())
        w->device.kind = DEVICE_AUTO;
    else if (w->device.by_default)
        w->device.unused_card = machine_has_nvidia(how->root ? how->root : "");
    if (how->stream_from >= 0) w->device.stream_from = how->stream_from ? how->stream_from : -1;
    if (how->place) {
        struct placement *p = arena_array(&w->mem, 1, sizeof *p);
        TRY(placement_read(p, how->place, e));
        w->device.place = p;
    }
    if (how->max_vram) TRY(most_of(how->max_vram, &w->device, e));
    if (how->max_vram && !cu_built())
        log_warn("--max-vram has no effect: this hone is built without CUDA");
    return 0;
}

int work_set(struct work *w, const struct work_how *how, struct err *e) {
    if (how->threads < 0 || how->threads > 4096)
        return err_set(e, ERR_USAGE, "--threads: at most 4096");
    w->threads = (int)how->threads;
    w->overwrite = how->overwrite;
    w->pack_cache = how->pack_cache;
    w->choices = how->choices;
    limits_untrusted(how->untrusted);
    mem_limit(how->max_memory);
    w->isa_given = how->isa && strcmp(how->isa, "auto") != 0;
    if (!w->isa_given)
        w->isa = choice_isa(how->choices);
    else if (!kern_isa_parse(how->isa, &w->isa))
        return err_set(e, ERR_USAGE, "--isa: '%s' is not one of " KERN_ISA_NAMES, how->isa);
    if (!kern_isa_has(w->isa))
        return err_set(e, ERR_SYS, "--isa: this machine has no %s; the best it has is %s", how->isa,
                       kern_isa_name(kern_isa_best()));
    enc_use(w->isa);
    return set_device(w, how, e);
}

void work_device(struct work *w) {
    int n = 0;
    struct err e;
    if (!w->device.by_default || w->device.kind != DEVICE_AUTO) return;
    if (cu_devices(&n, &e)) log_warn("computing on the CPU: %s", e.msg);
    if (n <= 0) w->device.kind = DEVICE_CPU;
}

int work_pool(struct work *w, struct err *e) {
    TRY(ctx_team(w->ctx, w->threads, e));
    w->pool = w->ctx->pool;
    work_device(w);
    return 0;
}

void work_list_add(struct work *w, struct str_list *l, const char *value) {
    /* The array is full at every power of two. Old arrays stay in the arena, so the list takes
     * twice its size. */
    if ((l->n & (l->n - 1)) == 0) {
        const char **v = arena_array(&w->mem, l->n ? 2 * (size_t)l->n : 1, sizeof *v);
        if (l->n) memcpy(v, l->v, (size_t)l->n * sizeof *v);
        l->v = v;
    }
    l->v[l->n++] = value;
}

void work_split(struct work *w, const char *text, struct str_list *out) {
    while (*text) {
        size_t n = strcspn(text, ",");
        if (n) work_list_add(w, out, arena_strndup(&w->mem, text, n));
        text += n + (text[n] == ',');
    }
}

int act_parse(const char *text, enum act_mode *out, struct err *e) {
    const bool exact = strcmp(text, ACT_EXACT) == 0;
    if (!exact && strcmp(text, ACT_FAST) != 0)
        return err_set(e, ERR_USAGE, "--act: '%s' is not " ACT_EXACT " or " ACT_FAST, text);
    *out = exact ? ACT_F32 : ACT_Q8;
    return 0;
}
