#!/bin/bash
# SPDX-License-Identifier: MIT
#
# 14-chroot.sh ROOT - chroot into a copy-on-write view of a root file system.
#
# ROOT is a folder with a Debian that has python3 and PostgreSQL, as
# debootstrap or `umoci unpack` makes it; it is not changed.
# Needs cowfs and unshare in PATH, and root. Leaves nothing.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=${1:?ROOT: missing}
scratch=$(mktemp -d "${TMPDIR:-/tmp}/cowfs-example-XXXXXX")
export COWFS_STORE=$scratch/store
clean() {
	local code=$?
	cd /
	cowfs umount --all --discard --kill >/dev/null 2>&1 || true
	cowfs daemon stop || code=1
	rm -rf --one-file-system "$scratch"
	exit $code
}
trap clean EXIT

cowfs import "$root" -t root >/dev/null
view=$(cowfs mount root one)
"$here/container-work" "$view"

# /proc, /dev and processes end with the name spaces.
# shellcheck disable=SC2016
unshare -m -p -i -n -f --kill-child sh -euc '
	mount -t proc proc "$1/proc"
	mount --rbind /dev "$1/dev"
	exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin \
		chroot "$1" sh /opt/work.sh' sh "$view" </dev/null

[ -x "$view/usr/bin/cowfs-hello" ]
cowfs umount one --discard
[ ! -e "$root/usr/bin/cowfs-hello" ]
cowfs mount root one >/dev/null
[ -z "$(cowfs diff one)" ]
echo "the snapshot is as it was"
