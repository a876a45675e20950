// SPDX-License-Identifier: MIT
/* base/win/os_run.c - the process, its arguments, processors, interruptions and consoles on
 * Windows. */
#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <locale.h>
#include <process.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <windows.h>
#include <bcrypt.h>
#include <shellapi.h>

#include "base/mem.h"
#include "base/os.h"
#include "base/win/win.h"

/* ---- start ---- */

/* Replaces the arguments by those in UTF-8. They live as long as the process. */
static void take_arguments(int *argc, char ***argv) {
    int n;
    wchar_t **w = CommandLineToArgvW(GetCommandLineW(), &n);
    char **v = xcalloc((size_t)n + 1, sizeof *v);
    for (int i = 0; w && i < n; i++) {
        v[i] = win_utf8(w[i], false);
        if (!v[i]) v[i] = xstrdup("");
    }
    if (!w) return;
    LocalFree(w);
    *argc = n;
    *argv = v;
}
/* Sets variables that hone reads under the names of POSIX systems. */
static void take_variable(const char *name, const wchar_t *from) {
    wchar_t w[4096];
    const DWORD n = GetEnvironmentVariableW(from, w, 4096);
    char *s = n && n < 4096 ? win_utf8(w, true) : NULL;
    if (s) _putenv_s(name, s);
    free(s);
}
void os_begin(int *argc, char ***argv) {
    static const wchar_t *const paths[] = {L"XDG_CACHE_HOME", L"XDG_CONFIG_HOME", L"XDG_STATE_HOME",
                                           L"HF_HOME",        L"TMPDIR",          L"HOME"};
    for (int fd = 0; fd <= 2; fd++) {
        if (_get_osfhandle(fd) == (intptr_t)INVALID_HANDLE_VALUE || _get_osfhandle(fd) == -2)
            (void)_open("NUL", fd == 1 ? _O_RDONLY : _O_WRONLY);
        (void)_setmode(fd, _O_BINARY);
    }
    _fmode = _O_BINARY;
    SetConsoleOutputCP(CP_UTF8);
    SetErrorMode(SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX | SEM_NOOPENFILEERRORBOX);
    for (int fd = 1; fd <= 2; fd++) { /* colours and cursor movement */
        DWORD mode;
        HANDLE h = (HANDLE)_get_osfhandle(fd);
        if (GetConsoleMode(h, &mode)) SetConsoleMode(h, mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING);
    }
    take_variable("HOME", L"USERPROFILE");
    take_variable("TMPDIR", L"TEMP");
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        char *name = win_utf8(paths[i], false);
        take_variable(name, paths[i]);
        free(name);
    }
    take_arguments(argc, argv);
}

/* ---- the process ---- */

int64_t os_pid(void) {
    return (int64_t)GetCurrentProcessId();
}
bool os_process_ended(int64_t pid) {
    HANDLE h = pid > 0 ? OpenProcess(SYNCHRONIZE, FALSE, (DWORD)pid) : NULL;
    if (!h) return pid > 0 && GetLastError() == ERROR_INVALID_PARAMETER;
    const bool ended = WaitForSingleObject(h, 0) == WAIT_OBJECT_0;
    CloseHandle(h);
    return ended;
}
void os_exit(int status) {
    TerminateProcess(GetCurrentProcess(), (UINT)status);
    abort();
}
void os_sleep_ms(int ms) {
    Sleep((DWORD)ms);
}
long os_gmtoff(int64_t t) {
    const time_t at = (time_t)t;
    struct tm tm;
    return localtime_s(&tm, &at) == 0 ? (long)(_mkgmtime(&tm) - at) : 0;
}
void os_name(char *name, size_t n_name, char *machine, size_t n_machine) {
    snprintf(name, n_name, "Windows");
    snprintf(machine, n_machine, "x86_64");
}
bool os_memory_is_limited(void) {
    return false;
}
/* Quotes an argument for a command line, in the way that programs parse it: `\` before a quote, and
 * each `\` that precedes one doubled. NULL: not UTF-8. */
