// SPDX-License-Identifier: MIT
/* tok/tok_tekken.c - tokenizer from Mistral's tekken.json: tokens as base64 bytes in rank order,
 * without merges. Ids: default_num_special_tokens special ones, then ranks, default_vocab_size in
 * total. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "text/base64.h"
#include "tok/rank_bpe.h"

enum { MAX_VOCAB = 1 << 22 };

struct tekken {
    struct tok *t;
    int64_t n_special;
    struct rank_bpe ranks;
};

/* Sets ERR_DATA about entry i of tekken.json and returns it. */
static int bad_entry(struct err *e, const char *what, int64_t i) {
    return err_set(e, ERR_DATA, "tekken.json: %s (entry %lld)", what, (long long)i);
}

/* Reads the ranked tokens; an error if there are fewer than default_vocab_size. */
static int read_ranks(struct tekken *k, const struct json *vocab, struct err *e) {
    int64_t i = 0, rank;
    int rc = 0;
    for (const struct json *c = json_first(vocab); c && i < k->ranks.n && !rc;
         c = json_next(c), i++) {
        const char *b64 = json_str(json_get(c, "token_bytes"));
        char raw[RANK_BPE_TOKEN];
        int64_t n = b64 ? base64_decode(b64, raw, sizeof raw) : -1;
        if (!json_i64(json_get(c, "rank"), &rank) || rank != i)
            rc = bad_entry(e, "tokens are not in the order of their ranks", i);
        else if (n < 1 || (i < 256 && (n != 1 || (uint8_t)raw[0] != i)))
            rc = bad_entry(e, "token_bytes is not base64, or not the byte of its rank", i);
        else if (!rank_bpe_put(&k->ranks, i, raw, (size_t)n))
            rc = bad_entry(e, "a repeated token", i);
    }
    if (!rc && i < k->ranks.n)
        rc = err_set(e, ERR_DATA, "tekken.json: %lld tokens, default_vocab_size asks for %lld",
                     (long long)i, (long long)k->ranks.n);
    return rc;
}

/* The first special tokens of older files, which do not list them; defined by the format. */
static const char *const first_special[] = {"<unk>",
                                            "<s>",
                                            "</s>",
                                            "[INST]",
                                            "[/INST]",
                                            "[AVAILABLE_TOOLS]",
                                            "[/AVAILABLE_TOOLS]",
                                            "[TOOL_RESULTS]",
                                            "[/TOOL_RESULTS]",
                                            "[TOOL_CALLS]",
                                            "[IMG]",
                                            "<pad>",
                                            "[IMG_BREAK]",
                                            "[IMG_END]",
                                            "[PREFIX]",
                                            "[MIDDLE]",
                                            "[SUFFIX]",
                                            "[SYSTEM_PROMPT]",
                                            "[/SYSTEM_PROMPT]",
                                            "[TOOL_CONTENT]"};

/* Sets the text of a special token, and its role if it is a known one. */
static int set_special(struct tekken *k, int64_t id, const char *text, struct err *e) {
    static const struct {
        const char *text;
        enum tok_special s;
    } known[] = {{"<s>", TS_BOS}, {"</s>", TS_EOS}, {"<unk>", TS_UNK}, {"<pad>", TS_PAD}};
    if (id < 0 || id >= k->n_special || k->t->v.text[id])
        return bad_entry(e, "a special token has no valid rank, or the same rank as another one",
                         id);
    vocab_set(&k->t->v, id, text, strlen(text), TT_CONTROL);
    for (size_t i = 0; i < COUNT_OF(known); i++)
        if (strcmp(known[i].text, text) == 0) k->t->special[known[i].s] = id;
    return 0;
}

