// SPDX-License-Identifier: MIT
/* serve/ask.c - table-driven reader of request fields, and copying of their values. */
#include "serve/ask.h"
#include "serve/images.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

int fault_set(struct fault *f, int status, const char *code, const char *param, const char *fmt,
              ...) {
    char text[560];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    *f = (struct fault){.status = status, .code = code};
    snprintf(f->param, sizeof f->param, "%s", param ? param : "");
    snprintf(f->msg, sizeof f->msg, "%.199s%s%s", f->param, *f->param ? ": " : "", text);
    return status;
}

void ask_init(struct ask *a, const struct sample_opts *sample, int64_t seed, int64_t n_max) {
    memset(a, 0, sizeof *a);
    a->sample = *sample;
    a->seed = seed;
    a->n_max = n_max;
    a->n_think = -1;
    a->n = 1;
    a->top = -1;
}

void ask_release(struct ask *a) {
    free(a->model);
    free(a->conv);
    images_release(a);
    free(a->tools);
    free(a->form_text);
    free(a->only_tool);
    free(a->allowed);
    free(a->think_last);
    free(a->cut);
    buf_release(&a->kwargs);
    for (int i = 0; i < a->n_prompts; i++) {
        free(a->prompt[i].text);
        ids_release(&a->prompt[i].ids);
    }
    for (int i = 0; i < a->n_stop; i++) free(a->stop[i]);
    free(a->bias);
    buf_release(&a->custom);
    buf_release(&a->schemas);
    buf_release(&a->spaces);
    buf_release(&a->repeat);
    buf_release(&a->ignored);
    buf_release(&a->warned);
    memset(a, 0, sizeof *a);
}

void ask_mark(struct ask *a, int message, const struct json *v) {
    const char *type = json_str(json_get(v, "type")), *ttl = json_str(json_get(v, "ttl"));
    const bool hour = ttl && strcmp(ttl, "1h") == 0;
    if (!type || strcmp(type, "ephemeral") != 0) return;
    const bool again = a->n_marks && a->mark[a->n_marks - 1].message == message;
    if (!again && a->n_marks == ASK_MARKS)
        memmove(a->mark, a->mark + 1, (size_t)--a->n_marks * sizeof *a->mark);
    if (!again) a->mark[a->n_marks++].hour = false;
    a->mark[a->n_marks - 1].message = message;
    a->mark[a->n_marks - 1].hour |= hour;
}

void ask_warn(struct ask *a, const char *what) {
    enum { MOST = 1000 }; /* bytes; the list is searched each time */
    if (a->warned.len > MOST || (a->warned.data && strstr(a->warned.data, what))) return;
    buf_fmt(&a->warned, "%s%.40s", a->warned.len ? ", " : "", what);
}

void ask_drop_stops(struct ask *a, int n) {
    for (int i = 0; i < n; i++) free(a->stop[i]);
    a->n_stop -= n;
    memmove(a->stop, a->stop + n, (size_t)a->n_stop * sizeof *a->stop);
}

void ask_switch(struct ask *a, bool on) {
    a->think = on ? ASK_THINK_ON : ASK_THINK_OFF;
    a->think_said = true;
}

void ask_kwarg(struct ask *a, const char *name, const char *text) {
    if (a->kwargs.len) buf_str(&a->kwargs, ", ");
    json_quote(&a->kwargs, name, strlen(name));
    buf_fmt(&a->kwargs, ": %s", text);
}

void ask_note_schemas(struct ask *a, const struct json *body) {
    const char *const list = ask_get(body, "tools") ? "tools" : "functions";
    int i = 0;
    for (const struct json *t = json_first(json_get(body, list)); t; t = json_next(t), i++) {
        const struct json *f = ask_get(t, "function"), *d = f ? f : t;
        const char *name = json_str(json_get(d, "name"));
        if (name)
            buf_fmt(&a->schemas, "%s %s[%d]%s.%s\n", name, list, i, f ? ".function" : "",
                    ask_get(d, "input_schema") ? "input_schema" : "parameters");
    }
}

/* ---- fields ---- */

