// SPDX-License-Identifier: MIT
/* cli/main.c - entry point: runs the command, prints its error and returns the exit status.
 * Installs signal handlers: the first SIGINT, SIGTERM or SIGHUP interrupts the context of the
 * process (base/ctx.h), a second one removes temporary outputs and exits at once. */
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "base/attr.h"
#include "base/ctx.h"
#include "base/map.h"
#include "base/os.h"
#include "base/out.h"
#include "base/log.h"
#include "base/ranks.h"

/* Interrupts the program; exits on the second signal. */
static void on_signal(int sig) {
    struct ctx *program = ctx_process();
    /* With several ranks, this one may be waiting for one that has exited. */
    if (atomic_load(&program->interrupted) || program->ranks.n > 1) {
        out_abort_all();
        os_exit(ERR_INTR);
    }
    (void)sig;
    ctx_interrupt(program);
}

/* Ends the program with an error if a mapped input was truncated or its disk failed. The thread
 * cannot continue; only the first one to arrive prints the message. */
static void on_map_fault(const void *at) {
    static atomic_flag busy = ATOMIC_FLAG_INIT;
    static const char head[] = "hone: error: ";
    char msg[OS_PATH_MAX + 200];
    int rc = map_fault(at, msg, sizeof msg - 1);
    if (!rc) return; /* not a mapped input */
    if (atomic_flag_test_and_set(&busy)) os_stop_thread();
    size_t n = strlen(msg);
    msg[n] = '\n';
    (void)os_write(2, head, sizeof head - 1);
    (void)os_write(2, msg, n + 1);
    out_abort_all();
    os_exit(rc);
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

/* Installs handlers for interruptions and faults of maps; ignores SIGPIPE and SIGXFSZ. */
static void take_signals(void) {
    (void)os_on_interrupt(on_signal);
    os_on_map_fault(on_map_fault);
    os_ignore_write_signals(); /* a size limit then fails the write, with our message */
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
    *speak = ranks_me() == 0 ? NULL : fdopen(os_dup(2), "w");
    if (ranks_me() != 0 &&
        !(*speak && freopen(OS_NULL_FILE, "w", stdout) && freopen(OS_NULL_FILE, "w", stderr)))
        rc = err_sys(e, OS_NULL_FILE);
    if (rc == 0) rc = command_run(&c, argc, argv, e);
    ctx_release(c.work.ctx);
    return rc;
}

int main(int argc, char **argv) {
    struct err e = {0};
    FILE *speak;
    os_begin(&argc, &argv);
    command_to_front(argc, argv);
    take_signals();
    ranks_begin(&argc, &argv);
    int rc = run_rank(argc, argv, &speak, &e);
    if (rc != 0 && ranks_n() == 1 && ferror(stdout) && os_stdout_gone())
        os_end_by_pipe(); /* outputs are complete or removed by now */
    if (rc != 0 && e.msg[0] && !speak) log_error("%s", e.msg);
    /* Rank 0 reports errors that occur on all ranks. Only the rank itself knows of an error in its
     * share. */
    if (rc == ERR_DATA && speak) fprintf(speak, "hone: error: rank %d: %s\n", ranks_me(), e.msg);
    if (speak) fclose(speak);
    ranks_end(rc);
    return rc;
}
