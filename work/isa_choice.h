// SPDX-License-Identifier: MIT
/* work/isa_choice.h - choice of the instruction set for `--isa auto`. A processor's flags list its
 * instruction sets, but do not show which one is fastest. `hone doctor` therefore times packed
 * products with every set and records the fastest in a one-word file in the user's cache folder,
 * named by a hash of processor, sets and version. Without that file, the best set that the machine
 * supports is used. The choice affects speed; results differ at most by f32 rounding. */
#ifndef HONE_WORK_ISA_CHOICE_H
#define HONE_WORK_ISA_CHOICE_H

#include "base/err.h"
#include "kernels/kern.h"

struct choice {
    enum kern_isa isa;            /* the fastest set */
    double speed[KERN_ISA_COUNT]; /* speed of packed products relative to `isa` (1); 0: the machine
                                     lacks the set */
};
/* Returns the set recorded in dir for this machine, else kern_isa_best(). dir may be NULL. */
enum kern_isa choice_isa(const char *dir);
/* Times the sets, in about half a second. A set must be 1.1x as fast as the wider ones to be
 * chosen, so that noise does not decide. */
void choice_measure(struct choice *c);
/* Returns the fastest set according to `speed`, by the same rule. */
enum kern_isa choice_of(const double speed[KERN_ISA_COUNT]);
/* Records the fastest set, with choice_write. */
int choice_keep(const char *dir, enum kern_isa isa, struct err *e);
/* Read and write the file that records `what` for this machine: "isa", "blas" or "speeds-N"
 * of N threads.
 * choice_read returns its contents, freed by the caller, or NULL if there is no file. choice_write
 * creates the folder if needed. ERR_SYS if that fails, or if dir is NULL. */
char *choice_read(const char *dir, const char *what);
/* Saves a choice in the file `what` of the folder; an error if dir is NULL. */
int choice_write(const char *dir, const char *what, const char *text, struct err *e);
/* Writes the processor's name, or "unknown" if the system does not report it. */
void choice_processor(char out[128]);

#endif
