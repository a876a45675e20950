// SPDX-License-Identifier: MIT
/* containers/qtype.h - tensor types: ids, names, block sizes and layouts (documented in
 * docs/formats/). The table is qtype.def, the only file that defines sizes. */
#ifndef HONE_CONTAINERS_QTYPE_H
#define HONE_CONTAINERS_QTYPE_H

#include <stdbool.h>
#include <stdint.h>

enum qtype_flag {
    QF_FLOAT = 1,
    QF_QUANT = 2,
    QF_ACT = 4, /* activation format, never in files */
    QF_INT = 8,
    QF_NEEDS_IMPORTANCE = 16, /* requires an importance matrix */
    QF_CONVERT = 32,          /* written by conversion */
    QF_RELEASED = 64,         /* type of original releases, so a file of this type is an original */
    QF_MIX = 128,             /* candidate in mixes, for row lengths that are multiples of 256 */
    QF_MIX_NARROW = 256,      /* candidate for other multiples of 32 */
    QF_LAST_RESORT = 512,     /* candidate only for low budgets: slow to encode */
    QF_EXACT = 1024           /* low-bit training makes weights that it may hold without loss */
};

#define QTYPE(ID, id, name, elems, nbytes, ...) QT_##ID = (id),
enum qtype {
#include "containers/qtype.def"
    QT_COUNT = 43
};
#undef QTYPE

enum { QK = 256 }; /* weights per super-block */

/* Encoding of a block's scales, which determine the magnitude of its weights and whether the block
 * is valid. */
enum qtype_scale_kind {
    QS_NONE, /* any bytes are valid */
    QS_F32,  /* the values themselves, which must be finite; likewise the next three */
    QS_F64,
    QS_F16,
    QS_BF16,
    QS_HALF,    /* f16 fields at off[] */
    QS_NIBBLES, /* an f16 in the top nibbles of four 16-bit words at off[0] */
    QS_E8M0,    /* n exponents at off[0] */
    QS_E4M3     /* n unsigned 8-bit floats at off[0] */
};
struct qtype_scale {
    enum qtype_scale_kind kind;
    int n;      /* number of fields or values */
    int off[2]; /* byte offsets in the block */
};
struct qtype_info {
    const char *name; /* NULL: no such type (retired or unused id) */
    int32_t block_elems, block_bytes;
    unsigned flags;        /* enum qtype_flag */
    enum qtype dot;        /* activation type for matrix products; F32 by default */
    enum qtype fallback;   /* for row lengths that are not a multiple of the block size */
    const char *file_type; /* general.file_type for files of this type; NULL: `name` */
    int32_t ftype;         /* number of the file type of that name; 0: none, except for f32 */
    struct qtype_scale scale;
    /* The scale with which random codes give weights with a root mean square of 0.02, and the
     * second scale field, in units of the scale, that centres the weights. The scale is 0.02 / R,
     * where R comes from a sum over the code book or, for K types, from E[s^2]E[q^2]. */
    struct {
        float scale, offset;
    } typical;
};
/* Returns a type's row; NULL for unknown and retired ids. */
const struct qtype_info *qtype_info(int64_t id);
/* Returns the type's name, or "?". */
const char *qtype_name(enum qtype t);
/* Parses a name in upper or lower case. Returns false if there is no such type. */
bool qtype_parse(const char *name, enum qtype *out);
/* Returns, for messages, why an id is refused: "retired (Q4_2)", "ik_llama.cpp IQ4_K". NULL: no
 * known reason. */
const char *qtype_foreign(int64_t id);
/* Returns the size in bytes of a row of ne0 weights; 0 if ne0 is not a multiple of the block, or
 * too large. */
uint64_t qtype_row_bytes(enum qtype t, int64_t ne0);
/* Returns the bits per weight; 0: not a type. */
double qtype_bpw(enum qtype t);
/* Returns the type to use for rows of ne0 weights: t, or its first fallback whose block size
 * divides ne0. */
enum qtype qtype_fit(enum qtype t, int64_t ne0);

