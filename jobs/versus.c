// SPDX-License-Identifier: MIT
/* jobs/versus.c - hone versus: opens the base and the files, orders them by size, and runs the
 * measurements. All files are checked before anything is computed. */
#include "jobs/versus.h"

#include <stdlib.h>
#include <string.h>

#include "jobs/versus_int.h"
#include "calib/defaults.h"
#include "base/io.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/out.h"
#include "report/pick.h"
#include "report/release.h"
#include "report/versus.h"
#include "runtime/measure/measures.h"
#include "work/apart.h"
#include "work/plot.h"

enum { MAX_GREEDY = 1000 };

const struct versus_opts versus_usual = {
    .eval = {.ctx = 512, .chunks = 44, .kv_type = KV_EXACT, .base_kv = KV_EXACT, .act = ACT_EXACT},
    .n_cases = 20,
    .max_tokens = 128};

/* ---- names ---- */

/* Names each model by its file name, with its folder if others share it. */
static void set_names(struct versus *v) {
    const char *path[VERSUS_MAX + 1];
    char *name[VERSUS_MAX + 1];
    for (int i = 0; i < v->n; i++) path[i] = v->f[i].path;
    path[v->n] = v->base.path;
    io_short_names(path, v->n + 1, name);
    for (int i = 0; i < v->n; i++) v->f[i].name = name[i];
    v->base.name = name[v->n];
}

/* Returns whether file i shares its name without extension and shard number with another file. */
static bool needs_end(const struct versus *v, int i) {
    char *own = gguf_stem(v->f[i].name);
    bool shared = false;
    for (int k = 0; k < v->n && !shared; k++) {
        char *other = gguf_stem(v->f[k].name);
        shared = k != i && strcmp(own, other) == 0;
        free(other);
    }
    free(own);
    return shared;
}

/* Sets the labels: the names without extension, shard number and common beginning. */
static void set_labels(struct versus *v) {
    size_t common = 0;
    for (int i = 0; i < v->n; i++)
        v->f[i].label = needs_end(v, i) ? xstrdup(v->f[i].name) : gguf_stem(v->f[i].name);
    for (size_t at = 0; v->n > 1; at++) {
        bool same = v->f[0].label[at] != 0;
        for (int i = 1; i < v->n; i++) same = same && v->f[i].label[at] == v->f[0].label[at];
        if (!same) break;
        if (strchr("-./ ", v->f[0].label[at])) common = at + 1;
    }
    for (int i = 0; i < v->n && common; i++) {
        char *rest = xstrdup(v->f[i].label + common);
        free(v->f[i].label);
        v->f[i].label = rest;
    }
}

/* ---- opening ---- */

/* Returns ERR_USAGE if two of the files, or a file and the base, are the same file. */
static int check_twice(const struct versus *v, struct err *e) {
    for (int i = 0; i < v->n; i++)
        for (int k = -1; k < i; k++) {
            const struct versus_file *x = k < 0 ? &v->base : &v->f[k];
            const struct file_id *a = gguf_shard_id(v->f[i].m->gguf, 0),
                                 *b = gguf_shard_id(x->m->gguf, 0);
            if (a->inode == b->inode && a->size == b->size && a->changed == b->changed)
                return k < 0 ? err_set(e, ERR_USAGE, "versus: %s is the base itself", v->f[i].path)
                             : err_set(e, ERR_USAGE, "versus: %s is given twice", v->f[i].path);
        }
    return 0;
}

static int by_size(const void *a, const void *b) {
    const struct versus_file *x = a, *y = b;
    if (x->n_bytes != y->n_bytes) return x->n_bytes < y->n_bytes ? -1 : 1;
    return strcmp(x->path, y->path);
}

/* Sorts the files by size and numbers the groups of equal size. */
static void set_groups(struct versus *v) {
    int group = 0;
    qsort(v->f, (size_t)v->n, sizeof v->f[0], by_size);
    for (int i = 0; i < v->n; i++) {
        if (i && !versus_same_size(&v->f[i - 1], &v->f[i])) group++;
        v->f[i].group = group;
    }
}

/* Opens a model file and reads what its header says. */
static int open_file(struct versus *v, struct versus_file *x, const char *path, struct err *e) {
    x->path = path;
    TRY(eval_model(&v->o->eval, path, &x->m, e));
    return model_need_tok(x->m, e);
}

/* Returns what a file is if it is not a model or not the first part of one, as in a folder that
 * `hone make` wrote; NULL: a model, or a file that cannot be read. */
