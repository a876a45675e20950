// SPDX-License-Identifier: MIT
/* include/hone.h - language models in GGUF files, as a library: read and write files, tokenize,
 * render chat templates, compute and generate, measure, quantize; and every command of the program.
 *
 *     struct hone_error e;
 *     struct hone_model *m;
 *     if (hone_model_open(&m, "model.gguf", NULL, &e)) return puts(e.message), 1;
 *
 * RULES THAT HOLD EVERYWHERE
 *
 * Results. A function that can fail returns an enum hone_status, HONE_OK being 0, and then fills
 * *e (NULL: nobody wants to know). What it was to return is then NULL or untouched.
 * Handles. Each is opened or made by a function that says so and ends with its _close or _free, to
 * which NULL may be given. "Borrowed" names what belongs to a handle and lives as long.
 * Memory. What a function hands over is given back with hone_free or the function named there.
 * Structs begin with `size`: set it to sizeof the struct and the rest to zero or what is wanted;
 * later versions add fields at the end, whose zero means what it meant before.
 * Texts are UTF-8, and end with a NUL also where a length is given. Sizes are bytes, counts are
 * elements, shapes are ne[0] first, which lies together in memory.
 * Threads. Nothing belongs to the process: handles do not know of each other. Calls on a GGUF, a
 * tokenizer, a template and a model may run at the same time from any threads. A session, with its
 * sequences, a writer and a quantizer serve one thread at a time.
 * Callbacks. hone_opts of a handle are those of every call on it. A message or progress comes from
 * the calling thread or one that works for it; a callback may call the library, but not the handle
 * that is calling it.
 * Cancelling. Any thread may cancel a call: hone_cancel_now on what its hone_opts name. Progress
 * and text callbacks do it by what they return. The call returns HONE_CANCELLED; files that it was
 * writing do not appear, and the handle can be used on.
 * Memory that runs out is HONE_SYSTEM, never the end of the process, for requests that the system
 * refuses: each handle sets 17 MiB of addresses aside for small allocations while a call stops.
 * (One small request larger than that still ends it, with exit status 4.) The library installs no
 * signal handlers and prints nothing on standard output. A file that another program cuts while it
 * is mapped raises SIGBUS.
 *
 * `pkg-config --cflags --libs hone`; programs to begin with lie in the folder of examples. */
#ifndef HONE_H
#define HONE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define HONE_API __attribute__((visibility("default")))
#else
#define HONE_API
#endif

#define HONE_API_MAJOR 1
#define HONE_API_MINOR 2

/* ---- results, messages, progress, cancelling ------------------------------------------------ */

enum hone_status {                   /* also the exit status of the program */
                   HONE_OK = 0,      /* done */
                   HONE_VERDICT = 1, /* a check ran and the answer is "no"; only from hone_call */
                   HONE_USAGE = 2,   /* senseless request: an argument, a name that is not there */
                   HONE_DATA = 3,    /* an input is not what it claims to be */
                   HONE_SYSTEM = 4,  /* the machine said no: I/O, memory, no device */
                   HONE_CANCELLED = 130 /* by hone_cancel_now, or by a callback */
};

struct hone_error {
    int status;         /* enum hone_status */
    char file[512];     /* path that it is about; "": none, or not known */
    char tensor[128];   /* name of the tensor in it; "": none */
    char message[1024]; /* one sentence: what is wrong, where, what to do */
};

enum hone_level { HONE_ERROR, HONE_WARN, HONE_INFO, HONE_DEBUG, HONE_TRACE };

struct hone_cancel;

struct hone_opts { /* NULL in place of it: all zeros */
    size_t size;   /* sizeof(struct hone_opts) */
    /* A message, without a line feed. NULL: warnings and errors go to standard error. */
    void (*log)(void *user, enum hone_level level, const char *text);
    /* How far a step is; total 0: unknown. Non-zero cancels the call. NULL: not told. */
    int (*progress)(void *user, const char *stage, uint64_t done, uint64_t total);
    void *user;
    struct hone_cancel *cancel; /* borrowed as long as the handle lives; NULL: none */
    int n_threads;              /* of a session or quantizer; 0: all cores that there are */
    int untrusted; /* non-zero: lower limits on what files may claim (docs/limits.md) */
    /* Since 1.2, for what computes. Texts are borrowed as long as the handle lives; NULL and 0: as
     * the program does without the option. */
    const char *device; /* "cpu", "cuda", "cuda:0,1", "auto"; a device of the call comes first */
    const char *isa;    /* the most that is used of the processor: "ref", "avx2", ... */
    const char *pre;    /* pre-tokenizer of models that are opened, whatever they name */
    const char *pack_cache; /* folder where packed weights are kept, for quick starts */
    const char *max_vram;   /* "20GiB", or "20GiB,10GiB" of two devices; experts beyond it: CPU */
    const char *place;      /* file that says which blocks and experts go where */
    int64_t stream_from;    /* passes of so many tokens copy experts to the device; < 0: none do */
    uint64_t max_memory;    /* bytes of the large buffers of one call together */
    const char *tmp;        /* folder of temporary files; NULL: /tmp */
};

/* "0.1.0" of the library that is loaded; the version of this interface is HONE_API_MAJOR. */
HONE_API const char *hone_version(void);
/* "ok", "verdict", "usage", "data", "system", "cancelled"; "?" for other numbers. */
HONE_API const char *hone_status_name(int status);
/* Gives back texts and arrays that a function handed over. */
HONE_API void hone_free(void *p);

/* A switch that calls look at; any number of calls may share it. NULL: no memory. */
HONE_API struct hone_cancel *hone_cancel_new(void);
/* From any thread, also from a signal handler. Stays on until hone_cancel_reset. */
HONE_API void hone_cancel_now(struct hone_cancel *c);
HONE_API void hone_cancel_reset(struct hone_cancel *c);
HONE_API void hone_cancel_free(struct hone_cancel *c);

/* ---- tensor types --------------------------------------------------------------------------- */

struct hone_type {
    size_t size;
    int id;                             /* as GGUF files have it */
    const char *name;                   /* "Q4_K", static */
    int32_t block_weights, block_bytes; /* a row is a whole number of blocks */
    int can_read, can_write;            /* hone_decode, hone_quantizer_rows */
};
/* HONE_USAGE: no such type. Names in any case. */
HONE_API int hone_type_find(const char *name, struct hone_type *out, struct hone_error *e);
HONE_API int hone_type_by_id(int id, struct hone_type *out, struct hone_error *e);
/* Bytes of a row of n weights; 0 when n is no multiple of the block, or there is no such type. */
HONE_API uint64_t hone_type_row_bytes(int id, int64_t n);
/* n_rows rows of n_cols weights -> out[n_rows][n_cols]. */
HONE_API int hone_decode(int type, const void *data, int64_t n_rows, int64_t n_cols, float *out,
                         struct hone_error *e);

/* ---- reading GGUF files --------------------------------------------------------------------- */

struct hone_gguf;
/* Maps a file, or all files of a split set given its first, and checks every record. */
HONE_API int hone_gguf_open(struct hone_gguf **out, const char *path, const struct hone_opts *o,
                            struct hone_error *e);
