// SPDX-License-Identifier: MIT
/* make/rates.h - how fast this machine is at what `hone make` does, measured in a few seconds:
 * passes of the model itself where it is there, else products of its shapes; the encoders on random
 * rows, with error feedback too. */
#ifndef HONE_MAKE_RATES_H
#define HONE_MAKE_RATES_H

#include "make/make.h"
#include "work/shapes.h"

struct rates {                    /* seconds, with all threads of the job */
    double window;                /* one evaluation window of one file */
    double calib_token;           /* importance matrix */
    double gram_token;            /* second moments, in addition */
    double encode[QT_COUNT];      /* a weight, fast search; 0: not a candidate */
    double encode_best[QT_COUNT]; /* best search */
    double feedback_tensor;       /* finding the shrinkage, a tensor and type, widest columns */
    double feedback_weight;       /* a weight with error feedback, mean of types */
    double bandwidth;             /* bytes per second that are read */
    int64_t calib_tokens, eval_tokens, probe_tokens;
};
/* Returns the number of columns of the rows that are timed. */
int64_t rates_columns(const struct shapes *s);
/* Measures how long the parts of the job take on this machine. The path `base` is a converted
 * model, which is run where that is worth it; NULL: products of its shapes are timed instead. */
int rates_measure(struct rates *r, struct make *mk, const struct shapes *s, const char *base,
                  struct err *e);

#endif
