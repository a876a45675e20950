// SPDX-License-Identifier: MIT
/* template/lint.c - the linter's probes (lint_probes.def) and rules on the template's text.
 *
 * A probe renders one conversation and requires texts to be present, absent, in order, or balanced,
 * or a second rendering to continue or equal the first. Probes are deterministic. */
#include "template/lint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"
#include "base/limits.h"
#include "base/mem.h"
#include "template/chat_span.h"
#include "template/lint_int.h"
#include "template/lint_rules.h"

enum { MAX_PIECES = 8 };
static const struct probe {
    const char *id, *rule;
    enum lint_severity severity;
    const char *text[MAX_PIECES];
} probes[] = {
#define PROBE(id, rule, severity, ...) {id, rule, severity, {__VA_ARGS__}},
#include "template/lint_probes.def"
#undef PROBE
};
static const char special_tokens[] =
    "{\"bos_token\": \"<BOS>\", \"eos_token\": \"<EOS>\", \"unk_token\": "
    "\"<UNK>\", \"pad_token\": \"<PAD>\"}";

const char *lint_tokens(void) {
    return special_tokens;
}
int lint_probe_count(void) {
    return (int)COUNT_OF(probes);
}
const char *lint_probe_id(int i) {
    return probes[i].id;
}
const char *lint_severity_name(enum lint_severity s) {
    static const char *const names[] = {"info", "warning", "error"};
    return names[s];
}

/* Appends the probe's conversation as JSON. */
static void probe_json(const struct probe *p, struct buf *out) {
    for (int i = 0; i < MAX_PIECES && p->text[i]; i++) buf_str(out, p->text[i]);
}

void lint_conversation(const struct lint_finding *f, struct buf *out) {
    if (f->conv) buf_str(out, f->conv);
    for (size_t i = 0; f->probe && i < COUNT_OF(probes); i++)
        if (strcmp(probes[i].id, f->probe) == 0) probe_json(&probes[i], out);
}

/* ---- one probe ------------------------------------------------------------------------------- */

/* Copies up to 240 bytes of text around `at` to f->detail, without splitting characters. */
static void excerpt(struct lint_finding *f, const struct buf *text, size_t at) {
    size_t from = at > 120 ? at - 120 : 0, n = text->len - from > 240 ? 240 : text->len - from;
    while (from < text->len && from > 0 && ((unsigned char)text->data[from] & 0xc0) == 0x80) from++;
    if (n > text->len - from) n = text->len - from;
    while (n > 0 && from + n < text->len && ((unsigned char)text->data[from + n] & 0xc0) == 0x80)
        n--;
    memcpy(f->detail, text->data + from, n);
    f->detail[n] = 0;
}

/* Returns the offset of the first s at or after `from`; -1: not found. */
static int64_t find(const struct buf *b, struct jval s, size_t from) {
    return ju_find(jv_strn(b->data ? b->data : "", b->len), s, from);
}

/* Counts the occurrences of s, without overlaps; 0 if s is empty. */
static int64_t count(const struct buf *b, struct jval s) {
    int64_t n = 0;
    for (int64_t at = find(b, s, 0); s.len && at >= 0; at = find(b, s, (size_t)at + s.len)) n++;
    return n;
}

/* Writes `what` and up to 140 bytes of s to the outcome. */
static void say(char outcome[160], const char *what, struct jval s) {
    snprintf(outcome, 160, "%s%.*s", what, (int)(s.len > 140 ? 140 : s.len), s.u.s);
}

/* Returns the offset of the first turn marker without its counterpart, or the length of the text if
 * all have one. rest: the last turn may stay open. */
static size_t unbalanced_at(const struct buf *a, struct jval opens, struct jval closes, bool rest) {
    int64_t unclosed = -1;
    for (size_t at = 0;;) {
        int64_t o = find(a, opens, at), x = find(a, closes, at);
        if (o < 0 && x < 0) return unclosed >= 0 && !rest ? (size_t)unclosed : a->len;
        bool open = o >= 0 && (x < 0 || o < x);
        if (open && unclosed >= 0) return (size_t)unclosed;
        if (!open && unclosed < 0) return (size_t)x;
        unclosed = open ? o : -1;
        at = (size_t)(open ? o : x) + 1;
    }
}

