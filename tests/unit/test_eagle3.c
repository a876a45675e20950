// SPDX-License-Identifier: MIT
/* tests/unit/test_eagle3.c - EAGLE-3 drafts: logits are compared with a NumPy implementation
 * (tests/oracle/eagle3.py), generation with plain generation, bit for bit, and the number of
 * accepted tokens with what follows from drafts built to be right always, sometimes or never. */
#include "base/str.h"
#include "runtime/engine/logits.h"
#include "runtime/generate/draft.h"
#include "runtime/generate/drafter.h"
#include "runtime/measure/eval.h"
#include "tests/unit/micro.h"

static const double TOL = 5e-5;
#define TARGET "tests/golden/models/qwen3"
static const char *const name[] = {"shares", "whole"};

/* Paths of the files that the tests write; tmp_path reuses its buffers. */
enum { F_TARGET, F_ECHO, F_MADE, F_DRAFT, F_COUNT };
static const char *file(int i) {
    static const char *const base[F_COUNT] = {"target.gguf", "echo.gguf", "made.gguf",
                                              "draft.gguf"};
    static char path[F_COUNT][256];
    snprintf(path[i], sizeof path[i], "%s", tmp_path(base[i]));
    return path[i];
}

/* Converts a micro draft to F_DRAFT and returns its path. */
static const char *draft_path(const char *which, const char *const *edit) {
    struct err e = {0};
    char *dir = xasprintf("tests/golden/eagle3/%s", which);
    const char *out = file(F_DRAFT);
    struct convert_opts o = {
        .src = micro_folder(dir, edit), .out = out, .type = "f32", .overwrite = true};
    struct convert_report r;
    CHECK_OK(convert_run(&o, &r, &e));
    free(dir);
    return out;
}

/* ---- logits ---- */

/* Feeds pairs 0 .. n - 2 in pieces; returns their logits, and in own the draft's outputs. */
static float *drafted(struct drafter *d, struct session *t, const int32_t *ids, int64_t n,
                      const int *pieces, float *own) {
    struct err e = {0};
    const int64_t w = d->m->hp.d[HD_EMBD], v = d->n_logits;
    float *rows = xcalloc((size_t)(n * d->n_row), sizeof *rows);
    float *in = xcalloc((size_t)(n * d->n_in), sizeof *in);
    float *h = xcalloc((size_t)(n * w), sizeof *h), *l = xcalloc((size_t)(n * v), sizeof *l);
    const int *piece = pieces;
    for (int64_t i = 0, k; i < n; i += k) {
        k = min_i64(*piece, n - i);
        struct session_pass p = {.ids = ids + i, .n = k};
        drafter_wants(d, &p, rows + i * d->n_row, NULL);
        CHECK_OK(session_pass(t, &p, &e));
        if (piece[1]) piece++;
    }
    for (int64_t i = 0; i < n; i++) drafter_put(d, in + i * d->n_in, rows + i * d->n_row);
    for (int64_t i = 0, k; i < n - 1; i += k) {
        k = min_i64(*pieces, n - 1 - i);
        struct session_pass p = {.ids = ids + i + 1, .n = k, .hidden_in = in + i * d->n_in};
        p.hidden = h + i * w;
        p.taps = own + i * d->n_own;
        CHECK_OK(session_pass(d->s, &p, &e));
        if (pieces[1]) pieces++;
    }
    CHECK_OK(session_head(d->s, h, n - 1, l, &e));
    free(rows);
    free(in);
    free(h);
    return l;
}

/* Drafts two more tokens from the output of the last pair; returns the largest difference. */
static double further(struct drafter *d, const float *logits, const float *own, const float *want) {
    struct err e = {0};
    const int64_t v = d->n_logits;
    float *in = xcalloc((size_t)d->n_in, sizeof *in), *x = xcalloc((size_t)d->n_own, sizeof *x);
    float *l = xcalloc((size_t)v, sizeof *l);
    double diff = 0;
    memcpy(x, own, (size_t)d->n_own * sizeof *x);
    memcpy(l, logits, (size_t)v * sizeof *l);
    for (int i = 0; i < 2; i++) {
        const int32_t id = drafter_best(d, l);
        const struct session_row row = {.id = id, .want = WANT_LOGITS | WANT_HIDDEN};
        struct session_pass p = {.row = &row, .n = 1, .hidden_in = in, .logits = l};
        drafter_put_own(d, in, x);
        CHECK_OK(drafter_pass(d, &p, x, &e));
        diff = fmax(diff, golden_diff(l, want + i * v, v));
    }
    free(in);
    free(x);
    free(l);
    return diff;
}

