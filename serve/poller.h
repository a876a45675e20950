// SPDX-License-Identifier: MIT
/* serve/poller.h - poller for events on many descriptors: epoll on Linux, elsewhere poll(), whose
 * cost grows with the number of descriptors. Single-threaded. */
#ifndef HONE_SERVE_POLLER_H
#define HONE_SERVE_POLLER_H

enum { WAIT_IN = 1, WAIT_OUT = 2, WAIT_LEFT = 4, WAIT_DEAD = 8 };
struct wait_event {
    void *what;
    /* Reported if requested: WAIT_IN, readable, and WAIT_OUT, writable. Always reported: WAIT_LEFT,
     * the peer has shut down its side (with poll only on some systems), and WAIT_DEAD, error. */
    unsigned is;
};
struct poller;

/* Creates a poller; NULL: failed, see errno. */
struct poller *poller_new(void);
void poller_free(struct poller *w);
/* Adds fd, or changes its `events` (WAIT_IN, WAIT_OUT); `what` is returned with its events. Returns
 * 0, or -1 with errno set. */
int poller_set(struct poller *w, int fd, unsigned events, void *what);
/* Removes fd from the poller; call before close(). */
void poller_end(struct poller *w, int fd);
/* Waits for up to `ms` milliseconds and stores up to `room` events, with kqueue up to two for a
 * descriptor. Returns their number, or -1 with errno set. */
int poller_get(struct poller *w, struct wait_event *ev, int room, int ms);

#endif
