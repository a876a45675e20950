// SPDX-License-Identifier: MIT
/* cli/run_once.c - hone run with one answer: streamed to the screen, or as one JSON document. */
#include "cli/cmd_run.h"

/* Reports counts and speed of an answer; turn: within a conversation. */
static void report_answer(struct run_cli *x, const struct run_answer *a, bool turn) {
    struct run *r = &x->r;
    struct buf b = {0};
    if (x->c->form != EMIT_TABLE) {
        struct emit *m = emit_new();
        emit_str(m, "model", "model", x->c->arg[0]);
        run_describe(r, a, turn, m);
        cli_emit(x->c, m);
        emit_free(m);
        return;
    }
    run_cut(r, a, false, &b);
    if (b.len) screen_note(&x->screen, "%s", b.data);
    buf_reset(&b);
    run_speed(a, &b);
    if (r->draft) {
        const struct draft_stats d = draft_get_stats(r->draft);
        buf_fmt(&b, "; %lld of %lld drafted tokens accepted", (long long)d.n_accepted,
                (long long)d.n_drafted);
    }
    screen_note(&x->screen, "%s", b.data);
    buf_release(&b);
}

int run_one(struct run_cli *x, const char *text, size_t len, struct err *e) {
    struct run_answer a = {0};
    const bool turn = x->r.chat != NULL;
    int rc = run_once(&x->r, text, len, &a, e);
    if (!rc || (rc == ERR_INTR && a.gen.n_drawn)) report_answer(x, &a, turn);
    run_answer_release(&a);
    return rc;
}
