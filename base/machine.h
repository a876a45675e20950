// SPDX-License-Identifier: MIT
/* base/machine.h - how much of this machine the process may use: processors, cores, and what
 * control groups (containers, systemd units) leave of time and memory. Linux: /proc, /sys. Where
 * those say nothing, there is no limit. */
#ifndef HONE_BASE_MACHINE_H
#define HONE_BASE_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

struct machine {
    int n_cpus;        /* processors the process may run on */
    int n_cores;       /* cores they are of: fewer than n_cpus where two share one */
    int n_big;         /* cores of at least four fifths of the fastest one's speed, as the system
                          says (ARM's big and little cores, x86's P and E): n_cores where all are alike */
    int n_quota;       /* processors' worth of time that groups allow, rounded up; 0: no limit */
    uint64_t mem_left; /* bytes that groups still allow; file pages count as free; UINT64_MAX: no
                          limit */
};
/* Reads the machine. `root` is "" for this one, or a folder that holds its own proc/ and sys/.
 * n_cpus and n_cores are at least 1. */
void machine_read(const char *root, struct machine *out);
/* Reads n_quota and mem_left alone and sets the rest to 0: a few small files, whatever the
 * number of processors. */
void machine_limits(const char *root, struct machine *out);
/* Tells whether the driver of an NVIDIA card is loaded, on Linux itself or in WSL. */
bool machine_has_nvidia(const char *root);

#endif