/* Returns whether all texts are present or absent as required, in order and balanced; otherwise
 * fills in outcome and finding. */
static bool check_texts(const struct jinja *t, const struct chat_case *k, struct jval p,
                        const struct buf *a, char outcome[160], struct lint_finding *f) {
    struct jval l = chat_member(p, "contains");
    for (uint32_t i = 0; l.tag == JT_LIST && i < l.u.list->n; i++) {
        if (find(a, l.u.list->v[i], 0) >= 0) continue;
        say(outcome, "fail:missing ", l.u.list->v[i]);
        excerpt(f, a, a->len);
        lint_where_held(t, k, l.u.list->v[i], f);
        return false;
    }
    l = chat_member(p, "absent");
    for (uint32_t i = 0; l.tag == JT_LIST && i < l.u.list->n; i++) {
        int64_t at = find(a, l.u.list->v[i], 0);
        if (at < 0) continue;
        say(outcome, "fail:found ", l.u.list->v[i]);
        excerpt(f, a, (size_t)at);
        lint_where_byte(t, k, (size_t)at, f);
        return false;
    }
    l = chat_member(p, "order");
    int64_t at = -1;
    for (uint32_t i = 0; l.tag == JT_LIST && i < l.u.list->n; i++) {
        at = find(a, l.u.list->v[i], (size_t)(at + 1));
        if (at >= 0) continue;
        say(outcome, "fail:order ", l.u.list->v[i]);
        excerpt(f, a, a->len);
        int64_t early = find(a, l.u.list->v[i], 0);
        if (early >= 0)
            lint_where_byte(t, k, (size_t)early, f);
        else
            lint_where_held(t, k, l.u.list->v[i], f);
        return false;
    }
    l = chat_member(p, "balanced");
    if (l.tag != JT_LIST || l.u.list->n != 3) return true;
    int64_t n_open = count(a, l.u.list->v[0]), n_close = count(a, l.u.list->v[1]);
    if (n_open == n_close + l.u.list->v[2].u.i || n_open == 0) return true;
    snprintf(outcome, 160, "fail:unbalanced %lld/%lld", (long long)n_open, (long long)n_close);
    excerpt(f, a, a->len);
    lint_where_byte(t, k, unbalanced_at(a, l.u.list->v[0], l.u.list->v[1], l.u.list->v[2].u.i > 0),
                    f);
    return false;
}

/* Returns the scenario's test case, with a fixed current time. */
static struct chat_case case_of(struct jval scenario, struct jval defaults) {
    struct chat_case k = chat_case_of(scenario, defaults);
    k.now = LINT_NOW;
    return k;
}

/* Renders a scenario; if the template fails, returns nonzero and fills in *je. */
static int render(const struct jinja *t, struct jval scenario, struct jval defaults,
                  struct buf *out, struct jinja_err *je) {
    struct err ignored;
    struct chat_case k = case_of(scenario, defaults);
    return chat_case_render(t, &k, out, je, &ignored);
}

/* Returns the number of characters in the first n bytes. */
static size_t count_points(const struct buf *b, size_t n) {
    return ju_count(jv_strn(b->data ? b->data : "", n));
}

/* Returns the number of equal bytes at the start of a and b. */
static size_t common_prefix(const struct buf *a, const struct buf *b) {
    size_t n = 0;
    while (n < a->len && n < b->len && a->data[n] == b->data[n]) n++;
    return n;
}

/* Compares a with the renderings that it must be a prefix of, or equal to, according to p. False:
 * it differs. */
