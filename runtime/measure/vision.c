// SPDX-License-Identifier: MIT
/* runtime/measure/vision.c - asks a base and quantized models the same questions about images
 * (vision.h).
 *
 * The base answers greedily. Its answer is then fed to every model, whose distributions are
 * compared with the base's at each token and at the end. A greedy answer of a model differs from
 * the base's exactly if its likeliest token does somewhere along it, so the models need not
 * generate, except to show an answer that differs. All models are open at the same time; memory
 * holds one prompt and the hidden rows of one answer per model. */
#include "runtime/measure/vision.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/progress.h"
#include "runtime/measure/measurement_cache.h"
#include "runtime/measure/vision_int.h"
#include "template/chat_ends.h"

const struct vision_opts eval_vision_usual = {.eval = {.kv_type = KV_EXACT, .act = ACT_EXACT},
                                              .max_tokens = 64};

/* ---- opening ---- */

/* Opens a projector file for a model, or finds the one that is open. */
static int open_eye(struct run *x, const char *path, const struct model *m, struct eye **out,
                    struct err *e) {
    for (int i = 0; i < x->n_eyes; i++)
        if (strcmp(x->eye[i].path, path) == 0) {
            *out = &x->eye[i];
            return 0;
        }
    struct eye *y = &x->eye[x->n_eyes];
    TRY(pictures_open(&y->pictures, path, m, x->w->pool, x->w->isa, e));
    pictures_limit(y->pictures, x->o->image_tokens, 0, NULL);
    y->path = xstrdup(path);
    x->n_eyes++;
    *out = y;
    return 0;
}

/* Returns ERR_DATA unless model number i has the base's vocabulary. */
static int check_vocab(const struct run *x, const struct model *m, struct err *e) {
    const struct model *base = x->one[0].m;
    if (m->hp.d[HD_VOCAB] == base->hp.d[HD_VOCAB]) return 0;
    return err_set(e, ERR_DATA,
                   "%s has a vocabulary of %" PRId64 " entries, the base has %" PRId64
                   ": they cannot be compared",
                   gguf_path(m->gguf), m->hp.d[HD_VOCAB], base->hp.d[HD_VOCAB]);
}

/* Adds a model. mmproj NULL: the projector file next to it, or else the base's. */
static int add_model(struct run *x, const char *path, const char *mmproj, struct err *e) {
    struct one *v = &x->one[x->n];
    struct vision_result *r = &x->r[x->n];
    char *found = NULL;
    TRY(model_open(&v->m, path, e));
    x->n++;
    r->path = path;
    r->answer = xcalloc((size_t)x->lines.n, sizeof *r->answer);
    TRY(model_use_pre(v->m, x->o->eval.pre, e));
    TRY(model_need_tok(v->m, e));
    TRY(check_vocab(x, v->m, e));
    if (!mmproj && x->n == 1) TRY(pictures_need(v->m, path, &found, e));
    if (!mmproj && x->n > 1) TRY(pictures_find(v->m, path, &found, e));
    if (!mmproj && !found) found = xstrdup(x->eye[0].path);
    const int rc = open_eye(x, mmproj ? mmproj : found, v->m, &v->eye, e);
    free(found);
    if (rc) return rc;
    r->mmproj = v->eye->path;
    void *p = NULL;
    TRY(mem_alloc(&p, (uint64_t)((x->o->max_tokens + 1) * v->m->hp.d[HD_EMBD]) * sizeof(float),
                  "hidden rows", e));
    v->hidden = p;
    return 0;
}

/* Returns ERR_DATA unless all projectors accept all images, before the first question. */
static int check_images(const struct run *x, struct err *e) {
    struct image_work ignored;
    for (int i = 0; i < x->n_eyes; i++)
        TRY(vision_lines_fit(&x->lines, pictures_params(x->eye[i].pictures), &ignored, e));
    return 0;
}

