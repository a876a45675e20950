// SPDX-License-Identifier: MIT
/* tests/unit/test_lint.c - the linter: on templates written here and, if ../shared/golden/templates
 * is present, every probe on every template against the recorded outcome under transformers. */
#include "base/io.h"
#include "tests/check.h"
#include "base/mem.h"
#include "template/chat_vars.h"
#include "template/judge.h"
#include "template/lint.h"
#include "template/repair.h"

static struct err e;

static const struct lint_finding *find(const struct lint_report *r, const char *rule) {
    for (int i = 0; i < r->n; i++)
        if (strcmp(r->v[i].rule, rule) == 0) return &r->v[i];
    return NULL;
}

static void test_small_templates(void) {
    static const char dropping[] =
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}";
    static const char dated[] = "{{ strftime_now('%Y') }}{{ foo }}\n  {{ messages|items }}";
    struct lint_report r;
    CHECK_OK(lint_run(&r, dropping, sizeof dropping - 1, "t", JINJA_HF, &e));
    CHECK(find(&r, "TOOLS-UNSUPPORTED") && find(&r, "TOOLS-UNSUPPORTED")->severity == LINT_WARN);
    CHECK(!find(&r, "TOOLS-DROPPED") && !find(&r, "TOOL-CALLS-DROPPED"));
    CHECK(!find(&r, "CONTENT-NULL") && !find(&r, "THINK-OPEN-TURN"));
    CHECK(find(&r, "SYSTEM-MULTI") == NULL);
    CHECK(r.n_probes == 58 && r.n_passed > 10 && r.n_moot > 15 && r.n_by[LINT_ERROR] == 1);
    CHECK(find(&r, "GEN-PROMPT") != NULL);
    lint_report_free(&r);
    CHECK_OK(lint_run(&r, dated, sizeof dated - 1, "t", JINJA_HF, &e));
    CHECK(find(&r, "CLOCK") != NULL);
    CHECK(find(&r, "UNDECLARED") && strcmp(find(&r, "UNDECLARED")->outcome, "static:foo") == 0);
    CHECK(find(&r, "ENGINE-PORT") && find(&r, "ENGINE-PORT")->line == 2);
    lint_report_free(&r);
    CHECK_OK(lint_run(&r, "{% if %}", 8, "t", JINJA_HF, &e));
    CHECK(r.n == 1 && strcmp(r.v[0].rule, "SYNTAX") == 0 && r.v[0].line == 1);
    lint_report_free(&r);
}

static void test_golden_outcomes(void) {
    static const char path[] = "tests/golden/templates/lint_probes.json";
    char *text, *src;
    size_t len, n_src;
    struct jdoc doc;
    int n = 0, n_same = 0, n_errors = 0, n_free = 0;
    if (!io_is_dir("../shared/golden/templates/jinja")) {
        fprintf(stderr, "SKIP: ../shared/golden/templates is not here\n");
        return;
    }
    CHECK_OK(io_read_file(&text, &len, path, 1 << 24, &e));
    CHECK_OK(jdoc_parse(&doc, text, len, path, &e));
    struct jval expected = chat_member(doc.root, "expected");
    for (uint32_t i = 0; i < expected.u.dict->n; i++) {
        char file[400];
        struct jval name = expected.u.dict->e[i].k;
        struct jinja *t = NULL;
        struct jinja_err je;
        snprintf(file, sizeof file, "../shared/golden/templates/jinja/%.*s.jinja", (int)name.len,
                 name.u.s);
        CHECK_OK(io_read_file(&src, &n_src, file, 1 << 24, &e));
        bool compiled = jinja_compile(&t, src, n_src, file, &je, &e) == 0;
        for (int k = 0; k < lint_probe_count(); k++) {
            char outcome[160];
            struct lint_finding f;
            struct jval want = chat_member(expected.u.dict->e[i].v, lint_probe_id(k));
            n++;
            snprintf(outcome, sizeof outcome, "error:%s", je.type);
            if (compiled) CHECK_OK(lint_probe(t, k, outcome, &f, &e));
            if (jv_is(want, outcome))
                n_same++;
            else
                CHECK_FAIL("%.*s %s: %s, expected %.*s", (int)name.len, name.u.s, lint_probe_id(k),
                           outcome, (int)want.len, want.u.s);
        }
        jinja_free(t);
        struct lint_report r;
        CHECK_OK(lint_run(&r, src, n_src, file, JINJA_HF, &e));
        n_errors += r.n_by[LINT_ERROR];
        n_free += r.n_by[LINT_ERROR] == 0;
        for (int k = 0; k < r.n; k++)
            if (r.v[k].severity == LINT_ERROR && r.v[k].probe)
                CHECK(r.v[k].client && r.v[k].consequence && !r.v[k].cause);
        lint_report_free(&r);
        free(src);
    }
    fprintf(stderr, "%d of %d probe outcomes equal\n", n_same, n);
    CHECK_EQ_I64(n_errors, 77); /* 472 when each failure of these rules was an error */
    CHECK_EQ_I64(n_free, 16);
    CHECK_EQ_I64(n, 57 * 58);
    jdoc_release(&doc);
    free(text);
}

