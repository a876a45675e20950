// SPDX-License-Identifier: MIT
/* The same model in other shapes: experts fused or one by one, with and without "language_model.",
 * MTP block said or not, FP8 with block scales, more value heads. Each folder is rebuilt from a
 * golden one; where only the storage differs the output must equal the reference file's hashes. */
#include <sys/stat.h>
#include <unistd.h>

#include "convert/convert.h"
#include "base/buf.h"
#include "containers/gguf.h"
#include "base/hash.h"
#include "containers/hfdir.h"
#include "base/io.h"
#include "base/out.h"
#include "base/log.h"
#include "base/progress.h"
#include "tests/check.h"
#include "tests/unit/micro.h"

static char dir[] = "/tmp/hone-test-forms-XXXXXX";

static const char *in_dir(const char *name) {
    static char ring[8][512];
    static int next;
    char *p = ring[next++ % 8];
    snprintf(p, sizeof ring[0], "%s/%s", dir, name);
    return p;
}

/* Callback for a tensor: returns 1 if it has written it, 0 to copy it unchanged. */
typedef int (*edit_fn)(struct st_build *b, const struct st_tensor *t);

static void replace_text(const char *file, const char *from, const char *to) {
    struct err e;
    char *p = NULL;
    size_t n = 0;
    CHECK_OK(io_read_file(&p, &n, in_dir(file), 1 << 24, &e));
    char *at = p ? strstr(p, from) : NULL;
    if (!at) CHECK_FAIL("%s has no %s", file, from);
    if (at) {
        struct buf b = {0};
        buf_add(&b, p, (size_t)(at - p));
        buf_str(&b, to);
        buf_str(&b, at + strlen(from));
        CHECK_OK(out_write_file(in_dir(file), b.data, b.len, true, &e));
        buf_release(&b);
    }
    free(p);
}

static void rebuild(const char *golden, edit_fn fn) {
    static const char *const copied[] = {"config.json", "tokenizer.json", "tokenizer_config.json",
                                         "generation_config.json"};
    struct err e;
    struct hfdir *h = NULL;
    char path[512];
    snprintf(path, sizeof path, "tests/golden/models/%s", golden);
    CHECK_OK(hfdir_open(&h, path, &e));
    if (!h) return;
    struct st_build b = {{0}, {0}};
    for (int64_t i = 0; i < hfdir_n_tensors(h); i++) {
        const struct st_tensor *t = hfdir_tensor_at(h, i);
        if (!fn || !fn(&b, t)) st_copy(&b, t->name, t);
    }
    st_finish(&b, in_dir("model.safetensors"));
    hfdir_close(h);
    for (size_t i = 0; i < COUNT_OF(copied); i++) {
        char *p = NULL;
        size_t len = 0;
        snprintf(path, sizeof path, "tests/golden/models/%s/%s", golden, copied[i]);
        CHECK_OK(io_read_file(&p, &len, path, 1 << 24, &e));
        if (p) CHECK_OK(out_write_file(in_dir(copied[i]), p, len, true, &e));
        free(p);
    }
}

static struct gguf *convert(const char *type, struct convert_report *r) {
    struct err e;
    struct gguf *g = NULL;
    struct convert_opts o = {
        .src = dir, .out = in_dir("out.gguf"), .type = type, .overwrite = true};
    CHECK_OK(convert_run(&o, r, &e));
    CHECK_OK(gguf_open(&g, o.out, 0, &e));
    return g;
}

/* Checks that every tensor of the file has the reference's hash; returns the number of tensors. */
static int same_as_reference(const struct gguf *g, const char *golden) {
    struct err e;
    struct json *ref = NULL;
    char path[512];
    int n = 0;
    snprintf(path, sizeof path, "tests/golden/models/%s/gguf-reference.json", golden);
    CHECK_OK(json_read(&ref, path, 1 << 24, &e));
    for (int64_t i = 0; g && i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        struct sha256 h;
        char hex[65];
        sha256_init(&h);
        sha256_add(&h, t->data, t->n_bytes);
        sha256_hex(&h, hex);
        const char *want =
            json_str(json_get(json_get(json_get(ref, "tensors"), t->name), "sha256"));
        if (want && strcmp(want, hex) == 0)
            n++;
        else
            CHECK_FAIL("%s differs from the reference", t->name);
    }
    json_free(ref);
    return n;
}

