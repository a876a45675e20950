#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/lint/layers.sh - permitted includes between folders (CONTRIBUTING.md), file sizes, calls allowed in one place
# only. Arguments: C files.
awk '
    BEGIN {
        # a room and those it may include; a room of runtime/ is named by its folder
        low = "text containers base"; chat = "chat template grammar tok " low
        ok["base"] = "base"; ok["commands"] = "commands"; ok["containers"] = "containers base"
        ok["text"] = low; ok["tok"] = "tok " low
        ok["template"] = "template tok " low; ok["grammar"] = "grammar tok " low; ok["chat"] = chat
        ok["models"] = "models containers base"; ok["kernels"] = "kernels containers base"
        ok["quantize"] = "quantize kernels models containers base"
        ok["convert"] = "convert models template tok " low
        ok["runtime/vision"] = "runtime/vision kernels models " low
        ok["runtime/engine"] = "runtime/engine kernels models " chat
        ok["runtime/engine/cpu"] = "runtime/engine/cpu " ok["runtime/engine"]
        ok["runtime/engine/cuda"] = "runtime/engine/cuda " ok["runtime/engine"]
        ok["runtime/generate"] = "runtime/generate runtime/vision " ok["runtime/engine"]
        ok["grad"] = "grad " ok["runtime/generate"]; ok["calib"] = "calib quantize " ok["grad"]
        ok["report"] = "report containers base"; ok["serve"] = "serve " ok["runtime/generate"]
        ok["work"] = "work commands convert report runtime/engine/cuda " ok["calib"]
        ok["plan"] = "plan " ok["work"]; ok["runtime/measure"] = "runtime/measure " ok["work"]
        ok["mix"] = "mix " ok["runtime/measure"]; ok["make"] = "make plan " ok["mix"]
        ok["jobs"] = "jobs serve " ok["make"]; ok["lib"] = "lib include " ok["jobs"]
        ok["cli"] = ok["tests"] = "cli tests " ok["lib"]
    }
    function of(path) { sub(path ~ /^runtime\// ? "/[^/]*$" : "/.*", "", path); return path }
    function size() { if (lines > 1000) print file ": " lines " lines; it holds two things" }
    FNR == 1 {
        size(); file = FILENAME; room = of(file)
        if ($0 !~ /^\/\/ SPDX-License-Identifier: MIT/) print file ": first line is not the SPDX line"
    }
    { lines = FNR }
    match($0, /^#include "[a-z]*\/[^"]*"/) {
        inc = of(substr($0, 11, RLENGTH - 11))
        if (index(" " ok[room] " ", " " inc " ") == 0) print file ": " room "/ must not include " inc "/"
    }
    room == "tests" || room == "docs" { next }
    match($0, /(^|[^a-z_])(strcpy|strcat|sprintf|gets|atoi|strtok|alloca)\(/) {
        print file ":" FNR ": calls " substr($0, RSTART + (RSTART > 1), RLENGTH - 1 - (RSTART > 1))
    }
    /readdir\(/ && file != "base/os_file.c" { print file ": folders are read by io_list" }
    /(^|[^a-z_])(getenv|exit|printf)\(/ && room != "cli" && file != "commands/gen.c" {
        print file ":" FNR ": getenv, exit and printf belong to cli/"
    }
    END { size() }
' "$@"
