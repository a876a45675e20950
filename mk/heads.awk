# mk/heads.awk - reads the head of each file named on standard input and prints: path, path in the head, sentence.
# SPDX-License-Identifier: MIT
# A head is the first comment: "/* path - sentence. */", also after "#" or "//", or a Python docstring.
# Columns are separated by tabs; the second is empty if the comment names no path.
function text_of(line) {
    sub(/^[ \t]*(\/\*+|\/\/|#+|\*|"""|<!--)?[ \t]*/, "", line)
    sub(/[ \t]*(\*\/|"""|-->)?[ \t]*$/, "", line)
    return line
}
function head_of(file,    line, text, part, n) {
    while ((getline line < file) > 0 && ++n <= 12) {
        if (line ~ /^#!|SPDX-License-Identifier|clang-format|^(\/\*|\/\/|#)?[ \t]*$/) {
            if (text != "") break
            continue
        }
        if (line !~ /^[ \t]*(\/\*|\/\/|#|\*|"""|<!--)/ && (text == "" || file !~ /\.(c|h|cu|cuh|def|py|css)$/)) break
        if (text != "" && line ~ /^ \*$|^#$/) break
        part = text_of(line)
        text = text (text == "" ? "" : " ") part
        if (line ~ /\*\/|-->|.""""?$/ || match(text, /\.( |$)/)) break
    }
    close(file)
    return text
}
{
    text = head_of($0); claim = ""
    if (match(text, /^[A-Za-z0-9_.\/-]+ - /)) {
        claim = substr(text, 1, RLENGTH - 3)
        text = substr(text, RLENGTH + 1)
    }
    if (match(text, /\.( |$)/)) text = substr(text, 1, RSTART)
    print $0 "\t" claim "\t" text
}