/* ---- experts ---- */

/* Per-expert names from a fused MTP block (the 122B layout), and the trunk's names without
 * "language_model.". */
static int split_mtp_experts(struct st_build *b, const struct st_tensor *t) {
    bool up = strstr(t->name, "mlp.experts.gate_up_proj") != NULL;
    bool down = strstr(t->name, "mlp.experts.down_proj") != NULL && t->n_dims == 3;
    const char *lm = strstr(t->name, "language_model.");
    char name[256];
    if (lm) {
        snprintf(name, sizeof name, "%.*s%s", (int)(lm - t->name), t->name,
                 lm + strlen("language_model."));
        st_copy(b, name, t);
        return 1;
    }
    if (!up && !down) return 0;
    size_t mat = (size_t)(t->n_bytes / (uint64_t)t->shape[0]);
    int64_t half[2] = {t->shape[1] / (up ? 2 : 1), t->shape[2]};
    for (int x = 0; x < (int)t->shape[0]; x++) {
        const uint8_t *p = t->data + (size_t)x * mat;
        snprintf(name, sizeof name, "mtp.layers.0.mlp.experts.%d.%s_proj.weight", x,
                 up ? "gate" : "down");
        st_add(b, name, "BF16", 2, half, p, up ? mat / 2 : mat);
        if (!up) continue;
        snprintf(name, sizeof name, "mtp.layers.0.mlp.experts.%d.up_proj.weight", x);
        st_add(b, name, "BF16", 2, half, p + mat / 2, mat / 2);
    }
    return 1;
}

static void test_mtp_experts_one_by_one(void) {
    struct convert_report r;
    rebuild("qwen35moe", split_mtp_experts);
    struct gguf *g = convert("f32", &r);
    CHECK_EQ_I64(same_as_reference(g, "qwen35moe"), 96);
    gguf_close(g);
}

/* Fuses layer 1 of the trunk only, so that both layouts are in one checkpoint. */
static struct buf gate_up, down;
static const uint8_t *exp_gate[6], *exp_up[6], *exp_down[6];
static int n_collected;

static int fuse_layer1(struct st_build *b, const struct st_tensor *t) {
    static const char head[] = "model.language_model.layers.1.mlp.experts.";
    if (strncmp(t->name, head, sizeof head - 1) != 0) return 0;
    int x = t->name[sizeof head - 1] - '0';
    (strstr(t->name, "gate_proj") ? exp_gate
     : strstr(t->name, "up_proj") ? exp_up
                                  : exp_down)[x] = t->data;
    if (++n_collected < 18) return 1;
    size_t n = (size_t)t->n_bytes;
    buf_reset(&gate_up);
    buf_reset(&down);
    for (x = 0; x < 6; x++) {
        buf_add(&gate_up, exp_gate[x], n);
        buf_add(&gate_up, exp_up[x], n);
        buf_add(&down, exp_down[x], n);
    }
    static const int64_t gu[3] = {6, 128, 128}, dn[3] = {6, 128, 64};
    st_add(b, "model.language_model.layers.1.mlp.experts.gate_up_proj", "BF16", 3, gu, gate_up.data,
           gate_up.len);
    st_add(b, "model.language_model.layers.1.mlp.experts.down_proj", "BF16", 3, dn, down.data,
           down.len);
    return 1;
}

static void test_both_expert_layouts(void) {
    struct convert_report r;
    n_collected = 0;
    rebuild("qwen35moe", fuse_layer1);
    CHECK_EQ_I64(n_collected, 18);
    struct gguf *g = convert("f32", &r);
    CHECK_EQ_I64(same_as_reference(g, "qwen35moe"), 96);
    gguf_close(g);
}

static int lose_expert(struct st_build *b, const struct st_tensor *t) {
    (void)b;
    return strstr(t->name, "layers.2.mlp.experts.4.up_proj") != NULL;
}