/* Reads a number into the member of a that r describes, and checks its range. */
static int read_number(struct ask *a, const struct field *r, const struct json *v, const char *path,
                       struct fault *f) {
    char *at = (char *)a + r->at;
    const double x = json_num(v, (double)NAN);
    int64_t i = 0;
    if (json_type(v) != JSON_NUM) return fault_set(f, 400, NULL, path, "must be a number");
    if (r->kind != F_REAL && !json_i64(v, &i))
        return fault_set(f, 400, NULL, path, "must be an integer");
    if (!(x >= r->least && x <= r->most))
        return fault_set(f, 400, NULL, path, "%.17g is not between %.17g and %.17g", x, r->least,
                         r->most);
    if (r->kind == F_REAL)
        memcpy(at, &(float){(float)x}, sizeof(float));
    else if (r->kind == F_COUNT)
        memcpy(at, &(int32_t){(int32_t)i}, sizeof(int32_t));
    else
        memcpy(at, &i, sizeof i);
    return 0;
}

bool msg_is(const struct json *m, const char *role) {
    const char *r = json_str(json_get(m, "role"));
    return r && strcmp(r, role) == 0;
}

const char *msg_text(const struct json *m) {
    const char *s = json_str(json_get(m, "content"));
    return s ? s : "";
}

bool ask_is_empty(const struct json *v) {
    return (json_str(v) && !*json_str(v)) || (json_type(v) == JSON_ARR && !json_first(v));
}

/* Reads a value by the kind of its field; returns 0 or the fault's HTTP status. */
static int read_field(struct ask *a, const struct field *r, const struct json *v, const char *path,
                      struct fault *f) {
    bool flag;
    switch (r->kind) {
    case F_BOOL:
        if (json_type(v) != JSON_BOOL)
            return fault_set(f, 400, NULL, path, "must be true or false");
        flag = json_bool(v, false);
        memcpy((char *)a + r->at, &flag, sizeof flag);
        return 0;
    case F_READ:
        return r->read(a, v, path, f);
    case F_LEFT:
        return 0;
    case F_NEUTRAL:
        if (json_type(v) == JSON_NUM && !(fabs(json_num(v, 0) - r->least) > 0)) return 0;
        if (json_type(v) == JSON_BOOL && !json_bool(v, true)) return 0;
        return fault_set(f, 400, NULL, path, "this sampling method is not supported");
    case F_REFUSED: /* some clients send an empty value instead of none */
        if (ask_is_empty(v)) return 0;
        return fault_set(f, 400, NULL, path, "%s", r->why);
    case F_INT:
    case F_COUNT:
    case F_REAL:
    default:
        return read_number(a, r, v, path, f);
    }
}

int fields_read(struct ask *a, const struct json *obj, const char *prefix,
                const struct field *const *table, const int *n, int n_tables, struct fault *f) {
    for (const struct json *v = json_first(obj); v; v = json_next(v)) {
        const struct field *r = NULL;
        char path[256];
        for (int t = 0; t < n_tables && !r; t++)
            for (int i = 0; i < n[t] && !r; i++)
                if (strcmp(table[t][i].name, json_name(v)) == 0) r = &table[t][i];
        snprintf(path, sizeof path, "%s%.120s", prefix, json_name(v));
        if (!r) buf_fmt(&a->ignored, "%s%s", a->ignored.len ? ", " : "", path);
        if (!r || json_type(v) == JSON_NULL) continue;
        TRY(read_field(a, r, v, path, f));
    }
    return 0;
}

int ask_read_stop(struct ask *a, const struct json *v, const char *path, struct fault *f) {
    const bool list = json_type(v) == JSON_ARR;
    if (!list && !json_str(v))
        return fault_set(f, 400, NULL, path, "must be a string or a list of strings");
    for (const struct json *s = list ? json_first(v) : v; s; s = list ? json_next(s) : NULL) {
        const char *text = json_str(s);
        const size_t len = text ? strlen(text) : 0;
        if (text && !len) continue; /* some clients send "" for none */
        if (!text || len > 256)
            return fault_set(f, 400, NULL, path, "must be strings of at most 256 bytes");
        if (a->n_stop == ASK_STOPS)
            return fault_set(f, 400, NULL, path, "at most %d strings are allowed", ASK_STOPS);
        a->stop[a->n_stop++] = xstrdup(text);
    }
    return 0;
}

int ask_read_kwargs(struct ask *a, const struct json *v, const char *path, struct fault *f) {
    if (json_type(v) != JSON_OBJ) return fault_set(f, 400, NULL, path, "must be an object");
    for (const struct json *m = json_first(v); m; m = json_next(m)) {
        struct buf text = {0};
        if (strcmp(json_name(m), "enable_thinking") == 0 && json_type(m) == JSON_BOOL) {
            ask_switch(a, json_bool(m, true));
            continue;
        }
        json_write(&text, m);
        ask_kwarg(a, json_name(m), text.data);
        buf_release(&text);
    }
    return 0;
}

