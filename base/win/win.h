// SPDX-License-Identifier: MIT
/* base/win/win.h - what the files of the Windows implementation of base/os.h share. */
#ifndef HONE_BASE_WIN_WIN_H
#define HONE_BASE_WIN_WIN_H

#include <stdbool.h>
#include <stdint.h>
#include <wchar.h>

/* Returns a path in the system's form, to be freed: UTF-16 with `\`, and with the prefix for long
 * paths if needed. NULL with errno if it is not valid UTF-8, or if `create` is set and a component
 * cannot be a name on Windows: a device such as NUL, a character such as `:`, a trailing dot. */
wchar_t *win_path(const char *path, bool create);
/* Return a text in the other encoding, to be freed; NULL: invalid. win_utf8 turns `\` into `/` if
 * `slashes` is set. */
wchar_t *win_wide(const char *s);
char *win_utf8(const wchar_t *w, bool slashes);
/* Sets errno for a Windows error code and returns -1. */
int win_fail(unsigned long code);
/* Sets errno for the thread's last error and returns -1. */
int win_fail_last(void);
/* Reads the owner and the rights of a file from its handle: sets *uid (see os_uid) and adds to
 * *mode the bits of the access that other users have. */
void win_owner(void *handle, unsigned *uid, unsigned *mode);
/* Makes a file or folder accessible to its owner, the system and administrators only. */
bool win_make_private(const wchar_t *path);

#endif
