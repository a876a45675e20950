// SPDX-License-Identifier: MIT
/* convert/consume.h - `hone convert --consume`: deletes each shard of the folder once everything
 * made from it is on disk, so that the output and the source never need their full size together.
 *
 * Of a deleted shard, its header and small tensors stay in SHARD.consumed until the output is
 * complete. OUT.gguf.part.state records how much of OUT.gguf.part is on disk, with a hash of each
 * tensor. With both, the same command resumes after an interruption and writes the same bytes. A
 * shard with tensors that the output leaves out is kept. A note in the folder outlives the job, so
 * that the command can be repeated. Internal to convert/. */
#ifndef HONE_CONVERT_CONSUME_H
#define HONE_CONVERT_CONSUME_H

#include "convert/conv_plan.h"

struct consume {
    const struct conv_plan *p;
    const struct convert_opts *o;
    struct gguf_w *w;
    int n_files;
    int64_t *last; /* [n_files] last item that reads the file; -1: none; n_items: keep the file */
    bool *gone;    /* [n_files] deleted by this or an earlier run */
    char *state;   /* path of the record */
    char key[33];  /* hash of the output's header */
    char (*hash)[33]; /* [n_items] of the tensors in the output */
    int64_t n_hashed;
    uint64_t extra; /* most bytes on disk at a time, less the bytes there at the start */
};
/* Rejects options that --consume cannot honour, and shards that are links without o->links. */
int consume_check(const struct convert_opts *o, struct err *e);
/* Finds when each shard can be deleted, and how much space the job needs. */
int consume_open(struct consume *c, const struct conv_plan *p, const struct convert_opts *o,
                 struct gguf_w *w, struct err *e);
/* Begins or resumes the output: the first *n_done items are in it. *n_done == -1: an earlier run
 * completed the output; only consume_end is left. */
int consume_begin(struct consume *c, int64_t *n_done, struct err *e);
/* Call after item i is written: deletes the shards that no later item reads. */
int consume_item(struct consume *c, int64_t i, struct err *e);
/* Call when the output has its name: deletes the remaining shards and the SHARD.consumed files. */
int consume_end(struct consume *c, struct err *e);
/* Deletes a file, which may be missing; if it is a link, also the file that it leads to. */
int consume_remove(const char *path, struct err *e);

#define CONSUMED_NOTE "consumed-by-hone.txt"
/* Writes the note, which lists the shards that are or will be deleted (consumed.c). */
int consumed_write(const struct consume *c, struct err *e);
/* Finishes a job whose output is complete, according to the folder's note: deletes the listed files
 * that are left, and fills the report. *done: there was such a note, and shards are missing or none
 * could be deleted.
 * ERR_DATA: o names another output. */
int consumed_finish(const struct convert_opts *o, bool *done, struct convert_report *rep,
                    struct err *e);
/* Says after an error how to resume. Safe on a zeroed struct. */
void consume_close(struct consume *c, int rc);

#endif
