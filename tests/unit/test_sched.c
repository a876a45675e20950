// SPDX-License-Identifier: MIT
/* tests/unit/test_sched.c - the server's scheduler without sockets. Answers to random
 * conversations, several at once, with cached prefixes and too little memory, must have the same
 * tokens and, bit for bit, the same logits as each request gets alone from an empty cache, for
 * every architecture with a test checkpoint. Finished requests must release all their memory, and a
 * loop of tool calls must compute only its new tokens. Drafts and a folder of saved sequences must
 * not change results either. */
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/rng.h"
#include "runtime/generate/draft.h"
#include "serve/ngram_draft.h"
#include "serve/sched_int.h"
#include "tests/check.h"
#include "tests/unit/micro.h"
#include "tests/unit/silent_api.h"

enum { CTX = 400, N_TALKS = 3, MOST_OUT = 6 };

/* ---- requests ---- */

struct request {
    struct ids prompt;
    int64_t n_out, head, turn; /* where snapshots are taken; 0: none */
    uint64_t seed;
    struct ids answer; /* result: the prompt and the answer */
    uint64_t logits;   /* a hash of all rows that tokens were drawn from */
    int64_t n_cached;
    bool done, failed;
    bool conv, exact; /* conv: conversation text; exact: tokens must match */
    bool echo;        /* log probabilities of the prompt's tokens are wanted */
    struct buf probs; /* result: all log probabilities */
};

static void see(void *ud, const float *logits, int64_t n_vocab) {
    struct request *r = ud;
    const uint64_t both[2] = {r->logits, hash_u64(logits, (size_t)n_vocab * sizeof *logits)};
    r->logits = hash_u64(both, sizeof both);
}

static void done(struct task *t) {
    struct request *r = t->ud;
    const struct run *run = &t->run[0];
    ids_release(&r->answer);
    for (int64_t i = 0; i < run->all.n; i++) ids_add(&r->answer, run->all.v[i]);
    r->n_cached = run->n_cached;
    buf_reset(&r->probs);
    if (r->echo) buf_str(&r->probs, t->reply.choice[0].probs.data);
    r->done = true;
    r->failed = t->failed;
}

static void submit(struct sched *s, struct request *r, bool no_cache, struct job *j) {
    static const struct sample_opts usual = {.temp = 1, .top_p = 1, .top_k = 8};
    struct ask a;
    ask_init(&a, &usual, (int64_t)r->seed, r->n_out);
    a.ignore_eos = true;
    a.no_cache = no_cache;
    a.conv = r->conv ? xstrdup("{}") : NULL;
    a.exact = r->exact;
    a.echo = r->echo;
    a.top = r->echo ? 1 : -1;
    struct task *t = task_new(j, &silent, &a, &r->prompt, 1);
    const int64_t at[] = {r->head, r->turn};
    for (int i = 0; i < 2; i++)
        if (at[i] > 0 && at[i] < r->prompt.n) {
            t->run[0].cut[t->run[0].n_cuts].at = at[i];
            t->run[0].cut[t->run[0].n_cuts++].use = i ? PREFIX_TURN : PREFIX_HEAD;
        }
    t->reply.seed = r->seed;
    t->ud = r;
    t->done = done;
    t->run[0].watch = see;
    r->logits = 0;
    r->done = r->failed = false;
    sched_add(s, t);
}

static void finish(struct sched *s, const struct request *r, int n) {
    for (int64_t left = 20000, open = n; open && left; left--) {
        sched_step(s);
        open = 0;
        for (int i = 0; i < n; i++) open += !r[i].done;
        if (left == 1) CHECK_FAIL("%d requests do not end", (int)open);
    }
}

static void copy_ids(struct ids *to, const struct ids *from, int64_t n) {
    to->n = 0;
    for (int64_t i = 0; i < n; i++) ids_add(to, from->v[i]);
}

static void add_random(struct ids *to, struct rng *rng, int64_t n, int64_t n_vocab) {
    while (n--) ids_add(to, (int32_t)(rng_u64(rng) % (uint64_t)n_vocab));
}

/* Makes the next request of a conversation: the answer, sometimes without its last tokens (since
 * templates change what they rendered), and new tokens. */
static void next_turn(struct request *r, struct rng *rng, int64_t n_vocab) {
    const int64_t n = r->answer.n, lost = (int64_t)(rng_u64(rng) % 3);
    copy_ids(&r->prompt, &r->answer, max_i64(n - lost, r->head));
    add_random(&r->prompt, rng, 1 + (int64_t)(rng_u64(rng) % 24), n_vocab);
    r->n_out = 1 + (int64_t)(rng_u64(rng) % MOST_OUT);
    r->turn = r->prompt.n - (int64_t)(rng_u64(rng) % 4);
    r->seed = rng_u64(rng) >> 11;
}

/* ---- with cached prefixes as without ---- */

static int64_t n_cached_all, n_dropped_all;