static const struct lint_finding *finding(const struct lint_report *r, const char *rule) {
    for (int i = 0; i < r->n; i++)
        if (strcmp(r->v[i].rule, rule) == 0) return &r->v[i];
    return NULL;
}

/* Checks that a template that ignores messages has one verdict, that steps limit the search for a
 * dropped text, and that no repair pretends to fix a template that only raises an error. */
static void test_nothing(void) {
    static const char *const texts[] = {"", "You are a model.",
                                        "{{ bos_token }}{{ messages | length }}"};
    static const char refusal[] = "{{ raise_exception('no') }}",
                      /* a list that contains itself 2^45 times, read as a tree */
        deep[] = "{% set a = namespace(v=[1, 1]) %}{% for i in range(45) %}{% set a.v = [a.v, a.v] "
                 "%}{% endfor %}{% for m in messages %}{{ m.role }}{% endfor %}";
    struct lint_report r;
    struct repair fixed;
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        CHECK_OK(lint_run(&r, texts[i], strlen(texts[i]), "t", JINJA_HF, &e));
        CHECK(finding(&r, "NO-MESSAGES") && r.n_by[LINT_ERROR] == 1 && r.n_by[LINT_WARN] == 0);
        lint_report_free(&r);
    }
    CHECK_ERR(lint_run(&r, deep, strlen(deep), "t", JINJA_HF, &e), ERR_DATA,
              "limit template_steps");
    static const struct {
        const char *text, *rule;
        bool unusable;
    } useless[] = {
        {refusal, "ALWAYS-FAILS", true},
        {"{% for m in messages %}{{ talk.text.x }}{% endfor %}", "ALWAYS-FAILS", true},
        {"{% for i in range(100000) %}{% for k in range(100000) %}x{% endfor %}{% endfor %}",
         "ALWAYS-FAILS", true},
        {"{% for m in messages %}x", "SYNTAX", true},
        {"You are a model.", "NO-MESSAGES", true},
        {"{% set x = [] %}{{ x.append(1) }}{% for m in messages %}{{ m.content }}{% endfor %}",
         "TOOLS-NONE", false}, /* works in other engines than transformers */
        {"{% if messages[0].role == 'user' %}{{ raise_exception('') }}{% endif %}"
         "{% for m in messages %}{{ m.content }}{% endfor %}",
         "TOOLS-NONE", false},
    };
    for (size_t i = 0; i < COUNT_OF(useless); i++) {
        CHECK_OK(lint_run(&r, useless[i].text, strlen(useless[i].text), "t", JINJA_HF, &e));
        CHECK(finding(&r, useless[i].rule) && r.n_by[LINT_ERROR] == 1);
        CHECK((lint_unusable(&r) != NULL) == useless[i].unusable);
        lint_report_free(&r);
    }
    CHECK_OK(repair_run(&fixed, refusal, strlen(refusal), "t", NULL, 0, &e));
    CHECK(fixed.n == 0 && fixed.text.len == strlen(refusal) &&
          memcmp(fixed.text.data, refusal, fixed.text.len) == 0);
    repair_free(&fixed);
}

