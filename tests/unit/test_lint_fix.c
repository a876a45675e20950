// SPDX-License-Identifier: MIT
/* tests/unit/test_lint_fix.c - the built-in templates (template/own/), and repairs of official
 * ones: every scenario must render as a manually repaired official template does in transformers.
 * The official ones are not in this repository: skipped if ../shared/golden/templates is absent. */
#include "base/io.h"
#include "tests/check.h"
#include "template/chat_batch.h"
#include "template/chat_vars.h"
#include "template/lint.h"
#include "template/own.h"
#include "template/repair.h"

static struct err e;
static const char root[] = "../shared/golden/templates";

static char *read_text(const char *folder, const char *name, const char *ext, size_t *len) {
    char path[400], *text = NULL;
    snprintf(path, sizeof path, "%s/%s/%s%s", root, folder, name, ext);
    CHECK_OK(io_read_file(&text, len, path, 1 << 24, &e));
    return text;
}

static bool same(struct jval want, struct jval got) {
    if (want.tag == JT_STR) return got.tag == JT_STR && jv_eqs(want, got);
    return got.tag == JT_DICT && (!jv_is(chat_member(want, "kind"), "raise") ||
                                  jv_eqs(chat_member(want, "error"), chat_member(got, "error")));
}

/* Checks that a built-in template, written from scratch, renders like the manually repaired
 * official one. */
static void own(const char *path, const char *like) {
    size_t n_src, n_sc, n_want;
    char *src = NULL, *sc = read_text(".", "scenarios", ".json", &n_sc);
    char *want_text = read_text("expected_fixed", like, ".json", &n_want);
    struct buf out = {0};
    struct jdoc want, got;
    struct lint_report r;
    int n = 0;
    CHECK_OK(io_read_file(&src, &n_src, path, 1 << 20, &e));
    CHECK_OK(chat_batch_render(src, n_src, path, JINJA_HF, sc, n_sc, "scenarios", &out, &e));
    CHECK_OK(jdoc_parse(&want, want_text, n_want, path, &e));
    CHECK_OK(jdoc_parse(&got, out.data, out.len, path, &e));
    for (uint32_t i = 0; i < want.root.u.dict->n; i++) {
        struct jent *w = &want.root.u.dict->e[i];
        struct jval *g = jdict_find(got.root.u.dict, w->k.u.s, w->k.len);
        if (g && same(w->v, *g))
            n++;
        else
            CHECK_FAIL("%s: scenario %.*s differs", path, (int)w->k.len, w->k.u.s);
    }
    CHECK_EQ_I64(n, 61);
    CHECK_OK(lint_run(&r, src, n_src, path, JINJA_HF, &e));
    CHECK_EQ_I64(r.n_by[LINT_ERROR], 0);
    lint_report_free(&r);
    jdoc_release(&want);
    jdoc_release(&got);
    buf_release(&out);
    free(src);
    free(sc);
    free(want_text);
}

/* Checks built-in templates of families whose official ones were never repaired manually: they must
 * equal the official rendering except in the listed scenarios, in which the official one loses or
 * garbles text, and must not fail where the official one renders. */
static void other(const char *name, const char *like, int n_pass, int n_errors,
                  const char *differs) {
    size_t n_src, n_sc, n_want;
    char *src = read_text("jinja", like, ".jinja", &n_src),
         *sc = read_text(".", "scenarios", ".json", &n_sc),
         *want_text = read_text("expected", like, ".json", &n_want);
    const struct own_template *t = own_for(src, n_src);
    struct buf out = {0};
    struct jdoc want, got;
    struct lint_report r;
    CHECK(t && strcmp(t->name, name) == 0);
    t = own_find(name);
    CHECK_OK(
        chat_batch_render(t->text, own_len(t), name, JINJA_HF, sc, n_sc, "scenarios", &out, &e));
    CHECK_OK(jdoc_parse(&want, want_text, n_want, name, &e));
    CHECK_OK(jdoc_parse(&got, out.data, out.len, name, &e));
    for (uint32_t i = 0; i < want.root.u.dict->n; i++) {
        struct jent *w = &want.root.u.dict->e[i];
        struct jval *g = jdict_find(got.root.u.dict, w->k.u.s, w->k.len);
        char id[80];
        snprintf(id, sizeof id, " %.*s ", (int)w->k.len, w->k.u.s);
        if (w->v.tag != JT_STR) continue; /* ours may do better */
        bool equal = g && g->tag == JT_STR && jv_eqs(w->v, *g), may = strstr(differs, id) != NULL;
        if (!g || g->tag != JT_STR || equal == may) CHECK_FAIL("%s: scenario%s", name, id);
    }
    CHECK_OK(lint_run(&r, t->text, own_len(t), name, JINJA_HF, &e));
    CHECK_EQ_I64(r.n_passed, n_pass);
    CHECK_EQ_I64(r.n_by[LINT_ERROR], n_errors);
    lint_report_free(&r);
    jdoc_release(&want);
    jdoc_release(&got);
    buf_release(&out);
    free(src);
    free(sc);
    free(want_text);
}

