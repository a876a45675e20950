// SPDX-License-Identifier: MIT
/* plan/plan_split.c - split of a model over several cards, which are assumed to be equally fast,
 * since the files say nothing about the cards. */
#include "plan/plan_split.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/printable.h"
#include "text/size.h"

int plan_split_parse(struct plan_split *s, const char *text, struct err *e) {
    char one[32];
    s->n_cards = 0;
    for (const char *at = text;; at++) {
        const size_t n = strcspn(at, ",");
        if (s->n_cards == SPLIT_CARDS || n >= sizeof one)
            return err_set(e, ERR_USAGE,
                           "--vram takes the sizes of up to %d cards, such as 24GiB,16GiB",
                           SPLIT_CARDS);
        memcpy(one, at, n);
        one[n] = 0;
        TRY(size_parse(one, "--vram", &s->memory[s->n_cards++], e));
        if (!s->memory[s->n_cards - 1] && (s->n_cards > 1 || at[n]))
            return err_set(e, ERR_USAGE, "--vram %s: card %d has no memory", text, s->n_cards - 1);
        at += n;
        if (!*at) return 0;
    }
}

int plan_split_check(const struct plan_split *s, struct err *e) {
    uint64_t most = 0;
    for (int i = 0; i < s->n_cards; i++) most = s->memory[i] > most ? s->memory[i] : most;
    if (s->n_cards && !most)
        return err_set(e, ERR_USAGE, "--vram: a card of 0 bytes holds no model");
    if (!s->n_cards || s->reserve < most) return 0;
    return err_set(e, ERR_USAGE,
                   "--reserve keeps %s of each card free, and --vram has %s: nothing is left for a "
                   "model; use a smaller --reserve",
                   show_bytes(s->reserve).s, show_bytes(most).s);
}

void plan_warn_trained(int64_t n_ctx_train, bool one) {
    log_warn("%s was trained for %lld tokens; longer contexts need rope scaling",
             one ? "one of the models" : "the model", (long long)n_ctx_train);
}

void plan_usable(struct buf *b, const struct fit_ask *a) {
    buf_str(b, "; usable are ");
    plan_of_memory(b, a->memory > a->reserve ? a->memory - a->reserve : 0, a->memory);
}

void plan_of_memory(struct buf *b, uint64_t used, uint64_t memory) {
    const struct show u = show_bytes(used), m = show_bytes(memory);
    const char *unit = strchr(u.s, ' ');
    const int n = strcmp(unit, strchr(m.s, ' ')) == 0 ? (int)(unit - u.s) : (int)strlen(u.s);
    buf_fmt(b, "%.*s of %s", n, u.s, m.s);
}

void plan_host_memory(struct buf *b, const struct fit *f) {
    if (f->way != FIT_EXPERTS && f->way != FIT_BLOCKS) return;
    buf_str(b, ", and ");
    buf_str(b, show_bytes(f->host).s);
    buf_str(b, " of main memory");
    if (f->way == FIT_BLOCKS) buf_str(b, "; hone would run it on the CPU");
}

/* Returns the size of a block on a card: weights, keys and values, and states. */
static uint64_t block_bytes(const struct plan_split *s, const struct sizes *z,
                            const struct fit_ask *a, int64_t n_rows, int i) {
    const bool experts = s->llama ? i >= s->n_cpu_experts : i < z->n_blocks - s->n_cpu_experts;
    struct sizes *one = xcalloc(1, sizeof *one);
    uint64_t kv = 0;
    one->n_blocks = 1;
    one->block[0] = z->block[i];
    /* Cannot fail: has succeeded with all slots. */
    if (s->llama)
        (void)sizes_kv_rows(one, 0, a->n_slots, a->n_ctx, &a->rows, true, &kv);
    else
        (void)sizes_kv_paged(one, a->n_slots, a->n_ctx, n_rows, &a->rows, &kv);
    free(one);
    return z->block[i].dense + (experts ? z->block[i].experts : 0) + kv +
           (uint64_t)(z->block[i].state * a->n_slots) * sizeof(float);
}

/* Tries the split with n_cpu blocks on the CPU and returns whether every card has room. */
static bool try_split(struct plan_split *s, const struct sizes *z, const struct fit_ask *a,
                      int64_t n_rows, int n_cpu) {
    struct split p = {.n_cards = s->n_cards, .n_layers = z->n_blocks};
    const uint64_t activations = (uint64_t)(z->reg_floats * n_rows) * sizeof(float);
    p.layer = xcalloc((size_t)z->n_blocks + 1, sizeof *p.layer);
    s->n_cpu_experts = n_cpu;
    for (int c = 0; c < s->n_cards; c++) {
        const uint64_t keep = s->reserve + (c == 0 ? s->projector : 0);
        p.card[c] = (struct split_card){.have = s->memory[c] > keep ? s->memory[c] - keep : 0,
                                        .fixed = s->llama ? fit_compute(z) : activations,
                                        .first = s->llama ? 0 : z->embd,
                                        .last = z->output + z->tied_head + (s->llama ? z->mtp : 0)};
    }
    for (int i = 0; i < z->n_blocks; i++) {
        const uint64_t n = block_bytes(s, z, a, n_rows, i);
        p.layer[i].want = SPLIT_FREE;
        for (int c = 0; c < s->n_cards; c++) p.layer[i].bytes[c] = n;
    }
    s->fits = split_layers(&p, s->card_of);
    for (int c = 0; c < s->n_cards; c++) {
        const uint64_t n = split_bytes(&p, s->card_of, c);
        s->used[c] = n ? n + p.card[c].fixed : 0;
    }
    /* One copy serves as embeddings and head. */
    if (!s->llama && s->card_of[0] == s->card_of[z->n_blocks - 1])
        s->used[s->card_of[0]] -= z->tied_head;
    free(p.layer);
    return s->fits;
}

