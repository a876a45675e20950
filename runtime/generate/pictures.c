// SPDX-License-Identifier: MIT
/* runtime/generate/pictures.c - images that a model sees (pictures.h). */
#include "runtime/generate/pictures.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/str.h"

enum { MAX_BYTES = 1 << 30 }; /* of embeddings in memory, unless they are held */
struct seen_view {
    struct vision_rows rows; /* data NULL: dropped */
    struct session_image image;
    int64_t base; /* row r has id -1 - (base + r) */
};
struct picture {
    char hash[33];    /* of the file's bytes */
    struct pixels px; /* sizes only */
    struct seen_view *view;
    int n_held;
    int64_t used; /* time of the last use, counted in calls */
};
struct pictures {
    struct vision_tower *tower;
    struct vision_params params;
    int64_t n_most;         /* tokens of an image; 0: not limited */
    const char *remedy;     /* against an image with more, borrowed */
    int32_t holder;         /* the control token that represents the rows of a view */
    pthread_mutex_t adding; /* held while an image is computed */
    pthread_mutex_t lock;   /* protects the fields below */
    struct picture **v;
    int n, cap;
    int64_t n_rows, clock;
    uint64_t n_bytes; /* of embeddings in memory */
};

/* Returns the number of deepstack branches in a projector file. */
static int64_t n_deepstack(const struct gguf *g) {
    int64_t n = 0;
    for (int64_t i = 0; i < gguf_n_tensors(g); i++) {
        const char *name = gguf_tensor_at(g, i)->name;
        n += strncmp(name, "v.deepstack.", 12) == 0 && str_ends(name, ".fc1.weight");
    }
    return n;
}

/* Returns whether a model of this architecture can have such a tower, as far as names tell. Some
 * architectures have towers of their own, which no other model has. */
static bool is_of(enum projector type, const char *arch) {
    static const struct {
        const char *arch;
        enum projector a, b;
    } own[] = {{"qwen2vl", PROJ_QWEN2VL, PROJ_QWEN25VL},
               {"gemma3", PROJ_GEMMA3, PROJ_GEMMA3},
               {"gemma4", PROJ_GEMMA4, PROJ_GEMMA4U},
               {"lfm2", PROJ_LFM2, PROJ_LFM2},
               {"lfm2moe", PROJ_LFM2, PROJ_LFM2}};
    bool owned = false;
    for (size_t i = 0; i < COUNT_OF(own); i++) {
        const bool tower = type == own[i].a || type == own[i].b;
        if (strcmp(own[i].arch, arch) == 0) return tower;
        owned |= tower;
    }
    return !owned;
}

int pictures_fit(const struct gguf *g, const struct model *m, int64_t width, struct err *e) {
    struct vision_params params;
    TRY(vision_params_read(g, &params, e));
    const char *path = gguf_path(g), *holder = image_row_token(params.type);
    if (width != m->hp.d[HD_EMBD])
        return err_set(e, ERR_DATA,
                       "%s belongs to another model: its embeddings have %lld values, the model's "
                       "%lld",
                       path, (long long)width, (long long)m->hp.d[HD_EMBD]);
    if (tok_find(m->tok, holder) < 0)
        return err_set(e, ERR_DATA,
                       "%s belongs to another model: the model has no token %s for images", path,
                       holder);
    if (!is_of(params.type, m->arch->name)) /* several families have one token */
        return err_set(e, ERR_DATA, "%s belongs to another model: a tower of %s, a model of %s",
                       path, vision_family(params.type), m->arch->family);
    if (n_deepstack(g) != m->hp.d[HD_DEEP])
        return err_set(
            e, ERR_DATA,
            "%s belongs to another model: it has %lld deepstack branches, the model %lld", path,
            (long long)n_deepstack(g), (long long)m->hp.d[HD_DEEP]);
    return 0;
}

int pictures_fit_file(const char *path, const struct model *m, struct err *e) {
    struct gguf *g;
    TRY(gguf_open(&g, path, GGUF_TOLERANT, e));
    const int rc = pictures_fit(g, m, (int64_t)gguf_u64_or(g, "clip.vision.projection_dim", 0), e);
    gguf_close(g);
    return rc;
}