/* Opens the base f[0] and f[1..n). */
static int open_files(struct run *x, const struct vision_file *f, int n, struct results_cache *keep,
                      struct err *e) {
    if (n > VISION_MOST)
        return err_set(e, ERR_USAGE, "eval vision: at most %d models and projectors at a time",
                       VISION_MOST - 1);
    for (int i = 0; i < n; i++) {
        TRY(add_model(x, f[i].path, f[i].mmproj, e));
        x->one[i].keep = (struct results_cache_of){f[i].key ? keep : NULL, f[i].key};
    }
    struct one *base = &x->one[0];
    TRY(chat_from_gguf(&x->chat, base->m->gguf, base->m->tok, e));
    chat_find_ends(x->chat, base->m->tok);
    return check_images(x, e);
}

/* Opens the base and, for each projector file given, every other model. The base alone is compared
 * with itself, with another projector. */
static int open_models(struct run *x, struct err *e) {
    const struct vision_opts *o = x->o;
    const char *const *other = o->n_models > 1 ? o->model + 1 : o->model;
    const int n_other = o->n_models > 1 ? o->n_models - 1 : 1;
    struct vision_file f[VISION_MOST + 1] = {{o->model[0], o->base_mmproj, NULL}};
    struct str_list files = {0};
    int n = 1;
    if (o->mmproj) work_split(x->w, o->mmproj, &files);
    const int n_files = files.n ? files.n : 1;
    for (int i = 0; i < n_other; i++)
        for (int k = 0; k < n_files && n <= VISION_MOST; k++)
            f[n++] = (struct vision_file){other[i], files.n ? files.v[k] : NULL, NULL};
    TRY(open_files(x, f, n, NULL, e));
    for (int i = 1; i < n; i++) {
        const char *base = io_base(f[i].path), *file = io_base(x->r[i].mmproj);
        x->r[i].label = n_files == 1 && o->n_models > 1 ? xstrdup(base)
                        : n_other == 1                  ? xstrdup(file)
                                                        : xasprintf("%s %s", base, file);
    }
    return 0;
}

static int alloc_buffers(struct run *x, struct err *e) {
    void *p = NULL;
    x->n_vocab = x->one[0].m->hp.d[HD_VOCAB];
    x->block = eval_head_rows(x->n_vocab);
    const uint64_t n_bytes = (uint64_t)(x->block * x->n_vocab) * sizeof(float);
    TRY(mem_alloc(&p, n_bytes, "logits", e));
    x->logp = p;
    TRY(mem_alloc(&p, n_bytes, "logits", e));
    x->logits = p;
    return kld_pos_init(&x->pos, x->block, e);
}

/* Opens a model's session. If the device is chosen automatically, the CPU computes models whose
 * images only it can compute. */
static int open_session(struct run *x, struct one *v, struct err *e) {
    const struct device chosen = x->w->device;
    TRY(eval_session(x->w, &x->o->eval, v->m, x->o->eval.kv_type, x->n_ctx, &v->s, e));
    if (session_info(v->s).takes_images || chosen.kind != DEVICE_AUTO) return 0;
    session_free(v->s);
    v->s = NULL;
    x->w->device.kind = DEVICE_CPU;
    const int rc = eval_session(x->w, &x->o->eval, v->m, x->o->eval.kv_type, x->n_ctx, &v->s, e);
    x->w->device = chosen;
    return rc;
}

/* Makes all sessions long enough for n tokens. */
static int make_room(struct run *x, int64_t n, struct err *e) {
    if (n <= x->n_ctx) return 0;
    x->n_ctx = (n + n / 4 + 255) / 256 * 256;
    for (int i = 0; i < x->n; i++) {
        struct one *v = &x->one[i];
        session_free(v->s);
        v->s = NULL;
        TRY(open_session(x, v, e));
    }
    return 0;
}

/* ---- prompts ---- */

static void let_go(struct eye *y) {
    for (int i = 0; i < y->n_held; i++) pictures_let_go(y->pictures, y->held[i]);
    free(y->held);
    y->held = NULL;
    y->n_held = 0;
    ids_release(&y->prompt);
}

/* Writes the conversation of a question: its images, then its text. */
static void write_conversation(const struct vision_question *q, struct buf *out) {
    buf_str(out, "[{\"role\":\"user\",\"content\":[");
    for (int i = 0; i < q->n_images; i++) buf_str(out, "{\"type\":\"image\"},");
    buf_str(out, "{\"type\":\"text\",\"text\":");
    json_quote(out, q->text, strlen(q->text));
    buf_str(out, "}]}]");
}

