// SPDX-License-Identifier: MIT
/* tests/fuzz/fuzz_prefix_disk.c - corrupted files of --cache-dir (serve/prefix_disk.c,
 * runtime/engine/seq_file.c): a server starts whatever they contain, and accepts or removes each
 * file.
 *
 * The input changes two files that a server wrote. Bits of the first byte: 1: the model has
 * windows, otherwise recurrent states; 2: the token list gets a matching checksum and name; 4: the
 * sequence file gets a matching checksum; both let the input reach the code after these checks.
 * Then follow the changes, each a byte (1: in the sequence file; 2: offsets count from the end;
 * upper bits: the operation), a two-byte offset, and operands.
 *
 * An accepted file must be written again with the same bytes. */
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/log.h"
#include "serve/prefix_disk.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/model.h"

enum { N_TOK = 20, CTX = 32, KEY = 7, WORK = 1 << 18, HEAD = 32 };
enum { OP_BYTE, OP_U64, OP_CUT, OP_ZERO, OP_REPEAT, OP_SMALL, OPS };

struct kept { /* files that a server wrote, and their folders */
    struct session *s;
    char *base, *dir, *other; /* --cache-dir, the model's folder in it, a folder for comparison */
    char *ids, *seq;
    size_t n_ids, n_seq;
    int32_t tok[N_TOK];
};

static void fail(const char *why) {
    fprintf(stderr, "%s\n", why);
    abort();
}

/* Returns the path of the first entry of dir with this extension; NULL: none. */
static char *entry(const char *dir, const char *ending) {
    struct io_names l = {0};
    struct err e;
    char *path = NULL;
    fuzz_need(io_list(&l, dir, &e), &e);
    for (int i = 0; i < l.n && !path; i++) {
        const size_t n = strlen(l.v[i]), k = strlen(ending);
        if (n > k && strcmp(l.v[i] + n - k, ending) == 0) path = io_join(dir, l.v[i]);
    }
    io_names_release(&l);
    return path;
}

static void clean(const char *dir) {
    struct io_names l = {0};
    struct err e;
    fuzz_need(io_list(&l, dir, &e), &e);
    for (int i = 0; i < l.n; i++) {
        char *path = io_join(dir, l.v[i]);
        unlink(path);
        free(path);
    }
    io_names_release(&l);
}

static void take(const char *path, char **text, size_t *n) {
    struct err e;
    fuzz_need(io_read_file(text, n, path, WORK, &e), &e);
}

static void start(struct kept *k, const char *src) {
    struct err e = {0};
    struct prefix_disk *f = NULL;
    struct seq *q = NULL;
    struct session_row row[N_TOK];
    const struct session_opts so = {
        .isa = kern_isa_best(), .n_ctx = CTX, .guests = true, .whole = true};
    fuzz_need(session_new(&k->s, fuzz_model(src), &so, &e), &e);
    k->base = fuzz_folder();
    fuzz_need(prefix_disk_open(&f, k->s, k->base, 1 << 20, &e), &e);
    fuzz_need(session_new_seq(k->s, 0, &q, &e), &e);
    for (int i = 0; i < N_TOK; i++) {
        k->tok[i] = 3 * i + 5;
        row[i] = (struct session_row){.id = k->tok[i], .seq = q};
    }
    fuzz_need(session_pass(k->s, &(struct session_pass){.row = row, .n = N_TOK}, &e), &e);
    fuzz_need(prefix_disk_save(f, k->tok, N_TOK, KEY, q, &e), &e);
    k->dir = entry(k->base, "");
    k->other = xasprintf("%s/again", k->base);
    char *ids = entry(k->dir, ".ids"), *seq = entry(k->dir, ".seq");
    take(ids, &k->ids, &k->n_ids);
    take(seq, &k->seq, &k->n_seq);
    free(ids);
    free(seq);
    seq_free(q);
    prefix_disk_free(f);
}

struct work { /* a file that is being changed */
    uint8_t *v;
    size_t n;
};

/* Makes one change; returns the number of input bytes that describe it. */
static size_t change(struct work file[2], const uint8_t *p, size_t n) {
    struct work *w = &file[p[0] & 1];
    const size_t place = load_u16(p + 1);
    size_t at = w->n ? place % w->n : 0;
    if (p[0] & 2 && w->n) at = w->n - 1 - at;
    switch ((p[0] >> 2) % OPS) {
    case OP_BYTE:
        if (n < 4 || !w->n) return n;
        w->v[at] ^= p[3];
        return 4;
    case OP_U64:
        if (n < 11 || at + 8 > w->n) return n;
        memcpy(w->v + at, p + 3, 8);
        return 11;
    case OP_CUT:
        w->n = at;
        return 3;
    case OP_ZERO:
        if (n < 4) return n;
        for (size_t i = at; i < w->n && i < at + p[3]; i++) w->v[i] = 0;
        return 4;
    case OP_REPEAT: /* repeats the last bytes */
        if (w->n - at + w->n > WORK) return n;
        memmove(w->v + w->n, w->v + at, w->n - at);
        w->n += w->n - at;
        return 3;
    default: /* replaces a count in a header by a different small one */
        at -= at % 8;
        if (n < 4 || at + 8 > w->n) return n;
        store_u64(w->v + at, p[3]);
        return 4;
    }
}

