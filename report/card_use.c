// SPDX-License-Identifier: MIT
/* report/card_use.c - the commands in README.md. Each uses a file that is in the folder or that the
 * preceding line downloads; tests/cli/card.sh runs them. */
#include <stdio.h>
#include <string.h>

#include "containers/gguf.h"
#include "report/card.h"
#include "report/report_text.h"

/* Returns whether the model has a chat template; models without one continue text. */
static bool chats(const struct release *rel) {
    return *rel->template != 0;
}

/* Returns the encoding of a file if no other file in the repository has it, so that the Hub can
 * find the file by it; otherwise NULL. */
static const char *tag_of(const struct release *rel, const struct release_file *f) {
    for (int i = 0; i < rel->n_files; i++)
        if (&rel->file[i] != f && strcmp(rel->file[i].encoding, f->encoding) == 0) return NULL;
    return *f->encoding ? f->encoding : NULL;
}

/* Writes a command that runs the file; nothing for models that hone cannot run. */
static void put_hone_run(const struct release *rel, const struct release_file *f, struct buf *out) {
    if (rel->unknown) return;
    buf_fmt(out, "hone run %s %s\n", f->file, chats(rel) ? "\"Hello\"" : "-p \"Once upon a time\"");
}

/* Writes a llama.cpp command that loads the file from the Hub; `more`: further options. */
static void llama_hub(const struct release *rel, const struct release_file *f, const char *program,
                      const char *more, struct buf *out) {
    const char *tag = tag_of(rel, f);
    buf_fmt(out, "%s -hf %s", program, rel->repo);
    if (tag)
        buf_fmt(out, ":%s", tag);
    else
        buf_fmt(out, " --hf-file %s", f->file);
    buf_fmt(out, "%s%s\n", chats(rel) ? " --jinja" : "", more);
}

/* Returns the projector file that the commands name; NULL: the model reads text only. */
static const char *tower(const struct release *rel) {
    return rel->n_mmproj ? rel->mmproj[0].file : NULL;
}

/* Returns the kind of drafts that the commands request. */
static const char *draft_kind(const struct release *rel) {
    return rel->draft.file ? rel->draft.kind : "mtp";
}

/* Writes the command that downloads the file, or its shards. */
static void put_download(const struct release *rel, const struct release_file *f, struct buf *out) {
    if (f->n_shards > 1)
        buf_fmt(out, "hf download %s --include \"%s-*.gguf\" --local-dir .\n", rel->repo, f->stem);
    else
        buf_fmt(out, "hf download %s %s --local-dir .\n", rel->repo, f->file);
}

/* Writes commands that fetch the model from the Hub. */
static void put_from_hub(const struct release *rel, const struct release_file *f, struct buf *out) {
    const char *tag = tag_of(rel, f);
    buf_fmt(out, "From the Hub:\n\n```sh\n# llama.cpp%s\n",
            tower(rel) ? "; -hf also fetches the mmproj file, so images work" : "");
    if (chats(rel)) llama_hub(rel, f, "llama-cli", "", out);
    llama_hub(rel, f, "llama-server", "", out);
    if (rel->draft.file || rel->has_mtp) {
        char more[64];
        snprintf(more, sizeof more, " --spec-type draft-%s", draft_kind(rel));
        buf_str(out, "# llama.cpp with drafts\n");
        llama_hub(rel, f, "llama-server", more, out);
    }
    if (tag && f->n_shards == 1) {
        buf_fmt(out, "# Ollama\nollama run hf.co/%s:%s\n", rel->repo, tag);
        buf_fmt(out, "# LM Studio\nlms get https://huggingface.co/%s@%s\n", rel->repo, tag);
    }
    buf_fmt(out, "# %s\n", rel->unknown ? "one file" : "hone");
    put_download(rel, f, out);
    put_hone_run(rel, f, out);
    buf_str(out, "```\n\n");
}

