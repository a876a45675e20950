// SPDX-License-Identifier: MIT
/* cli/publish.h - a folder of finished files made ready for others (hone publish, end of hone
 * make). */
#ifndef HONE_CLI_PUBLISH_H
#define HONE_CLI_PUBLISH_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/file_guard.h"
#include "core/err.h"
#include "report/facts.h"

struct publish_opts {
    const char *dir;
    const char *source; /* Hugging Face folder whose license and config are copied, or NULL */
    const struct facts *facts; /* given now; others are those of earlier calls, of the source, and
                                  of the files */
    const char *notes;         /* file with the publisher's own words for README.md, or NULL */
    const char *supersedes;    /* manifest.json of the release this one replaces, or NULL */
    const char *results;       /* text of results.json to write, or NULL: the folder's */
    enum guard_way way;        /* with what is somebody's own */
    bool manifest_only;        /* manifest.json and SHA256SUMS, nothing else */
};
struct publish_report {
    int n_models, n_written, n_listed;
    uint64_t n_bytes;           /* of all listed files */
    bool has_license, has_base; /* the card names them */
};
int publish_folder(const struct publish_opts *o, struct publish_report *r, struct err *e);
/* ERR_USAGE when a text that publish_folder may write is somebody's own: asked before long work. */
int publish_check_folder(const char *dir, const char *source, struct err *e);

/* Facts as options, shared by commands; publish_facts_parse checks them and splits the lists. */
struct publish_facts {
    const char *text[FACT_COUNT]; /* as given; NULL: not given */
    const char *language, *tags;
};
int publish_facts_parse(const struct publish_facts *from, struct facts *f, struct err *e);
#define PUBLISH_FACT_OPTIONS(pf)                                                                   \
    {"repo", 0, OPT_STR, &(pf).text[FACT_REPO], "USER/NAME", "the Hub repository it will be"},     \
        {"base-model", 0,                                                                          \
         OPT_STR,      &(pf).text[FACT_BASE_MODEL],                                                \
         "ORG/NAME",   "the original on the Hub"},                                                 \
        {"license", 0,                                                                             \
         OPT_STR,   &(pf).text[FACT_LICENSE],                                                      \
         "ID",      "the Hub's identifier, such as apache-2.0"},                                   \
        {"license-name", 0,                                                                        \
         OPT_STR,        &(pf).text[FACT_LICENSE_NAME],                                            \
         "NAME",         "with --license other: its name"},                                        \
        {"license-link", 0,                                                                        \
         OPT_STR,        &(pf).text[FACT_LICENSE_LINK],                                            \
         "URL",          "with --license other: its text"},                                        \
        {"quantized-by", 0, OPT_STR, &(pf).text[FACT_QUANTIZED_BY], "NAME", "who made the files"}, \
        {"name", 0, OPT_STR, &(pf).text[FACT_NAME], "NAME", "the model's name"},                   \
        {"language", 0, OPT_STR, &(pf).language, "A,B,..", "languages, such as en,fr"}, {          \
        "tags", 0, OPT_STR, &(pf).tags, "A,B,..", "more tags of the card"                          \
    }

/* publish_facts.c: what publish.c takes from there. */
struct json;
/* All that is known: given, kept in the manifest, in results, in the folder's own card, of the
 * source. */
int publish_facts_find(struct facts *f, const struct publish_opts *o, const struct json *results,
                       struct err *e);
struct release;
void publish_facts_apply(const struct facts *f, struct release *r);

#endif
