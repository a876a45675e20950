// SPDX-License-Identifier: MIT
/* containers/gguf.h - GGUF v3 container: reading (mapped, validated), writing (streamed), split
 * sets.
 *
 * Independent of architectures. Opening enforces all rules under "validation" in
 * docs/formats/gguf.md; a violation gives ERR_DATA with file, record and byte offset. Metadata
 * values are unaligned views into the map: read them with the getters. */
#ifndef HONE_CONTAINERS_GGUF_H
#define HONE_CONTAINERS_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
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
/* Returns the size of a scalar in bytes; 0 for GV_STR and GV_ARR. */
int gguf_vtype_bytes(enum gguf_vtype t);
const char *gguf_vtype_name(enum gguf_vtype t); /* "u32", "str", ... */

struct gguf_kv {     /* borrowed until close */
    const char *key; /* NUL-terminated copy */
    enum gguf_vtype type;
    enum gguf_vtype elem; /* GV_ARR: element type */
    uint64_t count;       /* GV_ARR: elements; GV_STR: bytes; else 1 */
    const uint8_t *data;  /* first value byte (a string array: the first length field) */
    uint64_t n_bytes;     /* size of data */
};
struct gguf_tensor { /* borrowed until close */
    const char *name;
    int n_dims;
    int64_t ne[4]; /* fastest-varying first; unused dimensions are 1 */
    enum qtype type;
    uint64_t off; /* relative to the data section of its shard */
    uint64_t n_bytes;
    const uint8_t *data; /* in the shard's map */
    int shard;
};
struct gguf;

enum {
    GGUF_TOLERANT = 1, /* accept gaps and unordered tensor data, but no overlap */
    GGUF_ONE_FILE = 2  /* do not open the other shards of a split set */
};
/* Opens a file. Given the first shard of a split set, opens all shards, which then appear as one
 * file. */
int gguf_open(struct gguf **out, const char *path, unsigned flags, struct err *e);
/* Returns ERR_USAGE for a folder given in place of a GGUF file; the message names the GGUF files in
 * it, or the command that creates one. */
int gguf_no_folder(const char *dir, struct err *e);
/* Returns whether a folder contains GGUF model files. */
bool gguf_in_folder(const char *dir);
/* Returns ERR_DATA for data that are not a GGUF file; the message names the actual format, and the
 * command that converts its folder. */
int gguf_no_file(const char *path, const uint8_t *data, uint64_t size, struct err *e);
/* Returns ERR_USAGE, naming the folder, for a JSON or safetensors file of a model's folder; for
 * commands that accept the folder. */
int gguf_name_folder(const char *path, struct err *e);
void gguf_close(struct gguf *g);

const char *gguf_path(const struct gguf *g);
uint32_t gguf_version(const struct gguf *g);
uint64_t gguf_alignment(const struct gguf *g);
uint64_t gguf_file_bytes(const struct gguf *g); /* all shards */
int gguf_n_shards(const struct gguf *g);
/* Return, for one file of the set, its path, the bytes before the tensor data (keys, tensor
 * records, padding) and its size. Borrowed until close. */
const char *gguf_shard_path(const struct gguf *g, int shard);
/* Returns the number of bytes before the tensor data of a shard. */
const uint8_t *gguf_shard_header(const struct gguf *g, int shard, uint64_t *n_bytes);
/* Returns the file size of shard i, from 0. */
uint64_t gguf_shard_bytes(const struct gguf *g, int shard);
struct file_id;
/* Returns the identity of shard i's file, from 0: size, inode and times. */
const struct file_id *gguf_shard_id(const struct gguf *g, int shard);
/* Appends name, size, time stamp and header hash of every file: a cheap substitute for a hash of
 * the whole content. */
void gguf_stamp(const struct gguf *g, struct buf *out);
/* Writes 32 hex digits that identify the content, wherever the file is: a hash of all headers and
 * of a sample of each tensor's data. */
void gguf_sample_hash(const struct gguf *g, char hex[33]);
/* Like gguf_sample_hash, but covers only tensor names, types, shapes and samples, so it does not
 * change with the metadata. */
