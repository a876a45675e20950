// SPDX-License-Identifier: MIT
/* make/mmproj.c - the step of `hone make` for the source's vision tower: writes the projector files
 * mmproj-NAME-TYPE.gguf, which other programs load together with any file of the job. */
#include <stdlib.h>
#include <string.h>

#include "make/make.h"
#include "make/ownership.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"

char *make_mmproj_file(const struct make *mk, int i) {
    char *file = make_base_file(mk, mk->tower.file[i].type), *name = xasprintf("mmproj-%s", file);
    free(file);
    return name;
}

bool make_is_mmproj(const struct make *mk, const char *name) {
    bool is = false;
    for (int i = 0; i < mk->tower.n_files && !is; i++) {
        char *file = make_mmproj_file(mk, i);
        is = strcmp(file, name) == 0;
        free(file);
    }
    return is;
}

bool make_mmproj_gap(const struct make *mk, char *out, size_t cap) {
    if (mk->tower.tower != TOWER_UNKNOWN) return false;
    snprintf(out, cap, "vision: no mmproj file is written, so the model accepts only text: %s",
             mk->tower.why);
    return true;
}

void make_look_at_tower(struct make *mk) {
    if (io_is_dir(mk->src)) mmproj_look(mk->src, mk->type, mk->name, &mk->tower);
}

int make_check_mmproj(const struct make *mk, struct err *e) {
    int rc = 0;
    for (int i = 0; i < mk->tower.n_files && rc == 0; i++) {
        char *file = make_mmproj_file(mk, i);
        rc = claim_check(&mk->job, file, e);
        free(file);
    }
    return rc;
}

/* Converts the vision tower to `file` in the output folder. */
static int write_file(struct make *mk, const char *file, const char *type, struct err *e) {
    struct mmproj_report r;
    char *path = job_path(&mk->job, file);
    const struct convert_opts o = {
        .src = mk->src, .type = type, .name = mk->name, .overwrite = true, .pool = mk->w->pool};
    log_info("writing the vision tower to %s", file);
    int rc = claim_take(&mk->job, file, e);
    if (rc == 0) rc = mmproj_run(&o, path, &r, e);
    free(path);
    return rc;
}

/* Writes the file of one type, unless a record shows that it is done. */
static int make_one(struct make *mk, const char *file, const char *type, struct err *e) {
    struct step s;
    cJSON *found = NULL;
    char *step_name = xasprintf("mmproj-%s", type), *low = xstrdup(type);
    for (char *p = low; *p; p++)
        if (*p >= 'A' && *p <= 'Z') *p = (char)(*p - 'A' + 'a');
    step_init(&s, &mk->job, step_name);
    step_key(&s, "source", "%s", mk->src_hash);
    step_key(&s, "file", "%s", file);
    /* Version of the conversion: increased whenever the same tower would give different bytes. */
    step_key(&s, "version", "1");
    const bool known = make_reuse(mk, &s, &found);
    int rc = 0;
    cJSON_Delete(found);
    if (!known && make_counts(mk)) mk->mmproj_missing = true;
    if (!known && !make_counts(mk)) {
        const char *files[] = {file};
        rc = write_file(mk, file, low, e);
        if (rc == 0) rc = step_save_files(&s, files, 1, e);
    }
    step_release(&s);
    free(low);
    free(step_name);
    return rc;
}

int make_mmproj(struct make *mk, struct err *e) {
    char gap[640];
    mk->mmproj_missing = false;
    for (int i = 0; i < mk->tower.n_files; i++) {
        char *file = make_mmproj_file(mk, i);
        const int rc = make_one(mk, file, mk->tower.file[i].type, e);
        free(file);
        TRY(rc);
    }
    if (!make_counts(mk) && make_mmproj_gap(mk, gap, sizeof gap)) log_warn("%s", gap);
    return 0;
}

uint64_t make_emit_mmproj(const struct make *mk, struct emit *m) {
    uint64_t sum = 0;
    for (int i = 0; i < mk->tower.n_files; i++) {
        const struct mmproj_report *r = &mk->tower.file[i];
        char *file = make_mmproj_file(mk, i);
        emit_row(m);
        emit_cell_str(m, file);
        emit_cell_i64(m, (int64_t)r->size_bytes);
        emit_cell_str(m, "vision tower");
        sum += r->size_bytes;
        free(file);
    }
    return sum;
}

int make_put_mmproj(struct make *mk, cJSON *to, struct err *e) {
    const struct mmproj_look *t = &mk->tower;
    int rc = 0;
    cJSON *o = doc_obj(to, "vision");
    doc_put_i64(o, "n_tensors", t->n_tensors);
    if (t->n_files) doc_put_str(o, "projector", t->file[0].projector);
    if (t->tower == TOWER_UNKNOWN) doc_put_str(o, "why", t->why);
    cJSON *list = doc_arr(o, "files");
    for (int i = 0; i < t->n_files && rc == 0; i++) {
        char hex[33], sha[65], *file = make_mmproj_file(mk, i), *path = job_path(&mk->job, file);
        rc = job_file_hash(&mk->job, path, hex, e);
        if (rc == 0) rc = make_checksum(mk, path, hex, sha, e);
        if (rc == 0) {
            cJSON *row = doc_obj(list, NULL);
            doc_put_str(row, "file", file);
            doc_put_str(row, "type", t->file[i].type);
            doc_put_i64(row, "size_bytes", (int64_t)t->file[i].size_bytes);
            doc_put_str(row, "sha256", sha);
        }
        free(path);
        free(file);
    }
    return rc;
}