/* Splits the model with as few experts in main memory as possible. */
static void split_model(struct plan_split *s, const struct sizes *z, const struct fit_ask *a,
                        int64_t n_rows) {
    const int most = sizes_has_experts(z) ? z->n_blocks : 0;
    for (int n = 0; n <= most; n++)
        if (try_split(s, z, a, n_rows, n)) return;
    (void)try_split(s, z, a, n_rows, 0);
}

/* Puts as many of the last blocks on the cards as fit, split as llama.cpp does, with the experts of
 * a model in main memory. Returns the number of blocks; 0: none fits. */
static int split_last(struct plan_split *s, const struct sizes *z, const struct fit_ask *a) {
    struct plan_split *t = xcalloc(1, sizeof *t);
    struct sizes *last = xcalloc(1, sizeof *last);
    int n = z->n_blocks - 1;
    for (bool fits = false; n > 0 && !fits; n -= !fits) {
        *t = *s;
        *last = *z;
        t->llama = true;
        last->n_blocks = n;
        memmove(last->block, z->block + z->n_blocks - n, (size_t)n * sizeof *z->block);
        fits = try_split(t, last, a, PLAN_PASS, sizes_has_experts(z) ? n : 0);
    }
    if (n > 0) {
        *s = *t;
        memset(s->card_of, SPLIT_FREE, (size_t)(z->n_blocks - n));
        memcpy(s->card_of + z->n_blocks - n, t->card_of, (size_t)n);
    }
    free(last);
    free(t);
    return n;
}

enum { CTX_STEP = 256 };

/* Returns the longest context up to `most` with which all weights fit on the cards; 0: none. */
static int64_t longest_ctx(const struct plan_split *s, const struct sizes *z,
                           const struct fit_ask *a, int64_t most) {
    struct plan_split *t = xcalloc(1, sizeof *t);
    struct fit_ask ask = *a;
    int64_t lo = 0, hi = div_up(most, CTX_STEP);
    *t = *s;
    while (lo < hi) {
        const int64_t mid = lo + (hi - lo + 1) / 2;
        ask.n_ctx = min_i64(mid * CTX_STEP, most);
        if (try_split(t, z, &ask, PLAN_PASS, 0))
            lo = mid;
        else
            hi = mid - 1;
    }
    free(t);
    return min_i64(lo * CTX_STEP, most);
}

/* Returns the bytes used on all cards. */
static uint64_t used(const struct plan_split *s) {
    uint64_t sum = 0;
    for (int i = 0; i < s->n_cards; i++) sum += s->used[i];
    return sum;
}

bool plan_split_fit(struct plan_split *s, const struct sizes *z, const struct fit_ask *a,
                    struct fit *f) {
    if (!fit_find(z, a, f)) return false;
    if (f->way == FIT_NONE)
        (void)fit_use(z, a, 0, 0, &f->use); /* for the memory that the whole model needs */
    if (s->n_cards < 2) return true;
    f->max_ctx = longest_ctx(s, z, a, max_i64(z->n_ctx_train, a->n_ctx));
    split_model(s, z, a, PLAN_PASS);
    const uint64_t whole = used(s);
    f->way = !s->fits ? FIT_BLOCKS : s->n_cpu_experts ? FIT_EXPERTS : FIT_ALL;
    f->n = s->fits ? s->n_cpu_experts : split_last(s, z, a);
    if (!f->n && f->way == FIT_BLOCKS) f->way = FIT_NONE;
    f->use.total = used(s);
    f->host = f->way == FIT_BLOCKS ? z->embd + whole - f->use.total : 0;
    for (int i = 0; i < f->n && f->way == FIT_EXPERTS; i++)
        f->host += z->block[z->n_blocks - 1 - i].experts;
    return true;
}

bool plan_split_llama(const struct plan_split *s, const struct sizes *z, const struct fit_ask *a,
                      struct plan_split *out) {
    *out = *s;
    out->llama = true;
    split_model(out, z, a, PLAN_PASS);
    return out->fits;
}

int plan_split_layers(const struct plan_split *s, const struct sizes *z, int card) {
    int n = 0;
    for (int i = 0; i < z->n_blocks; i++) n += s->card_of[i] == card;
    return s->card_of[z->n_blocks - 1] == card ? n + z->n_mtp + 1 : n;
}

/* Appends the blocks of a card: "0-15,20". */
static void blocks_of(const struct plan_split *s, const struct sizes *z, int card, struct buf *b) {
    for (int i = 0; i < z->n_blocks; i++) {
        const int from = i;
        if (s->card_of[i] != card) continue;
        while (i + 1 < z->n_blocks && s->card_of[i + 1] == card) i++;
        buf_fmt(b, i > from ? "%s%d-%d" : "%s%d", b->len ? "," : "", from, i);
    }
    if (!b->len) buf_str(b, "-");
}

void plan_split_emit(struct emit *m, const struct plan_split *s, const struct sizes *z) {
    emit_table(m, "cards", "blocks by card");
    emit_col(m, "card", "card");
    emit_col(m, "blocks", "blocks");
    emit_col(m, "vram_bytes", "card bytes");
    emit_col(m, "used_bytes", "bytes used");
    for (int c = 0; c < s->n_cards; c++) {
        struct buf b = {0};
        blocks_of(s, z, c, &b);
        emit_row(m);
        emit_cell_i64(m, c);
        emit_cell_str(m, b.data);
        emit_cell_i64(m, (int64_t)s->memory[c]);
        emit_cell_i64(m, (int64_t)s->used[c]);
        buf_release(&b);
    }
}
