// SPDX-License-Identifier: MIT
/* jobs/run_gram.c - constraints on answers: schema, grammar, regular expression or list (run.h). */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/run.h"
#include "base/io.h"
#include "base/log.h"
#include "base/str.h"

enum { GRAMMAR_MAX = 4 << 20 };

/* Compiles --schema; warns about what cannot be enforced. */
static int read_schema(struct run *r, struct err *e) {
    struct json *j = NULL;
    struct buf notes = {0};
    const struct gram_opts o = {.open = r->a.open_objects, .notes = &notes};
    TRY(json_read(&j, r->a.schema, GRAMMAR_MAX, e));
    int rc = grammar_of_schema(&r->grammar, r->vocab, j, &o, e);
    if (rc) err_wrap(e, "%s", r->a.schema);
    for (char *s = notes.data, *end; !rc && s && *s; s = end + 1) {
        end = strchr(s, '\n');
        *end = 0;
        log_warn("%s: %s; answers may break it", r->a.schema, s);
    }
    json_free(j);
    buf_release(&notes);
    return rc;
}

/* Compiles the file of --grammar. */
static int read_grammar(struct run *r, struct err *e) {
    char *text = NULL;
    size_t len = 0;
    TRY(io_read_file(&text, &len, r->a.grammar, GRAMMAR_MAX, e));
    const int rc = grammar_of_text(&r->grammar, r->vocab, text, len, e);
    free(text);
    return rc ? err_wrap(e, "%s", r->a.grammar) : 0;
}

int run_grammar(struct run *r, struct err *e) {
    const struct run_args *a = &r->a;
    if (r->grammar || !(a->schema || a->grammar || a->regex || a->choices.n)) return 0;
    if (!r->vocab) TRY(gram_vocab_new(&r->vocab, r->m->tok, e));
    if (a->schema) return read_schema(r, e);
    if (a->grammar) return read_grammar(r, e);
    int rc = a->regex ? grammar_of_regex(&r->grammar, r->vocab, a->regex, strlen(a->regex), e)
                      : grammar_of_choices(&r->grammar, r->vocab, a->choices.v, a->choices.n, e);
    if (rc) e->code = ERR_USAGE;
    return rc ? err_wrap(e, "%s", a->regex ? "--regex" : "--choices") : 0;
}

void run_grammar_free(struct run *r) {
    grammar_free(r->grammar);
    gram_vocab_free(r->vocab);
    r->grammar = NULL;
    r->vocab = NULL;
}

struct constrain_opts run_constrain(const struct run *r, const char *prompt) {
    struct constrain_opts o = {.g = r->grammar};
    if (!o.g || !prompt || !r->fmt) return o;
    const enum tool_think think = toolfmt_think_of(r->fmt, prompt);
    if (think == TOOL_THINK_NONE) return o;
    o.close = toolfmt_think_tag(r->fmt, true);
    if (think == TOOL_THINK_UNKNOWN) o.open = toolfmt_think_tag(r->fmt, false);
    return o;
}

void run_overruled(const struct run_answer *a, struct buf *out) {
    if (!a->gen.constrain) return;
    const struct constrain_counts n = constrain_get_counts(a->gen.constrain);
    buf_fmt(out, "; the grammar overruled %" PRId64 " of %" PRId64 " token%s", n.n_overruled,
            n.n_drawn, str_s(n.n_drawn));
    if (n.n_forced) buf_fmt(out, " and forced %" PRId64, n.n_forced);
    if (n.n_ended) buf_fmt(out, "; %" PRId64 " were chosen to finish in time", n.n_ended);
}
