// SPDX-License-Identifier: MIT
/* base/os_run.c - processes, signals, terminals and shared libraries of POSIX systems. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#if defined(__APPLE__)
#include <xlocale.h>
#endif

#include "base/os.h"

/* ---- the process ---- */

int64_t os_pid(void) {
    return (int64_t)getpid();
}
bool os_process_ended(int64_t pid) {
    return pid > 0 && pid <= INT32_MAX && kill((pid_t)pid, 0) != 0 && errno == ESRCH;
}
void os_exit(int status) {
    _exit(status);
}
void os_sleep_ms(int ms) {
    const struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    nanosleep(&t, NULL);
}
long os_gmtoff(int64_t t) {
    const time_t at = (time_t)t;
    struct tm tm;
    return localtime_r(&at, &tm) ? tm.tm_gmtoff : 0;
}
void os_name(char *name, size_t n_name, char *machine, size_t n_machine) {
    struct utsname u;
    const bool known = uname(&u) == 0;
    snprintf(name, n_name, "%s", known ? u.sysname : "");
    snprintf(machine, n_machine, "%s", known ? u.machine : "");
}
bool os_memory_is_limited(void) {
    struct rlimit space, data;
    return getrlimit(RLIMIT_AS, &space) || space.rlim_cur != RLIM_INFINITY ||
           getrlimit(RLIMIT_DATA, &data) || data.rlim_cur != RLIM_INFINITY;
}
int os_run_program(char *const argv[]) {
    extern char **environ;
    pid_t pid;
    int status = 0;
    if (posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ) != 0) return -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

/* ---- shared libraries and locales ---- */

void *os_library(const char *name, bool loaded) {
    return dlopen(name, loaded ? RTLD_NOW | RTLD_NOLOAD : RTLD_NOW | RTLD_LOCAL);
}
void *os_symbol(void *library, const char *name) {
    return dlsym(library, name);
}
const char *os_library_error(void) {
    const char *why = dlerror();
    return why ? why : "";
}
bool os_locale_c(struct os_locale *l) {
    l->plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (l->plain) l->before = uselocale((locale_t)l->plain);
    return l->plain;
}
void os_locale_back(struct os_locale *l) {
    uselocale((locale_t)l->before);
    freelocale((locale_t)l->plain);
}

/* ---- signals ---- */

static os_handler hangup_handler;
/* Handles the first of the signals that the shell and the system send when a terminal is lost. */
static void on_hangup(int sig) {
    signal(sig, SIG_IGN);
    hangup_handler(sig);
}
os_handler os_on_interrupt(os_handler handler) {
    struct sigaction sa = {.sa_handler = handler}, old, hangup;
    sigemptyset(&sa.sa_mask);
    sigaction(SIGINT, &sa, &old);
    sigaction(SIGTERM, &sa, NULL);
    hangup_handler = handler;
    sa.sa_handler = on_hangup;
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN) /* as with nohup */
        sigaction(SIGHUP, &sa, NULL);
    return old.sa_handler;
}
static void (*map_fault_handler)(const void *at);
/* Calls the handler; if it returns, this is not a mapped input but a bug: the same instruction
 * faults again with the default action. */
static void on_bus(int sig, siginfo_t *si, void *ctx) {
    (void)ctx;
    map_fault_handler(si->si_addr);
    signal(sig, SIG_DFL);
}
void os_on_map_fault(void (*handler)(const void *at)) {
    struct sigaction bus = {.sa_flags = SA_SIGINFO};
    map_fault_handler = handler;
    bus.sa_sigaction = on_bus;
    sigemptyset(&bus.sa_mask);
    sigaction(SIGBUS, &bus, NULL);
}
void os_stop_thread(void) {
    for (;;) pause();
}
void os_ignore_write_signals(void) {
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
}
void os_end_by_pipe(void) {
    signal(SIGPIPE, SIG_DFL);
    raise(SIGPIPE);
}

/* ---- standard streams and terminals ---- */

void os_begin(int *argc, char ***argv) {
    (void)argc, (void)argv;
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) /* the direction is wrong on purpose */
            (void)!open(OS_NULL_FILE, fd == STDOUT_FILENO ? O_RDONLY : O_WRONLY);
}
bool os_stdout_gone(void) {
    struct pollfd p = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return poll(&p, 1, 0) == 1 && (p.revents & POLLERR);
}
int os_wait_writable(int fd, int ms) {
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    return poll(&p, 1, ms);
}
bool os_stdin_waits(void) {
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
    struct stat st;
    if (fstat(STDIN_FILENO, &st) != 0) return false;
    return S_ISFIFO(st.st_mode)
               ? poll(&p, 1, 0) > 0 && (p.revents & POLLIN)
               : S_ISREG(st.st_mode) && lseek(STDIN_FILENO, 0, SEEK_CUR) < st.st_size;
}
bool os_is_tty(FILE *f) {
    return isatty(fileno(f));
}
int os_tty_width(FILE *f) {
    struct winsize ws = {0};
    const int fd = fileno(f);
    return fd >= 0 && isatty(fd) && ioctl(fd, TIOCGWINSZ, &ws) == 0 ? ws.ws_col : 0;
}
