// SPDX-License-Identifier: MIT
/* tests/unit/test_tok_common.h - the models of tests/golden/models and their tokenizers. */
#ifndef HONE_TESTS_TOK_COMMON_H
#define HONE_TESTS_TOK_COMMON_H

#include <unistd.h>

#include "containers/gguf.h"
#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "tests/check.h"
#include "tok/tok.h"
#include "tok/tok_strs.h"

#define MODELS "tests/golden/models/"

struct folder { /* the JSON files of one model */
    struct json *tok, *config, *model, *generation;
};

static inline void folder_read(struct folder *f, const char *model) {
    struct err e = {0};
    char path[256];
    static const char *const names[] = {"tokenizer.json", "tokenizer_config.json", "config.json",
                                        "generation_config.json"};
    struct json **to[] = {&f->tok, &f->config, &f->model, &f->generation};
    for (size_t i = 0; i < 4; i++) {
        snprintf(path, sizeof path, MODELS "%s/%s", model, names[i]);
        CHECK_OK(json_read(to[i], path, 1 << 26, &e));
    }
}

static inline void folder_free(struct folder *f) {
    json_free(f->tok);
    json_free(f->config);
    json_free(f->model);
    json_free(f->generation);
}

static inline int64_t folder_n_vocab(const struct folder *f) {
    int64_t n = 0;
    if (!json_i64(json_get(f->model, "vocab_size"), &n))
        json_i64(json_get(json_get(f->model, "text_config"), "vocab_size"), &n);
    return n;
}

static inline struct tok *tok_of_folder(const char *model) {
    struct err e = {0};
    struct folder f = {0};
    struct tok *t = NULL;
    folder_read(&f, model);
    CHECK_OK(tok_from_hf(&t, f.tok, f.config, f.model, f.generation, folder_n_vocab(&f), NULL, &e));
    folder_free(&f);
    return t;
}

/* Writes the keys declared in w to a file, opens it, builds the tokenizer. Frees w. */
static inline int tok_of_writer(struct tok **t, struct gguf_w *w, struct err *e) {
    char path[] = "/tmp/hone-test-tok-XXXXXX";
    struct gguf *g = NULL;
    int fd = mkstemp(path);
    if (fd < 0) return err_sys(e, "mkstemp");
    close(fd);
    gguf_w_str(w, "general.architecture", "none");
    int rc = gguf_w_begin(w, path, true, e);
    if (!rc) rc = gguf_w_commit(w, e);
    gguf_w_free(w);
    if (!rc) rc = gguf_open(&g, path, 0, e);
    if (!rc) rc = tok_from_gguf(t, g, e);
    gguf_close(g);
    unlink(path);
    return rc;
}

static inline struct tok *tok_through_gguf(const struct tok *t) {
    struct err e = {0};
    struct tok *back = NULL;
    struct gguf_w *w = gguf_w_new();
    tok_to_gguf(t, w);
    CHECK_OK(tok_of_writer(&back, w, &e));
    return back;
}

/* Checks the ids of a text, given as "1 2 3". */
static inline void check_ids(const struct tok *t, const char *text, const char *want) {
    struct err e = {0};
    struct ids ids = {0};
    struct buf b = {0};
    CHECK_OK(tok_encode(t, text, strlen(text), true, false, &ids, &e));
    for (int64_t i = 0; i < ids.n; i++) buf_fmt(&b, "%s%d", i ? " " : "", ids.v[i]);
    CHECK_EQ_STR(b.data ? b.data : "", want);
    buf_release(&b);
    ids_release(&ids);
}

#endif
