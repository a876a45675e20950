// SPDX-License-Identifier: MIT
/* mix/sensitivity.h - measurement of the cost of each type for each part of a model. */
#ifndef HONE_MIX_SENSITIVITY_H
#define HONE_MIX_SENSITIVITY_H

#include "work/work.h"
#include "mix/joint.h"

enum { MIX_MAX_BUDGETS = 16, SENS_MAX_TYPES = 4 /* probed per group */ };
struct mix_probe_opts {
    struct work *w;
    const char *model, *imatrix, *out;
    struct str_list texts;
    int64_t ctx, n_chunks, n_types, rounds;
    enum probes probes;
    int64_t bands; /* layers to probe per role, spread by depth; 0: all */
    uint64_t budget[MIX_MAX_BUDGETS];
    int n_budgets;
    double seconds; /* 0: no limit */
    enum search search;
    bool overwrite;
    bool replace; /* if `out` was measured with different inputs, measure again instead of returning
                     an error */
};
struct mix_probe_report {
    int64_t n_probes, n_wanted, n_steps;
    bool cut_short, resumed;
    double seconds; /* of the whole measurement, including earlier runs */
    double probing; /* probes and steps of this run */
    int64_t n_now;  /* probes and steps of this run */
};
/* Measures and writes o->out. The caller releases *s with sens_release, even after an error. */
int mix_measure(const struct mix_probe_opts *o, struct sens *s, struct mix_probe_report *r,
                struct err *e);
/* Options of `hone sensitivity`: sizes and names as unchecked text. */
#include "commands/members.h"
struct sensitivity_ask {
    struct mix_probe_opts o;
#include "commands/sensitivity.def"
};
extern const struct sensitivity_ask sensitivity_usual;
/* Checks the options, measures, and fills m with the results. */
int sensitivity_run(struct work *w, struct sensitivity_ask *a, struct emit *m, struct err *e);

#endif
