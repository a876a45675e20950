// SPDX-License-Identifier: MIT
/* report/facts.c - reading and merging of the facts about a release. All sources are untrusted:
 * lengths and counts are bounded. */
#include "report/facts.h"

#include <stdlib.h>
#include <string.h>

#include "containers/card_yaml.h"
#include "base/mem.h"

enum { MAX_FACT = 400 };

/* JSON keys, and the corresponding front matter keys of a card. */
static const struct {
    const char *json, *card[2];
} keys[FACT_COUNT] = {
    [FACT_NAME] = {"name", {"name", "model_name"}},
    [FACT_REPO] = {"repo", {NULL, NULL}},
    [FACT_LICENSE] = {"license", {"license", NULL}},
    [FACT_LICENSE_NAME] = {"license_name", {"license_name", NULL}},
    [FACT_LICENSE_LINK] = {"license_link", {"license_link", NULL}},
    [FACT_BASE_MODEL] = {"base_model", {"base_model", "base_models"}},
    [FACT_QUANTIZED_BY] = {"quantized_by", {"quantized_by", NULL}},
    [FACT_PIPELINE_TAG] = {"pipeline_tag", {"pipeline_tag", NULL}},
};

/* Returns the JSON key of a text or a list. */
static const char *key_of(int k) {
    return k == FACT_LANGUAGE ? "language" : k == FACT_TAGS ? "tags" : keys[k].json;
}

void facts_init(struct facts *f) {
    memset(f, 0, sizeof *f);
    arena_init(&f->mem);
}

void facts_release(struct facts *f) {
    arena_release(&f->mem);
    memset(f, 0, sizeof *f);
}

