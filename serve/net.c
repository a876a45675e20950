// SPDX-License-Identifier: MIT
/* serve/net.c - event loop of the network thread.
 *
 * A connection reads a head and a body, then waits for the answer; what the client sends meanwhile
 * belongs to the next request, which starts once the client has read the answer. A client that
 * closes its side while waiting has left, and its job is marked as gone in the same iteration.
 * Buffers are freed between requests, so an idle connection costs only its struct. */
#include "serve/net.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/os.h"
#include "base/os_net.h"
#include "base/progress.h"
#include "serve/poller.h"

/* Limits for a connection in one turn of the loop: reads, and steps through its requests. */
enum { READS = 16, STEPS = 64 };
enum { READ = 64 << 10, SEND_BUF = 256 << 10, AHEAD = 64 << 10, MAX_HOSTS = 8, TICK_MS = 250 };
#define HEAD_S 10.0  /* time limit to receive a complete head */
#define IDLE_S 75.0  /* time limit between requests */
#define STUCK_S 30.0 /* time limit while the client reads nothing */
#define PING_S 10.0  /* silence in a stream after which a ping is sent */
#define QUIET_S 30.0 /* the same for a keep-alive byte in an answer that is not streamed */

enum conn_state { HEAD, BODY, WAIT, CLOSING };
struct conn {
    struct net *net;
    struct conn *next, *prev;
    int fd;
    enum conn_state state;
    bool in_off, out_on, head_sent, chunked, keep;
    bool more; /* input is left for the next turn, so that other connections get their turn */
    struct http_body body;
    struct buf in, out;
    size_t out_at;
    struct job *job;
    /* since: start of this state; between requests also the last output or a head's first byte. */
    double since, last_sent;
    uint64_t peer;
};
struct net {
    struct net_opts o;
    struct poller *waits;
    int wake[2], port;
    int listener[MAX_HOSTS], n_listeners;
    char *unlink[MAX_HOSTS];
    struct conn *conns, *closed; /* closed: freed once the events at hand have been handled */
    atomic_llong n_open, n_busy, n_refused;
    double accept_again; /* file descriptors ran out: time at which to accept again */
};

int net_port(const struct net *n) {
    return n->port;
}
struct net_counts net_counts(const struct net *n) {
    return (struct net_counts){atomic_load(&n->n_open), atomic_load(&n->n_busy),
                               atomic_load(&n->n_refused)};
}

/* ---- listening ---- */

/* Sets which events of fd to wait for; ptr is passed back with each event. */
static int watch_fd(struct net *n, int fd, unsigned events, void *ptr, struct err *e) {
    return poller_set(n->waits, fd, events, ptr) ? err_sys(e, "cannot wait for connections") : 0;
}

/* Listens at a host or, with "unix:PATH", on a Unix socket, and sets n->port. */
static int listen_at(struct net *n, const char *host, struct err *e) {
    const char *path = strncmp(host, "unix:", 5) == 0 ? host + 5 : NULL;
    int fd;
    const int rc = path ? os_listen_unix(&fd, path, e) : os_listen_ip(&fd, host, &n->port, e);
    if (fd < 0) return rc;
    if (!rc && path) n->unlink[n->n_listeners] = xstrdup(path);
    n->listener[n->n_listeners++] = fd;
    return rc;
}

int net_new(struct net **out, const struct net_opts *o, struct err *e) {
    struct net *n = xcalloc(1, sizeof *n);
    n->o = *o;
    n->port = o->port;
    n->wake[0] = n->wake[1] = -1;
    n->waits = poller_new();
    int rc = !n->waits || os_wake_new(n->wake) ? err_sys(e, "cannot wait for connections")
             : o->n_hosts > MAX_HOSTS
                 ? err_set(e, ERR_USAGE, "--host: at most %d addresses", MAX_HOSTS)
                 : 0;
    if (!rc) rc = watch_fd(n, n->wake[0], WAIT_IN, n->wake, e);
    for (int i = 0; i < o->n_hosts && !rc; i++) rc = listen_at(n, o->host[i], e);
    for (int i = 0; i < n->n_listeners && !rc; i++)
        rc = watch_fd(n, n->listener[i], WAIT_IN, &n->listener[i], e);
    if (rc) {
        net_free(n);
        return rc;
    }
    *out = n;
    return 0;
}

