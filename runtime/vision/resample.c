// SPDX-License-Identifier: MIT
/* runtime/vision/resample.c - resizing 8-bit images, bit for bit as torch does on a CPU. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fp.h"
#include "base/mem.h"
#include "runtime/vision/decode.h"
#include "runtime/vision/prepare.h"

/* Returns the filter's weight at distance x from its centre. */
static double bilinear(double x) {
    x = fabs(x);
    return x < 1 ? 1 - x : 0;
}

/* Returns the filter's weight at distance x from its centre. */
static double bicubic(double x) {
    const double a = -0.5;
    x = fabs(x);
    if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

/* Returns sin(pi x) / (pi x). */
static double sinc(double x) {
    const double pi = 3.14159265358979323846;
    return x == 0 ? 1 : fp_sin(x * pi) / (x * pi);
}

/* Returns the filter's weight at distance x from its centre. */
static double lanczos(double x) {
    return x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0;
}

static const struct kernel {
    double (*weight)(double);
    double radius;
} kernels[] = {[FILTER_BILINEAR] = {bilinear, 1},
               [FILTER_BICUBIC] = {bicubic, 2},
               [FILTER_LANCZOS] = {lanczos, 3}};

/* The source pixels of each output pixel along one side. */
struct taps {
    int n_max; /* per output pixel */
    int shift; /* weights are scaled by 1 << shift */
    int *first, *n;
    double *exact;   /* [outputs][n_max] */
    int16_t *weight; /* the same, rounded */
};

static void taps_release(struct taps *t) {
    free(t->first);
    free(t->n);
    free(t->exact);
    free(t->weight);
}

/* Computes the weights of output pixel i; returns the largest. */
static double weigh(const struct kernel *k, int from, int to, int i, struct taps *t) {
    const double scale = (double)from / to, radius = scale > 1 ? k->radius * scale : k->radius,
                 inverse = scale > 1 ? 1 / scale : 1, centre = scale * (i + 0.5);
    const int low = (int)(centre - radius + 0.5), high = (int)(centre + radius + 0.5),
              first = low > 0 ? low : 0, n = (high < from ? high : from) - first;
    double *w = t->exact + (size_t)i * (size_t)t->n_max, sum = 0, largest = 0;
    for (int j = 0; j < n; j++) sum += w[j] = k->weight((j + first - centre + 0.5) * inverse);
    for (int j = 0; j < n && sum != 0; j++) w[j] /= sum;
    for (int j = 0; j < n; j++) largest = fmax(largest, w[j]);
    t->first[i] = first;
    t->n[i] = n;
    return largest;
}

/* Rounds the weights to 16 bits with as many fraction bits as the largest one allows. */
static void round_weights(struct taps *t, size_t n, double largest) {
    t->shift = 0;
    while (t->shift < 22 && (int)(0.5 + largest * (1 << (t->shift + 1))) < 1 << 15) t->shift++;
    for (size_t i = 0; i < n; i++)
        t->weight[i] = (int16_t)(t->exact[i] * (1 << t->shift) + (t->exact[i] < 0 ? -0.5 : 0.5));
}

/* Computes the source pixels and weights of each of `to` resized pixels. */
static int taps_make(struct taps *t, enum filter f, int from, int to, struct err *e) {
    const struct kernel *k = &kernels[f];
    const double radius = from > to ? k->radius * from / to : k->radius;
    const char *what = "weights for resizing an image";
    double largest = 0;
    t->n_max = 2 * (int)ceil(radius) + 1;
    const size_t n = (size_t)to * (size_t)t->n_max;
    if (!(t->first = try_calloc((size_t)to, sizeof *t->first, what, e)) ||
        !(t->n = try_calloc((size_t)to, sizeof *t->n, what, e)) ||
        !(t->exact = try_calloc(n, sizeof *t->exact, what, e)) ||
        !(t->weight = try_calloc(n, sizeof *t->weight, what, e)))
        return (int)e->code;
    for (int i = 0; i < to; i++) largest = fmax(largest, weigh(k, from, to, i, t));
    round_weights(t, n, largest);
    return 0;
}

/* Shifts a fixed-point sum to an integer and clamps it to 0..255. */
static uint8_t to_byte(int32_t sum, int shift) {
    sum >>= shift;
    return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

/* Resizes rows to to->w columns. */
static void resize_columns(const struct image *from, const struct taps *t, struct image *to) {
    for (int y = 0; y < to->h; y++) {
        const uint8_t *row = from->rgb + 3 * (size_t)y * (size_t)from->w;
        uint8_t *out = to->rgb + 3 * (size_t)y * (size_t)to->w;
        for (int x = 0; x < to->w; x++, out += 3) {
            const int16_t *w = t->weight + (size_t)x * (size_t)t->n_max;
            const uint8_t *p = row + 3 * (size_t)t->first[x];
            int32_t sum[3];
            for (int c = 0; c < 3; c++) sum[c] = t->shift ? 1 << (t->shift - 1) : 0;
            for (int j = 0; j < t->n[x]; j++)
                for (int c = 0; c < 3; c++) sum[c] += w[j] * *p++;
            for (int c = 0; c < 3; c++) out[c] = to_byte(sum[c], t->shift);
        }
    }
}

/* Resizes columns to to->h rows. sum: a row of sums. */
static void resize_rows(const struct image *from, const struct taps *t, int32_t *sum,
                        struct image *to) {
    const size_t n = 3 * (size_t)to->w;
    for (int y = 0; y < to->h; y++) {
        const int16_t *w = t->weight + (size_t)y * (size_t)t->n_max;
        const uint8_t *p = from->rgb + n * (size_t)t->first[y];
        uint8_t *out = to->rgb + n * (size_t)y;
        for (size_t i = 0; i < n; i++) sum[i] = t->shift ? 1 << (t->shift - 1) : 0;
        for (int j = 0; j < t->n[y]; j++, p += n)
            for (size_t i = 0; i < n; i++) sum[i] += w[j] * p[i];
        for (size_t i = 0; i < n; i++) out[i] = to_byte(sum[i], t->shift);
    }
}

/* Resizes an image to width w; *to is a new image. */
static int columns(const struct image *from, int w, enum filter f, struct image *to,
                   struct err *e) {
    struct taps t = {0};
    int rc = image_new(w, from->h, to, e);
    if (rc == 0) rc = taps_make(&t, f, from->w, w, e);
    if (rc == 0) resize_columns(from, &t, to);
    taps_release(&t);
    return rc;
}

/* Resizes an image to height h; *to is a new image. */
static int rows(const struct image *from, int h, enum filter f, struct image *to, struct err *e) {
    struct taps t = {0};
    int32_t *sum = NULL;
    int rc = image_new(from->w, h, to, e);
    if (rc == 0) rc = taps_make(&t, f, from->h, h, e);
    if (rc == 0) {
        sum = try_calloc(3 * (size_t)from->w, sizeof *sum, "a row of an image", e);
        rc = sum ? 0 : (int)e->code;
    }
    if (rc == 0) resize_rows(from, &t, sum, to);
    free(sum);
    taps_release(&t);
    return rc;
}

int image_resize(const struct image *from, int w, int h, enum filter f, struct image *to,
                 struct err *e) {
    struct image narrow = {0};
    int rc = columns(from, w, f, &narrow, e);
    if (rc == 0) rc = rows(&narrow, h, f, to, e);
    image_release(&narrow);
    if (rc) image_release(to);
    return rc;
}
