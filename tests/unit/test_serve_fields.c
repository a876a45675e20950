// SPDX-License-Identifier: MIT
/* tests/unit/test_serve_fields.c - every field that clients of each API send: it changes the
 * request, is accepted without effect, or is rejected with an error that names it. The names come
 * from the public descriptions of the APIs and from their clients, not from the tables of
 * serve/. */
#include <math.h>

#include "base/mem.h"
#include "serve/reply.h"
#include "tests/check.h"

static struct err e;
static const struct sample_opts usual = {
    .temp = 1, .top_p = 1, .min_p = 0, .top_k = 7, .repeat_penalty = 1, .repeat_last_n = 64};

enum how { USED, LEFT, REFUSED };

static const char *text_of(const char *s) {
    return s ? s : "-";
}

/* Writes all settings of a request as text. */
static void put_ask(const struct ask *a, struct buf *out) {
    const struct sample_opts *o = &a->sample;
    buf_fmt(out, "%s %s %s %s %s %s|", text_of(a->model), text_of(a->conv), text_of(a->tools),
            text_of(a->only_tool), text_of(a->allowed), text_of(a->think_last));
    buf_fmt(out, "%d%d%d%d%d%d%d%d%d%d%d%d%d%d %d %d %d|", a->no_calls, a->must_call, a->one_call,
            a->go_on, a->hide_thinking, a->tags, a->stream, a->usage, a->echo, a->ignore_eos,
            a->progress, a->timings, a->no_cache, a->exact, (int)a->think, a->n, a->top);
    buf_fmt(out, "%s %lld %lld %lld|", text_of(a->kwargs.data), (long long)a->n_think,
            (long long)a->seed, (long long)a->n_max);
    buf_fmt(out, "%d %s %d|", (int)a->form, text_of(a->form_text), a->form_strict);
    buf_fmt(out, "%g %d %g %g %g %g %g %d|", (double)o->temp, o->top_k, (double)o->top_p,
            (double)o->min_p, (double)o->presence_penalty, (double)o->frequency_penalty,
            (double)o->repeat_penalty, o->repeat_last_n);
    for (int i = 0; i < a->n_stop; i++) buf_fmt(out, "%s ", a->stop[i]);
    for (int i = 0; i < a->n_bias; i++)
        buf_fmt(out, "%d:%g ", a->bias[i].id, (double)a->bias[i].by);
    for (int i = 0; i < a->n_marks; i++)
        buf_fmt(out, "%d%c ", a->mark[i].message, a->mark[i].hour ? 'h' : 'm');
    for (int i = 0; i < a->n_prompts; i++) buf_fmt(out, "%s ", text_of(a->prompt[i].text));
    buf_fmt(out, "|%s %s %s %u %d", text_of(a->custom.data), text_of(a->spaces.data),
            text_of(a->repeat.data), a->api_flags, a->nothing);
}

/* Parses a request. Returns the status; out receives the request or the error. */
static int ask_text(const struct api *api, const char *base, const char *more, struct buf *out,
                    struct fault *f, bool *ignored) {
    struct json *j = NULL;
    struct ask a;
    struct buf body = {0};
    buf_fmt(&body, "{%s%s%s}", base, *more ? ", " : "", more);
    memset(f, 0, sizeof *f);
    ask_init(&a, &usual, -1, -1);
    int rc = json_parse(&j, body.data, body.len, "body", &e);
    if (rc)
        CHECK_FAIL("%s: %s", body.data, e.msg);
    else
        rc = api->read(&a, j, f);
    if (!rc) put_ask(&a, out);
    *ignored = a.ignored.len > 0;
    ask_release(&a);
    json_free(j);
    buf_release(&body);
    return rc;
}

struct row {
    enum how how;
    const char *field; /* "name": value; refused: `param` begins with the name */
};

