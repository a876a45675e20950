// SPDX-License-Identifier: MIT
/* serve/models.c - the keeper thread, which loads and unloads a server's model files. */
#include "serve/models.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/progress.h"
#include "serve/names.h"
#include "serve/preset.h"
#include "serve/server.h"

#define GIB 1073741824.0
enum { CHECK_GONE_MS = 100 }; /* interval of checks for clients that left, which wake no thread */

/* ---- lists of jobs ---- */

static void jobs_add(struct model_jobs *l, struct job *j) {
    if (l->n == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 16;
        l->v = xreallocarray(l->v, (size_t)l->cap, sizeof(void *));
    }
    l->v[l->n++] = j;
}

/* Removes the first job, which must exist, and returns it. */
static struct job *jobs_first(struct model_jobs *l) {
    struct job *j = l->v[0];
    memmove(l->v, l->v + 1, (size_t)--l->n * sizeof(void *));
    return j;
}

/* Drops waiting jobs whose clients have left. */
static void drop_gone(struct server *s) {
    for (int i = 0; i < s->o.n_files; i++) {
        struct model_jobs *l = &s->models.v[i].waiting;
        int n = 0;
        for (int k = 0; k < l->n; k++) {
            if (!atomic_load(&l->v[k]->gone)) {
                l->v[n++] = l->v[k];
                continue;
            }
            job_drop(l->v[k]);
            s->n_left++;
            s->models.n_waiting--;
        }
        l->n = n;
    }
}

/* Answers all requests in a file's list with an error. Releases the lock while answering each. */
static void fail_waiting(struct server *s, struct listed *l, const struct fault *f) {
    while (l->waiting.n) {
        struct job *j = jobs_first(&l->waiting);
        s->models.n_waiting--;
        pthread_mutex_unlock(&s->lock);
        if (f->status == 500) job_field(j, "x-should-retry", "false");
        route_refuse(s, j, f);
        job_drop(j);
        pthread_mutex_lock(&s->lock);
    }
}

/* Passes the waiting jobs of a loaded file to the preparing thread. */
static void hand_over(struct server *s, struct listed *l) {
    while (l->waiting.n) {
        serve_hand(s, jobs_first(&l->waiting), l->served);
        s->models.n_waiting--;
        l->n_users++;
        l->t_used = progress_now_s();
    }
}

/* ---- memory ---- */

/* Returns whether the model takes memory: loaded or closing. */
static bool is_in_memory(const struct listed *l) {
    return l->state == MODEL_LOADED || l->state == MODEL_CLOSING;
}

/* Returns the estimated size of all models in memory. */
static uint64_t used_bytes(const struct server *s) {
    uint64_t n = 0;
    for (int i = 0; i < s->o.n_files; i++)
        if (is_in_memory(&s->models.v[i])) n += s->models.v[i].file->need;
    return n;
}

/* Returns whether a file will fit once n_gone bytes of loaded files have been freed. */
static bool fits(const struct server *s, const struct listed *l, uint64_t n_gone) {
    const uint64_t used = used_bytes(s);
    if (l->alone) return used == n_gone;
    return !s->o.max_bytes || used - n_gone + l->file->need <= s->o.max_bytes;
}

/* Returns 0, or the fault if the model alone exceeds --max-memory. */
static int too_large(const struct server *s, const struct serve_file *f, struct fault *why) {
    if (!s->o.max_bytes || f->need <= s->o.max_bytes) return 0;
    return fault_set(why, 500, "model_too_large", "model",
                     "%s needs %.2f GiB (weights %.2f, the rest for contexts) but this server may "
                     "use %.2f: raise --max-memory, or lower --context-memory",
                     f->id, (double)f->need / GIB, (double)f->n_bytes / GIB,
                     (double)s->o.max_bytes / GIB);
}

/* Returns the least recently used of the loaded files that are idle (idle true) or in use, not
 * counting files that are leaving. NULL: none. */
static struct listed *oldest(struct server *s, bool idle) {
    struct listed *best = NULL;
    for (int i = 0; i < s->o.n_files; i++) {
        struct listed *l = &s->models.v[i];
        if (l->state != MODEL_LOADED || l->leaving || (l->n_users == 0) != idle) continue;
        if (!best || l->t_used < best->t_used) best = l;
    }
    return best;
}

