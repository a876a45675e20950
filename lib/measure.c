// SPDX-License-Identifier: MIT
/* lib/measure.c - perplexity and divergence of sessions on given tokens. */
#include "lib/handles.h"
#include "runtime/measure/eval.h"

enum { WINDOW = 512 };

/* Checks the caller's tokens and window length, and copies the tokens to *out. */
static int text_of(const struct hone_session *s, const int32_t *ids, int64_t n, int64_t *n_ctx,
                   struct ids *out, struct err *e) {
    if (*n_ctx == 0) *n_ctx = WINDOW;
    if (*n_ctx < 2 || *n_ctx > hone_session_n_ctx(s))
        return err_set(e, ERR_USAGE,
                       "windows of %lld tokens: 2 to %lld, the context of the session, can be "
                       "measured",
                       (long long)*n_ctx, (long long)hone_session_n_ctx(s));
    *out = (struct ids){0};
    TRY(ids_reserve(out, n, e));
    for (int64_t i = 0; i < n; i++) ids_add(out, ids[i]);
    return 0;
}

int hone_perplexity(struct hone_session *s, const int32_t *ids, int64_t n, int64_t n_ctx,
                    int64_t max_windows, struct hone_perplexity *out, struct hone_error *e) {
    struct call c;
    struct eval_ppl p = {0};
    struct ids text = {0};
    int rc = call_begin(&c, s->owner, e);
    if (rc) return rc;
    session_forget(s);
    rc = text_of(s, ids, n, &n_ctx, &text, &c.err);
    if (!rc) rc = eval_ppl(s->s, &text, n_ctx, 0, max_windows, NULL, &p, &c.err);
    ids_release(&text);
    if ((rc = call_end(&c, rc, e))) return rc;
    const struct hone_perplexity full = {.value = p.ppl,
                                         .error = p.ppl_stderr,
                                         .mean_nll = p.mean_nll,
                                         .n_tokens = p.n_tokens,
                                         .n_windows = p.n_chunks,
                                         .n_ctx = p.ctx};
    return lib_give(out, &full, sizeof full, "hone_perplexity", e);
}

int hone_divergence(struct hone_session *base, struct hone_session *s, const int32_t *ids,
                    int64_t n, int64_t n_ctx, int64_t max_windows, struct hone_divergence *out,
                    struct hone_error *e) {
    struct call c;
    struct eval_kld k = {0};
    struct ids text = {0};
    int rc = call_begin(&c, s->owner, e);
    if (rc) return rc;
    session_forget(base);
    session_forget(s);
    rc = text_of(base, ids, n, &n_ctx, &text, &c.err);
    if (!rc && n_ctx > hone_session_n_ctx(s))
        rc = err_set(&c.err, ERR_USAGE, "the second session's context is too short");
    if (!rc) rc = eval_kld(base->s, &s->s, 1, &text, n_ctx, max_windows, &k, NULL, &c.err);
    ids_release(&text);
    if ((rc = call_end(&c, rc, e))) return rc;
    const struct hone_divergence full = {.mean = k.mean_kld,
                                         .error = k.mean_kld_stderr_windows,
                                         .median = k.median_kld,
                                         .p90 = k.kld_p90,
                                         .p99 = k.kld_p99,
                                         .p999 = k.kld_p999,
                                         .max = k.max_kld,
                                         .perplexity = k.ppl,
                                         .perplexity_base = k.ppl_base,
                                         .same_top = k.same_top1,
                                         .rms_dp = k.rms_dp,
                                         .n_tokens = k.n_tokens,
                                         .n_windows = k.n_chunks,
                                         .n_ctx = k.ctx};
    return lib_give(out, &full, sizeof full, "hone_divergence", e);
}
