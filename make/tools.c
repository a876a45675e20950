// SPDX-License-Identifier: MIT
/* make/tools.c - the tool-call step of `hone make`: every file answers some cases of a suite of
 * tool calls, as in normal use (8-bit activations, f16 cache), and once more with calls constrained
 * to the tools' schemas. How many tokens the grammar overrules shows how much a file depends on it.
 * Records keep the answers, so a file made later is compared with the base's earlier ones. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/measure/job.h"
#include "make/make.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/progress.h"
#include "runtime/measure/suite.h"

enum { MAX_TOKENS = 256 };

/* Opens the suite of --tools, or tools.jsonl of the source folder if that is a suite. *found is
 * false if there is neither. */
static int open_suite(struct make *mk, struct suite *s, bool *found, struct err *e) {
    *found = false;
    if (mk->tools && strcmp(mk->tools, "none") == 0) return 0;
    if (mk->tools) {
        *found = true;
        return eval_suite_read(s, mk->tools, e);
    }
    struct err why;
    char *path = io_join(mk->src, "tools.jsonl");
    if (io_is_dir(mk->src) && io_exists(path)) {
        *found = suite_open(s, path, &why) == 0;
        if (!*found) log_warn("no tool calls are measured: %s", why.msg);
        mk->tools = "tools.jsonl";
    }
    free(path);
    return 0;
}

/* Begins the step that runs tool-calling cases on f. */
static void init_step(struct make *mk, const struct made *f, const struct suite *suite,
                      struct step *s) {
    char *name = xasprintf("tools-%s", f->is_base ? "base" : f->recipe), hex[33];
    hash_xxh128_hex(hex, suite->text, suite->len);
    step_init(s, &mk->job, name);
    free(name);
    step_key(s, "suite", "%s %" PRId64 " %d constrained by place", hex, mk->tools_cases,
             MAX_TOKENS);
    step_key(s, "base", "%s", mk->file[0].hash);
    step_key(s, "file", "%s", f->hash);
}

/* Appends the counts of overruled tokens by tool and position in the call. */
static void put_tally(cJSON *to, const struct tool_tally *t) {
    cJSON *rows = doc_arr(to, "tools_overruled");
    for (int i = 0; i < t->n; i++) {
        cJSON *row = doc_obj(rows, NULL);
        doc_put_str(row, "tool", t->row[i].tool);
        for (int k = 0; k < TOOL_PLACES; k++)
            doc_put_i64(row, tool_place_name((enum tool_place)k), t->row[i].n[k]);
    }
}

/* Returns the step's result: counts, and the answers as text. con: the same cases, constrained.
 * base: the answers in the base's record, or NULL. */
static cJSON *tools_result(const struct suite_answers *a, const struct suite_answers *con,
                           const cJSON *base) {
    int64_t valid = 0, passed = 0, same = 0, held = 0;
    const cJSON *other = doc_first(base);
    struct buf text = {0};
    cJSON *o = doc_new(), *answers = doc_arr(o, "answers");
    for (int i = 0; i < a->n; i++) {
        buf_reset(&text);
        answer_show(&a->answer[i], &text);
        doc_put_str(answers, NULL, text.data);
        valid += a->verdict[i].valid;
        passed += a->verdict[i].pass;
        same += cJSON_IsString(other) && strcmp(other->valuestring, text.data) == 0;
        other = other ? other->next : NULL;
    }
    for (int i = 0; i < con->n; i++) held += con->verdict[i].valid;
    doc_put_i64(o, "tools_n", a->n);
    doc_put_i64(o, "tools_valid", valid);
    doc_put_i64(o, "tools_passed", passed);
    if (base) doc_put_i64(o, "tools_same", same);
    doc_put_i64(o, "tools_valid_constrained", held);
    doc_put_i64(o, "tools_constrained_tokens", con->counts.n_drawn);
    doc_put_i64(o, "tools_overruled_tokens", con->counts.n_overruled);
    put_tally(o, &con->overruled);
    buf_release(&text);
    return o;
}

/* Runs the cases for one file. base: answers of the base, or NULL. */
static int one_file(struct make *mk, struct made *f, const struct suite *suite, const cJSON *base,
                    struct err *e) {
    struct eval_args how = {
        .kv_type = KV_USUAL, .act = ACT_FAST, .kept = mk->w->kept, .hash = f->hash};
    struct suite_answers a = {0}, con = {0};
    struct step s;
    cJSON *found;
    int rc = 0;
    init_step(mk, f, suite, &s);
    if (!make_reuse(mk, &s, &found) && !make_counts(mk)) {
        rc = eval_suite_of(mk->w, &how, f->path, suite, mk->tools_cases, MAX_TOKENS, NULL, &a, e);
        how.constrained = true;
        if (rc == 0)
            rc = eval_suite_of(mk->w, &how, f->path, suite, mk->tools_cases, MAX_TOKENS, NULL, &con,
                               e);
        if (rc == 0) {
            found = tools_result(&a, &con, base);
            rc = step_save(&s, NULL, 0, found, e);
        }
    }
    make_keep(&f->tools, found);
    suite_answers_release(&a);
    suite_answers_release(&con);
    step_release(&s);
    return rc;
}

/* Returns whether the base model has a chat template. */
static bool has_template(const struct make *mk) {
    struct gguf *g = NULL;
    struct err ignored;
    if (gguf_open(&g, mk->file[0].path, 0, &ignored)) return false;
    bool has = gguf_str_or(g, "tokenizer.chat_template", "")[0] != 0;
    gguf_close(g);
    return has;
}

int make_tools(struct make *mk, struct err *e) {
    struct suite suite;
    bool found;
    if (mk->tmpl_fault) {
        if (mk->tools) make_left_out(mk, "tool calls, since %s", mk->tmpl_fault);
        return 0;
    }
    TRY(open_suite(mk, &suite, &found, e));
    if (!found) {
        if (!mk->tools && !make_counts(mk) && has_template(mk))
            log_info("no tool calls are measured: pass --tools builtin");
        return 0;
    }
    if (!mk->tools_cases || mk->tools_cases > suite.n) mk->tools_cases = suite.n;
    if (!has_template(mk)) {
        log_warn("no tool calls are measured: the model has no chat template");
        suite_close(&suite);
        return 0;
    }
    log_info("running %" PRId64 " tool-call cases of %s", mk->tools_cases, io_base(mk->tools));
    char hex[33];
    hash_xxh128_hex(hex, suite.text, suite.len);
    doc_put_str(mk->about_eval, "tools", io_base(mk->tools));
    doc_put_str(mk->about_eval, "tools_xxh128", hex);
    int rc = 0;
    for (int i = 0; i < mk->n_files && rc == 0; i++) {
        progress_set_item("file", i + 1, mk->n_files);
        rc =
            one_file(mk, &mk->file[i], &suite, i ? doc_get(mk->file[0].tools, "answers") : NULL, e);
    }
    progress_set_item(NULL, 0, 0);
    suite_close(&suite);
    return rc;
}
