// SPDX-License-Identifier: MIT
/* template/repair_reader.c - a JSON parser in Jinja, which converts arguments given as text into an
 * object.
 *
 * It uses only what all chat template engines have. Strings with \u escapes and fractions stay
 * text. */
#include "template/repair_int.h"

enum { MAX_ARGS = 12 };

/* Source of the parser, split where the literal of an object with MAX_ARGS keys goes. It splits the
 * text at quotes; the pieces are alternately structure and strings. Two private-use characters
 * replace escaped backslashes and quotes (@0, @1). hone.f is the stack of open objects and lists;
 * hone.k and hone.v are the keys and values of the innermost one. hone.n is a key whose value is
 * still missing, hone.b that value, and hone.ok whether it has been read. */
static const char reader[] =
    "{%- if a is string and (a | trim).startswith('{') %}\n"
    "{%- set hone.f = [] %}{%- set hone.k = [] %}{%- set hone.v = [] %}{%- set hone.n = none %}\n"
    "{%- set hone.b = none %}{%- set hone.ok = false %}{%- set hone.t = '' %}{%- set hone.x = '' "
    "%}\n"
    "{%- for p in a.replace('\\\\\\\\', '@0').replace('\\\\\"', '@1').split('\"') %}\n"
    "{%- if loop.index0 % 2 == 1 %}\n"
    "{%- set q = p.replace('\\\\n', '\\n').replace('\\\\t', '\\t').replace('\\\\r', "
    "'\\r').replace('\\\\/', "
    "'/').replace('@1', '\"').replace('@0', '\\\\') %}\n"
    "{%- if hone.t == '{' and hone.n is none %}{%- set hone.n = q %}\n"
    "{%- else %}{%- set hone.b = q %}{%- set hone.ok = true %}{%- endif %}\n"
    "{%- else %}\n"
    "{%- for i in range(p | length) %}\n"
    "{%- set c1 = p[i:i+1] %}\n"
    "{%- if c1 == '{' or c1 == '[' %}\n"
    "{%- set hone.f = hone.f + [{'t': hone.t, 'k': hone.k, 'v': hone.v, 'n': hone.n}] %}\n"
    "{%- set hone.t = c1 %}{%- set hone.k = [] %}{%- set hone.v = [] %}{%- set hone.n = none %}\n"
    "{%- set hone.ok = false %}{%- set hone.x = '' %}\n"
    "{%- elif c1 == ',' or c1 == '}' or c1 == ']' %}\n"
    "{%- set x = hone.x | trim %}\n"
    "{%- set digits = x[1:] if x.startswith('-') else x %}\n"
    "{%- if not hone.ok and x %}\n"
    "{%- set hone.b = true if x == 'true' else false if x == 'false' else none if x == 'null' else "
    "(x | int) if digits and not digits.replace('0', '').replace('1', '').replace('2', "
    "'').replace('3', '').replace('4', '').replace('5', '').replace('6', '').replace('7', "
    "'').replace('8', '').replace('9', '') else x %}\n"
    "{%- endif %}\n"
    "{%- if hone.ok or x %}\n"
    "{%- set hone.k = hone.k + [hone.n] %}{%- set hone.v = hone.v + [hone.b] %}\n"
    "{%- endif %}\n"
    "{%- set hone.n = none %}{%- set hone.ok = false %}{%- set hone.x = '' %}\n"
    "{%- if c1 != ',' %}\n"
    "{%- set n = hone.k | length %}\n"
    "{%- set b = hone.v %}\n"
    "{%- if c1 == '}' and n == 0 %}{%- set b = {} %}{%- elif c1 == '}' %}\n"
    "{%- set b = {hone.k[0]: hone.v[0]";
static const char reader_end[] =
    "} %}\n"
    "{%- endif %}\n"
    "{%- if n > @N and c1 == '}' %}{%- set hone.big = true %}{%- endif %}\n"
    "{%- set hone.b = b %}{%- set hone.ok = true %}\n"
    "{%- if hone.f %}\n"
    "{%- set g = hone.f | last %}\n"
    "{%- set hone.f = hone.f[:-1] %}\n"
    "{%- set hone.t = g.t %}{%- set hone.k = g.k %}{%- set hone.v = g.v %}{%- set hone.n = g.n %}\n"
    "{%- endif %}\n"
    "{%- endif %}\n"
    "{%- elif c1 != ':' %}\n"
    "{%- set hone.x = hone.x + c1 %}\n"
    "{%- endif %}\n"
    "{%- endfor %}\n"
    "{%- endif %}\n"
    "{%- endfor %}\n"
    "{%- if not hone.f and hone.t == '' and hone.ok and not hone.big and hone.b is mapping %}\n"
    "{%- set a = hone.b %}{%- set o = true %}\n"
    "{%- endif %}\n"
    "{%- set hone.big = false %}\n"
    "{%- endif %}\n";

/* Appends a text of the parser with @0, @1 and @N filled in. */
static void fill(struct buf *out, const char *s) {
    for (; *s; s++) {
        if (*s == '@' && s[1] == 'N')
            buf_fmt(out, "%d", MAX_ARGS);
        else if (*s == '@')
            buf_str(out, s[1] == '0' ? "\xee\x80\x80" : "\xee\x80\x81");
        else
            buf_chr(out, *s);
        s += *s == '@';
    }
}

void reader_write(struct buf *out) {
    fill(out, reader);
    for (int i = 1; i < MAX_ARGS; i++)
        buf_fmt(out,
                ", (hone.k[%d] if n > %d else hone.k[0]): (hone.v[%d] if n > %d else "
                "hone.v[0])",
                i, i, i, i);
    fill(out, reader_end);
}
