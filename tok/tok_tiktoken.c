// SPDX-License-Identifier: MIT
/* tok/tok_tiktoken.c - tokenizer from a tiktoken file: lines of base64 bytes and a rank. The file
 * contains neither the split regex nor the special tokens. Those are constants in the family's
 * Python code, and here in the rows of `families`; tokenizer_config.json may name some of them.
 *
 * The ids of the special tokens follow the ranks. A pre-token that is a token is taken whole. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "text/base64.h"
#include "tok/rank_bpe.h"
#include "tok/tok_hf.h"

enum { MAX_RANKS = 1 << 22, MAX_NAMES = 5 };

static const struct family {
    const char *file, *class; /* file name, or tokenizer_class of tokenizer_config.json */
    const char *pre;
    bool nfc;
    bool renumbers;                 /* repeated lines are skipped, and the order gives the ranks */
    const char *special[MAX_NAMES]; /* names of the first special tokens; NULL: end */
    const char *rest;               /* prefix of the other names; a number and "|>" follow */
    bool rest_by_id;                /* the number is the id; otherwise it counts from 0 */
    int n_rest, bos, eos, pad;      /* bos, eos, pad: index in `special`; -1: none */
} families[] = {
    {"tiktoken.model",
     "TikTokenTokenizer",
     "kimi-k2",
     false,
     false,
     {NULL},
     "<|reserved_token_",
     true,
     256,
     -1,
     -1,
     -1},
    {"hy.tiktoken",
     "HYTokenizer",
     "hunyuan",
     true,
     true,
     {"<|endoftext|>", "<|startoftext|>", "<|bos|>", "<|eos|>", "<|pad|>"},
     "<|extra_",
     false,
     205,
     2,
     3,
     4},
    {"qwen.tiktoken",
     "QWenTokenizer",
     "qwen2",
     true,
     false,
     {"<|endoftext|>", "<|im_start|>", "<|im_end|>"},
     "<|extra_",
     false,
     205,
     0,
     0,
     -1},
    {NULL, "ChatGLM4Tokenizer", "chatglm-bpe", false, false, {NULL}, NULL, false, 0, -1, -1, -1},
};

/* Returns the family found by file name or else by tokenizer class; NULL if unknown. */
static const struct family *find_family(const struct tok_files *f) {
    const char *class = json_str(json_get(f->config, "tokenizer_class"));
    for (size_t i = 0; i < COUNT_OF(families); i++)
        if (families[i].file && strcmp(families[i].file, f->tiktoken_name) == 0)
            return &families[i];
    for (size_t i = 0; class && i < COUNT_OF(families); i++)
        if (strcmp(families[i].class, class) == 0) return &families[i];
    return NULL;
}

struct line { /* a rank, borrowed from the file */
    const char *b64;
    size_t n;
    int64_t rank;
};

/* Sets and returns ERR_DATA about a line, counted from 1. */
static int bad_line(const struct tok_files *f, int64_t line, const char *what, struct err *e) {
    return err_set(e, ERR_DATA, "%s: line %lld %s", f->tiktoken_name, (long long)line, what);
}

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

/* Parses the line s of n bytes: two words with blanks around them, as in Python's split(). Returns
 * NULL, or an error; out->n is 0 for an empty line. */
static const char *read_line(const char *s, size_t n, struct line *out) {
    const char *end = s + n;
    int64_t rank = 0;
    while (s < end && is_blank(end[-1])) end--;
    while (s < end && is_blank(*s)) s++;
    *out = (struct line){.b64 = s};
    for (; s < end && !is_blank(*s); s++) out->n++;
    while (s < end && is_blank(*s)) s++;
    if (out->n && s == end) return "is not a base64 text and a rank";
    for (; s < end; s++) {
        if (*s < '0' || *s > '9' || rank > INT32_MAX) return "has no proper rank";
        rank = rank * 10 + (*s - '0');
    }
    out->rank = rank;
    return NULL;
}

