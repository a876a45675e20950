// SPDX-License-Identifier: MIT
/* tests/unit/test_serve_streams.c - an answer as a stream, put together again, is the answer as a
 * whole, byte for byte, in every API and however its text is cut: with calls as each template
 * writes them, in which a member comes twice. The templates are those of template/own and, where
 * the folder is there, ../shared/golden/templates/jinja. */
#include <dirent.h>

#include "base/attr.h"
#include "base/io.h"
#include "base/mem.h"
#include "serve/generic.h"
#include "serve/task.h"
#include "tests/check.h"

static struct err e;
static const struct sample_opts usual = {.temp = 1, .top_p = 1, .repeat_penalty = 1};

#define USER "QxUserSays"
#define SCHEMA                                                                                     \
    "{\"type\": \"object\", \"properties\": {\"aa\": {\"type\": \"string\"}, \"bb\": {\"type\": "  \
    "\"string\"}, \"oo\": {\"type\": \"object\", \"properties\": {\"xx\": {\"type\": "             \
    "\"string\"}, \"yy\": {\"type\": \"integer\"}}}, \"nn\": {\"type\": \"integer\"}, \"cc\": "    \
    "{\"type\": \"string\"}}, \"required\": [\"aa\", \"cc\"]}"

/* Arguments with and without a member; `from` is the member's value, `to` its value when
 * repeated. */
static const struct {
    const char *with, *without, *from, *to;
} repeats[] = {
    {"{\"aa\": \"alpha\", \"bb\": \"beta\", \"cc\": \"gamma\"}",
     "{\"aa\": \"alpha\", \"cc\": \"gamma\"}", "beta", "an\xc3\xb6ther"},
    {"{\"aa\": \"alpha\", \"bb\": \"\", \"cc\": \"gamma\"}", "{\"bb\": \"\", \"cc\": \"gamma\"}",
     "alpha", "x"},
    {"{\"aa\": \"alpha\", \"nn\": 12, \"cc\": \"gamma\"}", "{\"aa\": \"alpha\", \"cc\": \"gamma\"}",
     "12", "345"},
    {"{\"aa\": \"alpha\", \"oo\": {\"xx\": \"beta\", \"yy\": 1}, \"cc\": \"gamma\"}",
     "{\"aa\": \"alpha\", \"cc\": \"gamma\"}", "beta", "delta"},
    {"{\"oo\": {\"xx\": \"beta\", \"yy\": 7}, \"aa\": \"alpha\", \"cc\": \"gamma\"}",
     "{\"oo\": {\"xx\": \"beta\"}, \"aa\": \"alpha\", \"cc\": \"gamma\"}", "7", "89"},
};

/* ---- what a model writes ---- */

/* Renders an assistant turn with a call; returns the text after the user's message. */
static char *turn_of(const struct chat *c, const char *args) {
    struct buf conv = {0}, out = {0};
    struct err ignored;
    char *turn = NULL;
    buf_fmt(&conv,
            "{\"messages\": [{\"role\": \"user\", \"content\": \"" USER "\"}, {\"role\": "
            "\"assistant\", \"content\": \"\", \"tool_calls\": [{\"id\": \"call00001\", \"type\": "
            "\"function\", \"function\": {\"name\": \"write\", \"arguments\": %s}}]}], \"tools\": "
            "[{\"type\": \"function\", \"function\": {\"name\": \"write\", \"description\": \"d\", "
            "\"parameters\": " SCHEMA "}}]}",
            args);
    if (chat_render_text(c, conv.data, conv.len, NULL, false, &out, &ignored) == 0 && out.data) {
        const char *at = out.data;
        for (const char *hit = at; (hit = strstr(hit, USER)); hit++) at = hit + strlen(USER);
        turn = xstrdup(at);
    }
    buf_release(&conv);
    buf_release(&out);
    return turn;
}

/* Returns the text `with`, in which the part that `without` lacks is repeated with `to` in place of
 * `from`. NULL: the two also differ elsewhere. */
