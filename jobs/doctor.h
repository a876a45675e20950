// SPDX-License-Identifier: MIT
/* jobs/doctor.h - what this build can use on this machine. */
#ifndef HONE_JOBS_DOCTOR_H
#define HONE_JOBS_DOCTOR_H

#include "work/work.h"

#include "commands/members.h"
struct doctor_opts {
    const char *model; /* which parts of it are computed by slower ways than there are; or NULL */
    const char *line_editor; /* version of the caller's library for lines of a terminal, or NULL */
#include "commands/doctor.def"
};
/* Fills m with what is asked for; else with processors, memory, devices, kernels and libraries. */
int doctor_run(struct work *w, const struct doctor_opts *o, struct emit *m, struct err *e);

#endif