HONE_API void hone_gguf_close(struct hone_gguf *g);
HONE_API uint64_t hone_gguf_bytes(const struct hone_gguf *g); /* of all its files */
HONE_API int hone_gguf_n_files(const struct hone_gguf *g);

enum hone_value { /* numbers as in the file */
                  HONE_U8,
                  HONE_I8,
                  HONE_U16,
                  HONE_I16,
                  HONE_U32,
                  HONE_I32,
                  HONE_F32,
                  HONE_BOOL,
                  HONE_TEXT,
                  HONE_ARRAY,
                  HONE_U64,
                  HONE_I64,
                  HONE_F64
};
struct hone_key { /* borrowed from the GGUF */
    size_t size;
    const char *name;
    int type;         /* enum hone_value */
    int elem;         /* of HONE_ARRAY: type of its elements */
    uint64_t count;   /* HONE_ARRAY: elements; HONE_TEXT: bytes; else 1 */
    const void *data; /* the first value, little-endian, at any address */
    uint64_t n_bytes; /* of data */
};
HONE_API int64_t hone_gguf_n_keys(const struct hone_gguf *g);
HONE_API int hone_gguf_key(const struct hone_gguf *g, int64_t i, struct hone_key *out,
                           struct hone_error *e);
/* HONE_USAGE: there is no such key. */
HONE_API int hone_gguf_find_key(const struct hone_gguf *g, const char *name, struct hone_key *out,
                                struct hone_error *e);
/* The i-th number (0 of a scalar) of a key; 0 where it is none or i is past the end. */
HONE_API int64_t hone_key_int(const struct hone_key *k, uint64_t i);
HONE_API double hone_key_float(const struct hone_key *k, uint64_t i);
/* Walks the texts of a key, one for HONE_TEXT: *at is 0 before the first call. Returns 0 behind the
 * last. The text is not NUL-terminated. */
HONE_API int hone_key_next_text(const struct hone_key *k, uint64_t *at, const char **text,
                                size_t *len);
/* The value of a scalar key; `otherwise` when the key is absent or of another kind. */
HONE_API int64_t hone_gguf_int(const struct hone_gguf *g, const char *name, int64_t otherwise);
HONE_API double hone_gguf_float(const struct hone_gguf *g, const char *name, double otherwise);
/* Borrowed, NUL-terminated. */
HONE_API const char *hone_gguf_text(const struct hone_gguf *g, const char *name,
                                    const char *otherwise);

struct hone_tensor { /* borrowed from the GGUF */
    size_t size;
    const char *name;
    int type; /* hone_type_by_id */
    int n_dims;
    int64_t ne[4];    /* missing dimensions are 1 */
    const void *data; /* in the mapped file: read only */
    uint64_t n_bytes;
};
HONE_API int64_t hone_gguf_n_tensors(const struct hone_gguf *g);
HONE_API int hone_gguf_tensor(const struct hone_gguf *g, int64_t i, struct hone_tensor *out,
                              struct hone_error *e);
/* HONE_USAGE: there is no such tensor. */
HONE_API int hone_gguf_find_tensor(const struct hone_gguf *g, const char *name,
                                   struct hone_tensor *out, struct hone_error *e);
/* Rows [row, row + n_rows) of ne[1] * ne[2] * ne[3] -> out[n_rows][ne[0]]. */
HONE_API int hone_tensor_read(const struct hone_tensor *t, int64_t row, int64_t n_rows, float *out,
                              struct hone_error *e);
/* Looks for NaN and infinity in values and block scales: HONE_DATA names tensor and place. */
HONE_API int hone_gguf_check(const struct hone_gguf *g, const struct hone_tensor *t,
                             struct hone_error *e);

/* ---- writing GGUF files ---------------------------------------------------------------------
 * Keys and tensors are declared, hone_writer_begin writes the header, then the data of each tensor
 * follows in the declared order, in any pieces; hone_writer_commit checks, syncs and renames. */

struct hone_writer;
HONE_API int hone_writer_new(struct hone_writer **out, const struct hone_opts *o,
                             struct hone_error *e);
HONE_API void hone_writer_free(struct hone_writer *w); /* without commit: no file appears */
/* One integer or HONE_BOOL of this type. A key that is set again is replaced. HONE_USAGE when v is
 * out of the type's range. */
HONE_API int hone_writer_int(struct hone_writer *w, const char *key, enum hone_value type,
                             int64_t v, struct hone_error *e);
HONE_API int hone_writer_float(struct hone_writer *w, const char *key, double v,
                               struct hone_error *e); /* written as f32 */
HONE_API int hone_writer_text(struct hone_writer *w, const char *key, const char *text, size_t len,
                              struct hone_error *e);
HONE_API int hone_writer_array(struct hone_writer *w, const char *key, enum hone_value elem,
                               const void *v, uint64_t n, struct hone_error *e);
HONE_API int hone_writer_texts(struct hone_writer *w, const char *key, const char *const *text,
                               uint64_t n, struct hone_error *e);
/* All keys of a file, or one of them, as they are. */
HONE_API int hone_writer_copy_keys(struct hone_writer *w, const struct hone_gguf *from,
                                   const char *key, struct hone_error *e);
HONE_API int hone_writer_remove(struct hone_writer *w, const char *key, struct hone_error *e);
HONE_API int hone_writer_tensor(struct hone_writer *w, const char *name, int type, int n_dims,
                                const int64_t *ne, struct hone_error *e);
HONE_API uint64_t hone_writer_bytes(const struct hone_writer *w); /* of the file, exact */
HONE_API int hone_writer_begin(struct hone_writer *w, const char *path, int overwrite,
                               struct hone_error *e);
HONE_API int hone_writer_data(struct hone_writer *w, const void *p, uint64_t n,
                              struct hone_error *e);
HONE_API int hone_writer_commit(struct hone_writer *w, struct hone_error *e);

/* ---- tokenizers ----------------------------------------------------------------------------- */

struct hone_tokenizer;
/* Of a GGUF file, or of a folder with tokenizer files. */
HONE_API int hone_tokenizer_open(struct hone_tokenizer **out, const char *path,
                                 const struct hone_opts *o, struct hone_error *e);
/* Of an open GGUF, which may be closed afterwards. */
HONE_API int hone_tokenizer_from_gguf(struct hone_tokenizer **out, const struct hone_gguf *g,
                                      struct hone_error *e);
/* Of the text of tokenizer.json, and of tokenizer_config.json or NULL; _open reads all files. */
HONE_API int hone_tokenizer_from_json(struct hone_tokenizer **out, const char *json, size_t len,
                                      const char *config, size_t config_len,
                                      const struct hone_opts *o, struct hone_error *e);
HONE_API void hone_tokenizer_close(struct hone_tokenizer *t);

enum hone_token_flags {
    HONE_BOS = 1, /* encode: the token that begins a text, where the vocabulary has one added */
    HONE_CONTROL =
        2 /* encode: texts of control tokens become those; decode: they are spelled out */
};
/* *ids: n ids, hone_free. flags of enum hone_token_flags. */
HONE_API int hone_tokenize(const struct hone_tokenizer *t, const char *text, size_t len,
                           unsigned flags, int32_t **ids, int64_t *n, struct hone_error *e);
