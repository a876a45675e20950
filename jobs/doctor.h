// SPDX-License-Identifier: MIT
/* jobs/doctor.h - hone doctor: report on this machine and build. */
#ifndef HONE_JOBS_DOCTOR_H
#define HONE_JOBS_DOCTOR_H

#include "work/work.h"

#include "commands/members.h"
struct doctor_opts {
    const char *model;       /* model to list slow operations of, or NULL */
    const char *line_editor; /* version of the caller's line editor, or NULL */
#include "commands/doctor.def"
};
/* Fills m with the requested list, otherwise with processors, memory, devices, kernels and
 * libraries. */
int doctor_run(struct work *w, const struct doctor_opts *o, struct emit *m, struct err *e);

#endif
