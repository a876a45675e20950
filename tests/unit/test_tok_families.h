// SPDX-License-Identifier: MIT
/* tests/unit/test_tok_families.h - the tokenizers of tests/golden/tok_families. */
#ifndef HONE_TESTS_TOK_FAMILIES_H
#define HONE_TESTS_TOK_FAMILIES_H

#include "base/gz.h"
#include "base/log.h"
#include "tests/unit/test_tok_common.h"
#include "text/base64.h"

#define FAMILIES "tests/golden/tok_families"
enum { MAX_FAMILY = 1 << 26 };

struct family {
    struct json *root;
    struct tok_files files;
    char *sp, *tiktoken;
};

/* Returns a file that is recorded as base64; NULL: missing. */
static inline char *family_bytes(const struct json *files, const char *name, size_t *len) {
    const char *s = json_str(json_get(files, name));
    char *out = s ? xmalloc(strlen(s) + 4) : NULL;
    int64_t n = s ? base64_decode(s, out, strlen(s)) : 0;
    CHECK(!s || n > 0);
    *len = n > 0 ? (size_t)n : 0;
    return out;
}

static inline void family_open(struct family *f, const char *file) {
    struct err e = {0};
    char path[512], *text = NULL;
    size_t len;
    memset(f, 0, sizeof *f);
    snprintf(path, sizeof path, FAMILIES "/%s", file);
    CHECK_OK(gz_read_file(&text, &len, path, MAX_FAMILY, &e));
    CHECK_OK(json_parse(&f->root, text, len, path, &e));
    free(text);
    const struct json *files = json_get(f->root, "files");
    f->files.tokenizer = json_get(files, "tokenizer.json");
    f->files.config = json_get(files, "tokenizer_config.json");
    f->files.model = json_get(files, "config.json");
    f->files.added = json_get(files, "added_tokens.json");
    f->files.tiktoken_name = json_str(json_get(files, "tiktoken_name"));
    f->sp = family_bytes(files, "tokenizer.model", &f->files.sp_len);
    f->tiktoken = family_bytes(files, "tiktoken", &f->files.tiktoken_len);
    f->files.sp = f->sp;
    f->files.tiktoken = f->tiktoken;
}

static inline void family_close(struct family *f) {
    json_free(f->root);
    free(f->sp);
    free(f->tiktoken);
}

/* The strings; strs_release() them. */
static inline void family_strings(struct strs *out) {
    struct err e = {0};
    char *text = NULL;
    size_t len, used;
    CHECK_OK(gz_read_file(&text, &len, FAMILIES "/strings.json.gz", MAX_FAMILY, &e));
    CHECK_OK(strs_parse(out, text, len, &used, "strings", &e));
    free(text);
}

static inline bool same_ids(const struct ids *got, const struct json *want) {
    int64_t i = 0, id;
    for (const struct json *w = json_first(want); w; w = json_next(w), i++)
        if (i >= got->n || !json_i64(w, &id) || got->v[i] != id) return false;
    return i == got->n;
}

#endif
