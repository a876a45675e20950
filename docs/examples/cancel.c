// SPDX-License-Identifier: MIT
/* cancel.c - runs a long job with progress and cancels it from another thread; no output remains.
 *
 *     cc cancel.c $(pkg-config --cflags --libs hone) -lpthread -o cancel
 *     ./cancel IN.gguf OUT.gguf RECIPE MILLISECONDS */
#include <hone.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct timer {
    struct hone_cancel *cancel;
    long ms;
};

static void *wait_and_cancel(void *arg) {
    const struct timer *t = arg;
    nanosleep(&(struct timespec){t->ms / 1000, t->ms % 1000 * 1000000}, NULL);
    hone_cancel_now(t->cancel);
    return NULL;
}

static int on_progress(void *user, const char *stage, uint64_t done, uint64_t total) {
    (void)user;
    if (total) fprintf(stderr, "%s: %.0f %%\n", stage, 100.0 * (double)done / (double)total);
    return 0; /* anything else would cancel, too */
}

int main(int argc, char **argv) {
    struct hone_error e = {0};
    struct hone_quantizer *q = NULL;
    pthread_t thread;
    if (argc != 5) return fprintf(stderr, "usage: %s IN OUT RECIPE MS\n", argv[0]), 2;
    struct timer t = {.cancel = hone_cancel_new(), .ms = atol(argv[4])};
    const struct hone_opts o = {.size = sizeof o, .progress = on_progress, .cancel = t.cancel};
    const struct hone_quantize_opts qo = {.size = sizeof qo, .recipe = argv[3]};
    struct hone_quantize_report r = {.size = sizeof r};
    if (!t.cancel || pthread_create(&thread, NULL, wait_and_cancel, &t)) return perror("cancel"), 4;
    int rc = hone_quantizer_new(&q, &o, &e);
    if (!rc) rc = hone_quantizer_file(q, argv[1], argv[2], &qo, &r, &e);
    pthread_join(thread, NULL);
    if (rc == HONE_CANCELLED)
        puts("cancelled");
    else if (rc)
        fprintf(stderr, "cancel: %s\n", e.message);
    else
        printf("%.2f bits per weight\n", r.bits_per_weight);
    hone_quantizer_free(q);
    hone_cancel_free(t.cancel);
    return rc;
}
