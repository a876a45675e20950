// SPDX-License-Identifier: MIT
/* tests/unit/test_emit.c - one result in all four forms; hostile names; no cell is truncated. */
#include "base/emit.h"
#include "base/json.h"
#include "tests/check.h"

static struct emit *sample(void) {
    struct emit *m = emit_new();
    emit_str(m, "model", "model", "a,\"b\"|c");
    emit_i64(m, "n_tokens", "tokens", 512);
    emit_num(m, "ppl", "perplexity", 29.14159265358979, 2);
    emit_bool(m, "ok", "ok", true);
    emit_i64(m, "hidden", NULL, 3);
    emit_table(m, "types", "by type");
    emit_col(m, "type", "type");
    emit_col(m, "n", "count");
    emit_col(m, "bpw", "bpw");
    emit_col(m, "raw", NULL);
    emit_row(m);
    emit_cell_str(m, "Q4_K");
    emit_cell_i64(m, 120);
    emit_cell_num(m, 4.5, 2);
    emit_cell_i64(m, 1);
    emit_row(m);
    emit_cell_str(m, "F32");
    emit_cell_i64(m, 7);
    emit_cell_none(m);
    emit_cell_i64(m, 2);
    return m;
}

static void check_form(enum emit_form form, const char *want) {
    struct emit *m = sample();
    struct buf b = {0};
    emit_render(m, form, &b);
    CHECK_EQ_STR(b.data, want);
    buf_release(&b);
    emit_free(m);
}

static void test_table(void) {
    check_form(EMIT_TABLE, "model       a,\"b\"|c\n"
                           "tokens      512\n"
                           "perplexity  29.14\n"
                           "ok          yes\n"
                           "\n"
                           "by type\n"
                           "type  count   bpw\n"
                           "Q4_K    120  4.50\n"
                           "F32       7     -\n");
}

static void test_json(void) {
    check_form(EMIT_JSON, "{\n  \"model\": \"a,\\\"b\\\"|c\",\n  \"n_tokens\": 512,\n"
                          "  \"ppl\": 29.1415927,\n  \"ok\": true,\n  \"hidden\": 3,\n"
                          "  \"types\": [\n"
                          "    {\n      \"type\": \"Q4_K\",\n      \"n\": 120,\n"
                          "      \"bpw\": 4.5,\n      \"raw\": 1\n    },\n"
                          "    {\n      \"type\": \"F32\",\n      \"n\": 7,\n"
                          "      \"bpw\": null,\n      \"raw\": 2\n    }\n  ]\n}\n");
}

static void test_csv(void) {
    check_form(EMIT_CSV, "type,n,bpw,raw\nQ4_K,120,4.5,1\nF32,7,,2\n"); /* one table */
    struct emit *m = emit_new();
    struct buf b = {0};
    emit_answer(m, "It fits, \"all\" of it.");
    emit_str(m, "model", "model", "a,\"b\"|c");
    emit_i64(m, "n_tokens", "tokens", 51200);
    emit_render(m, EMIT_CSV, &b);
    CHECK_EQ_STR(b.data, "key,value\nanswer,\"It fits, \"\"all\"\" of it.\"\n"
                         "model,\"a,\"\"b\"\"|c\"\nn_tokens,51200\n");
    buf_release(&b);
    emit_free(m);
}

/* Checks a table without a key: for people only. */
static void test_table_for_people(void) {
    struct emit *m = emit_new();
    struct buf b = {0};
    emit_table(m, NULL, "seen");
    emit_col(m, "", "a");
    emit_row(m);
    emit_cell_str(m, "x");
    emit_table(m, "read", NULL);
    emit_col(m, "b", "b");
    emit_row(m);
    emit_cell_i64(m, 7);
    emit_render(m, EMIT_TABLE, &b);
    CHECK_EQ_STR(b.data, "seen\na\nx\n");
    buf_reset(&b);
    emit_render(m, EMIT_MD, &b);
    CHECK_EQ_STR(b.data, "### seen\n\n| a |\n|---|\n| x |\n");
    buf_reset(&b);
    emit_render(m, EMIT_JSON, &b);
    CHECK_EQ_STR(b.data, "{\n  \"read\": [\n    {\n      \"b\": 7\n    }\n  ]\n}\n");
    buf_reset(&b);
    emit_render(m, EMIT_CSV, &b);
    CHECK_EQ_STR(b.data, "b\n7\n");
    buf_release(&b);
    emit_free(m);
}

