// SPDX-License-Identifier: MIT
/* serve/texts.c - handlers of /tokenize, /detokenize, /tokenizer_info, /apply-template and token
 * counts. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "serve/server.h"
#include "template/chat_span.h"
#include "text/utf8.h"

void texts_specials(const struct tok *t, struct jw *w) {
    static const struct {
        const char *name;
        enum tok_special which;
    } rows[] = {{"bos_token", TS_BOS}, {"eos_token", TS_EOS}, {"pad_token", TS_PAD}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const int64_t id = tok_special(t, rows[i].which);
        struct buf text = {0};
        if (id >= 0) tok_decode(t, (int32_t)id, true, &text);
        if (id < 0)
            jw_null(w, rows[i].name);
        else
            jw_strn(w, rows[i].name, text.data ? text.data : "", text.len);
        buf_release(&text);
    }
}

/* Renders the prompt of the request; returns its tokens, or -1 with the fault set. */
static int64_t count_tokens(struct served *d, const struct job *j, const struct json *body,
                            struct chat_prompt *p, struct fault *f) {
    const struct api *api = ((const struct route *)j->route)->api;
    struct ask a;
    int rc = prepare_read(d, j, api, body, &a, f);
    if (!rc && !a.conv) rc = fault_set(f, 400, NULL, "messages", "messages are required");
    if (!rc) rc = prepare_prompt(d, &a, p, f);
    ask_release(&a);
    return rc ? -1 : p->ids.n;
}

void later_count(struct served *d, struct job *j, const struct json *body) {
    struct chat_prompt p = {0};
    struct fault f = {0};
    struct buf b = {0};
    const int64_t n = count_tokens(d, j, body, &p, &f);
    if (n < 0) {
        route_refuse(d->server, j, &f);
    } else {
        const bool plain = ((const struct route *)j->route)->api == &api_count;
        buf_fmt(&b, "{%s\"input_tokens\": %" PRId64 "}\n",
                plain ? "" : "\"object\": \"response.input_tokens\", ", n);
        answer_json(j, &b);
    }
    buf_release(&b);
    chat_prompt_release(&p);
}

/* Writes token ids; pieces: with their texts, as bytes if these are not valid UTF-8. */
static void put_tokens(struct served *d, const struct ids *ids, bool pieces, struct jw *w) {
    for (int64_t i = 0; i < ids->n; i++) {
        struct buf piece = {0};
        if (!pieces) {
            jw_i64(w, NULL, ids->v[i]);
            continue;
        }
        tok_decode(d->core.m->tok, ids->v[i], true, &piece);
        jw_obj(w, NULL);
        jw_i64(w, "id", ids->v[i]);
        if (utf8_valid_prefix(piece.data ? piece.data : "", piece.len) == piece.len) {
            jw_strn(w, "piece", piece.data ? piece.data : "", piece.len);
        } else {
            jw_arr(w, "piece");
            for (size_t k = 0; k < piece.len; k++) jw_i64(w, NULL, (unsigned char)piece.data[k]);
            jw_end(w);
        }
        jw_end(w);
        buf_release(&piece);
    }
}

/* Writes an object with the span's byte range and origin. */
static void put_span(struct jw *w, size_t start, size_t end, const char *origin) {
    jw_obj(w, NULL);
    jw_u64(w, "start", start);
    jw_u64(w, "end", end);
    jw_str(w, "origin", origin);
    jw_end(w);
}

/* Writes a prompt's tokens, where its bytes come from, and texts in it that look like control
 * tokens. */
static void put_origins(struct served *d, const struct chat_prompt *p, struct jw *w) {
    int n = 0;
    struct chat_forged *forged = chat_find_forged(&p->text, p->spans, &n);
    jw_arr(w, "tokens_of");
    put_tokens(d, &p->ids, true, w);
    jw_end(w);
    jw_arr(w, "spans");
    for (int i = 0; i < p->spans->n; i++) {
        const struct jinja_span *v = &p->spans->v[i];
        put_span(w, v->start, v->end, p->spans->origin[v->origin].path);
    }
    jw_end(w);
    jw_arr(w, "forged");
    for (int i = 0; i < n; i++)
        put_span(w, forged[i].start, forged[i].end, p->spans->origin[forged[i].origin].path);
    jw_end(w);
    free(forged);
}

