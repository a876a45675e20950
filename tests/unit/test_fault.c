// SPDX-License-Identifier: MIT
/* NaN weights, and values that overflow f32: evaluations fail with an error that names the weight
 * or the block. */
#include <fcntl.h>
#include <unistd.h>

#include "convert/convert.h"
#include "base/io.h"
#include "base/log.h"
#include "base/progress.h"
#include "runtime/engine/kv_type.h"
#include "runtime/measure/eval.h"
#include "runtime/measure/internal.h"
#include "tests/check.h"
#include "tests/unit/tmpdir.h"

enum { CTX = 32, N = 4 * CTX };
static int32_t text[N];
static const struct ids ids = {.v = text, .n = N};

static const char *folder = "tests/golden/models/qwen3";

static const char *intact(void) {
    static const char *made;
    struct convert_opts o = {
        .src = folder, .out = tmp_path("m.gguf"), .type = "f32", .overwrite = true};
    struct convert_report r;
    struct err e;
    if (made != folder) CHECK_OK(convert_run(&o, &r, &e));
    made = folder;
    return tmp_path("m.gguf");
}

/* Returns a copy of the model in which n values of a tensor, starting at `at`, are `value`. */
static const char *with(const char *tensor, int64_t at, int64_t n, float value) {
    struct gguf *g = NULL;
    struct err e;
    char *data = NULL;
    size_t len = 0;
    CHECK_OK(io_read_file(&data, &len, intact(), 1 << 26, &e));
    CHECK_OK(gguf_open(&g, intact(), 0, &e));
    const struct gguf_tensor *t = g ? gguf_find_tensor(g, tensor) : NULL,
                             *first = g ? gguf_tensor_at(g, 0) : NULL;
    CHECK(t && first);
    /* Find the start of the tensor data: the file ends with the last tensor's data. */
    size_t start = 0;
    for (size_t i = 0; first && i + 64 <= len && !start; i += 4)
        if (memcmp(data + i, first->data, 64) == 0) start = i;
    const size_t off = t ? start + (size_t)(t->data - first->data) : 0;
    for (int64_t i = at; t && i < at + n; i++) memcpy(data + off + 4 * (size_t)i, &value, 4);
    tmp_write("bad.gguf", data, len);
    gguf_close(g);
    free(data);
    return tmp_path("bad.gguf");
}

static void fails(const char *path, const char *message) {
    struct model *m = NULL, *good = NULL;
    struct session *s = NULL, *base = NULL;
    struct eval_ppl ppl;
    struct eval_kld kld;
    struct err e = {0};
    const struct session_opts o = {.n_ctx = CTX, .n_ubatch = CTX, .isa = KERN_REF};
    CHECK_OK(model_open(&m, path, &e));
    CHECK_OK(model_open(&good, intact(), &e));
    CHECK_OK(session_new(&s, m, &o, &e));
    CHECK_OK(session_new(&base, good, &o, &e));
    CHECK_ERR(eval_ppl(s, &ids, CTX, 0, 0, NULL, &ppl, &e), ERR_DATA, message);
    CHECK(strstr(e.msg, "bad.gguf") != NULL);
    CHECK_ERR(eval_kld(base, &s, 1, &ids, CTX, 0, &kld, NULL, &e), ERR_DATA, message);
    CHECK_ERR(eval_kld(s, &base, 1, &ids, CTX, 0, &kld, NULL, &e), ERR_DATA, message);
    CHECK_ERR(eval_kld_save(s, &ids, CTX, 0, tmp_path("logits"), true, &e), ERR_DATA, message);
    struct eval_gen gen = {0};
    const struct ids prompt = {.v = text, .n = 8};
    CHECK_ERR(eval_generate(s, &prompt, &(struct eval_gen_opts){.n_max = 4}, &gen, &e), ERR_DATA,
              message);
    buf_release(&gen.text);
    CHECK_OK(eval_ppl(base, &ids, CTX, 0, 0, NULL, &ppl, &e));
    session_free(s);
    session_free(base);
    model_close(m);
    model_close(good);
}

static void test_faults(void) {
    for (int i = 0; i < N; i++) text[i] = 1 + i * 7 % 500;
    fails(with("blk.1.ffn_up.weight", 128 * 3 + 4, 1, NAN),
          "tensor blk.1.ffn_up.weight: row 3, column 4");
    fails(with("blk.2.attn_norm.weight", 5, 1, INFINITY),
          "tensor blk.2.attn_norm.weight: row 0, column 5");
    fails(with("blk.1.ffn_norm.weight", 0, 128, 3e38f),
          "the output of block 1 is not, from token 0 on: a value exceeds the range of f32");
}

/* Checks that values beyond the range of an f16 cache are not called values beyond that of f32. */
static void test_cache(void) {
    static const char *const type[] = {"f16", "f32"};
    struct model *m = NULL;
    struct eval_ppl ppl;
    struct err e = {0};
    CHECK_OK(model_open(&m, with("blk.1.attn_v.weight", 0, 128 * 32, 1e6f), &e));
    for (int i = 0; i < 2 && m; i++) {
        const struct kv_type *t = kv_type_find(type[i]);
        const struct session_opts o = {
            .n_ctx = CTX, .n_ubatch = CTX, .isa = KERN_REF, .kv_k = t, .kv_v = t};
        struct session *s = NULL;
        CHECK_OK(session_new(&s, m, &o, &e));
        if (i)
            CHECK_OK(eval_ppl(s, &ids, CTX, 0, 0, NULL, &ppl, &e));
        else
            CHECK_ERR(eval_ppl(s, &ids, CTX, 0, 0, NULL, &ppl, &e), ERR_DATA,
                      "exceeds the range of the f16 cache (use --kv-type f32)");
        session_free(s);
    }
    model_close(m);
}

/* Tests a weight that only the tokens of the answer use. */
static void test_later(void) {
    struct model *m = NULL;
    struct session *s = NULL;
    struct err e = {0};
    const struct session_opts o = {.n_ctx = CTX, .n_ubatch = CTX, .isa = KERN_REF};
    struct eval_gen gen = {0};
    const struct ids prompt = {.v = text, .n = 8};
    folder = "tests/golden/models/mistral"; /* its head has separate weights */
    for (int i = 0; i < N; i++) text[i] = 1;
    CHECK_OK(model_open(&m, intact(), &e));
    CHECK_OK(session_new(&s, m, &o, &e));
    CHECK_OK(eval_generate(s, &prompt, &(struct eval_gen_opts){.n_max = 4}, &gen, &e));
    buf_release(&gen.text);
    const int64_t width = m ? m->hp.d[HD_EMBD] : 0, vocab = m ? m->hp.d[HD_VOCAB] : 0;
    session_free(s);
    model_close(m);
    m = NULL;
    s = NULL;
    CHECK_OK(model_open(&m, with("token_embd.weight", 2 * width, (vocab - 2) * width, NAN), &e));
    CHECK_OK(session_new(&s, m, &o, &e));
    CHECK_ERR(eval_generate(s, &prompt, &(struct eval_gen_opts){.n_max = 4}, &gen, &e), ERR_DATA,
              "tensor token_embd.weight: row 2, column 0");
    buf_release(&gen.text);
    session_free(s);
    model_close(m);
}

int main(void) {
    tmp_make();
    progress_set_mode(PROG_NEVER);
    log_set_level(LOG_ERROR);
    RUN(test_faults);
    RUN(test_cache);
    RUN(test_later);
    tmp_remove();
    return check_done();
}
