// SPDX-License-Identifier: MIT
/* work/open.h - models that commands open, with the command's --pre; and models that hone cannot
 * compute with: what commands say of them, and the plan of one, which is its weights alone. */
#ifndef HONE_WORK_OPEN_H
#define HONE_WORK_OPEN_H

#include "work/work.h"
#include "runtime/engine/model.h"

/* Opens a model as model_open does. Text is split by the pre-tokenizer w->pre, whatever the file
 * names; w->pre NULL: by the file's own. */
int open_model(const struct work *w, struct model **out, const char *path, struct err *e);

/* Warns, once per job, if n_ctx tokens exceed the context that the model was trained for. */
void open_warn_context(struct work *w, const struct model *m, int64_t n_ctx);

struct gguf;
/* Returns whether a file only accompanies a model: importance matrix, projector or adapter. */
bool open_is_companion(const struct gguf *g);

/* Returns whether a GGUF is a whole model that hone cannot compute with, and fills the reason.
 * False for everything else, also for files that cannot be opened: whoever needs them says so. */
bool unknown_model(const char *path, struct err *why);
/* Refuses an option that needs a pass through such a model, before any work. */
int unknown_refuse(const char *path, const char *option, struct err *e);
/* Fills m with what `hone plan` says of such a model: its weights alone. `why` says why it is one.
 * Returns ERR_VERDICT, exit status 1, when the weights do not fit vram less reserve; vram 0: that
 * was not asked for. */
int unknown_plan(const char *path, const struct err *why, uint64_t vram, uint64_t reserve,
                 bool recipes, struct emit *m, struct err *e);

/* Refuses a folder of GGUF files as the source of a command that needs original weights. The error
 * names what to use instead: an unquantized GGUF of the folder if the command accepts one
 * (`ggufs`), or the model's original folder. */
int source_check(const char *dir, const char *command, bool ggufs, struct err *e);

#endif