void later_template(struct served *d, struct job *j, const struct json *body) {
    struct chat_prompt p = {0};
    struct fault f = {0};
    struct buf b = {0};
    struct jw w;
    const int64_t n = count_tokens(d, j, body, &p, &f);
    if (n < 0) {
        route_fail(j, &f);
        return;
    }
    jw_init(&w, &b, false);
    jw_obj(&w, NULL);
    jw_strn(&w, "prompt", p.text.data, p.text.len);
    jw_i64(&w, "tokens", n);
    jw_i64(&w, "forged_markers", p.n_forged);
    if (http_is(j->req.query, "spans")) put_origins(d, &p, &w);
    jw_end(&w);
    answer_line(j, &b);
    chat_prompt_release(&p);
}

/* Answers with a JSON object that contains the list "tokens". pieces: each id with its text;
 * counted: also the members of vLLM's /tokenize. */
static void put_ids(struct served *d, const struct ids *ids, bool pieces, bool counted,
                    struct buf *out) {
    struct jw w;
    jw_init(&w, out, false);
    jw_obj(&w, NULL);
    if (counted) jw_i64(&w, "count", ids->n);
    if (counted) jw_i64(&w, "max_model_len", session_get_opts(d->core.s)->n_ctx);
    jw_arr(&w, "tokens");
    put_tokens(d, ids, pieces, &w);
    jw_end(&w);
    jw_end(&w);
    buf_str(out, "\n");
}

void later_tokenize(struct served *d, struct job *j, const struct json *body) {
    struct fault f = {0};
    struct err e;
    struct ids ids = {0};
    struct buf b = {0};
    const char *said = json_str(json_get(body, "content"));
    const bool other = !said && json_str(json_get(body, "prompt")); /* vLLM's name */
    const struct json *add = json_get(body, other ? "add_special_tokens" : "add_special");
    if (other) said = json_str(json_get(body, "prompt"));
    char *text = xstrdup(said ? said : "");
    const size_t n = json_unmend(text, strlen(text));
    int rc = said ? 0 : fault_set(&f, 400, NULL, "content", "must be a string");
    if (!rc && tok_encode(d->core.m->tok, text, n, json_bool(json_get(body, "parse_special"), true),
                          json_bool(add, other), &ids, &e))
        rc = fault_set(&f, 400, NULL, "content", "%s", e.msg);
    if (rc) {
        route_fail(j, &f);
    } else {
        put_ids(d, &ids, json_bool(json_get(body, "with_pieces"), false), other, &b);
        answer_json(j, &b);
    }
    free(text);
    ids_release(&ids);
    buf_release(&b);
}

void later_detokenize(struct served *d, struct job *j, const struct json *body) {
    struct fault f = {0};
    struct buf text = {0}, b = {0};
    struct jw w;
    const struct json *list = json_get(body, "tokens");
    int rc = json_type(list) == JSON_ARR
                 ? 0
                 : fault_set(&f, 400, NULL, "tokens", "must be a list of token ids");
    for (const struct json *t = json_first(list); t && !rc; t = json_next(t)) {
        int64_t id;
        if (!json_i64(t, &id) || id < 0 || id >= d->core.m->hp.d[HD_VOCAB])
            rc = fault_set(&f, 400, NULL, "tokens", "ids must be from 0 to %" PRId64,
                           d->core.m->hp.d[HD_VOCAB] - 1);
        else
            tok_decode(d->core.m->tok, (int32_t)id, true, &text);
    }
    if (rc) {
        route_fail(j, &f);
    } else {
        jw_init(&w, &b, false);
        jw_obj(&w, NULL);
        jw_strn(&w, "content", text.data ? text.data : "", text.len);
        jw_strn(&w, "prompt", text.data ? text.data : "", text.len); /* vLLM's name */
        jw_end(&w);
        buf_str(&b, "\n");
        answer_json(j, &b);
    }
    buf_release(&text);
    buf_release(&b);
}

void later_tokenizer(struct served *d, struct job *j, const struct json *body) {
    struct buf b = {0};
    struct jw w;
    (void)body;
    jw_init(&w, &b, false);
    jw_obj(&w, NULL);
    jw_str(&w, "tokenizer_class", tok_model(d->core.m->tok));
    texts_specials(d->core.m->tok, &w);
    jw_bool(&w, "add_bos_token", tok_add_bos(d->core.m->tok));
    jw_i64(&w, "model_max_length", session_get_opts(d->core.s)->n_ctx);
    jw_str(&w, "chat_template", d->tmpl);
    jw_end(&w);
    answer_line(j, &b);
}
