// SPDX-License-Identifier: MIT
/* make/images.c - the step of `hone make` that measures every file on questions about images, as
 * `hone eval vision` does: each with the unquantized projector, and the base with each other
 * projector of the job. */
#include <stdlib.h>
#include <string.h>

#include "make/make.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "runtime/measure/measurement_cache.h"
#include "runtime/vision/image.h"
#include "work/device.h"
#include "work/passes.h"

/* One measurement: a file, or the base with another projector. */
struct item {
    cJSON **result; /* in the file or the projector */
    const char *model, *hash;
    char *mmproj, mmproj_hash[33];
    struct step step;
    bool todo;
};
struct images {
    struct make *mk;
    struct vision_opts o;
    struct item *item; /* [n] the base first */
    int n;
};

/* Returns the options of the measurement. */
static struct vision_opts options(const struct make *mk) {
    struct vision_opts o = eval_vision_usual;
    o.lines = mk->images;
    o.eval.pre = mk->w->pre;
    return o;
}

/* Returns the unquantized projector. */
static const struct extra *first_projector(const struct make *mk) {
    int i = 0;
    while (mk->extra[i].kind != EXTRA_TOWER) i++;
    return &mk->extra[i];
}

int make_look_at_images(struct make *mk, struct err *e) {
    const struct vision_opts o = options(mk);
    if (!mk->images) return 0;
    if (!make_extra_file(mk, EXTRA_TOWER))
        return err_set(e, ERR_USAGE,
                       "--images: no projector file is made from %s, so its files cannot see "
                       "images; `hone eval vision` measures files with a projector of your own",
                       mk->src);
    if (mk->unmeasured)
        return err_set(e, ERR_USAGE, "--images: hone converts this model but cannot run it");
    struct vision_params p;
    TRY(make_projector_params(mk, first_projector(mk), &p, e));
    return eval_vision_look(&o, &p, &mk->image_facts, e);
}

int make_check_images(struct make *mk, struct err *e) {
    const struct vision_opts o = options(mk);
    if (make_counts(mk)) return 0;
    char *mmproj = job_path(&mk->job, first_projector(mk)->file);
    const struct vision_file f = {mk->file[0].path, mmproj, NULL};
    const int rc = eval_vision_check(mk->w, &o, &f, e);
    free(mmproj);
    return rc ? err_wrap(e, "--images") : 0;
}

/* Begins the step of an item. Its key contains everything that the result depends on. */
static void begin_step(const struct images *x, struct item *v, const char *name) {
    const struct make *mk = x->mk;
    char device[256];
    step_init(&v->step, &mk->job, name);
    step_key(&v->step, "base", "%s %s", x->item[0].hash, x->item[0].mmproj_hash);
    step_key(&v->step, "file", "%s %s", v->hash, v->mmproj_hash);
    step_key(&v->step, "questions", "%s %lld", mk->image_facts.hash, (long long)x->o.max_tokens);
    step_key(&v->step, "machine", "%s", kern_isa_name(mk->w->isa));
    device_name(mk->w, device);
    if (device[0]) step_key(&v->step, "device", "%s", device);
}

/* Adds an item, with its recorded result if there is one. */
static int add_item(struct images *x, const char *name, const struct made *f,
                    const struct extra *projector, cJSON **result, struct err *e) {
    struct item *v = &x->item[x->n];
    *v = (struct item){.result = result, .model = f->path, .hash = f->hash};
    v->mmproj = job_path(&x->mk->job, projector->file);
    x->n++;
    TRY(job_file_hash(&x->mk->job, v->mmproj, v->mmproj_hash, e));
    begin_step(x, v, name);
    cJSON *found;
    v->todo = !make_reuse(x->mk, &v->step, &found);
    make_keep(result, found);
    return 0;
}

/* Adds all files, then the base with each projector but the first. */
static int add_items(struct images *x, struct err *e) {
    struct make *mk = x->mk;
    const struct extra *first = first_projector(mk);
    for (int i = 0; i < mk->n_files; i++) {
        struct made *f = &mk->file[i];
        char *name = xasprintf("images-%s", f->is_base ? "base" : f->recipe);
        const int rc = add_item(x, name, f, first, &f->images, e);
        free(name);
        if (rc) return rc;
    }
    for (int i = 0; i < mk->n_extras; i++) {
        struct extra *p = &mk->extra[i];
        if (p->kind != EXTRA_TOWER || p == first) continue;
        char *name = xasprintf("images-mmproj-%s", p->type);
        const int rc = add_item(x, name, &mk->file[0], p, &p->images, e);
        free(name);
        if (rc) return rc;
    }
    return 0;
}