/* Checks that the advice on a template fits its defect: a repair only if it removes an error, one
 * of hone's own templates only for its family. */
static void test_advice(void) {
    static const char broken[] = "{% for m in messages %}x", path[] = "m.gguf";
    const struct own_template *own = own_find("qwen3");
    char *torn = xstrndup(own->text, own_len(own) - 20);
    const struct {
        const char *text, *advice;
        bool unusable;
        int left;
    } t[] = {
        {broken, "hone meta m.gguf tokenizer.chat_template=@FILE", true, 1},
        {torn, "hone template fix m.gguf --replace qwen3 --in-place", true, 1},
        {"{{ raise_exception('no') }}", "hone meta m.gguf", true, 1},
        /* the repair shows that the answer is never opened */
        {"{% if messages[0].role == 'user' %}{{ raise_exception('') }}{% endif %}"
         "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}",
         "hone template fix m.gguf --in-place repairs", false, 1},
        {"{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}<|assistant|>",
         "hone template lint m.gguf explains", false, 1},
    };
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        struct template_verdict v;
        struct buf how = {0};
        CHECK_OK(template_judge(&v, t[i].text, strlen(t[i].text), REPAIR_ERRORS, &e));
        template_remedy(&v, path, &how);
        CHECK_EQ_I64(v.unusable, t[i].unusable);
        CHECK_EQ_I64(v.n_left, t[i].left);
        CHECK(v.why[0] && strstr(how.data, t[i].advice));
        buf_release(&how);
        template_verdict_free(&v);
    }
    free(torn);
}

/* Checks that a template which loses a part of a conversation has exactly one error, and which rule
 * it breaks. */
