// SPDX-License-Identifier: MIT
/* runtime/measure/caches.h - comparison of KV cache types on synthetic attention. */
#ifndef HONE_RUNTIME_MEASURE_CACHES_H
#define HONE_RUNTIME_MEASURE_CACHES_H

#include "work/work.h"

#include "commands/members.h"
struct caches_opts {
#include "commands/eval_kv.def"
};
extern const struct caches_opts eval_caches_usual;
/* Fills m with one row per head size, depth and type. */
int eval_caches_run(struct work *w, const struct caches_opts *o, struct emit *m, struct err *e);

#endif
