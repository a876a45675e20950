// SPDX-License-Identifier: MIT
/* tok/tok.c - tokenizers: final steps of building one, and accessors. tok_encode.c encodes,
 * tok_decode.c decodes.
 *
 * Types and roles. `type` is what a file stores. `role` is how a token is treated: CONTROL (matched
 * in text only on request, not shown), USER_DEFINED (always matched, shown) or NORMAL (produced
 * only by BPE). They are equal except for metaspace vocabularies, whose GGUF files store many added
 * tokens as NORMAL. There, a token of several characters that no merge produces cannot result from
 * BPE, so it must have been an added token; if it looks like <...>, it is treated as one. */
#include "tok/tok_int.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "text/utf8.h"

struct tok *tok_new(void) {
    struct tok *t = xcalloc(1, sizeof *t);
    for (int i = 0; i < TS_COUNT; i++) t->special[i] = -1;
    t->unk = -1;
    return t;
}

void tok_free(struct tok *t) {
    if (!t) return;
    pretok_free(t->split);
    bpe_release(&t->bpe);
    spots_release(&t->raw);
    spots_release(&t->normalized);
    spots_release(&t->user);
    charsmap_free(t->prep.map);
    trie_release(&t->trie);
    free(t->score);
    free(t->found);
    free(t->end);
    for (int i = 0; i < t->n_replaces; i++) pretok_free(t->replace[i].regex);
    free(t->end_text);
    ids_release(&t->ends);
    free(t->may_join.v);
    free(t->merge);
    free(t->merge_len);
    vocab_release(&t->v);
    free(t);
}

int tok_built(struct tok **out, struct tok *t, int rc) {
    if (rc)
        tok_free(t);
    else
        *out = t;
    return rc;
}

/* ---- pairs of characters --------------------------------------------------------------------- */

int pair_set_init(struct pair_set *p, size_t n, struct err *e) {
    size_t cap = 64;
    while (cap < 2 * n) cap *= 2;
    p->v = try_calloc(cap, sizeof *p->v, "the joints of a vocabulary", e);
    if (!p->v) return ERR_SYS;
    p->mask = cap - 1;
    return 0;
}

/* Returns the slot of the key, or the free slot where it belongs. */
static size_t pair_slot(const struct pair_set *p, uint64_t key) {
    uint64_t h = key * 0x9e3779b97f4a7c15u;
    size_t i = (size_t)(h ^ h >> 29) & p->mask;
    while (p->v[i] != 0 && p->v[i] != key) i = (i + 1) & p->mask;
    return i;
}

void pair_set_add(struct pair_set *p, uint32_t a, uint32_t b) {
    uint64_t key = ((uint64_t)a << 32 | b) + 1;
    p->v[pair_slot(p, key)] = key;
}

bool pair_set_has(const struct pair_set *p, uint32_t a, uint32_t b) {
    return p->v[pair_slot(p, ((uint64_t)a << 32 | b) + 1)] != 0;
}

/* ---- finishing ------------------------------------------------------------------------------- */

