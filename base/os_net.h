// SPDX-License-Identifier: MIT
/* base/os_net.h - sockets of a server: non-blocking, and not inherited by programs started later.
 * Functions return -1 with errno on failure. */
#ifndef HONE_BASE_OS_NET_H
#define HONE_BASE_OS_NET_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Listens at all addresses of a host, at *port or, if that is 0, at a free one, which it sets.
 * Sets *fd, also on error: -1, or a socket to be closed. */
int os_listen_ip(int *fd, const char *host, int *port, struct err *e);
/* Listens on a Unix socket that only the user can connect to; *fd as above. */
int os_listen_unix(int *fd, const char *path, struct err *e);
/* Accepts a connection and sets *peer to a hash of the other address without its port; 0 for Unix
 * sockets. The kernel buffers up to send_bytes of an answer, and probes a silent peer after idle_s
 * seconds. */
int os_accept(int listener, uint64_t *peer, int send_bytes, int idle_s);
/* Sends like send(); errno is EAGAIN when the call would block. */
int64_t os_send(int fd, const void *p, size_t n);
/* Receives like recv(); errno is EAGAIN when the call would block. */
int64_t os_recv(int fd, void *p, size_t n);
/* Ends the sending half of a connection. */
void os_send_end(int fd);
void os_socket_close(int fd);

#endif
