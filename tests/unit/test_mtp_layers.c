// SPDX-License-Identifier: MIT
/* tests/unit/test_mtp_layers.c - conversion of MTP layers in the published layouts of MiMo
 * (model.mtp.layers.N), Step (layers after the trunk) and EXAONE (mtp.layers.N, one projection):
 * names as llama.cpp's loader expects them, every value, keys with an entry per block. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "containers/hfdir.h"
#include "convert/convert.h"
#include "tests/check.h"
#include "tests/unit/micro.h"
#include "tests/unit/tmpdir.h"

enum { TRUNK = 4 };
/* A tensor of each MTP layer. hf with "=": the whole name, for all layers; gguf NULL: the
 * conversion stacks or splits it. */
struct part {
    const char *hf, *dims, *gguf;
    float added; /* added to each value by the conversion */
};
struct layout {
    const char *micro, *arch,
        *at; /* at: prefix of names; the layer's number follows, from `first` */
    int first, n_mtp;
    const char *const *edit; /* of config.json; NULL: none */
    const struct part *part;
    const char *array; /* key with an entry per block; NULL: none is checked */
    int more;          /* trunk layers beyond TRUNK */
};

// clang-format off
static const struct part mimo[] = {
    {"eh_proj.weight", "64x128", "nextn.eh_proj.weight", 0}, {"enorm.weight", "64", "nextn.enorm.weight", 0},
    {"hnorm.weight", "64", "nextn.hnorm.weight", 0}, {"final_layernorm.weight", "64", "layer_output_norm.weight", 0},
    {"input_layernorm.weight", "64", "attn_norm.weight", 0}, {"pre_mlp_layernorm.weight", "64", "ffn_norm.weight", 0},
    {"self_attn.q_proj.weight", "96x64", "attn_q.weight", 0}, {"self_attn.k_proj.weight", "96x64", "attn_k.weight", 0},
    {"self_attn.v_proj.weight", "64x64", "attn_v.weight", 0}, {"self_attn.o_proj.weight", "64x64", "attn_output.weight", 0},
    {"self_attn.attention_sink_bias", "4", "attn_sinks.weight", 0}, {"mlp.gate_proj.weight", "96x64", "ffn_gate.weight", 0},
    {"mlp.up_proj.weight", "96x64", "ffn_up.weight", 0}, {"mlp.down_proj.weight", "64x96", "ffn_down.weight", 0}, {NULL, NULL, NULL, 0},
};
static const struct part exaone[] = {
    {"=mtp.fc.weight", "64x128", "nextn.eh_proj.weight", 0}, {"=mtp.pre_fc_norm_embedding.weight", "64", "nextn.enorm.weight", 0},
    {"=mtp.pre_fc_norm_hidden.weight", "64", "nextn.hnorm.weight", 0}, {"=mtp.norm.weight", "64", "nextn.shared_head_norm.weight", 0},
    {"post_attention_layernorm.weight", "64", "post_attention_norm.weight", 0},
    {"post_feedforward_layernorm.weight", "64", "post_ffw_norm.weight", 0},
    {"self_attn.q_proj.weight", "64x64", "attn_q.weight", 0}, {"self_attn.k_proj.weight", "32x64", "attn_k.weight", 0},
    {"self_attn.v_proj.weight", "32x64", "attn_v.weight", 0}, {"self_attn.o_proj.weight", "64x64", "attn_output.weight", 0},
    {"self_attn.q_norm.weight", "16", "attn_q_norm.weight", 0}, {"self_attn.k_norm.weight", "16", "attn_k_norm.weight", 0},
    {"mlp.gate_proj.weight", "96x64", "ffn_gate.weight", 0}, {"mlp.up_proj.weight", "96x64", "ffn_up.weight", 0},
    {"mlp.down_proj.weight", "64x96", "ffn_down.weight", 0}, {NULL, NULL, NULL, 0},
};
static const struct part step[] = {
    {"eh_proj.weight", "64x128", "nextn.eh_proj.weight", 0}, {"enorm.weight", "64", "nextn.enorm.weight", 1},
    {"hnorm.weight", "64", "nextn.hnorm.weight", 1}, {"transformer.shared_head.norm.weight", "64", "nextn.shared_head_norm.weight", 1},
    {"transformer.shared_head.output.weight", "1024x64", "nextn.shared_head_head.weight", 0},
    {"input_layernorm.weight", "64", "attn_norm.weight", 1}, {"post_attention_layernorm.weight", "64", "ffn_norm.weight", 1},
    {"self_attn.q_proj.weight", "96x64", "attn_q.weight", 0}, {"self_attn.k_proj.weight", "32x64", "attn_k.weight", 0},
    {"self_attn.v_proj.weight", "32x64", "attn_v.weight", 0}, {"self_attn.o_proj.weight", "64x96", "attn_output.weight", 0},
    {"self_attn.q_norm.weight", "16", "attn_q_norm.weight", 1}, {"self_attn.k_norm.weight", "16", "attn_k_norm.weight", 1},
    {"self_attn.g_proj.weight", "6x64", "attn_gate.weight", 0}, {"mlp.gate_proj.weight", "96x64", "ffn_gate.weight", 0},
    {"mlp.up_proj.weight", "96x64", "ffn_up.weight", 0}, {"mlp.down_proj.weight", "64x96", "ffn_down.weight", 0}, {NULL, NULL, NULL, 0},
};
#define EXPERT(n) {"mlp.experts." n ".gate_proj.weight", "24x64", NULL, 0}, {"mlp.experts." n ".up_proj.weight", "24x64", NULL, 0}, {"mlp.experts." n ".down_proj.weight", "64x24", NULL, 0}
static const struct part dsa[] = {
    {"eh_proj.weight", "64x128", "nextn.eh_proj.weight", 0}, {"enorm.weight", "64", "nextn.enorm.weight", 0}, {"hnorm.weight", "64", "nextn.hnorm.weight", 0},
    {"embed_tokens.weight", "1024x64", "nextn.embed_tokens.weight", 0}, {"shared_head.head.weight", "1024x64", "nextn.shared_head_head.weight", 0},
    {"shared_head.norm.weight", "64", "nextn.shared_head_norm.weight", 0}, {"input_layernorm.weight", "64", "attn_norm.weight", 0},
    {"post_attention_layernorm.weight", "64", "ffn_norm.weight", 0}, {"self_attn.q_a_proj.weight", "40x64", "attn_q_a.weight", 0},
    {"self_attn.q_a_layernorm.weight", "40", "attn_q_a_norm.weight", 0}, {"self_attn.q_b_proj.weight", "192x40", "attn_q_b.weight", 0},
    {"self_attn.kv_a_proj_with_mqa.weight", "64x64", "attn_kv_a_mqa.weight", 0}, {"self_attn.kv_a_layernorm.weight", "32", "attn_kv_a_norm.weight", 0},
    {"self_attn.o_proj.weight", "64x96", "attn_output.weight", 0}, {"self_attn.indexer.wq_b.weight", "256x40", "indexer.attn_q_b.weight", 0},
    {"self_attn.indexer.wk.weight", "64x64", "indexer.attn_k.weight", 0}, {"self_attn.indexer.k_norm.weight", "64", "indexer.k_norm.weight", 0},
    {"self_attn.indexer.k_norm.bias", "64", "indexer.k_norm.bias", 0}, {"self_attn.indexer.weights_proj.weight", "4x64", "indexer.proj.weight", 0},
    {"mlp.gate.weight", "8x64", "ffn_gate_inp.weight", 0}, {"mlp.gate.e_score_correction_bias", "8", "exp_probs_b.bias", 0},
    {"mlp.shared_experts.gate_proj.weight", "48x64", "ffn_gate_shexp.weight", 0}, {"mlp.shared_experts.up_proj.weight", "48x64", "ffn_up_shexp.weight", 0},
    {"mlp.shared_experts.down_proj.weight", "64x48", "ffn_down_shexp.weight", 0}, {"self_attn.kv_b_proj.weight", "160x32", NULL, 0},
    EXPERT("0"), EXPERT("1"), EXPERT("2"), EXPERT("3"), EXPERT("4"), EXPERT("5"), EXPERT("6"), EXPERT("7"), {NULL, NULL, NULL, 0},
};
static const struct part exaone_moe[] = {
    {"=mtp.fc.weight", "64x128", "nextn.eh_proj.weight", 0}, {"=mtp.pre_fc_norm_embedding.weight", "64", "nextn.enorm.weight", 0},
    {"=mtp.pre_fc_norm_hidden.weight", "64", "nextn.hnorm.weight", 0}, {"=mtp.norm.weight", "64", "nextn.shared_head_norm.weight", 0},
    {"input_layernorm.weight", "64", "attn_norm.weight", 0}, {"post_attention_layernorm.weight", "64", "ffn_norm.weight", 0},
    {"self_attn.q_proj.weight", "64x64", "attn_q.weight", 0}, {"self_attn.k_proj.weight", "32x64", "attn_k.weight", 0},
    {"self_attn.v_proj.weight", "32x64", "attn_v.weight", 0}, {"self_attn.o_proj.weight", "64x64", "attn_output.weight", 0},
    {"self_attn.q_norm.weight", "16", "attn_q_norm.weight", 0}, {"self_attn.k_norm.weight", "16", "attn_k_norm.weight", 0},
    {"mlp.gate_proj.weight", "96x64", "ffn_gate.weight", 0}, {"mlp.up_proj.weight", "96x64", "ffn_up.weight", 0},
    {"mlp.down_proj.weight", "64x96", "ffn_down.weight", 0}, {NULL, NULL, NULL, 0},
};
#define PAIR(n) {"=mtp.layers.1.mixer.experts." n ".up_proj.weight", "40x32", NULL, 0}, {"=mtp.layers.1.mixer.experts." n ".down_proj.weight", "32x40", NULL, 0}
static const struct part nemotron[] = {
    {"=mtp.layers.0.eh_proj.weight", "64x128", "nextn.eh_proj.weight", 0}, {"=mtp.layers.0.enorm.weight", "64", "nextn.enorm.weight", 0},
    {"=mtp.layers.0.hnorm.weight", "64", "nextn.hnorm.weight", 0}, {"=mtp.layers.1.final_layernorm.weight", "64", "nextn.shared_head_norm.weight", 0},
    {"=mtp.layers.0.norm.weight", "64", "attn_norm.weight", 0}, {"=mtp.layers.1.norm.weight", "64", "post_attention_norm.weight", 0},
    {"=mtp.layers.0.mixer.q_proj.weight", "64x64", "attn_q.weight", 0}, {"=mtp.layers.0.mixer.k_proj.weight", "32x64", "attn_k.weight", 0},
    {"=mtp.layers.0.mixer.v_proj.weight", "32x64", "attn_v.weight", 0}, {"=mtp.layers.0.mixer.o_proj.weight", "64x64", "attn_output.weight", 0},
    {"=mtp.layers.1.mixer.gate.weight", "8x64", "ffn_gate_inp.weight", 0}, {"=mtp.layers.1.mixer.gate.e_score_correction_bias", "8", "exp_probs_b.bias", 0},
    {"=mtp.layers.1.mixer.fc1_latent_proj.weight", "32x64", "ffn_latent_down.weight", 0},
    {"=mtp.layers.1.mixer.fc2_latent_proj.weight", "64x32", "ffn_latent_up.weight", 0},
    {"=mtp.layers.1.mixer.shared_experts.up_proj.weight", "72x64", "ffn_up_shexp.weight", 0},
    {"=mtp.layers.1.mixer.shared_experts.down_proj.weight", "64x72", "ffn_down_shexp.weight", 0},
    PAIR("0"), PAIR("1"), PAIR("2"), PAIR("3"), PAIR("4"), PAIR("5"), PAIR("6"), PAIR("7"), {NULL, NULL, NULL, 0},
};
static const char *const one_layer[] = {"\"vocab_size\": 1024", "\"num_nextn_predict_layers\": 1,\n \"vocab_size\": 1024", NULL};
static const char *const step_edit[] = {
    "\"vocab_size\": 1024", "\"num_nextn_predict_layers\": 2,\n \"vocab_size\": 1024",
    "  \"sliding_attention\"\n ]", "  \"sliding_attention\",\n  \"sliding_attention\",\n  \"sliding_attention\"\n ]",
    "  1.0\n ]", "  1.0,\n  1.0,\n  1.0\n ]", NULL};
