// SPDX-License-Identifier: MIT
/* make/step.h - steps of a long job that are done once: each has a key (a hash of everything that
 * decides its result), and a record that names its outputs and keeps its result as JSON.
 *
 * A job has two folders: DIR, which holds only what is to be published, and DIR.work beside it for
 * all else: records, the lock, the conversion that quants are made from, texts, second moments.
 *
 * A step is reused when its record has the same key and every output still has the recorded size
 * and content (time stamp equal, or hashed again). Records are written after the outputs, so an
 * interrupted step is simply not done. One job at a time per folder (jobs_open takes a lock). */
#ifndef HONE_MAKE_STEP_H
#define HONE_MAKE_STEP_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/doc.h"

/* In front of a file's name: it lies in DIR.work, not in DIR. */
#define JOB_WORK "work:"

struct job {     /* a folder in which steps run */
    char *dir;   /* owned */
    char *state; /* DIR.work (job_work), owned */
    int lock_fd;
    bool read_only; /* nothing is written, and large files are not hashed */
};
/* Returns the path of DIR.work: DIR as its user wrote it, without slashes at its end, or what "."
 * or a link stands for. The caller frees it with free(); NULL for the root. */
char *job_work(const char *dir);
/* Makes both folders, takes the lock (ERR_SYS when another job has it), takes over what an earlier
 * version left in DIR, removes temporaries that a killed job left. ERR_USAGE when DIR.work is there
 * and was not made by a job, or cannot lie on the file system of DIR. */
int job_open(struct job *j, const char *dir, struct err *e);
/* Opens a job to look at it only, whether its folders are there or not; fails where job_open would
 * for what is in their places, and leaves nothing there. */
int job_look(struct job *j, const char *dir, struct err *e);
void job_close(struct job *j);
/* Removes the parts of outputs that nobody went on with (OUT.gguf.part and its log). */
int job_remove_parts(const struct job *j, struct err *e);
/* Returns the path of a file by its name within the job: DIR/name, or DIR.work/name for
 * "work:name". The caller frees it with free(). */
char *job_path(const struct job *j, const char *name);
/* Returns the part of a name behind "work:", or the name itself when it does not begin so. */
const char *job_name(const char *name);

/* Moves what earlier versions left to DIR.work (step_old.c): they kept everything in DIR, records
 * and lock in DIR/.hone. The conversion is moved too when it is as recorded. The lock of DIR.work
 * must be held. */
int job_take_old(const struct job *j, struct err *e);

struct step {
    const struct job *job;
    char name[96];  /* "quantize-Q4_K_M": file name of the record */
    struct buf key; /* text that decides the result; hashed when compared */
};
void step_init(struct step *s, const struct job *j, const char *name);
void step_release(struct step *s);
/* Adds "what=value;" to the key. */
void step_key(struct step *s, const char *what, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* Tells whether the step is done and its outputs are intact; *result is then what it found, which
 * cJSON_Delete frees, else NULL. */
bool step_done(struct step *s, cJSON **result);
/* Records the step: the names of its files within the job, and its result, an object. ERR_SYS:
 * memory ran out while the result was built. */
int step_save(struct step *s, const char *const *files, int n_files, const cJSON *result,
              struct err *e);
/* Records a step whose files are all its result. */
int step_save_files(struct step *s, const char *const *files, int n_files, struct err *e);
/* Tells whether the file at this path is as `file`, an entry of a record's list, says. */
bool step_intact(const char *path, const cJSON *file);
/* Computes the XXH3-128 of a file's content, as 32 hexadecimal digits; it is remembered in the
 * job's folder by path, size and time stamp. In a read-only job an
 * unknown large file has the hash job_no_hash, which no record has. */
extern const char job_no_hash[33];
int job_file_hash(const struct job *j, const char *path, char hex[33], struct err *e);

#endif