/* Appends a valid Ollama name: lower-case letters, digits, "._-". */
static void ollama_name(const struct release *rel, struct buf *out) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz0123456789._-";
    const size_t before = out->len;
    for (const char *s = rel->title; *s; s++) {
        const char c = (char)(*s >= 'A' && *s <= 'Z' ? *s + 32 : *s == ' ' ? '-' : *s);
        if (strchr(plain, c) && (out->len > before || strchr("._-", c) == NULL)) buf_chr(out, c);
    }
    if (out->len == before) buf_str(out, "my-model");
}

/* Writes commands for programs that need the whole folder. */
static void put_with_folder(const struct release *rel, const struct release_file *f,
                            struct buf *out) {
    const char *slash = rel->repo ? strchr(rel->repo, '/') : NULL;
    struct buf name = {0};
    ollama_name(rel, &name);
    buf_str(out, "With the whole folder:\n\n```sh\n");
    if (slash)
        buf_fmt(out, "hf download %s --local-dir %s && cd %s\n", rel->repo, slash + 1, slash + 1);
    buf_str(out, "sha256sum -c SHA256SUMS\n");
    put_hone_run(rel, f, out);
    if (!rel->unknown)
        buf_fmt(out, "hone serve %s # a page at http://127.0.0.1:8080, and OpenAI's API\n",
                f->file);
    buf_fmt(out, "llama-server -m %s%s%s%s\n", f->file, tower(rel) ? " --mmproj " : "",
            tower(rel) ? tower(rel) : "", chats(rel) ? " --jinja" : "");
    if (rel->draft.file)
        buf_fmt(out, "llama-server -m %s%s -md %s --spec-type draft-%s # with drafts\n", f->file,
                chats(rel) ? " --jinja" : "", rel->draft.file, draft_kind(rel));
    if (f->n_shards > 1) buf_fmt(out, "hone merge %s -o %s.gguf # for Ollama\n", f->file, f->stem);
    buf_fmt(out, "ollama create %s -f Modelfile && ollama run %s\n", name.data, name.data);
    if (f->n_shards == 1) buf_fmt(out, "lms import %s\n", f->file);
    if (f->n_shards == 1 && tower(rel)) buf_fmt(out, "lms import %s # for images\n", tower(rel));
    buf_str(out, "```\n\n");
    buf_release(&name);
}

/* Writes the commands for files that draft for another model. */
static void put_draft_use(const struct release *rel, const struct release_file *f,
                          struct buf *out) {
    buf_str(out, "```sh\n");
    if (rel->repo) put_download(rel, f, out);
    buf_fmt(out,
            "# llama.cpp; MODEL: a GGUF file of the model that this draft belongs to\n"
            "llama-server -m MODEL -md %s --spec-type draft-%s\n",
            f->file, rel->drafts);
    if (strcmp(rel->drafts, "eagle3") == 0)
        buf_fmt(out,
                "# hone, on the CPU: answers with drafts; how many of them the model accepts\n"
                "hone run MODEL --draft %s\nhone eval mtp MODEL %s text.txt\n",
                f->file, f->file);
    buf_str(out, "```\n\n");
    buf_str(out, "The other files of the table work the same way.\n");
}

void card_use(const struct release *rel, struct buf *out) {
    const struct release_file *f = &rel->file[release_pick(rel)];
    buf_str(out, "\n## Use\n\n");
    if (rel->drafts) {
        put_draft_use(rel, f, out);
        return;
    }
    if (rel->repo) put_from_hub(rel, f, out);
    put_with_folder(rel, f, out);
    buf_str(out,
            "The other files of the table work the same way. Add `-ngl 99` to put all layers of "
            "llama.cpp on the GPU, fewer where its memory is full.\n");
}

void card_prompt(const struct release *rel, struct buf *out) {
    if (rel->drafts || !rel->prompt || !*rel->prompt || strstr(rel->prompt, "```")) return;
    card_fold("Prompt format", out);
    buf_fmt(
        out,
        "```text\n%s\n```\n\nThe template is in the files; programs that use it (`--jinja`) need "
        "nothing else.\n",
        rel->prompt);
    card_fold_end(out);
}
