// SPDX-License-Identifier: MIT
/* base/os.h - the operating system: files, maps, locks, folders, processors, signals and terminals.
 *
 * No other header leads to the system: outside base/, tests/lint/os.sh refuses the system's headers
 * and calls, except in files that exist for one system only. Sockets are in base/os_net.h.
 * Functions return what the POSIX call of that name returns, and set errno. The code for
 * Linux, macOS and the BSDs is in os.c, os_file.c, os_run.c, os_net.c and os_bare.c, that for
 * Windows in base/win/.
 * Library functions of POSIX.1-2008 that need no system, and a few that glibc, musl, macOS and the
 * BSDs share, are called directly; tests/cli/portable.sh has the list. */
#ifndef HONE_BASE_OS_H
#define HONE_BASE_OS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ---- files ---- */

enum os_kind { OS_OTHER, OS_FILE, OS_FOLDER, OS_LINK, OS_PIPE };
/* State of a file. */
struct os_stat {
    enum os_kind kind;
    unsigned mode; /* permission bits */
    unsigned uid;  /* owner, see os_uid */
    uint64_t size, n_links;
    uint64_t stored; /* bytes allocated on disk */
    uint64_t dev, ino;
    int64_t mtime_s, ctime_s; /* last change of the data, and of the data or the state */
    long mtime_ns, ctime_ns;
};
int os_stat(const char *path, struct os_stat *st);
int os_lstat(const char *path, struct os_stat *st); /* of the link itself */
int os_fstat(int fd, struct os_stat *st);
/* Returns whether both are states of the same file. */
static inline bool os_same_file(const struct os_stat *a, const struct os_stat *b) {
    return a->dev == b->dev && a->ino == b->ino;
}
/* Returns whether the path exists, as far as it can be examined; errno gives the reason. */
bool os_exists(const char *path);

/* Flags of os_open. OS_NEW: fails with EEXIST if the file exists. OS_NO_LINK: fails if the last
 * component is a link. OS_NO_WAIT: opening and reading never block. OS_DIR: opens a folder. */
enum {
    OS_READ = 1,
    OS_WRITE = 2,
    OS_CREATE = 4,
    OS_NEW = 8,
    OS_EMPTY = 16,
    OS_APPEND = 32,
    OS_NO_LINK = 64,
    OS_NO_WAIT = 128,
    OS_DIR = 256
};
/* Opens a file that programs started later do not inherit; `mode` applies to new files. */
int os_open(const char *path, int how, unsigned mode);
int os_close(int fd);
FILE *os_fopen(const char *path, const char *mode); /* not inherited either */
int64_t os_read(int fd, void *p, size_t n);
int64_t os_write(int fd, const void *p, size_t n); /* async-signal-safe */
int64_t os_pread(int fd, void *p, size_t n, uint64_t at);
int64_t os_pwrite(int fd, const void *p, size_t n, uint64_t at);
int os_truncate(int fd, uint64_t size);
int os_set_wait(int fd); /* undoes OS_NO_WAIT */
int os_dup(int fd);
/* Waits until the file's bytes, or those and its metadata, are on the disk. */
int os_sync_data(int fd);
int os_sync(int fd);
/* Takes an exclusive lock, which ends when fd is closed. Without `wait`, fails with EWOULDBLOCK if
 * another open file has it; other errors: the file system has no locks. */
int os_lock(int fd, bool wait);
/* Drops the file's pages of this range from the page cache. False: not possible. */
bool os_uncache(int fd, uint64_t at, uint64_t n);

int os_unlink(const char *path); /* async-signal-safe */
int os_rename(const char *from, const char *to);
int os_link(const char *from, const char *to);
int os_symlink(const char *to, const char *path);
int os_mkdir(const char *path, unsigned mode);
int os_rmdir(const char *path);
int os_chmod(const char *path, unsigned mode);
int os_fchmod(int fd, unsigned mode);
int os_touch(const char *path); /* sets the times to now */
/* Create a folder or a file of mode 0600 with a new name: replaces the XXXXXX at the path's end. */
char *os_mkdtemp(char *path);
int os_mkstemp(char *path);
/* Returns the path with links, "." and ".." resolved, to be freed; NULL and errno. */
char *os_real(const char *path);

