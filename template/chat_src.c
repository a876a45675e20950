// SPDX-License-Identifier: MIT
/* template/chat_src.c - lookup of a chat template and its special tokens.
 *
 * GGUF: tokenizer.chat_template and tokenizer.chat_template.<name>. Folder: chat_template.jinja and
 * additional_chat_templates, else chat_template in tokenizer_config.json (text, a list of {name,
 * template}, or {name: template}), else in chat_template.json. Templates are kept byte for byte. */
#include "template/chat_src.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "containers/gguf.h"
#include "base/io.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/os.h"
#include "base/str.h"

const char *const chat_src_special_names[CHAT_SRC_SPECIALS] = {"bos_token", "eos_token",
                                                               "unk_token", "pad_token"};

/* Adds the name of an available template; drops it once CHAT_SRC_MAX are listed. */
static void add_name(struct chat_src *s, const char *name) {
    if (s->n_names < CHAT_SRC_MAX) s->names[s->n_names++] = xstrdup(name);
}

/* Records a template's name, and also its text if it is the first one named `want` (NULL:
 * "default"). path: its file. */
static int offer(struct chat_src *s, const char *want, const char *name, const char *text,
                 size_t len, const char *path, struct err *e) {
    add_name(s, name);
    if (s->text || strcmp(want ? want : "default", name) != 0) return 0;
    TRY(str_no_nul(text, len, path, e));
    s->text = xstrndup(text, len);
    s->len = len;
    return 0;
}

/* Returns 0 if a template was found, otherwise an error that lists the available ones. */
static int fail_no_template(struct chat_src *s, const char *path, const char *want, struct err *e) {
    if (s->text) {
        s->label = xasprintf("%s", path);
        return 0;
    }
    if (!s->n_names && gguf_in_folder(path)) return gguf_no_folder(path, e);
    if (!s->n_names) return err_set(e, ERR_DATA, "%s: no chat template found", path);
    char list[256] = "";
    for (int i = 0; i < s->n_names; i++) {
        size_t n = strlen(list);
        snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "", s->names[i]);
    }
    return err_set(e, ERR_DATA, "%s: no chat template '%s'; available: %s", path,
                   want ? want : "default", list);
}

/* ---- GGUF ------------------------------------------------------------------------------------ */

/* Returns the text of the token whose id is in key id_key, freed by the caller; NULL: missing. */
static char *gguf_token(const struct gguf *g, const char *id_key) {
    const struct gguf_kv *kv = gguf_find(g, "tokenizer.ggml.tokens");
    uint64_t id = gguf_u64_or(g, id_key, UINT64_MAX), len = 0;
    const char *text = NULL;
    if (!kv || kv->type != GV_ARR || kv->elem != GV_STR || id >= kv->count) return NULL;
    const uint8_t *pos = kv->data;
    for (uint64_t i = 0; i <= id; i++) gguf_kv_str_next(kv, &pos, &text, &len);
    return xstrndup(text, len);
}

/* Reads the template `want` (NULL: the default) and the special tokens from a GGUF file. */
static int from_gguf(struct chat_src *s, const char *path, const char *want, struct err *e) {
    static const char prefix[] = "tokenizer.chat_template";
    static const char *const ids[CHAT_SRC_SPECIALS] = {
        "tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id",
        "tokenizer.ggml.unknown_token_id", "tokenizer.ggml.padding_token_id"};
    struct gguf *g;
    TRY(gguf_open(&g, path, GGUF_TOLERANT | GGUF_ONE_FILE, e));
    int rc = 0;
    s->is_gguf = true;
    for (int64_t i = 0; i < gguf_n_kv(g) && !rc; i++) {
        const struct gguf_kv *kv = gguf_kv_at(g, i);
        if (kv->type != GV_STR || strncmp(kv->key, prefix, sizeof prefix - 1) != 0) continue;
        const char *rest = kv->key + sizeof prefix - 1;
        if (*rest && *rest != '.') continue;
        rc = offer(s, want, *rest ? rest + 1 : "default", (const char *)kv->data, (size_t)kv->count,
                   kv->key, e);
        if (rc) err_wrap(e, "%s", path);
    }
    for (int i = 0; i < CHAT_SRC_SPECIALS; i++) s->special[i] = gguf_token(g, ids[i]);
    gguf_close(g);
    return rc ? rc : fail_no_template(s, path, want, e);
}

