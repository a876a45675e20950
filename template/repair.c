// SPDX-License-Identifier: MIT
/* template/repair.c - search for the smallest set of repairs that a template needs.
 *
 * Greedy: a repair is accepted if it fixes a check and makes no other worse (repair_proof.c). At
 * the end, repairs that are no longer needed are dropped. */
#include "template/repair_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"
#include "base/limits.h"
#include "base/mem.h"
#include "template/lint_int.h"

enum { SHARE = 8 }; /* the search may use this many times the step limit of one rendering */
enum piece_kind { PRELUDE, EDIT };
static const struct piece {
    const char *id;
    enum piece_kind kind;
    const char *rule, *mends, *why;
} pieces[] = {
#define PIECE(name, id, kind, rule, mends, why) {id, kind, rule, mends, why},
#include "template/repair_pieces.def"
#undef PIECE
};

struct search {
    const char *name;
    struct jinja *original;
    struct proof *proof;
    struct repair_site site[REPAIR_SITES];
    int n_site;
    struct repair_plan plan; /* accepted so far */
    struct jinja *now;       /* template built from plan */
    const char *const *only;
    int n_only;
    bool has_calls, has_developer, thinks, shows_tools; /* properties of the original */
};

int repair_known(int i, const char **id, const char **rule, const char **why) {
    if (i >= 0 && i < P_COUNT) {
        *id = pieces[i].id;
        *rule = pieces[i].rule;
        *why = pieces[i].why;
    }
    return P_COUNT;
}

/* Returns whether the plan changes nothing. */
static bool empty(const struct repair_plan *p) {
    return p->pieces == 0;
}

/* Writes the repaired template: the prelude, if the plan uses pieces of it, and the edited body. */
static void write_plan(struct buf *out, const struct search *s, const struct repair_plan *p) {
    struct buf prelude = {0}, body = {0};
    edit_apply(&body, s->original, s->site, s->n_site, p);
    if (!empty(p)) {
        prelude_write(&prelude, s->original, p);
        mark_write(out, p, &prelude, body.data, body.len);
        buf_add(out, prelude.data, prelude.len);
    }
    buf_add(out, body.data, body.len);
    buf_release(&prelude);
    buf_release(&body);
}

/* Compiles the template built from a plan; NULL: does not compile. */
static struct jinja *try_plan(const struct search *s, const struct repair_plan *p) {
    struct buf text = {0};
    struct jinja *t;
    struct err ignored;
    write_plan(&text, s, p);
    if (jinja_compile(&t, text.data ? text.data : "", text.len, s->name, NULL, &ignored)) t = NULL;
    buf_release(&text);
    return t;
}

/* Returns whether the search may continue, that is, has not reached its limit or been
 * interrupted. */
static bool steps_left(void) {
    return ctx_cost()->spent < ctx_cost()->most && !progress_interrupted();
}

/* Accepts a plan if it fixes one of the checks in `mends` and makes no check worse. mends NULL: it
 * need not fix any. */
static bool accept(struct search *s, const struct repair_plan *p, const char *mends) {
    struct jinja *t = steps_left() ? try_plan(s, p) : NULL;
    if (!t) return false;
    const bool fine = proof_judge(s->proof, t, mends, true);
    if (fine) {
        if (s->now != s->original) jinja_free(s->now);
        s->now = t;
        s->plan = *p;
    } else {
        jinja_free(t);
    }
    return fine;
}

/* Returns whether piece k is allowed and may help this template. */
static bool may_use(const struct search *s, enum repair_piece k) {
    const bool about_calls = (k >= P_CALLS_NULL && k <= P_ARGS_DUMP) || k == P_SPLIT_CALLS ||
                             k == P_CALLS_BARE || k == P_SPLIT_TEXT || k == P_IDS_LONG ||
                             k == P_IDS_ABSENT || k == P_RESULT_NAME;
    bool listed = s->only == NULL;
    for (int i = 0; i < s->n_only && !listed; i++) listed = strcmp(s->only[i], pieces[k].id) == 0;
    if (about_calls && !s->has_calls) return false;
    if (k == P_CALLS_TEXT && !(s->shows_tools && prelude_knows_calls(s->original))) return false;
    if (k == P_TOOLS_TEXT && !(s->has_calls && prelude_knows_tools(s->original))) return false;
    if (k == P_TOOLS_NAME && !s->has_calls) return false;
    if (k == P_TEXT_PARTS && proof_shows_user(s->proof)) return false;
    if (k == P_REASON && !(s->thinks && (s->has_calls || prelude_knows_calls(s->original))))
        return false;
    return listed && !(k == P_DEVELOPER && s->has_developer);
}

