// SPDX-License-Identifier: MIT
/* mix/joint.h - joint probes: the divergence with many groups quantized at once (all layers of a
 * role, all roles of a block, everything). They give row and column sums of a table whose cells are
 * the groups; slopes fill in the shape between them. docs/design/mix.md, "Joint probes". */
#ifndef HONE_MIX_JOINT_H
#define HONE_MIX_JOINT_H

#include "mix/sens.h"

enum probes {                /* what stage 2 probes */
              PROBES_JOINT,  /* roles, blocks, everything; then single groups while it pays */
              PROBES_ALL,    /* every group alone */
              PROBES_SLOPES, /* nothing: gradients only */
              PROBES_COUNT
};
extern const char *const probes_name[PROBES_COUNT];

enum { JOINT_SINGLES = 6 }; /* single probes per round after the joint ones; at least one round */

/* Cost of stage 2. */
struct probe_cost {
    int64_t n_probes;
    double passes;  /* forward passes over all windows, the base's included */
    double encoded; /* weights encoded, relative to the model's */
};
/* Counts the probes of a model with layers[r] groups of role r, before anything is measured.
 * n_types and bands apply to PROBES_ALL (struct mix_probe_opts). A joint plan contains one round of
 * single probes; more follow only if that round shows that the fit is poor. */
void probe_cost(enum probes how, const int *layers, int n_roles, int64_t n_types, int64_t bands,
                struct probe_cost *out);

/* Returns a layer's rank when n layers are halved repeatedly: first, last, middle, quarters... */
int joint_rank(int at, int n);
/* Sets joint_type of the groups with used[i]: the type nearest to 3.4 bits that is fast to encode.
 */
void joint_types(struct sens *s, const bool *used);
bool joint_has(const struct sens_joint *j, const struct sens_group *g);
/* Lists the joint probes of the groups with a joint_type, the most useful first; results are not
 * set. Returns their number, at most SENS_MAX_JOINT. */
int joint_list(const struct sens *s, struct sens_joint *out);
/* Sets fit and fit_sd of every group in a joint probe: the most probable losses given the slopes
 * (without them, priors), joint probes and single probes, each with its error. Without joint probes
 * it sets both to 0. */
void joint_fit(struct sens *s);
struct joint_choice { /* groups to probe alone next */
    int n, group[JOINT_SINGLES];
    /* Divergence, relative to the best mix, that errors of the losses are expected to cost: now,
     * and after these probes. */
    double risk, after;
};
/* Chooses at most `most` groups, those whose probes are expected to reduce the risk most. */
void joint_choose(const struct sens *s, int most, struct joint_choice *out);

#endif
