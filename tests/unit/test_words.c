// SPDX-License-Identifier: MIT
/* tests/unit/test_words.c - user input: sizes, misspelt names, names of other programs; and the
 * layout of help. Expected values are written manually. */
#include <math.h>

#include "cli/guess.h"
#include "cli/help.h"
#include "cli/opt.h"
#include "text/base64.h"
#include "text/shell.h"
#include "text/size.h"
#include "tests/check.h"

static struct err e;

static void test_sizes(void) {
    static const struct {
        const char *text;
        uint64_t want;
    } good[] = {
        {"16GiB", UINT64_C(17179869184)},
        {"24gb", UINT64_C(24000000000)},
        {"24 GiB", UINT64_C(25769803776)},
        {"24  gib", UINT64_C(25769803776)},
        {"10m", 10000000},
        {"10MB", 10000000},
        {"10mib", 10485760},
        {"1.5k", 1500},
        {"1.5Ki", 1536},
        {"2T", UINT64_C(2000000000000)},
        {"2TB", UINT64_C(2000000000000)},
        {"1TiB", UINT64_C(1099511627776)},
        {"100B", 100},
        {"100 bytes", 100},
        {"0", 0},
        {"1048576", 1048576},
        {"11063840", 11063840},
        {"1e9", 1000000000},
    };
    static const char *const bad[] = {"",    "GiB",  "-1G",   "5X",   "5 GiB x", "nan",
                                      "inf", "1e99", "5GGiB", "24,5", "five"};
    uint64_t n;
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        n = 1;
        CHECK_OK(size_parse(good[i].text, "--x", &n, &e));
        if (n != good[i].want) CHECK_FAIL("%s is %llu", good[i].text, (unsigned long long)n);
    }
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        CHECK_ERR(size_parse(bad[i], "--x", &n, &e), ERR_USAGE, "is not a size");
    CHECK_ERR(size_parse("24", "--vram", &n, &e), ERR_USAGE, "--vram: 24 bytes? write 24GiB");
    CHECK_ERR(size_parse("1048575", "--vram", &n, &e), ERR_USAGE, "1048575MiB");
    CHECK_ERR(size_parse("0.5", "--vram", &n, &e), ERR_USAGE, "write 0.5GiB");
}

static void test_times(void) {
    static const struct {
        const char *text;
        double want;
    } good[] = {{"12h", 43200},
                {"90m", 5400},
                {"0", 0},
                {"1.5 d", 129600},
                {"30S", 30},
                {"45 minutes", 2700},
                {"1h30m", 5400},
                {"1 hour 30 min", 5400},
                {"1d2h3m4s", 93784},
                {"0s", 0},
                {"250ms", 0.25},
                {"1e3s", 1000},
                {"2 Days", 172800}};
    static const char *const bad[] = {"",       "h",       "-1h",  "2 weeks", "1h30",
                                      "nan",    "inf",     "1e99", "30m1h",   "1h 1h",
                                      "1h-30m", "1hour30", "1h,",  "12:30"};
    double v;
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        CHECK_OK(time_parse(good[i].text, "--x", &v, &e));
        if (fabs(v - good[i].want) > 1e-12) CHECK_FAIL("%s is %g", good[i].text, v);
    }
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        CHECK_ERR(time_parse(bad[i], "--x", &v, &e), ERR_USAGE, "is not a time");
    CHECK_OK(time_parse("0", "--x", &v, &e));
    CHECK(v == 0);
    CHECK_ERR(time_parse("30", "--time", &v, &e), ERR_USAGE,
              "--time: 30 has no unit; write 30s, 30m or 30h");
    CHECK_OK(hours_parse("1.5", "--x", &v, &e));
    CHECK(fabs(v - 5400) < 1e-9);
    CHECK_OK(hours_parse("90s", "--x", &v, &e));
    CHECK(fabs(v - 90) < 1e-9);
    CHECK_ERR(hours_parse("1e99", "--x", &v, &e), ERR_USAGE, "is not a time");
}

