// SPDX-License-Identifier: MIT
/* make/consume.c - `hone make --consume`: the folder is first converted to SRC/NAME.gguf, and its
 * vision tower to SRC/mmproj-NAME-TYPE.gguf, as `hone convert --consume` does, which deletes each
 * shard once everything made from it is written, synced and read back. The job then continues with
 * that file. An interrupted conversion resumes with the same command; after it, the note in the
 * folder shows that there is nothing left to convert. */
#include <stdlib.h>

#include "base/arena.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "convert/convert.h"
#include "make/make.h"
#include "work/shapes.h"

/* Rejects sources whose shards a later step needs. */
static int check_source(struct make *mk, const char *out, struct err *e) {
    if (!io_is_dir(mk->src))
        return err_set(e, ERR_USAGE, "--consume: %s is not a model folder", mk->src);
    TRY(make_check_place(mk->src, out, e));
    TRY(make_look_at_extras(mk, e));
    if (mk->tower.tower == TOWER_UNKNOWN && mk->tower.n_tensors)
        return err_set(e, ERR_USAGE,
                       "--consume: the vision tower of %s cannot be converted and would be deleted "
                       "with the shards (%s): use hone convert --consume to delete it anyway, "
                       "and give hone make the GGUF file",
                       mk->src, mk->tower.why);
    return 0;
}

/* Checks the options and --time while the folder is whole. A resumed conversion may have deleted
 * shards from which the job would be forecast. */
static int check_job(struct make *mk, const char *recipes, const char *out, struct err *e) {
    struct shapes s;
    struct err ignored;
    const bool whole = shapes_open(&s, mk->src, mk->type, mk->target, &ignored) == 0;
    shapes_close(&s);
    if (!whole) return 0;
    TRY(make_ask(mk, recipes, e));
    mk->checked = true;
    return make_check_time(mk, out, e);
}

int make_consume(struct make *mk, const char *recipes, const char *out, struct err *e) {
    bool kept;
    if (!mk->consume) return 0;
    TRY(check_source(mk, out, e));
    if (mk->dry_run) return 0; /* forecasts the job as from the folder */
    TRY(work_pool(mk->w, e));
    TRY(make_name(mk, e));
    /* A bad image must cause an error before shards are deleted. A resumed conversion may have
     * deleted those of the tower. */
    if (mk->tower.n_files) TRY(make_look_at_images(mk, e));
    TRY(check_job(mk, recipes, out, e));
    TRY(make_keep_tower(mk, &kept, e));
    if (!kept) TRY(make_look_at_images(mk, e));
    char *file = xasprintf("%s.gguf", mk->name), *path = io_join(mk->src, file);
    free(mk->name);
    mk->name = NULL;
    const struct convert_opts o = {.src = mk->src,
                                   .target = mk->target,
                                   .out = path,
                                   .type = mk->type,
                                   .name = mk->given.text[FACT_NAME],
                                   .pre = mk->w->pre,
                                   .consume = true,
                                   .overwrite = mk->redo,
                                   .tower_done = kept,
                                   .tower_told = true,
                                   .pool = mk->w->pool};
    struct convert_report r;
    log_info("converting to %s; each source shard is deleted once it is converted", path);
    const int rc = convert_run(&o, &r, e);
    if (!rc) mk->consumed = mk->src;
    mk->n_tower = r.n_tower;
    if (!rc) mk->src = arena_strdup(&mk->w->mem, path);
    free(path);
    free(file);
    return rc;
}