static bool check_pair(const struct jinja *t, struct jval p, struct jval defaults,
                       const struct buf *a, char outcome[160], struct lint_finding *f) {
    static const char *const names[] = {"prefix_of", "equals"};
    bool fine = true;
    for (size_t i = 0; i < COUNT_OF(names) && fine; i++) {
        struct jval other = chat_member(p, names[i]);
        struct buf b = {0};
        struct jinja_err je;
        if (other.tag != JT_DICT) continue;
        if (render(t, other, defaults, &b, &je)) {
            snprintf(outcome, 160, "error2:%s", je.type);
            snprintf(f->detail, sizeof f->detail, "%.300s", je.msg);
            f->line = je.line;
            f->col = je.col;
            fine = false;
        } else if (i == 1 && (a->len != b.len || memcmp(a->data, b.data, a->len) != 0)) {
            struct chat_case k = case_of(p, defaults);
            snprintf(outcome, 160, "fail:differs");
            excerpt(f, &b, b.len);
            lint_where_byte(t, &k, common_prefix(a, &b), f);
            fine = false;
        } else if (i == 0) {
            size_t n = common_prefix(a, &b);
            while (n > 0 && n < a->len && ((unsigned char)a->data[n] & 0xc0) == 0x80) n--;
            if (n < a->len) {
                snprintf(outcome, 160, "fail:diverges at %zu of %zu", count_points(a, n),
                         count_points(a, a->len));
                struct chat_case k = case_of(other, defaults);
                excerpt(f, &b, n);
                f->at = (int64_t)n;
                f->lost = (int64_t)(a->len - n);
                lint_where_byte(t, &k, n, f);
                fine = false;
            }
        }
        buf_release(&b);
    }
    return fine;
}

int lint_probe(const struct jinja *t, int i, char outcome[160], struct lint_finding *f,
               struct err *e) {
    return lint_probe_twisted(t, i, &(struct lint_twist){0}, outcome, f, e);
}

int lint_probe_twisted(const struct jinja *t, int i, const struct lint_twist *w, char outcome[160],
                       struct lint_finding *f, struct err *e) {
    struct buf text = {0}, a = {0};
    struct jdoc p, defaults, more = {0};
    struct jinja_err je;
    memset(f, 0, sizeof *f);
    f->rule = probes[i].rule;
    f->probe = probes[i].id;
    f->severity = probes[i].severity;
    snprintf(outcome, 160, "pass");
    probe_json(&probes[i], &text);
    int rc = jdoc_parse(&p, text.data, text.len, probes[i].id, e);
    buf_release(&text);
    if (rc) return rc;
    if (w->kwargs) rc = jdoc_parse(&more, w->kwargs, strlen(w->kwargs), "switches", e);
    if (!rc)
        rc = jdoc_parse(&defaults, special_tokens, sizeof special_tokens - 1, "special tokens", e);
    if (!rc) {
        struct chat_case k = case_of(p.root, defaults.root);
        struct err ignored;
        k.text_args = w->text_args;
        if (w->kwargs) k.kwargs = more.root;
        if (chat_case_render(t, &k, &a, &je, &ignored)) {
            snprintf(outcome, 160, "error:%s", je.type);
            snprintf(f->detail, sizeof f->detail, "%.300s", je.msg);
            f->line = je.line;
            f->col = je.col;
        } else if (check_texts(t, &k, p.root, &a, outcome, f)) {
            check_pair(t, p.root, defaults.root, &a, outcome, f);
        }
        jdoc_release(&defaults);
    }
    snprintf(f->outcome, sizeof f->outcome, "%s", outcome);
    buf_release(&a);
    jdoc_release(&p);
    if (w->kwargs) jdoc_release(&more);
    return rc;
}

/* ---- the report ------------------------------------------------------------------------------ */

void lint_found(struct lint_report *r, const struct lint_finding *f) {
    if (r->n == r->cap) {
        r->cap = r->cap ? r->cap * 2 : 32;
        r->v = xreallocarray(r->v, (size_t)r->cap, sizeof *r->v);
    }
    r->v[r->n] = *f;
    r->n_by[f->severity]++;
    r->n++;
}

