// SPDX-License-Identifier: MIT
/* serve/logprobs.c - writer of token log probabilities in the formats of OpenAI's APIs. */
#include "serve/logprobs.h"

#include <math.h>
#include <string.h>

#include "runtime/generate/sample.h"
#include "runtime/engine/logits.h"

/* Returns the natural log of the sum of exp(x[i]). */
static double log_sum_exp(const float *x, int64_t n) {
    double most = -HUGE_VAL, sum = 0;
    for (int64_t i = 0; i < n; i++) most = fmax(most, (double)x[i]);
    for (int64_t i = 0; i < n; i++) sum += exp((double)x[i] - most);
    return most + log(sum);
}

/* Writes text, logprob and bytes of a token into the open object. */
static void put_token(struct jw *w, const struct tok *t, int32_t id, double logprob) {
    struct buf b = {0};
    tok_decode(t, id, true, &b);
    jw_strn(w, "token", b.data ? b.data : "", b.len);
    jw_num(w, "logprob", logprob); /* null if not finite */
    jw_arr(w, "bytes");
    for (size_t i = 0; i < b.len; i++) jw_i64(w, NULL, (unsigned char)b.data[i]);
    jw_end(w);
    buf_release(&b);
}

void logprobs_add(struct buf *out, const struct tok *t, const float *logits, int64_t n, int32_t id,
                  int top) {
    int32_t best[LOGITS_BEST];
    float best_logit[LOGITS_BEST];
    struct jw w;
    const double all = logits ? log_sum_exp(logits, n) : (double)NAN;
    if (out->len) buf_str(out, ", ");
    jw_init(&w, out, false);
    jw_obj(&w, NULL);
    put_token(&w, t, id, logits ? (double)logits[id] - all : (double)NAN);
    jw_arr(&w, "top_logprobs");
    const int32_t k = logits && top ? logits_best(logits, n, top, best, best_logit) : 0;
    for (int32_t i = 0; i < k; i++) {
        jw_obj(&w, NULL);
        put_token(&w, t, best[i], (double)best_logit[i] - all);
        jw_end(&w);
    }
    jw_end(&w);
    jw_end(&w);
}

/* Writes alternatives as an object that maps text to logprob; null if the list is empty. */
static void put_tops(struct jw *w, const struct json *tops) {
    if (!json_first(tops)) {
        jw_null(w, NULL);
        return;
    }
    jw_obj(w, NULL);
    for (const struct json *t = json_first(tops); t; t = json_next(t))
        jw_num(w, json_str(json_get(t, "token")), json_num(json_get(t, "logprob"), (double)NAN));
    jw_end(w);
}

/* Returns the number of characters that begin in the bytes of a token. */
static int64_t n_chars(const struct json *bytes) {
    int64_t n = 0;
    for (const struct json *b = json_first(bytes); b; b = json_next(b))
        n += ((int)json_num(b, 0) & 0xc0) != 0x80;
    return n;
}

void logprobs_as_text(struct jw *w, const char *elements, int64_t *n) {
    struct buf list = {0};
    struct json *j = NULL;
    struct err e;
    buf_fmt(&list, "[%s]", elements ? elements : "");
    if (!elements || !*elements || json_parse_mend(&j, list.data, list.len, "probabilities", &e)) {
        jw_null(w, "logprobs");
        buf_release(&list);
        return;
    }
    static const char *const names[] = {"tokens", "token_logprobs", "top_logprobs", "text_offset"};
    jw_obj(w, "logprobs");
    for (int k = 0; k < 4; k++) {
        jw_arr(w, names[k]);
        for (const struct json *t = json_first(j); t; t = json_next(t)) {
            const struct json *p = json_get(t, "logprob");
            if (k == 0) jw_str(w, NULL, json_str(json_get(t, "token")));
            if (k == 1 && json_type(p) == JSON_NUM) jw_num(w, NULL, json_num(p, 0));
            if (k == 1 && json_type(p) != JSON_NUM) jw_null(w, NULL);
            if (k == 2) put_tops(w, json_get(t, "top_logprobs"));
            if (k < 3) continue;
            const struct json *bytes = json_get(t, "bytes"), *first = json_first(bytes);
            const bool within = ((int)json_num(first, 0) & 0xc0) == 0x80 && *n > 0;
            jw_i64(w, NULL, *n - within); /* the token begins within a character */
            *n += n_chars(bytes);
        }
        jw_end(w);
    }
    jw_end(w);
    json_free(j);
    buf_release(&list);
}