/* Marks files in use as leaving, until enough memory will become free for l. */
static void make_leave(struct server *s, const struct listed *l) {
    uint64_t n_gone = 0;
    struct listed *x;
    while (!fits(s, l, n_gone) && (x = oldest(s, false))) {
        x->leaving = true;
        n_gone += x->file->need;
    }
}

/* ---- loading and closing, without the lock ---- */

/* Adds the counts n of a file that is being closed to its totals, l->past. */
static void keep_counts(struct listed *l, const struct sched_counts *n) {
    sched_counts_add(&l->past, n);
    l->past.n_running = l->past.n_waiting = 0;
    l->past.held_bytes = l->past.budget_bytes = 0;
    l->past.prefix.n_kept = 0;
    l->past.shelf.n = 0;
    l->past.shelf.n_bytes = 0;
}

/* Unloads a model once its users are gone. Called with the lock held; releases it meanwhile. */
static void close_file(struct server *s, struct listed *l) {
    struct serve_core core = l->served->core;
    l->state = MODEL_CLOSING;
    s->models.changed = true;
    pthread_cond_signal(&s->to_engine);
    while (l->engaged && !atomic_load(&s->stop)) pthread_cond_wait(&s->models.to_keeper, &s->lock);
    if (atomic_load(&s->stop)) return; /* models_free() closes it */
    struct served *d = l->served;
    keep_counts(l, &d->counts);
    l->served = NULL;
    pthread_mutex_unlock(&s->lock);
    served_free(d);
    s->o.unload(s->o.load_ud, (int)(l - s->models.v), &core);
    mem_trim();
    log_info("%s is unloaded", l->file->id);
    pthread_mutex_lock(&s->lock);
    l->leaving = l->unload = false;
    l->state = MODEL_AWAY;
}

/* Loads file i and prepares it for requests. Call without the lock. */
static int load(struct server *s, int i, struct served **out, struct err *e) {
    struct serve_core core = {0};
    TRY(s->o.load(s->o.load_ud, i, &core, e));
    const int rc = served_new(out, s, i, &core, e);
    if (rc && s->o.unload) s->o.unload(s->o.load_ud, i, &core);
    return rc;
}

/* Marks l as loaded; seconds: how long that took. */
static void set_loaded(struct server *s, struct listed *l, struct served *d, double seconds) {
    l->served = d;
    l->state = MODEL_LOADED;
    l->wrong.msg[0] = 0;
    l->leaving = l->unload = false;
    l->t_used = progress_now_s();
    l->n_loads++;
    l->load_s += seconds;
    s->models.changed = true;
    pthread_cond_signal(&s->to_engine);
}

/* Handles a failed load: either requests another try with no other file loaded, or fails the
 * waiting requests. */
static void set_failed(struct server *s, struct listed *l, const struct err *e) {
    struct fault f;
    l->state = e->code == ERR_SYS || e->code == ERR_INTR ? MODEL_AWAY : MODEL_BROKEN;
    if (e->code == ERR_INTR) return; /* the server is stopping */
    if (e->code == ERR_SYS && !l->alone && used_bytes(s)) {
        l->alone = true;
        log_info("%s: %s; unloading the others to try again", l->file->id, e->msg);
        return;
    }
    l->alone = false;
    l->wrong = *e;
    log_warn("%s cannot be loaded: %s", l->file->id, e->msg);
    fault_set(&f, 500, "model_failed", "model", "%s cannot be loaded: %s", l->file->id, e->msg);
    fail_waiting(s, l, &f);
}

/* Loads a model. Called with the lock held; releases it meanwhile. */
static void load_file(struct server *s, struct listed *l) {
    struct served *d = NULL;
    struct err e = {0};
    l->state = MODEL_LOADING;
    pthread_mutex_unlock(&s->lock);
    const double t = progress_now_s();
    log_info("loading %s", l->file->file);
    const int rc = load(s, (int)(l - s->models.v), &d, &e);
    const double seconds = progress_now_s() - t;
    if (!rc) log_info("%s is loaded (%.1f s)", l->file->id, seconds);
    pthread_mutex_lock(&s->lock);
    if (rc) {
        set_failed(s, l, &e);
        mem_trim();
    } else {
        set_loaded(s, l, d, seconds);
        hand_over(s, l);
    }
}

/* ---- the keeper ---- */

/* Returns the unloaded file for which the oldest job waits; NULL: no job waits. */
static struct listed *next_wanted(struct server *s) {
    struct listed *best = NULL;
    for (int i = 0; i < s->o.n_files; i++) {
        struct listed *l = &s->models.v[i];
        if (l->state != MODEL_AWAY || !l->waiting.n) continue;
        if (!best || l->waiting.v[0]->t_arrive < best->waiting.v[0]->t_arrive) best = l;
    }
    return best;
}

