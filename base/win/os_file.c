// SPDX-License-Identifier: MIT
/* base/win/os_file.c - files, folders and memory on Windows.
 *
 * Every file is opened so that others may read, write, rename and delete it, as on POSIX systems;
 * locks decide who may write. They are on a byte far past the data, because Windows' locks
 * keep others from reading. Renames are written through. A target that is open or mapped elsewhere
 * is replaced with POSIX semantics where the system has them (Windows 10 1709, NTFS), else refused
 * with EBUSY or EACCES. */
#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>
#include <psapi.h>

#include "base/mem.h"
#include "base/os.h"
#include "base/win/win.h"

static const uint64_t lock_byte = UINT64_C(1) << 62;
enum { SHARE = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE };

static HANDLE handle_of(int fd) {
    return fd < 0 ? INVALID_HANDLE_VALUE : (HANDLE)_get_osfhandle(fd);
}

/* ---- state ---- */

/* Sets the time of a FILETIME in 100 ns since 1601. */
static void set_time(int64_t *s, long *ns, int64_t t) {
    static const int64_t epoch = INT64_C(116444736000000000);
    *s = (t - epoch) / 10000000;
    *ns = (long)((t - epoch) % 10000000) * 100;
}
/* Fills *st from a handle. */
static int fill_stat(HANDLE h, struct os_stat *st) {
    BY_HANDLE_FILE_INFORMATION i;
    FILE_BASIC_INFO b;
    FILE_STANDARD_INFO s;
    *st = (struct os_stat){.kind = OS_OTHER, .mode = 0600, .uid = os_uid()};
    SetLastError(0);
    const DWORD type = GetFileType(h);
    if (type == FILE_TYPE_UNKNOWN && GetLastError()) return win_fail_last();
    if (type == FILE_TYPE_PIPE) st->kind = OS_PIPE;
    if (type != FILE_TYPE_DISK) return 0;
    if (!GetFileInformationByHandle(h, &i)) return win_fail_last();
    const DWORD a = i.dwFileAttributes;
    st->kind = a & FILE_ATTRIBUTE_REPARSE_POINT ? OS_LINK
               : a & FILE_ATTRIBUTE_DIRECTORY   ? OS_FOLDER
                                                : OS_FILE;
    st->mode =
        (a & FILE_ATTRIBUTE_READONLY ? 0400u : 0600u) | (a & FILE_ATTRIBUTE_DIRECTORY ? 0100u : 0u);
    st->size = st->kind == OS_FILE ? (uint64_t)i.nFileSizeHigh << 32 | i.nFileSizeLow : 0;
    st->n_links = i.nNumberOfLinks;
    st->dev = i.dwVolumeSerialNumber;
    st->ino = (uint64_t)i.nFileIndexHigh << 32 | i.nFileIndexLow;
    st->stored = st->size;
    if (GetFileInformationByHandleEx(h, FileStandardInfo, &s, sizeof s))
        st->stored = (uint64_t)s.AllocationSize.QuadPart;
    if (GetFileInformationByHandleEx(h, FileBasicInfo, &b, sizeof b)) {
        set_time(&st->mtime_s, &st->mtime_ns, b.LastWriteTime.QuadPart);
        set_time(&st->ctime_s, &st->ctime_ns, b.ChangeTime.QuadPart);
    }
    win_owner(h, &st->uid, &st->mode);
    return 0;
}
/* Opens a path for its state only; INVALID_HANDLE_VALUE with errno on failure. */
static HANDLE open_state(const char *path, DWORD access, DWORD flags) {
    wchar_t *w = win_path(path, false);
    if (!w) return INVALID_HANDLE_VALUE;
    HANDLE h = CreateFileW(w, access, SHARE, NULL, OPEN_EXISTING,
                           FILE_FLAG_BACKUP_SEMANTICS | flags, NULL);
    if (h == INVALID_HANDLE_VALUE) win_fail_last();
    free(w);
    return h;
}
/* Examines a path, or with the flag for links the link itself. */
static int stat_with(const char *path, struct os_stat *st, DWORD flags) {
    HANDLE h = open_state(path, FILE_READ_ATTRIBUTES | READ_CONTROL, flags);
    if (h == INVALID_HANDLE_VALUE && errno == EACCES)
        h = open_state(path, FILE_READ_ATTRIBUTES, flags);
    if (h == INVALID_HANDLE_VALUE) return -1;
    const int rc = fill_stat(h, st);
    CloseHandle(h);
    return rc;
}
int os_stat(const char *path, struct os_stat *st) {
    return stat_with(path, st, 0);
}
int os_lstat(const char *path, struct os_stat *st) {
    return stat_with(path, st, FILE_FLAG_OPEN_REPARSE_POINT);
}
int os_fstat(int fd, struct os_stat *st) {
    HANDLE h = handle_of(fd);
    if (h != INVALID_HANDLE_VALUE) return fill_stat(h, st);
    errno = EBADF;
    return -1;
}
bool os_exists(const char *path) {
    wchar_t *w = win_path(path, false);
    const bool yes = w && GetFileAttributesW(w) != INVALID_FILE_ATTRIBUTES;
    if (w && !yes) win_fail_last();
    free(w);
    return yes;
}