bool tiktoken_like(const char *text, size_t len) {
    const size_t mark = len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    const char *nl = memchr(text, '\n', len);
    char raw[RANK_BPE_TOKEN], b64[2 * RANK_BPE_TOKEN];
    struct line l;
    if (read_line(text + mark, (nl ? (size_t)(nl - text) : len) - mark, &l) || !l.n ||
        l.n >= sizeof b64)
        return false;
    snprintf(b64, sizeof b64, "%.*s", (int)l.n, l.b64);
    return base64_decode(b64, raw, sizeof raw) > 0;
}

/* Splits the file, which may begin with a byte order mark, into its *n non-empty lines. */
static int split_lines(const struct tok_files *f, struct line **out, int64_t *n, struct err *e) {
    const char *s = f->tiktoken, *end = s + f->tiktoken_len;
    int64_t cap = 0;
    *n = 0;
    if (f->tiktoken_len >= 3 && memcmp(s, "\xef\xbb\xbf", 3) == 0) s += 3;
    for (int64_t at = 1; s < end; at++) {
        const char *nl = memchr(s, '\n', (size_t)(end - s));
        struct line l;
        const char *wrong = read_line(s, (size_t)((nl ? nl : end) - s), &l);
        if (!wrong && *n == MAX_RANKS) wrong = "is past the limit of ranks";
        if (wrong) return bad_line(f, at, wrong, e);
        if (l.n && *n == cap) {
            cap = cap ? 2 * cap : 4096;
            *out = xreallocarray(*out, (size_t)cap, sizeof **out);
        }
        if (l.n) (*out)[(*n)++] = l;
        s = nl ? nl + 1 : end;
    }
    return *n ? 0 : err_set(e, ERR_DATA, "%s is empty", f->tiktoken_name);
}

/* Drops lines that repeat the bytes of an earlier one, and renumbers the rest in order. */
static void renumber(struct line *line, int64_t *n) {
    struct strmap *seen = strmap_new((size_t)*n);
    int64_t kept = 0;
    for (int64_t i = 0; i < *n; i++) {
        if (!strmap_add(seen, line[i].b64, line[i].n, i)) continue;
        line[kept] = line[i];
        line[kept].rank = kept;
        kept++;
    }
    strmap_free(seen);
    *n = kept;
}

/* Decodes a line's base64 text and adds it; at: number of the line, from 0. */
static int put_line(struct rank_bpe *k, const struct tok_files *f, const struct line *l, int64_t at,
                    struct err *e) {
    char raw[RANK_BPE_TOKEN], b64[2 * RANK_BPE_TOKEN];
    int64_t n = -1;
    if (l->n < sizeof b64) {
        snprintf(b64, sizeof b64, "%.*s", (int)l->n, l->b64);
        n = base64_decode(b64, raw, sizeof raw);
    }
    if (n < 1) return bad_line(f, at + 1, "is not base64, or too long", e);
    if (l->rank >= k->n || k->len[l->rank])
        return bad_line(f, at + 1, "has a rank that another line has, or that leaves a gap", e);
    if (!rank_bpe_put(k, l->rank, raw, (size_t)n))
        return bad_line(f, at + 1, "has the bytes of another line", e);
    return 0;
}

/* Names those rows after the ranks that no file names. */
static void fill_specials(struct tok *t, const struct family *m, int64_t first) {
    int64_t id = first;
    int n_special = 0;
    while (n_special < MAX_NAMES && m->special[n_special]) n_special++;
    for (int i = 0; i < n_special + m->n_rest && id < t->v.n; i++, id++) {
        char text[48];
        long long number = m->rest_by_id ? (long long)id : i - n_special;
        if (i < n_special)
            snprintf(text, sizeof text, "%s", m->special[i]);
        else
            snprintf(text, sizeof text, "%s%lld|>", m->rest, number);
        if (t->v.text[id] || hf_find_text(t, text) >= 0) continue;
        vocab_set(&t->v, id, text, strlen(text), TT_CONTROL);
        (void)tok_want(t, id, text, strlen(text), false, true);
    }
}