static void same_as_cold(const struct model *m, const struct session_opts *so, const char *name,
                         uint64_t seed, bool tight, int n_turns) {
    struct session *warm_s = NULL, *cold_s = NULL;
    struct sched *warm = NULL, *cold = NULL;
    struct err e = {0};
    struct rng rng;
    struct request talk[N_TALKS + 1] = {{.n_out = 0}};
    const int64_t n_vocab = m->hp.d[HD_VOCAB];
    struct session_opts o = *so;
    rng_seed(&rng, seed);
    o.n_ctx = CTX;
    o.guests = o.whole = true;
    CHECK_OK(session_new(&cold_s, m, &o, &e));
    o.n_ubatch = 5 + (int64_t)(rng_u64(&rng) % 50);
    CHECK_OK(session_new(&warm_s, m, &o, &e));
    const uint64_t empty = session_held_bytes(warm_s); /* the session's own states */
    struct sched_opts w = {3, 16, (uint64_t)1 << 40, .max_step_s = 1, .draft = true};
    /* tight: hardly more than one request fits */
    if (tight) w.n_bytes = session_seq_bytes(warm_s, CTX) + 3 * session_seq_bytes(warm_s, 1);
    CHECK_OK(sched_new(&warm, warm_s, &w, &e));
    CHECK_OK(sched_new(
        &cold, cold_s,
        &(struct sched_opts){1, 16, (uint64_t)1 << 40, .max_step_s = 1, .draft = true}, &e));
    struct ids head = {0};
    add_random(&head, &rng, 20 + (int64_t)(rng_u64(&rng) % 30), n_vocab);
    for (int i = 0; i < N_TALKS; i++) {
        talk[i].head = head.n;
        copy_ids(&talk[i].answer, &head, head.n);
    }
    for (int turn = 0; turn < n_turns; turn++) {
        for (int i = 0; i < N_TALKS; i++) next_turn(&talk[i], &rng, n_vocab);
        /* the first request repeated, at the same time */
        struct request *again = &talk[N_TALKS];
        *again = (struct request){
            .n_out = talk[0].n_out + 2, .seed = 7, .turn = talk[0].turn, .head = talk[0].head};
        copy_ids(&again->prompt, &talk[0].prompt, talk[0].prompt.n);
        for (int i = 0; i <= N_TALKS; i++) submit(warm, &talk[i], false, NULL);
        finish(warm, talk, N_TALKS + 1);
        for (int i = 0; i <= N_TALKS; i++) {
            struct request alone = talk[i];
            alone.answer = (struct ids){0};
            submit(cold, &alone, true, NULL);
            finish(cold, &alone, 1);
            n_cached_all += talk[i].n_cached;
            CHECK(!talk[i].failed && !alone.failed && alone.n_cached == 0);
            if (alone.answer.n != talk[i].answer.n || alone.logits != talk[i].logits ||
                memcmp(alone.answer.v, talk[i].answer.v,
                       (size_t)alone.answer.n * sizeof(int32_t)) != 0)
                CHECK_FAIL("%s, turn %d, conversation %d: another answer with %d kept tokens", name,
                           turn, i, (int)talk[i].n_cached);
            ids_release(&alone.answer);
        }
        ids_release(&again->prompt);
        ids_release(&again->answer);
        if (tight) CHECK(session_held_bytes(warm_s) <= w.n_bytes);
    }
    const struct sched_counts n = sched_counts(warm);
    n_dropped_all += n.prefix.n_dropped;
    CHECK_EQ_I64(sched_counts(cold).held_bytes, empty); /* nothing was kept */
    sched_free(warm);
    sched_free(cold);
    CHECK_EQ_I64(session_held_bytes(warm_s), empty);
    for (int i = 0; i < N_TALKS; i++) {
        ids_release(&talk[i].prompt);
        ids_release(&talk[i].answer);
    }
    ids_release(&head);
    session_free(warm_s);
    session_free(cold_s);
}

/* ---- with guesses as without ---- */

struct oracle { /* drafts from the known answers, some of them wrong */
    struct rng rng;
    const struct request *known;
    int n;
};

static int foretell(void *ud, const struct run *r, int32_t *out, int most) {
    struct oracle *o = ud;
    const struct request *want = NULL;
    for (int i = 0; i < o->n; i++)
        if (o->known[i].seed == r->task->reply.seed) want = &o->known[i];
    int n = 0;
    while (want && n < most && r->all.n + n < want->answer.n) {
        out[n] = want->answer.v[r->all.n + n];
        if (rng_u64(&o->rng) % 4 == 0) out[n] ^= 1;
        n++;
    }
    return n;
}

static int64_t n_guessed_all, n_right_all, n_by_mtp;

/* Checks that two simultaneous answers with drafts equal those alone without drafts; then continues
 * their cached prefixes. by: what drafts (drafter_open), if it can; NULL: the test. */