/* ---- contents ---- */

/* Opens a file or folder; INVALID_HANDLE_VALUE with errno on failure. */
static HANDLE open_handle(const char *path, int how) {
    const bool creates = how & (OS_CREATE | OS_NEW);
    wchar_t *w = win_path(path, creates);
    if (!w) return INVALID_HANDLE_VALUE;
    const DWORD when = how & OS_NEW ? CREATE_NEW : how & OS_CREATE ? OPEN_ALWAYS : OPEN_EXISTING;
    const DWORD access = READ_CONTROL | (how & OS_WRITE && !(how & OS_APPEND) ? GENERIC_WRITE : 0) |
                         (how & OS_APPEND ? FILE_APPEND_DATA | SYNCHRONIZE : 0) |
                         (how & OS_READ || !(how & OS_WRITE) ? GENERIC_READ : 0) |
                         (how & OS_APPEND ? FILE_READ_ATTRIBUTES : 0);
    const DWORD flags = FILE_FLAG_BACKUP_SEMANTICS | FILE_ATTRIBUTE_NORMAL |
                        (how & OS_NO_LINK ? FILE_FLAG_OPEN_REPARSE_POINT : 0);
    HANDLE h = INVALID_HANDLE_VALUE;
    for (int i = 0; i < 10; i++) { /* a virus scanner may hold a fresh file for a moment */
        h = CreateFileW(w, access, SHARE, NULL, when, flags, NULL);
        if (h != INVALID_HANDLE_VALUE || GetLastError() != ERROR_SHARING_VIOLATION) break;
        Sleep(20);
    }
    if (h == INVALID_HANDLE_VALUE) win_fail_last();
    free(w);
    return h;
}
int os_open(const char *path, int how, unsigned mode) {
    HANDLE h = open_handle(path, how);
    struct os_stat st;
    if (h == INVALID_HANDLE_VALUE) return -1;
    int error = fill_stat(h, &st) != 0                   ? errno
                : how & OS_NO_LINK && st.kind == OS_LINK ? ELOOP
                : how & OS_DIR && st.kind != OS_FOLDER   ? ENOTDIR
                : how & OS_WRITE && st.kind == OS_FOLDER ? EISDIR
                                                         : 0;
    const int fd = error ? -1 : _open_osfhandle((intptr_t)h, _O_BINARY | _O_NOINHERIT);
    if (fd < 0) {
        if (!error) error = errno;
        CloseHandle(h);
        errno = error;
        return -1;
    }
    if (how & OS_EMPTY && os_truncate(fd, 0) != 0) {
        error = errno;
        os_close(fd);
        errno = error;
        return -1;
    }
    if (how & (OS_CREATE | OS_NEW) && !(mode & 077) && st.size == 0) (void)os_chmod(path, mode);
    return fd;
}
int os_close(int fd) {
    return _close(fd);
}
FILE *os_fopen(const char *path, const char *mode) {
    wchar_t *w = win_path(path, strpbrk(mode, "wa") != NULL), m[8] = {0};
    for (size_t i = 0, n = 0; mode[i] && n < 5; i++)
        if (mode[i] != 'b') m[n++] = (wchar_t)(unsigned char)mode[i];
    wcscat(m, L"bN"); /* bytes as they are, not inherited */
    FILE *f = w ? _wfopen(w, m) : NULL;
    free(w);
    return f;
}
/* Limits a size to the most that ReadFile and WriteFile take. */
static DWORD piece(size_t n) {
    return n < 1u << 30 ? (DWORD)n : 1u << 30;
}
int64_t os_read(int fd, void *p, size_t n) {
    DWORD got;
    if (ReadFile(handle_of(fd), p, piece(n), &got, NULL)) return got;
    return GetLastError() == ERROR_BROKEN_PIPE || GetLastError() == ERROR_HANDLE_EOF
               ? 0
               : win_fail_last();
}
int64_t os_write(int fd, const void *p, size_t n) {
    DWORD put;
    return WriteFile(handle_of(fd), p, piece(n), &put, NULL) ? (int64_t)put : win_fail_last();
}
/* Returns the place of a read or write. */
static OVERLAPPED place(uint64_t at) {
    return (OVERLAPPED){.Offset = (DWORD)at, .OffsetHigh = (DWORD)(at >> 32)};
}
int64_t os_pread(int fd, void *p, size_t n, uint64_t at) {
    OVERLAPPED o = place(at);
    DWORD got;
    if (ReadFile(handle_of(fd), p, piece(n), &got, &o)) return got;
    return GetLastError() == ERROR_HANDLE_EOF ? 0 : win_fail_last();
}
int64_t os_pwrite(int fd, const void *p, size_t n, uint64_t at) {
    OVERLAPPED o = place(at);
    DWORD put;
    return WriteFile(handle_of(fd), p, piece(n), &put, &o) ? (int64_t)put : win_fail_last();
}
int os_truncate(int fd, uint64_t size) {
    FILE_END_OF_FILE_INFO i = {.EndOfFile.QuadPart = (LONGLONG)size};
    return SetFileInformationByHandle(handle_of(fd), FileEndOfFileInfo, &i, sizeof i)
               ? 0
               : win_fail_last();
}
int os_reserve(int fd, uint64_t size) {
    FILE_ALLOCATION_INFO i = {.AllocationSize.QuadPart = (LONGLONG)size};
    if (!SetFileInformationByHandle(handle_of(fd), FileAllocationInfo, &i, sizeof i))
        return win_fail_last();
    return os_truncate(fd, size);
}
int os_set_wait(int fd) {
    (void)fd;
    return 0;
}
int os_dup(int fd) {
    return _dup(fd);
}
int os_sync(int fd) { /* a folder cannot be flushed; renames are written through */
    return FlushFileBuffers(handle_of(fd)) ? 0 : win_fail_last();
}
int os_sync_data(int fd) {
    return os_sync(fd);
}
int os_lock(int fd, bool wait) {
    OVERLAPPED o = place(lock_byte);
    const DWORD flags = LOCKFILE_EXCLUSIVE_LOCK | (wait ? 0 : LOCKFILE_FAIL_IMMEDIATELY);
    return LockFileEx(handle_of(fd), flags, 0, 1, 0, &o) ? 0 : win_fail_last();
}
bool os_uncache(int fd, uint64_t at, uint64_t n) {
    (void)fd, (void)at, (void)n;
    return false;
}

