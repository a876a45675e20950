// SPDX-License-Identifier: MIT
/* make/step.h - resumable steps of a long job. Each step has a key (a hash of everything that
 * determines its result) and a record that names its outputs and stores its result as JSON.
 *
 * A job has two folders: DIR, with only the files to publish, and DIR.work next to it for
 * everything else: records, the lock, the converted model that all files are made from, texts,
 * second moments.
 *
 * A step is reused if its record has the same key and every output still has the recorded size and
 * contents (same time stamp, or hashed again). Records are written after the outputs, so an
 * interrupted step counts as not done. A folder can have one job at a time (job_open takes a
 * lock). */
#ifndef HONE_MAKE_STEP_H
#define HONE_MAKE_STEP_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/doc.h"

/* Prefix for the names of files that are in DIR.work, not in DIR. */
#define JOB_WORK "work:"

struct job {     /* a folder in which steps run */
    char *dir;   /* owned */
    char *state; /* DIR.work (job_work), owned */
    int lock_fd;
    bool read_only; /* nothing is written, and large files are not hashed */
};
/* Returns the path of DIR.work: DIR as given, without trailing slashes; "." and links are resolved.
 * The caller frees it. NULL if DIR is the root. */
char *job_work(const char *dir);
/* Creates both folders, takes the lock (ERR_SYS if another job holds it), migrates state that an
 * earlier version left in DIR, and removes temporary files of a killed job. ERR_USAGE if DIR.work
 * exists but does not belong to a job, or cannot be on the same file system as DIR. */
int job_open(struct job *j, const char *dir, struct err *e);
/* Opens a job read-only; its folders need not exist. Fails if existing files would make job_open
 * fail. Leaves no files. */
int job_look(struct job *j, const char *dir, struct err *e);
void job_close(struct job *j);
/* Takes the lock of a job in `dir` on an open file. ERR_SYS: another job has it. If the file system
 * has no locks, succeeds with a warning. */
int job_lock(int fd, const char *dir, struct err *e);
/* Removes unfinished outputs that have not been resumed (OUT.gguf.part and its log). */
int job_remove_parts(const struct job *j, struct err *e);
/* Returns the path of a file by its name within the job: DIR/name, or DIR.work/name for
 * "work:name". The caller frees it. */
char *job_path(const struct job *j, const char *name);
/* Returns the name without a leading "work:". */
const char *job_name(const char *name);

/* Moves the state of earlier versions to DIR.work (step_old.c): they kept everything in DIR, with
 * records and lock in DIR/.hone. The converted model is also moved if it matches its record. The
 * lock of DIR.work must be held. */
int job_take_old(const struct job *j, struct err *e);

struct step {
    const struct job *job;
    char name[96];  /* "quantize-Q4_K_M": file name of the record */
    struct buf key; /* text that determines the result; compared as a hash */
};
/* Begins a step; its key starts with its name and hone's version. */
void step_init(struct step *s, const struct job *j, const char *name);
void step_release(struct step *s);
/* Appends "what=value;" to the key. */
void step_key(struct step *s, const char *what, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* Returns whether the step is done and its outputs are intact. *result is then its result, owned by
 * the caller (cJSON_Delete); otherwise NULL. */
bool step_done(struct step *s, cJSON **result);
/* Records the step with its result, an object, and the names of its files within the job. ERR_SYS
 * if memory ran out while the result was built. */
int step_save(struct step *s, const char *const *files, int n_files, const cJSON *result,
              struct err *e);
/* Records a step whose only result is its files. */
int step_save_files(struct step *s, const char *const *files, int n_files, struct err *e);
/* Returns whether the file at this path matches `file`, an entry of a record's list. */
bool step_intact(const char *path, const cJSON *file);
/* Computes the XXH3-128 of a file's contents as 32 hexadecimal digits. It is cached in the job's
 * folder by path, size and time stamp. In a read-only job, a large file that is not in the cache
 * gets job_no_hash, which no record contains. */
extern const char job_no_hash[33];
/* Writes the hash of a file; reuses a recorded hash while the file's size and time are
 * unchanged. */
int job_file_hash(const struct job *j, const char *path, char hex[33], struct err *e);

#endif
