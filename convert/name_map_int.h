// SPDX-License-Identifier: MIT
/* convert/name_map_int.h - mapping of the folder's tensors to the expected ones, shared by
 * name_map.c and name_bind.c. Internal to convert/. */
#ifndef HONE_CONVERT_NAME_MAP_INT_H
#define HONE_CONVERT_NAME_MAP_INT_H

#include <string.h>

#include "convert/conv_plan.h"
#include "base/hash.h"
#include "base/printable.h"

enum { NAME_MAX_LEN = 512 };
/* Formats an untrusted name for a message. */
#define SHOW(name) (show_n((name), strlen(name)).s)
struct mapping {
    struct conv_plan *p;
    struct strmap *by_name; /* normalised name -> index in the folder */
    const char **norm;      /* [n_tensors] */
    uint8_t *claimed;       /* [n_tensors] */
    int64_t n;
    /* Set if an adapter or a multiplier unties the head: the embeddings' name, and the head's
     * possible names. */
    const char *untied, *head;
};

/* Returns the source file of a tensor, for messages. */
const char *map_file(const struct conv_plan *p, const struct st_tensor *t);
/* Returns the index of a source by its normalised name; -1: absent. */
int64_t map_lookup(const struct mapping *m, const char *name);
/* Finds a tensor in any storage format without marking it as used. Returns whether it exists and
 * has the shape want[2]. q->part[0] receives its values even if the shape differs, or NULL if there
 * is no such tensor. */
bool map_probe(const struct mapping *m, const char *name, const int64_t *want, struct dq *q);
/* Returns the values of a tensor, in any storage format, and sets *q to the format; NULL: absent.
 */
const struct st_tensor *map_stored(const struct mapping *m, const char *name, struct dq *q);
/* Binds one expected tensor (name_bind.c); n_src stays 0 if an optional one is absent. */
int map_bind(struct mapping *m, struct item *it, struct err *e);

#endif
