// SPDX-License-Identifier: MIT
/* tests/fuzz/fuzz_lines.c - record files left by killed servers: an appended line must be a line of
 * its own, and earlier contents may change only at the end of the last line. */
#define FUZZ_FILE
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/io.h"
#include "base/lines.h"
#include "base/log.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char line[] = "{\"messages\": []}";
    char path[64], *text = NULL;
    struct lines *l;
    struct err e;
    struct stat st;
    size_t len = 0;
    int fd = fuzz_file(data, size, path);
    if (fd < 0) return 0;
    log_set_level(LOG_ERROR);
    (void)fchmod(fd, 0644);
    const bool ours = !size || data[0] == '{' || data[0] == '\n';
    if ((lines_open(&l, path, "--record", true, &e) == 0) != ours) abort();
    if (!ours) { /* another program's file is unchanged */
        if (fstat(fd, &st) || (st.st_mode & 0777) != 0644 || st.st_size != (off_t)size) abort();
        close(fd);
        return 0;
    }
    if (!lines_put(l, line) || !lines_put(l, line)) abort();
    lines_close(l);
    if (fstat(fd, &st) || (st.st_mode & 0777) != 0600) abort();
    if (io_read_file(&text, &len, path, UINT32_MAX, &e)) abort();
    const size_t two = 2 * sizeof line, cut = size && data[size - 1] != '\n';
    if (len != size + cut + two || (size && memcmp(text, data, size) != 0)) abort();
    if (cut && text[size] != '\n') abort();
    for (size_t i = 0; i < 2; i++)
        if (memcmp(text + size + cut + i * sizeof line, "{\"messages\": []}\n", sizeof line) != 0)
            abort();
    free(text);
    close(fd);
    return 0;
}
