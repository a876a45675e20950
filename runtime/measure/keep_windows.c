// SPDX-License-Identifier: MIT
/* runtime/measure/keep_windows.c - cache keys of models and windows (base/results_cache.h). */
#include <inttypes.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/mem.h"
#include "runtime/measure/internal.h"
#include "runtime/engine/kv_type.h"

char *eval_keep_model(const struct session *s, const char *hash) {
    const struct session_opts *o = session_get_opts(s);
    const struct session_info at = session_info(s);
    const struct kv_type *kv[] = {o->kv_k, o->kv_v, o->kv_edge_k, o->kv_edge_v};
    struct buf b = {0};
    buf_str(&b, "model ");
    if (hash)
        buf_str(&b, hash);
    else
        gguf_stamp(session_model(s)->gguf, &b);
    buf_fmt(&b,
            ";isa %s;act %d;pass %" PRId64 ";device %s %d %u;host %" PRId64 " %" PRId64 ";kv %s",
            kern_isa_name(o->isa), (int)o->act, o->n_ubatch, at.device, o->device.masked,
            o->device.mask, at.offload_bytes, at.stream_from, qtype_name(o->kv_type));
    for (int i = 0; i < 4; i++) buf_fmt(&b, " %s", kv[i] ? kv[i]->name : "-");
    buf_fmt(&b, " %" PRId64 ";", o->kv_n_edge);
    return buf_take(&b);
}

char *eval_keep_window(const char *kind, const int32_t *ids, int64_t n, int64_t first,
                       int64_t last) {
    char hex[33];
    hash_xxh128_hex(hex, ids, (size_t)n * sizeof *ids);
    return xasprintf("%s %s %" PRId64 " %" PRId64 " %" PRId64, kind, hex, n, first, last);
}
