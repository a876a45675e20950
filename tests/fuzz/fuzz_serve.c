// SPDX-License-Identifier: MIT
/* tests/fuzz/fuzz_serve.c - a complete server with its threads, a model and a cache folder. The
 * input's bytes are sent over a socket in pieces. A byte gives the length of a piece; 0: the client
 * disconnects without waiting for its answer. The client waits for the answers to complete
 * requests, and its last request closes the connection. After anything else it closes its side, so
 * that the server does not wait for more. The answer must be HTTP or the connection must end;
 * afterwards the server must still run, with nothing running or queued. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include "base/log.h"
#include "serve/serve.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/model.h"

enum { CTX = 192, WAIT_MS = 60000, MOST_BODY = 1 << 20 };
static char host[80];
static const char *const hosts[] = {host};

static void fail(const char *why) {
    fprintf(stderr, "%s\n", why);
    abort();
}

static void *run(void *ud) {
    struct err e = {0};
    fuzz_need(serve_run(ud, &e), &e);
    return NULL;
}

static void start(void) {
    static struct session *s;
    static struct server *server;
    pthread_t thread;
    struct err e = {0};
    char *folder = fuzz_folder();
    const struct session_opts so = {.isa = kern_isa_best(),
                                    .act = ACT_Q8,
                                    .pack = true,
                                    .n_ctx = CTX,
                                    .guests = true,
                                    .whole = true};
    struct model *m = fuzz_model("tests/golden/tiny-qwen35moe");
    signal(SIGPIPE, SIG_IGN);
    log_set_level(LOG_ERROR);
    fuzz_need(session_new(&s, m, &so, &e), &e);
    snprintf(host, sizeof host, "unix:%s/s", folder);
    static struct serve_file f = {.id = "m",
                                  .file = "m.gguf",
                                  .path = "m.gguf",
                                  .type = "q8_0",
                                  .arch = "",
                                  .size_label = "",
                                  .n_ctx = CTX,
                                  .sample = {.temp = 1, .top_k = 8, .top_p = 1},
                                  .seed = 1};
    static struct serve_core core;
    fuzz_need(gguf_chat_template(m->gguf, &f.tmpl, &e), &e);
    if (!f.tmpl) f.tmpl = "";
    core.m = m;
    core.s = s;
    core.context_bytes = session_seq_bytes(s, CTX) + 5 * session_seq_bytes(s, 1);
    const struct serve_opts o = {
        .net = {.host = hosts, .n_hosts = 1, .max_body = MOST_BODY, .max_connections = 8},
        .file = &f,
        .n_files = 1,
        .load = serve_load_ready,
        .load_ud = &core,
        .n_think = -1,
        .n_max = 3,
        .n_live = 2,
        .n_queue = 4,
        .max_step_s = 1,
        .drain_s = 1,
        .draft = true};
    fuzz_need(serve_new(&server, &o, &e), &e);
    if (pthread_create(&thread, NULL, run, server)) fail("no thread");
    pthread_detach(thread);
    free(folder);
}

static int dial(void) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(a.sun_path, sizeof a.sun_path, "%s", host + 5);
    for (int i = 0; i < 1000; i++) {
        if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0) return fd;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    fail("nobody listens");
    return -1;
}

/* Reads until the other side closes or is silent for `ms`; returns the number of first bytes stored
 * in head. */
static size_t drain(int fd, int ms, char *head, size_t n_head) {
    char more[4096];
    size_t n = 0;
    for (;;) {
        struct pollfd p = {fd, POLLIN, 0};
        if (poll(&p, 1, ms) <= 0) return n;
        char *to = n < n_head ? head + n : more;
        const ssize_t k = read(fd, to, n < n_head ? n_head - n : sizeof more);
        if (k <= 0) return n;
        if (n < n_head) n += (size_t)k;
    }
}

/* Polls until nothing is running or waiting. */
static void check_idle(void) {
    static const char ask[] =
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    static char text[1 << 16];
    for (int i = 0; i < 2 * WAIT_MS; i++) {
        const int fd = dial();
        if (write(fd, ask, sizeof ask - 1) != sizeof ask - 1) fail("it takes no bytes");
        const size_t n = drain(fd, WAIT_MS, text, sizeof text - 1);
        text[n] = 0;
        close(fd);
        if (strncmp(text, "HTTP/1.1 200", 12) != 0) fail("/metrics is not answered");
        if (strstr(text, "\nhone_requests_running 0") && strstr(text, "\nhone_requests_waiting 0"))
            return;
        nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
    }
    fprintf(stderr, "%s\n", text);
    fail("something still runs or waits");
}

/* Returns whether the bytes consist of complete requests that leave the connection open. */
static bool are_whole(const struct buf *b) {
    for (size_t at = 0; at < b->len;) {
        struct http_req r = {0};
        struct http_body body;
        struct buf out = {0};
        size_t used = 0;
        const int n = http_head(b->data + at, b->len - at, &r);
        if (n <= 0 || !r.keep_alive) return false;
        at += (size_t)n;
        http_body_begin(&body, &r);
        const enum http_more m =
            http_body_feed(&body, b->data + at, b->len - at, MOST_BODY, &out, &used);
        buf_release(&out);
        if (m != HTTP_DONE) return false;
        at += used;
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static unsigned n_run;
    static const char last[] =
        "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    char head[16];
    if (size < 2 || size > 1 << 15) return 0;
    if (!*host) start();
    const int fd = dial();
    bool leaves = false, sent = true;
    struct buf all = {0};
    for (size_t at = 0; at < size && !leaves;) {
        const size_t piece = data[at] == 255 ? size : 16 * (size_t)data[at];
        const size_t n = piece < size - at - 1 ? piece : size - at - 1;
        leaves = !piece;
        sent = !n || send(fd, data + at + 1, n, MSG_NOSIGNAL) == (ssize_t)n;
        if (!sent) break; /* the server closed the connection */
        if (n) buf_add(&all, data + at + 1, n);
        at += n + 1;
    }
    if (!leaves) {
        const bool whole = sent && are_whole(&all);
        if (!whole || send(fd, last, sizeof last - 1, MSG_NOSIGNAL) < 0) shutdown(fd, SHUT_WR);
        const size_t n = drain(fd, WAIT_MS, head, sizeof head);
        if ((n || whole) && (n < 9 || memcmp(head, "HTTP/1.", 7) != 0))
            fail("an answer that is not HTTP");
    }
    close(fd);
    buf_release(&all);
    if (++n_run % 64 == 0 || leaves) check_idle();
    return 0;
}
