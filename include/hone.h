// SPDX-License-Identifier: MIT
/* hone.h 1.1 - language models in GGUF files, as a library: read and write files, tokenize, render
 * chat templates, compute and generate, measure, quantize; and every command of the program hone.
 *
 *     struct hone_error e;
 *     struct hone_model *m;
 *     if (hone_model_open(&m, "model.gguf", NULL, &e)) return fprintf(stderr, "%s\n", e.message),
 * 1;
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
#define HONE_API_MINOR 1

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
/* Of the text of a tokenizer.json; config: that of tokenizer_config.json, or NULL. */
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
    HONE_TOKEN_MASK
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
 * "tool_calls": [{"name", "arguments"}], "problems": [...]}, hone_free. */
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
 * options, same answer, whatever the others are. Not with schema or regex. */
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
    int requantize; /* non-zero: also a file that is quantized already, with its errors */
};
struct hone_quantize_report {
    size_t size;
    int64_t n_tensors, n_quantized;
    uint64_t in_bytes, out_bytes; /* of tensors */
    uint64_t file_bytes;          /* of the output, exact, also with dry_run */
    double bits_per_weight, seconds;
};
/* A file to a smaller file; report may be NULL. */
HONE_API int hone_quantizer_file(struct hone_quantizer *q, const char *in, const char *path,
                                 const struct hone_quantize_opts *o,
                                 struct hone_quantize_report *report, struct hone_error *e);

/* ---- steps on files --------------------------------------------------------------------------
 * What the commands of these names do (man pages hone-<command>(1)), with typed options; opts says
 * who is told and what cancels, n_threads among it. json: NULL, or what came out as a JSON document
 * (hone_free), also with HONE_VERDICT. Outputs appear whole or not at all. Lists of texts end with
 * NULL; NULL in place of one: none. Options NULL: all zeros. Sentences name options as the program
 * has them: --ctx is n_ctx here, -f is overwrite. */

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

struct hone_sensitivity_opts {
    size_t size;
    const char *imatrix;
    const char *const *texts; /* probed over these, not those of the matrix; NULL: errors alone */
    int64_t n_ctx;            /* tokens of a window; 0: 512 */
    int64_t max_windows;      /* 0: 16 */
    double seconds;           /* of probing; 0: no limit */
    const char *device;
    int overwrite;
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
};
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
};
/* Will it fit? Memory from the headers. HONE_VERDICT: nothing of it fits the card. */
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
