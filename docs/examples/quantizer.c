// SPDX-License-Identifier: MIT
/* quantizer.c - a custom quantizer that chooses the type of each matrix by a rule.
 *
 *     cc quantizer.c $(pkg-config --cflags --libs hone) -o quantizer
 *     ./quantizer IN.gguf OUT.gguf */
#include <hone.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Chooses Q4_K (12) for a block's matrices, Q8_0 (8) for others; vectors keep their type. */
static int type_for(const struct hone_tensor *t) {
    int type = strstr(t->name, "blk.") && hone_type_row_bytes(12, t->ne[0]) ? 12 : 8;
    if (t->n_dims < 2 || strstr(t->name, "norm") || strstr(t->name, "conv")) type = t->type;
    return hone_type_row_bytes(type, t->ne[0]) ? type : t->type;
}

/* Writes one tensor, the next one that the writer expects. */
static int put(struct hone_writer *w, struct hone_quantizer *q, const struct hone_tensor *t,
               struct hone_error *e) {
    const int64_t cols = t->ne[0], rows = t->ne[1] * t->ne[2] * t->ne[3];
    const int type = type_for(t);
    if (type == t->type) return hone_writer_data(w, t->data, t->n_bytes, e);
    const uint64_t n = (uint64_t)rows * hone_type_row_bytes(type, cols);
    float *x = malloc((size_t)(rows * cols) * sizeof *x);
    void *blocks = malloc(n);
    snprintf(e->message, sizeof e->message, "no memory for tensor %s", t->name);
    int rc = x && blocks ? hone_tensor_read(t, 0, rows, x, e) : HONE_SYSTEM;
    if (!rc) rc = hone_quantizer_rows(q, type, x, rows, cols, NULL, blocks, e);
    if (!rc) rc = hone_writer_data(w, blocks, n, e);
    free(x);
    free(blocks);
    return rc;
}

int main(int argc, char **argv) {
    struct hone_error e;
    struct hone_gguf *g = NULL;
    struct hone_writer *w = NULL;
    struct hone_quantizer *q = NULL;
    struct hone_tensor t = {.size = sizeof t};
    if (argc != 3) return fprintf(stderr, "usage: %s IN.gguf OUT.gguf\n", argv[0]), 2;
    int rc = hone_gguf_open(&g, argv[1], NULL, &e);
    if (!rc) rc = hone_quantizer_new(&q, NULL, &e);
    if (!rc) rc = hone_writer_new(&w, NULL, &e);
    if (!rc) rc = hone_writer_copy_keys(w, g, NULL, &e);
    const int64_t n = g ? hone_gguf_n_tensors(g) : 0;
    for (int64_t i = 0; i < n && !rc; i++)
        if (!(rc = hone_gguf_tensor(g, i, &t, &e)))
            rc = hone_writer_tensor(w, t.name, type_for(&t), t.n_dims, t.ne, &e);
    if (!rc) rc = hone_writer_begin(w, argv[2], 0, &e);
    for (int64_t i = 0; i < n && !rc; i++)
        if (!(rc = hone_gguf_tensor(g, i, &t, &e))) rc = put(w, q, &t, &e);
    if (!rc) rc = hone_writer_commit(w, &e);
    if (rc) fprintf(stderr, "quantizer: %s\n", e.message);
    hone_writer_free(w);
    hone_quantizer_free(q);
    hone_gguf_close(g);
    return rc;
}
