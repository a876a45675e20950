// SPDX-License-Identifier: MIT
/* plan/plan_files.c - recommendation of the best of several files for a card. */
#include "plan/plan_files.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "containers/gguf.h"
#include "convert/mmproj.h"
#include "containers/hfdir.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/printable.h"
#include "base/str.h"
#include "work/open.h"
#include "plan/plan_split.h"
#include "work/shapes.h"
#include "models/fit.h"
#include "quantize/quantize.h"
#include "report/result.h"
#include "runtime/engine/kv_type.h"

enum { WAY_TEXT = 96 };
struct candidate {     /* an existing file, or one that could be created */
    const char *name;  /* path; or recipe, preceded by the folder if there are several */
    const char *shown; /* name without folders, if unambiguous */
    int order; /* position of its recipe among the size classes; 0: closest to the original */
    uint64_t bytes;
    uint64_t projector; /* bytes of the folder's projector file, or of one to be made, also on the
                           card */
    double kld;         /* mean divergence from the original in nats; NaN: not measured */
    struct sizes z;
    struct fit fit, small; /* fit with the requested cache, and with a smaller one (KV_SMALL) */
};
struct choice {
    struct work *w;
    const struct memory_plan_opts *o;
    struct candidate **c; /* largest first */
    int n;
    struct io_names seen;    /* real paths of the added files */
    struct fit_ask ask;      /* n_ctx 0: each model's trained context */
    struct plan_split split; /* the cards */
    const struct kv_type *k, *v;
    int64_t n_ctx_train; /* shortest trained context of all models */
    bool contexts;       /* models are planned with different contexts */
    bool trained;        /* models were trained for different contexts */
    bool measured;       /* the divergence of at least one file is known */
    bool forecast;       /* candidates are recipes for a model that has not been converted yet */
};

bool plan_is_choice(const struct memory_plan_opts *o) {
    return o->n_paths > 1 || io_is_dir(o->path[0]) || str_ends(o->path[0], ".json");
}

/* Returns the rank, among the size classes, of the recipe that `name` ends with. */
static int class_order(const char *name) {
    const size_t n = strlen(name) - (str_ends(name, ".gguf") ? 5 : 0);
    int i = 0;
    for (const char *r; (r = recipe_ladder(i)) != NULL; i++)
        if (n >= strlen(r) && strncmp(name + n - strlen(r), r, strlen(r)) == 0) return i;
    return i;
}

/* Appends a candidate and returns it; the choice owns it. */
static struct candidate *add_candidate(struct choice *x, const char *name) {
    x->c = xreallocarray(x->c, (size_t)x->n + 1, sizeof(struct candidate *));
    struct candidate *c = x->c[x->n++] = xcalloc(1, sizeof *c);
    c->name = c->shown = arena_strdup(&x->w->mem, name);
    c->order = class_order(name);
    c->kld = (double)NAN;
    return c;
}

/* Removes the candidate added last. */
static void drop_last(struct choice *x) {
    free(x->c[--x->n]);
}

/* Returns whether a file was added before, perhaps under a different path; if not, adds it. */
static bool seen_before(struct choice *x, const char *path) {
    char *real = io_real(path);
    bool found = false;
    for (int i = 0; real && i < x->seen.n && !found; i++) found = strcmp(x->seen.v[i], real) == 0;
    if (real && !found) io_names_add(&x->seen, real);
    free(real);
    return found;
}

/* Returns the request for one candidate, with the context of --ctx or the trained one. */
static struct fit_ask ask_of(const struct choice *x, const struct candidate *c) {
    struct fit_ask a = x->ask;
    a.reserve += c->projector;
    if (!a.n_ctx) a.n_ctx = c->z.n_ctx_train ? c->z.n_ctx_train : 4096;
    return a;
}

/* Appends "with 4096 tokens" and, if smaller, the trained context. */
static void with_tokens(const struct choice *x, const struct candidate *c, struct buf *b) {
    const int64_t n = ask_of(x, c).n_ctx, trained = c->z.n_ctx_train;
    buf_fmt(b, "with %lld tokens", (long long)n);
    if (trained && n > trained)
        buf_fmt(b, ", more than the %lld it was trained for", (long long)trained);
}

