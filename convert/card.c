// SPDX-License-Identifier: MIT
/* convert/card.c - model card metadata: general.* keys from the front matter of the folder's
 * README.md, the repository from which it was downloaded, and the folder's name. Precedence:
 * --name, the card, the folder's name. docs/interop.md lists the differences from llama.cpp's
 * converter. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convert/names.h"
#include "convert/conv_plan.h"
#include "containers/card_yaml.h"
#include "base/io.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"

enum { MAX_CARD = 16 << 20, MAX_LIST = 256, MAX_VALUE = 1000 };
static const char hub[] = "https://huggingface.co/";

struct card {
    struct card_yaml yaml;
    bool have;
    char *repo, *text; /* repo: NULL if unknown */
    struct names names;
};

/* Returns whether a value of the card is empty, null or too long. */
static bool is_none(const char *s) {
    return !*s || strcmp(s, "null") == 0 || strcmp(s, "~") == 0 || strlen(s) > MAX_VALUE;
}

/* Returns the card's first value for any of the keys "a|b"; "" if it has none. */
static const char *first_value(const struct card *c, const char *keys) {
    char key[64];
    for (const char *s = keys; c->have && *s;) {
        size_t n = strcspn(s, "|");
        snprintf(key, sizeof key, "%.*s", (int)n, s);
        const char *v = card_yaml_value(&c->yaml, key);
        if (!is_none(v)) return v;
        s += n + (s[n] == '|');
    }
    return "";
}

/* Reads the folder's README.md, if it has one, and parses names from the folder. */
static int card_open(struct card *c, const struct conv_plan *p, struct err *e) {
    const char *dir = hfdir_path(p->dir);
    char *path = io_join(dir, "README.md"), *real = io_real(dir);
    size_t len = 0;
    memset(c, 0, sizeof *c);
    int rc =
        io_exists(path) && !io_is_dir(path) ? io_read_file(&c->text, &len, path, MAX_CARD, e) : 0;
    if (rc == 0 && c->text) c->have = card_yaml_read(&c->yaml, c->text, len);
    if (c->have && c->yaml.bad_line)
        log_warn("%s: line %d of the front matter is not understood; ignored", path,
                 c->yaml.bad_line);
    c->repo = card_repo(dir, c->text, len);
    const char *known = json_str(json_get(hfdir_config(p->dir), "_name_or_path"));
    const char *id = c->repo ? c->repo : real ? io_base(real) : "";
    if (!c->repo && card_is_hash(id)) {
        const char *slash = known ? strchr(known, '/') : NULL;
        id = known && !(slash && strchr(slash + 1, '/')) ? known : "";
    }
    names_parse(&c->names, id, p->n_params);
    free(real);
    free(path);
    return rc;
}

static void card_close(struct card *c) {
    if (c->have) card_yaml_release(&c->yaml);
    free(c->repo);
    free(c->text);
}

/* Writes `given` or, if it is empty, else_ under the key; nothing if both are empty. */
static void write_given(struct gguf_w *w, const char *key, const char *given, const char *else_) {
    const char *v = *given ? given : else_;
    if (*v) gguf_w_str(w, key, v);
}

/* Writes the label of the model's size from its parameters and experts. */
static void size_label(const struct conv_plan *p, char out[32]) {
    int64_t experts = 0;
    for (int64_t i = 0; i < p->n_items; i++) {
        const int64_t *ne = p->item[i].inst.ne;
        if (strstr(p->item[i].inst.name, "_exps.")) experts += ne[0] * ne[1] * ne[2] * ne[3];
    }
    names_size_label(p->n_params, experts, experts ? p->hp.d[HD_EXPERTS] : 0, out);
}

/* Collects the card's values for several keys into one list. Returns their number, at most
 * MAX_LIST. */
static int collect_values(const struct card *c, const char *const *keys, const char **out) {
    int n = 0;
    for (; c->have && *keys; keys++) {
        const struct card_yaml_key *k = card_yaml_find(&c->yaml, *keys);
        for (int i = 0; k && i < k->n && n < MAX_LIST; i++)
            if (!is_none(k->value[i])) out[n++] = k->value[i];
    }
    return n;
}

/* Writes the card's values of these fields as an array; nothing if it has no values. */
static void put_list(struct gguf_w *w, const char *key, const struct card *c,
                     const char *const *keys) {
    const char *v[MAX_LIST];
    int n = collect_values(c, keys, v);
    if (n) gguf_w_arr_str(w, key, v, (uint64_t)n);
}

