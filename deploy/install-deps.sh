#!/bin/sh
# Install the Debian 12 packages that attnd needs, and only those missing: what building takes, and
# with the argument "test" what the tests take besides. Quiet when there is nothing to do.
set -eu

libraries='libmicrohttpd:libmicrohttpd-dev jansson:libjansson-dev openblas:libopenblas-dev
           libuv:libuv1-dev'
tools='gcc:gcc pkg-config:pkg-config git:git'
if [ "${1:-}" = test ]; then
    libraries="$libraries cunit:libcunit1-dev"
    tools="$tools curl:curl"
fi

missing=
for pair in $tools; do
    command -v "${pair%%:*}" >/dev/null 2>&1 || missing="$missing ${pair#*:}"
done
for pair in $libraries; do
    pkg-config --exists "${pair%%:*}" 2>/dev/null || missing="$missing ${pair#*:}"
done
[ -e /usr/include/stdlib.h ] || missing="$missing libc6-dev"
if [ "${1:-}" = test ] && ! /usr/bin/python3 -c 'import numpy' 2>/dev/null; then
    missing="$missing python3 python3-numpy"
fi
[ -n "$missing" ] || exit 0

echo "installing with apt:$missing"
command -v apt-get >/dev/null 2>&1 || {
    echo "apt-get is not here; install the equivalents of:$missing" >&2
    exit 1
}
as_root=
if [ "$(id -u)" -ne 0 ]; then
    as_root=sudo
    command -v sudo >/dev/null 2>&1 || {
        echo "this needs root and there is no sudo; as root run: apt-get install$missing" >&2
        exit 1
    }
fi
$as_root apt-get update -qq
# shellcheck disable=SC2086 # a list of words is what is meant
DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends $missing