/* Returns whether a piece may fix one of the checks that satisfy `question`. */
static bool mends_one(const struct search *s, enum repair_piece k,
                      bool (*question)(const struct proof *p, int i)) {
    for (int i = 0; i < proof_count(s->proof); i++)
        if (question(s->proof, i) && proof_listed(pieces[k].mends, proof_id(s->proof, i)))
            return true;
    return false;
}

/* Returns whether a check that piece k may fix is failing. */
static bool called_for(const struct search *s, enum repair_piece k) {
    return mends_one(s, k, proof_failed);
}

/* Accepts a plan as accept() does. If it makes other checks worse, adds the pieces of the prelude
 * that may fix those, because content that used to be dropped silently may crash once it is
 * rendered. False: the plan is not accepted. */
static bool accept_with_others(struct search *s, struct repair_plan p, const char *mends) {
    for (int round = 0; round < 3; round++) {
        if (accept(s, &p, mends)) return true;
        const uint64_t before = p.pieces;
        for (int k = 0; k < P_COUNT; k++)
            if (pieces[k].kind == PRELUDE && may_use(s, (enum repair_piece)k) &&
                mends_one(s, (enum repair_piece)k, proof_got_worse))
                p.pieces |= (uint64_t)1 << k;
        if (p.pieces == before) return false;
    }
    return false;
}

/* Tries all sites of an edit at once and, if that is not accepted, one by one. Returns whether any
 * was accepted. */
static bool try_edit(struct search *s, enum repair_piece k) {
    struct repair_plan p = s->plan;
    int n = 0;
    bool any = false;
    p.pieces |= (uint64_t)1 << k;
    for (int i = 0; i < s->n_site; i++)
        if (s->site[i].piece == k && !p.site[i]) {
            p.site[i] = true;
            n++;
        }
    if (n && k != P_E_RAISE && accept(s, &p, pieces[k].mends)) return true;
    for (int i = 0; i < s->n_site && (n > 1 || k == P_E_RAISE); i++) {
        if (s->site[i].piece != k || s->plan.site[i]) continue;
        p = s->plan;
        p.pieces |= (uint64_t)1 << k;
        p.site[i] = true;
        any |= accept(s, &p, pieces[k].mends);
    }
    return any;
}

/* Tries piece k and keeps it if it repairs failures without causing new ones. Returns whether it
 * was kept. */
static bool try_piece(struct search *s, enum repair_piece k) {
    if (!may_use(s, k) || !called_for(s, k)) return false;
    if (pieces[k].kind == EDIT) return try_edit(s, k);
    if (plan_has(&s->plan, k)) return false;
    struct repair_plan p = s->plan;
    p.pieces |= (uint64_t)1 << k;
    if (accept_with_others(s, p, pieces[k].mends)) return true;
    if (k == P_REASON) { /* text added by this piece must not be removed again */
        p.pieces |= (uint64_t)1 << P_E_KEEP;
        for (int i = 0; i < s->n_site; i++) p.site[i] |= s->site[i].piece == P_E_KEEP;
        return accept(s, &p, pieces[k].mends);
    }
    return false;
}

/* Tries a piece of the prelude together with each other candidate. Returns whether a pair was
 * accepted. */
static bool try_two(struct search *s, enum repair_piece k) {
    if (!may_use(s, k) || !called_for(s, k) || pieces[k].kind == EDIT || plan_has(&s->plan, k))
        return false;
    for (int i = 0; i < P_COUNT; i++) {
        const enum repair_piece other = (enum repair_piece)i;
        if (other == k || plan_has(&s->plan, other) || pieces[i].kind == EDIT ||
            !may_use(s, other) || !called_for(s, other) ||
            strcmp(pieces[i].rule, pieces[k].rule) == 0)
            continue;
        struct repair_plan p = s->plan;
        p.pieces |= (uint64_t)1 << k | (uint64_t)1 << i;
        if (accept(s, &p, pieces[k].mends)) return true;
    }
    return false;
}

