// SPDX-License-Identifier: MIT
/* tok/tok_ends.c - end tokens: the tokens that end an answer.
 *
 * There are two kinds. Listed ends are named by the files: eos_token, all ids of the eos_token_id
 * lists, the keys of a GGUF, and the marks that the chat template writes after an answer
 * (template/chat_ends.c). Usual ends are known by their text: files of other programs name one end
 * and rely on readers to know the rest. A listed end counts regardless of its text; a usual one
 * only if nothing contradicts it. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/printable.h"
#include "tok/tok_hf.h"

enum { END_LISTED = 1, END_USUAL = 2, END_NOT = 4 /* written inside answers */ };

/* ---- usual texts ----------------------------------------------------------------------------- */

#define DEEPSEEK_END                                                                               \
    "<\xef\xbd\x9c"                                                                                \
    "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>"

/* Texts at which readers of GGUF files stop. `any`: even if the vocabulary has it as an ordinary
 * token. Ordinary tokens with one of the other texts may be part of HTML or prose. */
static const struct usual {
    const char *text;
    bool any;
} usual[] = {
    {"<|eot_id|>", true},
    {"<|im_end|>", true},
    {"<|end|>", true},
    {"<|return|>", true},
    {"<|call|>", true},
    {"<|flush|>", true},
    {"<|calls|>", true},
    {"<end_of_turn>", true},
    {"<|endoftext|>", true},
    {"</s>", false},
    {"<|eom_id|>", true},
    {"<EOT>", false},
    {"_<EOT>", false},
    {"[EOT]", false},
    {"[EOS]", false},
    {"<|end_of_text|>", true},
    {"<end_of_utterance>", true},
    {"<eos>", false},
    {"<turn|>", true},
    {"<|tool_response>", true},
    {DEEPSEEK_END, true},
    {"[e~[", false},
    {"<|fim_pad|>", true},
    {"<fim-pad>", true},
    {"<fim_pad>", true},
    {"<PAD>", false},
    {"[PAD]", false},
    {"<|fim_repo|>", true},
    {"<|repo_name|>", true},
    {"<fim-repo>", true},
    {"<REPO>", false},
    {"<reponame>", false},
    {"<|file_sep|>", true},
};
enum { N_USUAL = COUNT_OF(usual) };

/* If the vocabulary has all of `with`, `not` is not an end: <|end|> closes a part of an answer in
 * the vocabularies of gpt-oss and Solar, and </s> is HTML to Gemma 4. */
static const struct {
    const char * not, *with[2];
} exceptions[] = {{"<|end|>", {"<|return|>", "<|call|>"}},
                  {"<|end|>", {"<|flush|>", "<|calls|>"}},
                  {"</s>", {"<|tool_response>", NULL}}};

/* Returns the row of the usual end tokens with this text, or -1. */
static int usual_index(const char *text) {
    if (!text || (*text != '<' && *text != '[' && *text != '_')) return -1;
    for (int i = 0; i < N_USUAL; i++)
        if (strcmp(usual[i].text, text) == 0) return i;
    return -1;
}

/* Drops candidate end tokens that are excluded by another token in the vocabulary. */
static void drop_exceptions(int64_t *id) {
    for (size_t i = 0; i < COUNT_OF(exceptions); i++) {
        bool all = true;
        for (int k = 0; k < 2 && exceptions[i].with[k]; k++)
            all = all && id[usual_index(exceptions[i].with[k])] >= 0;
        if (all) id[usual_index(exceptions[i].not )] = -1;
    }
}

void ends_find_usual(struct tok *t) {
    int64_t id[N_USUAL];
    for (int i = 0; i < N_USUAL; i++) id[i] = -1;
    for (int64_t n = 0; n < t->v.n; n++) {
        const int i = usual_index(t->v.text[n]), role = t->v.role[n];
        if (i < 0 || role == TT_UNUSED || role == TT_BYTE) continue;
        if (usual[i].any || role != TT_NORMAL) id[i] = n;
    }
    drop_exceptions(id);
    for (int i = 0; i < N_USUAL; i++)
        if (id[i] >= 0) ends_flags(t)[id[i]] |= END_USUAL;
}

