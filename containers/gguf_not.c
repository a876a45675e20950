// SPDX-License-Identifier: MIT
/* containers/gguf_not.c - errors for files that are not GGUF. They name the actual format, and the
 * file or command to use instead. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/printable.h"
#include "base/str.h"
#include "containers/gguf.h"

enum { MAX_NAMES = 4 };

/* Returns whether s is the name of a model's GGUF file, or of its first shard. */
static bool is_model(const char *s) {
    int i = 0, n = 0;
    size_t prefix = 0;
    return str_ends(s, ".gguf") && strncmp(s, "imatrix", 7) != 0 && strncmp(s, "mmproj", 6) != 0 &&
           (!gguf_split_parse(s, &i, &n, &prefix) || i == 0);
}

int gguf_no_folder(const char *dir, struct err *e) {
    struct io_names all;
    struct buf names = {0};
    char *file = NULL;
    bool config = false;
    int n = 0;
    TRY(io_list(&all, dir, e));
    for (int i = 0; i < all.n; i++) {
        config |= strcmp(all.v[i], "config.json") == 0;
        if (!is_model(all.v[i])) continue;
        if (!file) file = io_join(dir, all.v[i]);
        if (n++ < MAX_NAMES) buf_fmt(&names, "%s%.200s", n > 1 ? ", " : "", all.v[i]);
    }
    if (n > MAX_NAMES) buf_fmt(&names, " and %d more", n - MAX_NAMES);
    if (n)
        err_set(e, ERR_USAGE, "%s is a folder with %s: name a file in it, such as %s", dir,
                names.data, file);
    else if (config)
        err_set(e, ERR_USAGE,
                "%s is a model's folder and has no GGUF file: hone convert %s -o model.gguf "
                "makes one",
                dir, dir);
    else
        err_set(e, ERR_USAGE, "%s: there is no GGUF model in this folder", dir);
    buf_release(&names);
    free(file);
    io_names_release(&all);
    return ERR_USAGE;
}

bool gguf_in_folder(const char *dir) {
    struct io_names all = {0};
    struct err ignored;
    bool found = false;
    if (io_is_dir(dir) && io_list(&all, dir, &ignored) == 0)
        for (int i = 0; i < all.n && !found; i++) found = is_model(all.v[i]);
    io_names_release(&all);
    return found;
}

/* Returns the folder of a file; the caller frees it. */
static char *folder_of(const char *path) {
    const size_t n = (size_t)(io_base(path) - path);
    return n ? xstrndup(path, n > 1 ? n - 1 : n) : xstrdup(".");
}

int gguf_name_folder(const char *path, struct err *e) {
    char *dir = folder_of(path), *config = io_join(dir, "config.json");
    const bool part = (str_ends(path, ".json") || str_ends(path, ".safetensors")) &&
                      io_exists(path) && !io_is_dir(path) && io_exists(config);
    const int rc =
        part ? err_set(e, ERR_USAGE, "%s is one file of a model: name its folder, %s", path, dir)
             : 0;
    free(config);
    free(dir);
    return rc;
}

int gguf_no_file(const char *path, const uint8_t *data, uint64_t size, struct err *e) {
    if (size < 4 || memcmp(data, "GGUF", 4) == 0) return 0;
    const bool tensors = size > 10 && memcmp(data + 8, "{\"", 2) == 0 && load_u64(data) < size;
    char *dir = folder_of(path), *config = io_join(dir, "config.json"),
         what[200] = "a safetensors file";
    if (!tensors)
        snprintf(what, sizeof what, "not a GGUF file: it begins with \"%s\" instead of \"GGUF\"",
                 show_n((const char *)data, 4).s);
    if (io_exists(config))
        err_set(e, ERR_DATA, "%s; hone convert %s -o model.gguf makes a GGUF file of its folder",
                what, dir);
    else if (tensors)
        err_set(e, ERR_DATA,
                "%s: name its folder, or make a GGUF file of the folder with hone convert; next to "
                "it there must be config.json and the tokenizer",
                what);
    else
        err_set(e, ERR_DATA, "%s", what);
    free(config);
    free(dir);
    return ERR_DATA;
}
