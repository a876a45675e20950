// SPDX-License-Identifier: MIT
/* make/files.c - the steps of `hone make` that write model files: source, conversion of the base,
 * importance matrix, one quantized file per recipe. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calib/moments.h"
#include "calib/imatrix.h"
#include "make/ownership.h"
#include "work/passes.h"
#include "work/blas_choice.h"
#include "work/device.h"
#include "make/size_ladder.h"
#include "calib/defaults.h"
#include "make/make.h"
#include "mix/mixer.h"
#include "work/open.h"
#include "convert/convert.h"
#include "containers/card_yaml.h"
#include "containers/gguf.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/os.h"
#include "base/progress.h"
#include "base/checkpoint.h"
#include "base/str.h"
#include "quantize/quantize.h"

/* Hashes the names and contents of all plain files of the folder, sorted by name. */
static int hash_folder(struct make *mk, struct err *e) {
    struct io_names all;
    struct buf key = {0}, weights = {0};
    bool known = true;
    int rc = io_list(&all, mk->src, e);
    for (int i = 0; i < all.n && rc == 0; i++) {
        char hex[33], *path = io_join(mk->src, all.v[i]);
        bool plain = false;
        if (all.v[i][0] != '.') rc = io_is_file(&plain, path, e);
        if (plain) rc = job_file_hash(&mk->job, path, hex, e);
        if (plain && rc == 0) buf_fmt(&key, "%s:%s;", all.v[i], hex);
        if (plain && rc == 0 && str_ends(all.v[i], ".safetensors")) {
            buf_fmt(&weights, "%s;", hex);
            known &= strcmp(hex, job_no_hash) != 0;
        }
        free(path);
    }
    if (rc == 0) hash_xxh128_hex(mk->src_hash, key.data, key.len);
    if (rc == 0 && known && weights.len) hash_xxh128_hex(mk->weights, weights.data, weights.len);
    buf_release(&key);
    buf_release(&weights);
    io_names_release(&all);
    return rc;
}

/* Hashes a GGUF file, and also its tensors alone, whose hash stays the same when metadata is
 * edited. */
static int hash_gguf(struct make *mk, struct err *e) {
    struct gguf *g;
    TRY(job_file_hash(&mk->job, mk->src, mk->src_hash, e));
    if (make_known_weights(mk) || strcmp(mk->src_hash, job_no_hash) == 0) return 0;
    TRY(gguf_open(&g, mk->src, 0, e));
    struct xxh128 *x = xxh128_new();
    for (int64_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        xxh128_add(x, t->name, strlen(t->name));
        xxh128_add(x, t->data, (size_t)t->n_bytes);
        gguf_drop(g, t);
    }
    xxh128_hex(x, mk->weights);
    xxh128_free(x);
    gguf_close(g);
    return 0;
}

/* Returns the last component of the source's path or, in the Hub's cache, the name of the folder's
 * repository or of the file. NULL: does not exist. Free the result. */
static char *source_name(const char *src) {
    char *real = io_real(src);
    if (!real) return NULL;
    char *repo = card_is_hash(io_base(real)) ? card_repo(src, NULL, 0) : NULL;
    const bool cached = repo && io_is_dir(src);
    char *name = xstrdup(cached ? io_base(repo) : io_base(repo ? src : real));
    free(repo);
    free(real);
    return name;
}

/* Returns a model's name: the given one, else the source's without ".gguf" and type, reduced to
 * characters that are safe in file names. NULL: sets e. Free the result. */
static char *model_name(const char *src, const char *given, struct err *e) {
    char *name = given ? xstrdup(io_base(given)) : source_name(src);
    if (!name) {
        err_sys(e, "%s: cannot open", src);
        return NULL;
    }
    size_t n = strlen(name);
    if (n > 5 && strcmp(name + n - 5, ".gguf") == 0) name[n - 5] = 0;
    static const char *const tail[] = {"-F32", "-F16", "-BF16", "-f32", "-f16", "-bf16"};
    for (size_t i = 0; i < COUNT_OF(tail); i++) {
        size_t m = strlen(tail[i]);
        n = strlen(name);
        if (n > m && strcmp(name + n - m, tail[i]) == 0) name[n - m] = 0;
    }
    for (char *p = name; *p; p++)
        if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-", *p))
            *p = '-';
    /* programs take a leading '-' for an option, and list no file with a leading '.' */
    n = strspn(name, ".-");
    memmove(name, name + n, strlen(name + n) + 1);
    if (*name) return name;
    free(name);
    err_set(e, ERR_USAGE, "%s: no name for the files is left of '%.200s'; give one with --name",
            src, given ? given : src);
    return NULL;
}

