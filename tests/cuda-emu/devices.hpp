// SPDX-License-Identifier: MIT
/* tests/cuda-emu/devices.hpp - the interface between devices.cpp, which emulates devices and their
 * memory, and runtime.cpp, which runs work on them. */
#ifndef HONE_TESTS_CUDA_EMU_DEVICES_H
#define HONE_TESTS_CUDA_EMU_DEVICES_H

#include "tests/cuda-emu/emu.hpp"

enum { EMU_EVERY = -1 };
int emu_current(void); /* the device that the thread has set */
/* Makes only this device's memory accessible (EMU_EVERY: all memory). An access to another's ends
 * the program with a message. Does nothing with a single device. */
void emu_enter(int device);
bool emu_lies_on(const void *p, size_t n, int device);
void emu_pages_only(bool yes); /* allocations are whole pages from here on */
void emu_protect(bool yes);    /* stores to device memory fault */
void emu_forget(void *p);      /* frees device memory */
extern int emu_capability;     /* of all devices: 90, or what emu_card said */

#endif
