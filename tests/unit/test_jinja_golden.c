// SPDX-License-Identifier: MIT
/* tests/unit/test_jinja_golden.c - templates in the wild x conversations, against what transformers
 * renders. Templates and renders belong to others and are not in this repository: skipped when
 * ../shared/golden/templates is absent. */
#include <dirent.h>

#include "base/io.h"
#include "tests/check.h"
#include "template/chat_batch.h"
#include "template/chat_vars.h"

static struct err e;
static const char root[] = "../shared/golden/templates";
static int n_equal, n_templates;

static bool same(struct jval want, struct jval got) {
    if (want.tag == JT_STR) return got.tag == JT_STR && jv_eqs(want, got);
    if (want.tag != JT_DICT || got.tag != JT_DICT) return false;
    struct jval kind = chat_member(want, "kind");
    if (!jv_eqs(kind, chat_member(got, "kind"))) return false;
    return !jv_is(kind, "raise") || jv_eqs(chat_member(want, "error"), chat_member(got, "error"));
}

static char *read_in(const char *folder, const char *name, const char *ext, size_t *len) {
    char path[512], *text = NULL;
    snprintf(path, sizeof path, "%s/%s/%s%s", root, folder, name, ext);
    CHECK_OK(io_read_file(&text, len, path, 1 << 24, &e));
    return text;
}

static void one(const char *name, const char *scenarios, size_t n_scenarios) {
    size_t n_src = 0, n_want = 0;
    char *src = read_in("jinja", name, ".jinja", &n_src),
         *want_text = read_in("expected", name, ".json", &n_want);
    struct buf out = {0};
    struct jdoc want, got;
    if (!src || !want_text) return;
    CHECK_OK(chat_batch_render(src, n_src, name, JINJA_HF, scenarios, n_scenarios, "scenarios",
                               &out, &e));
    CHECK_OK(jdoc_parse(&want, want_text, n_want, name, &e));
    CHECK_OK(jdoc_parse(&got, out.data, out.len, name, &e));
    n_templates++;
    for (uint32_t i = 0; i < want.root.u.dict->n; i++) {
        struct jent *w = &want.root.u.dict->e[i];
        struct jval *g = jdict_find(got.root.u.dict, w->k.u.s, w->k.len);
        if (g && same(w->v, *g))
            n_equal++;
        else
            CHECK_FAIL("%s: scenario %.*s differs", name, (int)w->k.len, w->k.u.s);
    }
    jdoc_release(&want);
    jdoc_release(&got);
    buf_release(&out);
    free(src);
    free(want_text);
}

static void test_templates(void) {
    char *scenarios;
    size_t len;
    CHECK_OK(io_read_file(&scenarios, &len, "tests/golden/templates/scenarios.json", 1 << 24, &e));
    char dir[300];
    snprintf(dir, sizeof dir, "%s/jinja", root);
    DIR *d = opendir(dir);
    CHECK(d != NULL);
    for (struct dirent *ent = d ? readdir(d) : NULL; ent; ent = readdir(d)) {
        char name[256];
        size_t n = strlen(ent->d_name);
        if (n <= 6 || strcmp(ent->d_name + n - 6, ".jinja") != 0) continue;
        snprintf(name, sizeof name, "%.*s", (int)(n - 6), ent->d_name);
        one(name, scenarios, len);
    }
    if (d) closedir(d);
    free(scenarios);
    CHECK_EQ_I64(n_templates, 57);
    CHECK_EQ_I64(n_equal, 57 * 61);
    fprintf(stderr, "%d of %d renders equal\n", n_equal, n_templates * 61);
}

int main(void) {
    if (!io_is_dir("../shared/golden/templates/expected"))
        return check_skip("../shared/golden/templates is not here");
    RUN(test_templates);
    return check_done();
}
