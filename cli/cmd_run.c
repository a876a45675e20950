// SPDX-License-Identifier: MIT
/* cli/cmd_run.c - hone run: text or a conversation in, the model's continuation on stdout as it is
 * made.
 *
 * -p continues a text as it is; --chat renders a conversation with the model's template; on a
 * terminal without either a conversation is held line by line. Sampling defaults are those the file
 * names (general.sampling.*). stdout carries only the text, or with --json one document at the end.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "core/io.h"
#include "core/log.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/prog.h"
#include "runtime/draft.h"
#include "runtime/kv_type.h"
#include "runtime/sample.h"
#include "runtime/session.h"
#include "text/chat.h"

enum { DEFAULT_PREDICT = 512, DEFAULT_CTX = 4096, MAX_JSON = 64 << 20 };

struct args {
    const char *prompt, *chat, *kwargs, *kv_type, *act, *draft;
    int64_t n, ctx, top_k, seed, repeat_last_n;
    double temp, top_p, min_p, repeat_penalty;
};
struct run {
    struct cli *c;
    const struct args *a;
    struct model *m;
    struct session *s;
    struct draft *draft; /* --draft, or NULL */
    struct sampler *sampler;
    struct session_best best; /* in place of logits: have_best */
    bool have_best;
    struct sample_opts so;
    uint64_t seed;
    struct ids fed;  /* tokens the session has seen */
    struct buf text; /* what was generated */
    float *logits;
    int64_t n_prompt, n_generated;
    double prompt_s, gen_s;
    const char *stop; /* "end", "length", "context", "interrupted" */
};

/* Options given win; then the file's keys; then, for files without any, moderate values. */
static void sampling(struct run *r) {
    static const char *const keys[] = {"temp", "top_k", "top_p", "min_p", "penalty_repeat"};
    const struct args *a = r->a;
    const struct gguf *g = r->m->gguf;
    bool any = false;
    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        char key[64];
        snprintf(key, sizeof key, "general.sampling.%s", keys[i]);
        any = any || gguf_find(g, key);
    }
    struct sample_opts *o = &r->so;
    o->temp = (float)gguf_f64_or(g, "general.sampling.temp", any ? 1.0 : 0.8);
    o->top_p = (float)gguf_f64_or(g, "general.sampling.top_p", any ? 1.0 : 0.95);
    o->min_p = (float)gguf_f64_or(g, "general.sampling.min_p", any ? 0.0 : 0.05);
    uint64_t k = gguf_u64_or(g, "general.sampling.top_k", any ? 0 : 40);
    o->top_k = k > INT32_MAX ? 0 : (int32_t)k;
    o->repeat_penalty = (float)gguf_f64_or(g, "general.sampling.penalty_repeat", 1.0);
    uint64_t last = gguf_u64_or(g, "general.sampling.penalty_last_n", 64);
    o->repeat_last_n = last > INT32_MAX ? 64 : (int32_t)last;
    if (!isnan(a->temp)) o->temp = (float)a->temp;
    if (!isnan(a->top_p)) o->top_p = (float)a->top_p;
    if (!isnan(a->min_p)) o->min_p = (float)a->min_p;
    if (!isnan(a->repeat_penalty)) o->repeat_penalty = (float)a->repeat_penalty;
    if (a->top_k >= 0) o->top_k = (int32_t)min_i64(a->top_k, INT32_MAX);
    if (a->repeat_last_n >= 0) o->repeat_last_n = (int32_t)min_i64(a->repeat_last_n, INT32_MAX);
}

static int session_start(struct run *r, int64_t n_ctx, struct err *e) {
    struct session_opts o = {.n_ctx = n_ctx, .isa = r->c->isa, .device = r->c->device};
    TRY(kv_type_parse(r->a->kv_type, "--kv-type", &o.kv_k, &o.kv_v, e));
    if (strcmp(r->a->act, "q8") != 0 && strcmp(r->a->act, "f32") != 0)
        return err_set(e, ERR_USAGE, "--act: '%s' is not f32 or q8", r->a->act);
    o.act = strcmp(r->a->act, "q8") == 0 ? ACT_Q8 : ACT_F32;
    TRY(cli_pool(r->c, e));
    o.pool = r->c->pool;
    TRY(session_new_packed(&r->s, r->m, &o, e));
    if (r->a->draft) TRY(draft_new(&r->draft, r->s, e));
    int64_t n_vocab = r->m->hp.d[HD_VOCAB];
    r->logits = xcalloc((size_t)n_vocab, sizeof *r->logits);
    r->sampler = sampler_new(&r->so, n_vocab, r->seed);
    return 0;
}

