// SPDX-License-Identifier: MIT
/* tests/unit/test_cuda_split.c - layers split over several devices of unequal memory: all results
 * are bit-identical to those of one device, for every architecture and every operation on
 * sequences. The emulation ends the program when a kernel touches another device's memory. Also
 * tests the arithmetic that assigns layers to devices. HONE_LONG=1: every architecture, longer
 * schedules; otherwise every eleventh. */
#include <dirent.h>

#include "convert/convert.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/rng.h"
#include "models/split.h"
#include "runtime/engine/cuda/exec.h"
#include "tests/cuda-emu/control.h"
#include "tests/unit/micro.h"

#define ARCHS "tests/golden/archs"
#define MODELS "tests/golden/models/"
enum { CARDS = 4, N_SEQS = 3, CTX = 300, UBATCH = 32, MOST_ROWS = 16 };
static const struct emu_device cards[CARDS] = {
    {(size_t)4 << 30, 384}, {(size_t)2 << 30, 384}, {(size_t)6 << 30, 384}, {(size_t)3 << 30, 384}};

static struct device devices(int n, const struct placement *p) {
    struct device d = {.kind = DEVICE_CUDA, .n_more = n - 1, .place = p};
    for (int i = 1; i < n; i++) d.more[i - 1] = i;
    return d;
}

/* ---- where layers go ---- */

static struct split plain(int n_cards, int n_layers, uint64_t bytes, const uint64_t *have) {
    struct split p = {.n_cards = n_cards, .n_layers = n_layers};
    p.layer = xcalloc((size_t)n_layers, sizeof *p.layer);
    for (int c = 0; c < n_cards; c++) {
        p.card[c].have = have[c];
        for (int i = 0; i < n_layers; i++) p.layer[i].bytes[c] = bytes;
    }
    for (int i = 0; i < n_layers; i++) p.layer[i].want = SPLIT_FREE;
    return p;
}
static int count(const uint8_t *of, int n, int card) {
    int k = 0;
    for (int i = 0; i < n; i++) k += of[i] == card;
    return k;
}

/* Checks that layers are split by memory if cards are equally fast, and otherwise fill fast cards
 * first. */
static void test_shares(void) {
    static const uint64_t have[3] = {8 << 20, 2 << 20, 6 << 20};
    struct split p = plain(3, 16, 1 << 16, have);
    uint8_t of[16];
    CHECK(split_layers(&p, of));
    CHECK_EQ_I64(count(of, 16, 0), 8);
    CHECK_EQ_I64(count(of, 16, 1), 2);
    CHECK_EQ_I64(count(of, 16, 2), 6);
    for (int i = 1; i < 16; i++) CHECK(of[i] >= of[i - 1]);
    p.card[0].bandwidth = 1000;
    p.card[1].bandwidth = 1100; /* within 25 % */
    p.card[2].bandwidth = 900;
    CHECK(split_layers(&p, of));
    CHECK_EQ_I64(count(of, 16, 0), 8);
    p.card[1].bandwidth = 3000; /* all of it fits there */
    CHECK(split_layers(&p, of));
    CHECK_EQ_I64(count(of, 16, 1), 16);
    for (int i = 0; i < 16; i++) /* now eight do */
        for (int c = 0; c < 3; c++) p.layer[i].bytes[c] = 1 << 18;
    CHECK(split_layers(&p, of));
    CHECK_EQ_I64(count(of, 16, 1), 8);
    CHECK_EQ_I64(count(of, 16, 0), 8); /* it is faster than the last one */
    free(p.layer);
}