static wchar_t *quoted(const char *arg) {
    wchar_t *w = win_wide(arg), *out = w ? xreallocarray(NULL, 2 * wcslen(w) + 3, sizeof *w) : NULL;
    size_t n = 0, n_back = 0;
    if (!w) return NULL;
    out[n++] = L'"';
    for (const wchar_t *p = w;; p++) {
        if (*p == L'"' || !*p)
            for (n_back += *p == L'"'; n_back; n_back--) out[n++] = L'\\';
        if (!*p) break;
        n_back = *p == L'\\' ? n_back + 1 : 0;
        out[n++] = *p;
    }
    out[n++] = L'"';
    out[n] = 0;
    free(w);
    return out;
}
int os_run_program(char *const argv[]) {
    size_t n = 0;
    while (argv[n]) n++;
    wchar_t **v = xcalloc(n + 1, sizeof *v), *file = win_wide(argv[0]);
    bool ok = file;
    for (size_t i = 0; i < n; i++) ok &= (v[i] = quoted(argv[i])) != NULL;
    const intptr_t rc = ok ? _wspawnvp(_P_WAIT, file, (const wchar_t *const *)v) : -1;
    for (size_t i = 0; i < n; i++) free(v[i]);
    free(v);
    free(file);
    return rc < 0 ? -1 : (int)(rc & 255);
}
bool os_random(void *p, size_t n) {
    if (BCryptGenRandom(NULL, p, (ULONG)n, BCRYPT_USE_SYSTEM_PREFERRED_RNG) == 0) return true;
    errno = ENOSYS;
    return false;
}

/* ---- shared libraries and locales ---- */

void *os_library(const char *name, bool loaded) {
    wchar_t *w = win_wide(name);
    HMODULE m = !w ? NULL : loaded ? GetModuleHandleW(w) : LoadLibraryW(w);
    free(w);
    return m;
}
void *os_symbol(void *library, const char *name) {
    const FARPROC f = GetProcAddress(library, name);
    void *p;
    memcpy(&p, &f, sizeof p);
    return p;
}
const char *os_library_error(void) {
    return "it is not installed";
}
bool os_locale_c(struct os_locale *l) {
    l->plain = NULL;
    _configthreadlocale(_ENABLE_PER_THREAD_LOCALE);
    l->before = xstrdup(setlocale(LC_ALL, NULL));
    return setlocale(LC_ALL, "C") != NULL;
}
void os_locale_back(struct os_locale *l) {
    setlocale(LC_ALL, l->before);
    free(l->before);
}

/* ---- processors ---- */

int os_n_cpus(void) {
    return (int)GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);
}
/* Counts cores; with `big`, only those of the highest EfficiencyClass, the fastest. */
static int count_cores(bool big) {
    DWORD n = 0;
    int cores = 0, best = 0, of_best = 0;
    GetLogicalProcessorInformationEx(RelationProcessorCore, NULL, &n);
    char *all = n ? xmalloc(n) : NULL;
    SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX *i = (void *)all;
    if (!all || !GetLogicalProcessorInformationEx(RelationProcessorCore, i, &n)) n = 0;
    for (DWORD at = 0; at < n; at += i->Size) {
        i = (void *)(all + at);
        /* the byte after Flags is EfficiencyClass, which older mingw headers do not name */
        const int class = ((const BYTE *)&i->Processor)[1];
        cores++;
        if (class > best) best = class, of_best = 0;
        of_best += class == best;
    }
    free(all);
    return big ? of_best : cores;
}
int os_n_cores(void) {
    return count_cores(false);
}
int os_big_cores(void) {
    return count_cores(true);
}
bool os_use_tiles(void) { /* Windows 11 22H2 grants them on request */
    BOOL(WINAPI * enable)(DWORD64) = NULL;
    const FARPROC f =
        GetProcAddress(GetModuleHandleW(L"kernel32.dll"), "EnableProcessOptionalXStateFeatures");
    memcpy(&enable, &f, sizeof f);
    return enable && enable(UINT64_C(1) << 18);
}
bool os_arm_dotprod(void) {
    return false;
}
bool os_arm_i8mm(void) {
    return false;
}