/* Closes one idle file that is marked for unloading. Returns false if there is no such file. */
static bool close_unwanted(struct server *s) {
    for (int i = 0; i < s->o.n_files; i++) {
        struct listed *l = &s->models.v[i];
        if (l->state != MODEL_LOADED || !l->unload || l->n_users || l->waiting.n) continue;
        close_file(s, l);
        return true;
    }
    return false;
}

/* Clears `leaving` of all files. Hands over the waiting jobs of loaded files whose oldest job
 * arrived before that of `want`. */
static void give_turns(struct server *s, const struct listed *want) {
    for (int i = 0; i < s->o.n_files; i++) {
        struct listed *l = &s->models.v[i];
        l->leaving = false;
        if (l->state != MODEL_LOADED || !l->waiting.n) continue;
        if (!want || l->waiting.v[0]->t_arrive < want->waiting.v[0]->t_arrive) hand_over(s, l);
    }
}

/* Takes one step of the keeper's work. Returns false if it has to wait. */
static bool keeper_step(struct server *s) {
    struct fault f;
    drop_gone(s);
    if (atomic_load(&s->drain) || progress_interrupted()) {
        fault_set(&f, 503, NULL, NULL, "the server is stopping");
        for (int i = 0; i < s->o.n_files; i++) fail_waiting(s, &s->models.v[i], &f);
        return false;
    }
    if (close_unwanted(s)) return true;
    struct listed *want = next_wanted(s);
    give_turns(s, want);
    if (want && !fits(s, want, 0)) {
        struct listed *idle = oldest(s, true);
        if (idle) {
            close_file(s, idle);
            return true;
        }
        make_leave(s, want);
    } else if (want) {
        load_file(s, want);
        return true;
    }
    for (int i = 0; i < s->o.n_files; i++) { /* no file can be loaded now */
        struct listed *l = &s->models.v[i];
        if (l->state == MODEL_LOADED && !l->leaving) hand_over(s, l);
    }
    return false;
}

