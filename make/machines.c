// SPDX-License-Identifier: MIT
/* make/machines.c - rates of machines with a GPU. The H200's products and encoders were measured
 * (docs/results/cuda-day.json: 42,366 tokens/s with four layers of Qwen3.5-35B-A3B in BF16, 0.9 ns
 * per weight for a file on 16 threads). Products of the other cards are scaled from these by the
 * vendors' figures for dense BF16 with f32 sums: 989, 165 and 71 TFLOP/s.
 *
 * Error feedback is computed, not measured: a stage of 128 rows takes about 2800 clock cycles per
 * column, by the latencies of the kernels' loads and divisions, and launches. Experts have stages
 * of about 32 rows, for which 16 threads are faster (../quantize/fb_tensor.c). */
#include "make/machines.h"

#include <math.h>

#include "base/attr.h"

static const struct machine_row rows[] = {
    /* fastest first */
    {"H200", 16, 127e9, 2.6e13, .9e-9, 200e9, 3e9, 15e-9},
    {"H100", 16, 72e9, 2.6e13, .9e-9, 200e9, 3e9, 15e-9},
    {"RTX 4090", 16, 21e9, 4.3e12, .9e-9, 60e9, 3e9, 12e-9},
    {"RTX 3090", 16, 21e9, 1.9e12, 1.2e-9, 60e9, 3e9, 17e-9},
};

const struct machine_row *machine_at(int i) {
    return i < (int)COUNT_OF(rows) ? &rows[i] : NULL;
}

void machine_rates(const struct machine_row *m, const struct rates *here,
                   const struct speeds *quiet, int threads, const struct shapes *s,
                   const struct estimate_opts *o, struct rates *out) {
    *out = *here;
    out->speeds = speeds_scaled(quiet, (double)m->threads / threads);
    out->memory = m->memory;
    out->disk = m->disk;
    rates_guess(out, s, o);
    /* Weights on the card are read only once. */
    const double on_card = fmin(1, m->card / fmax(1, (double)s->base_bytes));
    const double by_card = 1.3 * 2 * s->active / m->product;
    out->window = on_card * by_card * (double)o->eval_ctx + (1 - on_card) * out->window;
    /* With gradients, calibration stays on the processor. */
    if (s->gradients) out->gram_token += on_card * (out->calib_token - by_card);
    out->calib_token = on_card * by_card + (1 - on_card) * out->calib_token;
    for (int t = 0; t < QT_COUNT; t++)
        if (out->speeds.encode[t] > 0)
            out->speeds.encode[t] = fmin(out->speeds.encode[t], m->encode);
    for (int i = 0; i < 2 && m->fed > 0 && !s->model.experts; i++) {
        struct fed_speed *wide = &out->speeds.fed[FED_CODES][i],
                         *narrow = &out->speeds.fed[FED_NARROW][i];
        wide->weight = fmin(wide->weight, m->fed);
        narrow->weight = fmin(narrow->weight, m->fed);
    }
}

void machine_with_card(double card, const struct rates *here, int threads, const struct shapes *s,
                       const struct estimate_opts *o, struct rates *out) {
    struct machine_row m = rows[0];
    m.card = card;
    m.threads = threads;
    m.memory = here->memory;
    m.disk = here->disk;
    machine_rates(&m, here, &here->speeds, threads, s, o, out);
}
