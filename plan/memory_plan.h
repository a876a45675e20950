// SPDX-License-Identifier: MIT
/* plan/memory_plan.h - will a model fit a card, at which context, with what left outside? */
#ifndef HONE_PLAN_MEMORY_PLAN_H
#define HONE_PLAN_MEMORY_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "work/work.h"
#include "models/sizes.h"

#define PLAN_USUAL_RESERVE UINT64_MAX
struct memory_plan_opts {
    const char *const *path; /* [n_paths] GGUF files or folders; of one file everything is shown */
    int n_paths;
    const char *kv_name; /* type of keys and values, "q8_0" or "q8_0/q4_0" */
    const char *plot;    /* SVG of memory by context, or NULL */
    const char *act;     /* activations of `launches`, or NULL */
    const char *vram;    /* "24GiB", of several cards "24GiB,16GiB"; NULL: none is asked about */
    uint64_t reserve;    /* bytes to keep free, or PLAN_USUAL_RESERVE */
    int64_t ctx;         /* tokens per slot; 0: as trained */
    int64_t slots;       /* conversations at the same time */
    bool recipes;        /* also exact sizes of this model by every recipe */
    bool launches;       /* instead: what a pass does step by step */
};
extern const struct memory_plan_opts memory_plan_usual;
/* Returns ERR_USAGE when slots or ctx are out of range. */
int memory_plan_check(const struct memory_plan_opts *o, struct err *e);
/* Computes the sizes of a model from its headers; *a: its architecture. */
int plan_sizes(const struct gguf *g, struct sizes *z, const struct arch **a, struct err *e);
/* Reads from a file's headers what its parts take in memory, its architecture and its bytes. */
int plan_read_sizes(const char *path, struct sizes *z, const struct arch **a, uint64_t *file_bytes,
                    struct err *e);
/* Fills m from the headers of the file. Returns ERR_VERDICT when nothing of it fits the card; m is
 * complete then too. */
int memory_plan_run(struct work *w, const struct memory_plan_opts *o, struct emit *m,
                    struct err *e);

#endif