static void test_bounds(void) {
    static const uint64_t have[2] = {1 << 20, 1 << 20};
    struct split p = plain(2, 8, 1 << 17, have);
    uint8_t of[8];
    p.card[0].first = 1 << 18; /* two layers' worth */
    p.card[1].fixed = 1 << 17;
    CHECK(split_layers(&p, of)); /* 3 + 2 = 5 of 8 on the first, 5 + 1 = 6 on the second */
    CHECK_EQ_I64(count(of, 8, 0), 3 + (count(of, 8, 0) == 4));
    for (int i = 3; i < 8; i++) p.layer[i].joined = true; /* 2 to 7 are together: 6 + 1 */
    CHECK(split_layers(&p, of));
    CHECK_EQ_I64(count(of, 8, 0), 2);
    p.layer[0].want = 1; /* nothing before it can be on the first card */
    CHECK(!split_layers(&p, of));
    CHECK_EQ_I64(count(of, 8, 1), 8);
    p.layer[1].joined = p.layer[2].joined = false;
    for (int i = 0; i < 8; i++) p.layer[i].joined = false;
    p.layer[4].want = 0; /* not in card order: each layer goes where requested */
    CHECK(split_layers(&p, of));
    for (int i = 0; i < 8; i++) CHECK_EQ_I64(of[i], i < 4);
    CHECK_EQ_I64(split_bytes(&p, of, 0), 4 << 17);
    free(p.layer);
}

/* ---- the same bits ---- */

struct pair { /* one device, and several */
    const struct model *m;
    const char *name;
    struct session *s[2];
    struct seq *q[2][N_SEQS], *snap[2];
    int64_t d, v;
    struct rng rng;
};

static int64_t below(struct pair *w, int64_t n) {
    return (int64_t)(rng_u64(&w->rng) % (uint64_t)n);
}
static void same(const struct pair *w, const char *what, const float *a, const float *b,
                 int64_t n) {
    if (memcmp(a, b, (size_t)n * sizeof *a) != 0)
        CHECK_FAIL("%s, %s: other bits on several devices", w->name, what);
}

/* Runs a pass with rows of some sequences, interleaved at random. */
static void batch(struct pair *w, int64_t n) {
    struct session_row row[2][MOST_ROWS];
    struct err e = {0};
    float *x[2];
    int64_t left[N_SEQS], k = 0;
    for (int i = 0; i < N_SEQS; i++) left[i] = CTX - seq_pos(w->q[0][i]);
    for (int64_t i = 0; i < n; i++) {
        const int64_t of = below(w, N_SEQS);
        const int32_t id = (int32_t)below(w, w->v);
        if (left[of]-- <= 0) continue;
        for (int j = 0; j < 2; j++)
            row[j][k] = (struct session_row){
                .id = id, .seq = w->q[j][of], .want = k ? WANT_HIDDEN : WANT_LOGITS};
        k++;
    }
    const int64_t all = (k - 1) * w->d + w->v;
    if (!k) return;
    for (int j = 0; j < 2; j++) {
        x[j] = xcalloc((size_t)all, sizeof(float));
        const struct session_pass p = {
            .row = row[j], .n = k, .hidden = x[j], .logits = x[j] + (k - 1) * w->d};
        CHECK_OK(session_pass(w->s[j], &p, &e));
    }
    same(w, "a batch", x[0], x[1], all);
    free(x[0]);
    free(x[1]);
}

/* Runs tokens of a session's own sequence: the second is captured, later ones are replayed. */
static void tokens(struct pair *w, int n) {
    struct err e = {0};
    float *x[2];
    for (int j = 0; j < 2; j++) x[j] = xcalloc((size_t)(n * w->v), sizeof(float));
    for (int i = 0; i < n; i++) {
        const int32_t id = (int32_t)below(w, w->v);
        for (int j = 0; j < 2; j++) CHECK_OK(session_step(w->s[j], &id, 1, x[j] + i * w->v, &e));
    }
    same(w, "tokens", x[0], x[1], n * w->v);
    for (int j = 0; j < 2; j++) free(x[j]);
}

