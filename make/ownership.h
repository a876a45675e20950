// SPDX-License-Identifier: MIT
/* make/ownership.h - which files of the folder of results a job made: those it announced before it
 * wrote them. DIR.work/own-NAME.json says so, and what the file was like when it was complete;
 * where the state was removed, manifest.json. Nobody else's file is replaced, nor one that was
 * edited since (another header of a GGUF; damaged data are made again). */
#ifndef HONE_MAKE_OWNERSHIP_H
#define HONE_MAKE_OWNERSHIP_H

#include "make/step.h"

/* Returns ERR_USAGE, with a remedy in its message, when a file of this name is there and is not the
 * job's. */
int claim_check(const struct job *j, const char *name, struct err *e);
/* Tells whether a file of the folder was made by no job of it, as far as records tell. */
bool claim_is_foreign(const struct job *j, const char *name);
/* Announces that the job will write this file, and must be called before that. A file that is not
 * the job's is renamed to NAME.orig first. */
int claim_take(const struct job *j, const char *name, struct err *e);
/* Records that the file is complete. `entry` describes it in a step's record. */
int claim_done(const struct job *j, const char *name, const cJSON *entry, struct err *e);

#endif
