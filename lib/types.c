// SPDX-License-Identifier: MIT
/* lib/types.c - tensor types: names, sizes, decoding of rows. */
#include <string.h>

#include "base/num.h"
#include "containers/qtype.h"
#include "kernels/kern.h"
#include "lib/call.h"
#include "quantize/enc/enc.h"

static void fill_type(enum qtype id, const struct qtype_info *i, struct hone_type *t) {
    struct kern k;
    kern_init(&k, KERN_REF);
    *t = (struct hone_type){.id = (int)id,
                            .name = i->name,
                            .block_weights = i->block_elems,
                            .block_bytes = i->block_bytes,
                            .can_read = kern_has(&k, id),
                            .can_write = enc_find(id) != NULL};
}

/* Fills *out with the tensor type; HONE_USAGE for ids that do not exist or belong to another
 * program. */
int hone_type_by_id(int id, struct hone_type *out, struct hone_error *e) {
    const struct qtype_info *i = qtype_info(id);
    const char *foreign = qtype_foreign(id);
    struct hone_type t;
    if (!i && foreign) return lib_error(e, HONE_USAGE, "tensor type %d is %s", id, foreign);
    if (!i) return lib_error(e, HONE_USAGE, "tensor type %d does not exist", id);
    fill_type((enum qtype)id, i, &t);
    return lib_give(out, &t, sizeof t, "hone_type", e);
}

int hone_type_find(const char *name, struct hone_type *out, struct hone_error *e) {
    NEED(name, e);
    enum qtype id;
    if (!qtype_parse(name, &id))
        return lib_error(e, HONE_USAGE, "there is no tensor type '%.80s'", name);
    return hone_type_by_id((int)id, out, e);
}

uint64_t hone_type_row_bytes(int id, int64_t n) {
    return qtype_info(id) ? qtype_row_bytes((enum qtype)id, n) : 0;
}

int hone_decode(int type, const void *data, int64_t n_rows, int64_t n_cols, float *out,
                struct hone_error *e) {
    const uint64_t row = hone_type_row_bytes(type, n_cols);
    struct kern k;
    uint64_t all;
    if (!row || n_rows < 0 || !mul_ok(row, (uint64_t)n_rows, &all) || all > PTRDIFF_MAX)
        return lib_error(e, HONE_USAGE, "rows of %lld weights cannot be of tensor type %d",
                         (long long)n_cols, type);
    kern_init(&k, kern_isa_best());
    if (!kern_has(&k, (enum qtype)type))
        return lib_error(e, HONE_USAGE, "type %s cannot be decoded", qtype_name((enum qtype)type));
    for (int64_t i = 0; i < n_rows; i++)
        k.op[type].decode((const uint8_t *)data + (uint64_t)i * row, out + i * n_cols, n_cols);
    return HONE_OK;
}
