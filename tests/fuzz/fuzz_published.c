// SPDX-License-Identifier: MIT
/* tests/fuzz/fuzz_published.c - text files of a published folder, read as by publish --check:
 * Modelfile, params, model.yaml, README.md, SHA256SUMS, manifest.json; also facts read from a card
 * and a manifest. */
#include "containers/card_yaml.h"
#include "base/io.h"
#include "report/facts.h"
#include "report/folder_lint.h"
#include "tests/fuzz/folder.h"

static const char *const names[] = {"Modelfile",  "params",        "model.yaml", "README.md",
                                    "SHA256SUMS", "manifest.json", NULL};

static void read_facts(void) {
    char path[600], *text = NULL;
    size_t len = 0;
    int bad;
    struct err e;
    struct facts f;
    facts_init(&f);
    snprintf(path, sizeof path, "%s/README.md", fuzz_dir);
    if (io_read_file(&text, &len, path, 1 << 20, &e) == 0) {
        facts_from_card(&f, text, len, &bad);
        free(card_repo("/x/models--a--b/snapshots/c", text, len));
        (void)facts_source_repo(&f, fuzz_dir, text, len);
        free(text);
    }
    cJSON *root = doc_find(fuzz_dir, "manifest.json", 1 << 20);
    facts_from_json(&f, doc_get(root, "facts"));
    cJSON_Delete(root);
    facts_release(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct lint l = {0};
    struct err e;
    fuzz_dir_begin(names);
    fuzz_dir_fill(data, size);
    l.dir = fuzz_dir;
    lint_card(&l);
    lint_ollama(&l);
    (void)lint_sums(&l, &e);
    read_facts();
    lint_release(&l);
    return 0;
}
