// SPDX-License-Identifier: MIT
/* make/earlier.c - files of earlier runs of the same job that were not requested this time: they
 * stay in the folder, and on the model card if their results are comparable with the new ones. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "make/make.h"
#include "make/ownership.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"

struct earlier {
    const cJSON *old, *now; /* the existing results.json; the new one, without these files */
    double ppl, n_tools;    /* the base's perplexity and number of tool tasks */
    bool measured, speed, images, suite[SUITE_KINDS]; /* measured in the same way in both runs */
};

/* Returns whether a member is equal in both objects, or missing in both. */
static bool same(const cJSON *a, const cJSON *b, const char *name) {
    a = doc_get(a, name);
    b = doc_get(b, name);
    return a && b ? cJSON_Compare(a, b, true) : !a && !b;
}

/* Determines which measurements of the earlier run are comparable with those of this run. */
static void compare(struct earlier *x) {
    const cJSON *a = doc_get(x->old, "eval"), *b = doc_get(x->now, "eval");
    x->measured = same(x->old, x->now, "imatrix") && same(a, b, "ctx") && same(a, b, "texts") &&
                  same(a, b, "n_tokens");
    x->speed = same(x->old, x->now, "machine") && same(a, b, "pp") && same(a, b, "tg");
    for (int k = 0; k < SUITE_KINDS; k++) {
        char hash[40];
        snprintf(hash, sizeof hash, "%s_xxh128", make_suite_name((enum suite_kind)k));
        x->suite[k] = same(a, b, make_suite_name((enum suite_kind)k)) && same(a, b, hash);
    }
    x->images = same(x->old, x->now, "images");
    for (const cJSON *f = doc_first(doc_get(x->now, "files")); f; f = f->next) {
        if (!doc_bool(f, "is_base", false)) continue;
        x->ppl = doc_num(f, "ppl", 0);
        x->n_tools = doc_num(f, "tools_n", 0);
    }
}

static bool made_now(const struct make *mk, const char *name) {
    for (int i = 0; i < mk->n_files; i++)
        if (strcmp(mk->file[i].file, name) == 0) return true;
    return false;
}

/* Returns whether a file in the folder is unchanged since the job made it. */
static bool unchanged(const struct make *mk, const char *name, const char *path, const cJSON *row) {
    struct err ignored;
    uint64_t size;
    int64_t want = -1;
    return doc_i64(row, "size_bytes", &want) && io_file_size(path, &size, &ignored) == 0 &&
           (int64_t)size == want && claim_check(&mk->job, name, &ignored) == 0;
}

/* Returns whether a member is the result of a suite that this run measured in another way. */
static bool other_suite(const struct earlier *x, const cJSON *row, const char *member) {
    for (int k = 0; k < SUITE_KINDS; k++) {
        const char *name = make_suite_name((enum suite_kind)k);
        const size_t n = strlen(name);
        if (strncmp(member, name, n) != 0 || member[n] != '_') continue;
        return !x->suite[k] || (k == SUITE_TOOLS && doc_num(row, "tools_n", 0) != x->n_tools);
    }
    return false;
}

/* Copies a file's row from an earlier report, omitting measurements made in a different way. */
static void put_row(const struct earlier *x, const cJSON *row, cJSON *files) {
    cJSON *now = doc_obj(files, NULL);
    for (const cJSON *m = doc_first(row); m; m = m->next) {
        const char *name = m->string;
        const bool speed = strcmp(name, "speed") == 0 || strstr(name, "tok_per_s");
        if ((speed && !x->speed) || other_suite(x, row, name) ||
            (strncmp(name, "images_", 7) == 0 && !x->images))
            continue;
        doc_put_copy(now, name, m);
    }
}

/* Keeps the row of one file, or logs why it is dropped. */
static void one_file(const struct make *mk, const struct earlier *x, const cJSON *row,
                     cJSON *files) {
    const char *name = doc_str(row, "file");
    if (!name || !str_ends(name, ".gguf") || strchr(name, '/') || made_now(mk, name) ||
        doc_bool(row, "is_base", false))
        return;
    char *path = job_path(&mk->job, name);
    const double ppl = doc_num(row, "ppl_base", 0);
    const bool ours = unchanged(mk, name, path, row);
    if (io_exists(path) && ours && x->measured && fabs(ppl - x->ppl) <= 1e-6 * x->ppl) {
        log_info("%s of an earlier run stays on the card", name);
        put_row(x, row, files);
    } else if (io_exists(path)) {
        log_warn("%s of an earlier run stays in the folder but is not listed on the card, because "
                 "it was %s; add its recipe to the command, or move the file away",
                 name, ours ? "made or measured with other texts" : "changed since");
    }
    free(path);
}

void make_earlier(struct make *mk, const cJSON *old, cJSON *now) {
    struct earlier x = {.old = old, .now = now};
    cJSON *files = cJSON_GetObjectItemCaseSensitive(now, "files");
    compare(&x);
    for (const cJSON *f = doc_first(doc_get(old, "files")); f; f = f->next)
        one_file(mk, &x, f, files);
}
