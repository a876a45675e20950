// SPDX-License-Identifier: MIT
/* serve/images.h - images in requests. A reader replaces each image by a mark in the text of its
 * message, so that code written for text also works on messages with images. When the prompt is
 * rendered, the marks become parts of the content. A mark contains a key that clients do not
 * know. */
#ifndef HONE_SERVE_IMAGES_H
#define HONE_SERVE_IMAGES_H

#include "serve/ask.h"

struct served;
struct chat_prompt;

/* Decodes the image of a content part or a text in base64 and appends its mark to out. Like the
 * readers in serve/ask.h, returns 0 or an HTTP status with *f filled in. */
int images_read(struct ask *a, const struct json *part, const char *path, struct buf *out,
                struct fault *f);
/* Returns what messages may contain, for errors: "text" or "text and images". */
const char *images_kinds(const struct ask *a);
/* Returns whether a text ends with a mark. */
bool images_at_end(const struct buf *text);
/* Returns whether a model has a projector file and runs where images are computed. */
bool images_possible(const struct served *d);
/* Computes the embeddings of a request's images. */
int images_compute(struct served *d, struct ask *a, struct fault *f);
/* Like chat_tokens() with the server's template, for a conversation with marks. */
int images_tokens(struct served *d, const struct ask *a, const char *conv, const char *kwargs,
                  bool gen, struct chat_prompt *p, struct err *e);
void images_release(struct ask *a);

#endif
