// SPDX-License-Identifier: MIT
/* tok/tok_encode.c - text to ids: special token texts, the text between them, and the two kinds of
 * BPE with merges (SentencePiece's algorithms: tok_spm.c, tok_unigram.c).
 *
 * The order follows the Hugging Face library: match token texts in raw text, normalize the text
 * between them (tok_prep.c), match token texts in normalized text, split into pre-tokens, apply
 * BPE. Invalid UTF-8 splits the text and is encoded as byte tokens (in SentencePiece's algorithms
 * it becomes U+FFFD).
 *
 * Vocabularies with U+2581 for spaces have no pre-tokens, so BPE runs over the whole text. It is
 * split anyway between two characters if no merge has the first at the end of its left part and the
 * second at the start of its right part. No merge can cross such a boundary, so the result is the
 * same, and the pieces are short (in practice, words).
 *
 * Each call has a cache of the ids of short pieces. struct tok is never written. */
#include "tok/tok_enc.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "text/utf8.h"

enum { MIN_KEPT = 64, MAX_KEPT = 16384, LONG_TEXT = 1 << 20 };

void *enc_grow(struct enc *c, void *p, size_t n, size_t size) {
    void *q = try_realloc(p, n, size, "a text in the tokenizer", c->e);
    if (!q) c->rc = ERR_SYS;
    return q;
}

void enc_ids(struct enc *c, const int32_t *v, size_t n) {
    struct ids *a = c->out;
    if (c->rc || (c->rc = ids_reserve(a, (int64_t)n, c->e))) return;
    if (n) memcpy(a->v + a->n, v, n * sizeof *v);
    a->n += (int64_t)n;
}

static void add_id(struct enc *c, int32_t id) {
    enc_ids(c, &id, 1);
}

void enc_unk(struct enc *c) {
    int64_t unk = c->t->unk;
    if (unk < 0) return; /* it has no token and is dropped; its neighbours become adjacent */
    if (c->t->fuse_unk && c->last_unk == c->out->n) return;
    add_id(c, (int32_t)unk);
    c->last_unk = c->out->n;
}

/* Appends the byte's token, or <unk> if it has no token. */
static void add_byte(struct enc *c, unsigned char byte) {
    int32_t id = c->t->byte_id[byte];
    if (id >= 0)
        add_id(c, id);
    else
        enc_unk(c);
}

void enc_unknown_char(struct enc *c, const char *s, size_t n) {
    if (!c->t->all_bytes) {
        enc_unk(c);
        return;
    }
    for (size_t i = 0; i < n; i++) add_byte(c, (unsigned char)s[i]);
}

/* Makes room for n symbols; returns false with c->rc set if memory runs out. */
static bool sym_reserve(struct enc *c, size_t n) {
    if (c->cap_sym >= n) return true;
    const size_t cap = n < 256 ? 256 : n;
    int32_t *sym = enc_grow(c, c->sym, cap, sizeof *sym);
    if (!sym) return false;
    c->cap_sym = cap;
    c->sym = sym;
    return true;
}

/* Merges the first n symbols by BPE and appends the tokens. */
static void merge_out(struct enc *c, size_t n) {
    if (!c->rc) c->rc = bpe_merge(&c->t->bpe, &c->work, c->sym, &n, c->e);
    enc_ids(c, c->sym, n);
}

/* ---- one piece ------------------------------------------------------------------------------- */

/* Appends the tokens of one piece of a byte-level vocabulary. */
static void encode_piece_bytes(struct enc *c, const char *s, size_t n) {
    const struct tok *t = c->t;
    if (t->ignore_merges) {
        buf_reset(&c->spell);
        vocab_spell(&c->spell, s, n);
        int64_t id = vocab_find(&t->v, c->spell.data, c->spell.len);
        if (id >= 0 && t->v.type[id] != TT_UNUSED) {
            add_id(c, (int32_t)id);
            return;
        }
    }
    size_t k = 0;
    if (!sym_reserve(c, n)) return;
    for (size_t i = 0; i < n; i++) {
        int32_t id = t->byte_id[(unsigned char)s[i]];
        if (id >= 0) {
            c->sym[k++] = id;
        } else if (t->unk >= 0) { /* nothing merges across <unk> */
            merge_out(c, k);
            enc_unk(c);
            k = 0;
        }
    }
    merge_out(c, k);
}

