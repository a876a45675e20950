// SPDX-License-Identifier: MIT
/* tok/tok_hf_decoder.c - decoder of a tokenizer.json. Most decoders only undo the normalizer and
 * the pre-tokenizer, which tok_decode.c does anyway. This file reads the Replace steps and whether
 * the space that encoding adds is removed. */
#include "base/log.h"
#include "tok/tok_hf.h"

struct steps {  /* effects of the steps so far */
    bool whole; /* the tokens were joined */
    bool one;   /* one leading space was removed */
    bool meta;  /* there was a Metaspace, which removes the space itself */
    int n_other;
};

/* Returns s as it appears in decoded text: with spaces for U+2581, or with the byte alphabet
 * decoded. */
static const char *respell(struct tok *t, const char *s, bool whole) {
    struct buf b = {0};
    if (tok_has_meta(t))
        tok_decode_meta(s, strlen(s), &b);
    else if (!whole)
        tok_decode_alphabet(s, strlen(s), &b);
    const char *out = arena_strdup(&t->v.arena, b.data ? b.data : s);
    buf_release(&b);
    return out;
}

/* Adds a decoder's replacement, converted to the spelling of decoded text. */
static void read_replace(struct tok *t, const struct json *j, struct steps *done) {
    const struct json *pattern = json_get(j, "pattern");
    const char *text = json_str(json_get(pattern, "String"));
    const char *regex = json_str(json_get(pattern, "Regex")),
               *to = json_str(json_get(j, "content"));
    if (!to || !(text || regex)) {
        log_warn("tokenizer.json: a Replace of the decoder has no pattern or no content");
        return;
    }
    const char *from = respell(t, text ? text : regex, done->whole);
    to = respell(t, to, done->whole);
    if (strcmp(from, to) != 0) tok_add_replace(t, from, to, done->whole, !text);
}

/* Reads a Strip step. The published ones only remove the space that encoding adds, in vocabularies
 * with U+2581. False: any other Strip. */
static bool read_strip(const struct tok *t, const struct json *j, struct steps *done) {
    int64_t start = 0, stop = 0;
    (void)json_i64(json_get(j, "start"), &start);
    (void)json_i64(json_get(j, "stop"), &stop);
    if (stop || start > 1 || (start && !hf_is(json_get(j, "content"), " "))) return false;
    if (start && !tok_has_meta(t)) return false;
    done->one = done->one || start;
    return true;
}

/* Reads one step of the decoder, including the steps of a sequence, up to four levels deep. */
static void read_step(struct tok *t, const struct json *j, struct steps *done, int depth) {
    const struct json *type = json_get(j, "type");
    if (hf_is(type, "Sequence") && depth < 4) {
        for (const struct json *c = json_first(json_get(j, "decoders")); c; c = json_next(c))
            read_step(t, c, done, depth + 1);
    } else if (hf_is(type, "Fuse") || hf_is(type, "ByteLevel"))
        done->whole = true;
    else if (hf_is(type, "Replace"))
        read_replace(t, j, done);
    else if (hf_is(type, "Metaspace")) {
        done->meta = !hf_is(json_get(j, "prepend_scheme"), "never") &&
                     json_bool(json_get(j, "add_prefix_space"), true);
        /* In a vocabulary of single words, U+2581 only begins a piece. */
        const bool words = t->kind == TOK_UNIGRAM && t->split_words;
        t->drops_first = t->kind != TOK_SPM && !words && done->meta;
    } else if (!hf_is(type, "ByteFallback") && !(hf_is(type, "Strip") && read_strip(t, j, done))) {
        done->n_other++;
        log_warn("tokenizer.json: the decoder \"%.64s\" is not supported: text is decoded without "
                 "it",
                 json_str(type) ? json_str(type) : "(without type)");
    }
}

void hf_decoder(struct tok *t, const struct json *decoder) {
    struct steps done = {0};
    if (json_type(decoder) != JSON_OBJ) return;
    read_step(t, decoder, &done, 0);
    if (tok_has_meta(t) && !done.meta && !done.n_other && done.one != tok_strips_added(t))
        t->strips = done.one ? STRIPS_ONE : STRIPS_NOTHING;
}