static void same_as_unguessed(const struct model *m, const struct session_opts *so,
                              const char *name, uint64_t seed, const char *by) {
    enum { N = 4, LONG = 16 };
    struct session *s = NULL;
    struct drafter *drafter = NULL;
    struct sched *c = NULL, *plain = NULL;
    struct err e = {0};
    struct request cold[N] = {{.n_out = 0}}, warm[N] = {{.n_out = 0}};
    struct oracle o = {.known = cold};
    struct session_opts with = *so;
    with.n_ctx = CTX;
    with.guests = with.whole = true;
    rng_seed(&o.rng, seed);
    CHECK_OK(session_new(&s, m, &with, &e));
    if (by && drafter_open(&drafter, s, by, &e)) {
        session_free(s);
        return;
    }
    const uint64_t empty = session_held_bytes(s);
    const struct sched_opts usual = {.n_live = 2,
                                     .n_queue = 8,
                                     .n_bytes = (uint64_t)1 << 40,
                                     .max_step_s = 1,
                                     .draft = true,
                                     .drafter = drafter,
                                     .always = true,
                                     .guess = drafter ? NULL : foretell,
                                     .guess_ud = &o};
    CHECK_OK(
        sched_new(&plain, s, &(struct sched_opts){.n_live = 1, .n_bytes = (uint64_t)1 << 40}, &e));
    CHECK_OK(sched_new(&c, s, &usual, &e));
    for (int i = 0; i < N; i++) {
        cold[i] = (struct request){.n_out = LONG + i, .seed = seed + 10 * (uint64_t)i};
        if (i >= 2) copy_ids(&cold[i].prompt, &cold[i - 2].answer, cold[i - 2].answer.n);
        add_random(&cold[i].prompt, &o.rng, 12, m->hp.d[HD_VOCAB]);
        submit(plain, &cold[i], true, NULL);
        finish(plain, &cold[i], 1);
        o.n = i + 1;
        warm[i] = (struct request){.n_out = cold[i].n_out, .seed = cold[i].seed};
        copy_ids(&warm[i].prompt, &cold[i].prompt, cold[i].prompt.n);
    }
    for (int i = 0; i < N; i += 2) {
        submit(c, &warm[i], false, NULL);
        submit(c, &warm[i + 1], false, NULL);
        finish(c, &warm[i], 2);
    }
    for (int i = 0; i < N; i++) {
        if (warm[i].failed || warm[i].logits != cold[i].logits ||
            warm[i].answer.n != cold[i].answer.n ||
            memcmp(warm[i].answer.v, cold[i].answer.v,
                   (size_t)cold[i].answer.n * sizeof(int32_t)) != 0)
            CHECK_FAIL("%s, answer %d: another one with guesses", name, i);
        if (i >= 2) CHECK(warm[i].n_cached >= LONG);
        struct ids *const v[] = {&warm[i].prompt, &warm[i].answer, &cold[i].prompt,
                                 &cold[i].answer};
        for (int k = 0; k < 4; k++) ids_release(v[k]);
    }
    if (by) CHECK(sched_counts(c).n_guessed > 10);
    n_by_mtp += by != NULL;
    n_guessed_all += sched_counts(c).n_guessed;
    n_right_all += sched_counts(c).n_right;
    CHECK_EQ_I64(sched_counts(plain).n_guessed, 0);
    sched_free(c);
    sched_free(plain);
    CHECK_EQ_I64(session_held_bytes(s), empty);
    if (drafter) CHECK_EQ_I64(session_held_bytes(drafter->s), 0);
    drafter_close(drafter);
    session_free(s);
}

/* ---- from the folder as without ---- */

static int64_t n_loaded_all;

/* Checks that a restarted server continues from its predecessor's saved prefixes with the same
 * answer as the first server from memory, which equals that without a cache (same_as_cold). */
static void same_from_disk(const struct model *m, const struct session_opts *so, const char *name,
                           uint64_t seed) {
    enum { LONG = 515, MORE = 12 };
    struct request first = {.n_out = 3, .seed = seed}, next[2] = {{.n_out = 0}};
    struct session_opts with = *so;
    struct err e = {0};
    struct rng rng;
    with.n_ctx = LONG + 64;
    with.guests = with.whole = true;
    rng_seed(&rng, seed);
    add_random(&first.prompt, &rng, LONG, m->hp.d[HD_VOCAB]);
    for (int start = 0; start < 2; start++) {
        struct request *r = &next[start];
        struct session *s = NULL;
        struct prefix_disk *f = NULL;
        struct sched *c = NULL;
        CHECK_OK(session_new(&s, m, &with, &e));
        CHECK_OK(prefix_disk_open(&f, s, tmp_path("shelf"), (uint64_t)1 << 30, &e));
        const struct sched_opts o = {
            .n_live = 2, .n_queue = 8, .n_bytes = (uint64_t)1 << 40, .max_step_s = 1, .shelf = f};
        CHECK_OK(sched_new(&c, s, &o, &e));
        *r = (struct request){.n_out = 8, .seed = seed + 1};
        if (start == 0) {
            submit(c, &first, false, NULL);
            finish(c, &first, 1);
            copy_ids(&r->prompt, &first.answer, first.answer.n);
            add_random(&r->prompt, &rng, MORE, m->hp.d[HD_VOCAB]);
        } else
            copy_ids(&r->prompt, &next[0].prompt, next[0].prompt.n);
        submit(c, r, false, NULL);
        finish(c, r, 1);
        n_loaded_all += sched_counts(c).shelf.n_loaded;
        CHECK(start == 0 || r->n_cached >= LONG + first.n_out - 1);
        sched_free(c);
        prefix_disk_free(f);
        session_free(s);
    }
    if (next[1].failed || next[1].logits != next[0].logits ||
        next[1].answer.n != next[0].answer.n ||
        memcmp(next[1].answer.v, next[0].answer.v, (size_t)next[0].answer.n * sizeof(int32_t)) != 0)
        CHECK_FAIL("%s: another answer after prefixes from the folder", name);
    struct ids *const v[] = {&first.prompt,   &first.answer,   &next[0].prompt,
                             &next[0].answer, &next[1].prompt, &next[1].answer};
    for (int k = 0; k < 6; k++) ids_release(v[k]);
}