/* Returns the token of a character; -1: none. Added tokens that are not pieces do not count: they
 * were matched earlier, except where their flags or the caller forbid it. */
static int64_t char_token(const struct tok *t, const char *s, size_t len) {
    const int64_t id = len == 1 ? t->ascii_id[(unsigned char)*s] : vocab_find(&t->v, s, len);
    const bool added = id >= 0 && (t->v.role[id] == TT_CONTROL || t->v.role[id] == TT_USER);
    return added && !(t->found && t->found[id] & FOUND_PIECE) ? -1 : id;
}

/* Appends the tokens of one piece of a vocabulary with U+2581 for spaces. */
static void encode_piece_meta(struct enc *c, const char *s, size_t n) {
    const struct tok *t = c->t;
    size_t k = 0;
    if (!sym_reserve(c, n)) return;
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        size_t len = utf8_decode(s + i, n - i, &cp);
        const int64_t id = char_token(t, s + i, len);
        bool bytes = id < 0 && t->byte_fallback;
        for (size_t j = 0; bytes && j < len; j++) bytes = t->byte_id[(unsigned char)s[i + j]] >= 0;
        if (id >= 0) {
            c->sym[k++] = (int32_t)id;
        } else if (bytes) {
            for (size_t j = 0; j < len; j++) c->sym[k++] = t->byte_id[(unsigned char)s[i + j]];
        } else if (t->unk >= 0) {
            merge_out(c, k);
            enc_unk(c);
            k = 0;
        }
        i += len;
    }
    merge_out(c, k);
}

void enc_piece(struct enc *c, const char *s, size_t n) {
    if (c->rc) return;
    if (n > KEPT_BYTES) {
        c->algo->piece(c, s, n);
        return;
    }
    struct kept *k = &c->kept[(size_t)hash_u64(s, n) & c->kept_mask];
    if (k->len == n && memcmp(k->key, s, n) == 0) {
        enc_ids(c, k->ids, k->n);
        return;
    }
    int64_t before = c->out->n, unk = c->last_unk;
    c->algo->piece(c, s, n);
    int64_t n_ids = c->out->n - before;
    if (n_ids < 1 || n_ids > KEPT_IDS || c->last_unk != unk) return; /* <unk> depends on the past */
    k->len = (uint8_t)n;
    k->n = (uint8_t)n_ids;
    memcpy(k->key, s, n);
    memcpy(k->ids, c->out->v + before, (size_t)n_ids * sizeof *k->ids);
}

/* ---- a run of valid, normalized text --------------------------------------------------------- */

void enc_cut_text(struct enc *c, const char *s, size_t n) {
    size_t start = 0, i = 0;
    uint32_t last = 0;
    c->last_unk = -1;
    while (i < n) {
        uint32_t cp;
        size_t len = utf8_decode(s + i, n - i, &cp);
        bool cut = (c->t->cuts && !pair_set_has(&c->t->may_join, last, cp)) ||
                   (c->t->split_words && cp == 0x2581);
        if (i > start && cut) {
            enc_piece(c, s + start, i - start);
            start = i;
        }
        last = cp;
        i += len;
    }
    if (n > start) enc_piece(c, s + start, n - start);
}

/* Encodes the pre-tokens that are words and drops the text between them. */
static void pieces_words(struct enc *c, const char *s, size_t n) {
    uint32_t cp;
    if (!c->run) c->run = pretok_run_new(c->t->split);
    for (size_t at = 0; at < n;) {
        size_t end = pretok_next(c->run, s, n, at);
        if (utf8_decode(s + at, n - at, &cp) && !utf8_is_white(cp))
            enc_cut_text(c, s + at, end - at);
        at = end;
    }
}

/* Splits and encodes text of a vocabulary with U+2581 for spaces. */
static void cut_text_meta(struct enc *c, const char *s, size_t n) {
    int64_t whole = c->t->ignore_merges ? vocab_find(&c->t->v, s, n) : -1;
    if (c->t->prep.as_is)
        pieces_words(c, s, n);
    else if (whole >= 0)
        add_id(c, (int32_t)whole);
    else
        enc_cut_text(c, s, n);
}

