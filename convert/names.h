// SPDX-License-Identifier: MIT
/* convert/names.h - what the name of a model says: "Qwen3-30B-A3B-Instruct-2507" is Qwen3, of 30B
 * with 3B active, tuned to follow instructions, version 2507. The rules are those of the field's
 * converter, so that the keys of a file are the same. Inner to convert/. */
#ifndef HONE_CONVERT_NAMES_H
#define HONE_CONVERT_NAMES_H

#include <stdbool.h>
#include <stdint.h>

enum { NAMES_MAX = 256 };
struct names { /* "": the name does not say */
    char full[NAMES_MAX], org[NAMES_MAX];
    char basename[NAMES_MAX], finetune[NAMES_MAX], version[NAMES_MAX], size_label[NAMES_MAX];
};
/* Takes an id, "NAME" or "ORG/NAME", apart into its fields in n. n_params is the number of elements
 * of the model's tensors, which tells a size from a length of context; 0: not known. */
void names_parse(struct names *n, const char *id, int64_t n_params);
/* Makes a title of an id: "meta-llama" becomes "Meta Llama". Words get a capital letter; numbers
 * and acronyms stay as they are. */
void names_title(const char *id, char out[NAMES_MAX]);
/* Writes how large a model is, such as "35B" or "256x2.6B": its parameters rounded to two digits;
 * with experts their number, and the parameters of one expert and of what is shared. */
void names_size_label(int64_t n_params, int64_t n_expert_params, int64_t n_experts, char out[32]);

#endif