static void test_tokens(void) {
    static const struct {
        const char *text;
        int64_t want;
    } good[] = {{"0", 0},        {"4096", 4096},  {"128K", 131072}, {"128k", 131072},
                {"32Ki", 32768}, {"1M", 1048576}, {"2mi", 2097152}, {"131072", 131072}};
    static const char *const bad[] = {"",
                                      "K",
                                      "-1",
                                      "-1K",
                                      "1.5K",
                                      "128G",
                                      "128 KB",
                                      "128Kx",
                                      "9999999999999999M",
                                      "99999999999999999999"};
    int64_t v;
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        CHECK_OK(tokens_parse(good[i].text, "--ctx", &v, &e));
        if (v != good[i].want) CHECK_FAIL("%s is %lld", good[i].text, (long long)v);
    }
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        CHECK_ERR(tokens_parse(bad[i], "--ctx", &v, &e), ERR_USAGE, "is not a number of tokens");
}

static const char *next(void *ctx, int i) {
    static const char *const names[] = {"quantize", "inspect", "imatrix", "recipes", "run",
                                        "replay",   "ctx",     "temp",    "top-k",   NULL};
    (void)ctx;
    return names[i];
}

static void test_guesses(void) {
    static const char *const want[][2] = {
        {"qauntize", "quantize"},
        {"quantise", "quantize"},
        {"inspct", "inspect"},
        {"imat", "imatrix"},
        {"recipe", "recipes"},
        {"rnu", "run"},
        {"ctxx", "ctx"},
        {"top_k", "top-k"},
        {"temperatur", NULL},
        {"frobnicate", NULL},
        {"c", NULL},
        {"t", NULL},
        {"ru", NULL},
        {"re", NULL},
        {"", NULL},
        {"a-name-of-more-than-thirty-one-characters", NULL},
    };
    for (size_t i = 0; i < COUNT_OF(want); i++) {
        const char *got = guess_name(want[i][0], next, NULL);
        if (!got != !want[i][1] || (got && strcmp(got, want[i][1]) != 0))
            CHECK_FAIL("'%s' is taken for '%s'", want[i][0], got ? got : "(none)");
    }
}

static bool any(void *ctx, const struct peer_option *p) {
    (void)ctx;
    (void)p;
    return true;
}
static const struct peer_option *peer(const char *name, const char *command) {
    return peer_option(name, strlen(name), command, any, NULL);
}

static void test_peers(void) {
    CHECK_EQ_STR(peer("t", "run")->ours, "threads");
    CHECK_EQ_STR(peer("ctx-size", "run")->ours, "ctx");
    CHECK_EQ_STR(peer("num_ctx", "plan")->ours, "ctx");
    CHECK_EQ_STR(peer("Max_Tokens", "run")->ours, "n-predict");
    CHECK_EQ_STR(peer("tensor-type", "quantize")->ours, "tensor");
    CHECK(strstr(peer("ngl", "run")->say, "--device cuda") != NULL);
    CHECK_EQ_STR(peer("vram", "imatrix")->ours, "max-vram");
    CHECK(strstr(peer("vram", "make")->say, "--budget SIZE") != NULL);
    CHECK(!peer("C", "run")); /* single letters are case-sensitive */
    CHECK(!peer("tensor-type", "run"));
    CHECK(!peer("", "run") && !peer("no-such-thing", "run"));
    CHECK(strstr(peer_command("perplexity"), "hone eval ppl") != NULL);
    CHECK(strstr(peer_command("convert_hf_to_gguf.py"), "hone convert") != NULL);
    CHECK(!peer_command("quantize") && !peer_command(""));
}

static void test_wrap(void) {
    struct buf b = {0};
    help_wrap(&b, "one two three\nfour", 0, 2, 9);
    CHECK_EQ_STR(b.data, "one two\n  three\n  four");
    buf_reset(&b);
    help_wrap(&b, "a-word-that-is-too-long b", 4, 4, 10); /* is not truncated */
    CHECK_EQ_STR(b.data, "a-word-that-is-too-long\n    b");
    buf_reset(&b);
    help_wrap(&b, "  x  ", 0, 0, 10);
    CHECK_EQ_STR(b.data, "x");
    buf_release(&b);
}

