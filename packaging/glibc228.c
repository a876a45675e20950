// SPDX-License-Identifier: MIT
/* packaging/glibc228.c - replacements for glibc's newest symbols, so that the wheel loads with
 * glibc 2.28 (RHEL 8) and later although it is linked with Debian 12's 2.36.
 *
 * The linker sends every call of these names here (--wrap, in mk/dist.mk), and this file requests
 * the old symbols by version. They run the same code: pow and the like got new versions
 * in 2.29 because they no longer call matherr, threads and dlopen because they moved into libc
 * in 2.34; before 2.33 stat was a function of the header. Versions start at 2.2.5 on x86-64
 * and 2.17 on ARM64. */
#include <pthread.h>
#include <sys/stat.h>

#if defined(__aarch64__)
#define FIRST "2.17"
#define AFFINITY FIRST
enum { STAT_VERSION = 0 }; /* version number of struct stat in the C library */
#else
#define FIRST "2.2.5"
#define AFFINITY "2.3.4"
enum { STAT_VERSION = 1 };
#endif
#define OLD(name, version) __asm__(".symver old_" #name "," #name "@GLIBC_" version)

#define OLD_MATH(name)                                                                             \
    OLD(name, FIRST);                                                                              \
    double old_##name(double);                                                                     \
    double __wrap_##name(double);                                                                  \
    double __wrap_##name(double x) {                                                               \
        return old_##name(x);                                                                      \
    }
OLD_MATH(exp)
OLD_MATH(exp2)
OLD_MATH(log)
OLD_MATH(log2)
OLD(pow, FIRST);
double old_pow(double, double);
double __wrap_pow(double, double);
double __wrap_pow(double x, double y) {
    return old_pow(x, y);
}

OLD(dlopen, FIRST);
void *old_dlopen(const char *, int);
void *__wrap_dlopen(const char *, int);
void *__wrap_dlopen(const char *name, int flags) {
    return old_dlopen(name, flags);
}
OLD(dlsym, FIRST);
void *old_dlsym(void *, const char *);
void *__wrap_dlsym(void *, const char *);
void *__wrap_dlsym(void *lib, const char *name) {
    return old_dlsym(lib, name);
}
OLD(dlerror, FIRST);
char *old_dlerror(void);
char *__wrap_dlerror(void);
char *__wrap_dlerror(void) {
    return old_dlerror();
}

OLD(pthread_create, FIRST);
int old_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int __wrap_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*f)(void *), void *x) {
    return old_pthread_create(t, a, f, x);
}
OLD(pthread_join, FIRST);
int old_pthread_join(pthread_t, void **);
int __wrap_pthread_join(pthread_t, void **);
int __wrap_pthread_join(pthread_t t, void **result) {
    return old_pthread_join(t, result);
}
OLD(pthread_once, FIRST);
int old_pthread_once(pthread_once_t *, void (*)(void));
int __wrap_pthread_once(pthread_once_t *, void (*)(void));
int __wrap_pthread_once(pthread_once_t *o, void (*f)(void)) {
    return old_pthread_once(o, f);
}
OLD(pthread_mutex_trylock, FIRST);
int old_pthread_mutex_trylock(pthread_mutex_t *);
int __wrap_pthread_mutex_trylock(pthread_mutex_t *);
int __wrap_pthread_mutex_trylock(pthread_mutex_t *m) {
    return old_pthread_mutex_trylock(m);
}
OLD(pthread_setaffinity_np, AFFINITY);
int old_pthread_setaffinity_np(pthread_t, size_t, const cpu_set_t *);
int __wrap_pthread_setaffinity_np(pthread_t, size_t, const cpu_set_t *);
int __wrap_pthread_setaffinity_np(pthread_t t, size_t n, const cpu_set_t *set) {
    return old_pthread_setaffinity_np(t, n, set);
}

OLD(__xstat, FIRST);
OLD(__lxstat, FIRST);
OLD(__fxstat, FIRST);
int old___xstat(int, const char *, struct stat *);
int old___lxstat(int, const char *, struct stat *);
int old___fxstat(int, int, struct stat *);
int __wrap_stat(const char *, struct stat *);
int __wrap_lstat(const char *, struct stat *);
int __wrap_fstat(int, struct stat *);
int __wrap_stat(const char *path, struct stat *s) {
    return old___xstat(STAT_VERSION, path, s);
}
int __wrap_lstat(const char *path, struct stat *s) {
    return old___lxstat(STAT_VERSION, path, s);
}
int __wrap_fstat(int fd, struct stat *s) {
    return old___fxstat(STAT_VERSION, fd, s);
}

/* Starts the program. Until 2.33 the startup code passed the initialization functions to
 * __libc_start_main, which runs them itself since then. The library does not use this. */
OLD(__libc_start_main, FIRST);
typedef int start_main(int, char **, char **);
int old___libc_start_main(start_main *, int, char **, void (*)(int, char **, char **),
                          void (*)(void), void (*)(void), void *);
int __wrap___libc_start_main(start_main *, int, char **, void (*)(int, char **, char **),
                             void (*)(void), void (*)(void), void *);
#define HERE extern __attribute__((visibility("hidden"), weak))
HERE void (*__init_array_start[])(int, char **, char **);
HERE void (*__init_array_end[])(int, char **, char **);
HERE void _init(void);
static void before_main(int argc, char **argv, char **env) {
    if (_init) _init();
    for (void (**f)(int, char **, char **) = __init_array_start; f < __init_array_end; f++)
        (*f)(argc, argv, env);
}
int __wrap___libc_start_main(start_main *m, int argc, char **argv,
                             void (*init)(int, char **, char **), void (*fini)(void),
                             void (*rtld_fini)(void), void *stack_end) {
    return old___libc_start_main(m, argc, argv, init ? init : before_main, fini, rtld_fini,
                                 stack_end);
}