/* ---- names ---- */

/* Deletes the file of a handle with POSIX semantics: its name is free at once, even while it is
 * open. False: this system or file system cannot. */
static bool delete_posix(const wchar_t *w) {
    enum { INFO_EX = 21, DELETE_IT = 1, POSIX = 2, IGNORE_READONLY = 16 };
    ULONG flags = DELETE_IT | POSIX | IGNORE_READONLY;
    HANDLE h = CreateFileW(w, DELETE, SHARE, NULL, OPEN_EXISTING,
                           FILE_FLAG_OPEN_REPARSE_POINT | FILE_FLAG_BACKUP_SEMANTICS, NULL);
    if (h == INVALID_HANDLE_VALUE) return false;
    const bool ok =
        SetFileInformationByHandle(h, (FILE_INFO_BY_HANDLE_CLASS)INFO_EX, &flags, sizeof flags);
    CloseHandle(h);
    return ok;
}
int os_unlink(const char *path) {
    wchar_t *w = win_path(path, false);
    if (!w) return -1;
    const DWORD a = GetFileAttributesW(w);
    int rc = 0;
    if (a == INVALID_FILE_ATTRIBUTES)
        rc = win_fail_last();
    else if (a & FILE_ATTRIBUTE_DIRECTORY && !(a & FILE_ATTRIBUTE_REPARSE_POINT))
        rc = win_fail(ERROR_ACCESS_DENIED);
    else if (!delete_posix(w)) {
        if (a & FILE_ATTRIBUTE_READONLY) SetFileAttributesW(w, a & ~(DWORD)FILE_ATTRIBUTE_READONLY);
        if (!(a & FILE_ATTRIBUTE_DIRECTORY ? RemoveDirectoryW(w) : DeleteFileW(w)))
            rc = win_fail_last();
    }
    free(w);
    return rc;
}
/* Renames with POSIX semantics: replaces a target that others have open. */
static bool rename_posix(const wchar_t *from, const wchar_t *to) {
    enum { RENAME_EX = 22, REPLACE = 1, POSIX = 2 };
    const size_t n = wcslen(to) * sizeof *to;
    struct {
        ULONG flags;
        HANDLE root;
        ULONG n_bytes;
        wchar_t name[1];
    } *i = xcalloc(1, sizeof *i + n);
    i->flags = REPLACE | POSIX;
    i->n_bytes = (ULONG)n;
    memcpy(i->name, to, n);
    HANDLE h = CreateFileW(from, DELETE | SYNCHRONIZE, SHARE, NULL, OPEN_EXISTING,
                           FILE_FLAG_BACKUP_SEMANTICS, NULL);
    const bool ok = h != INVALID_HANDLE_VALUE &&
                    SetFileInformationByHandle(h, (FILE_INFO_BY_HANDLE_CLASS)RENAME_EX, i,
                                               (DWORD)(sizeof *i + n));
    if (h != INVALID_HANDLE_VALUE) CloseHandle(h);
    free(i);
    return ok;
}
/* Renames, waiting for a moment if another program, such as a virus scanner, holds a file. */
static int rename_with(const char *from, const char *to, DWORD flags) {
    wchar_t *a = win_path(from, false), *b = a ? win_path(to, true) : NULL;
    int rc = -1;
    for (int i = 0; b && rc != 0 && i < 10; i++) {
        if (MoveFileExW(a, b, flags | MOVEFILE_WRITE_THROUGH)) {
            rc = 0;
            break;
        }
        const DWORD why = GetLastError();
        if (why != ERROR_ACCESS_DENIED && why != ERROR_SHARING_VIOLATION) {
            win_fail(why);
            break;
        }
        if (flags & MOVEFILE_REPLACE_EXISTING && rename_posix(a, b))
            rc = 0;
        else {
            win_fail(why == ERROR_ACCESS_DENIED ? ERROR_SHARING_VIOLATION : why);
            Sleep(20);
        }
    }
    free(a);
    free(b);
    return rc;
}
int os_rename(const char *from, const char *to) {
    return rename_with(from, to, MOVEFILE_REPLACE_EXISTING);
}
int os_rename_new(const char *from, const char *to) {
    return rename_with(from, to, 0);
}
int os_link(const char *from, const char *to) {
    wchar_t *a = win_path(from, false), *b = a ? win_path(to, true) : NULL;
    const int rc = !b ? -1 : CreateHardLinkW(b, a, NULL) ? 0 : win_fail_last();
    free(a);
    free(b);
    return rc;
}
int os_symlink(const char *to, const char *path) { /* needs a privilege; a hard link does not */
    enum { UNPRIVILEGED = 2 };
    wchar_t *a = win_wide(to), *b = a ? win_path(path, true) : NULL;
    for (wchar_t *p = a; p && *p; p++)
        if (*p == L'/') *p = L'\\';
    const bool ok = b && CreateSymbolicLinkW(b, a, UNPRIVILEGED) &&
                    GetFileAttributesW(b) != INVALID_FILE_ATTRIBUTES; /* Wine 8 makes none */
    free(a);
    free(b);
    return ok ? 0 : os_link(to, path);
}
int os_mkdir(const char *path, unsigned mode) {
    wchar_t *w = win_path(path, true);
    if (!w) return -1;
    const int rc = CreateDirectoryW(w, NULL) ? 0 : win_fail_last();
    if (rc == 0 && !(mode & 077)) (void)win_make_private(w);
    const bool root = rc != 0 && GetFileAttributesW(w) != INVALID_FILE_ATTRIBUTES;
    free(w);
    if (root) errno = EEXIST; /* "C:" is refused in another way */
    return rc;
}
int os_rmdir(const char *path) {
    wchar_t *w = win_path(path, false);
    const int rc = !w ? -1 : RemoveDirectoryW(w) ? 0 : win_fail_last();
    free(w);
    return rc;
}
int os_chmod(const char *path, unsigned mode) {
    wchar_t *w = win_path(path, false);
    if (!w) return -1;
    bool ok = true;
    if (!(mode & 077)) ok = win_make_private(w);
    if (!ok) win_fail_last();
    free(w);
    return ok ? 0 : -1;
}
int os_fchmod(int fd, unsigned mode) {
    wchar_t w[4096];
    if (mode & 077) return 0; /* rights are inherited from the folder */
    const DWORD n = GetFinalPathNameByHandleW(handle_of(fd), w, 4096, 0);
    return n && n < 4096 && win_make_private(w) ? 0 : win_fail_last();
}
int os_touch(const char *path) {
    FILETIME now;
    HANDLE h = open_state(path, FILE_WRITE_ATTRIBUTES, 0);
    if (h == INVALID_HANDLE_VALUE) return -1;
    GetSystemTimeAsFileTime(&now);
    const int rc = SetFileTime(h, NULL, &now, &now) ? 0 : win_fail_last();
    CloseHandle(h);
    return rc;
}
/* Replaces the XXXXXX at the path's end by random letters. */
static void new_name(char *path) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz234567";
    uint8_t r[6] = {0};
    char *x = path + strlen(path) - 6;
    (void)os_random(r, sizeof r);
    for (int i = 0; i < 6; i++) x[i] = letters[r[i] % 32];
}
char *os_mkdtemp(char *path) {
    for (int i = 0; i < 100; i++) {
        new_name(path);
        if (os_mkdir(path, 0700) == 0) return path;
        if (errno != EEXIST) break;
    }
    return NULL;
}
int os_mkstemp(char *path) {
    int fd = -1;
    for (int i = 0; i < 100 && fd < 0; i++) {
        new_name(path);
        fd = os_open(path, OS_READ | OS_WRITE | OS_NEW, 0600);
        if (fd < 0 && errno != EEXIST) break;
    }
    return fd;
}
char *os_real(const char *path) {
    HANDLE h = open_state(path, FILE_READ_ATTRIBUTES, 0);
    if (h == INVALID_HANDLE_VALUE) return NULL;
    wchar_t w[4096];
    const DWORD n = GetFinalPathNameByHandleW(h, w, 4096, 0);
    CloseHandle(h);
    if (!n || n >= 4096) {
        win_fail_last();
        return NULL;
    }
    const bool remote = wcsncmp(w, L"\\\\?\\UNC\\", 8) == 0;
    if (remote) w[6] = L'\\';
    return win_utf8(remote ? w + 6 : wcsncmp(w, L"\\\\?\\", 4) == 0 ? w + 4 : w, true);
}

