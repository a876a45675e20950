// SPDX-License-Identifier: MIT
/* MXFP4 and NVFP4 blocks that conversion keeps, and fused NVFP4 experts: the same bits as stored,
 * and the values that the forms' own tools decode. */
#include <math.h>

#include "base/log.h"
#include "base/progress.h"
#include "kernels/kern.h"
#include "quantize/quantize.h"
#include "runtime/engine/session.h"
#include "tests/unit/quantized_forms.h"

/* ---- kept blocks ---- */

/* Decodes the tensor to f32 with the reference decoders and checks its type. */
static float *decoded(const struct gguf *g, const char *name, const char *type, int64_t *n) {
    const struct gguf_tensor *t = gguf_find_tensor(g, name);
    struct kern *k = xcalloc(1, sizeof *k);
    *n = t ? t->ne[0] * t->ne[1] * t->ne[2] : 0;
    float *x = xcalloc((size_t)*n + 1, sizeof *x);
    kern_init(k, KERN_REF);
    if (t) CHECK_EQ_STR(qtype_name(t->type), type);
    if (t) k->op[t->type].decode(t->data, x, *n);
    free(k);
    return x;
}

/* Checks that kept blocks have exactly the values of the dequantized tensors, whose bytes equal
 * those of the tools (check_form); a -0 in the folder is 0 there. */
static void kept(const char *name, int64_t n_kept) {
    struct err e;
    struct convert_report r;
    struct gguf *g[2] = {NULL, NULL};
    build(form(name), NULL);
    write_config(form(name));
    for (int i = 0; i < 2; i++) {
        keep = i;
        CHECK_OK(convert("bf16", &r, &e));
        CHECK_EQ_I64(r.n_kept, i ? n_kept : 0);
        CHECK_OK(gguf_open(&g[i], tmp_path("out.gguf"), 0, &e));
        unlink(tmp_path("out.gguf")); /* the mapping stays valid */
    }
    keep = false;
    for (const struct json *t = json_first(json_get(form(name), "expected")); t && g[1];
         t = json_next(t)) {
        int64_t n, m, zeros = 0, wrong = 0;
        float *want = decoded(g[0], json_name(t), "BF16", &n);
        float *have = decoded(g[1], json_name(t), "MXFP4", &m);
        CHECK_EQ_I64(n, m);
        for (int64_t i = 0; i < n && n == m; i++) {
            zeros += fabsf(want[i]) > 0 ? 0 : 1;
            wrong += fabsf(want[i] - have[i]) > 0 ? 1 : 0;
        }
        if (wrong) CHECK_FAIL("%s: %lld values differ", json_name(t), (long long)wrong);
        CHECK(n > 0 && zeros < n / 2);
        free(want);
        free(have);
    }
    CHECK_EQ_I64(gguf_u64_or(g[1], "general.file_type", 0), 38);
    gguf_close(g[0]);
    gguf_close(g[1]);
}
static void infinite_scale(struct st_tensor *t) {
    static uint8_t copy[1 << 16];
    size_t n = strlen(t->name);
    if (n < 7 || strcmp(t->name + n - 7, "_scales") != 0 || t->n_bytes > sizeof copy) return;
    memcpy(copy, t->data, t->n_bytes);
    copy[t->n_bytes - 1] = 255;
    t->data = copy;
}
static void test_mxfp4_is_kept(void) {
    kept("ct-mxfp4", 2);
    kept("mxfp4-blocks", 3);
    keep = true;
    refused("mxfp4-blocks", infinite_scale, "gate_up_proj_blocks are not numbers");
    keep = false;
}

/* ---- NVFP4 ---- */

/* Checks that matrix m of an NVFP4 tensor has the codes and scales of the module as stored. */
static void check_bits(const struct gguf_tensor *t, int64_t m, const struct st *st,
                       const char *module, const char *codes) {
    char name[2][160];
    snprintf(name[0], sizeof name[0], "%s.%s", module, codes);
    snprintf(name[1], sizeof name[1], "%s.weight_scale", module);
    const struct st_tensor *q = stored(st, name[0]), *sc = stored(st, name[1]);
    int64_t wrong = 0;
    for (int64_t i = 0; q && sc && i < t->ne[0] * t->ne[1]; i++) {
        const uint8_t *b = t->data + (m * t->ne[0] * t->ne[1] + i) / 64 * 36;
        const int64_t k = i % 64 / 16, at = i % 16;
        const uint8_t pair = b[4 + 8 * k + at % 8], src = q->data[i / 2];
        wrong += (at < 8 ? pair & 15 : pair >> 4) != (i % 2 ? src >> 4 : src & 15);
        wrong += b[k] != sc->data[i / 16];
    }
    if (wrong) CHECK_FAIL("%s: %lld codes or scales differ", module, (long long)wrong);
}

/* Checks that a file of kept NVFP4 blocks has the form's bits, and with X.scale the values that the
 * form's tool decodes, up to the rounding of one product. */