static void test_missing_expert_is_named(void) {
    struct err e;
    struct convert_report r;
    rebuild("qwen35moe", lose_expert);
    struct convert_opts o = {.src = dir, .out = in_dir("out2.gguf")};
    CHECK_ERR(convert_run(&o, &r, &e), ERR_DATA, "model.layers.2.mlp.experts.4.up_proj.weight");
    CHECK(!io_exists(o.out));
}

/* ---- MTP ---- */

static int lose_mtp(struct st_build *b, const struct st_tensor *t) {
    (void)b;
    return strncmp(t->name, "mtp.", 4) == 0;
}

static void test_mtp_by_tensors(void) {
    struct convert_report r;
    rebuild("qwen35", lose_mtp); /* config still says 1 */
    struct gguf *g = convert("f32", &r);
    CHECK_EQ_I64(r.n_mtp_tensors, 0);
    CHECK(!gguf_find(g, "qwen35.nextn_predict_layers"));
    CHECK_EQ_I64(gguf_u64_or(g, "qwen35.block_count", 0), 4);
    CHECK_EQ_I64(same_as_reference(g, "qwen35"), 70 - 15);
    gguf_close(g);
    rebuild("qwen35", NULL); /* tensors, but config does not say so */
    replace_text("config.json", "\"mtp_num_hidden_layers\": 1,", "");
    g = convert("f32", &r);
    CHECK_EQ_I64(r.n_mtp_tensors, 15);
    CHECK_EQ_I64(gguf_u64_or(g, "qwen35.nextn_predict_layers", 0), 1);
    CHECK_EQ_I64(same_as_reference(g, "qwen35"), 70);
    gguf_close(g);
}

/* ---- FP8 ---- */

/* up_proj of layer 2 [256,128] as e4m3 codes with blocks of 128 x 64. */
static int make_fp8(struct st_build *b, const struct st_tensor *t) {
    if (!strstr(t->name, "layers.2.mlp.up_proj.weight")) return 0;
    static uint8_t code[256 * 128];
    for (size_t i = 0; i < sizeof code; i++) code[i] = (uint8_t)(i % 127); /* 0x00..0x7e: no NaN */
    static const float scale[4] = {0.5f, 2.0f, -1.0f, 0.25f};
    static const int64_t sshape[2] = {2, 2};
    char name[256];
    snprintf(name, sizeof name, "%s_scale_inv", t->name);
    st_add(b, t->name, "F8_E4M3", 2, t->shape, code, sizeof code);
    st_add(b, name, "F32", 2, sshape, scale, sizeof scale);
    return 1;
}

/* e4m3fn by its definition: bias 7, subnormals m * 2^-9. */
static double e4m3(int c) {
    int exp = c >> 3, man = c & 7;
    return exp ? ldexp(1 + man / 8.0, exp - 7) : ldexp(man, -9);
}

static void test_fp8(void) {
    struct convert_report r;
    struct err e;
    rebuild("qwen35", make_fp8);
    struct convert_opts o = {.src = dir, .out = in_dir("out2.gguf")};
    CHECK_ERR(convert_run(&o, &r, &e), ERR_DATA, "weight_block_size");
    replace_text("config.json", "\"dtype\": \"bfloat16\",",
                 "\"quantization_config\": {\"quant_method\": \"fp8\", "
                 "\"weight_block_size\": [128, 64]},");
    struct gguf *g = convert("f32", &r);
    const struct gguf_tensor *t = g ? gguf_find_tensor(g, "blk.2.ffn_up.weight") : NULL;
    static const double scale[4] = {0.5, 2.0, -1.0, 0.25};
    int bad = 0;
    for (int i = 0; t && i < 256 * 128; i++) {
        float v;
        memcpy(&v, t->data + 4 * i, 4);
        bad += (double)v != e4m3(i % 127) * scale[(i / 128 / 128) * 2 + i % 128 / 64];
    }
    CHECK(t != NULL);
    CHECK_EQ_I64(bad, 0);
    gguf_close(g);
    replace_text("config.json", "\"fp8\"", "\"hqq\"");
    CHECK_ERR(convert_run(&o, &r, &e), ERR_DATA, "quant_method \"hqq\"");
}

