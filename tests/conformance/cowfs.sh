#!/bin/bash
# SPDX-License-Identifier: MIT
#
# cowfs.sh base NAME | up NAME | pid NAME | down NAME - the adapter by which
# the conformance cases drive cowfs (docs/testing.md).
#
# base  makes a folder that the case fills, and prints it
# up    imports it, mounts the snapshot and prints the mount point
# pid   prints the server's process id
# down  throws the environment away and leaves nothing, whatever happened
#
# Works below $QA_WORK (else ${TMPDIR:-/tmp}/cowfs-cases) and finds cowfs by
# PATH. With QA_SMALL=64 the base and the store are on a 64 MB ext4 of their
# own. Every call that could meet a wedged mount has a time limit; down ends
# only processes whose environment names this case's store.
set -u

[ $# -eq 2 ] || { echo "usage: $0 base|up|pid|down NAME" >&2; exit 2; }
work=${QA_WORK:-${TMPDIR:-/tmp}/cowfs-cases}
top=$work/cowfs/$2
export COWFS_STORE=$top/store
cow() { timeout -s KILL "${QA_LIMIT:-60}" cowfs "$@"; }

# Processes of this store, by the variable that they inherited.
ours() {
	local p
	for p in /proc/[0-9]*; do
		case $(cat "$p/comm" 2>/dev/null) in cowfs*) ;; *) continue ;; esac
		tr '\0' '\n' 2>/dev/null <"$p/environ" |
			grep -qxF "COWFS_STORE=$COWFS_STORE" && echo "${p#/proc/}"
	done
}

# Mount points at or below the case's folder, the deepest first.
mounts() {
	awk -v t="$top" '$5 == t || index($5, t "/") == 1 { print $5 }' \
		/proc/self/mountinfo | tac
}

# Nothing remains of a server that does not answer: connections are ended by
# ending the processes, and only then are the mounts taken away.
force() {
	local p m i
	for p in $(ours); do kill -KILL "$p" 2>/dev/null; done
	for i in $(seq 50); do [ -z "$(ours)" ] && break; sleep 0.1; done
	mounts | while read -r m; do
		timeout -s KILL 10 umount -l "$m" 2>/dev/null
	done
}

case $1 in
base)
	mkdir -p "$top"
	if [ -n "${QA_SMALL:-}" ]; then
		truncate -s "${QA_SMALL}M" "$top.img" &&
			mkfs.ext4 -q -F "$top.img" &&
			mount -o loop "$top.img" "$top" || exit 1
	fi
	mkdir -p "$top/lower" && echo "$top/lower"
	;;
up)
	cow import "$top/lower" -t base >/dev/null </dev/null &&
		cow mount base view </dev/null
	;;
pid)
	cow --json daemon status | sed -n 's/.*"pid": *\([0-9]*\).*/\1/p'
	;;
down)
	if [ -d "$COWFS_STORE" ]; then
		QA_LIMIT=20
		cow umount view --discard >/dev/null 2>&1 </dev/null
		cow daemon stop >/dev/null 2>&1 </dev/null
	fi
	if [ -n "$(ours)" ] || mounts | grep -qvxF "$top"; then
		force
	fi
	if [ -n "${QA_SMALL:-}" ] && mountpoint -q "$top"; then
		umount "$top" || umount -l "$top"
	fi
	rm -rf --one-file-system "$top" "$top.img"
	rmdir "$work/cowfs" "$work" 2>/dev/null
	[ -z "$(mounts)" ]
	;;
*)
	echo "usage: $0 base|up|pid|down NAME" >&2
	exit 2
	;;
esac