/* Room for a path, in bytes. Not PATH_MAX, which is 260 on Windows. */
enum { OS_PATH_MAX = 4096 };
/* Returns whether the character separates the names of a path: '/', and on Windows '\\'. */
static inline bool os_is_slash(char c) {
#ifdef _WIN32
    if (c == '\\') return true;
#endif
    return c == '/';
}
/* Returns whether the system can create a file of that name. On Windows, a name can be no device
 * (NUL, COM1.txt), end with no dot or blank, and have none of <>:"|?*. */
bool os_can_be_name(const char *path);
/* Returns the folder for temporary files, if the user names none. */
const char *os_temp_dir(void);
/* Returns whether the path starts at the root, or on Windows at a drive. */
bool os_is_absolute(const char *path);

/* Reads a folder. os_dir_next returns a borrowed name, including "." and ".."; NULL: the end, or an
 * error if errno is set. */
struct os_dir;
struct os_dir *os_dir_open(const char *path);
const char *os_dir_next(struct os_dir *d);
void os_dir_close(struct os_dir *d);

/* Gets the free space of the file system that contains the path. */
int os_free_space(const char *path, uint64_t *n_bytes);
/* Gets the block size of the file system that fd is on. */
int os_block_size(int fd, uint64_t *n_bytes);

/* Returns the user that owns new files. 0 is the administrator. */
unsigned os_uid(void);

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
int os_remove_range(int fd, uint64_t at, uint64_t n);
/* Return the offset of the first hole, or of the first data, at or after `at`; -1: none or unknown,
 * see errno. The end of the file counts as a hole. */
int64_t os_next_hole(int fd, uint64_t at);
int64_t os_next_data(int fd, uint64_t at);
/* Takes a lease on a file. Returns false if another process has it open, or the system has no
 * leases. Until os_end_lease, processes that try to open the file wait. */
bool os_lease(int fd);
void os_end_lease(int fd);

/* Returns whether the file is on a local disk, as far as the system knows. If so, no other machine
 * has it open, and locks on it are reliable. */
bool os_is_local(int fd);

/* ---- memory ---- */

/* Maps n > 0 bytes of a file for reading; NULL with errno on failure. */
void *os_map(int fd, uint64_t n);
void os_unmap(void *p, uint64_t n);
/* Drops whole pages of a map from memory; they are read again when needed. */
void os_map_drop(void *p, uint64_t n);
/* Allocate zero pages that cost nothing until touched, and request huge pages for part of them.
 * os_pages_new returns NULL if the address space is used up. */
void *os_pages_new(uint64_t n);
void os_pages_huge(void *p, uint64_t n);
void os_pages_free(void *p, uint64_t n);
uint64_t os_page_bytes(void);
/* Returns the memory that programs can use without swapping; 0: unknown. */
uint64_t os_free_memory(void);
/* Returns n bytes aligned to `align`, a power of two; free with os_aligned_free. NULL: none left.
 */
void *os_aligned(size_t align, size_t n);
void os_aligned_free(void *p);
/* Makes free() return large blocks to the system, and returns what it can now. */
void os_heap_give_back(void);
void os_heap_trim(void);

/* ---- processors and the process ---- */

enum { OS_CPUS = 1024 };
/* Sets bit i of word j if the process may run on processor 64j + i. Returns the number of these
 * processors; 0: unknown, or their numbers are too high. */
int os_cpus(uint64_t cpus[OS_CPUS / 64]);
/* Returns the number of processors; 0: unknown. */
int os_n_cpus(void);
/* Return the numbers of physical cores and of cores of the fastest kind, on systems that report
 * only numbers (macOS, Windows); 0: unknown. */