/* ---- folders and file systems ---- */

struct os_dir {
    HANDLE h;
    WIN32_FIND_DATAW found;
    bool first;
    char *name;
};
struct os_dir *os_dir_open(const char *path) {
    const size_t n = strlen(path);
    char *all = xasprintf("%s%s*", path, n && os_is_slash(path[n - 1]) ? "" : "/");
    wchar_t *w = win_path(all, false);
    free(all);
    if (!w) return NULL;
    struct os_dir *d = xcalloc(1, sizeof *d);
    d->h = FindFirstFileW(w, &d->found);
    d->first = d->h != INVALID_HANDLE_VALUE;
    if (!d->first) {
        win_fail_last();
        free(d);
        d = NULL;
        if (errno == ENOENT && os_exists(path)) errno = ENOTDIR;
    }
    free(w);
    return d;
}
const char *os_dir_next(struct os_dir *d) {
    errno = 0;
    if (!d->first && !FindNextFileW(d->h, &d->found)) {
        if (GetLastError() != ERROR_NO_MORE_FILES) win_fail_last();
        return NULL;
    }
    d->first = false;
    free(d->name);
    d->name = win_utf8(d->found.cFileName, false);
    errno = d->name ? 0 : EILSEQ;
    return d->name;
}
void os_dir_close(struct os_dir *d) {
    if (!d) return;
    FindClose(d->h);
    free(d->name);
    free(d);
}
int os_free_space(const char *path, uint64_t *n_bytes) {
    ULARGE_INTEGER n;
    wchar_t *w = win_path(path, false);
    const int rc = !w ? -1 : GetDiskFreeSpaceExW(w, &n, NULL, NULL) ? 0 : win_fail_last();
    free(w);
    if (rc == 0) *n_bytes = n.QuadPart;
    return rc;
}
int os_block_size(int fd, uint64_t *n_bytes) { /* only needed for inserted ranges */
    (void)fd, (void)n_bytes;
    errno = ENOSYS;
    return -1;
}
bool os_is_local(int fd) {
    FILE_REMOTE_PROTOCOL_INFO i;
    return !GetFileInformationByHandleEx(handle_of(fd), FileRemoteProtocolInfo, &i, sizeof i);
}

