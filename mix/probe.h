// SPDX-License-Identifier: MIT
/* mix/probe.h - end-to-end probes: the divergence of candidates (a model with some groups
 * quantized) from that model, all on the same tokens. */
#ifndef HONE_MIX_PROBE_H
#define HONE_MIX_PROBE_H

#include "work/work.h"
#include "mix/sens.h"
#include "runtime/measure/eval.h"

enum { PROBE_SLOTS = 6 }; /* maximum */
enum { PROBE_LOOK = 8 };  /* windows after which precise probes end */
struct probe_data {       /* an encoded tensor */
    int64_t item;
    enum qtype type;
    struct weight w; /* owned */
    bool keep;       /* part of the mix: stays between batches */
};
struct probe {
    struct work *w; /* its results cache `kept` stores long measurements */
    const struct sens_source *from;
    struct model *base;
    struct model *cand[PROBE_SLOTS];          /* models of the sessions; NULL: the base */
    struct session *session[PROBE_SLOTS + 1]; /* [PROBE_SLOTS]: the base's */
    int n_slots; /* number of candidates at a time; fewer on a device with little memory */
    struct ids ids;
    int64_t ctx, n_chunks;
    char hash[33]; /* hash of the tokens */
    struct probe_data *data;
    int n_data;
};
/* Opens a model, with a session for it and one for each of n_slots candidates, and takes at most
 * n_chunks windows of ctx tokens, evenly from the texts. `from` must be the same file; borrowed. */
int probe_open(struct probe *p, struct work *w, const char *model, const struct str_list *texts,
               const struct sens_source *from, int64_t ctx, int64_t n_chunks, struct err *e);
void probe_close(struct probe *p);
/* Returns whether the forward pass uses the group. It does not use those in the layers of an MTP
 * block. */
bool probe_uses(const struct probe *p, const struct sens *s, int group);

struct probe_want { /* what a candidate quantizes */
    int group;      /* -1: every group of `joint`, in its joint_type */
    enum qtype type;
    struct sens_joint joint;
};
struct probe_got { /* a divergence, or a change of one, with the standard error */
    double kld, stderr_;
    int64_t n_windows;
};
/* Returns the total size of the weights that a candidate encodes. */
uint64_t probe_bytes(const struct sens *s, const struct probe_want *w);
/* Measures n <= n_slots candidates in one pass (stage 2), and fills got[n]. A candidate whose
 * standard error is small after PROBE_LOOK windows is not measured on the others.
 * Ranks (base/ranks.h) share out such batches; each rank measures all windows. */
int probe_alone(struct probe *p, const struct sens *s, const struct probe_want *w, int n,
                struct probe_got *got, struct err *e);
/* Measures a mix and n < n_slots changes of one group within it (stage 3). Fills got[n] with how
 * each changes the mix's divergence. */
int probe_steps(struct probe *p, const struct sens *s, const struct sens_mix *mix,
                const struct probe_want *w, int n, struct probe_got *got, struct err *e);
/* Frees the tensors of the last mix. */
void probe_forget(struct probe *p);

#endif