int ask_read_effort(struct ask *a, const struct json *v, const char *path, struct fault *f) {
    struct buf text = {0};
    const char *s = json_str(v);
    if (!s) return fault_set(f, 400, NULL, path, "must be a string");
    if (!*s || strcmp(s, "default") == 0) return 0;
    const bool none = strcmp(s, "none") == 0;
    if (!a->think_said) a->think = none ? ASK_THINK_OFF : ASK_THINK_ON;
    if (none) return 0;
    json_quote(&text, s, strlen(s));
    ask_kwarg(a, "reasoning_effort", text.data);
    ask_kwarg(a, "reasoning_strength", text.data); /* its name in Muse Glimmer's template */
    buf_release(&text);
    return 0;
}

int ask_read_model(struct ask *a, const struct json *v, const char *path, struct fault *f) {
    const char *s = json_str(v);
    if (!s) return fault_set(f, 400, NULL, path, "must be a string");
    free(a->model);
    a->model = xstrdup(s);
    return 0;
}

int ask_must_call(struct ask *a, const struct json *name, const char *path, struct fault *f) {
    if (name && !json_str(name)) return fault_set(f, 400, NULL, path, "must be the name of a tool");
    a->must_call = true;
    free(a->only_tool);
    a->only_tool = name ? xstrdup(json_str(name)) : NULL;
    return 0;
}

int ask_read_allowed(struct ask *a, const struct json *v, const char *path, struct fault *f) {
    const struct json *tools = json_get(v, "tools");
    const char *mode = json_str(json_get(v, "mode"));
    struct buf names = {0};
    if (!mode || (strcmp(mode, "auto") != 0 && strcmp(mode, "required") != 0))
        return fault_set(f, 400, NULL, path, "mode: must be auto or required");
    for (const struct json *t = json_first(tools); t; t = json_next(t)) {
        const struct json *fn = ask_either(t, "function", "custom");
        const char *name = json_str(json_get(fn ? fn : t, "name"));
        if (!name) {
            buf_release(&names);
            return fault_set(f, 400, NULL, path, "tools: must be functions with names");
        }
        buf_str(&names, names.len ? ", " : "[");
        json_quote(&names, name, strlen(name));
    }
    if (!names.len) return fault_set(f, 400, NULL, path, "tools: must be a list of tools");
    buf_chr(&names, ']');
    free(a->allowed);
    a->allowed = buf_take(&names);
    if (strcmp(mode, "required") == 0) a->must_call = true;
    return 0;
}

/* Reads {"ID": NUMBER, ...} or [[ID, NUMBER], ...]. */
static int read_bias(struct ask *a, const struct json *v, const char *path, struct fault *f) {
    const bool pairs = json_type(v) == JSON_ARR;
    if (ask_is_empty(v)) return 0;
    if (!pairs && json_type(v) != JSON_OBJ)
        return fault_set(f, 400, NULL, path, "must be an object");
    for (const struct json *m = json_first(v); m; m = json_next(m)) {
        char *end = NULL;
        const struct json *first = pairs ? json_first(m) : NULL;
        const char *name = pairs ? json_num_text(first) : json_name(m);
        const long id = strtol(name ? name : "", &end, 10);
        const double by = json_num(pairs ? json_next(first) : m, (double)NAN);
        if (!name || !*name || *end || id < 0 || id > INT32_MAX || !(by >= -100 && by <= 100))
            return fault_set(f, 400, NULL, path,
                             "'%.40s': must be a token id and a number from -100 to 100",
                             name ? name : "");
        if (a->n_bias == ASK_BIASES)
            return fault_set(f, 400, NULL, path, "at most %d ids are allowed", ASK_BIASES);
        a->bias = xreallocarray(a->bias, (size_t)a->n_bias + 1, sizeof *a->bias);
        a->bias[a->n_bias].id = (int32_t)id;
        a->bias[a->n_bias++].by = by <= -100 ? -HUGE_VALF : (float)by;
    }
    return 0;
}

