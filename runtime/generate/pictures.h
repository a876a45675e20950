// SPDX-License-Identifier: MIT
/* runtime/generate/pictures.h - images that a model sees: each is computed once, and has tokens in
 * a prompt. A token of an image is a negative id, which names a row of embeddings here. An image
 * seen before gets the same ids again, so that prompts with equal ids are equal. Thread-safe. */
#ifndef HONE_RUNTIME_GENERATE_PICTURES_H
#define HONE_RUNTIME_GENERATE_PICTURES_H

#include "runtime/engine/session.h"
#include "runtime/vision/tower.h"
#include "tok/tok.h"

struct pictures;
/* Opens a projector file for a model; both are borrowed, as is the pool. ERR_DATA: the file belongs
 * to another model. */
int pictures_open(struct pictures **out, const char *mmproj, const struct model *m,
                  struct pool *pool, enum kern_isa isa, struct err *e);
/* Returns ERR_DATA unless a projector file, whose embeddings have `width` values, belongs to the
 * model, as far as the two files tell. */
int pictures_fit(const struct gguf *g, const struct model *m, int64_t width, struct err *e);
/* Like pictures_fit(), for a file from its path. */
int pictures_fit_file(const char *path, const struct model *m, struct err *e);
void pictures_free(struct pictures *p); /* accepts NULL */
/* Returns how images are prepared, with the limits set. */
const struct vision_params *pictures_params(const struct pictures *p);
/* Sets limits before the first image. n_view: tokens of a view, to which images are shrunk if the
 * projector takes images of any size; 0: as published. n_image: tokens from which an image is
 * refused instead of computed; 0: none. remedy: what the user can do then, borrowed. */
void pictures_limit(struct pictures *p, int64_t n_view, int64_t n_image, const char *remedy);

/* Decodes an image and computes its embeddings, unless the same bytes have been added before.
 * *index names it. The embeddings stay in memory at least until each call is matched by one of
 * pictures_let_go(). */
int pictures_add(struct pictures *p, const void *bytes, size_t n, int *index, struct err *e);
/* Gives up one use of the image and frees memory if too much is held. */
void pictures_let_go(struct pictures *p, int index);

/* Returns what chat templates write for an image. */
const char *pictures_placeholder(const struct pictures *p);
/* Returns the text that replaces the placeholder of image `index`, the place-th of the
 * conversation. In it, one control token represents the rows of each view. The caller frees it. */
char *pictures_text(struct pictures *p, int index, int place);
/* Returns the same with what chat templates write around a placeholder. */
char *pictures_text_around(struct pictures *p, int index, int place);
/* Replaces each of these control tokens in ids by the ids of its view's rows. index [n]: the images
 * in order. *n_head: length of a prefix of ids, updated for the rows inserted into it. ERR_USAGE:
 * the number of control tokens does not match. */
int pictures_expand(struct pictures *p, const int *index, int n, struct ids *ids, int64_t *n_head,
                    struct err *e);

/* Returns the image of a negative id and sets *at to its row; NULL: it is no longer in memory. The
 * result is valid while the image is held. */
const struct session_image *pictures_row(struct pictures *p, int32_t id, int64_t *at);

#endif
