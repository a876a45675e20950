// SPDX-License-Identifier: MIT
/* base/bytes.h - unaligned little-endian loads and stores through memcpy. Little-endian hosts only:
 * err.c does not compile elsewhere. Use these functions instead of casting pointers into mapped
 * files. */
#ifndef HONE_BASE_BYTES_H
#define HONE_BASE_BYTES_H

#include <stdint.h>
#include <string.h>

#define BYTES_LOAD(name, type)                                                                     \
    static inline type load_##name(const void *p) {                                                \
        type v;                                                                                    \
        memcpy(&v, p, sizeof v);                                                                   \
        return v;                                                                                  \
    }                                                                                              \
    static inline void store_##name(void *p, type v) {                                             \
        memcpy(p, &v, sizeof v);                                                                   \
    }

BYTES_LOAD(u16, uint16_t)
BYTES_LOAD(u32, uint32_t)
BYTES_LOAD(u64, uint64_t)
BYTES_LOAD(i16, int16_t)
BYTES_LOAD(i32, int32_t)
BYTES_LOAD(i64, int64_t)
BYTES_LOAD(f32, float)
BYTES_LOAD(f64, double)
#undef BYTES_LOAD

#endif