/* ---- rules that compare renderings of a text made for the template --------------------------- */

bool lint_render(const struct jinja *t, const char *json, bool text_args, struct buf *out,
                 struct jinja_spans *spans, struct jinja_err *je) {
    struct jdoc p, defaults;
    struct err ignored;
    if (jdoc_parse(&p, json, strlen(json), "rule", &ignored)) return false;
    bool ok = jdoc_parse(&defaults, special_tokens, sizeof special_tokens - 1, "special tokens",
                         &ignored) == 0;
    if (ok) {
        struct chat_case k = case_of(p.root, defaults.root);
        k.text_args = text_args;
        ok = (spans ? chat_case_spans(t, &k, out, spans, je, &ignored)
                    : chat_case_render(t, &k, out, je, &ignored)) == 0;
        jdoc_release(&defaults);
    }
    jdoc_release(&p);
    return ok;
}

/* Renders a probe given as JSON; returns false if the template failed. */
static bool render_json(const struct jinja *t, const struct buf *json, struct buf *out,
                        struct jinja_spans *spans) {
    struct jinja_err je;
    return lint_render(t, json->data, false, out, spans, &je);
}

/* Locates the template code that wrote byte `at` of a rendering. */
static void where_json(const struct jinja *t, const char *json, size_t at, struct lint_finding *f) {
    struct jdoc p, defaults;
    struct err ignored;
    if (jdoc_parse(&p, json, strlen(json), "rule", &ignored)) return;
    if (jdoc_parse(&defaults, special_tokens, sizeof special_tokens - 1, "special tokens",
                   &ignored) == 0) {
        struct chat_case k = case_of(p.root, defaults.root);
        lint_where_byte(t, &k, at, f);
        jdoc_release(&defaults);
    }
    jdoc_release(&p);
}

/* ---- markers in untrusted texts -------------------------------------------------------------- */

/* Conversation with MARKS in place of untrusted text. */
static const char whole_conv[] =
    "{\"messages\":[{\"role\":\"user\",\"content\":\"MARKS\"},{\"role\":\"assistant\",\"content\":"
    "\"\",\"tool_calls\":[{\"id\":\"call00001\",\"type\":\"function\",\"function\":{\"name\":\"f\","
    "\"arguments\":{\"x\":\"MARKS\"}}}]},{\"role\":\"tool\",\"tool_call_id\":\"call00001\","
    "\"content\":\"MARKS\"},{\"role\":\"assistant\",\"content\":\"Hi\"},{\"role\":\"user\","
    "\"content\":"
    "\"Hi\"}],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":"
    "\"MARKS\","
    "\"parameters\":{\"type\":\"object\",\"properties\":{\"x\":{\"type\":\"string\"}}}}}],"
    "\"add_generation_prompt\":true}";
static const char user_conv[] =
    "{\"messages\":[{\"role\":\"user\",\"content\":\"MARKS\"},{\"role\":"
    "\"assistant\",\"content\":\"Hi\"},{\"role\":\"user\",\"content\":"
    "\"Hi\"}],\"add_generation_prompt\":true}";

static const char tools_conv[] =
    "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"tools\":[{\"type\":\"function\","
    "\"function\":{\"name\":\"f\",\"description\":\"MARKS\",\"parameters\":{\"type\":\"object\","
    "\"properties\":{}}}}],\"add_generation_prompt\":true}";

/* Appends conv with MARKS replaced by `marks`. */
static void put_marks(struct buf *json, const char *conv, const char *marks) {
    for (const char *at; (at = strstr(conv, "MARKS")) != NULL; conv = at + 5) {
        buf_add(json, conv, (size_t)(at - conv));
        for (const char *p = marks; *p; p++) {
            if (*p == '"') buf_chr(json, '\\');
            buf_chr(json, *p);
        }
    }
    buf_str(json, conv);
}

/* Returns whether a marker looks like a single token of a vocabulary. */
static bool special(const char *mark) {
    return mark[0] == '[' || strchr(mark, '|') || strstr(mark, "\xef\xbd\x9c");
}

