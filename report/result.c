// SPDX-License-Identifier: MIT
/* report/result.c - reader of results.json. */
#include "report/result.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "containers/gguf.h"

enum { MAX_RESULTS = 64 << 20 };

/* Returns a number; NaN if it is missing. */
static double num_member(const cJSON *o, const char *name) {
    return doc_num(o, name, (double)NAN);
}

/* Returns an integer; 0 if it is missing. */
static int64_t int_member(const cJSON *o, const char *name) {
    int64_t v = 0;
    return doc_i64(o, name, &v) ? v : 0;
}

/* Returns a text; "" if it is missing. */
static const char *text_member(const cJSON *o, const char *name) {
    const char *s = doc_str(o, name);
    return s ? s : "";
}

static void read_file_row(struct result_file *f, const cJSON *o) {
    f->file = text_member(o, "file");
    f->recipe = text_member(o, "recipe");
    f->sha256 = text_member(o, "sha256");
    f->sample = text_member(o, "sample_xxh128");
    f->weights = text_member(o, "weights_xxh128");
    f->size_class = text_member(o, "size_class");
    f->made = text_member(o, "made");
    f->why = text_member(o, "why");
    f->feedback = doc_bool(o, "feedback", false);
    f->size_bytes = int_member(o, "size_bytes");
    f->is_base = doc_bool(o, "is_base", false);
    f->bpw = num_member(o, "bpw");
    f->ppl = num_member(o, "ppl");
    f->ppl_stderr = num_member(o, "ppl_stderr");
    f->mean_kld = num_member(o, "mean_kld");
    f->mean_kld_stderr = num_member(o, "mean_kld_stderr_windows");
    f->kld_p999 = num_member(o, "kld_p999");
    f->max_kld = num_member(o, "max_kld");
    f->same_top1 = num_member(o, "same_top1");
    f->rms_dp = num_member(o, "rms_dp");
    f->acceptance = num_member(o, "acceptance");
    f->acceptance_stderr = num_member(o, "acceptance_stderr");
    f->n_drafts = num_member(o, "n_drafts");
    f->pp_tok_per_s = num_member(o, "pp_tok_per_s");
    f->tg_tok_per_s = num_member(o, "tg_tok_per_s");
    f->pp_stddev = num_member(o, "pp_tok_per_s_stddev");
    f->tg_stddev = num_member(o, "tg_tok_per_s_stddev");
    f->preset_kld = num_member(o, "preset_kld");
    f->preset_sure = num_member(o, "preset_sure");
    f->n_unlike = num_member(o, "unlike_preset");
    f->types = doc_get(o, "types");
    f->by_depth = doc_get(o, "by_depth");
    f->speed = doc_get(o, "speed");
    f->tools_n = num_member(o, "tools_n");
    f->tools_valid = num_member(o, "tools_valid");
    f->tools_passed = num_member(o, "tools_passed");
    f->tools_same = num_member(o, "tools_same");
    f->tools_held = num_member(o, "tools_valid_constrained");
    const double drawn = num_member(o, "tools_constrained_tokens");
    f->tools_overruled =
        drawn > 0 ? 1000 * num_member(o, "tools_overruled_tokens") / drawn : (double)NAN;
    f->loops = (struct result_suite){num_member(o, "loops_n"), num_member(o, "loops_passed"),
                                     num_member(o, "loops_same")};
    f->checks = (struct result_suite){num_member(o, "checks_n"), num_member(o, "checks_passed"),
                                      num_member(o, "checks_same")};
    result_images_read(&f->images, o);
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
    r->version = text_member(r->root, "hone_version");
    r->machine = text_member(r->root, "machine");
    r->notes = doc_get(r->root, "notes");
    r->left_out = doc_get(r->root, "left_out");
    r->facts = doc_get(r->root, "facts");
    r->base_type = text_member(r->root, "base_type");
    r->base_is_quantized = doc_bool(r->root, "base_is_quantized", false);
    r->name = text_member(model, "name");
    r->arch = text_member(model, "arch");
    r->arch_note = text_member(model, "arch_note");
    r->license = text_member(model, "license");
    r->base_name = text_member(model, "source");
    r->n_params = int_member(model, "n_params");
    r->ctx = int_member(model, "ctx");
    r->eval_ctx = int_member(ev, "ctx");
    r->eval_tokens = int_member(ev, "n_tokens");
    r->eval_chunks = int_member(ev, "n_chunks");
    r->eval_texts = doc_get(ev, "texts");
    r->tools_suite = text_member(ev, "tools");
    r->pp = int_member(ev, "pp");
    r->tg = int_member(ev, "tg");
    r->calib_texts = doc_get(im, "texts");
    r->imatrix_chunks = int_member(im, "n_chunks");
    r->imatrix_chunk_size = int_member(im, "chunk_size");
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

enum result_match result_match(const struct result_file *f, const char *dir) {
    enum result_match found = RESULT_SAME;
    char *path = io_join(dir, f->file), hex[33];
    struct gguf *g;
    struct err ignored;
    if (*f->weights && io_exists(path) && gguf_open(&g, path, GGUF_TOLERANT, &ignored) == 0) {
        gguf_sample_hash(g, hex);
        if (strcmp(hex, f->sample) != 0) {
            gguf_weights_hash(g, hex);
            found = strcmp(hex, f->weights) == 0 ? RESULT_EDITED : RESULT_OTHER;
        }
        gguf_close(g);
    }
    free(path);
    return found;
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
