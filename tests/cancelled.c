// SPDX-License-Identifier: MIT
/* tests/cancelled.c - cancellation of a docs/examples program at any point, for
 * tests/cli/library-memory.sh. Preloaded together with tests/oom.c (LD_PRELOAD), it gives all
 * handles that the program opens the same cancel switch, and the OOM_AT-th memory request sets it.
 * So the programs need no code for cancellation. */
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "include/hone.h"

void oom_reached(void);

static struct hone_cancel *cancel; /* made before main; of this library and its one program */

static void __attribute__((constructor)) begin(void) {
    cancel = hone_cancel_new();
}

void oom_reached(void) {
    if (cancel) hone_cancel_now(cancel);
}

/* The program's options with the cancel switch added. */
static struct hone_opts with(const struct hone_opts *o) {
    struct hone_opts own = {.size = sizeof own};
    if (o) memcpy(&own, o, o->size < sizeof own ? o->size : sizeof own);
    own.cancel = cancel;
    return own;
}

/* Returns the library's function of a name; function and object pointers have the same size here.
 */
static void next(void *f, const char *name) {
    void *p = dlsym(RTLD_NEXT, name);
    memcpy(f, &p, sizeof p);
}

#define OPENS(name, handle)                                                                        \
    int name(struct handle **out, const char *path, const struct hone_opts *o,                     \
             struct hone_error *e) {                                                               \
        int (*f)(struct handle **, const char *, const struct hone_opts *, struct hone_error *);   \
        const struct hone_opts own = with(o);                                                      \
        next(&f, #name);                                                                           \
        return f(out, path, &own, e);                                                              \
    }
OPENS(hone_model_open, hone_model)
OPENS(hone_gguf_open, hone_gguf)
OPENS(hone_tokenizer_open, hone_tokenizer)

#define MAKES(name, handle)                                                                        \
    int name(struct handle **out, const struct hone_opts *o, struct hone_error *e) {               \
        int (*f)(struct handle **, const struct hone_opts *, struct hone_error *);                 \
        const struct hone_opts own = with(o);                                                      \
        next(&f, #name);                                                                           \
        return f(out, &own, e);                                                                    \
    }
MAKES(hone_quantizer_new, hone_quantizer)
MAKES(hone_writer_new, hone_writer)

int hone_session_new(struct hone_session **out, const struct hone_model *m,
                     const struct hone_session_opts *so, const struct hone_opts *o,
                     struct hone_error *e) {
    int (*f)(struct hone_session **, const struct hone_model *, const struct hone_session_opts *,
             const struct hone_opts *, struct hone_error *);
    const struct hone_opts own = with(o);
    next(&f, "hone_session_new");
    return f(out, m, so, &own, e);
}