/* Computes a question's images with a projector and renders its prompt. */
static int look(struct run *x, struct eye *y, const struct vision_question *q, struct err *e) {
    const struct pictures_prompt how = {x->chat, x->one[0].m->tok, x->o->kwargs, true, CHAT_PLAIN};
    struct chat_prompt p = {0};
    struct buf conv = {0};
    int rc = 0;
    y->held = xcalloc((size_t)q->n_images + 1, sizeof *y->held);
    for (int i = 0; i < q->n_images && !rc; i++) {
        const struct image_bytes *im = &x->lines.image[q->image[i]];
        rc = pictures_add(y->pictures, im->data, im->n, &y->held[i], e);
        if (rc)
            err_wrap(e, "%.60s", im->name);
        else
            y->n_held++;
    }
    write_conversation(q, &conv);
    if (!rc)
        rc = pictures_render(y->pictures, y->held, q->n_images, &how, conv.data, conv.len, &p, e);
    if (!rc) {
        y->prompt = p.ids;
        p.ids = (struct ids){0};
    }
    buf_release(&conv);
    chat_prompt_release(&p);
    return rc;
}

/* ---- passes ---- */

int vision_feed(const struct one *v, const int32_t *ids, int64_t n, int64_t first, float *hidden,
                struct err *e) {
    struct session_row *row = try_calloc((size_t)n, sizeof *row, "the rows of a prompt", e);
    if (!row) return (int)e->code;
    for (int64_t i = 0; i < n; i++) {
        row[i].id = ids[i];
        if (ids[i] < 0) row[i].image = pictures_row(v->eye->pictures, ids[i], &row[i].image_at);
        if (i >= first) row[i].want = WANT_HIDDEN;
    }
    const int rc =
        session_pass(v->s, &(struct session_pass){.row = row, .n = n, .hidden = hidden}, e);
    free(row);
    return rc;
}

/* Feeds the prompt and all of an answer; hidden rows: one before each token of it, and the last. */
static int feed_all(const struct one *v, const struct ids *answer, struct err *e) {
    struct ids all = {0};
    const struct ids *prompt = &v->eye->prompt;
    for (int64_t i = 0; i < prompt->n; i++) ids_add(&all, prompt->v[i]);
    for (int64_t i = 0; i < answer->n; i++) ids_add(&all, answer->v[i]);
    session_reset(v->s);
    const int rc = vision_feed(v, all.v, all.n, prompt->n - 1, v->hidden, e);
    ids_release(&all);
    return rc;
}

/* Answers greedily with at most max_tokens tokens. *ended: an end token follows. The hidden rows
 * are those of feed_all(). */
static int answer_greedily(const struct run *x, const struct one *v, struct ids *out, bool *ended,
                           struct err *e) {
    const struct ids *prompt = &v->eye->prompt;
    const int64_t width = v->m->hp.d[HD_EMBD];
    session_reset(v->s);
    *ended = false;
    TRY(vision_feed(v, prompt->v, prompt->n, prompt->n - 1, v->hidden, e));
    while (out->n < x->o->max_tokens) {
        TRY(session_head(v->s, v->hidden + out->n * width, 1, x->logits, e));
        if (fault_in_logits(x->logits, x->n_vocab)) return fault_find(v->s, NULL, 0, e);
        const int32_t id = (int32_t)logits_argmax(x->logits, x->n_vocab);
        *ended = tok_is_eog(x->one[0].m->tok, id);
        if (*ended) return 0;
        ids_add(out, id);
        if (out->n < x->o->max_tokens)
            TRY(vision_feed(v, &id, 1, 0, v->hidden + out->n * width, e));
    }
    return 0;
}

/* Returns the text of tokens; the caller frees it. */
static char *text_of(const struct run *x, const struct ids *ids) {
    struct buf b = {0};
    for (int64_t i = 0; i < ids->n; i++) tok_decode(x->one[0].m->tok, ids->v[i], false, &b);
    return buf_take(&b);
}

/* ---- comparing ---- */

