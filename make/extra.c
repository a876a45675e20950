// SPDX-License-Identifier: MIT
/* make/extra.c - the steps of `hone make` for files that other programs load together with any of
 * the job's models: projector files of the vision tower, mmproj-NAME-TYPE.gguf, and the draft file
 * with the MTP block, mtp-NAME-Q8_0.gguf. Their names begin as llama.cpp expects. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "make/make.h"
#include "make/ownership.h"
#include "base/io.h"
#include "base/json.h"
#include "containers/gguf.h"
#include "convert/draft_file.h"
#include "models/arch.h"
#include "report/folder_lint.h"
#include "base/log.h"
#include "base/map.h"
#include "base/out.h"
#include "base/mem.h"
#include "runtime/engine/model.h"
#include "runtime/generate/pictures_prompt.h"
#include "runtime/vision/image.h"

static const struct kind {
    const char *prefix, *what, *list; /* list: member of results.json */
    /* Version of the conversion: increased whenever the same source would give different bytes. */
    const char *version;
} kinds[] = {[EXTRA_TOWER] = {"mmproj", "vision tower", "vision", "5"},
             [EXTRA_DRAFT] = {"mtp", "MTP block", "draft", "1"}};

/* Adds a file to the list. */
static void add_extra(struct make *mk, enum extra_kind kind, const char *type, uint64_t bytes) {
    struct extra *x = &mk->extra[mk->n_extras++];
    char *file = make_base_file(mk, type);
    *x = (struct extra){.kind = kind, .bytes = bytes};
    snprintf(x->type, sizeof x->type, "%s", type);
    x->file = xasprintf("%s-%s", kinds[kind].prefix, file);
    free(file);
}

/* Returns the quantized type that conversion writes. */
static enum qtype draft_qtype(void) {
    const unsigned want = QF_CONVERT | QF_QUANT;
    int t = 0;
    while (t + 1 < QT_COUNT && !(qtype_info(t) && (qtype_info(t)->flags & want) == want)) t++;
    return (enum qtype)t;
}

static const char *draft_type(void) {
    return qtype_name(draft_qtype());
}

/* Returns the options that write the draft file. */
static struct convert_opts draft_opts(const struct make *mk) {
    return (struct convert_opts){.src = mk->src,
                                 .type = draft_type(),
                                 .name = mk->given.text[FACT_NAME],
                                 .pre = mk->w->pre,
                                 .mtp_only = true,
                                 .tower_told = true,
                                 .overwrite = true,
                                 .pool = mk->w->pool};
}

/* Finds the source's MTP block. Folders that conversion refuses have none. */
static int look_at_draft(struct make *mk, struct err *e) {
    struct convert_opts o = draft_opts(mk);
    struct convert_report r;
    const enum log_level level = log_get_level();
    o.dry_run = true;
    log_set_level(LOG_ERROR); /* the conversion itself repeats the messages */
    const int rc = convert_run(&o, &r, e);
    log_set_level(level);
    if (rc) return rc == ERR_USAGE || rc == ERR_DATA ? 0 : rc;
    const struct arch *a = arch_find(r.arch);
    mk->drafts = a && a->drafts;
    mk->n_draft_tensors = r.n_mtp_tensors;
    add_extra(mk, EXTRA_DRAFT, draft_type(), r.size_bytes);
    return 0;
}

/* Finds the MTP block inside a GGUF file. */
static int look_in_file(struct make *mk, struct err *e) {
    struct gguf *g;
    struct draft_file f;
    TRY(gguf_open(&g, mk->src, GGUF_TOLERANT, e));
    const struct arch *a = arch_find(gguf_str_or(g, "general.architecture", ""));
    const bool known = a && (a->drafts || a->keeps_mtp), whole = gguf_part_of(g) == GGUF_MODEL;
    gguf_close(g);
    if (!known || !whole) return 0;
    TRY(draft_file_write(mk->src, NULL, draft_qtype(), &f, e));
    mk->drafts = a->drafts && f.n_mtp > 0;
    mk->n_draft_tensors = f.n_mtp;
    if (f.n_mtp) add_extra(mk, EXTRA_DRAFT, draft_type(), f.size_bytes);
    return 0;
}

/* Returns type i that conversion writes, floats first; NULL: no more. */
static const char *tower_type(int i) {
    for (int quant = 0; quant < 2; quant++)
        for (int t = 0; t < QT_COUNT; t++) {
            const struct qtype_info *q = qtype_info(t);
            if (!q || !(q->flags & QF_CONVERT)) continue;
            if (((q->flags & QF_QUANT) != 0) != (quant == 1)) continue;
            if (i-- == 0) return qtype_name((enum qtype)t);
        }
    return NULL;
}

