// SPDX-License-Identifier: MIT
/* mix/joint.c - joint probes: their list and cost, and the fit of the groups' losses to them. */
#include "mix/joint.h"

#include "base/num.h"

const char *const probes_name[PROBES_COUNT] = {"joint", "all", "slopes"};

/* ---- cost ------------------------------------------------------------------------------------ */

/* Passes of a probe that begins at the first block, and of one that begins at an average block.
 * Both include a share of the base's pass and the comparison of logits. */
static const double whole_pass = 1.35, half_pass = .85;

static void count_all(const int *layers, int n_roles, int64_t n_types, int64_t bands,
                      int64_t n_groups, struct probe_cost *out) {
    for (int r = 0; r < n_roles; r++)
        out->n_probes += n_types * (bands > 0 ? min_i64(bands, layers[r]) : layers[r]);
    out->passes = half_pass * (double)out->n_probes;
    out->encoded = (double)out->n_probes / (double)max_i64(1, n_groups);
}

void probe_cost(enum probes how, const int *layers, int n_roles, int64_t n_types, int64_t bands,
                struct probe_cost *out) {
    int64_t n_groups = 0, n_blocks = 0, n_used = 0;
    *out = (struct probe_cost){0};
    for (int r = 0; r < n_roles; r++) {
        n_groups += layers[r];
        n_blocks = max_i64(n_blocks, layers[r]);
        n_used += layers[r] > 0;
    }
    if (how == PROBES_SLOPES) return;
    if (how == PROBES_ALL) {
        count_all(layers, n_roles, n_types, bands, n_groups, out);
        return;
    }
    const int64_t singles = min_i64(JOINT_SINGLES, n_groups);
    out->n_probes = n_used + 1 + n_blocks + singles;
    out->passes = whole_pass * (double)(n_used + 1) + half_pass * (double)(n_blocks + singles);
    out->encoded = 3 + (double)singles / (double)max_i64(1, n_groups);
}
