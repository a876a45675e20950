// SPDX-License-Identifier: MIT
/* make/facts.c - checks that protect the user: files in the folder that the job did not make, the
 * facts for the card, and a SRC that has already been quantized. */
#include <stdlib.h>
#include <string.h>

#include "make/file_guard.h"
#include "make/ownership.h"
#include "make/make.h"
#include "containers/gguf.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "text/shell.h"

/* Returns an error if the file for recipe `what`, or an unfinished one, exists and is not this
 * job's. */
static int check_output(struct make *mk, const char *what, struct err *e) {
    char name[RECIPE_FILE];
    recipe_file(what, name);
    char *file = xasprintf("%s-%s.gguf", mk->name, name);
    int rc = claim_check(&mk->job, file, e);
    if (rc == 0) rc = claim_check_part(&mk->job, file, e);
    free(file);
    return rc;
}

/* Returns whether the job makes a file of this name. */
static bool is_output(const struct make *mk, const char *name) {
    const struct str_list *lists[] = {&mk->recipes, &mk->classes};
    bool is = strcmp(name, "imatrix.gguf") == 0 || make_is_extra(mk, name);
    for (size_t k = 0; k < COUNT_OF(lists); k++)
        for (int i = 0; i < lists[k]->n && !is; i++) {
            char recipe[RECIPE_FILE];
            recipe_file(lists[k]->v[i], recipe);
            char *file = xasprintf("%s-%s.gguf", mk->name, recipe);
            is = strcmp(file, name) == 0;
            free(file);
        }
    return is;
}

/* Returns whether a file that this job did not make would be published: a model, or an unreadable
 * GGUF (*why then has the reason). */
static bool is_stranger(const struct make *mk, const char *name, struct err *why) {
    struct gguf *g;
    why->msg[0] = 0;
    if (!str_ends(name, ".gguf") || guard_is_aside(name) || is_output(mk, name)) return false;
    char *path = job_path(&mk->job, name);
    bool model = false;
    if (!gguf_open(&g, path, GGUF_ONE_FILE | GGUF_TOLERANT, why)) {
        why->msg[0] = 0;
        model = gguf_part_of(g) == GGUF_MODEL;
        gguf_close(g);
    }
    free(path);
    return why->msg[0] || (model && claim_is_foreign(&mk->job, name));
}

/* Returns an error if there are models in the folder that the job did not make, since they would be
 * published with the results; with `aside`, renames them instead. */
static int check_strangers(const struct make *mk, bool aside, struct err *e) {
    struct io_names all = {0};
    struct err why;
    int rc = io_is_dir(mk->job.dir) ? io_list(&all, mk->job.dir, e) : 0;
    for (int i = 0; i < all.n && !rc; i++) {
        if (!is_stranger(mk, all.v[i], &why)) continue;
        if (aside)
            rc = guard_keep(mk->job.dir, all.v[i], e);
        else
            rc = err_set(
                e, ERR_USAGE,
                "%s holds %.200s, which %s: it would be published with the results; move "
                "it, choose another folder with -o, or use -f, which keeps it as %.200s.orig",
                mk->job.dir, all.v[i], why.msg[0] ? "cannot be read" : "was not made by this job",
                all.v[i]);
    }
    io_names_release(&all);
    return rc;
}

int make_set_aside(const struct make *mk, struct err *e) {
    return mk->redo ? check_strangers(mk, true, e) : 0;
}

int make_check_base(struct make *mk, struct err *e) {
    struct facts f;
    facts_init(&f);
    int bad = publish_facts_parse(&mk->given, &f, e);
    facts_release(&f);
    TRY(bad);
    if (mk->words && !io_exists(mk->words))
        return err_set(e, ERR_USAGE, "--notes: %s: no such file", mk->words);
    if (io_is_dir(mk->src)) return 0;
    int rc = requant_check(mk->src, &mk->base, e);
    if (rc && mk->base.quantized && mk->requantize) {
        log_warn("%s is %s: everything is measured against it, not against the original", mk->src,
                 mk->base.type);
        return 0;
    }
    return rc;
}

int make_check_folder(struct make *mk, struct err *e) {
    if (mk->redo) return 0; /* -f renames such files */
    TRY(publish_check_folder(mk->job.dir, io_is_dir(mk->src) ? mk->src : NULL, e));
    for (int i = 0; i < mk->recipes.n; i++) TRY(check_output(mk, mk->recipes.v[i], e));
    for (int i = 0; i < mk->classes.n; i++) TRY(check_output(mk, mk->classes.v[i], e));
    TRY(claim_check(&mk->job, "imatrix.gguf", e));
    TRY(make_check_extras(mk, e));
    return check_strangers(mk, false, e);
}

/* Returns a list of the draft files whose acceptance was measured; NULL: none. */
static cJSON *list_drafts(const struct make *mk) {
    cJSON *list = NULL;
    for (int i = 0; i < mk->n_files && mk->draft; i++) {
        if (!mk->file[i].drafts) continue;
        if (!list) list = cJSON_CreateArray();
        cJSON *row = doc_obj(list, NULL);
        doc_put_str(row, "file", mk->file[i].file);
        for (const cJSON *m = doc_first(mk->file[i].drafts); m; m = m->next)
            if (cJSON_IsNumber(m)) doc_put_copy(row, m->string, m);
    }
    return list;
}

int make_publish(struct make *mk, const cJSON *results, struct err *e) {
    struct facts f;
    struct publish_report r;
    cJSON *drafts = list_drafts(mk);
    struct publish_opts o = {.dir = mk->job.dir,
                             .source = io_is_dir(mk->src) ? mk->src : NULL,
                             .facts = &f,
                             .notes = mk->words,
                             .tmpl = mk->tmpl,
                             .results = results,
                             .drafts = drafts,
                             .any_template = true,
                             .way = mk->redo ? GUARD_KEEP : GUARD_ASIDE};
    facts_init(&f);
    int rc = publish_facts_parse(&mk->given, &f, e);
    if (rc == 0) rc = publish_folder(&o, &r, e);
    cJSON_Delete(drafts);
    facts_release(&f);
    if (rc == 0 && !mk->tmpl_fault && !(r.has_license && r.has_base)) {
        struct buf dir = {0};
        shell_word(&dir, mk->job.dir);
        log_info("before you publish: hone publish %s%s%s", dir.data,
                 r.has_license ? "" : " --license ID", r.has_base ? "" : " --base-model ORG/NAME");
        buf_release(&dir);
    }
    return rc;
}
