// SPDX-License-Identifier: MIT
/* tok/tok_int.h - what the tokenizer files share: the struct and how the builders finish it.
 *
 * A builder (tok_hf.c, tok_gguf.c, tok_sp.c, tok_tekken.c) makes a zeroed struct tok, fills what a
 * file says, then calls tok_finish(), which derives the tables that encoding needs. */
#ifndef HONE_TOK_TOK_INT_H
#define HONE_TOK_TOK_INT_H

#include "tok/bpe.h"
#include "tok/charsmap.h"
#include "tok/pretok.h"
#include "tok/replace.h"
#include "tok/tok.h"
#include "text/trie.h"
#include "text/utf8.h"
#include "tok/vocab.h"

enum tok_kind {
    TOK_BYTES,  /* byte-level BPE: pre-tokens of a regex, bytes spelled in the alphabet */
    TOK_META,   /* BPE by merges over characters; spaces are U+2581 */
    TOK_SPM,    /* BPE by scores: SentencePiece */
    TOK_UNIGRAM /* the segmentation with the best sum of scores: SentencePiece */
};

/* Score of tokens that are no pieces of SentencePiece's own. */
#define ADDED_SCORE (-1000.0f)

struct pair_set { /* of character pairs; see cuts in tok_encode.c */
    uint64_t *v;  /* 0: free */
    size_t mask;
};

enum tok_prefix { PREFIX_NONE, PREFIX_EACH, PREFIX_FIRST };
struct prep { /* what happens to text between token texts before pieces are looked for */
    enum utf8_form form;
    struct charsmap *map; /* SentencePiece's normalization; NULL: none */
    bool squeeze;         /* spaces at both ends go, runs of them become one */
    bool runs_only;       /* squeeze: all white space at the end goes, at the beginning one stays */
    enum tok_prefix prefix; /* a space in front: of each stretch, or of the text's beginning */
    bool prefix_unless;     /* not where a space is already */
    bool behind;            /* it goes behind instead */
    bool prepend;           /* it is there before normalized token texts are looked for */
    bool as_is;             /* TOK_META: spaces stay spaces, and no piece holds one */
};

/* Decoding removes from the start of a text: a space if encoding adds one; nothing; a space. */
enum strips { STRIPS_ADDED, STRIPS_NOTHING, STRIPS_ONE };

/* How a token's text is looked for: in the text as given; in normalized text, after a space that
 * normalization added to its own text; in normalized text. Tokens without a flag: user-defined ones
 * of SentencePiece in normalized text, others in the text as given. */
enum { FOUND_RAW = 1, FOUND_SPACED = 2, FOUND_NORMALIZED = 4 };
struct tok {
    /* filled by a builder */
    enum tok_kind kind;
    const char *model; /* tokenizer.ggml.model; NULL: by kind */
    struct vocab v;
    const char **merge; /* "left right", in v.arena */
    uint32_t *merge_len;
    int64_t n_merges;
    float *score; /* [v.n] TOK_SPM, TOK_UNIGRAM; of TOK_META for other readers only, or NULL */
    int64_t special[TS_COUNT];
    const struct pretok_row *row;         /* TOK_BYTES */
    const char *pre;                      /* NULL: none */
    const char *own_regex[PRETOK_LEVELS]; /* of the file, in place of the row's; n_own of them */
    int n_own;
    struct prep prep;
    bool ignore_merges, byte_fallback, fuse_unk;
    bool split_words; /* TOK_META, TOK_UNIGRAM: cut in front of each U+2581 */
    bool float_sums;  /* TOK_UNIGRAM: sums are rounded as SentencePiece rounds them */
    bool add_bos, add_eos, has_add_bos, has_add_eos;
    struct ids ends; /* listed ends, in the order of the files (tok_ends.c) */
    uint8_t *end;    /* [v.n] flags of tok_ends.c; NULL: no end */
    char *end_text;  /* NULL: none */
    uint8_t *found;  /* [v.n] FOUND_ flags; NULL: none */
    struct replace replace[MAX_REPLACES];
    int n_replaces;
    enum strips strips;
    bool drops_first;             /* decoding drops every U+2581 of the first token */
    struct spots raw, normalized; /* matched on the text as given, and after normalization */
    struct spots user;            /* what SentencePiece's normalization leaves as it is */