/* Splits text with the regexes and encodes the pieces. */
static void cut_text_bytes(struct enc *c, const char *s, size_t n) {
    if (!c->run) c->run = pretok_run_new(c->t->split);
    for (size_t at = 0; at < n;) {
        size_t end = pretok_next(c->run, s, n, at);
        c->last_unk = -1;
        enc_piece(c, s + at, end - at);
        at = end;
    }
}

static const struct tok_algo algos[] = {
    [TOK_BYTES] = {cut_text_bytes, encode_piece_bytes},
    [TOK_META] = {cut_text_meta, encode_piece_meta},
    [TOK_SPM] = {enc_cut_text, spm_piece},
    [TOK_UNIGRAM] = {unigram_text, NULL},
};

/* ---- between token texts --------------------------------------------------------------------- */

/* Returns the factor by which normalization can lengthen a text; NFC can triple it. */
static size_t growth(const struct tok *t) {
    return t->prep.form > UTF8_NFC ? 12 : 3;
}

/* Empties *b and reserves space for the normalized form of n bytes; returns false with c->rc set on
 * failure. */
static bool reserve_normalized(struct enc *c, struct buf *b, size_t n) {
    buf_reset(b);
    if (!c->rc && n >= LONG_TEXT)
        c->rc = buf_try_reserve(b, n * growth(c->t), "a text in the tokenizer", c->e);
    return !c->rc;
}

/* Encodes the text between token texts that are matched in normalized text. */
static void encode_stretch(struct enc *c, const char *s, size_t n, bool late, bool first) {
    if (!n) return;
    if (late) {
        if (!reserve_normalized(c, &c->norm, n)) return;
        tok_prepare(c->t, s, n, first, PREP_SPACES, &c->norm);
        s = c->norm.data;
        n = c->norm.len;
    }
    c->algo->text(c, s, n);
}

/* Normalizes a text, except for spaces that are added late. */
static void normalize(struct enc *c, const char **s, size_t *n, bool late, bool first) {
    if (late && !c->t->prep.form && c->t->kind != TOK_UNIGRAM) return;
    if (!reserve_normalized(c, &c->early, *n)) return;
    tok_prepare(c->t, *s, *n, first, late ? PREP_TEXT : PREP_TEXT | PREP_SPACES, &c->early);
    *s = c->early.data;
    *n = c->early.len;
}

/* Extends a token over adjacent white space: moves its start, *where, back to `at` at most, and
 * returns its end. As in the tokenizers library, the white space after it may contain further
 * tokens, so the search continues at the end of the token's own text. */
static size_t take_white(const struct spot *hit, const char *s, size_t n, size_t at,
                         size_t *where) {
    size_t end = *where + (hit ? hit->len : 0);
    if (*where < at) *where = at;
    if (hit && hit->eats_left) *where -= utf8_white_before(s + at, *where - at);
    if (hit && hit->eats_right) end += utf8_white_span(s + end, n - end);
    return end;
}

/* Encodes valid UTF-8; first: it is the beginning of the whole text. */
static void encode_valid(struct enc *c, const char *s, size_t n, bool first) {
    const bool late = tok_spaces_late(c->t);
    if (n == 0) return;
    normalize(c, &s, &n, late, first);
    for (size_t at = 0, seek = 0; seek < n && !c->rc;) {
        size_t where;
        const struct spot *hit =
            spots_find(&c->t->normalized, s, n, seek, c->parse_special, &where);
        seek = hit ? where + hit->len : n;
        const size_t end = take_white(hit, s, n, at, &where);
        encode_stretch(c, s + at, where - at, late, first && at == 0);
        if (hit) add_id(c, hit->id);
        at = end;
    }
}

/* Encodes a text in stretches of valid UTF-8, and the invalid bytes between them. */
static void any_text(struct enc *c, const char *s, size_t n, bool first) {
    if (c->t->kind == TOK_SPM || c->t->kind == TOK_UNIGRAM) {
        encode_valid(c, s, n, first);
        return;
    }
    while (n > 0) {
        size_t good = utf8_valid_prefix(s, n);
        encode_valid(c, s, good, first);
        if (good < n) add_byte(c, (unsigned char)s[good]);
        size_t used = good < n ? good + 1 : good;
        s += used;
        n -= used;
        first = false;
    }
}

