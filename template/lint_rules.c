// SPDX-License-Identifier: MIT
/* template/lint_rules.c - the linter's rules in words, and the verdict on a template. */
#include "template/lint_rules.h"

#include <string.h>
#include <strings.h>

#include "base/num.h"
#include "base/printable.h"

static const struct lint_rule rules[] = {
#define LINT_RULE(name, area, meaning, remedy) {name, LINT_AREA_##area, meaning, remedy},
#include "template/lint_rules.def"
#undef LINT_RULE
};

int lint_rule_count(void) {
    return (int)COUNT_OF(rules);
}

const struct lint_rule *lint_rule_at(int i) {
    return &rules[i];
}

const struct lint_rule *lint_rule_find(const char *name) {
    for (size_t i = 0; i < COUNT_OF(rules); i++)
        if (strcasecmp(rules[i].name, name) == 0) return &rules[i];
    return NULL;
}

void lint_sentence(struct buf *out, const char *s) {
    if (*s) buf_chr(out, (char)(*s >= 'a' && *s <= 'z' ? *s - 32 : *s));
    if (*s) buf_str(out, s + 1);
    buf_chr(out, '.');
}

/* Returns the first finding of a rule; NULL: not found. */
static const struct lint_finding *find_rule(const struct lint_report *r, const char *rule) {
    for (int i = 0; i < r->n; i++)
        if (strcmp(r->v[i].rule, rule) == 0) return &r->v[i];
    return NULL;
}

const struct lint_finding *lint_unusable(const struct lint_report *r) {
    for (int i = 0; i < r->n && !r->needs_lenient; i++) {
        const struct lint_rule *rule = lint_rule_find(r->v[i].rule);
        if (rule && rule->area == LINT_AREA_TEMPLATE) return &r->v[i];
    }
    return NULL;
}

/* Returns the first broken rule of a severity, either on calls or on anything else; *n is the
 * number of such rules. */
static const struct lint_rule *first_broken(const struct lint_report *r, enum lint_severity s,
                                            bool calls, int *n) {
    const struct lint_rule *one = NULL;
    *n = 0;
    for (int i = 0; i < r->n; i++) {
        const struct lint_rule *rule = lint_rule_find(r->v[i].rule);
        bool seen = false;
        if (!rule || r->v[i].severity != s || (rule->area == LINT_AREA_CALLS) != calls) continue;
        if (strcmp(rule->name, "TOOLS-UNSUPPORTED") == 0) continue; /* the verdict begins with it */
        for (int k = 0; k < i; k++)
            seen |= r->v[k].severity == s && strcmp(r->v[k].rule, r->v[i].rule) == 0;
        if (seen) continue;
        if (!one) one = rule;
        ++*n;
    }
    return one;
}

/* Appends, for example, " (and 2 other WHATs)" if n is 3; nothing if n is 1. */
static void and_more(struct buf *out, int n, const char *what) {
    if (n > 1) buf_fmt(out, " (and %d other %s%s)", n - 1, what, n == 2 ? "" : "s");
}

/* Appends a sentence on tool calling. tool_format is the call syntax, or NULL; tag is an unknown
 * tag before calls, or "". */
static void tool_calls(const struct lint_report *r, const char *tool_format, const char *tag,
                       struct buf *out) {
    int n;
    const struct lint_rule *bad = first_broken(r, LINT_ERROR, true, &n);
    if (find_rule(r, "TOOLS-UNSUPPORTED")) {
        buf_str(out, "No tool calling: the template renders neither tools nor calls.");
    } else if (bad) {
        buf_fmt(out, "Tool calls: broken by this template: %s", bad->meaning);
        and_more(out, n, "fault");
        buf_chr(out, '.');
    } else if (find_rule(r, "TOOLS-DROPPED")) {
        buf_str(out,
                "Tool calls: rendered, but tool definitions are not: describe the tools in the "
                "system message.");
    } else if (!tool_format) {
        buf_str(
            out,
            "Tool calls: rendered, but in a syntax unknown to hone, so calls cannot be parsed from "
            "the model's text.");
    } else if (*tag) {
        buf_fmt(
            out,
            "Tool calls: rendered as JSON after %s, a syntax unknown to hone: it reads the JSON, "
            "but the tags stay in the text of answers, and required calls are made without "
            "them.",
            show_n(tag, strlen(tag)).s);
    } else {
        buf_str(out, "Tool calls: work with this template.");
    }
}

void lint_verdict(const struct lint_report *r, const char *tool_format, const char *tag,
                  struct buf *out) {
    int n, n_warn, n_calls;
    if (find_rule(r, "SYNTAX")) {
        buf_fmt(out, "The template does not compile%s and cannot be used.",
                r->needs_lenient ? " in transformers (other engines may accept it)" : "");
        return;
    }
    if (find_rule(r, "NO-MESSAGES")) {
        buf_str(out,
                "The template renders no message: the model sees nothing of the conversation.");
        return;
    }
    const struct lint_finding *fails = find_rule(r, "ALWAYS-FAILS");
    if (fails) {
        int k = (int)strlen(fails->detail);
        while (k && fails->detail[k - 1] == '.') k--;
        buf_fmt(out, "The template fails with every conversation: %.*s.", k, fails->detail);
        return;
    }
    tool_calls(r, tool_format, tag, out);
    const struct lint_rule *bad = first_broken(r, LINT_ERROR, false, &n);
    const struct lint_rule *warn = first_broken(r, LINT_WARN, false, &n_warn);
    if (!warn) warn = first_broken(r, LINT_WARN, true, &n_calls);
    if (bad) {
        buf_fmt(out, " Also: %s", bad->meaning);
        and_more(out, n, "defect");
        buf_chr(out, '.');
    } else if (r->n_by[LINT_ERROR] == 0 && warn) {
        const bool other = find_rule(r, "TOOLS-UNSUPPORTED") != NULL; /* tool_calls() reports it */
        const int n_all = r->n_by[LINT_WARN] - other;
        buf_fmt(out, " No defect; %d %swarning%s, the first: %s.", n_all, other ? "other " : "",
                n_all == 1 ? "" : "s", warn->meaning);
    } else if (r->n_by[LINT_ERROR] == 0) {
        buf_str(out, " No defect found.");
    }
}