static void test_markdown(void) {
    check_form(EMIT_MD, "- **model:** a,\"b\"\\|c\n- **tokens:** 512\n- **perplexity:** 29.14\n"
                        "- **ok:** yes\n\n### by type\n\n| type | count | bpw |\n|---|---:|---:|\n"
                        "| Q4_K | 120 | 4.50 |\n| F32 | 7 | - |\n");
}

static void test_answer(void) {
    struct emit *m = emit_new();
    struct buf b = {0};
    emit_i64(m, "size_bytes", "size", 1234567);
    emit_i64(m, "n_tokens", "tokens", -1000);
    emit_i64(m, "seed", "seed", 1234567);
    emit_answer(m, "Take it | leave it.");
    emit_render(m, EMIT_TABLE, &b);
    CHECK_EQ_STR(b.data, "Take it | leave it.\n\nsize    1,234,567\ntokens  -1,000\n"
                         "seed    1234567\n");
    buf_reset(&b);
    emit_render(m, EMIT_JSON, &b);
    CHECK(strstr(b.data, "\"size_bytes\": 1234567") && strstr(b.data, "\"answer\": \"Take it"));
    buf_reset(&b);
    emit_render(m, EMIT_MD, &b);
    CHECK(strstr(b.data, "Take it \\| leave it.\n\n") != NULL);
    buf_release(&b);
    emit_free(m);
}

static int longest_line(const struct buf *b, int *lines) {
    int col = 0, longest = 0;
    *lines = 0;
    for (size_t i = 0; i < b->len; i++) {
        if (b->data[i] == '\n')
            col = 0, ++*lines;
        else if (((unsigned char)b->data[i] & 0xc0) != 0x80 && ++col > longest)
            longest = col;
    }
    return longest;
}

/* Checks that names are never truncated: numbers go below them if both do not fit on a line. */
static void test_wide_table(void) {
    struct emit *m = emit_new();
    char name[91];
    int lines;
    memset(name, 'n', sizeof name - 1);
    name[90] = 0;
    memcpy(name, "\xc3\xa9\xc3\xa9", 4); /* two columns wide, four bytes: 88 columns */
    emit_table(m, "t", "");
    emit_col(m, "v", "value");
    emit_col(m, "name", "name");
    emit_col(m, "n_x", "count");
    for (int i = 0; i < 2; i++) {
        emit_row(m);
        emit_cell_num(m, 123456.75, 1);
        emit_cell_str(m, i ? "short" : name);
        emit_cell_i64(m, i ? 7 : 12345);
    }
    struct buf b = {0}, want = {0};
    emit_render(m, EMIT_TABLE, &b);
    buf_fmt(&want, "name\n     value   count\n%s\n  123456.8  12,345\nshort\n  123456.8       7\n",
            name);
    CHECK_EQ_STR(b.data, want.data);
    CHECK_EQ_I64(longest_line(&b, &lines), 88);
    CHECK_EQ_I64(lines, 6);
    emit_one_line(m); /* in a pipe each row is one line */
    b.len = 0;
    emit_render(m, EMIT_TABLE, &b);
    CHECK(longest_line(&b, &lines) > 100);
    CHECK_EQ_I64(lines, 3);
    buf_release(&want);
    buf_release(&b);
    emit_free(m);
}

/* Checks that a table with long texts keeps to 100 columns: the last text continues between words,
 * and no word is lost. Only a label longer than that exceeds it, on a line of its own. */
