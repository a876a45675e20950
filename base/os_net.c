// SPDX-License-Identifier: MIT
/* base/os_net.c - sockets and wake-up pipes of POSIX systems. accept4 and pipe2, which set flags in
 * the same call, are not available everywhere. */
#include "base/os_net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/os.h"

#if !defined(MSG_NOSIGNAL) /* SIGPIPE is ignored (os_ignore_write_signals) */
#define MSG_NOSIGNAL 0
#endif

/* Makes a new descriptor non-blocking and close-on-exec. Returns fd or, with errno set and fd
 * closed, -1. */
static int set_up_fd(int fd) {
    if (fd < 0) return -1;
    const int flags = fcntl(fd, F_GETFL);
    if (flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0 &&
        fcntl(fd, F_SETFD, FD_CLOEXEC) == 0)
        return fd;
    const int keep = errno;
    close(fd);
    errno = keep;
    return -1;
}

/* ---- wake-ups ---- */

int os_wake_new(int fd[2]) {
    int p[2];
    if (pipe(p) != 0) return -1;
    if (set_up_fd(p[0]) < 0) {
        close(p[1]);
        return -1;
    }
    if (set_up_fd(p[1]) < 0) {
        close(p[0]);
        return -1;
    }
    fd[0] = p[0];
    fd[1] = p[1];
    return 0;
}
void os_wake(int fd) {
    (void)!write(fd, "", 1); /* if the pipe is full, the thread will wake anyway */
}
void os_wake_clear(int fd) {
    char all[512]; /* each wake-up wrote one byte */
    while (read(fd, all, sizeof all) == sizeof all) {
    }
}
void os_wake_free(int fd[2]) {
    for (int i = 0; i < 2; i++)
        if (fd[i] >= 0) close(fd[i]);
}

/* ---- listening ---- */

int os_listen_unix(int *fd, const char *path, struct err *e) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    *fd = -1;
    if (!*path || strlen(path) >= sizeof a.sun_path)
        return err_set(e, ERR_USAGE, "--host unix:%s: the path is empty or too long", path);
    memcpy(a.sun_path, path, strlen(path) + 1);
    *fd = set_up_fd(socket(AF_UNIX, SOCK_STREAM, 0));
    if (*fd < 0) return err_sys(e, "socket");
    const mode_t old = umask(0177);
    const int rc = bind(*fd, (const struct sockaddr *)&a, sizeof a);
    umask(old);
    return rc || listen(*fd, 128) ? err_sys(e, "--host unix:%s", path) : 0;
}

int os_listen_ip(int *fd, const char *host, int *port, struct err *e) {
    struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    char digits[16];
    const int one = 1;
    *fd = -1;
    snprintf(digits, sizeof digits, "%d", *port);
    const int rc = getaddrinfo(host, digits, &hints, &list);
    if (rc) return err_set(e, ERR_USAGE, "--host %s: %s", host, gai_strerror(rc));
    *fd = set_up_fd(socket(list->ai_family, SOCK_STREAM, 0));
    int bad = *fd < 0;
    if (!bad) {
        setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        bad = bind(*fd, list->ai_addr, list->ai_addrlen) || listen(*fd, 128);
    }
    const int why = errno;
    freeaddrinfo(list);
    errno = why;
    if (bad && errno == EADDRINUSE)
        return err_set(
            e, ERR_SYS,
            "port %d of %s is in use, perhaps by another server: stop it, or choose another "
            "port with --port (0: any free one)",
            *port, host);
    if (bad) return err_sys(e, "cannot listen at %s port %d", host, *port);
    struct sockaddr_storage a;
    socklen_t len = sizeof a;
    if (!*port && getsockname(*fd, (struct sockaddr *)&a, &len) == 0)
        *port = ntohs(a.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&a)->sin6_port
                                              : ((struct sockaddr_in *)&a)->sin_port);
    return 0;
}

/* ---- connections ---- */

/* Returns a hash of the address without its port; 0 for Unix sockets. */
static uint64_t peer_of(const struct sockaddr_storage *a) {
    if (a->ss_family == AF_INET)
        return hash_u64(&((const struct sockaddr_in *)a)->sin_addr, sizeof(struct in_addr));
    if (a->ss_family == AF_INET6)
        return hash_u64(&((const struct sockaddr_in6 *)a)->sin6_addr, sizeof(struct in6_addr));
    return 0;
}
/* Enables TCP keepalive, which probes a silent peer after `seconds`. */
static void probe_silent(int fd, int seconds) {
    const int one = 1;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
#if defined(TCP_KEEPIDLE)
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds);
#elif defined(TCP_KEEPALIVE) /* macOS */
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPALIVE, &seconds, sizeof seconds);
#else
    (void)seconds;
#endif
}
int os_accept(int listener, uint64_t *peer, int send_bytes, int idle_s) {
    struct sockaddr_storage a = {0};
    socklen_t len = sizeof a;
    const int one = 1, fd = set_up_fd(accept(listener, (struct sockaddr *)&a, &len));
    if (fd < 0) return -1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send_bytes, sizeof send_bytes);
    probe_silent(fd, idle_s);
    *peer = peer_of(&a);
    return fd;
}
int64_t os_send(int fd, const void *p, size_t n) {
    return send(fd, p, n, MSG_NOSIGNAL);
}
int64_t os_recv(int fd, void *p, size_t n) {
    return recv(fd, p, n, 0);
}
void os_send_end(int fd) {
    shutdown(fd, SHUT_WR);
}
void os_socket_close(int fd) {
    close(fd);
}
