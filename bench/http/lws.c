// SPDX-License-Identifier: MIT
/* bench/http/lws.c - minimal libwebsockets server for bench/http/trial.py: /hello answers at once,
 * /slow after 20 s, and /flood sends as fast as the client reads. */
#include <libwebsockets.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct conn {
    int kind, n_sent, opened;
};

/* Returns the time of day in seconds. */
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Sends the response's headers; returns nonzero on failure. */
static int send_head(struct lws *wsi) {
    unsigned char buf[LWS_PRE + 1024], *p = buf + LWS_PRE, *start = p, *end = buf + sizeof buf;
    if (lws_add_http_common_headers(wsi, 200, "text/event-stream", LWS_ILLEGAL_HTTP_CONTENT_LEN, &p,
                                    end) ||
        lws_finalize_write_http_header(wsi, start, &p, end))
        return 1;
    return 0;
}

/* Handles an event of a connection. */
static int on_event(struct lws *wsi, enum lws_callback_reasons why, void *user, void *in,
                    size_t len) {
    struct conn *c = user;
    (void)len;
    if (why == LWS_CALLBACK_HTTP) {
        const char *path = in;
        memset(c, 0, sizeof *c);
        c->opened = 1;
        c->kind = strcmp(path, "/slow") == 0 ? 1 : strcmp(path, "/flood") == 0 ? 2 : 0;
        if (send_head(wsi)) return 1;
        if (c->kind == 1) lws_set_timeout(wsi, NO_PENDING_TIMEOUT, 0);
        if (c->kind != 1) lws_callback_on_writable(wsi);
        return 0;
    }
    if (why == LWS_CALLBACK_HTTP_WRITEABLE) {
        static unsigned char buf[LWS_PRE + 65536];
        memset(buf, 'x', sizeof buf);
        if (c->kind == 1) return 0;
        if (c->kind == 2) {
            lws_set_timeout(wsi, NO_PENDING_TIMEOUT, 0);
            if (lws_write(wsi, buf + LWS_PRE, 65536, LWS_WRITE_HTTP) < 0) return 1;
            lws_callback_on_writable(wsi);
            return 0;
        }
        memcpy(buf + LWS_PRE, "data: hello\n\n", 13);
        if (lws_write(wsi, buf + LWS_PRE, 13, LWS_WRITE_HTTP_FINAL) < 0) return 1;
        return lws_http_transaction_completed(wsi) ? -1 : 0;
    }
    if (why == LWS_CALLBACK_CLOSED_HTTP && c && c->opened) {
        printf("gone %d %.3f\n", c->kind, now());
        fflush(stdout);
    }
    return 0;
}

int main(int argc, char **argv) {
    static const struct lws_protocols protocols[] = {
        {"http", on_event, sizeof(struct conn), 0, 0, NULL, 0}, {NULL, NULL, 0, 0, 0, NULL, 0}};
    struct lws_context_creation_info info;
    memset(&info, 0, sizeof info);
    lws_set_log_level(LLL_ERR, NULL);
    info.port = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 8091;
    info.iface = "127.0.0.1";
    info.protocols = protocols;
    info.keepalive_timeout = 75;
    info.timeout_secs = 10;
    struct lws_context *ctx = lws_create_context(&info);
    if (!ctx) return 1;
    printf("ready\n");
    fflush(stdout);
    while (lws_service(ctx, 0) >= 0) {
    }
    lws_context_destroy(ctx);
    return 0;
}
