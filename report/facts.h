// SPDX-License-Identifier: MIT
/* report/facts.h - what a card says of a release that no measurement tells: repository, license,
 * original, who made it, languages, tags. Given once, by options or by the card of the source, they
 * are kept as the object "facts" of manifest.json and results.json and read back from there. */
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
    FACT_COUNT
};
enum { FACTS_MAX_LIST = 256 };
struct fact_list {
    const char *v[FACTS_MAX_LIST];
    int n;
};
struct facts {
    const char *text[FACT_COUNT]; /* NULL: not known; "": said to be none */
    struct fact_list language, tags;
    struct arena mem; /* holds the strings */
};
void facts_init(struct facts *f);
void facts_release(struct facts *f);
/* Copies a text, cut at a sane length and without control characters. */
void facts_set(struct facts *f, enum fact k, const char *value);
/* Adds to a list of f the parts of a text such as "en, fr"; "" adds none. */
void facts_split(struct facts *f, struct fact_list *l, const char *value);
/* Copies what `to` does not know yet from `from`; the name and the link of a license only where the
 * license is the same. */
void facts_fill(struct facts *to, const struct facts *from);
/* Reads facts from a JSON object "facts"; anything else is passed over. */
void facts_from_json(struct facts *f, const cJSON *j);
/* Reads facts from the front matter of a card of len bytes. *bad_line is a line that was not
 * understood; 0: there is none. */
void facts_from_card(struct facts *f, const char *text, size_t len, int *bad_line);
/* Returns the repository that a folder was downloaded from, as ORG/NAME, where its path (the Hub's
 * cache) or its card of len bytes says so; f owns it. Returns NULL when it is not known. */
const char *facts_source_repo(struct facts *f, const char *dir, const char *card, size_t len);
/* Appends the members of "facts" to an object. */
void facts_put(const struct facts *f, cJSON *to);
bool facts_any(const struct facts *f);

#endif
