// SPDX-License-Identifier: MIT
/* serve/poller.c - poller for descriptors, with epoll (Linux), kqueue (macOS) or poll(); on Windows
 * WSAPoll, which takes only sockets. */
#include "serve/poller.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#if !defined(_WIN32)
#include <poll.h>
#include <unistd.h>
#endif

#include "base/mem.h"
#include "base/num.h"

#if defined(__linux__)
#include <sys/epoll.h>

struct poller {
    int epoll;
};

struct poller *poller_new(void) {
    const int fd = epoll_create1(EPOLL_CLOEXEC);
    if (fd < 0) return NULL;
    struct poller *w = xcalloc(1, sizeof *w);
    w->epoll = fd;
    return w;
}
void poller_free(struct poller *w) {
    if (!w) return;
    close(w->epoll);
    free(w);
}
int poller_set(struct poller *w, int fd, unsigned events, void *what) {
    struct epoll_event ev = {.data.ptr = what};
    ev.events = (events & WAIT_IN ? (unsigned)EPOLLIN : 0) |
                (events & WAIT_OUT ? (unsigned)EPOLLOUT : 0) | (unsigned)EPOLLRDHUP;
    if (epoll_ctl(w->epoll, EPOLL_CTL_MOD, fd, &ev) == 0) return 0;
    return errno == ENOENT ? epoll_ctl(w->epoll, EPOLL_CTL_ADD, fd, &ev) : -1;
}
void poller_end(struct poller *w, int fd) {
    struct epoll_event unused = {0};
    (void)epoll_ctl(w->epoll, EPOLL_CTL_DEL, fd, &unused);
}
int poller_get(struct poller *w, struct wait_event *ev, int room, int ms) {
    enum { MOST = 64 };
    struct epoll_event got[MOST];
    const int n = epoll_wait(w->epoll, got, (int)min_i64(room, MOST), ms);
    for (int i = 0; i < n; i++) {
        const unsigned e = got[i].events;
        ev[i].what = got[i].data.ptr;
        ev[i].is = (e & EPOLLIN ? WAIT_IN : 0u) | (e & EPOLLOUT ? WAIT_OUT : 0u) |
                   (e & EPOLLRDHUP ? WAIT_LEFT : 0u) | (e & (EPOLLHUP | EPOLLERR) ? WAIT_DEAD : 0u);
    }
    return n;
}
#elif defined(__APPLE__)
#include <sys/event.h>
#include <sys/time.h>

/* kqueue returns an event per filter, so a descriptor that is readable and writable gives two. A
 * client's departure is EV_EOF of the read filter, which therefore stays set; without WAIT_IN it
 * reports only that (NOTE_LOWAT: more bytes than arrive). */
struct poller {
    int queue;
};

struct poller *poller_new(void) {
    const int fd = kqueue();
    if (fd < 0) return NULL;
    struct poller *w = xcalloc(1, sizeof *w);
    w->queue = fd;
    return w;
}
void poller_free(struct poller *w) {
    if (!w) return;
    close(w->queue);
    free(w);
}
int poller_set(struct poller *w, int fd, unsigned events, void *what) {
    struct kevent k[2];
    const bool in = events & WAIT_IN;
    EV_SET(&k[0], fd, EVFILT_READ, EV_ADD | EV_ENABLE, in ? 0 : NOTE_LOWAT, in ? 0 : INT32_MAX,
           what);
    EV_SET(&k[1], fd, EVFILT_WRITE, EV_ADD | (events & WAIT_OUT ? EV_ENABLE : EV_DISABLE), 0, 0,
           what);
    return kevent(w->queue, k, 2, NULL, 0, NULL) < 0 ? -1 : 0;
}
void poller_end(struct poller *w, int fd) {
    struct kevent k;
    EV_SET(&k, fd, EVFILT_READ, EV_DELETE, 0, 0, NULL);
    (void)kevent(w->queue, &k, 1, NULL, 0, NULL);
    EV_SET(&k, fd, EVFILT_WRITE, EV_DELETE, 0, 0, NULL);
    (void)kevent(w->queue, &k, 1, NULL, 0, NULL);
}
int poller_get(struct poller *w, struct wait_event *ev, int room, int ms) {
    enum { MOST = 64 };
    struct kevent got[MOST];
    const struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    const int n = kevent(w->queue, NULL, 0, got, (int)min_i64(room, MOST), &t);
    for (int i = 0; i < n; i++) {
        const bool read = got[i].filter == EVFILT_READ, end = got[i].flags & EV_EOF;
        ev[i].what = got[i].udata;
        ev[i].is = got[i].flags & EV_ERROR || (end && (!read || got[i].fflags)) ? WAIT_DEAD
                   : !read                                                      ? WAIT_OUT
                   : end ? WAIT_LEFT | (got[i].data ? WAIT_IN : 0u)
                         : WAIT_IN;
    }
    return n;
}
#else

