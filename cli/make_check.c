// SPDX-License-Identifier: MIT
/* cli/make_check.c - what of a job's inputs can be known to be wrong before hours of work: texts
 * that are none, models that cannot be converted or run, tokenizers that are not known. Steps find
 * the rest when they open what they need. */
#include "cli/make.h"
#include "core/gguf.h"
#include "core/io.h"
#include "runtime/model.h"
#include "text/textfile.h"
#include "text/tok.h"

static int check_gguf(const char *path, struct err *e) {
    struct gguf *g;
    TRY(gguf_open(&g, path, 0, e));
    int rc = model_computes(g, e);
    if (rc) {
        const struct err why = *e;
        err_set(e, ERR_DATA,
                "%.500s; make measures what it makes, so it cannot start; without measurements "
                "`hone quantize %.160s -o DIR --recipe Q8_0,Q6_K,Q5_K_M,Q4_K_M` and `hone publish "
                "DIR` give a folder",
                why.msg, path);
    }
    if (!rc) rc = tok_gguf_known(g, e);
    gguf_close(g);
    return rc;
}

int make_check_source(const char *src, struct err *e) {
    if (!io_exists(src)) return err_set(e, ERR_USAGE, "%s: no such folder or file", src);
    return io_is_dir(src) ? 0 : check_gguf(src, e); /* a folder is converted first, in minutes */
}

int make_check_texts(const struct str_list *l, struct err *e) {
    for (int i = 0; i < l->n; i++) TRY(text_check_file(l->v[i], e));
    return 0;
}