/* Fused experts [E][inputs][outputs] (Llama 4) in FP8, with scales of some shape. */
struct turned {
    const char *method, *suffix;
    bool flat;               /* one scale per expert, in a vector */
    bool outputs_first[2];   /* of gate_up, down: scales [E][outputs][1] */
    int64_t per_in, per_out; /* elements per scale; 0: all */
};

/* Returns the code of an expert's weight: all but NaN occur. */
static uint8_t turned_code(int64_t x, int64_t in, int64_t out) {
    const int64_t c = (x * 7 + in * 31 + out * 5) % 254;
    return (uint8_t)(c < 127 ? c : c + 1);
}

/* Returns the scale at position (i, o) of the scales of an expert. */
static float turned_scale(int64_t x, int64_t i, int64_t o) {
    return 0.25f * (float)(1 + (x + 3 * i + 7 * o) % 13);
}

/* Writes an expert tensor of turned_form in FP8 with its scales. */
static const struct turned *turned_form;
static int add_turned(struct st_build *b, const struct st_tensor *t) {
    const struct turned *form = turned_form;
    if (t->n_dims != 3 || !strstr(t->name, ".experts.")) return 0;
    const int64_t n = t->shape[0], in = t->shape[1], out = t->shape[2];
    const int64_t per_in = form->per_in ? form->per_in : in,
                  per_out = form->per_out ? form->per_out : out;
    const int64_t n_in = (in + per_in - 1) / per_in, n_out = (out + per_out - 1) / per_out;
    const bool first = form->outputs_first[strstr(t->name, "down_proj") != NULL];
    const int64_t shape[3] = {n, first ? n_out : n_in, first ? n_in : n_out};
    uint8_t *code = malloc((size_t)t->n_elems);
    float *scale = malloc((size_t)(n * n_in * n_out) * sizeof *scale);
    char name[256];
    for (int64_t k = 0; k < t->n_elems; k++)
        code[k] = turned_code(k / (in * out), k / out % in, k % out);
    for (int64_t k = 0; k < n * n_in * n_out; k++)
        scale[k] = turned_scale(k / (n_in * n_out), k / n_out % n_in, k % n_out);
    snprintf(name, sizeof name, "%s%s", t->name, form->suffix);
    st_add(b, t->name, "F8_E4M3", 3, t->shape, code, (size_t)t->n_elems);
    st_add(b, name, "F32", form->flat ? 1 : 3, shape, scale, (size_t)(n * n_in * n_out) * 4);
    snprintf(name, sizeof name, "%s_input_scale", t->name); /* is left out */
    st_add(b, name, "F32", 1, (const int64_t[]){1}, scale, 4);
    free(code);
    free(scale);
    return 1;
}

/* Makes a micro checkpoint with an edit of config.json, whose tensors fn may change; returns its
 * folder. */
static const char *micro_changed(const char *name, const char *from, const char *to, edit_fn fn) {
    const char *edit[] = {from, to, NULL}, *folder = micro_folder(name, edit);
    char *path = xasprintf("%s/model.safetensors", folder);
    st_rewrite(path, fn);
    free(path);
    return folder;
}

/* Makes Llama 4's micro checkpoint with experts in FP8; returns its folder. */
static const char *turned_folder(const struct turned *form) {
    static const char per_token[] = "\"num_experts_per_tok\"";
    char *config =
        xasprintf("\"quantization_config\": {\"quant_method\": \"%s\"%s}, %s", form->method,
                  form->per_in > 1 ? ", \"weight_block_size\": [32, 48]" : "", per_token);
    turned_form = form;
    const char *folder = micro_changed("tests/golden/archs/llama4", per_token, config, add_turned);
    free(config);
    return folder;
}

/* Returns how many values of a matrix of experts are not code * scale. row0: its first output in
 * the fused tensor. */