void gguf_weights_hash(const struct gguf *g, char hex[33]);
/* Returns the number of keys in the first shard, which has the model's metadata. */
int64_t gguf_n_kv(const struct gguf *g);
int64_t gguf_n_tensors(const struct gguf *g);
/* Returns key i; NULL: out of range. */
const struct gguf_kv *gguf_kv_at(const struct gguf *g, int64_t i);
/* Returns tensor i; NULL: out of range. */
const struct gguf_tensor *gguf_tensor_at(const struct gguf *g, int64_t i);
const struct gguf_kv *gguf_find(const struct gguf *g, const char *key); /* hashed; NULL: absent */
/* Returns key i of one file of the set; NULL: out of range. */
const struct gguf_kv *gguf_shard_kv_at(const struct gguf *g, int shard, int64_t i);
/* Returns the tensor of this name; NULL: not found. */
const struct gguf_tensor *gguf_find_tensor(const struct gguf *g, const char *name);
/* Returns the scales of tensor t, named X.weight: the values of X.scale, an F32 vector with one
 * number, or one per matrix, by which t's weights are multiplied. NVFP4 checkpoints have them. Sets
 * *n to their number. NULL: none. */
const float *gguf_scales(const struct gguf *g, const struct gguf_tensor *t, int64_t *n);
/* Returns whether t, which is not NULL, holds the scales of another tensor (gguf_scales), or is an
 * X.input_scale: the scale of activations, which only matters where those are quantized to FP4. */
bool gguf_is_scale(const struct gguf *g, const struct gguf_tensor *t);
/* Releases the mapped pages of a tensor's data, for streaming. */
void gguf_drop(const struct gguf *g, const struct gguf_tensor *t);

/* Get a value by key. ERR_DATA: the key is absent or has the wrong type; the message names both
 * types and the file. Integer getters accept any integer type whose value fits. */
int gguf_get_u64(const struct gguf *g, const char *key, uint64_t *v, struct err *e);
int gguf_get_f64(const struct gguf *g, const char *key, double *v, struct err *e); /* f32 or f64 */
/* Reads a key of type bool. ERR_DATA: it is missing or has another type. */
int gguf_get_bool(const struct gguf *g, const char *key, bool *v, struct err *e);
/* Gets a string as a NUL-terminated copy owned by g, because strings in the file have no NUL. */
int gguf_get_str(const struct gguf *g, const char *key, const char **s, struct err *e);
/* Like the getters above, but leave *v unchanged if the key is absent. ERR_DATA: the wrong type. */
int gguf_opt_u64(const struct gguf *g, const char *key, uint64_t *v, struct err *e);
int gguf_opt_f64(const struct gguf *g, const char *key, double *v, struct err *e);
int gguf_opt_bool(const struct gguf *g, const char *key, bool *v, struct err *e);
/* Return `otherwise` if the key is absent or has the wrong type: for keys that no result depends
 * on. */
uint64_t gguf_u64_or(const struct gguf *g, const char *key, uint64_t otherwise);
/* Returns a number; `otherwise` if the key is missing or not a number. */
double gguf_f64_or(const struct gguf *g, const char *key, double otherwise);
/* Returns a bool; `otherwise` if the key is missing or has another type. */
bool gguf_bool_or(const struct gguf *g, const char *key, bool otherwise);
/* Returns a string, owned by g; `otherwise` if the key is missing or has another type. */
const char *gguf_str_or(const struct gguf *g, const char *key, const char *otherwise);
/* Returns a string value as a NUL-terminated copy owned by g; NULL for other types. */
const char *gguf_kv_text(const struct gguf *g, const struct gguf_kv *kv);
/* Return a scalar or a numeric array element, widened. The caller has checked kv->type or elem, and
 * i < count. */
int64_t gguf_kv_i64(const struct gguf_kv *kv, uint64_t i);
/* Returns element i of a numeric value or array as a double. */
double gguf_kv_f64(const struct gguf_kv *kv, uint64_t i);
/* Iterates over a string array: start with *pos = kv->data; each call sets *s and *len, and
 * advances *pos. */
void gguf_kv_str_next(const struct gguf_kv *kv, const uint8_t **pos, const char **s, uint64_t *len);

/* Sets *text to the file's chat template; NULL: none. ERR_DATA: it contains a NUL, which would
 * truncate it. */
int gguf_chat_template(const struct gguf *g, const char **text, struct err *e);

/* Purpose of a GGUF file. */
enum gguf_part {
    GGUF_MODEL,
    GGUF_TOWER, /* vision tower (projector file) */
    GGUF_DRAFT, /* MTP block or draft model: it only drafts for another model */
    GGUF_OTHER  /* importance matrix, adapter, ... */
};
/* Returns the purpose of a file according to its metadata and tensor names. A file with MTP blocks
 * is a draft if it has no other blocks. */
enum gguf_part gguf_part_of(const struct gguf *g);
/* Returns llama.cpp's name for a draft's kind, "mtp", "eagle3" or "dflash": its files are called
 * KIND-..., and --spec-type draft-KIND uses them. NULL: not a draft. */
