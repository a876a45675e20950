// SPDX-License-Identifier: MIT
/* make/disk.c - disk space that a job takes, in its folder and in DIR.work, and the check that it
 * is free before hours of work. */
#include <stdlib.h>
#include <string.h>

#include "make/make.h"
#include "mix/accept.h"
#include "text/size.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"

/* Returns the bytes of a file; 0 if it does not exist. */
static uint64_t bytes_of(const char *dir, const char *file) {
    char *path = io_join(dir, file);
    struct err ignored;
    bool plain = false;
    uint64_t size = 0;
    if (io_is_file(&plain, path, &ignored) || !plain || io_file_size(path, &size, &ignored))
        size = 0;
    free(path);
    return size;
}

/* Returns the bytes of all files of a folder; 0 if it does not exist. */
static uint64_t folder_bytes(const char *dir) {
    struct io_names all;
    struct err ignored;
    uint64_t sum = 0;
    if (!io_is_dir(dir) || io_list(&all, dir, &ignored)) return 0;
    for (int i = 0; i < all.n; i++) sum += bytes_of(dir, all.v[i]);
    io_names_release(&all);
    return sum;
}

struct tally {
    const char *out, *state; /* DIR and DIR.work */
    struct make_disk *disk;
    uint64_t there; /* bytes that are on disk already, or need no space */
    bool missing;   /* a mix or class has no file yet */
    /* The most bytes of recipes that the mix of a --budget is compared with, all at once. */
    uint64_t compared;
};

/* Adds an output of at most `size` bytes, some of which may be in the folder. file NULL: not made
 * yet. Returns whether the file is there. */
static bool add_output(struct tally *t, const char *file, uint64_t size) {
    uint64_t have = 0;
    bool whole = false;
    if (file) {
        char *part = xasprintf("%s.part", file);
        whole = bytes_of(t->out, file) > 0;
        have = bytes_of(t->out, file) + bytes_of(t->out, part);
        free(part);
    }
    t->disk->files += size;
    t->there += whole ? size : min_u64(have, size); /* a whole file may be smaller than `size` */
    return whole;
}

/* Returns whether the job makes a preset of this recipe that a mix can be compared with (is_plain
 * in make/mix.c). */
static bool is_made(const struct make *mk, const char *recipe) {
    const bool alike = !mk->plan.feedback || (mk->search && strcmp(mk->search, "best") == 0);
    for (int i = 0; i < mk->recipes.n && alike; i++)
        if (strcmp(mk->recipes.v[i], recipe) == 0) return true;
    return false;
}

/* Returns the bytes of the recipes that are made only to compare them with a mix of `size` bytes:
 * of those that fit, the largest (mix/accept.c). */
static uint64_t compared_bytes(const struct make *mk, const struct shapes *s, uint64_t size) {
    uint64_t most[GATE_PLAIN] = {0}, sum = 0; /* the largest first */
    bool made[GATE_PLAIN] = {false};
    for (int i = 0; recipe_name(i); i++) {
        if (qtype_info(recipe_default(recipe_name(i)))->flags & QF_FLOAT) continue;
        const uint64_t bytes = shapes_preset(s, recipe_name(i));
        int at = GATE_PLAIN;
        while (at > 0 && most[at - 1] < bytes) at--;
        if (bytes > size || at == GATE_PLAIN) continue;
        for (int k = GATE_PLAIN - 1; k > at; k--) most[k] = most[k - 1], made[k] = made[k - 1];
        most[at] = bytes;
        made[at] = is_made(mk, recipe_name(i));
    }
    for (int k = 0; k < GATE_PLAIN; k++) sum += made[k] ? 0 : most[k];
    return sum;
}

