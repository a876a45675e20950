// SPDX-License-Identifier: MIT
/* runtime/vision/exif.c - the orientation of a photo: tag 0x0112 of EXIF data or, if that is
 * missing, XMP's tiff:Orientation, in JPEG segments or PNG chunks. Damaged metadata count as
 * missing. */
#include <string.h>

#include "runtime/vision/decode.h"

enum { TAG_ORIENTATION = 0x112, TYPE_SHORT = 3, TYPE_LONG = 4 };

/* Returns the unsigned number of n bytes at p; big: most significant byte first. */
static uint32_t number(const uint8_t *p, int n, bool big) {
    uint32_t v = 0;
    for (int i = 0; i < n; i++) v = v << 8 | p[big ? i : n - 1 - i];
    return v;
}

/* Finds the orientation in a TIFF structure; 0: none. */
static int from_tiff(const uint8_t *p, size_t n) {
    if (n < 8 || (memcmp(p, "II*\0", 4) != 0 && memcmp(p, "MM\0*", 4) != 0)) return 0;
    const bool big = *p == 'M';
    const size_t at = number(p + 4, 4, big);
    if (at > n || n - at < 2) return 0;
    const size_t entries = number(p + at, 2, big), room = (n - at - 2) / 12;
    for (size_t i = 0; i < entries && i < room; i++) {
        const uint8_t *entry = p + at + 2 + 12 * i;
        const uint32_t type = number(entry + 2, 2, big);
        if (number(entry, 2, big) != TAG_ORIENTATION) continue;
        if (type != TYPE_SHORT && type != TYPE_LONG) return 0;
        return (int)(number(entry + 8, type == TYPE_SHORT ? 2 : 4, big) & 0xff);
    }
    return 0;
}

/* Finds the orientation in XMP; 0: none. */
static int from_xmp(const uint8_t *p, size_t n) {
    static const char name[] = "tiff:Orientation";
    const size_t len = sizeof name - 1;
    const uint8_t *end = p + n;
    while ((p = memmem(p, (size_t)(end - p), name, len)) != NULL) {
        const size_t rest = (size_t)(end - p) - len;
        p += len;
        const size_t skip = rest >= 2 && p[0] == '=' && p[1] == '"' ? 2 : rest && p[0] == '>';
        if (skip && rest > skip && p[skip] >= '0' && p[skip] <= '9') return p[skip] - '0';
    }
    return 0;
}

struct found {
    int exif, xmp; /* 0: none */
};

/* Sets *out to what `read` finds after `head`, if the data begin so and *out is still 0. */
static void look_at(const uint8_t *p, size_t n, const char *head, size_t head_n,
                    int (*read)(const uint8_t *, size_t), int *out) {
    if (!*out && n > head_n && memcmp(p, head, head_n) == 0) *out = read(p + head_n, n - head_n);
}

/* Finds the orientations in a JPEG file's Exif and XMP segments. */
static void search_jpeg(const uint8_t *p, size_t n, struct found *f) {
    static const char exif[] = "Exif\0", xmp[] = "http://ns.adobe.com/xap/1.0/";
    size_t at = 2;
    while (at + 4 <= n && p[at] == 0xff) {
        const uint8_t marker = p[at + 1];
        if (marker == 0xff) {
            at++;
            continue;
        }
        const size_t len = number(p + at + 2, 2, true);
        if (marker == 0xda || len < 2 || len > n - at - 2) return;
        if (marker == 0xe1) {
            look_at(p + at + 4, len - 2, exif, sizeof exif, from_tiff, &f->exif);
            look_at(p + at + 4, len - 2, xmp, sizeof xmp, from_xmp, &f->xmp);
        }
        at += 2 + len;
    }
}

/* Finds the orientations in a PNG file's eXIf and iTXt chunks. */
static void search_png(const uint8_t *p, size_t n, struct found *f) {
    static const char xmp[] = "XML:com.adobe.xmp";
    size_t at = 8;
    while (n - at >= 12) {
        const size_t len = number(p + at, 4, true);
        const uint8_t *type = p + at + 4, *data = p + at + 8;
        if (len > n - at - 12) return;
        if (memcmp(type, "eXIf", 4) == 0 && !f->exif) f->exif = from_tiff(data, len);
        if (memcmp(type, "iTXt", 4) == 0) look_at(data, len, xmp, sizeof xmp, from_xmp, &f->xmp);
        at += 12 + len;
    }
}

int image_orientation(const uint8_t *bytes, size_t n) {
    struct found f = {0, 0};
    if (n < 12) return 1;
    if (*bytes == 0xff)
        search_jpeg(bytes, n, &f);
    else
        search_png(bytes, n, &f);
    const int o = f.exif ? f.exif : f.xmp;
    return o >= 1 && o <= 8 ? o : 1;
}