/* ---- memory ---- */

void *os_map(int fd, uint64_t n) {
    HANDLE m =
        CreateFileMappingW(handle_of(fd), NULL, PAGE_READONLY, (DWORD)(n >> 32), (DWORD)n, NULL);
    void *p = m ? MapViewOfFile(m, FILE_MAP_READ, 0, 0, (SIZE_T)n) : NULL;
    if (!p) win_fail_last();
    if (m) CloseHandle(m);
    return p;
}
void os_unmap(void *p, uint64_t n) {
    (void)n;
    UnmapViewOfFile(p);
}
void os_map_drop(void *p, uint64_t n) {
    (void)VirtualUnlock(p, (SIZE_T)n); /* removes pages that are not locked from the working set */
}
void *os_pages_new(uint64_t n) {
    return VirtualAlloc(NULL, (SIZE_T)n, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
}
void os_pages_huge(void *p, uint64_t n) {
    (void)p, (void)n;
}
void os_pages_free(void *p, uint64_t n) {
    (void)n;
    VirtualFree(p, 0, MEM_RELEASE);
}
uint64_t os_page_bytes(void) {
    SYSTEM_INFO i;
    GetSystemInfo(&i);
    return i.dwPageSize;
}
uint64_t os_free_memory(void) { /* Windows promises no memory that it has not */
    MEMORYSTATUSEX m = {.dwLength = sizeof m};
    if (!GlobalMemoryStatusEx(&m)) return 0;
    return m.ullAvailPhys < m.ullAvailPageFile ? m.ullAvailPhys : m.ullAvailPageFile;
}
void *os_aligned(size_t align, size_t n) {
    return _aligned_malloc(n, align);
}
void os_aligned_free(void *p) {
    _aligned_free(p);
}
void os_heap_give_back(void) {
}
void os_heap_trim(void) {
    (void)_heapmin();
}
