// SPDX-License-Identifier: MIT
/* End tokens of answers: ids listed in the files of a folder, keys of a GGUF, well-known token
 * texts, and the token that a chat template writes after an answer. */
#include "tests/unit/test_tok_common.h"

#include "grammar/gram.h"
#include "template/chat_ends.h"
#include "text/utf8.h"
#include "tok/vocab.h"

enum { FIRST = 256 }; /* id of the first added token; lower ids are the bytes */

static struct err e;

/* Creates a tokenizer of bytes and added tokens, with texts separated by spaces; those in "plain"
 * are ordinary tokens of the vocabulary. Files are JSON texts; NULL: missing. */
static struct tok *make(const char *added, const char *plain, const char *config, const char *model,
                        const char *generation) {
    struct buf b = {0};
    struct json *j[4] = {NULL};
    const char *const text[4] = {NULL, config, model, generation};
    struct tok *t = NULL;
    int n = FIRST;
    buf_str(&b, "{\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{");
    for (int i = 0; i < FIRST; i++) {
        char s[8];
        const size_t k = utf8_encode(vocab_byte_char((uint8_t)i), s);
        buf_fmt(&b, "%s\"%s%.*s\":%d", i ? "," : "", *s == '"' || *s == '\\' ? "\\" : "", (int)k, s,
                i);
    }
    char *words = xstrdup(added), *save = NULL, *more = xstrdup(plain);
    struct buf list = {0};
    for (char *w = strtok_r(words, " ", &save); w; w = strtok_r(NULL, " ", &save), n++)
        buf_fmt(&list, "%s{\"id\":%d,\"content\":\"%s\",\"special\":true}", n > FIRST ? "," : "", n,
                w);
    for (char *w = strtok_r(more, " ", &save); w; w = strtok_r(NULL, " ", &save), n++)
        buf_fmt(&b, ",\"%s\":%d", w, n);
    buf_fmt(&b, "}},\"added_tokens\":[%s]}", list.data ? list.data : "");
    CHECK_OK(json_parse(&j[0], b.data, b.len, "tokenizer.json", &e));
    for (int i = 1; i < 4; i++)
        if (text[i]) CHECK_OK(json_parse(&j[i], text[i], strlen(text[i]), "file", &e));
    CHECK_OK(tok_from_hf(&t, j[0], j[1], j[2], j[3], n, "gpt-2", &e));
    for (int i = 0; i < 4; i++) json_free(j[i]);
    buf_release(&b);
    buf_release(&list);
    free(words);
    free(more);
    return t;
}

/* Returns the texts of all end tokens, separated by spaces, in the order of their ids. */
static const char *ends(const struct tok *t) {
    static char out[512];
    *out = 0;
    for (int64_t i = 0; t && i < tok_n_vocab(t); i++)
        if (tok_is_eog(t, i))
            snprintf(out + strlen(out), sizeof out - strlen(out), "%s%s", *out ? " " : "",
                     tok_text(t, i, NULL));
    return out;
}

static const char *key(const struct tok *t, enum tok_special s) {
    return tok_text(t, tok_special(t, s), NULL);
}

/* ---- files of a folder ----------------------------------------------------------------------- */

