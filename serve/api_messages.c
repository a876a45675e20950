// SPDX-License-Identifier: MIT
/* serve/api_messages.c - reader of POST /v1/messages (Anthropic's API). Answers are written by
 * api_messages_out.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "chat/images.h"
#include "serve/images.h"
#include "serve/messages.h"
#include "serve/places.h"

/* ---- texts ---- */

/* Returns whether s is the billing line that some clients put into the system prompt. It differs
 * with each request and would defeat the prefix cache, so it is dropped. */
static bool is_billing(const char *s) {
    static const char head[] = "x-anthropic-billing-header:";
    return strncmp(s, head, sizeof head - 1) == 0;
}

/* Appends the text of a document block (source: a string or a list of blocks) or a search_result
 * block (a list of blocks). Returns false if b is neither. */
static bool document_text(const struct json *b, struct buf *out) {
    const struct json *source = json_get(b, "source"), *list = json_get(source, "content");
    const char *kind = json_str(json_get(b, "type")), *type = json_str(json_get(source, "type")),
               *data = json_str(json_get(source, "data"));
    const size_t before = out->len;
    const bool found = kind && strcmp(kind, "search_result") == 0;
    if (!found && (!kind || strcmp(kind, "document") != 0)) return false;
    if (type && strcmp(type, "text") == 0 && data) {
        buf_str(out, data);
        return true;
    }
    if (found) list = json_get(b, "content");
    if (!found && (!type || strcmp(type, "content") != 0)) return false;
    if (json_str(list)) buf_str(out, json_str(list));
    for (const struct json *x = json_first(list); x; x = json_next(x)) {
        const char *text = json_str(json_get(x, "text"));
        if (!text) return false;
        buf_fmt(out, "%s%s", out->len > before ? "\n" : "", text);
    }
    return json_str(list) || json_first(list);
}

/* Appends a string, or the texts of a list of blocks, separated by `sep`. in_result: the blocks are
 * a tool's result, in which a note replaces blocks that are not text. */
static int texts(struct ask *a, const struct json *v, const char *path, const char *sep,
                 bool in_result, struct buf *out, struct fault *f) {
    int i = 0;
    if (json_str(v)) {
        if (!is_billing(json_str(v))) buf_str(out, json_str(v));
        return 0;
    }
    if (json_type(v) == JSON_NULL) return 0;
    if (json_type(v) != JSON_ARR)
        return fault_set(f, 400, NULL, path, "must be a string or a list of blocks");
    for (const struct json *b = json_first(v); b; b = json_next(b), i++) {
        char at[200];
        const char *type = json_str(json_get(b, "type")), *text = json_str(json_get(b, "text"));
        snprintf(at, sizeof at, "%.150s[%d]", path, i);
        struct buf document = {0};
        if (document_text(b, &document)) {
            if (out->len) buf_str(out, sep);
            buf_add(out, document.data ? document.data : "", document.len);
            buf_release(&document);
            continue;
        }
        buf_release(&document);
        if (chat_image_is(b) && (a->sees || !in_result)) {
            TRY(images_read(a, b, at, out, f));
            continue;
        }
        if (type && strcmp(type, "text") != 0 && in_result) {
            if (out->len) buf_str(out, sep);
            buf_fmt(out, "[%.40s omitted]", type);
            ask_warn(a, "non-text blocks in tool results");
            continue;
        }
        if (!type || strcmp(type, "text") != 0) {
            return fault_set(f, 400, NULL, at, "blocks of type '%.40s' are not supported, only %s",
                             type ? type : "", images_kinds(a));
        }
        if (!text) return fault_set(f, 400, NULL, at, "must be a string");
        if (is_billing(text)) continue;
        if (out->len && !images_at_end(out)) buf_str(out, sep);
        buf_str(out, text);
    }
    return 0;
}

/* ---- messages ---- */