static void nvfp4_kept(const char *name, int64_t n_kept) {
    struct err e;
    struct convert_report r;
    struct gguf *g[2] = {NULL, NULL};
    build(form(name), NULL);
    write_config(form(name));
    CHECK_OK(convert(NULL, &r, &e));
    CHECK_EQ_I64(r.n_nvfp4, n_kept);
    CHECK(rename(tmp_path("out.gguf"), tmp_path("kept.gguf")) == 0);
    CHECK_OK(convert("f32", &r, &e));
    CHECK_EQ_I64(r.n_nvfp4, 0);
    CHECK_OK(gguf_open(&g[0], tmp_path("out.gguf"), 0, &e));
    CHECK_OK(gguf_open(&g[1], tmp_path("kept.gguf"), 0, &e));
    for (const struct json *t = json_first(json_get(form(name), "expected")); t && g[1];
         t = json_next(t)) {
        int64_t n, m, n_scales = 0, wrong = 0;
        float *want = decoded(g[0], json_name(t), "F32", &n);
        float *have = decoded(g[1], json_name(t), "NVFP4", &m);
        const float *s = gguf_scales(g[1], gguf_find_tensor(g[1], json_name(t)), &n_scales);
        CHECK(s && n == m && n > 0);
        for (int64_t i = 0; s && i < n && n == m; i++)
            wrong += fabsf(have[i] * s[i / (n / n_scales)] - want[i]) > 3e-7f * fabsf(want[i]);
        if (wrong) CHECK_FAIL("%s: %lld values differ", json_name(t), (long long)wrong);
        free(want);
        free(have);
    }
    CHECK_EQ_I64(gguf_u64_or(g[1], "general.file_type", 0), 39);
    gguf_close(g[0]);
    gguf_close(g[1]);
}

/* Returns the logits of a token after some others, with f32 activations. */
static float *logits_of(const char *file, const char *quantized, int64_t *n) {
    static const int32_t ids[] = {5, 100, 7, 300, 9, 11};
    struct err e = {0};
    struct model *m = NULL;
    struct session *s = NULL;
    const struct session_opts o = {.n_ctx = 16};
    CHECK_OK(model_open(&m, tmp_path(file), &e));
    if (m && quantized) CHECK_EQ_STR(qtype_name(model_find_weight(m, quantized)->type), "Q8_0");
    *n = m ? m->hp.d[HD_VOCAB] : 0;
    float *l = xcalloc((size_t)*n + 1, sizeof *l);
    if (m) CHECK_OK(session_new(&s, m, &o, &e));
    if (s) CHECK_OK(session_step(s, ids, COUNT_OF(ids), l, &e));
    session_free(s);
    model_close(m);
    return l;
}

/* Checks that the runtime computes the same from kept.gguf as from the decoded weights. */
static void same_logits(const char *file, const char *quantized, double tolerance) {
    int64_t n, m;
    double most = 0, size = 0;
    float *want = logits_of("out.gguf", NULL, &n), *have = logits_of(file, quantized, &m);
    CHECK_EQ_I64(n, m);
    for (int64_t i = 0; i < n && n == m; i++) {
        most = fmax(most, (double)fabsf(want[i] - have[i]));
        size = fmax(size, (double)fabsf(want[i]));
    }
    printf("%s: logits up to %.3g differ by %.3g\n", file, size, most);
    if (!(most <= tolerance * size && size > 0)) CHECK_FAIL("%s: other logits", file);
    free(want);
    free(have);
}

static void nan_scale(struct st_tensor *t) {
    static uint8_t copy[1 << 16];
    size_t n = strlen(t->name);
    if (n < 13 || strcmp(t->name + n - 13, ".weight_scale") != 0 || t->n_bytes > sizeof copy)
        return;
    memcpy(copy, t->data, t->n_bytes);
    copy[t->n_bytes / 2] = 0x7f;
    t->data = copy;
}

/* Adds the matrices `from` of layer 1's experts, one below the other, as one tensor `to` with the
 * second scale of the first. turned: its shapes are those of transposed matrices. */
static void fuse(struct st_build *b, const struct st *st, const char *to, const char *const from[2],
                 bool turned) {
    static const char *const part[][2] = {
        {"weight", ""}, {"weight_scale", "_weight_scale"}, {"weight_scale_2", "_weight_scale_2"}};
    for (size_t p = 0; p < COUNT_OF(part); p++) {
        struct buf bytes = {0};
        char name[160];
        const struct st_tensor *t = NULL;
        for (int i = 0; i < 16; i++) {
            if (!from[i % 2] || (p == 2 && i % 2)) continue;
            snprintf(name, sizeof name, "model.layers.1.mlp.experts.%d.%s.%s", i / 2, from[i % 2],
                     part[p][0]);
            t = stored(st, name);
            if (t) buf_add(&bytes, t->data, (size_t)t->n_bytes);
        }
        int64_t shape[3] = {8};
        if (t && p < 2) {
            shape[1] = t->shape[0] * (from[1] ? 2 : 1);
            shape[2] = t->shape[1];
        }
        if (turned && p < 2) {
            const int64_t rows = shape[1];
            shape[1] = shape[2];
            shape[2] = rows;
        }
        snprintf(name, sizeof name, "model.layers.1.mlp.experts.%s%s", to, part[p][1]);
        if (t)
            st_add(b, name, st_dtype_name(t->dtype), p < 2 ? 3 : 1, shape, bytes.data, bytes.len);
        buf_release(&bytes);
    }
}

