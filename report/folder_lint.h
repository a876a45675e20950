// SPDX-License-Identifier: MIT
/* report/folder_lint.h - what is wrong with a folder of GGUF files that is to be, or was,
 * published: anyone's, not only ours. Names, card, checksums, manifest, files for other programs,
 * metadata. */
#ifndef HONE_REPORT_FOLDER_LINT_H
#define HONE_REPORT_FOLDER_LINT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/gguf.h"

struct lint_finding {
    bool error;       /* false: a warning; the folder works, but is harder to read or to find */
    const char *rule; /* "card-license": stable, for scripts */
    char *file, *text;
};
struct lint {
    const char *dir;
    bool quick; /* do not read tensor data: no checksums of large files */
    struct lint_finding *finding;
    int n, n_errors;
    int64_t n_files;
};
/* Fails only when the folder cannot be read or on interruption. */
int lint_folder(struct lint *l, struct err *e);
void lint_release(struct lint *l);

/* For the parts of the linter. file may be NULL. */
void lint_add(struct lint *l, bool error, const char *rule, const char *file, const char *fmt, ...)
    PRINTF_LIKE(5, 6);
/* Reads a text file of the folder; NULL when it is not there. free() */
char *lint_text(struct lint *l, const char *name, size_t *len);
/* The first absolute path of some machine in a text ("/home/x", "C:\\Users"), or NULL. */
const char *lint_local_path(const char *s, size_t len);

/* What is of the job that made the files, not for others, by its name: lint_private.c. */
void lint_private(struct lint *l, const char *name);
void lint_card(struct lint *l);               /* README.md: lint_card.c */
void lint_ollama(struct lint *l);             /* Modelfile, params, model.yaml: lint_apps.c */
int lint_sums(struct lint *l, struct err *e); /* SHA256SUMS, manifest.json: lint_sums.c */
void lint_gguf(struct lint *l, const struct gguf *g); /* keys of one model */

#endif
