// SPDX-License-Identifier: MIT
/* tests/unit/test_serve_net.c - the event loop of serve/net.c with routes of its own, a client in
 * the same thread and a clock that the test sets. */
#include "serve/net.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/os_net.h"
#include "base/progress.h"
#include "serve/poller.h"
#include "tests/check.h"
#include "tests/unit/tmpdir.h"

static double clock_s = 1000;
static int turns; /* of the event loop, before it stops */
static atomic_bool stopped;
static int64_t endless = -1; /* bytes that come without a client; negative: the client's */

static double test_now_s(void) {
    return clock_s;
}
/* Gets events without waiting, each in an entry of its own, like kqueue's. */
static int test_get(struct poller *w, struct wait_event *ev, int room, int ms) {
    struct wait_event got[8];
    int n = 0;
    (void)ms;
    if (--turns <= 0) atomic_store(&stopped, true);
    const int k = poller_get(w, got, room < 32 ? room / 4 : 8, 0);
    for (int i = 0; i < k; i++)
        for (unsigned bit = WAIT_IN; bit <= WAIT_DEAD; bit *= 2)
            if (got[i].is & bit) ev[n++] = (struct wait_event){got[i].what, bit};
    return n;
}
static int64_t test_recv(int fd, void *p, size_t n) {
    if (endless < 0) return os_recv(fd, p, n);
    if (!endless) {
        errno = EAGAIN;
        return -1;
    }
    endless--;
    memset(p, 'x', n);
    return (int64_t)n;
}
#define progress_now_s test_now_s
#define poller_get test_get
#define os_recv test_recv
#include "serve/net.c"
#undef progress_now_s
#undef poller_get
#undef os_recv

/* ---- a server and its client ---- */

enum { BIG = 1 << 20 };
static struct job *held;

/* /refused is answered before the body is read, /later by the test, /big with BIG bytes, all other
 * paths with the size of the body. */
static bool on_head(void *ud, struct job *j) {
    (void)ud;
    if (!http_is(j->req.path, "/refused")) return true;
    job_answer(j, 403, "text/plain", "no", 2);
    return false;
}
static void on_request(void *ud, struct job *j) {
    struct buf b = {0};
    (void)ud;
    if (http_is(j->req.path, "/later")) {
        job_hold(held = j);
        return;
    }
    buf_fmt(&b, "%zu bytes\n", j->body.len);
    if (http_is(j->req.path, "/big")) buf_fmt(&b, "%*s\n", BIG, "end");
    job_answer(j, 200, "text/plain", b.data, b.len);
    buf_release(&b);
}
static void on_error(void *ud, int status, const char *why, struct buf *out) {
    (void)ud;
    buf_fmt(out, "%d %s", status, why);
}
static bool on_tick(void *ud) {
    (void)ud;
    return true;
}

