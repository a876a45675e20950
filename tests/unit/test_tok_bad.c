// SPDX-License-Identifier: MIT
/* tests/unit/test_tok_bad.c - invalid tokenizer files and keys, with one clear error each, and
 * small hand-made vocabularies whose ids can be worked out on paper. */
#include "tests/unit/test_tok_common.h"

#include <math.h>

#include "base/attr.h"
#include "base/log.h"
#include "base/io.h"
#include "tests/unit/tmpdir.h"
#include "tok/tok_hf.h"

#define BYTES "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
#define LEVEL "{\"type\":\"ByteLevel\",\"add_prefix_space\":false}"
#define STRIP "{\"type\":\"Strip\",\"strip_left\":false,\"strip_right\":true}"
#define META_STEP "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\u2581\"}"
#define TOY(model, rest) "{" BYTES rest "\"model\":{" model "}}"
#define ABC "\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"ab\":3,\"bc\":4,\"abc\":5}"

static int from_text(struct tok **t, const char *text, int64_t n_vocab, const char *pre,
                     struct err *e) {
    struct json *j = NULL;
    int rc = json_parse(&j, text, strlen(text), "toy", e);
    if (!rc) rc = tok_from_hf(t, j, NULL, NULL, NULL, n_vocab, pre, e);
    json_free(j);
    return rc;
}

static void test_bad_json(void) {
    static const struct {
        const char *text, *want;
        int64_t n_vocab;
    } bad[] = {
        {"{}", "no \"model\"", 0},
        {"[]", "no \"model\"", 0},
        {"{\"model\":{\"type\":\"WordPiece\",\"vocab\":{}}}", "\"WordPiece\" is not supported", 0},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[]}}",
         "there is neither a ByteLevel nor a Metaspace step", 0},
        {TOY("\"type\":\"BPE\",\"vocab\":[],\"merges\":[]", ""), "model.vocab", 0},
        {TOY(ABC, ""), "model.merges", 0},
        {TOY(ABC ",\"merges\":[\"a b\",\"q b\"]", ""), "merge 1 \"q b\" has a left part", 0},
        {TOY(ABC ",\"merges\":[\"a q\"]", ""), "has a right part that is not a token", 0},
        {TOY(ABC ",\"merges\":[\"b a\"]", ""), "does not make a token", 0},
        {TOY(ABC ",\"merges\":[\"ab\"]", ""), "is not two parts", 0},
        {TOY(ABC ",\"merges\":[\"\"]", ""), "is not two parts", 0},
        {TOY(ABC ",\"merges\":[\"a \"]", ""), "is not two parts", 0},
        {TOY(ABC ",\"merges\":[[\"a\"]]", ""), "merge 0 is not a pair", 0},
        {TOY(ABC ",\"merges\":[7]", ""), "merge 0 is not a pair", 0},
        {TOY(ABC ",\"merges\":[]", ""), "has only 3 rows", 3},
        {TOY("\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]", ""), "have the same id 0", 0},
        {TOY("\"vocab\":{\"a\":-1},\"merges\":[]", ""), "no proper id", 5},
        {TOY("\"vocab\":{\"a\":0.5},\"merges\":[]", ""), "no proper id", 5},
        {TOY("\"vocab\":{\"a\":\"x\"},\"merges\":[]", ""), "no proper id", 5},
        {TOY("\"vocab\":{},\"merges\":[]", ""), "cannot have 0 tokens", 0},
        {TOY(ABC ",\"merges\":[]", "\"added_tokens\":[{\"id\":7,\"content\":\"ab\"}],"),
         "tokens 3 and 7 have the same text", 0},
        {TOY(ABC ",\"merges\":[]", "\"added_tokens\":[{\"id\":1,\"content\":\"<x>\"}],"),
         "is \"b\" in model.vocab and \"<x>\" in added_tokens", 0},
        {TOY(ABC ",\"merges\":[]", "\"added_tokens\":[{\"id\":9}],"), "no content", 0},
        {TOY(ABC ",\"merges\":[]", "\"normalizer\":{\"type\":\"Lowercase\"},"),
         "normalizer \"Lowercase\"", 0},
        {TOY(ABC ",\"merges\":[]", "\"normalizer\":" STRIP ","),
         "normalizer \"Strip\" is not supported in a byte-level", 0},
        {TOY(ABC ",\"merges\":[]",
             "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":["
             "{\"type\":\"NFC\"},{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" {2,}\"},"
             "\"content\":\" \"}]},"),
         "normalizer \"Replace\" is not", 0},
        {TOY(ABC ",\"merges\":[]", "\"normalizer\":{\"type\":\"Prepend\",\"prepend\":\"\u2581\"},"),
         "normalizer \"Prepend\" is not", 0},
        {"{\"normalizer\":" STRIP "," META_STEP ",\"model\":{" ABC ",\"merges\":[]}}",
         "normalizer \"Strip\" is supported only with a Replace", 0},
        {"{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\"},"
         "{\"type\":\"Metaspace\",\"replacement\":\"\u2581\"}]},\"model\":{" ABC ",\"merges\":[]}}",
         "split regex \\p{N}+ is not supported in a vocabulary with U+2581", 0},
        {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\d\"},"
         "\"behavior\":\"Isolated\"},\"model\":{" ABC ",\"merges\":[]}}",
         "neither a ByteLevel nor a Metaspace step, and no normalizer replaces spaces", 0},
        {"{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":["
         "{\"type\":\"WhitespaceSplit\"},{\"type\":\"Metaspace\",\"replacement\":\"▁\"}]},"
         "\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0],[\"a\",-1]]}}",
         "WhitespaceSplit is supported only with SentencePiece's normalizer", 0},
        {"{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\"},{"
         "\"type\":"
         "\"ByteLevel\",\"add_prefix_space\":true}]},\"model\":{" ABC ",\"merges\":[]}}",
         "a space before every piece", 0},
        {"{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[" LEVEL "," LEVEL
         "]},\"model\":{" ABC ",\"merges\":[]}}",
         "step ByteLevel after ByteLevel is not supported", 0},
        {"{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[" LEVEL
         ",{\"type\":\"Split\","
         "\"pattern\":{\"Regex\":\"\\\\p{N}\"},\"behavior\":\"Isolated\"}]},\"model\":{" ABC
         ",\"merges\":[]}}",
         "step Split after ByteLevel is not supported", 0},
        {TOY(ABC ",\"merges\":[],\"end_of_word_suffix\":\"</w>\"", ""), "end_of_word_suffix", 0},
        {"{\"model\":{" ABC ",\"merges\":[]}}", "--pre NAME", 0},
        {"{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\","
         "\"pattern\":{\"Regex\":\"my (own\"},\"behavior\":\"Isolated\"},{\"type\":\"ByteLevel\","
         "\"use_regex\":false}]},\"model\":{" ABC ",\"merges\":[]}}",
         "split regex my (own is not known;", 0},
        {"{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\","
         "\"pattern\":{\"Regex\":\"\\\\X\"},\"behavior\":\"Isolated\"},{\"type\":\"ByteLevel\","
         "\"use_regex\":false}]},\"model\":{" ABC ",\"merges\":[]}}",
         "split regex \\X is not known and has an escape that PCRE2 reads differently;", 0},
        {"{\"pre_tokenizer\":{\"type\":\"Whitespace\"},\"model\":{" ABC ",\"merges\":[]}}",
         "qwen35, tekken, gpt-2", 0},
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct err e = {0};
        struct tok *t = NULL;
        CHECK_ERR(from_text(&t, bad[i].text, bad[i].n_vocab, NULL, &e), ERR_DATA, bad[i].want);
        CHECK(t == NULL);
    }
    struct err e = {0};
    struct tok *t = NULL;
    CHECK_ERR(from_text(&t, TOY(ABC ",\"merges\":[]", ""), 0, "nonsense", &e), ERR_USAGE,
              "forces the rules of one of qwen2");
}