static void fork_one(struct pair *w) {
    const int64_t to = below(w, N_SEQS), from = (to + 1 + below(w, N_SEQS - 1)) % N_SEQS;
    struct err e = {0};
    for (int j = 0; j < 2; j++) {
        struct seq *q = NULL;
        CHECK_OK(seq_fork(&q, w->q[j][from], &e));
        seq_free(w->q[j][to]);
        w->q[j][to] = q;
    }
}
static void trim_one(struct pair *w) {
    const int64_t of = below(w, N_SEQS), to = max_i64(seq_pos(w->q[0][of]) - below(w, 5), 0);
    struct err e = {0};
    const int rc = seq_trim(w->q[0][of], to, &e);
    CHECK_EQ_I64(seq_trim(w->q[1][of], to, &e), rc);
}
static void snapshot(struct pair *w) {
    const int64_t of = below(w, N_SEQS);
    struct err e = {0};
    for (int j = 0; j < 2; j++)
        if (w->snap[j])
            seq_restore(w->q[j][of], w->snap[j]);
        else
            CHECK_OK(seq_fork(&w->snap[j], w->q[j][of], &e));
}

/* Checks that saved files are byte-identical and that each session can read the other's. */
static void file(struct pair *w) {
    const int64_t of = below(w, N_SEQS), to = (of + 1) % N_SEQS;
    struct err e = {0};
    char *path[2], *text[2] = {NULL, NULL};
    size_t n[2] = {0, 1};
    for (int j = 0; j < 2; j++) {
        path[j] = xasprintf("%s/seq%d", tmp_dir, j);
        CHECK_OK(session_save_seq(w->s[j], w->q[j][of], path[j], true, &e));
        CHECK_OK(io_read_file(&text[j], &n[j], path[j], 1 << 26, &e));
    }
    CHECK(n[0] == n[1] && memcmp(text[0], text[1], n[0]) == 0);
    for (int j = 0; j < 2; j++) {
        seq_reset(w->q[j][to]);
        CHECK_OK(session_load_seq(w->s[j], w->q[j][to], path[!j], &e));
        free(text[j]);
    }
    free(path[0]);
    free(path[1]);
}

static void schedule(struct pair *w, const char *plan) {
    batch(w, 10);
    for (int i = 0; plan[i]; i++) {
        const char c = plan[i];
        if (c == 'm') batch(w, 9 + below(w, MOST_ROWS - 9));
        if (c == 'f') batch(w, 2 + below(w, 6)); /* few */
        if (c == 'o') tokens(w, 3);
        if (c == 'k') fork_one(w);
        if (c == 't') trim_one(w);
        if (c == 's') snapshot(w);
        if (c == 'w') file(w);
    }
}

/* Checks that each device holds at least the memory that the session counts there. The other
 * session also uses the first device. */
static void check_memory(const struct session *s) {
    const struct cuda_set *all = exec_cuda_all(s);
    for (int i = 0; i < all->n; i++) {
        const struct cuda *d = all->part[i];
        struct cu_info now;
        struct err e = {0};
        CHECK_OK(cu_get_info(d->ctx, &now, &e));
        const uint64_t ours = s->place[i].n_bytes + s->cache.n_bytes[i];
        if (now.index) CHECK(d->info.mem_free - now.mem_free <= ours);
    }
}

static int n_parts(const struct session *s) {
    return exec_cuda_all(s)->n;
}

static uint64_t weights_of(const struct session *s) {
    const struct cuda *d = exec_cuda_head(s);
    uint64_t n = 0;
    for (int i = 0; i < s->g->n_weights; i++)
        if (d->w[i].copy) n += cu_buf_bytes(d->w[i].copy->buf);
    return n;
}

/* Opens sessions on one device and on n: placed by p, or with so little memory on each that all of
 * them get layers. */