/* ---- connections ---- */

/* Ends the connection's use of its job; gone: the client has left. */
static void drop_conn_job(struct conn *c, bool gone) {
    if (!c->job) return;
    if (gone) atomic_store(&c->job->gone, true);
    job_drop(c->job);
    c->job = NULL;
    atomic_fetch_sub(&c->net->n_busy, 1);
}

static void conn_close(struct conn *c) {
    drop_conn_job(c, true);
    if (c->prev)
        c->prev->next = c->next;
    else
        c->net->conns = c->next;
    if (c->next) c->next->prev = c->prev;
    poller_end(c->net->waits, c->fd);
    os_socket_close(c->fd);
    c->fd = -1;
    buf_release(&c->in);
    buf_release(&c->out);
    atomic_fetch_sub(&c->net->n_open, 1);
    c->next = c->net->closed;
    c->net->closed = c;
}

static void free_closed(struct net *n) {
    for (struct conn *c; (c = n->closed);) {
        n->closed = c->next;
        free(c);
    }
}

/* Sets whether to wait for input and for space to send. False: the connection has failed. */
static bool set_interest(struct conn *c, bool in, bool out) {
    struct err ignored;
    if (c->in_off == !in && c->out_on == out) return true;
    c->in_off = !in;
    c->out_on = out;
    return watch_fd(c->net, c->fd, (in ? WAIT_IN : 0u) | (out ? WAIT_OUT : 0u), c, &ignored) == 0;
}

/* Writes as much output as the socket takes. Returns false if the connection is dead. */
static bool flush(struct conn *c) {
    while (c->out_at < c->out.len) {
        const int64_t k = os_send(c->fd, c->out.data + c->out_at, c->out.len - c->out_at);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0 && errno == EAGAIN) break;
        if (k <= 0) return false;
        c->out_at += (size_t)k;
        c->last_sent = progress_now_s();
        if (!c->job) c->since = c->last_sent;
    }
    if (c->out_at == c->out.len) {
        buf_release(&c->out);
        c->out_at = 0;
    }
    return set_interest(c, !c->in_off, c->out.len > 0);
}

/* Writes the head of a response. length: size of the body in bytes, negative if unknown. */
static void put_head(struct conn *c, int status, const char *type, const struct buf *fields,
                     int64_t length) {
    struct buf *b = &c->out;
    buf_fmt(b, "HTTP/1.1 %d %s\r\ncontent-type: %s\r\n", status, http_reason(status), type);
    if (c->job) buf_fmt(b, "x-request-id: %s\r\n", c->job->id);
    if (fields) buf_add(b, fields->data ? fields->data : "", fields->len);
    if (length >= 0) buf_fmt(b, "content-length: %" PRId64 "\r\n", length);
    if (c->chunked) buf_str(b, "transfer-encoding: chunked\r\n");
    buf_fmt(b, "cache-control: no-store\r\n%s\r\n", c->keep ? "" : "connection: close\r\n");
    c->head_sent = true;
}

/* Returns whether the request's method is HEAD, which gets no body. */
static bool is_head(const struct conn *c) {
    return c->job && http_is(c->job->req.method, "HEAD");
}

/* Writes the head of a response whose body comes in parts. Call with the job's lock. */
static void put_open_head(struct conn *c, int status, const char *type) {
    c->chunked = c->keep || is_head(c);
    buf_str(&c->job->fields, "x-accel-buffering: no\r\n");
    put_head(c, status, type, &c->job->fields, -1);
}

/* Sends an error for an invalid request, after which the connection is closed. False: the
 * connection has failed. */
static bool refuse(struct conn *c, int status, const char *why) {
    struct buf body = {0};
    atomic_fetch_add(&c->net->n_refused, 1);
    c->keep = false;
    c->chunked = false;
    c->net->o.ops.error(c->net->o.ops.ud, status, why, &body);
    put_head(c, status, "application/json", NULL, (int64_t)body.len);
    buf_add(&c->out, body.data, body.len);
    buf_release(&body);
    drop_conn_job(c, true);
    c->state = CLOSING;
    c->since = progress_now_s();
    return flush(c);
}

