// SPDX-License-Identifier: MIT
/* containers/gguf_name.c - parts of GGUF file names, by the usual convention. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "containers/gguf.h"

/* Encodings in file names that the Hub recognises, in addition to the names of general.file_type:
 * larger and smaller variants end in _XL, _L, _M, _S, _XS, _XXS. */
static const char *const stems[] = {"Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "Q8_K", "IQ1",
                                    "IQ2",  "IQ3",  "IQ4",  "TQ1",  "TQ2",  "Q4_0", "Q4_1",
                                    "Q5_0", "Q5_1", "Q8_0", "BF16", "F16",  "F32",  "MXFP4"};
static const char *const tails[] = {"",     "_S",  "_M", "_L",   "_XL", "_XS",
                                    "_XXS", "_NL", "_0", "_MOE", "_XXL"};

/* Returns whether s is the name of a quantization, such as Q4_K_M. */
static bool known_encoding(const char *s) {
    for (size_t i = 0; i < sizeof stems / sizeof *stems; i++) {
        size_t n = strlen(stems[i]);
        if (strncasecmp(s, stems[i], n) != 0) continue;
        for (size_t k = 0; k < sizeof tails / sizeof *tails; k++)
            if (strcasecmp(s + n, tails[k]) == 0) return stems[i][0] != 'I' || s[n];
    }
    return false;
}

char *gguf_stem(const char *file) {
    int i, n;
    size_t len = strlen(file);
    if (!gguf_split_parse(file, &i, &n, &len) && len > 5 && strcmp(file + len - 5, ".gguf") == 0)
        len -= 5;
    return xstrndup(file, len);
}

bool gguf_name_encoding(const char *file, char out[32]) {
    char *stem = gguf_stem(file);
    size_t n = strlen(stem);
    out[0] = 0;
    while (n > 0 && stem[n - 1] != '-' && stem[n - 1] != '.') n--;
    const char *part = stem + n;
    bool ok = strlen(part) < 31 && known_encoding(part);
    if (ok)
        for (size_t i = 0; i <= strlen(part); i++)
            out[i] = (char)(part[i] >= 'a' && part[i] <= 'z' ? part[i] - 32 : part[i]);
    free(stem);
    return ok;
}
