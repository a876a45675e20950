// SPDX-License-Identifier: MIT
/* report/release_text.c - small files that are published along with GGUF files: Ollama's Modelfile,
 * `params` for pulls from the Hub, LM Studio's model.yaml.
 *
 * They use only commands and parameters that these programs know; an unknown one makes `ollama
 * create` fail. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "report/release.h"
#include "report/report_text.h"

enum { OLLAMA_CTX = 32768 };

const char *const ollama_commands[] = {"FROM",     "PARAMETER", "TEMPLATE", "SYSTEM",
                                       "ADAPTER",  "DRAFT",     "LICENSE",  "MESSAGE",
                                       "RENDERER", "PARSER",    "REQUIRES", NULL};
const char *const ollama_params[] = {"num_keep",
                                     "seed",
                                     "num_predict",
                                     "top_k",
                                     "top_p",
                                     "min_p",
                                     "typical_p",
                                     "stop",
                                     "repeat_last_n",
                                     "temperature",
                                     "repeat_penalty",
                                     "presence_penalty",
                                     "frequency_penalty",
                                     "num_ctx",
                                     "num_batch",
                                     "num_gpu",
                                     "main_gpu",
                                     "use_mmap",
                                     "num_thread",
                                     "draft_num_predict",
                                     NULL};
const char *const ollama_deprecated[] = {
    "penalize_newline", "low_vram", "f16_kv",       "logits_all",   "vocab_only",
    "use_mlock",        "mirostat", "mirostat_tau", "mirostat_eta", NULL};

/* Architectures whose prompts Ollama renders and parses with built-in code: it ignores the template
 * in the file, and without these lines tool calls are lost. */
static const struct native {
    const char *arch, *name, *since;
} natives[] = {{"qwen35", "qwen3.5", "0.17.1"},
               {"qwen35moe", "qwen3.5", "0.17.1"},
               {"gemma4", "gemma4", NULL}};

/* Writes a number with the fewest digits that read back as the same float. */
static void put_number(struct buf *out, double v) {
    char text[40];
    for (int digits = 3; digits <= 9; digits++) { /* print an f32 0.7 as 0.7, not 0.699999988 */
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (strtof(text, NULL) == (float)v) break;
    }
    buf_str(out, text);
}

/* Writes a line of the Modelfile; nothing if v is not finite. */
static void put_parameter(struct buf *out, const char *name, double v) {
    if (!isfinite(v)) return;
    buf_fmt(out, "PARAMETER %s ", name);
    put_number(out, v);
    buf_chr(out, '\n');
}

/* Returns whether a Modelfile can express s. Ollama strips quotes and has no escapes, so s may
 * contain neither quotes nor control characters. */
static bool quotable(const char *s) {
    for (const char *c = s; *c; c++)
        if (*c == '"' || (unsigned char)*c < 0x20) return false;
    return true;
}

void release_modelfile(const struct release *r, struct buf *out) {
    int i = release_pick(r);
    if (i < 0) return;
    const struct release_file *f = &r->file[i];
    buf_str(out, "# ollama create NAME -f Modelfile\n");
    if (f->n_shards > 1)
        buf_fmt(out, "# Ollama does not read shards; first run: hone merge %s -o %s.gguf\n",
                f->file, f->stem);
    buf_fmt(out, "FROM ./%s%s\n", f->n_shards > 1 ? f->stem : f->file,
            f->n_shards > 1 ? ".gguf" : "");
    if (r->n_mmproj) buf_fmt(out, "FROM ./%s\n", r->mmproj[0].file);
    for (size_t k = 0; k < sizeof natives / sizeof *natives; k++) {
        if (strcmp(natives[k].arch, r->arch) != 0 || !*r->template) continue;
        buf_fmt(out, "TEMPLATE {{ .Prompt }}\nRENDERER %s\nPARSER %s\n", natives[k].name,
                natives[k].name);
        if (natives[k].since) buf_fmt(out, "REQUIRES %s\n", natives[k].since);
    }
    if (r->ctx > 0)
        put_parameter(out, "num_ctx", (double)(r->ctx < OLLAMA_CTX ? r->ctx : OLLAMA_CTX));
    put_parameter(out, "temperature", r->temp);
    if (r->top_k >= 0) put_parameter(out, "top_k", (double)r->top_k);
    put_parameter(out, "top_p", r->top_p);
    put_parameter(out, "min_p", r->min_p);
    put_parameter(out, "repeat_penalty", r->repeat);
    for (int k = 0; k < r->n_stops; k++)
        if (quotable(r->stop[k])) buf_fmt(out, "PARAMETER stop \"%s\"\n", r->stop[k]);
}

/* Writes a member; nothing if v is not finite. */
static void json_number(struct jw *w, const char *name, double v) {
    struct buf b = {0};
    if (!isfinite(v)) return;
    put_number(&b, v);
    jw_raw(w, name, b.data);
    buf_release(&b);
}

