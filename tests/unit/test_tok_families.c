// SPDX-License-Identifier: MIT
/* tests/unit/test_tok_families.c - tokenizers in the shape of published families against the
 * results of `sentencepiece` and `tokenizers` on hostile strings (tests/golden/tok_families, see
 * how.md): from the folder's files and from the GGUF keys written for them. */
#include "tests/unit/test_tok_families.h"

#include <dirent.h>

enum { MIN_FAMILIES = 40, MIN_STRINGS = 300 };

static struct strs strings;

static void show(const char *name, const char *from, size_t i, const struct ids *got,
                 const struct json *want) {
    struct buf b = {0}, q = {0};
    json_write(&b, want);
    json_quote(&q, strings.v[i], strings.len[i]);
    fprintf(stderr, "%s from %s, string %zu %s: expected %s, got [", name, from, i, q.data, b.data);
    for (int64_t k = 0; k < got->n; k++) fprintf(stderr, "%s%d", k ? "," : "", got->v[k]);
    fprintf(stderr, "]\n");
    buf_release(&b);
    buf_release(&q);
}

static void show_text(const char *name, const char *from, size_t i, const struct tok *t,
                      const struct ids *ids, const struct json *want) {
    struct buf whole = {0}, b = {0};
    tok_decode_text(t, ids->v, ids->n, true, &whole);
    json_quote(&b, whole.data ? whole.data : "", whole.len);
    fprintf(stderr, "%s from %s, string %zu: other text %s, not %s\n", name, from, i, b.data,
            json_str(want) ? json_str(want) : "the string");
    buf_release(&whole);
    buf_release(&b);
}

static bool has_unknown(const struct tok *t, const struct ids *ids) {
    for (int64_t i = 0; i < ids->n; i++)
        if (tok_type(t, ids->v[i]) == TT_UNKNOWN) return true;
    return false;
}

/* Returns whether the ids decode to `want`, all at once and one by one; the latter may begin with
 * more spaces. */
static bool decodes(const struct tok *t, const struct ids *ids, const char *want, size_t n) {
    struct buf whole = {0}, stream = {0}, cut = {0}; /* cut: without the first token's spaces */
    size_t first = 0;
    tok_decode_text(t, ids->v, ids->n, true, &whole);
    struct tok_stream *s = tok_stream_new(t);
    for (int64_t i = 0; i < ids->n; i++) {
        const size_t before = stream.len;
        tok_decode(t, ids->v[i], true, &stream);
        tok_stream_put(s, true, before, &stream);
        if (!i) first = stream.len;
    }
    tok_stream_put(s, false, stream.len, &stream);
    tok_stream_free(s);
    for (size_t i = 0; i < whole.len; i++) /* recorded texts cannot contain U+0000 */
        if (!whole.data[i] && stream.len + i >= whole.len) {
            whole.data[i] = '?';
            stream.data[stream.len - whole.len + i] = '?';
        }
    bool same = whole.len == n && (n == 0 || memcmp(whole.data, want, n) == 0);
    size_t more = stream.len - whole.len;
    bool tail = stream.len >= whole.len &&
                (whole.len == 0 || memcmp(stream.data + more, whole.data, whole.len) == 0);
    for (size_t i = 0; tail && i < more; i++) tail = stream.data[i] == ' ';
    for (size_t i = 0; i < stream.len; i++)
        if (i >= first || stream.data[i] != ' ') buf_chr(&cut, stream.data[i]);
    if (!tail) same = same && cut.len == whole.len && !memcmp(cut.data, whole.data, cut.len);
    buf_release(&cut);
    buf_release(&whole);
    buf_release(&stream);
    return same;
}

/* Returns whether the ids decode to the recorded text or, without one, to the string itself, with
 * U+0000 as "?". */
static bool decodes_to_recorded(const struct tok *t, const struct ids *ids, size_t i,
                                const struct json *recorded) {
    const char *text = json_str(recorded);
    struct buf want = {0};
    for (const char *s = text; s && *s; s++) {
        bool nul = strncmp(s, "\xef\xbf\xbd", 3) == 0 && memchr(strings.v[i], 0, strings.len[i]);
        buf_chr(&want, nul ? '?' : *s);
        s += nul ? 2 : 0;
    }
    for (size_t k = 0; !text && k < strings.len[i]; k++)
        buf_chr(&want, strings.v[i][k] ? strings.v[i][k] : '?');
    bool same = decodes(t, ids, want.data ? want.data : "", want.len);
    buf_release(&want);
    return same;
}

static void compare(const struct family *f, const struct tok *t, const char *from) {
    struct err e = {0};
    const char *name = json_str(json_get(f->root, "name"));
    const bool special = json_bool(json_get(f->root, "special"), true);
    const bool own = json_get(f->root, "strings") != NULL;
    const struct json *ids = json_first(json_get(f->root, "ids"));
    const struct json *text = json_first(json_get(f->root, "text"));
    int n_bad = 0, n = 0, n_texts = 0;
    for (size_t i = 0; i < strings.n; i++, ids = json_next(ids), text = json_next(text)) {
        if (json_type(ids) != JSON_ARR) continue;
        struct ids got = {0};
        n++;
        CHECK_OK(tok_encode(t, strings.v[i], strings.len[i], special, false, &got, &e));
        bool same = same_ids(&got, ids);
        if (!same && n_bad++ < 3) show(name, from, i, &got, ids);
        if (same && !has_unknown(t, &got)) {
            n_texts++;
            if (!decodes_to_recorded(t, &got, i, text) && n_bad++ < 3)
                show_text(name, from, i, t, &got, text);
        }
        ids_release(&got);
    }
    if (n_bad) CHECK_FAIL("%s from %s: %d of %d strings differ", name, from, n_bad, n);
    CHECK(n >= MIN_STRINGS || (own && n == (int)strings.n));
    CHECK(n_texts >= 50); /* the others contain characters without a token */
}