/* Returns the path of a projector file in the folder that --consume converted; the caller frees
 * it. */
static char *kept_path(const struct make *mk, const char *dir, const char *type) {
    char *base = make_base_file(mk, type), *file = xasprintf("mmproj-%s", base);
    char *path = io_join(dir, file);
    free(base);
    free(file);
    return path;
}

/* Adds an existing projector file to the tower's files, if it is one; the job copies it. Takes the
 * path. type NULL: as the file's key says. */
static int take_projector(struct make *mk, char *path, const char *type, struct err *e) {
    struct mmproj_look *l = &mk->tower;
    struct gguf *g = NULL;
    int rc = gguf_open(&g, path, 0, e);
    if (g && gguf_part_of(g) == GGUF_TOWER && l->n_files < (int)COUNT_OF(l->file)) {
        struct mmproj_report *r = &l->file[l->n_files++];
        const int64_t key = (int64_t)gguf_u64_or(g, "general.file_type", 1 << 20);
        if (!type) type = qtype_ftype_name(key) ? qtype_ftype_name(key) : "GGUF";
        snprintf(r->projector, sizeof r->projector, "%s", gguf_projector_type(g));
        snprintf(r->type, sizeof r->type, "%s", type);
        l->tower = TOWER_KNOWN;
        l->n_tensors = r->n_tensors = gguf_n_tensors(g);
        if (!rc) rc = io_file_size(path, &r->size_bytes, e);
        add_extra(mk, EXTRA_TOWER, type, r->size_bytes);
        mk->extra[mk->n_extras - 1].from = path;
        path = NULL;
    }
    gguf_close(g);
    free(path);
    return rc;
}

/* Finds the projector files that make_keep_tower wrote. */
static int look_at_kept(struct make *mk, struct err *e) {
    struct mmproj_look *l = &mk->tower;
    *l = (struct mmproj_look){.tower = TOWER_NONE};
    for (int i = 0; tower_type(i); i++) {
        char *path = kept_path(mk, mk->consumed, tower_type(i));
        if (io_exists(path))
            TRY(take_projector(mk, path, tower_type(i), e));
        else
            free(path);
    }
    if (l->n_files && mk->n_tower) l->n_tensors = mk->n_tower;
    return 0;
}

/* Finds the projector file next to a GGUF file, as `hone run` does. Models that hone cannot run
 * have none; a file that cannot be used is named in a warning. */
static int look_beside(struct make *mk, struct err *e) {
    struct model *m = NULL;
    struct err ignored;
    char *path = NULL;
    int found = 0;
    mk->tower = (struct mmproj_look){.tower = TOWER_NONE};
    int rc = model_open(&m, mk->src, &ignored);
    if (!rc) rc = model_use_pre(m, mk->w->pre, &ignored);
    if (!rc && m->tok) found = pictures_find(m, mk->src, &path, e);
    model_close(m);
    if (found == ERR_DATA) log_warn("%s; no projector file is made", e->msg);
    if (found && found != ERR_DATA) return found;
    return path ? take_projector(mk, path, NULL, e) : 0;
}

int make_keep_tower(struct make *mk, bool *kept, struct err *e) {
    for (int i = 0; i < mk->tower.n_files; i++) {
        struct mmproj_report r;
        char *path = kept_path(mk, mk->src, mk->tower.file[i].type);
        const struct convert_opts o = {
            .src = mk->src, .type = mk->tower.file[i].type, .name = mk->name, .pool = mk->w->pool};
        const bool there = io_exists(path);
        if (!there) log_info("writing the vision tower to %s", path);
        const int rc = there ? 0 : mmproj_run(&o, path, &r, e);
        free(path);
        TRY(rc);
    }
    *kept = false;
    for (int i = 0; tower_type(i); i++) { /* also those of an interrupted run */
        char *path = kept_path(mk, mk->src, tower_type(i));
        *kept = *kept || io_exists(path);
        free(path);
    }
    return 0;
}

int make_projector_params(const struct make *mk, const struct extra *x, struct vision_params *p,
                          struct err *e) {
    const struct convert_opts o = {
        .src = mk->src, .type = x->type, .name = mk->name, .dry_run = true};
    struct buf header = {0};
    struct gguf *g = NULL;
    int rc = x->from ? gguf_open(&g, x->from, 0, e) : mmproj_keys(&o, &g, &header, e);
    if (!rc) rc = vision_params_read(g, p, e);
    gguf_close(g);
    buf_release(&header);
    return rc;
}