static int turned_bad(const struct gguf *g, const char *name, int64_t row0,
                      const struct turned *form) {
    const struct gguf_tensor *t = gguf_find_tensor(g, name);
    int bad = !t;
    for (int64_t k = 0; t && k < t->ne[0] * t->ne[1] * t->ne[2]; k++) {
        const int64_t in = k % t->ne[0], out = row0 + k / t->ne[0] % t->ne[1],
                      x = k / t->ne[0] / t->ne[1];
        const int c = turned_code(x, in, out);
        const double scale = (double)turned_scale(x, form->per_in ? in / form->per_in : 0,
                                                  form->per_out ? out / form->per_out : 0);
        float v;
        memcpy(&v, t->data + 4 * k, 4);
        bad += (double)v != (c > 127 ? -1 : 1) * e4m3(c & 127) * scale;
    }
    return bad;
}

static void test_fp8_turned(void) {
    static const struct turned form[] = {
        {"fbgemm_fp8", "_scale", false, {false, true}, 0, 1}, /* as transformers writes it */
        {"fbgemm_fp8", "_scale", false, {false, false}, 0, 1},
        {"fp8", "_scale_inv", false, {false, false}, 32, 48},
        {"compressed-tensors", "_scale", true, {false, false}, 0, 0},
        {"modelopt", "_weight_scale", false, {false, false}, 0, 0},
    };
    struct err e;
    tmp_make();
    for (size_t i = 0; i < COUNT_OF(form); i++) {
        struct convert_report r;
        struct gguf *g = NULL;
        const struct convert_opts o = {.src = turned_folder(&form[i]),
                                       .out = tmp_path("out.gguf"),
                                       .type = "f32",
                                       .overwrite = true};
        CHECK_OK(convert_run(&o, &r, &e));
        CHECK_OK(gguf_open(&g, o.out, 0, &e));
        if (!g) continue;
        CHECK_EQ_I64(turned_bad(g, "blk.1.ffn_gate_exps.weight", 0, &form[i]), 0);
        CHECK_EQ_I64(turned_bad(g, "blk.1.ffn_up_exps.weight", 40, &form[i]), 0);
        CHECK_EQ_I64(turned_bad(g, "blk.3.ffn_down_exps.weight", 0, &form[i]), 0);
        gguf_close(g);
    }
    tmp_remove();
}

/* ---- value heads ---- */

/* 8 value heads of 16 on 2 key heads: the order is not its own inverse, unlike the goldens' 4 on 2.
 */
static int eight_heads(struct st_build *b, const struct st_tensor *t) {
    static float vec[8], norm[16], ab[8 * 128], out[128 * 128], qkv[256 * 128], conv[256 * 4];
    static const int64_t s8[1] = {8}, s16[1] = {16}, sab[2] = {8, 128}, sout[2] = {128, 128},
                         sqkv[2] = {256, 128}, sconv[3] = {256, 1, 4};
    for (int i = 0; i < 8; i++) vec[i] = (float)i;
    for (int i = 0; i < 8 * 128; i++) ab[i] = (float)(i / 128);
    for (int i = 0; i < 128 * 128; i++) out[i] = (float)(i % 128);
    for (int i = 0; i < 256 * 128; i++) qkv[i] = (float)(i / 128);
    for (int i = 0; i < 256 * 4; i++) conv[i] = (float)(i / 4);
    const char *n = t->name;
    if (strncmp(n, "mtp.", 4) == 0 || !strstr(n, "linear_attn.")) return 0;
    if (strstr(n, "A_log") || strstr(n, "dt_bias"))
        st_add(b, n, "F32", 1, s8, vec, sizeof vec);
    else if (strstr(n, "norm.weight"))
        st_add(b, n, "F32", 1, s16, norm, sizeof norm);
    else if (strstr(n, "in_proj_a.") || strstr(n, "in_proj_b."))
        st_add(b, n, "F32", 2, sab, ab, sizeof ab);
    else if (strstr(n, "out_proj"))
        st_add(b, n, "F32", 2, sout, out, sizeof out);
    else if (strstr(n, "in_proj_z"))
        st_add(b, n, "F32", 2, sout, qkv, sizeof out);
    else if (strstr(n, "in_proj_qkv"))
        st_add(b, n, "F32", 2, sqkv, qkv, sizeof qkv);
    else if (strstr(n, "conv1d"))
        st_add(b, n, "F32", 3, sconv, conv, sizeof conv);
    else
        return 0;
    return 1;
}

