// SPDX-License-Identifier: MIT
/* tests/unit/with.h - a model with one weight replaced. */
#ifndef HONE_TESTS_WITH_H
#define HONE_TESTS_WITH_H

#include "runtime/engine/model.h"
#include "tests/check.h"

/* Returns a model with one weight replaced. `data` is released with the last reference to the
 * weight; release NULL: it is borrowed. */
static inline struct model *with_weight(const struct model *of, const char *name, void *data,
                                        enum qtype type, void (*release)(void *)) {
    struct err e = {0};
    struct weight w = {0};
    struct model *m = NULL;
    const struct model_change c = {name, &w};
    CHECK_OK(weight_given(&w, model_find_weight(of, name), name, data, type, release, &e));
    CHECK_OK(model_with(&m, of, &c, 1, &e));
    weight_drop(&w);
    return m;
}

#endif
