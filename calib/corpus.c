// SPDX-License-Identifier: MIT
/* calib/corpus.c - conversion of text and conversation files to token ids, for calibration and
 * evaluation.
 *
 * A .jsonl file holds one document per line: a conversation {"messages": [...], "tools": [...]?},
 * which is rendered with the model's own template and tokenized with special tokens parsed, as in
 * real use, or plain {"text": "..."}. Plain text (also .gz) is tokenized as a whole, or cut at
 * blank lines if documents are requested. Memory: the text plus 4 bytes per token. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calib/imatrix.h"
#include "base/io.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include "template/chat.h"
#include "text/textfile.h"

/* A document of plain text ends at the first blank line after DOC_BYTES (about 512 tokens of
 * English), else at the first newline after 4 times that, else at 16 times that. */
enum { DOC_BYTES = 2048, DOC_NEWLINE = 4 * DOC_BYTES, DOC_MOST = 16 * DOC_BYTES };

struct reader {
    const struct model *m;
    const char *path;
    bool parse_special;
    struct chat *chat; /* created for the first conversation, from the model's template */
    corpus_fn fn;
    void *ud;
    struct ids ids; /* tokens of the current document */
    /* A conversation as rendered by the template, or a piece of plain text as a JSON line. */
    struct buf text;
    int64_t number, n_conversations, n_refused;
    struct err why; /* why the template refused a conversation, the first time */
};

bool corpus_is_lines(const char *path) {
    return str_ends(path, ".jsonl") || str_ends(path, ".jsonl.gz");
}

/* Passes the tokens read as one document to the callback; nothing if empty. */
static int hand_over_doc(struct reader *r, const char *line, size_t len, struct err *e) {
    const struct corpus_doc d = {r->number, line, len, r->ids.v, r->ids.n};
    return r->ids.n ? r->fn(r->ud, &d, e) : 0;
}

/* Adds a conversation. If the template refuses it, because of unknown roles or tools, skips and
 * counts it. */
static int add_conversation(struct reader *r, const char *line, size_t len, const char *what,
                            struct err *e) {
    struct err refusal = {0};
    if (!r->chat) TRY(chat_from_gguf(&r->chat, r->m->gguf, r->m->tok, e));
    buf_reset(&r->text);
    r->n_conversations++;
    if (chat_render_text(r->chat, line, len, NULL, false, &r->text, &refusal)) {
        err_wrap(&refusal, "%s", what);
        if (!r->n_refused++) r->why = refusal;
        return 0;
    }
    const char *text = r->text.data ? r->text.data : "";
    TRY(tok_encode(r->m->tok, text, r->text.len, true, false, &r->ids, e));
    return hand_over_doc(r, line, len, e);
}

/* Adds the document in a .jsonl line. A line that is not JSON is an error. */
static int add_line(struct reader *r, const char *line, size_t len, struct err *e) {
    struct json *j = NULL;
    char what[512];
    snprintf(what, sizeof what, "%s: line %lld", r->path, (long long)r->number);
    TRY(json_parse(&j, line, len, what, e));
    const char *text = json_get(j, "messages") ? NULL : json_str(json_get(j, "text"));
    int rc = 0;
    r->ids.n = 0;
    if (text) {
        rc = tok_encode(r->m->tok, text, strlen(text), r->parse_special, false, &r->ids, e);
        if (rc == 0) rc = hand_over_doc(r, line, len, e);
    } else {
        rc = add_conversation(r, line, len, what, e);
    }
    json_free(j);
    return rc;
}

