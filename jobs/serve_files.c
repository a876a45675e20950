// SPDX-License-Identifier: MIT
/* jobs/serve_files.c - files of a server: headers, memory, names (serve_files.h). */
#include "jobs/serve_files.h"
#include "template/repair.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "containers/gguf.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/printable.h"
#include "base/str.h"
#include "work/device.h"
#include "plan/memory_plan.h"
#include "work/open.h"
#include "models/sizes.h"
#include "report/pick.h"
#include "runtime/engine/kv_type.h"
#include "runtime/engine/model.h"
#include "runtime/generate/run_set.h"

enum {
    CTX_STEP = 4096,
    LEAST_CTX = 8192, /* tokens; each file gets memory for at least two contexts of this length */
    PASS = 512,       /* rows of a pass */
    ROWS = 40         /* rows of logits in addition to --parallel */
};

/* ---- selection of files ---- */

/* Returns whether a name contains a word with no letter before or after it. */
static bool has_word(const char *name, const char *word) {
    const size_t n = strlen(word);
    for (const char *p = name; (p = strcasestr(p, word)); p++)
        if ((p == name || !isalpha((unsigned char)p[-1])) && !isalpha((unsigned char)p[n]))
            return true;
    return false;
}

/* Returns whether a file in a folder may be a model to serve, by its name. Projectors, importance
 * matrices, adapters, drafts and all shards but the first are not. */
static bool may_serve(const char *name) {
    static const char *const others[] = {"mmproj",  "imatrix", "draft",
                                         "drafter", "lora",    "adapter"};
    static const char *const draft[] = {"mtp-", "eagle3-", "dflash-"}; /* of llama.cpp */
    int i, n;
    size_t len;
    if (!str_ends(name, ".gguf") || *name == '.') return false;
    for (size_t k = 0; k < COUNT_OF(draft); k++)
        if (strncmp(name, draft[k], strlen(draft[k])) == 0) return false;
    for (size_t k = 0; k < COUNT_OF(others); k++)
        if (has_word(name, others[k])) return false;
    return !gguf_split_parse(name, &i, &n, &len) || i == 0;
}

/* Returns the name of a file without folders, shard number and .gguf. */
static const char *stem(struct work *w, const char *path) {
    const char *base = io_base(path);
    size_t n = strlen(base);
    int i, of;
    if (gguf_split_parse(base, &i, &of, &n)) return arena_strndup(&w->mem, base, n);
    return str_ends(base, ".gguf") ? arena_strndup(&w->mem, base, n - 5) : base;
}

/* Adds a model file, named after its path, with no properties yet. */
static struct serve_file *add_file(struct serve_files *f, const char *path) {
    if (f->n == f->cap) {
        f->cap = f->cap ? 2 * f->cap : 8;
        f->v = xreallocarray(f->v, (size_t)f->cap, sizeof *f->v);
    }
    struct serve_file *x = &f->v[f->n++];
    *x = (struct serve_file){.path = arena_strdup(&f->w->mem, path),
                             .type = "",
                             .arch = "",
                             .size_label = "",
                             .tmpl = "",
                             .seed = -1};
    x->file = io_base(x->path);
    x->id = x->own = stem(f->w, x->path);
    return x;
}

/* ---- reading headers ---- */

/* Returns the cache size of one sequence in bytes; a huge number on overflow. */
static uint64_t kv_bytes(const struct serve_files *f, const struct sizes *z, int64_t n_ctx) {
    const struct kv_rows rows = kv_type_rows(f->kv_k, f->kv_v);
    uint64_t kv;
    if (!sizes_kv_paged(z, 1, n_ctx, PASS, &rows, &kv)) return UINT64_MAX / 4;
    return kv + sizes_state(z, 0);
}

int serve_files_no_context(const struct serve_files *f, int64_t n_ctx, uint64_t one, uint64_t room,
                           struct err *e) {
    const bool gib = one >> 34;
    return err_set(e, f->n > 1 ? ERR_USAGE : ERR_SYS,
                   "a context of %lld tokens takes %s, but only %s is available "
                   "(--context-memory): set it to %llu%s, or use a smaller --ctx",
                   (long long)n_ctx, show_bytes(one).s, show_bytes(room).s,
                   (unsigned long long)(one >> (gib ? 30 : 20)) + 1, gib ? "GiB" : "MiB");
}

