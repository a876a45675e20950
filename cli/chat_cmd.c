// SPDX-License-Identifier: MIT
/* cli/chat_cmd.c - table of a conversation's slash commands (chat_line.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/chat_line.h"
#include "cli/guess.h"
#include "base/io.h"
#include "base/out.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/visible.h"
#include "text/shell.h"

enum { MAX_FILE = 64 << 20 };

/* Shows an error as a note. */
static void note_err(struct chatting *u, const struct err *e) {
    struct buf b = {0};
    text_visible(&b, e->msg, strlen(e->msg));
    screen_note(u->screen, "%s", b.data ? b.data : "");
    buf_release(&b);
}

static void do_help(struct chatting *u, const char *rest);

static void do_bye(struct chatting *u, const char *rest) {
    (void)rest;
    u->done = true;
}

/* Runs /system: shows the system message, or sets it; "" removes it. */
static void do_system(struct chatting *u, const char *rest) {
    if (*rest) {
        talk_set_system(&u->r->talk, strcmp(rest, "\"\"") == 0 ? NULL : rest);
        u->has_answer = false;
        return;
    }
    char *text = talk_system(&u->r->talk);
    struct buf b = {0};
    if (text) text_visible(&b, text, strlen(text));
    screen_note(u->screen, "%s",
                text ? b.data ? b.data : "" : "there is no system message: /system TEXT sets one");
    buf_release(&b);
    free(text);
}

/* Runs /reset: drops the conversation except the system message. */
static void do_reset(struct chatting *u, const char *rest) {
    (void)rest;
    talk_clear(&u->r->talk);
    run_forget_images(u->r);
    u->r->skip = 0;
    u->has_answer = u->warned = false;
    screen_note(u->screen, "a new conversation begins%s",
                u->r->talk.n ? "; the system message stays" : "");
}

/* Expands "~/x" as a shell would. The caller frees the result. */
static char *path_of(const char *text) {
    const char *home = getenv("HOME");
    return home && strncmp(text, "~/", 2) == 0 ? io_join(home, text + 2) : xstrdup(text);
}

/* Returns the path of a file to read: as it was typed or, if there is no such file, as a shell
 * would read it, because terminals paste names with quotes or backslashes. The caller frees it. */
static char *input_path(const char *text) {
    char *path = path_of(text), *word = io_exists(path) ? NULL : shell_read(text);
    char *other = word ? path_of(word) : NULL;
    free(word);
    if (!other || !io_exists(other)) {
        free(other);
        return path;
    }
    free(path);
    return other;
}

/* Writes the conversation to a private file; force: replaces an existing one. */
static void write_talk(struct chatting *u, const char *path, bool force) {
    struct buf b = {0};
    struct err e = {0};
    talk_write(&u->r->talk, 0, &b);
    if (out_write_private(path, b.data, b.len, force, &e))
        note_err(u, &e);
    else
        screen_note(u->screen, "%d messages in %s (mode 0600): /load or --chat continues with them",
                    u->r->talk.n, path);
    buf_release(&b);
}

/* Runs /save [-f] FILE. */
static void do_save(struct chatting *u, const char *rest) {
    bool force = u->r->w->overwrite;
    if (strncmp(rest, "-f ", 3) == 0) {
        force = true;
        rest += 3 + strspn(rest + 3, " ");
    }
    if (!*rest) {
        screen_note(
            u->screen,
            "/save FILE writes the conversation, /save -f FILE overwrites an existing file");
        return;
    }
    char *path = path_of(rest);
    if (!force && io_exists(path))
        screen_note(u->screen, "%s exists: /save -f %s replaces it", path, path);
    else
        write_talk(u, path, force);
    free(path);
}

