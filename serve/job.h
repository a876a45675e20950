// SPDX-License-Identifier: MIT
/* serve/job.h - a request under way and its answer, handed between threads: the network thread
 * fills in the request and sends what comes, another thread answers. Each side holds the job until
 * it lets go of it. */
#ifndef HONE_SERVE_JOB_H
#define HONE_SERVE_JOB_H

#include <pthread.h>
#include <stdatomic.h>

#include "serve/http.h"

enum { JOB_ID = 29 }; /* "req_" and 24 characters */
struct job {
    /* the request; read only once it was handed over */
    struct buf head, body;
    struct http_req req; /* into head */
    char id[JOB_ID];
    uint64_t key;    /* stands for the API key, or for the address that it came from */
    double t_arrive; /* progress_now_s() */
    const void *route;
    void *work; /* of whoever answers */
    int wake;   /* a pipe: there is something to send */

    atomic_bool gone;    /* the client left: nothing of the answer is wanted any more */
    atomic_size_t ahead; /* bytes that wait for the client to read them */
    atomic_int refs;

    pthread_mutex_t lock; /* what follows */
    int status;           /* 0: not known yet */
    const char *type;     /* content-type */
    struct buf out;       /* of the body, not sent yet */
    struct buf fields;    /* more header lines, each with its end */
    bool stream;          /* sent as it comes; else at once when it has ended */
    bool ended, cut;      /* cut: it failed in the middle, the connection breaks off */
    const char *ping;     /* what keeps a silent stream alive; NULL: a space in front of JSON */
};
/* Makes a job held once. wake is borrowed. */
struct job *job_new(int wake);
void job_hold(struct job *j);
void job_drop(struct job *j);

/* Says how an answer will be streamed that has not begun: what keeps it alive until then is of its
 * type. It can still fail with a status of its own. */
void job_will_stream(struct job *j, const char *type, const char *ping);
/* Begins a streamed answer: status 200. */
void job_stream(struct job *j, const char *type, const char *ping);
/* Adds to the body, and wakes the network thread. */
void job_write(struct job *j, const char *s, size_t n);
/* Answers at once, and ends. */
void job_answer(struct job *j, int status, const char *type, const char *s, size_t n);
void job_field(struct job *j, const char *name, const char *value);
/* Ends a streamed answer; cut: without the mark that says it is whole. */
void job_end(struct job *j, bool cut);
/* Notes that the head of a streamed answer was sent before anything of it was there. */
void job_begin(struct job *j);
/* Tells whether anything of the answer has been begun. */
bool job_began(struct job *j);

/* Writes `prefix` and 24 characters that nobody can guess to out, which has room for both and a
 * NUL. */
void job_random_id(const char *prefix, char *out);

#endif