/* Writes n bytes of the body, chunked if the length is unknown. */
static void put_chunk(struct conn *c, const char *s, size_t n) {
    if (!n || is_head(c)) return;
    if (c->chunked) buf_fmt(&c->out, "%zx\r\n", n);
    buf_add(&c->out, s, n);
    if (c->chunked) buf_str(&c->out, "\r\n");
}

/* Ends a request whose answer is complete. The next one is started by the caller, so that many
 * requests do not recurse. */
static void finish(struct conn *c) {
    drop_conn_job(c, false);
    c->state = c->keep ? HEAD : CLOSING;
    c->since = progress_now_s();
}

/* Sends the response data that is available. False: the connection has failed. */
static bool send_response(struct conn *c) {
    struct job *j = c->job;
    bool done = false, cut = false;
    if (!j || c->state == HEAD) return true;
    pthread_mutex_lock(&j->lock);
    if (j->status && j->ended && !c->head_sent && !j->stream) {
        put_head(c, j->status, j->type, &j->fields, (int64_t)j->out.len);
        if (!is_head(c)) buf_add(&c->out, j->out.data ? j->out.data : "", j->out.len);
        done = true;
    } else if (j->status && (j->stream || c->head_sent)) {
        if (!c->head_sent) put_open_head(c, j->status, j->type);
        put_chunk(c, j->out.data, j->out.len);
        done = j->ended;
        cut = j->cut || (!j->stream && j->status != 200); /* the status can no longer change */
        if (done && c->chunked && !cut) buf_str(&c->out, "0\r\n\r\n");
    }
    if (c->head_sent) {
        buf_reset(&j->out);
        atomic_store(&j->ahead, c->out.len - c->out_at);
    }
    pthread_mutex_unlock(&j->lock);
    if (done) {
        if (cut) c->keep = false;
        finish(c);
    }
    return flush(c);
}

/* Hands over a request that is complete: its body has arrived or is empty. False: the connection
 * has failed. */
static bool handle(struct conn *c) {
    c->state = WAIT;
    c->since = progress_now_s();
    if (!c->out.len) c->last_sent = c->since;
    c->net->o.ops.request(c->net->o.ops.ud, c->job);
    return send_response(c);
}

/* Reads the head of a request once it is complete. False: close the connection. */
static bool read_head(struct conn *c) {
    struct http_req r = {0};
    const int n = http_head(c->in.data ? c->in.data : "", c->in.len, &r);
    if (n < 0) return refuse(c, r.status, r.why);
    if (!n) return true;
    struct job *j = job_new(c->net->wake[1]);
    j->key = c->peer;
    buf_add(&j->head, c->in.data, (size_t)n);
    (void)http_head(j->head.data, (size_t)n, &j->req); /* parse again, to point into j->head */
    memmove(c->in.data, c->in.data + n, c->in.len - (size_t)n);
    c->in.len -= (size_t)n;
    c->job = j;
    atomic_fetch_add(&c->net->n_busy, 1);
    c->keep = j->req.keep_alive;
    c->chunked = c->head_sent = false;
    c->state = BODY;
    c->since = progress_now_s();
    http_body_begin(&c->body, &j->req);
    if (!c->net->o.ops.head(c->net->o.ops.ud, j)) {
        c->keep = c->keep && !j->req.length; /* the body is not read */
        c->state = WAIT;
        return send_response(c);
    }
    if (j->req.length > 0 && (uint64_t)j->req.length > c->net->o.max_body)
        return refuse(c, 413, "the body is too large");
    if (j->req.expect) buf_str(&c->out, "HTTP/1.1 100 Continue\r\n\r\n");
    return flush(c);
}

