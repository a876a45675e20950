// SPDX-License-Identifier: MIT
/* quantize/synth.h - models of random weights with the shapes, types and metadata of real ones, for
 * speed and memory work without weights. */
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
    const char *shape;  /* name of a built-in shape, or the path of a config.json */
    const char *recipe; /* "Q4_K_M", or a single type's name */
    const char *out;
    int64_t layers; /* 0: as the shape has */
    uint64_t seed;
    double skew; /* 0: routers choose experts evenly; synth.c says what else */
    bool overwrite, dry_run;
    struct pool *pool;
    /* Writes the keys of a vocabulary of at most n_vocab tokens; NULL: the model has none. */
    int (*vocab)(void *ud, int64_t n_vocab, struct gguf_w *w, struct err *e);
    void *vocab_ud;
};
struct synth_report {
    char arch[32], recipe[64];
    int64_t n_tensors, n_layers, n_weights;
    uint64_t tensor_bytes, file_bytes; /* file_bytes: exact, also with dry_run */
    double seconds;
};
/* Makes the file. The bytes are the same for the same options, with any number of threads.
 * Memory is 16 MiB. ERR_USAGE for unknown shapes, recipes and types that cannot be made,
 * ERR_DATA for a bad config.json. */
int synth_run(const struct synth_opts *o, struct synth_report *r, struct err *e);

/* Returns the type that converting a BF16 checkpoint gives a tensor. */
enum qtype synth_stored(const struct tensor_inst *t);

/* Fills n_blocks blocks of a quantized or float type: any codes and small scales; the large scales
 * such that weights have root mean square 0.02. False: no such blocks can be made. */
bool synth_blocks(enum qtype t, struct rng *r, void *dst, int64_t n_blocks);

#endif