static const char *companion(const char *path) {
    static const char *const what[] = {[GGUF_MODEL] = NULL,
                                       [GGUF_TOWER] = "a projector file",
                                       [GGUF_DRAFT] = "a draft file",
                                       [GGUF_OTHER] = "not a model"};
    struct gguf *g;
    struct err ignored;
    if (gguf_open(&g, path, GGUF_TOLERANT | GGUF_ONE_FILE, &ignored)) return NULL;
    const char *kind = what[gguf_part_of(g)];
    if (gguf_u64_or(g, "split.count", 0) > 1)
        kind = gguf_u64_or(g, "split.no", 0) ? "a later part of a split file" : NULL;
    gguf_close(g);
    return kind;
}

/* Opens the files. Among several, those that are no models are skipped. */
static int open_files(struct versus *v, struct err *e) {
    const struct versus_opts *o = v->o;
    for (int i = 0; i < o->n_files; i++) {
        const char *what = o->n_files > 1 ? companion(o->file[i]) : NULL;
        if (what) {
            log_info("%s is skipped: it is %s", o->file[i], what);
            continue;
        }
        v->n++;
        TRY(open_file(v, &v->f[v->n - 1], o->file[i], e));
    }
    return v->n ? 0 : err_set(e, ERR_DATA, "versus: none of the files is a model");
}

/* Reads the list of cache types, each of which makes every file a candidate. */
static int read_kv(struct versus *v, struct err *e) {
    const struct versus_opts *o = v->o;
    const struct kv_type *keys, *values;
    v->eval = o->eval;
    work_split(v->w, o->eval.kv_type, &v->kv);
    if (!v->kv.n) return err_set(e, ERR_USAGE, "--kv-type: '%s' names no type", o->eval.kv_type);
    if (v->kv.n > VERSUS_MAX_KV || v->kv.n * o->n_files > VERSUS_MAX)
        return err_set(e, ERR_USAGE, "--kv-type: at most %d types, and %d files times types",
                       VERSUS_MAX_KV, VERSUS_MAX);
    for (int k = 0; k < v->kv.n; k++)
        TRY(kv_type_parse(v->kv.v[k], "--kv-type", &keys, &values, e));
    v->eval.kv_type = v->kv.v[0];
    return 0;
}

/* Warns if a file has more bits per weight than the base: the divergence is then mostly the base's
 * own loss. */
static void warn_base(const struct versus *v) {
    for (int i = v->n - 1; i >= 0; i--) {
        if (v->f[i].bpw <= 1.01 * v->base.bpw) continue;
        log_warn("%s has fewer bits per weight than %s: the divergence is then mostly its own loss",
                 v->base.path, v->f[i].path);
        return;
    }
}

/* Opens and checks all files, then their sessions. */
static int open_all(struct versus *v, struct err *e) {
    const struct versus_opts *o = v->o;
    const int64_t room = max_i64(o->eval.ctx, VERSUS_PROMPT_LEN + VERSUS_GREEDY_LEN);
    TRY(open_file(v, &v->base, o->base, e));
    TRY(open_files(v, e));
    TRY(check_twice(v, e));
    TRY(versus_inspect(v, &v->base, e));
    for (int i = 0; i < v->n; i++) TRY(versus_inspect(v, &v->f[i], e));
    set_groups(v);
    warn_base(v);
    set_names(v);
    set_labels(v);
    struct eval_opening s[VERSUS_MAX + 1];
    int n = 0;
    for (int k = 0; k < v->kv.n; k++)
        for (int i = 0; i < v->n; i++)
            s[n++] = (struct eval_opening){&o->eval, v->f[i].m, v->kv.v[k], &v->f[i].s[k]};
    s[n++] = (struct eval_opening){&o->eval, v->base.m, o->eval.base_kv, &v->base.s[0]};
    return eval_sessions(v->w, s, n, room, e);
}

/* Adds a text as the domain `name`; NULL: named after the file or the built-in domain. */
static int add_text(struct versus *v, const char *name, const char *path, struct err *e) {
    struct buf names = {0};
    const struct default_domain *d;
    if (io_exists(path) || default_domain(path) || strcmp(path, "builtin") == 0 ||
        strcmp(path, "-") == 0)
        return eval_texts_add(&v->texts, v->base.m, name, path, e);
    for (int i = 0; (d = default_domain_at(i)) != NULL; i++)
        buf_fmt(&names, "%s%s", i ? ", " : "", d->name);
    const int rc = err_set(e, ERR_USAGE, "--text: '%s' is not a file, nor a built-in domain (%s)",
                           path, names.data);
    buf_release(&names);
    return rc;
}

