// SPDX-License-Identifier: MIT
/* base/out.h - output files that appear whole or not at all. */
#ifndef HONE_BASE_OUT_H
#define HONE_BASE_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* An output file. Bytes go to PATH.tmp-XXXXXX in the same folder; out_commit syncs and renames,
 * out_close without commit removes it. All open outputs are unlinked on out_abort_all (called on
 * fatal signals by cli/, async-signal-safe). */
struct out;
/* Checks whether out_open would take this path, before long work begins: ERR_USAGE for what is
 * there and must not be replaced, folders, devices and streams. */
int out_check(const char *path, bool overwrite, struct err *e);
/* Opens an output. With `overwrite` an existing file is replaced at commit, otherwise it is
 * refused at once (ERR_USAGE, "use -f"). */
int out_open(struct out **out, const char *path, bool overwrite, struct err *e);
/* Opens an output under the name PATH.part, which is the same for every run and may be there
 * already; `fresh` empties it. It stays when the process is killed or out_abort_all is called;
 * out_close removes it unless out_keep was called. The caller sees to it that nobody else writes
 * there. */
int out_open_part(struct out **out, const char *path, bool overwrite, bool fresh, struct err *e);
void out_keep(struct out *o);
uint64_t out_size(const struct out *o); /* bytes in the file now, less buffered ones */
/* Reads back what was written. ERR_DATA when the file ends before off + n. */
int out_read_back(struct out *o, void *p, uint64_t n, uint64_t off, struct err *e);
/* Makes the file `size` bytes long, with zeros at its end if it was shorter; writing goes on there.
 */
int out_cut(struct out *o, uint64_t size, struct err *e);
int out_write(struct out *o, const void *p, uint64_t n, struct err *e);
int out_flush(struct out *o, struct err *e); /* buffered bytes to the file, not to the disk */
int out_pad(struct out *o, uint64_t n_zero_bytes, struct err *e);
/* Writes anywhere within what was or will be written, also from several threads. */
int out_pwrite(struct out *o, const void *p, uint64_t n, uint64_t off, struct err *e);
int out_resize(struct out *o, uint64_t size, struct err *e); /* reserve: ENOSPC shows here */
/* Gives the file its name. ERR_DATA when an input that is mapped now was changed meanwhile
 * (map_unchanged). */
int out_commit(struct out *o, struct err *e);
void out_close(struct out *o); /* NULL is fine; after commit only frees */
void out_abort_all(void);
/* Writes a whole small file in one call, atomically. With _again, an existing file with the same
 * bytes is accepted. With _private the file has mode 0600, even if it replaces a readable one. */
int out_write_file(const char *path, const void *p, size_t n, bool overwrite, struct err *e);
int out_write_private(const char *path, const void *p, size_t n, bool overwrite, struct err *e);
int out_write_again(const char *path, const void *p, size_t n, bool overwrite, struct err *e);

#endif
