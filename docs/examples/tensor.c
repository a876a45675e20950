// SPDX-License-Identifier: MIT
/* tensor.c - prints the shape, type and statistics of a tensor, which it reads row by row.
 *
 *     cc tensor.c $(pkg-config --cflags --libs hone) -lm -o tensor
 *     ./tensor MODEL.gguf blk.0.attn_q.weight */
#include <hone.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    struct hone_error e = {0};
    struct hone_gguf *g = NULL;
    struct hone_tensor t = {.size = sizeof t};
    struct hone_type type = {.size = sizeof type};
    if (argc != 3) return fprintf(stderr, "usage: %s MODEL.gguf TENSOR\n", argv[0]), 2;
    int rc = hone_gguf_open(&g, argv[1], NULL, &e);
    if (!rc) rc = hone_gguf_find_tensor(g, argv[2], &t, &e);
    if (!rc) rc = hone_type_by_id(t.type, &type, &e);
    if (!rc) rc = hone_gguf_check(g, &t, &e); /* NaN, infinity */
    const int64_t rows = t.ne[1] * t.ne[2] * t.ne[3];
    double sum = 0, squares = 0;
    float largest = 0, *x = rc ? NULL : malloc((size_t)t.ne[0] * sizeof *x);
    if (!rc && !x) rc = HONE_SYSTEM, snprintf(e.message, sizeof e.message, "no memory for a row");
    for (int64_t i = 0; x && i < rows && !rc; i++) {
        rc = hone_tensor_read(&t, i, 1, x, &e);
        for (int64_t k = 0; k < t.ne[0] && !rc; k++) {
            sum += (double)x[k];
            squares += (double)x[k] * (double)x[k];
            largest = fmaxf(largest, fabsf(x[k]));
        }
    }
    if (rc) {
        fprintf(stderr, "tensor: %s\n", e.message);
    } else {
        const double n = (double)(rows * t.ne[0]);
        printf("%s: %s, %lld x %lld, mean %.6f, rms %.6f, largest %.6f\n", t.name, type.name,
               (long long)rows, (long long)t.ne[0], sum / n, sqrt(squares / n), (double)largest);
    }
    free(x);
    hone_gguf_close(g);
    return rc;
}
