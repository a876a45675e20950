// SPDX-License-Identifier: MIT
/* report/folder_lint.h - linter for folders of GGUF files to be published.
 *
 * Checks any folder, whether hone made it or not: names, card, checksums, manifest, files for other
 * programs, and metadata. */
#ifndef HONE_REPORT_FOLDER_LINT_H
#define HONE_REPORT_FOLDER_LINT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "containers/gguf.h"

struct lint_finding {
    bool error;       /* false: a warning; the folder works but is harder to read or find */
    const char *rule; /* stable name for scripts, e.g. "card-license" */
    char *file, *text;
};
enum judged { JUDGED_FINE, JUDGED_WARNING, JUDGED_ERROR }; /* level of a finding */
struct lint {
    const char *dir;
    bool quick; /* skip tensor data: no checksums of large files */
    /* Checks the chat template of the file `path` and describes its defects, with what to do, in
     * *what. JUDGED_ERROR: no conversation can use it. NULL: templates are not checked. */
    enum judged (*judge)(const char *text, const char *path, struct buf *what);
    struct lint_finding *finding;
    int n, n_errors;
    int64_t n_files;
};
/* Checks the folder l->dir and adds the findings to l. Fails only if the folder cannot be read or
 * the check is interrupted. */
int lint_folder(struct lint *l, struct err *e);
void lint_release(struct lint *l);

/* Adds a finding; called by the linter's own files. file NULL: the finding concerns the whole
 * folder. */
void lint_add(struct lint *l, bool error, const char *rule, const char *file, const char *fmt, ...)
    PRINTF_LIKE(5, 6);
/* Reads a text file of the folder; the caller frees it with free(). Returns NULL if the file is
 * missing, or if it cannot be read; the latter adds a finding. */
char *lint_text(struct lint *l, const char *name, size_t *len);
/* Returns a pointer to the first absolute local path ("/home/x", "C:\\Users") in the text s of len
 * bytes; NULL: none. */
const char *lint_local_path(const char *s, size_t len);

/* Adds a finding if the file's name shows that it belongs only to the job that made the folder
 * (lint_private.c). */
void lint_private(struct lint *l, const char *name);
/* Checks README.md (lint_card.c). */
void lint_card(struct lint *l);
/* Checks Modelfile, params and model.yaml (lint_apps.c). */
void lint_ollama(struct lint *l);
/* Returns whether a model's metadata or tensors show that it reads images (lint_vision.c). */
bool lint_sees(const struct gguf *g);
/* Returns what the chat template writes for an image; NULL: nothing that is known. */
const char *lint_image_text(const struct gguf *g);
struct json;
/* Returns the member of a config.json that describes a vision tower; NULL: none. */
const char *lint_config_tower(const struct json *config);
/* Checks a folder that has no projector file. model_sees: result of lint_sees() for one of its
 * models; image: of lint_image_text(). */
void lint_vision(struct lint *l, bool model_sees, const char *image);
/* Checks SHA256SUMS and manifest.json (lint_sums.c). */
int lint_sums(struct lint *l, struct err *e);
/* Checks the metadata of one model. */
void lint_gguf(struct lint *l, const struct gguf *g);

#endif
