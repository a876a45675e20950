// SPDX-License-Identifier: MIT
/* tests/fuzz/fuzz_published.c - the text files of a published folder, as publish --check reads
 * them: Modelfile, params, model.yaml, README.md, SHA256SUMS, manifest.json. */
#include "report/lint.h"
#include "tests/fuzz/folder.h"

static const char *const names[] = {"Modelfile",  "params",        "model.yaml", "README.md",
                                    "SHA256SUMS", "manifest.json", NULL};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct lint l = {0};
    struct err e;
    fuzz_dir_begin(names);
    fuzz_dir_fill(data, size);
    l.dir = fuzz_dir;
    lint_card(&l);
    lint_ollama(&l);
    (void)lint_sums(&l, &e);
    lint_release(&l);
    return 0;
}
