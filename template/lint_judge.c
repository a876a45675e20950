// SPDX-License-Identifier: MIT
/* template/lint_judge.c - severities of failed probes, decided by the rows of lint_judge.def.
 *
 * A failure that disappears once another one is avoided (say, by writing object arguments as text)
 * is only a consequence of the other: it is downgraded to a note that names its cause. Probes of
 * missing capabilities do not count as failures. */
#include <string.h>

#include "base/progress.h"
#include "template/lint_int.h"

enum verdict { PASS, MOOT, NOTE, WARN, ERROR };
struct judge {
    const struct jinja *t;
    const struct lint_report *r;
    const struct lint_outcome *o;
};
typedef bool condition(const struct judge *j, int i);

/* Returns the index of a probe, which must exist. */
static int probe_at(const char *id) {
    int i = 0;
    while (strcmp(lint_probe_id(i), id) != 0) i++;
    return i;
}
/* Returns whether the probe with this id failed. */
static bool failed(const struct judge *j, const char *id) {
    return j->o[probe_at(id)].failed;
}
static bool is_probe(int i, const char *id) {
    return strcmp(lint_probe_id(i), id) == 0;
}
/* Returns whether two probes failed in the same way at the same place. */
static bool same_failure(const struct judge *j, int i, const char *id) {
    const struct lint_finding *a = &j->o[i].f, *b = &j->o[probe_at(id)].f;
    return failed(j, id) && !is_probe(i, id) && strcmp(a->outcome, b->outcome) == 0 &&
           a->line == b->line && a->col == b->col;
}
/* Returns whether probe i passes with the twist applied. */
static bool passes(const struct judge *j, int i, const struct lint_twist *w) {
    struct lint_finding f;
    struct err ignored;
    char outcome[160];
    return lint_probe_twisted(j->t, i, w, outcome, &f, &ignored) == 0 &&
           strcmp(outcome, "pass") == 0;
}

/* ---- conditions ------------------------------------------------------------------------------ */