static void test_losses(void) {
#define TOOLS_SHOWN "{% if tools %}{% for t in tools %}{{ t | tojson }}{% endfor %}{% endif %}"
#define TURN "{% for m in messages %}<|{{ m.role }}|>"
#define TEXT "{{ m.content or '' }}"
#define CALL_NAME "{{ c.function.name }}"
#define CALLS                                                                                      \
    "{% for c in m.tool_calls or [] %}<call>" CALL_NAME                                            \
    " {{ c.function.arguments if c.function.arguments is string else c.function.arguments | "      \
    "tojson }}</call>{% endfor %}"
#define END "<|end|>\n{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
    static const char fine[] = "{{ bos_token }}" TOOLS_SHOWN TURN TEXT CALLS END;
    static const struct {
        const char *from, *to, *rule;
        enum lint_severity severity;
    } losses[] = {
        {TEXT, "{{ '' if m.role == 'tool' else m.content or '' }}", "TOOL-RESULTS-DROPPED",
         LINT_ERROR},
        {TEXT,
         "{% if m.tool_calls and m.tool_calls | length > 1 %}{{ raise_exception('one call only') "
         "}}{% endif %}{{ '' if m.role == 'tool' else m.content or '' }}",
         "TOOL-RESULTS-DROPPED", LINT_ERROR},
        {CALL_NAME, "", "TOOL-CALLS-DROPPED", LINT_ERROR},
        {CALL_NAME, "{{ c.id }}", "TOOL-CALLS-DROPPED", LINT_WARN},
        {"t | tojson", "t.function.name ~ ': ' ~ t.function.description", "TOOLS-DROPPED",
         LINT_ERROR},
        {"in tools %}", "in tools[:1] %}", "TOOLS-DROPPED", LINT_ERROR},
        {"{% if tools %}", "{% if tools and messages[0].role == 'system' %}", "TOOLS-DROPPED",
         LINT_ERROR},
        {TOOLS_SHOWN, "", "TOOLS-DROPPED", LINT_WARN}, /* by design of some families */
        {TEXT, "{{ '' if m.role == 'assistant' else m.content or '' }}", "TURNS-DROPPED",
         LINT_ERROR},
        {TEXT, "{{ '' if m.role == 'user' and loop.index > 2 else m.content or '' }}",
         "TURNS-DROPPED", LINT_ERROR},
        {"{{ bos_token }}", "{{ bos_token }}{{ bos_token }}", "BOS-TWICE", LINT_ERROR},
    };
    struct lint_report r;
    CHECK_OK(lint_run(&r, fine, sizeof fine - 1, "fine", JINJA_HF, &e));
    CHECK_EQ_I64(r.n_by[LINT_ERROR], 0);
    lint_report_free(&r);
    for (size_t i = 0; i < COUNT_OF(losses); i++) {
        const char *at = strstr(fine, losses[i].from);
        char *text = xasprintf("%.*s%s%s", (int)(at - fine), fine, losses[i].to,
                               at + strlen(losses[i].from));
        CHECK_OK(lint_run(&r, text, strlen(text), "lossy", JINJA_HF, &e));
        const struct lint_finding *f = finding(&r, losses[i].rule);
        for (int k = 0; k < r.n; k++) /* the worst of the rule */
            if (f && strcmp(r.v[k].rule, f->rule) == 0 && r.v[k].severity > f->severity)
                f = &r.v[k];
        if (!f || f->severity != losses[i].severity)
            CHECK_FAIL("%s: %s", losses[i].to, f ? lint_severity_name(f->severity) : "not found");
        CHECK_EQ_I64(r.n_by[LINT_ERROR], losses[i].severity == LINT_ERROR);
        lint_report_free(&r);
        free(text);
    }
#undef TOOLS_SHOWN
#undef TURN
#undef TEXT
#undef CALL_NAME
#undef CALLS
#undef END
}

/* Tests rules that are not probes on templates that do and do not violate them. */
static void test_rules(void) {
    static const char plain[] =
        "{% for m in messages %}{{ m.role + ': ' + m.content + '\\n' }}{% endfor %}";
    static const char bad[] =
        "{% if tools %}<tools>{% for t in tools %}{{ t | tojson }}{% endfor %}\n</tools>{% endif %}"
        "{% set own = 1 %}{{ own }}{{ other }}{% for m in messages %}{% set x = m.content %}"
        "<|im_start|>{{ x }}{% endfor %}{% if enable_thinking is defined and enable_thinking %}"
        "<think>{% endif %}";
    static const char dropping[] =
        "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function.name "
        "}}"
        "{% if c.function.arguments is mapping %}{{ c.function.arguments|tojson }}{% endif %}"
        "{% endfor %}{% endfor %}{% if add_generation_prompt %}>{% endif %}";
    struct lint_report r;
    CHECK_OK(lint_run(&r, dropping, sizeof dropping - 1, "dropping", JINJA_HF, &e));
    CHECK(finding(&r, "TOOL-ARGS-DROPPED") && !finding(&r, "TOOL-ARGS-STRING"));
    CHECK(!finding(&r, "GEN-PROMPT"));
    lint_report_free(&r);
    static const char ignored[] =
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}";
    static const char always[] =
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}<|assistant|>";
    static const char direct[] =
        "{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} "
        "[/INST]{% else %} {{ m.content }}</s>{% endif %}{% endfor %}";
    const char *const gen[][2] = {
        {ignored, "fail:ignored"}, {always, "fail:always"}, {direct, NULL}};
    for (size_t i = 0; i < 3; i++) {
        CHECK_OK(lint_run(&r, gen[i][0], strlen(gen[i][0]), "gen", JINJA_HF, &e));
        const struct lint_finding *g = finding(&r, "GEN-PROMPT");
        CHECK(gen[i][1] ? g && strcmp(g->outcome, gen[i][1]) == 0 : !g);
        lint_report_free(&r);
    }
    CHECK_OK(lint_run(&r, plain, sizeof plain - 1, "plain", JINJA_HF, &e));
    CHECK(!finding(&r, "TOOLS-INJECTION") && !finding(&r, "CONTROL-TOKENS"));
    CHECK(!finding(&r, "THINK-POLARITY") && !finding(&r, "UNDECLARED"));
    lint_report_free(&r);
    CHECK_OK(lint_run(&r, bad, sizeof bad - 1, "bad", JINJA_HF, &e));
    const struct lint_finding *f = finding(&r, "TOOLS-INJECTION");
    CHECK(f && f->severity == LINT_WARN && f->line == 2);
    f = finding(&r, "CONTROL-TOKENS");
    CHECK(f && f->severity == LINT_WARN && strstr(f->outcome, "<|im_start|>") && f->conv);
    CHECK(finding(&r, "GEN-PROMPT") && finding(&r, "GEN-PROMPT")->severity == LINT_ERROR);
    f = finding(&r, "THINK-POLARITY");
    CHECK(f && f->severity == LINT_WARN && strcmp(f->outcome, "default:off") == 0);
    int n = 0;
    for (int i = 0; i < r.n; i++) n += strcmp(r.v[i].rule, "UNDECLARED") == 0;
    CHECK_EQ_I64(n, 2); /* other, enable_thinking */
    lint_report_free(&r);
}

