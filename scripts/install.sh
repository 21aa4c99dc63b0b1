#!/bin/sh
# Installs what a build and its tests need, where it is missing (Debian, Ubuntu). Asks for nothing
# when all is there, so it also serves a machine without root rights.
set -eu
packages="cmake ninja-build gcc libc6-dev python3 libyaml-dev libjansson-dev libxxhash-dev
  libmd-dev libprotobuf-c-dev protobuf-c-compiler libdlpack-dev zlib1g-dev check libsubunit-dev
  clang-format-14"
missing=
for package in $packages; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
        missing="$missing $package"
done
[ -n "$missing" ] || exit 0
echo "installing:$missing"
as_root=
[ "$(id -u)" -eq 0 ] || as_root=sudo
$as_root apt-get update -qq
# shellcheck disable=SC2086 # a list of words
DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends \
    $missing >/dev/null
