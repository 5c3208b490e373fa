#!/bin/bash
# SPDX-License-Identifier: MIT
#
# 10-runc.sh ROOT - runc on a copy-on-write view of a root file system.
#
# ROOT is a folder with a Debian that has python3 and PostgreSQL, as
# debootstrap or `umoci unpack` makes it; it is not changed.
# Needs cowfs, runc and jq in PATH, and root. Leaves nothing.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=${1:?ROOT: missing}
scratch=$(mktemp -d "${TMPDIR:-/tmp}/cowfs-example-XXXXXX")
export COWFS_STORE=$scratch/store
clean() {
	local code=$?
	cd /
	runc --root "$scratch/state" delete -f one >/dev/null 2>&1 || true
	cowfs umount --all --discard --kill >/dev/null 2>&1 || true
	cowfs daemon stop || code=1
	rm -rf --one-file-system "$scratch"
	exit $code
}
trap clean EXIT

cowfs import "$root" -t root >/dev/null
view=$(cowfs mount root one)

# What a container may do, from runc's own proposal: apt and PostgreSQL change
# owners and users.
mkdir "$scratch/bundle"
(cd "$scratch/bundle" && runc spec)
jq --arg view "$view" '
	.root = {path: $view, readonly: false} |
	.process.terminal = false |
	.process.args = ["sh", "/opt/work.sh"] |
	.process.capabilities |= with_entries(.value += ["CAP_CHOWN",
		"CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_SETGID", "CAP_SETUID"])
' "$scratch/bundle/config.json" >"$scratch/config"
mv "$scratch/config" "$scratch/bundle/config.json"

"$here/container-work" "$view"
runc --root "$scratch/state" run -b "$scratch/bundle" one </dev/null

# The package is there, and only there.
[ -x "$view/usr/bin/cowfs-hello" ]
cowfs umount one --discard
[ ! -e "$root/usr/bin/cowfs-hello" ]
cowfs mount root one >/dev/null
[ -z "$(cowfs diff one)" ]
echo "the snapshot is as it was"
