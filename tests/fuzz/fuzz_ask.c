// SPDX-License-Identifier: MIT
/* Request bodies: whatever they contain, every API parses them without a fault or rejects them with
 * a status, and the messages that it makes of them are JSON. The first byte chooses the API. */
#include <stdlib.h>
#include <string.h>

#include "serve/reply.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const struct api *const apis[] = {&api_chat,     &api_text,        &api_messages,
                                             &api_count,    &api_ollama_chat, &api_ollama_text,
                                             &api_responses};
    static const struct sample_opts usual = {.temp = 1};
    if (size < 2) return 0;
    const struct api *api = apis[data[0] % COUNT_OF(apis)];
    char *text = malloc(size); /* exactly sized, so that a read past the end is detected */
    struct json *j = NULL, *conv = NULL;
    struct fault f = {0};
    struct ask a;
    struct err e;
    if (!text) return 0;
    memcpy(text, data + 1, size - 1);
    ask_init(&a, &usual, -1, -1);
    if (json_parse(&j, text, size - 1, "body", &e) == 0 && json_type(j) == JSON_OBJ) {
        const int rc = api->read(&a, j, &f);
        if (rc && (rc < 400 || !f.msg[0])) abort();
        if (!rc && !a.conv && !a.n_prompts && !a.nothing) abort();
        if (!rc && a.conv && json_parse(&conv, a.conv, strlen(a.conv), "conversation", &e)) abort();
        if (!rc && a.tools && !strstr(a.tools, "function")) abort();
    }
    json_free(conv);
    json_free(j);
    ask_release(&a);
    free(text);
    return 0;
}