/* Returns the file of a text [NAME=]FILE. A file whose own name has a "=" has no NAME. */
const char *versus_text_file(const char *given) {
    const char *eq = strchr(given, '=');
    return !eq || eq == given || io_exists(given) ? given : eq + 1;
}

/* Adds a text [NAME=]FILE; shown: the file's name without those of other folders. */
static int load_text(struct versus *v, const char *given, const char *shown, struct err *e) {
    const char *file = versus_text_file(given);
    char *name = file > given      ? xstrndup(given, (size_t)(file - given - 1))
                 : io_exists(file) ? xstrdup(shown)
                                   : NULL;
    const int rc = add_text(v, name, file, e);
    free(name);
    return rc;
}

/* Returns the number of tokens of the first n domains. */
static int64_t n_tokens(const struct eval_texts *t, int n) {
    int64_t sum = 0;
    for (int i = 0; i < n; i++) sum += t->domain[i].n_ids;
    return sum;
}

/* Loads the texts: [NAME=]FILE, names of built-in domains, or all built-in domains. Windows are
 * taken from the beginning of a domain, so a domain of several files would leave out the last. */
static int load_texts(struct versus *v, struct err *e) {
    const struct str_list *l = &v->o->text;
    if (!l->n) return eval_texts_add_all(&v->texts, v->base.m, e);
    char **shown = versus_shown(l, versus_text_file);
    int rc = 0;
    for (int i = 0; i < l->n && !rc; i++) {
        const int n = v->texts.n;
        const int64_t before = n_tokens(&v->texts, n);
        rc = load_text(v, l->v[i], shown[i], e);
        if (!rc && n_tokens(&v->texts, n) > before)
            rc = err_set(e, ERR_USAGE,
                         "--text %s: an earlier text has a domain of this name; join the files, or "
                         "use another name",
                         l->v[i]);
    }
    for (int i = 0; i < l->n; i++) free(shown[i]);
    free(shown);
    return rc;
}

/* ---- runs ---- */

/* Computes the divergence of all files, with every cache type, in one pass over the texts. */
static int run_kld(struct versus *v, struct err *e) {
    struct session *s[VERSUS_MAX];
    for (int k = 0; k < v->kv.n; k++)
        for (int i = 0; i < v->n; i++) s[versus_cand(v, i, k)] = v->f[i].s[k];
    const struct eval_kld_job job = {.base = v->base.s[0],
                                     .cand = s,
                                     .n_cand = v->n * v->kv.n,
                                     .domain = v->texts.domain,
                                     .n_domains = v->texts.n,
                                     .ctx = v->o->eval.ctx,
                                     .max_chunks = v->o->eval.chunks,
                                     .from = v->o->eval.by_depth ? 0 : -1};
    TRY(eval_kld_open(&job, &v->r, e));
    for (int i = 0; i < v->n; i++) {
        eval_kld_total(&v->r, i, &v->f[i].k);
        eval_kld_group(&v->r, i, -1, v->r.ctx / 2, v->r.ctx, &v->f[i].g);
    }
    return 0;
}

/* Writes the plot of size against divergence, coloured by the loss in words. */
static int write_plot(const struct versus *v, struct err *e) {
    struct plot_band band[PICK_BANDS];
    struct plot_point p[VERSUS_MAX];
    const struct plot_axes ax = {.title = "file size against mean divergence",
                                 .x = "size of the file",
                                 .y = "mean divergence, nats (lower is better)",
                                 .log_y = true,
                                 .label_points = true,
                                 .bytes_x = true,
                                 .band = band,
                                 .n_bands = PICK_BANDS};
    for (int i = 0; i < PICK_BANDS; i++)
        band[i] = (struct plot_band){pick_bands[i].max_kld, pick_bands[i].name};
    for (int i = 0; i < v->n; i++) {
        const struct versus_file *f = &v->f[i];
        bool front = true;
        for (int k = 0; k < v->n; k++)
            front = front &&
                    (k == i || v->f[k].n_bytes > f->n_bytes || v->f[k].g.mean_kld > f->g.mean_kld);
        p[i] = (struct plot_point){
            .x = (double)f->n_bytes,
            .y = f->g.mean_kld,
            .series = i,
            .label = f->label,
            .err = f->g.n_chunks < MEASURE_MIN ? 0 : (f->g.mean_kld_hi - f->g.mean_kld_lo) / 2,
            .band = 1 + (int)pick_judge(f->g.mean_kld, f->g.mean_kld_stderr).band % PICK_BANDS,
            .front = front};
    }
    return plot_write(v->w, &ax, p, v->n, v->o->eval.plot, e);
}