/* Returns true, for rows that apply to every failure of their probe. */
static bool always(const struct judge *j, int i) {
    UNUSED(j);
    UNUSED(i);
    return true;
}
/* Returns whether the template failed on probe i instead of rendering it incorrectly. */
static bool crash(const struct judge *j, int i) {
    return strncmp(j->o[i].f.outcome, "error", 5) == 0;
}
/* Returns whether probe i rendered, but incorrectly. */
static bool unbalanced(const struct judge *j, int i) {
    return !crash(j, i);
}
/* Returns whether the template rejected probe i with raise_exception(). */
static bool raised(const struct judge *j, int i) {
    return strcmp(j->o[i].f.outcome, "error:raise") == 0;
}
/* Returns whether the template renders tools or calls, or tries to. */
static bool knows_tools(const struct lint_caps *c) {
    return c->tools || c->calls || c->tries;
}
/* Returns whether the template has no support for tools. */
static bool no_tools(const struct judge *j, int i) {
    UNUSED(i);
    return !knows_tools(&j->r->caps);
}
/* Returns whether the template does not render tool calls. */
static bool no_calls(const struct judge *j, int i) {
    UNUSED(i);
    return !j->r->caps.calls;
}
/* Returns whether calls reach the prompt, so that something else must be lost. */
static bool calls_are_there(const struct judge *j, int i) {
    return !no_calls(j, i) && !crash(j, i);
}
/* Returns whether tools reach the prompt, so that only something of them can be lost. */
static bool tools_in_part(const struct judge *j, int i) {
    return j->r->caps.tools && !crash(j, i);
}
/* Returns whether tools reach the prompt if there is also a system message. */
static bool tools_beside_system(const struct judge *j, int i) {
    return !failed(j, "system_with_tools") && !crash(j, i);
}
/* Returns whether another probe fails without a crash, and probe i too. */
static bool both_lose(const struct judge *j, int i, const char *id) {
    return failed(j, id) && !crash(j, probe_at(id)) && !crash(j, i);
}
/* Returns whether results of calls do not reach the prompt, which loses what probe i needs. */
static bool results_lost(const struct judge *j, int i) {
    return both_lose(j, i, "result_rendered");
}
/* Returns whether calls reach the prompt without the name of the tool. */
static bool names_lost(const struct judge *j, int i) {
    return both_lose(j, i, "call_name");
}
/* Returns whether calls show their ids where others show the name of the tool (Kimi K2). */
static bool ids_instead(const struct judge *j, int i) {
    struct buf conv = {0}, out = {0};
    struct jinja_err je;
    const char *id = NULL, *args = NULL;
    lint_conversation(&j->o[i].f, &conv);
    if (lint_render(j->t, conv.data, false, &out, NULL, &je) && out.len) {
        id = memmem(out.data, out.len, "call00001", 9);
        args = memmem(out.data, out.len, "Zq7-Paris", 9);
    }
    const bool instead = id && args && id < args;
    buf_release(&conv);
    buf_release(&out);
    return instead;
}
/* Returns whether earlier turns do not reach the prompt, which loses what probe i needs. */
static bool turns_lost(const struct judge *j, int i) {
    return both_lose(j, i, "turns_rendered");
}
/* Returns whether probe i fails exactly as declaring tools alone does. */
static bool tools_crash(const struct judge *j, int i) {
    return same_failure(j, i, "tools_declared") && crash(j, i);
}
/* Returns whether a conversation without tools crashes in the same way. */
static bool always_crashes(const struct judge *j, int i) {
    return same_failure(j, i, "tools_none");
}
/* Returns whether any call fails in this way. */
static bool calls_crash(const struct judge *j, int i) {
    return no_calls(j, i) && same_failure(j, i, "calls_rendered") && crash(j, i);
}
/* Returns whether the probe tools_declared fails, so that other failures need not be reported. */
static bool no_tools_shown(const struct judge *j, int i) {
    UNUSED(i);
    return failed(j, "tools_declared");
}
/* Returns whether object arguments are the cause: the probe passes with arguments as text. */
static bool objects_fail(const struct judge *j, int i) {
    if (!failed(j, "args_mapping") || is_probe(i, "args_mapping")) return false;
    return same_failure(j, i, "args_mapping") || passes(j, i, &(struct lint_twist){.text_args = 1});
}
/* Returns whether arguments given as text already fail. */
static bool text_fails(const struct judge *j, int i) {
    UNUSED(i);
    return failed(j, "args_string");
}
/* Returns whether the word None that a probe found comes from the template itself, because it also
 * appears when a call has text as content. */
static bool own_none(const struct judge *j, int i) {
    const struct lint_finding call = {.probe = "args_mapping"};
    struct buf conv = {0}, out = {0};
    struct jinja_err je;
    lint_conversation(&call, &conv);
    const bool own = strcmp(j->o[i].f.outcome, "fail:found None") == 0 &&
                     lint_render(j->t, conv.data, false, &out, NULL, &je) && out.len &&
                     memmem(out.data, out.len, "None", 4);
    buf_release(&conv);
    buf_release(&out);
    return own;
}
/* Returns whether a user message with content parts already fails. */
static bool parts_fail(const struct judge *j, int i) {
    UNUSED(i);
    return failed(j, "user_parts");
}
/* Returns whether the template does not deal with reasoning at all. */
static bool never_thinks(const struct judge *j, int i) {
    UNUSED(i);
    return !j->r->caps.thinks;
}
/* Returns whether reasoning of earlier answers reaches the prompt. */
static bool reads_thinking(const struct judge *j, int i) {
    UNUSED(i);
    return j->r->caps.reads;
}
/* Returns whether probe i passes with reasoning enabled. */
static bool passes_thinking(const struct judge *j, int i) {
    bool fine = false;
    for (int effort = 0; effort < 2 && !fine; effort++) {
        struct buf on = {0};
        bool some = lint_thinking_on(j->t, effort, &on);
        if (some && is_probe(i, "reasoning_preserve")) {
            on.len--;
            buf_str(&on, ",\"preserve_thinking\":true}");
        }
        fine = some && passes(j, i, &(struct lint_twist){.kwargs = on.data});
        buf_release(&on);
    }
    return fine;
}
/* Returns whether the template never opens answers, which leaves the markers unbalanced. */
static bool never_opens(const struct judge *j, int i) {
    UNUSED(i);
    for (int k = 0; k < j->r->n; k++)
        if (strcmp(j->r->v[k].rule, "GEN-PROMPT") == 0) return true;
    return false;
}
/* Returns whether the template also fails in the same way on two system messages in a row. */
static bool twice_fails_too(const struct judge *j, int i) {
    return same_failure(j, i, "system_twice");
}
static bool same_without_marks(const struct judge *j, int i) {
    return same_failure(j, i, "assistants_glued");
}

