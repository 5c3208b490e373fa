#!/bin/sh
# SPDX-License-Identifier: MIT
#
# build-libfuse.sh BUILD_DIR - provides libfuse >= 3.17.
#
# Does nothing where the system has it. Elsewhere Debian's newer source
# package is fetched through the machine's own Debian mirror, checked
# against the sums below, and built statically into BUILD_DIR/libfuse.
#
# Why like this: 3.14 (Debian 12) lacks tmpfile, HANDLE_KILLPRIV_V2 and
# statx. Binary packages of the next release would pull in its libc, so the
# source is built (seconds). Debian's patches are applied because 3.17.2 as
# released detects functions wrongly and aborts on mixed want/want_ext.
# apt runs on a private configuration, so neither the machine's lists nor
# its sources change, and an ordinary user can run it.
#
# The checked archives (nothing else) are kept for the next build folder in
# ${COWFS_CACHE:-${XDG_CACHE_HOME:-~/.cache}/cowfs}; a machine without a
# mirror can be served by putting them there by hand.
set -eu
umask 022

MIN=3.17
VERSION=3.17.2
REVISION=3.17.2-3
SUITE=trixie
ORIG=fuse3_$VERSION.orig.tar.gz
ORIG_SHA256=3d932431ad94e86179e5265cddde1d67aa3bb2fb09a5bd35c641f86f2b5ed06f
DEBIAN=fuse3_$REVISION.debian.tar.xz
DEBIAN_SHA256=eaf7a177761ae8bf99ea97619f2cccf83f169b4f000e17b6106834e69456b5a2
STAMP="libfuse $REVISION recipe 2"

say() { echo "build-libfuse: $*"; }
die() { echo "build-libfuse: error: $*" >&2; exit 1; }

is_built() { [ "$(cat "$prefix/.stamp" 2>/dev/null)" = "$STAMP" ]; }

need_commands() {
	for c in "$@"; do
		command -v "$c" >/dev/null ||
			die "'$c' is missing: install it (tests/support/install-packages.sh installs all), or libfuse3 >= $MIN with headers"
	done
}

# verified DIR: are both archives there, byte for byte?
verified() {
	[ -f "$1/$ORIG" ] && [ -f "$1/$DEBIAN" ] || return 1
	(cd "$1" && printf '%s  %s\n' "$ORIG_SHA256" "$ORIG" \
		"$DEBIAN_SHA256" "$DEBIAN" | sha256sum --quiet -c -) \
		>>"$log" 2>&1
}

# Prints the machine's archives with a component "main" for its own suite,
# from apt's own parser (so both source formats work). Those that look like
# Debian's come first; a third party's that gets through fails the check of
# the signature or has no such suite.
mirrors() {
	codename=$(. /etc/os-release 2>/dev/null
		echo "${VERSION_CODENAME:-stable}")
	apt-get indextargets --no-release-info --format \
		'$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
	awk -v own="$codename" '
		$3 != "main" || $1 ~ /security|^cdrom:/ { next }
		$2 != own && $2 !~ /^(stable|testing|unstable|sid)$/ { next }
		{ sub(/\/$/, "", $1) }
		seen[$1]++ { next }
		$1 ~ /\/debian$/ { print $1; next }
		{ rest[++n] = $1 }
		END { for (i = 1; i <= n; i++) print rest[i] }'
}

keyring() {
	for k in /usr/share/keyrings/debian-archive-keyring.gpg \
		/usr/share/keyrings/debian-archive-keyring.pgp; do
		[ ! -f "$k" ] || { echo "$k"; return; }
	done
	return 1
}

# fetch URI DIR: the archives from one mirror, with a private apt.
fetch() {
	dir=$2
	rm -rf "$dir"
	mkdir -p "$dir/lists/partial" "$dir/cache/archives/partial"
	echo "deb-src [signed-by=$keys] $1 $SUITE main" >"$dir/sources.list"
	# The sandbox user could not enter a private folder; what comes in
	# is checked by signature and again by sum.
	cat >"$dir/apt.conf" <<-CONF
	Dir::Etc::sourcelist "$dir/sources.list";
	Dir::Etc::sourceparts "/dev/null";
	Dir::State::lists "$dir/lists";
	Dir::Cache "$dir/cache";
	Acquire::AllowInsecureRepositories "false";
	Acquire::Retries "2";
	APT::Sandbox::User "";
	APT::Get::List-Cleanup "false";
	#clear APT::Update::Pre-Invoke;
	#clear APT::Update::Post-Invoke;
	#clear APT::Update::Post-Invoke-Success;
	CONF
	(
		cd "$dir" &&
		apt-get -qq -c apt.conf -o APT::Update::Error-Mode=any update &&
		apt-get -qq -c apt.conf source --download-only --only-source \
			"fuse3=$REVISION"
	) >>"$log" 2>&1
}

