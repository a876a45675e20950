// SPDX-License-Identifier: MIT
/* base/win/os_path.c - paths, texts, errors and owners on Windows. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>
#include <aclapi.h>
#include <sddl.h>

#include "base/mem.h"
#include "base/os.h"
#include "base/win/win.h"

/* ---- errors ---- */

#ifndef ERROR_DISK_QUOTA_EXCEEDED /* missing in older headers of mingw */
#define ERROR_DISK_QUOTA_EXCEEDED 1295
#endif

int win_fail(unsigned long code) {
    static const struct {
        unsigned long code;
        int error;
    } list[] = {{ERROR_FILE_NOT_FOUND, ENOENT},       {ERROR_PATH_NOT_FOUND, ENOENT},
                {ERROR_INVALID_NAME, ENOENT},         {ERROR_BAD_PATHNAME, ENOENT},
                {ERROR_BAD_NETPATH, ENOENT},          {ERROR_BAD_NET_NAME, ENOENT},
                {ERROR_DIRECTORY, ENOTDIR},           {ERROR_ACCESS_DENIED, EACCES},
                {ERROR_SHARING_VIOLATION, EBUSY},     {ERROR_USER_MAPPED_FILE, EBUSY},
                {ERROR_LOCK_VIOLATION, EWOULDBLOCK},  {ERROR_IO_PENDING, EWOULDBLOCK},
                {ERROR_FILE_EXISTS, EEXIST},          {ERROR_ALREADY_EXISTS, EEXIST},
                {ERROR_DIR_NOT_EMPTY, ENOTEMPTY},     {ERROR_DISK_FULL, ENOSPC},
                {ERROR_HANDLE_DISK_FULL, ENOSPC},     {ERROR_DISK_QUOTA_EXCEEDED, ENOSPC},
                {ERROR_FILE_TOO_LARGE, EFBIG},        {ERROR_NOT_ENOUGH_MEMORY, ENOMEM},
                {ERROR_COMMITMENT_LIMIT, ENOMEM},     {ERROR_OUTOFMEMORY, ENOMEM},
                {ERROR_TOO_MANY_OPEN_FILES, EMFILE},  {ERROR_INVALID_HANDLE, EBADF},
                {ERROR_INVALID_FUNCTION, ENOSYS},     {ERROR_NOT_SUPPORTED, ENOSYS},
                {ERROR_CALL_NOT_IMPLEMENTED, ENOSYS}, {ERROR_PRIVILEGE_NOT_HELD, EPERM},
                {ERROR_WRITE_PROTECT, EROFS},         {ERROR_NOT_SAME_DEVICE, EXDEV},
                {ERROR_BROKEN_PIPE, EPIPE},           {ERROR_NO_DATA, EPIPE},
                {ERROR_INVALID_PARAMETER, EINVAL},    {ERROR_FILENAME_EXCED_RANGE, ENAMETOOLONG},
                {ERROR_CANT_RESOLVE_FILENAME, ELOOP}};
    errno = EIO;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (list[i].code == code) errno = list[i].error;
    return -1;
}
int win_fail_last(void) {
    return win_fail(GetLastError());
}

/* ---- texts ---- */

wchar_t *win_wide(const char *s) {
    const int n = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, s, -1, NULL, 0);
    if (n <= 0) return NULL;
    wchar_t *w = xreallocarray(NULL, (size_t)n, sizeof *w);
    MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, s, -1, w, n);
    return w;
}
char *win_utf8(const wchar_t *w, bool slashes) {
    const int n = WideCharToMultiByte(CP_UTF8, 0, w, -1, NULL, 0, NULL, NULL);
    if (n <= 0) return NULL;
    char *s = xmalloc((size_t)n);
    WideCharToMultiByte(CP_UTF8, 0, w, -1, s, n, NULL, NULL);
    for (char *p = s; slashes && *p; p++)
        if (*p == '\\') *p = '/';
    return s;
}

/* ---- names ---- */

/* Returns whether n characters are the name of a device, with or without an extension. */
static bool is_device(const wchar_t *name, size_t n) {
    static const wchar_t *const list[] = {L"CON", L"PRN", L"AUX", L"NUL", L"COM", L"LPT"};
    size_t stem = 0;
    while (stem < n && name[stem] != L'.' && name[stem] != L' ') stem++;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        if (_wcsnicmp(name, list[i], 3) != 0) continue;
        if (i < 4 ? stem == 3
                  : stem == 4 && name[3] && wcschr(L"123456789\u00b9\u00b2\u00b3", name[3]))
            return true;
    }
    return false;
}
/* Returns whether n characters can be the name of a new file. */
static bool is_name(const wchar_t *name, size_t n) {
    if (!n || (n == 1 && name[0] == L'.') || (n == 2 && name[0] == L'.' && name[1] == L'.'))
        return true;
    for (size_t i = 0; i < n; i++)
        if (name[i] < 32 || wcschr(L"<>:\"|?*", name[i])) return false;
    return name[n - 1] != L'.' && name[n - 1] != L' ' && !is_device(name, n);
}
/* Returns the number of characters before the first name: a drive, or a prefix. */
static size_t root_of(const wchar_t *w) {
    if (wcsncmp(w, L"\\\\?\\", 4) == 0) return w[4] && w[5] == L':' ? 6 : 4;
    return w[0] && w[1] == L':' ? 2 : 0;
}
static bool are_names(const wchar_t *w) {
    for (const wchar_t *p = w + root_of(w);;) {
        const size_t n = wcscspn(p, L"\\");
        if (!is_name(p, n)) return false;
        if (!p[n]) return true;
        p += n + 1;
    }
}