static void test_every_architecture(void) {
    static const char *const golden[] = {"qwen2",     "qwen3",   "qwen3moe",  "qwen35",
                                         "qwen35moe", "mistral", "gemma4moe", "tiny"};
    const struct session_opts f32 = {.isa = kern_isa_best()};
    DIR *d = opendir("tests/golden/archs");
    struct dirent *f;
    int n = 0;
    while (d && (f = readdir(d))) {
        char *src = xasprintf("tests/golden/archs/%s", f->d_name);
        char *file = xasprintf("%s/tensors.txt", src);
        if (access(file, R_OK) == 0) {
            struct model *m = open_model(micro_folder(src, NULL), "f32");
            n++;
            /* Prefixes are cached in the same way beyond the model's maximum number of keys. */
            if (m) m->hp.d[HD_MOST_CTX] = 0;
            if (m) same_as_cold(m, &f32, f->d_name, (uint64_t)n, n % 3 == 0, 2);
            if (m) same_as_unguessed(m, &f32, f->d_name, (uint64_t)n, NULL);
            if (m) same_as_unguessed(m, &f32, f->d_name, (uint64_t)n, "mtp");
            if (m) same_from_disk(m, &f32, f->d_name, (uint64_t)n);
            model_close(m);
        }
        free(file);
        free(src);
    }
    if (d) closedir(d);
    CHECK(n >= 50);
    CHECK_EQ_I64(n_loaded_all, n);
    /* as in the server: 8-bit weights in packed rows */
    for (size_t i = 0; i < COUNT_OF(golden); i++) {
        const struct session_opts q8 = {.isa = kern_isa_best(), .act = ACT_Q8, .pack = true};
        char *src = i + 1 < COUNT_OF(golden) ? xasprintf("tests/golden/models/%s", golden[i])
                                             : xstrdup("tests/golden/tiny-qwen35moe");
        struct model *m = open_model(src, "q8_0");
        for (int tight = 0; m && tight < 2; tight++)
            same_as_cold(m, &q8, golden[i], 100 + 2 * i + (uint64_t)tight, tight, 2);
        for (int mtp = 0; m && mtp < 2; mtp++)
            same_as_unguessed(m, &q8, golden[i], 200 + i, mtp ? "mtp" : NULL);
        if (m) same_from_disk(m, &q8, golden[i], 300 + i);
        model_close(m);
        free(src);
    }
    CHECK(n_cached_all > 10000 && n_dropped_all > 100);
}

/* Tests answers with an EAGLE-3 draft file, whose guesses are three tokens long. */
static void test_draft_file(void) {
    const struct session_opts q8 = {.isa = kern_isa_best(), .act = ACT_Q8, .pack = true};
    static const char *const draft[] = {"shares", "whole"};
    struct model *m = open_model("tests/golden/models/qwen3", "q8_0");
    for (size_t i = 0; i < COUNT_OF(draft) && m; i++) {
        struct err e = {0};
        struct convert_report r;
        char *dir = xasprintf("tests/golden/eagle3/%s", draft[i]),
             *out = xstrdup(tmp_path("draft.gguf"));
        const struct convert_opts o = {
            .src = micro_folder(dir, NULL), .out = out, .type = "q8_0", .overwrite = true};
        CHECK_OK(convert_run(&o, &r, &e));
        same_as_unguessed(m, &q8, draft[i], 400 + i, out);
        free(out);
        free(dir);
    }
    model_close(m);
}

/* Tests answers with an MTP block in a file of its own. */
static void test_mtp_file(void) {
    const struct session_opts q8 = {.isa = kern_isa_best(), .act = ACT_Q8, .pack = true};
    struct model *m = open_model("tests/golden/models/qwen35moe", "q8_0");
    if (!m) return;
    char *out = xstrdup(tmp_path("draft.gguf"));
    const int before = (int)n_by_mtp;
    same_as_unguessed(m, &q8, "mtp file", 500,
                      golden_mtp_file("tests/golden/models/qwen35moe", out, "q8_0"));
    CHECK_EQ_I64(n_by_mtp, before + 1);
    free(out);
    model_close(m);
}

static void test_guesses(void) {
    static const int32_t ids[] = {1, 2, 3, 4, 9, 1, 2, 3, 5, 6, 7, 2, 3, 4, 1, 2, 3};
    static const struct {
        int64_t n;
        int most, n_out;
        int32_t out[4];
    } want[] = {{17, 4, 4, {5, 6, 7, 2}}, {17, 1, 1, {5}}, {8, 4, 4, {4, 9, 1, 2}},
                {13, 4, 0, {0}},          {1, 4, 0, {0}},  {0, 4, 0, {0}}};
    for (size_t i = 0; i < COUNT_OF(want); i++) {
        int32_t out[4];
        const int n = ngram_draft_guess(ids, want[i].n, out, want[i].most);
        CHECK_EQ_I64(n, want[i].n_out);
        CHECK(memcmp(out, want[i].out, (size_t)n * sizeof *out) == 0);
    }
    CHECK(n_guessed_all > 1000 && n_right_all > n_guessed_all / 3 && n_right_all < n_guessed_all);
    CHECK(n_by_mtp >= 2);
}

