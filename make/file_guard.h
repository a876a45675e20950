// SPDX-License-Identifier: MIT
/* make/file_guard.h - the texts of a folder that hone writes and people edit: nothing is replaced
 * that hone did not write, or that somebody edited since.
 *
 * manifest.json keeps of each text the SHA-256 of what was written ("written_sha256"; of README.md
 * without the part between its notes marks, which is the publisher's and stays). While texts are
 * being written the same is in DIR/.hone-writing, so that a killed job recognises its own files. */
#ifndef HONE_MAKE_FILE_GUARD_H
#define HONE_MAKE_FILE_GUARD_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

/* The publisher's own words stand between these lines of README.md. */
#define NOTES_BEGIN "<!-- notes -->"
#define NOTES_END "<!-- /notes -->"

enum guard_state {
    GUARD_FREE,    /* nothing there, or what hone wrote */
    GUARD_EDITED,  /* hone wrote it, somebody edited it since */
    GUARD_FOREIGN, /* hone did not write it */
};
enum guard_way {
    GUARD_REFUSE, /* what is somebody's stops the job before anything is written */
    GUARD_KEEP,   /* -f: it is renamed to NAME.orig */
    GUARD_ASIDE,  /* it stays, and ours is written beside it as NAME.new.EXT */
};
struct constraint;
/* Reads what is known of the texts in the folder `dir`; a manifest that cannot be read counts as
 * one that knows nothing. guard_free frees *out. */
int guard_open(struct constraint **out, const char *dir, struct err *e);
void guard_free(struct constraint *g);

/* Finds out whose the file of this name is. One that holds the very bytes of text[len] is free;
 * text NULL: the bytes are not compared. */
int guard_ask(const struct constraint *g, const char *name, const char *text, size_t len,
              enum guard_state *state, struct err *e);
/* Returns ERR_USAGE, with the remedies in its message, when the file of this name is somebody's.
 * text[len] is as in guard_ask. */
int guard_check(const struct constraint *g, const char *name, const char *text, size_t len,
                struct err *e);
/* Announces a text that guard_write will write. */
void guard_announce(struct constraint *g, const char *name, const char *text, size_t len);
/* Writes the announcements to DIR/.hone-writing, so that they outlast this process. */
int guard_begin(struct constraint *g, struct err *e);
/* Writes a text. *written is false when it was there already. */
int guard_write(struct constraint *g, const char *name, const char *text, size_t len,
                enum guard_way way, bool *written, struct err *e);
/* Removes DIR/.hone-writing, once the manifest knows all that was written. */
int guard_end(struct constraint *g, struct err *e);
/* Returns the text of "written_sha256" for the manifest, borrowed from g; NULL when the file is not
 * one of our texts. */
const char *guard_hash_of(const struct constraint *g, const char *name);

/* Moves a file out of the way to NAME.orig, or NAME.orig.1 and so on, and says so. */
int guard_keep(const char *dir, const char *name, struct err *e);
/* Tells whether a name is NAME.orig or NAME.new.EXT: such a file is not published. */
bool guard_is_aside(const char *name);

/* Finds the notes in a card of len bytes, the *n bytes between its marks; they may be none. Returns
 * false when it has no such marks, or several. */
bool guard_notes(const char *card, size_t len, const char **notes, size_t *n);

#endif
