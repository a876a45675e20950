// SPDX-License-Identifier: MIT
/* serve/job.h - a request in progress and its response, shared between threads. The network thread
 * fills in the request and sends the response that another thread writes. The job is
 * reference-counted. */
#ifndef HONE_SERVE_JOB_H
#define HONE_SERVE_JOB_H

#include <pthread.h>
#include <stdatomic.h>

#include "serve/http.h"

enum { JOB_ID = 29 }; /* "req_" and 24 characters */
struct job {
    /* The request: filled in by the network thread, then read-only. */
    struct buf head, body;
    struct http_req req; /* points into head */
    char id[JOB_ID];
    uint64_t key;    /* identifies the API key or, without keys, the peer address */
    double t_arrive; /* progress_now_s() */
    const void *route;
    void *work; /* owned by the answering thread */
    int wake;   /* pipe to wake the network thread when there is data to send */

    atomic_bool gone;    /* the client has left; drop the rest of the answer */
    atomic_size_t ahead; /* bytes written but not yet read by the client */
    atomic_int refs;

    pthread_mutex_t lock; /* protects the fields below */
    int status;           /* 0: not decided yet */
    const char *type;     /* content-type */
    struct buf out;       /* bytes of the response body not sent yet */
    struct buf fields;    /* extra header lines, each with CRLF */
    bool stream;          /* send data as it is written, not all at once at the end */
    bool ended, cut;      /* cut: failed midway, so the connection is closed without a proper end */
    const char *ping;     /* text that keeps a silent stream alive; NULL: a space before the JSON */
};
/* Creates a job with one reference. wake is borrowed. */
struct job *job_new(int wake);
/* Adds a reference. */
void job_hold(struct job *j);
/* Drops a reference; the last one frees the job. j may be NULL. */
void job_drop(struct job *j);

/* Announces that the answer will be streamed, so that keep-alive bytes sent before it begins have
 * the right content type. The answer may still fail with an HTTP status of its own. */
void job_will_stream(struct job *j, const char *type, const char *ping);
/* Begins a streamed answer with status 200. */
void job_stream(struct job *j, const char *type, const char *ping);
/* Appends to the body and wakes the network thread. */
void job_write(struct job *j, const char *s, size_t n);
/* Sends a complete answer and ends the job. */
void job_answer(struct job *j, int status, const char *type, const char *s, size_t n);
/* Adds a header to the response. */
void job_field(struct job *j, const char *name, const char *value);
/* Ends a streamed answer. cut: it is incomplete, so the end of the body is not sent. */
void job_end(struct job *j, bool cut);
/* Returns whether the answer has begun, so that its status can no longer change. */
bool job_began(struct job *j);

/* Writes `prefix` and 24 unguessable characters to out, which must have room for them and a NUL. */
void job_random_id(const char *prefix, char *out);

#endif
