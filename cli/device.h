// SPDX-License-Identifier: MIT
/* cli/device.h - --device, for commands of several steps. */
#ifndef HONE_CLI_DEVICE_H
#define HONE_CLI_DEVICE_H

#include "cli/opt.h"
#include "quantize/qdev.h"

/* "NVIDIA H100 80GB HBM3", or "" when --device is the CPU. */
void cli_device_name(const struct cli *c, char out[256]);
/* The device for the next of n_left sessions that will be open together: an equal share of what is
 * free, so that opened from small to large each can have what the smaller ones left. What does not
 * fit is computed by the CPU, with a warning. */
struct device cli_device_share(const struct cli *c, int n_left);
/* The device for quantization. */
struct qdev_want cli_device_quantize(const struct cli *c);

#endif