/* Replaces the common strings by the family's own and returns the common ones. */
static struct strs swap_strings(const struct family *f) {
    struct strs common = strings, own = {0};
    const struct json *list = json_get(f->root, "strings");
    if (!list) return common;
    own.v = xcalloc((size_t)json_len(list), sizeof *own.v);
    own.len = xcalloc((size_t)json_len(list), sizeof *own.len);
    for (const struct json *c = json_first(list); c; c = json_next(c)) {
        own.v[own.n] = xstrdup(json_str(c));
        own.len[own.n] = strlen(own.v[own.n]);
        own.n++;
    }
    strings = own;
    return common;
}

static void check_family(const char *file) {
    struct err e = {0};
    struct family f;
    struct tok *t = NULL;
    family_open(&f, file);
    struct strs common = swap_strings(&f);
    int64_t n_vocab = 0;
    (void)json_i64(json_get(f.root, "n_vocab"), &n_vocab);
    CHECK_OK(tok_from_files(&t, &f.files, n_vocab, NULL, &e));
    if (t) {
        const char *pre = json_str(json_get(f.root, "pre"));
        if (pre) CHECK_EQ_STR(tok_pre(t), pre);
        compare(&f, t, "folder");
        struct tok *g = tok_through_gguf(t);
        if (g) compare(&f, g, "GGUF");
        tok_free(g);
    }
    tok_free(t);
    if (json_get(f.root, "strings")) strs_release(&strings);
    strings = common;
    family_close(&f);
}

static void test_families(void) {
    int n = 0;
    family_strings(&strings);
    DIR *d = opendir(FAMILIES);
    CHECK(d != NULL);
    for (struct dirent *x = d ? readdir(d) : NULL; x; x = readdir(d)) {
        if (!strstr(x->d_name, ".json.gz") || strcmp(x->d_name, "strings.json.gz") == 0) continue;
        check_family(x->d_name);
        n++;
    }
    if (d) closedir(d);
    CHECK(n >= MIN_FAMILIES);
    strs_release(&strings);
}

/* Tests line formats that tiktoken's loader also accepts: a byte order mark, tabs, CRLF, empty
 * lines, ranks in any order. Ids must be the golden ones. */
static void test_tiktoken_lines(void) {
    static const struct {
        const char *mark, *head, *gap, *tail;
    } form[] = {{"\xef\xbb\xbf", "", "\t", " \r\n"}, {"", "\n\n  ", "   ", "\n \n"}};
    family_strings(&strings);
    for (size_t i = 0; i < COUNT_OF(form); i++) {
        struct err e = {0};
        struct family f;
        struct tok *t = NULL;
        struct buf b = {0};
        family_open(&f, "tiktoken-kimi.json.gz");
        f.tiktoken[f.files.tiktoken_len] = 0;
        buf_str(&b, form[i].mark);
        for (char *nl; (nl = strrchr(f.tiktoken, '\n')) != NULL; *nl = 0) { /* the last first */
            char *s = nl;
            while (s > f.tiktoken && s[-1] != '\n') s--;
            const size_t n = strcspn(s, " ");
            if (s < nl)
                buf_fmt(&b, "%s%.*s%s%.*s%s", form[i].head, (int)n, s, form[i].gap,
                        (int)(nl - s - (int)n - 1), s + n + 1, form[i].tail);
        }
        f.files.tiktoken = b.data;
        f.files.tiktoken_len = b.len;
        int64_t n_vocab = 0;
        (void)json_i64(json_get(f.root, "n_vocab"), &n_vocab);
        CHECK_OK(tok_from_files(&t, &f.files, n_vocab, NULL, &e));
        if (t) compare(&f, t, "other lines");
        tok_free(t);
        buf_release(&b);
        family_close(&f);
    }
    strs_release(&strings);
}

/* Tests names in llama.cpp's converter, and the families whose regexes they denote. */
static void test_names(void) {
    static const char *const list[][3] = {{"dbrx", "glm4_moe", "glm4"},
                                          {"dbrx", "olmo2", "dbrx"},
                                          {"llama-bpe", "lfm2", "lfm2"},
                                          {"llama-bpe", "falcon_h1", "falcon-h1"},
                                          {"gpt-4o", "llama4", "llama4"},
                                          {"gpt-4o", "minimax_m2", "minimax-m2"},
                                          {"smollm", "starcoder2", "starcoder"},
                                          {"smollm", "cohere", "command-r"},
                                          {"gpt-2", "exaone4", "exaone4"},
                                          {"stablelm2", "hunyuan_v1_moe", "hunyuan"},
                                          {"deepseek-v3", "hunyuan_v1_dense", "hunyuan-dense"}};
    for (size_t i = 0; i < COUNT_OF(list); i++) {
        struct err e = {0};
        struct family f;
        struct tok *t = NULL;
        struct json *config = NULL;
        char file[64], text[128];
        snprintf(file, sizeof file, "%s.json.gz", list[i][0]);
        int n =
            snprintf(text, sizeof text, "{\"text_config\":{\"model_type\":\"%s\"}}", list[i][1]);
        family_open(&f, file);
        CHECK_OK(json_parse(&config, text, (size_t)n, "config", &e));
        f.files.model = config;
        CHECK_OK(tok_from_files(&t, &f.files, 0, NULL, &e));
        if (t) CHECK_EQ_STR(tok_pre(t), list[i][2]);
        tok_free(t);
        json_free(config);
        family_close(&f);
    }
}

int main(void) {
    log_set_level(LOG_ERROR);
    RUN(test_families);
    RUN(test_tiktoken_lines);
    RUN(test_names);
    return check_done();
}