/* Computes the base's log-probabilities of n rows from `row` on. */
static int base_block(struct run *x, int64_t row, int64_t n, struct err *e) {
    const struct one *b = &x->one[0];
    TRY(session_head(b->s, b->hidden + row * b->m->hp.d[HD_EMBD], n, x->logp, e));
    for (int64_t i = 0; i < n; i++) {
        float *p = x->logp + i * x->n_vocab;
        const float lse = (float)eval_lse(p, x->n_vocab);
        for (int64_t v = 0; v < x->n_vocab; v++) p[v] -= lse;
    }
    return 0;
}

static void add_kld(struct vision_result *r, double kld) {
    if (r->n_kld == r->cap) {
        r->cap = r->cap ? 2 * r->cap : 256;
        r->kld = xreallocarray(r->kld, (size_t)r->cap, sizeof *r->kld);
    }
    r->kld[r->n_kld++] = kld;
}

/* Compares model i with the base in n rows from `row` on. */
static int compare_block(struct run *x, int i, struct vision_answer *a, int64_t row, int64_t n,
                         struct err *e) {
    const struct one *v = &x->one[i];
    TRY(session_head(v->s, v->hidden + row * v->m->hp.d[HD_EMBD], n, x->logits, e));
    for (int64_t k = 0; k < n; k++) {
        kld_pos_row(&x->pos, k, x->logp + k * x->n_vocab, x->logits + k * x->n_vocab, x->n_vocab,
                    0);
        if (!isfinite(x->pos.kld[k])) return fault_find(v->s, NULL, 0, e);
        add_kld(&x->r[i], x->pos.kld[k]);
        a->kld += x->pos.kld[k];
        a->n_same += x->pos.same[k];
        a->n_tokens++;
        if (!x->pos.same[k] && a->differs < 0) a->differs = row + k;
    }
    return 0;
}

/* Compares all models with the base over an answer that each has been fed. */
static int compare(struct run *x, int q, int64_t n_rows, struct err *e) {
    for (int i = 1; i < x->n; i++) x->r[i].answer[q] = (struct vision_answer){.differs = -1};
    for (int64_t row = 0; row < n_rows; row += x->block) {
        const int64_t n = min_i64(x->block, n_rows - row);
        TRY(base_block(x, row, n, e));
        for (int i = 1; i < x->n; i++) TRY(compare_block(x, i, &x->r[i].answer[q], row, n, e));
    }
    return 0;
}

/* Sets a->differs to the first token where two answers differ; -1: they do not. */
static void first_difference(struct vision_answer *a, const struct ids *base, bool base_ended,
                             const struct ids *own, bool ended) {
    int64_t i = 0;
    while (i < base->n && i < own->n && base->v[i] == own->v[i]) i++;
    a->differs = i == base->n && i == own->n && base_ended == ended ? -1 : i;
}

/* Sets the text of model i's greedy answer, which it generates if it may differ from the base's. */
static int own_answer(struct run *x, int i, int q, const struct ids *base, bool base_ended,
                      struct err *e) {
    struct vision_answer *a = &x->r[i].answer[q];
    struct ids own = {0};
    bool ended;
    int rc = 0;
    if (x->o->given || a->differs >= 0) {
        rc = answer_greedily(x, &x->one[i], &own, &ended, e);
        if (!rc) first_difference(a, base, base_ended, &own, ended);
        a->text = text_of(x, &own);
    } else
        a->text = xstrdup(x->r[0].answer[q].text);
    a->right = vision_right(&x->lines.q[q], a->text);
    ids_release(&own);
    return rc;
}

/* Returns ERR_DATA unless the prompts of all projectors differ only in their images' ids. */
static int check_prompts(const struct run *x, struct err *e) {
    const struct ids *a = &x->eye[0].prompt;
    for (int k = 1; k < x->n_eyes; k++) {
        const struct ids *b = &x->eye[k].prompt;
        bool same = a->n == b->n;
        for (int64_t i = 0; i < a->n && same; i++)
            same = a->v[i] == b->v[i] || (a->v[i] < 0 && b->v[i] < 0);
        if (!same)
            return err_set(e, ERR_DATA, "%s and %s give images different tokens: not comparable",
                           x->eye[0].path, x->eye[k].path);
    }
    return 0;
}