static char *doubled(const char *with, const char *without, const char *from, const char *to) {
    const size_t n = strlen(with), m = strlen(without);
    size_t head = 0, tail = 0;
    struct buf out = {0};
    if (n <= m) return NULL;
    while (head < m && with[head] == without[head]) head++;
    while (tail < m - head && with[n - 1 - tail] == without[m - 1 - tail]) tail++;
    if (head + tail != m) return NULL;
    char *part = xstrndup(with + head, n - m), *hit = strstr(part, from);
    if (hit) {
        buf_add(&out, with, head + n - m);
        buf_add(&out, part, (size_t)(hit - part));
        buf_fmt(&out, "%s%s%s", to, hit + strlen(from), with + head + n - m);
    }
    free(part);
    return out.data ? buf_take(&out) : NULL;
}

/* Removes the end of a turn, which a server never receives. */
static void end_turn(char *s) {
    static const char *const ends[] = {"<|im_end|>", "<|eot_id|>", "</s>",          "<EOS>",
                                       "<|end|>",    "<|return|>", "<end_of_turn>", "<turn|>",
                                       "<|eot|>",    "[EOS]"};
    for (size_t i = 0; i < COUNT_OF(ends); i++) {
        char *hit = strstr(s, ends[i]);
        if (hit && !strstr(hit, "gamma")) *hit = 0;
    }
}

/* ---- an answer of an API, in words that do not say how it came ---- */

struct told {
    struct buf thought, content, calls, end;
    struct buf problems; /* of reply_choice */
};
static void told_release(struct told *t) {
    buf_release(&t->thought);
    buf_release(&t->content);
    buf_release(&t->calls);
    buf_release(&t->end);
    buf_release(&t->problems);
}
static void add(struct buf *b, const struct json *text) {
    if (json_str(text)) buf_str(b, json_str(text));
}
static void add_value(struct buf *b, const struct json *v) {
    json_write_spaced(b, v);
}

static void chat_piece(struct told *t, const struct json *j, bool stream) {
    const struct json *c = json_first(json_get(j, "choices")),
                      *m = json_get(c, stream ? "delta" : "message");
    add(&t->thought, json_get(m, "reasoning_content"));
    add(&t->content, json_get(m, "content"));
    for (const struct json *k = json_first(json_get(m, "tool_calls")); k; k = json_next(k)) {
        const struct json *f = json_get(k, "function");
        if (json_get(f, "name")) buf_fmt(&t->calls, "\n%s ", json_str(json_get(f, "name")));
        add(&t->calls, json_get(f, "arguments"));
    }
    add(&t->end, json_get(c, "finish_reason"));
}

static void message_block(struct told *t, const struct json *b) {
    add(&t->thought, json_get(b, "thinking"));
    add(&t->content, json_get(b, "text"));
    if (json_get(b, "name")) buf_fmt(&t->calls, "\n%s ", json_str(json_get(b, "name")));
}

static void messages_piece(struct told *t, const struct json *j, bool stream) {
    if (stream) {
        const struct json *d = json_get(j, "delta");
        message_block(t, json_get(j, "content_block"));
        message_block(t, d);
        add(&t->calls, json_get(d, "partial_json"));
        add(&t->end, json_get(d, "stop_reason"));
        return;
    }
    for (const struct json *b = json_first(json_get(j, "content")); b; b = json_next(b)) {
        message_block(t, b);
        if (json_get(b, "input")) add_value(&t->calls, json_get(b, "input"));
    }
    add(&t->end, json_get(j, "stop_reason"));
}

static void response_item(struct told *t, const struct json *o, bool whole) {
    const char *type = json_str(json_get(o, "type"));
    struct buf *to = type && strcmp(type, "reasoning") == 0 ? &t->thought : &t->content;
    for (const struct json *p = json_first(json_get(o, "content")); p && whole; p = json_next(p))
        add(to, json_get(p, "text"));
    if (!type || strcmp(type, "function_call") != 0) return;
    buf_fmt(&t->calls, "\n%s ", json_str(json_get(o, "name")));
    if (whole) add(&t->calls, json_get(o, "arguments"));
}