/* A device finds the best logits itself, where those decide. */
static bool use_best(const struct run *r) {
    const int64_t needs = sampler_needs(r->sampler, r->fed.n + 1);
    return !r->draft && needs > 0 && needs <= SESSION_BEST && session_can_best(r->s);
}

static int step(struct run *r, const int32_t *ids, int64_t n, struct err *e) {
    r->have_best = n == 1 && use_best(r);
    if (r->have_best) return session_step_best(r->s, ids[0], &r->best, e);
    return r->draft ? draft_feed(r->draft, ids, n, r->logits, e)
                    : session_step(r->s, ids, n, r->logits, e);
}

static void put_token(struct run *r, int32_t id) {
    size_t before = r->text.len;
    tok_decode(r->m->tok, id, false, &r->text);
    if (r->c->form != EMIT_TABLE || r->text.len == before) return;
    fwrite(r->text.data + before, 1, r->text.len - before, r->c->out);
    fflush(r->c->out);
}

/* Feeds what the session has not seen; a recurrent state cannot go back, so a prompt that does not
 * continue the last one starts again. */
static int feed(struct run *r, const struct ids *prompt, struct err *e) {
    int64_t same = 0;
    while (same < r->fed.n && same < prompt->n && r->fed.v[same] == prompt->v[same]) same++;
    if (same < r->fed.n || same == prompt->n) {
        if (r->draft)
            draft_reset(r->draft);
        else
            session_reset(r->s);
        r->fed.n = same = 0;
    }
    double t = prog_now_s();
    TRY(step(r, prompt->v + same, prompt->n - same, e));
    for (int64_t i = same; i < prompt->n; i++) ids_add(&r->fed, prompt->v[i]);
    r->n_prompt += prompt->n - same;
    r->prompt_s += prog_now_s() - t;
    return 0;
}

static int generate(struct run *r, const struct ids *prompt, struct err *e) {
    if (prompt->n < 1) return err_set(e, ERR_USAGE, "the prompt is empty");
    TRY(feed(r, prompt, e));
    int64_t n_ctx = session_get_opts(r->s)->n_ctx;
    double t = prog_now_s();
    int rc = 0;
    r->stop = "length";
    buf_reset(&r->text);
    for (int64_t i = 0; i < r->a->n && !rc; i++) {
        const struct session_best *b = &r->best;
        int32_t id = r->have_best
                         ? sampler_pick_best(r->sampler, b->id, b->logit, b->n, r->fed.v, r->fed.n)
                         : sampler_pick(r->sampler, r->logits, r->fed.v, r->fed.n);
        r->n_generated++;
        if (tok_is_eog(r->m->tok, id)) {
            r->stop = "end";
            break;
        }
        put_token(r, id);
        if (i + 1 == r->a->n) break;
        if (r->fed.n >= n_ctx) {
            r->stop = "context";
            break;
        }
        rc = step(r, &id, 1, e);
        if (!rc) ids_add(&r->fed, id);
    }
    if (rc == ERR_INTR) r->stop = "interrupted";
    r->gen_s += prog_now_s() - t;
    return rc;
}

/* The JSON text of a conversation -> ids. As text, so that 1.0 and big integers stay what they are.
 */
static int render(struct run *r, const struct chat *chat, const char *conv, size_t len,
                  struct ids *out, struct err *e) {
    struct buf text = {0};
    if (r->a->kwargs) {
        struct json *kwargs;
        TRY(json_parse(&kwargs, r->a->kwargs, strlen(r->a->kwargs), "--kwargs", e));
        bool is_object = json_type(kwargs) == JSON_OBJ;
        json_free(kwargs);
        if (!is_object) return err_set(e, ERR_USAGE, "--kwargs: a JSON object is needed");
    }
    int rc = chat_render_text(chat, conv, len, r->a->kwargs, true, &text, e);
    if (!rc) rc = tok_encode(r->m->tok, text.data ? text.data : "", text.len, true, false, out, e);
    buf_release(&text);
    return rc;
}

static double per_second(int64_t n, double s) {
    return s > 0 ? (double)n / s : 0;
}