#define ADD(id, text, strip) "{\"id\":" id ",\"content\":\"" text "\",\"" strip "\":true}"
#define SPACES "\"type\":\"BPE\",\"vocab\":{\"a\":0,\"\\u0120\":1,\"\\u010a\":2},\"merges\":[]"
/* Tests tokens inside white space that another token strips. Ids: the tokenizers library 0.23.3. */
static void test_taken_space(void) {
    static const struct {
        const char *text, *want[3];
    } c[] = {
        {"\n\na", {"3 3 0", "3 3 0", "3 3 0"}},
        {"<x>\n\n a", {"4 3 3 0", "4 3 3 1 0", "4 3 3 0"}},
        {"<x> \n  \n a", {"4 3 3 0", "4 3 1 1 3 1 0", "4 1 3 3 0"}},
        {"<x>\n<x>\n a", {"4 3 4 3 0", "4 3 4 3 1 0", "4 3 4 3 0"}},
    };
    static const char *const tok[] = {
        TOY(SPACES,
            "\"added_tokens\":[" ADD("3", "\\n", "rstrip") "," ADD("4", "<x>", "rstrip") "],"),
        TOY(SPACES, "\"added_tokens\":[" ADD("3", "\\n", "x") "," ADD("4", "<x>", "rstrip") "],"),
        TOY(SPACES,
            "\"added_tokens\":[" ADD("3", "\\n", "rstrip") "," ADD("4", "<x>", "lstrip") "],"),
    };
    for (size_t k = 0; k < COUNT_OF(tok); k++) {
        struct err e = {0};
        struct tok *t = NULL;
        CHECK_OK(from_text(&t, tok[k], 0, NULL, &e));
        for (size_t i = 0; t && i < COUNT_OF(c); i++) check_ids(t, c[i].text, c[i].want[k]);
        tok_free(t);
    }
}

static void count_strips(void *ud, enum log_level level, const char *text) {
    (void)level;
    *(int *)ud += strstr(text, "the decoder \"Strip\" is not supported") != NULL;
}
/* Tests the warning about a Strip that is not that of a space which encoding adds. */
static void test_decoder_strip(void) {
    struct err e = {0};
    struct tok *t = NULL;
    int n = 0;
    log_set_level(LOG_WARN);
    log_set_sink(count_strips, &n);
    CHECK_OK(from_text(&t,
                       TOY(ABC ",\"merges\":[]",
                           "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[" LEVEL
                           ",{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]},"),
                       0, NULL, &e));
    log_set_sink(NULL, NULL);
    log_set_level(LOG_ERROR);
    CHECK_EQ_I64(n, 1);
    tok_free(t);
}

static void count_gaps(void *ud, enum log_level level, const char *text) {
    (void)level;
    *(int *)ud += strstr(text, "\"<y>\" the id 9, but the tokenizers library") != NULL &&
                  strstr(text, "uses 4, and") != NULL;
}
/* Tests the warning about an added token whose id the library changes: the tokenizers library
 * 0.23.3 numbers <x> 3, <y> 4 and <z> 5 in each of these files. */
