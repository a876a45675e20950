// SPDX-License-Identifier: MIT
/* runtime/vision/decode.h - the decoders of image formats. Internal to runtime/vision. */
#ifndef HONE_RUNTIME_VISION_DECODE_H
#define HONE_RUNTIME_VISION_DECODE_H

#include "runtime/vision/image.h"

/* Checks the size that a file's header announces and allocates the pixels, zeroed. */
int image_new(int64_t w, int64_t h, struct image *out, struct err *e);

/* Decodes a PNG file; out->rgb is NULL before the call. */
int png_decode(const void *bytes, size_t n, struct image *out, struct err *e);
/* Decodes a JPEG file in the same way. */
int jpeg_decode(const void *bytes, size_t n, struct image *out, struct err *e);

/* Returns the EXIF orientation of a PNG or JPEG file, 1 to 8; 1: upright or unknown. */
int image_orientation(const uint8_t *bytes, size_t n);

#endif
