// SPDX-License-Identifier: MIT
/* cli/mix.h - what sensitivity, quantize --budget and make --budget share. */
#ifndef HONE_CLI_MIX_H
#define HONE_CLI_MIX_H

#include "cli/opt.h"
#include "quantize/quantize.h"
#include "quantize/sens.h"

enum { MIX_MAX_BUDGETS = 8 };
struct mix_probe_opts {
    struct cli *c;
    const char *model, *imatrix, *out;
    struct str_list texts;
    int64_t ctx, n_chunks, n_types, rounds;
    uint64_t budget[MIX_MAX_BUDGETS];
    int n_budgets;
    double seconds; /* 0: no limit */
    enum search search;
    bool overwrite;
    bool replace; /* a file of other inputs is measured again, not refused */
};
struct mix_probe_report {
    int64_t n_probes, n_wanted, n_steps;
    bool cut_short, resumed;
    double seconds;
};
/* cmd_sensitivity.c: measures into o->out; *s by sens_release, also after an error. */
int mix_measure(const struct mix_probe_opts *o, struct sens *s, struct mix_probe_report *r,
                struct err *e);

/* mix.c */
struct mix_report {
    uint64_t budget, file_bytes, tensor_bytes;
    double loss, bound, bpw;
    bool exact, probed; /* solved exactly; some probes were used */
    char *plan;         /* path of the plan, owned */
};
/* The best mix of q->in whose file takes at most budget, quantized as *q says (q->recipe is
 * ignored); the plan is written to q->plan_out, else to OUT.plan.tsv. sensitivity NULL: errors are
 * measured here and weighted by role. */
int mix_quantize(struct cli *c, const struct quantize_opts *q, const char *sensitivity,
                 uint64_t budget, bool floors, struct mix_report *m, struct quantize_report *r,
                 struct err *e);
void mix_report_release(struct mix_report *m);

int mix_file_hash(const char *path, char hex[33], struct err *e);
int mix_search(const char *name, enum search *out, struct err *e); /* NULL: fast */

#endif