static void test_gap(void) {
#define THREE(y, z)                                                                                \
    "\"added_tokens\":[" ADD("3", "<x>", "x") "," ADD(y, "<y>", "x") "," ADD(z, "<z>", "x") "],"
    static const char *const tok[] = {TOY(SPACES, THREE("4", "5")), TOY(SPACES, THREE("9", "10"))};
    log_set_level(LOG_WARN);
    for (int k = 0; k < 2; k++) {
        struct err e = {0};
        struct tok *t = NULL;
        int n = 0;
        log_set_sink(count_gaps, &n);
        CHECK_OK(from_text(&t, tok[k], 0, NULL, &e));
        log_set_sink(NULL, NULL);
        CHECK_EQ_I64(n, k);
        if (t) check_ids(t, "<z>a", k ? "10 0" : "5 0");
        tok_free(t);
    }
    log_set_level(LOG_ERROR);
}

/* Tests the order of merges. Expected ids: the tokenizers library 0.23.3 with the same files. abc:
 * "a b" has the lower rank, so that "ab c" would be needed for 5, but only "a bc" exists. */
static void test_merge_order(void) {
    struct err e = {0};
    struct tok *t = NULL;
    CHECK_OK(from_text(&t, TOY(ABC ",\"merges\":[\"a b\",\"b c\",\"a bc\"]", ""), 0, NULL, &e));
    check_ids(t, "abc", "3 2");
    check_ids(t, "bcab", "4 3");
    check_ids(t, "xaby", "3"); /* bytes without a token and no <unk>: */
    check_ids(t, "axb", "3");  /* removed before merging */
    CHECK_EQ_STR(tok_merge(t, 2), "a bc");
    CHECK_EQ_I64(tok_n_merges(t), 3);
    CHECK_EQ_STR(tok_merge(t, 3), "");
    tok_free(t);
    t = NULL;
    CHECK_OK(from_text(&t, TOY(ABC ",\"merges\":[[\"b\",\"c\"],[\"a\",\"b\"],[\"a\",\"bc\"]]", ""),
                       8, NULL, &e));
    check_ids(t, "abc", "5");
    CHECK_EQ_I64(tok_n_vocab(t), 8);
    size_t len;
    CHECK_EQ_STR(tok_text(t, 7, &len), "[PAD7]");
    CHECK_EQ_I64(tok_type(t, 7), TT_UNUSED);
    CHECK_EQ_STR(tok_pre(t), "gpt-2");
    tok_free(t);
    t = NULL;
    CHECK_OK(
        from_text(&t, TOY(ABC ",\"ignore_merges\":true,\"merges\":[\"a b\"]", ""), 0, NULL, &e));
    check_ids(t, "abc", "5"); /* whole */
    check_ids(t, "abca", "3 2 0");
    tok_free(t);
}

/* Tests bytes without a token: only model.unk_token replaces them, never the unk_token of
 * tokenizer_config.json. Ids: the tokenizers library 0.23.3; "" in `unk`: null. */
static void test_missing_bytes(void) {
    static const struct {
        const char *unk;
        bool fuse;
        const char *want[3]; /* axb, abxyab, a U+1F600 b */
    } list[] = {
        {"null", false, {"2", "2 2", "0 1"}},
        {"\"<|end|>\"", false, {"0 3 1", "2 3 3 2", "0 3 3 3 3 1"}},
        {"\"<|end|>\"", true, {"0 3 1", "2 3 2", "0 3 1"}},
    };
    static const char config_text[] = "{\"unk_token\":\"<|end|>\",\"eos_token\":\"<|end|>\"}";
    struct err e = {0};
    struct json *config = NULL;
    CHECK_OK(json_parse(&config, config_text, strlen(config_text), "config", &e));
    for (size_t i = 0; i < COUNT_OF(list); i++) {
        struct json *doc = NULL;
        struct tok *t = NULL;
        char text[512];
        snprintf(text, sizeof text,
                 TOY("\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"<|end|>\":3},"
                     "\"merges\":[\"a b\"],\"unk_token\":%s,\"fuse_unk\":%s",
                     ""),
                 list[i].unk, list[i].fuse ? "true" : "false");
        CHECK_OK(json_parse(&doc, text, strlen(text), "toy", &e));
        CHECK_OK(tok_from_hf(&t, doc, config, NULL, NULL, 0, NULL, &e));
        struct tok *g = t ? tok_through_gguf(t) : NULL;
        for (int k = 0; k < 2 && g; k++) {
            const struct tok *of = k ? g : t;
            check_ids(of, "axb", list[i].want[0]);
            check_ids(of, "abxyab", list[i].want[1]);
            check_ids(of, "a\xf0\x9f\x98\x80\x62", list[i].want[2]);
            CHECK_EQ_I64(tok_special(of, TS_UNK), 3);
        }
        tok_free(g);
        tok_free(t);
        json_free(doc);
    }
    json_free(config);
}

/* Checks that the longest of the leftmost matches wins, and that normalized tokens match normalized
 * text. */
static void test_added_tokens(void) {
    static const char text[] = TOY(
        ABC ",\"merges\":[\"a b\"]",
        "\"normalizer\":{\"type\":\"NFC\"},\"added_tokens\":["
        "{\"id\":6,\"content\":\"<b\"},{\"id\":7,\"content\":\"<bc\"},{\"id\":8,\"content\":\"bc<"
        "\"},"
        "{\"id\":9,\"content\":\"\\u212b\"},"
        "{\"id\":10,\"content\":\"\\u00c5\",\"normalized\":true},{\"id\":11,\"content\":\"\"}],");
    struct err e = {0};
    struct tok *t = NULL;
    CHECK_OK(from_text(&t, text, 0, NULL, &e));
    check_ids(t, "a<bca", "0 7 0");
    check_ids(t, "a<bab", "0 6 3");
    check_ids(t, "abc<bc", "0 8 1 2"); /* "bc<" starts before "<bc" */
    check_ids(t,
              "a\xe2\x84\xab"
              "b",
              "0 9 1"); /* raw text first: NFC would make it U+00C5 */
    check_ids(t,
              "aA\xcc\x8a"
              "b",
              "0 10 1");
    check_ids(t,
              "a\xc3\x85"
              "b",
              "0 10 1");
    tok_free(t);
}

