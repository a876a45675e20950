#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/lint/defaults.sh - models/defaults.json has a line for every model class that an architecture reads: the type
# whose defaults it has, or null if transformers lacks the class.
awk -F '"' '
    FILENAME ~ /json$/ { known[$2] = 1; next }
    /hf_classes\[\] *=/ { inside = 1 }
    inside { for (i = 2; i <= NF; i += 2) if (!known[$i]) print FILENAME ": models/defaults.json does not name " $i \
             "; run tests/oracle/config_defaults.py" }
    /\};/ { inside = 0 }' models/defaults.json models/*.c