static float at(const struct gguf *g, const char *name, int64_t i) {
    const struct gguf_tensor *t = gguf_find_tensor(g, name);
    float v = NAN;
    if (t && t->type == QT_F32 && (uint64_t)i * 4 < t->n_bytes) memcpy(&v, t->data + 4 * i, 4);
    return v;
}

static void test_value_heads_are_regrouped(void) {
    /* new[r*2 + k] = old[k*4 + r], written out */
    static const int old[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    struct convert_report r;
    rebuild("qwen35", eight_heads);
    replace_text("config.json", "\"linear_num_value_heads\": 4", "\"linear_num_value_heads\": 8");
    replace_text("config.json", "\"linear_value_head_dim\": 32", "\"linear_value_head_dim\": 16");
    struct gguf *g = convert("f32", &r);
    if (!g) return;
    for (int i = 0; i < 8; i++) {
        CHECK_CLOSE(at(g, "blk.0.ssm_dt.bias", i), old[i], 0);
        CHECK_CLOSE(at(g, "blk.0.ssm_a", i), (float)-exp(old[i]), exp(old[i]) * 6e-8);
        CHECK_CLOSE(at(g, "blk.0.ssm_alpha.weight", i * 128 + 5), old[i], 0);
        CHECK_CLOSE(at(g, "blk.0.ssm_beta.weight", i * 128 + 5), old[i], 0);
        for (int k = 0; k < 16; k++) {
            int row = i * 16 + k, from = old[i] * 16 + k;
            CHECK_CLOSE(at(g, "blk.0.attn_gate.weight", row * 128 + 1), from, 0);
            CHECK_CLOSE(at(g, "blk.0.attn_qkv.weight", (128 + row) * 128 + 1), 128 + from, 0);
            CHECK_CLOSE(at(g, "blk.0.ssm_conv1d.weight", (128 + row) * 4), 128 + from, 0);
            CHECK_CLOSE(at(g, "blk.0.ssm_out.weight", 128 * 3 + row), from, 0);
        }
    }
    for (int i = 0; i < 128; i++) /* q and k parts stay */
        CHECK_CLOSE(at(g, "blk.0.attn_qkv.weight", i * 128), i, 0);
    gguf_close(g);
}

/* ---- tied head ---- */

static int add_head(struct st_build *b, const struct st_tensor *t) {
    if (strstr(t->name, "embed_tokens")) st_copy(b, "lm_head.weight", t);
    return 0;
}

static void test_head_follows_the_config(void) {
    struct convert_report r;
    struct err e;
    log_set_level(LOG_ERROR);
    rebuild("qwen35", add_head); /* tied: the copy is left out */
    struct gguf *g = convert("f32", &r);
    CHECK_EQ_I64(r.n_tensors, 70);
    gguf_close(g);
    log_set_level(LOG_WARN);
    rebuild("qwen3", NULL); /* says untied, but has no head */
    replace_text("config.json", "\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false");
    struct convert_opts o = {.src = dir, .out = in_dir("out2.gguf")};
    CHECK_ERR(convert_run(&o, &r, &e), ERR_DATA, "lm_head.weight");
}

/* Writes input norms of 1. */
static int norms_of_one(struct st_build *b, const struct st_tensor *t) {
    uint16_t one[64];
    if (!strstr(t->name, "input_layernorm") || t->n_elems != 64) return 0;
    for (int i = 0; i < 64; i++) one[i] = 0x3f80;
    st_add(b, t->name, "BF16", t->n_dims, t->shape, one, sizeof one);
    return 1;
}

static void count_norms(void *ud, enum log_level level, const char *text) {
    *(int *)ud += level == LOG_WARN && strstr(text, "mean of the input norms is 1.000");
}

/* Checks that a Gemma whose input norms are about 1 is converted, with a warning. */
static void test_norms_around_one(void) {
    struct convert_report r;
    struct err e;
    int n = 0;
    tmp_make();
    const struct convert_opts o = {.src =
                                       micro_changed("tests/golden/archs/gemma2", "\"vocab_size\"",
                                                     "\"vocab_size\"", norms_of_one),
                                   .out = tmp_path("out.gguf")};
    log_set_level(LOG_WARN);
    log_set_sink(count_norms, &n);
    CHECK_OK(convert_run(&o, &r, &e));
    log_set_sink(NULL, NULL);
    log_set_level(LOG_ERROR);
    CHECK_EQ_I64(n, 1);
    tmp_remove();
}

static int lose_head(struct st_build *b, const struct st_tensor *t) {
    (void)b;
    return strcmp(t->name, "lm_head.weight") == 0;
}

/* Checks a tied head whose multiplier, 8, is not that of the embeddings, 4. */
static void test_tied_with_two_multipliers(void) {
    struct convert_report r;
    struct err e;
    struct gguf *g = NULL;
    tmp_make();
    const struct convert_opts o = {.src = micro_changed("tests/golden/archs/falcon-h1",
                                                        "\"tie_word_embeddings\": false",
                                                        "\"tie_word_embeddings\": true", lose_head),
                                   .out = tmp_path("out.gguf"),
                                   .type = "f32"};
    CHECK_OK(convert_run(&o, &r, &e));
    CHECK_OK(gguf_open(&g, o.out, 0, &e));
    for (int64_t i = 0; g && i < 64; i++) {
        CHECK(at(g, "token_embd.weight", i) != 0);
        CHECK(at(g, "output.weight", i) == 2 * at(g, "token_embd.weight", i));
    }
    gguf_close(g);
    tmp_remove();
}

static void count_rounding(void *ud, enum log_level level, const char *text) {
    *(int *)ud += level == LOG_WARN && strstr(text, "rounds again") != NULL;
}
/* Checks that auto is f32 if a multiplier is not a power of two, and that bf16 warns. */
static void test_odd_multipliers(void) {
    static const struct {
        const char *key, *type, *want;
        int n;
    } c[] = {{"0.25", NULL, "BF16", 0},
             {"0.4", NULL, "F32", 0},
             {"0.4", "bf16", "BF16", 1},
             {"0.4", "q8_0", "Q8_0", 0}};
    for (size_t i = 0; i < COUNT_OF(c); i++) {
        struct convert_report r;
        struct err e;
        struct gguf *g = NULL;
        int n = 0;
        tmp_make();
        char *to = xasprintf("\"key_multiplier\": %s", c[i].key);
        const char *edit[] = {"\"key_multiplier\": 0.25", to, NULL};
        const struct convert_opts o = {.src = micro_folder("tests/golden/archs/falcon-h1", edit),
                                       .out = tmp_path("out.gguf"),
                                       .type = c[i].type};
        log_set_level(LOG_WARN);
        log_set_sink(count_rounding, &n);
        CHECK_OK(convert_run(&o, &r, &e));
        log_set_sink(NULL, NULL);
        log_set_level(LOG_ERROR);
        CHECK_EQ_I64(n, c[i].n);
        CHECK_OK(gguf_open(&g, o.out, 0, &e));
        const struct gguf_tensor *t = g ? gguf_find_tensor(g, "blk.0.attn_k.weight") : NULL;
        CHECK_EQ_STR(t ? qtype_name(t->type) : "", c[i].want);
        gguf_close(g);
        tmp_remove();
        free(to);
    }
}

int main(void) {
    if (!mkdtemp(dir)) return 1;
    progress_set_mode(PROG_NEVER);
    log_set_level(LOG_ERROR);
    RUN(test_mtp_experts_one_by_one);
    RUN(test_both_expert_layouts);
    RUN(test_missing_expert_is_named);
    RUN(test_mtp_by_tensors);
    RUN(test_fp8);
    RUN(test_fp8_turned);
    RUN(test_value_heads_are_regrouped);
    RUN(test_head_follows_the_config);
    RUN(test_tied_with_two_multipliers);
    RUN(test_odd_multipliers);
    RUN(test_norms_around_one);
    buf_release(&gate_up);
    buf_release(&down);
    static const char *const made[] = {"config.json",           "tokenizer.json",
                                       "tokenizer_config.json", "generation_config.json",
                                       "model.safetensors",     "out.gguf"};
    for (size_t i = 0; i < COUNT_OF(made); i++) unlink(in_dir(made[i]));
    if (rmdir(dir)) return 1; /* files remain after the failure */
    return check_done();
}
