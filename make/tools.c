// SPDX-License-Identifier: MIT
/* make/tools.c - the suites of `hone make`. Every file answers some cases of a suite of tool calls
 * and, if requested, all loops and checks. Settings are those of normal use: 8-bit activations, f16
 * cache. Tool calls are answered a second time, constrained to the tools' schemas; the number of
 * tokens that the grammar overrules shows how much a file depends on it. Records keep the answers,
 * so a file that is made later is compared with the base's earlier ones. */
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

const char *make_suite_name(enum suite_kind k) {
    static const char *const name[SUITE_KINDS] = {"tools", "loops", "checks"};
    return name[k];
}

/* Returns the kind of a suite: the two built-in ones have their own. */
static enum suite_kind kind_of(const char *path) {
    for (int k = SUITE_LOOPS; k < SUITE_KINDS; k++)
        if (strcmp(path, make_suite_name((enum suite_kind)k)) == 0 && !io_exists(path))
            return (enum suite_kind)k;
    return SUITE_TOOLS;
}

int make_suites(const struct make *mk, char *path[SUITE_KINDS], struct err *e) {
    const char *p = mk->tools;
    memset(path, 0, SUITE_KINDS * sizeof *path);
    if (!p || strcmp(p, "none") == 0) return 0;
    while (*p) {
        const size_t n = io_exists(p) ? strlen(p) : strcspn(p, ",");
        char *one = xstrndup(p, n);
        const enum suite_kind k = kind_of(one);
        p += n + (p[n] == ',');
        if (path[k]) {
            free(one);
            for (int i = 0; i < SUITE_KINDS; i++) free(path[i]), path[i] = NULL;
            return err_set(e, ERR_USAGE,
                           "--tools: only one suite besides loops and checks, each named once");
        }
        path[k] = one;
    }
    return 0;
}

/* Sets path[SUITE_TOOLS] to tools.jsonl of the source folder if that is a suite. */
static void source_suite(struct make *mk, char *path[SUITE_KINDS]) {
    struct suite s;
    struct err why;
    char *at = io_join(mk->src, "tools.jsonl");
    if (!io_is_dir(mk->src) || !io_exists(at)) {
        free(at);
        return;
    }
    if (suite_open(&s, at, &why) == 0) {
        suite_close(&s);
        path[SUITE_TOOLS] = at;
        mk->tools = "tools.jsonl";
        return;
    }
    log_warn("no tool calls are measured: %s", why.msg);
    free(at);
}

/* One suite for all files. */
struct suite_step {
    enum suite_kind kind;
    struct suite suite;
    int64_t n_cases; /* of each file; loops and checks are complete */
};