/* *text: hone_free; len may be NULL. */
HONE_API int hone_detokenize(const struct hone_tokenizer *t, const int32_t *ids, int64_t n,
                             unsigned flags, char **text, size_t *len, struct hone_error *e);
HONE_API int64_t hone_n_vocab(const struct hone_tokenizer *t);
/* Text of a token as the vocabulary has it, borrowed; NULL: no such id. */
HONE_API const char *hone_token_text(const struct hone_tokenizer *t, int32_t id, size_t *len);
HONE_API int32_t hone_token_find(const struct hone_tokenizer *t, const char *text); /* -1: none */
HONE_API int hone_token_ends(const struct hone_tokenizer *t, int32_t id);           /* an answer */
enum hone_special {
    HONE_TOKEN_BOS,
    HONE_TOKEN_EOS,
    HONE_TOKEN_EOT,
    HONE_TOKEN_UNK,
    HONE_TOKEN_SEP,
    HONE_TOKEN_PAD,
    HONE_TOKEN_MASK,
    HONE_TOKEN_EOM /* ends a message with calls */
};
HONE_API int32_t hone_token_special(const struct hone_tokenizer *t, enum hone_special s);

/* ---- chat templates, tool calls -------------------------------------------------------------- */

struct hone_template;
/* From the text of a template. bos, eos: texts of these tokens, NULL: "". */
HONE_API int hone_template_new(struct hone_template **out, const char *text, size_t len,
                               const char *bos, const char *eos, const struct hone_opts *o,
                               struct hone_error *e);
HONE_API int hone_template_from_gguf(struct hone_template **out, const struct hone_gguf *g,
                                     struct hone_error *e);
HONE_API void hone_template_free(struct hone_template *t);
HONE_API const char *hone_template_text(const struct hone_template *t); /* borrowed */
/* conversation: JSON text, {"messages": [...], "tools": [...]?, more variables} or a list of
 * messages. variables: NULL, or a JSON object of more. invite: non-zero adds the invitation to
 * answer. *text: hone_free; len may be NULL. */
HONE_API int hone_template_render(const struct hone_template *t, const char *conversation,
                                  const char *variables, int invite, char **text, size_t *len,
                                  struct hone_error *e);
/* The same as tokens. Texts of control tokens inside messages stay plain text, so that nobody
 * speaks as another role: what a model should be given. *ids: hone_free. */
HONE_API int hone_template_tokens(const struct hone_template *t, const struct hone_tokenizer *tok,
                                  const char *conversation, const char *variables, int invite,
                                  int32_t **ids, int64_t *n, struct hone_error *e);
/* What a model wrote in answer, read by the syntax of tool calls that its template asks for.
 * tools: JSON list as given to the template, or NULL. *json: {"content", "reasoning",
 * "tool_calls": [{"name", "arguments"}], "problems": [...], "loose": calls that were bare JSON}. */
HONE_API int hone_template_read_answer(const struct hone_template *t, const char *tools,
                                       const char *answer, size_t len, char **json,
                                       struct hone_error *e);

/* ---- models --------------------------------------------------------------------------------- */

struct hone_model;
/* Maps a GGUF and binds it to its architecture; weights stay in the file. */
HONE_API int hone_model_open(struct hone_model **out, const char *path, const struct hone_opts *o,
                             struct hone_error *e);
HONE_API void hone_model_close(struct hone_model *m); /* sessions first */
struct hone_model_info {
    size_t size;
    const char *arch; /* "qwen35moe"; borrowed */
    int64_t n_vocab;  /* logits per token */
    int64_t n_ctx;    /* longest context that it was trained for; 0: not said */
    int64_t n_embd, n_layers;
    int64_t n_weights; /* of all tensors */
    uint64_t n_bytes;  /* of the files */
};
HONE_API int hone_model_info(const struct hone_model *m, struct hone_model_info *out,
                             struct hone_error *e);
HONE_API const struct hone_gguf *hone_model_gguf(const struct hone_model *m); /* borrowed */
/* Borrowed; HONE_DATA with the reason where it has none. */
HONE_API int hone_model_tokenizer(const struct hone_model *m, const struct hone_tokenizer **out,
                                  struct hone_error *e);
HONE_API int hone_model_template(const struct hone_model *m, const struct hone_template **out,
                                 struct hone_error *e);

/* ---- sessions: tokens in, logits out --------------------------------------------------------- */

struct hone_session;
struct hone_session_opts { /* NULL in place of it: all zeros */
    size_t size;
    int64_t n_ctx;       /* tokens of a sequence at most; 0: the model's, capped at 4096 */
    int64_t n_batch;     /* rows of a pass at most; 0: chosen */
    const char *kv_type; /* "f16" (NULL), "f32", "q8_0", "K/V", ... as --kv-type */
    const char *device;  /* "cpu" (NULL), "cuda", "cuda:1", "auto" */
    int exact;           /* non-zero: activations stay f32, as for measuring; else 8 bits, faster */
    const char *draft; /* "mtp": the model's MTP block guesses a token ahead; same text; or NULL */
};
/* The model must stay open as long. */
HONE_API int hone_session_new(struct hone_session **out, const struct hone_model *m,
                              const struct hone_session_opts *so, const struct hone_opts *o,
                              struct hone_error *e);
HONE_API void hone_session_free(struct hone_session *s); /* its sequences first */
HONE_API int64_t hone_session_n_ctx(const struct hone_session *s);
HONE_API uint64_t hone_session_bytes(const struct hone_session *s); /* caches, states, scratch */

/* What a session has seen of one text. Each has one of its own, meant by NULL. */
struct hone_seq;
HONE_API int hone_seq_new(struct hone_seq **out, struct hone_session *s, struct hone_error *e);
/* A second one with the same past; what they share is kept once. */
HONE_API int hone_seq_fork(struct hone_seq **out, const struct hone_seq *from,
                           struct hone_error *e);
/* Back to the first n tokens. HONE_USAGE where the model cannot forget so; 0 always can. */
HONE_API int hone_seq_trim(struct hone_seq *q, int64_t n, struct hone_error *e);
HONE_API int64_t hone_seq_n_tokens(const struct hone_seq *q);
HONE_API void hone_seq_free(struct hone_seq *q);
/* q NULL: the session's own. The file belongs to the model and to the type of the cache. */
HONE_API int hone_seq_save(struct hone_session *s, const struct hone_seq *q, const char *path,
                           int overwrite, struct hone_error *e);
HONE_API int hone_seq_load(struct hone_session *s, struct hone_seq *q, const char *path,
                           struct hone_error *e);

/* Feeds tokens behind what a sequence has seen (q NULL: the own one). logits: NULL, or [n_vocab] of
 * what follows the last token. */
HONE_API int hone_session_feed(struct hone_session *s, struct hone_seq *q, const int32_t *ids,
                               int64_t n, float *logits, struct hone_error *e);
/* The same with the logits behind every token: [n][n_vocab]. */
HONE_API int hone_session_logits(struct hone_session *s, struct hone_seq *q, const int32_t *ids,
                                 int64_t n, float *logits, struct hone_error *e);
struct hone_row { /* one token of one sequence */
    struct hone_seq *seq;
    int32_t id;
    int32_t want; /* non-zero: its logits */
};
/* Feeds rows of any sequences together; those of one in their order. logits: [rows that want
 * them][n_vocab] in the order of the rows. On the CPU they have the bits of sequences fed alone. */