static void responses_piece(struct told *t, const struct json *j, bool stream) {
    const char *type = json_str(json_get(j, "type"));
    const struct json *r = stream ? json_get(j, "response") : j;
    if (stream && type && strcmp(type, "response.output_item.added") == 0)
        response_item(t, json_get(j, "item"), false);
    if (stream && type && strcmp(type, "response.reasoning_text.delta") == 0)
        add(&t->thought, json_get(j, "delta"));
    if (stream && type && strcmp(type, "response.output_text.delta") == 0)
        add(&t->content, json_get(j, "delta"));
    if (stream && type && strcmp(type, "response.function_call_arguments.delta") == 0)
        add(&t->calls, json_get(j, "delta"));
    if (stream && !(type && (strcmp(type, "response.completed") == 0 ||
                             strcmp(type, "response.incomplete") == 0)))
        return;
    for (const struct json *o = json_first(json_get(r, "output")); o && !stream; o = json_next(o))
        response_item(t, o, true);
    add(&t->end, json_get(r, "status"));
}

static void ollama_piece(struct told *t, const struct json *j, bool stream) {
    const struct json *m = json_get(j, "message");
    (void)stream;
    add(&t->thought, json_get(m, "thinking"));
    add(&t->content, json_get(m, "content"));
    for (const struct json *k = json_first(json_get(m, "tool_calls")); k; k = json_next(k)) {
        buf_fmt(&t->calls, "\n%s ", json_str(json_get(json_get(k, "function"), "name")));
        add_value(&t->calls, json_get(json_get(k, "function"), "arguments"));
    }
    add(&t->end, json_get(j, "done_reason"));
}

#define FUNCTION                                                                                   \
    "{\"type\": \"function\", \"function\": {\"name\": \"write\", \"parameters\": " SCHEMA "}}"
#define SAYS "\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]"
static const struct way {
    const struct api *api;
    const char *body;
    void (*piece)(struct told *t, const struct json *j, bool stream);
} ways[] = {
    {&api_chat, SAYS ", \"tools\": [" FUNCTION "]", chat_piece},
    {&api_messages,
     "\"max_tokens\": 9, " SAYS ", \"tools\": [{\"name\": \"write\", \"input_schema\": " SCHEMA
     "}]",
     messages_piece},
    {&api_responses,
     "\"input\": \"x\", \"tools\": [{\"type\": \"function\", \"name\": \"write\", "
     "\"parameters\": " SCHEMA "}]",
     responses_piece},
    {&api_ollama_chat, SAYS ", \"tools\": [" FUNCTION "]", ollama_piece},
};

/* Parses a stream (events or JSON lines) or a whole answer. */
static void hear(const struct way *w, char *out, bool stream, struct told *t) {
    for (char *line = out, *end; line && *line; line = end ? end + 1 : NULL) {
        struct json *j = NULL;
        end = strchr(line, '\n');
        if (end) *end = 0;
        char *text = strncmp(line, "data: ", 6) == 0 ? line + 6 : *line == '{' ? line : NULL;
        if (!text || *text != '{') continue;
        if (json_parse(&j, text, strlen(text), "event", &e))
            CHECK_FAIL("%s: %s: %s", w->api->name, e.msg, text);
        else
            w->piece(t, j, stream);
        json_free(j);
    }
}

/* Request body in place of w->body, and the state of reasoning at the end of the prompt. */
static const char *offer;
static bool whole_calls, limited; /* parser_whole_calls; a limit ends the answer */
static enum tool_think think = TOOL_THINK_NONE;

/* Answers a request with a text in pieces of `step` bytes. */
static void answer(const struct way *w, const struct toolfmt *f, const char *text, size_t step,
                   bool stream, struct told *t) {
    const int32_t one[] = {1};
    const struct ids prompt = {(int32_t *)(uintptr_t)one, 1, 1};
    struct buf body = {0};
    struct json *j = NULL;
    struct fault fault = {0};
    struct ask a;
    const char *stop;
    const size_t n = strlen(text);
    buf_fmt(&body, "{\"stream\": %s, %s}", stream ? "true" : "false", offer ? offer : w->body);
    ask_init(&a, &usual, -1, -1);
    CHECK_OK(json_parse(&j, body.data, body.len, "body", &e));
    if (w->api->read(&a, j, &fault)) CHECK_FAIL("%s: %s", w->api->name, fault.msg);
    json_free(j);
    buf_release(&body);
    struct task *task = task_new(NULL, w->api, &a, &prompt, 1);
    task->reply.model = "m";
    task->fmt = f;
    CHECK_OK(parser_new(&task->run[0].speak, &task->ask, f, think, 0, task_event, task, &e));
    if (whole_calls) parser_whole_calls(task->run[0].speak);
    task_admit(task, 0);
    for (size_t at = 0; at < n; at += step)
        (void)parser_feed(task->run[0].speak, text + at, n - at < step ? n - at : step, &stop);
    const int calls =
        parser_end(task->run[0].speak, limited, &task->reply.choice[0].problems, &stop);
    buf_add(&t->problems, task->reply.choice[0].problems.data, task->reply.choice[0].problems.len);
    task_end_run(&task->run[0], calls ? END_CALLS : limited ? END_LENGTH : END_TURN, NULL);
    if (task->out.data) hear(w, task->out.data, stream, t);
    task_free(task);
}

