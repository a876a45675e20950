// SPDX-License-Identifier: MIT
/* tests/unit/test_names.c - information in model names (convert/names.h). The expected values are
 * those of gguf-py (gguf/metadata.py) for the same names, as recorded in its own tests; titles and
 * rounding were worked out manually. */
#include "convert/names.h"
#include "tests/check.h"

static void test_components(void) {
    static const struct {
        const char *id, *full, *org, *basename, *finetune, *version, *size;
        double n_params;
    } t[] = {
        // clang-format off
        {"Mistral/Mixtral-8x7B-Instruct-v0.1", "Mixtral-8x7B-Instruct-v0.1", "Mistral", "Mixtral", "Instruct", "v0.1", "8x7B", 0},
        {"Mixtral-8x7B-Instruct", "Mixtral-8x7B-Instruct", "", "Mixtral", "Instruct", "", "8x7B", 0},
        {"Mixtral-8x7B-v0.1", "Mixtral-8x7B-v0.1", "", "Mixtral", "", "v0.1", "8x7B", 0},
        {"Mixtral-8x7B", "Mixtral-8x7B", "", "Mixtral", "", "", "8x7B", 0},
        {"Mixtral-v0.1", "Mixtral-v0.1", "", "Mixtral", "", "v0.1", "", 0},
        {"Mixtral", "Mixtral", "", "", "", "", "", 0},
        {"NousResearch/Meta-Llama-3-8B", "Meta-Llama-3-8B", "NousResearch", "Meta-Llama-3", "", "", "8B", 0},
        {"Qwen1.5-MoE-A2.7B-Chat", "Qwen1.5-MoE-A2.7B-Chat", "", "Qwen1.5-MoE", "Chat", "", "A2.7B", 0},
        {"Qwen2-57B-A14B-Instruct", "Qwen2-57B-A14B-Instruct", "", "Qwen2", "Instruct", "", "57B-A14B", 0},
        {"google/gemma-4-26B-A4B-it", "gemma-4-26B-A4B-it", "google", "gemma-4", "it", "", "26B-A4B", 4e9},
        {"microsoft/Phi-3-mini-4k-instruct", "Phi-3-mini-4k-instruct", "microsoft", "Phi-3", "4k-instruct", "", "mini", 4e9},
        {"delphi-suite/stories-llama2-50k", "stories-llama2-50k", "delphi-suite", "stories-llama2", "", "", "50K", 50e3},
        {"DeepSeek-Coder-V2-Lite-Instruct", "DeepSeek-Coder-V2-Lite-Instruct", "", "DeepSeek-Coder-V2-Lite", "Instruct", "", "", 0},
        {"crestf411/daybreak-kunoichi-2dpo-7b", "daybreak-kunoichi-2dpo-7b", "crestf411", "daybreak-kunoichi", "2dpo", "", "7B", 0},
        {"Qwen2-0.5B-Instruct", "Qwen2-0.5B-Instruct", "", "Qwen2", "Instruct", "", "0.5B", 0},
        {"smallcloudai/Refact-1_6B-fim", "Refact-1_6B-fim", "smallcloudai", "Refact", "fim", "", "1.6B", 0},
        {"UCLA-AGI/Gemma-2-9B-It-SPPO-Iter3", "Gemma-2-9B-It-SPPO-Iter3", "UCLA-AGI", "Gemma-2", "It-SPPO", "Iter3", "9B", 0},
        {"NousResearch/Hermes-2-Theta-Llama-3-8B", "Hermes-2-Theta-Llama-3-8B", "NousResearch", "Hermes-2-Theta-Llama-3", "", "", "8B", 0},
        {"SeaLLMs/SeaLLMs-v3-7B-Chat", "SeaLLMs-v3-7B-Chat", "SeaLLMs", "SeaLLMs-v3", "Chat", "", "7B", 0},
        {"internlm/internlm2_5-7b-chat-1m", "internlm2_5-7b-chat-1m", "internlm", "internlm2_5", "chat-1m", "", "7B", 7e9},
        {"pszemraj/jamba-900M-v0.13-KIx2", "jamba-900M-v0.13-KIx2", "pszemraj", "jamba", "KIx2", "v0.13", "900M", 0},
        {"state-spaces/mamba-2.8b-hf", "mamba-2.8b-hf", "state-spaces", "mamba", "hf", "", "2.8B", 0},
        {"abacaj/llama-161M-100B", "llama-161M-100B", "abacaj", "llama", "100b", "", "161M", 161e6},
        {"SparseLLM/relu-100B", "relu-100B", "SparseLLM", "relu", "100b", "", "", 1340e6},
        {"bigscience/bloom-7b1-petals", "bloom-7b1-petals", "bigscience", "bloom", "petals", "", "7.1B", 0},
        {"MaziyarPanahi/GreenNode-mini-7B-multilingual-v1olet-Mistral-7B-Instruct-v0.1", "GreenNode-mini-7B-multilingual-v1olet-Mistral-7B-Instruct-v0.1", "MaziyarPanahi", "GreenNode-mini", "multilingual-v1olet-Mistral-Instruct", "v0.1", "7B", 0},
        {"mistralai/Mistral-Nemo-Instruct-2407", "Mistral-Nemo-Instruct-2407", "mistralai", "Mistral-Nemo", "Instruct", "2407", "", 0},
        {"deepseek-ai/DeepSeek-V2-Chat-0628", "DeepSeek-V2-Chat-0628", "deepseek-ai", "DeepSeek-V2", "Chat", "0628", "", 0},
        {"OpenGVLab/Mini-InternVL-Chat-2B-V1-5", "Mini-InternVL-Chat-2B-V1-5", "OpenGVLab", "Mini-InternVL", "Chat", "V1-5", "2B", 0},
        {"jondurbin/bagel-dpo-2.8b-v0.2", "bagel-dpo-2.8b-v0.2", "jondurbin", "bagel-dpo", "", "v0.2", "2.8B", 0},
        {"voxmenthe/SFR-Iterative-DPO-LLaMA-3-8B-R-unquantized", "SFR-Iterative-DPO-LLaMA-3-8B-R-unquantized", "voxmenthe", "SFR-Iterative-DPO-LLaMA-3", "R-unquantized", "", "8B", 0},
        {"microsoft/Florence-2-base", "Florence-2-base", "microsoft", "", "", "", "", 0},
        {"mistralai/-Mistral--Nemo-Base-2407-", "-Mistral--Nemo-Base-2407-", "mistralai", "Mistral-Nemo-Base", "", "2407", "", 0},
        {"Llama-3-Instruct-abliteration-LoRA-8B", "Llama-3-Instruct-abliteration-LoRA-8B", "", "Llama-3", "Instruct-abliteration-LoRA", "", "8B", 0},
        {"./hermes-2-pro-llama-3-8b-DPO", "hermes-2-pro-llama-3-8b-DPO", "", "hermes-2-pro-llama-3", "DPO", "", "8B", 0},
        {"EmbeddedLLM/Mistral-7B-Merge-14-v0", "Mistral-7B-Merge-14-v0", "EmbeddedLLM", "Mistral", "Merge", "14-v0", "7B", 0},
        {"A model with blanks", "A model with blanks", "", "", "", "", "", 0},
        // clang-format on
    };
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        struct names n;
        names_parse(&n, t[i].id, (int64_t)t[i].n_params);
        const char *is[] = {n.full, n.org, n.basename, n.finetune, n.version, n.size_label};
        const char *want[] = {t[i].full,     t[i].org,     t[i].basename,
                              t[i].finetune, t[i].version, t[i].size};
        for (size_t k = 0; k < COUNT_OF(is); k++)
            if (strcmp(is[k], want[k]) != 0)
                CHECK_FAIL("%s: part %d is \"%s\", expected \"%s\"", t[i].id, (int)k, is[k],
                           want[k]);
    }
}

