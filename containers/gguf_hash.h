// SPDX-License-Identifier: MIT
/* containers/gguf_hash.h - hash of a GGUF file's weights that ignores its metadata. */
#ifndef HONE_CONTAINERS_GGUF_HASH_H
#define HONE_CONTAINERS_GGUF_HASH_H

#include "containers/gguf.h"

/* Like gguf_sample_hash, but of the tensors only: names, types, shapes and the same samples. It
 * stays the same when metadata change. */
void gguf_weights_hash(const struct gguf *g, char hex[33]);

#endif