/* Checks that add_bos_token of tokenizer_config.json overrides the post-processor's template, also
 * after a round trip through GGUF. Expected ids are those of transformers for such folders. */
static void test_add_bos(void) {
    static const struct {
        const char *config, *begins;
        bool has, add;
    } list[] = {
        {"{\"bos_token\":\"<s>\",\"add_bos_token\":true}", NULL, true, true},
        {"{\"bos_token\":\"<s>\",\"add_bos_token\":false}", NULL, true, false},
        {"{\"bos_token\":\"<s>\",\"add_bos_token\":false}", "<s>", true, false},
        {"{\"bos_token\":\"<s>\",\"add_bos_token\":null}", "<s>", true, true},
        {"{\"bos_token\":\"<s>\"}", "<s>", true, true},
        {"{\"bos_token\":\"<s>\"}", NULL, false, false},
        {"{\"bos_token\":\"\"}", "<s>", false, false},
        {"{\"bos_token\":null}", "<s>", false, false},
    };
    for (size_t i = 0; i < COUNT_OF(list); i++) {
        struct err e = {0};
        struct json *doc = NULL, *config = NULL;
        struct tok *t = NULL;
        char text[1024], post[256] = "";
        if (list[i].begins)
            snprintf(post, sizeof post,
                     "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{"
                     "\"SpecialToken\":{\"id\":\"%s\"}},{\"Sequence\":{\"id\":\"A\"}}]},",
                     list[i].begins);
        snprintf(text, sizeof text,
                 TOY(ABC ",\"merges\":[\"a b\"]",
                     "%s\"added_tokens\":[{\"id\":6,\"content\":\"<s>\",\"special\":true}],"),
                 post);
        CHECK_OK(json_parse(&doc, text, strlen(text), "toy", &e));
        CHECK_OK(json_parse(&config, list[i].config, strlen(list[i].config), "config", &e));
        CHECK_OK(tok_from_hf(&t, doc, config, NULL, NULL, 0, NULL, &e));
        struct tok *g = t ? tok_through_gguf(t) : NULL;
        for (int k = 0; k < 2 && g; k++) {
            struct ids ids = {0};
            const struct tok *of = k ? g : t;
            CHECK(tok_has_add_bos(of) == list[i].has);
            CHECK(tok_add_bos(of) == list[i].add);
            CHECK_OK(tok_encode(of, "ab", 2, false, true, &ids, &e));
            CHECK_EQ_I64(ids.n, list[i].add ? 2 : 1);
            ids_release(&ids);
        }
        tok_free(g);
        tok_free(t);
        json_free(config);
        json_free(doc);
    }
}

/* Tests post-processors that name their tokens as pairs. transformers 5.24 encodes "ab" as
 * <s> a b </s> with each of them. */
static void test_processors(void) {
    static const char *const post[] = {
        "{\"type\":\"RobertaProcessing\",\"sep\":[\"</s>\",7],\"cls\":[\"<s>\",6]}",
        "{\"type\":\"BertProcessing\",\"sep\":[\"</s>\",7],\"cls\":[\"<s>\",6]}"};
    static const char config_text[] = "{\"bos_token\":\"<s>\",\"eos_token\":\"</s>\"}";
    for (size_t i = 0; i < 4; i++) {
        struct err e = {0};
        struct json *doc = NULL, *config = NULL;
        struct tok *t = NULL;
        struct buf b = {0};
        buf_str(&b, "{" BYTES "\"post_processor\":");
        if (i < 2)
            buf_str(&b, post[i]);
        else
            buf_fmt(&b, "{\"type\":\"Sequence\",\"processors\":[%s]}", post[i - 2]);
        buf_str(&b, ",\"added_tokens\":[{\"id\":6,\"content\":\"<s>\",\"special\":true},{\"id\":7,"
                    "\"content\":\"</s>\",\"special\":true}],\"model\":{" ABC
                    ",\"merges\":[\"a b\"]}}");
        CHECK_OK(json_parse(&doc, b.data, b.len, "toy", &e));
        CHECK_OK(json_parse(&config, config_text, strlen(config_text), "config", &e));
        CHECK_OK(tok_from_hf(&t, doc, config, NULL, NULL, 0, NULL, &e));
        struct tok *g = t ? tok_through_gguf(t) : NULL;
        if (g) CHECK(tok_add_bos(t) && tok_add_eos(t) && tok_add_bos(g) && tok_add_eos(g));
        tok_free(g);
        tok_free(t);
        json_free(config);
        json_free(doc);
        buf_release(&b);
    }
}

