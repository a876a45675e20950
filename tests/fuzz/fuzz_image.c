// SPDX-License-Identifier: MIT
/* tests/fuzz/fuzz_image.c - the bytes of an image: decoded, prepared for a projector chosen by the
 * last byte, and written as a prompt. Mutated PNG files get correct checksums, which libpng
 * requires. */
#include <string.h>
#include <zlib.h>

#include "runtime/vision/image.h"
#include "tests/fuzz/fuzz.h"

static uint32_t big_endian(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void mend_checksums(uint8_t *p, size_t n) {
    for (size_t at = 8, len; n >= 20 && at <= n - 12; at += 12 + len) {
        len = big_endian(p + at);
        if (len > n - at - 12) return;
        const uint32_t sum = (uint32_t)crc32(0, p + at + 4, (unsigned)len + 4);
        for (size_t i = 0; i < 4; i++) p[at + 8 + len + i] = (uint8_t)(sum >> (24 - 8 * i));
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed) {
    size = LLVMFuzzerMutate(data, size, max);
    if (seed % 8 && size > 8 && memcmp(data, "\x89PNG\r\n\x1a\n", 8) == 0)
        mend_checksums(data, size);
    return size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct vision_params p = {.patch = 4, .merge = 2, .image_size = 32, .longest = 64};
    struct image im;
    struct pixels px;
    struct image_prompt pr;
    struct err e;
    p.min_tiles = 1;
    p.max_tiles = 6;
    p.min_pixels = 256;
    p.max_pixels = 4096;
    for (int c = 0; c < 3; c++) p.std[c] = 1;
    p.type = size ? (enum projector)(data[size - 1] % PROJ_COUNT) : PROJ_QWEN2VL;
    /* a valid file of a few bytes may describe an image of 64 megapixels, which takes a second */
    if (image_decode(data, size, &im, &e) == 0 && im.w * im.h < 1 << 20 &&
        image_prepare(&p, &im, &px, &e) == 0) {
        image_prompt(&p, &px, 1, &pr);
        image_prompt_release(&pr);
        pixels_release(&px);
    }
    image_release(&im);
    return 0;
}
