// SPDX-License-Identifier: MIT
/* mix/probe.h - end-to-end probes: candidates that differ from a model in the tensors of some
 * groups, which are encoded, compared with it on common tokens. */
#ifndef HONE_MIX_PROBE_H
#define HONE_MIX_PROBE_H

#include "work/work.h"
#include "mix/sens.h"
#include "runtime/measure/eval.h"

enum { PROBE_SLOTS = 6 }; /* at most */
struct probe_data {       /* one encoded tensor */
    int64_t item;
    enum qtype type;
    struct weight w; /* held */
    bool keep;       /* of the mix: stays over batches */
};
struct probe {
    struct work *w; /* its `kept`: windows that took long are kept there */
    const struct sens_source *from;
    struct model *base;
    struct model *cand[PROBE_SLOTS];          /* what the sessions compute with; NULL: the base */
    struct session *session[PROBE_SLOTS + 1]; /* [PROBE_SLOTS]: the base's */
    int n_slots; /* candidates at a time; fewer on a device without room for more */
    struct ids ids;
    int64_t ctx, n_chunks;
    char hash[33]; /* of the tokens */
    struct probe_data *data;
    int n_data;
};
/* Opens a model with a session for it and for each of n_slots candidates, and takes windows of
 * ctx tokens, at most n_chunks, evenly from the texts. `from` is of the same file and borrowed. */
int probe_open(struct probe *p, struct work *w, const char *model, const struct str_list *texts,
               const struct sens_source *from, int64_t ctx, int64_t n_chunks, struct err *e);
void probe_close(struct probe *p);
/* Tells whether the forward pass uses the group; it does not use the layers of an MTP block. */
bool probe_uses(const struct probe *p, const struct sens *s, int group);

struct probe_want {
    int group;
    enum qtype type;
};
struct probe_got { /* a divergence, or how much one changed; its standard error */
    double kld, stderr_;
};
/* Measures groups each alone in its type (stage 2), n <= n_slots of them in one pass, and fills
 * got[n]. Each rank (base/ranks.h) measures all windows: what is shared out are such batches. */
int probe_alone(struct probe *p, const struct sens *s, const struct probe_want *w, int n,
                struct probe_got *got, struct err *e);
/* Measures a mix with each of n < n_slots changes of one group within it (stage 3), and fills
 * got[n] with how much each changes the divergence of the mix. */
int probe_steps(struct probe *p, const struct sens *s, const struct sens_mix *mix,
                const struct probe_want *w, int n, struct probe_got *got, struct err *e);
/* Forgets the tensors of the last mix. */
void probe_forget(struct probe *p);

#endif
