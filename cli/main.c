// SPDX-License-Identifier: MIT
/* cli/main.c - entry point: runs the command, prints its error and returns the exit status.
 * Installs signal handlers: the first SIGINT or SIGTERM interrupts the context of the process
 * (base/ctx.h), a second one removes temporary outputs and exits at once. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "base/attr.h"
#include "base/ctx.h"
#include "base/map.h"
#include "base/out.h"
#include "base/log.h"
#include "base/ranks.h"

/* Interrupts the program; exits on the second signal. */
static void on_signal(int sig) {
    struct ctx *program = ctx_process();
    /* With several ranks, this one may be waiting for one that has exited. */
    if (atomic_load(&program->interrupted) || program->ranks.n > 1) {
        out_abort_all();
        _exit(ERR_INTR);
    }
    (void)sig;
    ctx_interrupt(program);
}

/* Ends the program with an error if a mapped input was truncated or its disk failed. The thread
 * cannot continue; only the first one to arrive prints the message. */
static void on_bus(int sig, siginfo_t *si, void *ctx) {
    static atomic_flag busy = ATOMIC_FLAG_INIT;
    static const char head[] = "hone: error: ";
    char msg[PATH_MAX + 200];
    int rc = map_fault(si->si_addr, msg, sizeof msg - 1);
    (void)ctx;
    /* This is not a mapped input but a bug: the same instruction faults again with the default
     * action. */
    if (!rc) {
        signal(sig, SIG_DFL);
        return;
    }
    while (atomic_flag_test_and_set(&busy)) pause();
    size_t n = strlen(msg);
    msg[n] = '\n';
    ssize_t ignored = write(STDERR_FILENO, head, sizeof head - 1);
    ignored = write(STDERR_FILENO, msg, n + 1);
    (void)ignored;
    out_abort_all();
    _exit(rc);
}

/* Returns whether several ranks can share the work of this command. */
static bool shared_out(int argc, char **argv) {
    static const char *const list[][2] = {{"quantize", NULL},
                                          {"imatrix", NULL},
                                          {"sensitivity", NULL},
                                          {"eval", "ppl"},
                                          {"eval", "kld"}};
    for (size_t i = 0; argc > 1 && i < COUNT_OF(list); i++)
        if (strcmp(argv[1], list[i][0]) == 0 &&
            (!list[i][1] || (argc > 2 && strcmp(argv[2], list[i][1]) == 0)))
            return true;
    return false;
}

/* Opens closed standard streams on /dev/null, so that no other file gets their descriptor and
 * receives the output. The direction is wrong on purpose, so that reads and writes fail. */
static void need_streams(void) {
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)!open("/dev/null", fd == STDOUT_FILENO ? O_RDONLY : O_WRONLY);
}

/* Returns whether the reader of standard output has exited, as in `hone recipes | head -1`. */
static bool reader_gone(void) {
    struct pollfd p = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return ferror(stdout) && poll(&p, 1, 0) == 1 && (p.revents & POLLERR);
}

/* Ends the process by the default action of SIGPIPE. Outputs are complete or removed by now. */
static void end_by_sigpipe(void) {
    signal(SIGPIPE, SIG_DFL);
    raise(SIGPIPE);
}

/* Installs handlers for interruptions and faults of maps; ignores SIGPIPE and SIGXFSZ. */
static void take_signals(void) {
    struct sigaction sa = {0};
    sa.sa_handler = on_signal;
    sigemptyset(&sa.sa_mask);
    sigaction(SIGINT, &sa, NULL);
    sigaction(SIGTERM, &sa, NULL);
    struct sigaction bus = {.sa_flags = SA_SIGINFO};
    bus.sa_sigaction = on_bus;
    sigemptyset(&bus.sa_mask);
    sigaction(SIGBUS, &bus, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* A size limit then fails the write, with our message. */
}

/* Runs the command in one process or one of several ranks, of which only rank 0 prints. *speak: the
 * standard error of the other ranks, or NULL. */
static int run_rank(int argc, char **argv, FILE **speak, struct err *e) {
    struct cli c = {.work.ctx = ctx_process(), .out = stdout};
    int rc = 0;
    if (ranks_n() > 1 && !shared_out(argc, argv))
        rc = err_set(e, ERR_USAGE,
                     "%s: only quantize, imatrix, sensitivity, eval ppl and eval kld can run on "
                     "several ranks; start this without mpirun",
                     argc > 1 ? argv[1] : "no command");
    *speak = ranks_me() == 0 ? NULL : fdopen(dup(STDERR_FILENO), "w");
    if (ranks_me() != 0 &&
        !(*speak && freopen("/dev/null", "w", stdout) && freopen("/dev/null", "w", stderr)))
        rc = err_sys(e, "/dev/null");
    if (rc == 0) rc = command_run(&c, argc, argv, e);
    ctx_release(c.work.ctx);
    return rc;
}

int main(int argc, char **argv) {
    struct err e = {0};
    FILE *speak;
    need_streams();
    command_to_front(argc, argv);
    take_signals();
    ranks_begin(&argc, &argv);
    int rc = run_rank(argc, argv, &speak, &e);
    if (rc != 0 && ranks_n() == 1 && reader_gone()) end_by_sigpipe();
    if (rc != 0 && e.msg[0] && !speak) log_error("%s", e.msg);
    /* Rank 0 reports errors that occur on all ranks. Only the rank itself knows of an error in its
     * share. */
    if (rc == ERR_DATA && speak) fprintf(speak, "hone: error: rank %d: %s\n", ranks_me(), e.msg);
    if (speak) fclose(speak);
    ranks_end(rc);
    return rc;
}
