// SPDX-License-Identifier: MIT
/* tests/fuzz/fuzz_plan.c - plan files (tensor, type) for a small model: writing and rereading a
 * plan must give the same plan. */
#include "quantize/qplan.h"
#include "tests/fuzz/folder.h"

static const char *const names[] = {"model.gguf", "plan.tsv", "again.tsv", NULL};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct gguf *g;
    char path[200], plan[200], again[200];
    struct err e;
    fuzz_dir_begin(names);
    if (!g && gguf_open(&g, fuzz_model(path), 0, &e)) abort();
    snprintf(plan, sizeof plan, "%s/plan.tsv", fuzz_dir);
    snprintf(again, sizeof again, "%s/again.tsv", fuzz_dir);
    fuzz_dir_put("plan.tsv", data, size);
    struct quantize_opts o = {.recipe = plan}, o2 = {.recipe = again};
    struct qplan p, q;
    if (qplan_make(&p, g, &o, &e)) return 0;
    if (qplan_write(&p, again, true, &e) || qplan_make(&q, g, &o2, &e)) abort();
    for (int64_t i = 0; i < p.n; i++)
        if (p.item[i].type != q.item[i].type) abort();
    qplan_release(&p);
    qplan_release(&q);
    return 0;
}