# Sets $archives to a folder that holds both archives, verified.
get_archives() {
	archives=$cache
	! verified "$cache" || return 0
	need_commands apt-get awk
	keys=$(keyring) ||
		die "no keyring of Debian's archive: install debian-archive-keyring, or libfuse3 >= $MIN with headers"
	archives=$work/fetch
	for uri in $(mirrors 2>>"$log"); do
		say "fetching Debian's source package fuse3 $REVISION"
		if fetch "$uri" "$archives" && verified "$archives"; then
			keep_archives
			return 0
		fi
	done
	die "cannot fetch fuse3 $REVISION (log: $log): check apt's Debian mirror, or install libfuse3 >= $MIN with headers, or put $ORIG and $DEBIAN into $cache"
}

# The cache is a convenience: failures to write it are passed over.
keep_archives() {
	mkdir -p "$cache" 2>/dev/null && [ -w "$cache" ] || return 0
	for f in "$ORIG" "$DEBIAN"; do
		cp "$archives/$f" "$cache/.$f.$$" 2>/dev/null &&
			mv -f "$cache/.$f.$$" "$cache/$f" ||
			rm -f "$cache/.$f.$$" 2>/dev/null || :
	done
}

# (set -e does not act inside a function called before ||, hence the &&.)
unpack() {
	src=$work/src
	mkdir "$src" &&
		tar -xzf "$archives/$ORIG" -C "$src" --strip-components=1 &&
		tar -xJf "$archives/$DEBIAN" -C "$src" || return 1
	while read -r p; do
		case $p in ''|'#'*) continue ;; esac
		patch -d "$src" -p1 -s -f -i "debian/patches/$p" || return 1
	done <"$src/debian/patches/series"
}

# bindir is where libfuse looks for fusermount3: the system's, never the
# build folder, which others may be able to write to. Sections, so that the
# linker leaves out what we do not use, 8 MiB for a trace of calls among it.
build() {
	unset DESTDIR
	meson setup "$work/obj" "$src" --prefix="$prefix" --bindir=/usr/bin \
		--libdir=lib --sysconfdir=/etc --default-library=static \
		--buildtype=debugoptimized -Dwerror=false -Dexamples=false \
		-Dc_args='-ffunction-sections -fdata-sections' \
		-Dtests=false -Dutils=false -Duseroot=false \
		-Dinitscriptdir= -Dudevrulesdir=/nonexistent &&
		ninja -C "$work/obj" &&
		rm -rf "$prefix" &&
		meson install -C "$work/obj" --no-rebuild
}

[ $# -eq 1 ] || die "usage: build-libfuse.sh BUILD_DIR"
need_commands pkg-config
if pkg-config --exists "fuse3 >= $MIN"; then
	say "the system has libfuse3 $(pkg-config --modversion fuse3)"
	exit 0
fi
mkdir -p "$1" 2>/dev/null && [ -w "$1" ] ||
	die "cannot write to '$1': name a build folder of yours"
top=$(cd "$1" && pwd)
prefix=$top/libfuse
log=$top/libfuse.log
cache=${COWFS_CACHE:-${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/cowfs}
! is_built || exit 0
need_commands flock meson ninja patch tar xz sha256sum
exec 9>"$top/libfuse.lock"
flock 9
! is_built || exit 0

: >"$log"
rm -rf "$top"/libfuse-work.*
work=$(mktemp -d "$top/libfuse-work.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
get_archives
say "building libfuse $VERSION into $prefix"
unpack >>"$log" 2>&1 || die "cannot unpack the sources, see $log"
build >>"$log" 2>&1 ||
	die "the build failed: see $log, or install libfuse3 >= $MIN with headers"
echo "$STAMP" >"$prefix/.stamp"
