// SPDX-License-Identifier: MIT
/* base/attr.h - compiler attributes under portable names. */
#ifndef HONE_BASE_ATTR_H
#define HONE_BASE_ATTR_H

#if defined(__clang__)
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))
#elif defined(__GNUC__) && !defined(__CUDACC__)
#define PRINTF_LIKE(fmt, args) __attribute__((format(gnu_printf, fmt, args)))
#else
#define PRINTF_LIKE(fmt, args)
#endif

#if defined(__GNUC__)
#define NORETURN __attribute__((noreturn))
#define MUST_USE __attribute__((warn_unused_result))
#else
#define NORETURN
#define MUST_USE
#endif

#define UNUSED(x) ((void)(x))
#define COUNT_OF(a) (sizeof(a) / sizeof((a)[0]))

#endif
