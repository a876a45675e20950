// SPDX-License-Identifier: MIT
/* convert/meta.c - metadata of the converted file: general.*, sampling defaults, architecture keys,
 * tokenizer and chat templates. docs/interop.md lists the differences from llama.cpp's converter
 * and their reasons. */
#include <stdlib.h>
#include <string.h>

#include "convert/conv_plan.h"
#include "base/io.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/printable.h"
#include "base/str.h"
#include "template/chat_ends.h"
#include "template/chat_src.h"
#include "tok/tok.h"

/* Writes the publisher's sampling defaults from generation_config.json, unless it disables
 * sampling. */
static int sampling(struct conv_plan *p, struct gguf_w *w, struct err *e) {
    static const struct {
        const char *hf, *key;
        bool integer;
    } row[] = {
        {"top_k", "general.sampling.top_k", true},
        {"top_p", "general.sampling.top_p", false},
        {"min_p", "general.sampling.min_p", false},
        {"temperature", "general.sampling.temp", false},
        {"repetition_penalty", "general.sampling.penalty_repeat", false},
    };
    const struct json *g;
    TRY(hfdir_json(p->dir, "generation_config.json", &g, e));
    if (!g || !json_bool(json_get(g, "do_sample"), true)) return 0;
    for (size_t i = 0; i < COUNT_OF(row); i++) {
        const struct json *j = json_get(g, row[i].hf);
        int64_t v;
        if (json_type(j) != JSON_NUM) continue;
        if (!row[i].integer)
            gguf_w_f32(w, row[i].key, (float)json_num(j, 0));
        else if (json_i64(j, &v) && v >= 0 && v <= INT32_MAX)
            gguf_w_i32(w, row[i].key, (int32_t)v);
    }
    return 0;
}

/* Returns the folder with the tokenizer, apart from an adapter's: that of a draft's model. */
static const char *tok_dir(const struct conv_plan *p) {
    return hfdir_target(p->dir) ? hfdir_target(p->dir) : hfdir_path(p->dir);
}

/* Returns the folder that provides the chat templates: the adapter's if it has any, because it was
 * trained with those. */
static const char *template_dir(const struct conv_plan *p) {
    struct chat_src s;
    struct err none;
    bool unused;
    const char *dir = p->lora ? lora_dir(p->lora, &unused) : NULL;
    if (!dir || chat_src_open(&s, dir, NULL, &none)) return tok_dir(p);
    chat_src_close(&s);
    return dir;
}

/* Tells the tokenizer which end-of-answer tokens the folder's templates write. */
static void template_ends(const struct conv_plan *p, struct tok *t) {
    const char *dir = template_dir(p);
    struct chat_src all, one;
    struct chat *chat;
    struct err none;
    if (chat_src_open(&all, dir, NULL, &none)) return;
    for (int i = 0; i < (all.n_names ? all.n_names : 1); i++) {
        if (chat_src_open(&one, dir, all.n_names ? all.names[i] : NULL, &none)) continue;
        if (!chat_with(&chat, one.text, one.label, t, &none)) {
            chat_find_ends(chat, t);
            chat_free(chat);
        }
        chat_src_close(&one);
    }
    chat_src_close(&all);
}

/* Warns about end tokens at which other programs will not stop. */
static void warn_ends(const struct tok *t) {
    struct ids left = {0};
    struct buf b = {0};
    tok_ends_left(t, &left);
    for (int64_t i = 0; i < left.n; i++)
        buf_fmt(&b, "%s\"%s\" (%d)", i ? ", " : "", tok_text(t, left.v[i], NULL), left.v[i]);
    if (left.n)
        log_warn("the keys eos, eot and eom cannot hold these end tokens: %s. hone and Ollama read "
                 "them from tokenizer.ggml.eos_token_ids; llama.cpp runs past them unless it gets "
                 "them as stop strings",
                 b.data);
    ids_release(&left);
    buf_release(&b);
}