static const struct layout models[] = {
    {"exaone45", "exaone4", "mtp.layers.", 0, 1, NULL, exaone, NULL, 0},
    {"mimo2", "mimo2", "model.mtp.layers.", 0, 3, NULL, mimo, "attention.head_count_kv", 0},
    {"step35", "step35", "model.layers.", TRUNK, 2, step_edit, step, "attention.head_count", 0},
    {"exaonemoe", "exaone-moe", "mtp.layers.", 0, 1, one_layer, exaone_moe, NULL, 0},
    {"deepseek-v32", "deepseek32", "model.layers.", TRUNK, 1, one_layer, dsa, NULL, 0},
    {"glm-dsa", "glm-dsa", "model.layers.", TRUNK, 1, one_layer, dsa, NULL, 0},
    {"nemotron3-super", "nemotron_h_moe", "mtp.layers.", 0, 1, one_layer, nemotron, "feed_forward_length", 1},
};
// clang-format on

/* Returns the name of a part of MTP layer i in the checkpoint; the caller frees it. */
static char *hf_name(const struct layout *m, int i, const struct part *p) {
    return *p->hf == '=' ? xstrdup(p->hf + 1) : xasprintf("%s%d.%s", m->at, m->first + i, p->hf);
}

static const char *lost; /* part that the last MTP layer lacks; NULL: none */

