// SPDX-License-Identifier: MIT
/* template/lint_rules.h - the linter's rules in words, and the verdict on a template. */
#ifndef HONE_TEMPLATE_LINT_RULES_H
#define HONE_TEMPLATE_LINT_RULES_H

#include "base/buf.h"
#include "template/lint.h"

enum lint_area {
    LINT_AREA_TEMPLATE,
    LINT_AREA_CALLS,
    LINT_AREA_CONTENT,
    LINT_AREA_THINKING,
    LINT_AREA_SAFETY,
    LINT_AREA_CACHE,
    LINT_AREA_ENGINE
};
struct lint_rule {
    const char *name; /* "TOOL-ARGS-STRING" */
    enum lint_area area;
    const char *meaning, *remedy; /* no capital, no full stop */
};
int lint_rule_count(void);
const struct lint_rule *lint_rule_at(int i);
const struct lint_rule *lint_rule_find(const char *name); /* case-insensitive; NULL: none */

/* Appends a sentence or two on whether tool calls will work with this template and what else is
 * wrong. tool_format is the template's call syntax, or NULL; tag is an unknown tag before calls, or
 * "". */
void lint_verdict(const struct lint_report *r, const char *tool_format, const char *tag,
                  struct buf *out);
/* Appends s as a sentence: capitalised, with a full stop. */
void lint_sentence(struct buf *out, const char *s);

#endif
