// SPDX-License-Identifier: MIT
/* cli/line.c - line editor on top of libedit (line.h).
 *
 * This file reads bytes and passes characters to libedit, which gives it control over signals,
 * window size changes and invalid UTF-8. Pasted text arrives between two escape sequences
 * (bracketed paste) and is inserted unchanged, newlines included, except that control characters
 * are dropped. The line is drawn on stderr: stdout carries answers only.
 *
 * Signal handlers wake the reader through a pipe, since any thread may run them. */
#include "cli/line.h"

#include <errno.h>
#include <fcntl.h>
#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "base/io.h"
#include "base/out.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/os.h"
#include "base/progress.h"

enum {
    HISTORY_BYTES = 1 << 20, /* limit of the history file; a larger one keeps its newest entries */
    ENTRY_BYTES = 64 << 10,  /* limit of an entry; longer texts are not saved */
    REPLACEMENT = 0xfffd
};

struct line {
    EditLine *el; /* NULL: the terminal cannot edit lines */
    History *hist;
    FILE *screen; /* stream on which the line is drawn */
    char *path;   /* history file, or NULL */
    const char *const *words;
    const char *prompt;
    unsigned char in[4096]; /* bytes read ahead */
    size_t at, n;
    enum line_end why; /* reason why reading a character failed */
    bool waiting;      /* bracketed paste is on */
};

static int wake_fd[2] = {-1, -1};
static struct termios tty; /* the terminal's original state */
static volatile sig_atomic_t have_tty;
static volatile sig_atomic_t resized, continued;

void line_wake(void) {
    int keep = errno;
    ssize_t ignored = wake_fd[1] >= 0 ? write(wake_fd[1], "", 1) : 0;
    (void)ignored;
    errno = keep;
}

/* Handles SIGWINCH, which reports a new window size, and SIGCONT. */
static void on_window(int sig) {
    if (sig == SIGWINCH) resized = 1;
    if (sig == SIGCONT) continued = 1;
    line_wake();
}

/* Opens the pipe that wakes a waiting read; returns false on failure. */
static bool open_pipe(void) {
    if (wake_fd[0] >= 0) return true;
    return os_wake_new(wake_fd) == 0;
}

/* Turns the echo of keys on or off. It is off between lines, so that keys typed while an answer is
 * written appear only in the next line. */
static void echo(bool on) {
    struct termios t;
    if (!have_tty || tcgetattr(STDIN_FILENO, &t) != 0) return;
    t.c_lflag = on ? t.c_lflag | (tty.c_lflag & ECHO) : t.c_lflag & ~(tcflag_t)ECHO;
    tcsetattr(STDIN_FILENO, TCSANOW, &t);
}

void line_restore(void) {
    if (have_tty) tcsetattr(STDIN_FILENO, TCSANOW, &tty);
}

/* ---- characters ---- */

/* Draws the line again after a signal. */
static void redraw_line(struct line *l) {
    if (!l->el) return;
    if (resized) el_resize(l->el);
    if (continued) el_set(l->el, EL_PREP_TERM, 1);
    resized = continued = 0;
    el_set(l->el, EL_REFRESH);
}

/* Waits for input. Returns false on an interruption or the end of the input. */
static bool fill(struct line *l) {
    for (;;) {
        char drain[16];
        struct pollfd p[2] = {{STDIN_FILENO, POLLIN, 0}, {wake_fd[0], POLLIN, 0}};
        if (progress_interrupted()) {
            l->at = l->n = 0;
            l->why = LINE_INTR;
            return false;
        }
        if (poll(p, wake_fd[0] >= 0 ? 2 : 1, -1) < 0 && errno != EINTR) return false;
        if (p[1].revents & POLLIN)
            while (read(wake_fd[0], drain, sizeof drain) > 0) {
            }
        if (resized || continued) redraw_line(l);
        if (progress_interrupted() || !p[0].revents) continue;
        ssize_t n = read(STDIN_FILENO, l->in, sizeof l->in);
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        l->at = 0;
        l->n = n > 0 ? (size_t)n : 0;
        l->why = LINE_EOF;
        return n > 0;
    }
}

/* Returns the next byte of input, or -1 with the reason in l->why. */
static int next_byte(struct line *l) {
    if (l->at == l->n && !fill(l)) return -1;
    return l->in[l->at++];
}

