#!/bin/bash
# SPDX-License-Identifier: MIT
#
# 02-two-agents.sh - two agents work on one repository at the same time, each
# in an environment of its own, and do not see each other.
#
# Needs cowfs and git in PATH. Uses a store of its own and leaves nothing.
set -euo pipefail

scratch=$(mktemp -d "${TMPDIR:-/tmp}/cowfs-example-XXXXXX")
export COWFS_STORE=$scratch/store
clean() {
	local code=$?
	cd /
	cowfs umount --all --discard >/dev/null 2>&1 || true
	cowfs daemon stop || code=1
	rm -rf --one-file-system "$scratch"
	exit $code
}
trap clean EXIT

git init -q -b main "$scratch/repo"
cd "$scratch/repo"
git config user.name example
git config user.email example@example.invalid
printf 'def add(a, b):\n    return a + b\n' >calc.py
git add -A
git commit -q -m 'a calculator'

cowfs import "$scratch/repo" -t repo >/dev/null

# agent NAME FUNCTION OPERATOR: what an agent does in its environment.
agent() {
	cd "$(cowfs mount repo "$1")"
	git switch -q -c "$1"
	printf '\n\ndef %s(a, b):\n    return a %s b\n' "$2" "$3" >>calc.py
	PYTHONDONTWRITEBYTECODE=1 python3 -c "import calc; print('$1:', calc.$2(6, 3))"
	git commit -q -a -m "$2"
}

agent subtractor subtract - &
first=$!
agent multiplier multiply '*' &
second=$!
wait $first
wait $second

echo "environments:"
cowfs ps
for name in subtractor multiplier; do
	echo "$name changed:"
	cowfs diff "$name" | grep -v '\.git/'
	# Their work travels by git, as between any two clones.
	git fetch -q "$(cowfs mount "$name")" "$name:$name"
done

git log --oneline --all | sort -k 2
[ "$(git rev-list --all --count)" -eq 3 ]
cd /
cowfs umount --all --discard
