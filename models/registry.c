// SPDX-License-Identifier: MIT
/* models/registry.c - list of architectures, and names of roles. A new architecture needs its own
 * file and a line in `all`. */
#include "models/arch.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/attr.h"
#include "models/block.h"

extern const struct arch arch_qwen2, arch_qwen3, arch_qwen3moe, arch_qwen35, arch_qwen35moe;
extern const struct arch arch_llama, arch_mistral3, arch_gemma4;
extern const struct arch arch_gemma, arch_gemma2, arch_gemma3, arch_granite, arch_olmo2,
    arch_smollm3, arch_starcoder2, arch_stablelm, arch_phi3, arch_phimoe, arch_glm4, arch_exaone4,
    arch_seed_oss, arch_cohere2, arch_qwen2moe, arch_olmoe;
extern const struct arch arch_glm4moe, arch_dots1, arch_minimax_m2, arch_afmoe, arch_bailingmoe2;
extern const struct arch arch_internlm2, arch_gpt_oss, arch_granitemoe, arch_arcee, arch_command_r,
    arch_hunyuan, arch_hunyuan_moe, arch_ernie45, arch_ernie45_moe;
extern const struct arch arch_lfm2, arch_lfm2moe, arch_granitehybrid, arch_nemotron_h,
    arch_nemotron_h_moe, arch_falcon_h1, arch_jamba, arch_qwen3next,
    arch_kimi_linear; /* with mixers other than attention */
extern const struct arch arch_deepseek2, arch_mistral4, arch_deepseek32, arch_glm_dsa;
extern const struct arch arch_exaone_moe, arch_mellum;
extern const struct arch arch_mamba, arch_mamba2, arch_gemma3n;
extern const struct arch arch_cohere2moe, arch_olmo, arch_gptneox, arch_falcon, arch_gpt2;
extern const struct arch arch_laguna, arch_mimo2, arch_step35;
extern const struct arch arch_muse_glimmer, arch_minicpm, arch_minicpm3, arch_chatglm, arch_exaone,
    arch_minimax_m3, arch_bailingmoe3, arch_dbrx;
extern const struct arch arch_hy_v3, arch_nemotron, arch_jais2, arch_phi2;
extern const struct arch arch_kimi_k3, arch_qwen4exp, arch_deepseek4, arch_glm5_next, arch_eagle3,
    arch_dflash, arch_gemma4_assistant; /* conversion only */
extern const struct arch arch_apertus, arch_qwen2vl, arch_qwen3vl, arch_qwen3vlmoe, arch_llama4;

// clang-format off
static const struct arch *const all[] = {
    &arch_qwen3,
    &arch_qwen3moe,
    &arch_qwen35,
    &arch_qwen35moe,
    &arch_qwen2,
    &arch_llama,
    &arch_mistral3,
    &arch_gemma4,
    &arch_gemma,
    &arch_gemma2,
    &arch_gemma3,
    &arch_gemma3n,
    &arch_granite,
    &arch_olmo2,
    &arch_smollm3,
    &arch_starcoder2,
    &arch_stablelm,
    &arch_phi3,
    &arch_phimoe,
    &arch_glm4,
    &arch_exaone4,
    &arch_exaone_moe,
    &arch_mellum,
    &arch_seed_oss,
    &arch_cohere2,
    &arch_qwen2moe,
    &arch_olmoe,
    &arch_glm4moe,
    &arch_dots1,
    &arch_minimax_m2,
    &arch_afmoe,
    &arch_bailingmoe2,
    &arch_lfm2,
    &arch_lfm2moe,
    &arch_internlm2,
    &arch_gpt_oss,
    &arch_granitemoe,
    &arch_arcee,
    &arch_command_r,
    &arch_hunyuan,
    &arch_hunyuan_moe,
    &arch_ernie45,
    &arch_ernie45_moe,
    &arch_granitehybrid,
    &arch_nemotron_h,
    &arch_nemotron_h_moe,
    &arch_falcon_h1,
    &arch_jamba,
    &arch_qwen3next,
    &arch_kimi_linear,
    &arch_deepseek2,
    &arch_mistral4,
    &arch_deepseek32,
    &arch_glm_dsa,
    &arch_apertus,
    &arch_qwen2vl,
    &arch_qwen3vl,
    &arch_qwen3vlmoe,
    &arch_llama4,
    &arch_mamba,
    &arch_mamba2,
    &arch_hy_v3,
    &arch_muse_glimmer,
    &arch_minicpm,
    &arch_minicpm3,
    &arch_chatglm,
    &arch_exaone,
    &arch_minimax_m3,
    &arch_bailingmoe3,
    &arch_dbrx,
    &arch_laguna,
    &arch_mimo2,
    &arch_step35,
    &arch_nemotron,
    &arch_jais2,
    &arch_phi2,
    &arch_cohere2moe,
    &arch_olmo,
    &arch_gptneox,
    &arch_falcon,
    &arch_gpt2,
    &arch_kimi_k3,
    &arch_qwen4exp,
    &arch_deepseek4,
    &arch_glm5_next,
    &arch_eagle3,
    &arch_dflash,
    &arch_gemma4_assistant,
};
// clang-format on