/* ---- candidates ------------------------------------------------------------------------------ */

/* Reads the measured divergence of the files from the folder's results.json. */
static void take_losses(struct choice *x, int first, const char *folder) {
    struct result r;
    struct err ignored;
    char *path = io_join(folder, "results.json");
    if (io_exists(path) && result_open(&r, path, &ignored) == 0) {
        for (int i = first; i < x->n; i++)
            for (int k = 0; k < r.n_files; k++) {
                if (strcmp(r.file[k].file, io_base(x->c[i]->name)) != 0) continue;
                if (result_match(&r.file[k], folder) == RESULT_OTHER)
                    log_warn("%s: its weights are not those that %s was written for: its loss is "
                             "unknown",
                             x->c[i]->name, path);
                else
                    x->c[i]->kld = r.file[k].is_base ? 0 : r.file[k].mean_kld;
            }
        result_close(&r);
    }
    free(path);
}

/* Adds a GGUF file as a candidate unless it has already been added. */
static int add_file(struct choice *x, const char *path, struct err *e) {
    const struct arch *a;
    if (seen_before(x, path)) return 0;
    struct candidate *c = add_candidate(x, path);
    return plan_read_sizes(path, &c->z, &a, &c->bytes, e);
}

/* Returns whether a file name in a folder is that of a GGUF file or of its first shard. */
static bool is_first(const char *name) {
    int i, n;
    size_t len;
    return str_ends(name, ".gguf") && (!gguf_split_parse(name, &i, &n, &len) || i == 0);
}

/* Returns whether a file is not a model but an importance matrix, a draft or the like. *projector
 * becomes the size of a projector file, if that is larger. */
static bool comes_with_model(const char *path, uint64_t *projector) {
    struct gguf *g;
    struct err why;
    if (gguf_open(&g, path, GGUF_TOLERANT, &why))
        return strncmp(io_base(path), "mmproj", 6) == 0; /* add_file reports any other file */
    const enum gguf_part part = gguf_part_of(g);
    const bool is = part != GGUF_MODEL || open_is_companion(g);
    if (part == GGUF_TOWER && gguf_file_bytes(g) > *projector) *projector = gguf_file_bytes(g);
    gguf_close(g);
    return is;
}

/* Adds the models in a folder. Sets *models if there are any, even if they were added before. */
static int add_ggufs(struct choice *x, const char *folder, bool *models, struct err *e) {
    const int first = x->n;
    uint64_t projector = 0;
    struct io_names all;
    TRY(io_list(&all, folder, e));
    for (int i = 0; i < all.n; i++) {
        struct err why;
        char *path = io_join(folder, all.v[i]);
        if (!is_first(all.v[i]) || comes_with_model(path, &projector)) {
            log_debug("%s: not a model", path);
        } else if (add_file(x, path, &why)) {
            log_warn("left out of the table: %s", why.msg);
            drop_last(x);
        } else {
            *models = true;
        }
        free(path);
    }
    for (int i = first; i < x->n; i++) x->c[i]->projector = projector;
    io_names_release(&all);
    return 0;
}

struct making { /* the file that a recipe would make from an unconverted folder */
    struct candidate *c;
    const struct arch *arch;
};
/* Adds a planned tensor to the candidate's sizes; a callback of shapes_recipe(). */
static void made_tensor(void *ud, const char *name, uint64_t n_bytes) {
    struct making *k = ud;
    sizes_add(&k->c->z, k->arch, name, n_bytes);
}

/* Returns the size of the largest projector file that `hone make` would write next to the models of
 * an unconverted folder. */
static int made_projector(const char *folder, uint64_t *out, struct err *e) {
    struct mmproj_look l;
    *out = 0;
    TRY(mmproj_look(folder, NULL, NULL, &l, e));
    for (int i = 0; i < l.n_files; i++)
        if (l.file[i].size_bytes > *out) *out = l.file[i].size_bytes;
    return 0;
}