/* Returns the longest context of one sequence that takes at most half of the memory. */
static int64_t usual_ctx(const struct serve_files *f, const struct sizes *z, uint64_t bytes) {
    const int64_t trained = max_i64(z->n_ctx_train, 1);
    int64_t best = min_i64(CTX_STEP, trained);
    for (int64_t n = best; n <= trained; n += CTX_STEP) {
        if (kv_bytes(f, z, n) > bytes / 2) break;
        best = n;
    }
    return best;
}

/* Sets the sizes and the type: the file's own name for it (Q4_K_M), otherwise the type that takes
 * the most bytes. */
static void describe(struct serve_file *x, const struct gguf *g) {
    uint64_t bytes[QT_COUNT] = {0};
    int most = 0;
    for (int64_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        int64_t n = 1;
        for (int k = 0; k < 4; k++) n *= t->ne[k];
        x->n_params += n;
        bytes[t->type] += t->n_bytes;
        if (bytes[t->type] > bytes[most]) most = (int)t->type;
    }
    uint64_t id = gguf_u64_or(g, "general.file_type", UINT64_MAX);
    const char *name = id < INT64_MAX ? qtype_ftype_name((int64_t)id) : NULL;
    x->type = name ? name : qtype_name((enum qtype)most);
    x->n_bytes = gguf_file_bytes(g);
}

/* Sets the file's sampling parameters: its own, overridden by the options. */
static int read_sampling(const struct serve_job_opts *a, const struct gguf *g, struct serve_file *x,
                         struct err *e) {
    struct run_set set;
    TRY(run_set_init(&set, g, e));
    TRY(run_set_given(&set, a->set, e));
    x->sample = set.sample;
    x->seed = set.seed_given ? set.seed : -1;
    return 0;
}

bool serve_repairs(const struct serve_job_opts *a) {
    return a->tmpl && strcmp(a->tmpl, "fix") == 0;
}

/* Replaces a template by its repaired text, which the arena holds. */
static int repair(struct serve_files *f, const char *path, const char **tmpl, struct err *e) {
    struct repair r;
    TRY(repair_run(&r, *tmpl, strlen(*tmpl), path, NULL, 0, e));
    if (r.n)
        log_info("%s: repaired the chat template: %d of %d checks failed before, %d fail now", path,
                 r.n_failed_before, r.n_checks, r.n_failed_after);
    *tmpl = arena_strndup(&f->w->mem, r.text.data, r.text.len);
    repair_free(&r);
    return 0;
}

/* Fills in x from the headers of its file. */
static int read_facts(struct serve_files *f, struct serve_file *x, struct gguf *g, struct sizes *z,
                      struct err *e) {
    struct arena *mem = &f->w->mem;
    struct buf stamp = {0};
    const char *tmpl = f->tmpl;
    const struct arch *arch;
    x->arch = arena_strdup(mem, gguf_str_or(g, "general.architecture", ""));
    x->size_label = arena_strdup(mem, gguf_str_or(g, "general.size_label", ""));
    describe(x, g);
    gguf_stamp(g, &stamp);
    hash_xxh128_hex(x->digest, stamp.data, stamp.len);
    buf_release(&stamp);
    TRY(plan_sizes(g, z, &arch, e));
    x->n_ctx_train = z->n_ctx_train;
    x->n_vocab = z->n_vocab;
    TRY(read_sampling(f->a, g, x, e));
    if (!tmpl) TRY(gguf_chat_template(g, &tmpl, e));
    if (tmpl && serve_repairs(f->a)) TRY(repair(f, gguf_path(g), &tmpl, e));
    x->tmpl = tmpl ? arena_strdup(mem, tmpl) : "";
    return 0;
}

/* Checks what the headers can show: returns the error that loading the file would return. */
static int check_file(struct gguf *g, struct err *e) {
    if (model_computes(g, e)) return model_refuse(e);
    if (gguf_find(g, "tokenizer.ggml.model")) return 0;
    return err_set(e, ERR_DATA, "%s: there is no tokenizer in this file", gguf_path(g));
}

