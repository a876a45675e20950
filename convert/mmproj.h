// SPDX-License-Identifier: MIT
/* convert/mmproj.h - vision tower conversion: from a Hugging Face folder to a projector file
 * (mmproj), a separate GGUF that engines load together with the language model
 * (runtime/vision/tower.h). Peak memory: one row of a tensor, or one patch kernel. */
#ifndef HONE_CONVERT_MMPROJ_H
#define HONE_CONVERT_MMPROJ_H

#include "base/buf.h"
#include "containers/gguf.h"
#include "containers/hfdir.h"
#include "convert/convert.h"
#include "models/arch.h"

struct mmproj_report {
    char projector[32], type[16];
    int64_t n_tensors, n_params, n_quantized; /* n_quantized: in quantized types */
    uint64_t size_bytes;
};
/* Writes the projector file `out`; of o it uses src, type, name, overwrite, dry_run and plan, as
 * convert_run does. ERR_DATA: no vision tower, or one with missing or unknown tensors. */
int mmproj_run(const struct convert_opts *o, const char *out, struct mmproj_report *r,
               struct err *e);
/* Opens the projector file that mmproj_run would write, without its data: only its keys and the
 * list of its tensors may be read. `header` is its memory, released by the caller after gguf_close.
 */
int mmproj_keys(const struct convert_opts *o, struct gguf **out, struct buf *header, struct err *e);
/* Returns the size of the BF16 projector file of a model of which only config.json is known,
 * without its header; 0: it has no vision tower, or one that cannot be converted. */
uint64_t mmproj_config_bytes(const struct arch *a, struct hfdir *dir);
/* Returns whether the vision tower of an architecture (given by its GGUF name) can be converted. */
bool mmproj_known(const char *arch);

enum mmproj_tower { TOWER_NONE, TOWER_KNOWN, TOWER_UNKNOWN };
/* A folder's vision tower, as determined from headers alone. */
struct mmproj_look {
    enum mmproj_tower tower;
    int64_t n_tensors; /* tensors of the tower in the folder */
    char why[512];     /* TOWER_UNKNOWN: what prevents the conversion; n_tensors may be 0 */
    struct mmproj_report file[2]; /* files worth writing: floats, then Q8_0 */
    int n_files;
};
/* Examines the vision tower of the folder src. `type` and `name` are as in struct convert_opts.
 * Type "auto" gives a file of floats (F16 if the tower is F16, otherwise BF16), and a Q8_0 file if
 * at least half of the weights have rows that fit Q8_0 blocks. A folder that convert_run refuses
 * with ERR_USAGE or ERR_DATA is reported as having no tower; returns other errors. */
int mmproj_look(const char *src, const char *type, const char *name, struct mmproj_look *l,
                struct err *e);

#endif
