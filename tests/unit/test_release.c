// SPDX-License-Identifier: MIT
/* tests/unit/test_release.c - names, front matter and local paths of published folders. Expected
 * values are written manually. */
#include "containers/card_yaml.h"
#include "report/folder_lint.h"
#include "report/release.h"

#include "base/buf.h"
#include "base/json.h"
#include "tests/check.h"
#include "tests/unit/tmpdir.h"

#include <sys/stat.h>

static void test_encodings(void) {
    static const struct {
        const char *file, *want; /* NULL: not recognised */
    } t[] = {{"Qwen3.5-35B-A3B-Q4_K_M.gguf", "Q4_K_M"},
             {"Qwen3.5-35B-A3B-UD-Q4_K_XL.gguf", "Q4_K_XL"},
             {"m-00-Q8_0-00001-of-00003.gguf", "Q8_0"},
             {"llama-2-7b-chat.Q2_K.gguf", "Q2_K"},
             {"gemma-2b-it-q4_k_m.gguf", "Q4_K_M"},
             {"M-BF16.gguf", "BF16"},
             {"M-IQ2_XXS.gguf", "IQ2_XXS"},
             {"M-IQ4_NL.gguf", "IQ4_NL"},
             {"M-F32.gguf", "F32"},
             {"M-IQ4.gguf", NULL},
             {"M-Q4_K_HUGE.gguf", NULL},
             {"M-Q4_K_M-final.gguf", NULL},
             {"Q4_K_M.gguf", "Q4_K_M"},
             {"M.gguf", NULL},
             {"", NULL},
             {".gguf", NULL},
             {"M-", NULL}};
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        char enc[32];
        bool ok = gguf_name_encoding(t[i].file, enc);
        if (ok != (t[i].want != NULL) || strcmp(enc, t[i].want ? t[i].want : "") != 0)
            CHECK_FAIL("%s: \"%s\"", t[i].file, enc);
    }
    char *s = gguf_stem("M-Q8_0-00001-of-00003.gguf");
    CHECK_EQ_STR(s, "M-Q8_0");
    free(s);
}

/* Checks that a context is called whole only if it is the trained one. */
static void test_longest(void) {
    struct release r = {.fit_ctx = {8192, 32768, 131072}, .ctx = 262144};
    struct buf b = {0};
    release_longest(&r, &b);
    CHECK_EQ_STR(b.data, "131,072 tokens");
    buf_reset(&b);
    r.ctx = 131072;
    release_longest(&r, &b);
    CHECK_EQ_STR(b.data, "its whole context");
    buf_release(&b);
    CHECK_EQ_I64(release_projector(&r), 0);
    r.mmproj[0].size_bytes = 5;
    r.n_mmproj = 1;
    CHECK_EQ_I64(release_projector(&r), 5);
}

/* Writes a GGUF file with one tensor in a block, and block_count 3. */
static void write_part(const char *name, const char *arch, const char *tensor, int n_mtp) {
    struct err e = {0};
    const int64_t ne[4] = {32, 2, 1, 1};
    float zero[64] = {0};
    char key[64], file[64];
    struct gguf_w *w = gguf_w_new();
    gguf_w_str(w, "general.architecture", arch);
    snprintf(key, sizeof key, "%s.block_count", arch);
    gguf_w_u32(w, key, 3);
    snprintf(key, sizeof key, "%s.nextn_predict_layers", arch);
    if (n_mtp) gguf_w_u32(w, key, (uint32_t)n_mtp);
    CHECK_OK(gguf_w_tensor(w, tensor, QT_F32, 2, ne, &e));
    snprintf(file, sizeof file, "parts/%s", name);
    CHECK_OK(gguf_w_begin(w, tmp_path(file), true, &e));
    CHECK_OK(gguf_w_data(w, zero, sizeof zero, &e));
    CHECK_OK(gguf_w_commit(w, &e));
    gguf_w_free(w);
}

/* Checks that draft files are told from models: MTP blocks alone, and other kinds by their
 * architecture in llama.cpp. */