/* Reads one code point; invalid UTF-8 becomes U+FFFD. Returns -1 at the end of the input. */
static int next_char(struct line *l) {
    static const struct {
        int mask, lead, least;
    } form[] = {{0x80, 0x00, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};
    int b = next_byte(l);
    if (b < 0) return -1;
    for (int k = 0; k < 4; k++) {
        if ((b & form[k].mask) != form[k].lead) continue;
        int cp = b & ~form[k].mask & 0xff;
        for (int i = 0; i < k; i++) {
            int c = next_byte(l);
            if (c < 0) return -1;
            if ((c & 0xc0) != 0x80) {
                l->at--; /* The byte starts the next character. */
                return REPLACEMENT;
            }
            cp = cp << 6 | (c & 0x3f);
        }
        bool ok = cp >= form[k].least && cp <= 0x10ffff && !(cp >= 0xd800 && cp <= 0xdfff);
        return ok ? cp : REPLACEMENT;
    }
    return REPLACEMENT;
}

/* Returns the line that belongs to libedit's editor. */
static struct line *line_of(EditLine *el) {
    struct line *l = NULL;
    el_get(el, EL_CLIENTDATA, &l);
    return l;
}

/* Reads a character for libedit; returns 1 if read, 0 at the end of input, -1 if interrupted. */
static int get_char(EditLine *el, wchar_t *out) {
    struct line *l = line_of(el);
    if (!l->waiting) fputs("\033[?2004h", l->screen);
    l->waiting = fflush(l->screen) == 0;
    int c = next_char(l);
    *out = c < 0 ? L'\0' : (wchar_t)c;
    if (c >= 0) return 1;
    return l->why == LINE_EOF ? 0 : -1;
}

static const char *get_prompt(EditLine *el) {
    return line_of(el)->prompt;
}

/* ---- keys of our own ---- */

/* Inserts a line break at the cursor. */
static unsigned char key_newline(EditLine *el, int ch) {
    (void)ch;
    return el_winsertstr(el, L"\n") < 0 ? CC_ERROR : CC_REFRESH;
}

/* Inserts pasted text up to the sequence that ends it. */
static unsigned char key_paste(EditLine *el, int ch) {
    static const char end[] = "\033[201~";
    struct line *l = line_of(el);
    struct {
        wchar_t *v;
        size_t n, cap;
    } text = {0};
    size_t seen = 0; /* matched bytes of `end` */
    unsigned char rc = CC_REFRESH;
    bool cr = false;
    (void)ch;
    while (seen < sizeof end - 1) {
        int c = next_char(l);
        if (c < 0) {
            rc = CC_EOF;
            break;
        }
        seen = c == end[seen] ? seen + 1 : c == end[0];
        bool newline = c == '\n' || c == '\r';
        bool second = cr && c == '\n'; /* This is the second byte of "\r\n". */
        cr = c == '\r';
        if (second || (c < 32 && !newline && c != '\t' && c != 033) || c == 127) continue;
        if (text.n + 2 > text.cap) {
            text.cap = text.cap ? 2 * text.cap : 256;
            text.v = xreallocarray(text.v, text.cap, sizeof *text.v);
        }
        text.v[text.n++] = newline ? L'\n' : (wchar_t)c;
    }
    if (seen == sizeof end - 1) text.n -= seen;
    if (rc == CC_REFRESH && text.n) {
        size_t n = 0;
        for (size_t i = 0; i < text.n; i++)
            if (text.v[i] != 033) text.v[n++] = text.v[i];
        text.v[n] = 0;
        if (n && el_winsertstr(el, text.v) < 0) rc = CC_ERROR;
    }
    free(text.v);
    return rc;
}

/* Handles Tab: completes the line to the only word that begins with it, or to the longest common
 * prefix of several such words. */
static unsigned char key_complete(EditLine *el, int ch) {
    struct line *l = line_of(el);
    const LineInfo *info = el_line(el);
    size_t n = (size_t)(info->cursor - info->buffer), common = 0;
    const char *first = NULL;
    (void)ch;
    for (const char *const *w = l->words; w && *w; w++) {
        if (!n || strncmp(*w, info->buffer, n) != 0) continue;
        if (!first) {
            first = *w;
            common = strlen(first);
        }
        for (size_t i = n; i < common; i++)
            if ((*w)[i] != first[i]) common = i;
    }
    if (!first || common <= n) return CC_REFRESH_BEEP;
    char rest[64];
    snprintf(rest, sizeof rest, "%.*s%s", (int)(common - n), first + n, first[common] ? "" : " ");
    return el_insertstr(el, rest) < 0 ? CC_ERROR : CC_REFRESH;
}

/* ---- history ---- */

char *line_history_path(void) {
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    struct buf b = {0};
    if (state && state[0] == '/')
        buf_fmt(&b, "%s/hone/history", state);
    else if (home && home[0] == '/')
        buf_fmt(&b, "%s/.local/state/hone/history", home);
    return b.len ? buf_take(&b) : NULL;
}

/* Opens the history file, readable only by its owner because it contains prompts. Returns the
 * descriptor, -1 if the file is not usable. */
static int open_history(const char *path, int flags) {
    struct stat st;
    int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600);
    if (fd < 0) return -1;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
        ((st.st_mode & 077) && fchmod(fd, 0600) != 0)) {
        close(fd);
        return -1;
    }
    return fd;
}