/* Tries the pieces one by one until no more are accepted, then in pairs. */
static void search(struct search *s) {
    for (bool more = true; more && steps_left();) {
        more = false;
        for (int k = 0; k < P_COUNT; k++) more |= try_piece(s, (enum repair_piece)k);
        for (int k = 0; k < P_COUNT && !more; k++) more = try_two(s, (enum repair_piece)k);
    }
}

/* Returns the plan without a piece. Without P_REASON, which moves thinking into the content,
 * P_E_KEEP, which protects that thinking, is also removed. */
static struct repair_plan without(const struct search *s, enum repair_piece k) {
    struct repair_plan p = s->plan;
    p.pieces &= ~((uint64_t)1 << k);
    if (k == P_REASON) p.pieces &= ~((uint64_t)1 << P_E_KEEP);
    for (int i = 0; i < s->n_site; i++)
        if (s->site[i].piece == k || (k == P_REASON && s->site[i].piece == P_E_KEEP))
            p.site[i] = false;
    return p;
}

/* Drops unnecessary repairs, then unnecessary sites of edits. */
static void drop(struct search *s) {
    for (int k = P_COUNT - 1; k >= 0; k--) {
        if (!plan_has(&s->plan, (enum repair_piece)k)) continue;
        const struct repair_plan p = without(s, (enum repair_piece)k);
        accept(s, &p, NULL);
    }
    for (int i = 0; i < s->n_site; i++) {
        if (!s->plan.site[i]) continue;
        struct repair_plan p = s->plan;
        p.site[i] = false;
        accept(s, &p, NULL);
    }
}

/* Lists the repairs made, each with a check that fails without it. */
static void report(struct search *s, struct repair *r) {
    for (int k = 0; k < P_COUNT && r->n < REPAIR_MAX; k++) {
        if (!plan_has(&s->plan, (enum repair_piece)k)) continue;
        struct repair_step *step = &r->v[r->n++];
        *step =
            (struct repair_step){.id = pieces[k].id, .rule = pieces[k].rule, .why = pieces[k].why};
        const struct repair_plan p = without(s, (enum repair_piece)k);
        struct jinja *t = try_plan(s, &p);
        const int i = t ? proof_worse(s->proof, t) : -1;
        if (i >= 0) proof_show(s->proof, i, t, s->now, step);
        jinja_free(t);
    }
}

/* Searches for a plan that repairs failing checks, and reports it in *r. */
static int repair(struct search *s, struct repair *r, struct err *e) {
    TRY(proof_new(&s->proof, s->original, e));
    r->n_checks = proof_count(s->proof);
    r->n_failed_before = proof_n_failed(s->proof);
    s->now = s->original;
    s->n_site = edit_sites(s->original, s->site);
    s->has_calls = body_reads(s->original, "tool_calls");
    s->shows_tools = !proof_failed_id(s->proof, "tools_declared");
    s->thinks = memmem(s->original->src, s->original->src_len, "</think>", 8) != NULL &&
                !proof_thinks(s->proof, s->original);
    const bool names_it = memmem(s->original->src, s->original->src_len, "developer", 9) != NULL;
    s->has_developer = names_it && !proof_failed_id(s->proof, "developer");
    search(s);
    drop(s);
    if (!lint_shows_messages(s->now)) { /* a template that prints nothing is not repaired */
        s->plan = (struct repair_plan){0};
        r->n_failed_after = r->n_failed_before;
        return 0;
    }
    r->n_failed_after = proof_n_failed(s->proof);
    report(s, r);
    return 0;
}

/* Appends a repaired text with the line ends of the source. Lines are matched from the end. Added
 * lines are at the start and get the line end of the source's first line. */
