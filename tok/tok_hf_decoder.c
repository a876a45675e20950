// SPDX-License-Identifier: MIT
/* tok/tok_hf_decoder.c - the decoder of a tokenizer.json. Most only undo what the normalizer and
 * the pre-tokenizer did, which tok.c does without being told. Texts that a Replace changes are
 * noted. */
#include "core/log.h"
#include "tok/tok_hf.h"

#define META "\xe2\x96\x81" /* U+2581 */

static void add_replace(struct tok *t, const struct json *j, bool whole) {
    const char *from = json_str(json_get(json_get(j, "pattern"), "String"));
    const char *to = json_str(json_get(j, "content"));
    if (from && to && strcmp(from, META) == 0 && strcmp(to, " ") == 0) return;
    if (!from || !*from || !to || t->n_replaces == MAX_REPLACES) {
        log_warn(
            "tokenizer.json: a Replace of the decoder is not applied: only texts are replaced, "
            "at most %d",
            MAX_REPLACES);
        return;
    }
    t->replace[t->n_replaces++] =
        (struct replace){arena_strdup(&t->v.arena, from), arena_strdup(&t->v.arena, to), whole};
}

/* Reads one step; *whole: the steps before have joined the tokens. */
static void read_step(struct tok *t, const struct json *j, bool *whole, int depth) {
    const struct json *type = json_get(j, "type");
    if (hf_is(type, "Sequence") && depth < 4) {
        for (const struct json *c = json_first(json_get(j, "decoders")); c; c = json_next(c))
            read_step(t, c, whole, depth + 1);
    } else if (hf_is(type, "Fuse") || hf_is(type, "ByteLevel"))
        *whole = true;
    else if (hf_is(type, "Replace"))
        add_replace(t, j, *whole);
    else if (hf_is(type, "Metaspace"))
        t->drops_first = t->kind == TOK_META && !hf_is(json_get(j, "prepend_scheme"), "never") &&
                         json_bool(json_get(j, "add_prefix_space"), true);
    else if (json_str(type) && !hf_is(type, "ByteFallback") && !hf_is(type, "Strip"))
        log_warn(
            "tokenizer.json: the decoder \"%.64s\" is not supported: text is decoded without it",
            json_str(type));
}

void hf_decoder(struct tok *t, const struct json *decoder) {
    bool whole = false;
    if (json_type(decoder) == JSON_OBJ) read_step(t, decoder, &whole, 0);
}
