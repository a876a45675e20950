// SPDX-License-Identifier: MIT
/* tok/tok_int.h - internals of tokenizers: the struct, and how builders complete it.
 *
 * A builder (tok_hf.c, tok_gguf.c, tok_sp.c, tok_tekken.c) creates a zeroed struct tok, fills it
 * from a file, then calls tok_finish(), which derives the tables needed for encoding. */
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
    TOK_BYTES,  /* byte-level BPE: regex pre-tokens, bytes spelled in the byte alphabet */
    TOK_META,   /* BPE by merges over characters; spaces are U+2581 */
    TOK_SPM,    /* SentencePiece's BPE by scores */
    TOK_UNIGRAM /* SentencePiece's unigram model: the segmentation with the best total score */
};

/* Score of tokens that are not SentencePiece's own pieces. */
#define ADDED_SCORE (-1000.0f)

struct pair_set { /* set of character pairs; see cuts in tok_encode.c */
    uint64_t *v;  /* 0: free */
    size_t mask;
};

enum tok_prefix { PREFIX_NONE, PREFIX_EACH, PREFIX_FIRST };
struct prep { /* normalization of text between special token texts, before pieces are found */
    enum utf8_form form;
    struct charsmap *map; /* SentencePiece's normalization table; NULL: none */
    bool squeeze;         /* strip spaces at both ends, collapse runs of spaces */
    bool runs_only;       /* squeeze: strip all white space at the end, but keep one at the start */
    enum tok_prefix prefix; /* add a leading space: to each stretch, or to the start of the text */
    bool prefix_unless;     /* do not add the space if there is one already */
    bool behind;            /* add the space at the end instead */
    bool prepend;           /* add the space before normalized token texts are matched */
    bool as_is;             /* TOK_META: spaces stay spaces, and no piece contains one */
};

/* What decoding removes from the start of a text: a space if encoding adds one; nothing;
 * always one space. */
enum strips { STRIPS_ADDED, STRIPS_NOTHING, STRIPS_ONE };

/* How a token's text is matched: in the raw text; in normalized text, after a space that
 * normalization added to the token's own text; in normalized text. Without a flag: user-defined
 * tokens of SentencePiece in normalized text, others in the raw text. FOUND_PIECE: TOK_META: the
 * token is one character and also a piece, used where its text is not matched. */
enum { FOUND_RAW = 1, FOUND_SPACED = 2, FOUND_NORMALIZED = 4, FOUND_PIECE = 8 };
struct tok {
    /* Filled by a builder. */
    enum tok_kind kind;
    const char *model; /* tokenizer.ggml.model; NULL: by kind */
    struct vocab v;
    const char **merge; /* "left right", in v.arena */
    uint32_t *merge_len;
    int64_t n_merges;
    float *score; /* [v.n] TOK_SPM, TOK_UNIGRAM; for TOK_META only for other readers, or NULL */
    int64_t special[TS_COUNT];
    int64_t
        unk; /* TOK_BYTES: token of bytes without one, if the model has such a token; -1: none */
    const struct pretok_row *row;         /* TOK_BYTES */
    const char *pre;                      /* NULL: none */
    const char *own_regex[PRETOK_LEVELS]; /* [n_own] regexes of the file; override the row's */
    int n_own;
    struct prep prep;
    bool ignore_merges, byte_fallback, fuse_unk;
    bool split_words; /* TOK_META, TOK_UNIGRAM: split before each U+2581 */
    bool float_sums;  /* TOK_UNIGRAM: round sums as SentencePiece does */
    bool add_bos, add_eos, has_add_bos, has_add_eos;
    struct ids ends; /* listed ends, in the order of the files (tok_ends.c) */
    uint8_t *end;    /* [v.n] flags of tok_ends.c; NULL: no ends */
    char *end_text;  /* NULL: none */
    uint8_t *found;  /* [v.n] FOUND_ flags; NULL: none */
    struct replace replace[MAX_REPLACES];
    int n_replaces;
    enum strips strips;
    bool drops_first;             /* decoding drops every U+2581 of the first token */
    struct spots raw, normalized; /* matched in raw and in normalized text */
    struct spots user;            /* left unchanged by SentencePiece's normalization */

