// SPDX-License-Identifier: MIT
/* tests/win/posix.c - the POSIX calls of the unit tests, on Windows. */
#include <windows.h>

#include <sys/mman.h>

/* Removes a folder with its contents. */
static void remove_tree(const char *path) {
    char name[1024];
    WIN32_FIND_DATAA found;
    snprintf(name, sizeof name, "%s/*", path);
    HANDLE h = FindFirstFileA(name, &found);
    for (BOOL more = h != INVALID_HANDLE_VALUE; more; more = FindNextFileA(h, &found)) {
        if (strcmp(found.cFileName, ".") == 0 || strcmp(found.cFileName, "..") == 0) continue;
        snprintf(name, sizeof name, "%s/%s", path, found.cFileName);
        const bool folder = found.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY &&
                            !(found.dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT);
        if (folder)
            remove_tree(name);
        else
            os_unlink(name);
    }
    FindClose(h);
    os_rmdir(path);
}
int win_system(const char *command) {
    char path[1024];
    if (sscanf(command, "rm -rf '%1023[^']'", path) != 1 &&
        sscanf(command, "rm -rf %1023[^ ']", path) != 1)
        return -1;
    remove_tree(path);
    return 0;
}
int win_copy(const char *from, const char *to) { /* 0 without a source: a link may lead nowhere */
    if (CopyFileA(from, to, FALSE)) return 0;
    const DWORD code = GetLastError();
    errno = code == ERROR_SHARING_VIOLATION ? EBUSY : EIO;
    return code == ERROR_FILE_NOT_FOUND || code == ERROR_PATH_NOT_FOUND ? 0 : -1;
}

void *mmap(void *at, size_t n, int protection, int flags, int fd, int64_t offset) {
    (void)at, (void)protection, (void)flags, (void)fd, (void)offset;
    void *p = VirtualAlloc(NULL, n, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
    return p ? p : MAP_FAILED;
}
int mprotect(void *p, size_t n, int protection) {
    DWORD old;
    const DWORD now = protection == PROT_NONE   ? PAGE_NOACCESS
                      : protection & PROT_WRITE ? PAGE_READWRITE
                                                : PAGE_READONLY;
    return VirtualProtect(p, n, now, &old) ? 0 : -1;
}
int munmap(void *p, size_t n) {
    (void)n;
    return VirtualFree(p, 0, MEM_RELEASE) ? 0 : -1;
}
