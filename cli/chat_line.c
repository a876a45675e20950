// SPDX-License-Identifier: MIT
/* cli/chat_line.c - loop of a conversation on a terminal (chat_line.h).
 *
 * No error ends the conversation: a turn that cannot be answered is removed, with a message.
 * Ctrl-C stops an answer; the part written so far is kept. When the conversation outgrows the
 * context, its oldest whole turns are no longer sent to the model; /save still writes them. */
#include "cli/chat_line.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"
#include "base/io.h"
#include "base/os.h"
#include "base/out.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/progress.h"
#include "base/visible.h"

enum { DEFAULT_CTX = 8192, WARN_PERCENT = 80, GIVE_UP = 3 };

/* ---- signals ---- */

/* asked: signals since the last note_heard(); ended: one of them requests an exit. A process has at
 * most one conversation on its terminal, so signals go to the process's context. */
static volatile sig_atomic_t asked, ended;

/* Handles SIGINT, SIGTERM and SIGHUP: interrupts the answer; after GIVE_UP signals, exits. */
static void on_signal(int sig) {
    if (sig != SIGINT) ended = 1;
    if (++asked > GIVE_UP) { /* The loop does not respond. */
        out_abort_all();
        line_restore();
        os_exit(ERR_INTR);
    }
    ctx_interrupt(ctx_process());
    line_wake();
}

/* Records that the loop has reacted to the signals. */
static void note_heard(void) {
    asked = 0;
    if (!ended) progress_resume();
}

/* ---- room in the context ---- */

/* Sets *n to the number of tokens in the conversation without its first `skip` messages
 * (talk_count). */
static int count_tokens(void *ud, int skip, int64_t *n, struct err *e) {
    struct run *r = ud;
    struct ids ids = {0};
    int rc = run_render(r, skip, true, &ids, NULL, e);
    *n = ids.n;
    ids_release(&ids);
    return rc;
}

/* Notes that the oldest messages no longer fit. before: number of messages already left out. */
static void say_left_out(struct chatting *u, int before) {
    screen_note(u->screen,
                "the context of %" PRId64
                " tokens is full: from here on the model does not see the %d "
                "oldest messages (/save keeps all; --ctx makes it larger)",
                gen_n_ctx(u->r->gen), u->r->skip - before);
    u->warned = false;
}

/* Leaves out the oldest turns until the prompt and an answer of n_ctx / 8 tokens fit. */
static int fit(struct chatting *u, struct err *e) {
    struct run *r = u->r;
    const int64_t n_ctx = gen_n_ctx(r->gen), some = max_i64(n_ctx / 8, 1);
    const int before = r->skip;
    int64_t n;
    TRY(count_tokens(r, r->skip, &n, e));
    if (n + (r->set.n > 0 ? min_i64(some, r->set.n) : some) <= n_ctx) return 0;
    TRY(talk_fit(&r->talk, n_ctx / 2, count_tokens, r, &r->skip, e));
    TRY(count_tokens(r, r->skip, &n, e));
    if (n >= n_ctx) {
        r->skip = before;
        return err_set(e, ERR_USAGE,
                       "this turn alone has %" PRId64 " tokens, but the context holds %" PRId64
                       ": send less, or start with --ctx %" PRId64
                       " (/save keeps the conversation)",
                       n, n_ctx, 2 * n);
    }
    if (r->skip != before) say_left_out(u, before);
    return 0;
}

/* Makes room when the context fills up in the middle of an answer: leaves out the oldest turn and
 * keeps the answer so far. Returns false if no turn is left to leave out. */
static bool shift(struct chatting *u, struct ids *prompt) {
    struct run *r = u->r;
    struct err ignored;
    const int64_t n_ctx = gen_n_ctx(r->gen), mine = u->a.gen.ids.n;
    const int before = r->skip;
    int skip = talk_skip(&r->talk, before);
    if (skip < 0 || mine > n_ctx / 2) return false;
    if (talk_fit(&r->talk, n_ctx / 4 * 3 - mine, count_tokens, r, &skip, &ignored)) return false;
    if (run_render(r, skip, true, prompt, NULL, &ignored) || prompt->n + mine >= n_ctx)
        return false;
    r->skip = skip;
    say_left_out(u, before);
    return true;
}

/* ---- answers ---- */

/* Logs an error with control characters made visible. */
static void print_error(const struct err *e) {
    struct buf b = {0};
    text_visible(&b, e->msg, strlen(e->msg));
    log_error("%s", b.data ? b.data : "");
    buf_release(&b);
}

