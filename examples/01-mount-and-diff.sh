#!/bin/bash
# SPDX-License-Identifier: MIT
#
# 01-mount-and-diff.sh - import a folder, change it in an environment, see
# what changed, unmount it, bring it back, throw it away.
#
# Needs cowfs in PATH. Uses a store of its own and leaves nothing.
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

# Something to work on.
mkdir -p "$scratch/site/pages"
echo '<h1>Welcome</h1>' >"$scratch/site/pages/index.html"
echo '<h1>About</h1>' >"$scratch/site/pages/about.html"
echo 'body { color: black }' >"$scratch/site/style.css"

# Import prints the snapshot's id; the name is for people.
id=$(cowfs import "$scratch/site" -t site)
echo "snapshot $id"

# mount prints where the environment is.
dir=$(cowfs mount site draft)
echo 'body { color: navy }' >"$dir/style.css"
mv "$dir/pages/about.html" "$dir/pages/who-we-are.html"
echo '<h1>News</h1>' >"$dir/pages/news.html"

echo "what changed:"
cowfs diff draft

# umount never throws work away unless told to: what changed is rescued, and
# comes back as it was.
cowfs umount draft
rescue=$(cowfs rescue ls | awk 'NR == 2 { print $1 }')
cowfs rescue restore "$rescue" draft
dir=$(cowfs mount draft)
grep -q navy "$dir/style.css"

# The origin never changed.
grep -q black "$scratch/site/style.css"
[ -e "$scratch/site/pages/about.html" ]

cowfs umount draft --discard
echo "gone:"
cowfs ps
