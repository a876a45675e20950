// SPDX-License-Identifier: MIT
/* tests/unit/test_tok_sp.c - SentencePiece tokenizers: which file of a folder takes precedence, the
 * keys that are written, invalid files, and long runs. Ids: test_tok_families.c. */
#include "tests/unit/test_tok_families.h"

#include "base/hash.h"
#include "tok/tok_hf.h"

static struct strs strings;

static struct tok *build(const struct tok_files *f, int64_t n_vocab) {
    struct err e = {0};
    struct tok *t = NULL;
    CHECK_OK(tok_from_files(&t, f, n_vocab, NULL, &e));
    return t;
}

/* Returns how many strings have ids that differ from those recorded by the family's library.
 * no_space: only strings that do not begin with a space count. */
static int n_other(const struct tok *t, const struct family *f, bool no_space) {
    struct err e = {0};
    const struct json *want = json_first(json_get(f->root, "ids"));
    int n = 0;
    for (size_t i = 0; i < strings.n; i++, want = json_next(want)) {
        struct ids got = {0};
        bool space = strings.v[i][0] == ' ' || strncmp(strings.v[i], "\xe2\x96\x81", 3) == 0;
        if (json_type(want) != JSON_ARR || (no_space && space)) continue;
        CHECK_OK(tok_encode(t, strings.v[i], strings.len[i], true, false, &got, &e));
        n += !same_ids(&got, want);
        ids_release(&got);
    }
    return n;
}

/* ---- which file speaks ----------------------------------------------------------------------- */

static void test_files(void) {
    struct family json, other;
    family_open(&json, "tinyllama.json.gz");
    family_open(&other, "mixtral.json.gz");
    struct tok_files both = json.files;
    both.sp = other.files.sp; /* different tokens: tokenizer.json is used */
    both.sp_len = other.files.sp_len;
    struct tok *t = build(&both, 0);
    if (t) CHECK_EQ_I64(n_other(t, &json, false), 0);
    tok_free(t);
    both.sp = "IQ== 0\nIg== 1\n"; /* a tokenizer.model written by another program */
    both.sp_len = strlen(both.sp);
    t = build(&both, 0);
    if (t) CHECK_EQ_I64(n_other(t, &json, false), 0);
    tok_free(t);
    family_close(&json);
    family_open(&json, "qwen2.json.gz"); /* byte-level: the SentencePiece file is unrelated */
    both = json.files;
    both.sp = other.files.sp;
    both.sp_len = other.files.sp_len;
    t = build(&both, 0);
    if (t) CHECK_EQ_STR(tok_pre(t), "qwen2");
    tok_free(t);
    family_close(&json);
    family_close(&other);
}

/* Returns a copy of a tokenizer.model with its first n pieces only. */
static char *first_pieces(const struct tok_files *f, int n, size_t *len) {
    char *out = xmalloc(f->sp_len);
    size_t at = 0;
    *len = 0;
    while (at < f->sp_len && f->sp[at] == 0x0a) { /* a piece; its length takes one byte */
        const size_t size = 2 + (size_t)(unsigned char)f->sp[at + 1];
        memcpy(out + *len, f->sp + at, n > 0 ? size : 0);
        *len += n-- > 0 ? size : 0;
        at += size;
    }
    memcpy(out + *len, f->sp + at, f->sp_len - at);
    *len += f->sp_len - at;
    return out;
}

/* Tests a tokenizer.json that was extended, next to the tokenizer.model that it began with: ids are
 * those of the tokenizers library, and no row is padding. */
static void test_extended(void) {
    struct family json, sp;
    family_open(&json, "tinyllama.json.gz");
    family_open(&sp, "both-files.json.gz"); /* the same pieces */
    struct tok_files both = json.files;
    char *old = first_pieces(&sp.files, 700, &both.sp_len);
    both.sp = old;
    struct tok *t = build(&both, 900);
    if (t) CHECK_EQ_I64(n_other(t, &json, false), 0);
    for (int64_t id = 0; t && id < 900; id++) CHECK(tok_type(t, id) != TT_UNUSED);
    tok_free(t);
    free(old);
    family_close(&json);
    family_close(&sp);
}

