// SPDX-License-Identifier: MIT
/* jobs/device.h - --device, for commands of several steps. */
#ifndef HONE_JOBS_DEVICE_H
#define HONE_JOBS_DEVICE_H

#include "jobs/work.h"
#include "quantize/qdev.h"

/* "NVIDIA H100 80GB HBM3", or "" when --device is the CPU. */
void device_name(const struct work *w, char out[256]);
/* The device for the next of n_left sessions that will be open together: an equal share of what is
 * free, so that opened from small to large each can have what the smaller ones left. What does not
 * fit is computed by the CPU, with a warning. */
struct device device_share(const struct work *w, int n_left);
/* The device for quantization. */
struct qdev_want device_quantize(const struct work *w);

#endif
