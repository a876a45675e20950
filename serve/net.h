// SPDX-License-Identifier: MIT
/* serve/net.h - the network thread: sockets, connections, time limits. What requests mean is for
 * its callbacks, which must not compute for long. */
#ifndef HONE_SERVE_NET_H
#define HONE_SERVE_NET_H

#include "base/err.h"
#include "serve/job.h"

struct net;
struct net_ops {
    void *ud;
    /* A head was read. False: it was answered, the body is not wanted, and the connection ends. */
    bool (*head)(void *ud, struct job *j);
    /* A request is complete. Whoever answers later holds the job. */
    void (*request)(void *ud, struct job *j);
    /* The body of an answer that net gives itself. */
    void (*error)(void *ud, int status, const char *why, struct buf *out);
    /* Called a few times a second. False: end as soon as no answer is under way. */
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
/* Listens. ERR_SYS when an address is taken, ERR_USAGE when it is none. */
int net_new(struct net **out, const struct net_opts *o, struct err *e);
/* Closes everything; answers under way are cancelled. */
void net_free(struct net *n);
int net_port(const struct net *n);
/* Serves until tick says false and the last answer has gone, or `stop` is set. */
int net_run(struct net *n, const atomic_bool *stop, struct err *e);
/* Connections, of them with a request under way; refused so far. From any thread. */
struct net_counts {
    int64_t open, busy, refused;
};
struct net_counts net_counts(const struct net *n);

#endif