/* A server with one client. */
struct pair {
    struct net *n;
    int fd;            /* of the client */
    struct buf s, got; /* what it sends and has received */
    size_t at;         /* bytes of s that are sent */
};
static void begin(struct pair *p) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    char host[256];
    struct err e;
    const char *path = tmp_path("socket");
    snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    snprintf(host, sizeof host, "unix:%s", path);
    const struct net_opts o = {.host = (const char *const[]){host},
                               .n_hosts = 1,
                               .max_body = BIG,
                               .max_connections = 4,
                               .ops = {NULL, on_head, on_request, on_error, on_tick}};
    *p = (struct pair){.fd = socket(AF_UNIX, SOCK_STREAM, 0)};
    CHECK_OK(net_new(&p->n, &o, &e));
    CHECK_EQ_I64(connect(p->fd, (const struct sockaddr *)&a, sizeof a), 0);
}
static void end(struct pair *p) {
    close(p->fd);
    net_free(p->n);
    buf_release(&p->s);
    buf_release(&p->got);
}
/* Moves the clock and lets the loop turn twice. */
static void pass(struct pair *p, double seconds) {
    struct err e;
    clock_s += seconds;
    turns = 2;
    atomic_store(&stopped, false);
    CHECK_OK(net_run(p->n, &stopped, &e));
}
/* Sends as much as the socket takes, and returns the number of bytes. */
static size_t send_some(struct pair *p) {
    const size_t n = p->s.len - p->at;
    const ssize_t k = n ? send(p->fd, p->s.data + p->at, n, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;
    p->at += k > 0 ? (size_t)k : 0;
    return k > 0 ? (size_t)k : 0;
}
/* Receives up to `most` bytes, and returns their number. */
static size_t receive(struct pair *p, size_t most) {
    buf_reserve(&p->got, most);
    const ssize_t k = recv(p->fd, p->got.data + p->got.len, most, MSG_DONTWAIT);
    p->got.len += k > 0 ? (size_t)k : 0;
    p->got.data[p->got.len] = 0;
    return k > 0 ? (size_t)k : 0;
}
/* Sends everything and receives the answers, until nothing more comes. */
static void talk(struct pair *p) {
    for (size_t k = 1; k;) {
        k = send_some(p);
        pass(p, 0);
        k += receive(p, 1 << 20);
    }
    CHECK_EQ_I64(p->at, p->s.len);
}
/* Appends n requests to the text that the client sends. */
static void ask(struct pair *p, const char *line, int n) {
    for (int i = 0; i < n; i++) buf_fmt(&p->s, "%s HTTP/1.1\r\nHost:a\r\n\r\n", line);
}
/* Returns how often `word` was received. */
static int n_of(const struct pair *p, const char *word) {
    int n = 0;
    for (const char *s = p->got.data; s && (s = strstr(s, word)); s += strlen(word)) n++;
    return n;
}
static bool is_open(const struct pair *p) {
    return net_counts(p->n).open > 0;
}

/* ---- tests ---- */

static void *run_talk(void *p) {
    talk(p);
    return NULL;
}
/* Many requests at once on one connection are answered on a stack of fixed size. */
static void test_pipelined(void) {
    enum { N = 6000, STACK = 1 << 20 };
    pthread_attr_t small;
    pthread_t thread;
    struct pair p;
    begin(&p);
    ask(&p, "G /refused", N);
    ask(&p, "G /", N);
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, STACK);
    CHECK_EQ_I64(pthread_create(&thread, &small, run_talk, &p), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&small);
    CHECK_EQ_I64(n_of(&p, "HTTP/1.1 403 "), N);
    CHECK_EQ_I64(n_of(&p, "HTTP/1.1 200 "), N);
    CHECK(is_open(&p));
    CHECK_EQ_I64(net_counts(p.n).busy, 0);
    end(&p);
}

/* A client that sends requests but reads no answers costs the memory of one answer and of some
 * input, and is cut off after 30 s. One that reads gets all answers. */
static void test_unread(void) {
    enum { N = 100 };
    struct pair p;
    begin(&p);
    for (int i = 0; i < N; i++)
        buf_fmt(&p.s, "GET /big HTTP/1.1\r\nHost:a\r\nX: %*s\r\n\r\n", 5000, "x");
    for (int i = 0; i < 29; i++) {
        send_some(&p);
        pass(&p, 1);
        CHECK(is_open(&p) && p.n->conns->out.len < BIG + 1000);
        CHECK(!is_open(&p) || p.n->conns->in.len <= AHEAD + READ);
    }
    CHECK(p.at < p.s.len);
    pass(&p, 2);
    CHECK(!is_open(&p));
    end(&p);
    begin(&p);
    ask(&p, "GET /big", 20);
    talk(&p);
    CHECK_EQ_I64(n_of(&p, "HTTP/1.1 200 "), 20);
    CHECK_EQ_I64(n_of(&p, " end\n"), 20);
    end(&p);
}

/* A client that reads slowly gets the whole answer, also the last one of its connection. */
static void test_slow_reader(void) {
    struct pair p;
    begin(&p);
    buf_str(&p.s, "GET /big HTTP/1.1\r\nHost:a\r\nConnection: close\r\n\r\n");
    send_some(&p);
    pass(&p, 0);
    CHECK(is_open(&p));
    for (int i = 0; i < 100 && is_open(&p); i++) {
        receive(&p, 100000);
        pass(&p, 4);
    }
    receive(&p, BIG);
    CHECK_EQ_I64(n_of(&p, " end\n"), 1);
    CHECK(!is_open(&p));
    end(&p);
}

/* A client that keeps sending after a refusal does not hold up the loop, and is cut off. */
static void test_endless(void) {
    struct pair p;
    begin(&p);
    buf_str(&p.s, "POST / HTTP/1.1\r\nHost:a\r\nContent-Length: 99999999\r\n\r\nx");
    talk(&p);
    CHECK_EQ_I64(n_of(&p, "HTTP/1.1 413 "), 1);
    buf_str(&p.s, "x");
    send_some(&p);
    endless = 10000;
    pass(&p, 0);
    CHECK(endless >= 10000 - 2 * READS);
    pass(&p, 5.1);
    CHECK(!is_open(&p));
    endless = -1;
    end(&p);
}