/* Returns a copy of n bytes, cut at MAX_FACT, with control characters replaced. */
static const char *keep_text(struct facts *f, const char *s, size_t n) {
    if (n > MAX_FACT) n = MAX_FACT;
    char *copy = arena_strndup(&f->mem, s, n);
    for (char *c = copy; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = ' ';
    return copy;
}

void facts_set(struct facts *f, enum fact k, const char *value) {
    if (value) f->text[k] = keep_text(f, value, strlen(value));
}

/* Adds a value, without surrounding spaces, unless it is empty or already listed. */
static void facts_list_add(struct facts *f, struct fact_list *l, const char *value, size_t n) {
    while (n && value[n - 1] == ' ') n--;
    while (n && *value == ' ') value++, n--;
    if (!n || l->n == FACTS_MAX_LIST) return;
    for (int i = 0; i < l->n; i++)
        if (strlen(l->v[i]) == n && memcmp(l->v[i], value, n) == 0) return;
    l->v[l->n++] = keep_text(f, value, n);
}

void facts_split(struct facts *f, struct fact_list *l, const char *value) {
    while (value && *value) {
        size_t n = strcspn(value, ",");
        facts_list_add(f, l, value, n);
        value += n + (value[n] == ',');
    }
}

/* Copies list k unless `to` already has values. */
static void fill_list(struct facts *to, enum fact k, const struct facts *from) {
    struct fact_list *l = k == FACT_TAGS ? &to->tags : &to->language;
    const struct fact_list *add = k == FACT_TAGS ? &from->tags : &from->language;
    if (l->n) return;
    for (int i = 0; i < add->n; i++) facts_list_add(to, l, add->v[i], strlen(add->v[i]));
    to->from_source[k] = from->from_source[k];
}

void facts_fill(struct facts *to, const struct facts *from) {
    /* The license's name and link are valid only for the same license. */
    bool same =
        !to->text[FACT_LICENSE] ||
        (from->text[FACT_LICENSE] && strcmp(to->text[FACT_LICENSE], from->text[FACT_LICENSE]) == 0);
    for (int k = 0; k < FACT_COUNT; k++)
        if (!to->text[k] && (same || (k != FACT_LICENSE_NAME && k != FACT_LICENSE_LINK))) {
            facts_set(to, (enum fact)k, from->text[k]);
            to->from_source[k] = from->from_source[k];
        }
    fill_list(to, FACT_LANGUAGE, from);
    fill_list(to, FACT_TAGS, from);
}

void facts_drop(struct facts *f, bool from_source) {
    for (int k = 0; k < FACT_COUNT; k++)
        if (f->from_source[k] == from_source) f->text[k] = NULL;
    if (f->from_source[FACT_LANGUAGE] == from_source) f->language.n = 0;
    if (f->from_source[FACT_TAGS] == from_source) f->tags.n = 0;
}

/* Adds the strings of a JSON array; ignores everything else. */
static void list_from_json(struct facts *f, struct fact_list *l, const cJSON *j) {
    for (const cJSON *i = doc_first(j); i && cJSON_IsArray(j); i = i->next)
        if (cJSON_GetStringValue(i))
            facts_list_add(f, l, cJSON_GetStringValue(i), strlen(cJSON_GetStringValue(i)));
}

void facts_from_json(struct facts *f, const cJSON *j) {
    for (int k = 0; k < FACT_COUNT; k++) facts_set(f, (enum fact)k, doc_str(j, keys[k].json));
    list_from_json(f, &f->language, doc_get(j, "language"));
    list_from_json(f, &f->tags, doc_get(j, "tags"));
    for (const cJSON *s = doc_first(doc_get(j, "from_source")); s; s = s->next)
        for (int k = 0; k < FACT_ALL; k++)
            if (cJSON_IsString(s) && strcmp(s->valuestring, key_of(k)) == 0)
                f->from_source[k] = true;
}

/* Returns whether a text or a list is set. */
static bool is_set(const struct facts *f, int k) {
    return k < FACT_COUNT ? f->text[k] != NULL : k == FACT_TAGS ? f->tags.n : f->language.n;
}

void facts_put(const struct facts *f, cJSON *to) {
    const char *from_source[FACT_ALL];
    int n = 0;
    for (int k = 0; k < FACT_COUNT; k++)
        if (f->text[k]) doc_put_str(to, keys[k].json, f->text[k]);
    if (f->language.n) doc_put_list(to, "language", f->language.v, f->language.n);
    if (f->tags.n) doc_put_list(to, "tags", f->tags.v, f->tags.n);
    for (int k = 0; k < FACT_ALL; k++)
        if (is_set(f, k) && f->from_source[k]) from_source[n++] = key_of(k);
    if (n) doc_put_list(to, "from_source", from_source, n);
}

bool facts_any(const struct facts *f) {
    bool any = false;
    for (int k = 0; k < FACT_ALL; k++) any |= is_set(f, k);
    return any;
}

/* ---- the card of a source -------------------------------------------------------------------- */

/* Returns whether a value of the card is empty or null. */
static bool is_none(const char *s) {
    return !*s || strcmp(s, "null") == 0 || strcmp(s, "~") == 0;
}

/* Adds the card's values of this key. */
static void list_from_card(struct facts *f, struct fact_list *l, const struct card_yaml *c,
                           const char *key) {
    const struct card_yaml_key *k = card_yaml_find(c, key);
    for (int i = 0; k && i < k->n; i++)
        if (!is_none(k->value[i])) facts_list_add(f, l, k->value[i], strlen(k->value[i]));
}

/* Strips "https://huggingface.co/", which many cards write before ORG/NAME. */
static const char *without_host(const char *s) {
    static const char host[] = "https://huggingface.co/";
    return strncmp(s, host, sizeof host - 1) == 0 ? s + sizeof host - 1 : s;
}

void facts_from_card(struct facts *f, const char *text, size_t len, int *bad_line) {
    struct card_yaml c;
    *bad_line = 0;
    if (!card_yaml_read(&c, text, len)) return;
    *bad_line = c.bad_line;
    for (int k = 0; k < FACT_COUNT; k++)
        for (int i = 0; i < 2 && keys[k].card[i]; i++) {
            const char *v = card_yaml_value(&c, keys[k].card[i]);
            if (!f->text[k] && !is_none(v))
                facts_set(f, (enum fact)k, k == FACT_BASE_MODEL ? without_host(v) : v);
        }
    list_from_card(f, &f->language, &c, "language");
    list_from_card(f, &f->language, &c, "languages");
    list_from_card(f, &f->tags, &c, "tags");
    card_yaml_release(&c);
}

const char *facts_source_repo(struct facts *f, const char *dir, const char *card, size_t len) {
    char *repo = card_repo(dir, card, len);
    const char *kept = repo ? keep_text(f, repo, strlen(repo)) : NULL;
    free(repo);
    return kept;
}