enum { SEED_BITS = 53 }; /* seeds that every JSON parser reads exactly */
#define SEED_MASK ((INT64_C(1) << SEED_BITS) - 1)
int ask_read_seed(struct ask *a, const struct json *v, const char *path, struct fault *f) {
    if (!json_i64(v, &a->seed)) {
        if (!json_is_int(v)) return fault_set(f, 400, NULL, path, "must be an integer");
        const char *text = json_num_text(v); /* some clients use all 64 bits */
        a->seed = (int64_t)(strtoull(text + (*text == '-'), NULL, 10) & SEED_MASK);
    }
    if (a->seed < -1) a->seed &= SEED_MASK;
    return 0;
}

int ask_read_last_n(struct ask *a, const struct json *v, const char *path, struct fault *f) {
    int64_t n;
    if (!json_i64(v, &n) || n < -1 || n > INT32_MAX)
        return fault_set(f, 400, NULL, path, "must be a number of tokens, or -1 for all");
    a->sample.repeat_last_n = n < 0 ? INT32_MAX : (int32_t)n;
    return 0;
}

/* Reads `reasoning` as routers such as OpenRouter send it: {"effort", "max_tokens", "enabled"}. */
static int read_reasoning(struct ask *a, const struct json *v, const char *path, struct fault *f) {
    const struct json *effort = ask_get(v, "effort"), *on = ask_get(v, "enabled"),
                      *most = ask_get(v, "max_tokens");
    if (json_type(v) != JSON_OBJ) return fault_set(f, 400, NULL, path, "must be an object");
    if (on && json_type(on) != JSON_BOOL)
        return fault_set(f, 400, NULL, "reasoning.enabled", "must be true or false");
    if (on) ask_switch(a, json_bool(on, true));
    if (most && !json_i64(most, &a->n_think))
        return fault_set(f, 400, NULL, "reasoning.max_tokens", "must be a number of tokens");
    return effort ? ask_read_effort(a, effort, "reasoning.effort", f) : 0;
}

/* Reads whether reasoning is enabled. */
static int read_enable(struct ask *a, const struct json *v, const char *path, struct fault *f) {
    if (json_type(v) != JSON_BOOL) return fault_set(f, 400, NULL, path, "must be true or false");
    ask_switch(a, json_bool(v, true));
    return 0;
}

int ask_read_thinking(struct ask *a, const struct json *v, const char *path, struct fault *f) {
    const char *type = json_str(json_get(v, "type")), *show = json_str(json_get(v, "display"));
    if (json_type(v) == JSON_BOOL) return read_enable(a, v, path, f);
    if (!type) return fault_set(f, 400, NULL, path, "must be an object with a type");
    if (strcmp(type, "enabled") == 0 || strcmp(type, "disabled") == 0)
        ask_switch(a, strcmp(type, "enabled") == 0);
    else if (strcmp(type, "adaptive") != 0 && strcmp(type, "auto") != 0)
        return fault_set(f, 400, NULL, path, "'%.40s' is not one of enabled, disabled, adaptive",
                         type);
    const struct json *budget = json_get(v, "budget_tokens");
    if (json_type(budget) != JSON_NULL && (!json_i64(budget, &a->n_think) || a->n_think < 1))
        return fault_set(f, 400, NULL, "thinking.budget_tokens", "must be a number of tokens");
    a->hide_thinking = show && strcmp(show, "omitted") == 0;
    return 0;
}

/* Reads whether the prefix cache may be used. */
static int read_cache(struct ask *a, const struct json *v, const char *path, struct fault *f) {
    if (json_type(v) != JSON_BOOL) return fault_set(f, 400, NULL, path, "must be true or false");
    a->no_cache = !json_bool(v, true);
    return 0;
}

/* Reads whether texts of earlier answers may be restored in the prompt. */
static int read_restore(struct ask *a, const struct json *v, const char *path, struct fault *f) {
    if (json_type(v) != JSON_BOOL) return fault_set(f, 400, NULL, path, "must be true or false");
    a->exact = !json_bool(v, true);
    return 0;
}

int ask_read_top(struct ask *a, const struct json *v, const char *path, struct fault *f) {
    int64_t n;
    if (!json_i64(v, &n) || n < 0 || n > ASK_TOP)
        return fault_set(f, 400, NULL, path, "must be a number from 0 to %d", ASK_TOP);
    if (a->top >= 0 || n > 0) a->top = (int)n;
    return 0;
}

