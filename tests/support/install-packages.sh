#!/bin/sh
# SPDX-License-Identifier: MIT
#
# install-packages.sh [LIST] - installs what is missing of .ci/packages.
#
# Debian only; as root, else by sudo. Asks dpkg alone when nothing is
# missing, so it can open every test run. npm and cargo are not in the list:
# where no command of such a name exists, Debian's nodejs, npm, cargo are taken.
set -eu

list=${1:-$(dirname "$0")/../../.ci/packages}

die() { echo "install-packages: error: $*" >&2; exit 1; }

[ -r "$list" ] || die "cannot read '$list'"
command -v dpkg-query >/dev/null && command -v apt-get >/dev/null ||
	die "this is no Debian: install by hand what $list names"

wanted=$(sed 's/#.*//' "$list")
command -v npm >/dev/null || wanted="$wanted nodejs npm"
command -v cargo >/dev/null || wanted="$wanted cargo"

have=" $(dpkg-query -W -f '${db:Status-Status} ${Package}\n' |
	sed -n 's/^installed //p' | tr '\n' ' ')"
missing=
for p in $wanted; do
	case $have in *" $p "*) ;; *) missing="$missing $p" ;; esac
done
if [ -z "$missing" ]; then
	echo "install-packages: all there"
	exit 0
fi

sudo=
if [ "$(id -u)" -ne 0 ]; then
	command -v sudo >/dev/null ||
		die "run this as root: needs$missing"
	sudo=sudo
fi
echo "install-packages: installing$missing"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Locks wait instead of failing: machines update themselves at odd times.
apt() {
	$sudo env DEBIAN_FRONTEND=noninteractive apt-get -qq \
		-o DPkg::Lock::Timeout=300 "$@" >"$log" 2>&1 </dev/null || {
		tail -n 5 "$log" >&2
		die "apt-get $1 failed; needs$missing"
	}
}
apt update
# shellcheck disable=SC2086
apt install -y --no-install-recommends $missing
