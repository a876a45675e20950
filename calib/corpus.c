// SPDX-License-Identifier: MIT
/* calib/corpus.c - files of text or conversations -> token ids, for calibration and evaluation.
 *
 * Plain text (also .gz) is tokenized as a whole. A .jsonl file holds one conversation per line,
 * {"messages": [...], "tools": [...]?}, rendered with the model's own template and tokenized with
 * special tokens parsed: what the model sees in use. Memory: the text plus 4 bytes per token. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calib/imatrix.h"
#include "core/gz.h"
#include "core/io.h"
#include "core/json.h"
#include "core/log.h"
#include "text/chat.h"

enum { MAX_TEXT = 1 << 30 };

static bool ends_with(const char *s, const char *tail) {
    size_t n = strlen(s), m = strlen(tail);
    return n >= m && strcmp(s + n - m, tail) == 0;
}

static int add_conversation(const struct model *m, const struct chat *chat, const char *line,
                            size_t len, const char *what, struct buf *text, struct ids *out,
                            struct err *e) {
    struct json *conv = NULL;
    TRY(json_parse(&conv, line, len, what, e));
    buf_reset(text);
    int rc = chat_render(chat, conv, NULL, false, text, e);
    if (rc)
        err_wrap(e, "%s", what);
    else
        rc = tok_encode(m->tok, text->data ? text->data : "", text->len, true, false, out, e);
    json_free(conv);
    return rc;
}

static int load_conversations(const struct model *m, const char *path, const char *data, size_t len,
                              struct ids *out, struct err *e) {
    struct chat *chat = NULL;
    struct buf text = {0};
    int rc = chat_from_gguf(&chat, m->gguf, m->tok, e);
    int64_t line_no = 0;
    for (const char *p = data, *end = data + len; rc == 0 && p < end;) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        size_t n = nl ? (size_t)(nl - p) : (size_t)(end - p);
        char what[512];
        snprintf(what, sizeof what, "%s: line %lld", path, (long long)++line_no);
        if (strspn(p, " \t\r") < n) rc = add_conversation(m, chat, p, n, what, &text, out, e);
        p += n + (nl != NULL);
    }
    buf_release(&text);
    chat_free(chat);
    return rc;
}

int corpus_load(const struct model *m, const char *path, bool parse_special, struct ids *out,
                struct err *e) {
    char *data = NULL;
    size_t len = 0;
    if (!m->tok)
        return err_set(e, ERR_DATA, "%s: has no tokenizer, so text cannot be read for it",
                       gguf_path(m->gguf));
    TRY(gz_read_file(&data, &len, path, MAX_TEXT, e));
    int64_t before = out->n;
    int rc = ends_with(path, ".jsonl") || ends_with(path, ".jsonl.gz")
                 ? load_conversations(m, path, data, len, out, e)
                 : tok_encode(m->tok, data, len, parse_special, before == 0, out, e);
    free(data);
    if (rc) return rc;
    if (out->n == before) return err_set(e, ERR_DATA, "%s: holds no text", path);
    log_debug("%s: %lld tokens", path, (long long)(out->n - before));
    return 0;
}
