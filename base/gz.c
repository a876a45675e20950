// SPDX-License-Identifier: MIT
/* base/gz.c - reader for plain and gzip text, using zlib's transparent mode. */
#include "base/gz.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/os.h"

int gz_read_file(char **out, size_t *len, const char *path, uint64_t max_bytes, struct err *e) {
    bool from_stdin = strcmp(path, "-") == 0;
    uint64_t size;
    if (!from_stdin) TRY(io_file_size(path, &size, e));
    int fd = from_stdin ? os_dup(0) : -1;
    gzFile f = !from_stdin ? gzopen(path, "rb") : fd >= 0 ? gzdopen(fd, "rb") : NULL;
    if (from_stdin) path = "standard input";
    if (!f) {
        int rc = err_sys(e, "%s: cannot open", path);
        if (fd >= 0) os_close(fd);
        return rc;
    }
    struct buf b = {0};
    char piece[65536];
    int n, rc = 0;
    while ((n = gzread(f, piece, sizeof piece)) > 0) {
        if (b.len + (size_t)n > max_bytes) {
            rc = err_set(e, ERR_DATA, "%s: holds more than %llu bytes of text; split it", path,
                         (unsigned long long)max_bytes);
            goto out;
        }
        if ((rc = buf_try_reserve(&b, (size_t)n, path, e))) goto out;
        buf_add(&b, piece, (size_t)n);
    }
    int code = 0;
    const char *why = gzerror(f, &code);
    /* Z_BUF_ERROR: the archive is truncated. */
    if (n < 0 || code == Z_BUF_ERROR)
        rc = err_set(e, ERR_DATA, "%s: damaged gzip data (%s); download it again", path, why);
out:
    gzclose(f);
    if (rc) {
        buf_release(&b);
        return rc;
    }
    *len = b.len;
    *out = buf_take(&b);
    return 0;
}
