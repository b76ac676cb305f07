#!/bin/sh
# The floors of the house, as greps: every line that breaks a rule is printed with the rule, and the
# last line is "floors: N passed, N failed", one count a rule.
# usage: tests/floors.sh [ROOT]
#
# Rules about code look at a copy without comments, so that a comment may name what it forbids. A
# character in brackets in a pattern keeps this file from matching itself.
set -u

cd "${1:-$(dirname "$0")/..}" || exit 1
bare=$(mktemp -d) || exit 1
found=$bare.found
tally=$bare.tally
trap 'rm -rf "$bare" "$found" "$tally"' EXIT

# Copy every C file without its comments, line numbers kept. Strings that hold // or /* are cut too,
# which only matters for what follows them on the line.
strip_comments() {
    find core server include -name '*.[ch]' -o -name '*.def' | while read -r file; do
        mkdir -p "$bare/$(dirname "$file")"
        awk '{
            line = $0; out = ""
            while (line != "") {
                if (inside) {
                    if (!(at = index(line, "*/"))) break
                    line = substr(line, at + 2); inside = 0
                } else {
                    block = index(line, "/*"); rest = index(line, "//")
                    if (rest && (!block || rest < block)) { out = out substr(line, 1, rest - 1); break }
                    if (!block) { out = out line; break }
                    out = out substr(line, 1, block - 1); line = substr(line, block + 2); inside = 1
                }
            }
            print out
        }' "$file" >"$bare/$file"
    done
}

# Standard input holds the violations of the rule, one a line. The end of a pipe is a process of its
# own, so the tally is a file.
rule() {
    if grep . >"$found"; then
        echo failed >>"$tally"
        sed "s|^|$1: |" "$found"
    else
        echo passed >>"$tally"
    fi
}

# code PATTERN WHERE...: lines of the stripped code that match; a path that is not there holds none.
code() {
    pattern=$1
    shift
    (cd "$bare" && grep -rnE -e "$pattern" "$@" 2>/dev/null)
}

# Every text file of the project: what git tracks or would track, or everything when there is no git.
texts() {
    git ls-files --cached --others --exclude-standard 2>/dev/null | grep . ||
        find . -type f ! -path './build/*' ! -path './.git/*'
}

in_texts() {
    texts | tr '\n' '\0' | xargs -0 grep -nIE -e "$1" 2>/dev/null
}

quoted_includes() {
    code '^ *# *include *"' "$1"
}

# --- who may include whom -----------------------------------------------------------------------

