// SPDX-License-Identifier: MIT
/* make/step_old.c - migration of folders in which earlier versions kept a job's state (step.h):
 * DIR/.hone moves to DIR.work, file by file, followed by unpublished files that still match their
 * records. An interrupted migration resumes in the next run. Only the old lock is removed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "make/ownership.h"
#include "make/step.h"
#include "base/io.h"
#include "base/os.h"
#include "base/out.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"

enum { MAX_RECORD = 64 << 20 };

static int rename_file(const char *from, const char *to, struct err *e) {
    return os_rename(from, to) == 0 ? 0 : err_sys(e, "%s: cannot be moved to %s", from, to);
}

/* Moves everything that is in DIR/.hone but not in DIR.work. */
static int move_entries(const struct job *j, const char *old, struct err *e) {
    struct io_names all;
    int rc = io_list(&all, old, e);
    for (int i = 0; i < all.n && rc == 0; i++) {
        char *from = io_join(old, all.v[i]), *to = io_join(j->state, all.v[i]);
        if (strcmp(all.v[i], "lock") == 0)
            os_unlink(from);
        else if (!io_exists(to))
            rc = rename_file(from, to, e);
        free(from);
        free(to);
    }
    io_names_release(&all);
    return rc;
}

/* Records ownership of the outputs of earlier versions, which recorded outputs only in their
 * steps. */
static int claim_outputs(const struct job *j, struct err *e) {
    struct io_names all;
    struct err ignored;
    int rc = io_list(&all, j->state, e);
    for (int i = 0; i < all.n && rc == 0; i++) {
        cJSON *root = NULL;
        char *path = io_join(j->state, all.v[i]);
        if (str_ends(all.v[i], ".json")) (void)doc_read(&root, path, MAX_RECORD, &ignored);
        const cJSON *files = doc_get(root, "files");
        for (const cJSON *f = doc_first(files); f && rc == 0; f = f->next) {
            const char *name = doc_str(f, "file");
            if (!name || strchr(name, '/') || job_name(name) != name) continue;
            rc = claim_done(j, name, f, e);
        }
        cJSON_Delete(root);
        free(path);
    }
    io_names_release(&all);
    return rc;
}

/* Moves an older version's state into the job unless another process uses it. */
static int move_folder(const struct job *j, const char *old, struct err *e) {
    char *lock = io_join(old, "lock");
    int fd = os_open(lock, OS_READ | OS_WRITE, 0), rc = 0;
    free(lock);
    if (fd >= 0) rc = job_lock(fd, j->dir, e);
    if (rc == 0) rc = move_entries(j, old, e);
    if (rc == 0) rc = claim_outputs(j, e);
    if (fd >= 0) os_close(fd);
    /* only now: Windows does not remove a folder while a deleted file in it is open */
    if (rc == 0 && os_rmdir(old) != 0)
        log_warn("%s: the state of the job is now in %s; remove the old folder", old, j->state);
    return rc;
}

struct old { /* a record with unpublished outputs */
    const char *file;
    bool plain;     /* the outputs are also directly in DIR, not only in DIR/.hone */
    const char *as; /* name in DIR.work; NULL: the same */
};

/* Moves one file of an old record if it matches the record. *work is its name in DIR.work, owned;
 * NULL: not moved. */
static int move_output(const struct job *j, const cJSON *f, const struct old *o, char **work,
                       struct err *e) {
    const char *name = doc_str(f, "file");
    *work = NULL;
    if (!name || job_name(name) != name) return 0;
    bool hidden = strncmp(name, ".hone/", 6) == 0; /* it moves with the folder */
    if (!hidden && (!o->plain || strchr(name, '/'))) return 0;
    const char *base = o->as ? o->as : io_base(name);
    char *to = io_join(j->state, base), *from = io_join(j->dir, name);
    int rc = 0;
    bool there = hidden || step_intact(to, f);
    if (!there && !io_exists(to) && step_intact(from, f)) {
        rc = rename_file(from, to, e);
        there = rc == 0;
        if (there) log_info("%s is now in %s", name, j->state);
    }
    if (there) *work = xasprintf(JOB_WORK "%s", base);
    free(from);
    free(to);
    return rc;
}

/* Rewrites the record with the new locations of its files. */
static int move_outputs(const struct job *j, const char *path, const struct old *o, cJSON *root,
                        struct err *e) {
    bool changed = false;
    int rc = 0;
    cJSON *f;
    cJSON_ArrayForEach(f, doc_get(root, "files")) {
        char *work = NULL;
        if (rc == 0) rc = move_output(j, f, o, &work, e);
        changed |= work != NULL;
        cJSON *name = work ? cJSON_CreateString(work) : NULL;
        if (work && !cJSON_ReplaceItemInObjectCaseSensitive(f, "file", name))
            rc = err_set(e, ERR_SYS, "%s: out of memory", path);
        free(work);
    }
    return rc == 0 && changed ? doc_write(root, path, true, e) : rc;
}

int job_take_old(const struct job *j, struct err *e) {
    static const struct old records[] = {{"convert.json", true, NULL},
                                         {"imatrix.json", false, NULL},
                                         {"sensitivity.json", true, "sens.json"}};
    char *old = io_join(j->dir, ".hone");
    int rc = io_is_dir(old) ? move_folder(j, old, e) : 0;
    free(old);
    for (size_t i = 0; i < sizeof records / sizeof *records && rc == 0; i++) {
        char *path = io_join(j->state, records[i].file);
        cJSON *root = NULL;
        struct err ignored;
        if (io_exists(path) && doc_read(&root, path, MAX_RECORD, &ignored) == 0)
            rc = move_outputs(j, path, &records[i], root, e);
        cJSON_Delete(root);
        free(path);
    }
    return rc;
}
