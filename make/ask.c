// SPDX-License-Identifier: MIT
/* make/ask.c - checks of the options of `hone make`, so that errors appear before hours of work,
 * the split of recipe names into size classes and presets, and the order of the classes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/measure/job.h"
#include "make/size_ladder.h"
#include "mix/mixer.h"
#include "mix/sens.h"
#include "mix/sensitivity.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "text/size.h"
#include "quantize/exact.h"
#include "quantize/quantize.h"
#include "runtime/measure/suite.h"

/* Sorts the recipe names: size classes go to the ladder; all others are made under their own
 * name. */
static int check_recipes(struct make *mk, const char *names, struct err *e) {
    struct str_list all = {0};
    if (names)
        work_split(mk->w, names, &all);
    else
        for (int i = 0; recipe_ladder(i); i++) work_list_add(mk->w, &all, recipe_ladder(i));
    for (int i = 0; i < all.n; i++) {
        const char *name = recipe_find(all.v[i]), *class = ladder_find(all.v[i]);
        if (!name && recipe_like(all.v[i]))
            return err_set(e, ERR_USAGE, "--recipe: no recipe '%s'; did you mean %s?", all.v[i],
                           recipe_like(all.v[i]));
        if (!name)
            return err_set(e, ERR_USAGE, "--recipe: no recipe '%s'; 'hone recipes' lists them",
                           all.v[i]);
        struct str_list *to = class && !mk->plain ? &mk->asked : &mk->recipes;
        bool twice = false;
        for (int k = 0; k < to->n; k++) twice |= strcmp(to->v[k], name) == 0;
        if (!twice) work_list_add(mk->w, to, name);
    }
    mk->classes = mk->asked;
    mk->named = names != NULL;
    return 0;
}

uint64_t make_class_size(const struct make *mk, const struct shapes *s, const char *name) {
    uint64_t exact;
    struct err ignored;
    if (mk->n_files && make_class_bytes(mk, name, &exact, &ignored) == 0) return exact;
    return shapes_preset(s, name);
}

void make_order_classes(struct make *mk, const struct shapes *s) {
    const int n = mk->asked.n;
    struct size_class *c = xcalloc((size_t)n + 1, sizeof *c);
    const enum log_level level = log_get_level();
    char text[160];
    log_set_level(LOG_ERROR); /* the encoding itself will repeat the messages */
    for (int i = 0; i < n; i++)
        c[i] = (struct size_class){.name = mk->asked.v[i],
                                   .bytes = make_class_size(mk, s, mk->asked.v[i])};
    log_set_level(level);
    ladder_order(c, n);
    mk->classes = mk->same = (struct str_list){0};
    for (int i = 0; i < n; i++)
        if (mk->named || !c[i].same) {
            work_list_add(mk->w, &mk->classes, c[i].name);
        } else {
            snprintf(text, sizeof text,
                     "%s is not made: for this model, its size is that of %s; --recipe %s makes it",
                     c[i].name, c[i].same, c[i].name);
            work_list_add(mk->w, &mk->same, arena_strdup(&mk->w->mem, text));
        }
    free(c);
}

/* Returns ERR_USAGE for a recipe with a smaller type than drafts get, whose files would have
 * another type than their names say. */
static int check_draft_recipes(const struct make *mk, struct err *e) {
    const struct str_list *lists[] = {&mk->recipes, &mk->classes};
    for (size_t k = 0; k < COUNT_OF(lists) && mk->draft; k++)
        for (int i = 0; i < lists[k]->n; i++)
            if (!recipe_suits_drafts(recipe_default(lists[k]->v[i])))
                return err_set(e, ERR_USAGE,
                               "--recipe %s: drafts get no type below Q4_K, because the model "
                               "accepts fewer drafts below it: use Q4_K_M or a larger one",
                               lists[k]->v[i]);
    return 0;
}

/* Returns ERR_USAGE unless --depths is a list of numbers that fit 32 bits. */
static int check_depths(const struct make *mk, struct err *e) {
    int64_t depth[EVAL_MAX_LIST];
    int n_depths;
    TRY(eval_parse_list(mk->depths, "--depths", depth, &n_depths, e));
    for (int i = 0; i < n_depths; i++)
        if (depth[i] > INT32_MAX)
            return err_set(e, ERR_USAGE, "--depths: %s is too large", mk->depths);
    return 0;
}

/* Returns ERR_USAGE unless --budget and --search are valid. */
static int check_budgets(const struct make *mk, struct err *e) {
    enum search ignored;
    if (mk->budget.n >= MIX_MAX_BUDGETS)
        return err_set(e, ERR_USAGE, "--budget: at most %d", MIX_MAX_BUDGETS - 1);
    if (mk->plain && mk->budget.n)
        return err_set(e, ERR_USAGE, "--plain makes presets only, but --budget needs a mix");
    for (int i = 0; i < mk->budget.n; i++) {
        uint64_t size;
        TRY(size_parse(mk->budget.v[i], "--budget", &size, e));
        if (!size) return err_set(e, ERR_USAGE, "--budget: 0 bytes");
    }
    return mix_search(mk->search, &ignored, e);
}

/* Returns the bytes of a tensor in the smallest type that a mix may give it. low: IQ1 types are
 * candidates. g: the converted model, to find types that hold the weights without loss; NULL: all
 * such types count. */