const char *gguf_draft_kind(const struct gguf *g);
/* Returns the projector type of a vision tower's file; "": it has none. */
const char *gguf_projector_type(const struct gguf *g);

/* ---- deeper checks --------------------------------------------------------------------------- */

/* Checks that chat templates contain no NUL, and that the tokenizer.* arrays are present and
 * equally long, with unique texts, ids in range and well-formed merges. Files without
 * tokenizer.ggml.model, or with model "none" or "no_vocab", pass. */
int gguf_check_tokenizer(const struct gguf *g, struct err *e);
/* Checks a tensor's data for NaN and infinity: the values of float tensors, the scales of quantized
 * blocks. */
int gguf_check_data(const struct gguf *g, const struct gguf_tensor *t, struct err *e);

/* ---- writing ---------------------------------------------------------------------------------
 * First declare keys and tensors. gguf_w_begin() then writes the whole header, as all sizes are
 * known. The tensors' data follow in declared order, in chunks of any size. gguf_w_commit() checks
 * that all bytes were written, syncs and renames; nothing appears under the final name before
 * that. */
struct gguf_w;
/* Returns an empty file to fill; release it with gguf_w_free(). */
struct gguf_w *gguf_w_new(void);
void gguf_w_free(struct gguf_w *w); /* without commit: removes the temporary files */

/* Set a key; setting it again replaces the value in place. split.* keys belong to the writer and
 * are ignored here. gguf_w_begin reports keys and texts that readers would reject.
 * "general.alignment" (u32) determines the padding; 32 if absent. */
void gguf_w_u32(struct gguf_w *w, const char *key, uint32_t v);
void gguf_w_i32(struct gguf_w *w, const char *key, int32_t v);
/* Sets an integer of any type (or GV_BOOL) that can hold v. */
void gguf_w_int(struct gguf_w *w, const char *key, enum gguf_vtype type, int64_t v);
void gguf_w_f32(struct gguf_w *w, const char *key, float v);
void gguf_w_bool(struct gguf_w *w, const char *key, bool v);
void gguf_w_str(struct gguf_w *w, const char *key, const char *s);
/* Sets a key to a text of len bytes, which may contain NUL. */
void gguf_w_strn(struct gguf_w *w, const char *key, const char *s, uint64_t len);
/* Sets a key to an array of n numbers or bools. */
void gguf_w_arr(struct gguf_w *w, const char *key, enum gguf_vtype elem, const void *v, uint64_t n);
void gguf_w_arr_str(struct gguf_w *w, const char *key, const char *const *s, uint64_t n);
/* Sets an array of strings with explicit lengths; they may contain NUL and need not end with
 * one. */
void gguf_w_arr_strn(struct gguf_w *w, const char *key, const char *const *s, const uint64_t *len,
                     uint64_t n);
/* Copies a key, with its value, from another file unchanged. */
void gguf_w_copy_kv(struct gguf_w *w, const struct gguf_kv *kv);
/* Removes a key; does nothing if it is not set. */
void gguf_w_remove(struct gguf_w *w, const char *key);
/* Declares a tensor and returns its index. ERR_DATA for names over 63 bytes, duplicates and invalid
 * shapes. */
int gguf_w_tensor(struct gguf_w *w, const char *name, enum qtype type, int n_dims,
                  const int64_t *ne, struct err *e);
/* Requests a split into several files; call before gguf_w_begin. A new shard starts where the
 * padded tensor bytes would exceed max_bytes (0: one file); with metadata_first, shard 1 has no
 * tensors. gguf_split_name names the shards. */
void gguf_w_split(struct gguf_w *w, uint64_t max_bytes, bool metadata_first);
uint64_t gguf_w_total_bytes(const struct gguf_w *w); /* of all files, exact */
/* Returns ERR_USAGE if a file to be written at `path` is one of the files of g. Call it once
 * everything is declared. */
int gguf_w_apart(struct gguf_w *w, const char *path, const struct gguf *g, struct err *e);
/* Checks free space and writes the headers. `path` is the final name (or OUT.gguf of a split). */
int gguf_w_begin(struct gguf_w *w, const char *path, bool overwrite, struct err *e);
/* Like gguf_w_begin, but with fixed temporary names (OUT.gguf.part, one per file of a split), so
 * that a later run with the same declarations can resume after the tensors already written. Keeps
 * existing contents unless `fresh` is set; gguf_w_resume sets the tensor at which writing resumes.
 * After gguf_w_keep, gguf_w_free leaves the files even without commit. */