static void check(const struct api *api, const char *base, const struct row *r, int n) {
    struct buf plain = {0};
    struct fault f;
    bool ignored;
    CHECK_EQ_I64(ask_text(api, base, "", &plain, &f, &ignored), 0);
    for (int i = 0; i < n; i++) {
        struct buf with = {0};
        char name[64];
        snprintf(name, sizeof name, "%s", r[i].field + 1);
        *strchr(name, '"') = 0;
        const int rc = ask_text(api, base, r[i].field, &with, &f, &ignored);
        if (r[i].how == REFUSED && (rc != 400 || strncmp(f.param, name, strlen(name)) != 0))
            CHECK_FAIL("%s: %s: status %d, '%s'", api->name, r[i].field, rc, f.msg);
        if (r[i].how != REFUSED && rc) CHECK_FAIL("%s: %s: %s", api->name, r[i].field, f.msg);
        if (r[i].how != REFUSED && ignored)
            CHECK_FAIL("%s: %s is not known", api->name, r[i].field);
        const bool same = !rc && strcmp(with.data, plain.data) == 0;
        if (!rc && r[i].how == USED && same)
            CHECK_FAIL("%s: %s is not used", api->name, r[i].field);
        if (!rc && r[i].how == LEFT && !same)
            CHECK_FAIL("%s: %s changes %s to %s", api->name, r[i].field, plain.data, with.data);
        buf_release(&with);
    }
    buf_release(&plain);
}
#define FN "{\"type\": \"function\", \"function\": {\"name\": \"f\"}}"
#define SCHEMA "{\"type\": \"object\"}"

/* Checks that a field set to null counts as absent. */
static void check_null(const struct api *api, const char *base, const struct row *r, int n) {
    struct buf plain = {0};
    struct fault f;
    bool ignored;
    CHECK_EQ_I64(ask_text(api, base, "", &plain, &f, &ignored), 0);
    for (int i = 0; i < n; i++) {
        struct buf with = {0}, text = {0};
        buf_add(&text, r[i].field, strcspn(r[i].field, ":"));
        buf_str(&text, ": null");
        if (ask_text(api, base, text.data, &with, &f, &ignored))
            CHECK_FAIL("%s: %s: %s", api->name, text.data, f.msg);
        else if (api != &api_responses && strcmp(with.data, plain.data) != 0)
            CHECK_FAIL("%s: %s changes something", api->name, text.data);
        buf_release(&with);
        buf_release(&text);
    }
    buf_release(&plain);
}

/* Returns how often `null` occurs in s. */
static int count_nulls(const char *s) {
    int n = 0;
    while ((s = strstr(s, "null"))) n++, s += 4;
    return n;
}

/* Writes the field with the member `name`: null in the object that begins at `at`. Returns false if
 * it has such a member. */
static bool put_null(const char *field, const char *at, const char *name, struct buf *out) {
    struct json *j = NULL;
    struct buf all = {0};
    buf_add(out, field, (size_t)(at + 1 - field));
    buf_fmt(out, "\"%s\": null%s%s", name, at[1] == '}' ? "" : ", ", at + 1);
    buf_fmt(&all, "{%s}", out->data);
    const bool twice = json_parse(&j, all.data, all.len, "field", &e) != 0;
    json_free(j);
    buf_release(&all);
    return !twice;
}

/* Checks that a member that is null counts as absent in every object within a field, unless that is
 * copied as it is. */
static void check_null_members(const struct api *api, const char *base, const struct row *r,
                               int n) {
    static const char *const names[] = {
        "type",   "name",   "function", "custom",     "allowed_tools", "mode",   "tools",
        "format", "schema", "value",    "parameters", "input_schema",  "strict", "json_schema",
        "json",   "regex",  "choice",   "grammar",    "json_object",   "effort", "summary",
        "ttl",    "text",   "enabled",  "max_tokens", "budget_tokens", "display"};
    for (int i = 0; i < n; i++) {
        struct buf plain = {0};
        struct fault f;
        bool ignored;
        if (r[i].how == REFUSED || strstr(r[i].field, "\"logit_bias\"")) continue;
        CHECK_EQ_I64(ask_text(api, base, r[i].field, &plain, &f, &ignored), 0);
        for (const char *at = r[i].field; (at = strchr(at, '{')); at++)
            for (size_t k = 0; k < COUNT_OF(names); k++) {
                struct buf text = {0}, with = {0};
                if (put_null(r[i].field, at, names[k], &text)) {
                    if (ask_text(api, base, text.data, &with, &f, &ignored))
                        CHECK_FAIL("%s: %s: %s", api->name, text.data, f.msg);
                    else if (count_nulls(with.data) == count_nulls(plain.data) &&
                             strcmp(with.data, plain.data) != 0)
                        CHECK_FAIL("%s: %s changes something", api->name, text.data);
                }
                buf_release(&text);
                buf_release(&with);
            }
        buf_release(&plain);
    }
}

