// SPDX-License-Identifier: MIT
/* serve/job.c - requests in progress and their responses, shared between threads. */
#include "serve/job.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/os.h"
#include "base/progress.h"

void job_random_id(const char *prefix, char *out) {
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_";
    unsigned char r[24] = {0};
    size_t n = strlen(prefix);
    (void)os_random(r, sizeof r);
    memcpy(out, prefix, n);
    for (size_t i = 0; i < sizeof r; i++) out[n++] = digits[r[i] & 63];
    out[n] = 0;
}

struct job *job_new(int wake) {
    struct job *j = xcalloc(1, sizeof *j);
    pthread_mutex_init(&j->lock, NULL);
    j->wake = wake;
    j->t_arrive = progress_now_s();
    atomic_init(&j->refs, 1);
    job_random_id("req_", j->id);
    return j;
}

void job_hold(struct job *j) {
    atomic_fetch_add(&j->refs, 1);
}

void job_drop(struct job *j) {
    if (!j || atomic_fetch_sub(&j->refs, 1) != 1) return;
    pthread_mutex_destroy(&j->lock);
    buf_release(&j->head);
    buf_release(&j->body);
    buf_release(&j->out);
    buf_release(&j->fields);
    free(j);
}

/* Wakes the network thread to send new output. */
static void wake_network(const struct job *j) {
    os_wake(j->wake);
}

void job_will_stream(struct job *j, const char *type, const char *ping) {
    pthread_mutex_lock(&j->lock);
    j->type = type;
    j->ping = ping;
    j->stream = true;
    pthread_mutex_unlock(&j->lock);
}

void job_stream(struct job *j, const char *type, const char *ping) {
    pthread_mutex_lock(&j->lock);
    j->status = 200;
    j->type = type;
    j->ping = ping;
    j->stream = true;
    pthread_mutex_unlock(&j->lock);
    wake_network(j);
}

void job_write(struct job *j, const char *s, size_t n) {
    if (!n) return;
    pthread_mutex_lock(&j->lock);
    buf_add(&j->out, s, n);
    atomic_fetch_add(&j->ahead, n);
    pthread_mutex_unlock(&j->lock);
    wake_network(j);
}

void job_answer(struct job *j, int status, const char *type, const char *s, size_t n) {
    pthread_mutex_lock(&j->lock);
    j->status = status;
    j->type = type;
    j->stream = false; /* undoes job_will_stream() */
    buf_add(&j->out, s, n);
    j->ended = true;
    pthread_mutex_unlock(&j->lock);
    wake_network(j);
}

void job_field(struct job *j, const char *name, const char *value) {
    pthread_mutex_lock(&j->lock);
    buf_fmt(&j->fields, "%s: %s\r\n", name, value);
    pthread_mutex_unlock(&j->lock);
}

void job_end(struct job *j, bool cut) {
    pthread_mutex_lock(&j->lock);
    j->ended = true;
    j->cut = cut;
    pthread_mutex_unlock(&j->lock);
    wake_network(j);
}

bool job_began(struct job *j) {
    pthread_mutex_lock(&j->lock);
    const bool began = j->status != 0;
    pthread_mutex_unlock(&j->lock);
    return began;
}
