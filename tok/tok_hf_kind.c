// SPDX-License-Identifier: MIT
/* tok/tok_hf_kind.c - tokenizer detection from tokenizer.json: the model's type, the steps of its
 * normalizer, and the regexes or the Metaspace of its pre-tokenizer. */
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "text/base64.h"
#include "tok/tok_hf.h"

#define META "\xe2\x96\x81" /* U+2581 */
#define WITHOUT "; if the model was trained without it, remove it from tokenizer.json"

/* ---- normalizer ------------------------------------------------------------------------------ */

struct norm {
    enum utf8_form form;
    bool meta, prepend, strip_right, squeeze;
    const char *charsmap; /* base64 */
    const char *unknown;  /* name of the first unknown step */
};

/* Returns whether j is a rule of this kind that replaces the pattern `from` by `to`. */
static bool is_replace_rule(const struct json *j, const char *kind, const char *from,
                            const char *to) {
    return hf_is(json_get(json_get(j, "pattern"), kind), from) && hf_is(json_get(j, "content"), to);
}

/* Returns the form of text that is normalized to one form and then to another: the last one
 * decides whether it is composed, and either can make it compatible. */
static enum utf8_form form_after(enum utf8_form first, enum utf8_form last) {
    const bool composed = last == UTF8_NFC || last == UTF8_NFKC;
    const bool compatible = first >= UTF8_NFKC || last >= UTF8_NFKC;
    if (compatible) return composed ? UTF8_NFKC : UTF8_NFKD;
    return composed ? UTF8_NFC : UTF8_NFD;
}

/* Records the effects of a normalizer or of a sequence of them; keeps the first unknown one. */
static void look_at_norm(const struct json *j, int depth, struct norm *n) {
    const struct json *type = json_get(j, "type");
    if (json_type(j) == JSON_NULL) return;
    if (hf_is(type, "Sequence") && depth < 4) {
        for (const struct json *c = json_first(json_get(j, "normalizers")); c; c = json_next(c))
            look_at_norm(c, depth + 1, n);
    } else if (utf8_form_of(json_str(type)))
        n->form = form_after(n->form, utf8_form_of(json_str(type)));
    else if (hf_is(type, "Replace") && is_replace_rule(j, "String", " ", META))
        n->meta = true;
    else if (hf_is(type, "Replace") && (is_replace_rule(j, "Regex", " {2,}", " ") ||
                                        is_replace_rule(j, "Regex", " {2,}", META)))
        n->squeeze = true;
    else if (hf_is(type, "Prepend") && hf_is(json_get(j, "prepend"), META))
        n->prepend = true;
    else if (hf_is(type, "Strip") && !json_bool(json_get(j, "strip_left"), true))
        n->strip_right = json_bool(json_get(j, "strip_right"), true);
    else if (hf_is(type, "Precompiled") && json_str(json_get(j, "precompiled_charsmap")))
        n->charsmap = json_str(json_get(j, "precompiled_charsmap"));
    else if (!n->unknown)
        n->unknown = json_str(type) ? json_str(type) : "(without type)";
}

/* Reads SentencePiece's character map from base64; ignores an empty one. */
static int read_charsmap(struct tok *t, const char *b64, struct err *e) {
    size_t cap = strlen(b64) / 4 * 3 + 3;
    char *blob = xmalloc(cap);
    int64_t n = base64_decode(b64, blob, cap);
    int rc = n > 0   ? charsmap_new(&t->prep.map, blob, (size_t)n, "tokenizer.json", e)
             : n < 0 ? err_set(e, ERR_DATA, "tokenizer.json: precompiled_charsmap is not base64")
                     : 0;
    free(blob);
    return rc;
}

/* ---- pre-tokenizer --------------------------------------------------------------------------- */

struct found { /* steps of the pre_tokenizer tree */
    const struct json *byte_level, *metaspace;
    const char *regex[PRETOK_LEVELS]; /* in the order of application */
    int n_regexes, n_others;
    bool cut_before;    /* text is in pieces before ByteLevel sees it */
    bool white_split;   /* split into words, dropping white space between them */
    int n_space;        /* regexes that split after spaces */
    struct buf regexes; /* regexes for messages */
    struct buf other;   /* first unsupported step */
    struct arena arena; /* composed regexes */
};

