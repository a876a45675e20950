// SPDX-License-Identifier: MIT
/* tok/sp_model.c - reader of SentencePiece's tokenizer.model.
 *
 * The file is a protocol buffer: fields with a number and a wire type (0 varint, 1 eight bytes, 2
 * length-delimited, 5 four bytes). The reader uses the pieces (1: text 1, score 2, type 3) and the
 * settings of the trainer (2) and the normalizer (3), and skips other fields. */
#include "tok/sp_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "tok/tok.h"

enum { MAX_PIECES = 1 << 24, MAX_PIECE = 65535 };
enum wire { WIRE_VARINT = 0, WIRE_8 = 1, WIRE_BYTES = 2, WIRE_4 = 5 };

struct in {
    const unsigned char *p, *end;
};
struct field {
    uint64_t number;
    enum wire wire;
    uint64_t v;     /* WIRE_VARINT, WIRE_4 */
    struct in body; /* WIRE_BYTES */
};

/* Reads a protobuf varint. False: truncated or longer than 64 bits. */
static bool read_varint(struct in *in, uint64_t *v) {
    *v = 0;
    for (unsigned shift = 0; shift < 64 && in->p < in->end; shift += 7) {
        unsigned char c = *in->p++;
        *v |= (uint64_t)(c & 0x7f) << shift;
        if (!(c & 0x80)) return true;
    }
    return false;
}

/* Reads the next field. Returns false at the end and, with *broken set, if the data are
 * malformed. */
static bool next_field(struct in *in, struct field *f, bool *broken) {
    uint64_t tag, n;
    if (in->p == in->end) return false;
    *broken = true;
    if (!read_varint(in, &tag) || tag >> 3 == 0) return false;
    f->number = tag >> 3;
    f->wire = (enum wire)(tag & 7);
    f->v = 0;
    switch (tag & 7) {
    case WIRE_VARINT:
        if (!read_varint(in, &f->v)) return false;
        break;
    case WIRE_BYTES:
        if (!read_varint(in, &n) || n > (uint64_t)(in->end - in->p)) return false;
        f->body = (struct in){in->p, in->p + n};
        in->p += n;
        break;
    case WIRE_4:
    case WIRE_8:
        n = (tag & 7) == WIRE_4 ? 4 : 8;
        if ((uint64_t)(in->end - in->p) < n) return false;
        for (unsigned i = 0; i < 4; i++) f->v |= (uint64_t)in->p[i] << 8 * i;
        in->p += n;
        break;
    default:
        return false;
    }
    *broken = false;
    return true;
}

static bool is_field(const struct field *f, uint64_t number, enum wire wire) {
    return f->number == number && f->wire == wire;
}

/* Reads one vocabulary piece. False: invalid, empty, or its score is not finite. */
static bool read_piece(struct in in, struct sp_piece *out) {
    struct field f;
    bool broken = false;
    *out = (struct sp_piece){.text = "", .type = TT_NORMAL};
    while (next_field(&in, &f, &broken)) {
        if (is_field(&f, 1, WIRE_BYTES)) {
            if (f.body.end - f.body.p > MAX_PIECE) return false;
            out->text = (const char *)f.body.p;
            out->len = (uint32_t)(f.body.end - f.body.p);
        } else if (is_field(&f, 2, WIRE_4)) {
            uint32_t bits = (uint32_t)f.v;
            memcpy(&out->score, &bits, sizeof bits);
        } else if (is_field(&f, 3, WIRE_VARINT)) {
            if (f.v < TT_NORMAL || f.v > TT_BYTE) return false;
            out->type = (uint8_t)f.v;
        }
    }
    return !broken && out->len > 0 && isfinite(out->score);
}

/* Converts a varint to an id: int32 values are stored as sign-extended 64-bit varints. -1: out of
 * range. */
static int64_t id_of(uint64_t v) {
    return v <= INT32_MAX ? (int64_t)v : -1;
}

/* Reads the trainer's settings. *kind: the model type, unigram or BPE. False: the message is
 * malformed. */
static bool read_trainer(struct in in, struct sp_model *m, uint64_t *kind) {
    struct field f;
    bool broken = false;
    while (next_field(&in, &f, &broken)) {
        if (f.wire != WIRE_VARINT) continue;
        switch (f.number) {
        case 3:
            *kind = f.v;
            break;
        case 24:
            m->space_behind = f.v != 0;
            break;
        case 35:
            m->byte_fallback = f.v != 0;
            break;
        case 40:
            m->unk = id_of(f.v);
            break;
        case 41:
            m->bos = id_of(f.v);
            break;
        case 42:
            m->eos = id_of(f.v);
            break;
        case 43:
            m->pad = id_of(f.v);
            break;
        default:
            break;
        }
    }
    return !broken;
}

