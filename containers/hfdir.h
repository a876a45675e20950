// SPDX-License-Identifier: MIT
/* containers/hfdir.h - a Hugging Face folder: config.json, weight shards (by index or by glob),
 * tokenizer and template files. Opening reads headers only, so every structural error shows within
 * seconds: missing shard, index naming tensors the shards lack, pickles instead of safetensors,
 * index names with '/' or "..". */
#ifndef HONE_CONTAINERS_HFDIR_H
#define HONE_CONTAINERS_HFDIR_H

#include "base/err.h"
#include "base/json.h"
#include "containers/safetensors.h"

struct hfdir;
int hfdir_open(struct hfdir **out, const char *dir, struct err *e);
/* Makes a folder of which only config.json is known, given as text: there are no weights and no
 * other files. `name` names it in messages. */
int hfdir_from_config(struct hfdir **out, const char *text, size_t len, const char *name,
                      struct err *e);
void hfdir_close(struct hfdir *h);
const char *hfdir_path(const struct hfdir *h);
const char *
hfdir_base(const struct hfdir *h); /* last component of the real path: the model's name */

const struct json *hfdir_config(const struct hfdir *h); /* root of config.json, never NULL */
/* Returns the part of config.json that is about the language model: "text_config", also of a
 * "thinker_config", and other names of it. NULL: it is not apart. */
const struct json *hfdir_text_config(const struct hfdir *h);
/* Returns a hyperparameter by the merging rule that text_config overlays the root (and see
 * hfdir_complete). `names` is
 * "a|b|c", of which the first spelling that is found wins. NULL when it is absent. */
const struct json *hfdir_hparam(const struct hfdir *h, const char *names);
/* Does the same without what hfdir_complete added for keys that the file leaves out. */
const struct json *hfdir_said(const struct hfdir *h, const char *names);
/* Gives the hyperparameters two more layers, objects that must live as long as h: members of `over`
 * come before those of config.json, members of `under` after them. A null in config.json hides a
 * member of `under`. */
void hfdir_complete(struct hfdir *h, const struct json *over, const struct json *under);
bool hfdir_completed(const struct hfdir *h); /* Tells whether hfdir_complete was called. */
/* Calls fn for each member of `under` that hfdir_hparam has returned. */
void hfdir_assumed(const struct hfdir *h, void (*fn)(void *ud, const struct json *member),
                   void *ud);
struct arena *hfdir_arena(struct hfdir *h); /* memory that lives as long as h */
/* Gives an optional JSON file: "tokenizer_config.json", "generation_config.json" and so on. It
 * is parsed on first use and kept; a file that is there but broken is an error. *out is NULL
 * when there is none. */
int hfdir_json(struct hfdir *h, const char *name, const struct json **out, struct err *e);
/* Gives an optional text file ("chat_template.jinja", "README.md"), owned by h. *text is NULL
 * when there is none. */
int hfdir_text(struct hfdir *h, const char *name, const char **text, struct err *e);

int hfdir_n_files(const struct hfdir *h);
const struct st *hfdir_file(const struct hfdir *h, int i);
int64_t hfdir_n_tensors(const struct hfdir *h);
const struct st_tensor *hfdir_tensor_at(const struct hfdir *h, int64_t i);
const struct st_tensor *hfdir_find(const struct hfdir *h, const char *name); /* hashed */
/* Tells whether tensor i is in a shard although the index does not name it: it counts only where
 * the model needs it. */
bool hfdir_unlisted(const struct hfdir *h, int64_t i);
void hfdir_drop(const struct hfdir *h, const struct st_tensor *t);

/* Gives the chat template by transformers' precedence: chat_template.jinja, otherwise
 * tokenizer_config.json's `chat_template` (a string, or the list entry named "default"). Warns
 * when both exist and differ. *text is NULL when there is none. */
int hfdir_chat_template(struct hfdir *h, const char **text, struct err *e);

#endif
