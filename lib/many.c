// SPDX-License-Identifier: MIT
/* lib/many.c - batched generation of answers to many prompts. Each answer has its own sequence and
 * sampler; every pass computes the next token of each, or the next chunk of a new prompt. */
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/progress.h"
#include "lib/generate.h"

enum { AT_ONCE = 8, PIECE = 256 /* prompt tokens per pass */ };

struct slot {
    struct seq *q; /* NULL: the slot is free */
    int64_t i;     /* index of the prompt */
    int64_t n_fed;
    struct ids seen; /* tokens of prompt and answer */
    struct gen_answer a;
    struct teller t;
};

struct many {
    struct hone_session *s;
    const struct tok *tok;
    const int32_t *const *prompt;
    const int64_t *len;
    int64_t n, next, done, n_ctx, n_vocab;
    const struct hone_generate_opts *o;
    struct sample_opts sample;
    int n_slots, n_stop;
    struct slot *slot;
    struct hone_answer *out; /* [n] answers */
    struct session_row *row;
    float *logits; /* [n_slots][n_vocab] */
};

/* ---- one answer ---- */

/* Starts the next prompt in the slot; a prompt that is empty or too long is an error. */
static int start_slot(struct many *m, struct slot *b, struct err *e) {
    const int64_t i = m->next++;
    memset(b, 0, sizeof *b);
    if (m->len[i] < 1) return err_set(e, ERR_USAGE, "prompt %lld has no tokens", (long long)i);
    if (m->len[i] > m->n_ctx)
        return err_set(e, ERR_USAGE, "prompt %lld has %lld tokens, the context %lld", (long long)i,
                       (long long)m->len[i], (long long)m->n_ctx);
    TRY(session_new_seq(m->s->s, 0, &b->q, e));
    b->i = i;
    for (int64_t k = 0; k < m->len[i]; k++) ids_add(&b->seen, m->prompt[i][k]);
    b->t = (struct teller){.o = m->o, .which = i};
    b->a.sampler = sampler_new(&m->sample, m->n_vocab, m->o->seed);
    b->a.stop = GEN_LENGTH;
    b->a.stream = tok_stream_new(m->tok);
    buf_str(&b->a.text, "");
    return 0;
}

/* Releases the slot's answer and sequence and marks it free. */
static void clear_slot(struct slot *b) {
    seq_free(b->q);
    ids_release(&b->seen);
    gen_answer_release(&b->a);
    teller_release(&b->t);
    memset(b, 0, sizeof *b);
}

/* Passes the rest of the answer to the caller and fills its struct hone_answer. */
static void finish(struct many *m, struct slot *b) {
    struct hone_answer *o = &m->out[b->i];
    if (b->a.stop != GEN_TEXT) tok_stream_put(b->a.stream, false, b->a.text.len, &b->a.text);
    (void)teller_tell(&b->t, b->a.text.data + b->a.n_shown, b->a.text.len - b->a.n_shown);
    (void)teller_tell(&b->t, NULL, 0);
    o->n_prompt = m->len[b->i];
    o->stop = b->t.ended ? "callback" : gen_stop_name(b->a.stop);
    o->len = b->a.text.len;
    o->text = buf_take(&b->a.text);
    o->n_ids = b->a.ids.n;
    o->ids = b->a.ids.v ? b->a.ids.v : xcalloc(1, sizeof *o->ids);
    b->a.ids = (struct ids){0};
    m->done++;
    clear_slot(b);
}

/* Returns the number of bytes at the end of the text that may begin a stop text. *cut: the start of
 * a complete stop text, or the length of the text. */
static size_t stop_text_begun(const struct many *m, const struct buf *text, size_t *cut) {
    size_t hold = 0;
    *cut = text->len;
    for (int i = 0; i < m->n_stop; i++) {
        const size_t n = strlen(m->o->stop[i]);
        const char *hit = n ? memmem(text->data, text->len, m->o->stop[i], n) : NULL;
        if (hit && (size_t)(hit - text->data) < *cut) *cut = (size_t)(hit - text->data);
        for (size_t k = n ? n - 1 : 0; k > hold; k--)
            if (k <= text->len && !memcmp(text->data + text->len - k, m->o->stop[i], k)) hold = k;
    }
    return hold;
}

/* Samples the next token from logits. Returns whether the answer is complete. */
static bool draw(struct many *m, struct slot *b, const float *logits) {
    const int32_t id = sampler_pick(b->a.sampler, logits, b->seen.v, b->seen.n);
    size_t cut;
    b->a.n_drawn++;
    if (tok_is_eog(m->tok, id)) {
        b->a.stop = GEN_END;
        return true;
    }
    ids_add(&b->a.ids, id);
    ids_add(&b->seen, id);
    const size_t before = b->a.text.len;
    tok_decode(m->tok, id, m->o->control != 0, &b->a.text);
    tok_stream_put(b->a.stream, true, before, &b->a.text);
    const size_t hold = stop_text_begun(m, &b->a.text, &cut);
    if (cut < b->a.text.len) {
        b->a.text.len = cut;
        b->a.text.data[cut] = 0;
        b->a.stop = GEN_TEXT;
        return true;
    }
    const size_t sure = b->a.text.len - hold;
    if (sure > b->a.n_shown &&
        !teller_tell(&b->t, b->a.text.data + b->a.n_shown, sure - b->a.n_shown))
        return true;
    if (sure > b->a.n_shown) b->a.n_shown = sure;
    if (b->seen.n > m->n_ctx) b->a.stop = GEN_CONTEXT;
    return b->seen.n > m->n_ctx || (m->o->max_tokens && b->a.n_drawn >= m->o->max_tokens);
}

