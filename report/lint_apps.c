// SPDX-License-Identifier: MIT
/* report/lint_apps.c - the linter's checks of files for other programs: Ollama's Modelfile and
 * params, LM Studio's model.yaml, JSON copies. Anything that these programs would reject is an
 * error. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/json.h"
#include "report/folder_lint.h"
#include "report/release.h"

/* Returns whether s is in the NULL-terminated list. */
static bool is_among(const char *s, const char *const *v) {
    for (; *v; v++)
        if (strcmp(s, *v) == 0) return true;
    return false;
}

/* Returns whether the whole text is a number. */
static bool is_number(const char *s) {
    char *end;
    if (!*s) return false;
    (void)strtod(s, &end);
    return *end == 0;
}

/* ---- Modelfile ------------------------------------------------------------------------------- */

struct modelfile {
    struct lint *l;
    int line;
    bool has_from;
};

/* Reports a fault of the current line. fmt: a text with at most one %s, which `what` replaces. */
static void add_fault(struct modelfile *m, const char *rule, const char *fmt, const char *what) {
    char text[300];
    snprintf(text, sizeof text, "line %d: ", m->line);
    size_t n = strlen(text);
    /* fmt is a literal with one %s */
    const char *at = strstr(fmt, "%s");
    snprintf(text + n, sizeof text - n, "%.*s%.80s%s", at ? (int)(at - fmt) : (int)strlen(fmt), fmt,
             at ? what : "", at ? at + 2 : "");
    lint_add(m->l, true, rule, "Modelfile", "%s", text);
}

/* Reports a FROM that names a file which is not in the folder. */
static void check_from(struct modelfile *m, const char *arg) {
    size_t n = strlen(arg);
    m->has_from = true;
    if (n < 6 || strcmp(arg + n - 5, ".gguf") != 0) return; /* the name of a model */
    int i, count;
    size_t len;
    const char *s = strncmp(arg, "./", 2) == 0 ? arg + 2 : arg;
    if (*s == '/' || *s == '~') {
        add_fault(m, "modelfile-from", "FROM %s is a local path; write ./NAME.gguf", arg);
        return;
    }
    if (gguf_split_parse(s, &i, &count, &len)) {
        add_fault(m, "modelfile-from", "FROM %s is a shard, which Ollama does not read", arg);
        return;
    }
    char *path = io_join(m->l->dir, s);
    bool there = io_exists(path);
    for (int k = 1; !there && k < 100; k++) { /* the name that hone merge would write */
        char first[512];
        snprintf(first, sizeof first, "%.*s-00001-of-%05d.gguf", (int)(strlen(path) - 5), path, k);
        there = io_exists(first);
    }
    if (!there) add_fault(m, "modelfile-from", "FROM %s is not in the folder", arg);
    free(path);
}

/* Removes the quotes around a value. Returns false if the closing quote is missing. */
static bool unquote(char *s) {
    size_t n = strlen(s);
    if (*s != '"') return true;
    if (n < 2 || s[n - 1] != '"') return false;
    memmove(s, s + 1, n - 2);
    s[n - 2] = 0;
    return true;
}

/* Reports an unknown or malformed PARAMETER; truncates arg at its first space. */
static void check_parameter(struct modelfile *m, char *arg) {
    size_t n = strcspn(arg, " \t");
    char *value = arg + n + strspn(arg + n, " \t");
    arg[n] = 0;
    if (is_among(arg, ollama_deprecated)) {
        add_fault(m, "modelfile-deprecated", "parameter %s was removed from Ollama", arg);
        return;
    }
    if (!is_among(arg, ollama_params)) {
        add_fault(m, "modelfile-parameter", "parameter %s is unknown: ollama create fails", arg);
        return;
    }
    if (!*value) {
        add_fault(m, "modelfile-value", "parameter %s has no value", arg);
        return;
    }
    if (!unquote(value)) add_fault(m, "modelfile-quote", "unclosed quote: %s", value);
    if (strcmp(arg, "stop") == 0) return;
    bool flag = strcmp(arg, "use_mmap") == 0;
    if (flag ? strcmp(value, "true") != 0 && strcmp(value, "false") != 0 : !is_number(value))
        add_fault(m, "modelfile-value", "the value of %s is not a number", arg);
}

/* Reports the faults of one line of a Modelfile. */
static void check_command(struct modelfile *m, char *line) {
    size_t n = strcspn(line, " \t");
    char *arg = line + n + strspn(line + n, " \t"), name[32];
    size_t k = 0;
    for (; k < n && k < sizeof name - 1; k++)
        name[k] = (char)(line[k] >= 'a' && line[k] <= 'z' ? line[k] - 32 : line[k]);
    name[k] = 0;
    if (!is_among(name, ollama_commands)) {
        add_fault(m, "modelfile-command", "%s is not a Modelfile command", name);
        return;
    }
    if (!*arg) add_fault(m, "modelfile-value", "%s has no value", name);
    if (strcmp(name, "FROM") == 0 && *arg) check_from(m, arg);
    if (strcmp(name, "PARAMETER") == 0 && *arg) check_parameter(m, arg);
}

