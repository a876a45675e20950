// SPDX-License-Identifier: MIT
/* serve/models.h - the model files of a server: which are loaded, which requests use them, and
 * which wait for them. Internal. Everything here needs server.lock unless noted.
 *
 *      away --load--> loading --> loaded --(leaving, and no user left)--> closing --> away
 *                        |          idle: loaded, and no user
 *                        '--> broken (the file cannot be served; final)
 *
 * A request that names a loaded file uses it until its answer has ended. A request for any other
 * file waits in that file's list. One thread, the keeper, loads and closes files, one at a time,
 * and loads the file of the oldest waiting request first. When memory is short, it closes idle
 * files, the least recently used first. If that is not enough, it marks files in use as leaving:
 * they finish their answers, and new requests for them wait until after the request that needed the
 * memory. Once a file is loaded, it serves all requests in its list. So no answer is cut short and
 * no request waits forever.
 *
 * Locks: server.lock guards the table. The keeper releases it while it loads and closes, so only
 * the keeper changes `state`. It closes a file only after the engine thread has released it
 * (`engaged`). job.lock may be taken within server.lock, never the other way round. */
#ifndef HONE_SERVE_MODELS_H
#define HONE_SERVE_MODELS_H

#include "serve/serve.h"
#include "serve/task.h"
#include "serve/sched.h"

struct server;
struct served;
enum model_state { MODEL_AWAY, MODEL_LOADING, MODEL_LOADED, MODEL_CLOSING, MODEL_BROKEN };
struct model_jobs { /* requests, oldest first */
    struct job **v;
    int n, cap;
};
struct listed { /* a model file and its load state */
    const struct serve_file *file;
    enum model_state state;
    bool leaving; /* loaded, but new requests for it wait */
    bool unload;  /* close it as soon as it is idle */
    bool engaged; /* the engine thread may use it */
    bool alone;   /* did not fit next to other files: load it only when no other is loaded */
    struct served *served;     /* while loaded or closing, else NULL */
    int n_users;               /* requests being prepared, plus tasks */
    double t_used;             /* time of the last request for it */
    struct model_jobs waiting; /* requests that wait until it is loaded */
    struct err wrong;          /* error of the last load; no message: it succeeded */
    struct sched_counts past;  /* totals of earlier loads */
    int64_t n_requests, n_loads;
    double load_s; /* total time of loads */
};
struct models {
    struct listed *v; /* [serve_opts.n_files] */
    int n_waiting;    /* waiting jobs of all files */
    bool changed;     /* loaded files have changed: the engine must call engage() */
    pthread_t keeper;
    bool has_keeper;
    pthread_cond_t to_keeper;
};

/* Not within server.lock: */

/* Fills the table. If the server has a single file, loads it, and returns the error if that
 * fails. */
int models_open(struct server *s, struct err *e);
/* Starts the keeper. ERR_SYS: the thread cannot be created. */
int models_start(struct server *s, struct err *e);
/* Frees loaded files and waiting jobs; call after all threads have ended. */
void models_free(struct server *s);
/* Finds the file that a request's `model` names, ignoring an @preset; NULL or "": the default file.
 * Returns 0, or the status of an error with *f filled in. */
int models_find(struct server *s, const char *model, int *out, struct fault *f);
/* Makes job j a user of file i; end that with models_drop(). *out NULL: the file is not loaded, and
 * j has been added to its list. Returns 0, or the status of an error with *f filled in. */
int models_take(struct server *s, int i, struct job *j, struct served **out, struct fault *f);
/* Adds a user to a file that has one already. */
void models_hold(struct served *d);
/* Ends the use of a model, which may now be unloaded. */
void models_drop(struct served *d);
/* Adds a user to file i if it is loaded, without updating t_used as a request does; NULL: not
 * loaded. */
struct served *models_peek(struct server *s, int i);
/* Requests that file i be closed as soon as it is idle. */
void models_unload(struct server *s, int i);
/* Wakes the keeper when the server stops. */
void models_wake(struct server *s);

/* Within server.lock: */

/* Returns the name of a file's state: "loaded", "loading", "unloaded", "failed". */
const char *models_word(const struct listed *l);
/* Returns why a file cannot be served or its last load failed; NULL: no error. */
const char *models_wrong(const struct listed *l);
/* Returns the counts of all files, or of one, since the server started. */
struct sched_counts models_counts(const struct server *s);
/* Returns a model's counts, including those from before it was last unloaded. */
struct sched_counts models_counts_of(const struct listed *l);

#endif