static const struct row sampling[] = {
    {USED, "\"temperature\": 0.5"},
    {USED, "\"top_p\": 0.5"},
    {USED, "\"top_k\": 3"},
    {USED, "\"min_p\": 0.1"},
    {USED, "\"presence_penalty\": 1"},
    {USED, "\"frequency_penalty\": -1"},
    {USED, "\"repeat_penalty\": 1.5"},
    {USED, "\"repetition_penalty\": 1.5"},
    {USED, "\"repeat_last_n\": 5"},
    {USED, "\"seed\": 5"},
    {USED, "\"logit_bias\": {\"5\": 1}"},
    {LEFT, "\"logit_bias\": {}"},
    {USED, "\"ignore_eos\": true"},
    {USED, "\"cache_prompt\": false"},
    {USED, "\"restore\": false"},
    {LEFT, "\"typical_p\": 1"},
    {REFUSED, "\"typical_p\": 0.5"},
    {LEFT, "\"mirostat\": 0"},
    {REFUSED, "\"mirostat\": 1"},
    {LEFT, "\"dry_multiplier\": 0"},
    {REFUSED, "\"dry_multiplier\": 0.8"},
    {LEFT, "\"xtc_probability\": 0"},
    {REFUSED, "\"xtc_probability\": 0.5"},
    {USED, "\"grammar\": \"root ::= [a]\""},
    {USED, "\"json_schema\": " SCHEMA},
    {USED, "\"structured_outputs\": {\"choice\": [\"a\"]}"},
    {USED, "\"guided_json\": " SCHEMA},
    {USED, "\"guided_regex\": \"a\""},
    {USED, "\"guided_choice\": [\"a\"]"},
    {USED, "\"guided_grammar\": \"root ::= [a]\""},
    {USED, "\"regex\": \"a\""},
    {USED, "\"ebnf\": \"root ::= [a]\""},
    {USED, "\"structured_outputs\": {\"json_object\": true}"},
    {REFUSED, "\"structured_outputs\": {\"json_object\": false}"},
    {USED, "\"enable_thinking\": false"},
    {USED, "\"thinking\": {\"type\": \"disabled\"}"},
    {USED, "\"reasoning\": {\"effort\": \"low\"}"},
    {REFUSED, "\"reasoning\": {\"effort\": 5}"},
    {REFUSED, "\"reasoning\": {\"max_tokens\": \"x\"}"},
    {REFUSED, "\"reasoning\": {\"enabled\": \"x\"}"},
    {REFUSED, "\"temperature\": 101"},
    {REFUSED, "\"top_p\": -0.1"},
    {REFUSED, "\"seed\": 1.5"},
    {REFUSED, "\"presence_penalty\": 3"},
};

