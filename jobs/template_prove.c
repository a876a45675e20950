// SPDX-License-Identifier: MIT
/* jobs/template_prove.c - hone template fix --prove: compares hone's renderings with other
 * engines'.
 *
 * hone renders the conversations of the linter's probes; python3, if installed, renders them again
 * with whichever of transformers, jinja2, minijinja and llama.cpp (xllamacpp) it has
 * (template/prove.py). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/incbin.h"
#include "base/io.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/os.h"
#include "base/str.h"
#include "base/out.h"
#include "jobs/template_prove.h"
#include "template/lint_int.h"

INCBIN(hone_prove_py, "template/prove.py")

/* Writes the template, and each conversation with hone's rendering of it. */
static int write_cases(const char *path, const struct buf *text, struct err *e) {
    struct jinja *t;
    struct jinja_err je;
    struct buf json = {0};
    struct jw w;
    TRY(jinja_compile_mode(&t, text->data, text->len, "the template", JINJA_HF, &je, e));
    jw_init(&w, &json, false);
    jw_obj(&w, NULL);
    jw_str(&w, "template", text->data);
    jw_raw(&w, "tokens", lint_tokens());
    jw_i64(&w, "now", LINT_NOW);
    jw_arr(&w, "cases");
    for (int i = 0; i < lint_probe_count(); i++) {
        const struct lint_finding f = {.probe = lint_probe_id(i)};
        struct buf conv = {0}, out = {0};
        lint_conversation(&f, &conv);
        jw_obj(&w, NULL);
        jw_str(&w, "id", f.probe);
        jw_raw(&w, "conversation", conv.data);
        if (lint_render(t, conv.data, false, &out, NULL, &je))
            jw_str(&w, "want", out.data ? out.data : "");
        else
            jw_raw(&w, "want", "null");
        jw_end(&w);
        buf_release(&conv);
        buf_release(&out);
    }
    jw_end(&w);
    jw_end(&w);
    jinja_free(t);
    int rc = out_write_file(path, json.data, json.len, true, e);
    buf_release(&json);
    return rc;
}

/* Runs the script with both files. ERR_SYS: it failed. */
static int run_python(const char *script, const char *cases, const char *found, struct err *e) {
    char *const argv[] = {(char[]){"python3"}, (char *)(uintptr_t)script, (char *)(uintptr_t)cases,
                          (char *)(uintptr_t)found, NULL};
    const int status = os_run_program(argv);
    if (status < 0) return err_set(e, ERR_SYS, "--prove: cannot start python3");
    return status == 0 ? 0 : err_set(e, ERR_SYS, "--prove: python3 failed");
}

/* Emits the results that the script wrote. */
static int emit_engines(struct emit *m, const char *path, struct err *e) {
    struct json *j;
    TRY(json_read(&j, path, 1 << 24, e));
    emit_table(m, "engines", "engines");
    static const char *const texts[] = {"engine", "version", "first"}, *const counts[] = {"equal",
                                                                                          "differs",
                                                                                          "fails"};
    for (size_t i = 0; i < 3; i++) emit_col(m, texts[i], texts[i]);
    for (size_t i = 0; i < 3; i++) emit_col(m, counts[i], counts[i]);
    for (const struct json *r = json_first(json_get(j, "engines")); r; r = json_next(r)) {
        const char *first = json_str(json_get(r, "first"));
        int64_t n[3];
        emit_row(m);
        for (size_t i = 0; i < 3; i++) {
            const char *s = json_str(json_get(r, texts[i]));
            if (s)
                emit_cell_str(m, s);
            else
                emit_cell_none(m);
        }
        for (size_t i = 0; i < 3; i++) {
            n[i] = (int64_t)json_num(json_get(r, counts[i]), 0);
            emit_cell_i64(m, n[i]);
        }
        const char *version = json_str(json_get(r, "version"));
        log_info("%s: %lld renderings equal hone's, %lld differ, %lld fail%s%s",
                 version ? version : json_str(json_get(r, "engine")), (long long)n[0],
                 (long long)n[1], (long long)n[2], first ? "; " : "", first ? first : "");
    }
    json_free(j);
    return 0;
}

int template_prove(const struct work *w, const struct buf *text, struct emit *m, struct err *e) {
    char *dir = xasprintf("%s/hone-prove-XXXXXX", w->tmp);
    if (!os_mkdtemp(dir)) {
        free(dir);
        return err_sys(e, "cannot create a temporary folder");
    }
    char *file[3];
    static const char *const names[] = {"prove.py", "cases.json", "found.json"};
    for (int i = 0; i < 3; i++) file[i] = io_join(dir, names[i]);
    int rc = out_write_file(file[0], hone_prove_py, (size_t)(hone_prove_py_end - hone_prove_py),
                            true, e);
    if (!rc) rc = write_cases(file[1], text, e);
    if (!rc) rc = run_python(file[0], file[1], file[2], e);
    if (!rc) rc = emit_engines(m, file[2], e);
    for (int i = 0; i < 3; i++) {
        (void)os_unlink(file[i]);
        free(file[i]);
    }
    (void)os_rmdir(dir);
    free(dir);
    return rc;
}
