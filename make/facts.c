// SPDX-License-Identifier: MIT
/* make/facts.c - what `hone make` must not lose or get wrong: other people's files in its
 * folder, the facts of the card, and whether SRC was quantized already. */
#include <stdlib.h>
#include <string.h>

#include "make/ownership.h"
#include "make/make.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"

static int check_output(struct make *mk, const char *what, struct err *e) {
    char name[RECIPE_FILE];
    recipe_file(what, name);
    char *file = xasprintf("%s-%s.gguf", mk->name, name);
    int rc = claim_check(&mk->job, file, e);
    free(file);
    return rc;
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
    if (mk->redo) return 0; /* With -f, what is in the way is kept under another name. */
    TRY(publish_check_folder(mk->job.dir, io_is_dir(mk->src) ? mk->src : NULL, e));
    for (int i = 0; i < mk->recipes.n; i++) TRY(check_output(mk, mk->recipes.v[i], e));
    for (int i = 0; i < mk->classes.n; i++) TRY(check_output(mk, mk->classes.v[i], e));
    return claim_check(&mk->job, "imatrix.gguf", e);
}

int make_publish(struct make *mk, const char *results, struct err *e) {
    struct facts f;
    struct publish_report r;
    struct publish_opts o = {.dir = mk->job.dir,
                             .source = io_is_dir(mk->src) ? mk->src : NULL,
                             .facts = &f,
                             .notes = mk->words,
                             .results = results,
                             .way = mk->redo ? GUARD_KEEP : GUARD_ASIDE};
    facts_init(&f);
    int rc = publish_facts_parse(&mk->given, &f, e);
    if (rc == 0) rc = publish_folder(&o, &r, e);
    facts_release(&f);
    if (rc == 0 && !r.has_license)
        log_info("before you publish: hone publish %s --license ID%s", mk->job.dir,
                 r.has_base ? "" : " --base-model ORG/NAME");
    return rc;
}