static void same(const char *what, const char *part, const struct buf *a, const struct buf *b) {
    const char *s = a->data ? a->data : "", *w = b->data ? b->data : "";
    if (strcmp(s, w) != 0)
        CHECK_FAIL("%s: %s of the stream is '%s', of the whole '%s'", what, part, s, w);
}

/* Checks that streams in pieces of any size give the same as the whole answer. */
static void check_streams(const struct way *w, const char *name, const struct toolfmt *f,
                          const char *text, const struct told *whole) {
    static const size_t steps[] = {1, 3, 7, 64, SIZE_MAX / 2};
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        struct told t = {.end = {0}};
        char what[300];
        snprintf(what, sizeof what, "%.80s (%s), %s in steps of %zu", name, toolfmt_name(f),
                 w->api->name, steps[i]);
        answer(w, f, text, steps[i], true, &t);
        same(what, "thinking", &t.thought, &whole->thought);
        same(what, "content", &t.content, &whole->content);
        same(what, "calls", &t.calls, &whole->calls);
        same(what, "end", &t.end, &whole->end);
        same(what, "problems", &t.problems, &whole->problems);
        told_release(&t);
    }
}

static void check_text(const char *name, const struct toolfmt *f, const char *text) {
    for (size_t k = 0; k < COUNT_OF(ways); k++) {
        struct told whole = {.end = {0}};
        answer(&ways[k], f, text, strlen(text), false, &whole);
        if (!whole.calls.data || !strstr(whole.calls.data, "\"cc\": \"gamma\""))
            CHECK_FAIL("%s (%s), %s: no call with all that is required: '%s' of '%s'", name,
                       toolfmt_name(f), ways[k].api->name, whole.calls.data ? whole.calls.data : "",
                       text);
        if (!whole.problems.data || !strstr(whole.problems.data, "given twice"))
            CHECK_FAIL("%s (%s), %s: the repeated member is not named: '%s'", name, toolfmt_name(f),
                       ways[k].api->name, whole.problems.data ? whole.problems.data : "");
        check_streams(&ways[k], name, f, text, &whole);
        told_release(&whole);
    }
}

/* Writes members of an object as Python's keywords: aa="alpha", oo={"xx": "beta"}. */
static char *as_keywords(const char *object) {
    struct buf out = {0};
    int depth = 0;
    const size_t n = strlen(object);
    bool name = true; /* a name comes next */
    for (size_t i = 1; i + 1 < n; i++) {
        const char c = object[i];
        depth += c == '{' ? 1 : c == '}' ? -1 : 0;
        if (!depth && name && c == '"') continue;
        if (!depth && name && c == ':') {
            buf_chr(&out, '=');
            name = false;
            i++; /* a blank */
            continue;
        }
        if (!depth && c == ',') name = true;
        buf_chr(&out, c);
    }
    return buf_take(&out);
}