static void test_titles(void) {
    static const char *const t[][2] = {
        {"Mixtral-8x7B-Instruct-v0.1", "Mixtral 8x7B Instruct v0.1"},
        {"Meta-Llama-3-8B", "Meta Llama 3 8B"},
        {"hermes-2-pro-llama-3-8b-DPO", "Hermes 2 Pro Llama 3 8b DPO"},
        {"janai-hq", "Janai Hq"},
        {"trinity-v1", "Trinity v1"},
        {"", ""},
        {"--", ""},
    };
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        char out[NAMES_MAX];
        names_title(t[i][0], out);
        CHECK_EQ_STR(out, t[i][1]);
    }
}

static void test_size_labels(void) {
    static const struct {
        int64_t all, experts, n;
        const char *want;
    } t[] = {{596049920, 0, 0, "596M"}, /* Qwen3-0.6B */
             {3212749888, 0, 0, "3.2B"},
             {34660610688, 0, 0, "35B"},
             {46702792704, 45097156608, 8, "8x7.2B"}, /* Mixtral-8x7B */
             {50000, 0, 0, "50K"},
             {999, 0, 0, "1.0K"},
             {1500000000000, 0, 0, "1.5T"}};
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        char out[32];
        names_size_label(t[i].all, t[i].experts, t[i].n, out);
        CHECK_EQ_STR(out, t[i].want);
    }
}

/* Tests extreme lengths and arbitrary bytes, under sanitizers. */
static void test_hostile(void) {
    char id[700];
    struct names n;
    char title[NAMES_MAX];
    for (size_t len = 0; len < sizeof id; len++) {
        for (size_t i = 0; i < len; i++) id[i] = "a-7B/v.1_\x80 x"[(i * 7 + len) % 13];
        id[len] = 0;
        names_parse(&n, id, 7000000000);
        names_title(id, title);
        memset(id, len % 2 ? '-' : '7', len);
        names_parse(&n, id, 1);
        names_title(id, title);
    }
    for (size_t len = 55; len < 70; len++) {
        memset(id, '7', len);
        memcpy(id, "a-", 2);
        memcpy(id + len, "b1", 3);
        names_parse(&n, id, 7);
    }
}

int main(void) {
    RUN(test_components);
    RUN(test_titles);
    RUN(test_size_labels);
    RUN(test_hostile);
    return check_done();
}