/* Reads more of the body and handles the request once complete. False: close the connection. */
static bool read_body(struct conn *c) {
    size_t used = 0;
    const enum http_more m = http_body_feed(&c->body, c->in.data ? c->in.data : "", c->in.len,
                                            c->net->o.max_body, &c->job->body, &used);
    if (m == HTTP_TOO_LARGE) return refuse(c, 413, "the body is too large");
    if (m == HTTP_BAD) return refuse(c, 400, "the chunks of the body are malformed");
    if (used) memmove(c->in.data, c->in.data + used, c->in.len - used);
    c->in.len -= used;
    return m == HTTP_DONE ? handle(c) : true;
}

/* Returns whether the next request must wait: for the answer, for the client to read it, or for the
 * other connections. */
static bool must_wait(const struct conn *c) {
    return c->state == WAIT || (c->state == HEAD && (c->out.len || c->more));
}

/* Processes the bytes that have been received, which may hold many requests. False: the connection
 * has failed. */
static bool next_request(struct conn *c) {
    c->more = false;
    for (int i = 1; c->state != CLOSING && !must_wait(c); i++) {
        const enum conn_state before = c->state;
        const size_t left = c->in.len;
        if (c->state == HEAD && c->in.len && !read_head(c)) return false;
        if (c->state == BODY && !read_body(c)) return false;
        if (c->state == before && c->in.len == left) break;
        c->more = i >= STEPS;
    }
    if (c->more) os_wake(c->net->wake[1]);
    if (!c->in.len) buf_release(&c->in);
    return !c->in_off || must_wait(c) || set_interest(c, true, c->out_on);
}

/* Reads the data that has arrived. False: close the connection. */
static bool on_readable(struct conn *c) {
    char tmp[READ];
    for (int i = 0; i < READS; i++) {
        if (must_wait(c) && c->in.len > AHEAD) return set_interest(c, false, c->out_on);
        const int64_t k = os_recv(c->fd, tmp, sizeof tmp);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0 && errno == EAGAIN) return true;
        if (k <= 0) return false; /* the client has left, possibly during an answer */
        if (c->state == CLOSING) continue;
        if (c->state == HEAD && !c->in.len) c->since = progress_now_s();
        buf_add(&c->in, tmp, (size_t)k);
        if (!must_wait(c) && !next_request(c)) return false;
    }
    return true;
}

/* Sends more of the answer; once it is complete, processes the bytes received meanwhile. False: the
 * connection has failed. */
static bool go_on(struct conn *c) {
    return send_response(c) && next_request(c);
}

/* Shuts down the sending side, so that the client can still read the whole answer. */
static bool shut_sending(struct conn *c) {
    if (c->out.len) return true;
    os_send_end(c->fd);
    return true;
}

/* Handles events of a connection; may close it. */
static void on_conn(struct conn *c, unsigned events) {
    if (c->fd < 0) return; /* closed by an earlier one of the events at hand */
    bool ok = !(events & WAIT_DEAD);
    if (ok && (events & WAIT_OUT)) ok = flush(c) && (c->out.len || go_on(c));
    if (ok && (events & WAIT_IN)) ok = on_readable(c);
    if (ok && (events & WAIT_LEFT)) ok = false;
    if (ok && c->state == CLOSING) ok = shut_sending(c);
    if (!ok) conn_close(c);
}

/* Pauses (`later`) or resumes accepting connections. While paused, new connections wait in the
 * kernel. */
static void accept_later(struct net *n, bool later) {
    struct err ignored;
    n->accept_again = later ? progress_now_s() + 0.1 : 0;
    for (int i = 0; i < n->n_listeners; i++)
        (void)watch_fd(n, n->listener[i], later ? 0 : WAIT_IN, &n->listener[i], &ignored);
}

/* Accepts waiting connections up to the limit. */
static void accept_all(struct net *n, int listener) {
    const int idle = 30;
    while (atomic_load(&n->n_open) < n->o.max_connections) {
        uint64_t peer = 0;
        const int fd = os_accept(listener, &peer, SEND_BUF, idle);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
            accept_later(n, true);
            return;
        }
        if (fd < 0) return;
        struct conn *c = xcalloc(1, sizeof *c);
        struct err ignored;
        *c = (struct conn){.net = n, .fd = fd, .next = n->conns, .peer = peer};
        c->since = c->last_sent = progress_now_s();
        if (n->conns) n->conns->prev = c;
        n->conns = c;
        atomic_fetch_add(&n->n_open, 1);
        if (watch_fd(n, fd, WAIT_IN, c, &ignored)) conn_close(c);
    }
    accept_later(n, true);
}