HONE_API int hone_session_run(struct hone_session *s, const struct hone_row *row, int64_t n,
                              float *logits, struct hone_error *e);
HONE_API int hone_session_reset(struct hone_session *s,
                                struct hone_error *e); /* the own sequence */

/* ---- generating ------------------------------------------------------------------------------ */

struct hone_generate_opts { /* NULL in place of it: all zeros */
    size_t size;
    int64_t max_tokens;    /* 0: until the context is full */
    double temperature;    /* 0: always the likeliest token */
    int32_t top_k;         /* 0: all */
    double top_p, min_p;   /* 0: off */
    double repeat_penalty; /* 0: off; over the last 64 tokens */
    uint64_t seed;
    const char *const *stop; /* texts that end an answer, NULL behind the last; NULL: none */
    const char *schema;      /* JSON Schema that the answer follows; NULL: none */
    const char *regex;       /* the same by a regular expression */
    int control;             /* non-zero: control tokens are spelled out */
    /* Text as it becomes certain, in whole characters; `which`: of several prompts, else 0.
     * Non-zero ends this answer. */
    int (*text)(void *user, int64_t which, const char *text, size_t len);
    void *user;
    /* Since 1.2. Of schema, regex, grammar and choices one at most is given. */
    const char *grammar;        /* the answer is a text of this grammar, GBNF or Lark */
    const char *const *choices; /* it is one of these texts, NULL behind the last */
    double presence_penalty;    /* subtracted from tokens that occurred; 0: off */
    double frequency_penalty;   /* the same for each time; 0: off */
    int32_t repeat_last_n;      /* tokens that the penalties look back; 0: 64 */
    int64_t open_objects;       /* of schema: non-zero: members that it does not name are allowed */
};
struct hone_answer { /* hone_answer_free */
    size_t size;
    char *text; /* without a stop text */
    size_t len;
    int32_t *ids; /* without the token that ended it */
    int64_t n_ids;
    int64_t n_prompt; /* tokens of the prompt that had to be computed */
    const char *stop; /* "end", "length", "context", "stop", "callback"; static */
    double seconds;   /* spent drawing; of several answers: of all */
};
/* Continues a prompt on the session's own sequence. One that goes on where the last ended costs its
 * new tokens only. After HONE_CANCELLED *out holds what was written so far. */
HONE_API int hone_generate(struct hone_session *s, const int32_t *prompt, int64_t n,
                           const struct hone_generate_opts *o, struct hone_answer *out,
                           struct hone_error *e);
/* Continues n prompts, as many at a time as at_once says (0: 8), which is faster than one after the
 * other: weights are read once for all. out[n], each with its size set. Same seed, prompt and
 * options, same answer, whatever the others are. Not with schema, regex, grammar or choices. */
HONE_API int hone_generate_many(struct hone_session *s, const int32_t *const *prompt,
                                const int64_t *len, int64_t n, int at_once,
                                const struct hone_generate_opts *o, struct hone_answer *out,
                                struct hone_error *e);
HONE_API void hone_answer_free(struct hone_answer *a);

/* ---- measuring ------------------------------------------------------------------------------ */

struct hone_perplexity {
    size_t size;
    double value, error; /* and its standard error */
    double mean_nll;     /* its logarithm, nats per token */
    int64_t n_tokens, n_windows, n_ctx;
};
/* Windows of n_ctx tokens (0: 512), the second half of each scored, as published; at most
 * max_windows (0: all). The session's context must be as long. */
HONE_API int hone_perplexity(struct hone_session *s, const int32_t *ids, int64_t n, int64_t n_ctx,
                             int64_t max_windows, struct hone_perplexity *out,
                             struct hone_error *e);
struct hone_divergence { /* of a model from a base, over the same positions; nats */
    size_t size;
    double mean, error, median, p90, p99, p999, max;
    double perplexity, perplexity_base;
    double same_top; /* share of positions where both have the same likeliest token */
    double rms_dp;   /* root mean square difference of the probability of the text's token */
    int64_t n_tokens, n_windows, n_ctx;
};
/* Both models have the same vocabulary. */
HONE_API int hone_divergence(struct hone_session *base, struct hone_session *s, const int32_t *ids,
                             int64_t n, int64_t n_ctx, int64_t max_windows,
                             struct hone_divergence *out, struct hone_error *e);

/* ---- quantizing ----------------------------------------------------------------------------- */

struct hone_quantizer;
HONE_API int hone_quantizer_new(struct hone_quantizer **out, const struct hone_opts *o,
                                struct hone_error *e);
HONE_API void hone_quantizer_free(struct hone_quantizer *q);
/* rows [n_rows][n_cols] -> blocks of a type, by all threads. importance: NULL, or [n_cols], the
 * mean squared input of each column. HONE_DATA: a value is NaN or infinite. */
HONE_API int hone_quantizer_rows(struct hone_quantizer *q, int type, const float *rows,
                                 int64_t n_rows, int64_t n_cols, const float *importance, void *out,
                                 struct hone_error *e);
struct hone_quantize_opts {
    size_t size;
    const char *recipe;        /* "Q4_K_M", a type's name, or the path of a plan */
    const char *imatrix;       /* path, or NULL */
    const char *const *tensor; /* "REGEX=TYPE", first match wins; NULL behind the last */
    int pure;                  /* every matrix gets the recipe's type */
    int overwrite, dry_run;
    int requantize;   /* non-zero: also a file that is quantized already, with its errors */
    const char *type; /* in place of the recipe: one type wherever it can be */
    const char *gram; /* second moments of hone_imatrix: error feedback; or NULL */
    const char *const *sequential; /* error feedback block by block, from these files of text */
    const char *search;            /* "fast", "best", "conventional"; NULL: fast */
    const char *without;           /* steps of feedback to leave out, "balance,codes"; or NULL */
    const char *plan_out;          /* the plan is written there; or NULL */
    uint64_t split_max;            /* bytes of a file of the output; 0: one file */
    int resume; /* non-zero: what is done of an interrupted output is kept even if it is small */
};
struct hone_quantize_report {
    size_t size;
    int64_t n_tensors, n_quantized;
    uint64_t in_bytes, out_bytes; /* of tensors */
    uint64_t file_bytes;          /* of the output, exact, also with dry_run */
    double bits_per_weight, seconds;
};
/* A file to a smaller file; report may be NULL. Of the options of 1.2 those of hone_quantize are
 * refused: type, sequential, without. */
HONE_API int hone_quantizer_file(struct hone_quantizer *q, const char *in, const char *path,
                                 const struct hone_quantize_opts *o,
                                 struct hone_quantize_report *report, struct hone_error *e);

/* ---- steps on files --------------------------------------------------------------------------
 * What the commands of these names do (man pages hone-<command>(1)), with typed options; opts says
 * who is told and what cancels, n_threads among it. json: NULL, or what came out as a JSON document
 * (hone_free), also with HONE_VERDICT. Outputs appear whole or not at all. Lists of texts end with
 * NULL; NULL in place of one: none. Options NULL: all zeros. Sentences name options as the program
 * has them: --ctx is n_ctx here, -f is overwrite. A number that is 0 means what the program does
 * without the option; one below 0 means 0, where that is something else. docs/reference.md has
 * every option of every command with its field here. */