/* ---- all answers ---- */

/* Runs one pass with the next tokens of every slot. */
static int pass(struct many *m, struct err *e) {
    int64_t n = 0, n_logits = 0;
    for (int k = 0; k < m->n_slots; k++) {
        struct slot *b = &m->slot[k];
        if (!b->q) continue;
        const int64_t end = min_i64(b->seen.n, b->n_fed + PIECE);
        for (int64_t i = b->n_fed; i < end; i++)
            m->row[n++] = (struct session_row){
                .id = b->seen.v[i], .seq = b->q, .want = i + 1 == b->seen.n ? WANT_LOGITS : 0};
        b->n_fed = end;
    }
    if (progress_interrupted()) return err_set(e, ERR_INTR, "interrupted");
    const struct session_pass p = {.row = m->row, .n = n, .logits = m->logits};
    TRY(session_pass(m->s->s, &p, e));
    for (int k = 0; k < m->n_slots; k++) {
        struct slot *b = &m->slot[k];
        if (!b->q || b->n_fed < b->seen.n) continue;
        if (draw(m, b, m->logits + n_logits++ * m->n_vocab)) finish(m, b);
    }
    return 0;
}

/* Answers all prompts, several at a time; on error some answers may be missing. */
static int run_all(struct many *m, struct err *e) {
    struct progress p;
    void *mem = NULL;
    int rc = 0;
    TRY(model_need_tok(m->s->model->m, e));
    TRY(generate_sample(m->o, &m->sample, e));
    if (generate_n_forms(m->o))
        return err_set(e, ERR_USAGE,
                       "hone_generate_many supports no schema, regex, grammar or choices");
    if (m->s->draft)
        return err_set(e, ERR_USAGE,
                       "hone_generate_many supports no drafts: open a session without draft");
    m->slot = xcalloc((size_t)m->n_slots, sizeof *m->slot);
    m->row = xcalloc((size_t)m->n_slots * PIECE, sizeof *m->row);
    TRY(mem_alloc(&mem, (uint64_t)m->n_slots * (uint64_t)m->n_vocab * sizeof(float), "logits", e));
    m->logits = mem;
    progress_begin(&p, "generating", PROG_ITEMS, (uint64_t)m->n);
    while (m->done < m->n && !rc) {
        for (int k = 0; k < m->n_slots && !rc; k++)
            if (!m->slot[k].q && m->next < m->n) rc = start_slot(m, &m->slot[k], e);
        if (!rc) rc = pass(m, e);
        progress_update(&p, (uint64_t)m->done);
    }
    progress_end(&p);
    return rc;
}

int hone_generate_many(struct hone_session *s, const int32_t *const *prompt, const int64_t *len,
                       int64_t n, int at_once, const struct hone_generate_opts *opts,
                       struct hone_answer *out, struct hone_error *e) {
    struct hone_generate_opts o;
    struct call c;
    int rc = lib_take(&o, opts, sizeof o, "hone_generate_opts", e);
    if (rc || n <= 0) return rc;
    if (out->size < sizeof out->size)
        return lib_error(e, HONE_USAGE, "hone_answer.size is not set");
    if ((rc = call_begin(&c, s->owner, e))) return rc;
    const double from = progress_now_s();
    struct many m = {.s = s,
                     .tok = s->model->m->tok,
                     .prompt = prompt,
                     .len = len,
                     .n = n,
                     .o = &o,
                     .n_stop = generate_n_stop(&o),
                     .n_ctx = hone_session_n_ctx(s),
                     .n_vocab = s->model->m->hp.d[HD_VOCAB],
                     .n_slots = (int)min_i64(at_once > 0 ? at_once : AT_ONCE, n)};
    m.out = xcalloc((size_t)n, sizeof *m.out);
    rc = run_all(&m, &c.err);
    for (int k = 0; m.slot && k < m.n_slots; k++) clear_slot(&m.slot[k]);
    free(m.slot);
    free(m.row);
    mem_free(m.logits);
    const double seconds = progress_now_s() - from;
    rc = call_end(&c, rc, e);
    const size_t step = out->size; /* The caller's struct may have another version's size. */
    for (int64_t i = 0; i < n; i++) {
        struct hone_answer *to = (struct hone_answer *)(void *)((char *)out + (size_t)i * step);
        m.out[i].seconds = seconds;
        to->size = step;
        if (rc) hone_answer_free(&m.out[i]);
        (void)lib_give(to, &m.out[i], sizeof m.out[i], "hone_answer", NULL);
    }
    free(m.out);
    return rc;
}
