// SPDX-License-Identifier: MIT
/* make/publish.h - a folder of finished files made ready for others (hone publish, end of hone
 * make). */
#ifndef HONE_MAKE_PUBLISH_H
#define HONE_MAKE_PUBLISH_H

#include <stdbool.h>
#include <stdint.h>

#include "make/file_guard.h"
#include "base/err.h"
#include "report/facts.h"

struct publish_opts {
    const char *dir;
    const char *source; /* Hugging Face folder whose license and config are copied, or NULL */
    const struct facts *facts; /* given now; others are those of earlier calls, of the source, and
                                  of the files */
    const char *notes;         /* file with the publisher's own words for README.md, or NULL */
    const char *supersedes;    /* manifest.json of the release this one replaces, or NULL */
    const char *tmpl;          /* text of chat_template.jinja in place of the source's; or NULL */
    const cJSON *results;      /* results.json to write, or NULL: the folder's */
    enum guard_way way;        /* with what is somebody's own */
    bool manifest_only;        /* manifest.json and SHA256SUMS, nothing else */
};
struct publish_report {
    int n_models, n_written, n_listed;
    uint64_t n_bytes;           /* of all listed files */
    bool has_license, has_base; /* the card names them */
};
int publish_folder(const struct publish_opts *o, struct publish_report *r, struct err *e);
/* Returns ERR_USAGE when a text that publish_folder may write is somebody's own. It is asked before
 * long work. */
int publish_check_folder(const char *dir, const char *source, struct err *e);

/* Facts as options, shared by commands; publish_facts_parse checks them and splits the lists. */
struct publish_facts {
    const char *text[FACT_COUNT]; /* as given; NULL: not given */
    const char *language, *tags;
};
int publish_facts_parse(const struct publish_facts *from, struct facts *f, struct err *e);
/* publish_facts.c: what publish.c takes from there. */
/* Fills f with all facts that are known: those given, then those kept in the manifest, in the
 * results, in the folder's own card, and those of the source. An earlier one goes before a later
 * one. */
int publish_facts_find(struct facts *f, const struct publish_opts *o, const cJSON *results,
                       struct err *e);
struct release;
void publish_facts_apply(const struct facts *f, struct release *r);

#endif