/* Prepares to encode about len bytes; enc_release() frees the memory. */
static void enc_init(struct enc *c, const struct tok *t, size_t len, struct err *e) {
    memset(c, 0, sizeof *c);
    c->t = t;
    c->e = e;
    c->algo = &algos[t->kind];
    c->last_unk = -1;
    size_t n = MIN_KEPT;
    while (n < MAX_KEPT && n < len / 8) n *= 2;
    c->kept = xcalloc(n, sizeof *c->kept);
    c->kept_mask = n - 1;
}

static void enc_release(struct enc *c) {
    free(c->kept);
    free(c->sym);
    pretok_run_free(c->run);
    bpe_work_release(&c->work);
    spm_work_release(&c->spm);
    unigram_work_release(&c->unigram);
    buf_release(&c->norm);
    buf_release(&c->early);
    buf_release(&c->spell);
}

/* Returns whether [from, to) overlaps a plain range. *at is the index of the current range; it only
 * grows with `from`. */
static bool reaches_plain(const struct tok_range *plain, int n, int *at, size_t from, size_t to) {
    while (*at < n && plain[*at].end <= from) ++*at;
    return *at < n && plain[*at].start < to;
}

/* Returns the next token text to use; skips texts of control tokens in plain ranges. */
static const struct spot *next_spot(const struct enc *c, const char *text, size_t len, size_t at,
                                    const struct tok_range *plain, int n_plain, int *range,
                                    size_t *where) {
    for (;;) {
        const struct spot *hit = spots_find(&c->t->raw, text, len, at, c->parse_special, where);
        if (!hit || !n_plain || tok_type(c->t, hit->id) != TT_CONTROL ||
            !reaches_plain(plain, n_plain, range, *where, *where + hit->len))
            return hit;
        at = *where + 1;
    }
}

/* Appends the ids of a text; inside the ranges `plain`, special tokens are ordinary text. */
static int encode_into(const struct tok *t, const char *text, size_t len, bool parse_special,
                       const struct tok_range *plain, int n_plain, bool add_bos, struct ids *out,
                       struct err *e) {
    /* Every byte can become a token; counts must stay below 2^31. */
    const int grows = (int)growth(t);
    if (len > (size_t)(INT32_MAX / grows) || out->n > INT32_MAX - (int64_t)len * grows - 1)
        return err_set(e, ERR_DATA,
                       "a text of %zu bytes can give more than 2^31 tokens: split it into parts of "
                       "at most %d MiB",
                       len, INT32_MAX / grows / (1 << 20));
    if (add_bos && t->add_bos && t->special[TS_BOS] >= 0) ids_add(out, (int32_t)t->special[TS_BOS]);
    if (len == 0) return 0;
    struct enc c;
    int range = 0, range_of_text = 0;
    enc_init(&c, t, len, e);
    c.out = out;
    for (size_t at = 0, seek = 0; seek < len && !c.rc;) {
        size_t where;
        c.parse_special = parse_special;
        const struct spot *hit = next_spot(&c, text, len, seek, plain, n_plain, &range, &where);
        seek = hit ? where + hit->len : len;
        const size_t end = take_white(hit, text, len, at, &where);
        /* Token texts are matched in normalized text only if no part of it is plain. */

        c.parse_special =
            parse_special && !reaches_plain(plain, n_plain, &range_of_text, at, where);
        any_text(&c, text + at, where - at, at == 0);
        if (hit) add_id(&c, hit->id);
        if (end < at) range_of_text = 0; /* a token in white space that another one took */
        at = end;
    }
    enc_release(&c);
    return c.rc;
}

int tok_encode(const struct tok *t, const char *text, size_t len, bool parse_special, bool add_bos,
               struct ids *out, struct err *e) {
    return encode_into(t, text, len, parse_special, NULL, 0, add_bos, out, e);
}

int tok_encode_around(const struct tok *t, const char *text, size_t len,
                      const struct tok_range *plain, int n_plain, bool add_bos, struct ids *out,
                      struct err *e) {
    return encode_into(t, text, len, true, plain, n_plain, add_bos, out, e);
}
