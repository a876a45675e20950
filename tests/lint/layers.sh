#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/lint/layers.sh - who may include whom (CONTRIBUTING.md), file sizes, calls with one place. Arguments: C files.
awk '
    BEGIN {
        low = "text core"; chat = "chat template gram tok " low
        ok["core"] = "core"; ok["text"] = low; ok["commands"] = "commands"; ok["tok"] = "tok " low
        ok["template"] = "template tok " low; ok["gram"] = "gram tok " low; ok["chat"] = chat
        ok["models"] = "models core"; ok["kernels"] = "kernels core"; ok["quantize"] = "quantize kernels models core"
        ok["convert"] = "convert models template tok text core"
        ok["runtime"] = "runtime kernels models " chat
        ok["grad"] = "grad " ok["runtime"]; ok["calib"] = "calib quantize grad " ok["runtime"]
        ok["report"] = "report core"; ok["serve"] = "serve " ok["runtime"]
        ok["jobs"] = "jobs commands convert report serve " ok["calib"]
        ok["lib"] = "lib jobs commands convert report include " ok["calib"]
        ok["cli"] = ok["tests"] = "cli tests " ok["lib"] " serve"
    }
    function size() { if (lines > 1000) print file ": " lines " lines; it holds two things" }
    FNR == 1 {
        size(); file = FILENAME; room = file; sub(/\/.*/, "", room)
        if ($0 !~ /^\/\/ SPDX-License-Identifier: MIT/) print file ": first line is not the SPDX line"
    }
    { lines = FNR }
    match($0, /^#include "[a-z]*\//) {
        inc = substr($0, 11, RLENGTH - 11)
        if (index(" " ok[room] " ", " " inc " ") == 0) print file ": " room "/ must not include " inc "/"
    }
    room == "tests" || room == "docs" { next }
    match($0, /(^|[^a-z_])(strcpy|strcat|sprintf|gets|atoi|strtok|alloca)\(/) {
        print file ":" FNR ": calls " substr($0, RSTART + (RSTART > 1), RLENGTH - 1 - (RSTART > 1))
    }
    /readdir\(/ && file != "core/io.c" { print file ": folders are read by io_list" }
    /(^|[^a-z_])(getenv|exit|printf)\(/ && room != "cli" && file != "commands/gen.c" {
        print file ":" FNR ": getenv, exit and printf belong to cli/"
    }
    END { size() }
' "$@"