struct hone_convert_opts {
    size_t size;
    const char *type;   /* "f32", "f16", "bf16", "q8_0"; NULL: as stored */
    const char *name;   /* general.name; NULL: from the folder */
    const char *lora;   /* folder of an adapter that is merged into the weights */
    const char *mmproj; /* also writes the vision tower there */
    uint64_t split_max; /* bytes of a file; 0: one file */
    int no_mtp;         /* leaves the block that drafts tokens out */
    int pad;            /* feed-forward widths padded with zeros to multiples of 256 */
    int keep_mxfp4;     /* matrices stored as MXFP4 stay that */
    int overwrite, dry_run;
    const char *pre; /* pre-tokenizer, where it is not recognised; since 1.2 */
};
/* A Hugging Face folder to a GGUF. */
HONE_API int hone_convert(const char *folder, const char *path, const struct hone_convert_opts *co,
                          const struct hone_opts *opts, char **json, struct hone_error *e);

struct hone_imatrix_opts {
    size_t size;
    int64_t n_ctx;       /* tokens of a window; 0: 512 */
    int64_t max_windows; /* 0: all */
    const char *format;  /* "gguf" or "dat"; NULL: by the ending of the path */
    const char *gram;    /* also writes second moments there, for error feedback */
    const char *device;  /* as in hone_session_opts */
    int no_special;      /* texts of control tokens are plain text */
    int overwrite;
    int64_t gram_block;  /* columns of a block of second moments; 0: all up to 4096, else 2048 */
    const char *moments; /* also writes the sums of inputs and of their fourth powers there */
    const char *have;    /* hone_imatrix_select: matrix of the texts that are there already */
};
/* The mean squared input of every column of every matrix, over files of text or of conversations
 * (.jsonl). */
HONE_API int hone_imatrix(const char *model, const char *const *texts, const char *path,
                          const struct hone_imatrix_opts *io, const struct hone_opts *opts,
                          char **json, struct hone_error *e);
/* Adds matrices up; one alone is converted to the other format. Of the options format and
 * overwrite count. */
HONE_API int hone_imatrix_merge(const char *const *from, const char *path,
                                const struct hone_imatrix_opts *io, const struct hone_opts *opts,
                                char **json, struct hone_error *e);
/* What a matrix says of each tensor. */
HONE_API int hone_imatrix_stats(const char *path, const struct hone_opts *opts, char **json,
                                struct hone_error *e);
/* Chooses documents of n_tokens together that rare experts need, out of texts of documents
 * (.jsonl), and writes them to a path. Options that count: n_ctx, no_special, have, overwrite. */
HONE_API int hone_imatrix_select(const char *model, const char *const *texts, int64_t n_tokens,
                                 const char *path, const struct hone_imatrix_opts *io,
                                 const struct hone_opts *opts, char **json, struct hone_error *e);

struct hone_sensitivity_opts {
    size_t size;
    const char *imatrix;
    const char *const *texts; /* probed over these, not those of the matrix; NULL: errors alone */
    int64_t n_ctx;            /* tokens of a window; 0: 512 */
    int64_t max_windows;      /* 0: 16 */
    double seconds;           /* of probing; 0: no limit */
    const char *device;
    int overwrite;
    const char *const *budget; /* "15.9GiB": also measures around the mix of these sizes */
    int64_t n_types;           /* types that are probed per group, 1 to 4; 0: 3 */
    int64_t bands;             /* layers that are probed per role, spread by depth; 0: all */
    int64_t rounds;            /* of measuring around each mix; 0: 1 */
    const char *search;        /* of the encoders: "fast", "best", "conventional"; NULL: fast */
};
/* What each type costs each part of a model, measured: for hone_mix. */
HONE_API int hone_sensitivity(const char *model, const char *path,
                              const struct hone_sensitivity_opts *so, const struct hone_opts *opts,
                              char **json, struct hone_error *e);

struct hone_mix_opts {
    size_t size;
    uint64_t bytes;          /* of the file at most; 0: `vram` says */
    uint64_t vram;           /* bytes of a card that holds it with n_ctx; 0: `bytes` says */
    uint64_t reserve;        /* of that to keep free; 0: the usual */
    int64_t n_ctx, n_slots;  /* with vram; 0: as trained, one */
    const char *kv_type;     /* with vram; NULL: f16 */
    const char *imatrix;     /* or NULL */
    const char *gram;        /* second moments: error feedback; or NULL */
    const char *sensitivity; /* file of hone_sensitivity; NULL: errors by role */
    const char *avoid;       /* types not to use, "IQ1_S,Q2_K"; or NULL */
    const char *search;      /* "fast", "best", "conventional"; NULL: fast */
    const char *plan_out;    /* the plan is written there; NULL: beside the output */
    const char *const *gate; /* files of text: it must beat the plain recipes that fit on them */
    int overwrite, dry_run;
    const char *const *budget;     /* "15.9GiB": a file of each of these sizes */
    double bpw;                    /* one more size, as bits per weight; 0: none */
    const char *const *sequential; /* error feedback block by block, from these files of text */
    const char *without;           /* steps of feedback to leave out, "balance,codes"; or NULL */
    const char *const *tensor;     /* "REGEX=TYPE", first match wins */
    const char *prefer;            /* "quality" (NULL), "speed", or a weight: "0.5" */
    const char *front;             /* SVG of the best mixes from quality to speed; or NULL */
    int no_floors;                 /* no lower limits by role */
    uint64_t bandwidth;            /* bytes a second, for predicted times; 0: 1000 GB */
    uint64_t split_max;            /* bytes of a file of the output; 0: one file */
    int requantize;                /* also a file that is quantized already */
    int resume;                    /* what is done of an interrupted output is kept */
};
/* A GGUF to smaller GGUFs by recipe, plan or type. Several recipes with commas between them share
 * one reading of the model; path is then a folder, or a name with {} for the recipe. */
HONE_API int hone_quantize(const char *in, const char *path, const struct hone_quantize_opts *qo,
                           const struct hone_opts *opts, char **json, struct hone_error *e);
/* A GGUF to the best mix of types that fits. */
HONE_API int hone_mix(const char *in, const char *path, const struct hone_mix_opts *mo,
                      const struct hone_opts *opts, char **json, struct hone_error *e);