/* ---- Hugging Face folder --------------------------------------------------------------------- */

/* Reads the texts of special tokens from tokenizer_config.json; absent ones stay NULL. */
static void config_specials(struct chat_src *s, const struct json *config) {
    for (int i = 0; i < CHAT_SRC_SPECIALS; i++) {
        const struct json *v = json_get(config, chat_src_special_names[i]);
        const char *text =
            json_type(v) == JSON_OBJ ? json_str(json_get(v, "content")) : json_str(v);
        if (text) s->special[i] = xstrdup(text);
    }
}

/* Takes the template `want` (NULL: the default) from tokenizer_config.json. */
static int config_templates(struct chat_src *s, const char *want, const struct json *config,
                            const char *path, struct err *e) {
    const struct json *v = json_get(config, "chat_template");
    size_t n = 0;
    const char *own = json_strn(v, &n);
    if (own) return offer(s, want, "default", own, n, path, e);
    const bool list = json_type(v) == JSON_ARR;
    for (const struct json *k = json_first(v); k; k = json_next(k)) {
        const char *name = list ? json_str(json_get(k, "name")) : json_name(k),
                   *text = json_strn(list ? json_get(k, "template") : k, &n);
        if (name && text) TRY(offer(s, want, name, text, n, path, e));
    }
    return 0;
}

/* Reads a file and offers its text as the template `name`. */
static int offer_file(struct chat_src *s, const char *want, const char *name, const char *path,
                      struct err *e) {
    char *text;
    size_t len;
    TRY(io_read_file(&text, &len, path, limit_of(LIM_TEMPLATE), e));
    const int rc = offer(s, want, name, text, len, path, e);
    free(text);
    return rc;
}

/* Records the names of all templates in additional_chat_templates and takes the text of `want`;
 * NULL: "default". */
static int offer_from_folder(struct chat_src *s, const char *dir, const char *want, struct err *e) {
    char *sub = io_join(dir, "additional_chat_templates");
    struct io_names all = {0};
    int rc = io_exists(sub) ? io_list(&all, sub, e) : 0;
    for (int i = 0; i < all.n && rc == 0; i++) {
        size_t n = strlen(all.v[i]);
        if (n <= 6 || strcmp(all.v[i] + n - 6, ".jinja") != 0) continue;
        char *path = io_join(sub, all.v[i]), *name = xstrndup(all.v[i], n - 6);
        rc = offer_file(s, want, name, path, e);
        free(name);
        free(path);
    }
    io_names_release(&all);
    free(sub);
    return rc;
}

/* Takes the templates of chat_template.json, in which older processors of images keep theirs. */
static int processor_templates(struct chat_src *s, const char *dir, const char *want,
                               struct err *e) {
    char *path = io_join(dir, "chat_template.json");
    struct json *j = NULL;
    bool there = false;
    int rc = io_there(&there, path, e);
    if (!rc && there) rc = json_read_py(&j, path, limit_of(LIM_HF_JSON), e);
    if (!rc && there) rc = config_templates(s, want, j, path, e);
    json_free(j);
    free(path);
    return rc;
}

/* Reads template and special tokens from a Hugging Face folder. */
static int from_folder(struct chat_src *s, const char *dir, const char *want, struct err *e) {
    char *file = io_join(dir, "chat_template.jinja"),
         *config_path = io_join(dir, "tokenizer_config.json");
    struct json *config = NULL;
    bool has_file, has_config = false;
    int rc = io_there(&has_file, file, e);
    if (!rc) rc = io_there(&has_config, config_path, e);
    if (!rc && has_file) rc = offer_file(s, want, "default", file, e);
    if (!rc) rc = offer_from_folder(s, dir, want, e);
    if (!rc && has_config) rc = json_read_py(&config, config_path, limit_of(LIM_HF_JSON), e);
    if (config) {
        config_specials(s, config);
        if (!s->n_names) rc = config_templates(s, want, config, config_path, e);
    }
    if (!rc && !s->n_names) rc = processor_templates(s, dir, want, e);
    json_free(config);
    free(file);
    free(config_path);
    return rc ? rc : fail_no_template(s, dir, want, e);
}

