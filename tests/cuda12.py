#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compiles the CUDA sources with the compiler of CUDA 12.4, for which PyPI has no nvcc.

    python3 tests/cuda12.py BUILD_FOLDER [SOURCE...]        (make check-cuda12; about four minutes)

PyPI has the three parts of that toolkit that process a source: NVRTC, ptxas and the headers. They are installed into
BUILD_FOLDER. Each source is compiled twice, in copies in which the launches are calls:

  device   NVRTC 12.4 compiles to PTX for 8.0 and 9.0a, and ptxas 12.4 to machine code. NVRTC accepts no host code, so that
           launchers are compiled as device code, and the few lines below replace <stdint.h> and similar headers.
  host     The host compiler compiles launchers and runtime calls with the headers of 12.4. Their declarations of abs()
           contradict those of newer C++ libraries, so that only remarks about our files count.

Prints each remark, and fails if there is any.
"""
import ctypes
import glob
import os
import re
import shutil
import subprocess
import sys

PACKAGES = ["nvidia-cuda-nvrtc-cu12==12.4.127", "nvidia-cuda-nvcc-cu12==12.4.131", "nvidia-cuda-runtime-cu12==12.4.127"]
HOST_ONLY = ("ctx.cu", "streams.cu")  # they contain no kernels
ALL_H = """#pragma once
typedef signed char int8_t; typedef unsigned char uint8_t; typedef short int16_t; typedef unsigned short uint16_t;
typedef int int32_t; typedef unsigned uint32_t; typedef long int64_t; typedef unsigned long uint64_t;
typedef unsigned long uintptr_t; typedef unsigned long size_t;
#define INT32_MAX 2147483647
#define INT32_MIN (-INT32_MAX - 1)
#define INT_MAX INT32_MAX
#define UINT8_MAX 255
#define UINT16_MAX 65535
#define UINT32_MAX 0xffffffffu
#define INT64_MAX 0x7fffffffffffffffL
#define UINT64_MAX 0xffffffffffffffffUL
#define SIZE_MAX UINT64_MAX
#define NULL 0
#define FLT_MAX 0x1.fffffep127f
#define FLT_MIN 0x1p-126f
#define FLT_EPSILON 0x1p-23f
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#define PRId64 "ld"
typedef int pthread_mutex_t;
#define PTHREAD_MUTEX_INITIALIZER 0
static __device__ int pthread_mutex_lock(int *) { return 0; }
static __device__ int pthread_mutex_unlock(int *) { return 0; }
"""
RUNTIME_H = """#pragma once
#include "all.h"
extern "C" __device__ void used(const void *);
template <class... A> static __device__ void given(const A &...) {}
"""
HOST_H = """#include <cuda_runtime.h>
template <class... A, class... B> static inline void used(void (*)(A...), B...) {}
template <class... A> static inline void given(const A &...) {}
"""


def install(folder):
    if not os.path.exists(folder + "/bin/python"):
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    subprocess.run([folder + "/bin/pip", "install", "-q", "--no-deps", *PACKAGES], check=True)
    return glob.glob(folder + "/lib/python3*/site-packages/nvidia")[0]


def copy(folder, launch, early):
    """Copies the sources and replaces the launch in CU_LAUNCH with `launch`; early: CU_LAUNCH_EARLY becomes the
    same."""
    shutil.rmtree(folder, ignore_errors=True)
    for room in ("kernels", "core", "models", "quantize"):
        shutil.copytree(room, folder + "/" + room)
    path = folder + "/kernels/cuda/gpu.cuh"
    text = open(path).read()
    text, n = re.subn(r"kernel<<<.*?>>>\(__VA_ARGS__\);", launch, text)
    assert n == 1, "CU_LAUNCH is not where it was"
    if early:
        begin, end = text.index("#define CU_LAUNCH_EARLY"), text.index("/* All earlier kernels")
        text = text[:begin] + "#define CU_LAUNCH_EARLY CU_LAUNCH\n" + text[end:]
        text = text.replace("CU_TRY(e, cudaGetLastError());", "").replace("CU_TRY(e, cu_on((s)->c));", "(void)(s)->c;")
    open(path, "w").write(text)
    return folder


def without_asm(folder):
    """Removes inline PTX, which the host compiler does not know."""
    inner = r'(?:[^()"]|"[^"]*"|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*'
    for path in glob.glob(folder + "/**/*.cu*", recursive=True):
        text = open(path).read()
        open(path, "w").write(re.sub(r"\basm( volatile)?\s*\(" + inner + r"\);", ";", text))


def nvrtc(lib, path, options):
    """Compiles a source; returns (PTX or None, log)."""
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    lib.nvrtcCreateProgram(ctypes.byref(program), open(path, "rb").read(), path.encode(), 0, None, None)
    words = (ctypes.c_char_p * len(options))(*[o.encode() for o in options])
    rc = lib.nvrtcCompileProgram(program, len(options), words)

    def text(what):
        getattr(lib, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
        out = ctypes.create_string_buffer(size.value)
        getattr(lib, f"nvrtcGet{what}")(program, out)
        return out.value

    log = text("ProgramLog").decode().strip()
    ptx = text("PTX") if rc == 0 else None
    lib.nvrtcDestroyProgram(ctypes.byref(program))
    return ptx, log


def device(nv, folder, source, stubs):
    lib = ctypes.CDLL(glob.glob(nv + "/cuda_nvrtc/lib/libnvrtc.so.12")[0])
    remarks = []
    for arch in ("80", "90a"):
        ptx, log = nvrtc(lib, f"{folder}/{source}", [
            f"-arch=compute_{arch}", "-default-device", "-rdc=true", "-fmad=false", "--std=c++17", f"-I{folder}", f"-I{stubs}"])
        if log:
            remarks.append(log)
        if ptx is None:
            break
        out = f"{folder}/{os.path.basename(source)}.{arch}"
        open(out + ".ptx", "wb").write(ptx)
        r = subprocess.run([nv + "/cuda_nvcc/bin/ptxas", "-arch=sm_" + arch, "-c", out + ".ptx", "-o", out + ".cubin"],
                           capture_output=True, text=True)
        # Code that is linked later (-rdc) serializes wgmma because it may contain calls; nvcc compiles the whole
        # program.
        said = [line for line in r.stderr.splitlines() if line.strip() and "due to the presence of Extern calls" not in line]
        if r.returncode or said:
            remarks.append(f"ptxas for {arch}: " + ("\n".join(said) or f"exit {r.returncode}"))
    return remarks


def host(nv, folder, source, header):
    r = subprocess.run([
        os.environ.get("CXX", "g++"), "-std=c++17", "-fsyntax-only", "-x", "c++", "-D__CUDACC__", "-D__CUDACC_VER_MAJOR__=12",
        "-D__CUDACC_VER_MINOR__=4", "-isystem", nv + "/cuda_runtime/include", "-isystem", nv + "/cuda_nvcc/include", "-include", header,
        "-I" + folder, "-Wall", "-Wno-attributes", "-Wno-unknown-pragmas", "-Wno-unused-variable", f"{folder}/{source}"],
        capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    return [line for line in r.stderr.splitlines() if line.startswith(folder) and re.search(r": (error|warning):", line)]


def main():
    build = os.path.abspath(sys.argv[1])
    sources = sys.argv[2:] or sorted(glob.glob("kernels/cuda/*.cu") + glob.glob("quantize/enc/cuda/*.cu"))
    nv = install(build + "/venv")
    stubs, n_bad = build + "/stubs", 0
    os.makedirs(stubs, exist_ok=True)
    names = "stdint stddef stdbool string math float inttypes stdio stdlib limits pthread"
    for name, text in [("all.h", ALL_H), ("cuda_runtime.h", RUNTIME_H), ("host.h", HOST_H)] + [
            (n + ".h", '#include "all.h"\n') for n in names.split()]:
        open(f"{stubs}/{name}", "w").write(text)
    for_device = copy(build + "/device", "used((const void *)(kernel)), given(grid, block, smem, __VA_ARGS__);", True)
    for_host = copy(build + "/host", "used(kernel, __VA_ARGS__), given(grid, block, smem);", False)
    without_asm(for_host)
    for source in sources:
        remarks = host(nv, for_host, source, stubs + "/host.h")
        if os.path.basename(source) not in HOST_ONLY:
            remarks += device(nv, for_device, source, stubs)
        print(("ok      " if not remarks else "REMARK  ") + source, flush=True)
        for r in remarks:
            print("        " + r.replace("\n", "\n        "))
        n_bad += bool(remarks)
    print(f"{len(sources)} sources, {n_bad} with remarks, by CUDA 12.4's NVRTC, ptxas and headers")
    return n_bad != 0


if __name__ == "__main__":
    sys.exit(main())