static void test_logits(void) {
    struct err e = {0};
    struct model *m = golden_open(TARGET, file(F_TARGET));
    for (size_t k = 0; k < COUNT_OF(name) && m; k++) {
        const char *path = draft_path(name[k], NULL);
        char *golden = xasprintf("tests/golden/eagle3/%s/golden.safetensors", name[k]);
        struct st *st = NULL;
        CHECK_OK(st_open(&st, golden, &e));
        struct golden g;
        if (!st || !golden_load(&g, TARGET)) return;
        int64_t n_rows = 0, n_logits = 0, n_further = 0;
        float *row = golden_floats(st, "rows", &n_rows);
        float *want = golden_floats(st, "logits", &n_logits);
        float *more = golden_floats(st, "further", &n_further);
        CHECK_EQ_I64(n_rows, 20);
        for (int isa = KERN_REF; isa <= (int)kern_isa_best(); isa++)
            for (size_t b = 0; b < COUNT_OF(golden_batching); b += isa == KERN_REF ? 2 : 1) {
                struct session_opts o = {.n_ctx = g.n_ids + 2,
                                         .n_ubatch = golden_batching[b].n_ubatch,
                                         .isa = (enum kern_isa)isa};
                struct session *t = NULL;
                struct drafter *d = NULL;
                CHECK_OK(session_new(&t, m, &o, &e));
                CHECK_OK(drafter_open(&d, t, path, &e));
                if (!d) return;
                const int64_t v = d->n_logits, n = g.n_ids;
                CHECK_EQ_I64(n_logits, n_rows * v);
                CHECK_EQ_I64(n_further, 2 * v);
                float *own = xcalloc((size_t)(n * d->n_own), sizeof *own);
                float *l = drafted(d, t, g.ids, n, golden_batching[b].pieces, own);
                double diff = 0;
                for (int64_t i = 0; i < n_rows; i++)
                    diff = fmax(diff, golden_diff(l + (int64_t)row[i] * v, want + i * v, v));
                const double after = further(d, l + (n - 2) * v, own + (n - 2) * d->n_own, more);
                printf("%s, %s, %s: max |logit difference| %.3g, further tokens %.3g\n", name[k],
                       kern_isa_name((enum kern_isa)isa), golden_batching[b].name, diff, after);
                if (!(diff <= TOL && after <= TOL))
                    CHECK_FAIL("%s: %g, %g: more than %g", name[k], diff, after, TOL);
                free(own);
                free(l);
                drafter_close(d);
                session_free(t);
            }
        free(row);
        free(want);
        free(more);
        golden_release(&g);
        st_close(st);
        free(golden);
    }
    model_close(m);
}

/* ---- generation ---- */

/* How the values of a tensor are made when a file is copied. */
enum change {
    KEEP,
    ZEROS,
    ONES,
    FIRST_THIRD, /* fc: the first of three layers, unchanged */
    EMBEDDINGS,  /* the head: row i is the embedding of token 3 + 4 i */
    NEXT,        /* row i is the embedding of token 3 + 4 (i + 1) */
    GONE
};
struct edit {
    const char *tensor; /* end of its name */
    enum change how;
};

static enum change change_of(const struct edit *edit, const char *tensor) {
    for (; edit->tensor; edit++)
        if (str_ends(tensor, edit->tensor)) return edit->how;
    return KEEP;
}

/* Writes the new values of an F32 matrix. */
static void fill(float *x, const struct gguf_tensor *t, enum change how, const float *embd) {
    const int64_t w = t->ne[0];
    for (int64_t r = 0; r < t->ne[1]; r++)
        for (int64_t c = 0; c < w; c++)
            x[r * w + c] = how == ONES          ? 1.0f
                           : how == FIRST_THIRD ? (float)(r == c)
                           : how == EMBEDDINGS  ? embd[(3 + 4 * r) * w + c]
                           : how == NEXT        ? embd[(3 + 4 * ((r + 1) % t->ne[1])) * w + c]
                                                : 0.0f;
}