    /* derived by tok_finish() */
    struct pretok *split;
    struct bpe bpe;
    int32_t byte_id[256];     /* TOK_BYTES: the byte's token; others: "<0xNN>"; -1: none */
    int32_t ascii_id[128];    /* TOK_META */
    struct pair_set may_join; /* TOK_META, TOK_SPM: characters that some merge brings together */
    bool cuts;                /* TOK_META, TOK_SPM: may_join can be trusted */
    bool all_bytes;           /* byte_fallback, and no byte is missing */
    struct trie trie;         /* TOK_UNIGRAM */
    float least, most;        /* TOK_UNIGRAM: of the scores of normal pieces */
};

/* Returns a zeroed tokenizer without special ids. */
struct tok *tok_new(void);
/* Ends a builder: stores t in *out if rc is 0, else frees it. Returns rc. */
int tok_built(struct tok **out, struct tok *t, int rc);
/* Derives the tables that encoding needs. from_file: roles come from the types and texts alone (a
 * GGUF has no list of added tokens). */
int tok_finish(struct tok *t, bool from_file, struct err *e);
/* Finds the ends that are known by text; once texts and roles are there (tok_ends.c). */
void ends_find_usual(struct tok *t);
/* Returns the flags of ends, made on first use. */
uint8_t *ends_flags(struct tok *t);
/* Fills special[TS_COUNT] with the ids that the keys of a file get; ends_keyed tells whether one of
 * them is this end. */
void ends_keys(const struct tok *t, int64_t *special);
bool ends_keyed(const int64_t *special, int64_t id);
/* Returns the byte that a text such as "<0x0A>" stands for, or -1. */
int tok_byte_text(const char *text, size_t len);
/* Tells whether a text looks like a control token: `<|x|>`, `<unused7>`, `<pad>` and the like. */
bool tok_looks_control(const char *text, size_t len);
/* Tells whether normalized text has U+2581 for spaces. */
static inline bool tok_has_meta(const struct tok *t) {
    return t->kind != TOK_BYTES;
}
/* Tells whether the space is added, and U+2581 written, after normalized token texts were found. */
static inline bool tok_spaces_late(const struct tok *t) {
    const struct prep *p = &t->prep;
    return t->kind != TOK_SPM && p->prefix != PREFIX_NONE && p->prefix_unless && !p->prepend;
}
/* Makes normalization leave the text of this token as it is. */
void tok_leave_alone(struct tok *t, int64_t id);
/* Notes a FOUND_ flag of a token. */
void tok_found(struct tok *t, int64_t id, uint8_t flag);
/* Wants the text found: added tokens that are matched on normalized text are brought into its form
 * first. Returns the entry. */
struct spot *tok_want(struct tok *t, int64_t id, const char *text, size_t len, bool normalized,
                      bool control);

/* Tells whether decoding removes the space that encoding adds, unless a decoder says otherwise. */
bool tok_strips_added(const struct tok *t);
/* Adds a Replace step, or warns if it cannot be applied (tok_decode.c). from and to must live in
 * the vocabulary's arena. */
void tok_add_replace(struct tok *t, const char *from, const char *to, bool whole, bool regex);
/* Appends a text with the byte alphabet decoded, or with spaces for U+2581. */
void tok_decode_alphabet(const char *s, size_t n, struct buf *out);
void tok_decode_meta(const char *s, size_t n, struct buf *out);

int pair_set_init(struct pair_set *p, size_t n, struct err *e);
void pair_set_add(struct pair_set *p, uint32_t a, uint32_t b);
bool pair_set_has(const struct pair_set *p, uint32_t a, uint32_t b);

/* Appends normalized text (tok_prep.c): PREP_TEXT replaces characters, PREP_SPACES adds the leading
 * space and spells spaces. first: s begins the whole text. s must be UTF-8, except for TOK_SPM and
 * TOK_UNIGRAM, which turn other bytes into U+FFFD. */
enum { PREP_TEXT = 1, PREP_SPACES = 2 };
void tok_prepare(const struct tok *t, const char *s, size_t n, bool first, int steps,
                 struct buf *out);

/* Makes the derived tables of TOK_SPM and TOK_UNIGRAM (tok_spm.c, tok_unigram.c). */
int spm_build(struct tok *t, struct err *e);
int unigram_build(struct tok *t, struct err *e);

#endif