enum { MOST_CALLS = 1024 }; /* per turn */
struct turn {
    struct ask *a;
    struct jw *w;
    const struct json *last;      /* the previous message */
    const char *call[MOST_CALLS]; /* [n_calls] ids of the calls of the latest assistant turn */
    int n_calls;
    struct places calls;   /* these calls */
    struct places results; /* tool results of the current message */
    int n_put;             /* messages written */
    struct fault *f;
    int i;
};

/* Writes a message of the role with the text. */
static void put_text(struct turn *t, const char *role, const struct buf *text) {
    struct jw *w = t->w;
    t->n_put++;
    jw_obj(w, NULL);
    jw_str(w, "role", role);
    jw_strn(w, "content", text->data ? text->data : "", text->len);
    jw_end(w);
}

static bool is_assistant(const struct json *m) {
    const char *role = json_str(json_get(m, "role"));
    return role && strcmp(role, "assistant") == 0;
}

/* Writes the tool message of block k, with the name of the call it answers. */
static int put_tool_result(struct turn *t, const struct json *b, int k) {
    char path[100];
    struct buf text = {0};
    const char *id = json_str(json_get(b, "tool_use_id"));
    snprintf(path, sizeof path, "messages[%d].content[%d]", t->i, k);
    const struct placement *call = places_find(&t->calls, id, 0);
    if (!call)
        return fault_set(t->f, 400, NULL, path,
                         "unexpected `tool_use_id` found in `tool_result` blocks: %.60s. Each "
                         "`tool_result` block must have a corresponding `tool_use` block in the "
                         "previous message",
                         id ? id : "");
    char inside[120];
    snprintf(inside, sizeof inside, "%s.content", path);
    const int rc = texts(t->a, json_get(b, "content"), inside, "\n", true, &text, t->f);
    if (!rc) {
        t->n_put++;
        jw_obj(t->w, NULL);
        jw_str(t->w, "role", "tool");
        jw_str(t->w, "tool_call_id", id);
        jw_str(t->w, "name", json_str(json_get(call->item, "name")));
        jw_strn(t->w, "content", text.data ? text.data : "", text.len);
        jw_end(t->w);
    }
    buf_release(&text);
    return rc;
}

/* Sets and returns the fault for a second result of a call. */
static int second_result(struct turn *t, const struct placement *p) {
    char path[100];
    snprintf(path, sizeof path, "messages[%d].content[%d]", t->i, p->at);
    return fault_set(t->f, 400, NULL, path,
                     "each tool_use must have a single result. Found multiple `tool_result` "
                     "blocks with id: %.60s",
                     p->id);
}

/* Writes the tool results of a message in the order of the calls that they belong to, and adds
 * their number to *n. */
static int put_results(struct turn *t, const struct json *content, int *n) {
    int k = 0;
    places_clear(&t->results);
    for (const struct json *b = json_first(content); b; b = json_next(b), k++) {
        const char *type = json_str(json_get(b, "type"));
        if (type && strcmp(type, "tool_result") == 0)
            places_add(&t->results, json_str(json_get(b, "tool_use_id")), b, k);
    }
    for (int i = 0; i < t->n_calls; i++) {
        const struct placement *p = places_find(&t->results, t->call[i], 0),
                               *more = p ? places_find(&t->results, p->id, p->at + 1) : NULL;
        if (more) return second_result(t, more);
        if (p) TRY(put_tool_result(t, p->item, p->at));
        *n += p != NULL;
    }
    return 0;
}

