// SPDX-License-Identifier: MIT
/* convert/lora.c - the adapter itself: its settings, the names of its tensors, and that all of them
 * were used. lora_bind.c finds what belongs to a weight.
 *
 * Adapter names are the module's name behind "base_model.model." with ".lora_A.weight",
 * ".lora_B.weight". Some savers add wrappers ("_orig_mod."), the adapter's own name (".default") or
 * "modules_to_save."; those go. */
#include "convert/lora.h"

#include <stdio.h>
#include <stdlib.h>

#include "convert/lora_int.h"
#include "core/attr.h"
#include "core/io.h"
#include "core/log.h"
#include "core/mem.h"
#include "core/str.h"
#include "text/re.h"

/* ---- settings ---- */

/* Kinds of adapters that are no change of weights. */
static const char *const not_weights[] = {"PROMPT_TUNING", "MULTITASK_PROMPT_TUNING",
                                          "P_TUNING",      "PREFIX_TUNING",
                                          "CPT",           "ADAPTION_PROMPT"};
/* Settings that change the merged weights and are not computed here. */
static const char *const not_computed[] = {
    "use_dora",    "lora_bias",         "use_qalora",        "use_bdlora",
    "kasa_config", "monteclora_config", "layer_replication", "trainable_token_indices",
    "arrow_config"};
/* Values of init_lora_weights with which peft takes a part out of the base's weights first. */
static const char *const takes_out[] = {"pissa", "olora", "corda", "loftq", "lora_ga"};

static int check_type(const struct lora *l, struct err *e) {
    const char *type = json_str(json_get(l->cfg, "peft_type"));
    if (type && strcmp(type, "LORA") == 0) return 0;
    for (size_t i = 0; i < COUNT_OF(not_weights) && type; i++)
        if (strcmp(type, not_weights[i]) == 0)
            return err_set(e, ERR_DATA,
                           "%s: peft_type \"%s\" adds to the input of a model, not to its weights, "
                           "so it cannot be merged into a file",
                           l->path, type);
    return err_set(e, ERR_DATA,
                   "%s: peft_type is \"%.40s\", only LORA adapters are merged here: " LORA_MERGE,
                   l->path, type ? type : "");
}

static int check_config(const struct lora *l, struct err *e) {
    TRY(check_type(l, e));
    for (size_t i = 0; i < COUNT_OF(not_computed); i++) {
        const struct json *j = json_get(l->cfg, not_computed[i]);
        if (json_bool(j, false) || json_type(j) == JSON_OBJ || json_type(j) == JSON_ARR)
            return err_set(e, ERR_DATA, "%s: %s is not supported: " LORA_MERGE, l->path,
                           not_computed[i]);
    }
    const struct json *tokens = json_get(l->cfg, "alora_invocation_tokens");
    if (json_type(tokens) == JSON_ARR)
        return err_set(e, ERR_DATA,
                       "%s: alora_invocation_tokens: the adapter acts after these tokens only, so "
                       "it cannot be merged",
                       l->path);
    const char *init = json_str(json_get(l->cfg, "init_lora_weights"));
    for (size_t i = 0; i < COUNT_OF(takes_out) && init; i++)
        if (strncmp(init, takes_out[i], strlen(takes_out[i])) == 0)
            return err_set(
                e, ERR_DATA,
                "%s: init_lora_weights \"%.40s\" takes a part out of the base's weights, "
                "which is not computed here: " LORA_MERGE,
                l->path, init);
    const struct json *pattern = json_get(l->cfg, "alpha_pattern");
    if (pattern && json_type(pattern) != JSON_OBJ && json_type(pattern) != JSON_NULL)
        return err_set(e, ERR_DATA, "%s: alpha_pattern is not an object of names and numbers",
                       l->path);
    return 0;
}

/* Finds out in which order the peft that wrote the adapter has the two sides of fused experts: up
 * to 0.19.0 A is over the first dimension of each matrix, from 0.19.1 on over its inputs. Versions
 * before 0.18 are not written. */
static void read_version(struct lora *l) {
    const char *v = json_str(json_get(l->cfg, "peft_version"));
    int major = 0, minor = 0, patch = 0;
    if (v) (void)sscanf(v, "%d.%d.%d", &major, &minor, &patch);
    l->rows_first = major == 0 && (minor < 19 || (minor == 19 && patch == 0));
    l->swapped_0 = major == 0 && minor == 19 && patch == 0;
}