/* Adds the file that the recipe would make of the folder's model as a candidate. */
static int add_recipe(struct choice *x, const struct shapes *s, const struct hparams *h,
                      const char *folder, const char *recipe, struct err *e) {
    const int n = (int)strlen(folder) - (str_ends(folder, "/config.json") ? 12 : 0);
    char *name = x->o->n_paths > 1 ? xasprintf("%.*s %s", n, folder, recipe) : xstrdup(recipe);
    struct making k = {add_candidate(x, name), s->model.arch};
    free(name);
    TRY(sizes_init(&k.c->z, k.arch, h, e));
    k.c->bytes = shapes_recipe(s, recipe, made_tensor, &k);
    k.c->projector = s->projector;
    return 0;
}

/* Adds one candidate for each recipe of the folder's model. */
static int add_recipes(struct choice *x, const char *folder, struct err *e) {
    struct shapes s;
    struct hfdir *dir = NULL;
    const char *(*const name)(int) = x->o->recipes ? recipe_name : recipe_ladder;
    x->forecast = true;
    if (seen_before(x, folder)) return 0;
    struct hparams *h = xcalloc(1, sizeof *h);
    const bool config = shapes_is_config(folder);
    int rc = config ? shapes_from_config(&s, folder, h, e) : shapes_open(&s, folder, NULL, NULL, e);
    if (!rc && !config) rc = made_projector(folder, &s.projector, e);
    if (!rc && !config) rc = hfdir_open(&dir, folder, e);
    if (!rc && !config) rc = hparams_from_hf(h, s.model.arch, dir, e);
    if (!rc && config)
        log_info("%s: from the configuration alone, so the files will be a few MB larger", folder);
    for (int i = 0; !rc && name(i); i++) rc = add_recipe(x, &s, h, folder, name(i), e);
    hfdir_close(dir);
    shapes_close(&s);
    free(h);
    return rc;
}

/* Returns whether the i-th argument is a later shard of a model whose first shard is an argument
 * too, as in "plan *.gguf". */
static bool is_later_shard(const struct choice *x, int i) {
    const char *path = x->o->path[i];
    int shard, n, k, n_k;
    size_t len, len_k;
    if (!gguf_split_parse(path, &shard, &n, &len) || !shard) return false;
    for (int j = 0; j < x->o->n_paths; j++)
        if (gguf_split_parse(x->o->path[j], &k, &n_k, &len_k) && !k && n_k == n && len_k == len &&
            strncmp(x->o->path[j], path, len) == 0)
            return true;
    return false;
}

/* Counts the projector files among the arguments with the models of the same folder. */
static void add_projectors(struct choice *x) {
    for (int k = 0; k < x->o->n_paths && x->o->n_paths > 1; k++) {
        const char *path = x->o->path[k];
        const size_t n = (size_t)(io_base(path) - path);
        uint64_t n_bytes = 0;
        if (!str_ends(path, ".gguf") || io_is_dir(path) || !comes_with_model(path, &n_bytes))
            continue;
        for (int i = 0; i < x->n; i++) {
            struct candidate *c = x->c[i];
            if (str_ends(c->name, ".gguf") && io_base(c->name) == c->name + n &&
                strncmp(c->name, path, n) == 0)
                c->projector = max_u64(c->projector, n_bytes);
        }
    }
}

/* Adds the candidates of an argument: a file, a folder of files or a folder to be converted. */
static int add_argument(struct choice *x, const char *path, struct err *e) {
    const int first = x->n;
    if (str_ends(path, ".json")) return add_recipes(x, path, e);
    if (!io_is_dir(path)) {
        uint64_t projector = 0;
        if (x->o->n_paths > 1 && comes_with_model(path, &projector)) {
            log_info(projector ? "%s: a projector file, counted with the models in its folder"
                               : "%s: left out: not a model",
                     path);
            return 0;
        }
        TRY(add_file(x, path, e));
        char *folder = xstrdup(path);
        folder[io_base(folder) - folder] = 0;
        take_losses(x, first, *folder ? folder : ".");
        free(folder);
        return 0;
    }
    bool models = false;
    TRY(add_ggufs(x, path, &models, e));
    take_losses(x, first, path);
    if (models) return 0;
    char *config = io_join(path, "config.json");
    const bool is_hf = io_exists(config);
    free(config);
    return is_hf
               ? add_recipes(x, path, e)
               : err_set(e, ERR_USAGE, "%s: no GGUF model and no config.json in this folder", path);
}

