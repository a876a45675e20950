// SPDX-License-Identifier: MIT
/* report/facts.h - facts for a model card that need no measurement: repository, license, base
 * model, author, languages, tags.
 *
 * Facts are given as options or read from the source's card. They are stored as the object "facts"
 * in manifest.json and results.json, and are read back from there. */
#ifndef HONE_REPORT_FACTS_H
#define HONE_REPORT_FACTS_H

#include "base/arena.h"
#include "base/doc.h"

enum fact {
    FACT_NAME,
    FACT_REPO,
    FACT_LICENSE,
    FACT_LICENSE_NAME,
    FACT_LICENSE_LINK,
    FACT_BASE_MODEL,
    FACT_QUANTIZED_BY,
    FACT_PIPELINE_TAG,
    FACT_COUNT, /* earlier facts are texts, later ones are lists */
    FACT_LANGUAGE = FACT_COUNT,
    FACT_TAGS,
    FACT_ALL
};
enum { FACTS_MAX_LIST = 256 };
struct fact_list {
    const char *v[FACTS_MAX_LIST];
    int n;
};
struct facts {
    const char *text[FACT_COUNT]; /* NULL: unknown; "": explicitly none */
    struct fact_list language, tags;
    bool from_source[FACT_ALL]; /* read from the source's card, not given */
    struct arena mem;           /* owns the strings */
};
void facts_init(struct facts *f);
void facts_release(struct facts *f);
/* Copies a text, cut to a sane length and without control characters. */
void facts_set(struct facts *f, enum fact k, const char *value);
/* Appends the items of a text, e.g. "en, fr", to a list of f; "" adds none. */
void facts_split(struct facts *f, struct fact_list *l, const char *value);
/* Copies the facts that `to` lacks from `from`. The license's name and link are copied only if both
 * have the same license. */
void facts_fill(struct facts *to, const struct facts *from);
/* Drops the facts from the source's card (true), or all others (false). */
void facts_drop(struct facts *f, bool from_source);
/* Reads facts from a JSON object "facts"; ignores any other value. */
void facts_from_json(struct facts *f, const cJSON *j);
/* Reads facts from the front matter of a card of len bytes. *bad_line: the first line that could
 * not be parsed, or 0. */
void facts_from_card(struct facts *f, const char *text, size_t len, int *bad_line);
/* Returns the repository, ORG/NAME, that a folder was downloaded from. It is found by the folder's
 * path (the Hub's cache) or in its card of len bytes; f owns the string. NULL: unknown. */
const char *facts_source_repo(struct facts *f, const char *dir, const char *card, size_t len);
/* Adds the members of "facts" to an object. */
void facts_put(const struct facts *f, cJSON *to);
/* Returns whether any fact is set. */
bool facts_any(const struct facts *f);

#endif