/* Tests "legacy": false, which adds the space only before the whole text, like Metaspace "first"
 * (which adds none before a space). The pieces of the two families are the same. */
static void test_legacy(void) {
    struct err e = {0};
    struct family sp, first;
    struct json *config = NULL;
    static const char text[] = "{\"legacy\":false}";
    CHECK_OK(json_parse(&config, text, sizeof text - 1, "config", &e));
    family_open(&sp, "llama-2.json.gz");
    family_open(&first, "llama-2-new.json.gz");
    struct tok *t = build(&sp.files, 0);
    if (t) CHECK(n_other(t, &first, true) > 0);
    tok_free(t);
    sp.files.config = config;
    t = build(&sp.files, 0);
    if (t) {
        CHECK_EQ_I64(n_other(t, &first, true), 0);
        struct tok *g = tok_through_gguf(t);
        if (g) CHECK_EQ_I64(n_other(g, &first, true), 0);
        tok_free(g);
    }
    tok_free(t);
    json_free(config);
    family_close(&sp);
    family_close(&first);
}

/* Tests added tokens without tokenizer.json: types and scores follow the rules of llama.cpp's
 * converter. */
static void test_added(void) {
    struct err e = {0};
    struct family f;
    struct json *added = NULL, *config = NULL;
    static const char a[] = "{\"<more>\":900,\"<unused>\":902}";
    static const char c[] =
        "{\"added_tokens_decoder\":{\"1\":{\"content\":\"<s>\",\"special\":true},"
        "\"901\":{\"content\":\"<|x|>\",\"special\":false,\"rstrip\":true},"
        "\"903\":{\"content\":\"<y>\",\"special\":false}}}";
    CHECK_OK(json_parse(&added, a, sizeof a - 1, "added", &e));
    CHECK_OK(json_parse(&config, c, sizeof c - 1, "config", &e));
    family_open(&f, "llama-2.json.gz");
    f.files.added = added;
    struct tok *t = build(&f.files, 905);
    if (t) {
        CHECK_EQ_I64(tok_n_vocab(t), 905);
        CHECK_EQ_I64(tok_type(t, 900), TT_USER);
        CHECK_EQ_I64(tok_type(t, 901), TT_UNUSED);
        CHECK_EQ_I64(tok_type(t, 904), TT_UNUSED);
        CHECK_EQ_STR(tok_text(t, 904, NULL), "[PAD904]");
        char ids[64]; /* the space in front stays */
        snprintf(ids, sizeof ids, "%d 900 902", (int)tok_find(t, "\xe2\x96\x81"));
        check_ids(t, "<more><unused>", ids);
        CHECK_EQ_I64(tok_special(t, TS_BOS), 1);
        CHECK_EQ_I64(tok_special(t, TS_EOS), 2);
        CHECK(tok_add_bos(t));
    }
    tok_free(t);
    f.files.config = config;
    t = build(&f.files, 0);
    if (t) {
        CHECK_EQ_I64(tok_n_vocab(t), 904);
        CHECK_EQ_I64(tok_type(t, 1), TT_CONTROL);
        CHECK_EQ_I64(tok_type(t, 901), TT_CONTROL); /* looks like one */
        CHECK_EQ_I64(tok_type(t, 903), TT_USER);
        CHECK_EQ_I64(tok_type(t, 900), TT_USER); /* added_tokens.json is read too */
        check_ids(t, "<|x|>  <y><s>", "901 903 1");
    }
    tok_free(t);
    json_free(added);
    json_free(config);
    family_close(&f);
}

