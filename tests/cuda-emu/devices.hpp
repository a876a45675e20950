// SPDX-License-Identifier: MIT
/* tests/cuda-emu/devices.hpp - between devices.cpp, which plays devices and their memory, and
 * runtime.cpp, which runs work on them. */
#ifndef HONE_TESTS_CUDA_EMU_DEVICES_H
#define HONE_TESTS_CUDA_EMU_DEVICES_H

#include "tests/cuda-emu/emu.hpp"

enum { EMU_EVERY = -1 };
int emu_current(void); /* the device that the thread has set */
/* From here on only the memory of this device can be touched (EMU_EVERY: of all). What touches
 * another's ends the program and says so. Nothing is done where there is one device. */
void emu_enter(int device);
bool emu_lies_on(const void *p, size_t n, int device);
void emu_pages_only(bool yes); /* allocations are whole pages from here on */
void emu_protect(bool yes);    /* stores to device memory fault */
void emu_forget(void *p);      /* frees device memory */
extern int emu_capability;     /* of all devices: 90, or what emu_card said */

#endif