/* Copies a file. */
static int copy_file(const char *from, const char *to, struct err *e) {
    struct map m;
    struct out *o = NULL;
    TRY(map_open(&m, from, e));
    int rc = out_open(&o, to, true, e);
    if (!rc) rc = out_write(o, m.data, m.size, e);
    if (!rc) rc = out_commit(o, e);
    out_close(o);
    map_close(&m);
    return rc;
}

/* Notes a vision tower that the folder's config.json names and of which it has no tensor. */
static void look_for_missing(struct make *mk) {
    enum { MAX_CONFIG = 1 << 24 };
    struct mmproj_look *l = &mk->tower;
    char *path = io_join(mk->src, "config.json"), *text = NULL;
    struct json *config = NULL;
    struct err ignored;
    size_t n = 0;
    if (l->tower == TOWER_NONE && !io_read_file(&text, &n, path, MAX_CONFIG, &ignored) &&
        !json_parse(&config, text, n, path, &ignored) && lint_config_tower(config)) {
        l->tower = TOWER_UNKNOWN;
        snprintf(l->why, sizeof l->why,
                 "config.json names a vision tower (%s), of which the folder has no tensor",
                 lint_config_tower(config));
    }
    json_free(config);
    free(text);
    free(path);
}

int make_look_at_extras(struct make *mk, struct err *e) {
    make_free_extras(mk); /* --consume looks first at the folder, then at the file */
    mk->drafts = false;
    mk->n_draft_tensors = 0;
    const bool folder = io_is_dir(mk->src);
    if (folder) TRY(mmproj_look(mk->src, mk->type, mk->name, &mk->tower, e));
    if (folder) look_for_missing(mk);
    for (int i = 0; folder && i < mk->tower.n_files; i++)
        add_extra(mk, EXTRA_TOWER, mk->tower.file[i].type, mk->tower.file[i].size_bytes);
    if (mk->consumed) TRY(look_at_kept(mk, e));
    if (mk->unmeasured) return 0;
    if (!folder && !mk->consumed) TRY(look_beside(mk, e));
    return folder ? look_at_draft(mk, e) : look_in_file(mk, e);
}

void make_free_extras(struct make *mk) {
    while (mk->n_extras) {
        struct extra *x = &mk->extra[--mk->n_extras];
        free(x->file);
        free(x->from);
        cJSON_Delete(x->images);
    }
}

const char *make_extra_file(const struct make *mk, enum extra_kind kind) {
    for (int i = 0; i < mk->n_extras; i++)
        if (mk->extra[i].kind == kind) return mk->extra[i].file;
    return NULL;
}

bool make_is_extra(const struct make *mk, const char *name) {
    for (int i = 0; i < mk->n_extras; i++)
        if (strcmp(mk->extra[i].file, name) == 0) return true;
    return false;
}

bool make_mmproj_gap(const struct make *mk, char *out, size_t cap) {
    if (mk->tower.tower != TOWER_UNKNOWN) return false;
    snprintf(out, cap, "vision: no mmproj file is written, so the model accepts only text: %s",
             mk->tower.why);
    return true;
}

int make_check_extras(const struct make *mk, struct err *e) {
    for (int i = 0; i < mk->n_extras; i++) TRY(claim_check(&mk->job, mk->extra[i].file, e));
    return 0;
}

/* Converts this part of the source to the output folder. */
static int write_file(struct make *mk, const struct extra *x, const char *type, struct err *e) {
    char *path = job_path(&mk->job, x->file);
    log_info(x->from ? "copying the %s to %s" : "writing the %s to %s", kinds[x->kind].what,
             x->file);
    int rc = claim_take(&mk->job, x->file, e);
    if (rc == 0 && x->from) {
        rc = copy_file(x->from, path, e);
    } else if (rc == 0 && x->kind == EXTRA_TOWER) {
        struct mmproj_report r;
        const struct convert_opts o = {
            .src = mk->src, .type = type, .name = mk->name, .overwrite = true, .pool = mk->w->pool};
        rc = mmproj_run(&o, path, &r, e);
    } else if (rc == 0 && !io_is_dir(mk->src)) {
        struct draft_file f;
        rc = draft_file_write(mk->src, path, draft_qtype(), &f, e);
    } else if (rc == 0) {
        struct convert_report r;
        struct convert_opts o = draft_opts(mk);
        o.out = path;
        rc = convert_run(&o, &r, e);
    }
    free(path);
    return rc;
}