const struct arch *arch_at(int i) {
    return i >= 0 && i < (int)COUNT_OF(all) ? all[i] : NULL;
}

const struct arch *arch_find_table(const char *gguf_name) {
    for (size_t i = 0; gguf_name && i < COUNT_OF(all); i++)
        if (strcmp(all[i]->name, gguf_name) == 0) return all[i];
    return NULL;
}

bool arch_runs_draft(const char *kind) {
    for (size_t i = 0; kind && i < COUNT_OF(all); i++)
        if (all[i]->draft && all[i]->draft_graph && strcmp(all[i]->draft, kind) == 0) return true;
    return false;
}

const struct arch *arch_find(const char *gguf_name) {
    const struct arch *a = arch_find_table(gguf_name);
    return a && a->decoder ? a : NULL;
}

/* Returns whether the names are equal, ignoring case, hyphens and underscores. */
static bool same_name(const char *a, const char *b) {
    for (;; a++, b++) {
        while (*a == '_' || *a == '-') a++;
        while (*b == '_' || *b == '-') b++;
        if (tolower((uint8_t)*a) != tolower((uint8_t)*b)) return false;
        if (!*a) return true;
    }
}

/* Returns the architecture with a class of exactly this name or, if `loose` is set, a similar one.
 * NULL: unknown. */
static const struct arch *find_class(const char *name, bool loose) {
    for (size_t i = 0; i < COUNT_OF(all); i++)
        for (const char *const *c = all[i]->hf_classes; *c; c++)
            if (strcmp(*c, name) == 0 || (loose && same_name(*c, name))) return all[i];
    return NULL;
}

/* Finds the class whose name is the stem plus a usual suffix of language model classes. */
static const struct arch *find_stem(const char *stem, size_t n) {
    static const char *const ending[] = {"ForCausalLM", "ForConditionalGeneration", "LMHeadModel"};
    const struct arch *a = NULL;
    char name[128];
    for (size_t i = 0; i < COUNT_OF(ending) && !a && n + 32 < sizeof name; i++) {
        snprintf(name, sizeof name, "%.*s%s", (int)n, stem, ending[i]);
        a = find_class(name, true);
    }
    return a;
}

const struct arch *arch_find_hf(const char *hf_class) {
    static const char *const bare[] = {"Model", "TextModel"};
    if (!hf_class) return NULL;
    const size_t n = strlen(hf_class);
    const struct arch *a = find_class(hf_class, false);
    if (!a) a = find_class(hf_class, true);
    for (size_t i = 0; i < COUNT_OF(bare) && !a; i++) {
        const size_t m = strlen(bare[i]);
        if (n > m && strcmp(hf_class + n - m, bare[i]) == 0) a = find_stem(hf_class, n - m);
    }
    return a;
}

const struct arch *arch_find_type(const char *model_type) {
    static const char text[] = "_text";
    size_t n = model_type ? strlen(model_type) : 0;
    const size_t tail = sizeof text - 1;
    if (n > tail && strcmp(model_type + n - tail, text) == 0) n -= tail;
    return n ? find_stem(model_type, n) : NULL;
}

