// SPDX-License-Identifier: MIT
/* work/isa_choice.h - the instruction set of `--isa auto`. The flags of a processor say what it
 * has, not what is fast. So `hone doctor` times the packed products of every set and keeps the
 * fastest for this machine: a file of one word in a folder of the user, whose name is a hash of
 * processor, sets and version. Without one the last set that the machine has is used. Which set it
 * is changes speed; results differ by roundings of f32 at most. */
#ifndef HONE_WORK_ISA_CHOICE_H
#define HONE_WORK_ISA_CHOICE_H

#include "base/err.h"
#include "kernels/kern.h"

struct choice {
    enum kern_isa isa;            /* the fastest */
    double speed[KERN_ISA_COUNT]; /* of packed products, 1 for isa; 0: the machine lacks the set */
};
/* Returns what was kept in a folder for this machine, or kern_isa_best(). dir may be NULL: nothing
 * was kept. */
enum kern_isa choice_isa(const char *dir);
/* Times the sets, in about half a second. A set must be 1.1 times as fast as those above it to be
 * chosen, so that noise does not. */
void choice_measure(struct choice *c);
/* Returns the fastest of `speed`, by the same rule. */
enum kern_isa choice_of(const double speed[KERN_ISA_COUNT]);
/* Keeps a choice in a folder, which is made where it is not there. ERR_SYS where that cannot be
 * done, also for NULL. */
int choice_keep(const char *dir, enum kern_isa isa, struct err *e);
/* Returns the path in a folder of the file that keeps a choice for this machine, to be freed. */
char *choice_path(const char *dir, const char *what);
/* Writes the name of the processor, "unknown" where the system does not tell it. */
void choice_processor(char out[128]);

#endif