/* Returns ERR_DATA unless the tower fits the model; finds the image token. */
static int check_model(struct pictures *p, const struct model *m, const char *mmproj,
                       struct err *e) {
    struct gguf *g;
    TRY(gguf_open(&g, mmproj, GGUF_TOLERANT, e));
    const int rc = pictures_fit(g, m, vision_width(p->tower), e);
    gguf_close(g);
    p->holder = (int32_t)tok_find(m->tok, image_row_token(p->params.type));
    return rc;
}

int pictures_open(struct pictures **out, const char *mmproj, const struct model *m,
                  struct pool *pool, enum kern_isa isa, struct err *e) {
    struct vision_tower *tower = NULL;
    *out = NULL;
    TRY(vision_open(&tower, mmproj, pool, isa, e));
    struct pictures *p = xcalloc(1, sizeof *p);
    p->tower = tower;
    p->params = *vision_params(tower);
    pthread_mutex_init(&p->adding, NULL);
    pthread_mutex_init(&p->lock, NULL);
    const int rc = check_model(p, m, mmproj, e);
    if (rc)
        pictures_free(p);
    else
        *out = p;
    return rc;
}

void pictures_limit(struct pictures *p, int64_t n_view, int64_t n_image, const char *remedy) {
    const int64_t side = (int64_t)p->params.patch * p->params.merge, pixels = n_view * side * side;
    if (n_view && p->params.max_pixels > pixels) p->params.max_pixels = pixels;
    if (p->params.max_pixels && p->params.min_pixels >= p->params.max_pixels)
        p->params.min_pixels = 0;
    p->n_most = n_image;
    p->remedy = remedy;
}

const struct vision_params *pictures_params(const struct pictures *p) {
    return &p->params;
}

/* Releases the rows computed for the image's views; they can be computed again. */
static void drop_rows(struct picture *v) {
    for (int i = 0; v->view && i < v->px.n_views; i++) vision_rows_release(&v->view[i].rows);
}

static void picture_free(struct picture *v) {
    drop_rows(v);
    free(v->view);
    pixels_release(&v->px);
    free(v);
}