int tok_byte_text(const char *text, size_t len) {
    if (len != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>') return -1;
    if (!isxdigit((unsigned char)text[3]) || !isxdigit((unsigned char)text[4])) return -1;
    return (int)strtol(text + 3, NULL, 16);
}

bool tok_looks_control(const char *text, size_t len) {
    static const char *const whole[] = {"<pad>", "<mask>", "[@BOS@]", "<2mass>"};
    static const char bar[] = "\xef\xbd\x9c"; /* U+FF5C */
    for (size_t i = 0; i < COUNT_OF(whole); i++)
        if (len == strlen(whole[i]) && memcmp(text, whole[i], len) == 0) return true;
    if (len < 4 || text[0] != '<' || text[len - 1] != '>') return false;
    if (text[1] == '|' && text[len - 2] == '|') return true;
    if (len >= 8 && memcmp(text + 1, bar, 3) == 0 && memcmp(text + len - 4, bar, 3) == 0)
        return true;
    if (len < 9 || memcmp(text, "<unused", 7) != 0) return false;
    for (size_t i = 7; i + 1 < len; i++)
        if (!isdigit((unsigned char)text[i])) return false;
    return true;
}

/* Returns the last character of s; 0x110000 if s is empty or ends with invalid UTF-8. */
static uint32_t last_char(const char *s, size_t n) {
    size_t i = n;
    while (i > 0 && ((unsigned char)s[i - 1] & 0xc0) == 0x80) i--;
    uint32_t cp;
    if (i == 0 || utf8_decode(s + i - 1, n - i + 1, &cp) != n - i + 1) return 0x110000;
    return cp;
}

/* Returns the first code point; 0x110000 if it is invalid or s is empty. */
static uint32_t first_char(const char *s, size_t n) {
    uint32_t cp;
    return utf8_decode(s, n, &cp) ? cp : 0x110000;
}

/* Sets ERR_DATA about merge i and returns it. */
static int bad_merge(struct err *e, int64_t i, const char *merge, const char *what) {
    return err_set(e, ERR_DATA,
                   "merge %lld \"%.64s\" %s: the vocabulary and the merges do not match",
                   (long long)i, merge, what);
}

/* Parses "left right" into the merge table and records what merges produce and join. */
static int add_merge(struct tok *t, int64_t i, bool *made, struct buf *whole, struct err *e) {
    const char *m = t->merge[i];
    size_t len = t->merge_len[i];
    const char *space = len > 1 ? memchr(m + 1, ' ', len - 1) : NULL;
    if (!space || space + 1 == m + len) return bad_merge(e, i, m, "is not two parts");
    size_t n_left = (size_t)(space - m), n_right = len - n_left - 1;
    int64_t left = vocab_find(&t->v, m, n_left);
    int64_t right = vocab_find(&t->v, space + 1, n_right);
    if (left < 0 || right < 0)
        return bad_merge(e, i, m,
                         left < 0 ? "has a left part that is not a token"
                                  : "has a right part that is not a token");
    buf_reset(whole);
    buf_add(whole, m, n_left);
    buf_add(whole, space + 1, n_right);
    int64_t id = vocab_find(&t->v, whole->data, whole->len);
    if (id < 0) return bad_merge(e, i, m, "does not make a token");
    bpe_put(&t->bpe, (int32_t)left, (int32_t)right, (uint32_t)i, (int32_t)id);
    made[id] = true;
    if (t->kind == TOK_META) {
        uint32_t a = last_char(m, n_left), b = first_char(space + 1, n_right);
        if (a > 0x10ffff || b > 0x10ffff || tok_byte_text(m, n_left) >= 0 ||
            tok_byte_text(space + 1, n_right) >= 0)
            t->cuts = false;
        else
            pair_set_add(&t->may_join, a, b);
    }
    return 0;
}

/* Adds the merges to the tables. made[id]: a merge can produce this token. */
static int add_merges(struct tok *t, bool *made, struct err *e) {
    struct buf whole = {0};
    int rc = 0;
    TRY(bpe_init(&t->bpe, (size_t)t->n_merges, e));
    if (t->kind == TOK_META) TRY(pair_set_init(&t->may_join, (size_t)t->n_merges, e));
    t->cuts = t->kind == TOK_META;
    for (int64_t i = 0; i < t->n_merges && rc == 0; i++) rc = add_merge(t, i, made, &whole, e);
    buf_release(&whole);
    return rc;
}

/* Returns whether ordinary text can hold a byte: it is neither a control character nor part of
 * characters that are not assigned. */
static bool is_usual(int b) {
    return b < 0x20 ? b == '\t' || b == '\n' || b == '\r'
                    : b != 0x7f && b != 0xc0 && b != 0xc1 && (b <= 0xf0 || b == 0xf3);
}

/* Finds the token of each byte; warns if usual bytes have no token and <unk> is missing. */
static void find_bytes(struct tok *t) {
    int n_missing = 0, n_usual = 0;
    for (int b = 0; b < 256; b++) {
        char s[8];
        size_t n = tok_has_meta(t) ? (size_t)snprintf(s, sizeof s, "<0x%02X>", (unsigned)b)
                                   : utf8_encode(vocab_byte_char((uint8_t)b), s);
        t->byte_id[b] = (int32_t)vocab_find(&t->v, s, n);
        n_missing += t->byte_id[b] < 0;
        n_usual += t->byte_id[b] < 0 && is_usual(b);
    }
    for (int c = 0; c < 128; c++) {
        char s = (char)c;
        t->ascii_id[c] = (int32_t)vocab_find(&t->v, &s, 1);
    }
    t->all_bytes = t->byte_fallback && !n_missing;
    if (n_usual && t->kind == TOK_BYTES && t->unk < 0)
        log_warn("the vocabulary has no token for %d of the 256 bytes: text that holds them loses "
                 "them",
                 n_missing);
    if (t->kind != TOK_BYTES) t->unk = t->special[TS_UNK];
}

void tok_found(struct tok *t, int64_t id, uint8_t flag) {
    if (!t->found) t->found = xcalloc((size_t)t->v.n, sizeof *t->found);
    t->found[id] |= flag;
}

struct spot *tok_want(struct tok *t, int64_t id, const char *text, size_t len, bool normalized,
                      bool control) {
    struct buf b = {0};
    if (utf8_valid_prefix(text, len) != len) normalized = false; /* would split characters */
    if (normalized && t->found && t->found[id] & FOUND_SPACED) buf_str(&b, "\xe2\x96\x81");
    struct buf form = {0};
    utf8_normalize(&form, text, len, normalized ? t->prep.form : UTF8_AS_IS);
    for (size_t i = 0; i < form.len; i++) {
        if (normalized && tok_has_meta(t) && !tok_spaces_late(t) && form.data[i] == ' ')
            buf_str(&b, "\xe2\x96\x81");
        else
            buf_chr(&b, form.data[i]);
    }
    buf_release(&form);
    const char *copy = arena_strndup(&t->v.arena, b.data ? b.data : "", b.len);
    struct spot *s = spots_add(normalized ? &t->normalized : &t->raw, copy, b.len, id, control);
    buf_release(&b);
    return s;
}

void tok_leave_alone(struct tok *t, int64_t id) {
    const char *s = t->v.text[id];
    size_t n = t->v.len[id];
    if (utf8_valid_prefix(s, n) == n) (void)spots_add(&t->user, s, n, id, false);
}

/* Determines how a user-defined piece of SentencePiece is matched. Normalization leaves it
 * unchanged. BPE never splits it, so it is matched beforehand, while the unigram model weighs it
 * like any other piece. Tokens added later are recognised by their score and matched beforehand in
 * both. */
static void want_user_piece(struct tok *t, int64_t id) {
    const bool raw = t->found && t->found[id] & FOUND_RAW;
    const bool later = raw || !t->score || t->score[id] <= ADDED_SCORE;
    if (t->kind != TOK_UNIGRAM || later)
        (void)tok_want(t, id, t->v.text[id], t->v.len[id], !raw, false);
    if (!later) tok_leave_alone(t, id);
}

/* Determines roles and search texts of added tokens if only types are known. */
static void find_added(struct tok *t, const bool *made) {
    const bool gemma4 = t->kind == TOK_META && strcmp(tok_model(t), "llama") != 0;
    for (int64_t i = 0; i < t->v.n; i++) {
        const char *s = t->v.text[i];
        size_t len = t->v.len[i];
        if (gemma4 && t->v.type[i] == TT_NORMAL && !made[i] && len > 4 && s[0] == '<' &&
            s[len - 1] == '>' && tok_byte_text(s, len) < 0) {
            bool control = s[1] == '|' || s[len - 2] == '|' || tok_looks_control(s, len) ||
                           strcmp(s, "<eos>") == 0 || strcmp(s, "<bos>") == 0;
            t->v.role[i] = control ? TT_CONTROL : TT_USER;
        }
        int role = t->v.role[i];
        bool normalized = t->found && t->found[i] & (FOUND_SPACED | FOUND_NORMALIZED);
        if (role == TT_USER && tok_has_meta(t) && !gemma4)
            want_user_piece(t, i);
        else if (normalized)
            (void)tok_want(t, i, s, len, true, role != TT_USER);
        else if (role == TT_CONTROL || role == TT_USER || role == TT_UNKNOWN)
            spots_add(&t->raw, s, len, i, role != TT_USER);
    }
}

/* Builds the lookup tables that the kind of tokenizer needs. */
static int build_tables(struct tok *t, struct err *e) {
    if (t->kind == TOK_SPM) return spm_build(t, e);
    if (t->kind == TOK_UNIGRAM) return unigram_build(t, e);
    if (t->n_own) return pretok_new_own(&t->split, t->own_regex, t->n_own, e);
    return t->kind == TOK_BYTES || t->prep.as_is ? pretok_new(&t->split, t->row, e) : 0;
}

int tok_finish(struct tok *t, bool from_file, struct err *e) {
    TRY(vocab_index(&t->v, e));
    bool *made = try_calloc((size_t)t->v.n, sizeof *made, "a vocabulary", e);
    if (!made) return ERR_SYS;
    int rc = t->kind == TOK_BYTES || t->kind == TOK_META ? add_merges(t, made, e) : 0;
    if (rc == 0) {
        find_bytes(t);
        if (from_file) find_added(t, made);
        spots_sort(&t->raw);
        spots_sort(&t->normalized);
        spots_sort(&t->user);
        ends_find_usual(t);
        rc = build_tables(t, e);
    }
    free(made);
    return rc;
}

/* ---- accessors ------------------------------------------------------------------------------- */

int64_t tok_n_vocab(const struct tok *t) {
    return t->v.n;
}
const char *tok_text(const struct tok *t, int64_t id, size_t *len) {
    bool ok = id >= 0 && id < t->v.n;
    if (len) *len = ok ? t->v.len[id] : 0;
    return ok ? t->v.text[id] : "";
}
enum tok_type tok_type(const struct tok *t, int64_t id) {
    return id >= 0 && id < t->v.n ? (enum tok_type)t->v.type[id] : TT_UNUSED;
}
enum tok_type tok_role(const struct tok *t, int64_t id) {
    return id >= 0 && id < t->v.n ? (enum tok_type)t->v.role[id] : TT_UNUSED;
}
int64_t tok_n_merges(const struct tok *t) {
    return t->n_merges;
}
const char *tok_merge(const struct tok *t, int64_t i) {
    return i >= 0 && i < t->n_merges ? t->merge[i] : "";
}
const char *tok_model(const struct tok *t) {
    static const char *const by_kind[] = {"gpt2", "gemma4", "llama", "t5"};
    return t->model ? t->model : by_kind[t->kind];
}
const char *tok_pre(const struct tok *t) {
    return t->pre;
}
int64_t tok_special(const struct tok *t, enum tok_special s) {
    return (unsigned)s < TS_COUNT ? t->special[s] : -1;
}
bool tok_add_bos(const struct tok *t) {
    return t->add_bos;
}
bool tok_add_eos(const struct tok *t) {
    return t->add_eos;
}
bool tok_add_space(const struct tok *t) {
    return t->prep.prefix != PREFIX_NONE;
}
bool tok_has_add_bos(const struct tok *t) {
    return t->has_add_bos;
}

int64_t tok_find(const struct tok *t, const char *text) {
    return vocab_find(&t->v, text, strlen(text));
}

int ids_reserve(struct ids *a, int64_t n, struct err *e) {
    if (n <= a->cap - a->n) return 0;
    int64_t cap = a->cap ? a->cap : 64;
    while (cap - a->n < n) cap *= 2;
    int32_t *v = try_realloc(a->v, (size_t)cap, sizeof *v, "the tokens of a text", e);
    if (!v) return ERR_SYS;
    a->v = v;
    a->cap = cap;
    return 0;
}

void ids_add(struct ids *a, int32_t id) {
    if (a->n == a->cap) {
        a->cap = a->cap ? a->cap * 2 : 64;
        a->v = xreallocarray(a->v, (size_t)a->cap, sizeof *a->v);
    }
    a->v[a->n++] = id;
}

void ids_release(struct ids *a) {
    free(a->v);
    memset(a, 0, sizeof *a);
}
