// SPDX-License-Identifier: MIT
/* jobs/tokenize.c - hone tokenize: text to token ids and back (tokenize.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/tokenize.h"
#include "containers/gguf.h"
#include "base/io.h"
#include "base/json.h"
#include "base/printable.h"
#include "tok/tok.h"
#include "tok/tok_strs.h"

#define MAX_INPUT ((uint64_t)1 << 31)

/* Returns whether a folder has GGUF files but no tokenizer. */
static bool only_gguf(const char *dir) {
    static const char *const files[] = {"tokenizer.json", "tokenizer.model", "tekken.json",
                                        "vocab.json"};
    bool has = false;
    for (size_t i = 0; i < COUNT_OF(files) && !has; i++) {
        char *path = io_join(dir, files[i]);
        has = io_exists(path);
        free(path);
    }
    return !has && gguf_in_folder(dir);
}

/* Opens the tokenizer of a GGUF file or a folder; pre: pre-tokenizer to use, or NULL. */
static int load_tok(struct tok **t, const char *model, const char *pre, struct err *e) {
    if (io_is_dir(model)) {
        const int rc = tok_from_dir(t, model, 0, pre, e);
        return rc && only_gguf(model) ? gguf_no_folder(model, e) : rc;
    }
    struct gguf *g = NULL;
    TRY(gguf_name_folder(model, e));
    TRY(gguf_open(&g, model, GGUF_TOLERANT | GGUF_ONE_FILE, e));
    int rc = tok_from_gguf_as(t, g, pre, e);
    gguf_close(g);
    return rc;
}

struct job {
    const struct tok *t;
    bool special, bos, decode;
};

static void print_ids(struct buf *out, const struct ids *ids) {
    buf_chr(out, '[');
    for (int64_t i = 0; i < ids->n; i++) buf_fmt(out, "%s%d", i ? ", " : "", ids->v[i]);
    buf_chr(out, ']');
}

/* Appends the ids of a text as a JSON list. */
static int encode_text(const struct job *o, const char *s, size_t len, struct buf *out,
                       struct err *e) {
    struct ids ids = {0};
    int rc = tok_encode(o->t, s, len, o->special, o->bos, &ids, e);
    if (rc == 0) print_ids(out, &ids);
    ids_release(&ids);
    return rc;
}

/* Appends the text of a JSON list of ids. ERR_DATA: not ids. */
static int decode_ids(const struct job *o, const struct json *list, struct buf *out,
                      struct err *e) {
    if (json_type(list) != JSON_ARR)
        return err_set(e, ERR_DATA, "input to decode is not a JSON list of ids");
    struct ids ids = {0};
    int64_t i = 0;
    int rc = 0;
    for (const struct json *c = json_first(list); c && !rc; c = json_next(c), i++) {
        int64_t id;
        if (!json_i64(c, &id) || id < 0 || id >= tok_n_vocab(o->t))
            rc = err_set(e, ERR_DATA,
                         "entry %lld of the list is not a token id: ids go from 0 to %lld",
                         (long long)i, (long long)tok_n_vocab(o->t) - 1);
        ids_add(&ids, (int32_t)id);
    }
    if (!rc) tok_decode_text(o->t, ids.v, ids.n, o->special, out);
    ids_release(&ids);
    return rc;
}

/* Joins the words with spaces, like echo; without words, or for "-", reads standard input. */
static int read_text(const struct tokenize_opts *o, char **text, size_t *len, struct err *e) {
    struct buf b = {0};
    if (!o->n_words || (o->n_words == 1 && strcmp(o->word[0], "-") == 0))
        return io_read_file(text, len, "-", MAX_INPUT, e);
    for (int i = 0; i < o->n_words; i++) buf_fmt(&b, "%s%s", i ? " " : "", o->word[i]);
    *len = b.len;
    *text = buf_take(&b);
    return 0;
}

/* Encodes or decodes the arguments, or standard input. */
static int run_one(const struct tokenize_opts *a, const struct job *o, struct buf *out,
                   struct err *e) {
    char *text = NULL;
    size_t len;
    struct json *list = NULL;
    TRY(read_text(a, &text, &len, e));
    int rc = 0;
    if (!o->decode) {
        rc = encode_text(o, text, len, out, e);
        buf_chr(out, '\n');
    } else {
        rc = json_parse(&list, text, len, a->n_words ? "the list of ids" : "standard input", e);
        if (rc == 0) rc = decode_ids(o, list, out, e);
    }
    json_free(list);
    free(text);
    return rc;
}

/* Decodes a JSON list of lists of ids. */
static int batch_decode(const struct job *o, const char *text, size_t len, const char *path,
                        struct buf *out, struct err *e) {
    struct json *lists = NULL;
    struct buf one = {0};
    TRY(json_parse(&lists, text, len, path, e));
    int rc = 0;
    if (json_type(lists) != JSON_ARR)
        rc = err_set(e, ERR_DATA, "%s: not a JSON list of lists of ids", path);
    buf_chr(out, '[');
    for (const struct json *c = json_first(lists); c && rc == 0; c = json_next(c)) {
        buf_reset(&one);
        rc = decode_ids(o, c, &one, e);
        if (c != json_first(lists)) buf_str(out, ",\n ");
        json_quote(out, one.data ? one.data : "", one.len);
    }
    buf_str(out, "]\n");
    buf_release(&one);
    json_free(lists);
    return rc;
}

/* Encodes a JSON list of texts. */
static int batch_encode(const struct job *o, const char *text, size_t len, const char *path,
                        struct buf *out, struct err *e) {
    struct strs a = {0};
    size_t used;
    TRY(strs_parse(&a, text, len, &used, path, e));
    int rc = 0;
    if (used + strspn(text + used, " \t\r\n") < len)
        rc = err_set(e, ERR_DATA, "%s: unexpected text after the list", path);
    buf_chr(out, '[');
    for (size_t i = 0; i < a.n && rc == 0; i++) {
        if (i) buf_str(out, ",\n ");
        rc = encode_text(o, a.v[i], a.len[i], out, e);
    }
    buf_str(out, "]\n");
    strs_release(&a);
    return rc;
}

/* Encodes or decodes each item of the file's JSON list and appends the results to out. */
static int run_batch(const struct job *o, const char *path, struct buf *out, struct err *e) {
    char *text = NULL;
    size_t len;
    TRY(io_read_file(&text, &len, path, MAX_INPUT, e));
    int rc = o->decode ? batch_decode(o, text, len, path, out, e)
                       : batch_encode(o, text, len, path, out, e);
    free(text);
    return rc;
}

int tokenize_run(const struct tokenize_opts *o, struct buf *out, struct err *e) {
    struct tok *t = NULL;
    if (o->batch && o->n_words)
        return err_set(e, ERR_USAGE, "the texts come from --batch %s; leave out \"%s\"", o->batch,
                       show_n(o->word[0], strlen(o->word[0])).s);
    TRY(load_tok(&t, o->model, o->pre, e));
    const struct job j = {.t = t, .special = !o->no_special, .bos = o->bos, .decode = o->decode};
    int rc = o->batch ? run_batch(&j, o->batch, out, e) : run_one(o, &j, out, e);
    tok_free(t);
    return rc;
}