/* Reads the special tokens and names the unused ids. */
static int read_special(struct tekken *k, const struct json *list, struct err *e) {
    for (const struct json *c = json_first(list); c; c = json_next(c)) {
        const char *text = json_str(json_get(c, "token_str"));
        int64_t id;
        if (!text || !json_i64(json_get(c, "rank"), &id))
            return err_set(e, ERR_DATA, "tekken.json: a special token has no text or no rank");
        TRY(set_special(k, id, text, e));
    }
    for (size_t i = 0; !json_first(list) && i < COUNT_OF(first_special); i++)
        if ((int64_t)i < k->n_special) TRY(set_special(k, (int64_t)i, first_special[i], e));
    for (int64_t id = 0; id < k->t->v.n; id++) {
        char text[32];
        if (k->t->v.text[id]) continue;
        bool special = id < k->n_special;
        int n =
            snprintf(text, sizeof text, special ? "<SPECIAL_%lld>" : "[PAD%lld]", (long long)id);
        vocab_set(&k->t->v, id, text, (size_t)n, special ? TT_CONTROL : TT_UNUSED);
    }
    return 0;
}

/* Reads the whole file; n_vocab 0: the file's own size. */
static int read_all(struct tekken *k, const struct json *j, int64_t n_vocab, struct err *e) {
    const struct json *config = json_get(j, "config");
    const char *pattern = json_str(json_get(config, "pattern"));
    int64_t total;
    if (!json_i64(json_get(config, "default_vocab_size"), &total) ||
        !json_i64(json_get(config, "default_num_special_tokens"), &k->n_special) ||
        total > MAX_VOCAB || k->n_special < 0 || total < k->n_special + 256)
        return err_set(e, ERR_DATA,
                       "tekken.json: config has no valid default_vocab_size and "
                       "default_num_special_tokens");
    if (n_vocab <= 0) n_vocab = total;
    if (total > n_vocab)
        return err_set(e, ERR_DATA,
                       "tekken.json has %lld tokens, but the model only %lld rows: the tokenizer "
                       "belongs to another model",
                       (long long)total, (long long)n_vocab);
    k->t->row = pattern ? pretok_by_regexes(&pattern, 1, false, true) : NULL;
    if (!k->t->row)
        return err_set(e, ERR_DATA, "tekken.json: pattern %.300s is not known",
                       pattern ? pattern : "(none)");
    k->t->pre = k->t->row->name;
    k->t->ignore_merges = k->t->row->ignore_merges;
    TRY(vocab_init(&k->t->v, n_vocab, e));
    TRY(rank_bpe_init(&k->ranks, k->t, k->n_special, total - k->n_special, e));
    TRY(read_ranks(k, json_get(j, "vocab"), e));
    TRY(read_special(k, json_get(j, "special_tokens"), e));
    int64_t lone = rank_bpe_merges(&k->ranks);
    return lone < 0 ? 0 : bad_entry(e, "a token that no two others form", lone);
}

/* Parses the file with U+FFFD for U+0000, which the JSON parser refuses. It occurs only in
 * token_str, which is for people. */
static int parse(struct json **j, const char *text, size_t len, struct err *e) {
    char *copy = xstrndup(text, len);
    for (char *at = strstr(copy, "\\u0000"); at; at = strstr(at, "\\u0000"))
        memcpy(at, "\\ufffd", 6);
    int rc = json_parse(j, copy, strlen(copy), "tekken.json", e);
    free(copy);
    return rc;
}

int tok_from_tekken(struct tok **out, const char *text, size_t len, int64_t n_vocab,
                    struct err *e) {
    struct json *j = NULL;
    TRY(parse(&j, text, len, e));
    struct tekken k = {.t = tok_new()};
    k.t->kind = TOK_BYTES;
    k.t->add_bos = k.t->has_add_bos = k.t->has_add_eos = true;
    int rc = read_all(&k, j, n_vocab, e);
    if (!rc) rc = tok_finish(k.t, true, e);
    json_free(j);
    rank_bpe_release(&k.ranks);
    if (rc)
        tok_free(k.t);
    else
        *out = k.t;
    return rc;
}