/* Checks that an empty bos_token means that the tokenizer has no BOS token. */
static void test_no_bos(void) {
    struct err e = {0};
    struct family f;
    struct json *config = NULL, *model = NULL;
    static const char c[] = "{\"bos_token\":\"\"}", m[] = "{\"bos_token_id\":5}";
    CHECK_OK(json_parse(&config, c, sizeof c - 1, "config", &e));
    CHECK_OK(json_parse(&model, m, sizeof m - 1, "model", &e));
    family_open(&f, "llama-2.json.gz");
    f.files.config = config;
    f.files.model = model;
    struct tok *t = build(&f.files, 0);
    if (t) CHECK_EQ_I64(tok_special(t, TS_BOS), -1);
    if (t) CHECK(!tok_add_bos(t));
    tok_free(t);
    json_free(config);
    json_free(model);
    family_close(&f);
}

/* ---- keys ------------------------------------------------------------------------------------ */

static struct gguf *keys_of(const struct tok *t, char *path) {
    struct err e = {0};
    struct gguf *g = NULL;
    int fd = mkstemp(path);
    if (fd >= 0) close(fd);
    struct gguf_w *w = gguf_w_new();
    tok_to_gguf(t, w);
    gguf_w_str(w, "general.architecture", "none");
    CHECK_OK(gguf_w_begin(w, path, true, &e));
    CHECK_OK(gguf_w_commit(w, &e));
    gguf_w_free(w);
    CHECK_OK(gguf_open(&g, path, 0, &e));
    CHECK_OK(gguf_check_tokenizer(g, &e));
    return g;
}

/* Hashes tokens, scores and types for comparison with gguf-py, which does not support user-defined
 * pieces. */
static void list_hash(const struct gguf *g, char hex[65]) {
    struct sha256 sha;
    const struct gguf_kv *tokens = gguf_find(g, "tokenizer.ggml.tokens");
    const struct gguf_kv *scores = gguf_find(g, "tokenizer.ggml.scores");
    const struct gguf_kv *types = gguf_find(g, "tokenizer.ggml.token_type");
    const uint8_t *pos = tokens ? tokens->data : NULL;
    struct buf b = {0};
    sha256_init(&sha);
    for (uint64_t i = 0; tokens && scores && types && i < tokens->count; i++) {
        const char *s;
        uint64_t len;
        gguf_kv_str_next(tokens, &pos, &s, &len);
        int64_t type = gguf_kv_i64(types, i);
        buf_reset(&b);
        buf_add(&b, s, (size_t)len);
        buf_fmt(&b, "\t%.9g\t%d\n", gguf_kv_f64(scores, i), type == TT_USER ? 1 : (int)type);
        sha256_add(&sha, b.data, b.len);
    }
    sha256_hex(&sha, hex);
    buf_release(&b);
}

static void test_keys(void) {
    static const struct {
        const char *file, *model;
        bool add_space, by_merges, same_list;
    } want[] = {
        {"llama-2", "llama", true, false, true},    {"gemma-1", "llama", false, false, true},
        {"mt5", "t5", true, false, true},           {"tinyllama", "llama", true, true, false},
        {"own-merges", "llama", true, true, false}, {"gemma-4", "gemma4", false, false, false},
        {"gemma-json", "llama", false, true, false}};
    for (size_t i = 0; i < COUNT_OF(want); i++) {
        char name[64], path[] = "/tmp/hone-test-sp-XXXXXX", hex[65];
        struct family f;
        snprintf(name, sizeof name, "%s.json.gz", want[i].file);
        family_open(&f, name);
        struct tok *t = build(&f.files, 0);
        struct gguf *g = t ? keys_of(t, path) : NULL;
        if (g) {
            bool merges = gguf_find(g, "tokenizer.ggml.merges") != NULL;
            CHECK_EQ_STR(gguf_str_or(g, "tokenizer.ggml.model", ""), want[i].model);
            CHECK_EQ_I64(gguf_bool_or(g, "tokenizer.ggml.add_space_prefix", !want[i].add_space),
                         want[i].add_space);
            CHECK_EQ_I64(gguf_bool_or(g, "hone.tokenizer.by_merges", false), want[i].by_merges);
            CHECK_EQ_I64(merges, want[i].by_merges || strcmp(want[i].model, "gemma4") == 0);
            list_hash(g, hex);
            if (want[i].same_list) CHECK_EQ_STR(hex, json_str(json_get(f.root, "gguf_list")));
        }
        gguf_close(g);
        unlink(path);
        tok_free(t);
        family_close(&f);
    }
}

