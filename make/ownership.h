// SPDX-License-Identifier: MIT
/* make/ownership.h - ownership of the files in a results folder: a job owns the files that it
 * announced before writing them. DIR.work/own-NAME.json records the announcement and the identity
 * of the complete file; if that state was removed, manifest.json is used. Files that the job does
 * not own, or that were edited since (different GGUF header; damaged data are made again), are
 * never replaced. */
#ifndef HONE_MAKE_OWNERSHIP_H
#define HONE_MAKE_OWNERSHIP_H

#include "make/step.h"

/* Returns ERR_USAGE if a file of this name exists and the job does not own it; the message suggests
 * a remedy. */
int claim_check(const struct job *j, const char *name, struct err *e);
/* Returns whether, according to the records, no job of the folder made this file. */
bool claim_is_foreign(const struct job *j, const char *name);
/* Announces a file before the job writes it. An existing file that the job does not own is first
 * renamed to NAME.orig. */
int claim_take(const struct job *j, const char *name, struct err *e);
/* Do what claim_check and claim_take do, for NAME.part and its log, in which an unfinished output
 * is resumed. */
int claim_check_part(const struct job *j, const char *name, struct err *e);
int claim_take_part(const struct job *j, const char *name, struct err *e);
/* Records that the file is complete. `entry` is its entry in a step's record. */
int claim_done(const struct job *j, const char *name, const cJSON *entry, struct err *e);

#endif