/* Reports the forged markers in inputs of the given kinds as one finding of the rule. */
static void report_forged(struct lint_report *r, const struct jinja *t, const struct buf *out,
                          const struct jinja_spans *spans, const char *rule, bool tools) {
    struct lint_finding f = {.rule = rule, .severity = LINT_WARN};
    int n, n_found = 0;
    struct chat_forged *v = chat_find_forged(out, spans, &n);
    size_t used = (size_t)snprintf(f.outcome, sizeof f.outcome, "found:");
    char *first = NULL;
    for (int i = 0; i < n; i++) {
        const struct jinja_origin *o = &spans->origin[v[i].origin];
        if ((strcmp(o->kind, "tools") == 0) != tools) continue;
        size_t k = v[i].end - v[i].start;
        char *text = xstrndup(out->data + v[i].start, k);
        const char *in = memmem(t->src, t->src_len, text, k);
        if (!n_found++ && in)
            jx_where(t->src, t->src_len, (uint32_t)(in - t->src), &f.line, &f.col);
        bool known = strstr(f.outcome, text) != NULL;
        if (!known && used + k + 2 < sizeof f.outcome)
            used += (size_t)snprintf(f.outcome + used, sizeof f.outcome - used, "%s%s",
                                     n_found > 1 ? " " : "", text);
        if (!strstr(f.detail, o->path))
            snprintf(f.detail + strlen(f.detail), sizeof f.detail - strlen(f.detail), "%s%s",
                     f.detail[0] ? ", " : "", o->path);
        if (first)
            free(text);
        else
            first = text;
    }
    if (n_found) {
        struct buf json = {0};
        size_t at = strlen(f.detail);
        snprintf(f.detail + at, sizeof f.detail - at,
                 tools ? ": in a tool description, these end the block of tools, or a turn"
                       : ": become control tokens unless the tokenizing program treats input as "
                         "plain text (template render --spans)");
        put_marks(&json, tools ? tools_conv : user_conv, first);
        f.conv = buf_take(&json);
        lint_found(r, &f);
    }
    free(first);
    free(v);
}

/* Inserts every marker that the template writes into untrusted texts, and reports those that reach
 * the prompt intact. */
static void injections(struct lint_report *r, const struct jinja *t) {
    static const char *const convs[] = {whole_conv, user_conv};
    struct buf out = {0}, json = {0}, marks = {0};
    struct jinja_spans spans = {0};
    const char *conv = NULL;
    for (size_t i = 0; i < COUNT_OF(convs) && !conv; i++) {
        buf_reset(&json);
        put_marks(&json, convs[i], "Hi");
        if (render_json(t, &json, &out, &spans)) conv = convs[i];
    }
    int n = 0;
    char **v = conv ? chat_own_marks(&out, &spans, &n) : NULL;
    for (int pass = 0; pass < 2; pass++) /* worst findings first */
        for (int i = 0; i < n; i++)
            if (special(v[i]) == !pass && !strstr(special_tokens, v[i])) {
                buf_str(&marks, "Zq7");
                buf_str(&marks, v[i]);
            }
    chat_marks_free(v, n);
    jinja_spans_free(&spans);
    buf_reset(&out);
    buf_reset(&json);
    if (marks.len) put_marks(&json, conv, marks.data);
    if (marks.len && render_json(t, &json, &out, &spans)) {
        report_forged(r, t, &out, &spans, "TOOLS-INJECTION", true);
        report_forged(r, t, &out, &spans, "CONTROL-TOKENS", false);
    }
    jinja_spans_free(&spans);
    buf_release(&out);
    buf_release(&json);
    buf_release(&marks);
}

/* Reports a template that ignores add_generation_prompt because it never, or always, opens the
 * answer. Templates whose answer directly follows the user's turn (Mistral) are fine. */