static void test_lists(void) {
    static const struct {
        const char *config, *model, *generation, *want;
    } c[] = {
        /* eos_token, as text and as an object */
        {"{\"eos_token\":\"<a>\"}", NULL, NULL, "<a>"},
        {"{\"eos_token\":{\"content\":\"<b>\",\"special\":true}}", NULL, NULL, "<b>"},
        /* lists with duplicates, null, ids past the vocabulary and negative ones */
        {NULL, "{\"eos_token_id\":[257,256,257]}", NULL, "<a> <b>"},
        {NULL, NULL, "{\"eos_token_id\":[258,99999,null,-1,256]}", "<a> <c>"},
        {NULL, "{\"eos_token_id\":null}", "{\"eos_token_id\":257}", "<b>"},
        {NULL, "{\"eos_token_id\":-1}", NULL, ""},
        {NULL, "{\"eos_token_id\":99999}", NULL, ""},
        {NULL, "{\"text_config\":{\"eos_token_id\":[256,258]}}", NULL, "<a> <c>"},
        {NULL, "{\"thinker_config\":{\"text_config\":{\"eos_token_id\":257}}}", NULL, "<b>"},
        /* all of them together */
        {"{\"eos_token\":\"<c>\"}", "{\"eos_token_id\":256}", "{\"eos_token_id\":[257]}",
         "<a> <b> <c>"},
        /* nested lists, ids as text, texts of tokens, values that name no token */
        {NULL, "{\"eos_token_id\":[[256,[258]]]}", NULL, "<a> <c>"},
        {NULL, "{\"eos_token_id\":\"257\"}", NULL, "<b>"},
        {NULL, NULL, "{\"eos_token_id\":[\"256\",257.0]}", "<a> <b>"},
        {NULL, NULL, "{\"eos_token_id\":\"<c>\"}", "<c>"},
        {NULL, NULL, "{\"eos_token_id\":[true,{\"content\":256},\"<d>\",\"\",257]}", "<b>"},
        {"{\"eos_token\":[\"<a>\",\"<b>\"]}", NULL, NULL, "<a> <b>"},
        /* ids in tokenizer_config.json, and texts at which transformers stops */
        {"{\"eos_token\":\"<a>\",\"eos_token_id\":[257]}", NULL, NULL, "<a> <b>"},
        {NULL, NULL, "{\"eos_token_id\":256,\"stop_strings\":[\"<c>\",\"2\",\"no token\"]}",
         "<a> <c>"},
        {NULL, NULL, "{\"stop_strings\":\"<c>\"}", "<c>"},
        /* an ordinary token: valid in a list, but a single id in config.json is a class's
         * default */
        {NULL, NULL, "{\"eos_token_id\":[50,256]}", "2 <a>"},
        {"{\"eos_token\":\"<a>\"}", "{\"eos_token_id\":35}", NULL, "<a>"},
        {NULL, "{\"eos_token_id\":35}", "{\"eos_token_id\":[257]}", "<b>"},
        {NULL, "{\"eos_token_id\":35}", NULL, "#"},
    };
    for (size_t i = 0; i < COUNT_OF(c); i++) {
        struct tok *t = make("<a> <b> <c>", "", c[i].config, c[i].model, c[i].generation);
        CHECK_EQ_STR(ends(t), c[i].want);
        tok_free(t);
    }
}

/* Tests texts that end answers without being listed, and cases in which they do not. */
static void test_usual(void) {
    static const struct {
        const char *added, *plain, *want;
    } c[] = {
        {"<|im_start|> <|im_end|> <|endoftext|>", "", "<|im_end|> <|endoftext|>"},
        {"<|start|> <|end|> <|return|> <|call|>", "", "<|return|> <|call|>"},
        {"<|end|> <|return|>", "", "<|end|> <|return|>"},
        {"<|end|> <|flush|> <|calls|>", "", "<|flush|> <|calls|>"},
        {"<eos> <turn|> <|tool_response> </s>", "", "<eos> <turn|> <|tool_response>"},
        {"<s> </s> <|user|> [EOT] [e~[", "", "</s> [EOT] [e~["},
        {"<x>", "</s> <|im_end|>", "<|im_end|>"}, /* HTML, and texts that can only be end tokens */
        {"<|fim_pad|> <reponame> <|file_sep|>", "", "<|fim_pad|> <reponame> <|file_sep|>"},
    };
    for (size_t i = 0; i < COUNT_OF(c); i++) {
        struct tok *t = make(c[i].added, c[i].plain, NULL, NULL, NULL);
        CHECK_EQ_STR(ends(t), c[i].want);
        tok_free(t);
    }
}

/* Compares keys with those that gguf-py's SpecialVocab and llama.cpp's converter write for these
 * families. */
static void test_families(void) {
    static const char glm[] =
        "<|endoftext|> [gMASK] <sop> <|system|> <|user|> <|assistant|> <|observation|>";
    static const char eos[] = "{\"eos_token\":\"<|endoftext|>\"}";
    struct tok *t =
        make(glm, "", eos,
             "{\"architectures\":[\"Glm4MoeForCausalLM\"],\"eos_token_id\":[256,260]}", NULL);
    CHECK_EQ_STR(key(t, TS_BOS), "[gMASK]");
    CHECK_EQ_STR(key(t, TS_UNK), "<|endoftext|>");
    CHECK_EQ_STR(key(t, TS_EOT), "<|user|>");
    CHECK_EQ_STR(key(t, TS_EOM), "<|observation|>");
    CHECK_EQ_STR(ends(t), "<|endoftext|> <|user|> <|observation|>");
    CHECK(!tok_add_bos(t));
    tok_free(t);
    t = make(glm, "", eos, "{\"architectures\":[\"Glm4ForCausalLM\"]}", NULL);
    CHECK_EQ_STR(key(t, TS_BOS), "<|endoftext|>");
    CHECK_EQ_STR(key(t, TS_EOT), "<|user|>");
    tok_free(t);
    t = make("<|pad|> <|turn|> <|eod|>", "", "{\"eos_token\":\"<|pad|>\"}",
             "{\"architectures\":[\"HunYuanDenseV1ForCausalLM\"],\"eod_token_id\":258,"
             "\"eos_token_id\":256}",
             "{\"eos_token_id\":[257,258]}");
    CHECK_EQ_STR(key(t, TS_EOS), "<|eod|>");
    CHECK_EQ_STR(key(t, TS_EOT), "<|turn|>");
    CHECK_EQ_STR(ends(t), "<|pad|> <|turn|> <|eod|>");
    tok_free(t);
    t = make("<|eos|>", "", "{\"eos_token\":\"<|eos|>\"}",
             "{\"architectures\":[\"HunYuanDenseV1ForCausalLM\"],\"eod_token_id\":3}", NULL);
    CHECK_EQ_STR(key(t, TS_EOS), "<|eos|>"); /* 3 is the class's default, here "$" */
    CHECK_EQ_STR(ends(t), "<|eos|>");
    tok_free(t);
}