static void found_release(struct found *f) {
    buf_release(&f->regexes);
    buf_release(&f->other);
    arena_release(&f->arena);
}

/* Records an unsupported step. */
static void add_other(struct found *f, const char *step, const char *how) {
    if (!f->n_others++) buf_fmt(&f->other, "%.64s%s%.64s", step, how ? " " : "", how ? how : "");
}

/* Records an expression; too many make the tokenizer unsupported. */
static void add_regex(struct found *f, const char *re) {
    if (re) buf_fmt(&f->regexes, "%s%.300s", f->n_regexes ? "  and  " : "", re);
    if (re && f->n_regexes < PRETOK_LEVELS)
        f->regex[f->n_regexes++] = re;
    else
        add_other(f, "Split", "(too many)");
}

/* Adds a composed regex, copied into f->arena. */
static void add_made(struct found *f, const char *head, const char *re, const char *tail) {
    struct buf b = {0};
    buf_fmt(&b, "%s%s%s", head, re, tail);
    add_regex(f, arena_strdup(&f->arena, b.data));
    buf_release(&b);
}

/* Adds a Split with one of the library's behaviours. Each behaviour that keeps the whole text
 * equals "Isolated" with a different regex. */
static void add_matches(struct found *f, const char *re, const char *behavior, bool invert) {
    if (strcmp(behavior, "Isolated") == 0)
        add_regex(f, re); /* inverted: the same pieces */
    else if (strcmp(behavior, "Removed") == 0 && invert && pretok_covers(re))
        add_regex(f, re); /* drops the text between matches, which is empty */
    else if (invert || strcmp(behavior, "Removed") == 0)
        add_other(f, "Split", invert ? "(inverted)" : "Removed");
    else if (strcmp(behavior, "Contiguous") == 0)
        add_made(f, "(?:", re, ")+");
    else if (strcmp(behavior, "MergedWithPrevious") == 0) {
        struct buf head = {0};
        buf_fmt(&head, "(?:(?!%s)(?:.|\\n))*(?:", re);
        add_made(f, head.data, re, ")");
        buf_release(&head);
    } else if (strcmp(behavior, "MergedWithNext") == 0) {
        struct buf tail = {0};
        buf_fmt(&tail, ")(?:(?!%s)(?:.|\\n))*", re);
        add_made(f, "(?:", re, tail.data);
        buf_release(&tail);
    } else
        add_other(f, "Split", behavior);
}

/* Appends a regex that matches the text literally. */
static void quote_regex(struct buf *out, const char *s) {
    for (; *s; s++) {
        if (strchr(PRETOK_SPECIAL, *s)) buf_chr(out, '\\');
        buf_chr(out, *s);
    }
}

/* Returns whether a regex matches only printable ASCII, which the byte alphabet spells as it is. */
static bool only_ascii(const char *re) {
    return re && strspn(re, "0123456789[]-+{},") == strlen(re);
}

/* Records the expression and behavior of a Split step. */
static void look_at_split(const struct json *j, struct found *f) {
    const struct json *pattern = json_get(j, "pattern");
    const char *behavior = json_str(json_get(j, "behavior"));
    const char *text = json_str(json_get(pattern, "String"));
    const char *re = json_str(json_get(pattern, "Regex"));
    struct buf quoted = {0};
    if (f->byte_level && !only_ascii(re)) add_other(f, "Split", "after ByteLevel");
    if (text) quote_regex(&quoted, text);
    if (text && strcmp(text, " ") == 0 && behavior && strcmp(behavior, "MergedWithPrevious") == 0)
        f->n_space++;
    if (!behavior || !(text ? *text : re ? *re : 0))
        add_other(f, "Split", "without pattern or behavior");
    else
        add_matches(f, text ? arena_strdup(&f->arena, quoted.data) : re, behavior,
                    json_bool(json_get(j, "invert"), false));
    buf_release(&quoted);
}

