// SPDX-License-Identifier: MIT
/* template/lint.h - the linter for chat templates, which checks behaviour by rendering small
 * conversations. */
#ifndef HONE_TEMPLATE_LINT_H
#define HONE_TEMPLATE_LINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "template/jinja.h"

enum lint_severity { LINT_INFO, LINT_WARN, LINT_ERROR };
/* Returns "info", "warning" or "error". */
const char *lint_severity_name(enum lint_severity s);

struct lint_finding {
    const char *rule;  /* "TOOL-ARGS-STRING" */
    const char *probe; /* "args_string"; NULL: rule on the source text */
    enum lint_severity severity;
    int line, col; /* 0: whole template */
    /* For PREFIX. at: offset of the first mismatch with the cached prompt; lost: bytes lost there.
     */
    int64_t at, lost;
    char outcome[160]; /* "fail:missing Zq7-Paris", "error:TypeError", ... */
    char detail[400];  /* message or excerpt of the rendering */
    char *conv;        /* conversation that triggers it (JSON); NULL: rule on the source text */
    /* Reasons for the severity (lint_judge.def): clients that send such conversations, and what
     * happens then. NULL: no row applies. */
    const char *client, *consequence;
    const char *cause; /* rule that this defect follows from; NULL: independent */
};
/* Capabilities of a template, determined by rendering. */
struct lint_caps {
    bool messages; /* some message reaches the prompt, or all conversations crash */
    bool tools;    /* tools reach the prompt */
    bool calls;    /* calls of earlier answers reach the prompt */
    bool tries;    /* tries to render tools or calls, but crashes */
    bool system;   /* system messages reach the prompt */
    bool reads;    /* reasoning of some earlier answer reaches the prompt when thinking is on */
    bool thinks;   /* renders, opens or removes thinking, or has a switch for it */
};
struct lint_report {
    struct lint_finding *v;
    int n, cap;
    struct lint_caps caps;
    int n_probes, n_passed;
    int n_moot;         /* probes that do not apply to this template */
    int n_by[3];        /* findings per severity */
    bool compiles;      /* compiles in at least one mode */
    bool needs_lenient; /* compiles, or renders some probe, in lenient mode only */
};
/* Returns the error with which no conversation can use the template: it does not compile, always
 * fails, or renders no message. NULL: none, or other engines than transformers can use it. */
const struct lint_finding *lint_unusable(const struct lint_report *r);
/* Returns the mode that the template needs: "hf", "lenient", or "none" if it compiles in neither.
 */
const char *lint_mode_name(const struct lint_report *r);

int lint_probe_count(void);
const char *lint_probe_id(int i);
/* Runs probe i and reports its outcome in the format of the golden file ("pass", "fail:...",
 * "error:...") and as a finding in *f. */
int lint_probe(const struct jinja *t, int i, char outcome[160], struct lint_finding *f,
               struct err *e);
/* Runs all probes and static rules and fills *r. A template that does not compile is a finding, not
 * an error. */
int lint_run(struct lint_report *r, const char *src, size_t len, const char *name,
             enum jinja_mode mode, struct err *e);
void lint_report_free(struct lint_report *r);
/* Appends the conversation of a finding as JSON, so that users can try it. Rules about the source
 * text have no conversation. */
void lint_conversation(const struct lint_finding *f, struct buf *out);

#endif
