// SPDX-License-Identifier: MIT
/* runtime/generate/pictures_prompt.h - prompts of conversations with images, and the search for the
 * projector file of a model. */
#ifndef HONE_RUNTIME_GENERATE_PICTURES_PROMPT_H
#define HONE_RUNTIME_GENERATE_PICTURES_PROMPT_H

#include "chat/images.h"
#include "runtime/generate/pictures.h"
#include "template/chat.h"

/* Finds the projector file of a model among the files of its folder that have "mmproj" in their
 * names and fit the model (pictures_find.c): the one named after the model's file, or else after
 * general.name or general.basename, or else the only one. Of one name in several types, the largest
 * file. The caller frees *out; NULL: not found. ERR_USAGE: several may be the model's;
 * ERR_DATA: the only one, or the one named after the model's file, cannot be used. */
int pictures_find(const struct model *m, const char *model_path, char **out, struct err *e);
/* Like pictures_find(), but ERR_USAGE if nothing is found. */
int pictures_need(const struct model *m, const char *model_path, char **out, struct err *e);

/* How a conversation becomes tokens. */
struct pictures_prompt {
    const struct chat *chat;
    const struct tok *tok;
    const char *kwargs; /* as for chat_tokens(), as are the next two */
    bool gen;
    enum chat_special special;
};
/* Like chat_tokens() for a conversation with n images {"type": "image"}; index: these images in the
 * order of the conversation, held by the caller. */
int pictures_render(struct pictures *p, const int *index, int n, const struct pictures_prompt *how,
                    const char *conv, size_t len, struct chat_prompt *out, struct err *e);
/* Bytes of image files by path, each read once: later prompts of a conversation have the same
 * images even if files change or were pipes. Zero-initialised: empty. */
struct picture_files {
    struct picture_file *v;
    int n;
};
/* Keeps a copy of a file's bytes, unless there is one. Returns false if other bytes are kept under
 * this path. */
bool picture_files_keep(struct picture_files *f, const char *path, const char *bytes, size_t n);
void picture_files_release(struct picture_files *f);

/* Like chat_tokens() for a conversation from which chat_images_take() has taken im->n > 0 images:
 * data URLs or files. Adds the images to p. ERR_USAGE: an image cannot be read. */
int pictures_tokens(struct pictures *p, const struct chat_images *im, struct picture_files *files,
                    const struct pictures_prompt *how, const char *conv, size_t len,
                    struct chat_prompt *out, struct err *e);

#endif