/* Asks all models question q, whose prompts are ready. */
static int ask_all(struct run *x, int q, struct ids *base, struct ids *forced, struct err *e) {
    const struct vision_question *at = &x->lines.q[q];
    bool ended;
    TRY(answer_greedily(x, &x->one[0], base, &ended, e));
    struct vision_answer *a = &x->r[0].answer[q];
    a->text = text_of(x, base);
    a->right = vision_right(at, a->text);
    a->differs = -1;
    if (x->o->given) {
        TRY(tok_encode(x->one[0].m->tok, at->want[0], strlen(at->want[0]), false, false, forced,
                       e));
        forced->n = min_i64(forced->n, x->o->max_tokens);
        TRY(feed_all(&x->one[0], forced, e));
    }
    const struct ids *text = x->o->given ? forced : base;
    for (int i = 1; i < x->n; i++) TRY(feed_all(&x->one[i], text, e));
    TRY(compare(x, q, text->n + (x->o->given || ended), e));
    for (int i = 1; i < x->n; i++) TRY(own_answer(x, i, q, base, ended, e));
    for (int i = 0; i < x->n && at->n_choices; i++) TRY(vision_pick(x, i, q, e));
    return 0;
}

/* ---- kept results ---- */

enum { KEPT = 6 }; /* numbers of a record */

/* Returns the name of a question's record; the caller frees it. */
static char *kept_name(const struct vision_question *q) {
    return xasprintf("image line %lld", q->line);
}

/* Takes all models' results of question q from the cache. Returns false if one is missing. */
static bool take_kept(struct run *x, int q) {
    char *name = kept_name(&x->lines.q[q]);
    bool all = true;
    for (int i = 0; i < x->n && all; i++) {
        struct vision_answer *a = &x->r[i].answer[q];
        double v[KEPT];
        all = results_cache_get(&x->one[i].keep, name, v, sizeof v);
        if (all)
            *a = (struct vision_answer){.n_tokens = (int64_t)v[0],
                                        .kld = v[1],
                                        .n_same = (int64_t)v[2],
                                        .differs = (int64_t)v[3],
                                        .right = v[4] > 0,
                                        .pick = (int)v[5]};
    }
    free(name);
    return all;
}

/* Stores all models' results of question q in the cache. */
static void put_kept(const struct run *x, int q) {
    char *name = kept_name(&x->lines.q[q]);
    for (int i = 0; i < x->n; i++) {
        const struct vision_answer *a = &x->r[i].answer[q];
        const double v[KEPT] = {(double)a->n_tokens, a->kld,   (double)a->n_same,
                                (double)a->differs,  a->right, a->pick};
        results_cache_put(&x->one[i].keep, name, v, sizeof v);
        kept_put_share(x->one[i].keep.k, x->one[i].keep.what, (q + 1.0) / x->lines.n);
    }
    free(name);
}

static int ask(struct run *x, int q, struct err *e) {
    const struct vision_question *at = &x->lines.q[q];
    struct ids base = {0}, forced = {0};
    int rc = 0;
    if (take_kept(x, q)) return 0;
    for (int k = 0; k < x->n_eyes && !rc; k++) rc = look(x, &x->eye[k], at, e);
    if (!rc) rc = check_prompts(x, e);
    if (!rc) rc = make_room(x, x->eye[0].prompt.n + x->o->max_tokens + 1, e);
    if (!rc) rc = ask_all(x, q, &base, &forced, e);
    if (!rc) put_kept(x, q);
    for (int k = 0; k < x->n_eyes; k++) let_go(&x->eye[k]);
    ids_release(&base);
    ids_release(&forced);
    return rc && rc != ERR_INTR ? vision_at(&x->lines, at, e) : rc;
}

/* ---- the job ---- */

static void run_release(struct run *x) {
    for (int i = 0; i < x->n; i++) {
        struct vision_result *r = &x->r[i];
        for (int q = 0; q < x->lines.n && r->answer; q++) free(r->answer[q].text);
        free(r->answer);
        free(r->kld);
        free(r->label);
        mem_free(x->one[i].hidden);
        session_free(x->one[i].s);
    }
    for (int k = 0; k < x->n_eyes; k++) {
        pictures_free(x->eye[k].pictures);
        free(x->eye[k].path);
    }
    chat_free(x->chat);
    for (int i = 0; i < x->n; i++) model_close(x->one[i].m);
    mem_free(x->logp);
    mem_free(x->logits);
    kld_pos_release(&x->pos);
    vision_lines_release(&x->lines);
    free(x);
}