static void keep_line_ends(struct buf *out, const struct buf *text, const char *src, size_t len) {
    static const char *const ends[] = {"\n", "\r\n", "\r"};
    uint8_t *kind = xmalloc(len + 1); /* of each line of the source */
    long n_src = 0, n_text = 0;
    for (size_t i = 0; i < len; i++) {
        const bool two = src[i] == '\r' && i + 1 < len && src[i + 1] == '\n';
        if (src[i] == '\n' || src[i] == '\r') kind[n_src++] = src[i] == '\n' ? 0 : two ? 1 : 2;
        i += two;
    }
    for (size_t i = 0; i < text->len; i++) n_text += text->data[i] == '\n';
    for (size_t i = 0; i < text->len; i++) {
        if (text->data[i] != '\n') {
            buf_chr(out, text->data[i]);
            continue;
        }
        const long k = n_src - n_text--;
        buf_str(out, n_src ? ends[kind[k > 0 ? k : 0]] : "\n");
    }
    free(kind);
}

/* Replaces the template by its body, dropping the prelude of an earlier repair. Where the body
 * reads the list of thinking from that prelude (E_KEEP), it gets an empty list. Returns false,
 * without a change, if that does not compile. */
static bool take_body(struct search *s, size_t at) {
    static const char keep[] = "hone.keep";
    const char *body = s->original->src + at, *end = s->original->src + s->original->src_len;
    struct jinja *alone = NULL;
    struct err ignored;
    struct buf text = {0};
    for (const char *p; (p = memmem(body, (size_t)(end - body), keep, sizeof keep - 1)) != NULL;) {
        buf_add(&text, body, (size_t)(p - body));
        buf_str(&text, "[]");
        body = p + sizeof keep - 1;
    }
    buf_add(&text, body, (size_t)(end - body));
    const bool fine =
        jinja_compile(&alone, text.data ? text.data : "", text.len, s->name, NULL, &ignored) == 0;
    buf_release(&text);
    if (!fine) return false;
    jinja_free(s->original);
    s->original = alone;
    return true;
}

int repair_run(struct repair *r, const char *src, size_t len, const char *name,
               const char *const *only, int n_only, struct err *e) {
    struct search s = {.name = name, .only = only, .n_only = n_only};
    struct jinja_err je;
    memset(r, 0, sizeof *r);
    for (int i = 0; i < n_only; i++) {
        int k = 0;
        while (k < P_COUNT && strcmp(pieces[k].id, only[i]) != 0) k++;
        if (k == P_COUNT) return err_set(e, ERR_USAGE, "there is no repair '%s'", only[i]);
    }
    if (jinja_compile(&s.original, src, len, name, &je, e)) {
        buf_add(&r->text, src, len);
        return 0;
    }
    size_t body = 0;
    const enum repair_marked marked = mark_read(s.original->src, s.original->src_len, &body);
    if (marked == MARK_OURS) {
        r->ours = true;
        buf_add(&r->text, src, len);
        jinja_free(s.original);
        return 0;
    }
    const bool again = marked == MARK_EARLIER && take_body(&s, body);
    struct ctx_cost all = {.most = SHARE * limit_of(LIM_TEMPLATE_STEPS)}, *before = ctx_cost();
    if (before && before->most) all.most = before->most - before->spent;
    ctx_cost_enter(&all);
    int rc = repair(&s, r, e);
    if (before) before->spent += all.spent;
    ctx_cost_enter(before);
    if (progress_interrupted()) rc = err_set(e, ERR_INTR, "interrupted");
    if (empty(&s.plan)) {
        buf_add(&r->text, src, len);
    } else {
        r->again = again;
        struct buf text = {0};
        write_plan(&text, &s, &s.plan);
        /* The parser drops the last line's end, as Jinja does. */
        if (len && (src[len - 1] == '\n' || src[len - 1] == '\r')) buf_chr(&text, '\n');
        keep_line_ends(&r->text, &text, src, len);
        buf_release(&text);
    }
    for (int i = 0; i < s.n_site; i++) {
        free(s.site[i].text);
        free(s.site[i].other);
    }
    if (s.now != s.original) jinja_free(s.now);
    jinja_free(s.original);
    proof_free(s.proof);
    if (rc) repair_free(r);
    return rc;
}

void repair_free(struct repair *r) {
    for (int i = 0; i < r->n; i++) {
        free(r->v[i].probe);
        free(r->v[i].conv);
        free(r->v[i].before);
        free(r->v[i].after);
    }
    buf_release(&r->text);
    memset(r, 0, sizeof *r);
}
