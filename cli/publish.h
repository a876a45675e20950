// SPDX-License-Identifier: MIT
/* cli/publish.h - a folder of finished files made ready for others (hone publish, end of hone
 * make). */
#ifndef HONE_CLI_PUBLISH_H
#define HONE_CLI_PUBLISH_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"

struct publish_opts {
    const char *dir;
    const char *source; /* Hugging Face folder whose license and config are copied, or NULL */
    const char *repo, *quantized_by, *base_model, *license; /* NULL: from the files */
    const char *supersedes; /* manifest.json of the release this one replaces, or NULL */
    bool overwrite;         /* also files that were edited since */
    bool manifest_only;     /* manifest.json and SHA256SUMS, nothing else */
};
struct publish_report {
    int n_models, n_written, n_listed;
    uint64_t n_bytes; /* of all listed files */
};
int publish_folder(const struct publish_opts *o, struct publish_report *r, struct err *e);

#endif