/* Reads the headers of x->path and sets x->wrong and *why on errors. Returns true if the file
 * should be left out because it is not a model; a single file never is. */
static bool read_file(struct serve_files *f, struct serve_file *x, struct sizes *z, bool of_several,
                      struct err *why) {
    struct gguf *g = NULL;
    int rc = gguf_open(&g, x->path, 0, why);
    const bool other = !rc && of_several && open_is_companion(g);
    if (!rc && !other) rc = read_facts(f, x, g, z, why);
    if (!rc && !other && of_several) rc = check_file(g, why);
    if (rc) x->wrong = arena_strdup(&f->w->mem, why->msg);
    gguf_close(g);
    return other;
}

/* ---- memory ---- */

/* Returns how much memory a loaded file takes without its contexts. Packing needs another 1/15 of
 * the weights and twice the work buffers (runtime/engine/pack.c); without that memory, weights stay
 * unpacked. */
static uint64_t own_bytes(const struct serve_files *f, const struct serve_file *x,
                          const struct sizes *z) {
    const int64_t rows = ROWS + f->a->parallel;
    const uint64_t logits = (uint64_t)(rows * z->n_vocab) * sizeof(float),
                   work = (uint64_t)(2 * z->reg_floats * PASS) * sizeof(float);
    return x->n_bytes + x->n_bytes / 15 + logits + work +
           ((uint64_t)(pool_size(f->w->pool) + 2) << 20);
}

