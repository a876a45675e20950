// SPDX-License-Identifier: MIT
/* tests/pty.c - a simulated user at a terminal, for scripts of tests/cli:
 *
 *     pty SCRIPT PROGRAM [ARGUMENT...] > TRANSCRIPT
 *
 * PROGRAM runs on a new terminal of 24 x 80 with the caller's TERM. Lines of SCRIPT:
 *
 *     > TEXT    types TEXT: \n enter, \e escape, \t, \\, \xHH a byte
 *
 *     < TEXT    waits until the program has written TEXT, after the previous match; exits
 *               with 1 if it never comes
 *
 *     . MS      waits MS milliseconds
 *
 *     $ N       the program must end by itself with exit status N
 *
 * The program's output goes to stdout unchanged. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE_MS = 40000, OUT_MAX = 8 << 20 };

static int fd;
static pid_t child;
static char *out;
static size_t n_out, found; /* found: where the next search begins */
static bool closed;

static void die(const char *what, const char *text) {
    fflush(stdout);
    fprintf(stderr, "pty: %s: %s\n--- the last of what came:\n%s\n", what, text,
            out + (n_out > 1500 ? n_out - 1500 : 0));
    if (child > 0) kill(child, SIGKILL);
    _Exit(1);
}

static long now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Reads output for this many milliseconds. */
static void take(int ms) {
    struct pollfd p = {fd, POLLIN, 0};
    if (closed || poll(&p, 1, ms) <= 0) return;
    ssize_t n = read(fd, out + n_out, (size_t)OUT_MAX - n_out - 1);
    if (n <= 0) {
        closed = n == 0 || (errno != EINTR && errno != EAGAIN);
        return;
    }
    fwrite(out + n_out, 1, (size_t)n, stdout);
    n_out += (size_t)n;
    out[n_out] = 0;
    if (n_out + 2 >= OUT_MAX) die("too much output", "");
}

static int hex(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Takes the escapes out of s, in place. Returns the length. */
static size_t unescape(char *s) {
    size_t n = 0;
    for (size_t i = 0; s[i]; i++) {
        if (s[i] != '\\' || !s[i + 1]) {
            s[n++] = s[i];
            continue;
        }
        char c = s[++i];
        if (c == 'x' && hex(s[i + 1]) >= 0 && hex(s[i + 2]) >= 0) {
            s[n++] = (char)(hex(s[i + 1]) * 16 + hex(s[i + 2]));
            i += 2;
        } else
            s[n++] = (char)(c == 'n' ? '\r' : c == 'e' ? 033 : c == 't' ? '\t' : c);
    }
    s[n] = 0;
    return n;
}

static void type(char *text) {
    size_t n = unescape(text), at = 0;
    while (at < n) { /* what the program draws meanwhile must be read */
        struct pollfd p = {fd, POLLOUT, 0};
        take(0);
        if (poll(&p, 1, 1000) <= 0) continue;
        ssize_t k = write(fd, text + at, n - at > 200 ? 200 : n - at);
        if (k < 0 && errno != EAGAIN && errno != EINTR) die("cannot type", text);
        if (k > 0) at += (size_t)k;
    }
}

static void await(char *text) {
    const long end = now_ms() + PATIENCE_MS;
    size_t n = unescape(text);
    for (;;) {
        char *hit = memmem(out + found, n_out - found, text, n);
        if (hit) {
            found = (size_t)(hit - out) + n;
            return;
        }
        if (closed || now_ms() > end) die(closed ? "ended before" : "never came", text);
        take(100);
    }
}

static void await_end(const char *text) {
    const long end = now_ms() + PATIENCE_MS;
    int status;
    pid_t got;
    while ((got = waitpid(child, &status, WNOHANG)) == 0) {
        if (now_ms() > end) die("does not end; awaited exit", text);
        take(20);
    }
    while (!closed && n_out + 2 < OUT_MAX) {
        size_t before = n_out;
        take(50);
        if (n_out == before) break;
    }
    child = 0;
    if (got < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != atol(text)) {
        char is[100];
        snprintf(is, sizeof is, "status %d, awaited exit %.20s", status, text);
        die("ended otherwise", is);
    }
}

static void start(char **argv) {
    struct winsize size = {.ws_row = 24, .ws_col = 80};
    fd = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || grantpt(fd) || unlockpt(fd)) die("no terminal", strerror(errno));
    ioctl(fd, TIOCSWINSZ, &size);
    const char *name = ptsname(fd);
    child = fork();
    if (child < 0) die("fork", strerror(errno));
    if (child > 0) {
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
        return;
    }
    setsid();
    int t = open(name, O_RDWR);
    if (t < 0 || ioctl(t, TIOCSCTTY, 0) || dup2(t, 0) < 0 || dup2(t, 1) < 0 || dup2(t, 2) < 0)
        _exit(99);
    if (t > 2) close(t);
    signal(SIGINT, SIG_DFL); /* a shell's background jobs have it ignored */
    execvp(argv[0], argv);
    _exit(98);
}

int main(int argc, char **argv) {
    char line[8192];
    FILE *script = argc > 2 ? fopen(argv[1], "r") : NULL;
    out = calloc(1, OUT_MAX);
    if (!script || !out) {
        fprintf(stderr, "usage: pty SCRIPT PROGRAM [ARGUMENT...]\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    start(argv + 2);
    while (fgets(line, sizeof line, script)) {
        line[strcspn(line, "\n")] = 0;
        if (line[0] == '>') type(line + 2);
        if (line[0] == '<') await(line + 2);
        if (line[0] == '.') {
            const long end = now_ms() + atol(line + 2);
            while (now_ms() < end) take(20);
        }
        if (line[0] == '$') await_end(line + 2);
    }
    fclose(script);
    if (child > 0) {
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    free(out);
    return 0;
}
