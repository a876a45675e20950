// SPDX-License-Identifier: MIT
/* report/folder_lint.h - what is wrong with a folder of GGUF files that is to be, or was,
 * published: anyone's, not only ours. Names, card, checksums, manifest, files for other programs,
 * metadata. */
#ifndef HONE_REPORT_FOLDER_LINT_H
#define HONE_REPORT_FOLDER_LINT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "containers/gguf.h"

struct lint_finding {
    bool error;       /* false: a warning; the folder works, but is harder to read or to find */
    const char *rule; /* "card-license": stable, for scripts */
    char *file, *text;
};
struct lint {
    const char *dir;
    bool quick; /* do not read tensor data: no checksums of large files */
    /* Judges a chat template: returns the number of its defects, and appends the first in words.
     * NULL: templates are not judged. */
    int (*judge)(const char *text, struct buf *first);
    struct lint_finding *finding;
    int n, n_errors;
    int64_t n_files;
};
/* Checks the folder l->dir and adds what it finds to l. It fails only when the folder cannot be
 * read, or on interruption. */
int lint_folder(struct lint *l, struct err *e);
void lint_release(struct lint *l);

/* Adds a finding; only the parts of the linter call it. file NULL: it is of the whole folder. */
void lint_add(struct lint *l, bool error, const char *rule, const char *file, const char *fmt, ...)
    PRINTF_LIKE(5, 6);
/* Reads a text file of the folder, which the caller frees with free(). Returns NULL when it is not
 * there, or cannot be read, which is then a finding. */
char *lint_text(struct lint *l, const char *name, size_t *len);
/* Returns the first absolute path of some machine ("/home/x", "C:\\Users") in the text s of len
 * bytes, as a pointer into it; NULL when it has none. */
const char *lint_local_path(const char *s, size_t len);

/* Adds a finding when a file, by its name, is of the job that made the files and not for others
 * (lint_private.c). */
void lint_private(struct lint *l, const char *name);
/* Checks README.md (lint_card.c). */
void lint_card(struct lint *l);
/* Checks Modelfile, params and model.yaml (lint_apps.c). */
void lint_ollama(struct lint *l);
/* Checks SHA256SUMS and manifest.json (lint_sums.c). */
int lint_sums(struct lint *l, struct err *e);
/* Checks the keys of one model. */
void lint_gguf(struct lint *l, const struct gguf *g);

#endif