/* Reads each line as a document; warns about conversations that do not render. */
static int each_line(struct reader *r, const char *data, size_t len, struct err *e) {
    for (const char *p = data, *end = data + len; p < end;) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        size_t n = nl ? (size_t)(nl - p) : (size_t)(end - p);
        r->number++;
        if (strspn(p, " \t\r") < n) TRY(add_line(r, p, n, e));
        p += n + (nl != NULL);
    }
    if (r->n_conversations && r->n_refused == r->n_conversations) {
        *e = r->why;
        return err_wrap(e, "the model's chat template renders none of the conversations");
    }
    if (r->n_refused)
        log_warn("%lld of %lld conversations are skipped: the model's template does not render "
                 "them (%s)",
                 (long long)r->n_refused, (long long)r->n_conversations, r->why.msg);
    return 0;
}

/* Returns the length in bytes of the first document of a plain text, which ends after a
 * paragraph if possible. */
static size_t doc_len(const char *p, size_t len) {
    for (size_t i = DOC_BYTES; i < len && i < DOC_MOST; i++)
        if (p[i - 1] == '\n' && (p[i] == '\n' || p[i] == '\r' || i >= DOC_NEWLINE)) return i;
    if (len <= DOC_MOST) return len;
    size_t n = DOC_MOST;
    /* Do not split a UTF-8 character. */
    while (n > DOC_MOST - 4 && ((unsigned char)p[n] & 0xc0) == 0x80) n--;
    return n;
}

/* Adds each document of a plain text as a line {"text": ...}. Invalid UTF-8 becomes U+FFFD, both
 * in the line and in the tokens. */
static int each_piece(struct reader *r, const char *data, size_t len, struct err *e) {
    int rc = 0;
    for (size_t at = 0, n; at < len && rc == 0; at += n) {
        n = doc_len(data + at, len - at);
        buf_reset(&r->text);
        buf_str(&r->text, "{\"text\": ");
        json_quote(&r->text, data + at, n);
        buf_chr(&r->text, '}');
        r->number++;
        rc = add_line(r, r->text.data, r->text.len, e);
    }
    return rc;
}

/* Reads the file as text; the model must have a tokenizer. */
static int read_text(const struct model *m, const char *path, char **data, size_t *len,
                     struct err *e) {
    TRY(model_need_tok(m, e));
    return text_read_file(data, len, path, e);
}

/* Reads all documents, lines or pieces, and releases the reader's buffers. */
static int run_reader(struct reader *r, const char *data, size_t len, struct err *e) {
    int rc = corpus_is_lines(r->path) ? each_line(r, data, len, e) : each_piece(r, data, len, e);
    chat_free(r->chat);
    ids_release(&r->ids);
    buf_release(&r->text);
    return rc;
}

int corpus_each(const struct model *m, const char *path, bool parse_special, corpus_fn fn, void *ud,
                struct err *e) {
    struct reader r = {.m = m, .path = path, .parse_special = parse_special, .fn = fn, .ud = ud};
    char *data = NULL;
    size_t len = 0;
    TRY(read_text(m, path, &data, &len, e));
    int rc = run_reader(&r, data, len, e);
    free(data);
    return rc;
}

/* Appends the tokens of a document to the list `ud`. */
static int append(void *ud, const struct corpus_doc *d, struct err *e) {
    (void)e;
    TRY(ids_reserve(ud, d->n_ids, e));
    for (int64_t i = 0; i < d->n_ids; i++) ids_add(ud, d->ids[i]);
    return 0;
}

int corpus_load(const struct model *m, const char *path, bool parse_special, struct ids *out,
                struct err *e) {
    struct reader r = {
        .m = m, .path = path, .parse_special = parse_special, .fn = append, .ud = out};
    char *data = NULL;
    size_t len = 0;
    TRY(read_text(m, path, &data, &len, e));
    const int64_t before = out->n;
    int rc = corpus_is_lines(path)
                 ? run_reader(&r, data, len, e)
                 : tok_encode(m->tok, data, len, parse_special, before == 0, out, e);
    free(data);
    if (rc) return rc;
    if (out->n == before) return err_set(e, ERR_DATA, "%s: holds no text", path);
    log_debug("%s: %lld tokens", path, (long long)(out->n - before));
    return 0;
}