/* Copies a GGUF file of F32 tensors with changes. embd: embeddings of the target, or NULL. */
static void rewrite(const char *from, const char *to, const struct edit *edit, const float *embd) {
    struct err e = {0};
    struct gguf *g = NULL;
    struct gguf_w *w = gguf_w_new();
    CHECK_OK(gguf_open(&g, from, 0, &e));
    if (!g) return;
    for (int64_t i = 0; i < gguf_n_kv(g); i++) gguf_w_copy_kv(w, gguf_kv_at(g, i));
    for (int64_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        if (change_of(edit, t->name) != GONE)
            CHECK_OK(gguf_w_tensor(w, t->name, t->type, t->n_dims, t->ne, &e));
    }
    CHECK_OK(gguf_w_begin(w, to, true, &e));
    for (int64_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        const enum change how = change_of(edit, t->name);
        if (how == GONE) continue;
        float *x = xcalloc((size_t)t->n_bytes, 1);
        if (how == KEEP)
            memcpy(x, t->data, t->n_bytes);
        else
            fill(x, t, how, embd);
        CHECK_OK(gguf_w_data(w, x, t->n_bytes, &e));
        free(x);
    }
    CHECK_OK(gguf_w_commit(w, &e));
    gguf_w_free(w);
    gguf_close(g);
}

/* Generates N tokens greedily, or follows a text, and compares each token's logits with a plain
 * session's, bit for bit. */
static struct draft_stats same_as_plain(const struct model *m, const char *draft,
                                        const int32_t *text, int64_t n_text, int64_t n_ctx) {
    struct err e = {0};
    struct session *trunk = NULL, *plain = NULL;
    struct draft *d = NULL;
    struct draft_stats st = {0};
    struct session_opts o = {.n_ctx = n_ctx, .isa = kern_isa_best()};
    CHECK_OK(session_new(&trunk, m, &o, &e));
    CHECK_OK(session_new(&plain, m, &o, &e));
    CHECK_OK(draft_new(&d, trunk, draft, &e));
    const int64_t v = m->hp.d[HD_VOCAB], start = min_i64(n_text, 10);
    float *l = xcalloc((size_t)(2 * v), sizeof *l);
    if (d) {
        CHECK_OK(draft_feed(d, text, start, l, &e));
        CHECK_OK(session_step(plain, text, start, l + v, &e));
        int32_t id = 0;
        for (int64_t i = start; i < n_ctx; i++) {
            if (memcmp(l, l + v, (size_t)v * sizeof *l) != 0) {
                CHECK_FAIL("%s: token %lld has other logits", draft, (long long)i);
                break;
            }
            id = i < n_text ? text[i] : (int32_t)logits_argmax(l, v);
            CHECK_OK(draft_feed(d, &id, 1, l, &e));
            CHECK_OK(session_step(plain, &id, 1, l + v, &e));
        }
        st = draft_get_stats(d);
        draft_reset(d); /* and from the start, in pieces */
        session_reset(plain);
        CHECK_OK(draft_feed(d, text, 1, l, &e));
        for (int i = 1; i < 4; i++) CHECK_OK(draft_feed(d, text + i, 1, l, &e));
        CHECK_OK(draft_feed(d, text + 4, 5, l, &e));
        CHECK_OK(session_step(plain, text, 9, l + v, &e));
        CHECK(memcmp(l, l + v, (size_t)v * sizeof *l) == 0);
    }
    free(l);
    draft_free(d);
    session_free(plain);
    session_free(trunk);
    return st;
}

/* Measures the acceptance along a text. The target's token is the given one, the draft's the one
 * before it, if its table has that. */
