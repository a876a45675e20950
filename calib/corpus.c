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
#include "core/limits.h"
#include "core/log.h"
#include "text/chat.h"

static bool ends_with(const char *s, const char *tail) {
    size_t n = strlen(s), m = strlen(tail);
    return n >= m && strcmp(s + n - m, tail) == 0;
}

/* Tokens of one line's conversation. A conversation the template refuses (roles or tools it does
 * not know) is left out and counted: `why` keeps the first reason. A line that is not JSON is an
 * error. */
static int add_conversation(const struct model *m, const struct chat *chat, const char *line,
                            size_t len, const char *what, int64_t *n_refused, struct err *why,
                            struct ids *out, struct err *e) {
    struct json *conv = NULL;
    struct buf text = {0};
    struct err refusal = {0};
    TRY(json_parse(&conv, line, len, what, e));
    json_free(conv); /* well-formed; rendered from the text, where 1.0 is not 1 */
    int rc = chat_render_text(chat, line, len, NULL, false, &text, &refusal);
    if (rc == 0) {
        rc = tok_encode(m->tok, text.data ? text.data : "", text.len, true, false, out, e);
    } else {
        err_wrap(&refusal, "%s", what);
        if (!*n_refused) *why = refusal;
        ++*n_refused;
        rc = 0;
    }
    buf_release(&text);
    return rc;
}

static int load_conversations(const struct model *m, const char *path, const char *data, size_t len,
                              struct ids *out, struct err *e) {
    struct chat *chat = NULL;
    struct err why = {0};
    int64_t line_no = 0, n = 0, n_refused = 0;
    int rc = chat_from_gguf(&chat, m->gguf, m->tok, e);
    for (const char *p = data, *end = data + len; rc == 0 && p < end;) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        size_t n_line = nl ? (size_t)(nl - p) : (size_t)(end - p);
        char what[512];
        snprintf(what, sizeof what, "%s: line %lld", path, (long long)++line_no);
        if (strspn(p, " \t\r") < n_line) {
            rc = add_conversation(m, chat, p, n_line, what, &n_refused, &why, out, e);
            n++;
        }
        p += n_line + (nl != NULL);
    }
    chat_free(chat);
    if (rc == 0 && n && n_refused == n) {
        *e = why;
        return err_wrap(e, "the model's chat template renders none of the conversations");
    }
    if (rc == 0 && n_refused)
        log_warn("%lld of %lld conversations are left out, the model's template does not render "
                 "them (%s)",
                 (long long)n_refused, (long long)n, why.msg);
    return rc;
}

int corpus_load(const struct model *m, const char *path, bool parse_special, struct ids *out,
                struct err *e) {
    char *data = NULL;
    size_t len = 0;
    if (!m->tok)
        return err_set(e, ERR_DATA, "%s: has no tokenizer, so text cannot be read for it",
                       gguf_path(m->gguf));
    TRY(gz_read_file(&data, &len, path, limit_of(LIM_TEXT), e));
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