static void generation_prompt(struct lint_report *r, const struct jinja *t) {
#define HI "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}"
    static const char *const convs[] = {
        HI "],\"add_generation_prompt\":false}", HI "],\"add_generation_prompt\":true}",
        HI ",{\"role\":\"assistant\",\"content\":\"Zq7\"}],\"add_generation_prompt\":false}"};
#undef HI
    enum { TAIL = 6 };
    struct buf out[3] = {{0}};
    bool ok = true;
    for (int i = 0; i < 3; i++) {
        struct buf json = {0};
        buf_str(&json, convs[i]);
        ok = ok && render_json(t, &json, &out[i], NULL);
        buf_release(&json);
    }
    ok = ok && out[0].len >= TAIL && out[0].len == out[1].len &&
         memcmp(out[0].data, out[1].data, out[0].len) == 0;
    int64_t at = ok ? find(&out[2], jv_str("Zq7"), 0) : -1;
    if (at >= 0) {
        size_t n = out[0].len, to = (size_t)at, end = out[2].len;
        bool opened = to > n && memcmp(out[0].data, out[2].data, n) == 0 &&
                      ju_strip(NULL, jv_strn(out[2].data + n, to - n), jv_missing(), 3).len > 0;
        bool always =
            end >= to + TAIL && memcmp(out[0].data + n - TAIL, out[2].data + end - TAIL, TAIL) == 0;
        if (opened || always) {
            struct lint_finding f = {.rule = "GEN-PROMPT", .severity = LINT_ERROR};
            snprintf(f.outcome, sizeof f.outcome, opened ? "fail:ignored" : "fail:always");
            snprintf(f.detail, sizeof f.detail,
                     opened ? "add_generation_prompt does not open the answer"
                            : "the answer is opened even without add_generation_prompt");
            f.conv = xstrdup(convs[opened ? 1 : 2]);
            /* Locate the code that opens the answer in the history, or the superfluous opening. */
            where_json(t, convs[opened ? 2 : 0], opened ? n : n - 1, &f);
            lint_found(r, &f);
        }
    }
    for (int i = 0; i < 3; i++) buf_release(&out[i]);
}

/* Reports whether the model thinks by default. */
static void polarity(struct lint_report *r, const struct jinja *t) {
    static const char *const kwargs[] = {"", "\"enable_thinking\":true",
                                         "\"enable_thinking\":false"};
    struct buf out[3] = {{0}};
    bool ok = true;
    for (int i = 0; i < 3; i++) {
        struct buf json = {0};
        buf_fmt(&json,
                "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"add_generation_prompt\":"
                "true,\"kwargs\":{%s}}",
                kwargs[i]);
        ok = ok && render_json(t, &json, &out[i], NULL);
        buf_release(&json);
    }
    if (ok && (out[1].len != out[2].len || memcmp(out[1].data, out[2].data, out[1].len) != 0)) {
        struct lint_finding f = {.rule = "THINK-POLARITY", .severity = LINT_INFO};
        bool off = out[0].len == out[2].len && memcmp(out[0].data, out[2].data, out[0].len) == 0;
        if (off) f.severity = LINT_WARN;
        snprintf(f.outcome, sizeof f.outcome, off ? "default:off" : "default:on");
        snprintf(f.detail, sizeof f.detail,
                 off ? "thinks only when enable_thinking is true; other models of the family may "
                       "think unless it is false"
                     : "thinks unless enable_thinking is false");
        f.conv = xstrdup("{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],"
                         "\"add_generation_prompt\":true}");
        lint_where_name(&f, t, jv_str("enable_thinking"));
        lint_found(r, &f);
    }
    for (int i = 0; i < 3; i++) buf_release(&out[i]);
}

const char *lint_mode_name(const struct lint_report *r) {
    return r->needs_lenient ? "lenient" : r->compiles ? "hf" : "none";
}

/* Returns whether an outcome is "error", with or without its kind. */
static bool is_error(const char *outcome) {
    return strncmp(outcome, "error", 5) == 0;
}

/* Returns whether the limit on evaluation steps has not been reached. */
static bool steps_left(void) {
    return ctx_cost()->spent < ctx_cost()->most;
}

