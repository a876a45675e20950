// SPDX-License-Identifier: MIT
/* make/file_guard.h - protection of the text files in a results folder: hone replaces only files
 * that it wrote itself and that have not been edited since.
 *
 * For each text, manifest.json stores the SHA-256 of hone's version ("written_sha256"; for
 * README.md without the part between its notes markers, which belongs to the publisher and is
 * kept). While texts are being written, DIR/.hone-writing contains the same hashes, so that a
 * killed job recognizes its own files. */
#ifndef HONE_MAKE_FILE_GUARD_H
#define HONE_MAKE_FILE_GUARD_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

/* The publisher's notes are between these lines of README.md. */
#define NOTES_BEGIN "<!-- notes -->"
#define NOTES_END "<!-- /notes -->"

enum guard_state {
    GUARD_FREE,    /* missing, or as hone wrote it */
    GUARD_EDITED,  /* written by hone, then edited */
    GUARD_FOREIGN, /* not written by hone */
};
enum guard_way {
    GUARD_REFUSE, /* stop before anything is written */
    GUARD_KEEP,   /* -f: rename the user's file to NAME.orig */
    GUARD_ASIDE,  /* keep the user's file, write ours as NAME.new.EXT */
};
struct constraint;
/* Reads the hashes of the texts in the folder `dir`; an unreadable manifest is treated as empty.
 * Release *out with guard_free. */
int guard_open(struct constraint **out, const char *dir, struct err *e);
void guard_free(struct constraint *g);

/* Determines the state of the file of this name. A file that is identical to text[len] is free;
 * text NULL: the bytes are not compared. */
int guard_ask(const struct constraint *g, const char *name, const char *text, size_t len,
              enum guard_state *state, struct err *e);
/* Returns ERR_USAGE if the file was edited or is not hone's; the message suggests remedies.
 * text[len] as in guard_ask. */
int guard_check(const struct constraint *g, const char *name, const char *text, size_t len,
                struct err *e);
/* Announces a text that guard_write will write. */
void guard_announce(struct constraint *g, const char *name, const char *text, size_t len);
/* Writes the announcements to DIR/.hone-writing, so that they survive if this process is killed. */
int guard_begin(struct constraint *g, struct err *e);
/* Writes a text. *written is false if the file already had these bytes. */
int guard_write(struct constraint *g, const char *name, const char *text, size_t len,
                enum guard_way way, bool *written, struct err *e);
/* Removes DIR/.hone-writing; call this once the manifest has all hashes. */
int guard_end(struct constraint *g, struct err *e);
/* Returns "written_sha256" for the manifest, borrowed from g; NULL: not one of our texts. */
const char *guard_hash_of(const struct constraint *g, const char *name);

/* Renames a file to NAME.orig, or NAME.orig.1 and so on, with a warning. */
int guard_keep(const char *dir, const char *name, struct err *e);
/* Returns whether a name is NAME.orig or NAME.new.EXT: such files are not published. */
bool guard_is_aside(const char *name);

/* Finds the user's notes in a card of len bytes: the *n bytes between its markers, possibly none.
 * Returns false unless the card has exactly one pair of markers. */
bool guard_notes(const char *card, size_t len, const char **notes, size_t *n);

#endif
