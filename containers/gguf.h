// SPDX-License-Identifier: MIT
/* containers/gguf.h - the GGUF v3 container: reading (mapped, validated), writing (streamed), split
 * sets.
 *
 * Knows nothing of architectures. Every rule of docs/formats/gguf.md "validation" is enforced at
 * open; a failure is one ERR_DATA sentence with file, record and byte offset. Metadata values are
 * unaligned views into the map: read them with the getters. */
#ifndef HONE_CONTAINERS_GGUF_H
#define HONE_CONTAINERS_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "containers/qtype.h"
#include "base/map.h"

enum gguf_vtype {
    GV_U8,
    GV_I8,
    GV_U16,
    GV_I16,
    GV_U32,
    GV_I32,
    GV_F32,
    GV_BOOL,
    GV_STR,
    GV_ARR,
    GV_U64,
    GV_I64,
    GV_F64,
    GV_COUNT
};
/* Returns the bytes of a scalar, 0 for GV_STR and GV_ARR. */
int gguf_vtype_bytes(enum gguf_vtype t);
const char *gguf_vtype_name(enum gguf_vtype t); /* "u32", "str", ... */

struct gguf_kv {     /* borrowed until close */
    const char *key; /* NUL-terminated copy */
    enum gguf_vtype type;
    enum gguf_vtype elem; /* GV_ARR: element type */
    uint64_t count;       /* GV_ARR: elements; GV_STR: bytes; else 1 */
    const uint8_t *data;  /* first value byte (a string array: the first length field) */
    uint64_t n_bytes;     /* of data */
};
struct gguf_tensor { /* borrowed until close */
    const char *name;
    int n_dims;
    int64_t ne[4]; /* fastest first; missing dims are 1 */
    enum qtype type;
    uint64_t off; /* from the start of its shard's data section */
    uint64_t n_bytes;
    const uint8_t *data; /* in the shard's map */
    int shard;
};
struct gguf;

enum {
    GGUF_TOLERANT = 1, /* gaps and other orders of tensor data accepted (overlap still refused) */
    GGUF_ONE_FILE = 2  /* do not open the other shards of a split set */
};
/* Opens a file. Given the first shard of a split set, all shards are opened and appear as one
 * file. */
int gguf_open(struct gguf **out, const char *path, unsigned flags, struct err *e);
/* Refuses with ERR_USAGE a folder where a GGUF file is wanted: names the files in it, or the
 * command that makes one. */
int gguf_no_folder(const char *dir, struct err *e);
/* Returns whether a folder holds GGUF files of models. */
bool gguf_in_folder(const char *dir);
/* Refuses with ERR_DATA contents that are not those of a GGUF file: says what they are, and which
 * command makes a GGUF file of its folder. */
int gguf_no_file(const char *path, const uint8_t *data, uint64_t size, struct err *e);
void gguf_close(struct gguf *g);

const char *gguf_path(const struct gguf *g);
uint32_t gguf_version(const struct gguf *g);
uint64_t gguf_alignment(const struct gguf *g);
uint64_t gguf_file_bytes(const struct gguf *g); /* all shards */
int gguf_n_shards(const struct gguf *g);
/* Return of one file of the set its path, its bytes before the tensor data (keys, tensor
 * records, padding), and all its bytes. All are borrowed until close. */
const char *gguf_shard_path(const struct gguf *g, int shard);
const uint8_t *gguf_shard_header(const struct gguf *g, int shard, uint64_t *n_bytes);
uint64_t gguf_shard_bytes(const struct gguf *g, int shard);
struct file_id;
const struct file_id *gguf_shard_id(const struct gguf *g, int shard);
/* Appends name, size, time stamp and hash of the header of every file: what stands for the content
 * where hashing all of it takes too long. */
struct buf;
void gguf_stamp(const struct gguf *g, struct buf *out);
int64_t gguf_n_kv(const struct gguf *g);
int64_t gguf_n_tensors(const struct gguf *g);
const struct gguf_kv *gguf_kv_at(const struct gguf *g, int64_t i);
const struct gguf_tensor *gguf_tensor_at(const struct gguf *g, int64_t i);
const struct gguf_kv *gguf_find(const struct gguf *g, const char *key); /* NULL: absent; hashed */
const struct gguf_tensor *gguf_find_tensor(const struct gguf *g, const char *name);
/* Releases the cached pages of a tensor's data (streaming). */
void gguf_drop(const struct gguf *g, const struct gguf_tensor *t);

