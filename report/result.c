// SPDX-License-Identifier: MIT
/* report/result.c - reading results.json into structs. */
#include "report/result.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { MAX_RESULTS = 64 << 20 };

static double number(const cJSON *o, const char *name) {
    return doc_num(o, name, (double)NAN);
}

static int64_t integer(const cJSON *o, const char *name) {
    int64_t v = 0;
    return doc_i64(o, name, &v) ? v : 0;
}

static const char *text(const cJSON *o, const char *name) {
    const char *s = doc_str(o, name);
    return s ? s : "";
}

static void read_file_row(struct result_file *f, const cJSON *o) {
    f->file = text(o, "file");
    f->recipe = text(o, "recipe");
    f->sha256 = text(o, "sha256");
    f->size_class = text(o, "size_class");
    f->made = text(o, "made");
    f->why = text(o, "why");
    f->feedback = doc_bool(o, "feedback", false);
    f->size_bytes = integer(o, "size_bytes");
    f->is_base = doc_bool(o, "is_base", false);
    f->bpw = number(o, "bpw");
    f->ppl = number(o, "ppl");
    f->ppl_stderr = number(o, "ppl_stderr");
    f->mean_kld = number(o, "mean_kld");
    f->mean_kld_stderr = number(o, "mean_kld_stderr");
    f->kld_p999 = number(o, "kld_p999");
    f->max_kld = number(o, "max_kld");
    f->same_top1 = number(o, "same_top1");
    f->rms_dp = number(o, "rms_dp");
    f->pp_tok_per_s = number(o, "pp_tok_per_s");
    f->tg_tok_per_s = number(o, "tg_tok_per_s");
    f->pp_stddev = number(o, "pp_tok_per_s_stddev");
    f->tg_stddev = number(o, "tg_tok_per_s_stddev");
    f->preset_kld = number(o, "preset_kld");
    f->types = doc_get(o, "types");
    f->by_depth = doc_get(o, "by_depth");
    f->speed = doc_get(o, "speed");
    f->tools_n = number(o, "tools_n");
    f->tools_valid = number(o, "tools_valid");
    f->tools_passed = number(o, "tools_passed");
    f->tools_same = number(o, "tools_same");
    f->tools_held = number(o, "tools_valid_constrained");
    const double drawn = number(o, "tools_constrained_tokens");
    f->tools_overruled =
        drawn > 0 ? 1000 * number(o, "tools_overruled_tokens") / drawn : (double)NAN;
    f->tools_places = doc_get(o, "tools_overruled");
}

int result_open(struct result *r, const char *path, struct err *e) {
    cJSON *root;
    memset(r, 0, sizeof *r);
    TRY(doc_read(&root, path, MAX_RESULTS, e));
    return result_take(r, root, path, e);
}

int result_take(struct result *r, cJSON *root, const char *path, struct err *e) {
    memset(r, 0, sizeof *r);
    r->root = root;
    const cJSON *model = doc_get(r->root, "model"), *ev = doc_get(r->root, "eval"),
                *im = doc_get(r->root, "imatrix"), *files = doc_get(r->root, "files");
    if (!cJSON_IsArray(files) || !cJSON_IsObject(model)) {
        result_close(r);
        return err_set(e, ERR_DATA, "%s: not a result file of hone make", path);
    }
    r->version = text(r->root, "hone_version");
    r->machine = text(r->root, "machine");
    r->notes = doc_get(r->root, "notes");
    r->left_out = doc_get(r->root, "left_out");
    r->facts = doc_get(r->root, "facts");
    r->base_type = text(r->root, "base_type");
    r->base_is_quantized = doc_bool(r->root, "base_is_quantized", false);
    r->name = text(model, "name");
    r->arch = text(model, "arch");
    r->arch_note = text(model, "arch_note");
    r->license = text(model, "license");
    r->base_name = text(model, "source");
    r->n_params = integer(model, "n_params");
    r->ctx = integer(model, "ctx");
    r->eval_ctx = integer(ev, "ctx");
    r->eval_tokens = integer(ev, "n_tokens");
    r->eval_chunks = integer(ev, "n_chunks");
    r->eval_texts = doc_get(ev, "texts");
    r->tools_suite = text(ev, "tools");
    r->pp = integer(ev, "pp");
    r->tg = integer(ev, "tg");
    r->calib_texts = doc_get(im, "texts");
    r->imatrix_chunks = integer(im, "n_chunks");
    r->imatrix_chunk_size = integer(im, "chunk_size");
    r->n_files = (int)cJSON_GetArraySize(files);
    r->file = xcalloc((size_t)r->n_files + 1, sizeof *r->file);
    int i = 0;
    for (const cJSON *f = doc_first(files); f; f = f->next) read_file_row(&r->file[i++], f);
    return 0;
}

void result_close(struct result *r) {
    cJSON_Delete(r->root);
    free(r->file);
    memset(r, 0, sizeof *r);
}

double result_budget(const struct result_file *f) {
    static const struct {
        const char *name;
        double bytes;
    } unit[] = {{"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30},
                {"K", 1e3},      {"M", 1e6},      {"G", 1e9}};
    char *end;
    if (strncmp(f->recipe, "mix-", 4) != 0) return 0;
    double v = strtod(f->recipe + 4, &end);
    for (size_t i = 0; i < sizeof unit / sizeof *unit; i++)
        if (strcmp(end, unit[i].name) == 0) return v * unit[i].bytes;
    return *end ? 0 : v;
}