/* Shows what is notable about the answer: cut off, open calls, a full context. */
static void say_about(struct chatting *u) {
    struct run *r = u->r;
    struct buf b = {0};
    const int n_calls = talk_open_calls(&r->talk);
    run_cut(r, &u->a, true, &b);
    if (b.len) screen_note(u->screen, "%s", b.data);
    if (n_calls)
        screen_note(u->screen, "the model called %d tool%s: enter /tool RESULT or paste JSON%s",
                    n_calls, n_calls > 1 ? "s" : "", n_calls > 1 ? " for the first" : "");
    buf_reset(&b);
    run_speed(&u->a, &b);
    screen_note(u->screen, "%s", b.data);
    buf_release(&b);
    const int64_t n = gen_n_fed(r->gen), n_ctx = gen_n_ctx(r->gen);
    if (!u->warned && n * 100 >= n_ctx * WARN_PERCENT) {
        u->warned = true;
        screen_note(u->screen,
                    "%" PRId64 " %% of the context of %" PRId64 " tokens is used: when it is full "
                    "the oldest turns are left out (/reset starts over, --ctx makes it larger)",
                    n * 100 / n_ctx, n_ctx);
    }
}

/* Adds the answer to the conversation; rc is the status of generating it. Returns false if there is
 * no answer. */
static bool keep(struct chatting *u, int rc) {
    struct run_answer *a = &u->a;
    if (rc == ERR_INTR) note_heard();
    if ((rc && rc != ERR_INTR) || (rc && !a->gen.n_drawn)) return false;
    talk_add_answer(&u->r->talk, a->content, a->reasoning, a->calls);
    u->has_answer = true;
    say_about(u);
    return true;
}

/* Continues an answer that filled the context, after dropping the oldest turns. */
static int answer_when_full(struct chatting *u, int rc, struct err *e) {
    struct ids prompt = {0};
    while (!rc && u->a.gen.stop == GEN_CONTEXT && shift(u, &prompt))
        rc = run_answer_more(u->r, &u->a, &prompt, e);
    ids_release(&prompt);
    return rc;
}

bool chat_answer(struct chatting *u, bool mine) {
    struct run *r = u->r;
    struct err e = {0};
    run_answer_release(&u->a);
    u->has_answer = false;
    int rc = fit(u, &e);
    if (!rc) rc = answer_when_full(u, run_answer_make(r, &u->a, &e), &e);
    if (keep(u, rc)) {
        r->set.seed++; /* The next answer differs, and its own seed reproduces it. */
        return true;
    }
    if (mine) talk_drop_last(&r->talk);
    if (rc == ERR_INTR)
        screen_note(u->screen, "stopped before the answer began%s",
                    mine ? "; your message was removed (press Up to get it back)" : "");
    else
        print_error(&e);
    return false;
}

void chat_more(struct chatting *u) {
    struct err e = {0};
    if (!u->has_answer || u->a.gen.stop == GEN_END || u->a.gen.stop == GEN_TEXT) {
        screen_note(u->screen, "the last answer is already complete");
        return;
    }
    talk_drop_last(&u->r->talk);
    int rc = run_answer_more(u->r, &u->a, NULL, &e);
    /* No further token fits: treat this as a context that has just become full. */
    if (rc == ERR_USAGE) {
        u->a.gen.stop = GEN_CONTEXT;
        rc = 0;
    }
    rc = answer_when_full(u, rc, &e);
    if (!keep(u, rc)) {
        print_error(&e);
        talk_add_answer(&u->r->talk, u->a.content, u->a.reasoning, NULL);
    }
}

/* ---- lines ---- */

/* Returns whether b ends with `tail`, at or after `from`. */
static bool ends_with(const struct buf *b, const char *tail, size_t from) {
    const size_t n = strlen(tail);
    return b->len >= from + n && memcmp(b->data + b->len - n, tail, n) == 0;
}

/* Reads one turn: a line, lines between """ and """, or lines joined by trailing backslashes. */
static enum line_end read_turn(struct chatting *u, struct buf *text) {
    static const char quotes[] = "\"\"\"";
    struct buf more = {0};
    enum line_end end = line_read(u->line, "> ", text);
    const bool quoted = end == LINE_TEXT && strncmp(text->data, quotes, 3) == 0;
    while (end == LINE_TEXT && (quoted ? !ends_with(text, quotes, 3) : ends_with(text, "\\", 0))) {
        if (!quoted) text->len--;
        buf_chr(text, '\n');
        end = line_read(u->line, "... ", &more);
        if (end == LINE_TEXT) buf_str(text, more.data);
        if (end == LINE_EOF) break;
    }
    if (quoted && end != LINE_INTR) {
        if (ends_with(text, quotes, 3)) text->len -= 3;
        memmove(text->data, text->data + 3, text->len - 3);
        text->len -= 3;
        text->data[text->len] = 0;
        end = LINE_TEXT;
    }
    buf_release(&more);
    return end;
}

static bool is_blank(const char *s) {
    return !s[strspn(s, " \t\r\n")];
}

/* Returns whether a text is the result of a call: JSON while the model waits for results. */
static bool is_result(const struct chatting *u, const char *text) {
    const char *s = text + strspn(text, " \t\r\n");
    return (*s == '{' || *s == '[') && talk_open_calls(&u->r->talk) > 0;
}

