// SPDX-License-Identifier: MIT
/* runtime/vision/decode_png.c - PNG through libpng. Colours are used as stored, without gamma or
 * profiles. 16-bit samples lose their lower byte, and transparent pixels are drawn on white. */
#include <stdlib.h>
#include <string.h>

#include <png.h>

#include "base/mem.h"
#include "runtime/vision/decode.h"

struct reader {
    const uint8_t *at, *end;
    struct image *out;
    png_structp png;
    png_infop info;
    uint8_t *rgba; /* [h][w][4]; NULL: the image has no transparency */
    png_bytep *row;
    char why[128]; /* libpng's message */
};

/* Handles libpng's fatal errors: keeps the message and returns to setjmp(). */
static PNG_NORETURN void fail(png_structp png, png_const_charp why) {
    struct reader *r = png_get_error_ptr(png);
    snprintf(r->why, sizeof r->why, "%s", why);
    png_longjmp(png, 1);
}

/* Handles libpng's warnings. */
static void ignore(png_structp png, png_const_charp why) {
    (void)png;
    (void)why;
}

/* Copies the next n bytes of the file for libpng; fails if there are fewer. */
static void read_bytes(png_structp png, png_bytep to, size_t n) {
    struct reader *r = png_get_io_ptr(png);
    if ((size_t)(r->end - r->at) < n) png_error(png, "the file is truncated");
    memcpy(to, r->at, n);
    r->at += n;
}

/* Requests 8-bit RGB, or RGBA if there is transparency. */
static void set_output(png_structp png, png_infop info) {
    const int type = png_get_color_type(png, info);
    if (png_get_bit_depth(png, info) == 16) png_set_strip_16(png);
    if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
    if (type == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(png);
    if (png_get_valid(png, info, PNG_INFO_tRNS)) png_set_tRNS_to_alpha(png);
    if (!(type & PNG_COLOR_MASK_COLOR)) png_set_gray_to_rgb(png);
    (void)png_set_interlace_handling(png);
    png_read_update_info(png, info);
}

/* Allocates the rows of the output. */
static int make_rows(struct reader *r, struct err *e) {
    const size_t channels = png_get_channels(r->png, r->info), w = (size_t)r->out->w,
                 h = (size_t)r->out->h;
    if (png_get_bit_depth(r->png, r->info) != 8 || (channels != 3 && channels != 4))
        return err_set(e, ERR_DATA, "the PNG image has an unknown pixel type");
    if (channels == 4 && !(r->rgba = try_calloc(w * h, 4, "an image with transparency", e)))
        return (int)e->code;
    if (!(r->row = try_calloc(h, sizeof *r->row, "the rows of an image", e))) return (int)e->code;
    for (size_t y = 0; y < h; y++) r->row[y] = (r->rgba ? r->rgba : r->out->rgb) + y * w * channels;
    return 0;
}

/* Reads the image. Jumps to the caller's setjmp() if libpng finds a fault. */
static int read_image(struct reader *r, struct err *e) {
    png_set_read_fn(r->png, r, read_bytes);
    png_set_user_limits(r->png, IMAGE_MAX_PIXELS, IMAGE_MAX_PIXELS);
    png_set_chunk_malloc_max(r->png, 1 << 23);
    png_read_info(r->png, r->info);
    TRY(image_new(png_get_image_width(r->png, r->info), png_get_image_height(r->png, r->info),
                  r->out, e));
    set_output(r->png, r->info);
    TRY(make_rows(r, e));
    png_read_image(r->png, r->row);
    return 0;
}

/* Runs read_image(). It has no local variables, because a jump would leave them undefined. */
static int read_guarded(struct reader *r, struct err *e) {
    if (setjmp(png_jmpbuf(r->png)))
        return err_set(e, ERR_DATA, "the PNG image is damaged: %s", r->why);
    return read_image(r, e);
}

/* Blends transparent pixels with a white background. */
static void put_on_white(const struct reader *r) {
    const size_t n = (size_t)r->out->w * (size_t)r->out->h;
    for (size_t i = 0; i < n; i++) {
        const unsigned a = r->rgba[4 * i + 3];
        for (size_t c = 0; c < 3; c++)
            r->out->rgb[3 * i + c] =
                (uint8_t)((r->rgba[4 * i + c] * a + 255 * (255 - a) + 127) / 255);
    }
}

int png_decode(const void *bytes, size_t n, struct image *out, struct err *e) {
    struct reader r = {.at = bytes, .end = (const uint8_t *)bytes + n, .out = out};
    int rc = ERR_SYS;
    r.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &r, fail, ignore);
    r.info = r.png ? png_create_info_struct(r.png) : NULL;
    if (r.info)
        rc = read_guarded(&r, e);
    else
        rc = err_set(e, ERR_SYS, "out of memory for a PNG image");
    if (rc == 0 && r.rgba) put_on_white(&r);
    png_destroy_read_struct(&r.png, &r.info, NULL);
    free(r.rgba);
    free(r.row);
    if (rc) image_release(out);
    return rc;
}
