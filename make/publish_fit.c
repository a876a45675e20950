// SPDX-License-Identifier: MIT
/* make/publish_fit.c - the memory table of a release. Each cell names the recommended file
 * (pick_file) or, if that does not fit, the closest file that does; without measurements, the one
 * with the most bits.
 *
 * Usable memory: a card's minus 1 GiB; 2/3 of unified memory up to 36 GiB, 3/4 above (macOS's limit
 * for the GPU); main memory minus 3 GiB; in each case minus the projector file. The KV cache is
 * assumed to be f16, for one conversation. */
#include "make/publish_fit.h"

#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "plan/memory_plan.h"
#include "models/fit.h"
#include "report/pick.h"
#include "runtime/engine/kv_type.h"

struct judge {
    struct release *r;
    const struct result *res;
    struct sizes *z; /* sizes of each file */
    bool *ok;
};

/* Returns the index of file i in the results; -1 if it was not measured. */
static int result_index(const struct judge *j, int i) {
    for (int k = 0; j->res && k < j->res->n_files; k++)
        if (strcmp(j->res->file[k].file, j->r->file[i].file) == 0) return k;
    return -1;
}

/* Ranks a file as a choice; lower is better: the recommended file first, then the closest. */
static double badness(const struct judge *j, int i) {
    const struct release_file *f = &j->r->file[i];
    const int k = result_index(j, i);
    /* The file from which the others were made is the last choice. */
    if (f->is_float) return 1e3;
    if (k < 0 || pick_grade(j->res, k).band == PICK_UNKNOWN) return 100 - f->bpw;
    return k == pick_file(j->res) ? -1 : j->res->file[k].mean_kld;
}

/* Returns the index of the best file that fits; -1: none does. */
static int best_file(const struct judge *j) {
    int best = -1;
    for (int i = 0; i < j->r->n_files; i++)
        if (j->ok[i] && (best < 0 || badness(j, i) < badness(j, best))) best = i;
    return best;
}

/* Returns the index in the release of the file that pick_file recommends; -1: no file, or it is not
 * in the release. */
static int recommended(const struct judge *j) {
    const int k = j->res ? pick_file(j->res) : -1;
    for (int i = 0; k >= 0 && i < j->r->n_files; i++)
        if (result_index(j, i) == k) return i;
    return -1;
}

/* Returns how much of a memory can hold what fit.h counts. That excludes the projector, and
 * embeddings, because they are not on a card. */
static uint64_t usable(const struct release *r, enum release_memory kind, int gib,
                       const struct sizes *z) {
    uint64_t all = (uint64_t)gib << 30, on = sizes_device(z), whole = sizes_weights(z);
    uint64_t beside = release_projector(r);
    if (kind == RELEASE_GPU) all -= fit_reserve(all);
    if (kind == RELEASE_RAM) all -= UINT64_C(3) << 30;
    if (kind == RELEASE_UNIFIED) all = gib <= 36 ? all / 3 * 2 : all / 4 * 3;
    if (kind != RELEASE_GPU && whole > on) beside += whole - on;
    return all > beside ? all - beside : 0;
}

/* Returns a request for the k-th context. */
static struct fit_ask ask_of(const struct release *r, uint64_t memory, int k) {
    return (struct fit_ask){.memory = memory,
                            .n_ctx = r->fit_ctx[k],
                            .n_slots = 1,
                            .kv_type = kv_type_find(KV_USUAL)->type};
}

/* Computes the GPU memory that each file needs with the shortest context. */
static void set_needs(const struct judge *j) {
    const struct fit_ask ask = ask_of(j->r, 0, 0);
    for (int i = 0; i < j->r->n_files; i++) {
        struct fit_use u;
        if (j->ok[i] && fit_use(&j->z[i], &ask, 0, 0, &u))
            j->r->file[i].need = u.total + release_projector(j->r);
    }
}

/* Finds the best file for one cell. If no file fits completely on a card, a file's experts may be
 * in main memory. */