wchar_t *win_path(const char *path, bool create) {
    enum { LONG = 240 }; /* a folder's limit is 248, and names are added to it */
    if (strcmp(path, OS_NULL_FILE) == 0) path = "NUL", create = false;
    wchar_t *w = win_wide(path);
    if (!w) {
        errno = EILSEQ;
        return NULL;
    }
    for (wchar_t *p = w; *p; p++)
        if (*p == L'/') *p = L'\\';
    if (!*w || (create && !are_names(w))) {
        errno = *w ? EINVAL : ENOENT;
        free(w);
        return NULL;
    }
    if (wcsncmp(w, L"\\\\?\\", 4) == 0) return w;
    static const wchar_t local[] = L"\\\\?\\", share[] = L"\\\\?\\UNC";
    const DWORD n = GetFullPathNameW(w, 0, NULL, NULL); /* a short path in a deep folder, too */
    if (n < LONG) return w;
    wchar_t *full = xreallocarray(NULL, (size_t)n + 16, sizeof *full), *at = full + 8;
    if (!n || !GetFullPathNameW(w, n, at, NULL)) {
        free(full);
        return w;
    }
    free(w);
    const bool remote = wcsncmp(at, L"\\\\", 2) == 0;
    const wchar_t *prefix = remote ? share : local;
    const size_t skip = remote ? 1 : 0, n_prefix = wcslen(prefix);
    memmove(full + n_prefix, at + skip, (wcslen(at + skip) + 1) * sizeof *full);
    memcpy(full, prefix, n_prefix * sizeof *full);
    return full;
}

bool os_can_be_name(const char *path) {
    wchar_t *w = win_path(path, true);
    const bool yes = w || errno != EINVAL;
    free(w);
    return yes;
}
bool os_is_absolute(const char *path) {
    return *path == '/' || *path == '\\' || (*path && path[1] == ':');
}

static char temp_dir[4096] = ".";
static void find_temp_dir(void) {
    wchar_t w[1024];
    const DWORD n = GetTempPathW(1024, w);
    char *s = n && n < 1024 ? win_utf8(w, true) : NULL;
    if (s && strlen(s) > 1) snprintf(temp_dir, sizeof temp_dir, "%.*s", (int)strlen(s) - 1, s);
    free(s); /* without the `\` at the end */
}
const char *os_temp_dir(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_temp_dir);
    return temp_dir;
}

/* ---- owners ----
 *
 * Users have no numbers here. The process's user is 1000, a file of the administrators or of the
 * system is 0's, and one of anybody else is 1001's. */

enum { MINE = 1000, ROOT = 0, OTHERS = 1001 };
unsigned os_uid(void) {
    return MINE;
}
/* Returns the process's user; the buffer is never freed. */
static PSID my_sid(void) {
    static union {
        TOKEN_USER user;
        char room[256];
    } of;
    static volatile bool known;
    HANDLE token;
    DWORD n;
    if (known) return of.user.User.Sid;
    if (!OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &token)) return NULL;
    known = GetTokenInformation(token, TokenUser, &of, sizeof of, &n);
    CloseHandle(token);
    return known ? of.user.User.Sid : NULL;
}
static bool is_system(PSID sid) {
    return IsWellKnownSid(sid, WinBuiltinAdministratorsSid) ||
           IsWellKnownSid(sid, WinLocalSystemSid);
}
void win_owner(void *handle, unsigned *uid, unsigned *mode) {
    PSID owner;
    PACL acl;
    PSECURITY_DESCRIPTOR d;
    *uid = OTHERS;
    if (GetSecurityInfo(handle, SE_FILE_OBJECT,
                        OWNER_SECURITY_INFORMATION | DACL_SECURITY_INFORMATION, &owner, NULL, &acl,
                        NULL, &d) != ERROR_SUCCESS)
        return; /* unknown, so not ours */
    const PSID me = my_sid();
    *uid = me && EqualSid(owner, me) ? MINE : is_system(owner) ? ROOT : OTHERS;
    if (!acl) *mode |= 066; /* everybody may do everything */
    for (DWORD i = 0; acl && i < acl->AceCount; i++) {
        ACCESS_ALLOWED_ACE *ace;
        if (!GetAce(acl, i, (void **)&ace) || ace->Header.AceType != ACCESS_ALLOWED_ACE_TYPE)
            continue;
        PSID who = &ace->SidStart;
        if (ace->Header.AceFlags & INHERIT_ONLY_ACE || is_system(who) || (me && EqualSid(who, me)))
            continue;
        if (ace->Mask & (FILE_READ_DATA | GENERIC_READ | GENERIC_ALL)) *mode |= 044;
        if (ace->Mask & (FILE_WRITE_DATA | FILE_APPEND_DATA | GENERIC_WRITE | GENERIC_ALL))
            *mode |= 022;
    }
    LocalFree(d);
}
bool win_make_private(const wchar_t *path) {
    const PSID me = my_sid();
    LPWSTR text;
    PSECURITY_DESCRIPTOR d;
    wchar_t rules[512];
    PACL acl;
    BOOL has, is_default;
    if (!me || !ConvertSidToStringSidW(me, &text)) return false;
    swprintf(rules, 512, L"D:P(A;OICI;FA;;;%ls)(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)", text);
    LocalFree(text);
    if (!ConvertStringSecurityDescriptorToSecurityDescriptorW(rules, SDDL_REVISION_1, &d, NULL))
        return false;
    const bool ok =
        GetSecurityDescriptorDacl(d, &has, &acl, &is_default) &&
        SetNamedSecurityInfoW((LPWSTR)(uintptr_t)path, SE_FILE_OBJECT,
                              DACL_SECURITY_INFORMATION | PROTECTED_DACL_SECURITY_INFORMATION, NULL,
                              NULL, acl, NULL) == ERROR_SUCCESS;
    LocalFree(d);
    return ok;
}