/* A body sent while the answer to an earlier request is awaited is read to its end, as are requests
 * after it. */
static void test_ahead(void) {
    enum { N = 900000 };
    struct pair p;
    begin(&p);
    ask(&p, "GET /later", 1);
    buf_fmt(&p.s, "POST / HTTP/1.1\r\nHost:a\r\nContent-Length: %d\r\n\r\n%*s", N, N, "x");
    ask(&p, "GET /", 3);
    for (int i = 0; i < 20; i++) {
        send_some(&p);
        pass(&p, 0);
    }
    CHECK(held && p.at < p.s.len && p.n->conns->in.len <= AHEAD + READ);
    job_answer(held, 200, "text/plain", "late\n", 5);
    job_drop(held);
    talk(&p);
    CHECK_EQ_I64(n_of(&p, "HTTP/1.1 200 "), 5);
    CHECK_EQ_I64(n_of(&p, "\n900000 bytes\n"), 1);
    CHECK_EQ_I64(n_of(&p, "\n0 bytes\n"), 3);
    CHECK_EQ_I64(n_of(&p, "\nlate\n"), 1);
    end(&p);
}

/* The time limit of a head begins with its first byte, not with the end of the answer before it. */
static void test_head_time(void) {
    struct pair p;
    begin(&p);
    ask(&p, "GET /", 1);
    talk(&p);
    pass(&p, 60);
    buf_str(&p.s, "GET / HTTP/1.1\r\n");
    talk(&p);
    pass(&p, 9);
    buf_str(&p.s, "Host:a\r\n\r\nGET /");
    talk(&p);
    CHECK_EQ_I64(n_of(&p, "HTTP/1.1 200 "), 2);
    pass(&p, 9);
    talk(&p);
    CHECK_EQ_I64(n_of(&p, "HTTP/1.1 408 "), 0);
    pass(&p, 1.1);
    talk(&p);
    CHECK_EQ_I64(n_of(&p, "HTTP/1.1 408 "), 1);
    end(&p);
}

/* A keep-alive that begins an answer sends the header lines of the answer. */
static void test_keep_alive(void) {
    for (int stream = 0; stream < 2; stream++) {
        struct pair p;
        begin(&p);
        ask(&p, "GET /later", 1);
        talk(&p);
        job_field(held, "vary", "origin");
        if (stream) job_will_stream(held, "text/event-stream", NULL);
        pass(&p, stream ? 11 : 31);
        talk(&p);
        CHECK_EQ_I64(n_of(&p, stream ? "text/event-stream" : "application/json"), 1);
        CHECK_EQ_I64(n_of(&p, stream ? ": ping\n\n" : "1\r\n \r\n"), 1);
        CHECK_EQ_I64(n_of(&p, "\r\nvary: origin\r\n"), 1);
        CHECK_EQ_I64(n_of(&p, "\r\nx-accel-buffering: no\r\n"), 1);
        job_answer(held, 200, "application/json", "{}", 2);
        job_drop(held);
        talk(&p);
        CHECK_EQ_I64(n_of(&p, "2\r\n{}\r\n0\r\n\r\n"), 1);
        CHECK_EQ_I64(n_of(&p, "HTTP/1.1 200 "), 1);
        end(&p);
    }
}

/* A client may leave while several events of its connection are at hand. */
static void test_leaves(void) {
    struct pair p;
    begin(&p);
    ask(&p, "GET /big", 1);
    send_some(&p);
    pass(&p, 0);
    CHECK(is_open(&p) && p.n->conns->out.len);
    ask(&p, "GET /", 1);
    send_some(&p);
    shutdown(p.fd, SHUT_RDWR);
    pass(&p, 0);
    CHECK(!is_open(&p));
    end(&p);
}

int main(void) {
    tmp_make();
    RUN(test_pipelined);
    RUN(test_unread);
    RUN(test_slow_reader);
    RUN(test_endless);
    RUN(test_ahead);
    RUN(test_head_time);
    RUN(test_keep_alive);
    RUN(test_leaves);
    tmp_remove();
    return check_done();
}