/* Adds a number and, as NAME_stderr, its standard error. */
static void put_num(cJSON *o, const char *name, double value, double error) {
    char *of_error = xasprintf("%s_stderr", name);
    doc_put_num(o, name, value);
    doc_put_num(o, of_error, error);
    free(of_error);
}
/* Returns a record's result. The base has only what its own answers give. */
static cJSON *result_of(const struct vision_sums *s, bool base) {
    cJSON *o = doc_new();
    if (!base) {
        put_num(o, "images_kld", s->mean_kld, s->mean_kld_stderr);
        doc_put_num(o, "images_same_top1", s->same_top1);
        put_num(o, "images_changed", s->changed, s->changed_stderr);
        doc_put_i64(o, "images_tokens", s->n_tokens);
    }
    if (s->n_expected) put_num(o, "images_right", s->right, s->right_stderr);
    if (s->n_expected && !base) {
        doc_put_i64(o, "images_lost", s->n_lost);
        doc_put_i64(o, "images_gained", s->n_gained);
    }
    if (s->n_choices) put_num(o, "images_choices_right", s->choices_right, s->choices_right_stderr);
    if (s->n_choices && !base)
        put_num(o, "images_choices_flipped", s->choices_flipped, s->choices_flipped_stderr);
    return o;
}

/* Measures the items v[1..n) against v[0], the base, and records them. */
static int measure(struct images *x, struct item *const *v, int n, struct err *e) {
    struct vision_file *f = xcalloc((size_t)n, sizeof *f);
    struct vision_sums *sums = xcalloc((size_t)n, sizeof *sums);
    for (int i = 0; i < n; i++)
        f[i] = (struct vision_file){v[i]->model, v[i]->mmproj, v[i]->step.key.data};
    int rc = eval_vision_of(x->mk->w, &x->o, f, n, x->mk->w->kept, sums, e);
    for (int i = 0; i < n && !rc; i++) {
        if (!v[i]->todo) continue;
        make_keep(v[i]->result, result_of(&sums[i], i == 0));
        rc = step_save(&v[i]->step, NULL, 0, *v[i]->result, e);
        v[i]->todo = false;
    }
    free(sums);
    free(f);
    return rc;
}

/* Measures the items that have no record, in passes with as many models as fit into memory. */
static int measure_all(struct images *x, struct err *e) {
    const int most = (int)min_i64(passes_files(x->mk->w, x->item[0].model), VISION_MOST);
    struct item **v = xcalloc((size_t)x->n + 1, sizeof *v);
    int rc = 0;
    for (int i = 1; i < x->n && !rc;) {
        int n = 1;
        v[0] = &x->item[0];
        for (; i < x->n && n < most; i++)
            if (x->item[i].todo) v[n++] = &x->item[i];
        if (n == 1 && x->item[0].todo && x->n > 1) v[n++] = &x->item[1];
        if (n > 1) rc = measure(x, v, n, e);
    }
    free(v);
    return rc;
}

int make_images(struct make *mk, struct err *e) {
    struct images x = {.mk = mk, .o = options(mk)};
    x.item = xcalloc((size_t)(mk->n_files + mk->n_extras), sizeof *x.item);
    int rc = add_items(&x, e);
    if (make_counts(mk))
        for (int i = 1; i < x.n && !rc; i++)
            if (x.item[i].todo) mk->n_begun += kept_share(mk->w->kept, x.item[i].step.key.data);
    if (!rc && !make_counts(mk)) rc = measure_all(&x, e);
    for (int i = 0; i < x.n; i++) {
        step_release(&x.item[i].step);
        free(x.item[i].mmproj);
    }
    free(x.item);
    return rc;
}

void make_put_images(const struct make *mk, cJSON *to) {
    int64_t n = 0;
    if (!mk->images) return;
    for (int i = 0; i < mk->n_files && !n; i++)
        (void)doc_i64(mk->file[i].images, "images_tokens", &n);
    cJSON *o = doc_obj(to, "images");
    doc_put_str(o, "file", io_base(mk->images));
    doc_put_str(o, "xxh128", mk->image_facts.hash);
    doc_put_i64(o, "n_questions", mk->image_facts.n_questions);
    doc_put_i64(o, "n_images", mk->image_facts.n_images);
    doc_put_i64(o, "n_expected", mk->image_facts.n_expected);
    doc_put_i64(o, "n_choices", mk->image_facts.n_choices);
    doc_put_i64(o, "n_tokens", n);
}