/* Adds the file of a --budget under the name in its record. */
static void add_budget(struct tally *t, const struct make *mk, const struct shapes *s,
                       const char *text) {
    uint64_t size;
    struct err ignored;
    cJSON *root = make_budget_record(t->state, text);
    const char *file = doc_str(doc_get(root, "result"), "file");
    if (size_parse(text, "--budget", &size, &ignored)) size = 0;
    if (file && strchr(file, '/')) file = NULL;
    size = min_u64(size, s->base_bytes); /* no mix is larger */
    if (!add_output(t, file, size)) {
        t->missing = true;
        t->compared = max_u64(t->compared, compared_bytes(mk, s, size));
    }
    cJSON_Delete(root);
}

/* Adds what is only in DIR.work: the converted model, second moments, the preset that a mix is
 * compared with (one at a time; with --budget up to three), and what files made block by block
 * keep. */
static void add_work(struct tally *t, const struct make *mk, const struct shapes *s,
                     uint64_t preset, uint64_t learned) {
    struct shapes_gram g;
    uint64_t candidates = mk->plan.mixes ? max_u64(preset, t->compared) : 0, rest = 0;
    shapes_gram(s, &g);
    const uint64_t answers = mk->plan.answers ? (uint64_t)g.answers : 0,
                   moments = mk->plan.feedback ? (uint64_t)g.inputs + answers : 0,
                   have = bytes_of(t->state, "gram.gguf");
    if (have && have < moments) t->there += moments - have; /* the file may be smaller */
    rest += moments;
    /* One file's moments, of inputs, of their drift and of gradients, with its learned tensors. */
    if (mk->plan.sequential) candidates += 2 * (uint64_t)g.inputs + answers + learned;
    if (io_is_dir(mk->src)) rest += s->base_bytes;
    if (mk->consume && io_is_dir(mk->src)) t->there += s->base_bytes; /* in place of the shards */
    if (!t->missing) t->there += candidates;
    t->disk->work = candidates + rest;
    t->there += folder_bytes(t->state);
}

void make_disk_of(const struct make *mk, const struct shapes *s, const char *out,
                  struct make_disk *disk) {
    const struct str_list *lists[] = {&mk->classes, &mk->recipes};
    uint64_t preset = 0;  /* the largest that a mix is compared with */
    uint64_t learned = 0; /* the largest whose codes follow gradients */
    char *state = job_work(out);
    struct tally t = {.out = out, .state = state ? state : out, .disk = disk};
    *disk = (struct make_disk){0};
    for (size_t k = 0; k < COUNT_OF(lists); k++)
        for (int i = 0; i < lists[k]->n; i++) {
            const char *name = lists[k]->v[i];
            const uint64_t size = make_class_size(mk, s, name);
            char called[RECIPE_FILE];
            recipe_file(name, called);
            char *file = xasprintf("%s-%s.gguf", mk->name, called);
            if (!add_output(&t, file, size) && !k) t.missing = true;
            if (!k && size > preset) preset = size;
            if (!k && plan_learns(name) && size > learned) learned = size;
            free(file);
        }
    for (int i = 0; i < mk->budget.n && mk->plan.mixes; i++) add_budget(&t, mk, s, mk->budget.v[i]);
    for (int i = 0; i < mk->n_extras; i++)
        (void)add_output(&t, mk->extra[i].file, mk->extra[i].bytes);
    add_work(&t, mk, s, preset, learned);
    disk->left = disk->files + disk->work - min_u64(t.there, disk->files + disk->work);
    free(state);
}

int make_need_disk(const struct make *mk, const struct shapes *s, const char *out, struct err *e) {
    struct make_disk disk;
    const enum log_level level = log_get_level();
    log_set_level(LOG_ERROR); /* the encoding itself will repeat the messages */
    make_disk_of(mk, s, out, &disk);
    log_set_level(level);
    return io_need_space(out, disk.left, e);
}

int make_check_disk(struct make *mk, struct err *e) {
    struct shapes s;
    if (make_counts(mk)) return 0;
    int rc = shapes_open(&s, mk->file[0].path, mk->type, NULL, e);
    if (!rc) rc = make_need_disk(mk, &s, mk->job.dir, e);
    shapes_close(&s);
    return rc;
}