include_rules() {
    code '# *include *["<](server/|microhttpd|uv\.h|pthread|threads\.h)' core include |
        rule 'core knows no server, HTTP or threads'
    code '(pthread|thrd|mtx|cnd|sem|uv|MHD)_[a-z_]+ *\(' core include |
        rule 'core calls no thread, loop or HTTP library'
    code '# *include *["<]jansson|[^a-z_]json_[a-z_]+ *\(' core include |
        grep -vE '^core/(safetensors[a-z_]*|model/document)\.c:' |
        rule 'core knows JSON only in the header of safetensors and in the documents of a model'
    quoted_includes server | while IFS=: read -r file line text; do
        header=$(echo "$text" | sed 's/.*"\(.*\)".*/\1/')
        case $header in attn/*) continue ;; esac
        if [ -e "core/$header" ] || [ "${header#core/}" != "$header" ]; then
            echo "$file:$line:$text"
        fi
    done | rule 'server enters core by include/attn only'
    quoted_includes include | grep -v '"attn/' |
        rule 'a public header includes public headers only'
    code '# *include *"(mixers|model|route|attn/(mixer|model|route))[/.]' core/kernels |
        rule 'kernels include nothing above them'
    code '# *include *"(model|route|attn/(model|route))[/.]' core/mixers |
        rule 'mixers include neither model nor route'
    code '# *include *"(route|attn/route)[/.]' core/model |
        rule 'model does not include route'
    code '# *include *"(server/)?(main|loop|listen|endpoints)[./]' server/codec server/executor.c \
        server/executor_queue.c server/metrics.c server/log.c server/problem.c |
        rule 'the lower floors of server do not include the loop or the endpoints'
    # JSON is read in seven places: a body, its tensors, its options, the repository's bodies, flat
    # files such as the configuration, a model's documents, and the header of safetensors, which is
    # also written.
    for pair in microhttpd.h:3 uv.h:3 cblas.h:3 jansson.h:8; do
        header=${pair%:*}
        files=$(cd "$bare" && grep -rlE "# *include *[\"<]$header" core server include 2>/dev/null)
        if [ "$(echo "$files" | grep -c .)" -gt "${pair#*:}" ]; then echo "$files"; fi |
            rule "$header stays in at most ${pair#*:} files"
    done
}

# --- what the code of a floor may do ------------------------------------------------------------

allocators='(^|[^A-Za-z0-9_.>])(malloc|calloc|realloc|reallocarray|aligned_alloc|posix_memalign|strdup|strndup|mmap|free|alloca) *\('

behaviour_rules() {
    code "$allocators" core/kernels | rule 'a kernel does not allocate'
    code '(^|[^A-Za-z0-9_])(f?printf|puts|perror|syslog|fwrite|fputs) *\(' core |
        rule 'core does not print'
    code '(attn_model|attn_route|srv_)' core/kernels | rule 'a kernel knows no model'
    code "$allocators" core/mixers | rule 'a mixer takes memory from its arena only'
    code '(^|[^A-Za-z0-9_])(time|clock|clock_gettime|gettimeofday|rand|random|drand48|getrandom|getenv) *\(|__rdtsc' \
        core/route | rule 'a policy reads no clock, random number or environment'
    code '(^|[^A-Za-z0-9_])assert *\(.*(alloc|arena_take|NULL|full|limit)' core server |
        rule 'running out is a status, not an assert'
    code '(^|[^A-Za-z0-9_])(abort|_?exit|_Exit|quick_exit) *\(' core include |
        rule 'core never ends the process'
    mutable_globals | rule 'no mutable global'
    code '(^|[^A-Za-z0-9_])(v?fork|posix_spawnp?) *\(' core server |
        rule 'nobody forks: threads and the locks of OpenBLAS would not come along'
    code '(^|[^A-Za-z0-9_])setlocale *\(' core server | rule 'the locale stays C'
    bad_names | rule 'public names begin with attn_ in core, srv_ in server'
}

# A file- or function-level `static` that is not const, or a non-static variable at column 0. Not
# seen: a variable declared behind a struct's closing brace, or one whose line does not end it.
mutable_globals() {
    code '^ *static [^(]*(=|;|\[)' core server include | grep -vE \
        'static (inline )?const [^*]*(=|;|\[)|\* *const|_Static_assert|static_assert'
    code '^(_Atomic |_Thread_local |volatile |unsigned |signed )*(int|long|char|float|double|bool|size_t|u?int[0-9]+_t|(struct )?(attn|srv)_[a-z_0-9]+|FILE) +\**[a-z_0-9]+(\[[^]]*\])*( =.*|;)$' \
        core server include
}

# Functions that a header declares at column 0, `type name(`; static inline ones may be bare.
bad_names() {
    code '^[a-z][A-Za-z0-9_ ]*[ *]+[a-z_0-9]+\(' core include |
        grep -vE ':(static|typedef|return)|[ *]attn_[a-z0-9_]+\(' | grep '\.h:'
    code '^[a-z][A-Za-z0-9_ ]*[ *]+[a-z_0-9]+\(' server |
        grep -vE ':(static|typedef|return)|[ *]srv_[a-z0-9_]+\(' | grep '\.h:'
}

# --- the compiler and the text ------------------------------------------------------------------

variable_length_arrays() {
    vectors=
    if [ "$(uname -m)" = x86_64 ]; then vectors='-mavx2 -mfma -mavx512f'; fi
    find core server -name '*.c' | while read -r file; do
        # shellcheck disable=SC2086 # the flags are words
        gcc -std=c11 -D_GNU_SOURCE -DATTND_VERSION='""' -DATTND_REVISION='""' -Iinclude -Icore -I. \
            $vectors -fsyntax-only -Wvla "$file" 2>&1 | grep '\[-Wvla\]'
    done
}

text_rules() {
    variable_length_arrays | rule 'no variable-length array'
    in_texts '-f(fast|associative|unsafe)-mat[h]|-Ofas[t]|-funsafe-mat[h]|fast-mat[h]"' |
        grep -vE '\.md:' | rule 'no fast-math'
    in_texts '(^|[^A-Za-z])(TOD[O]|FIXM[E]|XX[X]|HAC[K])([^A-Za-z]|$)' | rule 'nothing is left to do'
    in_texts '(^|[^A-Za-z0-9_.])/(wor[k]|far[m]|roo[t]|hom[e])/|\.\./share[d]' |
        rule 'no path of one machine'
}

# Words on standard input that a document lacks.
missing_from() {
    sort -u | while read -r word; do
        grep -qF "\`$word\`" "$1" || echo "$1 does not mention $word"
    done
}

document_rules() {
    sed -n 's/^SETTING(\([a-z_]*\),.*/\1/p' server/config.def |
        missing_from server/docs/operations.md | rule 'every configuration key is documented'
    sed -n 's/^FAMILY([A-Z]*, [A-Z_]*, "\([a-z_]*\)".*/\1/p' server/metrics.def |
        missing_from server/docs/operations.md | rule 'every metric is documented'
    sed -n 's/^PROBLEM([A-Z_]*, [0-9]*, "\([a-z_]*\)".*/\1/p' server/problem.def |
        missing_from server/docs/operations.md | rule 'every refusal is documented'
    sed -n 's/^ROUTE("[A-Z]*", "\([^"]*\)".*/\1/p' server/routes.def |
        missing_from server/docs/api.md | rule 'every route is documented'
}

strip_comments
include_rules
behaviour_rules
text_rules
document_rules
passed=$(grep -c passed "$tally")
failed=$(grep -c failed "$tally")
echo "floors: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
