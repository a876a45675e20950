// SPDX-License-Identifier: MIT
/* cli/hub.c - recognition of model names on a hub by their form; never uses the network. */
#include "cli/hub.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/attr.h"
#include "base/io.h"
#include "base/os.h"
#include "base/str.h"

/* Returns whether s ends like a file name, so that "data/wiki.txt" counts as a missing path and
 * "Qwen/Qwen3-0.6B" as a model. */
static bool is_file_name(const char *s) {
    static const char *const ends[] = {
        ".gguf", ".txt", ".json",        ".jsonl",   ".gz",    ".raw", ".csv", ".tsv", ".md",
        ".dat",  ".def", ".safetensors", ".imatrix", ".jinja", ".bin", ".pt",  ".kld", ".svg"};
    for (size_t i = 0; i < COUNT_OF(ends); i++)
        if (str_ends(s, ends[i])) return true;
    return false;
}

/* Returns the length of the word of letters, digits, '.', '_' and '-' at s. */
static size_t word(const char *s) {
    return strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");
}

/* Returns s past the host of a hub's address, and sets *hub if there is one. */
static const char *behind_host(const char *s, bool *hub) {
    static const char *const hosts[] = {"https://huggingface.co/",
                                        "http://huggingface.co/",
                                        "https://hf.co/",
                                        "hf://models/",
                                        "hf://",
                                        "huggingface.co/",
                                        "hf.co/"};
    for (size_t i = 0; i < COUNT_OF(hosts); i++)
        if (strncmp(s, hosts[i], strlen(hosts[i])) == 0) {
            *hub = true;
            return s + strlen(hosts[i]);
        }
    return s;
}

/* Returns whether the command needs a folder, not a GGUF file. */
static bool wants_folder(const char *command) {
    return strcmp(command, "make") == 0 || strcmp(command, "convert") == 0;
}

/* Returns whether the command also takes a model's folder. */
static bool takes_folder(const char *command) {
    static const char *const names[] = {"inspect", "verify", "template", "tokenize"};
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (strcmp(command, names[i]) == 0) return true;
    return false;
}

/* Returns whether the first argument of a command is always a model. */
static bool wants_model(const char *command) {
    static const char *const names[] = {"plan", "run", "serve", "quantize", "imatrix"};
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (strcmp(command, names[i]) == 0) return true;
    return false;
}

/* Returns whether a word has a letter and a digit, like model names (Qwen3-4B, phi-4). */
static bool is_model_name(const char *s) {
    bool letter = false, digit = false;
    for (; *s; s++) {
        letter |= isalpha((unsigned char)*s) != 0;
        digit |= isdigit((unsigned char)*s) != 0;
    }
    return letter && digit;
}

/* Writes how to download a repository. n_org, n: lengths of the owner's name and of `repo`; tag may
 * be NULL. */
static void say_download(const char *repo, int n_org, int n, const char *tag, const char *command,
                         char *say, size_t cap) {
    const char *name = repo + n_org + 1;
    int n_name = n - n_org - 1;
    if (wants_folder(command))
        snprintf(say, cap,
                 "hone does not download: run 'hf download %.*s --local-dir %.*s', then 'hone %s "
                 "%.*s -o %s'",
                 n, repo, n_name, name, command, n_name, name,
                 strcmp(command, "make") == 0 ? "OUT" : "OUT.gguf");
    else if (strcmp(command, "plan") == 0 && !tag && !strcasestr(repo, "gguf"))
        snprintf(say, cap,
                 "hone does not download: run 'hf download %.*s config.json --local-dir %.*s', "
                 "which is enough for 'hone plan %.*s'",
                 n, repo, n_name, name, n_name, name);
    else if (!tag && !strcasestr(repo, "gguf") && takes_folder(command))
        snprintf(say, cap,
                 "hone does not download: run 'hf download %.*s --local-dir %.*s', then pass the "
                 "folder",
                 n, repo, n_name, name);
    else if (!tag && !strcasestr(repo, "gguf"))
        snprintf(say, cap,
                 "hone does not download: run 'hf download %.*s --local-dir %.*s', then 'hone "
                 "convert %.*s -o %.*s.gguf'; or download a GGUF file that someone has published",
                 n, repo, n_name, name, n_name, name, n_name, name);
    else
        snprintf(say, cap,
                 "hone does not download: run 'hf download %.*s --include \"*%.40s*\" --local-dir "
                 "%.*s', then pass the file",
                 n, repo, tag && *tag ? tag : ".gguf", n_name, name);
}

bool hub_name(const char *given, bool first, const char *command, char *say, size_t cap) {
    bool hub = false;
    char arg[512];
    size_t len = strlen(given);
    while (len > 1 && os_is_slash(given[len - 1])) len--;
    if (!len || len >= sizeof arg || io_exists(given)) return false;
    memcpy(arg, given, len);
    arg[len] = 0;
    const char *repo = behind_host(arg, &hub);
    if (!hub && strstr(arg, "://")) {
        snprintf(say, cap, "hone does not download: run 'curl -LO %.300s', then pass the file",
                 arg);
        return true;
    }
    size_t n_org = word(repo), n_name = repo[n_org] == '/' ? word(repo + n_org + 1) : 0;
    const char *end = repo + n_org + (n_name ? 1 + n_name : 0);
    const char *tag = *end == ':' ? end + 1 : NULL;
    if (!hub && (arg[0] == '.' || arg[0] == '-' || is_file_name(arg))) return false;
    if (n_org && n_name && n_org < 97 && n_name < 97 && (hub || !*end || tag)) {
        say_download(repo, (int)n_org, (int)(n_org + 1 + n_name), tag, command, say, cap);
        return true;
    }
    /* a name such as qwen3:4b */
    if (!hub && n_org && tag && *tag && word(tag) == strlen(tag)) {
        snprintf(say, cap,
                 "hone reads files and folders, not the store of another program; 'hf download "
                 "ORG/NAME --local-dir NAME' gets a model");
        return true;
    }
    if (first && !hub && n_org && !*end && n_org < 97 &&
        (wants_folder(command) || wants_model(command) || is_model_name(arg))) {
        char full[sizeof arg + 4];
        snprintf(full, sizeof full, "ORG/%s", arg);
        say_download(full, 3, (int)n_org + 4, NULL, command, say, cap);
        return true;
    }
    return false;
}