int make_name(struct make *mk, struct err *e) {
    const char *name = mk->given.text[FACT_NAME];
    mk->name = model_name(mk->src, name && *name ? name : NULL, e);
    const size_t n = mk->draft ? strlen(mk->draft) : 0;
    if (mk->name && n && !(strncmp(mk->name, mk->draft, n) == 0 && mk->name[n] == '-')) {
        char *bare = mk->name;
        mk->name = xasprintf("%s-%s", mk->draft, bare); /* as llama.cpp finds drafts */
        free(bare);
    }
    if (!mk->name) return (int)e->code;
    /* Files of at most 255 bytes have it, such as own-NAME-RECIPE.gguf.plan.tsv.json.tmp-PID-N. */
    enum { LONGEST = 180 };
    if (strlen(mk->name) <= LONGEST) return 0;
    return err_set(e, ERR_USAGE,
                   "the name %.40s... has %zu characters, and names of files can have %d; give a "
                   "shorter one with --name",
                   mk->name, strlen(mk->name), LONGEST);
}

int make_source(struct make *mk, struct err *e) {
    if (!make_counts(mk)) log_info("reading %s", mk->src);
    mk->weights[0] = 0;
    int rc = io_is_dir(mk->src) ? hash_folder(mk, e) : hash_gguf(mk, e);
    if (rc == 0) rc = make_check_earlier(mk, mk->job.dir, e);
    return rc || make_counts(mk) ? rc : make_keep_source(mk, e);
}

struct made *make_add_file(struct make *mk, const char *recipe, char *path, bool outside) {
    mk->file = xreallocarray(mk->file, (size_t)mk->n_files + 1, sizeof *mk->file);
    struct made *f = &mk->file[mk->n_files++];
    memset(f, 0, sizeof *f);
    snprintf(f->recipe, sizeof f->recipe, "%s", recipe);
    f->path = path;
    f->file = xstrdup(io_base(path));
    f->outside = outside;
    return f;
}

/* Returns a copy in upper case (ASCII), freed by the caller. */
static char *upper_case(const char *s) {
    char *u = xstrdup(s);
    for (char *p = u; *p; p++)
        if (*p >= 'a' && *p <= 'z') *p = (char)(*p - 'a' + 'A');
    return u;
}

char *make_base_file(const struct make *mk, const char *type) {
    char *up = upper_case(type), *file = xasprintf("%s-%s.gguf", mk->name, up);
    free(up);
    return file;
}

/* Converts the source folder, or finds the recorded result, and adds it as the base file. */
static int convert_folder(struct make *mk, struct err *e) {
    struct convert_report r;
    struct convert_opts o = {.src = mk->src,
                             .target = mk->target,
                             .type = mk->type,
                             .name = mk->given.text[FACT_NAME],
                             .pre = mk->w->pre,
                             .dry_run = true,
                             .tower_told = true, /* by make_tower */
                             .pool = mk->w->pool};
    cJSON *found = NULL;
    struct step s;
    enum log_level level = log_get_level();
    log_set_level(LOG_ERROR); /* the actual run repeats the messages */
    int rc = convert_run(&o, &r, e);
    log_set_level(level);
    if (rc) return rc;
    char *type = upper_case(r.type), *file = xasprintf(JOB_WORK "%s-%s.gguf", mk->name, type);
    char *path = job_path(&mk->job, file);
    step_init(&s, &mk->job, "convert");
    step_key(&s, "source", "%s", mk->src_hash);
    step_key(&s, "type", "%s", r.type);
    /* It determines where general.name comes from. */
    step_key(&s, "keys", "%s", o.name ? o.name : "card");
    step_key(&s, "file", "%s", job_name(file));
    if (o.pre) step_key(&s, "pre", "%s", o.pre);
    if (o.target) step_key(&s, "target", "%s", o.target);
    if (make_reuse(mk, &s, &found)) {
        cJSON_Delete(found);
    } else if (make_counts(mk)) {
        rc = err_set(e, ERR_SYS, "%s is not converted yet", mk->src);
    } else {
        log_info("converting to %s (%.2f GiB)", path, (double)r.size_bytes / 0x1p30);
        o.dry_run = false;
        o.out = path;
        o.overwrite = true; /* replaces the file of an older source, or one whose record was lost */
        rc = convert_run(&o, &r, e);
        const char *files[] = {file};
        found = doc_new();
        doc_put_num(found, "seconds", r.seconds);
        doc_put_i64(found, "size_bytes", (int64_t)r.size_bytes);
        if (rc == 0) rc = step_save(&s, files, 1, found, e);
        cJSON_Delete(found);
    }
    step_release(&s);
    if (rc == 0)
        make_add_file(mk, type, path, true)->is_base = true;
    else
        free(path);
    free(file);
    free(type);
    return rc;
}