/* Tests two answers that can both begin but cannot both finish in memory: one is preempted and
 * recomputed, with the same result. */
static void test_waiting_again(void) {
    struct model *m = open_model("tests/golden/models/qwen35moe", "q8_0");
    const struct session_opts so = {.isa = kern_isa_best(),
                                    .act = ACT_Q8,
                                    .pack = true,
                                    .guests = true,
                                    .whole = true,
                                    .n_ctx = 2048};
    struct session *s = NULL;
    struct err e = {0};
    struct rng rng;
    struct request r[2] = {{.n_out = 1300, .seed = 1}, {.n_out = 1300, .seed = 2}};
    uint64_t alone[2] = {0};
    if (!m) return;
    rng_seed(&rng, 6);
    CHECK_OK(session_new(&s, m, &so, &e));
    for (int i = 0; i < 2; i++) add_random(&r[i].prompt, &rng, 30, m->hp.d[HD_VOCAB]);
    for (int tight = 0; tight < 2; tight++) {
        const uint64_t both = 2 * session_seq_bytes(s, 1150) + 2 * session_seq_bytes(s, 1);
        /* spare states may take a sixteenth */
        const uint64_t n_bytes = (session_held_bytes(s) + both) / 16 * 17;
        struct sched *c = NULL;
        CHECK_OK(sched_new(
            &c, s,
            &(struct sched_opts){2, 8, tight ? n_bytes : 1 << 30, .max_step_s = 1, .draft = true},
            &e));
        for (int i = 0; i < 2; i++) submit(c, &r[i], false, NULL);
        finish(c, r, 2);
        if (tight) CHECK(session_held_bytes(s) <= n_bytes);
        CHECK(tight == (sched_counts(c).n_preempted > 0));
        for (int i = 0; i < 2; i++) {
            if (!tight) alone[i] = r[i].logits;
            CHECK(!r[i].failed && r[i].answer.n == 1330 && r[i].logits == alone[i]);
        }
        sched_free(c);
    }
    for (int i = 0; i < 2; i++) {
        ids_release(&r[i].prompt);
        ids_release(&r[i].answer);
    }
    session_free(s);
    model_close(m);
}

/* Tests that the prompt's log probabilities do not depend on where in the prompt the request loses
 * its memory. */
static void test_echo_again(void) {
    struct model *m = open_model("tests/golden/models/qwen35moe", "q8_0");
    const struct session_opts so = {
        .isa = kern_isa_best(), .guests = true, .whole = true, .n_ctx = CTX};
    struct session *s = NULL;
    struct err e = {0};
    struct buf alone = {0};
    if (!m) return;
    CHECK_OK(session_new(&s, m, &so, &e));
    for (int when = 0; when < 5; when++) { /* after 0, 1 ... passes; 4: in the answer */
        struct sched *c = NULL;
        struct rng rng;
        struct request r = {.n_out = 3, .seed = 3, .echo = true};
        rng_seed(&rng, 9);
        add_random(&r.prompt, &rng, 100, m->hp.d[HD_VOCAB]);
        CHECK_OK(
            sched_new(&c, s, &(struct sched_opts){2, 8, (uint64_t)1 << 40, .max_step_s = 1}, &e));
        submit(c, &r, false, NULL);
        for (int i = 0; i < when; i++) sched_step(c);
        if (when) {
            struct run *run = &c->tasks->run[0];
            CHECK((run->n_echoed == run->n_prompt) == (when == 4));
            sched_release(c, run, true);
        }
        finish(c, &r, 1);
        CHECK(!r.failed && r.probs.len > 0);
        if (!when) buf_add(&alone, r.probs.data, r.probs.len);
        CHECK_EQ_STR(r.probs.data, alone.data);
        sched_free(c);
        ids_release(&r.prompt);
        ids_release(&r.answer);
        buf_release(&r.probs);
    }
    buf_release(&alone);
    session_free(s);
    model_close(m);
}

/* ---- the tree ---- */

enum { N_LIST = 60, MOST = 40 };
struct listed {
    int32_t ids[MOST];
    int64_t n;
    uint64_t key;
};

static int64_t same(const struct listed *a, const struct listed *b) {
    int64_t i = 0;
    while (i < a->n && i < b->n && a->ids[i] == b->ids[i]) i++;
    return a->key == b->key ? i : 0;
}

/* Checks that the tree finds the same entries as a search through a list, and that exactly the
 * dropped entries are gone. can_trim: of the model. */
