// SPDX-License-Identifier: MIT
/* containers/gguf_edit.h - declarations shared by gguf_edit.c and gguf_room.c. */
#ifndef HONE_CONTAINERS_GGUF_EDIT_H
#define HONE_CONTAINERS_GGUF_EDIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/* Tells a test, through gguf_edit_hook, that step i is next. */
void gguf_edit_step(int i);
/* Writes n bytes at `off`, page by page, and syncs the file. */
int gguf_write_range(int fd, const char *path, const char *p, uint64_t n, uint64_t off,
                     struct err *e);
/* Removes a journal; a missing one is not an error. */
int gguf_journal_remove(const char *name, struct err *e);
/* Sets e to "the journal does not belong to the file", and returns ERR_DATA. */
int gguf_journal_foreign(const char *path, const char *name, struct err *e);

/* Space to be made before the tensor data: n bytes, inserted at `at` into a file of `size`
 * bytes. */
struct gguf_room {
    uint64_t size, at, n;
};
/* Plans to insert at least `need` bytes before data_off. Returns false if that is impossible. */
bool gguf_room_plan(int fd, uint64_t data_off, uint64_t align, uint64_t need,
                    struct gguf_room *room);
/* Inserts the blocks, and writes the header, which ends where the data will begin. Sets *done to
 * false and leaves the file unchanged if another process has it open or the file system does not
 * support this. */
int gguf_room_make(int fd, const char *path, const char *journal, const struct gguf_room *r,
                   const struct buf *header, bool *done, struct err *e);
/* Returns whether a journal was written by gguf_room_make. */
bool gguf_room_is(const char *journal, size_t len);
/* Finishes or undoes the edit that the journal describes, then removes the journal. */
int gguf_room_recover(int fd, const char *path, const char *name, const char *journal, size_t len,
                      struct err *e);

#endif