static const struct row chat[] = {
    {USED, "\"model\": \"x\""},
    {USED, "\"max_completion_tokens\": 5"},
    {USED, "\"max_tokens\": 5"},
    {USED, "\"max_tokens\": 0"},
    {REFUSED, "\"max_tokens\": -5"},
    {REFUSED, "\"max_tokens\": \"5\""},
    {USED, "\"stop\": \"x\""},
    {USED, "\"stop\": [\"x\", \"y\"]"},
    {REFUSED, "\"stop\": [7]"},
    {USED, "\"n\": 2"},
    {REFUSED, "\"n\": 0"},
    {USED, "\"stream\": true"},
    {USED, "\"stream_options\": {\"include_usage\": true, \"include_obfuscation\": true}"},
    {USED, "\"logprobs\": true"},
    {USED, "\"top_logprobs\": 3"},
    {USED, "\"tools\": [" FN "]"},
    {USED, "\"tools\": [{\"type\": \"custom\", \"custom\": {\"name\": \"f\"}}]"},
    {USED, "\"tools\": [{\"type\": \"function\", \"name\": \"f\", \"input_schema\": " SCHEMA "}]"},
    {LEFT, "\"tools\": []"},
    {REFUSED, "\"tools\": [{\"type\": \"what\"}]"},
    {USED, "\"functions\": [{\"name\": \"f\"}]"},
    {LEFT, "\"functions\": []"},
    {REFUSED, "\"functions\": {\"name\": \"f\"}"},
    {REFUSED, "\"functions\": [{\"name\": 5}]"},
    {REFUSED, "\"functions\": [{\"name\": \"f\", \"parameters\": 5}]"},
    {LEFT, "\"tool_choice\": \"auto\""},
    {USED, "\"tool_choice\": \"none\""},
    {USED, "\"tool_choice\": \"required\""},
    {USED, "\"tool_choice\": {\"type\": \"function\", \"function\": {\"name\": \"f\"}}"},
    {USED, "\"tool_choice\": {\"type\": \"custom\", \"custom\": {\"name\": \"f\"}}"},
    {USED, "\"tool_choice\": {\"type\": \"allowed_tools\", \"allowed_tools\": {\"mode\": \"auto\", "
           "\"tools\": [" FN "]}}"},
    {USED, "\"function_call\": {\"name\": \"f\"}"},
    {USED, "\"parallel_tool_calls\": false"},
    {LEFT, "\"parallel_tool_calls\": true"},
    {USED, "\"response_format\": {\"type\": \"json_object\"}"},
    {USED, "\"response_format\": {\"type\": \"json_schema\", \"json_schema\": {\"name\": \"x\", "
           "\"strict\": true, \"schema\": " SCHEMA "}}"},
    {LEFT, "\"response_format\": {\"type\": \"text\"}"},
    {REFUSED, "\"response_format\": {\"type\": \"xml\"}"},
    {USED, "\"reasoning_effort\": \"none\""},
    {USED, "\"reasoning_effort\": \"high\""},
    {USED, "\"chat_template_kwargs\": {\"enable_thinking\": false}"},
    {USED, "\"reasoning_format\": \"none\""},
    {USED, "\"reasoning_budget_tokens\": 5"},
    {USED, "\"thinking_budget_tokens\": 5"},
    {USED, "\"reasoning_budget_message\": \"x\""},
    {USED, "\"continue_final_message\": true"},
    {USED, "\"add_generation_prompt\": false"},
    {USED, "\"return_progress\": true"},
    {USED, "\"timings_per_token\": true"},
    {REFUSED, "\"return_tokens\": true"},
    {LEFT, "\"id_slot\": 0"},
    {LEFT, "\"prompt_cache_key\": \"x\""},
    {LEFT, "\"prompt_cache_retention\": \"24h\""},
    {LEFT, "\"prompt_cache_options\": {}"},
    {LEFT, "\"prediction\": {\"type\": \"content\", \"content\": \"x\"}"},
    {LEFT, "\"store\": true"},
    {LEFT, "\"metadata\": {\"a\": \"b\"}"},
    {LEFT, "\"user\": \"x\""},
    {LEFT, "\"service_tier\": \"auto\""},
    {LEFT, "\"safety_identifier\": \"x\""},
    {USED, "\"verbosity\": \"low\""},
    {LEFT, "\"modalities\": [\"text\"]"},
    {REFUSED, "\"modalities\": [\"text\", \"audio\"]"},
    {REFUSED, "\"modalities\": \"x\""},
    {REFUSED, "\"audio\": {\"voice\": \"x\"}"},
    {REFUSED, "\"web_search_options\": {}"},
    {REFUSED, "\"chat_template\": \"x\""},
    {LEFT, "\"preset\": \"x\""},
};

static const struct row text[] = {
    {USED, "\"model\": \"x\""},
    {USED, "\"max_tokens\": 5"},
    {USED, "\"stop\": \"x\""},
    {USED, "\"n\": 2"},
    {LEFT, "\"best_of\": 1"},
    {REFUSED, "\"best_of\": 2"},
    {REFUSED, "\"best_of\": \"x\""},
    {USED, "\"stream\": true"},
    {USED, "\"stream_options\": {\"include_usage\": true}"},
    {USED, "\"echo\": true"},
    {USED, "\"logprobs\": 2"},
    {LEFT, "\"user\": \"x\""},
    {LEFT, "\"id_slot\": 0"},
    {LEFT, "\"suffix\": \"\""},
    {REFUSED, "\"suffix\": \"x\""},
    {USED, "\"response_format\": {\"type\": \"json_object\"}"},
    {LEFT, "\"preset\": \"x\""},
};