static void add_entry(struct line *l, const char *text) {
    HistEvent ev;
    if (l->hist) history(l->hist, &ev, H_ENTER, text);
}

/* Adds the entries of a text, starting with entry `from`, to the history of l, or appends their
 * lines to `keep` instead. Returns the number of entries; with l and keep NULL it only counts. */
static int64_t read_entries(struct line *l, char *text, int64_t from, struct buf *keep) {
    int64_t n = 0;
    for (char *s = text, *nl; *s; s = nl + 1) {
        nl = strchr(s, '\n');
        if (!nl) break; /* an incomplete line, left by a killed writer */
        *nl = 0;
        struct json *j = NULL;
        struct err e;
        if (json_parse(&j, s, (size_t)(nl - s), "history", &e) == 0 && json_str(j) && n++ >= from) {
            if (keep)
                buf_fmt(keep, "%s\n", s);
            else if (from >= 0 && l)
                add_entry(l, json_str(j));
        }
        json_free(j);
        *nl = '\n';
    }
    return n;
}

/* Loads the history file, and shortens it if it is too long. */
static void load_history(struct line *l) {
    struct err e;
    char *text = NULL;
    size_t len;
    int fd = l->path ? open_history(l->path, O_RDONLY) : -1;
    if (fd < 0) return;
    close(fd);
    if (io_read_file(&text, &len, l->path, 64 << 20, &e) != 0) return;
    int64_t n = read_entries(NULL, text, INT64_MAX, NULL), from = n - LINE_HISTORY;
    read_entries(l, text, from > 0 ? from : 0, NULL);
    /* Keep the newest entries, up to half of the limits. */
    if (len > HISTORY_BYTES || n > 2 * LINE_HISTORY) {
        struct buf keep = {0};
        read_entries(NULL, text, from > 0 ? from : 0, &keep);
        char *s = keep.data ? keep.data : text;
        size_t skip = keep.len > HISTORY_BYTES / 2 ? keep.len - HISTORY_BYTES / 2 : 0;
        if (skip) skip += strcspn(s + skip, "\n") + 1;
        if (skip <= keep.len) out_write_file(l->path, s + skip, keep.len - skip, true, &e);
        fd = open_history(l->path, O_RDONLY); /* sets the file's mode */
        if (fd >= 0) close(fd);
        buf_release(&keep);
    }
    free(text);
}

void line_remember(struct line *l, const char *text) {
    struct buf b = {0};
    size_t n = strlen(text);
    if (!n || n > ENTRY_BYTES) return;
    add_entry(l, text);
    if (!l->path) return;
    int fd = open_history(l->path, O_WRONLY | O_CREAT | O_APPEND);
    if (fd < 0 && errno == ENOENT) { /* The first entry ever creates the folder. */
        struct err e;
        char *dir = xstrdup(l->path);
        *strrchr(dir, '/') = 0;
        if (io_make_dir(dir, &e) == 0) chmod(dir, 0700);
        free(dir);
        fd = open_history(l->path, O_WRONLY | O_CREAT | O_APPEND);
    }
    if (fd < 0) return;
    json_quote(&b, text, n);
    buf_chr(&b, '\n');
    /* A single write, since other chats append to the file too. */
    ssize_t ignored = write(fd, b.data, b.len);
    (void)ignored;
    close(fd);
    buf_release(&b);
}

/* ---- the line ---- */

/* Selects a UTF-8 locale for libedit if the user's locale is not one. */
static void use_utf8(void) {
    setlocale(LC_CTYPE, "");
    if (strcmp(nl_langinfo(CODESET), "UTF-8") == 0) return;
    if (!setlocale(LC_CTYPE, "C.UTF-8")) setlocale(LC_CTYPE, "en_US.UTF-8");
}

