// SPDX-License-Identifier: MIT
/* containers/qtype.c - lookups in the type table (qtype.def) and in the list of file types, and
 * names of ids that hone refuses. All numbers about types come from qtype.def. */
#include "containers/qtype.h"

#include <stddef.h>
#include <strings.h>

#include "base/attr.h"
#include "base/num.h"

#define AT(ID, field) offsetof(struct blk_##ID, field)
#define QTYPE(ID, id, name, elems, nbytes, ...) [id] = {name, elems, nbytes, __VA_ARGS__},
/* Clang, unlike GCC, warns about fields that a row's inner braces leave zero. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
static const struct qtype_info types[QT_COUNT] = {
#include "containers/qtype.def"
};
#pragma GCC diagnostic pop
#undef QTYPE
#undef AT

struct id_name {
    int id;
    const char *name;
};

// clang-format off
/* Ids in files written by other programs. The meaning of 36 depends on the program. */
static const struct id_name foreign[] = {
    {4, "retired (Q4_2)"}, {5, "retired (Q4_3)"},
    {31, "retired (Q4_0_4_4)"}, {32, "retired (Q4_0_4_8)"}, {33, "retired (Q4_0_8_8)"},
    {36, "retired (IQ4_NL_4_4), or ik_llama.cpp I2_S"},
    {37, "retired (IQ4_NL_4_8)"}, {38, "retired (IQ4_NL_8_8)"},
    {133, "ik_llama.cpp Q6_0"}, {137, "ik_llama.cpp IQ2_K"}, {138, "ik_llama.cpp IQ3_K"},
    {139, "ik_llama.cpp IQ4_K"}, {140, "ik_llama.cpp IQ5_K"}, {141, "ik_llama.cpp IQ6_K"},
    {144, "ik_llama.cpp IQ4_KS"}, {145, "ik_llama.cpp IQ2_KS"}, {146, "ik_llama.cpp IQ4_KSS"},
    {152, "ik_llama.cpp IQ5_KS"}, {153, "ik_llama.cpp IQ2_KT"}, {154, "ik_llama.cpp IQ3_KT"},
    {155, "ik_llama.cpp IQ4_KT"}, {156, "ik_llama.cpp IQ3_KS"}, {157, "ik_llama.cpp IQ2_KL"},
    {158, "ik_llama.cpp IQ1_KT"},
};
/* File types of mixtures. Those of single types are in qtype.def. */
static const struct id_name mixtures[] = {
    {11, "Q3_K_S"}, {12, "Q3_K_M"}, {13, "Q3_K_L"}, {14, "Q4_K_S"}, {15, "Q4_K_M"}, {16, "Q5_K_S"}, {17, "Q5_K_M"},
    {21, "Q2_K_S"}, {22, "IQ3_XS"}, {27, "IQ3_M"}, {29, "IQ2_M"}, {38, "MXFP4_MOE"},
};
// clang-format on
enum { FTYPE_GUESSED = 1024 };

const struct qtype_info *qtype_info(int64_t id) {
    if (id < 0 || id >= QT_COUNT || !types[id].name) return NULL;
    return &types[id];
}

const char *qtype_name(enum qtype t) {
    const struct qtype_info *q = qtype_info((int64_t)t);
    return q ? q->name : "?";
}

bool qtype_parse(const char *name, enum qtype *out) {
    for (int i = 0; i < QT_COUNT; i++) {
        if (!types[i].name || strcasecmp(types[i].name, name) != 0) continue;
        *out = (enum qtype)i;
        return true;
    }
    return false;
}

const char *qtype_foreign(int64_t id) {
    for (size_t i = 0; i < COUNT_OF(foreign); i++)
        if (foreign[i].id == id) return foreign[i].name;
    if (id >= 202 && id < 512) return "an ik_llama.cpp row-interleaved repack";
    if ((id >= 97 && id <= 99) || (id >= 133 && id <= 158)) return "an ik_llama.cpp type";
    return NULL;
}

uint64_t qtype_row_bytes(enum qtype t, int64_t ne0) {
    const struct qtype_info *q = qtype_info((int64_t)t);
    uint64_t n;
    if (!q || ne0 <= 0 || ne0 % q->block_elems != 0) return 0;
    if (!mul_ok((uint64_t)(ne0 / q->block_elems), (uint64_t)q->block_bytes, &n)) return 0;
    return n <= INT64_MAX ? n : 0;
}

double qtype_bpw(enum qtype t) {
    const struct qtype_info *q = qtype_info((int64_t)t);
    return q ? 8.0 * q->block_bytes / q->block_elems : 0.0;
}

enum qtype qtype_fit(enum qtype t, int64_t ne0) {
    const struct qtype_info *q = qtype_info((int64_t)t);
    while (q && ne0 % q->block_elems != 0) q = qtype_info((int64_t)(t = q->fallback));
    return t;
}

/* Returns whether general.file_type has a number for files of this type. For f32 that number is
 * 0. */
static bool has_ftype(const struct qtype_info *q) {
    return q->name && (q->ftype || q->scale.kind == QS_F32);
}

int qtype_ftype_id(const char *name) {
    for (int i = 0; i < QT_COUNT; i++)
        if (has_ftype(&types[i]) && strcasecmp(types[i].name, name) == 0) return types[i].ftype;
    for (size_t i = 0; i < COUNT_OF(mixtures); i++)
        if (strcasecmp(mixtures[i].name, name) == 0) return mixtures[i].id;
    return -1;
}

/* Returns whether id is the file type, with or without the flag "guessed". */
static bool is_ftype(int ftype, int64_t id) {
    return ftype == id || (ftype | FTYPE_GUESSED) == id;
}

const char *qtype_ftype_name(int64_t id) {
    for (int i = 0; i < QT_COUNT; i++)
        if (has_ftype(&types[i]) && is_ftype(types[i].ftype, id)) return types[i].name;
    for (size_t i = 0; i < COUNT_OF(mixtures); i++)
        if (is_ftype(mixtures[i].id, id)) return mixtures[i].name;
    return NULL;
}