static const struct row responses[] = {
    {USED, "\"model\": \"x\""},
    {USED, "\"instructions\": \"x\""},
    {USED, "\"tools\": [{\"type\": \"function\", \"name\": \"f\"}]"},
    {USED,
     "\"tools\": [{\"type\": \"custom\", \"name\": \"f\", \"format\": {\"type\": \"text\"}}]"},
    {USED, "\"tools\": [{\"type\": \"namespace\", \"name\": \"s\", \"tools\": [{\"type\": "
           "\"function\", \"name\": \"f\"}]}]"},
    {USED, "\"tool_choice\": \"required\""},
    {USED, "\"tool_choice\": {\"type\": \"function\", \"name\": \"f\"}"},
    {REFUSED, "\"tools\": [{\"type\": \"function\", \"name\": \"f\", \"parameters\": \"x\"}]"},
    {REFUSED, "\"tools\": [{\"type\": \"custom\", \"name\": \"f\", \"description\": [\"x\"]}]"},
    {REFUSED, "\"tools\": [{\"type\": \"custom\", \"name\": \"f\", \"format\": \"lark\"}]"},
    {REFUSED, "\"tools\": [{\"type\": \"namespace\", \"name\": \"s\", \"tools\": {}}]"},
    {REFUSED, "\"reasoning\": {\"effort\": 5}"},
    {REFUSED, "\"text\": {\"verbosity\": 5}"},
    {USED, "\"tool_choice\": {\"type\": \"custom\", \"name\": \"f\"}"},
    {USED, "\"parallel_tool_calls\": false"},
    {USED, "\"reasoning\": {\"effort\": \"low\", \"summary\": \"auto\"}"},
    {USED, "\"text\": {\"format\": {\"type\": \"json_schema\", \"name\": \"x\", \"schema\": " SCHEMA
           "}}"},
    {USED, "\"text\": {\"verbosity\": \"low\"}"},
    {USED, "\"max_output_tokens\": 5"},
    {USED, "\"temperature\": 0.5"},
    {USED, "\"top_p\": 0.5"},
    {USED, "\"top_k\": 3"},
    {USED, "\"min_p\": 0.5"},
    {USED, "\"seed\": 5"},
    {USED, "\"stream\": true"},
    {USED, "\"include\": [\"reasoning.encrypted_content\"]"},
    {LEFT, "\"truncation\": \"disabled\""},
    {REFUSED, "\"truncation\": \"auto\""},
    {LEFT, "\"background\": false"},
    {REFUSED, "\"background\": true"},
    {USED, "\"chat_template_kwargs\": {\"x\": 1}"},
    {LEFT, "\"top_logprobs\": 0"},
    {USED, "\"top_logprobs\": 2"},
    {REFUSED, "\"top_logprobs\": 21"},
    {USED, "\"include\": [\"message.output_text.logprobs\"]"},
    {REFUSED, "\"previous_response_id\": \"r\""},
    {REFUSED, "\"conversation\": \"c\""},
    {REFUSED, "\"prompt\": {\"id\": \"p\"}"},
    {LEFT, "\"store\": true"},
    {USED, "\"metadata\": {\"a\": \"b\"}"}, /* the answer repeats it */
    {LEFT, "\"user\": \"x\""},
    {LEFT, "\"service_tier\": \"auto\""},
    {LEFT, "\"safety_identifier\": \"x\""},
    {LEFT, "\"prompt_cache_key\": \"x\""},
    {LEFT, "\"prompt_cache_retention\": \"24h\""},
    {LEFT, "\"stream_options\": {\"include_obfuscation\": false}"},
    {LEFT, "\"client_metadata\": {}"},
    {LEFT, "\"max_tool_calls\": 5"},
    {LEFT, "\"preset\": \"x\""},
};