/* Records the effects of a pre-tokenizer or of a sequence of them. */
static void look_at_pre(const struct json *j, int depth, struct found *f) {
    const struct json *type = json_get(j, "type");
    const char *behavior = json_str(json_get(j, "behavior"));
    if (json_type(j) == JSON_NULL) return;
    if (hf_is(type, "Sequence") && depth < 4) {
        const struct json *c = json_first(json_get(j, "pretokenizers"));
        for (; c; c = json_next(c)) look_at_pre(c, depth + 1, f);
    } else if (hf_is(type, "ByteLevel")) {
        if (f->byte_level) add_other(f, "ByteLevel", "after ByteLevel");
        f->byte_level = j;
        f->cut_before = f->n_regexes || f->white_split || f->metaspace;
        if (json_bool(json_get(j, "use_regex"), true))
            add_regex(f, pretok_by_name("gpt-2")->regex[0]);
    } else if (hf_is(type, "Digits")) {
        /* After ByteLevel it sees the byte alphabet, in which the bytes B2, B3, B9 and BC to BE are
         * numeric too. They stay with their neighbours, because text is split between characters.
         */
        const char *each = f->byte_level ? "[0-9]" : "\\p{N}";
        const char *runs = f->byte_level ? "[0-9]+" : "\\p{N}+";
        add_regex(f, json_bool(json_get(j, "individual_digits"), false) ? each : runs);
    } else if (hf_is(type, "Punctuation") && f->byte_level) {
        add_other(f, "Punctuation", "after ByteLevel");
    } else if (hf_is(type, "Punctuation") && hf_is(json_get(j, "behavior"), "Contiguous")) {
        add_regex(f, PRETOK_PUNCTUATION);
    } else if (hf_is(type, "Punctuation")) {
        add_matches(f, PRETOK_PUNCTUATION_ONE, behavior ? behavior : "Isolated", false);
    } else if (hf_is(type, "Split")) {
        look_at_split(j, f);
    } else if (hf_is(type, "Metaspace") && hf_is(json_get(j, "replacement"), META)) {
        f->metaspace = j;
    } else if (hf_is(type, "WhitespaceSplit")) {
        f->white_split = true;
    } else {
        add_other(f, json_str(type) ? json_str(type) : "(without type)", NULL);
    }
}

/* Returns why the first regex that cannot be translated cannot be; NULL: all can. */
static const char *not_spelled(const struct found *f) {
    const char *why = NULL;
    for (int i = 0; !why && !f->n_others && i < f->n_regexes; i++) {
        struct buf spelled = {0};
        why = pretok_spell(&spelled, f->regex[i]);
        buf_release(&spelled);
    }
    return why;
}

/* Appends the names of the rows that are nearest to the regexes; without a regex, of all rows. */
static void list_rows(const struct found *f, struct buf *names) {
    if (f->n_regexes)
        pretok_nearest(f->regex, f->n_regexes, names);
    else
        pretok_names(names);
}

/* Sets ERR_DATA about a step that text with U+2581 for spaces cannot have. */
static int not_with_meta(const struct found *f, struct err *e) {
    if (f->byte_level)
        return err_set(e, ERR_DATA,
                       "tokenizer.json: step ByteLevel is supported only in BPE without U+2581 for "
                       "spaces");
    return err_set(e, ERR_DATA,
                   "tokenizer.json: %s %s is not supported in a vocabulary with U+2581 for "
                   "spaces" WITHOUT,
                   f->n_others ? "step" : "split regex",
                   f->n_others ? f->other.data : f->regexes.data);
}