/* Makes the micro checkpoint with MTP layers; returns its folder. */
static const char *make_folder(const struct layout *m) {
    char *from = xasprintf("tests/golden/archs/%s", m->micro),
         *text = xasprintf("%s/tensors.txt", from), *list = NULL, *config = NULL;
    struct err e;
    struct buf all = {0};
    size_t n = 0;
    CHECK_OK(io_read_file(&list, &n, text, 1 << 20, &e));
    buf_str(&all, list);
    for (int i = 0; i < m->n_mtp; i++)
        for (const struct part *p = m->part; p->hf; p++) {
            if (lost && i + 1 == m->n_mtp && strcmp(p->hf, lost) == 0) continue;
            char *hf = hf_name(m, i, p);
            buf_fmt(&all, "%s BF16 %s 0.25 0.5\n", hf, p->dims);
            free(hf);
        }
    mkdir(tmp_path("src"), 0700);
    tmp_write("src/tensors.txt", all.data, all.len);
    free(text);
    text = xasprintf("%s/config.json", from);
    CHECK_OK(io_read_file(&config, &n, text, 1 << 20, &e));
    tmp_write("src/config.json", config, n);
    free(text);
    free(from);
    free(list);
    free(config);
    buf_release(&all);
    text = xasprintf("%s", tmp_path("src"));
    const char *folder = micro_folder(text, m->edit);
    free(text);
    return folder;
}

