// SPDX-License-Identifier: MIT
/* work/device.h - information about the devices that --device selects, and how sessions share
 * them. */
#ifndef HONE_WORK_DEVICE_H
#define HONE_WORK_DEVICE_H

#include "work/work.h"
#include "quantize/qdev.h"
#include "runtime/engine/session.h"

/* Writes the device's name, e.g. "NVIDIA H100 80GB HBM3"; "" if --device is the CPU. */
void device_name(const struct work *w, char out[256]);
/* Returns the device for a session of the last of n files, of n_bytes each, whose sessions will all
 * be open at the same time; 0: the file shares the weights of a later one. Its limit is a share of
 * the free memory, in proportion to file size plus 1 GiB. Open the smallest file first, so that
 * each can use what the smaller ones left; `taken` is the sum of their session_device_bytes, which
 * count towards --max-vram. Parts that do not fit are computed by the CPU, with a warning. */
struct device device_share(const struct work *w, const uint64_t *n_bytes, int n,
                           const uint64_t taken[DEVICES]);
/* Returns the device for a session that is open alone, as device_share does. */
struct device device_alone(const struct work *w);
/* Opens sessions of ctx tokens, with exact activations, for n models that run together; they share
 * a device as above. m: the largest file first. On error, some of s [n] may be open. */
int device_sessions(struct work *w, struct model *const *m, int n, int64_t ctx, struct session **s,
                    struct err *e);
/* Returns the usable device memory, in bytes, over all devices. 0: --device is the CPU, or the
 * device does not respond. */
uint64_t device_free(const struct work *w);
/* Opens the first device of --device for products of matrices in main memory. Returns NULL if
 * --device is the CPU, if --isa or --max-vram was given, or if the device fails (with a warning):
 * the CPU then computes them. Free it with dev_product_free; borrows w->pool. */
struct dev_product *device_products(const struct work *w);
/* Returns the device that quantization uses, according to --device. */
struct qdev_want device_quantize(const struct work *w);

#endif
