#!/bin/sh
# Build the Dockerfile and try the image where no container engine runs: buildah builds it, runc
# runs it, test_image.py asks the questions. A few minutes; apart from packages it installs with
# apt, everything is under build/ and gone afterwards. Needs root: it mounts and makes namespaces.
# usage: tests/image/check.sh
set -eu
cd "$(dirname "$0")/../.."

[ "$(id -u)" -eq 0 ] || {
    echo "image-check mounts file systems and makes namespaces: run it as root" >&2
    exit 1
}
for tool in buildah:buildah runc:runc debootstrap:debootstrap promtool:prometheus; do
    command -v "${tool%%:*}" >/dev/null 2>&1 || missing="${missing:-} ${tool#*:}"
done
/usr/bin/python3 -c 'import numpy' 2>/dev/null || missing="${missing:-} python3 python3-numpy"
apt-get update -qq
if [ -n "${missing:-}" ]; then
    echo "installing with apt:$missing"
    # shellcheck disable=SC2086 # a list of words is what is meant
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing
fi

mkdir -p build
scratch=$(mktemp -d "$PWD/build/image.XXXXXX")
clean_up() {
    runc --root "$scratch/runc" list -q | xargs -r -n 1 runc --root "$scratch/runc" delete --force
    buildah umount --all >/dev/null 2>&1 || true
    # debootstrap and a build that were cut short leave theirs behind.
    awk -v under="$scratch/" 'index($2, under) == 1 { print $2 }' /proc/mounts | sort -r |
        while read -r mount; do umount "$mount"; done
    rm -rf --one-file-system "$scratch"
}
trap clean_up EXIT
trap 'exit 1' INT TERM HUP

cat >"$scratch/storage.conf" <<STORAGE
[storage]
driver = "vfs"
graphroot = "$scratch/store"
runroot = "$scratch/run"
STORAGE
export CONTAINERS_STORAGE_CONF="$scratch/storage.conf"

echo "== a base from the Debian mirror"
sh tests/image/base.sh "$scratch" docker.io/library/debian:bookworm-slim

echo "== buildah builds the Dockerfile"
buildah build --isolation chroot --format docker --pull-never --layers=false \
    --build-arg REVISION=image-check --tag attnd:check . >"$scratch/build.log" 2>&1 || {
    tail -n 40 "$scratch/build.log" >&2
    exit 1
}

container=$(buildah from --pull-never attnd:check)
root=$(buildah mount "$container")
buildah inspect --type image attnd:check >"$scratch/image.json"

echo "== the image: $(du -sm "$root" | cut -f1) MiB, of which attnd is" \
    "$(du -sk "$root/usr/local/bin/attnd" | cut -f1) KiB; its packages:"
dpkg-query --admindir="$root/var/lib/dpkg" -W -f '${Package} ${Version}\n' | column -c 120

echo "== runc runs it"
/usr/bin/python3 tests/image/test_image.py "$scratch" "$root"