int ask_read_n(struct ask *a, const struct json *v, const char *path, struct fault *f) {
    int64_t n;
    if (!json_i64(v, &n) || n < 1 || n > ASK_CHOICES)
        return fault_set(f, 400, NULL, path, "must be a number from 1 to %d", ASK_CHOICES);
    a->n = (int)n;
    return 0;
}
int ask_read_usage(struct ask *a, const struct json *v, const char *path, struct fault *f) {
    if (json_type(v) != JSON_OBJ) return fault_set(f, 400, NULL, path, "must be an object");
    a->usage = json_bool(json_get(v, "include_usage"), false);
    return 0;
}

/* Sets the form of the answer; v is a schema, a pattern, a grammar or a list of choices. */
int ask_form(struct ask *a, enum ask_form form, const struct json *v, const char *path,
             struct fault *f) {
    static const char *const paths[] = {"response_format",
                                        "json_schema",
                                        "structured_outputs",
                                        "guided_json",
                                        "guided_regex",
                                        "guided_choice",
                                        "grammar",
                                        "guided_grammar",
                                        "format",
                                        "text.format",
                                        "output_config.format",
                                        "output_format",
                                        "regex",
                                        "ebnf"};
    struct buf b = {0};
    if (json_str(v) && !*json_str(v)) return 0; /* some clients send "" for none */
    if (a->form != FORM_FREE && form != FORM_FREE)
        return fault_set(f, 400, NULL, path,
                         "the request already sets another form for the answer");
    a->form = form;
    a->form_path = "response_format";
    for (size_t i = 0; i < COUNT_OF(paths); i++)
        if (strcmp(paths[i], path) == 0) a->form_path = paths[i];
    if (form == FORM_FREE || form == FORM_OBJECT) return 0;
    if (form == FORM_REGEX && !json_str(v))
        return fault_set(f, 400, NULL, path, "must be a pattern");
    if (form == FORM_GRAMMAR && !json_str(v))
        return fault_set(f, 400, NULL, path, "must be the text of a grammar");
    if (form == FORM_CHOICE && json_type(v) != JSON_ARR)
        return fault_set(f, 400, NULL, path, "must be a list of strings");
    if (form == FORM_SCHEMA && json_type(v) != JSON_OBJ && json_type(v) != JSON_BOOL &&
        !json_str(v))
        return fault_set(f, 400, NULL, path, "must be a schema");
    if (json_str(v)) /* a pattern, a grammar, or a schema as text */
        buf_str(&b, json_str(v));
    else
        json_write(&b, v);
    a->form_text = buf_take(&b);
    return 0;
}

int ask_read_format(struct ask *a, const struct json *v, const char *path, struct fault *f) {
    const char *type = json_str(json_get(v, "type"));
    const struct json *inner = ask_get(v, "json_schema");
    if (type && strcmp(type, "text") == 0) return 0;
    if (type && strcmp(type, "json_object") == 0) {
        const struct json *schema = json_get(v, "schema");
        const bool free = json_type(schema) == JSON_NULL;
        return ask_form(a, free ? FORM_OBJECT : FORM_SCHEMA, free ? NULL : schema, path, f);
    }
    /* Types that other servers define, each with a member of its own for the form. */
    if (type && strcmp(type, "json") == 0 && ask_get(v, "value"))
        return ask_form(a, FORM_SCHEMA, json_get(v, "value"), path, f);
    if (type && strcmp(type, "regex") == 0)
        return ask_form(a, FORM_REGEX, ask_either(v, "value", "pattern"), path, f);
    if (type && strcmp(type, "grammar") == 0)
        return ask_form(a, FORM_GRAMMAR, json_get(v, "grammar"), path, f);
    if (!type || strcmp(type, "json_schema") != 0)
        return fault_set(f, 400, NULL, path,
                         "type: must be text, json_object, json_schema, regex or grammar");
    if (!inner) inner = v;
    a->form_strict = json_bool(json_get(inner, "strict"), false);
    return ask_form(a, FORM_SCHEMA, json_get(inner, "schema"), path, f);
}

