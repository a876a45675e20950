// SPDX-License-Identifier: MIT
/* work/device.h - information about the devices that --device selects, and how sessions share
 * them. */
#ifndef HONE_WORK_DEVICE_H
#define HONE_WORK_DEVICE_H

#include "work/work.h"
#include "quantize/qdev.h"

/* Writes the device's name, e.g. "NVIDIA H100 80GB HBM3"; "" if --device is the CPU. */
void device_name(const struct work *w, char out[256]);
/* Returns the device for a session of path[n - 1] if sessions of all n files will be open at the
 * same time. Its limit is a share of the free memory, in proportion to file size. Open the files in
 * order of size, smallest first, so that each can use what the smaller ones left. Parts that do not
 * fit are computed by the CPU, with a warning. */
struct device device_share(const struct work *w, const char *const *path, int n);
/* Returns the usable device memory, in bytes, over all devices. 0: --device is the CPU, or the
 * device does not respond. */
uint64_t device_free(const struct work *w);
/* Returns the device that quantization uses, according to --device. */
struct qdev_want device_quantize(const struct work *w);

#endif