/* Matches as peft does: re.match(rf"(.*\.)?({key})$", module), the first key that does. */
int lora_alpha(const struct lora *l, const char *module, double *alpha, struct err *e) {
    *alpha = l->alpha;
    for (const struct json *j = json_first(json_get(l->cfg, "alpha_pattern")); j;
         j = json_next(j)) {
        char *re = xasprintf("\\A(.*\\.)?(%s)$", json_name(j));
        enum re_answer is = RE_NO;
        int rc = re_search(re, module, strlen(module), &is, e);
        free(re);
        if (!rc && is == RE_GAVE_UP)
            rc = err_set(e, ERR_DATA, "the pattern takes too long: " LORA_MERGE);
        if (rc) return err_wrap(e, "%s: alpha_pattern \"%.80s\"", l->path, json_name(j));
        if (is != RE_YES) continue;
        *alpha = json_num(j, l->alpha);
        return 0;
    }
    return 0;
}

/* ---- names ---- */

/* Cuts n bytes out of a text at `at`. */
static void cut(char *at, size_t n) {
    memmove(at, at + n, strlen(at + n) + 1);
}

/* Cuts out every `part` that stands as whole parts of a name. */
static void cut_part(char *name, const char *part) {
    const size_t n = strlen(part);
    for (char *at = strstr(name, part); at;)
        if (at == name || at[-1] == '.') {
            cut(at, n);
            at = strstr(at, part);
        } else
            at = strstr(at + 1, part);
}

/* Cuts the name of the adapter, which savers other than peft leave in place:
 * ".lora_A.default.weight" and ".modules_to_save.default.weight". */
static void cut_adapter(char *name) {
    static const char *const before[] = {".lora_A.", ".lora_B.", ".lora_embedding_A.",
                                         ".lora_embedding_B.", ".modules_to_save."};
    for (size_t i = 0; i < COUNT_OF(before); i++) {
        char *at = strstr(name, before[i]);
        if (!at) continue;
        at += strlen(before[i]);
        const size_t n = strcspn(at, ".");
        if (at[n] == '.')
            cut(at, n + 1);
        else if (strncmp(before[i], ".lora_embedding", 15) == 0)
            at[-1] = 0;
    }
    cut_part(name, "modules_to_save.");
}

static const char *module_name(struct lora *l, const char *name) {
    static const char *const wrapper[] = {"_orig_mod.", "_fsdp_wrapped_module.",
                                          "_checkpoint_wrapped_module.", "module."};
    static const char head[] = "base_model.model.";
    char *out = arena_strdup(&l->arena, name);
    for (size_t i = 0; i < COUNT_OF(wrapper); i++) cut_part(out, wrapper[i]);
    if (strncmp(out, head, sizeof head - 1) == 0) cut(out, sizeof head - 1);
    cut_adapter(out);
    return out;
}

/* Returns a module's name as the tables spell it: "model.language_model.layers..." becomes
 * "model.layers...", and so does "layers...", of a model without a head. */
static const char *plain_name(struct lora *l, const char *module) {
    static const char *const bare[] = {"layers.", "embed_tokens.", "norm.", "h.", "wte."};
    char *out = arena_strdup(&l->arena, module);
    cut_part(out, "language_model.");
    for (size_t i = 0; i < COUNT_OF(bare); i++) {
        if (strncmp(out, bare[i], strlen(bare[i])) != 0) continue;
        const size_t n = strlen(out), head = i < 3 ? 6 : 12;
        char *longer = arena_alloc(&l->arena, n + head + 1);
        memcpy(longer, i < 3 ? "model." : "transformer.", head);
        memcpy(longer + head, out, n + 1);
        return longer;
    }
    return out;
}

/* ---- opening ---- */

static int open_file(struct lora *l, struct err *e) {
    char *path = io_join(l->dir, "adapter_model.safetensors");
    char *pickle = io_join(l->dir, "adapter_model.bin");
    int rc = 0;
    if (!io_exists(path) && io_exists(pickle))
        rc = err_set(e, ERR_DATA,
                     "%s is a pickle, which can run code and is not read: load the adapter with "
                     "peft and save it again, which writes adapter_model.safetensors",
                     pickle);
    if (!rc) rc = st_open(&l->st, path, e);
    free(path);
    free(pickle);
    return rc;
}

