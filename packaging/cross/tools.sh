#!/bin/sh
# SPDX-License-Identifier: MIT
# packaging/cross/tools.sh DIR - the compiler of cross builds: zig's clang from PyPI's package ziglang, pinned by hash,
# as DIR/bin/TARGET-clang and DIR/bin/ar. Its own undefined-behaviour checks are off, as in every other build.
set -eu
version=0.17.1
hash=ea6cc5d87b033cf0aedfbc8f9549a908cae6c50ac31f1698188fa48a74524b54
mkdir -p "$1/bin"
dir=$(cd "$1" && pwd)
exec 9> "$dir/lock" # several targets may be built at once
flock 9
if [ ! -x "$dir/ziglang/zig" ]; then
    echo "ziglang==$version --hash=sha256:$hash" > "$dir/requirements.txt"
    python3 -m pip download -q --no-deps --require-hashes --only-binary :all: --platform manylinux_2_12_x86_64 \
        --dest "$dir" -r "$dir/requirements.txt" || {
        echo "cross builds need ziglang $version, which pip cannot get from PyPI; its wheel can also be unpacked into $1"
        exit 1
    }
    python3 -m zipfile -e "$dir"/ziglang-$version-*.whl "$dir"
    rm -f "$dir"/*.whl
    chmod +x "$dir/ziglang/zig"
fi
# name, zig's target, the answer to -dumpmachine, and further options
tool() {
    cat > "$dir/bin/$1-clang.new" << END
#!/bin/sh
export ZIG_GLOBAL_CACHE_DIR='$dir/cache' ZIG_LOCAL_CACHE_DIR='$dir/cache'
case "\$*" in -dumpmachine) echo $3; exit;; esac
n=\$# out= compiles= deps= last=
while [ \$n -gt 0 ]; do
    a=\$1 n=\$((n - 1))
    shift
    case \$a in # zig spells processors in its own way
        -march=armv8.2-a+dotprod+i8mm) a=-mcpu=apple_m1+i8mm ;;
        -march=armv8.2-a+dotprod) a=-mcpu=apple_m1 ;;
        -c) compiles=1 ;;
        -MMD) deps=1 ;;
        -MF) deps= ;;
    esac
    case \$last:\$a in -o:*.o) out=\$a a=\$a.new ;; esac
    last=\$a
    set -- "\$@" "\$a"
done
if [ ! "\$out" ] || [ ! "\$compiles" ]; then exec '$dir/ziglang/zig' cc -target $2 -fno-sanitize=all $4 "\$@"; fi
# whole or not at all: a compiler that is killed leaves no half of an object
[ ! "\$deps" ] || set -- "\$@" -MF "\${out%.o}.d" -MT "\$out"
'$dir/ziglang/zig' cc -target $2 -fno-sanitize=all $4 "\$@" && mv "\$out.new" "\$out"
END
    chmod +x "$dir/bin/$1-clang.new"
    # the same file as before keeps its time, by which ccache knows compilers
    if cmp -s "$dir/bin/$1-clang.new" "$dir/bin/$1-clang"; then
        rm "$dir/bin/$1-clang.new"
    else
        mv "$dir/bin/$1-clang.new" "$dir/bin/$1-clang"
    fi
}
tool macos-arm64 aarch64-macos.11.0 aarch64-apple-darwin ''
tool macos-x86_64 x86_64-macos.11.0 x86_64-apple-darwin ''
# zig itself adds an option for Windows that clang calls unused
tool windows-x86_64 x86_64-windows-gnu x86_64-w64-windows-gnu -Wno-unused-command-line-argument
for t in ar ranlib dlltool; do
    printf '#!/bin/sh\nexec "%s" %s "$@"\n' "$dir/ziglang/zig" $t > "$dir/bin/$t"
    chmod +x "$dir/bin/$t"
done