struct hone_make_opts {
    size_t size;
    const char *recipes;       /* "Q4_K_M,Q6_K"; NULL: the usual ones */
    double seconds;            /* of the whole job; 0: 12 hours, < 0: no limit */
    const char *const *calib;  /* files of text; NULL: the library's own */
    const char *const *eval;   /* files of text that divergence is measured on; NULL: its own */
    const char *const *probe;  /* files of text that mixes are chosen on; NULL: its own */
    const char *const *budget; /* "15.9GiB": also the best mix of these sizes */
    const char *tools;         /* suite of tool calls: path, "builtin", "none"; NULL: SRC's own */
    int64_t calib_windows;     /* 0: all */
    int64_t eval_windows;      /* 0: 100, < 0: all */
    int64_t tools_cases;       /* 0: 12, < 0: all */
    const char *device;
    int plain;     /* presets alone, no mixes */
    int overwrite; /* all steps again; else those that were done with the same inputs are not */
    int dry_run;
    const char *effort;   /* "fast", "normal" (NULL), "high": how mixes are made */
    double probe_seconds; /* of the probes that mixes are chosen by; 0: no limit */
    int64_t calib_ctx;    /* tokens of a window of calibration; 0: 512 */
    int64_t eval_ctx;     /* tokens of a window of evaluation; 0: 512 */
    const char *type;     /* of the base: "f32", "f16", "bf16", "q8_0"; NULL: as stored */
    const char *search;   /* "fast", "best", "conventional"; NULL: presets fast, mixes best */
    int64_t n_prompt;     /* tokens of the speed test's prompt; 0: 512 */
    int64_t n_generate;   /* tokens that it generates; 0: 64 */
    int64_t reps;         /* its repetitions; 0: 3 */
    const char *depths;   /* context already filled in it, "0,4096"; NULL: 0 */
    int by_depth;         /* divergence also by tokens of context */
    int requantize;       /* also a SRC that is quantized already */
    int resume;           /* what is done of a quantized file is kept even if it is small */
    const char *notes;    /* file with your own words for README.md; or NULL */
    /* Facts of the card, as in hone_publish_opts. */
    const char *repo, *base_model, *license, *license_name, *license_link, *quantized_by, *name;
    const char *language, *tags;
};
/* The main job: a Hugging Face folder (or a GGUF) to a folder of measured files and their report.
 * A call after one that was cancelled goes on with it. */
HONE_API int hone_make(const char *source, const char *folder, const struct hone_make_opts *mo,
                       const struct hone_opts *opts, char **json, struct hone_error *e);

struct hone_plan_opts {
    size_t size;
    const char *vram;       /* "24GiB", of several cards "24GiB,16GiB"; NULL: none is asked about */
    uint64_t reserve;       /* bytes to keep free; 0: the usual */
    int64_t n_ctx, n_slots; /* 0: as trained, one */
    const char *kv_type;    /* NULL: f16 */
    int recipes;            /* also the sizes of this model by every recipe */
    const char *act;        /* with launches, activations: "f32", "q8" (NULL) */
    const char *plot;       /* SVG of memory by context and cache type; or NULL */
    int launches;           /* instead: what a pass does step by step, with bytes and FLOP */
};
/* Will it fit? For a folder: which of its files? HONE_VERDICT: nothing fits the card. */
HONE_API int hone_plan(const char *model, const struct hone_plan_opts *po,
                       const struct hone_opts *opts, char **json, struct hone_error *e);

/* What a file or folder is, from its headers; tensors: non-zero lists them. HONE_DATA: nothing that
 * is known. */
HONE_API int hone_inspect(const char *path, int tensors, const struct hone_opts *opts, char **json,
                          struct hone_error *e);
/* Is it whole and what it claims? HONE_VERDICT: no, json says what was found. deep: non-zero reads
 * all data. manifest: file of checksums, NULL: the folder's own. */
HONE_API int hone_verify(const char *path, int deep, const char *manifest,
                         const struct hone_opts *opts, char **json, struct hone_error *e);
/* What changed from a to b? HONE_VERDICT: something. weights: non-zero compares weights too. */
HONE_API int hone_diff(const char *a, const char *b, int weights, const struct hone_opts *opts,
                       char **json, struct hone_error *e);

/* A quantized file made again from its own record and compared to the byte. HONE_VERDICT: the bytes
 * differ. */
struct hone_replay_opts {
    size_t size;
    const char *source;  /* what it was quantized from; NULL: the recorded name beside it */
    const char *imatrix; /* importance matrix; NULL: likewise */
    const char *gram;    /* second moments; NULL: likewise */
    const char *path;    /* where the copy stays; NULL: it is removed */
    int overwrite;
};
HONE_API int hone_replay(const char *file, const struct hone_replay_opts *ro,
                         const struct hone_opts *opts, char **json, struct hone_error *e);

struct hone_recipes_opts {
    size_t size;
    const char *recipe;   /* this one is written as a plan, with plan_out; NULL: all are listed */
    const char *plan_out; /* the plan to edit: a tensor, a tab and a type in each line */
    const char *imatrix;  /* importance matrix that will be used; or NULL */
    int overwrite;
};
/* Every recipe; model NULL: names alone, else with the exact size of the file each makes of it. */
HONE_API int hone_recipes(const char *model, const struct hone_recipes_opts *ro,
                          const struct hone_opts *opts, char **json, struct hone_error *e);

struct hone_publish_opts {
    size_t size;
    /* Facts of the card; NULL: as found in the folder and the source. */
    const char *repo;         /* "USER/NAME" that it will be on the Hub */
    const char *base_model;   /* "ORG/NAME" of the original */
    const char *license;      /* the Hub's identifier, "apache-2.0" */
    const char *license_name; /* with license "other": its name */
    const char *license_link; /* with license "other": where its text is */
    const char *quantized_by; /* who made the files */
    const char *name;         /* the model's name */
    const char *language;     /* "en,fr" */
    const char *tags;         /* more tags, with commas between them */
    const char *notes;        /* file with your own words for README.md */
    const char *source;       /* Hugging Face folder whose license and config are copied */
    const char *supersedes;   /* manifest.json of the release that this one replaces */
    int manifest_only;        /* manifest.json and SHA256SUMS, nothing else */
    int overwrite;            /* what is somebody's own is kept beside the new files */
};
/* Makes a folder of GGUF files ready for the Hub: card, checksums, manifest. */
HONE_API int hone_publish(const char *folder, const struct hone_publish_opts *po,
                          const struct hone_opts *opts, char **json, struct hone_error *e);
/* Looks for faults of anyone's folder. HONE_VERDICT: there are. quick: non-zero reads no data. */
HONE_API int hone_publish_check(const char *folder, int quick, const struct hone_opts *opts,
                                char **json, struct hone_error *e);

struct hone_split_opts {
    size_t size;
    const char *path;  /* OUT.gguf names OUT-00001-of-0000N.gguf; NULL: as the input */
    uint64_t max_size; /* bytes of tensors of one file; 0: 49 GB */
    int data_first;    /* tensors in the first file too */
    int overwrite, dry_run;
};
/* A GGUF to shards; every tensor is read back and compared. */
HONE_API int hone_split(const char *in, const struct hone_split_opts *so,
                        const struct hone_opts *opts, char **json, struct hone_error *e);
/* The set that a shard belongs to as one file. path NULL: the name without its shard number. */
HONE_API int hone_merge(const char *shard, const char *path, int overwrite,
                        const struct hone_opts *opts, char **json, struct hone_error *e);

struct hone_synth_opts {
    size_t size;
    const char *shape;     /* "Qwen3.5-35B-A3B" (NULL), other names, or the path of a config.json */
    const char *recipe;    /* a preset or one type; NULL: Q4_K_M */
    const char *tokenizer; /* folder whose vocabulary it gets; NULL: it has none */
    int64_t layers;        /* 0: as the shape has */
    int64_t seed;          /* of the random numbers; 0: 1 */
    double skew;           /* how unevenly routers choose experts, to 10 */
    int overwrite, dry_run;
};
/* A model of random weights with the shapes of a real one, for speed work. */
HONE_API int hone_synth(const char *path, const struct hone_synth_opts *so,
                        const struct hone_opts *opts, char **json, struct hone_error *e);

