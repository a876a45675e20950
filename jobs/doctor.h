// SPDX-License-Identifier: MIT
/* jobs/doctor.h - what this build can use on this machine. */
#ifndef HONE_JOBS_DOCTOR_H
#define HONE_JOBS_DOCTOR_H

#include "work/work.h"

/* Fills m with processors, memory, devices, kernels and libraries. line_editor: the version of the
 * caller's library for lines of a terminal; NULL: it has none. */
int doctor_machine(struct work *w, const char *line_editor, struct emit *m, struct err *e);
/* Fills m with which parts of a model are computed by slower ways than there are. */
int doctor_model(struct work *w, const char *path, struct emit *m, struct err *e);
/* Fills m with what inputs may claim at most. */
void doctor_limits(struct emit *m);
/* Fills m with the rows of models/registry.c; tests/models.sh makes the table of README.md of them.
 */
void doctor_models(struct emit *m);

#endif