int os_n_cores(void);
int os_big_cores(void);
/* Pins a thread to these processors. If the system refuses, the thread stays unpinned. */
void os_stay(pthread_t thread, const uint64_t cpus[OS_CPUS / 64]);
/* Requests pages interleaved over the memory nodes of the mask (n bits). Returns 0 or an errno. */
int os_interleave(void *p, uint64_t n_bytes, const unsigned long *mask, unsigned long n);
/* Requests AMX tiles for all threads. False: refused or another system. */
bool os_use_tiles(void);
/* Return whether the CPU supports ARM's dotprod and i8mm instructions. */
bool os_arm_dotprod(void);
bool os_arm_i8mm(void);

/* Keeps the process and the programs that it starts from gaining privileges (no_new_privs). With
 * `hide`, other processes of the same user cannot read its memory, and it dumps no core. */
void os_give_up_rights(bool hide);
int64_t os_pid(void);
/* Ends the process at once, without flushing streams; async-signal-safe. */
_Noreturn void os_exit(int status);
void os_sleep_ms(int ms);
/* Returns the seconds by which local time is ahead of UTC at the time t. */
long os_gmtoff(int64_t t);
/* Writes the names of the system and of the machine's architecture; "" if unknown. */
void os_name(char *name, size_t n_name, char *machine, size_t n_machine);
/* Returns whether the process has ended, as far as the system knows. */
bool os_process_ended(int64_t pid);
/* Runs a program, found by the PATH, and waits for it. Returns its status; -1: cannot be started,
 * 255: it was killed. */
int os_run_program(char *const argv[]);
/* Returns whether the address space or the data of the process is limited. */
bool os_memory_is_limited(void);

/* Opens a shared library, or with `loaded` only finds one that the process has loaded already.
 * NULL: none; os_library_error gives the reason. */
void *os_library(const char *name, bool loaded);
void *os_symbol(void *library, const char *name);
const char *os_library_error(void);

/* The calling thread's locale: switches to "C" and stores the previous one. Returns false if memory
 * runs out. */
struct os_locale {
    void *plain, *before;
};
bool os_locale_c(struct os_locale *l);
void os_locale_back(struct os_locale *l);

/* ---- signals and terminals ---- */

/* Installs a handler of interruptions (SIGINT, SIGTERM, and the first SIGHUP unless that is
 * ignored) and returns the previous one. It must be async-signal-safe, and may run in any thread.
 */
typedef void (*os_handler)(int sig);
os_handler os_on_interrupt(os_handler handler);
/* Installs a handler of failed reads of maps. It gets the address; if it returns, the process ends
 * as by any bug. */
void os_on_map_fault(void (*handler)(const void *at));
/* Blocks the calling thread for good. */
_Noreturn void os_stop_thread(void);
/* Makes writes to closed pipes and beyond a size limit fail with an error, not a signal. */
void os_ignore_write_signals(void);
/* Ends the process as if a write to a closed pipe had ended it. */
void os_end_by_pipe(void);
/* Prepares the process; main() calls it first. Opens closed standard streams, so that no other file
 * gets their descriptor and receives the output; reads and writes then fail. On Windows, the
 * arguments become UTF-8 and the streams bytes. */
void os_begin(int *argc, char ***argv);
/* Returns whether the reader of standard output has exited. */
bool os_stdout_gone(void);
/* Waits up to ms for a pipe to become writable. Returns 1, 0 if not, -1 with errno. */
int os_wait_writable(int fd, int ms);
/* Returns whether unread data wait in standard input, a pipe or a file. */
bool os_stdin_waits(void);
bool os_is_tty(FILE *f);
/* Returns the columns of a terminal; 0: unknown, or not a terminal. */
int os_tty_width(FILE *f);

/* Name of a file without contents. */
#define OS_NULL_FILE "/dev/null"

/* Wakes a thread that waits for descriptors: end [0] becomes readable when os_wake writes a byte to
 * end [1]. Both are non-blocking and close-on-exec. os_wake is async-signal-safe. */
int os_wake_new(int fd[2]);
void os_wake(int fd);
/* Takes all bytes out of end [0]. */
void os_wake_clear(int fd);
void os_wake_free(int fd[2]);

#endif