/* Writes tool results, then the user's text. */
static int user_message(struct turn *t, const struct json *m) {
    const struct json *content = json_get(m, "content");
    struct buf text = {0};
    int n_results = 0, k = 0;
    char path[100];
    int rc = json_type(content) == JSON_ARR ? put_results(t, content, &n_results) : 0;
    if (json_str(content)) buf_str(&text, json_str(content));
    for (const struct json *b = json_type(content) == JSON_ARR ? json_first(content) : NULL;
         b && !rc; b = json_next(b), k++) {
        const char *type = json_str(json_get(b, "type")), *s = json_str(json_get(b, "text"));
        snprintf(path, sizeof path, "messages[%d].content[%d]", t->i, k);
        if (type && strcmp(type, "tool_result") == 0) {
            const char *id = json_str(json_get(b, "tool_use_id"));
            if (!places_find(&t->calls, id, 0)) rc = put_tool_result(t, b, k);
            continue;
        }
        if (chat_image_is(b)) {
            rc = images_read(t->a, b, path, &text, t->f);
            continue;
        }
        struct buf document = {0};
        const bool other = document_text(b, &document);
        if (other) s = document.data ? document.data : "";
        if (!type || (strcmp(type, "text") != 0 && !other) || !s)
            rc = fault_set(t->f, 400, NULL, path,
                           "blocks of type '%.40s' are not supported, only %s", type ? type : "",
                           images_kinds(t->a));
        else if (!is_billing(s))
            buf_fmt(&text, "%s%s", text.len && !images_at_end(&text) ? "\n" : "", s);
        buf_release(&document);
    }
    if (!rc && (text.len || !n_results)) put_text(t, "user", &text);
    buf_release(&text);
    return rc;
}

/* Returns whether a tool_use block has an id, a name, and an object or nothing as its input. */
static bool is_call(const struct json *b) {
    const struct json *input = ask_get(b, "input");
    return json_str(json_get(b, "name")) && json_str(json_get(b, "id")) &&
           (!input || json_type(input) == JSON_OBJ);
}

/* Writes a tool_use block as a tool call in OpenAI's format. */
static void put_call(struct jw *w, const struct json *b) {
    const struct json *input = json_get(b, "input");
    char *args = json_type(input) == JSON_NULL ? xstrdup("{}") : ask_json(input);
    jw_obj(w, NULL);
    jw_str(w, "id", json_str(json_get(b, "id")));
    jw_str(w, "type", "function");
    jw_obj(w, "function");
    jw_str(w, "name", json_str(json_get(b, "name")));
    jw_str(w, "arguments", args);
    jw_end(w);
    jw_end(w);
    free(args);
}

/* Returns whether this server produces blocks of this type in assistant messages. Blocks of other
 * types come from other servers, e.g. for tools that these ran, and are
 * dropped. */
static bool is_ours(const char *type) {
    return strcmp(type, "text") == 0 || strcmp(type, "tool_use") == 0 ||
           strcmp(type, "thinking") == 0;
}

/* Writes an assistant's message with its text, reasoning and calls. */
static int assistant_message(struct turn *t, const struct json *m) {
    const struct json *content = json_get(m, "content");
    struct buf text = {0}, thought = {0}, calls = {0};
    struct jw w;
    int k = 0, n_calls = 0, rc = 0;
    char path[100];
    jw_init(&w, &calls, false);
    jw_arr(&w, NULL);
    if (json_str(content)) buf_str(&text, json_str(content));
    for (const struct json *b = json_type(content) == JSON_ARR ? json_first(content) : NULL;
         b && !rc; b = json_next(b), k++) {
        const char *type = json_str(json_get(b, "type")), *s = json_str(json_get(b, "text")),
                   *thinking = json_str(json_get(b, "thinking"));
        snprintf(path, sizeof path, "messages[%d].content[%d]", t->i, k);
        if (type && strcmp(type, "text") == 0 && s) {
            buf_str(&text, s);
        } else if (chat_image_is(b)) {
            rc = images_read(t->a, b, path, &text, t->f);
        } else if (type && strcmp(type, "thinking") == 0 && thinking) {
            buf_str(&thought, thinking);
        } else if (type && strcmp(type, "tool_use") == 0 && is_call(b)) {
            put_call(&w, b);
            n_calls++;
            if (t->n_calls == MOST_CALLS) {
                rc = fault_set(t->f, 400, NULL, path, "more than %d calls in a turn", MOST_CALLS);
                break;
            }
            t->call[t->n_calls] = json_str(json_get(b, "id"));
            places_add(&t->calls, t->call[t->n_calls], b, t->n_calls);
            t->n_calls++;
        } else if (!type || is_ours(type)) {
            rc = fault_set(t->f, 400, NULL, path,
                           "this block of type '%.40s' is incomplete or of a wrong type",
                           type ? type : "");
        } else if (strcmp(type, "redacted_thinking") != 0) {
            ask_warn(t->a, type);
        }
    }
    jw_end(&w);
    if (!rc) {
        t->n_put++;
        jw_obj(t->w, NULL);
        jw_str(t->w, "role", "assistant");
        if (n_calls && !text.len)
            jw_null(t->w, "content");
        else
            jw_strn(t->w, "content", text.data ? text.data : "", text.len);
        if (thought.len) jw_strn(t->w, "reasoning_content", thought.data, thought.len);
        if (n_calls) jw_raw(t->w, "tool_calls", calls.data);
        jw_end(t->w);
    }
    buf_release(&text);
    buf_release(&thought);
    buf_release(&calls);
    return rc;
}

