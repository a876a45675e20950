// SPDX-License-Identifier: MIT
/* quantize/synth.h - models with random weights and the shapes, types and metadata of real ones,
 * for measuring speed and memory without downloading weights. */
#ifndef HONE_QUANTIZE_SYNTH_H
#define HONE_QUANTIZE_SYNTH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "containers/gguf.h"
#include "base/pool.h"
#include "containers/qtype.h"
#include "base/rng.h"
#include "models/arch.h"

struct synth_opts {
    const char *shape;  /* name of a built-in shape, or path of a config.json */
    const char *recipe; /* "Q4_K_M", or the name of a type */
    const char *out;
    int64_t layers; /* 0: as in the shape */
    uint64_t seed;
    double skew; /* 0: routers choose experts evenly; see synth.c */
    bool overwrite, dry_run;
    struct pool *pool;
    /* Writes the keys of a vocabulary of at most n_vocab tokens; NULL: no vocabulary. */
    int (*vocab)(void *ud, int64_t n_vocab, struct gguf_w *w, struct err *e);
    void *vocab_ud;
};
struct synth_report {
    char arch[32], recipe[64];
    int64_t n_tensors, n_layers, n_weights;
    uint64_t tensor_bytes, file_bytes; /* file_bytes: exact even with dry_run */
    double seconds;
};
/* Writes the file, using 16 MiB of memory. The bytes depend on the options only, not on the
 * number of threads. Returns ERR_USAGE for unknown shapes, recipes and types that cannot be
 * generated, ERR_DATA for a bad config.json. */
int synth_run(const struct synth_opts *o, struct synth_report *r, struct err *e);

/* Returns the tensor's type after conversion from a BF16 checkpoint. */
enum qtype synth_stored(const struct tensor_inst *t);

/* Fills n_blocks blocks of type t with random codes and small scales; the large scales give
 * weights with a root mean square of 0.02. Returns false for types without such blocks. */
bool synth_blocks(enum qtype t, struct rng *r, void *dst, int64_t n_blocks);

#endif
