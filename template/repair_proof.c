// SPDX-License-Identifier: MIT
/* template/repair_proof.c - checks that a repaired template must pass, and renderings that must not
 * change.
 *
 * Checks are the linter's probes (except those of the prompt cache) and pairs: an odd conversation
 * must render like its normal form. An answer with calls but no text normally has empty text as
 * content; null, if the template renders empty text as an answer of its own. Renderings that the
 * original template got right must stay byte-identical: those of probes, and of ordinary
 * conversations generated from seeds. Where the original rendered a wrong text, the repaired
 * template must not fail instead. */
#include "template/repair_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "template/lint_int.h"

enum { PAIR = -1 };
enum { N_ORDINARY = 60, N_PAIRS = 4, MAX_STEPS = 2 << 20 };

struct kept {
    struct jdoc conv;
    struct buf text; /* rendering by the original */
    bool exact;      /* true: must stay identical; false: must only be rendered without error */
};
struct check {
    const char *id;
    int probe; /* index, or PAIR */
    bool failed, soft, worse;
    int n_failed; /* pairs: failures out of N_PAIRS, so that partial repairs count */
    enum repair_form form;
    uint32_t seed[N_PAIRS];
    struct jdoc odd[N_PAIRS], normal[N_PAIRS]; /* conversations */
};
struct proof {
    struct jdoc defaults;
    struct check *check;
    int n_check, n_failed;
    bool calls_right;  /* the original renders results, and its arguments are not in Python or HTML
                          form */
    bool shows_system; /* the original renders system messages */
    bool shows_user;   /* the original renders user texts */
    unsigned faults;   /* text_faults() of the last accepted template */
    bool null_calls;   /* the original needs null as content of answers with calls alone */
    struct kept *kept;
    int n_kept;
};

/* Renders a scenario; returns its text or an error in *je. */
static int render(const struct proof *p, const struct jinja *t, struct jval scenario,
                  struct buf *out, struct jinja_err *je) {
    const struct jinja_limits lim = {.max_steps = MAX_STEPS};
    struct chat_case k = chat_case_of(scenario, p->defaults.root);
    struct err ignored;
    k.now = LINT_NOW;
    out->len = 0;
    return jinja_render_fn(t, chat_case_vars, &k, k.now, &lim, out, je, &ignored);
}

static bool equal(const struct buf *a, const struct buf *b) {
    return a->len == b->len && (!a->len || memcmp(a->data, b->data, a->len) == 0);
}

/* ---- checks ---------------------------------------------------------------------------------- */

/* Returns whether the probe runs and its outcome is not "pass". */
static bool probe_fails(const struct jinja *t, int probe) {
    struct lint_finding f;
    struct err ignored;
    char outcome[160];
    return lint_probe(t, probe, outcome, &f, &ignored) == 0 && strcmp(outcome, "pass") != 0;
}

/* Returns the number of pairs in which the unusual form renders differently from the normal form,
 * or the normal form does not render. */
static int pairs_fail(const struct proof *p, const struct check *c, const struct jinja *t) {
    struct buf a = {0}, b = {0};
    struct jinja_err je;
    int n = 0;
    for (int i = 0; i < N_PAIRS; i++) {
        const bool error = render(p, t, c->normal[i].root, &a, &je) != 0 ||
                           render(p, t, c->odd[i].root, &b, &je) != 0;
        n += error || (!c->soft && !equal(&a, &b));
    }
    buf_release(&a);
    buf_release(&b);
    return n;
}

/* Returns how many of the check's cases fail: 0 or 1 for a probe, up to N_PAIRS otherwise. */
static int fails(const struct proof *p, const struct check *c, const struct jinja *t) {
    return c->probe >= 0 ? probe_fails(t, c->probe) : pairs_fail(p, c, t);
}

/* Parses a generated conversation into *conv. */
static int conv_new(struct jdoc *conv, const struct buf *json, struct err *e) {
    return jdoc_parse(conv, json->data, json->len, "conversation", e);
}