int make_convert(struct make *mk, struct err *e) {
    if (io_is_dir(mk->src))
        TRY(convert_folder(mk, e));
    else
        make_add_file(mk, "base", xstrdup(mk->src), true)->is_base = true;
    char *hash = mk->file[0].hash;
    TRY(job_file_hash(&mk->job, mk->file[0].path, hash, e));
    /* --pre changes the token ids for the same weights, and therefore the results. */
    if (mk->w->pre) {
        char *both = xasprintf("%s pre %s", hash, mk->w->pre);
        hash_xxh128_hex(hash, both, strlen(both));
        free(both);
    }
    return 0;
}

/* Appends "texts" with name, size and hash of each input text. */
static void put_texts(struct make *mk, cJSON *to, const struct str_list *texts) {
    cJSON *list = doc_arr(to, "texts");
    for (int i = 0; i < texts->n; i++) {
        char hex[33];
        uint64_t size = 0;
        struct err ignored;
        cJSON *row = doc_obj(list, NULL);
        doc_put_str(row, "name", io_base(texts->v[i]));
        if (io_file_size(texts->v[i], &size, &ignored) == 0)
            doc_put_i64(row, "size_bytes", (int64_t)size);
        if (job_file_hash(&mk->job, texts->v[i], hex, &ignored) == 0)
            doc_put_str(row, "xxh128", hex);
        /* Built-in texts are in the state folder. */
        const char *about = strncmp(texts->v[i], mk->job.state, strlen(mk->job.state)) == 0
                                ? default_text_about(io_base(texts->v[i]))
                                : NULL;
        if (about) doc_put_str(row, "about", about);
    }
}

/* Second moments for error feedback: used for the ladder and, with --search best, for all files. */
static const char gram_file[] = JOB_WORK "gram.gguf";
static bool wants_gram(const struct make *mk) {
    const bool best = mk->search && strcmp(mk->search, "best") == 0;
    return mk->plan.feedback && (mk->plan.mixes || best);
}

const char *make_mix_search(const struct make *mk, bool feedback) {
    return mk->search ? mk->search : feedback ? "best" : "fast";
}

char *make_gram(const struct make *mk) {
    char *path = wants_gram(mk) ? job_path(&mk->job, gram_file) : NULL;
    if (!path || io_exists(path)) return path;
    free(path);
    return NULL;
}

/* Returns whether moments are wanted but an earlier run had too little memory to collect them. */
static bool lacks_gram(const struct make *mk) {
    char *path = make_gram(mk);
    const bool lacks = wants_gram(mk) && !path;
    free(path);
    return lacks;
}

/* Collects importance and, unless `gram` is NULL, second moments, which go into the file `gram`.
 * Adds "left_out" to `found` if moments of gradients do not fit in memory. */
