// SPDX-License-Identifier: MIT
/* serve/models.h - the files of a server: which of them are loaded, who uses them, which requests
 * wait for one. Internal; everything here is within server.lock unless it says otherwise.
 *
 *      away --load--> loading --> loaded --(leaving, and no user left)--> closing --> away
 *                        |          idle: loaded, and no user
 *                        '--> broken (the file cannot be served; it stays so)
 *
 * A request that names a loaded file uses it until its answer has ended. One that names another
 * waits in the list of that file. One thread, the keeper, loads and closes files, one at a time:
 * the file of the request that has waited longest first. When memory is short for it, idle files
 * go, the one used longest ago first; then those in use are marked as leaving: their answers are
 * finished, and what comes for them meanwhile waits in their own lists, behind the request that
 * needed the room. Once loaded, a file serves all that waited for it. So no answer is cut, and
 * every list's turn comes.
 *
 * Locks: server.lock alone guards the table. The keeper lets go of it while it loads and closes,
 * which is why it is the only thread that changes `state`. Before it closes a file the engine's
 * thread must have let go of it (`engaged`). job.lock may be taken within server.lock, never the
 * other way round. */
#ifndef HONE_SERVE_MODELS_H
#define HONE_SERVE_MODELS_H

#include "serve/serve.h"
#include "serve/task.h"
#include "serve/sched.h"

struct server;
struct served;
enum model_state { MODEL_AWAY, MODEL_LOADING, MODEL_LOADED, MODEL_CLOSING, MODEL_BROKEN };
struct model_jobs { /* requests, the oldest first */
    struct job **v;
    int n, cap;
};
struct listed { /* a file of the server */
    const struct serve_file *file;
    enum model_state state;
    bool leaving;              /* loaded: what comes for it waits */
    bool unload;               /* it goes as soon as it is idle */
    bool engaged;              /* the engine's thread may use it */
    bool alone;                /* it could not be loaded beside others: memory was short */
    struct served *served;     /* while it is loaded or closing; else NULL */
    int n_users;               /* requests being prepared, and tasks */
    double t_used;             /* when a request last named it */
    struct model_jobs waiting; /* for it to be loaded */
    struct err wrong;          /* why loading failed; no message: it did not */
    struct sched_counts past;  /* of earlier times that it was loaded */
    int64_t n_requests, n_loads;
    double load_s; /* all loads together */
};
struct models {
    struct listed *v; /* [serve_opts.n_files] */
    int n_waiting;    /* jobs in all lists */
    bool changed;     /* the engine is to look which files are loaded */
    pthread_t keeper;
    bool has_keeper;
    pthread_cond_t to_keeper;
};

/* Not within server.lock: */

/* Fills the table. A server with one file loads it at once, and fails when that fails. */
int models_open(struct server *s, struct err *e);
/* Starts the keeper. ERR_SYS: there is no thread. */
int models_start(struct server *s, struct err *e);
/* Frees all that is loaded and all jobs that wait, after every thread has ended. */
void models_free(struct server *s);
/* Finds the file that a request's `model` names (NULL or "": none), whatever preset stands behind
 * it. Returns 0, or the status of an error with *f filled in. */
int models_find(struct server *s, const char *model, int *out, struct fault *f);
/* Counts a user of file i for the job j, which models_drop takes back. *out NULL: the file is not
 * loaded, and j waits in its list. Returns 0, or the status of an error with *f filled in. */
int models_take(struct server *s, int i, struct job *j, struct served **out, struct fault *f);
/* Counts one more user of what is in use already. */
void models_hold(struct served *d);
void models_drop(struct served *d);
/* Counts a user of file i where it is loaded, which does not count as a request for it; NULL: it is
 * not. */
struct served *models_peek(struct server *s, int i);
/* Lets a file go as soon as it is idle. */
void models_unload(struct server *s, int i);
/* Wakes the keeper: the server stops. */
void models_wake(struct server *s);

/* Within server.lock: */

/* Returns what the state of a file is called: "loaded", "loading", "unloaded", "failed". */
const char *models_word(const struct listed *l);
/* Returns why a file cannot be served, or could not be loaded last; NULL: nothing is wrong. */
const char *models_wrong(const struct listed *l);
/* Adds up the counts of all files, or of one, over all times that they were loaded. */
struct sched_counts models_counts(const struct server *s);
struct sched_counts models_counts_of(const struct listed *l);

#endif
