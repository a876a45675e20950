// SPDX-License-Identifier: MIT
/* cli/make.h - what the steps of `hone make` share. Each step is in one of make_*.c; cmd_make.c
 * orders them. Files are named within the job (job_path). */
#ifndef HONE_CLI_MAKE_H
#define HONE_CLI_MAKE_H

#include "cli/opt.h"
#include "cli/publish.h"
#include "cli/step.h"
#include "quantize/quantize.h"
#include "quantize/requant.h"

struct made { /* one GGUF of the folder */
    char recipe[64];
    char *file;    /* name in the folder */
    char *path;    /* where it is (the base lies outside) */
    char hash[33]; /* content */
    bool is_base, outside;
    struct buf eval, speed, tools; /* members of a JSON object: the step's results */
    char sha256[65];
    double bpw;
    int64_t size_bytes;
};
struct make {
    struct cli *c;
    struct job job;
    const char *src;
    struct str_list recipes, calib, eval, budget, probe;
    double probe_minutes; /* 0: no limit */
    int64_t calib_ctx, calib_chunks, eval_ctx, eval_chunks, pp, tg, reps;
    const char *type, *search, *depths;
    bool by_depth;
    const char *tools; /* suite: path, "builtin", "none"; NULL: the source folder's, if any */
    int64_t tools_cases;
    bool redo;   /* -f: no record is believed */
    bool resume; /* what is done of a quant is kept even if it is small */
    char *name;
    char src_hash[33];
    struct made *file; /* [0] is the base */
    int n_files;
    char *imatrix; /* path; NULL: none */
    char imatrix_hash[33];
    struct buf model_json, imatrix_json, eval_json; /* objects of results.json */
    struct str_list notes;
    struct publish_facts given; /* options: what the card is to say */
    const char *words;          /* --notes: file */
    bool requantize;            /* --allow-requantize */
    struct requant base;        /* was the base quantized already? */
};

enum quantize_resume make_resume(const struct make *mk);
/* True when a step's record can be used (and says so). */
bool make_reuse(const struct make *mk, struct step *s, struct json **root,
                const struct json **result);
/* JSON text of a parsed value of a record: numbers and arrays of one object, as members. */
void make_members(const struct json *obj, struct buf *out);
void make_note(struct make *mk, const char *fmt, ...) PRINTF_LIKE(2, 3);
struct made *make_add_file(struct make *mk, const char *recipe, char *path, bool outside);

struct ids;
/* A limit takes chunks evenly spread over all texts, so that every text has its share. */
void make_spread_chunks(struct ids *ids, int64_t ctx, int64_t max_chunks);

/* Options of make_facts.c, for the table of hone make. */
#define MAKE_FACT_OPTIONS(mk)                                                                      \
    PUBLISH_FACT_OPTIONS((mk).given),                                                              \
        {"notes", 0, OPT_STR, &(mk).words, "FILE", "your own words for README.md"}, {              \
        "allow-requantize", 0, OPT_FLAG, &(mk).requantize, NULL, "take a SRC that is quantized"    \
    }
/* What can be refused before any work: wrong facts, a SRC that is a quant; then, with the folder
 * open, files of others in the way. */
int make_check_base(struct make *mk, struct err *e);
int make_check_folder(struct make *mk, struct err *e);
/* Writes all that is for readers, with the text of results.json. */
int make_publish(struct make *mk, const char *results, struct err *e);

int make_name(struct make *mk, struct err *e);    /* and make_check_folder */
int make_source(struct make *mk, struct err *e);  /* hash */
int make_convert(struct make *mk, struct err *e); /* file[0] */
int make_texts(struct make *mk, struct err *e);   /* the built-in texts where none were named */
int make_imatrix(struct make *mk, struct err *e);
char *make_gram(const struct make *mk); /* second moments, owned; NULL: none were collected */
int make_quantize(struct make *mk, struct err *e); /* file[1..] */
int make_mix(struct make *mk, struct err *e);      /* a file per --budget */
int make_eval(struct make *mk, struct err *e);
int make_speed(struct make *mk, struct err *e);
int make_tools(struct make *mk, struct err *e);
int make_report(struct make *mk, struct err *e);

/* make_check.c: faults of the inputs that show before any work. A GGUF must be of a known
 * architecture and tokenizer, a text a text. */
int make_check_source(const char *src, struct err *e);
int make_check_texts(const struct str_list *l, struct err *e);

#endif