const struct arch *arch_find_dir(const char *hf_class, struct hfdir *dir) {
    config_complete(dir);
    const struct arch *a = arch_find_hf(hf_class);
    return a && a->which ? a->which(dir) : a;
}

int arch_build(const struct arch *a, const struct hparams *h, struct graph *g, struct err *e) {
    if (h->not_causal)
        return err_set(e, ERR_DATA,
                       "%s.attention.causal is false: every token attends to later ones, as in "
                       "embedding models, but hone computes causal attention only",
                       a->name);
    TRY(block_decoder(a, h, g, e));
    graph_finish(g);
    return 0;
}

int arch_build_draft(const struct arch *a, const struct hparams *h, struct graph *g,
                     struct err *e) {
    TRY(a->draft_graph ? a->draft_graph(a, h, g, e) : block_draft(a, h, g, e));
    graph_finish(g);
    return 0;
}

int arch_refuse(const char *path, const char *name, struct err *e) {
    const struct arch *a = arch_find_table(name);
    if (a && a->draft_graph)
        return err_set(e, ERR_DATA,
                       "%s: %s (%s) only draft for another model: hone run MODEL.gguf --draft %s",
                       path, a->family, a->name, path);
    if (a)
        return err_set(e, ERR_DATA,
                       "%s: hone supports %s (%s) for conversion and quantization only and "
                       "cannot run the file",
                       path, a->family, a->name);
    if (strcmp(name, "clip") == 0)
        return err_set(e, ERR_DATA,
                       "%s: a projector file (mmproj), not a model: pass the model's GGUF; images "
                       "use the projector file next to it, or that of --mmproj",
                       path);
    return err_set(e, ERR_DATA,
                   "%s: architecture %.80s is not known (`hone doctor --models` lists those that "
                   "are)",
                   path, *name ? name : "(none)");
}

int arch_refuse_class(const char *path, const char *cls, struct err *e) {
    return err_set(
        e, ERR_DATA,
        "%s: model class %.80s is not known; `hone doctor --models` lists those that are", path,
        cls);
}

const char *role_name(enum role r) {
    static const char *const name[ROLE_COUNT] = {
        [ROLE_OTHER] = "other",
        [ROLE_TOKEN_EMBD] = "token_embd",
        [ROLE_OUTPUT] = "output",
        [ROLE_ATTN_Q] = "attn_q",
        [ROLE_ATTN_K] = "attn_k",
        [ROLE_ATTN_V] = "attn_v",
        [ROLE_ATTN_QKV] = "attn_qkv",
        [ROLE_ATTN_GATE] = "attn_gate",
        [ROLE_ATTN_OUTPUT] = "attn_output",
        [ROLE_ATTN_LATENT] = "attn_latent",
        [ROLE_SSM_ALPHA] = "ssm_alpha",
        [ROLE_SSM_BETA] = "ssm_beta",
        [ROLE_SSM_IN] = "ssm_in",
        [ROLE_SSM_OUT] = "ssm_out",
        [ROLE_FFN_GATE] = "ffn_gate",
        [ROLE_FFN_UP] = "ffn_up",
        [ROLE_FFN_DOWN] = "ffn_down",
        [ROLE_EXP_GATE] = "ffn_gate_exps",
        [ROLE_EXP_UP] = "ffn_up_exps",
        [ROLE_EXP_DOWN] = "ffn_down_exps",
        [ROLE_EXP_GATE_UP] = "ffn_gate_up_exps",
        [ROLE_SHEXP_GATE] = "ffn_gate_shexp",
        [ROLE_SHEXP_UP] = "ffn_up_shexp",
        [ROLE_SHEXP_DOWN] = "ffn_down_shexp",
        [ROLE_MTP_PROJ] = "nextn_eh_proj",
        [ROLE_PLE_EMBD] = "per_layer_token_embd",
        [ROLE_PLE_GATE] = "inp_gate",
        [ROLE_PLE_PROJ] = "proj",
    };
    return (unsigned)r < ROLE_COUNT ? name[r] : "?";
}

bool role_is_routed(enum role r) {
    return r == ROLE_EXP_GATE || r == ROLE_EXP_UP || r == ROLE_EXP_DOWN || r == ROLE_EXP_GATE_UP;
}
