// SPDX-License-Identifier: MIT
/* serve/net.h - the network thread: sockets, connections and timeouts. Callbacks handle the
 * requests, and must return quickly. */
#ifndef HONE_SERVE_NET_H
#define HONE_SERVE_NET_H

#include "base/err.h"
#include "serve/job.h"

struct net;
struct net_ops {
    void *ud;
    /* Handles a request whose head has arrived. False: it has been answered; the body is not read,
     * and the connection is closed. */
    bool (*head)(void *ud, struct job *j);
    /* Handles a complete request. To answer it later from another thread, hold the job. */
    void (*request)(void *ud, struct job *j);
    /* Writes the body of an error response that net itself sends, such as to an invalid request. */
    void (*error)(void *ud, int status, const char *why, struct buf *out);
    /* Is called a few times per second. False: stop when no answer is in progress. */
    bool (*tick)(void *ud);
};
struct net_opts {
    const char *const *host; /* addresses, or "unix:PATH" */
    int n_hosts;
    int port; /* 0: any */
    size_t max_body;
    int max_connections;
    struct net_ops ops;
};
/* Opens the listening sockets. ERR_SYS: an address is in use. ERR_USAGE: invalid address. */
int net_new(struct net **out, const struct net_opts *o, struct err *e);
/* Closes everything; answers in progress are cancelled. */
void net_free(struct net *n);
/* Returns the TCP port in use, even if the option is 0. */
int net_port(const struct net *n);
/* Serves until tick() has returned false and the last answer is sent, or until `stop` is set. */
int net_run(struct net *n, const atomic_bool *stop, struct err *e);
/* Numbers of connections: open now, with a request in progress now, and refused so far.
 * net_counts() is thread-safe. */
struct net_counts {
    int64_t open, busy, refused;
};
struct net_counts net_counts(const struct net *n);

#endif