/* ---- files that are wrong -------------------------------------------------------------------- */

static void field(struct buf *b, int number, const void *p, size_t n) {
    buf_chr(b, (char)(number << 3 | 2));
    buf_chr(b, (char)n);
    buf_add(b, p, n);
}

static void piece(struct buf *b, const char *text, float score, int type) {
    struct buf p = {0};
    char head[5] = {0x15}, kind[2] = {0x18, (char)type};
    field(&p, 1, text, strlen(text));
    memcpy(head + 1, &score, 4);
    buf_add(&p, head, 5);
    buf_add(&p, kind, 2);
    field(b, 1, p.data, p.len);
    buf_release(&p);
}

static void refused(const char *data, size_t n, const char *want) {
    struct err e = {0};
    struct tok *t = NULL;
    const struct tok_files f = {.sp = data, .sp_len = n};
    CHECK_ERR(tok_from_files(&t, &f, 0, NULL, &e), ERR_DATA, want);
    CHECK(t == NULL);
}

static void test_bad_files(void) {
    struct buf b = {0};
    static const char words[] = {0x18, 3}, raw_spaces[] = {0x28, 0}, cut[] = {0x0a, 9, 0x0a};
    static const char no_map[] = {0x12, 3, 1, 2, 3};
    piece(&b, "<unk>", 0, 2);
    piece(&b, "a", -1, 1);
    const size_t n = b.len;
    field(&b, 2, words, 2);
    refused(b.data, b.len, "whole words or characters");
    b.len = n;
    field(&b, 3, raw_spaces, 2);
    refused(b.data, b.len, "escape_whitespaces");
    b.len = n;
    field(&b, 3, no_map, sizeof no_map);
    refused(b.data, b.len, "precompiled_charsmap, 3 bytes) is damaged");
    b.len = n;
    buf_add(&b, cut, sizeof cut);
    refused(b.data, b.len, "damaged");
    b.len = n;
    piece(&b, "b", -1, 7);
    refused(b.data, b.len, "piece 2 has no text, no finite score or no proper type");
    b.len = n;
    const float inf = 1e38f * 1e38f;
    piece(&b, "b", inf, 1);
    refused(b.data, b.len, "piece 2 has no text");
    b.len = n;
    piece(&b, "a", -2, 1);
    refused(b.data, b.len, "tokens 1 and 2 have the same text");
    b.len = n;
    struct err e = {0};
    struct tok *t = NULL;
    struct tok_files f = {.sp = b.data, .sp_len = b.len};
    CHECK_ERR(tok_from_files(&t, &f, 1, NULL, &e), ERR_DATA, "belongs to another model");
    CHECK_ERR(tok_from_files(&t, &f, 0, "qwen2", &e), ERR_USAGE, "leave --pre out");
    f.sp_len = 0;
    CHECK_ERR(tok_from_files(&t, &f, 0, NULL, &e), ERR_DATA, "is not SentencePiece's");
    f.sp = NULL;
    CHECK_ERR(tok_from_files(&t, &f, 0, NULL, &e), ERR_DATA,
              "no tokenizer.json, no tokenizer.model");
    buf_release(&b);
}