/* ModelOpt's names of fused experts. */
static void test_fused_nvfp4(void) {
    static const char *const gate_up[] = {"gate_proj", "up_proj"}, *const down[] = {"down_proj",
                                                                                    NULL};
    static const char *const same[] = {"blk.1.ffn_gate_exps.weight", "blk.1.ffn_down_exps.weight"};
    const struct json *f = form("nvfp4-experts");
    for (int turned = 0; turned < 2; turned++) {
        struct err e;
        struct st *base = NULL, *st = NULL;
        struct st_build b = {{0}, {0}};
        struct gguf *g = NULL;
        struct convert_report r;
        build(f, NULL);
        write_config(f);
        CHECK_OK(st_open(&base, "tests/golden/models/qwen3moe/model.safetensors", &e));
        CHECK_OK(st_open(&st, DIR "/nvfp4-experts.safetensors", &e));
        for (int64_t i = 0; base && i < st_n_tensors(base); i++) {
            const struct st_tensor *t = st_tensor_at(base, i);
            if (!removed(json_get(f, "remove"), t->name)) st_copy(&b, t->name, t);
        }
        fuse(&b, st, "gate_up_proj", gate_up, false);
        fuse(&b, st, "down_proj", down, turned);
        unlink(tmp_path("hf/model.safetensors"));
        st_finish(&b, tmp_path("hf/model.safetensors"));
        st_close(base);
        st_close(st);
        if (turned) {
            CHECK_ERR(convert("f32", &r, &e), ERR_DATA, "holds transposed matrices");
            continue;
        }
        CHECK_OK(convert("f32", &r, &e));
        CHECK_OK(gguf_open(&g, tmp_path("out.gguf"), 0, &e));
        for (size_t i = 0; g && i < COUNT_OF(same); i++) {
            const struct json *want = json_get(json_get(f, "expected"), same[i]);
            check_hash(g, "fused", same[i], json_str(json_get(want, "f32")), "F32");
        }
        gguf_close(g);
    }
}

static void test_nvfp4_is_kept(void) {
    struct err e;
    struct st *st = NULL;
    struct gguf *g = NULL;
    struct convert_report r;
    struct quantize_report q;
    nvfp4_kept("ct-nvfp4", 2);
    same_logits("kept.gguf", NULL, 2e-6);
    nvfp4_kept("modelopt-nvfp4", 2);
    same_logits("kept.gguf", NULL, 2e-6);
    nvfp4_kept("nvfp4-experts", 3);
    same_logits("kept.gguf", NULL, 2e-6);
    /* the bits of dense matrices and experts */
    CHECK_OK(gguf_open(&g, tmp_path("kept.gguf"), 0, &e));
    CHECK_OK(st_open(&st, DIR "/nvfp4-experts.safetensors", &e));
    for (int m = 0; g && st && m < 8; m++) {
        char module[128];
        snprintf(module, sizeof module, "model.layers.1.mlp.experts.%d.down_proj", m);
        check_bits(gguf_find_tensor(g, "blk.1.ffn_down_exps.weight"), m, st, module, "weight");
    }
    st_close(st);
    gguf_close(g);
    /* a quantized copy keeps the scales, and its weights are quantized without them */
    const struct quantize_opts o = {.in = tmp_path("kept.gguf"),
                                    .out = tmp_path("q.gguf"),
                                    .recipe = "q8_0",
                                    .pure = true,
                                    .overwrite = true};
    CHECK_OK(quantize_run(&o, &q, &e));
    quantize_report_release(&q);
    same_logits("q.gguf", "blk.1.ffn_gate_exps.weight", 0.02);
    /* other types decode them; NaN is refused */
    build(form("nvfp4-experts"), NULL);
    CHECK_OK(convert("bf16", &r, &e));
    CHECK_EQ_I64(r.n_nvfp4, 0);
    build(form("nvfp4-experts"), nan_scale);
    unlink(tmp_path("out.gguf"));
    CHECK_ERR(convert(NULL, &r, &e), ERR_DATA, "gate_proj.weight are negative or not numbers");
    CHECK(!io_exists(tmp_path("out.gguf")));
}

int main(void) {
    struct err e;
    tmp_make();
    progress_set_mode(PROG_NEVER);
    log_set_level(LOG_ERROR);
    CHECK_OK(json_read(&all, DIR "/forms.json", 1 << 20, &e));
    RUN(test_fused_nvfp4);
    RUN(test_mxfp4_is_kept);
    RUN(test_nvfp4_is_kept);
    json_free(all);
    tmp_remove();
    return check_done();
}
