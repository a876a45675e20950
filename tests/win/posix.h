// SPDX-License-Identifier: MIT
/* tests/win/posix.h - the POSIX calls of the unit tests, on Windows. The Makefile includes it
 * before everything else in a test. */
#ifndef HONE_TESTS_WIN_POSIX_H
#define HONE_TESTS_WIN_POSIX_H

#include <direct.h>
#include <fcntl.h>
#include <io.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os.h"

#define mkdtemp os_mkdtemp
#define mkstemp os_mkstemp
#define symlink win_copy
#define mkdir os_mkdir
#define rmdir os_rmdir
#define unlink os_unlink
#define rename os_rename
#define system win_system
#define setenv(name, value, always) _putenv_s(name, value)
#define unsetenv(name) _putenv_s(name, "")
#define realpath(path, to) _fullpath(to, path, 4096)

/* Runs a shell command. Of all commands only `rm -rf 'PATH'` is needed, and cmd.exe has no rm. */
int win_system(const char *command);

/* Copies a file instead of linking to it: CreateSymbolicLinkW of Wine 8 succeeds without a link. */
int win_copy(const char *from, const char *to);

/* Streams write bytes as they are. */
__attribute__((constructor)) static void win_binary(void) {
    _fmode = _O_BINARY;
    _setmode(1, _O_BINARY);
}

#endif