int gguf_w_begin_part(struct gguf_w *w, const char *path, bool overwrite, bool fresh,
                      struct err *e);
int gguf_w_part_hash(struct gguf_w *w, int64_t tensor, char hex[33], struct err *e); /* XXH3-128 */
/* Continues after n_tensors tensors that an earlier run wrote. */
int gguf_w_resume(struct gguf_w *w, int64_t n_tensors, struct err *e);
/* Keeps the unfinished parts when the writer is freed. */
void gguf_w_keep(struct gguf_w *w);
int gguf_w_flush(struct gguf_w *w, struct err *e); /* writes buffered bytes to the files */
int gguf_w_sync(struct gguf_w *w, struct err *e);  /* waits until all written bytes are on disk */
/* Makes begin skip its check of free space, for a caller that frees space while it writes. */
void gguf_w_any_space(struct gguf_w *w);
int64_t gguf_w_n_complete(const struct gguf_w *w); /* tensors whose data are complete */
/* Appends the header of the first file; may be called before begin, once everything is declared.
 * With gguf_open_edited, a file can be examined before it is written. */
void gguf_w_header(struct gguf_w *w, struct buf *out);
/* Writes the XXH3-128 of all headers, i.e. of everything except the data; may be called before
 * begin, once everything is declared. Returns the number of files. */
int gguf_w_header_hash(struct gguf_w *w, char hex[33]);
/* Writes the next bytes of the current tensor. When it is complete, pads it and advances to the
 * next tensor. */
int gguf_w_data(struct gguf_w *w, const void *p, uint64_t n, struct err *e);
/* Puts all shards into place. ERR_USAGE: tensors are missing. */
int gguf_w_commit(struct gguf_w *w, struct err *e);

/* ---- editing (gguf_edit.c) ---------------------------------------------------------------------
 * Changes keys of an existing file (in a split set: of the named file). If the new header fits
 * before the data, only the n_bytes header bytes that differ are written. Otherwise n_room bytes
 * are inserted before the data, if the file system supports that and no other process has the file
 * open; or else the whole file is rewritten. An interrupted edit leaves either the old or the new
 * file, at the latest after gguf_recover, which gguf_open calls: it finishes or undoes the edit in
 * the journal next to the file. */
struct gguf_edit {
    bool in_place;
    uint64_t n_bytes, n_room;
    uint64_t n_links; /* names that the file had; if rewritten, the others keep the old one */
};
/* Examines the file as it would be after the edit; its tensor data must not be read. An error stops
 * the edit before anything is written. */
typedef int gguf_edit_check(struct gguf *edited, void *arg, struct err *e);
/* Sets n keys; a key whose data are NULL is removed. Existing keys keep their places. `check` may
 * be NULL; it sees all files of a split set. */
int gguf_edit_keys(const char *path, const struct gguf_kv *set, int n, gguf_edit_check *check,
                   void *arg, struct gguf_edit *how, struct err *e);
/* Sets a key to a text of len bytes. *how receives how the file was changed; how may be NULL. */
int gguf_edit_str(const char *path, const char *key, const char *text, uint64_t len,
                  struct gguf_edit *how, struct err *e);
/* Undoes an interrupted edit of the file, if it left a journal. */
int gguf_recover(const char *path, struct err *e);
extern void (*gguf_edit_hook)(int step); /* for tests of interruption; NULL: none */
/* Opens a file with a different header, which the caller keeps until close, and with `size` bytes.
 * Its tensor data must not be read. */
int gguf_open_edited(struct gguf **out, const char *path, const struct buf *header, uint64_t size,
                     unsigned flags, struct err *e);

/* Returns "M-00001-of-00003.gguf" for "M.gguf" (i starts at 0); the caller frees it. */
char *gguf_split_name(const char *path, int i, int n);
/* Parses a shard's file name: sets *i (from 0), *n and *prefix_len. Returns false for other
 * names. */
bool gguf_split_parse(const char *path, int *i, int *n, size_t *prefix_len);
/* Finds the encoding in a file name by the usual convention and writes it in capitals: the part
 * after the last '-' or '.' before the shard number, or the whole name; e.g. "Q4_K_M", "Q4_K_XL" or
 * "BF16". Returns false if the Hub would not recognise it. */
bool gguf_name_encoding(const char *file, char out[32]);
/* Returns a name without extension and shard number: "M-Q4_K_M" for "M-Q4_K_M.gguf" and
 * "M-Q4_K_M-00001-of-00003.gguf". The caller frees it with free(). */
char *gguf_stem(const char *file);

#endif
