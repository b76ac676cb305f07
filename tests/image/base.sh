#!/bin/sh
# A stand-in for debian:bookworm-slim in buildah's store, made from the Debian mirror that this
# machine's apt already uses: where the image cannot be pulled, the Dockerfile can still be built.
# usage: base.sh SCRATCH NAME      CONTAINERS_STORAGE_CONF says which store; needs root
set -eu

root=$1/base
name=$2
release=bookworm

# "URI suite component" of every Debian source of that release, its updates and security included.
# shellcheck disable=SC2016 # the fields are apt's to fill in
sources=$(apt-get indextargets --format '$(ORIGIN) $(REPO_URI) $(RELEASE) $(COMPONENT)' \
    'Created-By: Packages' | sort -u |
    awk -v release="$release" '$1 == "Debian" && index($3, release) == 1 { print $2, $3, $4 }')
mirror=$(echo "$sources" | awk -v release="$release" '$2 == release { print $1; exit }')
[ -n "$mirror" ] || {
    echo "apt knows no Debian mirror with $release; add one to its sources" >&2
    exit 1
}

debootstrap --variant=minbase "$release" "$root" "$mirror" >"$1/debootstrap.log" 2>&1 || {
    tail -n 20 "$1/debootstrap.log" >&2
    exit 1
}
echo "$sources" | sed 's/^/deb /' >"$root/etc/apt/sources.list"
# How this machine reaches the mirror (a proxy, a snapshot that is past its date) holds inside too.
apt-config dump | grep -E '^Acquire::(.*Proxy|Check-)' >"$root/etc/apt/apt.conf.d/90host" || true

# What makes it slim: no manuals, not from later packages either.
cat >"$root/etc/dpkg/dpkg.cfg.d/slim" <<'SLIM'
path-exclude /usr/share/doc/*
path-exclude /usr/share/info/*
path-exclude /usr/share/locale/*
path-exclude /usr/share/man/*
SLIM
for unwanted in usr/share/doc usr/share/info usr/share/locale usr/share/man dev var/lib/apt/lists \
    var/cache/apt var/log; do
    find "$root/$unwanted" -mindepth 1 -delete
done

container=$(buildah from scratch)
buildah add -q "$container" "$root" / >/dev/null
buildah config --cmd bash "$container"
buildah commit -q "$container" "$name" >/dev/null
buildah rm "$container" >/dev/null
rm -rf "$root"
