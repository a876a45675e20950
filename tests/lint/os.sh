#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/lint/os.sh - one door to the operating system: outside base/os* no file includes a header of the system, calls
# it, or asks which system it is compiled for. Exceptions: the server's poller and the line editor, which exist once
# per system. Arguments: C files.
files=$(printf '%s\n' "$@" | grep -vE '^(base/(os[._]|win/)|serve/poller|cli/(line\.c$|win/)|tests/|docs/|commands/)')
# prints the matches outside comments
found() {
    grep -nE "$1" $files /dev/null | grep -vE ':[[:space:]]*(/?\*|//)'
}
found "#include <(unistd|fcntl|dirent|termios|poll|netdb|dlfcn|spawn|semaphore|sched|windows|winsock2|io)\.h>"
found "#include <(sys|net|netinet|arpa|mach)/"
files_calls='mmap|munmap|madvise|posix_memalign|statvfs|fstatvfs|opendir|readdir|realpath|flock|pread|pwrite|fsync'
more_calls='fdatasync|ftruncate|fallocate|fstat|lstat|rmdir|mkdir|mkdtemp|mkstemp|symlink|fchmod|chmod|utimensat|isatty'
process_calls='ioctl|fcntl|lseek|sysconf|geteuid|getpid|nanosleep|usleep|sigaction|posix_spawnp|waitpid|fork|dlopen'
last_calls='dlsym|getrlimit|getentropy|uselocale|_exit|socket|setsockopt|getaddrinfo'
found "(^|[^a-zA-Z0-9_.>])($files_calls|$more_calls|$process_calls|$last_calls)\("
# names that are also words or members: only as statements and in conditions
found '(^|[!=(&|?:])[[:space:]]*(\(void\)!?)?(open|close|unlink|rename|remove|access|fopen|freopen)\([a-z*]' |
    grep -v 'freopen(OS_NULL_FILE'
files=$(printf '%s\n' "$@" | grep -vE '^(base/|serve/poller|tests/|docs/)')
found '^[[:space:]]*#[[:space:]]*(if|ifdef|ifndef|elif).*(__linux__|__APPLE__|_WIN32|__MINGW|__GLIBC__|__unix|_BSD__)'
exit 0
