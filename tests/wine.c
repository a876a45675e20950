// SPDX-License-Identifier: MIT
/* tests/wine.c - runs the Windows program WINE_EXE under Wine, with the same arguments, so that
 * scripts can treat it like a Linux program. SIGTERM and SIGINT become Ctrl-C, because a console
 * program gets no other request to stop; SIGKILL ends the Windows program too. For
 * packaging/cross/check-windows.sh. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile pid_t child;

static void pass_on(int sig) {
    (void)sig;
    if (child > 0) kill(child, SIGINT);
}

int main(int argc, char **argv) {
    const char *exe = getenv("WINE_EXE");
    char **args = calloc((size_t)argc + 2, sizeof *args);
    const pid_t self = getpid();
    if (!exe || !args) return 125;
    args[0] = (char[]){"wine"};
    args[1] = (char *)(size_t)exe;
    for (int i = 1; i < argc; i++) args[i + 1] = argv[i];
    signal(SIGTERM, pass_on);
    signal(SIGINT, pass_on);
    child = fork();
    if (child == 0) {
        signal(SIGTERM, SIG_DFL);
        signal(SIGINT, SIG_DFL);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == self) execvp("wine", args);
        _exit(127);
    }
    int status = 0;
    while (child > 0 && waitpid(child, &status, 0) < 0) {
    }
    return child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