/* Replaces the empty text of answers with calls by null. */
static void text_to_null(struct buf *json) {
    static const char from[] = "\"role\":\"assistant\",\"content\":\"\"",
                      to[] = "\"role\":\"assistant\",\"content\":null";
    struct buf b = {0};
    const char *s = json->data, *at;
    for (; (at = strstr(s, from)) != NULL; s = at + sizeof from - 1) {
        buf_add(&b, s, (size_t)(at - s));
        buf_str(&b, to);
    }
    buf_str(&b, s);
    buf_release(json);
    *json = b;
}

/* Replaces the content of a conversation by a generated one. */
static void make_conv(const struct proof *p, struct buf *json, uint32_t seed, enum repair_form form,
                      bool odd, unsigned *features) {
    json->len = 0;
    repair_conv(json, seed, form, odd, features);
    if (p->null_calls && !(odd && form == FORM_CONTENT_BLANK)) text_to_null(json);
}

/* Adds a check with pairs of conversations, each in an unusual form and in the normal form. */
static int pair_new(struct proof *p, enum repair_form form, struct err *e) {
    if (form == (p->null_calls ? FORM_CONTENT_NULL : FORM_CONTENT_BLANK)) return 0; /* normal */
    struct check *c = &p->check[p->n_check++];
    struct buf odd = {0}, normal = {0};
    int rc = 0;
    uint32_t seed = 1;
    *c = (struct check){
        .id = repair_form_id[form], .probe = PAIR, .soft = repair_form_soft[form], .form = form};
    for (int n = 0; n < N_PAIRS && rc == 0; seed++) {
        unsigned ignored;
        make_conv(p, &odd, seed, form, true, &ignored);
        make_conv(p, &normal, seed, form, false, &ignored);
        if (equal(&odd, &normal)) continue;
        c->seed[n] = seed;
        rc = conv_new(&c->odd[n], &odd, e);
        if (!rc) rc = conv_new(&c->normal[n], &normal, e);
        n++;
    }
    buf_release(&odd);
    buf_release(&normal);
    return rc;
}

bool proof_listed(const char *list, const char *id) {
    const size_t n = strlen(id);
    for (const char *s = list; s && (s = strstr(s, id)) != NULL; s += n)
        if ((s == list || s[-1] == ' ') && (s[n] == ' ' || !s[n])) return true;
    return false;
}

/* Returns whether the probes of a rule are used as checks. Those about the prompt cache and about
 * style are not. */
static bool is_check(const char *rule) {
    static const char skip[] = "PREFIX THINK-HISTORY THINK-EMPTY CONTENT-TRIM "
                               "TOOLS-SCHEMA";
    return !proof_listed(skip, rule);
}

/* ---- kept renderings ------------------------------------------------------------------------- */

/* Records the original's rendering of a conversation, unless it fails. */
static int keep(struct proof *p, const struct jinja *t, const struct buf *json, bool exact,
                struct err *e) {
    struct kept *k = &p->kept[p->n_kept];
    struct jinja_err je;
    *k = (struct kept){.exact = exact};
    TRY(conv_new(&k->conv, json, e));
    if (render(p, t, k->conv.root, &k->text, &je)) {
        jdoc_release(&k->conv);
        buf_release(&k->text);
        return 0;
    }
    p->n_kept++;
    return 0;
}

