#!/bin/sh
# Run every test of one build, show what fails, and end with the sum of the counts.
# usage: tests/run.sh build/<mode>
set -eu

build=$1
export TSAN_OPTIONS="halt_on_error=1 suppressions=tests/support/tsan.supp"
export UBSAN_OPTIONS=print_stacktrace=1
passed=0
failed=0

# Each program prints "<suite>: N passed, N failed" last; one that dies before counts as a failure.
count() {
    name=$1
    shift
    log=$build/log/$name.log
    if "$@" >"$log" 2>&1; then ended=0; else ended=$?; fi
    line=$(grep -E '^[a-z0-9_]+: [0-9]+ passed, [0-9]+ failed$' "$log" | tail -n 1)
    good=$(echo "$line" | sed -n 's/.*: \([0-9]*\) passed.*/\1/p')
    bad=$(echo "$line" | sed -n 's/.*, \([0-9]*\) failed/\1/p')
    [ "$ended" -eq 0 ] || [ "${bad:-0}" -gt 0 ] || bad=$((${bad:-0} + 1))
    if [ "${bad:-0}" -gt 0 ] || [ "${good:-0}" -eq 0 ]; then
        tail -n 40 "$log"
        echo "$name: ended with $ended; the whole log is $log"
        [ "${bad:-0}" -gt 0 ] || bad=1
    fi
    echo "$name: ${good:-0} passed, ${bad:-0} failed"
    grep -oE 'SKIP.*' "$log" | sort -u | sed "s/^/$name: /" || true
    passed=$((passed + ${good:-0}))
    failed=$((failed + ${bad:-0}))
}

rm -rf "$build/vectors" # vectors of an earlier revision are none of this one's
mkdir -p "$build/log" "$build/vectors"
/usr/bin/python3 tests/vectors/make_vectors.py "$build/vectors"
/usr/bin/python3 tests/vectors/make_scan_vectors.py "$build/vectors/scan"
/usr/bin/python3 tests/vectors/make_analysis_vectors.py "$build/vectors/analysis"
export ATTN_VECTORS="$build/vectors"
for program in "$build"/test_*; do
    count "$(basename "$program")" "$program"
done
count http /usr/bin/python3 tests/http/run.py "$build/attnd"
count floors sh tests/floors.sh

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