/* Loads and unloads models until the server stops; ud: the server. */
static void *keeper_main(void *ud) {
    struct server *s = ud;
    ctx_enter(s->ctx);
    pthread_mutex_lock(&s->lock);
    while (!atomic_load(&s->stop)) {
        if (keeper_step(s)) continue;
        if (s->models.n_waiting)
            serve_wait(s, &s->models.to_keeper, CHECK_GONE_MS);
        else
            pthread_cond_wait(&s->models.to_keeper, &s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* ---- start and end ---- */

int models_open(struct server *s, struct err *e) {
    struct models *m = &s->models;
    m->v = xcalloc((size_t)s->o.n_files, sizeof *m->v);
    for (int i = 0; i < s->o.n_files; i++) {
        m->v[i].file = &s->o.file[i];
        if (s->o.file[i].wrong) m->v[i].state = MODEL_BROKEN;
    }
    if (s->o.n_files > 1) return 0;
    struct served *d = NULL;
    const double t = progress_now_s();
    TRY(load(s, 0, &d, e));
    set_loaded(s, &m->v[0], d, progress_now_s() - t);
    return 0;
}

int models_start(struct server *s, struct err *e) {
    s->models.has_keeper = pthread_create(&s->models.keeper, NULL, keeper_main, s) == 0;
    return s->models.has_keeper ? 0 : err_sys(e, "cannot start a thread");
}

void models_free(struct server *s) {
    for (int i = 0; i < s->o.n_files && s->models.v; i++) {
        struct listed *l = &s->models.v[i];
        for (int k = 0; k < l->waiting.n; k++) job_drop(l->waiting.v[k]);
        free(l->waiting.v);
        if (!l->served) continue;
        struct serve_core core = l->served->core;
        served_free(l->served);
        if (s->o.unload) s->o.unload(s->o.load_ud, i, &core);
    }
    free(s->models.v);
}

void models_wake(struct server *s) {
    pthread_mutex_lock(&s->lock);
    pthread_cond_broadcast(&s->models.to_keeper);
    pthread_mutex_unlock(&s->lock);
}

/* ---- requests ---- */

int models_find(struct server *s, const char *model, int *out, struct fault *f) {
    const struct serve_opts *o = &s->o;
    struct buf ids = {0};
    *out = o->first;
    if (!model || !*model) return 0;
    const size_t n = preset_id_len(o->presets, model);
    int found = n ? NAMES_UNKNOWN : o->first; /* only "@preset" was given */
    for (int i = 0; i < o->n_files; i++)
        if (strlen(o->file[i].id) == n && memcmp(o->file[i].id, model, n) == 0) found = i;
    if (found < 0 && !o->strict)
        found = o->n_files == 1 ? 0 : names_find(o->file, o->n_files, o->first, model, n);
    if (found >= 0) {
        *out = found;
        return 0;
    }
    names_list(o->file, o->n_files, &ids);
    fault_set(f, 404, "model_not_found", "model",
              found == NAMES_SEVERAL ? "'%.60s' matches several models: %s"
                                     : "no such model: '%.60s'; available: %s",
              model, ids.data);
    buf_release(&ids);
    return f->status;
}

/* Sets and returns the fault for a model that failed to load. */
static int refuse_broken(const struct listed *l, struct fault *f) {
    return fault_set(f, 500, "model_failed", "model", "%s cannot be served: %s", l->file->id,
                     models_wrong(l));
}

int models_take(struct server *s, int i, struct job *j, struct served **out, struct fault *f) {
    struct listed *l = &s->models.v[i];
    int rc = 0;
    *out = NULL;
    pthread_mutex_lock(&s->lock);
    if (l->state == MODEL_BROKEN)
        rc = refuse_broken(l, f);
    else if (l->state == MODEL_LOADED && !l->leaving) {
        *out = l->served;
        l->n_users++;
        l->unload = false;
        l->t_used = progress_now_s();
    } else if (!(rc = too_large(s, l->file, f))) {
        if (serve_is_full(s, 1)) {
            rc = fault_set(f, 429, NULL, NULL, "%d requests are already waiting; try again in 1s",
                           s->o.n_queue);
        } else {
            job_hold(j);
            jobs_add(&l->waiting, j);
            s->models.n_waiting++;
            pthread_cond_signal(&s->models.to_keeper);
        }
    }
    pthread_mutex_unlock(&s->lock);
    if (rc == 500)
        job_field(j, "x-should-retry", "false"); /* client libraries would retry after a 5xx */
    return rc;
}

void models_hold(struct served *d) {
    pthread_mutex_lock(&d->server->lock);
    d->server->models.v[d->index].n_users++;
    pthread_mutex_unlock(&d->server->lock);
}

void models_drop(struct served *d) {
    struct server *s = d->server;
    struct listed *l = &s->models.v[d->index];
    pthread_mutex_lock(&s->lock);
    if (!--l->n_users && (l->leaving || l->unload || s->models.n_waiting))
        pthread_cond_signal(&s->models.to_keeper);
    pthread_mutex_unlock(&s->lock);
}

struct served *models_peek(struct server *s, int i) {
    struct listed *l = &s->models.v[i];
    pthread_mutex_lock(&s->lock);
    struct served *d = l->state == MODEL_LOADED ? l->served : NULL;
    if (d) l->n_users++;
    pthread_mutex_unlock(&s->lock);
    return d;
}

void models_unload(struct server *s, int i) {
    pthread_mutex_lock(&s->lock);
    s->models.v[i].unload = s->o.unload != NULL;
    pthread_cond_signal(&s->models.to_keeper);
    pthread_mutex_unlock(&s->lock);
}

/* ---- state and counts ---- */

const char *models_word(const struct listed *l) {
    static const char *const words[] = {[MODEL_AWAY] = "unloaded",
                                        [MODEL_LOADING] = "loading",
                                        [MODEL_LOADED] = "loaded",
                                        [MODEL_CLOSING] = "unloaded",
                                        [MODEL_BROKEN] = "failed"};
    return words[l->state];
}

const char *models_wrong(const struct listed *l) {
    return l->wrong.msg[0] ? l->wrong.msg : l->file->wrong;
}

struct sched_counts models_counts_of(const struct listed *l) {
    struct sched_counts n = l->past;
    if (l->served) sched_counts_add(&n, &l->served->counts);
    return n;
}

struct sched_counts models_counts(const struct server *s) {
    struct sched_counts n = {0};
    for (int i = 0; i < s->o.n_files; i++) {
        const struct sched_counts own = models_counts_of(&s->models.v[i]);
        sched_counts_add(&n, &own);
    }
    n.n_waiting += s->models.n_waiting;
    return n;
}