static void test_screen(void) {
    enum { MOST = 60, COMMON = 10 };
    struct option many[MOST + 1] = {0};
    for (int i = 0; i < MOST; i++)
        many[i] = (struct option){.name = "an-option",
                                  .kind = OPT_COUNT,
                                  .arg = "N",
                                  .help = "what it does, in some words"};
    struct cmd_spec s = {
        .name = "eval ppl", .synopsis = "MODEL.gguf TEXT [--ctx N]", .about = "About."};
    for (int n = 0; n <= MOST; n += 5)
        for (int width = 80; width <= 100; width += 10) {
            struct buf b = {0};
            int lines = 0, col = 0, widest = 0;
            s.opts = many + MOST - n;
            help_command(&b, &s, many + MOST - COMMON, false, width);
            for (size_t i = 0; i < b.len; i++) {
                col = b.data[i] == '\n' ? 0 : col + 1;
                if (col > widest) widest = col;
                lines += b.data[i] == '\n';
            }
            if (lines > HELP_LINES || widest > width)
                CHECK_FAIL("%d options, width %d: %d lines of up to %d", n, width, lines, widest);
            buf_release(&b);
        }
}

static void test_operands(void) {
    int n = 0;
    const char *s = "IN.gguf -o OUT.gguf (--recipe NAME)", *m = "MODEL.gguf... TEXT... --base F";
    CHECK(help_operand(s, 0, &n) == s && n == 7);
    CHECK(!help_operand(s, 1, &n));
    CHECK(help_operand(m, 1, &n) == m + 14 && n == 7);
    CHECK(!help_operand("[MODEL.gguf]", 0, &n) && !help_operand("", 0, &n));
}

static void test_examples(void) { /* on a line of 80 columns, after two spaces */
    static const char *const commands[] = {
#define COMMAND(name, id, summary) name,
#include "cli/commands.def"
#undef COMMAND
    };
    for (size_t i = 0; i < COUNT_OF(commands); i++) {
        const char *c = commands[i], *line;
        if (strcmp(c, "eval") == 0 || strcmp(c, "template") == 0) continue;
        if (!help_example(c, 0) || !help_example(c, 1)) CHECK_FAIL("%s: no two examples", c);
        for (int k = 0; (line = help_example(c, k)) != NULL; k++)
            if (strlen(line) > 78) CHECK_FAIL("too long: %s", line);
    }
}

static void test_shell_read(void) {
    static const struct {
        const char *text, *word;
    } rows[] = {{"a.jpg", "a.jpg"},
                {"'my pic.jpg' ", "my pic.jpg"},
                {"\"my pic.jpg\"", "my pic.jpg"},
                {"my\\ pic.jpg", "my pic.jpg"},
                {"it\\'s'\\'\"\\a\\\"\"\\ ", "it's\\\\a\" "},
                {"my pic.jpg", NULL},
                {"'a", NULL},
                {"''", NULL},
                {"", NULL}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char *word = shell_read(rows[i].text);
        CHECK_EQ_STR(word ? word : "none", rows[i].word ? rows[i].word : "none");
        free(word);
    }
}

/* The examples of RFC 4648. */
static void test_base64(void) {
    static const char *const want[] = {"",         "Zg==",     "Zm8=",    "Zm9v",
                                       "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"};
    for (size_t n = 0; n < COUNT_OF(want); n++) {
        struct buf b = {0};
        char back[8];
        base64_encode(&b, "foobar", n);
        CHECK_EQ_STR(b.data ? b.data : "", want[n]);
        CHECK_EQ_I64(base64_decode(want[n], back, sizeof back), (int64_t)n);
        buf_release(&b);
    }
}

int main(void) {
    RUN(test_sizes);
    RUN(test_shell_read);
    RUN(test_base64);
    RUN(test_times);
    RUN(test_tokens);
    RUN(test_guesses);
    RUN(test_peers);
    RUN(test_wrap);
    RUN(test_screen);
    RUN(test_operands);
    RUN(test_examples);
    return check_done();
}
