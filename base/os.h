// SPDX-License-Identifier: MIT
/* base/os.h - operating-system differences: Linux interfaces, with replacements on systems that
 * lack them. The rest of hone uses POSIX.1-2008 plus a few functions that glibc, musl, macOS and
 * the BSDs share; tests/cli/portable.sh has the list. */
#ifndef HONE_BASE_OS_H
#define HONE_BASE_OS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* Create a pipe or a socket, or accept a connection; descriptors are non-blocking and
 * close-on-exec. Return as pipe, socket and accept do. */
int os_pipe(int fd[2]);
/* Returns a socket that programs started later do not inherit, -1 with errno on failure. */
int os_socket(int family, int type);
/* Accepts a connection not inherited by programs started later; -1 with errno on failure. */
int os_accept(int listener, struct sockaddr *from, socklen_t *n);
/* Enables TCP keepalive, which probes a silent peer after `seconds`. */
void os_keep_asking(int fd, int seconds);

/* Fills p with n (at most 256) cryptographically random bytes. False: none available; errno gives
 * the reason. */
bool os_random(void *p, size_t n);

/* Renames a file without replacing an existing one (errno EEXIST). ENOSYS, EINVAL: not supported by
 * this file system. */
int os_rename_new(const char *from, const char *to);
/* Extends a file and allocates its blocks. EOPNOTSUPP, ENOSYS: not supported by this file
 * system. */
int os_reserve(int fd, uint64_t size);
/* Add n zero bytes at an offset, or remove n bytes there, without copying the bytes after them.
 * Offset and n are multiples of the file system's block size. Return values are those of fallocate;
 * ENOSYS, EOPNOTSUPP: not supported. */
int os_insert_range(int fd, uint64_t at, uint64_t n);
/* Removes n bytes at `at` from the file, shifting the rest; -1 with errno set if unsupported. */
int os_remove_range(int fd, uint64_t at, uint64_t n);
/* Return the offset of the first hole, or of the first data, at or after `at`; -1: none or unknown,
 * see errno. The end of the file counts as a hole. */
int64_t os_next_hole(int fd, uint64_t at);
/* Returns the offset of the next data at or after `at`, past holes; -1 with errno on failure. */
int64_t os_next_data(int fd, uint64_t at);
/* Takes a lease on a file. Returns false if another process has it open, or the system has no
 * leases. Until os_end_lease, processes that try to open the file wait. */
bool os_lease(int fd);
void os_end_lease(int fd);

/* Returns whether the file is on a local disk, as far as the system knows. If so, no other machine
 * has it open, and locks on it are reliable. */
bool os_is_local(int fd);

enum { OS_CPUS = 1024 };
/* Sets bit i of word j if the process may run on processor 64j + i. Returns the number of these
 * processors; 0: unknown, or their numbers are too high. */
int os_cpus(uint64_t cpus[OS_CPUS / 64]);
/* Returns the number of cores of the fastest kind, on systems that report only that (macOS); 0:
 * unknown. */
int os_big_cores(void);
/* Pins a thread to these processors. If the system refuses, the thread stays unpinned. */
void os_stay(pthread_t thread, const uint64_t cpus[OS_CPUS / 64]);
/* Requests pages interleaved over the memory nodes of the mask (n bits). Returns 0 or an errno. */
int os_interleave(void *p, uint64_t n_bytes, const unsigned long *mask, unsigned long n);

/* Keeps the process and the programs that it starts from gaining privileges (no_new_privs). With
 * `hide`, other processes of the same user cannot read its memory, and it dumps no core. */
void os_give_up_rights(bool hide);

#endif