/* Orders candidates by size, the largest first, for qsort. */
static int larger_first(const void *a, const void *b) {
    const struct candidate *x = *(struct candidate *const *)a, *y = *(struct candidate *const *)b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return x->order != y->order ? x->order - y->order : strcmp(x->name, y->name);
}

/* Chooses the names to show: without folders, unless two would then be equal. */
static void name_candidates(struct choice *x) {
    for (int i = 0; i < x->n; i++) {
        bool twice = false;
        for (int k = 0; k < x->n; k++)
            twice |= k != i && strcmp(io_base(x->c[k]->name), io_base(x->c[i]->name)) == 0;
        if (!twice) x->c[i]->shown = io_base(x->c[i]->name);
    }
}

/* ---- fit ------------------------------------------------------------------------------- */

/* Checks the options and computes how each candidate fits. */
static int settle_options(struct choice *x, struct err *e) {
    const struct memory_plan_opts *o = x->o;
    const struct kv_type *small = kv_type_find(KV_SMALL);
    struct plan_split *s = &x->split;
    TRY(memory_plan_check(o, e));
    TRY(kv_type_parse(o->kv_name, "--kv-type", &x->k, &x->v, e));
    if (o->vram) TRY(plan_split_parse(s, o->vram, e));
    uint64_t memory = 0;
    for (int i = 0; i < s->n_cards; i++) memory += s->memory[i];
    const uint64_t n_cards = s->n_cards ? (uint64_t)s->n_cards : 1;
    s->reserve = o->reserve == PLAN_USUAL_RESERVE ? fit_reserve(memory / n_cards) : o->reserve;
    x->ask = (struct fit_ask){.memory = memory,
                              .reserve = s->reserve * n_cards,
                              .n_slots = o->slots,
                              .rows = kv_type_rows(x->k, x->v)};
    TRY(plan_split_check(s, e));
    x->ask.n_ctx = o->ctx;
    for (int i = 0; i < x->n; i++) {
        const int64_t trained = x->c[i]->z.n_ctx_train;
        x->n_ctx_train = i ? min_i64(x->n_ctx_train, trained) : trained;
        x->trained |= trained != x->c[0]->z.n_ctx_train;
        x->contexts |= ask_of(x, x->c[i]).n_ctx != ask_of(x, x->c[0]).n_ctx;
    }
    if (x->n_ctx_train && o->ctx > x->n_ctx_train) plan_warn_trained(x->n_ctx_train, x->trained);
    for (int i = 0; i < x->n; i++) {
        struct candidate *c = x->c[i];
        const struct fit_ask ask = ask_of(x, c);
        struct fit_ask less = ask;
        less.rows = kv_type_rows(small, small);
        s->projector = c->projector;
        if (!plan_split_fit(s, &c->z, &ask, &c->fit))
            return err_set(e, ERR_USAGE, "%s: --kv-type %s does not fit its heads", c->name,
                           o->kv_name);
        if (!plan_split_fit(s, &c->z, &less, &c->small)) c->small = c->fit;
        x->measured |= isfinite(c->kld);
    }
    return 0;
}

/* The recommended file, and how it fits: the best way in which any file fits. */
struct take {
    int i;            /* -1: none fits */
    bool small_cache; /* only with a smaller cache */
    enum fit_way way;
};

/* Returns how candidate i fits with the chosen or the small type of cache. */
static const struct fit *fit_of(const struct choice *x, int i, bool small_cache) {
    return small_cache ? &x->c[i]->small : &x->c[i]->fit;
}

/* Returns whether fit a is better than b of the same way: more blocks, or more blocks with their
 * experts, on the card. */
static bool has_more(const struct fit *a, const struct fit *b) {
    return a->way == FIT_EXPERTS ? a->n < b->n : a->way == FIT_BLOCKS && a->n > b->n;
}