static int collect(struct make *mk, const char *path, const char *gram, cJSON *found,
                   struct err *e) {
    struct imat m;
    struct gram g;
    struct gram_col *col = NULL;
    struct model *model = NULL;
    int rc;
    if (gram) TRY(gram_col_new(&col, 0, mk->w->isa, mk->w->pool, e));
    if (gram && !mk->plan.answers) gram_col_leave_out_gradients(col);
    char *part = io_join(mk->job.state, "imatrix.part");
    struct imatrix_keep keep = {.path = part, .model = mk->file[0].hash};
    if (mk->redo) checkpoint_remove(part);
    imat_init(&m);
    gram_init(&g);
    TRY_GOTO(out, rc, open_model(mk->w, &model, mk->file[0].path, e));
    open_warn_context(mk->w, model, mk->calib_ctx);
    struct imatrix_opts o = {.texts = mk->calib.v,
                             .n_texts = mk->calib.n,
                             .ctx = mk->calib_ctx,
                             .max_chunks = mk->calib_chunks,
                             .parse_special = true,
                             .isa = mk->w->isa,
                             .moments_there = !mk->w->isa_given,
                             .blas = col ? blas_choice(mk->w) : 0,
                             .pool = mk->w->pool,
                             .reread = passes_reread(gguf_file_bytes(model->gguf)),
                             .device = mk->w->device,
                             .gram = col,
                             .keep = &keep};
    TRY_GOTO(out, rc, imatrix_collect(model, &o, &m, e));
    TRY_GOTO(out, rc, imat_write(&m, path, IMAT_GGUF, true, e));
    if (gram) {
        g.n_chunks = m.n_chunks;
        g.chunk_size = m.chunk_size;
        TRY_GOTO(out, rc, gram_col_finish(col, &g, e));
        TRY_GOTO(out, rc, gram_write(&g, gram, true, e));
        if (mk->plan.answers && gram_col_without_gradients(col))
            doc_put_str(
                found, "left_out",
                "output gradients in error feedback: too little free memory for their moments");
    }
    checkpoint_remove(part);
out:
    free(part);
    gram_release(&g);
    gram_col_free(col);
    model_close(model);
    imat_release(&m);
    return rc;
}

/* Lists what the record of the importance matrix leaves out. */
static void note_moments(struct make *mk, const cJSON *found) {
    const char *text = doc_str(found, "left_out");
    if (text) make_left_out(mk, "%s", text);
}

/* Returns whether --max-memory was given. */
static bool memory_given(void) {
    uint64_t limit;
    (void)buf_room(&limit);
    return limit > 0;
}

/* Computes the importance matrix and, if wanted, the moments, and records the step. */
static int new_imatrix(struct make *mk, struct step *s, const char *file, struct err *e) {
    const char *files[] = {file, gram_file};
    char *gram = wants_gram(mk) ? job_path(&mk->job, gram_file) : NULL;
    cJSON *found = doc_new();
    log_info("collecting the importance matrix");
    make_forget(mk, "error feedback: ");
    int rc = claim_take(&mk->job, file, e);
    if (rc == 0) rc = collect(mk, mk->imatrix, gram, found, e);
    /* Memory may have run out, but the matrix alone needs little. With --max-memory, the amount of
     * free memory must not change the result, so the job fails. */
    if (rc == ERR_SYS && e->no_memory && gram && !memory_given()) {
        log_warn("%s; continuing without error feedback", e->msg);
        doc_put_str(found, "left_out",
                    "error feedback: too little free memory for its second moments");
        os_unlink(gram);
        rc = collect(mk, mk->imatrix, NULL, found, e);
    }
    if (rc == 0) note_moments(mk, found);
    if (rc == 0) rc = step_save(s, files, gram && io_exists(gram) ? 2 : 1, found, e);
    cJSON_Delete(found);
    free(gram);
    return rc;
}

int make_imatrix(struct make *mk, struct err *e) {
    static const char file[] = "imatrix.gguf";
    struct step s;
    cJSON *found = NULL;
    int rc = 0;
    step_init(&s, &mk->job, "imatrix");
    step_key(&s, "base", "%s", mk->file[0].hash);
    step_key(&s, "ctx", "%" PRId64, mk->calib_ctx);
    step_key(&s, "chunks", "%" PRId64, mk->calib_chunks);
    for (int i = 0; i < mk->calib.n && rc == 0; i++) {
        char hex[33];
        rc = job_file_hash(&mk->job, mk->calib.v[i], hex, e);
        step_key(&s, "text", "%s %s", io_base(mk->calib.v[i]), hex);
    }
    if (wants_gram(mk)) step_key(&s, "gram", "%s", mk->plan.answers ? "1" : "inputs");
    mk->imatrix = job_path(&mk->job, file);
    const bool recorded = rc == 0 && make_reuse(mk, &s, &found);
    /* A new plan tries again to collect the moments that an earlier run could not. */
    if (recorded && (mk->kept_plan || !lacks_gram(mk)))
        note_moments(mk, found);
    else if (rc == 0 && make_counts(mk))
        rc = err_set(e, ERR_SYS, "there is no importance matrix yet");
    else if (rc == 0)
        rc = new_imatrix(mk, &s, file, e);
    cJSON_Delete(found);
    step_release(&s);
    if (rc == 0) rc = job_file_hash(&mk->job, mk->imatrix, mk->imatrix_hash, e);
    struct imat m;
    imat_init(&m);
    if (rc == 0) rc = imat_read(&m, mk->imatrix, e);
    if (rc == 0) {
        cJSON *about = doc_new();
        doc_put_str(about, "xxh128", mk->imatrix_hash);
        doc_put_str(about, "file", file);
        doc_put_i64(about, "n_chunks", m.n_chunks);
        doc_put_i64(about, "chunk_size", m.chunk_size);
        put_texts(mk, about, &mk->calib);
        make_keep(&mk->about_imatrix, about);
    }
    imat_release(&m);
    return rc;
}

