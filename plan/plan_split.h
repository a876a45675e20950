// SPDX-License-Identifier: MIT
/* plan/plan_split.h - hone plan --vram A,B,...: which blocks of a model would lie on which card. */
#ifndef HONE_PLAN_PLAN_SPLIT_H
#define HONE_PLAN_PLAN_SPLIT_H

#include "base/buf.h"
#include "base/emit.h"
#include "models/fit.h"
#include "models/split.h"

enum { PLAN_PASS = 512 }; /* rows of a pass, unless the user chooses otherwise */
struct plan_split {
    int n_cards;                  /* 0: not asked for */
    uint64_t memory[SPLIT_CARDS]; /* of each card */
    uint64_t reserve;             /* of each, to keep free */
    uint64_t used[SPLIT_CARDS];   /* of each card, with passes of PLAN_PASS rows */
    uint8_t card_of[HP_MAX_LAYERS];
    int n_cpu_experts; /* experts of so many last blocks stay in main memory */
    bool fits;
};

/* Reads "24GiB,16GiB". ERR_USAGE: no sizes, or more than SPLIT_CARDS. */
int plan_split_parse(struct plan_split *s, const char *text, struct err *e);
/* Finds what part of a model fits: with one card like fit_find, with several as hone would split
 * it, which also fills the rest of s. Returns what fit_find returns. */
bool plan_split_fit(struct plan_split *s, const struct sizes *z, const struct fit_ask *a,
                    struct fit *f);
/* Refuses with ERR_USAGE a reserve that leaves nothing of any card. */
int plan_split_check(const struct plan_split *s, struct err *e);
/* Warns that --ctx is more than a model was trained for. */
void plan_warn_trained(int64_t n_ctx_train);
/* Appends "6.7 MiB of 24.0 GiB", or "21.3 of 24.0 GiB". */
void plan_of_memory(struct buf *b, uint64_t used, uint64_t memory);
void plan_split_emit(struct emit *m, const struct plan_split *s, const struct sizes *z);

#endif