/* ---- through a GGUF -------------------------------------------------------------------------- */

static void test_keys(void) {
    static const struct {
        const char *ids, *eot, *eom;
        int64_t n_left;
    } c[] = {
        {"[256]", "", "", 0},
        {"[256,257]", "<b>", "", 0},
        {"[256,258,257]", "<c>", "<b>", 0},
        {"[256,257,258,259]", "<b>", "<c>", 1},
        {"[256,260,257]", "<|im_end|>", "<b>", 0},  /* the usual end of a turn becomes the eot
                                                     * key */
        {"[256,261,257]", "<b>", "", 0},            /* readers know this text */
        {"[256,261,257,258,259]", "<b>", "<c>", 1}, /* more ends than there are keys for */
    };
    for (size_t i = 0; i < COUNT_OF(c); i++) {
        char list[64];
        snprintf(list, sizeof list, "{\"eos_token_id\":%s}", c[i].ids);
        struct tok *t = make("<a> <b> <c> <d> <|im_end|> <|call|>", "", NULL, NULL, list);
        struct tok *back = tok_through_gguf(t);
        char *want = xstrdup(ends(t));
        CHECK_EQ_STR(ends(back), want);
        CHECK_EQ_STR(key(back, TS_EOS), "<a>");
        CHECK_EQ_STR(key(back, TS_EOT), c[i].eot);
        CHECK_EQ_STR(key(back, TS_EOM), c[i].eom);
        CHECK_EQ_I64(tok_ends_left(t, NULL), c[i].n_left);
        free(want);
        tok_free(back);
        tok_free(t);
    }
}

/* Tests a list written by another program, with either name and either type. */
static void test_foreign(void) {
    static const struct {
        const char *key;
        enum gguf_vtype type;
        int32_t v[4];
        const char *want;
    } c[] = {{"tokenizer.ggml.eos_token_ids", GV_I32, {1, 3, -1, 1}, "b d"},
             {"tokenizer.ggml.eog_token_ids", GV_U32, {0, 2, 99, 2}, "a b c"}};
    static const char *const text[] = {"a", "b", "c", "d"};
    for (size_t i = 0; i < COUNT_OF(c); i++) {
        struct gguf_w *w = gguf_w_new();
        struct tok *t = NULL;
        gguf_w_str(w, "tokenizer.ggml.model", "gpt2");
        gguf_w_str(w, "tokenizer.ggml.pre", "gpt-2");
        gguf_w_arr_str(w, "tokenizer.ggml.tokens", text, 4);
        gguf_w_arr_str(w, "tokenizer.ggml.merges", text, 0);
        gguf_w_u32(w, "tokenizer.ggml.eos_token_id", 1);
        gguf_w_arr(w, c[i].key, c[i].type, c[i].v, 4);
        CHECK_OK(tok_of_writer(&t, w, &e));
        CHECK_EQ_STR(ends(t), c[i].want);
        tok_free(t);
    }
}

/* ---- templates ------------------------------------------------------------------------------- */