/* Gives the token list a matching checksum; name: the entry's resulting name. */
static void mend(struct work *ids, char name[33]) {
    const uint64_t n = ids->n >= HEAD + 8 ? (ids->n - HEAD - 8) / 4 : 0;
    struct xxh128 *x = xxh128_new();
    if (ids->n >= HEAD + 8) store_u64(ids->v + ids->n - 8, hash_u64(ids->v, ids->n - 8));
    xxh128_add(x, ids->v + 8, ids->n >= 16 ? 8 : 0);
    xxh128_add(x, ids->v + HEAD, ids->n >= HEAD ? 4 * n : 0);
    xxh128_hex(x, name);
    xxh128_free(x);
}

static void put(const struct kept *k, const char *name, const char *ending, const struct work *w) {
    char *path = xasprintf("%s/%s%s", k->dir, name, ending);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(w->v, 1, w->n, f) != w->n || fclose(f)) fail("cannot write");
    free(path);
}

/* Opens a server's on-disk cache on the files, and uses the entries it finds. */
static void use(const struct kept *k, const struct work file[2], const char *name) {
    struct err e = {0};
    struct prefix_disk *f = NULL;
    struct seq *q = NULL;
    int32_t ids[CTX + 2] = {0};
    fuzz_need(prefix_disk_open(&f, k->s, k->base, 1 << 20, &e), &e);
    const struct prefix_disk_counts was = prefix_disk_counts(f);
    char *path = xasprintf("%s/%s.seq", k->dir, name);
    if (was.n + was.n_refused < 1) fail("the entry is neither there nor refused");
    if (was.n_refused && access(path, F_OK) == 0) fail("a refused file was not removed");
    const uint64_t n = file[0].n >= HEAD + 8 ? (file[0].n - HEAD - 8) / 4 : 0;
    const uint64_t key = file[0].n >= 16 ? load_u64(file[0].v + 8) : 0;
    for (uint64_t i = 0; i < n && i < CTX; i++)
        ids[i] = (int32_t)load_u32(file[0].v + HEAD + 4 * i);
    const struct prefix_disk_found at = prefix_disk_match(f, ids, (int64_t)n + 1, key, 0);
    if (was.n && (at.n < 1 || at.n != (int64_t)n || at.use != at.n)) fail("it is not found");
    const int rc = at.n ? prefix_disk_load(f, &at, key, &q, &e) : 0;
    if (rc == 0 && at.n) {
        if (!q || seq_pos(q) != (int64_t)n) fail("it has another length");
        char *again = NULL;
        size_t len = 0;
        fuzz_need(session_save_seq(k->s, q, k->other, true, &e), &e);
        take(k->other, &again, &len);
        if (len != file[1].n || memcmp(again, file[1].v, len) != 0) fail("it is written otherwise");
        free(again);
    } else if (at.n && (q || (rc == ERR_DATA && access(path, F_OK) == 0)))
        fail("a damaged file is still there");
    free(path);
    seq_free(q);
    prefix_disk_free(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct kept kept[2];
    static uint8_t room[2][WORK];
    static const char *const src[] = {"tests/golden/models/qwen35moe",
                                      "tests/golden/models/gemma4moe"};
    char name[33];
    if (!size || size > 4096) return 0;
    struct kept *k = &kept[data[0] & 1];
    log_set_level(LOG_ERROR); /* suppresses warnings about damage */
    if (!k->s) start(k, src[data[0] & 1]);
    struct work file[2] = {{room[0], k->n_ids}, {room[1], k->n_seq}};
    memcpy(room[0], k->ids, k->n_ids);
    memcpy(room[1], k->seq, k->n_seq);
    mend(&file[0], name); /* name of the unchanged file */
    for (size_t at = 1; at + 3 <= size;) at += change(file, data + at, size - at);
    if (data[0] & 4 && file[0].n >= HEAD && file[1].n >= 8)
        memcpy(file[0].v + 24, file[1].v + file[1].n - 8, 8);
    if (data[0] & 2) mend(&file[0], name);
    clean(k->dir);
    put(k, name, ".seq", &file[1]);
    put(k, name, ".ids", &file[0]);
    use(k, file, name);
    return 0;
}
