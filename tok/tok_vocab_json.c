// SPDX-License-Identifier: MIT
/* tok/tok_vocab_json.c - tokenizer.json built from vocab.json and merges.txt, the files saved by
 * slow tokenizers of transformers. Their splitting and normalization are defined by the class;
 * `classes` lists the known ones. */
#include <string.h>

#include "tok/tok_hf.h"

static const struct row {
    const char *class;      /* prefix of tokenizer_class in tokenizer_config.json */
    const char *model_type; /* prefix of model_type in config.json, for folders without a class */
    const char *pre;        /* a row of pretok.def */
    const char *end;        /* special token declared by the class itself; NULL: none */
} classes[] = {
    {"Qwen2Tokenizer", "qwen2", "qwen2", NULL},
    {"Qwen2Tokenizer", "qwen3", "qwen2", NULL},
    {"GPT2Tokenizer", "gpt2", "gpt-2", "<|endoftext|>"},
    {"CodeGenTokenizer", "phi", "gpt-2", "<|endoftext|>"},
    {"RobertaTokenizer", "roberta", "gpt-2", NULL},
};

/* Returns the row of the tokenizer's class or else of the model's type; NULL if unknown. Sets *name
 * to the class, or NULL. */
static const struct row *find_class(const struct tok_files *f, const char **name) {
    const char *type = json_str(json_get(f->model, "model_type"));
    *name = json_str(json_get(f->config, "tokenizer_class"));
    for (size_t i = 0; i < COUNT_OF(classes); i++) {
        const char *is = *name ? *name : type;
        const char *want = *name ? classes[i].class : classes[i].model_type;
        if (is && strncmp(is, want, strlen(want)) == 0) return &classes[i];
    }
    return NULL;
}

/* Appends the lines of merges.txt as a JSON list, without the version line. */
static void add_merges(struct buf *out, const char *s, size_t n) {
    bool any = false;
    buf_chr(out, '[');
    for (const char *end = s + n, *at = s; at < end;) {
        const char *nl = memchr(at, '\n', (size_t)(end - at));
        size_t len = (size_t)((nl ? nl : end) - at);
        if (len && at[len - 1] == '\r') len--;
        const bool version = at == s && len >= 8 && memcmp(at, "#version", 8) == 0;
        if (len && !version) {
            if (any) buf_chr(out, ',');
            json_quote(out, at, len);
            any = true;
        }
        at = nl ? nl + 1 : end;
    }
    buf_chr(out, ']');
}

/* Appends a row's rules as a pre-tokenizer and a normalizer. */
static void add_rules(struct buf *out, const struct pretok_row *row) {
    buf_str(out, "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[");
    for (int i = 0; i < PRETOK_LEVELS && row->regex[i]; i++) {
        buf_str(out, "{\"type\":\"Split\",\"behavior\":\"Isolated\",\"pattern\":{\"Regex\":");
        json_quote(out, row->regex[i], strlen(row->regex[i]));
        buf_str(out, "}},");
    }
    buf_str(out, "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]},");
    if (row->nfc) buf_str(out, "\"normalizer\":{\"type\":\"NFC\"},");
}

int tok_json_of_vocab(struct json **out, const struct tok_files *f, const struct json *vocab,
                      const char *merges, size_t len, const char *pre, struct err *e) {
    const char *name;
    const struct row *c = find_class(f, &name);
    const struct pretok_row *row = pretok_by_name(pre ? pre : c ? c->pre : "");
    int64_t id;
    if (!row && pre) return pretok_unknown(pre, e);
    if (!row)
        return err_set(e, ERR_DATA,
                       "there are vocab.json and merges.txt, but no tokenizer.json, and the "
                       "pre-tokenizer of tokenizer class \"%.64s\" is not known: save the folder "
                       "with transformers' AutoTokenizer, which writes tokenizer.json, or name an "
                       "equivalent pre-tokenizer with --pre NAME",
                       name ? name : "(none)");
    struct buf b = {0};
    buf_str(&b, "{");
    add_rules(&b, row);
    buf_str(&b, "\"decoder\":{\"type\":\"ByteLevel\"},\"added_tokens\":[");
    if (c && c->end && json_i64(json_get(vocab, c->end), &id)) {
        buf_fmt(&b, "{\"id\":%lld,\"special\":true,\"content\":", (long long)id);
        json_quote(&b, c->end, strlen(c->end));
        buf_chr(&b, '}');
    }
    buf_str(&b, "],\"model\":{\"type\":\"BPE\",\"vocab\":");
    json_write(&b, vocab);
    buf_str(&b, ",\"merges\":");
    add_merges(&b, merges, len);
    buf_str(&b, "}}");
    int rc = json_parse(out, b.data, b.len, "vocab.json and merges.txt", e);
    buf_release(&b);
    return rc;
}
