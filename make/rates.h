// SPDX-License-Identifier: MIT
/* make/rates.h - speed of this machine at the work of `hone make`, measured in a few seconds:
 * passes of the model itself if it is available, else products of its shapes; encoders on random
 * rows, also with error feedback. */
#ifndef HONE_MAKE_RATES_H
#define HONE_MAKE_RATES_H

#include "make/make.h"
#include "work/shapes.h"

struct rates {                    /* seconds, with all threads of the job */
    double window;                /* one evaluation window of one file */
    double calib_token;           /* importance matrix */
    double gram_token;            /* extra cost of second moments */
    double encode[QT_COUNT];      /* per weight, fast search; 0: not a candidate */
    double encode_best[QT_COUNT]; /* per weight, best search */
    double feedback_tensor;       /* choosing the shrinkage, per tensor and type, widest columns */
    double feedback_weight;       /* per weight with error feedback, mean of types */
    double bandwidth;             /* memory read, bytes per second */
    int64_t calib_tokens, eval_tokens, probe_tokens;
};
/* Returns the number of columns of the timed rows. */
int64_t rates_columns(const struct shapes *s);
/* Measures the speed of the job's parts on this machine. `base` is the path of a converted model,
 * which is run if worthwhile; NULL: products of its shapes are timed instead. */
int rates_measure(struct rates *r, struct make *mk, const struct shapes *s, const char *base,
                  struct err *e);

#endif