/* Writes one file, unless a record shows that it is done. */
static int make_one(struct make *mk, const struct extra *x, struct err *e) {
    const struct kind *k = &kinds[x->kind];
    struct step s;
    cJSON *found = NULL;
    char from[33];
    if (x->from) TRY(job_file_hash(&mk->job, x->from, from, e));
    char *step_name = xasprintf("%s-%s", k->prefix, x->type), *low = xstrdup(x->type);
    for (char *p = low; *p; p++)
        if (*p >= 'A' && *p <= 'Z') *p = (char)(*p - 'A' + 'a');
    step_init(&s, &mk->job, step_name);
    step_key(&s, "source", "%s", mk->src_hash);
    step_key(&s, "file", "%s", x->file);
    step_key(&s, "version", "%s", k->version);
    if (x->from) step_key(&s, "from", "%s", from);
    if (x->kind == EXTRA_DRAFT && mk->w->pre) step_key(&s, "pre", "%s", mk->w->pre);
    const bool known = make_reuse(mk, &s, &found);
    int rc = 0;
    cJSON_Delete(found);
    if (!known && make_counts(mk)) mk->extra_missing = true;
    if (!known && !make_counts(mk)) {
        const char *files[] = {x->file};
        rc = write_file(mk, x, low, e);
        if (rc == 0) rc = step_save_files(&s, files, 1, e);
    }
    step_release(&s);
    free(low);
    free(step_name);
    return rc;
}

/* Writes the files of one kind. */
static int make_kind(struct make *mk, enum extra_kind kind, struct err *e) {
    for (int i = 0; i < mk->n_extras; i++)
        if (mk->extra[i].kind == kind) TRY(make_one(mk, &mk->extra[i], e));
    return 0;
}

int make_tower(struct make *mk, struct err *e) {
    char gap[640];
    TRY(make_kind(mk, EXTRA_TOWER, e));
    if (!make_counts(mk) && make_mmproj_gap(mk, gap, sizeof gap)) log_warn("%s", gap);
    return 0;
}

int make_draft(struct make *mk, struct err *e) {
    return make_kind(mk, EXTRA_DRAFT, e);
}

void make_emit_extras(const struct make *mk, struct emit *m) {
    for (int i = 0; i < mk->n_extras; i++) {
        const struct extra *x = &mk->extra[i];
        emit_row(m);
        emit_cell_str(m, x->file);
        emit_cell_i64(m, (int64_t)x->bytes);
        emit_cell_str(m, kinds[x->kind].what);
    }
}

/* Appends the list "files" of one kind. */
static int put_files(struct make *mk, enum extra_kind kind, cJSON *to, struct err *e) {
    cJSON *list = doc_arr(to, "files");
    int rc = 0;
    for (int i = 0; i < mk->n_extras && rc == 0; i++) {
        const struct extra *x = &mk->extra[i];
        if (x->kind != kind) continue;
        char hex[33], sha[65], *path = job_path(&mk->job, x->file);
        rc = job_file_hash(&mk->job, path, hex, e);
        if (rc == 0) rc = make_checksum(mk, path, hex, sha, e);
        if (rc == 0) {
            cJSON *row = doc_obj(list, NULL);
            doc_put_str(row, "file", x->file);
            doc_put_str(row, "type", x->type);
            doc_put_i64(row, "size_bytes", (int64_t)x->bytes);
            doc_put_str(row, "sha256", sha);
            for (const cJSON *m = doc_first(x->images); m; m = m->next)
                doc_put_copy(row, m->string, m);
        }
        free(path);
    }
    return rc;
}

int make_put_extras(struct make *mk, cJSON *to, struct err *e) {
    const struct mmproj_look *t = &mk->tower;
    const bool folder = mk->consumed || io_is_dir(mk->src);
    if (folder || t->n_files) {
        cJSON *o = doc_obj(to, kinds[EXTRA_TOWER].list);
        doc_put_i64(o, "n_tensors", t->n_tensors);
        if (t->n_files) doc_put_str(o, "projector", t->file[0].projector);
        if (t->tower == TOWER_UNKNOWN) doc_put_str(o, "why", t->why);
        TRY(put_files(mk, EXTRA_TOWER, o, e));
    }
    if (!folder && !mk->n_draft_tensors) return 0;
    cJSON *o = doc_obj(to, kinds[EXTRA_DRAFT].list);
    doc_put_i64(o, "n_tensors", mk->n_draft_tensors);
    return put_files(mk, EXTRA_DRAFT, o, e);
}