static void cell(const struct judge *j, struct release_fit *row, int k) {
    double best = 0;
    row->file[k] = -1;
    row->cpu_moe[k] = 0;
    for (int experts = 0; experts <= (row->kind == RELEASE_GPU) && row->file[k] < 0; experts++)
        for (int i = 0; i < j->r->n_files; i++) {
            struct fit f;
            if (!j->ok[i]) continue;
            const struct fit_ask ask = ask_of(j->r, usable(j->r, row->kind, row->gib, &j->z[i]), k);
            if (!fit_find(&j->z[i], &ask, &f)) continue;
            if (f.way != (experts ? FIT_EXPERTS : FIT_ALL)) continue;
            if (row->file[k] >= 0 && badness(j, i) >= best) continue;
            row->file[k] = i;
            row->cpu_moe[k] = experts ? f.n : 0;
            best = badness(j, i);
        }
}

/* Adds a row for each memory size up to the first that fits the best file. */
static void add_fit_rows(struct judge *j, enum release_memory kind, const int *gib, size_t n) {
    struct release *r = j->r;
    int top = r->fit_best, first = r->n_fits;
    for (size_t i = 0; i < n && gib[i] && r->n_fits < RELEASE_MAX_FITS; i++) {
        struct release_fit row = {.kind = kind, .gib = gib[i]};
        bool any = false, all = top >= 0;
        for (int k = 0; k < RELEASE_CONTEXTS; k++) {
            row.file[k] = -1;
            if (!r->fit_ctx[k]) continue;
            cell(j, &row, k);
            any |= row.file[k] >= 0;
            all &= row.file[k] == top && !row.cpu_moe[k];
        }
        if (!any) r->n_fits = first; /* of the rows without a file, only the last is kept */
        r->fit[r->n_fits++] = row;
        if (all) {
            r->enough_gib[kind] = gib[i];
            break;
        }
    }
    bool said = r->n_fits == first + 1 && r->enough_gib[kind]; /* enough_gib already says it */
    if (said) r->n_fits = first;
}

void publish_fit(struct release *r, const struct result *res) {
    static const int gib[RELEASE_MEMORIES][13] = {
        [RELEASE_GPU] = {8, 12, 16, 24, 32, 48, 80, 96, 141},
        [RELEASE_UNIFIED] = {16, 24, 32, 48, 64, 96, 128, 192, 256, 512},
        [RELEASE_RAM] = {8, 16, 32, 64, 128, 256, 512, 1024}};
    static const int64_t ctx[RELEASE_CONTEXTS] = {8192, 32768, 131072};
    struct judge j = {r, res, xcalloc((size_t)r->n_files + 1, sizeof *j.z),
                      xcalloc((size_t)r->n_files + 1, sizeof *j.ok)};
    int64_t trained = 0;
    bool any = false;
    for (int i = 0; i < r->n_files; i++) {
        char *path = io_join(r->dir, r->file[i].file);
        const struct arch *arch;
        uint64_t bytes;
        struct err e;
        j.ok[i] = plan_read_sizes(path, &j.z[i], &arch, &bytes, &e) == 0;
        if (!j.ok[i]) log_debug("%s: no memory figures: %s", path, e.msg);
        if (j.ok[i]) trained = j.z[i].n_ctx_train;
        any |= j.ok[i];
        free(path);
    }
    for (int k = 0; k < RELEASE_CONTEXTS && any; k++) {
        bool last = trained > 0 && trained <= ctx[k];
        r->fit_ctx[k] = last ? trained : ctx[k];
        if (last) break;
    }
    if (any) set_needs(&j);
    r->fit_best = best_file(&j);
    r->recommended = recommended(&j);
    for (int kind = 0; kind < RELEASE_MEMORIES && any; kind++)
        add_fit_rows(&j, (enum release_memory)kind, gib[kind], COUNT_OF(gib[kind]));
    free(j.ok);
    free(j.z);
}