/* ---- timeouts ---- */

/* Returns whether a connection is within its time limits. */
static bool in_time(struct conn *c, double now) {
    const double t = now - c->since;
    if (c->out.len) return now - c->last_sent < STUCK_S;
    if (c->state == CLOSING) return t < 5;
    if (c->state == HEAD)
        return c->in.len ? t < HEAD_S || refuse(c, 408, "timeout while receiving the headers")
                         : t < IDLE_S;
    if (c->state == BODY && t > 10 && (double)c->job->body.len < 1024 * (t - 10))
        return refuse(c, 408, "the body arrives too slowly");
    return true;
}

/* Sends something if an answer has been silent for too long. False: the connection has failed. */
static bool keep_alive(struct conn *c, double now) {
    struct job *j = c->job;
    if (c->state != WAIT || !j || now - c->last_sent < PING_S) return true;
    pthread_mutex_lock(&j->lock);
    const bool stream = j->stream, due = stream || now - c->since >= QUIET_S;
    const bool silent = !j->out.len && !j->ended && !c->out.len;
    const char *ping = j->ping;
    if (silent && due && !c->head_sent) {
        put_open_head(c, 200, stream ? j->type : "application/json");
        if (stream && !j->status) j->status = 200; /* later failures are reported in the stream */
    }
    pthread_mutex_unlock(&j->lock);
    if (!silent || !due) return true;
    const char *text = stream ? (ping ? ping : ": ping\n\n") : " ";
    put_chunk(c, text, strlen(text));
    return flush(c);
}

/* Closes connections that have timed out and keeps the others alive. */
static void check_conns(struct net *n, double now) {
    for (struct conn *c = n->conns, *next; c; c = next) {
        next = c->next;
        if (!in_time(c, now) || !keep_alive(c, now)) conn_close(c);
    }
    if (n->accept_again > 0 && now > n->accept_again) accept_later(n, false);
}

/* Sends new output of all jobs. */
static void send_answers(struct net *n) {
    os_wake_clear(n->wake[0]);
    for (struct conn *c = n->conns, *next; c; c = next) {
        next = c->next;
        if (c->state != WAIT && !c->more) continue;
        if (c->out.len) continue; /* the poller reports a socket with room */
        if (!go_on(c))
            conn_close(c);
        else if (c->state == CLOSING)
            (void)shut_sending(c);
    }
}

int net_run(struct net *n, const atomic_bool *stop, struct err *e) {
    enum { EVENTS = 64 };
    struct wait_event ev[EVENTS];
    double last = 0;
    for (; !atomic_load(stop); free_closed(n)) {
        const int k = poller_get(n->waits, ev, EVENTS, TICK_MS);
        if (k < 0 && errno != EINTR) return err_sys(e, "cannot wait for connections");
        for (int i = 0; i < k; i++) {
            const int *p = ev[i].what;
            if (p == n->wake) continue;
            if (p >= n->listener && p < n->listener + MAX_HOSTS)
                accept_all(n, *p);
            else
                on_conn(ev[i].what, ev[i].is);
        }
        send_answers(n);
        const double now = progress_now_s();
        if (now - last < 0.2) continue;
        last = now;
        check_conns(n, now);
        if (!n->o.ops.tick(n->o.ops.ud) && !atomic_load(&n->n_busy)) break;
    }
    return 0;
}

void net_free(struct net *n) {
    if (!n) return;
    while (n->conns) conn_close(n->conns);
    free_closed(n);
    for (int i = 0; i < n->n_listeners; i++) {
        os_socket_close(n->listener[i]);
        if (n->unlink[i]) os_unlink(n->unlink[i]);
        free(n->unlink[i]);
    }
    poller_free(n->waits);
    os_wake_free(n->wake);
    free(n);
}