    /* Derived by tok_finish(). */
    struct pretok *split;
    struct bpe bpe;
    int32_t
        byte_id[256]; /* token of a byte; except for TOK_BYTES, its text is "<0xNN>"; -1: none */
    int32_t ascii_id[128];    /* TOK_META */
    struct pair_set may_join; /* TOK_META, TOK_SPM: adjacent characters that some merge can join */
    bool cuts;                /* TOK_META, TOK_SPM: may_join is reliable */
    bool all_bytes;           /* byte_fallback with all 256 byte tokens */
    struct trie trie;         /* TOK_UNIGRAM */
    float least, most;        /* TOK_UNIGRAM: lowest and highest score of normal pieces */
};

/* Returns a zeroed tokenizer without special ids. */
struct tok *tok_new(void);
/* Ends a builder: stores t in *out if rc is 0, otherwise frees it. Returns rc. */
int tok_built(struct tok **out, struct tok *t, int rc);
/* Derives the tables needed for encoding. from_file: roles come from types and texts alone, since a
 * GGUF has no list of added tokens. */
int tok_finish(struct tok *t, bool from_file, struct err *e);
/* Finds the end tokens that are known by text (tok_ends.c). Call after texts and roles are set. */
void ends_find_usual(struct tok *t);
/* Returns the flags of ends, allocated on first use. */
uint8_t *ends_flags(struct tok *t);
/* Fill special[TS_COUNT] with the ids that a file's keys get, and return whether one of them is
 * this end. */
void ends_keys(const struct tok *t, int64_t *special);
/* Returns whether the id is the EOS, EOT or EOM token of `special`. */
bool ends_keyed(const int64_t *special, int64_t id);
/* Returns the byte denoted by a text such as "<0x0A>"; -1: none. */
int tok_byte_text(const char *text, size_t len);
/* Returns whether a text looks like a control token: `<|x|>`, `<unused7>`, `<pad>` and the like. */
bool tok_looks_control(const char *text, size_t len);
/* Returns whether normalized text has U+2581 for spaces. */
static inline bool tok_has_meta(const struct tok *t) {
    return t->kind != TOK_BYTES;
}
/* Returns whether the leading space and U+2581 are added after normalized token texts are
 * matched. */
static inline bool tok_spaces_late(const struct tok *t) {
    const struct prep *p = &t->prep;
    return t->kind != TOK_SPM && p->prefix != PREFIX_NONE && p->prefix_unless && !p->prepend;
}
/* Exempts the text of this token from normalization. */
void tok_leave_alone(struct tok *t, int64_t id);
/* Sets a FOUND_ flag of a token. */
void tok_found(struct tok *t, int64_t id, uint8_t flag);
/* Adds a string to match and returns its entry. If it is matched in normalized text, it is
 * normalized first. */
struct spot *tok_want(struct tok *t, int64_t id, const char *text, size_t len, bool normalized,
                      bool control);

/* Returns whether decoding removes the space that encoding adds, unless a decoder overrides it. */
bool tok_strips_added(const struct tok *t);
/* Adds a Replace step, or warns if it cannot be applied (tok_decode.c). from and to must live in
 * the vocabulary's arena. */
void tok_add_replace(struct tok *t, const char *from, const char *to, bool whole, bool regex);
/* Append a text with the byte alphabet decoded, or with spaces for U+2581. */
void tok_decode_alphabet(const char *s, size_t n, struct buf *out);
/* Appends a piece's text, with spaces for U+2581. */
void tok_decode_meta(const char *s, size_t n, struct buf *out);

/* Makes an empty set with room for n pairs. */
int pair_set_init(struct pair_set *p, size_t n, struct err *e);
/* Adds the ordered pair (a, b). */
void pair_set_add(struct pair_set *p, uint32_t a, uint32_t b);
/* Returns whether the ordered pair (a, b) is in the set. */
bool pair_set_has(const struct pair_set *p, uint32_t a, uint32_t b);

/* Appends normalized text (tok_prep.c): PREP_TEXT replaces characters, PREP_SPACES adds the leading
 * space and encodes spaces. first: s begins the whole text. s must be UTF-8, except for TOK_SPM and
 * TOK_UNIGRAM, which turn invalid bytes into U+FFFD. */
enum { PREP_TEXT = 1, PREP_SPACES = 2 };
/* Appends the normalized text; steps: PREP_TEXT, PREP_SPACES or both. */
void tok_prepare(const struct tok *t, const char *s, size_t n, bool first, int steps,
                 struct buf *out);

/* Build the derived tables of TOK_SPM and TOK_UNIGRAM (tok_spm.c, tok_unigram.c). */
int spm_build(struct tok *t, struct err *e);
/* Builds the trie of pieces and the range of scores. */
int unigram_build(struct tok *t, struct err *e);

#endif