/* ---- rows ------------------------------------------------------------------------------------ */

static const struct row {
    const char *probe; /* "*tools": all with tools or calls; "*": all */
    condition *when;
    enum verdict verdict;
    const char *cause, *client, *consequence;
} rows[] = {
#define JUDGE(probe, when, verdict, cause, client, consequence)                                    \
    {probe, when, verdict, cause, client, consequence},
#include "template/lint_judge.def"
#undef JUDGE
};

/* Returns whether a row applies to probe i. "*" matches any probe, "*tools" any with tools. */
static bool fits(const struct row *row, const struct judge *j, int i) {
    if (strcmp(row->probe, "*") == 0) return true;
    if (strcmp(row->probe, "*tools") != 0) return is_probe(i, row->probe);
    struct buf conv = {0};
    lint_conversation(&j->o[i].f, &conv);
    bool tools = strstr(conv.data, "\"tools\":[") || strstr(conv.data, "\"tool_calls\":[");
    buf_release(&conv);
    return tools;
}

/* Returns the first row that explains the failure of probe i; NULL: not found. */
static const struct row *row_for(const struct judge *j, int i) {
    for (size_t k = 0; k < COUNT_OF(rows); k++)
        if (fits(&rows[k], j, i) && rows[k].when(j, i)) return &rows[k];
    return NULL;
}

/* Findings that replace those of all failed probes: no tool support, and no message rendered. */
static const struct lint_finding without_tools = {
    .rule = "TOOLS-UNSUPPORTED",
    .severity = LINT_WARN,
    .client = "any program that gives the model tools",
    .consequence = "the model never sees them",
    .outcome = "no tool calling",
    .detail = "neither tools nor calls reach the prompt",
};
static const struct lint_finding without_messages = {
    .rule = "NO-MESSAGES",
    .severity = LINT_ERROR,
    .client = "every client",
    .consequence = "the model sees nothing of the conversation",
    .outcome = "renders no message",
    .detail = "no text of any message reaches the prompt",
};

int lint_judge(struct lint_report *r, const struct jinja *t, struct lint_outcome *o,
               struct err *e) {
    const struct judge j = {t, r, o};
    lint_caps_of(&r->caps, t);
    if (!r->caps.messages)
        lint_found(r, &without_messages);
    else if (!knows_tools(&r->caps))
        lint_found(r, &without_tools);
    for (int i = 0; i < lint_probe_count(); i++) {
        const struct row *row = o[i].failed && r->caps.messages ? row_for(&j, i) : NULL;
        struct lint_finding f = o[i].f;
        if (!o[i].failed || (row && row->verdict == PASS)) {
            r->n_passed++;
            continue;
        }
        if (!r->caps.messages || (row && row->verdict == MOOT)) {
            r->n_moot++;
            continue;
        }
        if (row) {
            f.severity = (enum lint_severity)(row->verdict - NOTE);
            f.cause = row->cause;
            f.client = row->client;
            f.consequence = row->consequence;
        }
        lint_found(r, &f);
    }
    return progress_interrupted() ? err_set(e, ERR_INTR, "interrupted") : 0;
}