/* Reads a schema that the answer must satisfy. */
static int read_schema(struct ask *a, const struct json *v, const char *path, struct fault *f) {
    return ask_form(a, FORM_SCHEMA, v, path, f);
}
/* Reads a regular expression that the answer must match. */
static int read_regex(struct ask *a, const struct json *v, const char *path, struct fault *f) {
    return ask_form(a, FORM_REGEX, v, path, f);
}
/* Reads the list of allowed answers. */
static int read_choices(struct ask *a, const struct json *v, const char *path, struct fault *f) {
    return ask_form(a, FORM_CHOICE, v, path, f);
}
/* Reads a grammar that the answer must match. */
static int read_grammar(struct ask *a, const struct json *v, const char *path, struct fault *f) {
    return ask_form(a, FORM_GRAMMAR, v, path, f);
}
/* Reads `structured_outputs`, which holds one constraint on the answer. */
static int read_outputs(struct ask *a, const struct json *v, const char *path, struct fault *f) {
    static const struct {
        const char *name;
        enum ask_form form;
    } rows[] = {{"json", FORM_SCHEMA},
                {"regex", FORM_REGEX},
                {"choice", FORM_CHOICE},
                {"grammar", FORM_GRAMMAR}};
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (json_type(json_get(v, rows[i].name)) != JSON_NULL)
            return ask_form(a, rows[i].form, json_get(v, rows[i].name), path, f);
    if (json_bool(json_get(v, "json_object"), false))
        return ask_form(a, FORM_OBJECT, NULL, path, f);
    return fault_set(f, 400, NULL, path,
                     "must have one of json, json_object, regex, choice, grammar");
}

const struct field ask_sampling[] = {
    {"temperature", FIELD(F_REAL, sample.temp, 0, 100)},
    {"top_p", FIELD(F_REAL, sample.top_p, 0, 1)},
    {"top_k", FIELD(F_COUNT, sample.top_k, -1, INT32_MAX)}, /* below 1: all */
    {"min_p", FIELD(F_REAL, sample.min_p, 0, 1)},
    {"presence_penalty", FIELD(F_REAL, sample.presence_penalty, -2, 2)},
    {"frequency_penalty", FIELD(F_REAL, sample.frequency_penalty, -2, 2)},
    {"repeat_penalty", FIELD(F_REAL, sample.repeat_penalty, 0.01, 100)},
    {"repetition_penalty", FIELD(F_REAL, sample.repeat_penalty, 0.01, 100)},
    {"repeat_last_n", FIELD_BY(ask_read_last_n)},
    {"seed", FIELD_BY(ask_read_seed)},
    {"logit_bias", FIELD_BY(read_bias)},
    {"ignore_eos", FIELD(F_BOOL, ignore_eos, 0, 0)},
    {"cache_prompt", FIELD_BY(read_cache)},
    {"restore", FIELD_BY(read_restore)},
    {"reasoning", FIELD_BY(read_reasoning)},
    {"enable_thinking", FIELD_BY(read_enable)},
    {"thinking", FIELD_BY(ask_read_thinking)},
    {"typical_p", FIELD_NEUTRAL(1)},
    {"mirostat", FIELD_NEUTRAL(0)},
    {"dry_multiplier", FIELD_NEUTRAL(0)},
    {"xtc_probability", FIELD_NEUTRAL(0)},
    {"grammar", FIELD_BY(read_grammar)},
    {"json_schema", FIELD_BY(read_schema)},
    {"structured_outputs", FIELD_BY(read_outputs)},
    {"guided_json", FIELD_BY(read_schema)},
    {"guided_regex", FIELD_BY(read_regex)},
    {"guided_choice", FIELD_BY(read_choices)},
    {"guided_grammar", FIELD_BY(read_grammar)},
    {"regex", FIELD_BY(read_regex)},
    {"ebnf", FIELD_BY(read_grammar)},
};
const int ask_n_sampling = (int)COUNT_OF(ask_sampling);

/* ---- values of a request ---- */

const struct json *ask_get(const struct json *obj, const char *name) {
    const struct json *v = json_get(obj, name);
    return json_type(v) == JSON_NULL ? NULL : v;
}

const struct json *ask_either(const struct json *obj, const char *name, const char *other) {
    const struct json *v = ask_get(obj, name);
    return v ? v : ask_get(obj, other);
}

char *ask_json(const struct json *v) {
    struct buf b = {0};
    json_write_spaced(&b, v);
    return buf_take(&b);
}

void ask_put(struct jw *w, const char *name, const struct json *v) {
    struct buf b = {0}; /* jw_copy has a depth limit */
    json_write(&b, v);
    jw_raw(w, name, b.data);
    buf_release(&b);
}

void ask_copy(struct jw *w, const char *name, const struct json *obj, const char *as) {
    const struct json *v = json_get(obj, name);
    if (json_type(v) != JSON_NULL) ask_put(w, as, v);
}