static void same_as_counted(const struct model *m, const char *draft, const int32_t *text) {
    enum { CTX = 30 };
    struct err e = {0};
    struct session *t = NULL;
    struct drafter *d = NULL;
    struct ids ids = {0};
    struct eval_mtp r = {0};
    struct session_opts o = {.n_ctx = CTX, .isa = kern_isa_best()};
    int64_t n = 0, n_hits = 0, n_text = 0;
    for (int i = 0; i < 2 * CTX; i++) ids_add(&ids, text[i]);
    for (int c = 0; c < 2; c++)
        for (int i = CTX / 2; i < CTX - 2; i++, n++) {
            const int32_t *at = text + c * CTX + i;
            n_hits += at[0] == at[1];
            n_text += at[0] == at[2];
        }
    CHECK_OK(session_new(&t, m, &o, &e));
    CHECK_OK(drafter_open(&d, t, draft, &e));
    if (d) CHECK_OK(eval_mtp(t, d, &ids, CTX, 0, &r, NULL, &e));
    CHECK_EQ_I64(r.n_tokens, n);
    CHECK_CLOSE(r.acceptance, (double)n_hits / (double)n, 1e-12);
    CHECK_CLOSE(r.draft_top1, (double)n_text / (double)n, 1e-12);
    CHECK(n_hits > 5 && n_hits < n && r.overlap > 0 && r.overlap < 1);
    drafter_close(d);
    session_free(t);
    ids_release(&ids);
}

/* The target repeats its last token: without attention and feed-forward, its hidden rows are the
 * embeddings, which are also its head. Its drafts read them. */
static void test_acceptance(void) {
    enum { CTX = 70 };
    static const struct edit of_target[] = {{"attn_output.weight", ZEROS},
                                            {"ffn_down.weight", ZEROS},
                                            {"output_norm.weight", ONES},
                                            {0}};
#define ECHO                                                                                       \
    {"attn_output.weight", ZEROS}, {"ffn_down.weight", ZEROS}, {"output_norm.weight", ONES}, {     \
        "fc.weight", FIRST_THIRD                                                                   \
    }
    static const struct edit always[] = {ECHO, {"output.weight", GONE}, {"d2t", GONE}, {0}},
                             some[] = {ECHO, {"output.weight", EMBEDDINGS}, {0}},
                             never[] = {ECHO, {"output.weight", NEXT}, {0}};
    struct err e = {0};
    struct model *plain = golden_open(TARGET, file(F_TARGET)), *m = NULL;
    const char *shares = draft_path("shares", NULL), *out = file(F_MADE);
    rewrite(file(F_TARGET), file(F_ECHO), of_target, NULL);
    CHECK_OK(model_open(&m, file(F_ECHO), &e));
    if (!plain || !m) return;
    const float *embd =
        (const float *)(const void *)gguf_find_tensor(m->gguf, "token_embd.weight")->data;
    int32_t text[CTX];
    for (int i = 0; i < CTX; i++) text[i] = 3 + 4 * 77; /* a token that all drafts have */
    rewrite(shares, out, always, embd);
    struct draft_stats st = same_as_plain(m, out, text, 10, CTX);
    printf("always right: %lld of %lld\n", (long long)st.n_accepted, (long long)st.n_drafted);
    CHECK(st.n_accepted > CTX / 2);
    CHECK(st.n_drafted - st.n_accepted < 3); /* the series at the end is cut */
    /* The same with its own head and table, for a token of the table and for another one. */
    rewrite(shares, out, some, embd);
    st = same_as_plain(m, out, text, 10, CTX);
    CHECK(st.n_accepted > CTX / 2 && st.n_drafted - st.n_accepted < 3);
    for (int i = 0; i < CTX; i++) text[i] = 6;
    st = same_as_plain(m, out, text, 10, CTX);
    CHECK_EQ_I64(st.n_accepted, 0);
    CHECK(st.n_drafted > CTX);
    /* A text of runs of equal tokens. The draft says the token before the given one, three times;
     * what follows from that is counted here. */
    int64_t n_drafted = 0, n_accepted = 0;
    for (int i = 0; i < CTX; i++) text[i] = 3 + 4 * (i / 6 * 7 % 200 + i % 5 / 4);
    for (int i = 10; i < CTX;) {
        const int most = CTX - i - 1 < 3 ? CTX - i - 1 : 3;
        int right = 0;
        while (right < most && text[i + 1 + right] == text[i - 1]) right++;
        if (i + 1 < CTX) n_drafted += most;
        n_accepted += right;
        i += 1 + right;
    }
    st = same_as_plain(m, out, text, CTX, CTX);
    printf("by runs: %lld of %lld\n", (long long)st.n_accepted, (long long)st.n_drafted);
    CHECK_EQ_I64(st.n_accepted, n_accepted);
    CHECK_EQ_I64(st.n_drafted, n_drafted);
    CHECK(n_accepted > 10 && n_accepted < n_drafted);
    same_as_counted(m, out, text);
    for (int i = 0; i < CTX; i++) text[i] = 3 + 4 * 77;
    rewrite(shares, out, never, embd);
    st = same_as_plain(m, out, text, 10, CTX);
    CHECK_EQ_I64(st.n_accepted, 0);
    CHECK(st.n_drafted > CTX);
    /* a target whose layers do something */
    for (size_t k = 0; k < COUNT_OF(name); k++)
        (void)same_as_plain(plain, draft_path(name[k], NULL), text, 10, CTX);
    model_close(m);
    model_close(plain);
}

