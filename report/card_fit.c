// SPDX-License-Identifier: MIT
/* report/card_fit.c - the memory section of README.md: which file fits each memory size. */
#include <string.h>

#include "report/card.h"
#include "report/pick.h"
#include "report/report_text.h"

/* Returns the label of a file of the release: its label in the results, or else its encoding or
 * name. */
static const char *label_of(const struct result *r, const struct release *rel, int file) {
    for (int k = 0; r && k < r->n_files; k++)
        if (strcmp(r->file[k].file, rel->file[file].file) == 0) return pick_label(r, k);
    return *rel->file[file].encoding ? rel->file[file].encoding : rel->file[file].file;
}

/* Writes the row for one memory size: the file that fits, for each context length. */
static void fit_row(const struct result *r, const struct release *rel, const struct release_fit *f,
                    struct buf *out) {
    buf_fmt(out, "| %d GiB%s |", f->gib, rel->enough_gib[f->kind] == f->gib ? " and more" : "");
    for (int k = 0; k < RELEASE_CONTEXTS && rel->fit_ctx[k]; k++) {
        buf_chr(out, ' ');
        if (f->file[k] < 0)
            buf_str(out, "none");
        else
            md_text(out, label_of(r, rel, f->file[k]));
        if (f->file[k] >= 0 && f->cpu_moe[k]) buf_fmt(out, " `--n-cpu-moe %d`", f->cpu_moe[k]);
        buf_str(out, " |");
    }
    buf_chr(out, '\n');
}

/* Writes the table of files that fit one kind of memory; nothing without rows. */
static void fit_table(const struct result *r, const struct release *rel, int kind,
                      struct buf *out) {
    static const char *const title[RELEASE_MEMORIES] = {
        [RELEASE_GPU] = "GPU", [RELEASE_UNIFIED] = "Unified memory", [RELEASE_RAM] = "Main memory"};
    bool begun = false;
    for (int i = 0; i < rel->n_fits; i++) {
        if ((int)rel->fit[i].kind != kind) continue;
        if (!begun) {
            int n = 0;
            buf_fmt(out, "\n| %s |", title[kind]);
            for (; n < RELEASE_CONTEXTS && rel->fit_ctx[n]; n++) {
                char ctx[32];
                text_thousands(ctx, rel->fit_ctx[n]);
                buf_fmt(out, " %s tokens |", ctx);
            }
            buf_str(out, "\n|---:|");
            while (n--) buf_str(out, "---|");
            buf_chr(out, '\n');
        }
        begun = true;
        fit_row(r, rel, &rel->fit[i], out);
    }
}

/* Writes which memory size suffices for the best file, for each kind of memory without a table.
 * Returns false if there is no such kind. */
static bool enough(const struct result *r, const struct release *rel, struct buf *out) {
    static const char *const name[RELEASE_MEMORIES] = {[RELEASE_GPU] = "on a GPU",
                                                       [RELEASE_UNIFIED] = "of unified memory",
                                                       [RELEASE_RAM] = "of main memory"};
    bool any = false;
    for (int kind = 0; kind < RELEASE_MEMORIES; kind++) {
        bool rows = false;
        for (int i = 0; i < rel->n_fits; i++) rows |= (int)rel->fit[i].kind == kind;
        if (rows || !rel->enough_gib[kind]) continue;
        if (!any) {
            md_text(out, label_of(r, rel, rel->fit_best));
            buf_str(out, " fits with ");
            release_longest(rel, out);
            buf_str(out, " in");
        }
        buf_fmt(out, "%s %d GiB %s", any ? "," : "", rel->enough_gib[kind], name[kind]);
        any = true;
    }
    if (any) buf_str(out, ".\n");
    return any;
}

/* Writes whether a projector is counted, and the command that computes other cases. */
static void put_more(const struct release *rel, struct buf *out) {
    const uint64_t projector = release_projector(rel);
    char size[32];
    text_gib(size, (int64_t)projector);
    buf_chr(out, '\n');
    if (projector) buf_fmt(out, "The projector file, %s, is counted. ", size);
    buf_fmt(out, "`hone plan FILE --vram SIZE` computes %s for your card and context.\n",
            projector ? "the rest" : "it");
}

void card_fit(const struct result *r, const struct release *rel, struct buf *out) {
    bool moe = false;
    if (!rel->fit_ctx[0] || rel->fit_best < 0) return;
    buf_str(out, "\n## What fits your memory\n\n");
    enough(r, rel, out);
    for (int kind = 0; kind < RELEASE_MEMORIES; kind++) fit_table(r, rel, kind, out);
    for (int i = 0; i < rel->n_fits; i++)
        for (int k = 0; k < RELEASE_CONTEXTS; k++) moe |= rel->fit[i].cpu_moe[k] > 0;
    if (rel->n_fits)
        buf_str(
            out,
            "\nEach cell is the recommended file if it fits, otherwise the closest to the "
            "original that fits, for one conversation with keys and values "
            "in f16. On a GPU 1 GiB is kept free; macOS lets the GPU use two thirds of unified "
            "memory (three quarters from 48 GiB); 3 GiB of main memory are left to the system.");
    if (moe)
        buf_str(out, " `--n-cpu-moe N` leaves the experts of the first N blocks in main memory: "
                     "slower, but it runs.");
    if (rel->n_fits) buf_chr(out, '\n');
    put_more(rel, out);
}