/* Faults seeded into a template; the finding must point at the first occurrence of `at`.
 */
#define TOOLS "{% if tools %}{{ tools | tojson }}{% endif %}"
static void test_places(void) {
    static const struct {
        const char *text, *rule, *outcome, *at;
    } faults[] = {
        /* none printed as text, from within a macro */
        {TOOLS "{%- macro raw(m) %}\n  [{{ m.content }}]{% endmacro %}\n{%- for m in messages %}{{ "
               "raw(m) }}"
               "{% endfor %}",
         "CONTENT-NULL", "fail:found None", "m.content }}]"},
        /* ... and carried through a set block and a filter */
        {TOOLS
         "{%- for m in messages %}\n{% set x | trim %}  {{ m['content'] }}  {% endset %}{{ x + '.' "
         "}}"
         "{% endfor %}",
         "CONTENT-NULL", "fail:found None", "m['content']"},
        /* text arguments vanish in a branch without else */
        {"{%- for m in messages %}{{ m.content }}\n{%- for c in m.tool_calls or [] %}\n"
         "{{ c.function.name }}{%- if c.function.arguments is mapping %}{{ c.function.arguments | "
         "tojson }}{% endif %}{% endfor %}{% endfor %}",
         "TOOL-ARGS-DROPPED", NULL, "arguments is mapping"},
        /* an unhandled role: points at the last test that it reached */
        {"{%- for m in messages %}\n{%- if m.role == 'user' %}{{ m.content }}\n{%- elif m['role'] "
         "== "
         "'system' %}{{ m.content }}{% endif %}{% endfor %}",
         "ROLE-DEVELOPER", NULL, "m['role']"},
        /* a turn that is closed twice */
        {"{%- for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% if "
         "m.role == "
         "'assistant' %}\n.<|im_end|>{% endif %}{% endfor %}",
         "MARKERS", NULL, "<|im_end|>{% endif"},
        /* history without the reasoning that was generated */
        {"{%- for m in messages %}<{{ m.role }}>{% if loop.last and m.reasoning_content "
         "%}<think>{{ "
         "m.reasoning_content }}</think>{% endif %}\n{{ m.content ~ '' }}{% endfor %}"
         "{% if add_generation_prompt %}<assistant>{% endif %}",
         "PREFIX", NULL, "m.content ~"},
        /* the answer is opened in the history, but not by add_generation_prompt */
        {"{%- for m in messages %}\n<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}",
         "GEN-PROMPT", "fail:ignored", "<|"},
        {"{{ 1 }}\n{%- if enable_thinking %}<think>{% endif %}", "THINK-POLARITY", NULL,
         "enable_thinking"},
    };
    for (size_t i = 0; i < COUNT_OF(faults); i++) {
        struct lint_report r;
        const char *text = faults[i].text, *at = strstr(text, faults[i].at);
        const struct lint_finding *f = NULL;
        int line = 1, col = 1;
        CHECK_OK(lint_run(&r, text, strlen(text), "seeded", JINJA_HF, &e));
        for (const char *p = text; p < at; p++) {
            col = *p == '\n' ? 1 : col + 1;
            line += *p == '\n';
        }
        for (int k = 0; k < r.n && !f; k++)
            if (strcmp(r.v[k].rule, faults[i].rule) == 0 &&
                (!faults[i].outcome || strcmp(r.v[k].outcome, faults[i].outcome) == 0))
                f = &r.v[k];
        CHECK(f != NULL);
        if (f && (f->line != line || f->col != col))
            CHECK_FAIL("%s (%s %s): at %d:%d, expected %d:%d", f->rule, f->probe ? f->probe : "-",
                       f->outcome, f->line, f->col, line, col);
        lint_report_free(&r);
    }
}