static const struct row messages[] = {
    {USED, "\"model\": \"x\""},
    {USED, "\"system\": \"x\""},
    {USED, "\"system\": [{\"type\": \"text\", \"text\": \"x\", \"cache_control\": {\"type\": "
           "\"ephemeral\"}}]"},
    {USED, "\"tools\": [{\"name\": \"f\", \"input_schema\": " SCHEMA "}]"},
    {LEFT, "\"tools\": [{\"type\": \"web_search_20250305\", \"name\": \"web_search\"}]"},
    {REFUSED, "\"tools\": [" FN "]"},
    {REFUSED, "\"tools\": [{\"name\": \"f\", \"input_schema\": \"x\"}]"},
    {USED, "\"stream\": true"},
    {USED, "\"temperature\": 0.5"},
    {REFUSED, "\"temperature\": 1.5"},
    {USED, "\"top_p\": 0.5"},
    {USED, "\"top_k\": 3"},
    {USED, "\"min_p\": 0.5"},
    {USED, "\"seed\": 5"},
    {USED, "\"stop_sequences\": [\"x\"]"},
    {USED, "\"thinking\": {\"type\": \"enabled\", \"budget_tokens\": 1024}"},
    {USED, "\"thinking\": {\"type\": \"disabled\"}"},
    {LEFT, "\"thinking\": {\"type\": \"adaptive\"}"},
    {REFUSED, "\"thinking\": {\"type\": \"what\"}"},
    {USED, "\"tool_choice\": {\"type\": \"any\", \"disable_parallel_tool_use\": true}"},
    {USED, "\"tool_choice\": {\"type\": \"tool\", \"name\": \"f\"}"},
    {USED, "\"tool_choice\": {\"type\": \"none\"}"},
    {LEFT, "\"tool_choice\": {\"type\": \"auto\"}"},
    {USED, "\"output_config\": {\"effort\": \"low\"}"},
    {USED, "\"output_config\": {\"format\": {\"type\": \"json_schema\", \"schema\": " SCHEMA "}}"},
    {USED, "\"output_format\": {\"type\": \"json_schema\", \"schema\": " SCHEMA "}"},
    {REFUSED, "\"output_format\": {\"type\": \"xml\"}"},
    {USED, "\"chat_template_kwargs\": {\"x\": 1}"},
    {LEFT, "\"metadata\": {\"user_id\": \"x\"}"},
    {LEFT, "\"service_tier\": \"auto\""},
    {USED, "\"cache_control\": {\"type\": \"ephemeral\"}"},
    {LEFT, "\"cache_control\": {\"type\": \"none\"}"},
    {LEFT, "\"context_management\": {\"edits\": []}"},
    {LEFT, "\"diagnostics\": {}"},
    {LEFT, "\"betas\": [\"x\"]"},
    {LEFT, "\"inference_geo\": \"x\""},
    {REFUSED, "\"container\": \"x\""},
    {LEFT, "\"mcp_servers\": []"},
    {REFUSED, "\"mcp_servers\": [{}]"},
    {LEFT, "\"preset\": \"x\""},
};

