#!/bin/bash
# SPDX-License-Identifier: MIT
#
# 12-podman.sh ROOT - podman on a copy-on-write view of a root file system:
# on the view itself, and with an overlay of podman's own over it (":O").
#
# ROOT is a folder with a Debian that has python3 and PostgreSQL, as
# debootstrap or `umoci unpack` makes it; it is not changed.
# Needs cowfs, podman and runc in PATH, and root. Leaves nothing.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=${1:?ROOT: missing}
scratch=$(mktemp -d "${TMPDIR:-/tmp}/cowfs-example-XXXXXX")
state=$(mktemp -d /run/cowfs-example-XXXXXX) # podman takes 50 bytes at most
export COWFS_STORE=$scratch/store
clean() {
	local code=$?
	cd /
	pod rm -f -t 0 -a >/dev/null 2>&1 || true
	cowfs umount --all --discard --kill >/dev/null 2>&1 || true
	cowfs daemon stop || code=1
	# podman binds its own storage to itself.
	umount "$scratch/images/overlay" 2>/dev/null || true
	rm -rf --one-file-system "$scratch" "$state"
	exit $code
}
trap clean EXIT

# Its state apart from the machine's, without systemd and a network. A user
# whose own limits are low may not raise them for a container.
pod() {
	podman --root "$scratch/images" --runroot "$state" \
		--cgroup-manager=cgroupfs --events-backend=file \
		--runtime runc "$@"
}
run() {
	pod run --rm --network none --ulimit nofile=20000:20000 \
		--ulimit nproc=4096:4096 "$@" </dev/null
}

cowfs import "$root" -t root >/dev/null
view=$(cowfs mount root one)
"$here/container-work" "$view"
run --rootfs "$view" sh /opt/work.sh
[ -x "$view/usr/bin/cowfs-hello" ]
cowfs umount one --discard

# What is written goes to podman's upper layer, and with the container.
view=$(cowfs mount root two)
"$here/container-work" "$view"
run --rootfs "$view:O" sh /opt/work.sh
[ ! -e "$view/usr/bin/cowfs-hello" ]
cowfs umount two --discard

[ ! -e "$root/usr/bin/cowfs-hello" ]
cowfs mount root one >/dev/null
[ -z "$(cowfs diff one)" ]
echo "the snapshot is as it was"