#define WITH(vocab, added) "{\"model\":{\"vocab\":{" vocab "}},\"added_tokens\":[" added "]}"
/* Tests which ids past the pieces tokenizer.json may have without contradicting them. */
static void test_past_the_pieces(void) {
    static const struct {
        const char *json;
        bool agrees;
    } c[] = {
        {WITH("\"<unk>\":0,\"a\":1", ""), true},
        {WITH("\"<unk>\":0,\"a\":1,\"b\":2", ""), false},
        {WITH("\"<unk>\":0,\"a\":1,\"b\":2", "{\"id\":2}"), true},
        {WITH("\"a\":1,\"b\":9", "{\"id\":2},{\"id\":9}"), false}, /* a gap */
        {WITH("\"a\":1,\"b\":3", "{\"id\":-1},{\"id\":3}"), true},
        {"{\"model\":{\"vocab\":[[\"<unk>\",0],[\"a\",-1],[\"b\",-2]]}}", false},
    };
    struct buf b = {0};
    piece(&b, "<unk>", 0, 2);
    piece(&b, "a", -1, 1);
    for (size_t i = 0; i < COUNT_OF(c); i++) {
        struct err e = {0};
        struct json *j = NULL;
        CHECK_OK(json_parse(&j, c[i].json, strlen(c[i].json), "tokenizer.json", &e));
        const struct tok_files f = {.tokenizer = j, .sp = b.data, .sp_len = b.len};
        CHECK_EQ_I64(sp_agrees(&f), c[i].agrees);
        json_free(j);
    }
    buf_release(&b);
}

/* Checks that a file truncated anywhere gives an error or a smaller tokenizer. */
static void test_cut_files(void) {
    struct family f;
    family_open(&f, "minicpm.json.gz");
    for (size_t n = 0; n < f.files.sp_len; n += 1 + f.files.sp_len / 257) {
        struct err e = {0};
        struct tok *t = NULL;
        char *copy = xmalloc(n + 1); /* exactly sized for sanitizers */
        char *exact = realloc(copy, n ? n : 1);
        memcpy(exact, f.files.sp, n);
        const struct tok_files cut = {.sp = exact, .sp_len = n};
        if (tok_from_files(&t, &cut, 0, NULL, &e) == 0) {
            struct ids ids = {0};
            CHECK_OK(tok_encode(t, "The  \xff tin", 10, true, true, &ids, &e));
            ids_release(&ids);
        }
        tok_free(t);
        free(exact);
    }
    family_close(&f);
}

/* ---- long runs ------------------------------------------------------------------------------- */

/* Tests a single word of one megabyte, for which a quadratic algorithm would take hours. */
static void test_long_words(void) {
    static const char *const files[] = {"llama-2", "own-merges", "t5",
                                        "umt5",    "gemma-1",    "tiny_aya"};
    static const char *const unit[] = {"a", "thein", "0", "\xe6\x97\xa5", " "};
    enum { BYTES = 1 << 20 };
    char *text = xmalloc(BYTES);
    for (size_t k = 0; k < COUNT_OF(files); k++) {
        char name[64];
        struct family f;
        snprintf(name, sizeof name, "%s.json.gz", files[k]);
        family_open(&f, name);
        struct tok *t = build(&f.files, 0);
        const size_t u = k % COUNT_OF(unit), n = strlen(unit[u]), len = BYTES / n * n;
        for (size_t i = 0; t && i < len; i++) text[i] = unit[u][i % n];
        struct err e = {0};
        struct ids ids = {0};
        struct buf back = {0};
        if (t) CHECK_OK(tok_encode(t, text, len, true, false, &ids, &e));
        if (t) tok_decode_text(t, ids.v, ids.n, true, &back);
        CHECK_EQ_I64(back.len, len);
        CHECK(back.len == len && memcmp(back.data, text, len) == 0);
        buf_release(&back);
        ids_release(&ids);
        tok_free(t);
        family_close(&f);
    }
    free(text);
}

int main(void) {
    log_set_level(LOG_ERROR);
    family_strings(&strings);
    RUN(test_files);
    RUN(test_extended);
    RUN(test_legacy);
    RUN(test_added);
    RUN(test_no_bos);
    RUN(test_keys);
    RUN(test_past_the_pieces);
    RUN(test_bad_files);
    RUN(test_cut_files);
    RUN(test_long_words);
    strs_release(&strings);
    return check_done();
}
