// SPDX-License-Identifier: MIT
/* cli/cmd_completion.c - hone completion: scripts for bash, zsh and fish, and the words they offer.
 *
 * The scripts call `hone completion words -- WORD...`, which reads the program's own tables of
 * commands and options. If it prints nothing, the shell completes file names. */
#include <stdio.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/command.h"
#include "quantize/quantize.h"

static const struct {
    const char *shell, *script;
} scripts[] = {
    {"bash", "# hone: completion for bash\n"
             "_hone() {\n"
             "    local IFS=$'\\n'\n"
             "    COMPREPLY=($(\"${COMP_WORDS[0]}\" completion words -- "
             "\"${COMP_WORDS[@]:1:COMP_CWORD}\" 2> /dev/null | cut -f 1))\n"
             "}\n"
             "complete -o bashdefault -o default -F _hone hone\n"},
    {"zsh", "#compdef hone\n"
            "local line\n"
            "local -a found\n"
            "for line in \"${(@f)$(\"${words[1]}\" completion words -- "
            "\"${(@)words[2,CURRENT]}\" 2> /dev/null)}\"; do\n"
            "    [[ -n $line ]] && found+=(\"${line/$'\\t'/:}\")\n"
            "done\n"
            "if (( $#found )); then _describe hone found; else _files; fi\n"},
    {"fish", "# hone: completion for fish\n"
             "function __hone_words\n"
             "    set -l all (commandline -opc) (commandline -ct)\n"
             "    $all[1] completion words -- $all[2..-1] 2> /dev/null\n"
             "end\n"
             "complete -c hone -a '(__hone_words)'\n"},
};

struct asked {
    FILE *f;
    const char *command, *second; /* first two words; second: NULL while it is being typed */
    const char *before, *last; /* last: the word to complete, or ""; before: the word before it */
};

/* Prints a completion if it begins with the last word; help may be NULL. */
static void print_match(const struct asked *a, const char *dashes, const char *name,
                        const char *help) {
    size_t n = strlen(dashes), typed = strlen(a->last);
    if (strncmp(a->last, dashes, typed < n ? typed : n) != 0) return;
    if (typed > n && strncmp(a->last + n, name, typed - n) != 0) return;
    fprintf(a->f, "%s%s%s%s\n", dashes, name, help ? "\t" : "", help ? help : "");
}

static void offer_options(const struct asked *a, const struct option *o) {
    for (; o && o->name; o++) print_match(a, "--", o->name, o->help);
}

/* Offers the values of the option before the word. */
static void offer_values(const struct asked *a, const struct option *o) {
    for (; o && o->name; o++) {
        if (strncmp(a->before, "--", 2) != 0 || strcmp(a->before + 2, o->name) != 0) continue;
        for (const char *v = o->values; v && *v;) {
            char value[20];
            const size_t n = strcspn(v, "|");
            snprintf(value, sizeof value, "%.*s", (int)n, v);
            print_match(a, "", value, NULL);
            v += n + (v[n] == '|');
        }
    }
}

static void offer_recipes(const struct asked *a) {
    for (int i = 0; recipe_name(i); i++) print_match(a, "", recipe_name(i), NULL);
    for (int i = 0; recipe_named(i); i++) print_match(a, "", recipe_named(i), NULL);
}

/* Offers a subcommand ("eval ppl"), or the options and values of the command. */
static void visit(void *ctx, const struct cmd_spec *spec, const struct option *common) {
    const struct asked *a = ctx;
    const char *sub = strchr(spec->name, ' ');
    if (sub && !a->second) {
        print_match(a, "", sub + 1, NULL);
        return;
    }
    if (sub && strcmp(sub + 1, a->second) != 0) return;
    if (a->last[0] != '-') {
        offer_values(a, spec->opts);
        offer_values(a, common);
        return;
    }
    offer_options(a, spec->opts);
    offer_options(a, common);
}

/* Prints completions for the last of n words. */
static int complete_words(struct cli *c, const char **word, int n, struct err *e) {
    int n_commands;
    const struct subcommand *s = command_table(&n_commands);
    struct asked a = {.f = c->out, .command = n ? word[0] : "", .last = n ? word[n - 1] : ""};
    if (n > 2) a.second = word[1];
    if (n < 2) {
        for (int i = 0; i < n_commands; i++) print_match(&a, "", s[i].name, s[i].summary);
        print_match(&a, "--", "help", "the list of commands");
        print_match(&a, "--", "version", "the version");
        return 0;
    }
    a.before = word[n - 2];
    if (a.last[0] != '-' && strcmp(a.before, "--recipe") == 0) offer_recipes(&a);
    for (int i = 0; i < n_commands; i++) {
        char *argv[] = {NULL};
        if (strcmp(s[i].name, a.command) != 0) continue;
        struct cli probe = {.out = c->out, .visit = visit, .visit_ctx = &a};
        return s[i].run(&probe, 0, argv, e);
    }
    return 0;
}

static const struct cmd_spec completion_spec = {
    .name = "completion",
    .synopsis = "bash|zsh|fish | words -- WORD...",
    .about = "Prints the completion script of a shell, or the words that can complete the last "
             "WORD.",
    .min_args = 1,
    .max_args = -1,
};

int cmd_completion(struct cli *c, int argc, char **argv, struct err *e) {
    TRY(cli_parse(c, &completion_spec, NULL, argc, argv, e));
    if (c->done) return 0;
    if (strcmp(c->arg[0], "words") == 0) return complete_words(c, c->arg + 1, c->n_args - 1, e);
    for (size_t i = 0; i < COUNT_OF(scripts) && c->n_args == 1; i++)
        if (strcmp(c->arg[0], scripts[i].shell) == 0) {
            fputs(scripts[i].script, c->out);
            return 0;
        }
    return err_set(e, ERR_USAGE, "completion: name a shell: bash, zsh or fish");
}
