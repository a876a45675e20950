// SPDX-License-Identifier: MIT
/* tests/fuzz/fuzz_tokenizer.c - tokenizer.json files: the input is a tokenizer.json, a NUL, and a
 * text. The tokenizer is built, and the text is encoded and decoded. */
#include <string.h>

#include "base/json.h"
#include "tests/fuzz/fuzz.h"
#include "tok/tok.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
    size_t n = nul ? (size_t)(nul - data) : size, n_text = nul ? size - n - 1 : 0;
    const char *text = nul ? (const char *)nul + 1 : "";
    struct json *j;
    struct tok *t;
    struct ids ids = {0};
    struct buf out = {0};
    struct err e;
    if (json_parse(&j, (const char *)data, n, "t", &e)) return 0;
    if (tok_from_hf(&t, j, NULL, NULL, NULL, 300, NULL, &e) == 0) {
        if (tok_encode(t, text, n_text, true, true, &ids, &e) == 0)
            for (int64_t i = 0; i < ids.n; i++) tok_decode(t, ids.v[i], true, &out);
        tok_free(t);
    }
    ids_release(&ids);
    buf_release(&out);
    json_free(j);
    return 0;
}
