// SPDX-License-Identifier: MIT
/* runtime/exec_cuda.h - what the files of the CUDA backend share. Internal to runtime/.
 *
 * Everything a pass needs lies on the device from session_new on: weights as the file has them,
 * vectors (norms, biases, convolutions) as f32, registers, cache, states, and the position, which
 * kernels read from device memory so that a captured step serves every position. */
#ifndef HONE_RUNTIME_EXEC_CUDA_H
#define HONE_RUNTIME_EXEC_CUDA_H

#include "kernels/cuda/cuda.h"
#include "runtime/exec.h"

enum { HEAD_ROWS = 64 }; /* rows of the head computed together */

struct cuda_weight {
    struct cu_weight w;       /* matrices */
    struct cu_buf *buf;       /* owned; NULL: another weight's (tied), or not used */
    const float *vec;         /* vectors: f32 */
    uint64_t version;         /* of struct weight, as uploaded */
    bool is_matrix, is_vec;   /* used as */
    bool is_product, is_read; /* a matrix: by products that may be fast; in the file's order */
};
struct cuda_kv {
    struct cu_kv k, v;
    struct cu_buf *kb, *vb;
};
struct cuda_rec {
    float *ring, *delta;
    struct cu_buf *buf;
    int64_t n_ring, n_delta; /* floats */
};
struct cuda_rope {
    double *freq, m;
    float *cs;
    struct cu_buf *buf;
};
struct cuda { /* session->dev */
    struct cu_ctx *ctx;
    struct cu_stream *q;
    struct cu_info info;
    struct cuda_weight *w; /* [n_weights] */
    struct cuda_kv *kv;    /* [attention slots] */
    struct cuda_rec *rec;  /* [recurrent slots] */
    struct cuda_rope rope[ROPE_TABS];
    struct cu_buf *reg_buf, *work, *stage;
    float **reg; /* [n_regs] -> [n_ubatch][width] */
    /* in `work` */
    int32_t *ids, *pos, *expert, *arrived;
    float *router, *p, *hidden; /* [n_ubatch][experts], [n_ubatch][used]; [pairs][expert width] */
    float *part;                /* partial sums of attention */
    float *head_x, *logits;     /* [HEAD_ROWS][n_embd], [HEAD_ROWS][n_vocab] */
    int64_t n_splits;
    int32_t *host_ids;  /* pinned: position, then ids of the pass */
    float *host_logits; /* pinned: of one token */

    struct cu_graph *step; /* one token and its logits, captured; NULL: not yet */
    bool warm;             /* a token has run since weights last changed */
    bool exact;            /* f32 activations */
    struct err lost;       /* of a call that could not report: the next pass does */
};

/* One pass: every node of the graph, queued. */
int exec_cuda_nodes(struct session *s, struct err *e);
/* A gated unit with these weights has a packed form (up GR_NONE: in one tensor with the gate). */
bool exec_cuda_glu_packs(const struct session *s, gr_w gate, gr_w up);
int exec_cuda_moe(struct session *s, const struct gr_node *n, struct err *e);
/* n floats of device memory for an observer; free(). */
int exec_cuda_fetch(struct session *s, const float *src, int64_t n, float **out, struct err *e);
/* Shows the rows of a register to session->see, if there is one. */
int exec_cuda_show(struct session *s, gr_w w, const float *src, int64_t n_rows, int64_t ld,
                   struct err *e);

#endif