/* Checks severities: a template cannot fail at something that it does not support at all, a
 * consequence names its cause, and thinking is judged with thinking switched on. */
#define CALLS(args, more)                                                                          \
    TOOLS                                                                                          \
    "{%- for m in messages %}<{{ m.role }}>{{ m.content or '' }}{% for c in m.tool_calls or "      \
    "[] %}{{ c.function.name }}" args "{% endfor %}" more "{% endfor %}"                           \
    "{% if add_generation_prompt %}<assistant>{% endif %}"
static void test_severity(void) {
    static const struct {
        const char *text, *probe; /* its finding is checked */
        int severity;             /* -1: there must be none */
        const char *cause;
    } rows[] = {
        {CALLS("{{ c.function.arguments | tojson }}", ""), "args_mapping", -1, NULL},
        {CALLS("{{ c.function.arguments | tojson }}", ""), "args_missing", LINT_WARN, NULL},
        {CALLS("{{ c.function.arguments }}", ""), "args_literals", LINT_ERROR, NULL},
        /* only text works: objects crash, and so does everything that contains them */
        {CALLS("{{ '' + c.function.arguments }}", ""), "args_mapping", LINT_ERROR, NULL},
        {CALLS("{{ '' + c.function.arguments }}", ""), "args_html", LINT_INFO, "TOOL-ARGS-MAPPING"},
        {CALLS("{{ '' + c.function.arguments }}", ""), "content_null", LINT_INFO,
         "TOOL-ARGS-MAPPING"},
        {CALLS("{% for k in c.function.arguments %}{{ k + c.function.arguments[k] }}{% endfor %}",
               ""),
         "args_string", LINT_WARN, NULL},
        /* calls are never written; their arguments are lost with them */
        {TOOLS "{%- for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}",
         "calls_rendered", LINT_ERROR, NULL},
        {TOOLS "{%- for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}", "args_mapping",
         LINT_INFO, "TOOL-CALLS-DROPPED"},
        {TOOLS "{%- for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}", "content_null",
         LINT_ERROR, NULL},
        /* tools crash: that counts, not the accompanying calls */
        {"{{ tools | map(attribute='x') | tojson if tools }}{%- for m in messages %}{{ m.content }}"
         "{% endfor %}",
         "tools_declared", LINT_ERROR, NULL},
        {"{{ tools | map(attribute='x') | tojson if tools }}{%- for m in messages %}{{ m.content }}"
         "{% endfor %}",
         "args_mapping", LINT_INFO, "TOOLS-DROPPED"},
        {"{%- for m in messages %}{{ m.content or '' }}{% for c in m.tool_calls or [] %}"
         "{{ c.function | tojson }}{% endfor %}{% endfor %}",
         "tools_declared", LINT_WARN, NULL},
        {"{% for m in messages %}{% if m.role == 'developer' %}{{ raise_exception('no') }}{% endif "
         "%}"
         "{{ m.content }}{% endfor %}",
         "developer", LINT_WARN, NULL},
        {"{% for m in messages %}{% if m.role == 'system' and not loop.first %}"
         "{{ raise_exception('no') }}{% endif %}{{ m.content }}{% endfor %}",
         "system_twice", LINT_ERROR, NULL},
        {"{% for m in messages %}{% if m.role == 'system' and not loop.first %}"
         "{{ raise_exception('no') }}{% endif %}{{ m.content }}{% endfor %}",
         "system_mid", LINT_INFO, "SYSTEM-MULTI"},
        /* thinking: none, kept when it is on, lost only between a call and its result */
        {CALLS("{{ c.function.arguments | tojson }}", ""), "reasoning_open_turn", -1, NULL},
        {CALLS("{{ c.function.arguments | tojson }}",
               "{% if enable_thinking %}{{ m.reasoning_content }}{% endif %}"),
         "reasoning_open_turn", -1, NULL},
        {CALLS("{{ c.function.arguments | tojson }}",
               "{% if not m.tool_calls %}{{ m.reasoning_content }}{% endif %}"),
         "reasoning_open_turn", LINT_ERROR, NULL},
        {CALLS("{{ c.function.arguments | tojson }}", "") "<think>", "reasoning_open_turn",
         LINT_WARN, NULL},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct lint_report r;
        const struct lint_finding *f = NULL;
        CHECK_OK(lint_run(&r, rows[i].text, strlen(rows[i].text), "row", JINJA_HF, &e));
        for (int k = 0; k < r.n && !f; k++)
            if (r.v[k].probe && strcmp(r.v[k].probe, rows[i].probe) == 0) f = &r.v[k];
        int got = f ? (int)f->severity : -1;
        if (got != rows[i].severity)
            CHECK_FAIL("row %zu %s: severity %d, expected %d", i, rows[i].probe, got,
                       rows[i].severity);
        if (f && strcmp(f->cause ? f->cause : "", rows[i].cause ? rows[i].cause : "") != 0)
            CHECK_FAIL("row %zu %s: cause %s", i, rows[i].probe, f->cause ? f->cause : "none");
        if (f && f->severity == LINT_ERROR && (!f->client || !f->consequence))
            CHECK_FAIL("row %zu %s: an error without a client or a consequence", i, rows[i].probe);
        lint_report_free(&r);
    }
}