/* Conversations that show what kinds of messages a template renders. */
static const char call_conv[] =
    "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"},{\"role\":\"assistant\",\"content\":"
    "\"\","
    "\"reasoning_content\":\"Zq7why\",\"tool_calls\":[{\"id\":\"call00001\",\"type\":\"function\","
    "\"function\":{\"name\":\"f\",\"arguments\":{\"a\":\"b\"}}}]},{\"role\":\"tool\","
    "\"tool_call_id\":\"call00001\",\"content\":\"Zq7res\"}],\"add_generation_prompt\":true,"
    "\"kwargs\":{\"enable_thinking\":true,\"thinking\":true}}";
static const char system_conv[] =
    "{\"messages\":[{\"role\":\"system\",\"content\":\"Zq7sys\"},{\"role\":\"user\",\"content\":"
    "\"Hi\"}],\"add_generation_prompt\":true}";

static const char user_conv[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"Zq7usr\"}],"
                                "\"add_generation_prompt\":true}";

/* Renders a conversation given as JSON text into *out; clears it on failure. Returns whether it
 * rendered. */
static bool render_text(const struct proof *p, const struct jinja *t, const char *conv,
                        struct buf *out) {
    struct jdoc doc;
    struct jinja_err je;
    struct err ignored;
    out->len = 0;
    if (jdoc_parse(&doc, conv, strlen(conv), "conversation", &ignored)) return false;
    const bool fine = render(p, t, doc.root, out, &je) == 0;
    if (!fine) out->len = 0;
    jdoc_release(&doc);
    return fine;
}

/* Returns whether the rendering of a conversation contains `what`. */
static bool shows(const struct proof *p, const struct jinja *t, const char *conv,
                  const char *what) {
    struct buf out = {0};
    const bool shown = render_text(p, t, conv, &out) && out.len &&
                       memmem(out.data, out.len, what, strlen(what)) != NULL;
    buf_release(&out);
    return shown;
}

/* Appends to `twice` the text, doubled, that has to be inserted into a to get b. Nothing is
 * appended if b is not a with an insertion. */
static void inserted(const struct buf *a, const struct buf *b, struct buf *twice) {
    size_t head = 0, tail = 0;
    while (head < a->len && head < b->len && a->data[head] == b->data[head]) head++;
    while (tail < a->len && tail < b->len &&
           a->data[a->len - 1 - tail] == b->data[b->len - 1 - tail])
        tail++;
    if (b->len <= a->len || head + tail < a->len) return;
    for (int i = 0; i < 2; i++) buf_add(twice, b->data + head, b->len - a->len);
}

/* Returns whether the template renders a call with null content, and with empty text adds to it
 * exactly what an empty answer without calls is rendered as. */
static bool adds_answer(const struct proof *p, const struct jinja *t) {
    static const char user[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}",
                      end[] = "]}",
                      calls[] = ",\"tool_calls\":[{\"id\":\"call00001\",\"type\":\"function\","
                                "\"function\":{\"name\":\"f\",\"arguments\":{\"a\":\"b\"}}}]},"
                                "{\"role\":\"tool\",\"tool_call_id\":\"call00001\","
                                "\"content\":\"Zq7res\"}]}",
                      text[] = ",{\"role\":\"assistant\",\"content\":\"\"",
                      null[] = ",{\"role\":\"assistant\",\"content\":null";
    const char *const convs[4][3] = {
        {user, end, ""}, {user, text, "}]}"}, {user, null, calls}, {user, text, calls}};
    struct buf shown[4] = {{0}}, answer = {0}, more = {0}, conv = {0};
    bool fine = true;
    for (int i = 0; i < 4; i++) {
        conv.len = 0;
        for (int k = 0; k < 3; k++) buf_str(&conv, convs[i][k]);
        fine &= render_text(p, t, conv.data, &shown[i]) && shown[i].len;
    }
    if (fine) {
        inserted(&shown[0], &shown[1], &answer);
        inserted(&shown[2], &shown[3], &more);
    }
    const bool adds = more.len && more.len == answer.len &&
                      memmem(answer.data, answer.len, more.data, more.len / 2) != NULL;
    for (int i = 0; i < 4; i++) buf_release(&shown[i]);
    buf_release(&answer);
    buf_release(&more);
    buf_release(&conv);
    return adds;
}

bool proof_shows_user(const struct proof *p) {
    return p->shows_user;
}

bool proof_thinks(const struct proof *p, const struct jinja *t) {
    return shows(p, t, call_conv, "Zq7why") || shows(p, t, call_conv, "</think>");
}

bool proof_failed_id(const struct proof *p, const char *id) {
    for (int i = 0; i < p->n_check; i++)
        if (strcmp(p->check[i].id, id) == 0) return p->check[i].failed;
    return false;
}

/* Returns whether the original correctly renders conversations with these features. */
static bool is_right(const struct proof *p, unsigned features) {
    if (!p->shows_user) return false;
    if (!p->calls_right && (features >> FEATURE_CALLS & 1)) return false;
    if (!p->shows_system && (features >> FEATURE_SYSTEM & 1)) return false;
    for (int f = 0; f < FEATURE_COUNT; f++) {
        if (!(features >> f & 1)) continue;
        for (int i = 0; i < p->n_check; i++)
            if (p->check[i].failed && proof_listed(repair_feature_probes[f], p->check[i].id))
                return false;
    }
    return true;
}

/* Probes with a conversation in an unusual form, whose correct rendering is defined by the pair. */
static const char odd_probes[] = "args_string args_string_same args_string_many args_string_broken "
                                 "args_missing args_null args_empty_string content_null "
                                 "content_missing result_null result_parts user_parts "
                                 "user_parts_input answer_parts_output developer";

/* Returns the features of a probe's conversation. */
static unsigned features_of(const char *probe, const char *json) {
    unsigned f = 0;
    if (strstr(json, "\"role\":\"system\"")) f |= 1u << FEATURE_SYSTEM;
    if (strstr(json, "\"tool_call_id\"")) f |= 1u << FEATURE_CALLS;
    if (strstr(json, "\"tools\"")) f |= 1u << FEATURE_TOOLS;
    if (strstr(json, "\"tool_calls\"") && strstr(json, "\"reasoning_content\""))
        f |= 1u << FEATURE_REASONING;
    if (proof_listed("args_unicode args_html", probe)) f |= 1u << FEATURE_NESTED;
    return f;
}

/* Records the renderings that a repair must not change. */
static int keep_all(struct proof *p, const struct jinja *t, struct err *e) {
    /* The template prints the names of results, and results of probes have none. */
    const bool named = proof_failed_id(p, repair_form_id[FORM_RESULT_NAME]);
    struct buf json = {0};
    int rc = 0;
    for (int i = 0; i < lint_probe_count() && !rc; i++) {
        const struct lint_finding f = {.probe = lint_probe_id(i)};
        json.len = 0;
        lint_conversation(&f, &json);
        if (p->null_calls) text_to_null(&json);
        const bool odd = (named && strstr(json.data, "\"tool_call_id\"")) ||
                         (proof_listed(odd_probes, f.probe) &&
                          !(p->null_calls && strcmp(f.probe, "content_null") == 0));
        const bool failed =
            proof_failed_id(p, f.probe) || probe_fails(t, i) ||
            !is_right(p, features_of(f.probe, json.data)) ||
            (proof_listed("gemma4_balanced assistants_glued", f.probe) &&
             (proof_failed_id(p, "gemma4_balanced") || proof_failed_id(p, "assistants_glued")));
        rc = keep(p, t, &json, !failed && !odd, e);
    }
    for (uint32_t seed = 1000; seed < 1000 + N_ORDINARY && !rc; seed++) {
        unsigned features;
        make_conv(p, &json, seed, FORM_NONE, false, &features);
        rc = keep(p, t, &json, is_right(p, features), e);
    }
    buf_release(&json);
    return rc;
}

/* Returns whether the template still produces all recorded renderings. */
static bool keeps(const struct proof *p, const struct jinja *t) {
    struct buf now = {0};
    struct jinja_err je;
    bool fine = true;
    for (int i = 0; i < p->n_kept && fine; i++) {
        const int rc = render(p, t, p->kept[i].conv.root, &now, &je);
        fine = rc == 0 && (!p->kept[i].exact || equal(&now, &p->kept[i].text));
    }
    buf_release(&now);
    return fine;
}

/* ---- text next to a call ----------------------------------------------------------------------
 */

enum { TEXT_TWICE = 1, CALL_OUTSIDE = 2, END_OUTSIDE = 4 };

/* Returns whether byte `at` of a rendering is outside all turns. Knows only Gemma 4's markers. */
static bool outside(const char *s, size_t at) {
    static const char open[] = "<|turn>", close[] = "<turn|>";
    const size_t n = sizeof open - 1;
    while (at-- > n)
        if (memcmp(s + at - n, open, n) == 0 || memcmp(s + at - n, close, n) == 0)
            return s[at - n + 1] != '|';
    return false;
}

/* Returns what is wrong with a template's rendering of text next to a call. */
static unsigned text_faults(const struct proof *p, const struct jinja *t) {
    static const char conv[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"},{\"role\":\"assistant\","
        "\"content\":\"Zq7txt\",\"tool_calls\":[{\"id\":\"call00001\",\"type\":\"function\","
        "\"function\":{\"name\":\"f\",\"arguments\":{\"a\":\"b\"}}}]},{\"role\":\"tool\","
        "\"tool_call_id\":\"call00001\",\"content\":\"R\"}],\"add_generation_prompt\":true}";
    struct buf out = {0};
    unsigned faults = 0;
    if (render_text(p, t, conv, &out) && out.len) {
        buf_chr(&out, '\0');
        const char *text = strstr(out.data, "Zq7txt"), *call = strstr(out.data, "<|tool_call>");
        if (text && strstr(text + 1, "Zq7txt")) faults |= TEXT_TWICE;
        if (call && outside(out.data, (size_t)(call - out.data))) faults |= CALL_OUTSIDE;
        if (call && outside(out.data, out.len - 1)) faults |= END_OUTSIDE;
    }
    buf_release(&out);
    return faults;
}

/* ---- the proof ------------------------------------------------------------------------------- */

int proof_new(struct proof **out, const struct jinja *original, struct err *e) {
    struct proof *p = xcalloc(1, sizeof *p);
    const int n = lint_probe_count();
    *out = p;
    p->check = xcalloc((size_t)(n + FORM_COUNT), sizeof *p->check);
    p->kept = xcalloc((size_t)(n + N_ORDINARY), sizeof *p->kept);
    TRY(jdoc_parse(&p->defaults, lint_tokens(), strlen(lint_tokens()), "special tokens", e));
    for (int i = 0; i < n; i++) {
        struct lint_finding f;
        char outcome[160];
        TRY(lint_probe(original, i, outcome, &f, e));
        if (is_check(f.rule))
            p->check[p->n_check++] = (struct check){.id = lint_probe_id(i), .probe = i};
    }
    p->null_calls = adds_answer(p, original);
    for (int form = FORM_NONE + 1; form < FORM_COUNT; form++)
        TRY(pair_new(p, (enum repair_form)form, e));
    for (int i = 0; i < p->n_check; i++) {
        struct check *c = &p->check[i];
        c->n_failed = fails(p, c, original);
        c->failed = c->n_failed > 0;
        p->n_failed += c->failed;
    }
    p->calls_right = shows(p, original, call_conv, "Zq7res") &&
                     !shows(p, original, call_conv, "{'a': 'b'}") &&
                     !shows(p, original, call_conv, "&#34;a&#34;");
    p->shows_user = shows(p, original, user_conv, "Zq7usr");
    p->shows_system = shows(p, original, system_conv, "Zq7sys");
    p->faults = text_faults(p, original);
    return keep_all(p, original, e);
}

void proof_free(struct proof *p) {
    if (!p) return;
    for (int i = 0; i < p->n_check; i++)
        for (int k = 0; k < N_PAIRS && p->check[i].probe == PAIR; k++) {
            jdoc_release(&p->check[i].odd[k]);
            jdoc_release(&p->check[i].normal[k]);
        }
    for (int i = 0; i < p->n_kept; i++) {
        jdoc_release(&p->kept[i].conv);
        buf_release(&p->kept[i].text);
    }
    jdoc_release(&p->defaults);
    free(p->check);
    free(p->kept);
    free(p);
}

int proof_count(const struct proof *p) {
    return p->n_check;
}
const char *proof_id(const struct proof *p, int i) {
    return p->check[i].id;
}
bool proof_failed(const struct proof *p, int i) {
    return p->check[i].failed;
}
bool proof_got_worse(const struct proof *p, int i) {
    return p->check[i].worse;
}
int proof_n_failed(const struct proof *p) {
    return p->n_failed;
}

bool proof_judge(struct proof *p, const struct jinja *t, const char *first, bool accept) {
    int *now = xcalloc((size_t)p->n_check, sizeof *now);
    bool better = first == NULL, fine = true;
    for (int i = 0; i < p->n_check; i++) { /* the cheap test comes first */
        now[i] = -1;
        if (!first || !p->check[i].failed || !proof_listed(first, p->check[i].id)) continue;
        now[i] = fails(p, &p->check[i], t);
        better |= now[i] < p->check[i].n_failed;
    }
    fine &= better;
    for (int i = 0; i < p->n_check; i++) {
        if (now[i] < 0 && better) now[i] = fails(p, &p->check[i], t);
        p->check[i].worse = now[i] > p->check[i].n_failed;
        fine &= !p->check[i].worse;
    }
    const unsigned faults = fine ? text_faults(p, t) : 0;
    fine = fine && !(faults & ~p->faults) && keeps(p, t);
    if (fine && accept) p->faults = faults;
    for (int i = 0; i < p->n_check && fine && accept; i++) {
        p->n_failed += (now[i] > 0) - p->check[i].failed;
        p->check[i].n_failed = now[i];
        p->check[i].failed = now[i] > 0;
    }
    free(now);
    return fine;
}

int proof_worse(const struct proof *p, const struct jinja *t) {
    for (int i = 0; i < p->n_check; i++)
        if (!p->check[i].failed && fails(p, &p->check[i], t)) return i;
    return -1;
}

/* Returns the rendering of a scenario, or "error: ..."; freed by the caller. */
static char *shown(const struct proof *p, const struct jinja *t, struct jval scenario) {
    struct buf out = {0};
    struct jinja_err je;
    if (render(p, t, scenario, &out, &je) == 0) return buf_take(&out);
    buf_release(&out);
    return xasprintf("error: %s", je.msg);
}

/* Sets the members of a step that show a conversation. Returns whether the renderings differ. */
static bool show_conversation(const struct proof *p, struct buf *json, const struct jinja *before,
                              const struct jinja *after, struct repair_step *s) {
    struct jdoc doc;
    struct err ignored;
    free(s->conv);
    free(s->before);
    free(s->after);
    s->before = s->after = NULL;
    s->conv = buf_take(json);
    if (jdoc_parse(&doc, s->conv, strlen(s->conv), "conversation", &ignored)) return false;
    s->before = shown(p, before, doc.root);
    s->after = shown(p, after, doc.root);
    jdoc_release(&doc);
    return strcmp(s->before, s->after) != 0;
}

void proof_show(const struct proof *p, int i, const struct jinja *before, const struct jinja *after,
                struct repair_step *s) {
    const struct check *c = &p->check[i];
    struct buf json = {0};
    s->probe = xstrdup(c->id);
    if (c->probe >= 0) {
        const struct lint_finding f = {.probe = c->id};
        lint_conversation(&f, &json);
        show_conversation(p, &json, before, after, s);
        return;
    }
    for (int k = 0; k < N_PAIRS; k++) {
        unsigned ignored;
        make_conv(p, &json, c->seed[k], c->form, true, &ignored);
        if (show_conversation(p, &json, before, after, s)) return;
    }
}