/* Returns the recommended file among those that fit in the given way: if they fit only partly, the
 * one with the most on the card; of several, the one closest to the original if all were measured,
 * otherwise the largest. -1: none. */
static int best_of(const struct choice *x, enum fit_way way, bool small_cache) {
    int best = -1;
    bool all = true;
    for (int i = 0; i < x->n; i++)
        if (fit_of(x, i, small_cache)->way == way) all &= isfinite(x->c[i]->kld);
    for (int i = 0; i < x->n; i++) {
        const struct fit *f = fit_of(x, i, small_cache);
        const struct fit *b = best < 0 ? NULL : fit_of(x, best, small_cache);
        if (f->way != way) continue;
        if (!b || has_more(f, b) || (!has_more(b, f) && all && x->c[i]->kld < x->c[best]->kld))
            best = i;
    }
    return best;
}

/* Returns the best candidate and how it fits; its i is -1 if none fits or no memory is given. */
static struct take find_take(const struct choice *x) {
    static const struct take ways[] = {{0, false, FIT_ALL},
                                       {0, true, FIT_ALL},
                                       {0, false, FIT_EXPERTS},
                                       {0, true, FIT_EXPERTS},
                                       {0, false, FIT_BLOCKS}};
    for (size_t k = 0; k < COUNT_OF(ways) && x->ask.memory; k++) {
        struct take t = ways[k];
        t.i = best_of(x, t.way, t.small_cache);
        if (t.i >= 0) return t;
    }
    return (struct take){-1, false, FIT_NONE};
}

/* ---- answer and table ------------------------------------------------------------------------ */

/* Writes how much of the model fits: "yes", "no" or the number of blocks. */
static void way_text(const struct candidate *c, const struct fit *f, char out[WAY_TEXT]) {
    static const char *const whole[] = {[FIT_ALL] = "yes", [FIT_NONE] = "no"};
    if (f->way == FIT_EXPERTS)
        snprintf(out, WAY_TEXT, "without the experts of %d of %d blocks", f->n, c->z.n_blocks);
    else if (f->way == FIT_BLOCKS)
        snprintf(out, WAY_TEXT, "%d of %d blocks%s", f->n, c->z.n_blocks,
                 sizes_has_experts(&c->z) ? ", without their experts" : "");
    else
        snprintf(out, WAY_TEXT, "%s", whole[f->way]);
}

/* Writes the table's text: how much of the model fits, if necessary with a smaller cache. */
static void row_text(const struct candidate *c, char out[WAY_TEXT]) {
    const bool small = c->small.way < c->fit.way && c->small.way <= FIT_EXPERTS;
    way_text(c, small ? &c->small : &c->fit, out);
    if (!small) return;
    const size_t n = c->small.way == FIT_ALL ? 0 : strlen(out);
    snprintf(out + n, WAY_TEXT - n, "%swith --kv-type " KV_SMALL, n ? ", " : "");
}

/* Appends what a smaller cache would allow: a larger file, or less memory. */
static void with_small_cache(const struct choice *x, int best, struct buf *b) {
    const struct candidate *c = x->c[best];
    int larger = best;
    while (larger > 0 && x->c[larger - 1]->small.way == FIT_ALL) larger--;
    if (larger != best) {
        buf_fmt(b, "; %s fits with --kv-type " KV_SMALL, x->c[larger]->shown);
    } else if (c->small.way == c->fit.way && c->small.use.kv < c->fit.use.kv) {
        buf_str(b, "; --kv-type " KV_SMALL " frees ");
        buf_str(b, show_bytes(c->fit.use.kv - c->small.use.kv).s);
    }
}

/* Returns how much memory a file takes with everything on the card or cards, also its folder's
 * projector. */
static uint64_t whole_bytes(const struct choice *x, const struct candidate *c) {
    struct fit_use u;
    const struct fit_ask ask = ask_of(x, c);
    (void)fit_use(&c->z, &ask, 0, 0, &u); /* cannot fail: settle_options() checked it */
    if (x->split.n_cards < 2) return c->projector + u.total;
    const uint64_t rest = c->fit.way == FIT_BLOCKS ? c->fit.host - c->z.embd : 0;
    return c->projector + c->fit.use.total + rest;
}

