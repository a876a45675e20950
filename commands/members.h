// SPDX-License-Identifier: MIT
/* commands/members.h - macros that expand the rows of commands/NAME.def to members of the job's
 * struct. Has no include guard: every such struct includes it again.
 *
 *     #include "commands/members.h"
 *     struct recipes_opts {
 *         const char *model;
 *     #include "commands/recipes.def"
 *     };
 */
#include <stdbool.h>
#include <stdint.h>

#undef OPTION
#undef OPTION_AT
#undef CALL_FIELD
#undef UNNAMED
#undef RAW_FIELD
#undef MAN
#define OPTION(member, kind, name, ...) MEMBER_##kind member;
#define OPTION_AT(path, kind, name, ...)
#define CALL_FIELD(...)
#define UNNAMED(member, kind, ...) MEMBER_##kind member;
#define RAW_FIELD(...)
#define MAN(text)

#define MEMBER_FLAG bool
#define MEMBER_TEXT const char *
#define MEMBER_OUT const char *
#define MEMBER_COUNT int64_t
#define MEMBER_TOKENS int64_t
#define MEMBER_NUMBER double
#define MEMBER_HOURS double
#define MEMBER_TIME double
#define MEMBER_MINUTES double
#define MEMBER_SECONDS double
#define MEMBER_SIZE uint64_t
#define MEMBER_LIST struct str_list