/* What this build uses on this machine; of a model: which parts are computed by slower ways than
 * there are. list: NULL, or "limits" that inputs must keep, or "models" that can be converted. */
HONE_API int hone_doctor(const char *model, const char *list, const struct hone_opts *opts,
                         char **json, struct hone_error *e);
/* Speed of single kernels on one thread. types: "Q4_K,IQ2_XS", NULL: all. seconds: for each number,
 * 0: 0.03. */
HONE_API int hone_bench_kernels(const char *types, double seconds, const struct hone_opts *opts,
                                char **json, struct hone_error *e);

/* ---- chat templates of files: a GGUF, a folder, or a .jinja file ----------------------------- */

/* What the template is: size, hash, mode, names of others. name NULL: the usual one. */
HONE_API int hone_template_describe(const char *source, const char *name,
                                    const struct hone_opts *opts, char **json,
                                    struct hone_error *e);
/* Renders small conversations and says whether tool calls work with it, and what is lost.
 * HONE_VERDICT: there is an error, or, with strict, a warning. */
HONE_API int hone_template_lint(const char *source, const char *name, int strict,
                                const struct hone_opts *opts, char **json, struct hone_error *e);
/* What a rule of the linter means; "all": all of them. */
HONE_API int hone_template_explain(const char *rule, const struct hone_opts *opts, char **json,
                                   struct hone_error *e);
struct hone_template_fix_opts {
    size_t size;
    const char *path;    /* the repaired template is written there; or NULL */
    const char *only;    /* ids of edits, "a,b"; NULL: all that apply */
    const char *replace; /* in place of edits one of the library's own, by name or "auto" */
    int in_place;        /* it is stored in the source, GGUF or .jinja */
    int list;            /* instead: the edits that are known, and whether they apply */
    int overwrite;
};
/* Repairs known defects; json has "diff", the unified difference, or with `list` the edits. */
HONE_API int hone_template_fix(const char *source, const struct hone_template_fix_opts *fo,
                               const struct hone_opts *opts, char **json, struct hone_error *e);
/* The unified difference of two templates as "diff". HONE_VERDICT: they differ. */
HONE_API int hone_template_diff(const char *a, const char *b, const struct hone_opts *opts,
                                char **json, struct hone_error *e);
struct hone_template_render_opts {
    size_t size;
    const char *tools;   /* file with a JSON list; or NULL */
    const char *kwargs;  /* JSON object of more variables; or NULL */
    const char *name;    /* which template, when there are several */
    const char *context; /* variables as "hf" (NULL) or "llamacpp" passes them */
    const char *mode;    /* "hf" (NULL), or "lenient": also what only other engines accept */
    const char *now;     /* the clock that it sees, "2026-03-05T14:30:00"; NULL: this machine's */
    const char *args;    /* arguments of calls given as text: "auto" (NULL) parses them, "as-is" */
    int no_invite;       /* ends after the last message */
};
/* The conversation of a file as the template renders it, with kind and source of every span. */
HONE_API int hone_template_spans(const char *source, const char *conversation,
                                 const struct hone_template_render_opts *ro,
                                 const struct hone_opts *opts, char **json, struct hone_error *e);
/* All scenarios of a file, {id: text or {"error", "kind"}}. Of the options name and mode count. */
HONE_API int hone_template_batch(const char *source, const char *scenarios,
                                 const struct hone_template_render_opts *ro,
                                 const struct hone_opts *opts, char **json, struct hone_error *e);
/* Small templates of a file {"units": [{id, template, context}]}, each with its own variables.
 * mode: "hf" (NULL) or "lenient". */
HONE_API int hone_template_eval(const char *units, const char *mode, const struct hone_opts *opts,
                                char **json, struct hone_error *e);

/* ---- measuring files --------------------------------------------------------------------------
 * hone eval. One struct for all; a field that an evaluation has no use for is refused where it is
 * set. */

struct hone_eval_opts {
    size_t size;
    /* of most */
    int64_t n_ctx;       /* tokens of a window, or of the context */
    int64_t max_windows; /* of a text; < 0: all */
    const char *kv_type; /* of keys and values, "f16", "q8_0", "K/V", ...; several: "f16,q8_0" */
    const char *act;     /* activations: "f32", or "q8" */
    const char *base;    /* a model to compare with */
    const char *keep;    /* file where numbers are kept as they come, and gone on from */
    const char *plot;    /* SVG; or NULL */
    int overwrite;
    /* hone_eval_ppl */
    int64_t stride; /* overlapping windows advanced by so many tokens; 0: none */
    /* hone_eval_kld */
    const char *base_file;    /* base logits in place of a base */
    const char *save_base;    /* writes the model's logits there instead of comparing */
    int compact;              /* with save_base: the compact format */
    int64_t top, tail;        /* of it: tokens that are kept, samples of the others; 0: 256, 64 */
    int by_depth, routing;    /* also by tokens of context; also the share of the same experts */
    int64_t worst;            /* shows so many tokens of largest divergence */
    const char *base_kv_type; /* the base's; NULL: f32 */
    int64_t kv_skip_layers;   /* first and last attention layers that keep kv_skip_type */
    const char *kv_skip_type; /* NULL: q8_0 */
    /* hone_eval_speed */
    int64_t n_prompt, n_generate; /* tokens; 0: 512, 128; < 0: none */
    const char *depths;           /* context already filled, "0,4096"; hone_eval_kv: keys */
    int64_t reps;                 /* repetitions; 0: 5 */
    /* hone_eval_kv */
    const char *head_dims; /* values of a head, "64,128" */
    double cosine;         /* of queries with the key they look for; 0: 0.5 */
    /* suites and tasks */
    int64_t max_cases;  /* evenly spread; 0: all */
    int64_t max_tokens; /* of an answer; 0: 256 */
    const char *format; /* of calls, or of a file of choices */
    double require;     /* percent that must pass, else HONE_VERDICT; 0: none */
    int no_loss;        /* HONE_VERDICT when a case fails that the base passes */
    int from_answers;   /* the suite is a server's record: its answers are expected */
    int constrained;    /* answers once more with calls held to the tools' schemas */
    int jump;           /* with that: what must come is not drawn */
    int all;            /* lists every case, not only those that failed or changed */
    int sampled;        /* hone_eval_replay: with the recorded seeds and sampling */
    int64_t n_depths;   /* hone_eval_needle: depths from begin to end; 0: 5 */
    int64_t per_depth;  /* windows at each; 0: 4 */
    /* hone_eval_suite: files; NULL: what is built in */
    const char *const *texts;   /* perplexity of them */
    const char *const *tools;   /* suites of tool calls or checks; "builtin", "none" */
    const char *const *choices; /* "FORMAT:FILE" */
    const char *const *needles; /* texts that needles are hidden in */
    int64_t needle_ctx;         /* tokens of their windows; 0: 4096 */
    int strict_calls;           /* tools: bare JSON that names a tool is no call */
};
/* Perplexity of a file of text. */
HONE_API int hone_eval_ppl(const char *model, const char *text, const struct hone_eval_opts *eo,
                           const struct hone_opts *opts, char **json, struct hone_error *e);