static void open_both(struct pair *w, struct session_opts o, int n, const struct placement *p) {
    struct err e = {0};
    const struct device one = devices(1, NULL);
    o.device = one;
    CHECK_OK(session_new(&w->s[0], w->m, &o, &e)); /* measures the memory needed */
    const uint64_t all = session_bytes(w->s[0]), weights = weights_of(w->s[0]);
    session_free(w->s[0]);
    o.device = devices(n, p);
    for (uint64_t k = 1; !p && k < 40; k++) {
        o.device.max_bytes = all - weights * k / 40;
        session_free(w->s[1]);
        w->s[1] = NULL;
        if (session_new(&w->s[1], w->m, &o, &e) || n_parts(w->s[1]) == n) break;
    }
    if (p) CHECK_OK(session_new(&w->s[1], w->m, &o, &e));
    o.device = one;
    CHECK_OK(session_new(&w->s[0], w->m, &o, &e));
}

static void pair_of(const struct model *m, const char *name, struct session_opts o, int n,
                    const struct placement *p, const char *plan) {
    struct pair w = {.m = m, .name = name, .d = m->hp.d[HD_EMBD], .v = m->hp.d[HD_VOCAB]};
    struct err e = {0};
    rng_seed(&w.rng, (uint64_t)(name[0] + n));
    open_both(&w, o, n, p);
    if (!w.s[1]) {
        CHECK_FAIL("%s is not split over %d devices", name, n);
        session_free(w.s[0]);
        return;
    }
    if (!p) CHECK_EQ_I64(n_parts(w.s[1]), n);
    if (!p) CHECK_EQ_I64(session_info(w.s[1]).offload_blocks, 0);
    w.s[1]->cache.most[0] = 0; /* sequences are unlimited */
    for (int i = 1; i < n; i++) w.s[1]->cache.most[i] = 0;
    for (int i = 0; i < N_SEQS; i++)
        for (int j = 0; j < 2; j++)
            CHECK_OK(session_new_seq(w.s[j], i % 2 ? CTX : 0, &w.q[j][i], &e));
    schedule(&w, plan);
    check_memory(w.s[1]);
    for (int j = 0; j < 2; j++) {
        seq_free(w.snap[j]);
        for (int i = 0; i < N_SEQS; i++) seq_free(w.q[j][i]);
        session_free(w.s[j]);
    }
}

/* Creates a placement that alternates between devices, except for blocks that read an earlier
 * block's keys: they go with that block. */
static void to_and_fro(struct placement *p, const struct graph *g, int n) {
    memset(p, 0, sizeof *p);
    for (int i = 0; i < PLACE_BLOCKS; i++) p->layer[i] = (int16_t)((i * 3 + 1) % n);
    for (int i = 0; i < graph_count(g, OP_ATTN); i++) {
        const struct gr_node *a = graph_nth(g, OP_ATTN, i);
        p->layer[a->layer] = p->layer[g->facts.kv[a->slot].layer];
    }
}

static struct model *open_folder(const char *src, const char *type) {
    struct convert_opts o = {
        .src = src, .out = tmp_path("m.gguf"), .type = type, .overwrite = true};
    struct convert_report r;
    struct model *m = NULL;
    struct err e = {0};
    if (convert_run(&o, &r, &e))
        CHECK_EQ_I64(e.code, ERR_DATA); /* hone does not know its class */
    else
        CHECK_OK(model_open(&m, o.out, &e));
    return m;
}

static bool refused(const struct model *m) { /* refused by a single device, too */
    const struct session_opts o = {.n_ctx = CTX, .device = devices(1, NULL)};
    const int32_t id = 1;
    struct session *s = NULL;
    struct err e = {0};
    const bool no = session_new(&s, m, &o, &e) || session_step(s, &id, 1, NULL, &e);
    session_free(s);
    return no;
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}
static void test_archs(void) {
    const bool all = getenv("HONE_LONG") != NULL;
    const char *plan = all ? "omkftswmkofmtsmw" : "kow";
    DIR *dir = opendir(ARCHS);
    char *name[128];
    int n = 0, n_run = 0;
    struct dirent *at;
    while (dir && (at = readdir(dir)) && n < (int)COUNT_OF(name))
        if (at->d_name[0] != '.') name[n++] = xstrdup(at->d_name);
    if (dir) closedir(dir);
    qsort(name, (size_t)n, sizeof *name, by_name);
    for (int i = 0; i < n; i++) {
        char *folder = xasprintf(ARCHS "/%s", name[i]);
        struct model *m = !all && i % 11 ? NULL : open_folder(micro_folder(folder, NULL), "f32");
        if (m && !refused(m)) {
            struct placement p;
            const int n_cards = i % 2 ? CARDS : 2;
            to_and_fro(&p, &m->graph, n_cards);
            pair_of(m, name[i], (struct session_opts){.n_ctx = CTX, .n_ubatch = UBATCH}, n_cards,
                    &p, plan);
            n_run++;
        }
        model_close(m);
        free(folder);
        free(name[i]);
    }
    printf("%d small models\n", n_run);
}