/* ---- end tokens of a tokenizer ---- */

uint8_t *ends_flags(struct tok *t) {
    if (!t->end) t->end = xcalloc((size_t)t->v.n, sizeof *t->end);
    return t->end;
}

void tok_add_end(struct tok *t, int64_t id) {
    if (id < 0 || id >= t->v.n || ends_flags(t)[id] & END_LISTED) return;
    t->end[id] |= END_LISTED;
    ids_add(&t->ends, (int32_t)id);
}

void tok_not_end(struct tok *t, int64_t id) {
    if (id >= 0 && id < t->v.n) ends_flags(t)[id] |= END_NOT;
}

bool tok_is_eog(const struct tok *t, int64_t id) {
    if (id < 0 || id >= t->v.n || !t->end) return false;
    return t->end[id] & END_LISTED || (t->end[id] & (END_USUAL | END_NOT)) == END_USUAL;
}

/* Returns whether the token is one of the usual ends of an answer. */
static bool is_usual(const struct tok *t, int64_t id) {
    return t->end && (t->end[id] & END_USUAL);
}

/* ---- keys of end tokens --------------------------------------------------------------- */

void tok_set_turn_end(struct tok *t, enum tok_special s, int64_t id) {
    tok_add_end(t, id);
    if (t->special[TS_EOS] < 0) t->special[TS_EOS] = id;
    if (t->special[s] >= 0 || id == t->special[TS_EOS] || id == t->special[TS_EOT]) return;
    /* Readers find an eom with a usual text themselves, but guess the eot. */
    if (s == TS_EOT || !is_usual(t, id)) t->special[s] = id;
}

void tok_set_end_text(struct tok *t, const char *s, size_t n) {
    free(t->end_text);
    t->end_text = xstrndup(s, n);
}

const char *tok_end_text(const struct tok *t) {
    return t->end_text;
}

/* Assigns the keys eot and eom to listed ends without a key. Usual end texts need no key. */
static void fill_keys(const struct tok *t, int64_t *special) {
    static const char *const turn_ends[] = {"<|im_end|>", "<turn|>", "<|eot_id|>", "<end_of_turn>",
                                            "<|end|>"};
    for (int64_t i = 0; i < t->ends.n && special[TS_EOT] < 0; i++)
        for (size_t k = 0; k < COUNT_OF(turn_ends) && special[TS_EOT] < 0; k++)
            if (t->ends.v[i] != special[TS_EOS] &&
                strcmp(t->v.text[t->ends.v[i]], turn_ends[k]) == 0)
                special[TS_EOT] = t->ends.v[i];
    for (int64_t i = 0; i < t->ends.n; i++) {
        const int32_t id = t->ends.v[i];
        if (is_usual(t, id) || ends_keyed(special, id)) continue;
        if (special[TS_EOT] < 0)
            special[TS_EOT] = id;
        else if (special[TS_EOM] < 0)
            special[TS_EOM] = id;
    }
}

bool ends_keyed(const int64_t *special, int64_t id) {
    return id == special[TS_EOS] || id == special[TS_EOT] || id == special[TS_EOM];
}

void ends_keys(const struct tok *t, int64_t *special) {
    memcpy(special, t->special, sizeof t->special);
    fill_keys(t, special);
}

int64_t tok_ends_left(const struct tok *t, struct ids *out) {
    int64_t special[TS_COUNT], n = 0;
    ends_keys(t, special);
    for (int64_t i = 0; i < t->ends.n; i++) {
        if (is_usual(t, t->ends.v[i]) || ends_keyed(special, t->ends.v[i])) continue;
        if (out) ids_add(out, t->ends.v[i]);
        n++;
    }
    return n;
}

/* ---- the files of a folder ------------------------------------------------------------------- */

