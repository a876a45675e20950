// SPDX-License-Identifier: MIT
/* containers/safetensors.h - reader of a safetensors file: the header is fully parsed and checked
 * (no holes, no overlaps, no overflow), the data are mapped read-only. */
#ifndef HONE_CONTAINERS_SAFETENSORS_H
#define HONE_CONTAINERS_SAFETENSORS_H

#include <stdint.h>

#include "base/err.h"
#include "containers/qtype.h"

enum st_dtype {
    ST_BOOL,
    ST_U8,
    ST_I8,
    ST_F8_E4M3,
    ST_F8_E5M2,
    ST_F8_E8M0,
    ST_U16,
    ST_I16,
    ST_F16,
    ST_BF16,
    ST_U32,
    ST_I32,
    ST_F32,
    ST_U64,
    ST_I64,
    ST_F64,
    ST_COUNT
};
const char *st_dtype_name(enum st_dtype t); /* "BF16" */
/* Returns the size of an element in bytes; 0: not a dtype. */
int st_dtype_bytes(enum st_dtype t);
/* Sets *out to the GGUF tensor type with the same bytes: F32, F16, BF16. Returns false for all
 * other dtypes. */
bool st_dtype_qtype(enum st_dtype t, enum qtype *out);

struct st_tensor { /* borrowed until close */
    const char *name;
    enum st_dtype dtype;
    int n_dims;       /* 0..8 */
    int64_t shape[8]; /* outer to inner */
    int64_t n_elems;
    const uint8_t *data; /* unaligned */
    uint64_t n_bytes;
    uint64_t off; /* file offset of data */
    int file;     /* shard index in an hfdir; 0 otherwise */
};
struct st;
/* Opens a safetensors file. On error *out is NULL. */
int st_open(struct st **out, const char *path, struct err *e);
void st_close(struct st *s);
const char *st_path(const struct st *s);
int64_t st_n_tensors(const struct st *s);
/* Returns tensor i; NULL: out of range. */
const struct st_tensor *st_tensor_at(const struct st *s, int64_t i);
/* Returns whether the file has a tensor of this name with a zero dimension; such tensors are not in
 * the list. */
int st_is_empty(const struct st *s, const char *name);
/* Returns the name of a tensor with a zero dimension; NULL: the file has none. */
const char *st_empty_name(const struct st *s);
/* Unmaps the file. Its tensors stay listed, but have no data. */
void st_end(struct st *s);
/* Returns the file's first bytes: the length field and the header. */
const uint8_t *st_header(const struct st *s, uint64_t *n_bytes);
/* Returns the size of the whole file, including its header. */
uint64_t st_file_bytes(const struct st *s);
/* Returns the value of a key in "__metadata__"; NULL: absent. */
const char *st_meta(const struct st *s, const char *key);
void st_drop(const struct st *s, uint64_t off, uint64_t len); /* releases mapped pages */
/* Converts n elements, starting at element i, to f32: integers by value, BOOL to 0 or 1. ERR_DATA
 * for dtypes that are not numbers (none at present). */
int st_to_f32(const struct st_tensor *t, int64_t i, int64_t n, float *dst, struct err *e);

#endif