static int open_tensors(struct lora *l, struct err *e) {
    TRY(open_file(l, e));
    l->n = st_n_tensors(l->st);
    l->by_name = strmap_new((size_t)l->n);
    l->used = xcalloc((size_t)l->n + 1, sizeof *l->used);
    l->module = xcalloc((size_t)l->n + 1, sizeof *l->module);
    l->plain = xcalloc((size_t)l->n + 1, sizeof *l->plain);
    for (int64_t i = 0; i < l->n; i++) {
        const struct st_tensor *t = st_tensor_at(l->st, i);
        l->module[i] = module_name(l, t->name);
        l->plain[i] = plain_name(l, l->module[i]);
        l->used[i] = strstr(t->name, ".original_module.") != NULL; /* what was there before */
        if (l->used[i]) continue;
        if (t->dtype != ST_F32 && t->dtype != ST_F16 && t->dtype != ST_BF16)
            return err_set(e, ERR_DATA, "%s: tensor %s has dtype %s", st_path(l->st),
                           LORA_SHOW(t->name), st_dtype_name(t->dtype));
        if (!strmap_add(l->by_name, l->plain[i], strlen(l->plain[i]), i))
            return err_set(e, ERR_DATA, "%s: tensor %s is there twice", st_path(l->st),
                           LORA_SHOW(t->name));
    }
    return 0;
}

static bool find_tokenizer(const char *dir) {
    static const char *const name[] = {"tokenizer.json", "tokenizer.model", "tekken.json",
                                       "tiktoken.model"};
    bool has = false;
    for (size_t i = 0; i < COUNT_OF(name) && !has; i++) {
        char *path = io_join(dir, name[i]);
        has = io_exists(path);
        free(path);
    }
    return has;
}

int lora_open(struct lora **out, const char *dir, struct err *e) {
    struct lora *l = xcalloc(1, sizeof *l);
    arena_init(&l->arena);
    l->dir = xstrdup(dir);
    l->path = io_join(dir, "adapter_config.json");
    int rc = json_read_py(&l->cfg, l->path, 1 << 20, e);
    if (!rc) rc = check_config(l, e);
    if (!rc) rc = open_tensors(l, e);
    if (rc) {
        lora_close(l);
        return rc;
    }
    l->alpha = json_num(json_get(l->cfg, "lora_alpha"), 8);
    l->rslora = json_bool(json_get(l->cfg, "use_rslora"), false);
    l->has_tokenizer = find_tokenizer(dir);
    read_version(l);
    *out = l;
    return 0;
}

void lora_close(struct lora *l) {
    if (!l) return;
    st_close(l->st);
    strmap_free(l->by_name);
    json_free(l->cfg);
    arena_release(&l->arena);
    free(l->used);
    free(l->module);
    free(l->plain);
    free(l->path);
    free(l->dir);
    free(l);
}

const char *lora_dir(const struct lora *l, bool *has_tokenizer) {
    *has_tokenizer = l->has_tokenizer;
    return l->dir;
}

/* ---- afterwards ---- */

/* Tells whether a tensor is of a tower that the architecture leaves out; a head is not. */
static bool is_left_out(const char *name, const char *const *skip) {
    for (; skip && *skip; skip++)
        if (**skip != '=' && strstr(name, *skip) && !strstr(name, "lm_head.")) return true;
    return false;
}

int lora_all_used(const struct lora *l, const char *const *skip, struct err *e) {
    int64_t n = 0;
    for (int64_t i = 0; i < l->n; i++) {
        const char *name = st_tensor_at(l->st, i)->name;
        if (l->used[i]) continue;
        if (is_left_out(name, skip)) {
            n++;
            continue;
        }
        const bool bias = str_ends(name, "bias");
        return err_set(e, ERR_DATA,
                       "%s: tensor %s changes nothing that is converted: %s, the adapter was made "
                       "for another model, or it trains parts that are left out; " LORA_MERGE,
                       st_path(l->st), LORA_SHOW(name),
                       bias ? "the base has no such bias" : "the base has no such weight");
    }
    if (n)
        log_warn("%lld tensors of the adapter change the vision or sound tower, which is left out; "
                 "for a projector file " LORA_MERGE,
                 (long long)n);
    return 0;
}