/* Divergence of models from a base, over files of text, in one pass. With save_base there is one
 * model and one text. */
HONE_API int hone_eval_kld(const char *const *models, const char *const *texts,
                           const struct hone_eval_opts *eo, const struct hone_opts *opts,
                           char **json, struct hone_error *e);
/* How often the token that the MTP block drafts is the one that the model chooses. */
HONE_API int hone_eval_mtp(const char *model, const char *text, const struct hone_eval_opts *eo,
                           const struct hone_opts *opts, char **json, struct hone_error *e);
/* A suite of tool calls or of prompts with checks. suite NULL: the built-in tool calls. */
HONE_API int hone_eval_cases(const char *model, const char *suite, const struct hone_eval_opts *eo,
                             const struct hone_opts *opts, char **json, struct hone_error *e);
/* Multiple choice from a file; format says which: "hellaswag", "winogrande", "mmlu", "choice". */
HONE_API int hone_eval_choice(const char *model, const char *file, const struct hone_eval_opts *eo,
                              const struct hone_opts *opts, char **json, struct hone_error *e);
/* Numbers hidden in windows of a text, asked for at their end. */
HONE_API int hone_eval_needle(const char *model, const char *text, const struct hone_eval_opts *eo,
                              const struct hone_opts *opts, char **json, struct hone_error *e);
/* What a server recorded, asked again. HONE_VERDICT: fewer answers are kept than required. */
HONE_API int hone_eval_replay(const char *model, const char *record,
                              const struct hone_eval_opts *eo, const struct hone_opts *opts,
                              char **json, struct hone_error *e);
/* The standard set on one model, written to a path with a number per window and case. */
HONE_API int hone_eval_suite(const char *model, const char *path, const struct hone_eval_opts *eo,
                             const struct hone_opts *opts, char **json, struct hone_error *e);
/* Two such files: which is better, where, and is the difference larger than its error? */
HONE_API int hone_eval_compare(const char *a, const char *b, const struct hone_opts *opts,
                               char **json, struct hone_error *e);
/* Tokens per second of prompts and of generation. */
HONE_API int hone_eval_speed(const char *model, const struct hone_eval_opts *eo,
                             const struct hone_opts *opts, char **json, struct hone_error *e);
/* Error and speed of types of the cache of keys and values, without a model. */
HONE_API int hone_eval_kv(const struct hone_eval_opts *eo, const struct hone_opts *opts,
                          char **json, struct hone_error *e);
/* Logits of the tokens of a file (int32) to another file (f32, [n][n_vocab]), little-endian. */
HONE_API int hone_eval_logits(const char *model, const char *ids, const char *path,
                              const struct hone_eval_opts *eo, const struct hone_opts *opts,
                              char **json, struct hone_error *e);

/* ---- serving -------------------------------------------------------------------------------- */

struct hone_serve_opts {
    size_t size;
    const char *const *host;  /* where to listen, or "unix:PATH"; NULL: 127.0.0.1 */
    int64_t port;             /* 0: any, told by ready */
    const char *alias;        /* the model's id for clients; NULL: the file's name */
    int64_t n_ctx;            /* longest context of a request; 0: as context_memory allows */
    int64_t parallel;         /* answers computed at once; 0: 4 */
    uint64_t context_memory;  /* bytes of all contexts; 0: a quarter of what is free, to 8 GiB */
    const char *cache_dir;    /* beginnings of prompts are kept there for the next start; or NULL */
    uint64_t cache_disk;      /* bytes of files there; 0: 32 GiB */
    const char *key;          /* that clients must give; or NULL */
    const char *key_file;     /* more of them, one a line; or NULL */
    int no_key;               /* everybody who reaches the host may ask */
    int64_t max_tokens;       /* of an answer, for requests that do not say; 0: no limit */
    const char *reasoning;    /* "on", "off", "auto" (NULL) */
    int64_t reasoning_budget; /* tokens of thinking, then it is ended; 0: no limit, < 0: none */
    const char *constrain;    /* calls and formats: "auto" (NULL), "strict", "off" */
    const char *kwargs;       /* JSON object of more variables of the template; or NULL */
    /* Sampling of requests that do not say; 0: as the file says, < 0: 0. */
    double temperature, top_k, top_p, min_p, repeat_penalty, repeat_last_n, seed;
    const char *kv_type;     /* NULL: f16 */
    const char *act;         /* activations: "f32", "q8" (NULL) */
    double max_step;         /* seconds that an answer waits for others' prompts; 0: 1 */
    int64_t queue;           /* requests that may wait; 0: 64 */
    int64_t max_connections; /* open at once; 0: 1024 */
    uint64_t max_body;       /* bytes of a request; 0: 32 MiB */
    double drain;            /* seconds that answers may take to end; 0: 30, < 0: none */
    const char *record;      /* file for requests and answers; or NULL */
    const char *log_file;    /* file for a line of JSON per request; or NULL */
    int strict;              /* other names of models than ids are refused */
    const char *const *allow_host, *const
                                       *allow_origin; /* names of this server; origins of pages */
    const char *special; /* texts of control tokens in messages: "plain" (NULL), "parse" */
    /* Called once requests can be answered, with a line of JSON that has the URL; or NULL. */
    void (*ready)(void *user, const char *json);
    /* Called with a line of JSON per request; NULL: not told. */
    void (*request)(void *user, const char *json);
    void *user;
    const char *preset;    /* file of named settings, which requests name; or NULL */
    const char *template_; /* file of a Jinja template in place of the model's own; or NULL */
    const char *draft;     /* how next tokens are guessed, as --draft; NULL: off */
    int record_last;       /* of lines of record that continue each other the last alone is kept */
    int64_t open_objects;  /* non-zero: objects may have members that their schemas do not name */
    int strict_calls;      /* bare JSON that names a tool is no call */
    const char *const *more; /* further files or folders: a request's model chooses; or NULL */
};
/* Answers HTTP requests as OpenAI's clients make them, until hone_cancel_now on what opts name:
 * running answers then end, and so does the call, with HONE_OK. It changes nothing of the process:
 * one of a program's own threads serves. */
HONE_API int hone_serve(const char *model, const struct hone_serve_opts *so,
                        const struct hone_opts *opts, struct hone_error *e);

/* ---- commands -------------------------------------------------------------------------------
 * Every command of the program: arguments as on the command line (man pages hone-<command>(1)), the
 * result as text, one JSON document unless --csv or --md is among them.
 *
 *     const char *args[] = {"model", "-o", "out", "--time", "1h", NULL};
 *     hone_call("make", args, &opts, &r); */

struct hone_result {
    char *text; /* what the command prints, "" when nothing; never NULL but without memory */
    size_t len; /* without the NUL at its end */
    char message[1024]; /* one sentence that says what went wrong; "" when nothing */
};
/* `args` ends with NULL; `opts` may be NULL. Fills r, also when it fails: hone_result_free. */
HONE_API int hone_call(const char *command, const char *const *args, const struct hone_opts *opts,
                       struct hone_result *r);
HONE_API void hone_result_free(struct hone_result *r);
/* The i-th command's name, static; NULL: past the end. */
HONE_API const char *hone_command(int i);

#ifdef __cplusplus
}
#endif
#endif