/* Takes the templates of a tokenizer_config.json. */
static int from_config(struct chat_src *s, const char *path, const char *want, struct err *e) {
    struct json *config = NULL;
    TRY(json_read_py(&config, path, limit_of(LIM_HF_JSON), e));
    config_specials(s, config);
    int rc = config_templates(s, want, config, path, e);
    json_free(config);
    return rc ? rc : fail_no_template(s, path, want, e);
}

/* Reads the template `name` (NULL: the default) from a folder, a GGUF file or a text file. */
static int open_src(struct chat_src *s, const char *path, const char *name, struct err *e) {
    char magic[4] = "";
    int rc;
    memset(s, 0, sizeof *s);
    if (io_is_dir(path)) {
        rc = from_folder(s, path, name, e);
    } else {
        FILE *f = strcmp(path, "-") ? os_fopen(path, "rb") : NULL;
        bool gguf = f && fread(magic, 1, 4, f) == 4 && memcmp(magic, "GGUF", 4) == 0;
        if (f) fclose(f);
        if (gguf) {
            rc = from_gguf(s, path, name, e);
        } else if (str_ends(path, ".safetensors")) {
            rc = err_set(e, ERR_DATA,
                         "%s: weight files have no chat template; name their folder instead", path);
        } else if (str_ends(path, ".json")) {
            rc = from_config(s, path, name, e);
        } else {
            rc = offer_file(s, name ? name : "default", name ? name : "default", path, e);
            if (!rc) rc = fail_no_template(s, path, name, e);
        }
    }
    return rc;
}

/* Returns the name of the template used if there is no default: tool_use, else the first by name.
 */
static const char *stand_in(const struct chat_src *s) {
    const char *best = NULL;
    for (int i = 0; i < s->n_names; i++) {
        if (strcmp(s->names[i], "tool_use") == 0) return s->names[i];
        if (!best || strcmp(s->names[i], best) < 0) best = s->names[i];
    }
    return best;
}

/* Opens the default template or the one used in its place. */
static int open_default(struct chat_src *s, const char *path, struct err *e) {
    struct err why;
    int rc = open_src(s, path, NULL, &why);
    const char *other = rc == ERR_DATA ? stand_in(s) : NULL;
    if (rc && !other) {
        *e = why;
        return rc;
    }
    if (!rc) return 0;
    char *name = xstrdup(other);
    chat_src_close(s);
    rc = open_src(s, path, name, e);
    for (int i = 0; !rc && i < s->n_names; i++)
        if (strcmp(s->names[i], name) == 0) s->instead = s->names[i];
    free(name);
    return rc;
}

int chat_src_open(struct chat_src *s, const char *path, const char *name, struct err *e) {
    int rc = name ? open_src(s, path, name, e) : open_default(s, path, e);
    if (rc) chat_src_close(s);
    return rc;
}

int chat_src_open_or_empty(struct chat_src *s, const char *path, struct err *e) {
    int rc = open_default(s, path, e);
    if (rc == ERR_DATA && s->is_gguf && !s->n_names) {
        s->text = xstrdup("");
        s->label = xstrdup(path);
        return 0;
    }
    if (rc) chat_src_close(s);
    return rc;
}

void chat_src_close(struct chat_src *s) {
    free(s->text);
    free(s->label);
    for (int i = 0; i < s->n_names; i++) free(s->names[i]);
    for (int i = 0; i < CHAT_SRC_SPECIALS; i++) free(s->special[i]);
    memset(s, 0, sizeof *s);
}