/* Returns ERR_DATA if a draft's folder has no tokenizer and that of its model is not named. */
static int check_tokenizer(const struct conv_plan *p, struct err *e) {
    static const char *const files[] = {"tokenizer.json", "tokenizer.model", "tekken.json",
                                        "tokenizer_config.json"};
    bool has = !p->arch->draft || hfdir_target(p->dir);
    for (size_t i = 0; i < COUNT_OF(files) && !has; i++) {
        char *path = io_join(hfdir_path(p->dir), files[i]);
        has = io_exists(path);
        free(path);
    }
    return has ? 0
               : err_set(e, ERR_DATA,
                         "%s: a draft without a tokenizer: name the folder of the model that it "
                         "belongs to with --target-model-dir",
                         hfdir_path(p->dir));
}

/* Writes the tokenizer of the folder, or of the adapter if it has one. */
static int write_tokenizer(struct conv_plan *p, const char *pre, struct gguf_w *w, struct err *e) {
    struct tok *t;
    bool own = false;
    const char *adapter = p->lora ? lora_dir(p->lora, &own) : NULL;
    if (own) log_info("using the tokenizer of the adapter's folder");
    TRY(check_tokenizer(p, e));
    TRY(tok_from_dirs(&t, tok_dir(p), own ? adapter : NULL, p->hp.d[HD_VOCAB], pre, e));
    template_ends(p, t);
    tok_to_gguf(t, w);
    if (p->hp.d[HD_BLOCK_SIZE]) /* of DFlash, which masks the tokens to be drafted */
        gguf_w_u32(w, "tokenizer.ggml.mask_token_id", (uint32_t)p->hp.d[HD_MASK_TOKEN]);
    warn_ends(t);
    /* The key is always written, because other programs differ in their default. */
    if (!tok_has_add_bos(t)) gguf_w_bool(w, "tokenizer.ggml.add_bos_token", tok_add_bos(t));
    tok_free(t);
    return 0;
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Writes the named templates in addition to the default one, sorted by name. In names, all
 * characters except letters and digits become '_'. A folder whose template comes from
 * chat_template.json has no others. If there is no default, one of the named templates serves as
 * such. */
static int named_templates(const struct conv_plan *p, bool has_default, struct gguf_w *w,
                           struct err *e) {
    const char *dir = template_dir(p);
    struct chat_src all, one;
    struct err none;
    const char *name[CHAT_SRC_MAX];
    uint64_t n = 0;
    int rc = 0;
    if (chat_src_open(&all, dir, NULL, &none)) return 0;
    if (all.instead && !has_default) {
        gguf_w_str(w, "tokenizer.chat_template", all.text);
        log_warn("%s: no chat template is named default: \"%s\" also becomes the default", dir,
                 all.instead);
    }
    qsort(all.names, (size_t)all.n_names, sizeof *all.names, by_text);
    for (int i = 0; i < all.n_names && !rc; i++) {
        if (strcmp(all.names[i], "default") == 0) continue;
        TRY_GOTO(out, rc, chat_src_open(&one, dir, all.names[i], e));
        for (char *c = all.names[i]; *c; c++)
            if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", *c))
                *c = '_';
        char *key = xasprintf("tokenizer.chat_template.%s", all.names[i]);
        gguf_w_str(w, key, one.text);
        free(key);
        chat_src_close(&one);
        name[n++] = all.names[i];
    }
    if (n) gguf_w_arr_str(w, "tokenizer.chat_templates", name, n);
out:
    chat_src_close(&all);
    return rc;
}

/* Writes the default template, if any, and sets *has to whether there is one. */
static int default_template(struct conv_plan *p, struct gguf_w *w, bool *has, struct err *e) {
    const char *tmpl = NULL, *dir = template_dir(p);
    struct chat_src s;
    *has = false;
    if (strcmp(dir, hfdir_path(p->dir)) != 0) {
        struct err none;
        const bool must = strcmp(dir, tok_dir(p)) != 0;
        if (chat_src_open(&s, dir, NULL, must ? e : &none)) return must ? (int)e->code : 0;
        *has = !s.instead;
        if (*has) gguf_w_str(w, "tokenizer.chat_template", s.text);
        chat_src_close(&s);
        return 0;
    }
    TRY(hfdir_chat_template(p->dir, &tmpl, e));
    *has = tmpl != NULL;
    if (tmpl) gguf_w_str(w, "tokenizer.chat_template", tmpl);
    return 0;
}

/* ---- embedding models ------------------------------------------------------------------------ */

/* Sets *type to llama.cpp's number for the pooling in a module's config.json, whose older form has
 * a flag for each pooling. False: none of these. */
static bool pooling_of(const struct json *config, uint32_t *type) {
    static const struct {
        const char *mode, *flag;
        uint32_t type;
    } row[] = {{"mean", "pooling_mode_mean_tokens", 1},
               {"cls", "pooling_mode_cls_token", 2},
               {"lasttoken", "pooling_mode_lasttoken", 3}};
    const char *mode = json_str(json_get(config, "pooling_mode"));
    for (size_t i = 0; i < COUNT_OF(row); i++) {
        if (!(mode && strcmp(mode, row[i].mode) == 0) &&
            !json_bool(json_get(config, row[i].flag), false))
            continue;
        *type = row[i].type;
        return true;
    }
    return false;
}

/* Writes the pooling that the module in folder `path` does. */
static int write_pooling(struct conv_plan *p, const char *path, struct gguf_w *w, struct err *e) {
    const struct json *config = NULL;
    uint32_t type;
    char *file = xasprintf("%s/config.json", path), *key;
    const int rc = strstr(path, "..") ? 0 : hfdir_json(p->dir, file, &config, e);
    if (!rc && pooling_of(config, &type)) {
        key = xasprintf("%s.pooling_type", p->arch->name);
        gguf_w_u32(w, key, type);
        free(key);
    } else if (!rc) {
        log_warn("%s/%s names no pooling that GGUF has a number for (mean, cls, last token): "
                 "programs need it as an option",
                 hfdir_path(p->dir), show_n(file, strlen(file)).s);
    }
    free(file);
    return rc;
}

/* Writes what modules.json says about an embedding model, and warns about modules that are left
 * out. */
static int write_modules(struct conv_plan *p, struct gguf_w *w, struct err *e) {
    const struct json *modules;
    bool pooled = false;
    if (!p->embeds) return 0;
    TRY(hfdir_json(p->dir, "modules.json", &modules, e));
    log_info("modules.json makes this an embedding model: the file is for other programs, since "
             "hone computes no embeddings");
    for (const struct json *m = json_first(modules); m; m = json_next(m)) {
        const char *type = json_str(json_get(m, "type")), *path = json_str(json_get(m, "path"));
        if (!type || !path) continue;
        if (str_ends(type, ".Dense"))
            log_warn("%s/%s, a dense layer after pooling, is not converted: embeddings computed "
                     "from the file differ from the model's; llama.cpp's converter can write it",
                     hfdir_path(p->dir), show_n(path, strlen(path)).s);
        if (!pooled && str_ends(type, ".Pooling")) TRY(write_pooling(p, path, w, e));
        pooled = pooled || str_ends(type, ".Pooling");
    }
    return 0;
}

int meta_write(struct conv_plan *p, const struct convert_opts *o, struct gguf_w *w, struct err *e) {
    gguf_w_str(w, "general.architecture", p->arch->name);
    gguf_w_str(w, "general.type", "model");
    TRY(sampling(p, w, e));
    TRY(card_write(p, o, w, e));
    hparams_write(&p->hp, p->arch, w);
    TRY(write_modules(p, w, e));
    gguf_w_u32(w, "general.file_type",
               p->n_kept    ? 38
               : p->n_nvfp4 ? 39
                            : (uint32_t)qtype_ftype_id(qtype_name(p->type)));
    gguf_w_u32(w, "general.quantization_version", 2);
    TRY(write_tokenizer(p, o->pre, w, e));
    bool has;
    TRY(default_template(p, w, &has, e));
    return named_templates(p, has, w, e);
}
