// SPDX-License-Identifier: MIT
/* --pad: feed-forward widths become multiples of 256. Every tensor contains the unpadded
 * conversion's values, surrounded by zeros, and the logits equal the recorded ones. */
#include "base/log.h"
#include "base/progress.h"
#include "tests/unit/golden.h"

static struct gguf *convert(const char *model, bool pad, const char *out) {
    struct err e = {0};
    struct gguf *g = NULL;
    struct convert_report r;
    char src[128];
    snprintf(src, sizeof src, "tests/golden/models/%s", model);
    const char *tok = "tests/golden/models/gemma4moe"; /* the E folder has none of its own */
    const char *from = strcmp(model, "gemma4e") ? src : golden_edited(src, tok, NULL);
    struct convert_opts o = {.src = from, .out = out, .type = "f32", .pad = pad, .overwrite = true};
    CHECK_OK(convert_run(&o, &r, &e));
    CHECK_OK(gguf_open(&g, out, 0, &e));
    return g;
}

static float at(const struct gguf_tensor *t, int64_t mat, int64_t row, int64_t col) {
    float v;
    memcpy(&v, t->data + 4 * ((mat * t->ne[1] + row) * t->ne[0] + col), 4);
    return v;
}

/* Returns whether the shape changed. */
static bool check_tensor(const struct gguf_tensor *a, const struct gguf_tensor *b) {
    int64_t halves = strstr(a->name, "gate_up_exps") ? 2 : 1, wrong = 0;
    int64_t part = b->ne[1] / halves, old = a->ne[1] / halves;
    CHECK(a->ne[2] == b->ne[2] && a->type == QT_F32 && b->type == QT_F32);
    for (int64_t m = 0; m < b->ne[2]; m++)
        for (int64_t r = 0; r < b->ne[1]; r++)
            for (int64_t c = 0; c < b->ne[0]; c++) {
                bool in = r % part < old && c < a->ne[0];
                float want = in ? at(a, m, r / part * old + r % part, c) : 0;
                float got = at(b, m, r, c);
                wrong += memcmp(&want, &got, 4) != 0;
            }
    if (wrong) CHECK_FAIL("%s: %lld values differ", a->name, (long long)wrong);
    return a->ne[0] != b->ne[0] || a->ne[1] != b->ne[1];
}

static void check_model(const char *model, int64_t n_changed) {
    struct gguf *a = convert(model, false, tmp_path("plain.gguf"));
    struct gguf *b = convert(model, true, tmp_path("padded.gguf"));
    int64_t changed = 0;
    if (a && b) {
        CHECK_EQ_I64(gguf_n_tensors(a), gguf_n_tensors(b));
        for (int64_t i = 0; i < gguf_n_tensors(a); i++) {
            const struct gguf_tensor *t = gguf_tensor_at(a, i);
            const struct gguf_tensor *p = gguf_find_tensor(b, t->name);
            CHECK(p != NULL);
            if (!p) continue;
            bool ff = strstr(t->name, ".ffn_") && t->ne[1] > 1;
            bool is = check_tensor(t, p);
            if (is && !ff) CHECK_FAIL("%s changed its shape", t->name);
            changed += is;
        }
    }
    CHECK_EQ_I64(changed, n_changed);
    gguf_close(a);
    gguf_close(b);
}

static void test_tensors(void) {
    check_model("gemma4moe", 6 * 5); /* gate, up, down; fused experts, their down */
    check_model("gemma4e", 8 * 3);   /* double width in layers that share keys */
    check_model("qwen35moe", 5 * 6); /* MTP block too: three of the experts, three shared */
    check_model("qwen3", 3 * 3);     /* 320 becomes 512 */
    check_model("mistral", 0);       /* 256 already */
}

static void test_logits(void) {
    struct err e = {0};
    struct golden g;
    struct model *m = NULL;
    struct gguf *b = convert("gemma4moe", true, tmp_path("padded.gguf"));
    gguf_close(b);
    CHECK_OK(model_open(&m, tmp_path("padded.gguf"), &e));
    if (m && golden_load(&g, "tests/golden/models/gemma4moe")) {
        CHECK_EQ_I64(m->hp.d[HD_FF], 256);
        CHECK_EQ_I64(m->hp.d[HD_FF_EXP], 256);
        golden_logits(m, &g, "gemma4moe padded", 1e-3); /* the tolerance without padding */
        golden_release(&g);
    }
    model_close(m);
}

int main(void) {
    tmp_make();
    progress_set_mode(PROG_NEVER);
    log_set_level(LOG_ERROR);
    RUN(test_tensors);
    RUN(test_logits);
    tmp_remove();
    return check_done();
}
