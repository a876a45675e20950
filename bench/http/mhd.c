// SPDX-License-Identifier: MIT
/* bench/http/mhd.c - libmicrohttpd version of the test server in bench/http/lws.c. The library does
 * not notice when a client disconnects while its connection is suspended, so a separate thread
 * watches the descriptors. */
#include <microhttpd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

struct conn {
    int kind, n_calls, suspended;
    size_t n_sent;
    struct MHD_Connection *c;
};
static int watch;

/* Returns the time of day in seconds. */
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Prints when a client disconnects and resumes its connection. */
static void *watch_main(void *ud) {
    struct epoll_event ev;
    (void)ud;
    for (;;) {
        if (epoll_wait(watch, &ev, 1, -1) < 1) continue;
        struct conn *c = ev.data.ptr;
        printf("gone %d %.3f\n", c->kind, now());
        fflush(stdout);
        MHD_resume_connection(c->c);
    }
    return NULL;
}

/* Writes the next part of a response's body to buf and returns its length. */
static ssize_t fill_body(void *ud, uint64_t pos, char *buf, size_t max) {
    struct conn *c = ud;
    (void)pos;
    if (c->kind == 2) {
        memset(buf, 'x', max);
        return (ssize_t)max;
    }
    if (c->kind == 1) {
        if (c->suspended) return MHD_CONTENT_READER_END_WITH_ERROR;
        const union MHD_ConnectionInfo *i =
            MHD_get_connection_info(c->c, MHD_CONNECTION_INFO_CONNECTION_FD);
        struct epoll_event ev = {.events = EPOLLRDHUP | EPOLLONESHOT, .data.ptr = c};
        MHD_suspend_connection(c->c);
        c->suspended = 1;
        epoll_ctl(watch, EPOLL_CTL_ADD, i->connect_fd, &ev);
        return 0;
    }
    if (c->n_sent) return MHD_CONTENT_READER_END_OF_STREAM;
    c->n_sent = 13;
    memcpy(buf, "data: hello\n\n", 13);
    return 13;
}

/* Answers a request by the kind that its path names. */
static enum MHD_Result on_request(void *ud, struct MHD_Connection *mc, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *n, void **state) {
    struct conn *c = *state;
    (void)ud, (void)method, (void)version, (void)data;
    if (!c) {
        c = calloc(1, sizeof *c);
        c->c = mc;
        c->kind = strcmp(url, "/slow") == 0 ? 1 : strcmp(url, "/flood") == 0 ? 2 : 0;
        *state = c;
        return MHD_YES;
    }
    if (*n) {
        *n = 0;
        return MHD_YES;
    }
    struct MHD_Response *r =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 65536, fill_body, c, NULL);
    MHD_add_response_header(r, "content-type", "text/event-stream");
    enum MHD_Result rc = MHD_queue_response(mc, 200, r);
    MHD_destroy_response(r);
    return rc;
}

static void on_done(void *ud, struct MHD_Connection *mc, void **state,
                    enum MHD_RequestTerminationCode why) {
    (void)ud, (void)mc, (void)why;
    free(*state);
    *state = NULL;
}

int main(int argc, char **argv) {
    pthread_t t;
    watch = epoll_create1(0);
    pthread_create(&t, NULL, watch_main, NULL);
    struct MHD_Daemon *d = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME,
        (uint16_t)strtol(argc > 1 ? argv[1] : "8092", NULL, 10), NULL, NULL, on_request, NULL,
        MHD_OPTION_NOTIFY_COMPLETED, on_done, NULL, MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_CONNECTION_TIMEOUT, 75u, MHD_OPTION_CONNECTION_LIMIT, 1100u, MHD_OPTION_END);
    if (!d) return 1;
    printf("ready\n");
    fflush(stdout);
    for (;;) pause();
}