static void test_drafts(void) {
    static const struct {
        const char *name, *arch, *tensor, *kind; /* kind NULL: a model */
        int n_mtp;
    } t[] = {{"mtp-m.gguf", "qwen35", "blk.2.attn_k.weight", "mtp", 1},
             {"m.gguf", "qwen35", "blk.1.attn_k.weight", NULL, 1},
             {"two.gguf", "mimo2", "blk.1.attn_k.weight", "mtp", 2},
             {"no.gguf", "qwen35", "token_embd.weight", NULL, 1},
             {"all.gguf", "qwen35", "blk.2.attn_k.weight", NULL, 3},
             {"eagle3-m.gguf", "eagle3", "blk.0.attn_k.weight", "eagle3", 0},
             {"dflash-m.gguf", "dflash", "blk.0.attn_k.weight", "dflash", 0},
             {"g.gguf", "gemma4-assistant", "blk.0.attn_q.weight", "mtp", 0}};
    mkdir(tmp_path("parts"), 0700);
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        struct release r;
        struct err e = {0};
        struct gguf *g = NULL;
        char file[64];
        write_part(t[i].name, t[i].arch, t[i].tensor, t[i].n_mtp);
        snprintf(file, sizeof file, "parts/%s", t[i].name);
        CHECK_OK(gguf_open(&g, tmp_path(file), 0, &e));
        const char *kind = g ? gguf_draft_kind(g) : "";
        if (kind && t[i].kind) CHECK_EQ_STR(kind, t[i].kind);
        CHECK(!kind == !t[i].kind);
        gguf_close(g);
        if (t[i].kind) { /* next to a model, it is not one */
            write_part("M-Q8_0.gguf", "llama", "blk.0.attn_k.weight", 0);
            CHECK_OK(release_open(&r, tmp_path("parts"), &e));
            CHECK_EQ_I64(r.n_files, 1);
            CHECK_EQ_STR(r.draft.file ? r.draft.file : "", t[i].name);
            release_close(&r);
            unlink(tmp_path("parts/M-Q8_0.gguf"));
        }
        unlink(tmp_path(file));
    }
}

static void test_front_matter(void) {
    static const char text[] = "---\n"
                               "# a comment\n"
                               "base_model: Qwen/Qwen3.5-35B-A3B\n"
                               "license: \"apache-2.0\" # yes\n"
                               "license_link: https://x.org/a#b\n"
                               "language: [en, 'de', zh]\n"
                               "tags:\n- gguf\n-  \"a: b\"\n\n"
                               "empty:\n"
                               "widget:\n  - text: hello\n    more: x\n"
                               "quoted: 'it''s'\r\n"
                               "---\nbody: not: yaml\n";
    struct card_yaml f;
    struct err e = {0};
    CHECK_OK(card_yaml_parse(&f, text, sizeof text - 1, &e));
    CHECK_EQ_STR(card_yaml_value(&f, "base_model"), "Qwen/Qwen3.5-35B-A3B");
    CHECK_EQ_STR(card_yaml_value(&f, "license"), "apache-2.0");
    CHECK_EQ_STR(card_yaml_value(&f, "license_link"), "https://x.org/a#b");
    CHECK_EQ_STR(card_yaml_value(&f, "empty"), "");
    CHECK_EQ_STR(card_yaml_value(&f, "absent"), "");
    const struct card_yaml_key *k = card_yaml_find(&f, "language");
    CHECK(k && k->n == 3 && strcmp(k->value[1], "de") == 0 && strcmp(k->value[2], "zh") == 0);
    k = card_yaml_find(&f, "tags");
    CHECK(k && k->n == 2 && strcmp(k->value[1], "a: b") == 0);
    card_yaml_release(&f);
}

/* Compares verdicts and values with those of a real YAML parser (tests/oracle/card_yaml.py).
 */
static void test_front_golden(void) {
    struct json *root;
    struct err e = {0};
    int n_yes = 0, n_no = 0;
    CHECK_OK(json_read(&root, "tests/golden/card_yaml/cases.json", 1 << 20, &e));
    for (const struct json *c = json_first(root); c; c = json_next(c)) {
        const char *text = json_str(json_get(c, "text"));
        bool want = json_bool(json_get(c, "yaml"), false);
        if (json_bool(json_get(c, "strict"), false)) want = false;
        struct card_yaml f;
        bool ok = card_yaml_parse(&f, text, strlen(text), &e) == 0;
        if (ok != want) CHECK_FAIL("%s: %s", text, ok ? "accepted" : e.msg);
        *(want ? &n_yes : &n_no) += 1;
        if (!ok) continue;
        for (const struct json *v = json_first(json_get(c, "read")); v && want; v = json_next(v)) {
            const struct card_yaml_key *k = card_yaml_find(&f, json_name(v));
            if (!k) {
                CHECK_FAIL("%s: no key %s", text, json_name(v));
                continue;
            }
            int n = 0;
            if (json_str(v)) {
                CHECK_EQ_STR(k->n ? k->value[0] : "", json_str(v));
            } else if (json_type(v) == JSON_ARR) {
                for (const struct json *i = json_first(v); i; i = json_next(i), n++)
                    CHECK_EQ_STR(n < k->n ? k->value[n] : "(none)", json_str(i));
                CHECK_EQ_I64(k->n, n);
            }
        }
        card_yaml_release(&f);
    }
    CHECK(n_yes > 30 && n_no > 20);
    json_free(root);
}