/* Checks that each construct on its own is reported at its position, and that a similar harmless
 * one is not. */
static void test_portability(void) {
    static const struct {
        const char *text, *outcome; /* outcome NULL: nothing is reported */
        int col;
    } rows[] = {
        {"{{ 2 ** 3 }}", "static:**", 6},
        {"{{ 7 // 2 }}", "static://", 6},
        {"{{ 7 / 2 }}", NULL, 0},
        {"{% set x = (1, 2) %}", "static:tuple", 0},
        {"{% for k, v in messages %}{{ k }}{{ v }}{% endfor %}", NULL, 0},
        {"{% for (a, b), c in messages %}{{ a }}{{ b }}{{ c }}{% endfor %}", NULL, 0},
        {"{{ messages[::-1] }}", "static:[::-1]", 0},
        {"{{ messages[1:] }}", NULL, 0},
        {"{{ 'aa'.replace('a', 'b', 1) }}", "static:replace(count)", 0},
        {"{{ 'aa' | replace('a', 'b', 1) }}", "static:replace(count)", 0},
        {"{{ 'aa' | replace('a', 'b') }}", NULL, 0},
        {"{{ 'a b c'.split(' ', 1) }}", "static:split(sep, n)", 0},
        {"{{ 'a b c'.split(' ') }}", NULL, 0},
        {"{{ 'abc'.index('b') }}", "static:index", 0},
        {"{% for m in messages %}{{ loop.index }}{% endfor %}", NULL, 0},
        {"{{ 1 is sameas 1 }}", "static:sameas", 0},
        {"{{ 1 is escaped }}", "static:escaped", 0},
        {"{{ messages | select | list }}", "static:select", 0},
        {"{% set d = {} %}{% set d.x = 1 %}", "static:set d.x", 24},
        {"{% set d = namespace(x=0) %}{% set d.x = 1 %}", NULL, 0},
        {"{% macro f(n) %}{{ f(n) }}{% endmacro %}", "static:recursion", 0},
        {"{% macro f(n) %}{{ n }}{% endmacro %}{{ f(1) }}", NULL, 0},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct lint_report r;
        CHECK_OK(lint_run(&r, rows[i].text, strlen(rows[i].text), "port", JINJA_HF, &e));
        const struct lint_finding *f = find(&r, "ENGINE-PORT");
        if (!rows[i].outcome ? f != NULL : !f || strcmp(f->outcome, rows[i].outcome) != 0)
            CHECK_FAIL("%s: %s", rows[i].text, f ? f->outcome : "nothing");
        if (f) CHECK_EQ_I64(f->line, 1);
        if (f && rows[i].col) CHECK_EQ_I64(f->col, rows[i].col);
        lint_report_free(&r);
    }
}

