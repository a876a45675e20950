// SPDX-License-Identifier: MIT
/* tests/fuzz/fuzz_tokfiles.c - tokenizer files in all formats: the input is a tokenizer file, a
 * text and the folder's other files, separated by NUL. The first byte selects the format: 't'
 * tiktoken, 'k' tekken.json, anything else tokenizer.json. The tokenizer is built; the text is
 * encoded and decoded. Ids must be tokens. */
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/json.h"
#include "base/log.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/parts.h"
#include "tok/tok.h"

enum { CONFIG, MODEL, GENERATION, ADDED, MAP, N_JSON, ROWS = 400 };

static void use(const struct tok *t, struct part text) {
    struct ids ids = {0};
    struct buf out = {0};
    struct err e;
    if (tok_encode(t, text.s, text.n, true, true, &ids, &e) == 0) {
        for (int64_t i = 0; i < ids.n; i++)
            if (ids.v[i] < 0 || ids.v[i] >= tok_n_vocab(t)) abort();
        tok_decode_text(t, ids.v, ids.n, true, &out);
    }
    ids_release(&ids);
    buf_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!size) return 0;
    const char *s = (const char *)data + 1, *end = (const char *)data + size;
    static const char *const names[] = {"qwen.tiktoken", "tiktoken.model", "hy.tiktoken",
                                        "x.tiktoken"};
    struct json *j[N_JSON] = {NULL}, *whole = NULL;
    struct tok *t;
    struct err e;
    log_set_level(LOG_ERROR);
    const struct part first = next_part(&s, end, 0, SIZE_MAX),
                      text = next_part(&s, end, 0, SIZE_MAX);
    for (int i = 0; i < N_JSON; i++) {
        const struct part p = next_part(&s, end, 0, SIZE_MAX);
        if (p.n && json_parse_py(&j[i], p.s, p.n, "file", &e)) j[i] = NULL;
    }
    struct tok_files f = {.config = j[CONFIG],
                          .model = j[MODEL],
                          .generation = j[GENERATION],
                          .added = j[ADDED],
                          .map = j[MAP]};
    if (data[0] == 't') {
        f.tiktoken = first.s, f.tiktoken_len = first.n;
        f.tiktoken_name = names[first.n % COUNT_OF(names)];
    } else if (data[0] == 'k') {
        f.tekken = first.s, f.tekken_len = first.n;
    } else if (json_parse_py(&whole, first.s, first.n, "tokenizer.json", &e) == 0) {
        f.tokenizer = whole;
    }
    const bool any = f.tiktoken || f.tekken || f.tokenizer;
    if (any && tok_from_files(&t, &f, data[0] == 't' ? 0 : ROWS, NULL, &e) == 0) {
        use(t, text);
        tok_free(t);
    }
    for (int i = 0; i < N_JSON; i++) json_free(j[i]);
    json_free(whole);
    return 0;
}