/* Returns the file that fits with the longest context, first with the requested cache type, then
 * with the smaller one. -1: no file fits with any context. */
static int fits_shorter(const struct choice *x, bool *small_cache, int64_t *ctx) {
    int best = -1;
    *ctx = 0;
    for (int k = 0; k < 2 && best < 0; k++)
        for (int i = 0; i < x->n; i++)
            if (fit_of(x, i, k)->max_ctx > *ctx) {
                best = i;
                *small_cache = k;
                *ctx = fit_of(x, i, k)->max_ctx;
            }
    return best;
}

/* Writes the answer if no file fits: the size of the smallest one, and the context with which it
 * would fit. */
static void answer_none(const struct choice *x, struct buf *b) {
    const struct candidate *c = x->c[x->n - 1];
    bool small_cache = false;
    int64_t ctx;
    const int best = fits_shorter(x, &small_cache, &ctx);
    buf_fmt(b, x->n > 1 ? "None of %d files fits" : "It does not fit", x->n);
    buf_fmt(b, ": the smallest, %s, takes %s ", c->shown, show_bytes(whole_bytes(x, c)).s);
    with_tokens(x, c, b);
    plan_usable(b, &x->ask);
    if (best < 0)
        buf_str(b, "; no context is short enough");
    else
        buf_fmt(b, "; %s fits with --ctx %lld%s", x->c[best] == c ? "it" : x->c[best]->shown,
                (long long)ctx, small_cache ? " --kv-type " KV_SMALL : "");
}

/* Emits the answer for a plan without --vram. */
static void answer_sizes(const struct choice *x, struct emit *m) {
    struct buf b = {0};
    const uint64_t most = whole_bytes(x, x->c[0]), least = whole_bytes(x, x->c[x->n - 1]);
    buf_fmt(&b, "%d file%s, ", x->n, str_s(x->n));
    buf_str(&b, show_bytes(least).s);
    if (x->n > 1) buf_str(&b, " to ");
    if (x->n > 1) buf_str(&b, show_bytes(most).s);
    buf_str(&b, " on a card ");
    if (x->contexts)
        buf_str(&b, "with the context each was trained for");
    else
        with_tokens(x, x->c[0], &b);
    buf_str(&b, "; add --vram SIZE to see which to take.");
    emit_answer(m, b.data);
    buf_release(&b);
}

/* Adds the sentence that recommends candidate t->i. */
static void put_answer(const struct choice *x, const struct take *t, struct emit *m) {
    const struct candidate *c = x->c[t->i];
    const struct fit *f = fit_of(x, t->i, t->small_cache);
    struct buf b = {0};
    char way[WAY_TEXT];
    bool largest = true;
    for (int i = 0; i < t->i; i++) largest &= fit_of(x, i, t->small_cache)->way != t->way;
    way_text(c, f, way);
    if (t->way != FIT_ALL) buf_str(&b, "No file fits completely. ");
    buf_fmt(&b, "Take %s%s: ", c->shown, t->small_cache ? " with --kv-type " KV_SMALL : "");
    if (t->way == FIT_ALL)
        buf_fmt(&b, "%s that fits, ", largest ? "the largest" : "the closest to the original");
    else
        buf_fmt(&b, "%s, ", way);
    plan_of_memory(&b, f->use.total + c->projector, x->ask.memory);
    if (c->projector) buf_str(&b, ", its projector included,");
    buf_chr(&b, ' ');
    with_tokens(x, c, &b);
    if (t->way == FIT_ALL && !t->small_cache) with_small_cache(x, t->i, &b);
    plan_host_memory(&b, f);
    buf_chr(&b, '.');
    emit_answer(m, b.data);
    emit_str(m, "take", NULL, c->name);
    buf_release(&b);
}

