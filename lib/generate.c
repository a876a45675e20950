// SPDX-License-Identifier: MIT
/* lib/generate.c - generation of one answer on the session's own sequence. */
#include "lib/generate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/progress.h"
#include "grammar/gram.h"
#include "text/complete.h"

enum { REPEAT_LAST = 64 };

int generate_sample(const struct hone_generate_opts *o, struct sample_opts *out, struct err *e) {
    if (!(o->temperature >= 0) || o->top_k < 0 || !(o->top_p >= 0) || !(o->min_p >= 0) ||
        !(o->repeat_penalty >= 0) || isnan(o->presence_penalty) || isnan(o->frequency_penalty) ||
        o->max_tokens < 0 || o->repeat_last_n < 0)
        return err_set(e, ERR_USAGE, "hone_generate_opts: numbers cannot be negative");
    if (o->top_p > 1 || o->min_p > 1)
        return err_set(e, ERR_USAGE, "top_p and min_p are probabilities: at most 1");
    *out = (struct sample_opts){
        .temp = (float)o->temperature,
        .top_k = o->top_k,
        .top_p = o->top_p > 0 ? (float)o->top_p : 1,
        .min_p = (float)o->min_p,
        .repeat_penalty = o->repeat_penalty > 0 ? (float)o->repeat_penalty : 1,
        .repeat_last_n = o->repeat_last_n ? o->repeat_last_n : REPEAT_LAST,
        .presence_penalty = (float)o->presence_penalty,
        .frequency_penalty = (float)o->frequency_penalty,
    };
    return 0;
}

/* Returns the number of texts before the NULL; list may be NULL. */
static int count_texts(const char *const *list) {
    int n = 0;
    while (list && list[n]) n++;
    return n;
}

int generate_n_stop(const struct hone_generate_opts *o) {
    return count_texts(o->stop);
}

int generate_n_forms(const struct hone_generate_opts *o) {
    return (o->schema != NULL) + (o->regex != NULL) + (o->grammar != NULL) +
           (count_texts(o->choices) > 0);
}

bool teller_tell(struct teller *t, const char *s, size_t n) {
    if (!t->o->text || t->ended) return !t->ended;
    buf_reset(&t->whole);
    text_complete(&t->whole, &t->part, s, n);
    if (t->whole.len && t->o->text(t->o->user, t->which, t->whole.data, t->whole.len))
        t->ended = true;
    return !t->ended;
}

void teller_release(struct teller *t) {
    buf_release(&t->part);
    buf_release(&t->whole);
}

/* Passes text to the caller; interrupts the work if the caller wants to stop. */
static void on_text(void *ud, const char *s, size_t n) {
    if (!teller_tell(ud, s, n)) progress_interrupt();
}

/* Compiles the grammar, schema, regex or choices of the options; without any of them *g is NULL. */
static int language(const struct hone_generate_opts *o, const struct tok *t, struct gram_vocab **v,
                    struct grammar **g, struct err *e) {
    struct json *schema = NULL;
    if (!generate_n_forms(o)) return 0;
    if (generate_n_forms(o) > 1)
        return err_set(e, ERR_USAGE, "give one of schema, regex, grammar and choices, not several");
    TRY(gram_vocab_new(v, t, e));
    if (o->regex) return grammar_of_regex(g, *v, o->regex, strlen(o->regex), e);
    if (o->grammar) return grammar_of_text(g, *v, o->grammar, strlen(o->grammar), e);
    if (o->choices) return grammar_of_choices(g, *v, o->choices, count_texts(o->choices), e);
    const struct gram_opts go = {.strict = true, .open = o->open_objects != 0};
    TRY(json_parse(&schema, o->schema, strlen(o->schema), "schema", e));
    int rc = grammar_of_schema(g, *v, schema, &go, e);
    json_free(schema);
    return rc;
}

/* Generates the answer to one prompt. *n_new: the tokens of the prompt that were computed. */
static int run_prompt(struct hone_session *s, const int32_t *prompt, int64_t n,
                      const struct hone_generate_opts *o, struct teller *t, struct gen_answer *a,
                      int64_t *n_new, struct err *e) {
    struct gen_opts go = {.n_max = o->max_tokens ? o->max_tokens : -1,
                          .special = o->control != 0,
                          .stop = o->stop,
                          .n_stop = generate_n_stop(o),
                          .sink = on_text,
                          .ud = t};
    struct gram_vocab *vocab = NULL;
    struct ids ids = {0};
    if (n < 1) return err_set(e, ERR_USAGE, "the prompt has no tokens");
    TRY(model_need_tok(s->model->m, e));
    TRY(generate_sample(o, &go.sample, e));
    if (!s->gen) session_reset(s->s); /* A new gen starts from an empty sequence. */
    if (!s->gen && s->draft) draft_reset(s->draft);
    int rc = s->gen ? 0 : gen_new(&s->gen, s->s, s->draft, e);
    if (!rc) gen_set_pictures(s->gen, s->pictures);
    if (!rc) rc = language(o, s->model->m->tok, &vocab, &go.constrain.g, e);
    if (!rc) rc = ids_reserve(&ids, n, e);
    for (int64_t i = 0; i < n && !rc; i++) ids_add(&ids, prompt[i]);
    if (!rc) rc = gen_prompt(s->gen, &ids, -1, n_new, e);
    a->seed = o->seed;
    if (!rc) rc = gen_run(s->gen, &go, a, e);
    if (rc == ERR_INTR && t->ended) rc = 0;
    (void)teller_tell(t, NULL, 0);
    if (a->constrain) { /* before the grammar it refers to */
        constrain_free(a->constrain);
        a->constrain = NULL;
    }
    grammar_free(go.constrain.g);
    gram_vocab_free(vocab);
    ids_release(&ids);
    return rc;
}

int hone_generate(struct hone_session *s, const int32_t *prompt, int64_t n,
                  const struct hone_generate_opts *opts, struct hone_answer *out,
                  struct hone_error *e) {
    NEED(out, e);
    struct hone_generate_opts o;
    struct gen_answer a = {0};
    struct call c;
    int64_t n_new = 0;
    int rc = lib_take(&o, opts, sizeof o, "hone_generate_opts", e);
    if (rc || (rc = call_begin(&c, s->owner, e))) return rc;
    struct teller t = {.o = &o};
    rc = run_prompt(s, prompt, n, &o, &t, &a, &n_new, &c.err);
    struct hone_answer full = {.n_prompt = n_new,
                               .stop = t.ended ? "callback" : gen_stop_name(a.stop),
                               .seconds = a.seconds,
                               .len = a.text.len,
                               .n_ids = a.ids.n};
    full.text = buf_take(&a.text);
    full.ids = a.ids.v ? a.ids.v : xcalloc(1, sizeof *full.ids);
    a.ids = (struct ids){0};
    gen_answer_release(&a);
    teller_release(&t);
    rc = call_end(&c, rc, e);
    if (rc == HONE_OK || rc == HONE_CANCELLED) {
        struct hone_error no_size;
        if (lib_give(out, &full, sizeof full, "hone_answer", &no_size) == HONE_OK) return rc;
        rc = lib_error(e, HONE_USAGE, "%s", no_size.message);
    }
    free(full.text);
    free(full.ids);
    return rc;
}

void hone_answer_free(struct hone_answer *a) {
    if (!a) return;
    free(a->text);
    free(a->ids);
    a->text = NULL;
    a->ids = NULL;
}