/* Returns the id given by a JSON value: a number, a number as text, or a token's text; -1: none. */
static int64_t listed_id(const struct tok *t, const struct json *j) {
    int64_t id;
    char *end;
    const char *s = json_str(j);
    if (json_i64(j, &id)) return id < 0 ? -1 : id;
    if (!s || !*s) return -1;
    id = strtoll(s, &end, 10);
    return *end ? hf_find_text(t, s) : id < 0 ? -1 : id;
}

/* Warns of a value that does not name an end. Null, false and negative numbers mean that there is
 * no end. */
static void warn_unread(const struct json *j, const char *file, const char *key) {
    struct buf b = {0};
    if (json_type(j) == JSON_NULL || json_type(j) == JSON_NUM || !json_bool(j, true)) return;
    json_write(&b, j);
    log_warn("%s: %s holds %s, which is neither an id nor a token: ignored", file, key,
             show_n(b.data, b.len).s);
    buf_release(&b);
}

/* Adds the end token that j specifies by id or text; warns if it cannot be used. */
static void add_listed(struct tok *t, const struct json *j, const char *file, const char *key) {
    const int64_t id = listed_id(t, j);
    if (id < 0)
        warn_unread(j, file, key);
    else if (id < t->v.n)
        tok_add_end(t, id);
    else
        log_warn("%s: %s holds %lld, but the vocabulary has %lld tokens: ignored", file, key,
                 (long long)id, (long long)t->v.n);
}

/* Adds an id, or lists of ids. A single id in config.json that is an ordinary token is ignored if
 * other files name an end: it is the class's default, for a different vocabulary. */
static void add_ids(struct tok *t, const struct json *j, const char *file, const char *key,
                    bool doubt) {
    const int64_t id = listed_id(t, j);
    if (json_type(j) == JSON_ARR) {
        for (const struct json *c = json_first(j); c; c = json_next(c))
            add_ids(t, c, file, key, false);
    } else if (doubt && t->ends.n && id >= 0 && id < t->v.n && t->v.role[id] == TT_NORMAL) {
        if (!(ends_flags(t)[id] & END_LISTED))
            log_warn("%s: %s is %lld, an ordinary token (\"%s\"): ignored, since other files "
                     "name what ends an answer",
                     file, key, (long long)id, t->v.text[id]);
    } else {
        add_listed(t, j, file, key);
    }
}

/* Returns the id of the added token with the text; -1 if not found or text is NULL. */
static int64_t added_id(const struct tok *t, const char *text) {
    for (int64_t id = 0; text && id < t->v.n; id++)
        if (t->v.role[id] != TT_NORMAL && strcmp(t->v.text[id], text) == 0) return id;
    return -1;
}

/* Special tokens that llama.cpp's converter assigns to families whose files do not name them. */
static const struct family {
    const char *classes[5]; /* in config.json's architectures */
    const char *bos, *unk, *eot, *eom;
} families[] = {
    {{"Glm4ForCausalLM", "Glm4vForConditionalGeneration", "GlmOcrForConditionalGeneration"},
     .bos = "<|endoftext|>",
     .unk = "<|endoftext|>",
     .eot = "<|user|>"},
    {{"Glm4MoeForCausalLM", "Glm4MoeLiteForCausalLM", "Glm4vMoeForConditionalGeneration",
      "GlmMoeDsaForCausalLM"},
     .bos = "[gMASK]",
     .unk = "<|endoftext|>",
     .eot = "<|user|>",
     .eom = "<|observation|>"},
};

/* Returns whether the model's first architecture is `name`; false for NULL. */
static bool is_class(const struct json *model, const char *name) {
    return name && hf_is(json_first(json_get(model, "architectures")), name);
}

/* Returns whether the model belongs to the family. The model_type must agree: transformers 5 also
 * saves Sarvam MoE with GLM's class. */
static bool is_family(const struct json *model, const struct family *f) {
    const char *type = json_str(json_get(model, "model_type"));
    bool is = false;
    for (size_t i = 0; i < COUNT_OF(f->classes); i++) is |= is_class(model, f->classes[i]);
    return is && (!type || strncmp(type, "glm", 3) == 0);
}

