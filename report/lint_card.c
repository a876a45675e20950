// SPDX-License-Identifier: MIT
/* report/lint_card.c - the linter's checks of README.md: front matter by the Hub's rules, links,
 * sizes, local paths. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/os.h"
#include "containers/card_yaml.h"
#include "report/folder_lint.h"

#define CARD "README.md"

/* Returns whether s is in the NULL-terminated list. */
static bool is_among(const char *s, const char *const *v) {
    for (; *v; v++)
        if (strcmp(s, *v) == 0) return true;
    return false;
}

/* Returns whether s has the form OWNER/NAME. */
static bool is_repo_id(const char *s) {
    static const char ok[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t a = strspn(s, ok);
    if (!a || s[a] != '/') return false;
    size_t b = strspn(s + a + 1, ok);
    return b && !s[a + 1 + b];
}

/* Reports a missing or incomplete license. */
static void check_license(struct lint *l, const struct card_yaml *f) {
    const char *s = card_yaml_value(f, "license");
    if (!*s) {
        lint_add(l, true, "card-license", CARD,
                 "no license in the front matter: hone publish DIR --license ID writes it, with an "
                 "identifier of the Hub such as apache-2.0");
        return;
    }
    if (s[strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789.-")])
        lint_add(l, true, "card-license-id", CARD,
                 "license \"%.60s\" is not one of the Hub's identifiers, such as apache-2.0", s);
    if (strcmp(s, "other") == 0 &&
        (!*card_yaml_value(f, "license_name") || !*card_yaml_value(f, "license_link")))
        lint_add(l, true, "card-license-other", CARD,
                 "license: other needs license_name and license_link");
}

/* Reports a missing or malformed base model. */
static void check_base(struct lint *l, const struct card_yaml *f) {
    static const char *const relations[] = {"quantized", "finetune", "adapter", "merge", NULL};
    const struct card_yaml_key *k = card_yaml_find(f, "base_model");
    const char *rel = card_yaml_value(f, "base_model_relation");
    if (!k || !k->n)
        lint_add(l, false, "card-base-model", CARD,
                 "no base_model: the Hub does not list this repository with the original");
    for (int i = 0; k && i < k->n; i++)
        if (!is_repo_id(k->value[i]))
            lint_add(l, true, "card-base-model-id", CARD,
                     "base_model \"%.80s\" is not ORGANIZATION/NAME", k->value[i]);
    if (*rel && !is_among(rel, relations))
        lint_add(l, true, "card-relation", CARD, "base_model_relation \"%.40s\" is not quantized",
                 rel);
    else if (k && k->n && strcmp(rel, "quantized") != 0)
        lint_add(l, false, "card-relation", CARD,
                 "base_model_relation is not quantized: the Hub has to guess");
}

/* Reports malformed tasks and languages. */
static void check_tags(struct lint *l, const struct card_yaml *f) {
    static const char *const tasks[] = {"text-generation",
                                        "image-text-to-text",
                                        "any-to-any",
                                        "feature-extraction",
                                        "sentence-similarity",
                                        "text-ranking",
                                        "translation",
                                        "summarization",
                                        "question-answering",
                                        "text-classification",
                                        "text2text-generation",
                                        "automatic-speech-recognition",
                                        "text-to-speech",
                                        "text-to-image",
                                        "visual-question-answering",
                                        "audio-text-to-text",
                                        "image-to-text",
                                        "fill-mask",
                                        "video-text-to-text",
                                        NULL};
    const char *task = card_yaml_value(f, "pipeline_tag"),
               *lib = card_yaml_value(f, "library_name");
    const struct card_yaml_key *tags = card_yaml_find(f, "tags"),
                               *lang = card_yaml_find(f, "language");
    bool gguf = strcmp(lib, "gguf") == 0;
    if (!*task)
        lint_add(l, false, "card-pipeline-tag", CARD, "no pipeline_tag, such as text-generation");
    else if (!is_among(task, tasks))
        lint_add(l, true, "card-pipeline-tag", CARD, "pipeline_tag \"%.60s\" is not a Hub task",
                 task);
    for (int i = 0; tags && i < tags->n; i++) gguf |= strcmp(tags->value[i], "gguf") == 0;
    if (!gguf)
        lint_add(l, false, "card-gguf-tag", CARD,
                 "neither library_name: gguf nor the tag gguf is given");
    for (int i = 0; lang && i < lang->n; i++) {
        size_t n = strlen(lang->value[i]),
               m = strspn(lang->value[i], "abcdefghijklmnopqrstuvwxyz-");
        if (n != m || n < 2 ||
            (n > 3 && lang->value[i][2] != '-' && strcmp(lang->value[i], "multilingual") != 0 &&
             strcmp(lang->value[i], "code") != 0))
            lint_add(l, true, "card-language", CARD, "language \"%.40s\" is not a code such as en",
                     lang->value[i]);
    }
}

/* Returns the size in bytes of a file in the folder; -1: missing. */
static int64_t size_of(const struct lint *l, const char *name) {
    struct os_stat st;
    char *path = io_join(l->dir, name);
    int64_t n = os_stat(path, &st) == 0 ? (int64_t)st.size : -1;
    free(path);
    return n;
}

/* Returns the total size in bytes of a split set, given its first file. -1: a file is missing. */
static int64_t total_size(const struct lint *l, const char *name) {
    int i, n;
    size_t len;
    if (!gguf_split_parse(name, &i, &n, &len)) return size_of(l, name);
    int64_t sum = 0;
    for (i = 0; i < n; i++) {
        char *part = gguf_split_name(name, i, n);
        int64_t size = size_of(l, part);
        free(part);
        if (size < 0) return -1;
        sum += size;
    }
    return sum;
}

/* Checks a size given in the card: "| [a](a) | 12345 |" is in bytes; "| 0.0330 GiB" and "| 12.3 GB"
 * name their unit. */
static void check_cell(struct lint *l, const char *name, const char *cell, int64_t size) {
    char *end;
    double v = strtod(cell, &end);
    if (end == cell) return;
    while (*end == ' ' || strncmp(end, "\302\240", 2) == 0) end += *end == ' ' ? 1 : 2;
    double unit = strncmp(end, "GiB", 3) == 0   ? 0x1p30
                  : strncmp(end, "GB", 2) == 0  ? 1e9
                  : strncmp(end, "MiB", 3) == 0 ? 0x1p20
                  : strncmp(end, "MB", 2) == 0  ? 1e6
                                                : 0;
    if (unit > 0) {
        double is = (double)size / unit, diff = v > is ? v - is : is - v;
        if (diff > 0.02 * is + 0.051)
            lint_add(l, true, "card-size", CARD, "%s has %.2f %.*s, not %.2f", name, is,
                     unit == 0x1p30 || unit == 0x1p20 ? 3 : 2, end, v);
    } else if (*end == '|' && v >= 1e5 && (int64_t)v != size) {
        lint_add(l, true, "card-size", CARD, "%s has %lld bytes, not %.0f", name, (long long)size,
                 v);
    }
}

/* Decodes the %XX of a URL in place. */
static void decode_url(char *s) {
    char *to = s;
    for (; *s; s++) {
        unsigned c;
        if (*s == '%' && isxdigit((unsigned char)s[1]) && isxdigit((unsigned char)s[2]) &&
            sscanf(s + 1, "%2x", &c) == 1 && c) {
            *to++ = (char)c;
            s += 2;
        } else {
            *to++ = *s;
        }
    }
    *to = 0;
}

/* Reports a link to a missing file; a size in the text after the link must match the file. */
static void check_link(struct lint *l, const char *target, size_t n, const char *behind) {
    char name[256];
    if (n == 0 || n >= sizeof name || *target == '#' || memchr(target, ':', n)) return;
    memcpy(name, target, n);
    name[n] = 0;
    name[strcspn(name, "?# ")] = 0;
    decode_url(name);
    const char *s = strncmp(name, "./", 2) == 0 ? name + 2 : name;
    if (!*s || *s == '/') return;
    int64_t size = total_size(l, s);
    if (size < 0) {
        lint_add(l, true, "card-link", CARD, "links to %s, which is not in the folder", s);
        return;
    }
    size_t len = strlen(s);
    if (len > 5 && strcmp(s + len - 5, ".gguf") == 0 && strncmp(behind, " | ", 3) == 0)
        check_cell(l, s, behind + 3, size);
}

/* Reports broken links and commands in the card's text. */
static void check_body(struct lint *l, const char *text) {
    for (const char *p = strstr(text, "]("); p; p = strstr(p + 2, "](")) {
        size_t n = strcspn(p + 2, ")\n");
        if (p[2 + n] == ')') check_link(l, p + 2, n, p + 3 + n);
    }
    /* every file that a command names: -m NAME.gguf */
    for (const char *p = strstr(text, ".gguf"); p; p = strstr(p + 5, ".gguf")) {
        const char *s = p;
        while (s > text && !strchr(" \t\n`|()[]\"'=<>", s[-1])) s--;
        if (strchr(" \t\n`|)\"'<,", p[5]) == NULL && p[5] && p[5] != '.') continue;
        if (s < text + 3 || strncmp(s - 3, "-m ", 3) != 0) continue;
        check_link(l, s, (size_t)(p + 5 - s), "");
    }
}

void lint_card(struct lint *l) {
    size_t len = 0;
    struct card_yaml f;
    struct err e;
    char *text = lint_text(l, CARD, &len);
    if (!text) {
        lint_add(l, true, "card-missing", CARD, "there is no README.md");
        return;
    }
    if (card_yaml_parse(&f, text, len, &e)) {
        lint_add(l, true, "card-front-matter", CARD, "%s", e.msg);
    } else {
        check_license(l, &f);
        check_base(l, &f);
        check_tags(l, &f);
        card_yaml_release(&f);
    }
    check_body(l, text);
    const char *path = lint_local_path(text, len);
    if (path) lint_add(l, true, "card-local-path", CARD, "contains a local path: %.60s", path);
    free(text);
}