/* Runs /load FILE. */
static void do_load(struct chatting *u, const char *rest) {
    struct err e = {0};
    char *text = NULL;
    size_t len = 0;
    if (!*rest) {
        screen_note(u->screen, "/load FILE continues a conversation that /save wrote");
        return;
    }
    char *path = input_path(rest);
    if (io_read_file(&text, &len, path, MAX_FILE, &e) ||
        talk_parse(&u->r->talk, text, len, path, &e)) {
        note_err(u, &e);
    } else {
        run_forget_images(u->r);
        u->r->skip = 0;
        u->has_answer = u->warned = false;
        screen_note(u->screen, "%d messages were read", u->r->talk.n);
    }
    free(text);
    free(path);
}

static void do_image(struct chatting *u, const char *rest) {
    struct err e = {0};
    if (!*rest) {
        screen_note(u->screen, "/image FILE adds an image to the next message");
        return;
    }
    char *path = input_path(rest);
    if (run_add_image(u->r, path, &e))
        note_err(u, &e);
    else
        screen_note(u->screen, "the next message is about this image");
    free(path);
}

/* Prints a note if the template has no switch for thinking. */
static void note_thinking(struct chatting *u) {
    char *kwargs = NULL;
    struct err ignored;
    bool none = false;
    if (!run_kwargs(u->r, &kwargs, &none, &ignored) && none)
        screen_note(u->screen, "this model's template has no switch for thinking");
    free(kwargs);
}

/* Reports a setting that cannot be made. The error's list of known settings lacks the one that only
 * a chat has. */
static void note_set_err(struct chatting *u, const char *name, struct err *e) {
    struct buf b = {0};
    const size_t n = strlen(e->msg);
    if (!run_set_show(&u->r->set, name, &b)) snprintf(e->msg + n, sizeof e->msg - n, ", stop");
    note_err(u, e);
    buf_release(&b);
}

/* Runs /set [NAME [VALUE]]: shows or changes settings. */
static void do_set(struct chatting *u, const char *rest) {
    static const char theirs[] = "parameter "; /* Ollama: /set parameter temperature 0.5 */
    if (strncmp(rest, theirs, sizeof theirs - 1) == 0) rest += sizeof theirs - 1;
    rest += strspn(rest, " \t");
    struct run *r = u->r;
    struct buf b = {0};
    struct err e = {0};
    char name[32];
    const size_t n = strcspn(rest, " \t");
    const char *value = rest + n + strspn(rest + n, " \t");
    snprintf(name, sizeof name, "%.*s", (int)(n < 31 ? n : 31), rest);
    if (strcmp(name, "stop") == 0 && *value) {
        work_list_add(r->w, &r->a.stop, arena_strndup(&r->w->mem, value, strlen(value)));
    } else if (strcmp(name, "stop") == 0) {
        r->a.stop.n = 0;
        screen_note(u->screen, "the stop texts were removed");
    } else if (strcmp(name, "ctx") == 0) {
        screen_note(u->screen, "the context is %lld tokens; it is set at startup: --ctx N",
                    (long long)gen_n_ctx(r->gen));
    } else if (*value && run_set(&r->set, "/set ", name, value, &e)) {
        note_set_err(u, name, &e);
    } else if (!*value && !run_set_show(&r->set, name, &b)) {
        run_set(&r->set, "/set ", name, "", &e);
        note_set_err(u, name, &e);
    }
    if (b.len) screen_note(u->screen, "%.*s", (int)b.len - 1, b.data);
    u->screen->thinking = r->set.thinking;
    if (strcmp(name, "think") == 0 && *value) note_thinking(u);
    buf_release(&b);
}

/* Runs /tool TEXT, which gives the result of the call that is waiting for one. */
static void do_tool(struct chatting *u, const char *rest) {
    if (!talk_open_calls(&u->r->talk)) {
        screen_note(u->screen, "no tool call is waiting for a result");
        return;
    }
    talk_add_result(&u->r->talk, rest, strlen(rest));
    const int n = talk_open_calls(&u->r->talk);
    if (n)
        screen_note(u->screen, "%d more call%s a result", n, n > 1 ? "s wait for" : " waits for");
    else
        chat_answer(u, true);
}

/* Runs /continue: generates more of the last answer. */
static void do_continue(struct chatting *u, const char *rest) {
    (void)rest;
    chat_more(u);
}