/* Tests tokens that only tokenizer_config.json names. Ids: AutoTokenizer of transformers 5.24. */
static void test_named_tokens(void) {
#define OBJECT "\"audio_token\":{\"__type\":\"AddedToken\",\"content\":\"<au>\",\"rstrip\":true}"
#define COMMON OBJECT ",\"no_token\":{\"content\":\"<no>\"},\"eos_token\":\"<e>\""
#define VIDEO "\"model_specific_special_tokens\":{\"video_token\":\"<v>\"}"
    static const char *const list[][2] = {
        {"{\"image_token\":\"<i>\"," COMMON "}", "3 0 5 1 4 0 2 1"},
        {"{\"image_token\":\"<i>\"," COMMON "," VIDEO "}", "3 0 5 1 4 0 2 1"},
        {"{" COMMON "," VIDEO ",\"extra_special_tokens\":[\"<l>\"]}", "3 0 1 4 5 0 2 6 1"},
        {"{" COMMON "," VIDEO ",\"additional_special_tokens\":[\"<l>\"],\"image_token\":\"<i>\"}",
         "3 0 5 1 4 0 2 6 1"},
        {"{" COMMON "," VIDEO ",\"additional_special_tokens\":[\"<i>\"],"
         "\"extra_special_tokens\":[\"<l>\"]}",
         "3 0 1 4 5 0 2 6 1"},
        {"{" COMMON ",\"extra_special_tokens\":[],\"additional_special_tokens\":[\"<i>\"]}",
         "3 0 5 1 4 0 2 1"},
        {"{" COMMON ",\"extra_special_tokens\":{\"video_token\":\"<v>\"}}", "3 0 1 4 5 0 2 1"},
    };
    static const char text[] =
        TOY("\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"\xc4\xa0\":2},\"merges\":[]", "");
    struct json *doc = NULL;
    struct err e = {0};
    CHECK_OK(json_parse(&doc, text, strlen(text), "toy", &e));
    for (size_t i = 0; i < COUNT_OF(list); i++) {
        struct json *config = NULL;
        struct tok *t = NULL;
        CHECK_OK(json_parse(&config, list[i][0], strlen(list[i][0]), "config", &e));
        CHECK_OK(tok_from_hf(&t, doc, config, NULL, NULL, 12, NULL, &e));
        if (t) check_ids(t, "<e>a<i>b<au> <v>a <l>b<no>", list[i][1]);
        tok_free(t);
        json_free(config);
    }
    json_free(doc);
}

#define SPACE_TO_META                                                                              \
    "\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\u2581\"},"
#define CHARS(rest)                                                                                \
    "{" SPACE_TO_META "\"model\":{\"type\":\"BPE\",\"vocab\":{\"<unk>\":0,\"\u2581\":1,\"a\":2,"   \
    "\"b\":3},\"merges\":[]" rest "}}"
/* Makes a tokenizer of a model that is not Gemma 4. */
static struct tok *tok_of_llama(const char *text) {
    static const char config[] = "{\"model_type\":\"llama\"}";
    struct err e = {0};
    struct json *j = NULL, *c = NULL;
    struct tok *t = NULL;
    CHECK_OK(json_parse(&j, text, strlen(text), "toy", &e));
    CHECK_OK(json_parse(&c, config, strlen(config), "toy", &e));
    CHECK_OK(tok_from_hf(&t, j, NULL, c, NULL, 0, NULL, &e));
    json_free(j);
    json_free(c);
    return t;
}

/* Tests unknown characters in a vocabulary without bytes, also after a GGUF. Ids: the tokenizers
 * library 0.23.3. */
static void test_unknown_chars(void) {
    static const struct {
        const char *text, *want[3];
    } c[] = {
        {CHARS(",\"unk_token\":\"<unk>\",\"fuse_unk\":false"), {"2 0 0 3", "0", "2 1 0 0 1 0 1 3"}},
        {CHARS(",\"unk_token\":\"<unk>\",\"fuse_unk\":true"), {"2 0 3", "0", "2 1 0 1 0 1 3"}},
        {CHARS(",\"unk_token\":null"), {"2 3", "", "2 1 1 1 3"}},
    };
    for (size_t i = 0; i < COUNT_OF(c); i++) {
        struct tok *t = tok_of_llama(c[i].text);
        struct tok *g = t ? tok_through_gguf(t) : NULL;
        for (int k = 0; k < 2 && g; k++) {
            check_ids(k ? g : t, "a\u65e5\u672c\x62", c[i].want[0]);
            check_ids(k ? g : t, "\u65e5", c[i].want[1]);
            check_ids(k ? g : t, "a \u65e5\u672c \u65e5 b", c[i].want[2]);
        }
        tok_free(g);
        tok_free(t);
    }
}

/* Tests added tokens that are also the pieces of spaces or of a letter that is not matched as a
 * word. Ids: the tokenizers library 0.23.3. */
static void test_added_pieces(void) {
    static const char unk[] = ",\"unk_token\":\"<unk>\"";
    static const struct {
        const char *added, *text[3], *want[3];
    } c[] = {
        {"{\"id\":1,\"content\":\"\u2581\"}", {"a b", " \u2581", "  a"}, {"2 1 3", "1 1", "1 1 2"}},
        {"{\"id\":2,\"content\":\"a\",\"single_word\":true}",
         {"ab", "a b", "bab"},
         {"2 3", "2 1 3", "3 2 3"}},
    };
    for (size_t i = 0; i < COUNT_OF(c); i++) {
        struct buf b = {0};
        buf_fmt(&b, "{\"added_tokens\":[%s],%s", c[i].added, &CHARS("")[1]);
        b.len -= 2; /* the closing braces */
        buf_fmt(&b, "%s}}", unk);
        struct tok *t = tok_of_llama(b.data);
        struct tok *g = t ? tok_through_gguf(t) : NULL;
        for (int k = 0; k < 6 && g; k++)
            check_ids(k % 2 ? g : t, c[i].text[k / 2], c[i].want[k / 2]);
        tok_free(g);
        tok_free(t);
        buf_release(&b);
    }
}

