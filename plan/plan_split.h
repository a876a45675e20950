// SPDX-License-Identifier: MIT
/* plan/plan_split.h - hone plan --vram A,B,...: a model split over several cards. */
#ifndef HONE_PLAN_PLAN_SPLIT_H
#define HONE_PLAN_PLAN_SPLIT_H

#include "base/buf.h"
#include "base/emit.h"
#include "models/fit.h"
#include "models/split.h"

enum { PLAN_PASS = 512 }; /* rows per pass, unless the user sets the number */
struct plan_split {
    int n_cards;                    /* 0: not requested */
    uint64_t memory[SPLIT_CARDS];   /* bytes on each card */
    uint64_t reserve;               /* bytes to keep free on each card */
    uint64_t projector;             /* bytes of a projector on the first card, not part of used */
    uint64_t used[SPLIT_CARDS];     /* bytes used on each card, with passes of PLAN_PASS rows */
    uint8_t card_of[HP_MAX_LAYERS]; /* SPLIT_FREE: the block is in main memory */
    int n_cpu_experts; /* number of blocks, from the end, whose experts stay in main memory */
    bool llama;        /* split as llama.cpp does: n_cpu_experts counts from the start, embeddings
                          stay in main memory, MTP blocks are on the head's card */
    bool fits;
};

/* Parses "24GiB,16GiB". ERR_USAGE: not sizes, or more than SPLIT_CARDS. */
int plan_split_parse(struct plan_split *s, const char *text, struct err *e);
/* Finds the part of a model that fits. One card: the same as fit_find. Several cards: splits the
 * model as the runtime would, or as llama.cpp does if only blocks of it fit, and fills the rest of
 * s. Returns the result of fit_find. */
bool plan_split_fit(struct plan_split *s, const struct sizes *z, const struct fit_ask *a,
                    struct fit *f);
/* Splits the model over the cards of s as llama.cpp does, with as few experts in main memory as
 * possible. Returns whether it fits. */
bool plan_split_llama(const struct plan_split *s, const struct sizes *z, const struct fit_ask *a,
                      struct plan_split *out);
/* Returns a card's number of blocks as llama.cpp's -ts counts them, with MTP blocks and head. */
int plan_split_layers(const struct plan_split *s, const struct sizes *z, int card);
/* Returns ERR_USAGE if the reserve exceeds the memory of every card. */
int plan_split_check(const struct plan_split *s, struct err *e);
/* Warns that --ctx exceeds the trained context: that of the model or, if `one` is set, the shortest
 * of several models. */
void plan_warn_trained(int64_t n_ctx_train, bool one);
/* Appends "6.7 MiB of 24.0 GiB", or "21.3 of 24.0 GiB". */
void plan_of_memory(struct buf *b, uint64_t used, uint64_t memory);
/* Appends "; usable are 26.2 of 30.0 MiB". */
void plan_usable(struct buf *b, const struct fit_ask *a);
/* Appends how much of the model is in main memory, if it fits only in part. */
void plan_host_memory(struct buf *b, const struct fit *f);
/* Adds the table of blocks and bytes by card. */
void plan_split_emit(struct emit *m, const struct plan_split *s, const struct sizes *z);

#endif