/* Writes one message in OpenAI's format; returns 0 or the fault's HTTP status. */
static int write_message(struct turn *t, const struct json *m) {
    const char *role = json_str(json_get(m, "role"));
    const struct json *content = json_get(m, "content");
    char path[64];
    snprintf(path, sizeof path, "messages[%d]", t->i);
    if (!role || (!json_str(content) && json_type(content) != JSON_ARR))
        return fault_set(t->f, 400, NULL, path, "role and content are required");
    if (strcmp(role, "assistant") == 0) {
        if (!t->last || !is_assistant(t->last)) {
            places_clear(&t->calls);
            t->n_calls = 0;
        }
        t->last = m;
        return assistant_message(t, m);
    }
    t->last = m;
    if (strcmp(role, "user") == 0) return user_message(t, m);
    if (strcmp(role, "system") != 0)
        return fault_set(t->f, 400, NULL, path, "role: must be user, assistant or system");
    struct buf text = {0};
    const int rc = texts(t->a, content, path, "\n\n", false, &text, t->f);
    if (!rc) put_text(t, "system", &text);
    buf_release(&text);
    return rc;
}

/* Checks the last message. If it is the assistant's, the answer continues it. */
static int check_last(struct ask *a, const struct json *last, struct fault *f) {
    const char *role = json_str(json_get(last, "role"));
    const struct json *c = json_get(last, "content"), *block = NULL;
    if (!role || strcmp(role, "assistant") != 0) return 0;
    for (const struct json *b = json_first(c); b; b = json_next(b)) block = b;
    const char *s = json_str(c) ? json_str(c) : json_str(json_get(block, "text"));
    if (!s || !*s)
        return fault_set(f, 400, NULL, "messages",
                         "the last message is the assistant's but has no text to continue");
    if (strchr(" \t\r\n", s[strlen(s) - 1]))
        return fault_set(f, 400, NULL, "messages",
                         "final assistant content cannot end with trailing whitespace");
    a->go_on = true;
    return 0;
}

/* ---- tools ---- */

/* Builds a->tools in OpenAI's format, which templates expect. Drops tools that the server itself
 * would have to run. */