/* Tests normal forms one after the other. Ids: the tokenizers library 0.23.3. */
static void test_forms(void) {
    static const struct {
        const char *first, *last, *accent, *ligature;
    } c[] = {
        {"NFD", "NFC", "1 2", "7 8 4"},   {"NFKD", "NFC", "1 2", "5 6"},
        {"NFC", "NFD", "0 3 4", "7 8 4"}, {"NFKC", "NFD", "0 3 4", "5 6"},
        {"NFC", "NFKC", "1 2", "5 6"},    {"NFKC", "NFC", "1 2", "5 6"},
    };
    for (size_t i = 0; i < COUNT_OF(c); i++) {
        struct err e = {0};
        struct tok *t = NULL;
        struct buf b = {0};
        buf_fmt(&b,
                "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"%s\"},"
                "{\"type\":\"%s\"}]}," BYTES "\"model\":{\"type\":\"BPE\",\"vocab\":{\"e\":0,"
                "\"\u00c3\":1,\"\u00a9\":2,\"\u00cc\":3,\"\u0123\":4,\"f\":5,\"i\":6,"
                "\"\u00ef\":7,\"\u00ac\":8,\"\u0124\":9},\"merges\":[]}}",
                c[i].first, c[i].last);
        CHECK_OK(from_text(&t, b.data, 0, NULL, &e));
        if (t) check_ids(t, "\u00e9", c[i].accent);
        if (t) check_ids(t, "e\u0301", c[i].accent);
        if (t) check_ids(t, "\ufb01", c[i].ligature);
        tok_free(t);
        buf_release(&b);
    }
}

/* Tests pieces of one character that are also added tokens. Ids: the tokenizers library 0.23.3,
 * with encode_special_tokens where the texts of control tokens are plain. */
static void test_added_chars(void) {
    static const char text[] =
        "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":"
        "\"\u2581\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\" "
        "\"},\"content\":\"\u2581\"}]},"
        "\"added_tokens\":[{\"id\":0,\"content\":\"<unk>\",\"special\":true},{\"id\":3,\"content\":"
        "\"\u4e2d\",\"normalized\":true},{\"id\":4,\"content\":\"_\",\"special\":true},{\"id\":7,"
        "\"content\":\"x\",\"normalized\":true}],\"model\":{\"type\":\"BPE\",\"vocab\":{\"<unk>\":"
        "0,"
        "\"a\":1,\"b\":2,\"\u4e2d\":3,\"_\":4,\"\u2581\":5,\"\u2581a\":6},\"merges\":[\"\u2581 "
        "a\"],"
        "\"unk_token\":\"<unk>\",\"fuse_unk\":true}}";
    struct err e = {0};
    struct tok *t = NULL;
    CHECK_OK(from_text(&t, text, 0, NULL, &e));
    struct tok *g = t ? tok_through_gguf(t) : NULL;
    for (int k = 0; k < 2 && g; k++) {
        const struct tok *of = k ? g : t;
        struct ids ids = {0};
        check_ids(of, "a\u4e2d\x62", "6 3 2");
        check_ids(of, "\u4e2d", "3");
        check_ids(of, "a_b", "6 4 5 2");
        check_ids(of, "axb", "6 0 2");
        CHECK_OK(tok_encode(of, "a_b", 3, false, false, &ids, &e));
        CHECK(ids.n == 3 && ids.v[0] == 6 && ids.v[1] == 4 && ids.v[2] == 2);
        ids_release(&ids);
    }
    tok_free(g);
    tok_free(t);
}

static void write_text(const char *name, const char *text) {
    (void)tmp_write(name, text, strlen(text));
}

/* Tests a folder with vocab.json and merges.txt, as saved by slow tokenizers. */
static void test_vocab_json(void) {
    struct err e = {0};
    struct tok *t = NULL;
    tmp_make();
    write_text("vocab.json", "{\"a\":0,\"b\":1,\"c\":2,\"ab\":3,\"abc\":4,\"<|endoftext|>\":5}");
    CHECK_ERR(tok_from_dir(&t, tmp_dir, 0, NULL, &e), ERR_DATA, "no vocab.json with merges.txt");
    write_text("merges.txt", "#version: 0.2\na b\r\n\nab c");
    write_text("tokenizer_config.json", "{\"tokenizer_class\":\"OwnTokenizer\"}");
    CHECK_ERR(tok_from_dir(&t, tmp_dir, 0, NULL, &e), ERR_DATA,
              "class \"OwnTokenizer\" is not known");
    CHECK_ERR(tok_from_dir(&t, tmp_dir, 0, "unknown", &e), ERR_USAGE, "\"unknown\" is not known");
    CHECK_OK(tok_from_dir(&t, tmp_dir, 0, "llama-bpe", &e));
    if (t) CHECK_EQ_STR(tok_pre(t), "llama-bpe");
    tok_free(t);
    t = NULL;
    write_text("tokenizer_config.json", "{\"tokenizer_class\":\"GPT2Tokenizer\"}");
    CHECK_OK(tok_from_dir(&t, tmp_dir, 0, NULL, &e));
    if (t) {
        check_ids(t, "abc<|endoftext|>ab", "4 5 3");
        CHECK_EQ_I64(tok_type(t, 5), TT_CONTROL);
        CHECK_EQ_STR(tok_pre(t), "gpt-2");
    }
    tok_free(t);
    tmp_remove();
}

/* Tests a tokenizer.json with a NUL: a token of its own is stored as from tokenizer.model; anywhere
 * else it is an error. */
