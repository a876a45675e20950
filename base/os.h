// SPDX-License-Identifier: MIT
/* base/os.h - what systems do differently: Linux's way, and what stands for it where that is
 * missing. Everything else in hone is POSIX.1-2008 with a few functions that glibc, musl, macOS and
 * the BSDs share; tests/cli/portable.sh holds the list. */
#ifndef HONE_BASE_OS_H
#define HONE_BASE_OS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* Make a pipe, a socket, or take a connection; none of their descriptors waits, and no program
 * that is started gets them. Return as pipe, socket and accept do. */
int os_pipe(int fd[2]);
int os_socket(int family, int type);
int os_accept(int listener, struct sockaddr *from, socklen_t *n);
/* Asks a silent peer after `seconds` whether it is still there. */
void os_keep_asking(int fd, int seconds);

/* Fills n bytes, 256 at most, with what nobody can guess. False: the system gives none, errno says
 * why. */
bool os_random(void *p, size_t n);

/* Renames a file unless there is one of the new name, which is errno EEXIST. ENOSYS, EINVAL: this
 * file system cannot. */
int os_rename_new(const char *from, const char *to);
/* Lengthens a file and takes the room for it. EOPNOTSUPP, ENOSYS: this file system cannot. */
int os_reserve(int fd, uint64_t size);

/* Tells whether the file lies on a disk of this machine, as far as the system says: then no process
 * elsewhere has it open, and its locks are known. */
bool os_is_local(int fd);

enum { OS_CPUS = 1024 };
/* Sets bit i of word j where the process may run on processor 64j + i. Returns how many those are;
 * 0: the system does not say, or numbers them higher. */
int os_cpus(uint64_t cpus[OS_CPUS / 64]);
/* Returns how many cores are of the fastest kind, where the system says that alone (macOS); 0: it
 * does not. */
int os_big_cores(void);
/* Keeps a thread on these processors; where that is refused it runs anywhere, as before. */
void os_stay(pthread_t thread, const uint64_t cpus[OS_CPUS / 64]);
/* Asks that whole pages come from all memory nodes of the mask (n bits) in turn. Returns 0 or an
 * errno. */
int os_interleave(void *p, uint64_t n_bytes, const unsigned long *mask, unsigned long n);

/* Takes rights from the process: what it starts gains none. `hide`: nobody else of the same user
 * can read its memory, which goes into no core file. */
void os_give_up_rights(bool hide);

#endif