static int put_tools(struct ask *a, const struct json *j, struct fault *f) {
    const struct json *tools = json_get(j, "tools");
    struct buf b = {0};
    struct jw w;
    int i = 0, n = 0;
    if (json_type(tools) == JSON_NULL) return 0;
    if (json_type(tools) != JSON_ARR)
        return fault_set(f, 400, NULL, "tools", "must be a list of tools");
    jw_init(&w, &b, false);
    jw_arr(&w, NULL);
    for (const struct json *t = json_first(tools); t; t = json_next(t), i++) {
        const char *type = json_str(json_get(t, "type")), *name = json_str(json_get(t, "name"));
        char path[64];
        if (type && strcmp(type, "custom") != 0 && strcmp(type, "function") != 0) {
            ask_warn(a, type);
            continue;
        }
        snprintf(path, sizeof path, "tools[%d]", i);
        const struct json *schema = ask_get(t, "input_schema");
        const char *wrong = type && strcmp(type, "function") == 0
                                ? "type 'function' is not of this API: a tool has no type, and a "
                                  "name, description and input_schema"
                            : !name ? "a name is required"
                            : schema && json_type(schema) != JSON_OBJ
                                ? "input_schema: must be an object"
                                : NULL;
        if (wrong) {
            buf_release(&b);
            return fault_set(f, 400, NULL, path, "%s", wrong);
        }
        jw_obj(&w, NULL);
        jw_str(&w, "type", "function");
        jw_obj(&w, "function");
        jw_str(&w, "name", name);
        ask_copy(&w, "description", t, "description");
        ask_copy(&w, "input_schema", t, "parameters");
        if (json_bool(json_get(t, "strict"), false)) jw_bool(&w, "strict", true);
        jw_end(&w);
        jw_end(&w);
        n++;
    }
    jw_end(&w);
    if (n) a->tools = buf_take(&b);
    buf_release(&b);
    return 0;
}

/* ---- fields ---- */

/* Reads whether tools must be called, and which; "disable_parallel_tool_use" allows one call
 * only. */
static int read_tool_choice(struct ask *a, const struct json *v, const char *path,
                            struct fault *f) {
    const char *type = json_str(json_get(v, "type"));
    if (!type) return fault_set(f, 400, NULL, path, "must be an object with a type");
    a->one_call = json_bool(json_get(v, "disable_parallel_tool_use"), false);
    if (strcmp(type, "none") == 0) a->no_calls = true;
    if (strcmp(type, "auto") == 0 || strcmp(type, "none") == 0) return 0;
    if (strcmp(type, "any") == 0) return ask_must_call(a, NULL, path, f);
    const struct json *name = ask_get(v, "name");
    if (strcmp(type, "tool") == 0 && name) return ask_must_call(a, name, path, f);
    return fault_set(f, 400, NULL, path, "the type must be auto, any or none, or tool with a name");
}
/* Reads the response format, from output_config or the older output_format. */
static int read_form(struct ask *a, const struct json *v, const char *path, struct fault *f) {
    TRY(ask_read_format(a, v, path, f));
    a->form_strict = true;
    return 0;
}
/* Reads the effort, which in this API does not switch thinking on or off, and the format of the
 * answer. */
static int read_output_config(struct ask *a, const struct json *v, const char *path,
                              struct fault *f) {
    const struct json *effort = json_get(v, "effort"), *format = json_get(v, "format");
    if (json_type(v) != JSON_OBJ) return fault_set(f, 400, NULL, path, "must be an object");
    if (json_type(format) != JSON_NULL) TRY(read_form(a, format, "output_config.format", f));
    const enum ask_think think = a->think;
    if (json_type(effort) != JSON_NULL) TRY(ask_read_effort(a, effort, "output_config.effort", f));
    a->think = think;
    return 0;
}
static const struct field fields[] = {
    {"model", FIELD_BY(ask_read_model)},
    {"max_tokens", FIELD(F_INT, n_max, 0, INT32_MAX)},
    {"messages", FIELD_LEFT},
    {"system", FIELD_LEFT},
    {"tools", FIELD_LEFT},
    {"stream", FIELD(F_BOOL, stream, 0, 0)},
    {"temperature", FIELD(F_REAL, sample.temp, 0, 1)},
    {"top_p", FIELD(F_REAL, sample.top_p, 0, 1)},
    {"top_k", FIELD(F_COUNT, sample.top_k, -1, INT32_MAX)},
    {"min_p", FIELD(F_REAL, sample.min_p, 0, 1)},
    {"seed", FIELD_BY(ask_read_seed)},
    {"stop_sequences", FIELD_BY(ask_read_stop)},
    {"thinking", FIELD_BY(ask_read_thinking)},
    {"tool_choice", FIELD_BY(read_tool_choice)},
    {"output_config", FIELD_BY(read_output_config)},
    {"output_format", FIELD_BY(read_form)},
    {"chat_template_kwargs", FIELD_BY(ask_read_kwargs)},
    {"metadata", FIELD_LEFT},
    {"service_tier", FIELD_LEFT},
    {"cache_control", FIELD_LEFT},
    {"context_management", FIELD_LEFT},
    {"diagnostics", FIELD_LEFT},
    {"betas", FIELD_LEFT},
    {"inference_geo", FIELD_LEFT},
    {"preset", FIELD_LEFT},
    {"container", FIELD_REFUSED("code execution is not supported")},
    {"mcp_servers", FIELD_REFUSED("MCP servers are not supported")},
};