/* ---- interruptions ---- */

static os_handler interrupt_handler;
/* Handles Ctrl-C, Ctrl-Break and closing the window, in a thread of its own. */
static BOOL WINAPI on_control(DWORD what) {
    os_handler h = interrupt_handler;
    if (!h) return FALSE;
    const bool key = what == CTRL_C_EVENT || what == CTRL_BREAK_EVENT;
    h(key ? SIGINT : SIGTERM);
    /* Windows ends the process when this returns, or after 5 s: time to remove temporaries. */
    if (!key) Sleep(10000);
    return TRUE;
}
os_handler os_on_interrupt(os_handler handler) {
    os_handler old = interrupt_handler;
    interrupt_handler = handler;
    if (!old && handler) SetConsoleCtrlHandler(on_control, TRUE);
    return old;
}
static void (*map_fault_handler)(const void *at);
static LONG CALLBACK on_fault(EXCEPTION_POINTERS *p) {
    const EXCEPTION_RECORD *r = p->ExceptionRecord;
    const bool fault = r->ExceptionCode == EXCEPTION_IN_PAGE_ERROR ||
                       r->ExceptionCode == EXCEPTION_ACCESS_VIOLATION;
    if (fault && r->NumberParameters >= 2)
        map_fault_handler((const void *)r->ExceptionInformation[1]);
    return EXCEPTION_CONTINUE_SEARCH;
}
void os_on_map_fault(void (*handler)(const void *at)) {
    if (!map_fault_handler) AddVectoredExceptionHandler(1, on_fault);
    map_fault_handler = handler;
}
void os_stop_thread(void) {
    for (;;) Sleep(INFINITE);
}
void os_ignore_write_signals(void) { /* Windows has no such signals */
}
void os_end_by_pipe(void) { /* Windows has no SIGPIPE; this is its exit status in a shell */
    _exit(141);
}

/* ---- standard streams and consoles ---- */

static HANDLE handle_of(FILE *f) {
    const int fd = f ? _fileno(f) : -1;
    return fd < 0 ? INVALID_HANDLE_VALUE : (HANDLE)_get_osfhandle(fd);
}
bool os_stdout_gone(void) {
    DWORD n;
    HANDLE h = handle_of(stdout);
    /* The output is cut anyway, so one more byte does no harm. Writing 0 bytes always succeeds. */
    return GetFileType(h) == FILE_TYPE_PIPE && !WriteFile(h, "\n", 1, &n, NULL);
}
int os_wait_writable(int fd, int ms) {
    (void)fd, (void)ms;
    return 1;
}
bool os_stdin_waits(void) {
    DWORD n = 0;
    LARGE_INTEGER size, at, none = {0};
    HANDLE h = handle_of(stdin);
    const DWORD type = GetFileType(h);
    if (type == FILE_TYPE_PIPE) return PeekNamedPipe(h, NULL, 0, NULL, &n, NULL) && n;
    return type == FILE_TYPE_DISK && GetFileSizeEx(h, &size) &&
           SetFilePointerEx(h, none, &at, FILE_CURRENT) && at.QuadPart < size.QuadPart;
}
bool os_is_tty(FILE *f) { /* not for the null device */
    DWORD mode;
    return GetConsoleMode(handle_of(f), &mode);
}
int os_tty_width(FILE *f) {
    CONSOLE_SCREEN_BUFFER_INFO i;
    return GetConsoleScreenBufferInfo(handle_of(f), &i) ? i.srWindow.Right - i.srWindow.Left + 1
                                                        : 0;
}
