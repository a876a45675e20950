// SPDX-License-Identifier: MIT
/* tests/ask.c - an HTTP client for tests/cli/serve.sh: ask PORT [-l BYTES | -d MS | -t MS] [-b
 * BODY] METHOD PATH [HEADER...], or ask PORT -r FILE to send arbitrary bytes.
 *
 * Prints the response until the server closes. Fails with a message after two minutes without data,
 * since a busy machine under a sanitizer may take more than one for a request. -l: disconnects
 * after BYTES bytes. -t: disconnects after MS milliseconds without data. -d: sends one byte each MS
 * milliseconds. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static void add(char *out, size_t cap, size_t *n, const char *s, size_t len) {
    if (*n + len > cap) exit(2);
    memcpy(out + *n, s, len);
    *n += len;
}

static void say(char *out, size_t cap, size_t *n, const char *s) {
    add(out, cap, n, s, strlen(s));
}

int main(int argc, char **argv) {
    static char req[40 << 20], buf[65536];
    size_t n = 0, got = 0, leave = 0;
    int i = 2;
    long delay = 0, wait = 0;
    const char *body = NULL;
    struct sockaddr_in a = {.sin_family = AF_INET};
    if (argc < 4) return 2;
    a.sin_port = htons((unsigned short)strtol(argv[1], NULL, 10));
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (; i + 1 < argc && argv[i][0] == '-'; i += 2) {
        if (argv[i][1] == 'l') leave = (size_t)strtol(argv[i + 1], NULL, 10);
        if (argv[i][1] == 'd') delay = strtol(argv[i + 1], NULL, 10);
        if (argv[i][1] == 't') wait = strtol(argv[i + 1], NULL, 10);
        if (argv[i][1] == 'b') body = argv[i + 1];
        if (argv[i][1] != 'r') continue;
        FILE *f = fopen(argv[i + 1], "rb");
        if (!f) return 2;
        n = fread(req, 1, sizeof req, f);
        fclose(f);
    }
    if (i + 1 < argc) {
        snprintf(buf, sizeof buf, "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n",
                 argv[i], argv[i + 1]);
        say(req, sizeof req, &n, buf);
        for (i += 2; i < argc; i++) {
            say(req, sizeof req, &n, argv[i]);
            say(req, sizeof req, &n, "\r\n");
        }
        if (body) {
            snprintf(buf, sizeof buf, "Content-Type: application/json\r\nContent-Length: %zu\r\n",
                     strlen(body));
            say(req, sizeof req, &n, buf);
        }
        say(req, sizeof req, &n, "\r\n");
        if (body) say(req, sizeof req, &n, body);
    }
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&a, sizeof a)) return 3;
    for (size_t at = 0; at < n;) {
        const ssize_t k = send(fd, req + at, delay ? 1 : n - at, MSG_NOSIGNAL);
        if (k <= 0) break; /* it may have answered and closed */
        at += (size_t)k;
        if (delay) nanosleep(&(struct timespec){.tv_nsec = delay * 1000000}, NULL);
    }
    for (;;) {
        struct pollfd p = {fd, POLLIN, 0};
        if (poll(&p, 1, wait ? (int)wait : 120000) != 1) {
            if (wait) break;
            printf("\nnothing came for 120 s\n");
            return 1;
        }
        const ssize_t k = recv(fd, buf, sizeof buf, 0);
        if (k <= 0) break;
        fwrite(buf, 1, (size_t)k, stdout);
        got += (size_t)k;
        if (leave && got >= leave) break;
    }
    close(fd);
    return 0;
}
