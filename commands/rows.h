// SPDX-License-Identifier: MIT
/* commands/rows.h - macros that expand the rows of commands/NAME.def to a table of struct option.
 * Has no include guard, like members.h. TO names the job's struct; the calls' structs are in
 * include/hone.h.
 *
 *     #define TO recipes_opts
 *     const struct option recipes_options[] = {
 *     #include "commands/recipes.def"
 *         {0}};
 *     #undef TO
 */
#include "commands/option.h"

#undef OPTION
#undef OPTION_AT
#undef CALL_FIELD
#undef UNNAMED
#undef RAW_FIELD
#undef MAN
#define OPTION(member, kind_, name_, ...) OPTION_AT(member, kind_, name_, __VA_ARGS__)
#define OPTION_AT(path, kind_, name_, ...)                                                         \
    {.name = name_, .kind = OPT_##kind_, .at = offsetof(struct TO, path), __VA_ARGS__},
#define CALL_FIELD(kind_, ...) {.kind = OPT_##kind_, __VA_ARGS__},
#define UNNAMED(member, kind_, ...)                                                                \
    {.kind = OPT_##kind_, .at = offsetof(struct TO, member), __VA_ARGS__},
#define RAW_FIELD(call, n, declaration, doc)
#define MAN(text)

#define PLACE(call, how, owner, field)                                                             \
    .in[CALL_##call] = {how, #field, offsetof(struct hone_##owner##_opts, field),                  \
                        sizeof((struct hone_##owner##_opts){0}.field)}
#define IN(call, n, field, doc) PLACE(call, PLACE_COPIED, call, field)
#define READ_IN(call, n, field, doc) PLACE(call, PLACE_READ, call, field)
#define WIDE_IN IN
#define SAID_IN(call, n, field, doc) PLACE(call, PLACE_SAID, call, field)
#define FORCE_IN(call, n, doc) PLACE(call, PLACE_FORCE, call, overwrite)
#define DEVICE_IN(call, n, doc) PLACE(call, PLACE_DEVICE, call, device)
#define ALSO(call, owner, field, how) PLACE(call, PLACE_##how, owner, field)
#define OWN(call, owner, n, field, doc) PLACE(call, PLACE_COPIED, owner, field)
#define OWN_FORCE(call, owner, n, doc) PLACE(call, PLACE_FORCE, owner, overwrite)
#define OF_OPTS(field)                                                                             \
    .in[CALL_opts] = {PLACE_READ, #field, offsetof(struct hone_opts, field),                       \
                      sizeof((struct hone_opts){0}.field)}
#define ARG(call, name) ARGUMENT_OF(call, name)
#define ARGUMENT_OF(call, name_) .in[CALL_##call] = {PLACE_ARGUMENT, name_, 0, 0}