/* Sets ERR_DATA about a vocabulary that spells spaces neither as bytes nor as U+2581. */
static int no_spaces(const struct tok *t, const struct found *f, struct err *e) {
    struct buf names = {0};
    if (t->kind == TOK_BYTES) {
        buf_str(&names, "; if this one spells bytes as ByteLevel does, name the way it splits text "
                        "with --pre NAME, one of ");
        list_rows(f, &names);
    }
    err_set(e, ERR_DATA,
            "tokenizer.json: there is neither a ByteLevel nor a Metaspace step, and no normalizer "
            "replaces spaces by U+2581: only vocabularies that spell text in one of these ways are "
            "supported%s",
            names.data ? names.data : "");
    buf_release(&names);
    return ERR_DATA;
}

/* Sets ERR_DATA about an unknown pre-tokenizer, listing the nearest known names. */
static int unknown_pre(const struct found *f, struct err *e) {
    struct buf names = {0};
    const char *why = not_spelled(f);
    list_rows(f, &names);
    err_set(e, ERR_DATA,
            "tokenizer.json: pre-tokenizer with %s %s is not %s%s%s; if it works like one of %s%s, "
            "name that with --pre NAME",
            f->n_others ? "step" : "split regex",
            f->n_others    ? f->other.data
            : f->n_regexes ? f->regexes.data
                           : "(none)",
            f->n_others ? "supported" : "known", why ? " and " : "", why ? why : "",
            f->n_regexes ? "the nearest, " : "", names.data);
    buf_release(&names);
    return ERR_DATA;
}

/* ---- names ----------------------------------------------------------------------------------- */

/* The alias that llama.cpp's converter writes for a model, if a row has several. */
static const struct {
    const char *model_type; /* prefix of config.json's model_type */
    const char *pre;
} pre_names[] = {
    {"bailing_moe_v2", "bailingmoe2"},
    {"chatglm", "chatglm-bpe"},
    {"codeshell", "codeshell"},
    {"cohere2_moe", "cohere2moe"},
    {"cohere", "command-r"},
    {"exaone4", "exaone4"},
    {"exaone", "exaone"},
    {"falcon_h1", "falcon-h1"},
    {"glm", "glm4"},
    {"granite", "refact"},
    {"hunyuan", "hunyuan"},
    {"hunyuan", "hunyuan-dense"},
    {"jais", "jais"},
    {"joyai", "joyai-llm"},
    {"kormo", "kormo"},
    {"lfm2", "lfm2"},
    {"llada_moe", "llada-moe"},
    {"llama4", "llama4"},
    {"mellum", "mellum2"},
    {"mellum", "mellum"},
    {"megrez", "megrez"},
    {"minimax_m2", "minimax-m2"},
    {"modernbert", "modern-bert"},
    {"olmo", "olmo"},
    {"phi", "phi-2"},
    {"refact", "refact"},
    {"roberta", "roberta-bpe"},
    {"solar_open", "solar-open"},
    {"starcoder2", "starcoder"},
    {"trillion", "trillion"},
};

/* Returns the pre-tokenizer's name for GGUF: the model family's own if it has one, otherwise the
 * row's. */
static const char *pre_name(const struct pretok_row *row, const struct json *model_config) {
    const char *type = json_str(json_get(model_config, "model_type"));
    const char *inner = json_str(json_get(json_get(model_config, "text_config"), "model_type"));
    if (inner) type = inner;
    for (size_t i = 0; type && i < COUNT_OF(pre_names); i++)
        if (strncmp(type, pre_names[i].model_type, strlen(pre_names[i].model_type)) == 0 &&
            pretok_by_name(pre_names[i].pre) == row)
            return pre_names[i].pre;
    return row->name;
}

/* ---- decisions ------------------------------------------------------------------------------- */

/* Sets the row by its name; an error if the name is unknown. */
static int named_pre(struct tok *t, const char *pre, struct err *e) {
    t->row = pretok_by_name(pre);
    return t->row ? 0 : pretok_unknown(pre, e);
}

/* Uses the row with these regexes, or one that splits in the same way. Otherwise the regexes run
 * unchanged, and other programs are given the name of the most similar row. */