static void test_wrapped_text(void) {
    char label[121], text[1200] = "";
    int lines;
    memset(label, 'l', 120);
    label[120] = 0;
    for (int i = 0; i < 100; i++) snprintf(text + strlen(text), 12, "%sw%d", i ? " " : "", i);
    for (int wide = 0; wide < 2; wide++) {
        struct emit *m = emit_new();
        struct buf b = {0}, words = {0};
        emit_table(m, "t", "");
        emit_col(m, "file", "file");
        emit_col(m, "n_x", "count");
        emit_col(m, "use", "use");
        emit_col(m, "why", "reason");
        emit_row(m);
        emit_cell_str(m, wide ? label : "short");
        emit_cell_i64(m, 12345);
        emit_cell_str(m, "a text of no more than sixty columns, which is not wrapped");
        emit_cell_str(m, text);
        emit_render(m, EMIT_TABLE, &b);
        char *rest = strstr(b.data, "w0 w1");
        CHECK(rest != NULL);
        for (char *s = rest; s && *s; s++) { /* undo the line breaks */
            if (*s == '\n') *s = ' ';
            if (*s != ' ' || s[1] != ' ') buf_chr(&words, *s);
        }
        CHECK(strstr(words.data ? words.data : "", text) != NULL);
        b.len = 0;
        emit_render(m, EMIT_TABLE, &b);
        char *longest = strstr(b.data, label);
        CHECK((longest != NULL) == (wide == 1));
        if (longest) memmove(longest, longest + 120, strlen(longest + 120) + 1), b.len -= 120;
        CHECK(longest_line(&b, &lines) <= 100);
        emit_one_line(m);
        b.len = 0;
        emit_render(m, EMIT_TABLE, &b);
        longest_line(&b, &lines);
        CHECK_EQ_I64(lines, 2);
        buf_release(&words);
        buf_release(&b);
        emit_free(m);
    }
}

/* Checks that a long text in the last column stays on its row, and that a table with only texts is
 * not folded. */
static void test_long_text_runs_on(void) {
    struct emit *m = emit_new();
    char text[301];
    int lines;
    memset(text, 'x', 300);
    text[300] = 0;
    emit_table(m, "findings", "");
    emit_col(m, "n", "count");
    emit_col(m, "rule", "rule");
    emit_col(m, "finding", "finding");
    emit_row(m);
    emit_cell_i64(m, 3);
    emit_cell_str(m, "card-license");
    emit_cell_str(m, text);
    struct buf b = {0};
    emit_render(m, EMIT_TABLE, &b);
    CHECK(strstr(b.data, text) != NULL && strstr(b.data, "    3  card-license  xxx") != NULL);
    longest_line(&b, &lines);
    CHECK_EQ_I64(lines, 2);
    buf_release(&b);
    emit_free(m);
}

static void test_hostile_text(void) {
    struct emit *m = emit_new();
    emit_str(m, "name", "name", "a\033[31m\nb\xff\xc2\x9b\xe2\x80\xae");
    emit_num(m, "x", "x", (double)NAN, 3);
    emit_str(m, "none", "none", NULL);
    emit_table(m, "t", "empty");
    emit_col(m, "c", "c");
    struct buf b = {0};
    emit_render(m, EMIT_TABLE, &b);
    CHECK_EQ_STR(b.data, "name  a^[[31m b\xef\xbf\xbd<U+009B><U+202E>\nx     nan\nnone  -\n\n"
                         "empty\nc\n");
    buf_reset(&b);
    emit_render(m, EMIT_MD, &b);
    CHECK(strstr(b.data, "a^[[31m b\xef\xbf\xbd\\<U+009B>\\<U+202E>\n") != NULL);
    buf_reset(&b);
    emit_render(m, EMIT_JSON, &b);
    struct json *j;
    struct err e = {0};
    CHECK_OK(json_parse(&j, b.data, b.len, "emit", &e));
    CHECK_EQ_STR(json_str(json_get(j, "name")), "a\033[31m\nb\xef\xbf\xbd\xc2\x9b\xe2\x80\xae");
    CHECK(json_type(json_get(j, "x")) == JSON_NULL && json_len(json_get(j, "t")) == 0);
    json_free(j);
    buf_release(&b);
    emit_free(m);
    emit_free(NULL);
}

static void test_bytes(void) {
    char s[48];
    emit_fmt_bytes(s, 11063840);
    CHECK_EQ_STR(s, "11063840 B (0.0103 GiB)");
    emit_fmt_bytes(s, UINT64_MAX);
    CHECK(strlen(s) < sizeof s);
}

int main(void) {
    RUN(test_table);
    RUN(test_json);
    RUN(test_csv);
    RUN(test_table_for_people);
    RUN(test_markdown);
    RUN(test_answer);
    RUN(test_wide_table);
    RUN(test_wrapped_text);
    RUN(test_long_text_runs_on);
    RUN(test_hostile_text);
    RUN(test_bytes);
    return check_done();
}
