#!/bin/bash
# SPDX-License-Identifier: MIT
#
# 13-bubblewrap.sh ROOT - bubblewrap on a copy-on-write view of a root file
# system, and cowfs' own sandbox on another one.
#
# ROOT is a folder with a Debian that has python3 and PostgreSQL, as
# debootstrap or `umoci unpack` makes it; it is not changed.
# Needs cowfs and bwrap in PATH, and root. Leaves nothing.
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
bwrap --bind "$view" / --proc /proc --dev /dev --perms 1777 --tmpfs /dev/shm \
	--unshare-pid --unshare-ipc --unshare-net --die-with-parent \
	--clearenv --setenv PATH /usr/sbin:/usr/bin:/sbin:/bin \
	sh /opt/work.sh </dev/null
[ -x "$view/usr/bin/cowfs-hello" ]
cowfs umount one --discard

# In cowfs' sandbox root has no rights over other users' files; what needs none
# of them runs as in any container.
cowfs run --rootfs --new root -- python3 -c '
import os, platform
print("sandbox:", os.listdir("/home"), platform.freedesktop_os_release()["ID"])'

[ ! -e "$root/usr/bin/cowfs-hello" ]
cowfs mount root one >/dev/null
[ -z "$(cowfs diff one)" ]
echo "the snapshot is as it was"