#if defined(_WIN32) /* WSAPoll reports POLLHUP when the client has shut down its side */
#include <winsock2.h>
#define poll(fds, n, ms) WSAPoll(fds, (ULONG)(n), ms)
typedef SOCKET descriptor;
static const int hup_left = POLLHUP, hup_dead = 0;
#else
typedef int descriptor;
static const int hup_left = 0, hup_dead = POLLHUP;
#endif
#if !defined(POLLRDHUP) /* Without it, a client's departure shows only when sending. */
#define POLLRDHUP 0
#endif

struct poller {
    struct pollfd *fd;
    void **what;
    size_t n, room, next; /* next: where the next scan starts, so that all get a turn */
};

struct poller *poller_new(void) {
    return xcalloc(1, sizeof(struct poller));
}
void poller_free(struct poller *w) {
    if (!w) return;
    free(w->fd);
    free(w->what);
    free(w);
}
/* Returns the index of fd; w->n: not found. */
static size_t place_of(const struct poller *w, int fd) {
    size_t i = 0;
    while (i < w->n && w->fd[i].fd != (descriptor)fd) i++;
    return i;
}
int poller_set(struct poller *w, int fd, unsigned events, void *what) {
    const size_t i = place_of(w, fd);
    if (i == w->room) {
        w->room = w->room ? 2 * w->room : 16;
        w->fd = xreallocarray(w->fd, w->room, sizeof *w->fd);
        w->what = xreallocarray(w->what, w->room, sizeof *w->what);
    }
    const int want =
        (events & WAIT_IN ? POLLIN : 0) | (events & WAIT_OUT ? POLLOUT : 0) | POLLRDHUP;
    w->n = i == w->n ? i + 1 : w->n;
    w->fd[i] = (struct pollfd){.fd = (descriptor)fd, .events = (short)want};
    w->what[i] = what;
    return 0;
}
void poller_end(struct poller *w, int fd) {
    const size_t i = place_of(w, fd);
    if (i == w->n) return;
    w->fd[i] = w->fd[--w->n];
    w->what[i] = w->what[w->n];
}
int poller_get(struct poller *w, struct wait_event *ev, int room, int ms) {
    int n = 0;
    if (poll(w->fd, (unsigned)w->n, ms) < 0) return -1;
    for (size_t k = 0; k < w->n && n < room; k++) {
        const size_t i = (w->next + k) % w->n;
        const int e = w->fd[i].revents;
        if (!e) continue;
        ev[n].what = w->what[i];
        ev[n++].is = (e & POLLIN ? WAIT_IN : 0u) | (e & POLLOUT ? WAIT_OUT : 0u) |
                     (e & (POLLRDHUP | hup_left) ? WAIT_LEFT : 0u) |
                     (e & (hup_dead | POLLERR | POLLNVAL) ? WAIT_DEAD : 0u);
        if (n == room) w->next = i + 1;
    }
    return n;
}
#endif