#define EACH "{%- for m in messages -%}"
#define END "{%- endfor -%}"
#define INVITE "{%- if add_generation_prompt -%}"
static const struct {
    const char *tmpl, *eot, *eom, *want;
} templates[] = {
    /* a separate marker after every message */
    {EACH "<|im_start|>{{ m.role }}\n{{ m.content }}{{ m.tool_calls }}<|over|>\n" END INVITE
          "<|im_start|>assistant\n{% endif %}",
     "<|over|>", "", "<|over|> <|end|>"},
    /* no marker: the token that begins the next turn ends the answer */
    {EACH "{% if m.role == 'tool' %}<|observation|>{% else %}<|{{ m.role }}|>{% endif %}\n"
          "{{ m.content }}{{ m.tool_calls }}" END INVITE "<|assistant|>{% endif %}",
     "<|user|>", "<|observation|>", "<|user|> <|observation|> <|end|>"},
    /* a marker after the thinking is not the end, whatever its text */
    {EACH "{% if m.thinking %}<|start|>think:{{ m.thinking }}<|end|>{% endif %}<|start|>{{ m.role "
          "}}:{{ m.content }}{{ m.tool_calls }}<|over|>" END,
     "<|over|>", "", "<|over|>"},
    /* no markers at all */
    {EACH "{{ m.content }}" END, "", "", "<|end|>"},
    {EACH "### {{ m.role }}:\n{{ m.content }}\n\n" END, "", "", "<|end|>"},
    /* a generation prompt that is always written is not an end */
    {EACH "<|{{ m.role }}|>{{ m.content }}<|over|>" END "<|assistant|>", "<|over|>", "",
     "<|over|> <|end|>"},
    /* two markers: the last one */
    {EACH "<|{{ m.role }}|>{{ m.content }}<|observation|><|over|>" END INVITE
          "<|assistant|>{% endif %}",
     "<|over|>", "", "<|over|> <|end|>"},
    /* one of them is a known end */
    {EACH "<|{{ m.role }}|>{{ m.content }}<|end|><|over|>" END, "<|end|>", "", "<|end|>"},
    /* a BOS token before every question is not an end */
    {EACH "{% if m.role == 'user' %}<s><|user|>{% endif %}{{ m.content }}" END, "<|user|>", "",
     "<|user|> <|end|>"},
    /* tools are required */
    {"{{ tools | length }}" EACH "{{ m.content }}{{ m.tool_calls }}<|over|>" END, "<|over|>", "",
     "<|over|> <|end|>"},
    /* calls end with a different marker than texts, once after all of them */
    {EACH "{% if m.tool_calls %}{{ m.tool_calls }}<|observation|>{% else %}{{ m.content }}<|over|>"
          "{% endif %}" END INVITE "<|assistant|>{% endif %}",
     "<|over|>", "<|observation|>", "<|over|> <|observation|> <|end|>"},
    /* a marker after each call is not an end */
    {EACH "{% for c in m.tool_calls or [] %}{{ c.function }}<|observation|>{% endfor %}"
          "{% if not m.tool_calls %}{{ m.content }}<|over|>{% endif %}" END INVITE
          "<|assistant|>{% endif %}",
     "<|over|>", "", "<|over|> <|end|>"},
    /* several calls are not rendered at all */
    {EACH "{% if m.tool_calls | length == 1 %}{{ m.tool_calls }}<|observation|>"
          "{% elif not m.tool_calls %}{{ m.content }}<|over|>{% endif %}" END INVITE
          "<|assistant|>{% endif %}",
     "<|over|>", "<|observation|>", "<|over|> <|observation|> <|end|>"},
    /* a system message is required */
    {"{%- if messages[0].role != 'system' -%}{{ raise_exception('no') }}{%- endif -%}" EACH
     "{{ m.content }}{{ m.tool_calls }}<|over|>" END,
     "<|over|>", "", "<|over|> <|end|>"},
    /* refusals */
    {"{{ raise_exception('no') }}", "", "", "<|end|>"},
};

static void test_templates(void) {
    for (size_t i = 0; i < COUNT_OF(templates); i++) {
        struct tok *t =
            make("<s> <|im_start|> <|over|> <|user|> <|assistant|> <|observation|> <|start|> "
                 "<|end|> <pad>",
                 "", "{\"bos_token\":\"<s>\",\"eos_token\":\"<pad>\"}", NULL, NULL);
        struct chat *c = NULL;
        char want[128];
        CHECK_OK(chat_with(&c, templates[i].tmpl, "template", t, &e));
        chat_find_ends(c, t);
        snprintf(want, sizeof want, "%s <pad>", templates[i].want);
        CHECK_EQ_STR(key(t, TS_EOT), templates[i].eot);
        CHECK_EQ_STR(key(t, TS_EOM), templates[i].eom);
        CHECK_EQ_STR(ends(t), want);
        chat_free(c);
        tok_free(t);
    }
}

