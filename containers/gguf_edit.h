// SPDX-License-Identifier: MIT
/* containers/gguf_edit.h - what the files of the GGUF editor share. */
#ifndef HONE_CONTAINERS_GGUF_EDIT_H
#define HONE_CONTAINERS_GGUF_EDIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/* Tells a test that step i is about to happen. */
void gguf_edit_step(int i);
/* Writes n bytes at `off`, page by page, and syncs the file. */
int gguf_write_range(int fd, const char *path, const char *p, uint64_t n, uint64_t off,
                     struct err *e);

/* Room in front of the data: n bytes are inserted at `at` into a file of `size` bytes. */
struct gguf_room {
    uint64_t size, at, n;
};
/* Plans room for `need` bytes more in front of data_off. Returns false where it cannot be made. */
bool gguf_room_plan(int fd, uint64_t data_off, uint64_t align, uint64_t need,
                    struct gguf_room *room);
/* Inserts the blocks and writes the header, which ends where the data will begin. *done is false,
 * and the file as it was, when somebody has it open or the file system cannot do it. */
int gguf_room_make(int fd, const char *path, const char *journal, const struct gguf_room *r,
                   const struct buf *header, bool *done, struct err *e);
/* Tells whether a journal is of such an edit. */
bool gguf_room_is(const char *journal, size_t len);
/* Finishes or undoes the edit that the journal announces, and removes it. */
int gguf_room_recover(int fd, const char *path, const char *name, const char *journal, size_t len,
                      struct err *e);

#endif
