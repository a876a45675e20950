// SPDX-License-Identifier: MIT
/* serve/ngram_draft.c - search for an earlier occurrence of the latest tokens, for n-gram
 * drafts. */
#include "serve/ngram_draft.h"

enum { ENOUGH = 32 /* match length at which the search stops */ };

int ngram_draft_guess(const int32_t *ids, int64_t n, int32_t *out, int most) {
    const int64_t last = n - 1, first = n > LOOKUP_BACK ? n - LOOKUP_BACK : 0;
    int64_t best = 0, at = 0;
    for (int64_t i = last - 1; i >= first && best < ENOUGH; i--) {
        int64_t same = 0;
        while (same <= i && same < ENOUGH && ids[i - same] == ids[last - same]) same++;
        if (same <= best) continue;
        best = same;
        at = i + 1;
    }
    if (best < LOOKUP_LEAST) return 0;
    int k = 0;
    for (; k < most && at + k < n && ids[at + k] >= 0; k++) out[k] = ids[at + k];
    return k;
}
