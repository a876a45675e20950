// SPDX-License-Identifier: MIT
/* runtime/vision/decode.c - recognises an image's format, decodes it and turns it upright. */
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/mem.h"
#include "base/printable.h"
#include "runtime/vision/decode.h"

static const struct format {
    const char *name;
    const char *magic; /* '?': any byte */
    size_t n;
    int (*decode)(const void *, size_t, struct image *, struct err *); /* NULL: not supported */
} formats[] = {
    {"PNG", "\x89PNG\r\n\x1a\n", 8, png_decode},
    {"JPEG", "\xff\xd8\xff", 3, jpeg_decode},
    {"GIF", "GIF8", 4, NULL},
    {"WebP", "RIFF????WEBP", 12, NULL},
    {"BMP", "BM", 2, NULL},
    {"TIFF", "II*\0", 4, NULL},
    {"TIFF", "MM\0*", 4, NULL},
    {"AVIF", "????ftypavif", 12, NULL},
    {"HEIC", "????ftypheic", 12, NULL},
    {"SVG", "<svg", 4, NULL},
};

/* Returns whether the file begins with the format's magic bytes; '?' matches any byte. */
static bool has_magic(const struct format *f, const uint8_t *p, size_t n) {
    if (n < f->n) return false;
    for (size_t i = 0; i < f->n; i++)
        if (f->magic[i] != '?' && (uint8_t)f->magic[i] != p[i]) return false;
    return true;
}

int image_new(int64_t w, int64_t h, struct image *out, struct err *e) {
    if (w < 1 || h < 1) return err_set(e, ERR_DATA, "the image is empty");
    if (w > IMAGE_MAX_SIDE || h > IMAGE_MAX_SIDE || w * h > IMAGE_MAX_PIXELS)
        return err_set(
            e, ERR_DATA,
            "the image is %lld x %lld pixels; the limits are %d megapixels and %d pixels "
            "on a side",
            (long long)w, (long long)h, IMAGE_MAX_PIXELS >> 20, IMAGE_MAX_SIDE);
    out->rgb = try_calloc((size_t)(w * h), 3, "an image", e);
    if (!out->rgb) return (int)e->code;
    out->w = (int)w;
    out->h = (int)h;
    return 0;
}

/* Turns or mirrors the pixels as an EXIF orientation from 2 to 8 requires. */
static int turn(struct image *im, int orientation, struct err *e) {
    const bool swap = orientation >= 5;
    const bool from_right =
        orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
    const bool from_bottom =
        orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
    struct image to = {0};
    TRY(image_new(swap ? im->h : im->w, swap ? im->w : im->h, &to, e));
    for (int y = 0; y < to.h; y++)
        for (int x = 0; x < to.w; x++) {
            int from_x = swap ? y : x, from_y = swap ? x : y;
            if (from_right) from_x = im->w - 1 - from_x;
            if (from_bottom) from_y = im->h - 1 - from_y;
            memcpy(to.rgb + 3 * ((size_t)y * (size_t)to.w + (size_t)x),
                   im->rgb + 3 * ((size_t)from_y * (size_t)im->w + (size_t)from_x), 3);
        }
    image_release(im);
    *im = to;
    return 0;
}

int image_decode(const void *bytes, size_t n, struct image *out, struct err *e) {
    const struct format *f = formats;
    memset(out, 0, sizeof *out);
    if (n > IMAGE_MAX_BYTES)
        return err_set(e, ERR_DATA, "the image has %s; the limit is %s", show_bytes(n).s,
                       show_bytes(IMAGE_MAX_BYTES).s);
    while (f < formats + COUNT_OF(formats) && !has_magic(f, bytes, n)) f++;
    if (f == formats + COUNT_OF(formats))
        return err_set(e, ERR_DATA, "the data are not an image: expected PNG or JPEG");
    if (!f->decode)
        return err_set(e, ERR_DATA, "%s images are not supported: convert the image to PNG or JPEG",
                       f->name);
    TRY(f->decode(bytes, n, out, e));
    const int orientation = image_orientation(bytes, n);
    return orientation > 1 ? turn(out, orientation, e) : 0;
}

void image_release(struct image *im) {
    free(im->rgb);
    memset(im, 0, sizeof *im);
}
