// SPDX-License-Identifier: MIT
/* base/win/os_net.c - sockets on Windows. A SOCKET is a kernel handle, whose significant bits fit
 * an int. WSAPoll takes only sockets, so a wake-up is a pair of them on the loopback address. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <winsock2.h>
#include <ws2tcpip.h>

#include "base/hash.h"
#include "base/os.h"
#include "base/os_net.h"

#ifndef TCP_KEEPIDLE /* missing in older headers of mingw */
#define TCP_KEEPIDLE 3
#endif

/* Sets errno for the last error of a socket and returns -1. */
static int fail_socket(void) {
    const int code = WSAGetLastError();
    errno = code == WSAEWOULDBLOCK     ? EAGAIN
            : code == WSAEADDRINUSE    ? EADDRINUSE
            : code == WSAEACCES        ? EADDRINUSE /* another server has it exclusively */
            : code == WSAEADDRNOTAVAIL ? EADDRNOTAVAIL
            : code == WSAEMFILE        ? EMFILE
            : code == WSAEINTR         ? EINTR
                                       : EIO;
    return -1;
}
static void start(void) {
    WSADATA d;
    (void)WSAStartup(MAKEWORD(2, 2), &d);
}
static pthread_once_t started = PTHREAD_ONCE_INIT;
/* Makes a new socket non-blocking and not inherited. Returns it as an int, or -1 with errno. */
static int set_up(SOCKET s) {
    u_long yes = 1;
    if (s == INVALID_SOCKET) return fail_socket();
    SetHandleInformation((HANDLE)s, HANDLE_FLAG_INHERIT, 0);
    if (ioctlsocket(s, (long)FIONBIO, &yes) == 0) return (int)s;
    fail_socket();
    closesocket(s);
    return -1;
}

/* ---- wake-ups ---- */

int os_wake_new(int fd[2]) {
    struct sockaddr_in a = {.sin_family = AF_INET}, mine, other;
    int n = sizeof a, n_mine = sizeof mine, n_other = sizeof other;
    pthread_once(&started, start);
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const SOCKET l = socket(AF_INET, SOCK_STREAM, 0), w = socket(AF_INET, SOCK_STREAM, 0);
    SOCKET r = INVALID_SOCKET;
    if (bind(l, (struct sockaddr *)&a, sizeof a) == 0 && listen(l, 1) == 0 &&
        getsockname(l, (struct sockaddr *)&a, &n) == 0 &&
        connect(w, (struct sockaddr *)&a, sizeof a) == 0)
        r = accept(l, (struct sockaddr *)&other, &n_other);
    /* another program may have connected first */
    if (r != INVALID_SOCKET && (getsockname(w, (struct sockaddr *)&mine, &n_mine) != 0 ||
                                mine.sin_port != other.sin_port)) {
        closesocket(r);
        r = INVALID_SOCKET;
    }
    closesocket(l);
    fd[0] = set_up(r);
    fd[1] = set_up(w);
    if (fd[0] >= 0 && fd[1] >= 0) return 0;
    os_wake_free(fd);
    fd[0] = fd[1] = -1;
    errno = EIO;
    return -1;
}
void os_wake(int fd) {
    (void)send((SOCKET)fd, "", 1, 0);
}
void os_wake_clear(int fd) {
    char all[512];
    while (recv((SOCKET)fd, all, sizeof all, 0) == sizeof all) {
    }
}
void os_wake_free(int fd[2]) {
    for (int i = 0; i < 2; i++)
        if (fd[i] >= 0) closesocket((SOCKET)fd[i]);
}

/* ---- listening ---- */

int os_listen_unix(int *fd, const char *path, struct err *e) {
    *fd = -1;
    return err_set(e, ERR_USAGE,
                   "--host unix:%s: Unix sockets are not supported on Windows; use 127.0.0.1",
                   path);
}
int os_listen_ip(int *fd, const char *host, int *port, struct err *e) {
    struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    char digits[16];
    const BOOL one = TRUE;
    *fd = -1;
    pthread_once(&started, start);
    snprintf(digits, sizeof digits, "%d", *port);
    const int rc = getaddrinfo(host, digits, &hints, &list);
    if (rc) return err_set(e, ERR_USAGE, "--host %s: the name is not known (%d)", host, rc);
    *fd = set_up(socket(list->ai_family, SOCK_STREAM, 0));
    int bad = *fd < 0;
    if (!bad) { /* SO_REUSEADDR would let another program take over the port */
        setsockopt((SOCKET)*fd, SOL_SOCKET, SO_EXCLUSIVEADDRUSE, (const char *)&one, sizeof one);
        bad = bind((SOCKET)*fd, list->ai_addr, (int)list->ai_addrlen) || listen((SOCKET)*fd, 128);
        if (bad) fail_socket();
    }
    freeaddrinfo(list);
    if (bad && errno == EADDRINUSE)
        return err_set(
            e, ERR_SYS,
            "port %d of %s is in use, perhaps by another server: stop it, or choose another "
            "port with --port (0: any free one)",
            *port, host);
    if (bad) return err_sys(e, "cannot listen at %s port %d", host, *port);
    struct sockaddr_storage a;
    int len = sizeof a;
    if (!*port && getsockname((SOCKET)*fd, (struct sockaddr *)&a, &len) == 0)
        *port = ntohs(a.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&a)->sin6_port
                                              : ((struct sockaddr_in *)&a)->sin_port);
    return 0;
}

/* ---- connections ---- */

int os_accept(int listener, uint64_t *peer, int send_bytes, int idle_s) {
    struct sockaddr_storage a = {0};
    int len = sizeof a;
    const BOOL one = TRUE;
    const SOCKET s = accept((SOCKET)listener, (struct sockaddr *)&a, &len);
    const int fd = set_up(s);
    if (fd < 0) return -1;
    const DWORD idle = (DWORD)idle_s;
    setsockopt(s, IPPROTO_TCP, TCP_NODELAY, (const char *)&one, sizeof one);
    setsockopt(s, SOL_SOCKET, SO_SNDBUF, (const char *)&send_bytes, sizeof send_bytes);
    setsockopt(s, SOL_SOCKET, SO_KEEPALIVE, (const char *)&one, sizeof one);
    setsockopt(s, IPPROTO_TCP, TCP_KEEPIDLE, (const char *)&idle, sizeof idle);
    *peer = 0;
    if (a.ss_family == AF_INET)
        *peer = hash_u64(&((const struct sockaddr_in *)&a)->sin_addr, sizeof(struct in_addr));
    if (a.ss_family == AF_INET6)
        *peer = hash_u64(&((const struct sockaddr_in6 *)&a)->sin6_addr, sizeof(struct in6_addr));
    return fd;
}
int64_t os_send(int fd, const void *p, size_t n) {
    const int k = send((SOCKET)fd, p, n < 1u << 30 ? (int)n : 1 << 30, 0);
    return k < 0 ? fail_socket() : k;
}
int64_t os_recv(int fd, void *p, size_t n) {
    const int k = recv((SOCKET)fd, p, n < 1u << 30 ? (int)n : 1 << 30, 0);
    return k < 0 ? fail_socket() : k;
}
void os_send_end(int fd) {
    shutdown((SOCKET)fd, SD_SEND);
}
void os_socket_close(int fd) {
    closesocket((SOCKET)fd);
}