/* Sets the family's special tokens that are still unknown. */
static void add_family(struct tok *t, const struct family *f) {
    const char *const text[TS_COUNT] = {
        [TS_BOS] = f->bos, [TS_UNK] = f->unk, [TS_EOT] = f->eot, [TS_EOM] = f->eom};
    for (int s = 0; s < TS_COUNT; s++)
        if (text[s] && t->special[s] < 0) t->special[s] = added_id(t, text[s]);
}

/* Reads the ends of Hunyuan's dense models: eod_token_id ends a text, the first of two ids in
 * generation_config.json a turn. */
static void read_hunyuan(struct tok *t, const struct tok_files *f) {
    const struct json *list = json_get(f->generation, "eos_token_id");
    int64_t eod, eot;
    if (json_i64(json_get(f->model, "eod_token_id"), &eod) && eod >= 0 && eod < t->v.n &&
        t->v.role[eod] == TT_CONTROL) { /* not the class's default, which is 3, a digit or a sign */
        tok_add_end(t, t->special[TS_EOS]);
        t->special[TS_EOS] = eod;
    }
    if (json_len(list) >= 2 && json_i64(json_first(list), &eot) && eot >= 0 && eot < t->v.n &&
        eot != t->special[TS_EOS])
        t->special[TS_EOT] = eot;
}

/* Returns whether eos is an ordinary token absent from the ids of generation_config.json: a class's
 * default in config.json. */
static bool is_stale_eos(const struct tok *t, const struct json *ids) {
    const int64_t eos = t->special[TS_EOS];
    int64_t id, n = 0;
    if (eos < 0 || t->v.role[eos] != TT_NORMAL) return false;
    if (json_type(ids) == JSON_NUM) return json_i64(ids, &id) && id != eos;
    for (const struct json *c = json_first(ids); c; c = json_next(c)) {
        if (!json_i64(c, &id)) continue;
        if (id == eos) return false;
        n++;
    }
    return n > 0;
}

/* Adds the stop_strings of generation_config.json that are tokens; a file cannot store the
 * others. */
static void add_stops(struct tok *t, const struct json *list) {
    if (json_type(list) == JSON_STR) tok_add_end(t, added_id(t, json_str(list)));
    for (const struct json *c = json_first(list); c; c = json_next(c))
        tok_add_end(t, added_id(t, json_str(c)));
}

void hf_ends(struct tok *t, const struct tok_files *f) {
    static const char key[] = "eos_token_id", own[] = "tokenizer_config.json";
    const struct json *text = json_get(f->config, "eos_token");
    static const char *const parts[] = {"text_config", "language_config", "llm_config"};
    const struct json *thinker = json_get(f->model, "thinker_config");
    if (is_stale_eos(t, json_get(f->generation, key))) t->special[TS_EOS] = -1;
    tok_add_end(t, t->special[TS_EOS]);
    if (json_type(text) == JSON_ARR) add_ids(t, text, own, "eos_token", false);
    add_ids(t, json_get(f->config, key), own, key, false);
    add_ids(t, json_get(f->generation, key), "generation_config.json", key, false);
    add_stops(t, json_get(f->generation, "stop_strings"));
    add_ids(t, json_get(f->model, key), "config.json", key, true);
    for (size_t i = 0; i < COUNT_OF(parts); i++)
        add_ids(t, json_get(json_get(f->model, parts[i]), key), "config.json", key, true);
    add_ids(t, json_get(json_get(thinker, "text_config"), key), "config.json", key, true);
    if (t->special[TS_EOS] < 0 && t->ends.n) t->special[TS_EOS] = t->ends.v[0];
    for (size_t i = 0; i < COUNT_OF(families); i++)
        if (is_family(f->model, &families[i])) add_family(t, &families[i]);
    if (is_class(f->model, "HunYuanDenseV1ForCausalLM")) read_hunyuan(t, f);
    tok_add_end(t, t->special[TS_EOS]);
    tok_add_end(t, t->special[TS_EOT]);
    tok_add_end(t, t->special[TS_EOM]);
}