/* Records the cache_control marks of a list of blocks or tools. message: the last message written,
 * to which they apply; -1: none yet. */
static void mark_blocks(struct turn *t, const struct json *list, int message) {
    for (const struct json *b = json_type(list) == JSON_ARR ? json_first(list) : NULL; b;
         b = json_next(b))
        ask_mark(t->a, message, json_get(b, "cache_control"));
}

/* Writes the system text, messages and tools as a conversation in OpenAI's format. Returns 0 or the
 * HTTP status in f. */
static int write_conv(struct ask *a, const struct json *j, struct buf *out, struct fault *f) {
    const struct json *list = json_get(j, "messages"), *last = NULL;
    struct buf system = {0};
    struct jw w;
    struct turn t = {.a = a, .w = &w, .f = f};
    jw_init(&w, out, false);
    jw_obj(&w, NULL);
    jw_arr(&w, "messages");
    int rc = texts(a, json_get(j, "system"), "system", "\n\n", false, &system, f);
    if (!rc && system.len) put_text(&t, "system", &system);
    buf_release(&system);
    mark_blocks(&t, json_get(j, "tools"), -1);
    mark_blocks(&t, json_get(j, "system"), -1);
    for (const struct json *m = json_first(list); m && !rc; m = json_next(m), t.i++) {
        rc = write_message(&t, m);
        mark_blocks(&t, json_get(m, "content"), t.n_put - 1);
        last = m;
    }
    ask_mark(a, t.n_put - 1, json_get(j, "cache_control")); /* applies to the last block */
    jw_end(&w);
    if (a->tools) jw_raw(&w, "tools", a->tools);
    jw_end(&w);
    places_release(&t.calls);
    places_release(&t.results);
    return rc ? rc : check_last(a, last, f);
}

int messages_read(struct ask *a, const struct json *j, struct fault *f) {
    static const struct field *const tables[] = {fields};
    const int sizes[] = {(int)COUNT_OF(fields)};
    struct buf out = {0};
    TRY(fields_read(a, j, "", tables, sizes, 1, f));
    if (json_type(json_get(j, "messages")) != JSON_ARR || !json_first(json_get(j, "messages")))
        return fault_set(f, 400, NULL, "messages", "at least one message is required");
    TRY(put_tools(a, j, f));
    const int rc = write_conv(a, j, &out, f);
    if (!rc) a->conv = buf_take(&out);
    buf_release(&out);
    return rc;
}

/* Reads a request, in which max_tokens is required; returns 0 or an HTTP status. */
static int messages_read_all(struct ask *a, const struct json *j, struct fault *f) {
    if (json_type(json_get(j, "max_tokens")) == JSON_NULL)
        return fault_set(f, 400, NULL, "max_tokens", "Field required");
    return messages_read(a, j, f);
}

const struct api api_messages = {
    .name = "messages",
    .id = "msg_",
    .call_id = "toolu_",
    .stream_type = "text/event-stream",
    .ping = "event: ping\ndata: {\"type\": \"ping\"}\n\n",
    .read = messages_read_all,
    .event = messages_event,
    .whole = messages_whole,
    .fail = messages_fail,
};
const struct api api_count = {
    .name = "count_tokens",
    .id = "msg_",
    .call_id = "toolu_",
    .read = messages_read,
    .fail = messages_fail,
};
