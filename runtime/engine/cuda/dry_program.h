// SPDX-License-Identifier: MIT
/* runtime/engine/cuda/dry_program.h - the programs of a model, from the headers of its file: what
 * hone plan and hone doctor print. Nothing is loaded and no device is opened. */
#ifndef HONE_RUNTIME_ENGINE_CUDA_DRY_PROGRAM_H
#define HONE_RUNTIME_ENGINE_CUDA_DRY_PROGRAM_H

#include "containers/gguf.h"
#include "kernels/kern.h"
#include "runtime/engine/program.h"
#include "runtime/engine/session.h"

/* A model's graph and its weights as the file has them. */
struct dry_program {
    const struct arch *arch;
    struct graph g;
    enum qtype *type;  /* [n_weights] */
    uint64_t *n_bytes; /* [n_weights] */
    bool exact;        /* f32 activations */
    unsigned mask;     /* of a device: what is fused (enum cuda_fuse) */
    const struct placement
        *place;              /* borrowed, or NULL: all experts on the device that it computes */
    bool brings;             /* passes of many rows bring experts that lie in main memory */
    int *layer_of, *part_of; /* [nodes] layer, [layers] which of several devices
                                (dry_program_split); NULL: there is one */
};
/* Reads the outline of f. ERR_DATA when the architecture is not known or the file lacks a tensor
 * of the graph. */
int dry_program_open(struct dry_program *o, const struct gguf *f, enum act_mode act, struct err *e);
void dry_program_close(struct dry_program *o);
/* Spreads the layers over the devices of d, as many to each, unless o->place says otherwise; the
 * devices are not asked for their memory. Does nothing where d has only one. */
void dry_program_split(struct dry_program *o, const struct device *d);

/* Return what the executors are like for such a model when all weights are on the device. They
 * borrow o. */
struct target dry_program_cpu(const struct dry_program *o, enum batch batch);
struct target dry_program_cuda(const struct dry_program *o, enum batch batch);

/* Returns the first weight of a step that enters a matrix product, or GR_NONE when none does. */
gr_w dry_program_product(const struct dry_program *o, const struct step *s);
/* Returns why a step of a program is slower than it could be, or NULL when there is nothing to
 * say. k are the kernels that the CPU would use. */
const char *dry_program_cpu_note(const struct dry_program *o, const struct step *s,
                                 enum batch batch, const struct kern *k);
const char *dry_program_cuda_note(const struct dry_program *o, const struct step *s,
                                  enum batch batch);

#endif
