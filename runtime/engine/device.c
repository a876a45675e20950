// SPDX-License-Identifier: MIT
/* runtime/engine/device.c - parser of --device. */
#include "runtime/engine/device.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "kernels/cuda/cuda.h"

int device_index(const struct device *d, int i) {
    return i ? d->more[i - 1] : d->index;
}
uint64_t device_most(const struct device *d, int i) {
    return i && d->more_bytes[i - 1] ? d->more_bytes[i - 1] : d->max_bytes;
}

/* Parses distinct device numbers such as "0" or "0,1,3" and advances *at past them. False: not a
 * valid list. */
static bool read_numbers(const char **at, struct device *d) {
    for (int n = 0; n < DEVICES; n++) {
        char *end = NULL;
        const long v = strtol(*at, &end, 10);
        if (end == *at || **at == '+' || v < 0 || v > 255) return false;
        for (int i = 0; i < n; i++)
            if (device_index(d, i) == v) return false;
        *(n ? &d->more[n - 1] : &d->index) = (int)v;
        d->n_more = n;
        *at = end;
        if (**at != ',') return true;
        ++*at;
    }
    return false;
}

int device_parse(const char *name, struct device *d, struct err *e) {
    *d = (struct device){.kind = DEVICE_CPU};
    if (!name || strcmp(name, "cpu") == 0) return 0;
    int n_there = 0;
    if (strcmp(name, "auto") == 0) {
        if (cu_built() && cu_devices(&n_there, e)) log_warn("computing on the CPU: %s", e->msg);
        if (n_there > 0) d->kind = DEVICE_AUTO;
        return 0;
    }
    bool ok = strncmp(name, "cuda", 4) == 0;
    const char *at = ok ? name + 4 : name;
    if (ok && *at == ':') {
        at++;
        ok = read_numbers(&at, d);
    }
    if (ok && *at == '/') {
        char *end = NULL;
        d->masked = true;
        d->mask = (unsigned)strtoul(++at, &end, 0);
        ok = end != at && *at != '-';
        at = end;
    }
    if (!ok || *at)
        return err_set(e, ERR_USAGE,
                       "--device: '%s' is not cpu, cuda, cuda:N, cuda:N,M (at most %d, each once) "
                       "or auto",
                       name, DEVICES);
    d->kind = DEVICE_CUDA;
    if (!cu_built())
        return err_set(e, ERR_SYS,
                       "--device: '%s' is not available: this build supports the CPU only", name);
    if (cu_devices(&n_there, e)) return err_wrap(e, "--device: '%s' is not available", name);
    for (int i = 0; i <= d->n_more; i++)
        if (device_index(d, i) >= n_there)
            return err_set(e, ERR_SYS, "--device: '%s' does not exist: %d CUDA devices found", name,
                           n_there);
    return 0;
}
