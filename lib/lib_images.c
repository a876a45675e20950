// SPDX-License-Identifier: MIT
/* lib/lib_images.c - images in a session's prompts: rendering of conversations with images. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "lib/handles.h"
#include "runtime/generate/pictures_prompt.h"

/* Opens a projector file; path NULL: the one next to the model. */
static int open_projector(struct hone_session *s, const char *path, int64_t max_tokens,
                          struct err *e) {
    const struct model *m = s->model->m;
    char *found = NULL;
    if (s->pictures) return err_set(e, ERR_USAGE, "the session has a projector file already");
    if (max_tokens < 0)
        return err_set(e, ERR_USAGE, "an image cannot have a negative number of tokens");
    TRY(model_need_tok(m, e));
    if (!session_info(s->s).takes_images)
        return err_set(e, ERR_USAGE,
                       "images of this model are computed on the CPU only: open the session with "
                       "device \"cpu\"");
    if (!path) TRY(pictures_need(m, gguf_path(m->gguf), &found, e));
    const int rc = pictures_open(&s->pictures, path ? path : found, m, s->pool,
                                 session_get_opts(s->s)->isa, e);
    free(found);
    if (!rc) pictures_limit(s->pictures, max_tokens, session_get_opts(s->s)->n_ctx, "shrink it");
    return rc;
}

int hone_session_projector(struct hone_session *s, const char *path, int64_t max_tokens,
                           struct hone_error *e) {
    struct call c;
    int rc = call_begin(&c, s->owner, e);
    if (rc) return rc;
    rc = open_projector(s, path, max_tokens, &c.err);
    if (rc && path) err_about(&c.err, path, NULL);
    return call_end(&c, rc, e);
}

/* Lets n images go. */
static void let_go(struct hone_session *s, const int *index, int n) {
    for (int i = 0; i < n; i++) pictures_let_go(s->pictures, index[i]);
}

void session_drop_images(struct hone_session *s) {
    let_go(s, s->held, s->n_held);
    free(s->held);
    s->held = NULL;
    s->n_held = 0;
}

/* Computes the images of a prompt, which replace those of the last one. */
static int take_images(struct hone_session *s, const void *const *image, const size_t *n_bytes,
                       int n, struct err *e) {
    int *index = xcalloc((size_t)n, sizeof *index), rc = 0, i = 0;
    for (; i < n && !rc; i++) {
        rc = image[i] ? pictures_add(s->pictures, image[i], n_bytes[i], &index[i], e)
                      : err_set(e, ERR_USAGE, "the image is NULL");
        if (rc) err_wrap(e, "image %d", i);
    }
    if (rc) {
        let_go(s, index, i - 1);
        free(index);
        return rc;
    }
    session_drop_images(s); /* after the new ones, which may be the same */
    s->held = index;
    s->n_held = n;
    return 0;
}

/* Renders the conversation to p. */
static int render(struct hone_session *s, const char *conversation, const char *variables,
                  bool invite, const void *const *image, const size_t *n_bytes, int n,
                  struct chat_prompt *p, struct err *e) {
    const struct hone_model *m = s->model;
    const size_t len = strlen(conversation);
    TRY(model_need_tok(m->m, e));
    if (!m->tmpl) {
        *e = m->no_tmpl;
        return (int)e->code;
    }
    if (!n)
        return chat_tokens(m->tmpl->chat, m->m->tok, conversation, len, variables, invite,
                           CHAT_PLAIN, NULL, p, e);
    if (!s->pictures) TRY(open_projector(s, NULL, 0, e));
    const struct pictures_prompt how = {m->tmpl->chat, m->m->tok, variables, invite, CHAT_PLAIN};
    TRY(take_images(s, image, n_bytes, n, e));
    return pictures_render(s->pictures, s->held, n, &how, conversation, len, p, e);
}

int hone_session_prompt(struct hone_session *s, const char *conversation, const char *variables,
                        int invite, const void *const *image, const size_t *n_bytes, int n_images,
                        int32_t **ids, int64_t *n, struct hone_error *e) {
    NEED(conversation, e);
    struct call c;
    struct chat_prompt p = {0};
    *ids = NULL;
    *n = 0;
    if (n_images < 0 || (n_images && (!image || !n_bytes)))
        return lib_error(e, HONE_USAGE, "hone_session_prompt: the list of images is NULL");
    int rc = call_begin(&c, s->owner, e);
    if (rc) return rc;
    rc = render(s, conversation, variables, invite != 0, image, n_bytes, n_images, &p, &c.err);
    if (!rc) {
        *n = p.ids.n;
        *ids = xcalloc((size_t)p.ids.n + 1, sizeof **ids);
        if (p.ids.n) memcpy(*ids, p.ids.v, (size_t)p.ids.n * sizeof **ids);
    }
    chat_prompt_release(&p);
    return call_end(&c, rc, e);
}

struct session_row session_row_of(const struct hone_session *s, int32_t id) {
    struct session_row row = {.id = id};
    if (id < 0 && s->pictures) row.image = pictures_row(s->pictures, id, &row.image_at);
    return row;
}
