// SPDX-License-Identifier: MIT
/* work/open.h - opens models for commands. For models of an unknown architecture it has the error
 * messages and a plan from the weights alone. */
#ifndef HONE_WORK_OPEN_H
#define HONE_WORK_OPEN_H

#include "work/work.h"
#include "runtime/engine/model.h"

/* Opens a model like model_open, with the pre-tokenizer w->pre instead of the file's own unless
 * w->pre is NULL. */
int open_model(const struct work *w, struct model **out, const char *path, struct err *e);

/* Warns, once per job, if n_ctx exceeds the model's training context. */
void open_warn_context(struct work *w, const struct model *m, int64_t n_ctx);

struct gguf;
/* Returns whether a file only accompanies a model: an importance matrix, projector or adapter. */
bool open_is_companion(const struct gguf *g);

/* Returns whether a GGUF is a whole model that hone cannot run, and fills in the reason. Returns
 * false for everything else, including files that cannot be opened: opening them later reports the
 * error. */
bool unknown_model(const char *path, struct err *why);
/* Refuses, before any work, an option that needs a forward pass through such a model. */
int unknown_refuse(const char *path, const char *option, struct err *e);
/* Fills m with the output of `hone plan` for such a model: its weights alone. `why` is the reason
 * from unknown_model. Returns ERR_VERDICT (exit status 1) if the weights do not fit vram less
 * reserve. vram 0: no check. */
int unknown_plan(const char *path, const struct err *why, uint64_t vram, uint64_t reserve,
                 bool recipes, struct emit *m, struct err *e);

/* Refuses a folder of GGUF files as the source of a command that needs original weights. The error
 * names an alternative: an unquantized GGUF of the folder if the command accepts one (`ggufs`), or
 * the model's original folder. */
int source_check(const char *dir, const char *command, bool ggufs, struct err *e);

#endif