static void test_nul(void) {
    static const char *const good[] = {
        TOY("\"type\":\"BPE\",\"vocab\":{\"a\":0,\"\\u0000\":1},\"merges\":[]", ""),
        "{\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\\u2581\",\"prepend_scheme\":"
        "\"always\",\"split\":false},"
        "\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0],[\"\\u0000\",-1]]}"
        "}"};
    /* tokenizer.model with the same two pieces */
    static const char sp[] =
        "\x0a\x09\x0a\x05<unk>\x18\x02\x0a\x08\x0a\x01\x00\x15\x00\x00\x80\xbf";
    static const char *const bad[] = {
        TOY("\"type\":\"BPE\",\"vocab\":{\"a\":0,\"a\\u0000\":1},\"merges\":[]", ""),
        TOY("\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a \\u0000\"]", ""),
        TOY("\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]", "\"\\u0000\":1,")};
    struct err e = {0};
    tmp_make();
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        struct tok *t = NULL;
        write_text("tokenizer.json", good[i]);
        CHECK_OK(tok_from_dir(&t, tmp_dir, 0, NULL, &e));
        if (t) CHECK_EQ_STR(tok_text(t, 1, NULL), "\xf0\x9f\x90\x89");
        tok_free(t);
    }
    struct tok_files f = {.sp = sp, .sp_len = sizeof sp - 1};
    struct json *j = NULL;
    CHECK_OK(json_read_nul(&j, tmp_path("tokenizer.json"), 1 << 20, &e));
    f.tokenizer = j;
    CHECK(sp_agrees(&f));
    json_free(j);
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct tok *t = NULL;
        write_text("tokenizer.json", bad[i]);
        CHECK_ERR(tok_from_dir(&t, tmp_dir, 0, NULL, &e), ERR_DATA,
                  "a string holds \\u0000, which is supported only as a token of its own");
        tok_free(t);
    }
    tmp_remove();
}

/* ---- GGUF keys ------------------------------------------------------------------------------- */

static struct gguf_w *toy_keys(void) {
    static const char *const tokens[] = {"a", "b", "ab", "<s>"}, *const merges[] = {"a b"};
    static const int32_t types[] = {1, 1, 1, 3};
    struct gguf_w *w = gguf_w_new();
    gguf_w_str(w, "tokenizer.ggml.model", "gpt2");
    gguf_w_str(w, "tokenizer.ggml.pre", "qwen2");
    gguf_w_arr_str(w, "tokenizer.ggml.tokens", tokens, 4);
    gguf_w_arr(w, "tokenizer.ggml.token_type", GV_I32, types, 4);
    gguf_w_arr_str(w, "tokenizer.ggml.merges", merges, 1);
    return w;
}

static void bad_key(const char *what, void (*spoil)(struct gguf_w *w)) {
    struct err e = {0};
    struct tok *t = NULL;
    struct gguf_w *w = toy_keys();
    spoil(w);
    CHECK_ERR(tok_of_writer(&t, w, &e), ERR_DATA, what);
    CHECK(t == NULL);
}

static void no_tokens(struct gguf_w *w) {
    gguf_w_remove(w, "tokenizer.ggml.tokens");
}
static void no_merges(struct gguf_w *w) {
    gguf_w_remove(w, "tokenizer.ggml.merges");
}
static void tokens_as_numbers(struct gguf_w *w) {
    const int32_t v[] = {1, 2};
    gguf_w_arr(w, "tokenizer.ggml.tokens", GV_I32, v, 2);
}
static void short_types(struct gguf_w *w) {
    const int32_t v[] = {1, 1, 1};
    gguf_w_arr(w, "tokenizer.ggml.token_type", GV_I32, v, 3);
}
static void float_types(struct gguf_w *w) {
    const float v[] = {1, 1, 1, 1};
    gguf_w_arr(w, "tokenizer.ggml.token_type", GV_F32, v, 4);
}
static void odd_type(struct gguf_w *w) {
    const int32_t v[] = {1, 1, 77, 1};
    gguf_w_arr(w, "tokenizer.ggml.token_type", GV_I32, v, 4);
}
static void twice(struct gguf_w *w) {
    static const char *const v[] = {"a", "b", "ab", "a"};
    gguf_w_arr_str(w, "tokenizer.ggml.tokens", v, 4);
}
static void two_empty(struct gguf_w *w) {
    static const char *const v[] = {"", "b", "", "a"};
    gguf_w_arr_str(w, "tokenizer.ggml.tokens", v, 4);
    gguf_w_arr_str(w, "tokenizer.ggml.merges", NULL, 0);
}
static void empty(struct gguf_w *w) {
    gguf_w_arr_str(w, "tokenizer.ggml.tokens", NULL, 0);
    gguf_w_remove(w, "tokenizer.ggml.token_type");
}
static void other_model(struct gguf_w *w) {
    gguf_w_str(w, "tokenizer.ggml.model", "rwkv");
}
static void no_scores(struct gguf_w *w) {
    gguf_w_str(w, "tokenizer.ggml.model", "llama");
}
static void bad_score(struct gguf_w *w) {
    const float v[] = {1, 2, NAN, 4};
    gguf_w_str(w, "tokenizer.ggml.model", "t5");
    gguf_w_arr(w, "tokenizer.ggml.scores", GV_F32, v, 4);
}
static void bad_charsmap(struct gguf_w *w) {
    const float v[] = {1, 2, 3, 4};
    const uint8_t map[] = {8, 0, 0, 0, 1, 2, 3, 4, 5};
    gguf_w_str(w, "tokenizer.ggml.model", "t5");
    gguf_w_arr(w, "tokenizer.ggml.scores", GV_F32, v, 4);
    gguf_w_arr(w, "tokenizer.ggml.precompiled_charsmap", GV_U8, map, sizeof map);
}
static void like_qwen(struct gguf_w *w) {
    gguf_w_str(w, "tokenizer.ggml.pre", "qwen-2");
}
static void other_pre(struct gguf_w *w) {
    gguf_w_str(w, "tokenizer.ggml.pre", "unheard-of");
}
static void bad_merge_key(struct gguf_w *w) {
    static const char *const v[] = {"a c"};
    gguf_w_arr_str(w, "tokenizer.ggml.merges", v, 1);
}
static void unk_too_large(struct gguf_w *w) {
    gguf_w_u32(w, "hone.tokenizer.unk", 4);
}
static void bos_too_large(struct gguf_w *w) {
    gguf_w_u32(w, "tokenizer.ggml.bos_token_id", 4);
}