/* Skips a """ ... """ block, which counts as one command even if it spans several lines. Returns
 * the line after it; NULL: the text ends. */
static char *skip_block(struct modelfile *m, char *line, char *next) {
    char *open = strstr(line, "\"\"\"");
    if (!open || strstr(open + 3, "\"\"\"")) return next;
    char *close = next ? strstr(next, "\"\"\"") : NULL;
    if (!close) {
        add_fault(m, "modelfile-quote", "\"\"\" is not closed%s", "");
        return NULL;
    }
    for (char *c = next; c < close; c++) m->line += *c == '\n';
    char *nl = strchr(close, '\n');
    m->line++;
    return nl ? nl + 1 : NULL;
}

static void check_modelfile(struct lint *l) {
    size_t len;
    char *text = lint_text(l, "Modelfile", &len);
    struct modelfile m = {.l = l};
    if (!text) return;
    for (char *line = text, *next; line && *line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        m.line++;
        char *s = line + strspn(line, " \t");
        size_t n = strlen(s);
        while (n && strchr(" \t\r", s[n - 1])) s[--n] = 0;
        if (!*s || *s == '#') continue;
        next = skip_block(&m, s, next);
        check_command(&m, s);
    }
    if (!m.has_from) lint_add(l, true, "modelfile-from", "Modelfile", "there is no FROM");
    free(text);
}

/* ---- JSON and YAML --------------------------------------------------------------------------- */

/* Parses a JSON file of the folder and reports faults; NULL: missing or malformed. */
static struct json *read_json(struct lint *l, const char *name) {
    size_t len;
    struct json *root = NULL;
    struct err e;
    char *text = lint_text(l, name, &len);
    if (text && json_parse(&root, text, len, name, &e)) {
        lint_add(l, true, "json-broken", name, "%s", e.msg);
        root = NULL;
    }
    if (text) {
        const char *path = lint_local_path(text, len);
        if (path) lint_add(l, true, "json-local-path", name, "contains a local path: %.60s", path);
    }
    free(text);
    return root;
}

/* Reports the faults of the file "params". */
static void check_params(struct lint *l) {
    struct json *root = read_json(l, "params");
    if (root && json_type(root) != JSON_OBJ)
        lint_add(l, true, "params-form", "params", "it is not a JSON object");
    for (const struct json *m = json_first(root); m && json_type(root) == JSON_OBJ;
         m = json_next(m)) {
        const char *name = json_name(m);
        bool stop = strcmp(name, "stop") == 0, flag = strcmp(name, "use_mmap") == 0;
        enum json_type want = stop ? JSON_ARR : flag ? JSON_BOOL : JSON_NUM;
        if (!is_among(name, ollama_params))
            lint_add(l, true, "params-key", "params", "%.60s is not an Ollama parameter", name);
        else if (json_type(m) != want)
            lint_add(l, true, "params-value", "params", "the value of %s has the wrong type", name);
    }
    json_free(root);
}

/* Returns whether a line begins with the key. */
static bool has_line(const char *text, const char *key) {
    size_t n = strlen(key);
    for (const char *p = text; p; p = strchr(p, '\n'), p = p ? p + 1 : NULL)
        if (strncmp(p, key, n) == 0) return true;
    return false;
}

/* Reports the faults of model.yaml. */
static void check_yaml(struct lint *l) {
    size_t len;
    char *text = lint_text(l, "model.yaml", &len);
    if (!text) return;
    if (!has_line(text, "model:") || !has_line(text, "base:"))
        lint_add(l, true, "model-yaml-keys", "model.yaml", "model: and base: are needed");
    if (strchr(text, '\t'))
        lint_add(l, true, "model-yaml-tab", "model.yaml", "YAML does not allow tabs");
    if (strstr(text, "user: \"local\""))
        lint_add(l, false, "model-yaml-local", "model.yaml",
                 "names no Hub repository: publish with --repo USER/NAME");
    const char *path = lint_local_path(text, len);
    if (path)
        lint_add(l, true, "model-yaml-path", "model.yaml", "contains a local path: %.60s", path);
    free(text);
}

void lint_ollama(struct lint *l) {
    static const char *const others[] = {"config.json", "generation_config.json", "results.json"};
    check_modelfile(l);
    check_params(l);
    check_yaml(l);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) json_free(read_json(l, others[i]));
}
