// SPDX-License-Identifier: MIT
/* template/chat_media.h - placeholders of images in a rendered conversation. Internal to
 * template/. */
#ifndef HONE_TEMPLATE_CHAT_MEDIA_H
#define HONE_TEMPLATE_CHAT_MEDIA_H

#include "template/chat.h"
#include "template/chat_span.h"

/* Replaces the placeholders in text by m->text and adapts the spans. With m->mark these are the
 * marks; otherwise the placeholders that the template itself wrote, outside the n_input ranges of
 * input. Returns their number; if it is not m->n, changes nothing. */
int chat_media_put(const struct chat_media *m, const struct tok_range *input, int n_input,
                   struct buf *text, struct jinja_spans *s);

#endif