/* Checks that the GGUF tensor has the values of the folder's tensor. */
static void check_values(const struct gguf *g, const struct hfdir *dir, const char *hf,
                         const char *gguf, float added) {
    const struct gguf_tensor *t = gguf_find_tensor(g, gguf);
    const struct st_tensor *s = NULL;
    struct err e;
    for (int64_t i = 0; i < hfdir_n_tensors(dir) && !s; i++)
        if (strcmp(hfdir_tensor_at(dir, i)->name, hf) == 0) s = hfdir_tensor_at(dir, i);
    if (!t || !s || t->type != QT_F32 || t->n_bytes != 4 * (uint64_t)s->n_elems) {
        CHECK_FAIL("%s: %s", gguf, t ? "another size or type" : "missing");
        return;
    }
    const float *stored = (const void *)t->data; /* GGUF data are aligned */
    float *v = xcalloc((size_t)s->n_elems, sizeof *v);
    CHECK_OK(st_to_f32(s, 0, s->n_elems, v, &e));
    for (int64_t i = 0; i < s->n_elems; i++)
        if (fabsf(stored[i] - v[i] - added) > 1e-6f) {
            CHECK_FAIL("%s: value %lld differs", gguf, (long long)i);
            break;
        }
    free(v);
}

/* Checks the length of an array; `name`: key after the architecture. */
static void check_array(const struct gguf *g, const struct layout *m, const char *name) {
    char key[128];
    snprintf(key, sizeof key, "%s.%s", m->arch, name);
    const struct gguf_kv *kv = gguf_find(g, key);
    CHECK(kv && kv->type == GV_ARR);
    if (kv) CHECK_EQ_I64((int64_t)kv->count, TRUNK + m->more + m->n_mtp);
}

