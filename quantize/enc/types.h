// SPDX-License-Identifier: MIT
/* quantize/enc/types.h - declarations of the per-type encoders, listed in enc.c. */
#ifndef HONE_QUANTIZE_ENC_TYPES_H
#define HONE_QUANTIZE_ENC_TYPES_H

#include "quantize/enc/enc.h"

#define QTYPE(ID, ...) extern const struct enc enc_type_##ID;
#define QTYPE_OTHER(...)
#include "containers/qtype.def"
#undef QTYPE

#endif
