// SPDX-License-Identifier: MIT
/* make/publish_facts.c - sources of a card's facts (publish.h, report/facts.h), by priority:
 * options of this call; those of earlier calls, in manifest.json and results.json; the card of an
 * earlier version; the source folder, or what these files have from it. The remaining facts are
 * read from the keys of the GGUF files. */
#include <stdlib.h>
#include <string.h>

#include "make/publish.h"
#include "base/io.h"
#include "base/doc.h"
#include "base/log.h"
#include "report/card.h"
#include "report/manifest.h"
#include "report/release.h"
#include "report/result.h"

enum { MAX_CARD = 16 << 20, MAX_MANIFEST = 256 << 20 };

/* Checks that an ID has the form "user/name", in characters that the Hub allows. */
static int check_id(const char *what, const char *s, struct err *e) {
    static const char ok[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    if (!s || !*s) return 0;
    size_t a = strspn(s, ok), b = s[a] == '/' ? strspn(s + a + 1, ok) : 0;
    if (a && b && !s[a + 1 + b]) return 0;
    return err_set(e, ERR_USAGE, "%s: '%.200s' is not of the form NAME/NAME", what, s);
}

int publish_facts_parse(const struct publish_facts *from, struct facts *f, struct err *e) {
    TRY(check_id("--repo", from->text[FACT_REPO], e));
    TRY(check_id("--base-model", from->text[FACT_BASE_MODEL], e));
    for (int k = 0; k < FACT_COUNT; k++) facts_set(f, (enum fact)k, from->text[k]);
    facts_split(f, &f->language, from->language);
    facts_split(f, &f->tags, from->tags);
    return 0;
}

/* Reads the folder's README.md; *text is NULL if it does not exist. */
static int read_card(const char *dir, char **text, size_t *len, struct err *e) {
    char *path = io_join(dir, "README.md");
    *text = NULL;
    *len = 0;
    int rc = io_exists(path) && !io_is_dir(path) ? io_read_file(text, len, path, MAX_CARD, e) : 0;
    free(path);
    return rc;
}

/* Reads the card of a Hugging Face folder, and the repository that it comes from. Sets *any if the
 * folder has a card. */
static int publish_facts_source(struct facts *f, const char *source, bool *any, struct err *e) {
    char *text;
    size_t len;
    int bad = 0;
    if (!source || !io_is_dir(source)) return 0;
    TRY(read_card(source, &text, &len, e));
    if (text) facts_from_card(f, text, len, &bad);
    /* The card's base_model is the model that the source was trained from. */
    f->text[FACT_BASE_MODEL] = facts_source_repo(f, source, text, len);
    f->text[FACT_NAME] = NULL; /* the files give their own name */
    f->text[FACT_QUANTIZED_BY] = NULL;
    for (int k = 0; k < FACT_ALL; k++) f->from_source[k] = true;
    *any = text != NULL;
    if (bad)
        log_warn("%s/README.md: line %d of its front matter was not understood and is ignored",
                 source, bad);
    free(text);
    return 0;
}

/* Takes the facts from a card written by a version that did not store them anywhere else. */
static int from_own_card(struct facts *f, const char *dir, struct err *e) {
    char *text;
    size_t len;
    int bad;
    TRY(read_card(dir, &text, &len, e));
    if (text && strstr(text, README_MARK_OLD)) {
        facts_from_card(f, text, len, &bad);
        f->tags.n = 0; /* generated again, including ours */
        f->text[FACT_PIPELINE_TAG] = NULL;
    }
    free(text);
    return 0;
}

int publish_facts_find(struct facts *f, const struct publish_opts *o, const cJSON *results,
                       struct err *e) {
    cJSON *manifest = doc_find(o->dir, MANIFEST_NAME, MAX_MANIFEST);
    struct facts step;
    int rc = 0;
    if (o->facts) facts_fill(f, o->facts);
    const cJSON *known[2] = {doc_get(manifest, "facts"), doc_get(results, "facts")};
    bool any = known[0] || known[1], card = false;
    for (int i = 0; i < 6 && rc == 0; i++) {
        facts_init(&step);
        if (i < 2 || (i > 3 && !card)) {
            facts_from_json(&step, known[i % 2]);
            facts_drop(&step, i < 2);
        }
        if (i == 2 && !any) rc = from_own_card(&step, o->dir, e);
        if (i == 3) rc = publish_facts_source(&step, o->source, &card, e);
        if (rc == 0) facts_fill(f, &step);
        facts_release(&step);
    }
    cJSON_Delete(manifest);
    return rc;
}

/* Replaces the list of n by l's values, unless l is empty; returns the new number. */
static int apply_list(const struct fact_list *l, const char **out, int n) {
    static const char *const other[] = {"safetensors", "pytorch", "transformers", "tf",
                                        "jax",         "onnx",    "mlx"};
    if (!l->n) return n;
    n = 0;
    for (int i = 0; i < l->n && n < RELEASE_MAX_LIST; i++) {
        bool skip = false; /* tags that name formats of the source */
        for (size_t k = 0; k < sizeof other / sizeof *other; k++)
            skip |= strcmp(l->v[i], other[k]) == 0;
        if (!skip) out[n++] = l->v[i];
    }
    return n;
}

void publish_facts_apply(const struct facts *f, struct release *r) {
    const struct {
        enum fact k;
        const char **to;
    } text[] = {{FACT_NAME, &r->title},
                {FACT_LICENSE, &r->license},
                {FACT_LICENSE_NAME, &r->license_name},
                {FACT_LICENSE_LINK, &r->license_link},
                {FACT_BASE_MODEL, &r->base_model}};
    if (f->text[FACT_LICENSE]) r->license_name = r->license_link = "";
    for (size_t i = 0; i < sizeof text / sizeof *text; i++)
        if (f->text[text[i].k]) *text[i].to = f->text[text[i].k];
    const char *by = f->text[FACT_QUANTIZED_BY], *repo = f->text[FACT_REPO];
    r->quantized_by = by && *by ? by : NULL;
    r->repo = repo && card_is_repo(repo) ? repo : NULL;
    r->n_languages = apply_list(&f->language, r->language, r->n_languages);
    r->n_tags = apply_list(&f->tags, r->tag, r->n_tags);
    if (f->text[FACT_PIPELINE_TAG] && *f->text[FACT_PIPELINE_TAG] && r->n_tags < RELEASE_MAX_LIST)
        r->tag[r->n_tags++] = f->text[FACT_PIPELINE_TAG];
}