/* Writes general.base_model.* or general.dataset.*: name, organization, version and address of each
 * repository. */
static void put_repos(struct gguf_w *w, const char *what, const struct card *c,
                      const char *const *keys, int64_t n_params) {
    const char *v[MAX_LIST];
    char key[96], title[NAMES_MAX];
    int n = collect_values(c, keys, v);
    if (!n) return;
    snprintf(key, sizeof key, "general.%s.count", what);
    gguf_w_u32(w, key, (uint32_t)n);
    for (int i = 0; i < n; i++) {
        struct names names = {.full = ""};
        bool url = strstr(v[i], "://") != NULL, at_hub = strncmp(v[i], hub, sizeof hub - 1) == 0;
        if (!url || at_hub) names_parse(&names, at_hub ? v[i] + sizeof hub - 1 : v[i], n_params);
        if (*names.full) {
            snprintf(key, sizeof key, "general.%s.%d.name", what, i);
            names_title(names.full, title);
            write_given(w, key, title, "");
        }
        snprintf(key, sizeof key, "general.%s.%d.version", what, i);
        write_given(w, key, names.version, "");
        if (*names.org) {
            snprintf(key, sizeof key, "general.%s.%d.organization", what, i);
            names_title(names.org, title);
            write_given(w, key, title, "");
        }
        snprintf(key, sizeof key, "general.%s.%d.repo_url", what, i);
        char *address = url ? xstrdup(v[i]) : xasprintf("%s%s/%s", hub, names.org, names.full);
        if (url || *names.org) gguf_w_str(w, key, address);
        free(address);
    }
}

/* Writes the license and, if given, its name and link. */
static void put_license(struct gguf_w *w, const struct card *c) {
    const char *const keys[] = {"license", NULL}, *v[MAX_LIST];
    struct buf all = {0};
    int n = collect_values(c, keys, v);
    for (int i = 0; i < n; i++) buf_fmt(&all, "%s%s", i ? "," : "", v[i]);
    if (n) gguf_w_str(w, "general.license", all.data);
    buf_release(&all);
    write_given(w, "general.license.name", first_value(c, "license_name"), "");
    write_given(w, "general.license.link", first_value(c, "license_link"), "");
}

int card_write(struct conv_plan *p, const struct convert_opts *o, struct gguf_w *w, struct err *e) {
    static const char *const bases[] = {"base_model", "base_models", "base_model_sources", NULL},
                             *const data[] = {"datasets", "dataset", "dataset_sources", NULL},
                             *const tags[] = {"tags", "pipeline_tag", NULL},
                             *const languages[] = {"languages", "language", NULL};
    struct card c;
    char title[NAMES_MAX], org[NAMES_MAX], size[32];
    int rc = card_open(&c, p, e);
    if (rc == 0) {
        names_title(c.names.full, title);
        names_title(c.names.org, org);
        size_label(p, size);
        if (o->name && *o->name)
            gguf_w_str(w, "general.name", o->name);
        else
            write_given(w, "general.name", first_value(&c, "name|model_name"), title);
        write_given(w, "general.author", first_value(&c, "author|model_author|model_creator"), "");
        write_given(w, "general.version", first_value(&c, "version|model_version"),
                    c.names.version);
        write_given(w, "general.organization", first_value(&c, "organization|model_organization"),
                    org);
        write_given(w, "general.finetune", first_value(&c, "finetune|model_finetune"),
                    c.names.finetune);
        write_given(w, "general.basename", first_value(&c, "basename|model_basename"),
                    c.names.basename);
        write_given(w, "general.description", first_value(&c, "description|model_description"), "");
        write_given(w, "general.size_label", first_value(&c, "size_label|model_size_label"),
                    *c.names.size_label ? c.names.size_label : size);
        put_license(w, &c);
        char *url = c.repo ? xasprintf("%s%s", hub, c.repo) : xstrdup("");
        write_given(w, "general.source.repo_url", first_value(&c, "repo_url|model_repo_url"), url);
        free(url);
        put_repos(w, "base_model", &c, bases, p->n_params);
        put_repos(w, "dataset", &c, data, p->n_params);
        put_list(w, "general.tags", &c, tags);
        put_list(w, "general.languages", &c, languages);
    }
    card_close(&c);
    return rc;
}
