// SPDX-License-Identifier: MIT
/* tests/fuzz/fuzz_sens.c - sensitivity files for a small model: reads one and solves a mix with it.
 * The model's hash is "0" here, so that inputs can contain it. */
#include "mix/sens.h"
#include "tests/fuzz/folder.h"

static const char *const names[] = {"model.gguf", "sens.json", NULL};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct gguf *g;
    char path[200];
    struct err e;
    struct sens s;
    struct sens_mix m;
    fuzz_dir_begin(names);
    if (!g && gguf_open(&g, fuzz_model(path), 0, &e)) abort();
    snprintf(path, sizeof path, "%s/sens.json", fuzz_dir);
    fuzz_dir_put("sens.json", data, size);
    if (sens_init(&s, g, &e)) abort();
    snprintf(s.header_hash, sizeof s.header_hash, "0");
    struct sens_ask ask = {.tensor_bytes = 600000, .budget = 620000, .floors = true};
    if (sens_read(&s, path, &e) == 0 && sens_solve(&s, &ask, &m, &e) == 0) sens_mix_release(&m);
    sens_release(&s);
    return 0;
}
