// SPDX-License-Identifier: MIT
/* base/machine.h - processors, cores and memory available to the process, within the limits of
 * control groups (containers, systemd units). Read from /proc and /sys on Linux; unknown limits
 * count as absent. */
#ifndef HONE_BASE_MACHINE_H
#define HONE_BASE_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

struct machine {
    int n_cpus;  /* processors the process may run on */
    int n_cores; /* their physical cores: fewer than n_cpus with SMT */
    /* Cores that the system reports as at least 0.8x as fast as the fastest (ARM big.LITTLE, x86 P
     * and E cores); n_cores if all are alike. */
    int n_big;
    int n_quota; /* CPU quota of control groups in processors, rounded up; 0: none */
    /* Bytes still available under the control groups' limits, counting the page cache as free;
     * UINT64_MAX: no limit. */
    uint64_t mem_left;
};
/* Reads the machine's properties. `root` is "" for this machine, or a folder that holds its own
 * proc/ and sys/. n_cpus and n_cores are at least 1. */
void machine_read(const char *root, struct machine *out);
/* Reads only n_quota and mem_left and sets the rest to 0. Reads a few small files, regardless of
 * the number of processors. */
void machine_limits(const char *root, struct machine *out);
/* Returns whether an NVIDIA driver is loaded, on native Linux or in WSL. */
bool machine_has_nvidia(const char *root);

#endif