/* Writes the Markdown block, made from the JSON document. */
static int write_markdown(const struct versus *v, const struct emit *m, struct err *e) {
    struct buf json = {0}, md = {0};
    cJSON *root = NULL;
    emit_render(m, EMIT_JSON, &json);
    int rc = doc_parse(&root, json.data, json.len, "the comparison", e);
    if (!rc) {
        versus_markdown(root, &md);
        rc = out_write_file(v->o->markdown, md.data, md.len, v->w->overwrite, e);
    }
    cJSON_Delete(root);
    buf_release(&json);
    buf_release(&md);
    return rc;
}

static void release_file(struct versus_file *x) {
    for (int k = 0; k < VERSUS_MAX_KV; k++) session_free(x->s[k]);
    model_close(x->m);
    for (int i = 0; i < x->n_faults && i < VERSUS_MAX_FAULTS; i++) free(x->fault[i]);
    free(x->first_template);
    free(x->name);
    free(x->label);
}

/* Adds the files in a list option to the inputs. Returns ERR_USAGE if one is given twice: its cases
 * would count twice. file: finds the file in a value. */
static int add_inputs(struct apart *files, const char *option, const struct str_list *l,
                      const char *(*file)(const char *given), struct err *e) {
    for (int i = 0; i < l->n; i++) {
        apart_in(files, file(l->v[i]));
        for (int k = 0; k < i; k++)
            if (apart_same(file(l->v[i]), file(l->v[k])))
                return err_set(e, ERR_USAGE, "--%s: %s is given twice", option, file(l->v[i]));
    }
    return 0;
}

/* Returns ERR_USAGE unless the options and the number of files make sense; outputs that exist or
 * cannot be written are refused before the work. */
static int check_options(struct work *w, const struct versus_opts *o, struct err *e) {
    const char *const out[] = {o->eval.plot, o->markdown};
    if (o->n_files < 1) return err_set(e, ERR_USAGE, "versus: give a BASE and at least one FILE");
    if (o->n_files > VERSUS_MAX)
        return err_set(e, ERR_USAGE, "versus: at most %d files at a time", VERSUS_MAX);
    if (o->greedy > MAX_GREEDY)
        return err_set(e, ERR_USAGE, "--greedy: at most %d texts", MAX_GREEDY);
    if (o->max_tokens < 1) return err_set(e, ERR_USAGE, "--max-tokens must be at least 1");
    struct apart files = {.w = w};
    apart_in(&files, o->base);
    apart_in_all(&files, o->file, o->n_files);
    TRY(add_inputs(&files, "text", &o->text, versus_text_file, e));
    TRY(add_inputs(&files, "choice", &o->choice, versus_choice_file, e));
    TRY(add_inputs(&files, "tools", &o->tools, versus_whole, e));
    for (size_t i = 0; i < COUNT_OF(out); i++) apart_out(&files, out[i]);
    TRY(apart_check(&files, e));
    for (size_t i = 0; i < COUNT_OF(out); i++)
        if (out[i]) TRY(out_try(out[i], w->overwrite, e));
    return 0;
}

int versus_run(struct work *w, const struct versus_opts *o, struct emit *m, struct err *e) {
    TRY(check_options(w, o, e));
    struct versus *v = xcalloc(1, sizeof *v);
    v->w = w;
    v->o = o;
    int rc = read_kv(v, e);
    if (!rc) rc = open_all(v, e);
    if (!rc) rc = load_texts(v, e);
    if (!rc) rc = versus_read_flips(v, e);
    if (!rc) rc = run_kld(v, e);
    if (!rc) rc = versus_flips(v, e);
    if (!rc) versus_emit(v, m);
    if (!rc && o->eval.plot) rc = write_plot(v, e);
    if (!rc && o->markdown) rc = write_markdown(v, m, e);
    release_file(&v->base);
    for (int i = 0; i < v->n; i++) release_file(&v->f[i]);
    eval_kld_close(&v->r);
    eval_texts_release(&v->texts);
    free(v);
    return rc;
}