static const struct row ollama[] = {
    {USED, "\"model\": \"x\""},
    {USED, "\"stream\": true"},
    {USED, "\"options\": {\"temperature\": 0.5}"},
    {USED, "\"options\": {\"top_k\": 3}"},
    {USED, "\"options\": {\"top_p\": 0.5}"},
    {USED, "\"options\": {\"min_p\": 0.5}"},
    {USED, "\"options\": {\"num_predict\": 3}"},
    {USED, "\"options\": {\"seed\": 3}"},
    {USED, "\"options\": {\"stop\": [\"x\"]}"},
    {USED, "\"options\": {\"repeat_penalty\": 1.5}"},
    {USED, "\"options\": {\"repeat_last_n\": 3}"},
    {USED, "\"options\": {\"presence_penalty\": 1}"},
    {USED, "\"options\": {\"frequency_penalty\": 1}"},
    {LEFT,
     "\"options\": {\"num_ctx\": 4096, \"num_keep\": 4, \"num_batch\": 512, \"num_gpu\": 1, "
     "\"num_thread\": 2, \"main_gpu\": 0, \"use_mmap\": true, \"numa\": false, \"typical_p\": 1}"},
    {REFUSED, "\"options\": {\"mirostat\": 1}"},
    {USED, "\"think\": true"},
    {USED, "\"think\": \"low\""},
    {USED, "\"format\": \"json\""},
    {USED, "\"format\": " SCHEMA},
    {LEFT, "\"format\": \"\""},
    {REFUSED, "\"format\": \"xml\""},
    {LEFT, "\"keep_alive\": \"5m\""},
    {LEFT, "\"images\": []"},
    {REFUSED, "\"images\": [\"x\"]"},
    {USED, "\"logprobs\": true"},
    {USED, "\"top_logprobs\": 2"},
    {LEFT, "\"template\": \"\""},
    {REFUSED, "\"template\": \"x\""},
};
static const struct row ollama_chat[] = {{USED, "\"tools\": [" FN "]"}};
static const struct row ollama_text[] = {
    {USED, "\"system\": \"x\""},      {USED, "\"raw\": true"},    {LEFT, "\"context\": []"},
    {REFUSED, "\"context\": [1, 2]"}, {LEFT, "\"suffix\": \"\""}, {REFUSED, "\"suffix\": \"x\""},
};

static const char say[] = "\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]",
                  must[] = "\"max_tokens\": 9, \"messages\": [{\"role\": \"user\", "
                           "\"content\": \"x\"}]",
                  prompt[] = "\"prompt\": \"x\"", input[] = "\"input\": \"x\"";

/* Checks that a field with an effect is never dropped: a value of another type is used or rejected.
 * Marks of the cache are only hints. */
static void check_types(const struct api *api, const char *base, const struct row *r, int n) {
    static const char *const values[] = {"5.5", "\"x\"", "[5]", "[{}]", "{\"x\": 5}"};
    struct buf plain = {0};
    struct fault f;
    bool ignored;
    CHECK_EQ_I64(ask_text(api, base, "", &plain, &f, &ignored), 0);
    for (int i = 0; i < n; i++)
        for (size_t k = 0; k < COUNT_OF(values) && r[i].how == USED; k++) {
            const char *value = strchr(r[i].field, ':') + 2;
            struct buf with = {0}, body = {0};
            if (*value == *values[k] && *value != '[') continue;
            if (strncmp(r[i].field, "\"cache_control\"", 15) == 0) continue;
            buf_add(&body, r[i].field, strcspn(r[i].field, ":"));
            buf_fmt(&body, ": %s", values[k]);
            if (!ask_text(api, base, body.data, &with, &f, &ignored) &&
                strcmp(with.data, plain.data) == 0)
                CHECK_FAIL("%s: %s is dropped", api->name, body.data);
            buf_release(&with);
            buf_release(&body);
        }
    buf_release(&plain);
}

/* Runs a check on the fields of every API. */
static void each_api(void (*run)(const struct api *api, const char *base, const struct row *r,
                                 int n)) {
    run(&api_chat, say, sampling, (int)COUNT_OF(sampling));
    run(&api_chat, say, chat, (int)COUNT_OF(chat));
    run(&api_text, prompt, sampling, (int)COUNT_OF(sampling));
    run(&api_text, prompt, text, (int)COUNT_OF(text));
    run(&api_responses, input, responses, (int)COUNT_OF(responses));
    run(&api_messages, must, messages, (int)COUNT_OF(messages));
    run(&api_ollama_chat, say, ollama, (int)COUNT_OF(ollama));
    run(&api_ollama_chat, say, ollama_chat, (int)COUNT_OF(ollama_chat));
    run(&api_ollama_text, prompt, ollama, (int)COUNT_OF(ollama));
    run(&api_ollama_text, prompt, ollama_text, (int)COUNT_OF(ollama_text));
}

static void test_fields(void) {
    each_api(check);
    each_api(check_null);
}
static void test_types(void) {
    each_api(check_types);
}
static void test_null_members(void) {
    each_api(check_null_members);
}

int main(void) {
    RUN(test_fields);
    RUN(test_types);
    RUN(test_null_members);
    return check_done();
}