/* Sets the special ids known from the family's code where tokenizer_config.json names none. */
static void family_ids(struct tok *t, const struct family *m, const struct json *config) {
    const struct {
        const char *key;
        enum tok_special s;
        int index;
    } own[] = {{"bos_token", TS_BOS, m->bos},
               {"eos_token", TS_EOS, m->eos},
               {"pad_token", TS_PAD, m->pad}};
    for (size_t i = 0; i < COUNT_OF(own); i++) {
        int64_t id = own[i].index >= 0 ? hf_find_text(t, m->special[own[i].index]) : -1;
        if (id >= 0 && !json_get(config, own[i].key)) t->special[own[i].s] = id;
    }
}

/* Reads the ranked tokens into k and adds the family's special ones. */
static int read_all(struct tok *t, const struct tok_files *f, const struct family *m,
                    int64_t n_vocab, struct rank_bpe *k, struct err *e) {
    struct line *line = NULL;
    int64_t n = 0;
    int rc = split_lines(f, &line, &n, e);
    if (!rc && m->renumbers) renumber(line, &n);
    int64_t most = n + m->n_rest - 1;
    for (int i = 0; i < MAX_NAMES && m->special[i]; i++) most++;
    if (n_vocab <= 0) n_vocab = hf_last_id(f, most) + 1;
    if (!rc && n > n_vocab)
        rc = err_set(e, ERR_DATA,
                     "%s has %lld ranks, but the model only %lld rows: the tokenizer belongs to "
                     "another model",
                     f->tiktoken_name, (long long)n, (long long)n_vocab);
    if (!rc) rc = vocab_init(&t->v, n_vocab, e);
    if (!rc) rc = rank_bpe_init(k, t, 0, n, e);
    for (int64_t i = 0; i < n && !rc; i++) rc = put_line(k, f, &line[i], i, e);
    free(line);
    if (rc) return rc;
    (void)rank_bpe_merges(k);
    TRY(hf_added(t, f, e));
    fill_specials(t, m, n);
    hf_pad(t);
    hf_specials(t, f);
    family_ids(t, m, f->config);
    return tok_finish(t, false, e) ? err_wrap(e, "%s", f->tiktoken_name) : 0;
}

/* Builds t from a tiktoken file. pre NULL: the pre-tokenizer of the known family; ERR_DATA if the
 * family is unknown. n_vocab <= 0: as many tokens as the highest id needs. */
static int build_tok(struct tok *t, const struct tok_files *f, int64_t n_vocab, const char *pre,
                     struct err *e) {
    static const struct family unknown = {.bos = -1, .eos = -1, .pad = -1};
    const struct family *m = find_family(f);
    const char *class = json_str(json_get(f->config, "tokenizer_class"));
    if (!m && !pre)
        return err_set(e, ERR_DATA,
                       "%s: the split regex and special tokens of tokenizer class \"%.64s\" are in "
                       "its Python code, which is not known here: name a pre-tokenizer that works "
                       "alike with --pre NAME, and its special tokens in added_tokens_decoder of "
                       "tokenizer_config.json",
                       f->tiktoken_name, class ? class : "(none)");
    if (!m) m = &unknown;
    t->row = pretok_by_name(pre ? pre : m->pre);
    if (!t->row) return pretok_unknown(pre, e);
    t->kind = TOK_BYTES;
    t->pre = pre ? t->row->name : m->pre;
    t->prep.form = (m->pre ? m->nfc : t->row->nfc) ? UTF8_NFC : UTF8_AS_IS;
    t->ignore_merges = true;
    struct rank_bpe k = {0};
    int rc = read_all(t, f, m, n_vocab, &k, e);
    rank_bpe_release(&k);
    return rc;
}

int tok_from_tiktoken(struct tok **out, const struct tok_files *f, int64_t n_vocab, const char *pre,
                      struct err *e) {
    struct tok *t = tok_new();
    return tok_built(out, t, build_tok(t, f, n_vocab, pre, e));
}
