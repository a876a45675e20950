// SPDX-License-Identifier: MIT
/* make/tools.c - a step of `hone make`: every file answers some cases of a suite of tool
 * calls, as in use (8-bit activations, f16 cache), and once more with calls held to the schemas of
 * the tools: how often a grammar has to overrule a file says how much it props it up. Records keep
 * the answers, so that a file made later is compared with the base's of before. */
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

/* Opens the suite of --tools, or tools.jsonl of the source folder when that is one; *found is false
 * when there is neither. */
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

static void step_of(struct make *mk, const struct made *f, const struct suite *suite,
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

/* Writes the result of the step: counts, and the answers as text. con has the same cases,
 * constrained; base are those of the base's record, or NULL. */
static void result_json(const struct suite_answers *a, const struct suite_answers *con,
                        const struct json *base, struct buf *out) {
    struct jw w;
    int64_t valid = 0, passed = 0, same = 0, held = 0;
    const struct json *other = json_first(base);
    struct buf text = {0};
    jw_init(&w, out, false);
    jw_obj(&w, NULL);
    jw_arr(&w, "answers");
    for (int i = 0; i < a->n; i++) {
        buf_reset(&text);
        answer_show(&a->answer[i], &text);
        jw_str(&w, NULL, text.data);
        valid += a->verdict[i].valid;
        passed += a->verdict[i].pass;
        same += json_str(other) && strcmp(json_str(other), text.data) == 0;
        other = other ? json_next(other) : NULL;
    }
    jw_end(&w);
    jw_i64(&w, "tools_n", a->n);
    jw_i64(&w, "tools_valid", valid);
    jw_i64(&w, "tools_passed", passed);
    if (base) jw_i64(&w, "tools_same", same);
    for (int i = 0; i < con->n; i++) held += con->verdict[i].valid;
    jw_i64(&w, "tools_valid_constrained", held);
    jw_i64(&w, "tools_constrained_tokens", con->counts.n_drawn);
    jw_i64(&w, "tools_overruled_tokens", con->counts.n_overruled);
    tool_tally_json(&con->overruled, &w, "tools_overruled", true);
    jw_end(&w);
    buf_release(&text);
}

/* Asks the cases of one file. *root is the result of the record, which the caller frees; its
 * answers serve the files that follow. */
static int one_file(struct make *mk, struct made *f, const struct suite *suite,
                    const struct json *base, struct json **root, const struct json **result,
                    struct err *e) {
    struct eval_args how = {
        .kv_type = KV_USUAL, .act = ACT_FAST, .kept = mk->w->kept, .hash = f->hash};
    struct suite_answers a = {0}, con = {0};
    struct buf json = {0};
    struct step s;
    int rc = 0;
    step_of(mk, f, suite, &s);
    const bool known = make_reuse(mk, &s, root, result);
    if (!known && !make_counts(mk)) {
        rc = eval_suite_of(mk->w, &how, f->path, suite, mk->tools_cases, MAX_TOKENS, NULL, &a, e);
        how.constrained = true;
        if (rc == 0)
            rc = eval_suite_of(mk->w, &how, f->path, suite, mk->tools_cases, MAX_TOKENS, NULL, &con,
                               e);
        if (rc == 0) {
            result_json(&a, &con, base, &json);
            rc = step_save(&s, NULL, 0, json.data, e);
        }
        if (rc == 0) rc = json_parse(root, json.data, json.len, "result", e);
        *result = *root;
    }
    if (rc == 0 && *result) make_members(*result, &f->tools);
    suite_answers_release(&a);
    suite_answers_release(&con);
    buf_release(&json);
    step_release(&s);
    return rc;
}

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
    struct json *base_root = NULL;
    const struct json *base_answers = NULL;
    bool found;
    TRY(open_suite(mk, &suite, &found, e));
    if (!found) return 0;
    if (!mk->tools_cases || mk->tools_cases > suite.n) mk->tools_cases = suite.n;
    if (!has_template(mk)) {
        log_warn("no tool calls are measured: the model has no chat template");
        suite_close(&suite);
        return 0;
    }
    log_info("asking for %" PRId64 " tool calls of %s", mk->tools_cases, io_base(mk->tools));
    buf_fmt(&mk->eval_json, ", \"tools\": ");
    json_quote(&mk->eval_json, io_base(mk->tools), strlen(io_base(mk->tools)));
    int rc = 0;
    for (int i = 0; i < mk->n_files && rc == 0; i++) {
        struct json *root = NULL;
        const struct json *result = NULL;
        progress_set_item("file", i + 1, mk->n_files);
        rc = one_file(mk, &mk->file[i], &suite, base_answers, &root, &result, e);
        if (i == 0) {
            base_root = root;
            base_answers = json_get(result, "answers");
        } else {
            json_free(root);
        }
    }
    progress_set_item(NULL, 0, 0);
    json_free(base_root);
    suite_close(&suite);
    return rc;
}
