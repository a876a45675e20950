// SPDX-License-Identifier: MIT
/* runtime/engine/cuda/dry_program.h - the programs of a model, computed from its file's headers,
 * for hone plan and hone doctor. Loads no weights and opens no device. */
#ifndef HONE_RUNTIME_ENGINE_CUDA_DRY_PROGRAM_H
#define HONE_RUNTIME_ENGINE_CUDA_DRY_PROGRAM_H

#include "containers/gguf.h"
#include "kernels/kern.h"
#include "runtime/engine/program.h"
#include "runtime/engine/session.h"

/* A model's graph and its weights as stored in the file. */
struct dry_program {
    const struct arch *arch;
    struct graph g;
    enum qtype *type;  /* [n_weights] */
    uint64_t *n_bytes; /* [n_weights] */
    bool exact;        /* f32 activations */
    unsigned mask;     /* enabled fusions of a device (enum cuda_fuse) */
    const struct placement
        *place;  /* borrowed; NULL: the device computes all the experts it supports */
    bool brings; /* passes of many rows copy experts from main memory */
    int *layer_of,
        *part_of; /* [nodes] layer, [layers] device (dry_program_split); NULL: a single device */
};
/* Reads the structure of f. ERR_DATA: the architecture is unknown, or the file lacks a tensor of
 * the graph. */
int dry_program_open(struct dry_program *o, const struct gguf *f, enum act_mode act, struct err *e);
void dry_program_close(struct dry_program *o);
/* Spreads the layers evenly over the devices of d, except where o->place assigns them; does not
 * query device memory. Does nothing for a single device. */
void dry_program_split(struct dry_program *o, const struct device *d);

/* Return the executors' properties for this model with all weights on the device. They borrow o. */
struct target dry_program_cpu(const struct dry_program *o, enum batch batch);
/* Returns the target for compiling the graph for GPUs, without requiring one. */
struct target dry_program_cuda(const struct dry_program *o, enum batch batch);

/* Returns the first weight of a step used in a matrix product, or GR_NONE. */
gr_w dry_program_product(const struct dry_program *o, const struct step *s);
/* Returns why a step of a program is slower than it could be, or NULL. k: the kernels that the CPU
 * would use. */
const char *dry_program_cpu_note(const struct dry_program *o, const struct step *s,
                                 enum batch batch, const struct kern *k);
/* Returns why the step is slower than it could be, as text for a table; NULL if it is not. */
const char *dry_program_cuda_note(const struct dry_program *o, const struct step *s,
                                  enum batch batch);

#endif
