// SPDX-License-Identifier: MIT
/* tests/fuzz/fuzz_hfdir.c - model folders of config.json, the index and one shard: opens the
 * folder, looks up parameters and the template, and plans the conversion. */
#include "convert/mmproj.h"
#include "containers/hfdir.h"
#include "base/log.h"
#include "tests/fuzz/folder.h"

static const char *const names[] = {"config.json", "tokenizer_config.json",
                                    "model.safetensors.index.json", "model.safetensors", NULL};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct hfdir *h;
    struct err e;
    const char *text;
    log_set_level(LOG_ERROR);
    fuzz_dir_begin(names);
    fuzz_dir_fill(data, size);
    if (hfdir_open(&h, fuzz_dir, &e) == 0) {
        (void)hfdir_hparam(h, "hidden_size|n_embd");
        (void)hfdir_chat_template(h, &text, &e);
        for (int64_t i = 0; i < hfdir_n_tensors(h); i++)
            if (!hfdir_find(h, hfdir_tensor_at(h, i)->name)) abort();
        hfdir_close(h);
    }
    struct convert_opts o = {.src = fuzz_dir, .type = "auto", .dry_run = true};
    struct convert_report r;
    (void)convert_run(&o, &r, &e);
    struct mmproj_report mr;
    (void)mmproj_run(&o, "none", &mr, &e);
    return 0;
}