static void by_regexes(struct tok *t, const struct found *f) {
    const bool nfc = t->prep.form == UTF8_NFC;
    t->row = pretok_by_regexes(f->regex, f->n_regexes, nfc, t->ignore_merges);
    if (t->row) return;
    t->row = pretok_by_behaviour(f->regex, f->n_regexes, nfc, t->ignore_merges);
    if (t->row) return;
    t->row = pretok_most_like(f->regex, f->n_regexes, nfc, t->ignore_merges);
    for (int i = 0; t->row && i < f->n_regexes; i++)
        t->own_regex[i] = arena_strdup(&t->v.arena, f->regex[i]);
    if (t->row) t->n_own = f->n_regexes;
}

/* Finds the row of a byte-level tokenizer. pre: its name, or NULL to compare expressions. */
static int recognise_bytes(struct tok *t, const struct found *f, const char *pre, struct err *e) {
    if (pre)
        TRY(named_pre(t, pre, e));
    else if (!f->n_others && f->n_regexes && !f->white_split && !f->metaspace)
        by_regexes(t, f);
    if (!t->row) return unknown_pre(f, e);
    t->pre = t->row->name;
    if (json_bool(json_get(f->byte_level, "add_prefix_space"), false)) {
        if (f->cut_before)
            return err_set(e, ERR_DATA,
                           "tokenizer.json: add_prefix_space is true in a ByteLevel step after a "
                           "split, which puts a space before every piece that lacks one: not "
                           "supported; if the model was trained without these spaces, set it to "
                           "false");
        t->prep.prefix = PREFIX_EACH;
    }
    t->prep.prefix_unless = true;
    return 0;
}

/* Reads the rule for a space before the text; returns whether text is split at spaces. */
static bool read_metaspace(const struct json *j, struct prep *p) {
    const struct json *scheme = json_get(j, "prepend_scheme");
    p->prefix_unless = true;
    p->prefix = !json_bool(json_get(j, "add_prefix_space"), true) || hf_is(scheme, "never")
                    ? PREFIX_NONE
                : hf_is(scheme, "first") ? PREFIX_FIRST
                                         : PREFIX_EACH;
    return json_bool(json_get(j, "split"), true);
}

/* Sets the rules for spaces from the normalizer and the pre-tokenizer. */
static void read_spaces(struct tok *t, const struct norm *n, const struct found *f) {
    struct prep *p = &t->prep;
    p->prepend = n->prepend;
    if (f->metaspace) t->split_words = read_metaspace(f->metaspace, p);
    if (n->prepend) p->prefix = PREFIX_EACH;
    if (n->prepend && f->metaspace) p->prefix_unless = false; /* already added */
    p->squeeze = n->squeeze || f->white_split;
    p->runs_only = n->squeeze && n->strip_right;
}

/* Returns whether this is Gemma 4, the only model whose readers expect merges over U+2581. */
static bool is_gemma4(const struct tok *t, const struct json *model_config) {
    const char *type = json_str(json_get(model_config, "model_type"));
    return t->prep.prefix == PREFIX_NONE && (!type || strncmp(type, "gemma4", 6) == 0);
}

/* Sets ERR_DATA about a normalizer and returns it. */
static int unknown_norm(const char *what, struct err *e) {
    return err_set(e, ERR_DATA,
                   "tokenizer.json: normalizer \"%.64s\" is not supported: only NFC, NFD, NFKC, "
                   "NFKD, those of SentencePiece, and none are" WITHOUT,
                   what);
}

/* Returns the first of SentencePiece's steps that a byte-level vocabulary cannot have; NULL: none.
 */
static const char *not_for_bytes(const struct norm *n) {
    return n->charsmap      ? "Precompiled"
           : n->squeeze     ? "Replace"
           : n->strip_right ? "Strip"
           : n->prepend     ? "Prepend"
                            : NULL;
}