/* Tests calls in each format, for templates that render none although their models make calls. */
static bool check_format(const char *name, const struct toolfmt *f, size_t row) {
    static const char *const spelled[][3] = {
        {GENERIC_FORMAT, "<tool_call>\n{\"name\": \"write\", \"arguments\": ", "}\n</tool_call>"},
        {"granite-list", "<|tool_call|>[{\"name\": \"write\", \"arguments\": ", "}]"},
        {"python-list", "<|tool_call_start|>[write(", ")]<|tool_call_end|>"},
        {"command-r-action",
         "Action: ```json\n[{\"tool_name\": \"write\", \"parameters\": ", "}]\n```"},
        {"llama-json", "{\"name\": \"write\", \"parameters\": ", "}"},
        {"command-r-list",
         "<|START_ACTION|>[{\"tool_call_id\": \"0\", \"tool_name\": \"write\", \"parameters\": ",
         "}]<|END_ACTION|>"},
        {"deepseek-v31",
         ("<\xef\xbd\x9ctool\xe2\x96\x81"
          "calls\xe2\x96\x81"
          "begin\xef\xbd\x9c><\xef\xbd\x9ctool\xe2\x96\x81"
          "call\xe2\x96\x81"
          "begin\xef\xbd\x9c>write<\xef\xbd\x9ctool\xe2\x96\x81sep\xef\xbd\x9c>"),
         ("<\xef\xbd\x9ctool\xe2\x96\x81"
          "call\xe2\x96\x81"
          "end\xef\xbd\x9c><\xef\xbd\x9ctool\xe2\x96\x81"
          "calls\xe2\x96\x81"
          "end\xef\xbd\x9c>")},
        {"deepseek-v3",
         ("<\xef\xbd\x9ctool\xe2\x96\x81"
          "calls\xe2\x96\x81"
          "begin\xef\xbd\x9c><\xef\xbd\x9ctool\xe2\x96\x81"
          "call\xe2\x96\x81"
          "begin\xef\xbd\x9c>function<\xef\xbd\x9ctool\xe2\x96\x81sep\xef\xbd\x9c>write\n```"
          "json\n"),
         ("\n```<\xef\xbd\x9ctool\xe2\x96\x81"
          "call\xe2\x96\x81"
          "end\xef\xbd\x9c><\xef\xbd\x9ctool\xe2\x96\x81"
          "calls\xe2\x96\x81"
          "end\xef\xbd\x9c>")},
    };
    for (size_t i = 0; i < COUNT_OF(spelled); i++) {
        if (strcmp(spelled[i][0], toolfmt_name(f)) != 0) continue;
        char *args =
            doubled(repeats[row].with, repeats[row].without, repeats[row].from, repeats[row].to);
        struct buf text = {0};
        if (strcmp(spelled[i][0], "python-list") == 0) {
            char *object = args;
            args = as_keywords(object);
            free(object);
        }
        buf_fmt(&text, "%s%s%s", spelled[i][1], args, spelled[i][2]);
        check_text(name, f, text.data);
        buf_release(&text);
        free(args);
        return true;
    }
    return false;
}

/* Returns the number of texts tested with a template. */
static int check_template(const char *name, const char *src) {
    struct chat *c = NULL;
    int n = 0;
    if (chat_new(&c, src, name, "<BOS>", "<EOS>", &e)) {
        CHECK_FAIL("%s: %s", name, e.msg);
        return 0;
    }
    const struct toolfmt *f = toolfmt_detect(src, strlen(src));
    for (size_t i = 0; i < COUNT_OF(repeats); i++) {
        char *with = f ? turn_of(c, repeats[i].with) : NULL,
             *without = f ? turn_of(c, repeats[i].without) : NULL;
        char *text =
            with && without ? doubled(with, without, repeats[i].from, repeats[i].to) : NULL;
        if (text && strstr(text, "gamma")) {
            end_turn(text);
            check_text(name, f, text);
            n++;
        } else {
            const bool other = !f || !generic_shows_tools(c);
            n += check_format(name, other ? toolfmt_find(GENERIC_FORMAT) : f, i);
        }
        free(text);
        free(with);
        free(without);
    }
    chat_free(c);
    return n;
}

/* Returns the number of templates in a folder for which texts were tested; -1: no such folder. */
static int check_folder(const char *folder, int *n_texts) {
    DIR *d = opendir(folder);
    int n = 0;
    if (!d) return -1;
    for (struct dirent *x; (x = readdir(d));) {
        const size_t len = strlen(x->d_name);
        char path[600], *src = NULL;
        size_t n_src;
        if (len < 6 || strcmp(x->d_name + len - 6, ".jinja") != 0) continue;
        snprintf(path, sizeof path, "%s/%s", folder, x->d_name);
        CHECK_OK(io_read_file(&src, &n_src, path, 1 << 24, &e));
        const int tried = check_template(x->d_name, src);
        if (!tried) CHECK_FAIL("%s: no text could be made", x->d_name);
        *n_texts += tried;
        n += tried > 0;
        free(src);
    }
    closedir(d);
    return n;
}

