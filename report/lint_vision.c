// SPDX-License-Identifier: MIT
/* report/lint_vision.c - the linter's check that a vision model comes with its projector file. */
#include <stdlib.h>
#include <string.h>

#include "base/doc.h"
#include "base/json.h"
#include "report/folder_lint.h"

/* Parses a JSON file of the folder; NULL: missing or malformed. */
static struct json *read_json(struct lint *l, const char *name) {
    size_t len;
    struct json *root = NULL;
    struct err ignored;
    char *text = lint_text(l, name, &len);
    if (text && json_parse(&root, text, len, name, &ignored))
        root = NULL; /* another check reports the error */
    free(text);
    return root;
}

const char *lint_config_tower(const struct json *config) {
    static const char *const part[] = {"vision_config", "vision_encoder", "mm_vision_tower",
                                       "vision_tower", "visual"};
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        const struct json *j = json_get(config, part[i]);
        if (json_type(j) == JSON_OBJ || json_type(j) == JSON_STR) return part[i];
    }
    const struct json *thinker = json_get(config, "thinker_config");
    return json_type(thinker) == JSON_OBJ ? lint_config_tower(thinker) : NULL;
}

bool lint_sees(const struct gguf *g) {
    static const char *const arch[] = {"qwen2vl", "qwen3vl", "qwen3vlmoe", "cogvlm"};
    for (size_t i = 0; i < sizeof arch / sizeof *arch; i++)
        if (strcmp(gguf_str_or(g, "general.architecture", ""), arch[i]) == 0) return true;
    for (int64_t i = 0; i < gguf_n_tensors(g); i++)
        if (strncmp(gguf_tensor_at(g, i)->name, "v.", 2) == 0) return true;
    const struct gguf_kv *tags = gguf_find(g, "general.tags");
    if (!tags || tags->type != GV_ARR || tags->elem != GV_STR) return false;
    const uint8_t *pos = tags->data;
    for (uint64_t i = 0; i < tags->count; i++) {
        static const char task[] = "image-text-to-text";
        const char *s;
        uint64_t len;
        gguf_kv_str_next(tags, &pos, &s, &len);
        if (len == sizeof task - 1 && memcmp(s, task, len) == 0) return true;
    }
    return false;
}

/* Tokenizers do not tell: text models share those of vision models, image tokens included. */
const char *lint_image_text(const struct gguf *g) {
    static const char *const image[] = {"<|vision_start|>",   "<|image_pad|>", "<|image|>",
                                        "<start_of_image>",   "<image>",       "<|image_1|>",
                                        "<|begin_of_image|>", "<IMG_CONTEXT>", "[IMG]"};
    const char *template = gguf_str_or(g, "tokenizer.chat_template", "");
    for (size_t i = 0; i < sizeof image / sizeof *image; i++)
        if (strstr(template, image[i])) return image[i];
    return NULL;
}

void lint_vision(struct lint *l, bool model_sees, const char *image) {
    struct json *config = read_json(l, "config.json"), *results = read_json(l, "results.json");
    const struct json *made = json_get(results, "vision");
    const char *why = json_str(json_get(made, "why"));
    /* Fine-tunes of the language model alone keep the original's config; the job reports that. */
    const bool none = made && json_num(json_get(made, "n_tensors"), 1) == 0 && !why;
    if (!none && (why || model_sees || lint_config_tower(config)))
        lint_add(l, false, "vision-mmproj", NULL,
                 "the model reads images, but there is no projector file (mmproj-*.gguf), so these "
                 "files accept only text%s%s%s",
                 why ? " (" : "", why ? why : ": hone convert SRC --mmproj FILE writes it",
                 why ? ")" : "");
    else if (image && !results) /* hone make knows whether the original has a tower */
        lint_add(l, false, "vision-template", NULL,
                 "looks like a vision model without a projector file (mmproj-*.gguf): its chat "
                 "template writes %s for images; if the original reads images, hone convert SRC "
                 "--mmproj FILE writes it",
                 image);
    json_free(config);
    json_free(results);
}
