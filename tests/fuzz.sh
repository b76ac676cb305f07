#!/bin/sh
# Build the fuzz targets with clang, run each on a copy of its corpus, and fail on any finding.
# usage: tests/fuzz.sh SECONDS [TARGET...]    a target is the * of a tests/fuzz_*.c
#
# build/fuzz/<target>/ keeps what runs find: corpus/ grows from run to run, and an input that
# crashes, hangs or leaks lies beside it.
set -eu

seconds=$1
shift
build=build/fuzz
make=${MAKE:-make}

install_clang() {
    runtime=$(clang -print-runtime-dir 2>/dev/null || true)
    if ls "$runtime"/libclang_rt.fuzzer-* >/dev/null 2>&1; then return; fi
    echo 'installing with apt: clang libclang-rt-dev'
    as_root=
    [ "$(id -u)" -eq 0 ] || as_root=sudo
    $as_root apt-get update -qq
    DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends \
        clang libclang-rt-dev
}

# Run one target and say how it went; its whole output is in the log.
fuzz() {
    name=$1
    kept=$build/$name
    mkdir -p "$kept/corpus" "tests/corpus/$name"
    if "$build/fuzz_$name" -max_total_time="$seconds" -timeout=10 -print_final_stats=1 \
        -artifact_prefix="$kept/" "$kept/corpus" "tests/corpus/$name" >"$kept/log" 2>&1; then
        verdict='no finding'
    else
        verdict="FOUND something, see $kept/log"
        found=1
    fi
    executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$kept/log")
    coverage=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$kept/log" | tail -n 1)
    echo "$name: ${executions:-no} executions, ${coverage:-no} edges covered, $verdict"
}

install_clang
if [ $# -eq 0 ]; then
    for file in tests/fuzz_*.c; do
        name=${file#tests/fuzz_}
        set -- "$@" "${name%.c}"
    done
fi
programs=
for name in "$@"; do programs="$programs $build/fuzz_$name"; done
# shellcheck disable=SC2086 # a list of words is what is meant
"$make" --no-print-directory -s -j"$(nproc)" MODE=fuzz $programs

found=0
for name in "$@"; do fuzz "$name"; done
[ "$found" -eq 0 ]