enum quantize_resume make_resume(const struct make *mk) {
    return mk->resume ? RESUME_ALWAYS : RESUME_AUTO;
}

int make_class_bytes(const struct make *mk, const char *name, uint64_t *out, struct err *e) {
    struct quantize_report r;
    struct quantize_opts o = {.in = mk->file[0].path,
                              .tmpl = mk->tmpl,
                              .recipe = name,
                              .imatrix = mk->imatrix,
                              .known_gaps = true,
                              .dry_run = true,
                              .will_have_imatrix = true,
                              .pool = mk->w->pool};
    TRY(quantize_run(&o, &r, e));
    *out = r.file_bytes;
    return 0;
}

int make_preset(struct make *mk, const char *recipe, struct err *e) {
    char called[RECIPE_FILE];
    recipe_file(recipe, called);
    char *file = xasprintf("%s-%s.gguf", mk->name, called), *path = job_path(&mk->job, file);
    char *step_name = xasprintf("quantize-%s", recipe);
    struct step s;
    cJSON *found = NULL;
    enum search search = SEARCH_FAST;
    int rc = mix_search(mk->search, &search, e);
    step_init(&s, &mk->job, step_name);
    step_key(&s, "base", "%s", mk->file[0].hash);
    step_key(&s, "imatrix", "%s", mk->imatrix_hash);
    step_key(&s, "search", "%s", search_name(search));
    /* Version of the encoders' output: increased whenever the same input would give different
     * bytes. */
    step_key(&s, "encoder", MAKE_ENCODER);
    char *gram = search == SEARCH_BEST ? make_gram(mk) : NULL, gram_hash[33];
    if (rc == 0 && gram) rc = job_file_hash(&mk->job, gram, gram_hash, e);
    if (rc == 0 && gram) step_key(&s, "gram", "%s", gram_hash);
    step_key(&s, "file", "%s", file);
    make_key_template(mk, &s);
    const bool known = rc == 0 && make_reuse(mk, &s, &found);
    cJSON_Delete(found);
    if (rc == 0 && !known && !make_counts(mk)) {
        struct quantize_report r;
        struct quantize_opts o = {.in = mk->file[0].path,
                                  .tmpl = mk->tmpl,
                                  .out = path,
                                  .recipe = recipe,
                                  .imatrix = mk->imatrix,
                                  .known_gaps = true,
                                  .overwrite = true,
                                  .search = search,
                                  .resume = make_resume(mk),
                                  .pool = mk->w->pool};
        const char *files[] = {file};
        o.gram = gram;
        o.device = device_quantize(mk->w);
        log_info("quantizing %s", file);
        rc = claim_take(&mk->job, file, e);
        if (rc == 0) rc = claim_take_part(&mk->job, file, e);
        if (rc == 0) rc = quantize_run(&o, &r, e);
        found = doc_new();
        doc_put_num(found, "seconds", r.seconds);
        doc_put_num(found, "bpw", r.bpw);
        if (rc == 0) rc = step_save(&s, files, 1, found, e);
        cJSON_Delete(found);
    }
    step_release(&s);
    if (rc == 0 && (known || !make_counts(mk))) {
        struct made *f = make_add_file(mk, recipe, path, false);
        const char *class = ladder_find(recipe);
        snprintf(f->size_class, sizeof f->size_class, "%s", class ? class : "");
        f->feedback = gram != NULL;
        rc = job_file_hash(&mk->job, path, f->hash, e);
    } else {
        free(path);
    }
    free(gram);
    free(step_name);
    free(file);
    return rc;
}

int make_quantize(struct make *mk, struct err *e) {
    for (int i = 0; i < mk->recipes.n; i++) {
        progress_set_item("file", i + 1, mk->recipes.n);
        TRY(make_preset(mk, mk->recipes.v[i], e));
    }
    progress_set_item(NULL, 0, 0);
    return 0;
}
