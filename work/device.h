// SPDX-License-Identifier: MIT
/* work/device.h - --device, for commands of several steps. */
#ifndef HONE_WORK_DEVICE_H
#define HONE_WORK_DEVICE_H

#include "work/work.h"
#include "quantize/qdev.h"

/* Writes the name of the device, such as "NVIDIA H100 80GB HBM3"; "" when --device is the CPU. */
void device_name(const struct work *w, char out[256]);
/* Returns the device for a session of path[n - 1], where sessions of all n files will be open
 * together: limited to a share of the memory that is free, by the sizes of the files. Opened from
 * small to large, each can have what the smaller ones left. What does not fit is computed by the
 * CPU, with a warning. */
struct device device_share(const struct work *w, const char *const *path, int n);
/* Returns the usable bytes of device memory, all devices together; 0: --device is the CPU, or the
 * device does not respond. */
uint64_t device_free(const struct work *w);
/* Returns the device that quantization is to use, by --device. */
struct qdev_want device_quantize(const struct work *w);

#endif