static void tree_like_list(const char *src, bool can_trim) {
    struct model *m = open_model(src, "f32");
    const struct session_opts so = {.guests = true, .n_ctx = 64};
    struct listed list[N_LIST];
    struct session *s = NULL;
    struct err e = {0};
    struct rng rng;
    int n = 0;
    if (!m) return;
    rng_seed(&rng, can_trim);
    CHECK_OK(session_new(&s, m, &so, &e));
    CHECK(session_info(s).can_trim == can_trim);
    const uint64_t empty = session_held_bytes(s);
    struct prefix_cache *p = prefix_cache_new(s, NULL);
    for (int i = 0; i < 1500; i++) {
        struct listed x = {.n = 1 + (int64_t)(rng_u64(&rng) % (MOST - 1)),
                           .key = rng_u64(&rng) % 2};
        for (int64_t k = 0; k < x.n; k++) x.ids[k] = rng_u64(&rng) % 8 == 0;
        int64_t best = 0, seen = 0;
        for (int k = 0; k < n; k++) {
            const int64_t c = same(&list[k], &x);
            if (c > seen) seen = c;
            if (can_trim ? c > best : c == list[k].n && c < x.n && c > best) best = c;
        }
        const struct prefix_cache_match got = prefix_cache_match(p, x.ids, x.n, x.key);
        CHECK_EQ_I64(got.n, min_i64(best, x.n - 1));
        CHECK_EQ_I64(got.seen, seen);
        if (n == N_LIST || (n && rng_u64(&rng) % 3 == 0)) {
            CHECK(prefix_cache_drop(p));
            int lost = 0, left = 0;
            for (int k = 0; k < n; k++) {
                struct listed longer = list[k];
                longer.ids[longer.n++] = 7; /* nobody's */
                if (prefix_cache_match(p, longer.ids, longer.n, longer.key).n == list[k].n)
                    list[left++] = list[k];
                else
                    lost++;
            }
            n = left;
            CHECK(can_trim ? lost >= 1 : lost == 1);
            continue;
        }
        struct seq *q = NULL;
        x.n = max_i64(x.n - 1, 1);
        bool there = false;
        for (int k = 0; k < n && !there; k++) there = same(&list[k], &x) == x.n && list[k].n == x.n;
        CHECK_OK(session_new_seq(s, 0, &q, &e));
        prefix_cache_keep(p, x.ids, x.n, x.key, PREFIX_END, q);
        if (!there) list[n++] = x;
        if (!can_trim) CHECK_EQ_I64(prefix_cache_counts(p).n_kept, n);
    }
    while (prefix_cache_drop(p)) continue;
    CHECK_EQ_I64(prefix_cache_counts(p).n_kept + prefix_cache_counts(p).n_tokens, 0);
    CHECK_EQ_I64(session_held_bytes(s), empty);
    prefix_cache_free(p);
    session_free(s);
    model_close(m);
}

static void test_tree(void) {
    tree_like_list("tests/golden/models/qwen35moe", false);
    tree_like_list("tests/golden/models/qwen3", true);
}

/* Tests an answer that comes back as text and is tokenized differently from the drawn tokens: its
 * bytes find the cached prefix, and the next answer equals that for the drawn tokens followed by
 * the new ones. */
static void test_bytes(void) {
    struct model *m = open_model("tests/golden/tiny-qwen35moe", "q8_0");
    const struct session_opts so = {
        .isa = kern_isa_best(), .guests = true, .whole = true, .n_ctx = 512};
    static const char head[] = "<|im_start|>user\nName the capital.<|im_end|>\n",
                      said[] = "The capital of Norway is Oslo, of course.",
                      rest[] = "<|im_end|>\n<|im_start|>user\nAnd of Sweden?<|im_end|>\n";
    struct session *s = NULL;
    struct sched *c = NULL;
    struct err e = {0};
    struct request drawn = {.n_out = 1}, again = {.n_out = 6, .seed = 2}, want = {.n_out = 6};
    if (!m) return;
    CHECK_OK(session_new(&s, m, &so, &e));
    CHECK_OK(sched_new(
        &c, s, &(struct sched_opts){2, 8, (uint64_t)1 << 40, .max_step_s = 1, .draft = true}, &e));
    CHECK_OK(tok_encode(m->tok, head, strlen(head), true, false, &drawn.prompt, &e));
    for (size_t i = 0; i < strlen(said); i++) /* one token per letter */
        CHECK_OK(tok_encode(m->tok, said + i, 1, false, false, &drawn.prompt, &e));
    submit(c, &drawn, false, NULL);
    finish(c, &drawn, 1);
    copy_ids(&want.prompt, &drawn.prompt, drawn.prompt.n);
    CHECK_OK(tok_encode(m->tok, rest, strlen(rest), true, false, &want.prompt, &e));
    char *all = xasprintf("%s%s%s", head, said, rest);
    CHECK_OK(tok_encode(m->tok, all, strlen(all), true, false, &again.prompt, &e));
    CHECK(again.prompt.n + 10 < want.prompt.n); /* these are different tokens */
    want.seed = again.seed;
    submit(c, &want, true, NULL);
    finish(c, &want, 1);
    for (int how = 0; how < 3; how++) { /* as text; as drawn tokens; as given tokens */
        again.conv = how < 2;
        again.exact = how == 1;
        submit(c, &again, false, NULL);
        finish(c, &again, 1);
        CHECK(!again.failed && (how == 0) == (again.logits == want.logits));
        if (how == 0) CHECK(again.n_cached + 16 > again.prompt.n);
    }
    free(all);
    struct request *const r[] = {&drawn, &again, &want};
    for (int i = 0; i < 3; i++) {
        ids_release(&r[i]->prompt);
        ids_release(&r[i]->answer);
    }
    sched_free(c);
    session_free(s);
    model_close(m);
}