/* Get a value of a type. An absent key or a wrong type is ERR_DATA, naming both types and the
 * file. Getters of integers accept any integer type whose value fits. */
int gguf_get_u64(const struct gguf *g, const char *key, uint64_t *v, struct err *e);
int gguf_get_f64(const struct gguf *g, const char *key, double *v, struct err *e); /* f32 or f64 */
int gguf_get_bool(const struct gguf *g, const char *key, bool *v, struct err *e);
/* Gets a string. The file's has no NUL behind it, so *s is a copy with a NUL that g owns. */
int gguf_get_str(const struct gguf *g, const char *key, const char **s, struct err *e);
/* Do the same, but give `otherwise` for absent keys, and for wrong types too. */
uint64_t gguf_u64_or(const struct gguf *g, const char *key, uint64_t otherwise);
double gguf_f64_or(const struct gguf *g, const char *key, double otherwise);
bool gguf_bool_or(const struct gguf *g, const char *key, bool otherwise);
const char *gguf_str_or(const struct gguf *g, const char *key, const char *otherwise);
/* Returns the copy with a NUL of a string value, which g owns, or NULL for other types. */
const char *gguf_kv_text(const struct gguf *g, const struct gguf_kv *kv);
/* Scalars and numeric array elements widened; the caller checked kv->type/elem and i < count. */
int64_t gguf_kv_i64(const struct gguf_kv *kv, uint64_t i);
double gguf_kv_f64(const struct gguf_kv *kv, uint64_t i);
/* Walks a string array in order: *pos starts at kv->data, each call sets *s,*len and advances. */
void gguf_kv_str_next(const struct gguf_kv *kv, const uint8_t **pos, const char **s, uint64_t *len);

/* Sets *text to the file's chat template; NULL when it has none. ERR_DATA when it holds a NUL,
 * which would cut it. */
int gguf_chat_template(const struct gguf *g, const char **text, struct err *e);

/* ---- deeper checks --------------------------------------------------------------------------- */
/* Checks that no chat template holds a NUL, and the tokenizer.* arrays: they are present, of equal
 * lengths, with unique texts, ids in range and well-formed merges. A file without
 * tokenizer.ggml.model, or with model "none" or "no_vocab", passes. */
int gguf_check_tokenizer(const struct gguf *g, struct err *e);
/* Checks the data of one tensor for NaN and infinity, in float tensors and in the scales of
 * quantized blocks. */
int gguf_check_data(const struct gguf *g, const struct gguf_tensor *t, struct err *e);

/* ---- writing ---------------------------------------------------------------------------------
 * Declare keys and tensors, gguf_w_begin() writes the whole header (all sizes are known up front),
 * then the data of each tensor is written in the declared order, in any pieces; gguf_w_commit()
 * checks that every byte came, syncs and renames. Nothing appears under the final name before. */
struct gguf_w;
struct gguf_w *gguf_w_new(void);
void gguf_w_free(struct gguf_w *w); /* without commit: removes the temporary files */

/* Set a key; setting it again replaces its value in place. split.* keys belong to the writer,
 * and setting them is ignored. A key or text that no reader would take is reported by
 * gguf_w_begin. "general.alignment" (u32) decides the padding, 32 when absent. */
void gguf_w_u32(struct gguf_w *w, const char *key, uint32_t v);
void gguf_w_i32(struct gguf_w *w, const char *key, int32_t v);
/* Sets an integer, or GV_BOOL, of any type that v fits. */
void gguf_w_int(struct gguf_w *w, const char *key, enum gguf_vtype type, int64_t v);
void gguf_w_f32(struct gguf_w *w, const char *key, float v);
void gguf_w_bool(struct gguf_w *w, const char *key, bool v);
void gguf_w_str(struct gguf_w *w, const char *key, const char *s);
void gguf_w_strn(struct gguf_w *w, const char *key, const char *s, uint64_t len);
void gguf_w_arr(struct gguf_w *w, const char *key, enum gguf_vtype elem, const void *v, uint64_t n);
void gguf_w_arr_str(struct gguf_w *w, const char *key, const char *const *s, uint64_t n);
/* Sets strings with lengths, which may hold NUL or not end with one. */
void gguf_w_arr_strn(struct gguf_w *w, const char *key, const char *const *s, const uint64_t *len,
                     uint64_t n);