static void test_bad_front_matter(void) {
    static const char *const t[][2] = {
        {"", "no front matter"},
        {"# title\n", "no front matter"},
        {"---\na: b\n", "no front matter"},
        {"---\na: b: c\n---\n",
         "line 2: mapping values are not allowed in this context; a value with "
         "\": \" must be in quotes"},
        {"---\na: \"b\n---\n", "quote"},
        {"---\na: b\n\t- c\n---\n", "tab"},
        {"---\na: b\na: c\n---\n", "twice"},
        {"---\na\n---\n", "key: value"},
        {"---\na: @b\n---\n",
         "line 2: while scanning for the next token, found character that cannot "
         "start any token; such a value must be in quotes"},
        {"---\na: [b, c\n---\n", "']'"},
        {"---\nz: y\na: [b,\n c\n\n---\n", "line 3: while parsing a flow sequence"},
        {"---\na: [\n---\n", "flow node"},
        {"---\n- a\n---\n", "key: value"},
        {"---\n  a: b\nc: d\n---\n", "line 3"},
        {"---\nb: x\na: \"b\nc: d\n---\n", "line 3: while scanning a quoted scalar"},
        {"---\na: b\n\nc: \xff\n---\n", "line 4"},
        {"---\na: \001\n---\n", "control"},
        {"---\na: &x b\nc: *x\n---\n", "line 3: aliases"},
        {"---\n? [a]\n: b\n---\n", "not text"},
        {"---\na: b\n--- c\n---\n", "second document"},
        {"---\n-", "no front matter"},
        {"---\na: b\n- c\n---\n", "line 3"},
        {"---\na:b\n---\n", "key: value"}};
    struct err e = {0};
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        struct card_yaml f;
        char *copy = malloc(strlen(t[i][0]) + 1); /* exact size: ASan catches reads past the end */
        memcpy(copy, t[i][0], strlen(t[i][0]));
        CHECK_ERR(card_yaml_parse(&f, copy, strlen(t[i][0]), &e), ERR_DATA, t[i][1]);
        free(copy);
    }
}

/* Checks the limits on depth, values, keys, events and bytes. */
static void test_large_front_matter(void) {
    static const struct {
        const char *first, *more, *last, *want; /* NULL: accepted */
        int n;
    } t[] = {{"a: ", "[", "", "deep", 1000},         {"a: ", "[", "", "deep", 100000},
             {"", "a: {", "", "deep", 64},           {"a:\n", "- x\n", "", NULL, 512},
             {"a:\n", "- x\n", "", "values", 513},   {"a: {", "a,", "}", NULL, 300000},
             {"a: {", "a,", "}", "values", 700000},  {"a: \"", "x", "\"", NULL, 4000000},
             {"a: \"", "x", "\"", "4 MiB", 5000000}, {"a: ", "- ", "", "line 2", 1000000}};
    struct err e = {0};
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        struct buf text = {0};
        struct card_yaml c;
        buf_fmt(&text, "---\n%s", t[i].first);
        for (int k = 0; k < t[i].n; k++) buf_str(&text, t[i].more);
        buf_fmt(&text, "%s\n---\n", t[i].last);
        if (t[i].want) {
            CHECK_ERR(card_yaml_parse(&c, text.data, text.len, &e), ERR_DATA, t[i].want);
        } else {
            CHECK_OK(card_yaml_parse(&c, text.data, text.len, &e));
            card_yaml_release(&c);
        }
        if (card_yaml_read(&c, text.data, text.len)) card_yaml_release(&c);
        buf_release(&text);
    }
    struct buf keys = {0};
    struct card_yaml c;
    buf_str(&keys, "---\n");
    for (int i = 0; i < 65; i++) buf_fmt(&keys, "k%d: x\n", i);
    buf_str(&keys, "---\n");
    CHECK_ERR(card_yaml_parse(&c, keys.data, keys.len, &e), ERR_DATA, "line 66: too many keys");
    CHECK(card_yaml_read(&c, keys.data, keys.len) && c.n == 64 && c.bad_line == 66);
    card_yaml_release(&c);
    buf_release(&keys);
}

