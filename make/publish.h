// SPDX-License-Identifier: MIT
/* make/publish.h - preparation of a folder of finished files for publication (hone publish, and the
 * end of hone make). */
#ifndef HONE_MAKE_PUBLISH_H
#define HONE_MAKE_PUBLISH_H

#include <stdbool.h>
#include <stdint.h>

#include "make/file_guard.h"
#include "base/err.h"
#include "report/facts.h"

struct publish_opts {
    const char *dir;
    const char *source; /* Hugging Face folder from which license and config are copied, or NULL */
    const struct facts *facts; /* facts given in this call; others come from earlier calls, the
                                  source and the files */
    const char *notes;         /* file with the publisher's notes for README.md, or NULL */
    const char *compare;       /* document of hone versus for the card, or NULL: the folder's */
    const char *supersedes;    /* manifest.json of the release that this one replaces, or NULL */
    const char *tmpl;     /* text to use for chat_template.jinja instead of the source's, or NULL */
    const cJSON *results; /* results.json to write; NULL: the folder's */
    const cJSON *drafts;  /* list of draft files with their acceptance; NULL: of the manifest */
    enum guard_way way;   /* what to do with the user's own files */
    bool manifest_only;   /* write only manifest.json and SHA256SUMS */
    bool any_template;    /* also if no conversation can use the chat template; the card says it */
};
struct publish_report {
    int n_models, n_written, n_listed;
    uint64_t n_bytes;           /* total of all listed files */
    bool has_license, has_base; /* named on the card */
};
/* Writes all files of a release into a folder of GGUF files. */
int publish_folder(const struct publish_opts *o, struct publish_report *r, struct err *e);
/* Returns ERR_USAGE if any text that publish_folder may write is the user's own. Call it before
 * long work. */
int publish_check_folder(const char *dir, const char *source, struct err *e);

/* Facts given as options, shared by commands. publish_facts_parse checks them and splits the
 * lists. */
struct publish_facts {
    const char *text[FACT_COUNT]; /* NULL: not given */
    const char *language, *tags;
};
/* Sets facts from the options. ERR_USAGE: not an id of the form OWNER/NAME. */
int publish_facts_parse(const struct publish_facts *from, struct facts *f, struct err *e);
/* Fills f with all known facts. In order of priority, they come from the options, those of earlier
 * calls, the folder's own card, and the source (publish_facts.c). */
int publish_facts_find(struct facts *f, const struct publish_opts *o, const cJSON *results,
                       struct err *e);
struct release;
/* Fills the release with the facts that are set. */
void publish_facts_apply(const struct facts *f, struct release *r);

#endif