/* Tests the mode that a template needs, and the cost of a broken prefix. */
static void test_mode(void) {
    static const char *const rows[][2] = {
        {"{% for m in messages %}{{ m.content }}{% endfor %}", "hf"},
        {"{% set l = [] %}{% for m in messages %}{{ l.append(m.content) or '' }}{% endfor %}",
         "lenient"},
        {"{% for m in messages %}{{ m.x | default('1') | from_json }}{% endfor %}", "lenient"},
        {"{{ raise_exception('never') }}", "hf"},
        {"{% if %}", "none"},
    };
    struct lint_report r;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        CHECK_OK(lint_run(&r, rows[i][0], strlen(rows[i][0]), "mode", JINJA_HF, &e));
        if (strcmp(lint_mode_name(&r), rows[i][1]) != 0)
            CHECK_FAIL("%s: %s", rows[i][0], lint_mode_name(&r));
        lint_report_free(&r);
    }
    /* the first turn is 7 bytes longer while it is the last one */
    static const char shrinking[] =
        "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% if loop.last %}\u00e9 last{% endif "
        "%}{% endfor %}";
    CHECK_OK(lint_run(&r, shrinking, sizeof shrinking - 1, "shrinking", JINJA_HF, &e));
    const struct lint_finding *f = NULL;
    for (int i = 0; i < r.n; i++)
        if (r.v[i].probe && strcmp(r.v[i].probe, "prefix_append_user_think") == 0) f = &r.v[i];
    CHECK(f != NULL);
    if (f) CHECK_EQ_I64(f->lost, 7);
    if (f) CHECK_EQ_I64(f->at, (int64_t)strlen("[user]Weather in Zq7town?[assistant]Zq7a"));
    lint_report_free(&r);
}

int main(void) {
    RUN(test_small_templates);
    RUN(test_nothing);
    RUN(test_advice);
    RUN(test_losses);
    RUN(test_rules);
    RUN(test_places);
    RUN(test_severity);
    RUN(test_portability);
    RUN(test_mode);
    RUN(test_golden_outcomes);
    return check_done();
}