static void test_own(void) {
    int n = 0;
    CHECK_EQ_I64(check_folder("template/own", &n), 6);
    CHECK(n >= 6 * 4);
    for (size_t i = 0; i < COUNT_OF(repeats); i++)
        CHECK(check_format("no template", toolfmt_find(GENERIC_FORMAT), i));
}

static void test_published(void) {
    int n = 0;
    const int n_templates = check_folder("../shared/golden/templates/jinja", &n);
    if (n_templates < 0)
        fprintf(stderr, "../shared is not here: the templates of template/own were tried alone\n");
    else
        CHECK(n_templates >= 57 && n >= 4 * n_templates);
}

/* Writes a request body with tools in the shape of an API. */
static void offer_tools(const struct way *w, const struct json *tools, struct buf *out) {
    const bool messages = w->api == &api_messages, responses = w->api == &api_responses;
    buf_fmt(out, "%s, \"tools\": [", responses ? "\"input\": \"x\"" : SAYS);
    for (const struct json *t = json_first(tools); t; t = json_next(t)) {
        const struct json *f = json_get(t, "function");
        buf_str(out, t == json_first(tools) ? "" : ", ");
        if (!messages && !responses) {
            json_write(out, t);
            continue;
        }
        buf_fmt(out, "{%s\"name\": \"%s\", \"%s\": ", responses ? "\"type\": \"function\", " : "",
                json_str(json_get(f, "name")), messages ? "input_schema" : "parameters");
        json_write(out, json_get(f, "parameters"));
        buf_chr(out, '}');
    }
    buf_str(out, messages ? "], \"max_tokens\": 9" : "]");
}

/* Checks that an answer that a limit cuts off anywhere within its only call has no other call
 * instead: one that the call's values quote, or one that looks complete up to there. */
static void check_limit(const struct toolfmt *f, const char *text) {
    const struct way *w = &ways[0];
    struct told all = {.end = {0}};
    answer(w, f, text, strlen(text), false, &all);
    CHECK(all.calls.len > 0);
    for (size_t n = 1; n < strlen(text); n++) {
        struct told t = {.end = {0}};
        char *part = xstrndup(text, n);
        answer(w, f, part, n, false, &t);
        const bool same = t.calls.len && strcmp(t.calls.data, all.calls.data) == 0;
        if (t.calls.len && !same)
            CHECK_FAIL("%s: a call cut off at %zu became '%s'", toolfmt_name(f), n, t.calls.data);
        CHECK_EQ_STR(t.end.data, same ? "tool_calls" : "length");
        told_release(&t);
        free(part);
    }
    told_release(&all);
}

/* Tests loosely written calls (calls.jsonl). Texts that end within a call are the same only where
 * calls are sent whole: otherwise a stream has already sent the beginning of that call. */
static void check_loose(const struct json *tools, const struct json *j) {
    const char *name = json_str(json_get(j, "name")), *text = json_str(json_get(j, "text"));
    const struct toolfmt *f = toolfmt_find(json_str(json_get(j, "format")));
    if (strstr(name, "strict") || (strstr(name, "cut off") && !whole_calls)) return;
    think = strcmp(json_str(json_get(j, "think")), "open") == 0 ? TOOL_THINK_OPEN : TOOL_THINK_NONE;
    for (size_t k = 0; k < COUNT_OF(ways); k++) {
        struct told whole = {.end = {0}};
        struct buf body = {0};
        offer_tools(&ways[k], tools, &body);
        offer = body.data;
        answer(&ways[k], f, text, strlen(text), false, &whole);
        check_streams(&ways[k], name, f, text, &whole);
        told_release(&whole);
        if (!k && limited && strstr(name, "quoted in a value")) check_limit(f, text);
        buf_release(&body);
    }
    think = TOOL_THINK_NONE;
    offer = NULL;
}

