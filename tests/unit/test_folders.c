// SPDX-License-Identifier: MIT
/* tests/unit/test_folders.c - folders as people publish them: the micro checkpoints of
 * tests/golden/archs, whose logits test_archs.c compares with those of transformers, with other
 * tensor names, classes and layouts. Each must give the bytes of the plain folder. */
#include <unistd.h>

#include "convert/convert.h"
#include "core/gguf.h"
#include "core/log.h"
#include "core/prog.h"
#include "tests/check.h"
#include "tests/unit/micro.h"

/* Writes a tensor under other names or in other parts. */
typedef void (*edit_fn)(struct st_build *b, const struct st_tensor *t);

static edit_fn editing;
static const char *folder(const char *arch, const char *const *edit, edit_fn fn) {
    char *dir = xasprintf("tests/golden/archs/%s", arch);
    const char *made = micro_folder(dir, edit);
    char *path = xasprintf("%s/model.safetensors", made);
    struct st_build b = {0};
    struct st *s = NULL;
    struct err e;
    CHECK_OK(st_open(&s, path, &e));
    for (int64_t i = 0; s && i < st_n_tensors(s); i++) {
        const struct st_tensor *t = st_tensor_at(s, i);
        if (fn)
            fn(&b, t);
        else
            st_copy(&b, t->name, t);
    }
    st_close(s);
    st_finish(&b, path);
    free(path);
    free(dir);
    return made;
}

static int convert(const char *dir, const char *out, struct err *e) {
    struct convert_report r;
    const struct convert_opts o = {.src = dir, .out = tmp_path(out), .overwrite = true};
    return convert_run(&o, &r, e);
}

static void same_files(const char *what) {
    char *a = NULL, *b = NULL;
    size_t n = 0, m = 0;
    struct err e;
    CHECK_OK(io_read_file(&a, &n, tmp_path("plain.gguf"), 1 << 26, &e));
    CHECK_OK(io_read_file(&b, &m, tmp_path("other.gguf"), 1 << 26, &e));
    if (!a || !b || n != m || memcmp(a, b, n) != 0) CHECK_FAIL("%s: another file", what);
    free(a);
    free(b);
}

/* Converts a folder as it is and changed, and compares the files. */
static void check_same(const char *arch, const char *const *edit, edit_fn fn, const char *what) {
    struct err e = {0};
    unlink(tmp_path("other.gguf"));
    CHECK_OK(convert(folder(arch, NULL, NULL), "plain.gguf", &e));
    if (convert(folder(arch, edit, fn), "other.gguf", &e)) {
        CHECK_FAIL("%s, %s: %s", arch, what, e.msg);
        return;
    }
    same_files(what);
}

/* ---- prefixes ---- */

static const char *cut, *put; /* The beginning of names, and what stands in its place. */
static void exchange(struct st_build *b, const struct st_tensor *t) {
    const size_t n = strlen(cut);
    const bool has = strncmp(t->name, cut, n) == 0;
    char *name = xasprintf("%s%s", has ? put : "", t->name + (has ? n : 0));
    st_copy(b, name, t);
    free(name);
}
/* torch.compile of single layers. */
static void compiled_layers(struct st_build *b, const struct st_tensor *t) {
    const char *at = strstr(t->name, ".layers.");
    const char *end = at ? strchr(at + strlen(".layers."), '.') : NULL;
    char *name = end ? xasprintf("%.*s._orig_mod%s", (int)(end - t->name), t->name, end)
                     : xasprintf("%s", t->name);
    st_copy(b, name, t);
    free(name);
}

static void test_prefixes(void) {
    static const struct {
        const char *arch, *cut, *put;
    } c[] = {
        {"llamabias", "model.", ""},
        {"llamabias", "", "_orig_mod."},
        {"llamabias", "", "module."},
        {"llamabias", "", "module._orig_mod."},
        {"llamabias", "", "_fsdp_wrapped_module._orig_mod."},
        {"llamabias", "", "base_model.model."},
        {"llamabias", "", "language_model."},
        {"llamabias", "", "llm."},
        {"llamabias", "", "base_model.model.thinker."},
        {"llamabias", "model.", "model.language_model."},
        {"llamabias", "model.", "model.language_model.model."},
        {"llamabias", "model.", "language_model.model."},
        {"llamabias", "model.", "model.text_model."},
        {"llamabias", "model.", "transformer."},
        {"olmoe", "model.", ""},
        {"olmoe", "", "model."},
        {"gptneox", "gpt_neox.", ""},
        {"falcon", "transformer.", ""},
        {"gpt2", "", "transformer."},
        {"gpt2", "", "_orig_mod.transformer."},
        {"mamba", "backbone.", ""},
        {"internlm2", "model.", ""},
        {"glm4moe", "model.", ""},
        {"qwen3vl", "model.language_model.", "language_model.model."},
        {"qwen3vl", "model.language_model.", "model."},
        {"gemma3n", "model.language_model.", ""},
    };
    for (size_t i = 0; i < COUNT_OF(c); i++) {
        cut = c[i].cut;
        put = c[i].put;
        char *what = xasprintf("\"%s\" for \"%s\"", put, cut);
        check_same(c[i].arch, NULL, exchange, what);
        free(what);
    }
    check_same("olmoe", NULL, compiled_layers, "_orig_mod inside");
}

/* Names that no rule brings together are shown; adapters have a word of their own. */
static void some_layers(struct st_build *b, const struct st_tensor *t) {
    char *name = xasprintf("%s%s", strstr(t->name, ".layers.1.") ? "odd." : "", t->name);
    st_copy(b, name, t);
    free(name);
}
static void adapter(struct st_build *b, const struct st_tensor *t) {
    const char *at = strstr(t->name, ".q_proj.weight");
    char *name = xasprintf("base_model.model.%.*s%s", at ? (int)(at - t->name) : 1000, t->name,
                           at ? ".q_proj.base_layer.weight" : "");
    st_copy(b, name, t);
    if (!editing && at) st_copy(b, "base_model.model.x.lora_A.default.weight", t);
    if (at) editing = adapter;
    free(name);
}
/* The last norm twice, once under a wrapper's name: with its values, with those of another. */
static void twice(struct st_build *b, const struct st_tensor *t) {
    st_copy(b, t->name, t);
    if (strcmp(t->name, "model.norm.weight") == 0) st_copy(b, "module.model.norm.weight", t);
}
static void differs(struct st_build *b, const struct st_tensor *t) {
    if (strstr(t->name, "layers.0.input_layernorm")) st_copy(b, "module.model.norm.weight", t);
    st_copy(b, t->name, t);
}

static void test_prefix_errors(void) {
    struct err e = {0};
    CHECK_ERR(convert(folder("olmoe", NULL, some_layers), "other.gguf", &e), ERR_DATA,
              "but odd.model.layers.1.");
    editing = NULL;
    CHECK_ERR(convert(folder("olmoe", NULL, adapter), "other.gguf", &e), ERR_DATA,
              "merge_and_unload");
    editing = adapter;
    check_same("olmoe", NULL, adapter, "base layers without an adapter");
    check_same("olmoe", NULL, twice, "a tensor that is there twice");
    CHECK_ERR(convert(folder("olmoe", NULL, differs), "other.gguf", &e), ERR_DATA,
              "are the same one by their names");
}

int main(void) {
    tmp_make();
    log_set_level(LOG_ERROR);
    RUN(test_prefixes);
    RUN(test_prefix_errors);
    tmp_remove();
    return check_done();
}