/* Notes an unknown command and suggests a similar one. */
static void note_unknown(struct chatting *u, const char *text) {
    const char *near = chat_near(text);
    screen_note(u->screen,
                "there is no such command%s%s%s: /help lists them; to send a line that starts "
                "with /, type //",
                near ? " (did you mean /" : "", near ? near : "", near ? "?)" : "");
}

/* Handles a line: a tool's result, a command, or a message. */
static void take_turn(struct chatting *u, const char *text) {
    const char *rest;
    int command;
    line_remember(u->line, text);
    if (is_result(u, text)) {
        talk_add_result(&u->r->talk, text, strlen(text));
        if (!talk_open_calls(&u->r->talk)) chat_answer(u, true);
        return;
    }
    switch (chat_parse(text, &command, &rest)) {
    case CHAT_COMMAND:
        chat_do(u, command, rest);
        return;
    case CHAT_UNKNOWN:
        note_unknown(u, text);
        return;
    case CHAT_TEXT:
        run_add_turn(u->r, rest, strlen(rest));
        chat_answer(u, true);
        return;
    }
}

/* Shows the model and how to get help. */
static void note_banner(const struct chatting *u) {
    const struct run *r = u->r;
    const char *name = gguf_str_or(r->m->gguf, "general.name", "");
    struct buf b = {0};
    text_visible(&b, name, strlen(name));
    if (b.len) buf_str(&b, ", ");
    text_visible(&b, io_base(u->x->c->arg[0]), strlen(io_base(u->x->c->arg[0])));
    screen_note(u->screen, "%s (%s): context %" PRId64 " of %" PRId64 " tokens", b.data,
                r->m->arch->name, gen_n_ctx(r->gen), r->m->hp.d[HD_CTX]);
    screen_note(u->screen, "/help lists commands; Ctrl-C stops an answer, Ctrl-D or /bye quits");
    buf_release(&b);
}

/* Reads and handles lines until the user quits. */
static void run_loop(struct chatting *u) {
    struct buf text = {0};
    int n_intr = 0; /* interruptions in a row */
    const char *last = talk_last_role(&u->r->talk);
    if (u->r->talk.n) screen_note(u->screen, "%d messages were read", u->r->talk.n);
    if (strcmp(last, "user") == 0 || strcmp(last, "tool") == 0) chat_answer(u, false);
    while (!u->done && !ended) {
        enum line_end end = read_turn(u, &text);
        if (end == LINE_EOF || (end == LINE_INTR && ++n_intr == 2)) break;
        if (end == LINE_INTR) {
            note_heard();
            if (!ended) screen_note(u->screen, "press Ctrl-C again or Ctrl-D to quit");
            continue;
        }
        n_intr = 0;
        if (!is_blank(text.data)) take_turn(u, text.data);
    }
    buf_release(&text);
}

/* Rejects a system message or conversation that fills the context: every answer would fail. */
static int check_beginning(struct run *r, struct err *e) {
    const int64_t trained = r->m->hp.d[HD_CTX], holds = gen_n_ctx(r->gen);
    struct ids p = {0};
    struct err ignored;
    const bool has = run_render(r, 0, true, &p, NULL, &ignored) == 0;
    const int64_t n = p.n;
    ids_release(&p);
    if (trained > 0 && r->a.ctx > trained)
        log_warn(
            "the context is %lld tokens, but the model was trained for %lld: output beyond that "
            "may be nonsense",
            (long long)r->a.ctx, (long long)trained);
    if (!has || n < holds) return 0;
    return err_set(e, ERR_USAGE,
                   "the conversation starts with %lld tokens (including the system message), but "
                   "the context holds %lld%s: shorten it%s",
                   (long long)n, (long long)holds,
                   trained > 0 && n > trained ? ", more than the model was trained for" : "",
                   trained > 0 && n > trained ? "" : " or raise --ctx");
}

int run_chat(struct run_cli *x, struct err *e) {
    struct run *r = &x->r;
    struct chatting u = {.x = x, .r = r, .screen = &x->screen};
    os_handler old;
    const int64_t trained = r->m->hp.d[HD_CTX];
    const int64_t usual = trained > 0 ? min_i64(DEFAULT_CTX, trained) : DEFAULT_CTX;
    r->lasting = true;
    TRY(run_start(r, r->a.ctx > 0 ? r->a.ctx : run_most_ctx(r, usual), e));
    TRY(check_beginning(r, e));
    char *path = x->r.a.no_history ? NULL : line_history_path();
    u.line = line_new(path, chat_words);
    free(path);
    asked = ended = 0;
    old = os_on_interrupt(on_signal);
    note_banner(&u);
    run_loop(&u);
    (void)os_on_interrupt(old);
    progress_resume();
    line_free(u.line);
    run_answer_release(&u.a);
    return ended ? err_set(e, ERR_INTR, "interrupted") : 0;
}
