// SPDX-License-Identifier: MIT
/* serve/poller.h - waits for many descriptors at once: Linux by epoll, other systems by poll, whose
 * calls cost as much as there are descriptors. One thread uses it. */
#ifndef HONE_SERVE_POLLER_H
#define HONE_SERVE_POLLER_H

enum { WAIT_IN = 1, WAIT_OUT = 2, WAIT_LEFT = 4, WAIT_DEAD = 8 };
struct wait_event {
    void *what;
    /* What it was asked for and is: WAIT_IN can be read, WAIT_OUT written; and unasked: WAIT_LEFT
     * the other side sends nothing more (poll: only where the system knows), WAIT_DEAD it broke. */
    unsigned is;
};
struct poller;

/* Returns NULL where the system refuses; errno says why. */
struct poller *poller_new(void);
void poller_free(struct poller *w);
/* Begins to wait for fd with `events` of WAIT_IN and WAIT_OUT, or changes them; `what` is in its
 * events. Returns 0, or -1 and errno. */
int poller_set(struct poller *w, int fd, unsigned events, void *what);
/* Ends that; before fd is closed. */
void poller_end(struct poller *w, int fd);
/* Waits for `ms` at most and stores up to `room` events. Returns their number, or -1 and errno. */
int poller_get(struct poller *w, struct wait_event *ev, int room, int ms);

#endif