/* Adds the table of candidates; take: the recommended one, -1 if none. */
static void emit_files(const struct choice *x, int take, struct emit *m) {
    const bool card = x->ask.memory > 0;
    const int digits = x->c[0]->bytes >> 30 ? 2 : 4; /* of GiB */
    emit_table(m, "files", "");
    emit_col(m, "file", "file");
    emit_col(m, "size_bytes", NULL);
    emit_col(m, "size_gib", "GiB");
    if (x->contexts) emit_col(m, "ctx", "context");
    emit_col(m, "used_gib", "on a GPU");
    if (card) emit_col(m, "left_gib", "left");
    if (card) emit_col(m, "max_ctx", "longest context");
    if (x->measured) emit_col(m, "mean_kld", "mean KLD");
    if (card) emit_col(m, "fits", "fits");
    if (card) emit_col(m, "take", "");
    for (int i = 0; i < x->n; i++) {
        const struct candidate *c = x->c[i];
        char way[WAY_TEXT];
        const double whole = (double)whole_bytes(x, c);
        const double left = (double)x->ask.memory - (double)x->ask.reserve - whole;
        emit_row(m);
        emit_cell_str(m, c->shown);
        emit_cell_i64(m, (int64_t)c->bytes);
        emit_cell_num(m, (double)c->bytes / 0x1p30, digits);
        if (x->contexts) emit_cell_i64(m, ask_of(x, c).n_ctx);
        emit_cell_num(m, whole / 0x1p30, digits);
        if (card) emit_cell_num(m, left / 0x1p30, digits);
        if (card) emit_cell_i64(m, c->fit.max_ctx);
        if (isfinite(c->kld))
            emit_cell_num(m, c->kld, 5);
        else if (x->measured)
            emit_cell_none(m);
        if (!card) continue;
        row_text(c, way);
        emit_cell_str(m, way);
        emit_cell_str(m, i == take ? "take" : "");
    }
}

/* Adds the answer and the table; ERR_VERDICT if no candidate fits. */
static int emit_choice(const struct choice *x, struct emit *m, struct err *e) {
    const struct take t = find_take(x);
    char kv[40];
    kv_type_text(kv, x->k, x->v);
    struct buf none = {0};
    if (t.i >= 0)
        put_answer(x, &t, m);
    else if (!x->ask.memory)
        answer_sizes(x, m);
    else
        answer_none(x, &none);
    if (none.len) {
        struct buf sentence = {0};
        buf_fmt(&sentence, "%s.", none.data);
        emit_answer(m, sentence.data);
        buf_release(&sentence);
    }
    emit_i64(m, "vram_bytes", NULL, (int64_t)x->ask.memory);
    emit_i64(m, "reserve_bytes", NULL, (int64_t)x->ask.reserve);
    if (!x->contexts) emit_i64(m, "ctx", "planned context per slot", ask_of(x, x->c[0]).n_ctx);
    emit_i64(m, "ctx_train", x->trained ? "shortest trained context" : "trained context",
             x->n_ctx_train);
    emit_i64(m, "slots", "slots", x->ask.n_slots);
    emit_str(m, "kv_type", "type of keys and values", kv);
    emit_files(x, t.i, m);
    const int rc = none.len ? err_set(e, ERR_VERDICT, "%s", none.data) : 0;
    buf_release(&none);
    return rc;
}

int plan_files_run(struct work *w, const struct memory_plan_opts *o, struct emit *m,
                   struct err *e) {
    struct choice x = {.w = w, .o = o};
    int rc = 0;
    if (o->launches || o->plot || o->act)
        return err_set(e, ERR_USAGE, "--launches and --plot take a single file");
    for (int i = 0; i < o->n_paths && !rc; i++)
        if (!is_later_shard(&x, i)) rc = add_argument(&x, o->path[i], e);
    if (!rc) add_projectors(&x);
    if (!rc && o->recipes && !x.forecast)
        rc = err_set(e, ERR_USAGE, "--all-recipes takes a single file, or an unconverted model");
    if (!rc && !x.n) rc = err_set(e, ERR_USAGE, "%s: not a model", o->path[0]);
    if (!rc) qsort(x.c, (size_t)x.n, sizeof(struct candidate *), larger_first);
    name_candidates(&x);
    if (!rc) rc = settle_options(&x, e);
    if (!rc) rc = emit_choice(&x, m, e);
    while (x.n) drop_last(&x);
    free(x.c);
    io_names_release(&x.seen);
    return rc;
}