/* Tests templates whose next-turn marker is listed as an end in the files, as in GLM's. */
static void test_listed_marks(void) {
#define GLM(after)                                                                                 \
    "[gMASK]<sop>" EACH                                                                            \
    "{% if m.role == 'tool' %}<|observation|>{% else %}<|{{ m.role }}|>{% endif %}\n"              \
    "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>\n{% endif %}"            \
    "{{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>{{ c.function.name }}"             \
    "<arg_key>key</arg_key><arg_value>{{ c.function.arguments.key }}</arg_value></tool_call>"      \
    "{% endfor %}" after END
    static const char *const tmpl[] = {
        GLM("") INVITE "<|assistant|>{% endif %}",
        GLM("") "<|assistant|>",
        GLM("{% if m.role == 'assistant' %}{% if m.tool_calls %}<|observation|>{% else "
            "%}<|user|>{% endif %}{% endif %}") INVITE "<|assistant|>{% endif %}",
    };
    static const char *const lists[] = {"[256,260,262]", "[262,260,256]", "[256,260]", "[256,262]",
                                        "[256]"};
    for (size_t i = 0; i < COUNT_OF(tmpl) * COUNT_OF(lists); i++) {
        char list[64];
        snprintf(list, sizeof list, "{\"eos_token_id\":%s}", lists[i % COUNT_OF(lists)]);
        struct tok *t =
            make("<|endoftext|> [gMASK] <sop> <|system|> <|user|> <|assistant|> <|observation|>",
                 "", "{\"eos_token\":\"<|endoftext|>\"}", NULL, list);
        struct chat *c = NULL;
        CHECK_OK(chat_with(&c, tmpl[i / COUNT_OF(lists)], "template", t, &e));
        chat_find_ends(c, t);
        CHECK_EQ_STR(ends(t), "<|endoftext|> <|user|> <|observation|>");
        CHECK_EQ_STR(key(t, TS_EOS), "<|endoftext|>");
        CHECK_EQ_STR(key(t, TS_EOT), "<|user|>");
        CHECK_EQ_STR(key(t, TS_EOM), "<|observation|>");
        chat_free(c);
        tok_free(t);
    }
}

/* ---- grammars -------------------------------------------------------------------------------- */

/* Checks that an end token that the grammar requires within a text, for example to close a call, is
 * text until the text may end after it; elsewhere, it ends only complete texts. */
static void test_grammars(void) {
    enum { CALL = FIRST, PAD };
    static const struct {
        const char *rules;
        struct {
            int32_t id;
            bool allowed, ended;
        } step[4];
    } c[] = {
        {"root ::= \"a\" <|call|>",
         {{CALL, false, false}, {'a', true, false}, {PAD, false, false}, {CALL, true, true}}},
        {"root ::= \"a\" <|call|> \"b\"",
         {{'a', true, false}, {CALL, true, false}, {CALL, false, false}, {'b', true, false}}},
        {"root ::= \"a\" [a-z]*",
         {{CALL, false, false}, {'a', true, false}, {'b', true, false}, {CALL, true, true}}},
    };
    struct tok *t = make("<|call|> <pad>", "", "{\"eos_token\":\"<pad>\"}", NULL,
                         "{\"eos_token_id\":[256,257]}");
    struct gram_vocab *v = NULL;
    CHECK_OK(gram_vocab_new(&v, t, &e));
    for (size_t i = 0; i < COUNT_OF(c); i++) {
        struct grammar *g = NULL;
        CHECK_OK(grammar_of_gbnf(&g, v, c[i].rules, strlen(c[i].rules), &e));
        struct gram_state *s = g ? gram_begin(g) : NULL;
        for (int k = 0; s && k < 4; k++) {
            uint32_t bits[16] = {0};
            const int32_t id = c[i].step[k].id;
            CHECK_EQ_I64(gram_allows(s, id), c[i].step[k].allowed);
            CHECK_OK(gram_mask(s, bits, &e));
            CHECK_EQ_I64(bits[id / 32] >> id % 32 & 1, c[i].step[k].allowed);
            if (c[i].step[k].allowed) CHECK_OK(gram_accept(s, id, &e));
            CHECK_EQ_I64(gram_ended(s), c[i].step[k].ended);
        }
        if (s) gram_end(s);
        grammar_free(g);
    }
    gram_vocab_free(v);
    tok_free(t);
}

int main(void) {
    RUN(test_lists);
    RUN(test_usual);
    RUN(test_families);
    RUN(test_keys);
    RUN(test_foreign);
    RUN(test_templates);
    RUN(test_listed_marks);
    RUN(test_grammars);
    return check_done();
}
