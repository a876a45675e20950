// SPDX-License-Identifier: MIT
/* template/lint.h - finding defects of chat templates by behaviour: render small conversations and
 * look. */
#ifndef HONE_TEMPLATE_LINT_H
#define HONE_TEMPLATE_LINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "template/jinja.h"

enum lint_severity { LINT_INFO, LINT_WARN, LINT_ERROR };
const char *lint_severity_name(enum lint_severity s);

struct lint_finding {
    const char *rule;  /* "TOOL-ARGS-STRING" */
    const char *probe; /* "args_string"; NULL for rules that read the template's text */
    enum lint_severity severity;
    int line, col;     /* 0: the template as a whole */
    int64_t at, lost;  /* PREFIX: byte where the cached prompt stops matching, bytes of it lost */
    char outcome[160]; /* "fail:missing Zq7-Paris", "error:TypeError", ... */
    char detail[400];  /* message, or rendered excerpt */
    char *conv;        /* the conversation that shows it (JSON); NULL: rules on the text, probes */
    /* Why the severity is what it is (lint_judge.def), NULL when no row says so: who sends such a
     * conversation, and what comes of it. */
    const char *client, *consequence;
    const char *cause; /* the rule whose defect this is a consequence of; NULL: it stands alone */
};
/* What the template can do, read from what it renders. */
struct lint_caps {
    bool tools;  /* tools that are given reach the prompt */
    bool calls;  /* calls of earlier answers do */
    bool tries;  /* it means to render tools or calls, and crashes */
    bool system; /* a system message does */
    bool reads;  /* reasoning of some earlier answer does, with thinking switched on */
    bool thinks; /* it reads, or opens, or removes thinking, or has a switch for it */
};
struct lint_report {
    struct lint_finding *v;
    int n, cap;
    struct lint_caps caps;
    int n_probes, n_passed;
    int n_moot;    /* probes of what the template cannot do at all: they neither pass nor fail */
    int n_by[3];   /* findings per severity */
    bool compiles; /* in one of the modes */
    bool needs_lenient; /* some rendering, or the compilation, works in lenient mode only */
};
/* Returns the name of the mode that the template needs: "hf", "lenient", or "none" (it compiles in
 * neither). */
const char *lint_mode_name(const struct lint_report *r);

int lint_probe_count(void);
const char *lint_probe_id(int i);
/* Runs probe i on a template, and writes its outcome in the words of the golden file ("pass",
 * "fail:...", "error:...") and as a finding into *f. */
int lint_probe(const struct jinja *t, int i, char outcome[160], struct lint_finding *f,
               struct err *e);
/* Runs all probes and static rules and fills *r. A template that does not compile is a finding, not
 * an error. */
int lint_run(struct lint_report *r, const char *src, size_t len, const char *name,
             enum jinja_mode mode, struct err *e);
/* Frees what the report holds, and clears it. */
void lint_report_free(struct lint_report *r);
/* Appends the conversation of a finding as JSON, for people to try; nothing for rules on the text.
 */
void lint_conversation(const struct lint_finding *f, struct buf *out);

#endif