/* Returns ERR_USAGE unless the options suit each other and the questions. */
static int check_options(const struct run *x, struct err *e) {
    const struct vision_opts *o = x->o;
    if (o->max_tokens < 1 || o->max_tokens > MAX_ANSWER)
        return err_set(e, ERR_USAGE, "--max-tokens: an answer has 1 to %d tokens", MAX_ANSWER);
    for (int i = 0; i < x->lines.n && o->given; i++)
        if (!x->lines.q[i].n_want) {
            err_set(e, ERR_DATA, "no \"answer\", which --given needs");
            return vision_at(&x->lines, &x->lines.q[i], e);
        }
    return 0;
}

static int ask_every_question(struct run *x, struct err *e) {
    struct progress p = {0};
    int rc = 0;
    progress_begin(&p, "questions", PROG_ITEMS, (uint64_t)x->lines.n);
    for (int q = 0; q < x->lines.n && !rc; q++) {
        rc = ask(x, q, e);
        progress_update(&p, (uint64_t)q + 1);
        if (!rc && progress_interrupted()) rc = err_set(e, ERR_INTR, "interrupted");
    }
    progress_end(&p);
    return rc;
}

/* Reads the questions and checks the options. */
static int begin(struct run *x, struct work *w, const struct vision_opts *o, struct err *e) {
    x->w = w;
    x->o = o;
    TRY(vision_lines_read(&x->lines, o->lines, o->n_cases, e));
    TRY(check_options(x, e));
    return work_pool(w, e);
}

int eval_vision_run(struct work *w, const struct vision_opts *o, struct emit *m, struct err *e) {
    if (o->n_models < 2 && !o->mmproj)
        return err_set(e, ERR_USAGE,
                       "eval vision: name a quantized model after the base, or another projector "
                       "file with --mmproj");
    struct run *x = xcalloc(1, sizeof *x);
    const double t0 = progress_now_s();
    int rc = begin(x, w, o, e);
    if (!rc) rc = open_models(x, e);
    if (!rc) rc = alloc_buffers(x, e);
    if (!rc) rc = ask_every_question(x, e);
    if (!rc) vision_emit(m, o, &x->lines, x->r, x->n, progress_now_s() - t0);
    run_release(x);
    return rc;
}

int eval_vision_check(struct work *w, const struct vision_opts *o, const struct vision_file *f,
                      struct err *e) {
    struct run *x = xcalloc(1, sizeof *x);
    int rc = begin(x, w, o, e);
    if (!rc) rc = open_files(x, f, 1, NULL, e);
    run_release(x);
    return rc;
}

int eval_vision_of(struct work *w, const struct vision_opts *o, const struct vision_file *f, int n,
                   struct results_cache *keep, struct vision_sums *out, struct err *e) {
    struct run *x = xcalloc(1, sizeof *x);
    int rc = begin(x, w, o, e);
    if (!rc) rc = open_files(x, f, n, keep, e);
    if (!rc) rc = alloc_buffers(x, e);
    if (!rc) rc = ask_every_question(x, e);
    if (!rc) vision_sum(&x->lines, x->r, n, out);
    run_release(x);
    return rc;
}

int eval_vision_look(const struct vision_opts *o, const struct vision_params *p,
                     struct vision_facts *out, struct err *e) {
    struct vision_lines l;
    struct image_work work;
    int rc = vision_lines_read(&l, o->lines, o->n_cases, e);
    if (!rc) rc = vision_lines_fit(&l, p, &work, e);
    if (!rc) {
        out->n_tokens = work.n_tokens;
        out->n_patches = work.n_patches;
        out->n_questions = l.n;
        out->n_images = l.n_images;
        out->n_expected = out->n_choices = 0;
        for (int i = 0; i < l.n; i++) {
            out->n_choices += l.q[i].n_choices > 0;
            out->n_expected += l.q[i].n_want > 0 && !l.q[i].n_choices;
        }
        vision_lines_hash(&l, out->hash);
    }
    vision_lines_release(&l);
    return rc;
}
