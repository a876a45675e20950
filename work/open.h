// SPDX-License-Identifier: MIT
/* work/open.h - opening of models for commands. For models of an unknown architecture: error
 * messages, and a memory plan based on the weights alone. */
#ifndef HONE_WORK_OPEN_H
#define HONE_WORK_OPEN_H

#include "work/work.h"
#include "runtime/engine/model.h"

/* Opens a model like model_open. If w->pre is not NULL, the pre-tokenizer is w->pre, not the file's
 * own. */
int open_model(const struct work *w, struct model **out, const char *path, struct err *e);

/* Warns, once per job, if n_ctx exceeds the model's training context. */
void open_warn_context(struct work *w, const struct model *m, int64_t n_ctx);

struct gguf;
/* Returns whether a file only accompanies a model: an importance matrix, a projector or an
 * adapter. */
bool open_is_companion(const struct gguf *g);

/* Returns whether a GGUF is a whole model that hone cannot run, and fills in the reason. Returns
 * false for everything else, including files that cannot be opened: opening them later reports
 * the error. */
bool unknown_model(const char *path, struct err *why);
/* Returns an error, before any work is done, if an option needs a forward pass through a model that
 * unknown_model recognizes. */
int unknown_refuse(const char *path, const char *option, struct err *e);
/* Fills m with the output of `hone plan` for a model that hone cannot run, based on its weights
 * alone. `why` is the reason from unknown_model. Returns ERR_VERDICT (exit status 1) if the weights
 * do not fit in vram less reserve. vram 0: no check. */
int unknown_plan(const char *path, const struct err *why, uint64_t vram, uint64_t reserve,
                 bool recipes, struct emit *m, struct err *e);

/* Returns an error if dir is a folder of GGUF files, for a command that needs original weights. The
 * message names an alternative: an unquantized GGUF in the folder if the command accepts one
 * (`ggufs`), or the model's original folder. */
int source_check(const char *dir, const char *command, bool ggufs, struct err *e);

#endif
