// SPDX-License-Identifier: MIT
/* tests/cuda-emu/card.cpp - the emulated runtime's queries: the last error, kept until queried as
 * in the real runtime, driver versions, kernel attributes. */
#include <stdio.h>

#include "tests/cuda-emu/block.hpp"
#include "tests/cuda-emu/control.h"
#include "tests/cuda-emu/devices.hpp"

// ---- errors -------------------------------------------------------------------------------------
static cudaError_t last_error;

cudaError_t emu_error(cudaError_t rc) {
    if (rc != cudaSuccess) last_error = rc;
    return rc;
}
cudaError_t cudaGetLastError(void) {
    const cudaError_t rc = last_error;
    last_error = cudaSuccess;
    return rc;
}

// ---- versions -----------------------------------------------------------------------------------
enum { RUNTIME = 13000 };
static int driver = -1;

extern "C" void emu_driver(int version) {
    driver = version;
}
/* CUDA_EMU_DRIVER: the same of a whole program. */
static int driver_version(void) {
    if (driver < 0) {
        const char *v = getenv("CUDA_EMU_DRIVER");
        driver = v ? atoi(v) : RUNTIME;
    }
    return driver;
}
cudaError_t cudaDriverGetVersion(int *version) {
    *version = driver_version();
    return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int *version) {
    *version = RUNTIME;
    return cudaSuccess;
}
cudaError_t emu_driver_fits(void) { /* drivers of one major version run all its toolkits */
    return emu_error(driver_version() / 1000 < RUNTIME / 1000 ? cudaErrorInsufficientDriver
                                                              : cudaSuccess);
}

// ---- kernels ------------------------------------------------------------------------------------
static int code; /* 0: that of the card */
static bool host_memory_is_read;
enum { MAX_KERNELS = 1024 };
static struct {
    const void *kernel;
    size_t n_static;
} known[MAX_KERNELS];
static int n_known;

extern "C" void emu_code(int capability) {
    code = capability;
}
int emu_code_runs(void) {
    cudaDeviceProp p;
    cudaGetDeviceProperties(&p, emu_current());
    return code ? code : 10 * p.major + p.minor;
}
extern "C" void emu_reads_pageable(int yes) {
    host_memory_is_read = yes != 0;
}
bool emu_pageable_is_read(void) {
    return host_memory_is_read;
}

void emu_smem_was(const void *kernel, size_t n_static) {
    int i = 0;
    while (i < n_known && known[i].kernel != kernel) i++;
    if (i == MAX_KERNELS) emu_die("more kernels than card.cpp has room for");
    if (i == n_known) known[n_known++] = {kernel, 0};
    if (n_static > known[i].n_static) known[i].n_static = n_static;
}
/* A compiler knows the static shared memory of a kernel; here it is known when it has run. Until
 * then it is as much as there can be. */
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *a, const void *kernel) {
    cudaDeviceProp p;
    cudaGetDeviceProperties(&p, emu_current());
    memset(a, 0, sizeof *a);
    a->binaryVersion = 10 * p.major + p.minor;
    a->ptxVersion = emu_code_runs();
    a->sharedSizeBytes = EMU_SMEM_DEFAULT;
    for (int i = 0; i < n_known; i++)
        if (known[i].kernel == kernel) a->sharedSizeBytes = known[i].n_static;
    const size_t asked = emu_smem_of(kernel);
    a->maxDynamicSharedSizeBytes = (int)(asked ? asked : EMU_SMEM_DEFAULT - a->sharedSizeBytes);
    return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void *kernel, cudaFuncAttribute, int n_bytes) {
    return emu_smem_optin(kernel, (size_t)n_bytes);
}
