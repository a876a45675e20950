// SPDX-License-Identifier: MIT
/* tests/unit/tmpdir.h - a scratch folder for a test program, and a function that writes small files
 * into it. */
#ifndef HONE_TESTS_TMPDIR_H
#define HONE_TESTS_TMPDIR_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char tmp_dir[64];

static inline void tmp_make(void) {
    strcpy(tmp_dir, "/tmp/hone-test-XXXXXX");
    if (!mkdtemp(tmp_dir)) {
        perror("mkdtemp");
        exit(1);
    }
}
static inline void tmp_remove(void) {
    char cmd[96];
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", tmp_dir);
    if (system(cmd)) perror("rm");
}
/* Returns the path of a file in the folder, in one of a few static buffers used in turn. */
static inline const char *tmp_path(const char *name) {
    static char buf[8][256];
    static int i;
    char *p = buf[i++ % 8];
    snprintf(p, sizeof buf[0], "%s/%s", tmp_dir, name);
    return p;
}
static inline const char *tmp_write(const char *name, const void *data, size_t n) {
    const char *path = tmp_path(name);
    FILE *f = fopen(path, "wb");
    if (!f || (n && fwrite(data, 1, n, f) != n) || fclose(f)) {
        perror(path);
        exit(1);
    }
    return path;
}

#endif