static void test_loose(void) {
    char *all, *end;
    size_t len;
    struct json *tools = NULL;
    CHECK_OK(io_read_file(&all, &len, "tests/golden/templates/calls.jsonl", 1 << 24, &e));
    for (char *line = all; *line; line = end + 1) {
        struct json *j = NULL;
        end = strchr(line, '\n');
        *end = 0;
        CHECK_OK(json_parse(&j, line, strlen(line), "calls.jsonl", &e));
        if (!tools) {
            tools = j;
            continue;
        }
        for (int k = 0; k < 3; k++) { /* also with a limit at its end */
            whole_calls = k > 0;
            limited = k > 1;
            check_loose(tools, j);
        }
        whole_calls = limited = false;
        json_free(j);
    }
    json_free(tools);
    free(all);
}

/* Checks that without tools, text that begins like a call is content, which a stream sends at
 * once. */
static void test_no_tools(void) {
    static const char *const texts[][2] = {
        {"qwen-xml", "Hi\n<tool_call>\n<function=write>\n<para"},
        {"hermes-json", "<tool_call>\n{\"name\": \"write\", \"ar"},
        {"mistral-args", "[TOOL_CALLS]write[ARGS]{\"aa\""}};
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct toolparse *p;
        size_t n;
        CHECK_OK(toolparse_new(&p, toolfmt_find(texts[i][0]), NULL, 0, TOOL_THINK_NONE, &e));
        toolparse_no_calls(p);
        toolparse_feed(p, texts[i][1], strlen(texts[i][1]));
        (void)toolparse_content(p, &n);
        CHECK_EQ_I64(n, strlen(texts[i][1]));
        toolparse_free(p);
        offer = SAYS;
        struct told whole = {.end = {0}};
        answer(&ways[0], toolfmt_find(texts[i][0]), texts[i][1], strlen(texts[i][1]), false,
               &whole);
        CHECK_EQ_STR(whole.content.data, texts[i][1]);
        check_streams(&ways[0], "no tools", toolfmt_find(texts[i][0]), texts[i][1], &whole);
        told_release(&whole);
        offer = NULL;
    }
}

/* Checks that white space around an answer is content if a pattern, a list of choices or a grammar
 * demands it, and at its end if a limit cut the answer off. */
static void test_white_space(void) {
    static const char calls[] = ", \"tools\": [" FUNCTION "]",
                      call[] = "\n<tool_call>\n{\"name\": \"write\", \"arguments\": {}}\n"
                               "</tool_call>\n";
    static const struct {
        const char *form, *tools, *text, *content;
        bool cut;
    } rows[] = {{"\"grammar\": \"root ::= [a]\"", "", " ctx\n-old\n", " ctx\n-old\n", false},
                {"\"guided_choice\": [\"a\"]", calls, "  yes\n", "  yes\n", false},
                {"\"guided_choice\": [\"a\"]", calls, call, NULL, false},
                {"\"guided_regex\": \"a\"", "", "\n\n", "\n\n", false},
                {"\"regex\": \"a\"", "", "<think>x\n</think> yes ", " yes ", false},
                {"\"regex\": \"a\"", "", "<think>x\n</think>\n\n", "\n\n", false},
                {"\"guided_choice\": [\"a\"]", "", "<think>x", "", true},
                {"\"guided_json\": {}", "", " {} ", "{}", false},
                {"\"n\": 1", calls, " x\n", "x", false},
                {"\"n\": 1", calls, " x\n    ", "x\n    ", true},
                {"\"n\": 1", "", " x\n    ", "x\n    ", true}};
    const struct toolfmt *f = toolfmt_find("hermes-json");
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct told whole = {.end = {0}};
        struct buf body = {0};
        buf_fmt(&body, SAYS ", %s%s", rows[i].form, rows[i].tools);
        offer = body.data;
        limited = rows[i].cut;
        answer(&ways[0], f, rows[i].text, strlen(rows[i].text), false, &whole);
        if (rows[i].content) CHECK_EQ_STR(whole.content.data, rows[i].content);
        CHECK(whole.calls.len ? !rows[i].content && !whole.content.len : rows[i].content != NULL);
        check_streams(&ways[0], "white space", f, rows[i].text, &whole);
        told_release(&whole);
        buf_release(&body);
        limited = false;
        offer = NULL;
    }
}

int main(void) {
    RUN(test_white_space);
    RUN(test_loose);
    RUN(test_no_tools);
    RUN(test_own);
    RUN(test_published);
    return check_done();
}