static void report(struct run *r) {
    struct draft_stats d = r->draft ? draft_get_stats(r->draft) : (struct draft_stats){0};
    if (r->c->form == EMIT_TABLE) {
        fputc('\n', r->c->out);
        if (r->draft)
            log_info("%" PRId64 " of %" PRId64 " drafted tokens accepted", d.n_accepted,
                     d.n_drafted);
        log_debug("prompt %" PRId64 " tokens, %.1f/s; generated %" PRId64 ", %.1f/s; stop: %s",
                  r->n_prompt, per_second(r->n_prompt, r->prompt_s), r->n_generated,
                  per_second(r->n_generated, r->gen_s), r->stop);
        return;
    }
    struct emit *m = emit_new();
    emit_str(m, "model", "model", r->c->arg[0]);
    emit_str(m, "text", "text", r->text.data ? r->text.data : "");
    emit_str(m, "stop", "stop", r->stop);
    emit_i64(m, "prompt_tokens", "prompt tokens", r->n_prompt);
    emit_i64(m, "generated_tokens", "generated tokens", r->n_generated);
    emit_num(m, "prompt_tok_per_s", "prompt tokens/s", per_second(r->n_prompt, r->prompt_s), 1);
    emit_num(m, "tok_per_s", "tokens/s", per_second(r->n_generated, r->gen_s), 1);
    if (r->draft) {
        emit_i64(m, "drafted_tokens", "drafted tokens", d.n_drafted);
        emit_i64(m, "accepted_tokens", "accepted tokens", d.n_accepted);
        emit_num(m, "acceptance", "acceptance",
                 d.n_drafted ? (double)d.n_accepted / (double)d.n_drafted : 0, 4);
    }
    emit_num(m, "temp", "temp", (double)r->so.temp, 2);
    emit_i64(m, "top_k", "top k", r->so.top_k);
    emit_num(m, "top_p", "top p", (double)r->so.top_p, 2);
    emit_num(m, "min_p", "min p", (double)r->so.min_p, 2);
    emit_i64(m, "seed", "seed", (int64_t)r->seed);
    cli_emit(r->c, m);
    emit_free(m);
}

static int run_once(struct run *r, const struct ids *prompt, struct err *e) {
    int64_t need = prompt->n + r->a->n;
    TRY(session_start(r, r->a->ctx > 0 ? r->a->ctx : max_i64(need, 1), e));
    int rc = generate(r, prompt, e);
    if (!rc || (rc == ERR_INTR && r->stop)) report(r);
    return rc;
}

static int run_prompt(struct run *r, struct err *e) {
    struct ids ids = {0};
    int rc = tok_encode(r->m->tok, r->a->prompt, strlen(r->a->prompt), true, true, &ids, e);
    if (!rc) rc = run_once(r, &ids, e);
    ids_release(&ids);
    return rc;
}

static int run_chat_file(struct run *r, struct err *e) {
    char *conv = NULL;
    size_t len = 0;
    struct chat *chat = NULL;
    struct ids ids = {0};
    int rc = io_read_file(&conv, &len, r->a->chat, MAX_JSON, e);
    if (!rc) rc = chat_from_gguf(&chat, r->m->gguf, r->m->tok, e);
    if (!rc && (rc = render(r, chat, conv, len, &ids, e))) rc = err_wrap(e, "%s", r->a->chat);
    if (!rc) rc = run_once(r, &ids, e);
    ids_release(&ids);
    chat_free(chat);
    free(conv);
    return rc;
}

/* One turn of a terminal conversation: messages is the inside of a JSON array. */
static int turn(struct run *r, const struct chat *chat, struct buf *messages, const char *line,
                struct err *e) {
    struct buf doc = {0};
    struct ids ids = {0};
    if (messages->len) buf_chr(messages, ',');
    buf_str(messages, "{\"role\":\"user\",\"content\":");
    json_quote(messages, line, strlen(line));
    buf_chr(messages, '}');
    buf_fmt(&doc, "[%s]", messages->data);
    int rc = render(r, chat, doc.data, doc.len, &ids, e);
    if (!rc) rc = generate(r, &ids, e);
    fputc('\n', r->c->out);
    buf_str(messages, ",{\"role\":\"assistant\",\"content\":");
    json_quote(messages, r->text.data ? r->text.data : "", r->text.len);
    buf_chr(messages, '}');
    ids_release(&ids);
    buf_release(&doc);
    return rc;
}

static int run_interactive(struct run *r, struct err *e) {
    struct chat *chat = NULL;
    struct buf messages = {0};
    char *line = NULL;
    size_t cap = 0;
    TRY(session_start(r, r->a->ctx > 0 ? r->a->ctx : DEFAULT_CTX, e));
    int rc = chat_from_gguf(&chat, r->m->gguf, r->m->tok, e);
    while (!rc) {
        fputs("> ", stderr);
        ssize_t n = getline(&line, &cap, stdin);
        if (n < 0) break; /* end of input, or interrupted */
        while (n > 0 && (line[n - 1] == '\n' || line[n - 1] == '\r')) line[--n] = 0;
        if (n > 0) rc = turn(r, chat, &messages, line, e);
    }
    fputc('\n', stderr);
    free(line);
    buf_release(&messages);
    chat_free(chat);
    return rc;
}