/* Runs /retry: generates the last answer again. Without a new answer, the last one stays. */
static void do_retry(struct chatting *u, const char *rest) {
    struct talk *t = &u->r->talk;
    char *last = strcmp(talk_last_role(t), "assistant") == 0 ? talk_take_last(t) : NULL;
    bool made = false;
    (void)rest;
    if (strcmp(talk_last_role(t), "user") == 0 || strcmp(talk_last_role(t), "tool") == 0)
        made = chat_answer(u, false);
    else
        screen_note(u->screen, "there is nothing to answer");
    if (last && !made)
        talk_put_back(t, "assistant", last);
    else
        free(last);
}

static const struct {
    const char *name, *args, *about;
    void (*run)(struct chatting *u, const char *rest);
} commands[] = {
    {"help", "", "shows this list", do_help},
    {"system", "TEXT", "sets the system message; \"\" removes it", do_system},
    {"reset", "", "starts a new conversation with the same system message", do_reset},
    {"save", "[-f] FILE", "writes the conversation as JSON", do_save},
    {"load", "FILE", "continues a saved conversation", do_load},
    {"set", "[NAME [VALUE]]", "shows or changes settings: temp, top-k, seed, n, think, stop, ...",
     do_set},
    {"image", "FILE", "adds an image (PNG or JPEG) to the next message", do_image},
    {"tool", "RESULT", "gives the result of a tool call", do_tool},
    {"continue", "", "continues an answer that was cut or stopped", do_continue},
    {"retry", "", "replaces the last answer with another one", do_retry},
    {"bye", "", "leaves, as Ctrl-D does", do_bye},
    {"exit", "", NULL, do_bye}, /* from here on, names used by other programs */
    {"clear", "", NULL, do_reset},
    {"new", "", NULL, do_reset},
    {"regen", "", NULL, do_retry},
    {"quit", "", NULL, do_bye},
    {"?", "", NULL, do_help},
};
const char *const chat_words[] = {"/help",  "/system", "/reset",    "/save",  "/load", "/set",
                                  "/image", "/tool",   "/continue", "/retry", "/bye",  NULL};

static void do_help(struct chatting *u, const char *rest) {
    struct buf b = {0};
    (void)rest;
    for (size_t i = 0; i < COUNT_OF(commands); i++)
        if (commands[i].about) {
            char left[40];
            snprintf(left, sizeof left, "/%s %s", commands[i].name, commands[i].args);
            buf_fmt(&b, "  %-22s %s\n", left, commands[i].about);
        }
    buf_str(&b, "For several lines: paste them, end a line with \\, type Alt-Enter, or put \"\"\" "
                "before and after.\n"
                "A line that begins with // is sent with one /. Up and down recall earlier lines.");
    screen_note(u->screen, "%s", b.data);
    buf_release(&b);
}

enum chat_kind chat_parse(const char *text, int *command, const char **rest) {
    *rest = text;
    if (text[0] != '/') return CHAT_TEXT;
    if (text[1] == '/') {
        *rest = text + 1;
        return CHAT_TEXT;
    }
    const size_t n = strcspn(text + 1, " \t\n");
    for (size_t i = 0; i < COUNT_OF(commands); i++)
        if (strlen(commands[i].name) == n && memcmp(commands[i].name, text + 1, n) == 0) {
            *command = (int)i;
            *rest = text + 1 + n + strspn(text + 1 + n, " \t\n");
            return CHAT_COMMAND;
        }
    return CHAT_UNKNOWN;
}

/* Returns the name of command i; NULL past the end. */
static const char *command_name(void *ctx, int i) {
    (void)ctx;
    return (size_t)i < COUNT_OF(commands) ? commands[i].name : NULL;
}

const char *chat_near(const char *text) {
    char name[32];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(text + 1, " \t\n"), text + 1);
    return guess_name(name, command_name, NULL);
}

void chat_do(struct chatting *u, int command, const char *rest) {
    commands[command].run(u, rest);
}
