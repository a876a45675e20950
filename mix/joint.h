// SPDX-License-Identifier: MIT
/* mix/joint.h - joint probes: the divergence with many groups quantized at the same time (all
 * layers of a role, all roles of a block, everything). They give the row and column sums of a table
 * whose cells are the groups; slopes supply the shape in between. See docs/design/mix.md, "Joint
 * probes". */
#ifndef HONE_MIX_JOINT_H
#define HONE_MIX_JOINT_H

#include "mix/sens.h"

enum probes {                /* what stage 2 probes */
              PROBES_JOINT,  /* roles, blocks, everything; then single groups while they help */
              PROBES_ALL,    /* every group alone */
              PROBES_SLOPES, /* nothing: gradients only */
              PROBES_COUNT
};
extern const char *const probes_name[PROBES_COUNT];

enum {
    JOINT_SINGLES = 6
}; /* single probes per round, after the joint probes; there is at least one round */

/* Cost of stage 2. */
struct probe_cost {
    int64_t n_probes;
    /* Forward passes per window, including the base's: of joint probes, which usually end after
     * PROBE_LOOK windows, and of single ones. */
    double joint_passes, single_passes;
    double encoded; /* number of weights encoded, relative to those of the model */
};
/* Counts the probes for a model with layers[r] groups of role r, before anything has been measured.
 * n_types and bands apply to PROBES_ALL (struct mix_probe_opts). A joint plan contains one round of
 * single probes; more rounds follow only if the first shows that the fit is poor. */
void probe_cost(enum probes how, const int *layers, int n_roles, int64_t n_types, int64_t bands,
                struct probe_cost *out);

/* Returns a layer's rank in the order that results from halving n layers repeatedly: first, last,
 * middle, quarters... */
int joint_rank(int at, int n);
/* Sets joint_type of the groups with used[i]: of the types that are fast to encode, the nearest to
 * 3.4 bits. */
void joint_types(struct sens *s, const bool *used);
/* Returns whether s has a joint probe of j's role and block. */
bool joint_known(const struct sens *s, const struct sens_joint *j);
/* Returns whether the joint probe j covers group g. */
bool joint_has(const struct sens_joint *j, const struct sens_group *g);
/* Lists the joint probes of the groups that have a joint_type, the most useful first; results are
 * not set. Returns their number, at most SENS_MAX_JOINT. */
int joint_list(const struct sens *s, struct sens_joint *out);
/* Sets fit and fit_sd of every group in a joint probe: the most probable losses given the slopes
 * (without slopes, priors), joint probes and single probes, each with its error. If there are no
 * joint probes, sets both to 0. */
void joint_fit(struct sens *s);
struct joint_choice { /* groups to be probed alone next */
    int n, group[JOINT_SINGLES];
    /* Expected cost of errors in the losses, as divergence relative to the best mix: now, and after
     * these probes. */
    double risk, after;
};
/* Chooses at most `most` groups: those whose probes are expected to reduce the risk most. */
void joint_choose(const struct sens *s, int most, struct joint_choice *out);

#endif