static uint64_t least_bytes(const struct shapes *s, const struct recipe_item *it, bool low,
                            const struct gguf *g) {
    const struct gguf_tensor *w = g ? gguf_find_tensor(g, it->name) : NULL;
    bool can[QT_COUNT] = {false};
    uint64_t least = qtype_row_bytes(it->from, it->ne[0]);
    if (it->quant) sens_candidates(it, can);
    for (int k = 0; k < QT_COUNT && it->quant; k++) {
        const enum qtype t = (enum qtype)k;
        const unsigned flags = qtype_info(k) ? qtype_info(k)->flags : 0;
        const uint64_t bytes = qtype_row_bytes(t, it->ne[0]);
        if (!bytes || bytes >= least) continue;
        if ((can[k] && recipe_allows(&s->model, it, t) && (low || !(flags & QF_LAST_RESORT))) ||
            ((flags & QF_EXACT) && (!w || exact_offers(w, t))))
            least = bytes;
    }
    return sens_padded(least * (uint64_t)(it->ne[1] * it->ne[2] * it->ne[3]));
}

/* Returns the bytes of the smallest mix, as least_bytes. */
static uint64_t least_mix(const struct shapes *s, bool low, const struct gguf *g) {
    enum { KEYS = 1 << 14 }; /* most that quantization adds to the keys, and a repaired template */
    uint64_t sum = s->head_bytes + KEYS;
    for (int64_t i = 0; i < s->n; i++) sum += least_bytes(s, &s->item[i], low, g);
    return sum;
}

/* Returns whether IQ1 types are candidates with these budgets and the job's classes. */
static bool is_low(const struct make *mk, const struct shapes *s, const uint64_t *budget, int n) {
    struct sens all = {.n_weights = (int64_t)s->weights};
    if (mk->classes.n) sens_set_low(&all, shapes_preset(s, mk->classes.v[mk->classes.n - 1]));
    for (int i = 0; i < n; i++) sens_set_low(&all, budget[i]);
    return all.low;
}

int make_check_least(const struct make *mk, const struct shapes *s, const char *base,
                     struct err *e) {
    uint64_t budget[MIX_MAX_BUDGETS];
    struct gguf *g = NULL;
    int rc = 0;
    if (!mk->budget.n) return 0;
    for (int i = 0; i < mk->budget.n; i++)
        TRY(size_parse(mk->budget.v[i], "--budget", &budget[i], e));
    if (!base && !io_is_dir(mk->src)) base = mk->src;
    if (base) TRY(gguf_open(&g, base, 0, e));
    const bool low = is_low(mk, s, budget, mk->budget.n);
    uint64_t least = least_mix(s, low, g);
    for (int i = 0; i < mk->budget.n && !rc; i++) {
        if (budget[i] >= least) continue;
        if (low && !is_low(mk, s, &least, 1)) least = least_mix(s, false, g);
        rc = err_set(e, ERR_USAGE,
                     "--budget %s is too small: this model's smallest mix has %s%" PRIu64 " bytes",
                     mk->budget.v[i], g ? "" : "at least ", least);
    }
    gguf_close(g);
    return rc;
}

/* Checks all text files; warns about one used for calibration and for evaluation. */
static int check_texts(const struct make *mk, struct err *e) {
    const struct str_list *texts[] = {&mk->calib, &mk->eval, &mk->probe};
    for (size_t k = 0; k < COUNT_OF(texts); k++) TRY(make_check_texts(texts[k], e));
    for (int i = 0; i < mk->calib.n; i++)
        for (int k = 0; k < mk->eval.n; k++)
            if (strcmp(mk->calib.v[i], mk->eval.v[k]) == 0)
                log_warn("%s is used for calibration and evaluation: the numbers will flatter the "
                         "quants",
                         mk->calib.v[i]);
    return 0;
}

/* Sets mk->effort from --effort, by default normal. */
static int check_effort(struct make *mk, struct err *e) {
    mk->effort = EFFORT_NORMAL;
    if (!mk->effort_text) return 0;
    for (int i = 0; i < EFFORT_COUNT; i++)
        if (strcmp(mk->effort_text, effort_name[i]) == 0) {
            mk->effort = (enum effort)i;
            return 0;
        }
    return err_set(e, ERR_USAGE, "--effort: '%s' is not fast, normal or high", mk->effort_text);
}

/* Reads the suites of --tools. */
static int check_suites(const struct make *mk, struct err *e) {
    char *path[SUITE_KINDS];
    int rc = make_suites(mk, path, e);
    for (int k = 0; k < SUITE_KINDS; k++) {
        struct suite suite;
        if (path[k] && !rc) {
            rc = eval_suite_read(&suite, path[k], e);
            if (!rc) suite_close(&suite);
        }
        free(path[k]);
    }
    return rc;
}

int make_ask(struct make *mk, const char *recipes, struct err *e) {
    TRY(make_check_source(mk->src, mk->w->pre, &mk->unmeasured, &mk->draft, e));
    if (mk->target && !(mk->draft && (mk->consumed || io_is_dir(mk->src))))
        return err_set(e, ERR_USAGE, "--target-model-dir is for folders of drafts");
    if (mk->unmeasured) TRY(make_ask_unmeasured(mk, &recipes, e));
    TRY(check_recipes(mk, recipes, e));
    TRY(check_draft_recipes(mk, e));
    TRY(check_depths(mk, e));
    TRY(check_effort(mk, e));
    TRY(check_budgets(mk, e));
    /* A bad suite must cause an error before hours of work. */
    TRY(check_suites(mk, e));
    return check_texts(mk, e);
}