/* Copies a key of another file as it is. */
void gguf_w_copy_kv(struct gguf_w *w, const struct gguf_kv *kv);
void gguf_w_remove(struct gguf_w *w, const char *key);
/* Declares a tensor; returns its index. ERR_DATA for names over 63 bytes, duplicates, bad shapes.
 */
int gguf_w_tensor(struct gguf_w *w, const char *name, enum qtype type, int n_dims,
                  const int64_t *ne, struct err *e);
/* Asks, before begin, for several files. A new shard begins where padded tensor bytes would pass
 * max_bytes (0: one file); with metadata_first shard 1 has no tensors. Shards are named by
 * gguf_split_name. */
void gguf_w_split(struct gguf_w *w, uint64_t max_bytes, bool metadata_first);
uint64_t gguf_w_total_bytes(const struct gguf_w *w); /* of all files, exact */
/* Checks free space and writes headers. `path` is the final name (or OUT.gguf of a split). */
int gguf_w_begin(struct gguf_w *w, const char *path, bool overwrite, struct err *e);
/* Does the same under temporary names that do not change (OUT.gguf.part, one per file of a
 * split), so that a later run with the same declarations can go on behind the tensors that are
 * there. What is in them stays as it is unless `fresh`; gguf_w_go_on says from which tensor on
 * data follow. After gguf_w_keep, an end without commit leaves the files. */
int gguf_w_begin_part(struct gguf_w *w, const char *path, bool overwrite, bool fresh,
                      struct err *e);
int gguf_w_part_hash(struct gguf_w *w, int64_t tensor, char hex[33], struct err *e); /* XXH3-128 */
int gguf_w_go_on(struct gguf_w *w, int64_t n_tensors, struct err *e);
void gguf_w_keep(struct gguf_w *w);
int gguf_w_flush(struct gguf_w *w, struct err *e); /* buffered bytes to the files */
int64_t gguf_w_n_complete(const struct gguf_w *w); /* tensors whose data came so far */
/* Writes the XXH3-128 over all headers, that is over everything but the data; also before begin,
 * when all is declared. Returns the number of files. */
int gguf_w_header_hash(struct gguf_w *w, char hex[33]);
/* Writes the next bytes of the current tensor, and goes on to the next one (padding) when it is
 * complete. */
int gguf_w_data(struct gguf_w *w, const void *p, uint64_t n, struct err *e);
int gguf_w_commit(struct gguf_w *w, struct err *e);

/* ---- editing (gguf_edit.c) ---------------------------------------------------------------------
 * Sets a string key of an existing file (of a split set: of the file named). When the new header
 * fits in front of the data only differing header bytes are written, n_bytes of them; otherwise the
 * whole file is written again. An interrupted edit leaves the old or the new file, if need be after
 * gguf_recover, which gguf_open calls: it undoes what a journal beside the file announces. */
struct gguf_edit {
    bool in_place;
    uint64_t n_bytes;
};
int gguf_edit_str(const char *path, const char *key, const char *text, uint64_t len,
                  struct gguf_edit *how, struct err *e);
int gguf_recover(const char *path, struct err *e);
extern void (*gguf_edit_hook)(int step); /* tests of interruption; NULL */

/* Returns "M-00001-of-00003.gguf" for "M.gguf" (i counts from 0); the caller frees it. */
char *gguf_split_name(const char *path, int i, int n);
/* Reads a name of the form of a shard: sets *i (from 0), *n and *prefix_len. Returns false for
 * other names. */
bool gguf_split_parse(const char *path, int *i, int *n, size_t *prefix_len);

#endif
