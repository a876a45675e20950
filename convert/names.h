// SPDX-License-Identifier: MIT
/* convert/names.h - parser of model names: "Qwen3-30B-A3B-Instruct-2507" is Qwen3, 30B parameters,
 * 3B active, instruction-tuned, version 2507. Follows the rules of llama.cpp's converter, so that
 * the metadata match. Internal to convert/. */
#ifndef HONE_CONVERT_NAMES_H
#define HONE_CONVERT_NAMES_H

#include <stdbool.h>
#include <stdint.h>

enum { NAMES_MAX = 256 };
struct names { /* "": not in the name */
    char full[NAMES_MAX], org[NAMES_MAX];
    char basename[NAMES_MAX], finetune[NAMES_MAX], version[NAMES_MAX], size_label[NAMES_MAX];
};
/* Splits an id, "NAME" or "ORG/NAME", into the fields of n. n_params, the model's number of
 * parameters, helps to distinguish sizes from context lengths; 0: unknown. */
void names_parse(struct names *n, const char *id, int64_t n_params);
/* Converts an id to a title: "meta-llama" becomes "Meta Llama". Capitalises words, and leaves
 * numbers and acronyms unchanged. */
void names_title(const char *id, char out[NAMES_MAX]);
/* Formats a model's size, such as "35B" or "256x2.6B": the number of parameters rounded to two
 * digits; for MoE models, the number of experts and the parameters of one expert plus the shared
 * ones. */
void names_size_label(int64_t n_params, int64_t n_expert_params, int64_t n_experts, char out[32]);

#endif