static int run(struct lint_report *r, const char *src, size_t len, const char *name,
               enum jinja_mode mode, struct err *e);

int lint_run(struct lint_report *r, const char *src, size_t len, const char *name,
             enum jinja_mode mode, struct err *e) {
    struct ctx_cost all = {.most = limit_of(LIM_TEMPLATE_STEPS)}, *before = ctx_cost_enter(&all);
    int rc = run(r, src, len, name, mode, e);
    ctx_cost_enter(before);
    if (progress_interrupted()) {
        lint_report_free(r);
        return err_set(e, ERR_INTR, "interrupted");
    }
    if (!rc && all.spent >= all.most && !lint_unusable(r)) {
        lint_report_free(r);
        rc =
            err_set(e, ERR_DATA,
                    "%s: the probes take more than %llu steps in total (limit template_steps): the "
                    "template probably contains an endless loop",
                    name, (unsigned long long)limit_of(LIM_TEMPLATE_STEPS));
    }
    return rc;
}

/* Reports an error that makes every use of the template fail; it is the only finding. */
static void found_useless(struct lint_report *r, const char *rule, const struct jinja_err *je) {
    struct lint_finding f = {
        .rule = rule, .severity = LINT_ERROR, .line = je->line, .col = je->col};
    snprintf(f.outcome, sizeof f.outcome, "error:%s", je->type);
    snprintf(f.detail, sizeof f.detail, "%.300s", je->msg);
    lint_found(r, &f);
}

/* Lints a template; reports one that does not compile, or always fails, as a finding. */
static int run(struct lint_report *r, const char *src, size_t len, const char *name,
               enum jinja_mode mode, struct err *e) {
    struct jinja *t, *lenient;
    struct jinja_err je, lenient_je;
    struct err ignored;
    int rc = 0;
    memset(r, 0, sizeof *r);
    if (jinja_compile_mode(&lenient, src, len, name, JINJA_LENIENT, NULL, &ignored)) lenient = NULL;
    r->compiles = lenient != NULL;
    if (jinja_compile_mode(&t, src, len, name, mode, &je, &ignored)) {
        found_useless(r, "SYNTAX", &je);
        r->needs_lenient = lenient != NULL;
        jinja_free(lenient);
        return 0;
    }
    if (lint_always_fails(t, &je) && (!lenient || lint_always_fails(lenient, &lenient_je))) {
        found_useless(r, "ALWAYS-FAILS", &je);
        jinja_free(t);
        jinja_free(lenient);
        return 0;
    }
    struct lint_outcome *o = xcalloc((size_t)lint_probe_count(), sizeof *o);
    for (int i = 0; i < lint_probe_count() && !rc && steps_left(); i++) {
        char outcome[160];
        rc = lint_probe(t, i, outcome, &o[i].f, e);
        r->n_probes++;
        o[i].failed = strcmp(outcome, "pass") != 0;
        if (!rc && lenient && is_error(outcome) && !r->needs_lenient) {
            struct lint_finding other;
            char instead[160];
            rc = lint_probe(lenient, i, instead, &other, e);
            r->needs_lenient = !is_error(instead);
        }
        if (strcmp(o[i].f.rule, "TOOL-ARGS-STRING") == 0 && strncmp(outcome, "fail:", 5) == 0)
            o[i].f.rule = "TOOL-ARGS-DROPPED"; /* a silent loss, not a crash */
    }
    if (!rc && steps_left()) generation_prompt(r, t);
    if (!rc && steps_left()) rc = lint_judge(r, t, o, e);
    free(o);
    if (!rc && steps_left()) {
        lint_tree(r, t);
        injections(r, t);
        polarity(r, t);
    }
    jinja_free(t);
    jinja_free(lenient);
    return rc;
}

void lint_report_free(struct lint_report *r) {
    for (int i = 0; i < r->n; i++) free(r->v[i].conv);
    free(r->v);
    memset(r, 0, sizeof *r);
}
