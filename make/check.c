// SPDX-License-Identifier: MIT
/* make/check.c - early checks of a job's inputs, so that these errors appear before hours of work:
 * files that are not texts, models that cannot be converted or run, unknown tokenizers. Steps
 * report the remaining errors when they open their inputs. */
#include <stdlib.h>
#include <string.h>

#include "make/make.h"
#include "work/open.h"
#include "convert/convert.h"
#include "containers/gguf.h"
#include "base/io.h"
#include "base/out.h"
#include "base/printable.h"
#include "base/log.h"
#include "models/arch.h"
#include "runtime/engine/model.h"
#include "tok/pretok.h"
#include "text/textfile.h"
#include "tok/tok.h"

/* Returns an error unless the GGUF is an unquantized model with a known tokenizer. Sets *unmeasured
 * if hone has names for its tensors, but cannot run it, and *draft to its kind of draft. */
static int check_gguf(const char *path, const char *pre, bool *unmeasured, const char **draft,
                      struct err *e) {
    struct gguf *g;
    TRY(gguf_open(&g, path, 0, e));
    const char *type = gguf_str_or(g, "general.type", "model");
    if (strcmp(type, "model") != 0) {
        err_set(e, ERR_DATA, "%s is not a model: its general.type is '%.40s'", path,
                show_n(type, strlen(type)).s);
        gguf_close(g);
        return ERR_DATA;
    }
    const char *arch = gguf_str_or(g, "general.architecture", "");
    const struct arch *a = arch_find_table(arch);
    *unmeasured = a && !arch_find(arch);
    *draft = a ? a->draft : NULL;
    int rc = *unmeasured ? 0 : model_computes(g, e);
    if (rc) {
        const struct err why = *e;
        err_set(e, ERR_DATA,
                "%.500s; hone make cannot start, since it measures its files; without measurements "
                "`hone quantize %.160s -o DIR --recipe Q8_0,Q6_K,Q5_K_M,Q4_K_M` and `hone publish "
                "DIR` make a folder",
                why.msg, path);
    }
    if (!rc && !*unmeasured) rc = tok_gguf_known_as(g, pre, e);
    gguf_close(g);
    return rc;
}

int make_check_source(const char *src, const char *pre, bool *unmeasured, const char **draft,
                      struct err *e) {
    if (!io_exists(src)) return err_set(e, ERR_USAGE, "%s: no such folder or file", src);
    TRY(gguf_name_folder(src, e));
    if (!io_is_dir(src)) return check_gguf(src, pre, unmeasured, draft, e);
    TRY(source_check(src, "make", true, e));
    bool runs;
    TRY(convert_known(src, &runs, draft, e));
    *unmeasured = !runs;
    return 0;
}

static const char pre_file[] = "pre";
enum { MAX_PRE = 256 };

int make_pre_recall(struct make *mk, const char *out, struct err *e) {
    char *state = job_work(out), *path = state ? io_join(state, pre_file) : NULL, *text = NULL;
    size_t len;
    int rc = 0;
    if (path && !mk->w->pre && io_exists(path)) {
        rc = io_read_file(&text, &len, path, MAX_PRE, e);
        if (!rc) mk->w->pre = arena_strdup(&mk->w->mem, text);
        if (!rc) log_info("using --pre %s, as before", mk->w->pre);
    }
    if (!rc && mk->w->pre && !pretok_by_name(mk->w->pre)) rc = pretok_unknown(mk->w->pre, e);
    free(text);
    free(path);
    free(state);
    return rc;
}

int make_pre_keep(const struct make *mk, struct err *e) {
    if (!mk->w->pre) return 0;
    char *path = io_join(mk->job.state, pre_file);
    int rc = out_write_again(path, mk->w->pre, strlen(mk->w->pre), true, e);
    free(path);
    return rc;
}

int make_check_texts(const struct str_list *l, struct err *e) {
    for (int i = 0; i < l->n; i++) TRY(text_check_file(l->v[i], e));
    return 0;
}
