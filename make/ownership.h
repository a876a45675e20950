// SPDX-License-Identifier: MIT
/* make/ownership.h - ownership of the files in a results folder: a job owns the files that it
 * announced before writing. DIR.work/own-NAME.json records this and the complete file's identity;
 * if the state was removed, manifest.json does. Files that are not the job's, or were edited since
 * (other GGUF header; damaged data are made again), are never replaced. */
#ifndef HONE_MAKE_OWNERSHIP_H
#define HONE_MAKE_OWNERSHIP_H

#include "make/step.h"

/* Returns ERR_USAGE, with a remedy in the message, if a file of this name exists and is not the
 * job's. */
int claim_check(const struct job *j, const char *name, struct err *e);
/* Returns whether a file of the folder was made by no job of it, according to the records. */
bool claim_is_foreign(const struct job *j, const char *name);
/* Announces a file before the job writes it. An existing file that is not the job's is renamed to
 * NAME.orig first. */
int claim_take(const struct job *j, const char *name, struct err *e);
/* Records that the file is complete. `entry` is its entry in a step's record. */
int claim_done(const struct job *j, const char *name, const cJSON *entry, struct err *e);

#endif
