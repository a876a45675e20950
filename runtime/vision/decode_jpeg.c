// SPDX-License-Identifier: MIT
/* runtime/vision/decode_jpeg.c - JPEG through libjpeg-turbo: grey, YCbCr, RGB, and CMYK in Adobe's
 * convention (stored inverted), converted as Pillow does. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>

#include "base/mem.h"
#include "runtime/vision/decode.h"

enum { MAX_SCANS = 200 }; /* a progressive file may hold scans that take seconds each */
struct reader {
    struct jpeg_decompress_struct d;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf fault;
    const uint8_t *bytes;
    size_t n;
    struct image *out;
    uint8_t *cmyk; /* a row */
    char why[JMSG_LENGTH_MAX];
};

/* Handles libjpeg's fatal errors: keeps the message and returns to setjmp(). */
static void fail(j_common_ptr d) {
    struct reader *r = d->client_data;
    d->err->format_message(d, r->why);
    longjmp(r->fault, 1);
}

/* Handles a warning (level -1). Faults that libjpeg corrects are accepted, except for missing data
 * at the end. */
static void notice(j_common_ptr d, int level) {
    if (level < 0 && d->err->msg_code == JWRN_JPEG_EOF) fail(d);
}

/* Handles libjpeg's progress: stops files with too many scans. */
static void count_scans(j_common_ptr d) {
    struct reader *r = d->client_data;
    if (r->d.input_scan_number <= MAX_SCANS) return;
    snprintf(r->why, sizeof r->why, "it has more than %d scans", MAX_SCANS);
    longjmp(r->fault, 1);
}

/* Converts a row of inverted CMYK. */
static void from_cmyk(const uint8_t *cmyk, uint8_t *rgb, int w) {
    for (int i = 0; i < w; i++, cmyk += 4, rgb += 3)
        for (int c = 0; c < 3; c++) {
            const unsigned ink = (255u - cmyk[c]) * cmyk[3];
            rgb[c] = (uint8_t)(cmyk[3] - (ink + 127) / 255);
        }
}

/* Reads all rows as RGB; CMYK is converted. */
static int read_rows(struct reader *r, struct err *e) {
    struct jpeg_decompress_struct *d = &r->d;
    const size_t w = d->output_width;
    if (d->output_components == 4 && !(r->cmyk = try_calloc(w, 4, "a row of an image", e)))
        return (int)e->code;
    while (d->output_scanline < d->output_height) {
        uint8_t *rgb = r->out->rgb + 3 * w * d->output_scanline;
        JSAMPROW row = r->cmyk ? r->cmyk : rgb;
        if (jpeg_read_scanlines(d, &row, 1) != 1) ERREXIT(d, JERR_INPUT_EOF);
        if (r->cmyk) from_cmyk(r->cmyk, rgb, (int)w);
    }
    return 0;
}

/* Reads the image. Jumps to r->fault if libjpeg finds a fault. */
static int read_image(struct reader *r, struct err *e) {
    jpeg_create_decompress(&r->d);
    jpeg_mem_src(&r->d, r->bytes, (unsigned long)r->n); /* IMAGE_MAX_BYTES at most */
    jpeg_read_header(&r->d, TRUE);
    TRY(image_new(r->d.image_width, r->d.image_height, r->out, e));
    r->d.out_color_space = r->d.num_components == 4 ? JCS_CMYK : JCS_RGB;
    r->d.progress = &r->progress;
    jpeg_start_decompress(&r->d);
    return read_rows(r, e);
}

/* Runs read_image(). It has no local variables, because a jump would leave them undefined. */
static int read_guarded(struct reader *r, struct err *e) {
    if (setjmp(r->fault)) return err_set(e, ERR_DATA, "the JPEG image is damaged: %s", r->why);
    return read_image(r, e);
}

int jpeg_decode(const void *bytes, size_t n, struct image *out, struct err *e) {
    struct reader *r = xcalloc(1, sizeof *r);
    r->bytes = bytes;
    r->n = n;
    r->out = out;
    r->d.err = jpeg_std_error(&r->errors);
    r->d.client_data = r;
    r->errors.error_exit = fail;
    r->errors.emit_message = notice;
    r->progress.progress_monitor = count_scans;
    const int rc = read_guarded(r, e);
    jpeg_destroy_decompress(&r->d);
    free(r->cmyk);
    free(r);
    if (rc) image_release(out);
    return rc;
}