static void test_other_families(void) {
    other("qwen3", "Qwen-Qwen3-0.6B", 55, 0,
          " reasoning_preserve call_empty_str call_null_args result_null result_parts "
          "result_object developer ");
    other("mistral-small", "Mistral-Small-3.2-24B-Instruct-2506", 52, 0,
          " call_string call_empty_str call_null_args call_with_text call_reasoning result_null "
          "result_parts no_user think_unclosed_call ");
    other("gemma4", "google-gemma-4-26B-A4B-it-20260709", 46, 0,
          " reasoning_preserve tools_deep call_with_text call_reasoning assistant_twice "
          "think_unclosed_call ");
    other("gemma4-small", "google-gemma-4-E2B-it-20260709", 50, 0,
          " reasoning_preserve tools_deep call_with_text call_reasoning assistant_twice "
          "think_unclosed_call ");
}

static void test_own_templates(void) {
    own("template/own/qwen3.5.jinja", "Qwen3.5-4B");
    own("template/own/qwen3.5-small.jinja", "Qwen3.5-2B");
}

/* Checks that the repair of an official template renders like the manual repair in transformers,
 * except that text arguments are parsed, a late system message is merged into the first one, and a
 * history without a user message gets no empty thinking block. */
static void official(const char *name, const char *like) {
    size_t n_src, n_sc, n_want;
    char *src = read_text("jinja", name, ".jinja", &n_src),
         *sc = read_text(".", "scenarios", ".json", &n_sc),
         *want_text = read_text("expected_fixed", like, ".json", &n_want);
    struct buf out = {0};
    struct jdoc want, got;
    struct repair r;
    int n = 0;
    CHECK_OK(repair_run(&r, src, n_src, name, NULL, 0, &e));
    CHECK_OK(chat_batch_render(r.text.data, r.text.len, name, JINJA_HF, sc, n_sc, "scenarios", &out,
                               &e));
    CHECK_OK(jdoc_parse(&want, want_text, n_want, name, &e));
    CHECK_OK(jdoc_parse(&got, out.data, out.len, name, &e));
    for (uint32_t i = 0; i < want.root.u.dict->n; i++) {
        struct jent *w = &want.root.u.dict->e[i];
        struct jval *g = jdict_find(got.root.u.dict, w->k.u.s, w->k.len);
        const bool other =
            jv_is(w->k, "call_string") || jv_is(w->k, "system_mid") || jv_is(w->k, "no_user");
        if (g && same(w->v, *g))
            n++;
        else if (!other)
            CHECK_FAIL("%s: scenario %.*s differs", name, (int)w->k.len, w->k.u.s);
    }
    CHECK(n >= 58);
    repair_free(&r);
    jdoc_release(&want);
    jdoc_release(&got);
    buf_release(&out);
    free(src);
    free(sc);
    free(want_text);
}

static void test_official(void) {
    official("Qwen3.5-4B", "Qwen3.5-4B");
    official("Qwen3.5-2B", "Qwen3.5-2B");
}

int main(void) {
    if (!io_is_dir("../shared/golden/templates/jinja"))
        return check_skip("../shared/golden/templates is not here");
    RUN(test_official);
    RUN(test_own_templates);
    RUN(test_other_families);
    return check_done();
}