/* Compares sizes, largest first, for qsort(). */
static int by_size(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* Limit for the contexts of one file in main memory, which other programs also need. */
static const uint64_t MOST_OF_MAIN = (uint64_t)8 << 30;

uint64_t serve_files_main(void) {
    return min_u64(mem_available() / 4, MOST_OF_MAIN);
}

/* Returns the device memory that is left after loading a file. If experts of the file stay in main
 * memory, that is an eighth of the device, as contexts would push more experts out. */
static uint64_t device_left(uint64_t all, uint64_t own) {
    return own < all / 8 * 7 ? (all - own) / 16 * 15 : all / 8;
}

/* Returns the context memory per file: at most a quarter of all memory, and no more than what
 * remains for each when as many files as possible are loaded. least: the minimum per file. */
static uint64_t share(uint64_t all, uint64_t least, const uint64_t *own, int n) {
    uint64_t *v = xcalloc((size_t)n, sizeof *v), sum = 0, out = all / 4;
    int k = 0;
    memcpy(v, own, (size_t)n * sizeof *v);
    qsort(v, (size_t)n, sizeof *v, by_size);
    while (k < n && sum + v[k] + (uint64_t)(k + 1) * least <= all) sum += v[k++];
    if (k) out = min_u64(out, (all - sum) / (uint64_t)k);
    free(v);
    return out;
}

/* Returns how much memory all loaded files together may use. */
static uint64_t all_bytes(const struct serve_files *f) {
    const uint64_t device = device_free(f->w);
    if (device) return device;
    const uint64_t free_now = mem_available(), may = buf_available();
    return may < free_now ? may : free_now / 16 * 15;
}

/* Returns the most bytes of contexts that a file can use: for all concurrent sequences, and for the
 * conversations kept for later. */
static uint64_t useful_bytes(const struct serve_files *f, const struct sizes *z) {
    enum { KEPT = 2 }; /* full contexts per sequence */
    const int64_t ctx = max_i64(f->a->ctx, max_i64(z->n_ctx_train, CTX_STEP));
    const uint64_t one = kv_bytes(f, z, ctx), most = UINT64_MAX / 4;
    return one > most / KEPT / 256 ? most : one * KEPT * (uint64_t)f->a->parallel;
}

/* Sets the context and its memory for a server with one file. */
static void take_all(struct serve_files *f, const struct sizes *z) {
    struct serve_file *x = &f->v[0];
    const uint64_t device = device_free(f->w);
    uint64_t usual = device ? device_left(device, own_bytes(f, x, z)) : serve_files_main();
    if (!x->wrong) usual = min_u64(usual, useful_bytes(f, z));
    f->context_bytes = f->a->context_memory ? f->a->context_memory : usual;
    if (!x->wrong) x->n_ctx = f->a->ctx ? f->a->ctx : usual_ctx(f, z, f->context_bytes);
}

/* Divides the memory among several files; z: the size of each. */
static void divide(struct serve_files *f, const struct sizes *z) {
    const bool on_device = device_free(f->w) > 0;
    uint64_t *own = xcalloc((size_t)f->n, sizeof *own), least = 0, useful = 0;
    f->max_bytes = all_bytes(f);
    for (int i = 0; i < f->n; i++) {
        const int64_t ctx = min_i64(f->a->ctx ? f->a->ctx : LEAST_CTX, z[i].n_ctx_train);
        if (f->v[i].wrong) continue;
        own[i] = own_bytes(f, &f->v[i], &z[i]);
        least = max_u64(least, 2 * kv_bytes(f, &z[i], ctx));
        useful = max_u64(useful, useful_bytes(f, &z[i]));
    }
    uint64_t usual = min_u64(useful, share(f->max_bytes, least, own, f->n));
    if (!on_device) usual = min_u64(usual, MOST_OF_MAIN);
    f->context_bytes = f->a->context_memory ? f->a->context_memory : usual;
    for (int i = 0; i < f->n; i++) {
        struct serve_file *x = &f->v[i];
        if (x->wrong) continue;
        x->n_ctx = f->a->ctx ? f->a->ctx : usual_ctx(f, &z[i], f->context_bytes);
        x->need = own[i] + f->context_bytes;
        if (on_device) x->need = min_u64(x->need, f->max_bytes); /* experts may stay in RAM */
    }
    free(own);
}

/* Rejects a server if none of its files can be loaded, in memory and with a context that fits. A
 * file whose context does not fit is marked. The default file is one that can be loaded: if the
 * user named none, it is the largest, as `hone plan` would choose. */
static int check_memory(struct serve_files *f, const struct sizes *z, struct err *e) {
    const struct serve_file *least = NULL;
    struct err why = {0};
    int good = -1, largest = -1;
    for (int i = f->n; i-- > 0;) {
        struct serve_file *x = &f->v[i];
        if (x->wrong) continue;
        const uint64_t one = kv_bytes(f, &z[i], x->n_ctx);
        const bool asked = f->a->ctx || f->a->context_memory;
        if (one > f->context_bytes && (asked || x->need <= f->max_bytes)) {
            (void)serve_files_no_context(f, x->n_ctx, one, f->context_bytes, &why);
            x->wrong = arena_strdup(&f->w->mem, why.msg);
            continue;
        }
        if (!least || x->need < least->need) least = x;
        if (x->need > f->max_bytes) continue;
        good = i;
        if (largest < 0 || x->n_bytes >= f->v[largest].n_bytes) largest = i;
    }
    if (!least) {
        *e = why;
        return (int)why.code;
    }
    if (good < 0)
        return err_set(e, ERR_SYS,
                       "none of the %d files fits into memory: the smallest, %s, takes %s with "
                       "contexts and buffers, but there is room for %s (--max-memory)",
                       f->n, least->id, show_bytes(least->need).s, show_bytes(f->max_bytes).s);
    if (f->first < 0)
        f->first = largest;
    else if (f->v[f->first].wrong || f->v[f->first].need > f->max_bytes)
        f->first = good;
    return 0;
}

/* ---- names and the default file ---- */

/* Assigns the names of --alias to the files. ERR_USAGE: two files have the same name. */
static int name_all(struct serve_files *f, struct err *e) {
    struct str_list alias = {0};
    if (f->a->alias && f->n == 1) work_list_add(f->w, &alias, f->a->alias);
    if (f->a->alias && f->n > 1) work_split(f->w, f->a->alias, &alias);
    if (f->a->alias && alias.n != f->n)
        return err_set(e, ERR_USAGE, "--alias: %d name%s for %d files: give one per file, in order",
                       alias.n, str_s(alias.n), f->n);
    for (int i = 0; i < f->n; i++) {
        if (alias.n) f->v[i].id = alias.v[i];
        for (int k = 0; k < i; k++)
            if (strcasecmp(f->v[i].id, f->v[k].id) == 0)
                return err_set(e, ERR_USAGE,
                               "%s and %s have the same name for clients, %s: --alias NAME,NAME "
                               "gives others, in the order of the files",
                               f->v[k].path, f->v[i].path, f->v[i].id);
    }
    return 0;
}

/* Returns the file that results.json of `hone make` in this folder recommends, or -1: it must still
 * have the weights that were measured. */
static int recommended(const struct serve_files *f, const char *folder) {
    struct result r;
    struct err ignored;
    char *path = io_join(folder, "results.json");
    int found = -1;
    if (io_exists(path) && result_open(&r, path, &ignored) == 0) {
        const int k = pick_file(&r);
        const bool stands = k >= 0 && result_match(&r.file[k], folder) != RESULT_OTHER;
        for (int i = 0; i < f->n && stands; i++)
            if (!f->v[i].wrong && strcmp(f->v[i].file, r.file[k].file) == 0) found = i;
        result_close(&r);
    }
    free(path);
    return found;
}

/* ---- all together ---- */

/* Adds a file, or the models of a folder, and their sizes to *z. */
static int add_path(struct serve_files *f, struct sizes **z, const char *path, struct err *e) {
    struct io_names all = {0};
    const bool folder = io_is_dir(path);
    int rc = folder ? io_list(&all, path, e) : 0;
    for (int i = 0; !rc && i < (folder ? all.n : 1); i++) {
        struct err why = {0};
        if (folder && !may_serve(all.v[i])) continue;
        char *name = folder ? io_join(path, all.v[i]) : xstrdup(path);
        struct serve_file *x = add_file(f, name);
        *z = xreallocarray(*z, (size_t)f->n, sizeof **z);
        memset(&(*z)[f->n - 1], 0, sizeof **z);
        const bool of_several = folder || f->a->more.n;
        const bool other = read_file(f, x, &(*z)[f->n - 1], of_several, &why);
        if (other) f->n--;
        if (other && !folder) log_info("%s: left out: not a model", path);
        if (!other && x->wrong && !folder && of_several) {
            *e = why;
            rc = (int)why.code;
        }
        free(name);
    }
    io_names_release(&all);
    return rc;
}

/* Chooses the model for requests that do not name one. */
static int first_file(struct serve_files *f, struct err *e) {
    int good = -1;
    for (int i = f->n; i-- > 0;)
        if (!f->v[i].wrong) good = i;
    if (f->n > 1 && good < 0)
        return err_set(e, ERR_DATA, "none of the %d files can be served: %s", f->n, f->v[0].wrong);
    f->first = good < 0 ? 0 : good;
    if (f->n > 1 && io_is_dir(f->a->path)) f->first = recommended(f, f->a->path);
    return 0;
}

int serve_files_read(struct serve_files *f, struct work *w, const struct serve_job_opts *a,
                     const char *tmpl, struct err *e) {
    struct sizes *z = NULL;
    *f = (struct serve_files){.w = w, .a = a, .tmpl = tmpl};
    TRY(kv_type_parse(a->kv_type, "--kv-type", &f->kv_k, &f->kv_v, e));
    TRY(work_pool(w, e));
    int rc = add_path(f, &z, a->path, e);
    for (int i = 0; !rc && i < a->more.n; i++) rc = add_path(f, &z, a->more.v[i], e);
    if (!rc && !f->n)
        rc = io_is_dir(a->path)
                 ? gguf_no_folder(a->path, e)
                 : err_set(e, ERR_USAGE, "%s: none of the files is a model", a->path);
    if (!rc) rc = name_all(f, e);
    if (!rc) rc = first_file(f, e);
    if (!rc && f->n > 1) {
        divide(f, z);
        rc = check_memory(f, z, e);
    } else if (!rc) {
        take_all(f, z);
    }
    free(z);
    return rc;
}

void serve_files_release(struct serve_files *f) {
    free(f->v);
    f->v = NULL;
}