/* ---- a loop of tool calls ---- */

static void loop(const char *src, int64_t n_steps) {
    struct model *m = open_model(src, "q8_0");
    const struct session_opts so = {.isa = kern_isa_best(),
                                    .act = ACT_Q8,
                                    .pack = true,
                                    .guests = true,
                                    .whole = true,
                                    .n_ctx = 2048};
    struct session *s = NULL;
    struct sched *c = NULL;
    struct err e = {0};
    struct rng rng;
    struct request r = {.n_out = 20, .head = 100};
    int64_t n_new = 150;
    if (!m) return;
    rng_seed(&rng, 5);
    CHECK_OK(session_new(&s, m, &so, &e));
    CHECK_OK(sched_new(
        &c, s, &(struct sched_opts){2, 8, (uint64_t)1 << 40, .max_step_s = 1, .draft = true}, &e));
    add_random(&r.prompt, &rng, n_new, m->hp.d[HD_VOCAB]);
    for (int i = 0; i < n_steps; i++) {
        r.turn = r.prompt.n - 4;
        submit(c, &r, false, NULL);
        finish(c, &r, 1);
        copy_ids(&r.prompt, &r.answer, r.answer.n);
        const int64_t n = 30 + (int64_t)(rng_u64(&rng) % 40);
        add_random(&r.prompt, &rng, n, m->hp.d[HD_VOCAB]);
        if (i + 1 < n_steps) n_new += n;
    }
    const struct sched_counts n = sched_counts(c);
    const int64_t computed = n.n_fed;
    if (!(n_new <= computed && (double)computed <= 1.05 * (double)n_new))
        CHECK_FAIL("%s: %d tokens computed for %d new ones", src, (int)computed, (int)n_new);
    ids_release(&r.prompt);
    ids_release(&r.answer);
    sched_free(c);
    session_free(s);
    model_close(m);
}

static void test_loop(void) {
    loop("tests/golden/models/qwen35moe", 20);
    loop("tests/golden/models/qwen3", 20);
}

/* ---- who leaves ---- */

/* Cancels a request at any pass: in the queue, in the prompt, in the answer. All memory except
 * cached prefixes must be released, and the other request's answer must be the same as alone. */
static void test_leaving(void) {
    struct model *m = open_model("tests/golden/models/qwen35moe", "q8_0");
    const struct session_opts so = {.isa = kern_isa_best(),
                                    .act = ACT_Q8,
                                    .pack = true,
                                    .guests = true,
                                    .whole = true,
                                    .n_ctx = CTX,
                                    .n_ubatch = 16};
    struct session *s = NULL;
    struct err e = {0};
    uint64_t alone = 0;
    const int wake = open("/dev/null", O_WRONLY);
    if (!m) return;
    CHECK_OK(session_new(&s, m, &so, &e));
    const uint64_t empty = session_held_bytes(s);
    for (int when = -1; when < 14; when++) {
        struct sched *c = NULL;
        struct rng rng;
        struct request stays = {.n_out = 20, .seed = 3}, leaves = {.n_out = 50, .seed = 4};
        struct job *j = job_new(wake);
        rng_seed(&rng, 9);
        CHECK_OK(sched_new(&c, s,
                           &(struct sched_opts){1 + (when & 1), 8, (uint64_t)1 << 40,
                                                .max_step_s = 1, .draft = true},
                           &e));
        add_random(&stays.prompt, &rng, 40, m->hp.d[HD_VOCAB]);
        add_random(&leaves.prompt, &rng, 90, m->hp.d[HD_VOCAB]);
        submit(c, &stays, false, NULL);
        if (when >= 0) submit(c, &leaves, false, j);
        for (int i = 0; i < when; i++) sched_step(c);
        atomic_store(&j->gone, true);
        if (when >= 0) {
            sched_step(c);
            CHECK(leaves.done && leaves.failed);
            CHECK_EQ_I64(sched_counts(c).n_cancelled, 1);
            CHECK_EQ_I64(sched_counts(c).n_running + sched_counts(c).n_waiting, !stays.done);
        }
        finish(c, &stays, 1);
        if (when < 0) alone = stays.logits;
        CHECK(!stays.failed && stays.logits == alone);
        CHECK_EQ_I64(sched_counts(c).n_running, 0);
        sched_free(c);
        CHECK_EQ_I64(session_held_bytes(s), empty);
        job_drop(j);
        ids_release(&stays.prompt);
        ids_release(&stays.answer);
        ids_release(&leaves.prompt);
        ids_release(&leaves.answer);
    }
    session_free(s);
    model_close(m);
    close(wake);
}

/* ---- weights that are not numbers ---- */

/* Checks that the request fails with an error that names the weight, and that the server keeps
 * running. */