void pictures_free(struct pictures *p) {
    if (!p) return;
    for (int i = 0; i < p->n; i++) picture_free(p->v[i]);
    free(p->v);
    vision_close(p->tower);
    pthread_mutex_destroy(&p->adding);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

/* ---- adding ---- */

/* Returns the bytes of the image's computed rows. */
static uint64_t picture_bytes(const struct picture *v) {
    uint64_t n = 0;
    for (int i = 0; i < v->px.n_views; i++) {
        const struct vision_rows *r = &v->view[i].rows;
        if (r->data) n += (uint64_t)(r->n * r->width * (1 + r->n_deep)) * sizeof(float);
    }
    return n;
}

/* Computes the embeddings of a picture's views from their pixels. */
static int encode(const struct pictures *p, const struct pixels *px, struct picture *v,
                  struct err *e) {
    for (int i = 0; i < px->n_views; i++) {
        struct vision_rows *r = &v->view[i].rows;
        TRY(vision_encode(p->tower, px->view[i].data, px->view[i].w, px->view[i].h, r, e));
        v->view[i].image = (struct session_image){.rows = r->data,
                                                  .deep = r->n_deep ? r->deep : NULL,
                                                  .n = r->n,
                                                  .n_deep = r->n_deep,
                                                  .t = 1,
                                                  .h = r->h,
                                                  .w = r->w};
    }
    return 0;
}

static int check_tokens(const struct pictures *p, const struct pixels *px, struct err *e) {
    int64_t n = 0;
    for (int i = 0; i < px->n_views; i++) {
        int w, h;
        view_grid(&p->params, &px->view[i], &w, &h);
        n += (int64_t)w * h;
    }
    if (!p->n_most || n <= p->n_most) return 0;
    return err_set(e, ERR_USAGE, "the image has %lld tokens, but the context only %lld: %s",
                   (long long)n, (long long)p->n_most, p->remedy);
}

/* Decodes an image and computes its embeddings. The caller frees the picture, also after an
 * error. */
static int load(const struct pictures *p, const void *bytes, size_t n, struct picture *v,
                struct err *e) {
    struct image im = {0};
    int rc = image_decode(bytes, n, &im, e);
    if (!rc) rc = image_prepare(&p->params, &im, &v->px, e);
    image_release(&im);
    if (!rc) rc = check_tokens(p, &v->px, e);
    if (!rc) v->view = xcalloc((size_t)v->px.n_views, sizeof *v->view);
    if (!rc) rc = encode(p, &v->px, v, e);
    pixels_drop(&v->px);
    return rc;
}

/* Drops embeddings that no caller holds, the least recently used first, until the rest is within
 * the limit. */
static void make_room(struct pictures *p) {
    while (p->n_bytes > MAX_BYTES) {
        struct picture *oldest = NULL;
        for (int i = 0; i < p->n; i++)
            if (!p->v[i]->n_held && p->v[i]->view[0].rows.data &&
                (!oldest || p->v[i]->used < oldest->used))
                oldest = p->v[i];
        if (!oldest) return;
        p->n_bytes -= picture_bytes(oldest);
        drop_rows(oldest);
    }
}

/* Finds an image by its hash; NULL: it was never added. */
static struct picture *find(struct pictures *p, const char *hash, int *index) {
    for (*index = 0; *index < p->n; ++*index)
        if (strcmp(p->v[*index]->hash, hash) == 0) return p->v[*index];
    return NULL;
}

/* Gives a new picture's rows their ids and adds it to the list. */
static int enlist(struct pictures *p, struct picture *v, int *index, struct err *e) {
    for (int i = 0; i < v->px.n_views; i++) {
        if (p->n_rows + v->view[i].image.n >= INT32_MAX)
            return err_set(e, ERR_USAGE, "there have been too many images");
        v->view[i].base = p->n_rows;
        p->n_rows += v->view[i].image.n;
    }
    if (p->n == p->cap) {
        p->cap = p->cap ? 2 * p->cap : 4;
        p->v = xreallocarray(p->v, (size_t)p->cap, sizeof *p->v);
    }
    *index = p->n;
    p->v[p->n++] = v;
    return 0;
}

/* Moves the embeddings of `from` to a picture whose own were dropped. */
static void take_rows(struct picture *v, struct picture *from) {
    for (int i = 0; i < v->px.n_views; i++) {
        v->view[i].rows = from->view[i].rows;
        v->view[i].image = from->view[i].image;
        memset(&from->view[i].rows, 0, sizeof from->view[i].rows);
    }
}

/* Computes an image and holds it. v NULL: the image is new, and *index becomes its number;
 * otherwise v, number *index, whose embeddings were dropped, gets them back. */
static int compute(struct pictures *p, const void *bytes, size_t n, const char *hash,
                   struct picture *v, int *index, struct err *e) {
    struct picture *made = xcalloc(1, sizeof *made);
    snprintf(made->hash, sizeof made->hash, "%s", hash);
    int rc = load(p, bytes, n, made, e);
    pthread_mutex_lock(&p->lock);
    if (!rc && !v) rc = enlist(p, made, index, e);
    if (!rc && v) take_rows(v, made);
    if (!rc) {
        p->n_bytes += picture_bytes(p->v[*index]);
        p->v[*index]->n_held++;
        p->v[*index]->used = ++p->clock;
        make_room(p);
    }
    pthread_mutex_unlock(&p->lock);
    if (rc || v) picture_free(made);
    return rc;
}

int pictures_add(struct pictures *p, const void *bytes, size_t n, int *index, struct err *e) {
    char hash[33];
    hash_xxh128_hex(hash, bytes, n);
    pthread_mutex_lock(&p->adding);
    pthread_mutex_lock(&p->lock);
    struct picture *v = find(p, hash, index);
    const bool ready = v && v->view[0].rows.data;
    if (ready) {
        v->n_held++;
        v->used = ++p->clock;
    }
    pthread_mutex_unlock(&p->lock);
    const int rc = ready ? 0 : compute(p, bytes, n, hash, v, index, e);
    pthread_mutex_unlock(&p->adding);
    return rc;
}

void pictures_let_go(struct pictures *p, int index) {
    pthread_mutex_lock(&p->lock);
    p->v[index]->n_held--;
    make_room(p);
    pthread_mutex_unlock(&p->lock);
}

/* Returns a picture that the caller holds. */
static const struct picture *picture_at(struct pictures *p, int index) {
    pthread_mutex_lock(&p->lock);
    const struct picture *v = p->v[index];
    pthread_mutex_unlock(&p->lock);
    return v;
}

/* ---- in the prompt ---- */

const char *pictures_placeholder(const struct pictures *p) {
    return image_placeholder(p->params.type);
}

char *pictures_text(struct pictures *p, int index, int place) {
    struct image_prompt pr;
    struct buf text = {0};
    image_prompt(&p->params, &picture_at(p, index)->px, place, &pr);
    for (int i = 0; i < pr.n_parts; i++)
        buf_str(&text, pr.part[i].text ? pr.part[i].text : image_row_token(p->params.type));
    image_prompt_release(&pr);
    return buf_take(&text);
}

char *pictures_text_around(struct pictures *p, int index, int place) {
    const char *before, *after;
    image_around(p->params.type, &before, &after);
    char *text = pictures_text(p, index, place), *all = xasprintf("%s%s%s", before, text, after);
    free(text);
    return all;
}

/* Appends the ids of the rows that the next control token represents; *image and *part: the place
 * reached. Returns false if no rows are left. */
static bool add_rows(struct pictures *p, const int *index, int n, int *image, int *part,
                     struct ids *out) {
    for (; *image < n; ++*image, *part = 0) {
        const struct picture *v = picture_at(p, index[*image]);
        struct image_prompt pr;
        image_prompt(&p->params, &v->px, 0, &pr);
        while (*part < pr.n_parts && pr.part[*part].text) ++*part;
        const bool found = *part < pr.n_parts;
        if (found) {
            const struct image_part *at = &pr.part[(*part)++];
            const int64_t base = v->view[at->view].base + at->first;
            for (int64_t r = 0; r < at->n; r++) ids_add(out, (int32_t)(-1 - (base + r)));
        }
        image_prompt_release(&pr);
        if (found) return true;
    }
    return false;
}

int pictures_expand(struct pictures *p, const int *index, int n, struct ids *ids, int64_t *n_head,
                    struct err *e) {
    struct ids out = {0};
    int image = 0, part = 0;
    int64_t head = *n_head;
    bool enough = true;
    for (int64_t i = 0; i < ids->n && enough; i++) {
        if (i == *n_head) head = out.n;
        if (ids->v[i] == p->holder)
            enough = add_rows(p, index, n, &image, &part, &out);
        else
            ids_add(&out, ids->v[i]);
    }
    struct ids rest = {0};
    if (!enough || add_rows(p, index, n, &image, &part, &rest)) {
        ids_release(&out);
        ids_release(&rest);
        return err_set(e, ERR_USAGE, "the conversation contains the control token %s of images",
                       image_row_token(p->params.type));
    }
    ids_release(ids);
    *ids = out;
    *n_head = head;
    return 0;
}

const struct session_image *pictures_row(struct pictures *p, int32_t id, int64_t *at) {
    const int64_t row = -1 - (int64_t)id;
    const struct session_image *found = NULL;
    pthread_mutex_lock(&p->lock);
    for (int i = 0; i < p->n && !found; i++)
        for (int k = 0; k < p->v[i]->px.n_views && !found; k++) {
            const struct seen_view *v = &p->v[i]->view[k];
            *at = row - v->base;
            if (*at >= 0 && *at < v->image.n && v->rows.data) found = &v->image;
        }
    pthread_mutex_unlock(&p->lock);
    return found;
}
