// SPDX-License-Identifier: MIT
/* tests/unit/synthetic.h - a small MoE model with random weights, for tests in which the recorded
 * models would be too slow on the emulated device; and a session's use of device memory. */
#ifndef HONE_TESTS_SYNTHETIC_H
#define HONE_TESTS_SYNTHETIC_H

#include "quantize/synth.h"
#include "runtime/engine/cuda/exec.h"
#include "tests/cuda-emu/control.h"
#include "tests/unit/golden.h"

/* Returns whether the device's free memory depends only on this program, to the byte, as on an
 * emulated device. A driver hands out memory in pieces of 2 MiB and takes some for code. */
static inline bool counts_bytes(void) {
    return emu_shuffle != NULL;
}
static inline uint64_t in_use(const struct session *s) { /* device memory used by this session */
    const struct cuda *d = exec_cuda_head(s);
    struct cu_info now = d->info;
    struct err e = {0};
    CHECK_OK(cu_get_info(d->ctx, &now, &e));
    return d->info.mem_free - now.mem_free;
}

/* Creates a model with random weights. If d and f are 256, experts have packed forms. */
static inline struct model *synthetic(const char *recipe, int d, int f, int n_layers) {
    static const char config[] =
        "{\"architectures\": [\"Qwen3MoeForCausalLM\"], \"model_type\": \"qwen3_moe\","
        " \"head_dim\": 32, \"hidden_size\": %d, \"intermediate_size\": 256,"
        " \"max_position_embeddings\": 64, \"moe_intermediate_size\": %d, \"norm_topk_prob\": true,"
        " \"num_attention_heads\": 1, \"num_key_value_heads\": 1, \"num_experts\": 5,"
        " \"num_experts_per_tok\": 2, \"num_hidden_layers\": %d, \"rms_norm_eps\": 1e-06,"
        " \"rope_theta\": 1000000.0, \"vocab_size\": 256, \"tie_word_embeddings\": false}";
    struct err e = {0};
    struct synth_report r;
    struct model *m = NULL;
    char *text = xasprintf(config, d, f, n_layers);
    struct synth_opts o = {.recipe = recipe,
                           .out = tmp_path("s.gguf"),
                           .shape = tmp_write("config.json", text, strlen(text)),
                           .seed = 1,
                           .overwrite = true};
    CHECK_OK(synth_run(&o, &r, &e));
    CHECK_OK(model_open(&m, o.out, &e));
    free(text);
    return m;
}

#endif