/* Decides between byte-level and U+2581 vocabularies, and reads their rules; pre may be NULL. */
static int decide_kind(struct tok *t, const struct norm *n, const struct found *f,
                       const struct json *model_config, const char *pre, struct err *e) {
    bool meta = n->meta || f->metaspace;
    if (n->unknown) return unknown_norm(n->unknown, e);
    t->prep.form = n->form;
    if (pre && strcmp(pre, "gemma4") == 0) {
        t->kind = TOK_META;
        return 0;
    }
    if (t->kind == TOK_BYTES && (pre || (f->byte_level && !meta))) {
        const char *step = not_for_bytes(n);
        if (!step) return recognise_bytes(t, f, pre, e);
        return err_set(e, ERR_DATA,
                       "tokenizer.json: normalizer \"%s\" is not supported in a byte-level "
                       "vocabulary: only NFC, NFD, NFKC, NFKD and none are" WITHOUT,
                       step);
    }
    if (!meta && !f->byte_level) return no_spaces(t, f, e);
    if (!meta || f->byte_level || f->n_others || f->n_regexes > f->n_space)
        return not_with_meta(f, e);
    /* Alone it would also strip other white space. */
    if (n->strip_right && !n->squeeze && !f->white_split)
        return err_set(e, ERR_DATA,
                       "tokenizer.json: normalizer \"Strip\" is supported only with a Replace of "
                       "\" {2,}\"" WITHOUT);
    if (t->kind == TOK_BYTES) {
        if (n->charsmap || n->squeeze || f->white_split)
            return unknown_norm("Precompiled or Replace", e);
        t->kind = TOK_META;
    }
    if (f->white_split && !n->charsmap)
        return err_set(e, ERR_DATA,
                       "tokenizer.json: pre-tokenizer WhitespaceSplit is supported only with "
                       "SentencePiece's normalizer, which makes spaces of other white space");
    read_spaces(t, n, f);
    if (t->kind == TOK_META) t->model = is_gemma4(t, model_config) ? "gemma4" : "llama";
    return n->charsmap ? read_charsmap(t, n->charsmap, e) : 0;
}

/* Returns whether the transformers class sets add_prefix_space from tokenizer_config.json rather
 * than from tokenizer.json. */
static bool class_adds_space(const struct json *config) {
    static const char *const names[] = {"GPT2Tokenizer", "GPTNeoXTokenizer", "CodeGenTokenizer",
                                        "RobertaTokenizer"};
    const char *class = json_str(json_get(config, "tokenizer_class"));
    for (size_t i = 0; class && i < COUNT_OF(names); i++)
        if (strncmp(class, names[i], strlen(names[i])) == 0) return true;
    return false;
}

int hf_recognise(struct tok *t, const struct tok_files *files, const char *pre, struct err *e) {
    struct norm n = {0};
    struct found f = {0};
    look_at_norm(json_get(files->tokenizer, "normalizer"), 0, &n);
    look_at_pre(json_get(files->tokenizer, "pre_tokenizer"), 0, &f);
    int rc = decide_kind(t, &n, &f, files->model, pre, e);
    if (!rc && t->kind == TOK_BYTES && class_adds_space(files->config))
        t->prep.prefix = json_bool(json_get(files->config, "add_prefix_space"), false)
                             ? PREFIX_EACH
                             : PREFIX_NONE;
    if (!rc && t->row && !pre && !t->n_own) t->pre = pre_name(t->row, files->model);
    found_release(&f);
    return rc;
}

bool hf_like_sentencepiece(const struct json *tokenizer) {
    struct found f = {0};
    look_at_pre(json_get(tokenizer, "pre_tokenizer"), 0, &f);
    bool bytes = f.byte_level != NULL;
    found_release(&f);
    return !bytes;
}

bool hf_prefix(const struct json *tokenizer, struct prep *out) {
    struct norm n = {0};
    struct found f = {0};
    look_at_norm(json_get(tokenizer, "normalizer"), 0, &n);
    look_at_pre(json_get(tokenizer, "pre_tokenizer"), 0, &f);
    bool says = n.prepend || f.metaspace || n.meta;
    if (n.prepend) out->prefix = PREFIX_EACH;
    out->prepend = n.prepend;
    if (f.metaspace) (void)read_metaspace(f.metaspace, out);
    out->prefix_unless = false; /* SentencePiece always adds it */
    found_release(&f);
    return says;
}