/* Begins the step that runs a suite on f. */
static void init_step(struct make *mk, const struct made *f, const struct suite_step *x,
                      struct step *s) {
    char *name = xasprintf("%s-%s", make_suite_name(x->kind), f->is_base ? "base" : f->recipe),
         hex[33];
    hash_xxh128_hex(hex, x->suite.text, x->suite.len);
    step_init(s, &mk->job, name);
    free(name);
    step_key(s, "suite", "%s %" PRId64 " %d %s", hex, x->n_cases, MAX_TOKENS,
             x->kind == SUITE_TOOLS ? "constrained by place" : "as served");
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

/* Adds a count, with the kind's name before that of the member. */
static void put_count(cJSON *o, enum suite_kind k, const char *member, int64_t n) {
    char name[40];
    snprintf(name, sizeof name, "%s_%s", make_suite_name(k), member);
    doc_put_i64(o, name, n);
}

/* Returns the member that holds the answers; that of tool calls has the name of earlier versions.
 */
static const char *answers_of(enum suite_kind k) {
    return k == SUITE_TOOLS ? "answers" : k == SUITE_LOOPS ? "loops_answers" : "checks_answers";
}

/* Adds the results under a grammar, which only tool calls have. */
static void put_constrained(cJSON *o, const struct suite_answers *con) {
    int64_t held = 0;
    for (int i = 0; i < con->n; i++) held += con->verdict[i].valid;
    doc_put_i64(o, "tools_valid_constrained", held);
    doc_put_i64(o, "tools_constrained_tokens", con->counts.n_drawn);
    doc_put_i64(o, "tools_overruled_tokens", con->counts.n_overruled);
    put_tally(o, &con->overruled);
}

/* Returns the step's result: counts, and the answers as text. base: the answers in the base's
 * record, or NULL. */
static cJSON *suite_result(enum suite_kind k, const struct suite_answers *a, const cJSON *base) {
    int64_t valid = 0, passed = 0, same = 0;
    const cJSON *other = doc_first(base);
    struct buf text = {0};
    cJSON *o = doc_new(), *answers = doc_arr(o, answers_of(k));
    for (int i = 0; i < a->n; i++) {
        buf_reset(&text);
        answer_show(&a->answer[i], &text);
        doc_put_str(answers, NULL, text.data);
        valid += a->verdict[i].valid;
        passed += a->verdict[i].pass;
        same += cJSON_IsString(other) && strcmp(other->valuestring, text.data) == 0;
        other = other ? other->next : NULL;
    }
    put_count(o, k, "n", a->n);
    if (k == SUITE_TOOLS) put_count(o, k, "valid", valid);
    put_count(o, k, "passed", passed);
    if (base) put_count(o, k, "same", same);
    buf_release(&text);
    return o;
}

/* Runs the cases for one file. base: answers of the base, or NULL. */
static int one_file(struct make *mk, struct made *f, const struct suite_step *x, const cJSON *base,
                    struct err *e) {
    struct eval_args how = {
        .kv_type = KV_USUAL, .act = ACT_FAST, .kept = mk->w->kept, .hash = f->hash};
    struct suite_answers a = {0}, con = {0};
    struct step s;
    cJSON *found;
    int rc = 0;
    init_step(mk, f, x, &s);
    if (!make_reuse(mk, &s, &found) && !make_counts(mk)) {
        rc = eval_suite_of(mk->w, &how, f->path, &x->suite, x->n_cases, MAX_TOKENS, NULL, &a, e);
        how.constrained = true;
        if (rc == 0 && x->kind == SUITE_TOOLS)
            rc = eval_suite_of(mk->w, &how, f->path, &x->suite, x->n_cases, MAX_TOKENS, NULL, &con,
                               e);
        if (rc == 0) {
            found = suite_result(x->kind, &a, base);
            if (x->kind == SUITE_TOOLS) put_constrained(found, &con);
            rc = step_save(&s, NULL, 0, found, e);
        }
    }
    make_keep(&f->tools[x->kind], found);
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

/* Leaves a suite out that the model's template cannot serve, rather than the whole job; the reason
 * must not contain the base's path. */
static void leave_out(struct make *mk, enum suite_kind k, const struct err *e) {
    const char *path = mk->file[0].path, *why = e->msg;
    const size_t n = strlen(path);
    if (strncmp(why, path, n) == 0 && strncmp(why + n, ": ", 2) == 0) why += n + 2;
    make_left_out(mk, "%s, since %s", k == SUITE_TOOLS ? "tool calls" : make_suite_name(k), why);
}

/* Says in results.json which suite was run. */
static void put_about(const struct make *mk, const struct suite_step *x, const char *path) {
    char hex[33], member[40];
    hash_xxh128_hex(hex, x->suite.text, x->suite.len);
    snprintf(member, sizeof member, "%s_xxh128", make_suite_name(x->kind));
    if (x->kind == SUITE_TOOLS) doc_put_str(mk->about_eval, "tools", io_base(path));
    doc_put_str(mk->about_eval, member, hex);
}

/* Runs a suite on every file. */
static int one_suite(struct make *mk, enum suite_kind k, const char *path, struct err *e) {
    struct suite_step x = {.kind = k};
    bool left_out = false;
    int rc = 0;
    TRY(eval_suite_read(&x.suite, path, e));
    x.n_cases = x.suite.n;
    if (k == SUITE_TOOLS) {
        if (!mk->tools_cases || mk->tools_cases > x.suite.n) mk->tools_cases = x.suite.n;
        x.n_cases = mk->tools_cases;
    }
    log_info("running %" PRId64 " %scases of %s", x.n_cases, k == SUITE_TOOLS ? "tool-call " : "",
             io_base(path));
    for (int i = 0; i < mk->n_files && rc == 0 && !left_out; i++) {
        const cJSON *base = i ? doc_get(mk->file[0].tools[k], answers_of(k)) : NULL;
        progress_set_item("file", i + 1, mk->n_files);
        rc = one_file(mk, &mk->file[i], &x, base, e);
        left_out = i == 0 && rc == ERR_DATA;
    }
    progress_set_item(NULL, 0, 0);
    if (left_out) {
        leave_out(mk, k, e);
        rc = 0;
    } else {
        put_about(mk, &x, path);
    }
    suite_close(&x.suite);
    return rc;
}

int make_tools(struct make *mk, struct err *e) {
    char *path[SUITE_KINDS];
    bool any = false;
    int rc = 0;
    if (mk->tmpl_fault) {
        if (mk->tools) make_left_out(mk, "tool calls, since %s", mk->tmpl_fault);
        return 0;
    }
    TRY(make_suites(mk, path, e));
    if (!mk->tools) source_suite(mk, path);
    for (int k = 0; k < SUITE_KINDS; k++) any = any || path[k];
    const bool can = has_template(mk);
    if (!any && !mk->tools && !make_counts(mk) && can)
        log_info("no tool calls are measured: pass --tools builtin,loops,checks");
    if (any && !can) log_warn("no tool calls are measured: the model has no chat template");
    for (int k = 0; k < SUITE_KINDS; k++) {
        if (path[k] && can && rc == 0) rc = one_suite(mk, (enum suite_kind)k, path[k], e);
        free(path[k]);
    }
    return rc;
}