/* Reads the normalizer's rules. False: the message is malformed. */
static bool read_normalizer(struct in in, struct sp_model *m) {
    struct field f;
    bool broken = false;
    while (next_field(&in, &f, &broken)) {
        if (is_field(&f, 2, WIRE_BYTES)) {
            m->charsmap_len = (size_t)(f.body.end - f.body.p);
            m->charsmap = m->charsmap_len ? (const char *)f.body.p : NULL;
        } else if (is_field(&f, 3, WIRE_VARINT))
            m->add_space = f.v != 0;
        else if (is_field(&f, 4, WIRE_VARINT))
            m->squeeze_spaces = f.v != 0;
        else if (is_field(&f, 5, WIRE_VARINT))
            m->escape_spaces = f.v != 0;
    }
    return !broken;
}

/* Sets ERR_DATA about tokenizer.model and returns it. */
static int bad_model(struct err *e, const char *what) {
    return err_set(e, ERR_DATA, "tokenizer.model: %s", what);
}

/* Reads pieces, trainer and normalizer of the file. *kind: the model type. */
static int read_all(struct sp_model *m, struct in in, uint64_t *kind, struct err *e) {
    struct field f;
    bool broken = false;
    int64_t cap = 0;
    while (next_field(&in, &f, &broken)) {
        if (is_field(&f, 1, WIRE_BYTES)) {
            if (m->n == MAX_PIECES) return bad_model(e, "too many pieces");
            if (m->n == cap) {
                cap = cap ? 2 * cap : 1024;
                m->piece = xreallocarray(m->piece, (size_t)cap, sizeof *m->piece);
            }
            if (!read_piece(f.body, &m->piece[m->n]))
                return err_set(e, ERR_DATA,
                               "tokenizer.model: piece %lld has no text, no finite score or no "
                               "proper type",
                               (long long)m->n);
            m->n++;
        } else if (is_field(&f, 2, WIRE_BYTES)) {
            if (!read_trainer(f.body, m, kind))
                return bad_model(e, "the trainer's settings are damaged");
        } else if (is_field(&f, 3, WIRE_BYTES)) {
            if (!read_normalizer(f.body, m))
                return bad_model(e, "the normalizer's settings are damaged");
        }
    }
    if (broken)
        return err_set(e, ERR_DATA, "tokenizer.model: the file is damaged, or not SentencePiece's");
    return m->n ? 0 : bad_model(e, "there are no pieces");
}

/* Returns id if it is the id of a piece, otherwise -1. */
static int64_t in_range(const struct sp_model *m, int64_t id) {
    return id >= 0 && id < m->n ? id : -1;
}

bool sp_model_like(const char *data, size_t len) {
    struct in in = {(const unsigned char *)data, (const unsigned char *)data + len};
    struct field f;
    struct sp_piece piece;
    bool broken = false;
    return next_field(&in, &f, &broken) && is_field(&f, 1, WIRE_BYTES) &&
           read_piece(f.body, &piece);
}

int sp_model_read(struct sp_model *out, const char *data, size_t len, struct err *e) {
    struct sp_model m = {.unk = 0, .bos = 1, .eos = 2, .pad = -1}; /* defaults of the format */
    m.add_space = m.squeeze_spaces = m.escape_spaces = true;
    uint64_t kind = SP_UNIGRAM;
    struct in in = {(const unsigned char *)data, (const unsigned char *)data + len};
    int rc = read_all(&m, in, &kind, e);
    if (!rc && kind != SP_UNIGRAM && kind != SP_BPE)
        rc = bad_model(e, "its pieces are whole words or characters, which is not supported");
    if (!rc && !m.escape_spaces)
        rc = bad_model(
            e, "spaces are not written as U+2581 (escape_whitespaces), which is not supported");
    m.kind = (enum sp_kind)kind;
    m.unk = in_range(&m, m.unk);
    m.bos = in_range(&m, m.bos);
    m.eos = in_range(&m, m.eos);
    m.pad = in_range(&m, m.pad);
    if (rc)
        sp_model_release(&m);
    else
        *out = m;
    return rc;
}

void sp_model_release(struct sp_model *m) {
    free(m->piece);
    memset(m, 0, sizeof *m);
}
