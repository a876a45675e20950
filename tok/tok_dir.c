// SPDX-License-Identifier: MIT
/* tok/tok_dir.c - tokenizer files of a folder, with or without weights. */
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/mem.h"
#include "tok/tok_hf.h"

enum { TOKENIZER, CONFIG, MODEL, GENERATION, ADDED, MAP, N_JSON };
static const char *const json_names[N_JSON] = {"tokenizer.json",    "tokenizer_config.json",
                                               "config.json",       "generation_config.json",
                                               "added_tokens.json", "special_tokens_map.json"};
static const char *const merges_names[] = {"merges.txt", NULL};
static const char *const sp_names[] = {"tokenizer.model", "spiece.model", "sentencepiece.bpe.model",
                                       "spm.model", NULL};
static const char *const tekken_names[] = {"tekken.json", NULL};
static const char *const tiktoken_names[] = {"tiktoken.model", "hy.tiktoken", "qwen.tiktoken",
                                             NULL};

/* Reads a JSON file of the folder; if it is missing, returns 0 and leaves *out unchanged. */
static int read_json(struct json **out, const char *dir, const char *name, struct err *e) {
    char *path = io_join(dir, name);
    int rc = io_exists(path) ? json_read_py(out, path, limit_of(LIM_HF_JSON), e) : 0;
    free(path);
    return rc;
}

/* Returns the number of texts and names in j that hold a NUL. */
static int64_t count_nul(const struct json *j) {
    const char *s = json_str(j);
    int64_t n = s && strstr(s, NUL_READ);
    for (const struct json *c = json_first(j); c; c = json_next(c))
        n += count_nul(c) + (strstr(json_name(c), NUL_READ) != NULL);
    return n;
}

/* Reads tokenizer.json if it exists. A NUL is allowed in it only as a token of its own. */
static int read_tokenizer(struct json **out, const char *dir, const char *name, struct err *e) {
    char *path = io_join(dir, name);
    int rc = io_exists(path) ? json_read_nul(out, path, limit_of(LIM_HF_JSON), e) : 0;
    const struct json *c = rc ? NULL : json_first(json_get(json_get(*out, "model"), "vocab"));
    int64_t n = rc ? 0 : count_nul(*out);
    for (; c && n; c = json_next(c))
        n -= hf_is(json_first(c), NUL_READ) || !strcmp(json_name(c), NUL_READ);
    if (n)
        rc = err_set(e, ERR_DATA,
                     "%s: a string holds \\u0000, which is supported only as a token of its own",
                     path);
    free(path);
    return rc;
}

/* Reads the first existing file of `names` and, unless name is NULL, sets *name to its name; *out
 * stays NULL if none exists. */
static int read_first(char **out, size_t *len, const char *dir, const char *const *names,
                      const char **name, struct err *e) {
    int rc = 0;
    for (; !rc && !*out && *names; names++) {
        char *path = io_join(dir, *names);
        if (io_exists(path)) rc = io_read_file(out, len, path, limit_of(LIM_HF_JSON), e);
        if (*out && name) *name = *names;
        free(path);
    }
    return rc;
}

/* Reads a NAME.tiktoken with an unknown name; the caller frees *name. */
static int read_tiktoken(char **out, size_t *len, const char *dir, char **name, struct err *e) {
    static const char end[] = ".tiktoken";
    struct io_names all = {0};
    int rc = io_list(&all, dir, e);
    for (int i = 0; i < all.n && !rc && !*out; i++) {
        size_t n = strlen(all.v[i]);
        if (n < sizeof end || strcmp(all.v[i] + n - (sizeof end - 1), end) != 0) continue;
        *name = xstrdup(all.v[i]);
        const char *one[] = {*name, NULL};
        rc = read_first(out, len, dir, one, NULL, e);
    }
    io_names_release(&all);
    return rc;
}

/* Returns vocab_size from config.json or its text_config; 0 if missing. */
static int64_t config_rows(const struct json *config) {
    int64_t n = 0;
    if (!json_i64(json_get(json_get(config, "text_config"), "vocab_size"), &n))
        json_i64(json_get(config, "vocab_size"), &n);
    return n;
}

static bool has_file(const char *dir, const char *name) {
    char *path = io_join(dir, name);
    const bool has = io_exists(path);
    free(path);
    return has;
}

/* Builds a tokenizer.json from vocab.json and merges.txt if the folder has no other tokenizer. */
static int of_vocab(struct json **tokenizer, const struct tok_files *f, const char *dir,
                    const char *pre, struct err *e) {
    struct json *vocab = NULL;
    char *merges = NULL;
    size_t len = 0;
    if (f->tokenizer || f->sp || f->tekken || f->tiktoken) return 0;
    int rc = read_json(&vocab, dir, "vocab.json", e);
    if (!rc && vocab) rc = read_first(&merges, &len, dir, merges_names, NULL, e);
    if (!rc && merges) rc = tok_json_of_vocab(tokenizer, f, vocab, merges, len, pre, e);
    json_free(vocab);
    free(merges);
    return rc;
}

int tok_from_dir(struct tok **out, const char *dir, int64_t n_vocab, const char *pre,
                 struct err *e) {
    return tok_from_dirs(out, dir, NULL, n_vocab, pre, e);
}

int tok_from_dirs(struct tok **out, const char *base, const char *own, int64_t n_vocab,
                  const char *pre, struct err *e) {
    const char *dir = own ? own : base;
    struct json *j[N_JSON] = {NULL};
    char *sp = NULL, *tekken = NULL, *tiktoken = NULL, *name = NULL;
    struct tok_files f = {0};
    int rc = 0;
    for (int i = 0; i < N_JSON && !rc; i++) {
        const bool models = (i == MODEL || i == GENERATION) && !has_file(dir, json_names[i]);
        rc = i == TOKENIZER ? read_tokenizer(&j[i], dir, json_names[i], e)
                            : read_json(&j[i], models ? base : dir, json_names[i], e);
    }
    if (!rc) rc = read_first(&sp, &f.sp_len, dir, sp_names, NULL, e);
    if (!rc && !j[TOKENIZER]) rc = read_first(&tekken, &f.tekken_len, dir, tekken_names, NULL, e);
    if (!rc && !j[TOKENIZER] && !tekken)
        rc = read_first(&tiktoken, &f.tiktoken_len, dir, tiktoken_names, &f.tiktoken_name, e);
    if (!rc && !j[TOKENIZER] && !tekken && !tiktoken)
        rc = read_tiktoken(&tiktoken, &f.tiktoken_len, dir, &name, e);
    if (!rc) {
        f.embeds = has_file(base, "modules.json");
        f.tokenizer = j[TOKENIZER];
        f.config = j[CONFIG];
        f.model = j[MODEL];
        f.generation = j[GENERATION];
        f.added = j[ADDED];
        f.map = j[MAP];
        f.sp = sp;
        f.tekken = tekken;
        f.tiktoken = tiktoken;
        if (name) f.tiktoken_name = name;
        if (n_vocab <= 0) n_vocab = config_rows(j[MODEL]);
        rc = of_vocab(&j[TOKENIZER], &f, dir, pre, e);
        f.tokenizer = j[TOKENIZER];
        if (!rc) rc = tok_from_files(out, &f, n_vocab, pre, e);
        if (rc) err_wrap(e, "%s", dir);
    }
    for (int i = 0; i < N_JSON; i++) json_free(j[i]);
    free(sp);
    free(tekken);
    free(tiktoken);
    free(name);
    return rc;
}
