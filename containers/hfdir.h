// SPDX-License-Identifier: MIT
/* containers/hfdir.h - Hugging Face folder: config.json, weight shards (by index or by glob),
 * tokenizer and template files. Opening reads only headers, so all structural errors show within
 * seconds: missing shards, an index that names tensors missing from the shards or files with '/' or
 * "..", pickles instead of safetensors. */
#ifndef HONE_CONTAINERS_HFDIR_H
#define HONE_CONTAINERS_HFDIR_H

#include "base/err.h"
#include "base/json.h"
#include "containers/safetensors.h"

struct hfdir;
/* Opens a Hugging Face folder. On error *out is NULL. */
int hfdir_open(struct hfdir **out, const char *dir, struct err *e);
/* Like hfdir_open, for `hone convert --consume`: a missing shard may have left its header and small
 * tensors in SHARD.consumed. */
#define HF_CONSUMED ".consumed"
int hfdir_open_consumed(struct hfdir **out, const char *dir, struct err *e);
/* Creates a folder from the text of a config.json alone, without weights and other files. `name` is
 * used in messages. */
int hfdir_from_config(struct hfdir **out, const char *text, size_t len, const char *name,
                      struct err *e);
void hfdir_close(struct hfdir *h);
const char *hfdir_path(const struct hfdir *h);
const char *
hfdir_base(const struct hfdir *h); /* last component of the real path: the model's name */

const struct json *hfdir_config(const struct hfdir *h); /* root of config.json, never NULL */
/* Returns the part of config.json that describes the language model: "text_config", possibly inside
 * "thinker_config", or the same under another name. NULL: no such part. */
const struct json *hfdir_text_config(const struct hfdir *h);
/* Returns a hyperparameter; text_config overrides the root (see also hfdir_complete). `names` is
 * "a|b|c"; the first spelling found counts. NULL: absent. */
const struct json *hfdir_hparam(const struct hfdir *h, const char *names);
/* Like hfdir_hparam, without the defaults that hfdir_complete added. */
const struct json *hfdir_said(const struct hfdir *h, const char *names);
/* Reads an integer; absent or null: `otherwise`. ERR_DATA: another value, or one beyond 32 bits;
 * name: for the message. */
int hfdir_whole(const struct json *j, const char *name, int64_t otherwise, int64_t *out,
                struct err *e);
/* Adds hyperparameters from two objects, which must outlive h: members of `over` take precedence
 * over config.json, members of `under` are defaults. A null in config.json hides a default. */
void hfdir_complete(struct hfdir *h, const struct json *over, const struct json *under);
bool hfdir_completed(const struct hfdir *h); /* whether hfdir_complete was called */
/* Calls fn for each default in `under` that hfdir_hparam has returned. */
void hfdir_assumed(const struct hfdir *h, void (*fn)(void *ud, const struct json *member),
                   void *ud);
/* Sets the folder of the model that a draft was trained for, and reads its config.json. */
int hfdir_set_target(struct hfdir *h, const char *dir, struct err *e);
const char *hfdir_target(const struct hfdir *h); /* path of that folder; NULL: none */
/* Returns a hyperparameter of that model, as hfdir_said does. NULL: absent, or no such folder. */
const struct json *hfdir_target_hparam(const struct hfdir *h, const char *names);
struct arena *hfdir_arena(struct hfdir *h); /* arena with the lifetime of h */
/* Sets *out to an optional JSON file ("tokenizer_config.json", "generation_config.json", ...),
 * parsed on first use and cached. NULL: no such file. An existing but invalid file is an error. */
int hfdir_json(struct hfdir *h, const char *name, const struct json **out, struct err *e);
/* Sets *text to an optional text file ("chat_template.jinja", "README.md"), owned by h. NULL: no
 * such file. */
int hfdir_text(struct hfdir *h, const char *name, const char **text, struct err *e);

int hfdir_n_files(const struct hfdir *h);
/* Returns weight file i; NULL: out of range. */
const struct st *hfdir_file(const struct hfdir *h, int i);
void hfdir_end_file(struct hfdir *h, int i); /* st_end */
int64_t hfdir_n_tensors(const struct hfdir *h);
/* Returns tensor i; NULL: out of range. */
const struct st_tensor *hfdir_tensor_at(const struct hfdir *h, int64_t i);
const struct st_tensor *hfdir_find(const struct hfdir *h, const char *name); /* hashed */
/* Returns whether tensor i is in a shard but not in the index. Such tensors are used only if the
 * model needs them. */
bool hfdir_unlisted(const struct hfdir *h, int64_t i);
/* Releases the tensor's mapped pages; it can still be read. */
void hfdir_drop(const struct hfdir *h, const struct st_tensor *t);

/* Sets *text to the chat template by transformers' precedence: chat_template.jinja, otherwise
 * `chat_template` of tokenizer_config.json (a string, or the list entry named "default"), otherwise
 * that of chat_template.json. Warns if the first two exist and differ. NULL: none. */
int hfdir_chat_template(struct hfdir *h, const char **text, struct err *e);

#endif
