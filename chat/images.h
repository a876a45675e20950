// SPDX-License-Identifier: MIT
/* chat/images.h - images in the messages of a conversation, in the notations of OpenAI, Anthropic,
 * Ollama and transformers. */
#ifndef HONE_CHAT_IMAGES_H
#define HONE_CHAT_IMAGES_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/json.h"

struct chat_images { /* zero-initialised: empty */
    struct arena mem;
    const char *
        *source; /* "data:..." with base64, or a file or URL; in the order of the messages */
    int n, cap;
};
/* Writes a conversation, `len` bytes of JSON, to *out with each image replaced by {"type":
 * "image"}, the part that chat templates expect, and lists the images' sources. Without an image
 * *out stays empty. ERR_USAGE: an image without a source, or of an unknown form. */
int chat_images_take(const char *conv, size_t len, struct chat_images *im, struct buf *out,
                     struct err *e);
void chat_images_release(struct chat_images *im);

/* Returns whether a part of a message's content is an image. */
bool chat_image_is(const struct json *part);
/* Returns whether a source is a data URL, not a file or an address. */
bool chat_image_is_data(const char *source);
/* Returns an image part's source, which the caller frees; NULL: it has none. */
char *chat_image_source(const struct json *part);
/* Decodes a data URL. ERR_USAGE: not base64. */
int chat_image_decode(const char *source, struct buf *out, struct err *e);

#endif