/* Returns general.file_type for a name such as "Q4_K_M"; -1: unknown. qtype_ftype_name is the
 * inverse, and returns NULL for unknown numbers. */
int qtype_ftype_id(const char *name);
/* Returns the name of a general.file_type; NULL: unknown. */
const char *qtype_ftype_name(int64_t id);

/* Block layouts, packed, little-endian; f16 fields are uint16_t. Bytes of other origin may start at
 * any address, so cast to these structs only in our own buffers. Kernels may cast rows of a GGUF:
 * every field needs at most 2-byte alignment, and rows start at even offsets (GGUF aligns to >=
 * 8). */
// clang-format off
struct blk_F32 { float v; };
struct blk_F16 { uint16_t v; };
struct blk_BF16 { uint16_t v; };
struct blk_Q4_0 { uint16_t d; uint8_t qs[16]; };
struct blk_Q4_1 { uint16_t d, m; uint8_t qs[16]; };
struct blk_Q5_0 { uint16_t d; uint8_t qh[4]; uint8_t qs[16]; };
struct blk_Q5_1 { uint16_t d, m; uint8_t qh[4]; uint8_t qs[16]; };
struct blk_Q8_0 { uint16_t d; int8_t qs[32]; };
struct blk_Q8_1 { uint16_t d, s; int8_t qs[32]; };
struct blk_Q2_K { uint8_t scales[16]; uint8_t qs[64]; uint16_t d, dmin; };
struct blk_Q3_K { uint8_t hmask[32]; uint8_t qs[64]; uint8_t scales[12]; uint16_t d; };
struct blk_Q4_K { uint16_t d, dmin; uint8_t scales[12]; uint8_t qs[128]; };
struct blk_Q5_K { uint16_t d, dmin; uint8_t scales[12]; uint8_t qh[32]; uint8_t qs[128]; };
struct blk_Q6_K { uint8_t ql[128]; uint8_t qh[64]; int8_t scales[16]; uint16_t d; };
struct blk_Q8_K { float d; int8_t qs[256]; int16_t bsums[16]; };
struct blk_IQ2_XXS { uint16_t d; uint16_t qs[32]; };
struct blk_IQ2_XS { uint16_t d; uint16_t qs[32]; uint8_t scales[8]; };
struct blk_IQ2_S { uint16_t d; uint8_t qs[64]; uint8_t qh[8]; uint8_t scales[8]; };
struct blk_IQ3_XXS { uint16_t d; uint8_t qs[96]; };
struct blk_IQ3_S { uint16_t d; uint8_t qs[64]; uint8_t qh[8]; uint8_t signs[32]; uint8_t scales[4]; };
struct blk_IQ1_S { uint16_t d; uint8_t qs[32]; uint16_t qh[8]; };
struct blk_IQ1_M { uint8_t qs[32]; uint8_t qh[16]; uint8_t scales[8]; };
struct blk_IQ4_NL { uint16_t d; uint8_t qs[16]; };
struct blk_IQ4_XS { uint16_t d; uint16_t scales_h; uint8_t scales_l[4]; uint8_t qs[128]; };
struct blk_I8 { int8_t v; };
struct blk_I16 { int16_t v; };
struct blk_I32 { int32_t v; };
struct blk_I64 { int64_t v; };
struct blk_F64 { double v; };
struct blk_TQ1_0 { uint8_t qs[48]; uint8_t qh[4]; uint16_t d; };
struct blk_TQ2_0 { uint8_t qs[64]; uint16_t d; };
struct blk_MXFP4 { uint8_t e; uint8_t qs[16]; };
struct blk_NVFP4 { uint8_t d[4]; uint8_t qs[32]; };
struct blk_Q1_0 { uint16_t d; uint8_t qs[16]; };
struct blk_Q2_0 { uint16_t d; uint8_t qs[16]; };
// clang-format on

#define QTYPE(ID, id, name, elems, nbytes, ...)                                                    \
    _Static_assert(sizeof(struct blk_##ID) == (nbytes), "block size of " name);
#include "containers/qtype.def"
#undef QTYPE

#endif