static int run_model(struct cli *c, const struct args *a, struct err *e) {
    struct run r = {.c = c, .a = a};
    if (!a->prompt && !a->chat && (!isatty(STDIN_FILENO) || c->form != EMIT_TABLE))
        return err_set(e, ERR_USAGE, "run: give -p TEXT or --chat FILE.json");
    if (a->prompt && a->chat) return err_set(e, ERR_USAGE, "run: -p and --chat exclude each other");
    if (a->draft && strcmp(a->draft, "mtp") != 0)
        return err_set(e, ERR_USAGE, "--draft: '%s' is not mtp", a->draft);
    TRY(model_open(&r.m, c->arg[0], e));
    int rc = 0;
    if (!r.m->tok) rc = err_set(e, ERR_DATA, "%s has no tokenizer", c->arg[0]);
    r.seed = a->seed >= 0 ? (uint64_t)a->seed : (uint64_t)time(NULL);
    sampling(&r);
    if (!rc)
        rc = a->prompt ? run_prompt(&r, e)
             : a->chat ? run_chat_file(&r, e)
                       : run_interactive(&r, e);
    sampler_free(r.sampler);
    draft_free(r.draft);
    session_free(r.s);
    model_close(r.m);
    ids_release(&r.fed);
    buf_release(&r.text);
    free(r.logits);
    return rc;
}

int cmd_run(struct cli *c, int argc, char **argv, struct err *e) {
    struct args a = {.n = DEFAULT_PREDICT,
                     .top_k = -1,
                     .seed = -1,
                     .repeat_last_n = -1,
                     .temp = (double)NAN,
                     .top_p = (double)NAN,
                     .min_p = (double)NAN,
                     .repeat_penalty = (double)NAN,
                     .kv_type = "f16",
                     .act = "q8"};
    const struct opt opts[] = {
        {"prompt", 'p', OPT_STR, &a.prompt, "TEXT", "text to continue, special tokens recognised"},
        {"chat", 0, OPT_STR, &a.chat, "FILE",
         "conversation: {\"messages\": [...], \"tools\": [...]} or an array"},
        {"kwargs", 0, OPT_STR, &a.kwargs, "JSON", "more variables for the template"},
        {"n-predict", 'n', OPT_I64, &a.n, "N", "tokens to make at most (512)"},
        {"ctx", 0, OPT_I64, &a.ctx, "N", "context (prompt + N; interactive: 4096)"},
        {"temp", 0, OPT_NUM, &a.temp, "T", "temperature; 0: always the likeliest token"},
        {"top-k", 0, OPT_I64, &a.top_k, "K", "only the K likeliest; 0: all"},
        {"top-p", 0, OPT_NUM, &a.top_p, "P", "only the likeliest with total probability P; 1: all"},
        {"min-p", 0, OPT_NUM, &a.min_p, "P", "none below P times the likeliest; 0: all"},
        {"repeat-penalty", 0, OPT_NUM, &a.repeat_penalty, "X",
         "penalty for repeated tokens; 1: none"},
        {"repeat-last-n", 0, OPT_I64, &a.repeat_last_n, "N", "how far back repeats count (64)"},
        {"seed", 0, OPT_I64, &a.seed, "N", "same seed, same text"},
        {"kv-type", 0, OPT_STR, &a.kv_type, "T",
         "cache of keys and values: f16 (default), q8_0, tq4, ... or K/V"},
        {"act", 0, OPT_STR, &a.act, "MODE", "activations: f32 or q8 (default)"},
        {"draft", 0, OPT_STR, &a.draft, "NAME",
         "mtp: the model's MTP block guesses a token ahead; the text stays the same"},
    };
    const struct cmd_spec spec = {
        .name = "run",
        .synopsis =
            "MODEL.gguf [-p TEXT | --chat FILE.json] [-n N] [--temp T] [--top-k K] [--seed N]",
        .about = "Continues a text, or answers in a conversation rendered with the model's own "
                 "template. On a\n"
                 "terminal without -p and --chat it holds a conversation.",
        .opts = opts,
        .n_opts = (int)COUNT_OF(opts),
        .min_args = 1,
        .max_args = 1,
    };
    TRY(cli_parse(c, &spec, argc, argv, e));
    return c->done ? 0 : run_model(c, &a, e);
}