/* A target with recurrent states cannot go back to any position: it returns to a mark, and the
 * tokens that were right run again. */
static void test_recurrent(void) {
    enum { CTX = 100 };
    static const struct edit some[] = {ECHO, {"output.weight", EMBEDDINGS}, {0}};
    struct model *m = golden_open("tests/golden/models/qwen35", file(F_TARGET));
    const char *shares = draft_path("shares", NULL);
    int32_t text[CTX];
    if (!m) return;
    const struct gguf_tensor *t = gguf_find_tensor(m->gguf, "token_embd.weight");
    for (int i = 0; i < CTX; i++) text[i] = 3 + 4 * (i / 6 * 7 % 200 + i % 5 / 4);
    rewrite(shares, file(F_MADE), some, (const float *)(const void *)t->data);
    const struct draft_stats st = same_as_plain(m, file(F_MADE), text, CTX, CTX);
    printf("recurrent: %lld of %lld\n", (long long)st.n_accepted, (long long)st.n_drafted);
    CHECK(st.n_accepted > 10 && st.n_accepted < st.n_drafted);
    (void)same_as_plain(m, shares, text, 10, CTX);
    model_close(m);
}

/* ---- refusals ---- */

/* Checks a refusal; both: it names both files. */
static void refused(const struct model *m, const char *path, const char *why, bool both) {
    struct err e = {0};
    struct session *s = NULL;
    struct drafter *d = NULL;
    struct session_opts o = {.n_ctx = 8};
    CHECK_OK(session_new(&s, m, &o, &e));
    CHECK_ERR(drafter_open(&d, s, path, &e), ERR_DATA, why);
    if (!strstr(e.msg, path) || (both && !strstr(e.msg, gguf_path(m->gguf))))
        CHECK_FAIL("%s: does not name the files", e.msg);
    session_free(s);
}

static void test_refusals(void) {
    static const char *const deep[] = {"[\n  0,\n  1,\n  3\n ]", "[0, 1, 4]", NULL};
    static const struct edit no_fc[] = {{"fc.weight", GONE}, {0}},
                             no_table[] = {{"d2t", ZEROS}, {0}},
                             no_embd[] = {{"token_embd.weight", GONE}, {0}},
                             no_head[] = {{"output.weight", GONE}, {0}};
    struct err e = {0};
    struct model *m = golden_open(TARGET, file(F_TARGET)), *none = NULL;
    const char *out = file(F_MADE), *shares = draft_path("shares", NULL);
    if (!m) return;
    refused(m, draft_path("shares", deep), "input of layer 4", true);
    shares = draft_path("shares", NULL);
    rewrite(shares, out, no_fc, NULL);
    refused(m, out, "fc.weight", false);
    rewrite(shares, out, no_table, NULL);
    refused(m, out, "also that of another token: convert the draft again", false);
    rewrite(shares, out, no_head, NULL);
    refused(m, out, "lacks a head", true);
    rewrite(draft_path("whole", NULL), out, no_embd, NULL);
    refused(m, out, "lacks embeddings", true);
    CHECK_ERR(model_open(&none, shares, &e), ERR_DATA, "--draft");
    CHECK_ERR(model_open_draft_file(&none, file(F_TARGET), m, &e), ERR_DATA, "not a draft file");
    model_close(m);
    m = golden_open("tests/golden/models/qwen2", tmp_path("other.gguf"));
    if (!m) return;
    refused(m, shares, "a width of 128", true);
    model_close(m);
}

int main(void) {
    tmp_make();
    RUN(test_logits);
    RUN(test_acceptance);
    RUN(test_recurrent);
    RUN(test_refusals);
    tmp_remove();
    return check_done();
}
