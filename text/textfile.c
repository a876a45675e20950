// SPDX-License-Identifier: MIT
/* text/textfile.c - text file detection. Known binary formats are recognised by their first bytes,
 * others by NUL bytes, which text does not contain, and by the fraction of invalid UTF-8. That
 * fraction is high for random bytes and 8-bit encodings of Cyrillic and CJK text, and low for
 * Latin-1. */
#include "text/textfile.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/gz.h"
#include "base/limits.h"
#include "base/log.h"
#include "text/utf8.h"

#define UNPACK "unpack it first"
#define EXTRACT "take the text out of it first"
#define ENCODING "convert it with: iconv -f UTF-16 -t UTF-8"

// clang-format off
static const struct {
    const char *bytes;
    size_t at, n;
    const char *what, *remedy;
} formats[] = {
    {"GGUF", 0, 4, "a GGUF file", "models come first among the arguments, texts after them"},
    {"_logits_", 0, 8, "a file of base logits", "hone eval kld takes it as --base-file"},
    {"hone_kld", 0, 8, "a file of base logits", "hone eval kld takes it as --base-file"},
    {"PK\3\4", 0, 4, "a ZIP archive (or a document in one, or PyTorch's weights)", UNPACK},
    {"\x1f\x8b", 0, 2, "compressed with gzip twice", UNPACK},
    {"\x28\xb5\x2f\xfd", 0, 4, "compressed with zstd", UNPACK},
    {"\xfd" "7zXZ", 0, 5, "compressed with xz", UNPACK},
    {"1AY&SY", 4, 6, "compressed with bzip2", UNPACK},
    {"7z\xbc\xaf", 0, 4, "a 7-Zip archive", UNPACK},
    {"Rar!", 0, 4, "a RAR archive", UNPACK},
    {"ustar", 257, 5, "a tar archive", UNPACK},
    {"%PDF-", 0, 5, "a PDF document", EXTRACT},
    {"{\\rtf", 0, 5, "an RTF document", EXTRACT},
    {"\xd0\xcf\x11\xe0", 0, 4, "an Office document", EXTRACT},
    {"PAR1", 0, 4, "a Parquet file", "write its text column to a .jsonl of {\"text\": ...} first"},
    {"ARROW1", 0, 6, "an Arrow file", "write its text column to a .jsonl of {\"text\": ...} first"},
    {"SQLite format 3", 0, 15, "a database", EXTRACT},
    {"\x89PNG", 0, 4, "a picture", "name a text"},
    {"\xff\xd8\xff", 0, 3, "a picture", "name a text"},
    {"GIF8", 0, 4, "a picture", "name a text"},
    {"\x7f" "ELF", 0, 4, "a program", "name a text"},
    {"\xff\xfe", 0, 2, "text in UTF-16", ENCODING},
    {"\xfe\xff", 0, 2, "text in UTF-16", ENCODING},
};
// clang-format on

/* Sets ERR_DATA about a file that is not text, with the remedy. */
static int refuse_file(const char *path, const char *what, const char *remedy, struct err *e) {
    return err_set(e, ERR_DATA, "%s is %s, not a text: %s", path, what, remedy);
}

/* Returns whether the bytes begin like format i. Since a text may begin with "GGUF", a signature of
 * printable letters counts only if the data also contain NUL bytes, except for the two formats that
 * may have none. */
static bool is_format(size_t i, const char *s, size_t len, bool has_nul) {
    const char *m = formats[i].bytes;
    if (len < formats[i].at + formats[i].n || memcmp(s + formats[i].at, m, formats[i].n) != 0)
        return false;
    for (size_t k = 0; k < formats[i].n; k++)
        if ((unsigned char)m[k] < 0x20 || (unsigned char)m[k] > 0x7e) return true;
    return has_nul || m[0] == '%' || m[0] == '{';
}

/* What is not UTF-8 in a text. */
struct bytes_seen {
    size_t bad, first; /* bytes that are not part of a UTF-8 character, and the first of them */
    bool wide;         /* there are UTF-8 characters beyond ASCII */
};

/* Looks through n bytes. */
static struct bytes_seen look(const char *s, size_t n) {
    struct bytes_seen r = {.first = n};
    for (size_t i = 0; i < n; i++) {
        const size_t to = i + utf8_valid_prefix(s + i, n - i);
        for (; i < to && !r.wide; i++) r.wide = (unsigned char)s[i] >= 0x80;
        i = to;
        if (i < n && !r.bad++) r.first = i;
    }
    return r;
}

/* Returns whether the data begin like safetensors: with an 8-byte header length and a JSON
 * header. */
static bool is_safetensors(const char *s, size_t n) {
    return n > 9 && s[8] == '{' && memcmp(s + 4, "\0\0\0\0", 4) == 0;
}

int text_check(const char *data, size_t len, const char *path, struct err *e) {
    enum { LOOK = 4 << 20, REFUSE = 8, WARN = 1000 }; /* LOOK: bytes checked for invalid UTF-8 */
    if (strcmp(path, "-") == 0) path = "standard input";
    const char *nul = len ? memchr(data, 0, len) : NULL;
    for (size_t i = 0; i < COUNT_OF(formats); i++)
        if (is_format(i, data, len, nul != NULL))
            return refuse_file(path, formats[i].what, formats[i].remedy, e);
    if (is_safetensors(data, len)) return refuse_file(path, "a safetensors file", "name a text", e);
    if (nul)
        return err_set(e, ERR_DATA,
                       "%s is binary, not text: byte %zu is NUL; name a text in UTF-8 (or "
                       "convert UTF-16 with iconv -f UTF-16 -t UTF-8)",
                       path, (size_t)(nul - data));
    size_t n = len < LOOK ? len : LOOK;
    const struct bytes_seen x = look(data, n);
    /* A text in an 8-bit encoding, such as Latin-1, has no UTF-8 characters beyond ASCII. */
    if (x.bad > n / REFUSE || (x.bad > n / WARN && !x.wide))
        return err_set(e, ERR_DATA,
                       "%s is not UTF-8 text: byte %zu is 0x%02x, and %zu of its first %zu bytes "
                       "are invalid; another encoding is converted with: iconv -f NAME -t UTF-8 "
                       "(NAME: LATIN1, for example)",
                       path, x.first, (unsigned char)data[x.first], x.bad, n);
    if (x.bad > n / WARN)
        log_warn("%s: %zu of its first %zu bytes are not UTF-8, from byte %zu on; another encoding "
                 "is converted with: iconv -f NAME -t UTF-8",
                 path, x.bad, n, x.first);
    return 0;
}

int text_read_file(char **out, size_t *len, const char *path, struct err *e) {
    TRY(gz_read_file(out, len, path, limit_of(LIM_TEXT), e));
    int rc = text_check(*out, *len, path, e);
    if (!rc && *len >= 3 && memcmp(*out, "\xef\xbb\xbf", 3) == 0) {
        *len -= 3;
        memmove(*out, *out + 3, *len);
        (*out)[*len] = 0;
    }
    if (rc) {
        free(*out);
        *out = NULL;
    }
    return rc;
}

int text_check_file(const char *path, struct err *e) {
    char *data = NULL;
    size_t len = 0;
    if (strcmp(path, "-") == 0) return 0;
    TRY(text_read_file(&data, &len, path, e));
    free(data);
    return 0;
}