static void test_layers(void) {
    for (size_t k = 0; k < COUNT_OF(models); k++) {
        const struct layout *m = &models[k];
        struct convert_report r;
        struct err e = {0};
        struct gguf *g = NULL;
        struct hfdir *dir = NULL;
        char key[128];
        char *folder = xasprintf("%s", make_folder(m)), *out = xasprintf("%s", tmp_path("o.gguf"));
        struct convert_opts o = {.src = folder, .out = out, .type = "f32", .overwrite = true};
        CHECK_OK(convert_run(&o, &r, &e));
        CHECK_OK(gguf_open(&g, out, 0, &e));
        CHECK_OK(hfdir_open(&dir, folder, &e));
        if (!g || !dir) return;
        snprintf(key, sizeof key, "%s.nextn_predict_layers", m->arch);
        CHECK_EQ_I64((int64_t)gguf_u64_or(g, key, 0), m->n_mtp);
        snprintf(key, sizeof key, "%s.block_count", m->arch);
        CHECK_EQ_I64((int64_t)gguf_u64_or(g, key, 0), TRUNK + m->more + m->n_mtp);
        if (m->part != dsa && m->part != nemotron)
            check_array(g, m, "attention.sliding_window_pattern");
        if (m->array) check_array(g, m, m->array);
        /* keys and values of heads, and tensors of experts */
        int64_t n = m->part == dsa ? 5 : m->part == nemotron ? 2 : 0;
        for (int i = 0; i < m->n_mtp; i++)
            for (const struct part *p = m->part; p->hf; p++) {
                if (!p->gguf) continue;
                n++;
                char *gguf = xasprintf("blk.%d.%s", TRUNK + m->more + i, p->gguf);
                char *hf = hf_name(m, i, p);
                check_values(g, dir, hf, gguf, p->added);
                free(hf);
                free(gguf);
            }
        CHECK_EQ_I64(r.n_mtp_tensors, n);
        const int64_t whole = gguf_n_tensors(g);
        gguf_close(g);
        struct model *opened = NULL; /* the trunk runs without the blocks */
        CHECK_OK(model_open(&opened, out, &e));
        if (opened) CHECK_EQ_I64(opened->hp.d[HD_MTP], m->n_mtp);
        model_close(opened);
        o.no_mtp = true; /* the same file without the blocks */
        CHECK_OK(convert_run(&o, &r, &e));
        CHECK_EQ_I64(r.n_tensors, whole - n);
        o.no_mtp = false;
        o.mtp_only = true; /* the blocks and embeddings, norm, head */
        CHECK_OK(convert_run(&o, &r, &e));
        CHECK_EQ_I64(r.n_tensors, n + 3);
        CHECK_OK(gguf_open(&g, out, 0, &e));
        if (g) CHECK_EQ_I64(gguf_part_of(g), GGUF_DRAFT);
        gguf_close(g);
        hfdir_close(dir);
        free(folder);
        free(out);
    }
}

/* A missing tensor is named as the folder names the layer's other tensors. */
static void test_missing(void) {
    for (size_t k = 0; k < COUNT_OF(models); k++) {
        const struct layout *m = &models[k];
        const struct part *p = m->part;
        while (p->hf && strcmp(p->hf, "hnorm.weight") != 0) p++;
        if (!p->hf) continue; /* not the layer's own */
        struct convert_report r;
        struct err e = {0};
        lost = p->hf;
        char *folder = xasprintf("%s", make_folder(m)), *hf = hf_name(m, m->n_mtp - 1, p);
        char *said = xasprintf("tensor %s (for blk.%d.nextn.hnorm.weight) is missing", hf,
                               TRUNK + m->more + m->n_mtp - 1);
        struct convert_opts o = {
            .src = folder, .out = tmp_path("o.gguf"), .type = "f32", .overwrite = true};
        CHECK_ERR(convert_run(&o, &r, &e), ERR_DATA, said);
        free(said);
        free(hf);
        free(folder);
    }
    lost = NULL;
}

int main(void) {
    tmp_make();
    RUN(test_layers);
    RUN(test_missing);
    tmp_remove();
    return check_done();
}