/* Checks that invalid keys and list items of an untrusted card are left out and the others are
 * read. */
static void test_faults_left_out(void) {
    static const char text[] =
        "\xef\xbb\xbf---\nlicense: mit\nlicense_name: a: b\ntags:\n\t- x\n\t- y\n"
        "base_model: [a/b\nlanguage:\n- en\n- @de\nauthor: \"me\nlicense: x\n"
        "# two\ndatasets: [c,\nd\n]\nlibrary_name: \xff\nname: last\n---\n";
    static const char *const want[][2] = {
        {"license", "mit"}, {"license_name", ""}, {"tags", "x"},        {"base_model", ""},
        {"language", "en"}, {"author", ""},       {"library_name", ""}, {"name", "last"}};
    struct card_yaml c;
    CHECK(card_yaml_read(&c, text, sizeof text - 1));
    for (size_t i = 0; i < COUNT_OF(want); i++)
        CHECK_EQ_STR(card_yaml_value(&c, want[i][0]), want[i][1]);
    CHECK(c.bad_line == 3 && card_yaml_find(&c, "tags")->n == 2);
    card_yaml_release(&c);
    static const char lists[] =
        "---\na: # one\n\n  - @b\n  - c: d\n    e: f\n  -\n  - 'g\n  - h'\n"
        "  - i\n    j\n  - *k\n  - [l\n  - m\nn:\n  o: p\n  - q\nr:\n- s: t: u\n"
        "v: @w\n- x\ny:\n- {z\n-a\n- b\n---\n";
    CHECK(card_yaml_read(&c, lists, sizeof lists - 1) && c.bad_line == 4);
    const struct card_yaml_key *k = card_yaml_find(&c, "a");
    CHECK(k && k->n == 4);
    CHECK_EQ_STR(k->value[0], "");
    CHECK_EQ_STR(k->value[1], "h'");
    CHECK_EQ_STR(k->value[2], "i j");
    CHECK_EQ_STR(k->value[3], "m");
    CHECK(!card_yaml_find(&c, "n") && !card_yaml_find(&c, "v") && card_yaml_find(&c, "r")->n == 0);
    CHECK_EQ_STR(card_yaml_value(&c, "y"), "b");
    card_yaml_release(&c);
}

/* Parses every prefix of a text, each in exactly sized memory. */
static void test_cut_front_matter(void) {
    static const char text[] =
        "---\na: 'x'\nb: [c, \"d\"]\ne:\n- f\n-\n- g: h\n  i\n#\nj: |\n k\n---\n";
    struct err e = {0};
    for (size_t n = 0; n < sizeof text; n++) {
        struct card_yaml f;
        char *copy = malloc(n ? n : 1);
        memcpy(copy, text, n);
        int rc = card_yaml_parse(&f, copy, n, &e);
        if (rc == 0) card_yaml_release(&f);
        CHECK(rc == 0 || rc == ERR_DATA);
        free(copy);
    }
}

static void test_local_paths(void) {
    static const char *const yes[] = {"/home/me/x", "see /root/m.gguf", "\"C:\\models\\x\"",
                                      "path=/Users/me", "(/mnt/disk/a)"};
    static const char *const no[] = {"https://x.org/home/me",
                                     "a/tmp/b",
                                     "/homeward/x",
                                     "/tmp/",
                                     "and/or",
                                     "/",
                                     "",
                                     "C: \\x",
                                     "x/data/y",
                                     "/root/ is a folder",
                                     "4:\\times 2"};
    for (size_t i = 0; i < COUNT_OF(yes); i++)
        if (!lint_local_path(yes[i], strlen(yes[i]))) CHECK_FAIL("not found: %s", yes[i]);
    for (size_t i = 0; i < COUNT_OF(no); i++)
        if (lint_local_path(no[i], strlen(no[i]))) CHECK_FAIL("found: %s", no[i]);
}

int main(void) {
    tmp_make();
    RUN(test_encodings);
    RUN(test_longest);
    RUN(test_drafts);
    RUN(test_front_matter);
    RUN(test_front_golden);
    RUN(test_bad_front_matter);
    RUN(test_large_front_matter);
    RUN(test_faults_left_out);
    RUN(test_cut_front_matter);
    RUN(test_local_paths);
    tmp_remove();
    return check_done();
}