static void test_broken_weights(void) {
    struct model *m = open_model("tests/golden/models/mistral", "f32");
    const struct session_opts so = {
        .isa = kern_isa_best(), .guests = true, .whole = true, .n_ctx = CTX, .n_ubatch = 16};
    struct session *s = NULL;
    struct sched *c = NULL;
    struct err e = {0};
    struct rng rng;
    struct gguf *g = NULL;
    char *data = NULL;
    size_t len = 0;
    rng_seed(&rng, 9);
    model_close(m);
    CHECK_OK(io_read_file(&data, &len, tmp_path("m.gguf"), 1 << 26, &e));
    CHECK_OK(gguf_open(&g, tmp_path("m.gguf"), 0, &e));
    const struct gguf_tensor *t = g ? gguf_find_tensor(g, "blk.1.ffn_up.weight") : NULL;
    char *at = t && data ? memmem(data, len, t->data, 256) : NULL;
    CHECK(at != NULL);
    if (!at) return;
    memset(at + 20, 0xff, 4);
    tmp_write("bad.gguf", data, len);
    CHECK_OK(model_open(&m, tmp_path("bad.gguf"), &e));
    CHECK_OK(session_new(&s, m, &so, &e));
    CHECK_OK(sched_new(&c, s, &(struct sched_opts){2, 8, (uint64_t)1 << 40, .max_step_s = 1}, &e));
    for (int i = 0; i < 2; i++) {
        struct request r = {.n_out = 20, .seed = 3};
        add_random(&r.prompt, &rng, 40, m->hp.d[HD_VOCAB]);
        submit(c, &r, false, NULL);
        last_fault[0] = 0;
        finish(c, &r, 1);
        CHECK(r.failed && r.answer.n == r.prompt.n);
        CHECK(strstr(last_fault, "tensor blk.1.ffn_up.weight: row 0, column 5") != NULL);
        CHECK(!strstr(last_fault, "bad.gguf"));
        ids_release(&r.prompt);
        ids_release(&r.answer);
    }
    sched_free(c);
    session_free(s);
    model_close(m);
    gguf_close(g);
    free(data);
}

/* ---- costly grammars ---- */

/* Checks that an answer with a costly grammar rests while another runs, but not when it is alone,
 * without changing the answers. A token that exceeds the step limit must fail only its own
 * answer. */
static void test_costly(void) {
    struct model *m = open_model("tests/golden/models/qwen3", "q8_0");
    const struct session_opts so = {
        .isa = kern_isa_best(), .guests = true, .whole = true, .n_ctx = CTX, .n_ubatch = 64};
    struct session *s = NULL;
    struct gram_vocab *v = NULL;
    struct grammar *any = NULL, *ways = NULL;
    struct err e = {0};
    struct buf text = {0};
    uint64_t alone = 0;
    CHECK_OK(session_new(&s, m, &so, &e));
    CHECK_OK(gram_vocab_new(&v, m->tok, &e));
    CHECK_OK(grammar_of_regex(&any, v, "(.|\n)*", 7, &e));
    buf_str(&text, "(.|\n)");
    for (int i = 0; i < 5000; i++) buf_fmt(&text, "%c?", 'a' + i % 26);
    CHECK_OK(grammar_of_regex(&ways, v, text.data, text.len, &e));
    for (int how = 0; how < 3; how++) { /* alone; with a costly one; with a failing one */
        struct sched *c = NULL;
        struct rng rng;
        struct request plain = {.n_out = 30, .seed = 3}, held = {.n_out = 30, .seed = 4};
        rng_seed(&rng, 9);
        CHECK_OK(
            sched_new(&c, s, &(struct sched_opts){2, 8, (uint64_t)1 << 40, .max_step_s = 1}, &e));
        add_random(&plain.prompt, &rng, 20, m->hp.d[HD_VOCAB]);
        add_random(&held.prompt, &rng, 20, m->hp.d[HD_VOCAB]);
        submit(c, &plain, false, NULL);
        if (how) {
            submit(c, &held, false, NULL);
            struct run *r = &c->tasks->run[0];
            const struct constrain_opts o = {.g = how == 1 ? any : ways};
            r->guard.c = constrain_new(&o, m->tok);
            r->trust = how == 1 ? -100 : 0;
            c->t_costly = progress_now_s() + 1000;
            for (int i = 0; i < 1000 && !plain.done; i++) {
                sched_step(c);
                if (how == 1 && !plain.done) CHECK(r->all.n - r->n_prompt <= 1);
            }
        }
        finish(c, &plain, 1);
        if (how) finish(c, &held, 1);
        if (!how) alone = plain.logits;
        CHECK(!plain.failed && plain.logits == alone);
        if (how == 1) CHECK(!held.failed && held.answer.n - held.prompt.n == 30);
        if (how == 2) CHECK(held.failed && strstr(last_fault, "takes more than"));
        sched_free(c);
        for (int i = 0; i < 2; i++) ids_release(i ? &plain.prompt : &held.prompt);
        for (int i = 0; i < 2; i++) ids_release(i ? &plain.answer : &held.answer);
    }
    grammar_free(any);
    grammar_free(ways);
    gram_vocab_free(v);
    buf_release(&text);
    session_free(s);
    model_close(m);
}

int main(void) {
    tmp_make();
    RUN(test_every_architecture);
    RUN(test_draft_file);
    RUN(test_mtp_file);
    RUN(test_guesses);
    RUN(test_waiting_again);
    RUN(test_echo_again);
    RUN(test_tree);
    RUN(test_bytes);
    RUN(test_loop);
    RUN(test_leaving);
    RUN(test_broken_weights);
    RUN(test_costly);
    tmp_remove();
    return check_done();
}
