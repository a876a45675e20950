// SPDX-License-Identifier: MIT
/* report/compared.c - a release's own files in the results of hone versus, as results of the
 * release: for cards of folders that hone make did not measure. */
#include <math.h>

#include "report/versus.h"

/* Returns the row of a table that has this name; NULL: none. */
static const cJSON *row_named(const cJSON *root, const char *table, const char *name) {
    const cJSON *row = doc_first(doc_get(root, table));
    while (row && !doc_is(row, "name", name)) row = row->next;
    return row;
}

bool versus_result(struct result *out, const struct release *rel, const cJSON *root) {
    static const double least_bpw = 15; /* of a base that is not quantized */
    bool any = false;
    struct err ignored;
    cJSON *doc = doc_new();
    cJSON *model = doc_obj(doc, "model"), *files = doc_arr(doc, "files");
    doc_put_str(model, "name", rel->title);
    doc_put_str(model, "source", doc_str(root, "base"));
    doc_put_bool(doc, "base_is_quantized", doc_num(root, "base_bpw", least_bpw) < least_bpw);
    for (int i = 0; i < rel->n_files; i++) {
        const struct release_file *f = &rel->file[i];
        const cJSON *of = f->compared ? row_named(root, "files", f->compared) : NULL;
        if (!of || !isfinite(doc_num(of, "mean_kld", (double)NAN))) continue;
        cJSON *row = doc_obj(files, NULL);
        doc_put_str(row, "file", f->file);
        doc_put_str(row, "recipe", *f->encoding ? f->encoding : f->stem);
        doc_put_i64(row, "size_bytes", (int64_t)f->size_bytes);
        doc_put_num(row, "mean_kld", doc_num(of, "mean_kld", (double)NAN));
        doc_put_num(row, "mean_kld_stderr_windows", doc_num(of, "mean_kld_stderr", (double)NAN));
        doc_put_num(row, "same_top1", doc_num(of, "same_top1", (double)NAN));
        any = true;
    }
    if (any && doc_check(doc, &ignored) == 0) return result_take(out, doc, "versus", &ignored) == 0;
    cJSON_Delete(doc);
    return false;
}