/* Starts libedit on the terminal. */
static void start_editing(struct line *l) {
    HistEvent ev;
    use_utf8();
    have_tty = tcgetattr(STDIN_FILENO, &tty) == 0;
    l->el = el_init("hone", stdin, l->screen, l->screen);
    if (!l->el) return;
    l->hist = history_init();
    if (l->hist) {
        history(l->hist, &ev, H_SETSIZE, LINE_HISTORY);
        history(l->hist, &ev, H_SETUNIQUE, 1);
        el_set(l->el, EL_HIST, history, l->hist);
    }
    el_set(l->el, EL_CLIENTDATA, l);
    el_set(l->el, EL_SIGNAL, 0);
    el_set(l->el, EL_EDITOR, "emacs");
    el_set(l->el, EL_PROMPT, get_prompt);
    el_set(l->el, EL_GETCFN, get_char);
    el_source(l->el, NULL); /* ~/.editrc */
    el_set(l->el, EL_ADDFN, "hone-newline", "insert a line break without sending", key_newline);
    el_set(l->el, EL_ADDFN, "hone-paste", "insert pasted text", key_paste);
    el_set(l->el, EL_ADDFN, "hone-complete", "complete a command", key_complete);
    el_set(l->el, EL_BIND, "\\e\\r", "hone-newline", NULL);
    el_set(l->el, EL_BIND, "\\e\\n", "hone-newline", NULL);
    el_set(l->el, EL_BIND, "\\e[200~", "hone-paste", NULL);
    el_set(l->el, EL_BIND, "^I", "hone-complete", NULL);
    el_set(l->el, EL_BIND, "^R", "em-inc-search-prev", NULL);
    struct sigaction sa = {.sa_handler = on_window, .sa_flags = SA_RESTART};
    sigemptyset(&sa.sa_mask);
    sigaction(SIGWINCH, &sa, NULL);
    sigaction(SIGCONT, &sa, NULL);
}

struct line *line_new(const char *path, const char *const *words) {
    struct line *l = xcalloc(1, sizeof *l);
    const char *term = getenv("TERM");
    l->words = words;
    l->path = path ? xstrdup(path) : NULL;
    l->screen = isatty(STDERR_FILENO) ? stderr : isatty(STDOUT_FILENO) ? stdout : NULL;
    bool can = l->screen && isatty(STDIN_FILENO) && term && *term && strcmp(term, "dumb") != 0;
    if (open_pipe() && can) start_editing(l);
    load_history(l);
    return l;
}

void line_free(struct line *l) {
    if (!l) return;
    if (l->el) {
        signal(SIGWINCH, SIG_DFL);
        signal(SIGCONT, SIG_DFL);
        el_end(l->el);
        line_restore();
        have_tty = 0;
    }
    if (l->hist) history_end(l->hist);
    free(l->path);
    free(l);
}

/* Reads a line without editing. */
static enum line_end read_plain(struct line *l, struct buf *out) {
    FILE *f = l->screen ? l->screen : stderr;
    fputs(l->prompt, f);
    fflush(f);
    for (int c; (c = next_byte(l)) != '\n';) {
        if (c < 0 && l->why == LINE_EOF && out->len) break; /* last line without a newline */
        if (c < 0) return l->why;
        if (c) buf_chr(out, (char)c);
    }
    while (out->len && out->data[out->len - 1] == '\r') out->data[--out->len] = 0;
    return LINE_TEXT;
}

enum line_end line_read(struct line *l, const char *prompt, struct buf *out) {
    int n = 0;
    buf_reset(out);
    buf_str(out, "");
    l->prompt = prompt;
    if (!l->el) return read_plain(l, out);
    l->why = LINE_EOF;
    l->waiting = false;
    echo(true);
    const char *s = el_gets(l->el, &n);
    echo(false);
    fputs("\033[?2004l", l->screen);
    if (s && n > 0) {
        buf_add(out, s, (size_t)n);
        while (out->len && strchr("\r\n", out->data[out->len - 1])) out->data[--out->len] = 0;
        fflush(l->screen);
        return LINE_TEXT;
    }
    if (progress_interrupted()) l->why = LINE_INTR;
    fputs(l->why == LINE_INTR ? "^C\n" : "\n", l->screen);
    fflush(l->screen);
    return l->why;
}

#define VERSION_WORD(number) #number
#define VERSION_TEXT(number) VERSION_WORD(number)

const char *line_library(void) {
    return VERSION_TEXT(LIBEDIT_MAJOR) "." VERSION_TEXT(LIBEDIT_MINOR);
}