static void test_bad_keys(void) {
    bad_key("tokenizer.ggml.tokens is missing", no_tokens);
    bad_key("tokenizer.ggml.merges is missing", no_merges);
    bad_key("not a list of strings", tokens_as_numbers);
    bad_key("must be a list of 4 i32", short_types);
    bad_key("must be a list of 4 i32", float_types);
    bad_key("token 2 has type 77", odd_type);
    bad_key("tokens 0 and 3 have the same text", twice);
    bad_key("cannot have 0 tokens", empty);
    bad_key("not \"rwkv\"", other_model);
    bad_key("scores must be a list of 4 f32", no_scores);
    bad_key("the score of token 2", bad_score);
    bad_key("precompiled_charsmap, 9 bytes) is damaged", bad_charsmap);
    bad_key("\"unheard-of\" is not known; --pre NAME", other_pre);
    bad_key("\"qwen-2\" is not known; nearest: qwen2, ", like_qwen);
    bad_key("has a right part that is not a token", bad_merge_key);
    bad_key("there are only 4 tokens", bos_too_large);
    bad_key("hone.tokenizer.unk is 4, but there are only 4 tokens", unk_too_large);
    struct err e = {0};
    struct tok *t = NULL;
    CHECK_OK(tok_of_writer(&t, toy_keys(), &e));
    if (t) check_ids(t, "ab<s>b", "2 3 1");
    tok_free(t);
    const uint32_t types[] = {1, 1, 1, 3}; /* as MLX's save_gguf() writes them */
    struct gguf_w *w = toy_keys();
    gguf_w_arr(w, "tokenizer.ggml.token_type", GV_U32, types, 4);
    t = NULL;
    CHECK_OK(tok_of_writer(&t, w, &e));
    if (t) check_ids(t, "ab<s>b", "2 3 1");
    tok_free(t);
    w = toy_keys();
    two_empty(w);
    t = NULL;
    CHECK_OK(tok_of_writer(&t, w, &e));
    if (t) check_ids(t, "ab", "3 1");
    tok_free(t);
}

/* Checks that ids outside the vocabulary are ignored for tokens that text does not need. */
static void test_ids_that_can_be_ignored(void) {
    static const char *const key[] = {"unknown", "seperator", "padding", "mask"};
    static const enum tok_special special[] = {TS_UNK, TS_SEP, TS_PAD, TS_MASK};
    for (size_t i = 0; i < COUNT_OF(key); i++) {
        struct err e = {0};
        struct tok *t = NULL;
        struct gguf_w *w = toy_keys();
        char name[64];
        snprintf(name, sizeof name, "tokenizer.ggml.%s_token_id", key[i]);
        gguf_w_u32(w, name, 4);
        CHECK_OK(tok_of_writer(&t, w, &e));
        if (t) CHECK_EQ_I64(tok_special(t, special[i]), -1);
        tok_free(t);
    }
}

/* Checks that damaged versions of a real tokenizer.json give an error or a tokenizer, never a
 * crash. */
static void test_damaged_file(void) {
    struct err e = {0};
    char *text = NULL;
    size_t len;
    CHECK_OK(io_read_file(&text, &len, MODELS "gemma4moe/tokenizer.json", 1 << 26, &e));
    uint32_t seed = 7;
    for (int round = 0; round < 60; round++) {
        size_t at[8];
        char was[8];
        for (int k = 0; k < 8; k++) {
            seed = seed * 1664525 + 1013904223;
            at[k] = (seed >> 4) % len;
            was[k] = text[at[k]];
            text[at[k]] = "0\"x},[1a"[seed >> 29];
        }
        struct json *j = NULL;
        struct tok *t = NULL;
        if (json_parse(&j, text, len, "damaged", &e) == 0 &&
            tok_from_hf(&t, j, NULL, NULL, NULL, 0, NULL, &e) == 0) {
            struct ids ids = {0};
            CHECK_OK(tok_encode(t, "The <eos> \xff tin", 14, true, true, &ids, &e));
            ids_release(&ids);
        }
        tok_free(t);
        json_free(j);
        for (int k = 7; k >= 0; k--) text[at[k]] = was[k];
    }
    free(text);
}

int main(void) {
    log_set_level(LOG_ERROR);
    RUN(test_bad_json);
    RUN(test_taken_space);
    RUN(test_decoder_strip);
    RUN(test_gap);
    RUN(test_merge_order);
    RUN(test_missing_bytes);
    RUN(test_added_tokens);
    RUN(test_add_bos);
    RUN(test_processors);
    RUN(test_named_tokens);
    RUN(test_unknown_chars);
    RUN(test_added_pieces);
    RUN(test_forms);
    RUN(test_added_chars);
    RUN(test_vocab_json);
    RUN(test_nul);
    RUN(test_bad_keys);
    RUN(test_ids_that_can_be_ignored);
    RUN(test_damaged_file);
    return check_done();
}
