// SPDX-License-Identifier: MIT
/* mix/sequential_int.h - the job of block-by-block quantization, and its finished tensors. Internal
 * to mix/sequential*.c. */
#ifndef HONE_MIX_SEQUENTIAL_INT_H
#define HONE_MIX_SEQUENTIAL_INT_H

#include "base/checkpoint.h"
#include "calib/gradients.h"
#include "calib/imatrix.h"
#include "calib/moments.h"
#include "calib/pair.h"
#include "mix/sequential.h"
#include "quantize/qplan.h"

struct side { /* one side: the original, or the file so far */
    struct session *s;
    float *residual; /* [n_chunks][ctx][n_embd] input of the current block */
};
struct seq_job {
    struct work *w;
    const struct sequential_opts *o;
    /* now: the base with the blocks that have been quantized so far; NULL: none yet. */
    struct model *base, *now;
    struct side side[2]; /* indexed by enum pair_side */
    struct gram_col *col;
    struct pair *pair;
    struct gradients *gradients;  /* of the base; NULL: moments of inputs only */
    struct dev_product *products; /* the device for large products; NULL: none */
    float *gate;                  /* [ctx] weights of an input's rows */
    int64_t chunk;                /* current chunk */
    struct qplan plan;
    struct imat imat;
    struct ids ids;
    int64_t *end;        /* end of each text, in chunks */
    struct weight *done; /* [n_done] encoded weights, owned */
    /* The `done` weights in the form that the file's writer takes; names are borrowed. */
    struct quantize_given *given;
    struct gram_learned *final; /* the same in the form of the file of moments */
    bool *exact;                /* [n_done] it holds the weights without loss, so it stays */
    int n_done;
    bool can_learn;
    bool is_learned;              /* by gradients: moments alone do not give the file */
    int64_t ctx, n_chunks, width; /* width of the residual */
    float *hidden;                /* scratch for the rows after the last block */
    /* Block of the current pass; for the head, the number of blocks. */
    int block;
    float *to;                    /* where the residual after the block goes */
    bool collecting;              /* observers collect */
    struct seq_saved {            /* finished blocks for a later run; see sequential_done.c */
        char *path, *what;        /* path NULL: none */
        struct checkpoint_r from; /* of an earlier run, at the next group */
        uint64_t left;            /* its groups that were not taken yet */
        int *end;                 /* [n] end of each finished group in `done` */
        int n, n_saved;           /* n_saved: of them, those in the checkpoint */
        bool changed;             /* tensors were learned since: nothing is saved */
        struct checkpoint_clock clock;
    } saved;
};

/* Returns whether a tensor is a separate output head. Tied embeddings are needed earlier, by the
 * first block. */
bool seq_is_head(const struct seq_job *j, const char *name);
/* Returns whether a tensor belongs to the blocks whose names begin with `head`; NULL: to none. */
bool seq_is_among(const char *name, const char *head);
/* Returns whether the model has more weights than may be learned: then only vectors are. */
bool seq_is_too_large(const struct seq_job *j);
/* Returns whether each block is learned once it is encoded. */
bool seq_learns_blocks(const struct seq_job *j);
/* Encodes the tensors whose names begin with `head`. NULL: the tensors outside of blocks, except
 * the output head, which comes last. Then `now` has them. */
int seq_encode(struct seq_job *j, const char *head, struct err *e);
/* Copies the F32 vectors of a block, or those outside of blocks (head NULL), which are to be
 * learned. */
int seq_keep_vectors(struct seq_job *j, const char *head, struct err *e);

/* The first group of finished tensors are those outside of blocks; each block is another. Groups
 * are saved next to the output now and then (base/checkpoint.h), so that the same command resumes
 * after them, with the same bytes. */
/* Opens the checkpoint of an earlier run. */
void seq_saved_open(struct seq_job *j);
/* Takes the next group from the checkpoint; sets *taken to false if it has no more. */
int seq_saved_take(struct seq_job *j, bool *taken, struct err *e);
/* Ends a group, and saves all of them if it is time. */
void seq_saved_add(struct seq_job *j);
/* Saves all groups before their tensors are changed; later calls save nothing. */
void seq_saved_last(struct seq_job *j);
/* Ends the job with the result rc: removes the checkpoint if the output is complete, and saves all
 * groups if the job was interrupted. */
void seq_saved_end(struct seq_job *j, int rc);
void seq_saved_release(struct seq_job *j);

#endif