void release_params(const struct release *r, struct buf *out) {
    struct jw w;
    jw_init(&w, out, true);
    jw_obj(&w, NULL);
    json_number(&w, "temperature", r->temp);
    if (r->top_k >= 0) jw_i64(&w, "top_k", r->top_k);
    json_number(&w, "top_p", r->top_p);
    json_number(&w, "min_p", r->min_p);
    json_number(&w, "repeat_penalty", r->repeat);
    if (r->n_stops) {
        jw_arr(&w, "stop");
        for (int k = 0; k < r->n_stops; k++) jw_str(&w, NULL, r->stop[k]);
        jw_end(&w);
    }
    jw_end(&w);
    buf_chr(out, '\n');
}

/* ---- LM Studio ------------------------------------------------------------------------------- */

/* Appends s in lower case, with '-' for spaces. */
static void lower_name(struct buf *out, const char *s) {
    for (; *s; s++) buf_chr(out, (char)(*s >= 'A' && *s <= 'Z' ? *s + 32 : *s == ' ' ? '-' : *s));
}

/* Writes a setting of model.yaml; checked: with "checked: true". */
static void put_field(struct buf *out, const char *key, double v, bool checked) {
    if (!isfinite(v)) return;
    buf_fmt(out, "      - key: llm.prediction.%s\n        value:", key);
    if (checked) buf_str(out, "\n          checked: true\n          value:");
    buf_chr(out, ' ');
    put_number(out, v);
    buf_chr(out, '\n');
}

/* Writes s as a quoted YAML string. */
static void yaml_text(struct buf *out, const char *s) {
    json_quote(out, s, strlen(s)); /* JSON strings are YAML strings */
}

void release_model_yaml(const struct release *r, struct buf *out) {
    const char *slash = r->repo ? strchr(r->repo, '/') : NULL;
    const char *title = r->title;
    struct buf user = {0}, name = {0}, model = {0};
    if (slash) {
        buf_add(&user, r->repo, (size_t)(slash - r->repo));
        buf_str(&name, slash + 1);
    } else {
        buf_str(&user, r->quantized_by ? r->quantized_by : "local");
        for (const char *c = title; *c; c++) buf_chr(&name, (char)(*c == ' ' ? '-' : *c));
        buf_str(&name, "-GGUF");
    }
    lower_name(&model, user.data);
    buf_chr(&model, '/');
    lower_name(&model, title);
    buf_str(out, "# model.yaml describes a model to LM Studio; see https://modelyaml.org\n");
    if (!slash)
        buf_str(out, "# user and repo are a guess: hone publish --repo USER/NAME writes yours\n");
    buf_str(out, "model: ");
    yaml_text(out, model.data);
    buf_reset(&model);
    lower_name(&model, user.data);
    buf_chr(&model, '/');
    lower_name(&model, name.data);
    buf_str(out, "\nbase:\n  - key: ");
    yaml_text(out, model.data);
    buf_str(out, "\n    sources:\n      - type: huggingface\n        user: ");
    yaml_text(out, user.data);
    buf_str(out, "\n        repo: ");
    yaml_text(out, name.data);
    buf_str(out, "\nmetadataOverrides:\n  domain: llm\n  architectures:\n    - ");
    yaml_text(out, r->arch);
    buf_str(out, "\n  compatibilityTypes:\n    - gguf\n");
    if (*r->size_label) {
        buf_str(out, "  paramsStrings:\n    - ");
        yaml_text(out, r->size_label);
        buf_chr(out, '\n');
    }
    buf_fmt(out, "  minMemoryUsageBytes: %llu\n",
            (unsigned long long)r->file[r->n_files - 1].size_bytes);
    if (r->ctx > 0) buf_fmt(out, "  contextLengths:\n    - %lld\n", (long long)r->ctx);
    bool thinks = strstr(r->template, "enable_thinking") != NULL;
    buf_fmt(out, "  vision: %s\n  reasoning: %s\n  trainedForToolUse: %s\n",
            r->n_mmproj ? "true" : "false",
            thinks || strstr(r->template, "<think>") ? "true" : "false",
            strstr(r->template, "tools") ? "true" : "false");
    if (isfinite(r->temp) || isfinite(r->top_p) || isfinite(r->min_p) || r->top_k >= 0) {
        buf_str(out, "config:\n  operation:\n    fields:\n");
        put_field(out, "temperature", r->temp, false);
        put_field(out, "topKSampling", r->top_k >= 0 ? (double)r->top_k : (double)NAN, false);
        put_field(out, "topPSampling", r->top_p, true);
        put_field(out, "minPSampling", r->min_p, true);
        put_field(out, "repeatPenalty", r->repeat, true);
    }
    if (thinks)
        buf_str(out, "customFields:\n  - key: enableThinking\n    displayName: Enable thinking\n"
                     "    description: Whether the model thinks before it answers\n"
                     "    type: boolean\n    defaultValue: true\n    effects:\n"
                     "      - type: setJinjaVariable\n        variable: enable_thinking\n");
    buf_release(&user);
    buf_release(&name);
    buf_release(&model);
}