/* Tests recorded models, 8-bit activations and cache types, with layers split by memory. */
static void test_kinds(void) {
    static const struct {
        const char *name, *type;
        enum act_mode act;
        enum qtype kv;
        int n;
    } c[] = {{"qwen35moe", "q8_0", ACT_Q8, QT_Q8_0, 2}, {"gemma4moe", "f32", ACT_F32, QT_F16, 4}};
    const bool all = getenv("HONE_LONG") != NULL;
    for (size_t i = 0; i < COUNT_OF(c); i++) {
        char *folder = xasprintf(MODELS "%s", c[i].name);
        struct model *m = open_folder(folder, c[i].type);
        const struct session_opts o = {
            .n_ctx = CTX, .n_ubatch = UBATCH, .act = c[i].act, .kv_type = c[i].kv};
        if (m) pair_of(m, c[i].name, o, c[i].n, NULL, all ? "omkftswfo" : "okfmsw");
        model_close(m);
        free(folder);
    }
}

/* Checks that sequences of any length, and their forks, fit the reported room, which the device
 * with the least memory limits. */
static void test_room(void) {
    struct model *m = open_folder(MODELS "qwen35moe", "f32");
    struct session_opts o = {.n_ctx = CTX, .n_ubatch = UBATCH, .guests = true};
    struct session *s = NULL;
    struct err e = {0};
    if (!m) return;
    CHECK_OK(session_new(&s, m, &o, &e));
    CHECK(session_room(s) == UINT64_MAX);
    session_free(s);
    o.device = devices(1, NULL);
    CHECK_OK(session_new(&s, m, &o, &e));
    const uint64_t one = session_seq_bytes(s, CTX), all = session_bytes(s);
    session_free(s);
    o.device = devices(2, NULL);
    o.device.max_bytes = all + 8 * one;
    o.device.more_bytes[0] = all + one;
    struct placement p;
    memset(&p, 0, sizeof p);
    for (int i = 0; i < PLACE_BLOCKS; i++) p.layer[i] = (int16_t)(i % 2);
    o.device.place = &p;
    CHECK_OK(session_new(&s, m, &o, &e));
    const uint64_t room = session_room(s);
    uint64_t held = 0;
    struct seq *q[64] = {NULL};
    int n = 0;
    for (; n < 64 && held + session_seq_bytes(s, n % 2 ? CTX : 1) <= room; n++) {
        CHECK_OK(session_new_seq(s, n % 2 ? CTX : 1, &q[n], &e));
        held += session_seq_bytes(s, n % 2 ? CTX : 1);
    }
    CHECK(n >= 2 && n < 64);
    for (int i = 0; i < n; i++) seq_free(q[i]);
    session_free(s);
    model_close(m);
}

int main(void) {
    RUN(test_shares);
    RUN(test_bounds);
    if (!cu_built() || (!emu_devices && cu_count() < CARDS)) return check_done();
    if (emu_devices) emu_devices(CARDS, cards);
    tmp_make();
    RUN(test_archs);
    RUN(test_kinds);
    RUN(test_room);
    tmp_remove();
    return check_done();
}
