// SPDX-License-Identifier: MIT
/* base/out.h - output files that appear complete or not at all. */
#ifndef HONE_BASE_OUT_H
#define HONE_BASE_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* An output file. Bytes go to a temporary file PATH.tmp-* in the same folder. out_commit syncs and
 * renames it; out_close without commit removes it. out_abort_all (async-signal-safe; cli/ calls it
 * on fatal signals) unlinks all open outputs. */
struct out;
/* Checks, before a long job begins, whether out_open would accept this path. ERR_USAGE: the path
 * exists and must not be replaced, or is a folder, device or stream. */
int out_check(const char *path, bool overwrite, struct err *e);
/* Returns ERR_USAGE if the output is one of n existing inputs under any name; in[i] NULL: none. */
int out_apart(const char *path, const char *const *in, size_t n, struct err *e);
/* Opens the output and discards it, which shows that its folder exists and can be written to. */
int out_try(const char *path, bool overwrite, struct err *e);
/* Opens an output. With `overwrite`, out_commit replaces an existing file; otherwise out_open
 * refuses it (ERR_USAGE, "use -f"). */
int out_open(struct out **out, const char *path, bool overwrite, struct err *e);
/* Opens an output as PATH.part, a name that is the same in every run. An existing file is
 * continued, or emptied if `fresh` is set. The file survives a killed process and out_abort_all;
 * out_close removes it unless out_keep was called. The caller ensures that no other process writes
 * to it. */
int out_open_part(struct out **out, const char *path, bool overwrite, bool fresh, struct err *e);
/* Makes out_close() keep an unfinished PATH.part, to be continued later. */
void out_keep(struct out *o);
uint64_t out_size(const struct out *o); /* bytes in the file, without buffered ones */
/* Reads written bytes. ERR_DATA if the file ends before off + n. */
int out_read_back(struct out *o, void *p, uint64_t n, uint64_t off, struct err *e);
/* Sets the file's size, padding with zeros if it grows; writing continues at the new end. */
int out_cut(struct out *o, uint64_t size, struct err *e);
/* Appends n bytes; safe to call from several threads. */
int out_write(struct out *o, const void *p, uint64_t n, struct err *e);
int out_flush(struct out *o, struct err *e); /* writes buffered bytes to the file; does not sync */
int out_sync(struct out *o, struct err *e);  /* flushes, and waits until the bytes are on disk */
/* Appends n_zero_bytes zero bytes. */
int out_pad(struct out *o, uint64_t n_zero_bytes, struct err *e);
/* Writes at any offset within the present or future file; thread-safe. */
int out_pwrite(struct out *o, const void *p, uint64_t n, uint64_t off, struct err *e);
int out_resize(struct out *o, uint64_t size, struct err *e); /* allocates disk blocks */
/* Syncs the file and gives it its final name. ERR_DATA: a mapped input has changed
 * (map_unchanged). */
int out_commit(struct out *o, struct err *e);
void out_close(struct out *o); /* NULL is fine; after commit only frees */
/* Deletes all temporary files of the process; safe in a signal handler. */
void out_abort_all(void);
/* Write a whole small file atomically. out_write_again accepts an existing file with the same
 * bytes; out_write_private creates it with mode 0600, even if it replaces a readable one. */
int out_write_file(const char *path, const void *p, size_t n, bool overwrite, struct err *e);
/* Writes a file that only its owner may read. */
int out_write_private(const char *path, const void *p, size_t n, bool overwrite, struct err *e);
/* Writes a file; without `overwrite` an existing one is fine if it has the same bytes. */
int out_write_again(const char *path, const void *p, size_t n, bool overwrite, struct err *e);

#endif
