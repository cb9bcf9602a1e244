#!/usr/bin/env bash
# Builds what is released, into a folder:
#
#   packaging/release.sh [DIR]
#
# For each of ARCHS ("amd64 arm64") a static binary, an archive with man pages and
# completions, and a Debian package; the description of a container image; and the
# checksums of all. The version is that of cmd/bobnet/version.go, or VERSION. Without VERSION, a
# commit that has no tag of this version, or a work tree with changes, is not a release: files and
# package then also have its day and commit, and sort before the release. The same source makes
# the same files.
set -eu
cd "$(dirname "$0")/.."
out=${1:-out/release}
archs=${ARCHS:-amd64 arm64}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH CGO_ENABLED=0
commit=$(git describe --always --abbrev=40 --exclude '*' --dirty 2>/dev/null || true)
version=$(sed -n 's/^const source = "\(.*\)"$/\1/p' cmd/bobnet/version.go)
stamp="-X main.commit=$commit"
if [ -n "${VERSION:-}" ] || [ "$(git describe --tags --exact-match --dirty --match "v$version" 2>/dev/null)" = "v$version" ]; then
	version=${VERSION:-$version}
	version=${version#v}
	stamp="$stamp -X main.released=$version"
else
	version=$version~git$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y%m%d).$(git describe --always --exclude '*' --dirty)
fi

rm -rf "$out"
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What is the same for all processors: this machine's binary writes it.
go build -trimpath -o "$work/bobnet" ./cmd/bobnet
mkdir -p "$work/man" "$work/completions"
"$work/bobnet" man "$work/man"
gzip -9n "$work"/man/*.1
for shell in bash zsh fish; do "$work/bobnet" completion "$shell" >"$work/completions/bobnet.$shell"; done

# package ROOT ARCH puts what is below ROOT into a Debian package.
package() {
	mkdir -p "$1/DEBIAN"
	echo /etc/bobnet/agent.policy.example >"$1/DEBIAN/conffiles"
	install -m755 packaging/prerm "$1/DEBIAN/prerm"
	cat >"$1/DEBIAN/control" <<-EOF
		Package: bobnet
		Version: $version
		Architecture: $2
		Maintainer: The Bobnet authors <bobnet@localhost>
		Section: net
		Priority: optional
		Recommends: iproute2
		Homepage: https://github.com/bobnet-go/bobnet
		Description: messages between programs on one Ethernet segment, without TCP/IP
		 The command of Bobnet, a messaging runtime over raw Ethernet frames: labs of
		 network namespaces, measurements, launching of jobs, an IP interface over
		 virtual interfaces, and the daemons of its communication layers.
	EOF
	find "$1" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +
	dpkg-deb --root-owner-group -Zxz --build "$1" "$out/bobnet_${version}_$2.deb" >/dev/null
}

for arch in $archs; do
	binary="$out/bobnet-linux-$arch"
	GOARCH=$arch go build -trimpath -ldflags "-s -w $stamp" -o "$binary" ./cmd/bobnet

	archive=$work/bobnet-$version-linux-$arch
	mkdir -p "$archive"
	install -m755 "$binary" "$archive/bobnet"
	cp -r README.md LICENSE packaging/*.service packaging/agent.policy.example "$work/man" "$work/completions" "$archive"
	tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
		-C "$work" -cf - "${archive##*/}" | gzip -9n >"$out/${archive##*/}.tar.gz"

	root=$work/deb-$arch
	install -Dm755 "$binary" "$root/usr/bin/bobnet"
	install -Dm644 -t "$root/usr/share/man/man1" "$work"/man/*
	install -Dm644 "$work/completions/bobnet.bash" "$root/usr/share/bash-completion/completions/bobnet"
	install -Dm644 "$work/completions/bobnet.zsh" "$root/usr/share/zsh/vendor-completions/_bobnet"
	install -Dm644 "$work/completions/bobnet.fish" "$root/usr/share/fish/vendor_completions.d/bobnet.fish"
	install -Dm644 packaging/agent.policy.example "$root/etc/bobnet/agent.policy.example"
	install -Dm644 LICENSE "$root/usr/share/doc/bobnet/copyright"
	for unit in packaging/*.service; do
		[ -e "$unit" ] && install -Dm644 -t "$root/usr/lib/systemd/system" "$unit"
	done
	if command -v dpkg-deb >/dev/null; then
		package "$root" "$arch"
	else
		echo "release.sh: no dpkg-deb, so no Debian package: apt-get install dpkg" >&2
	fi
done

cp packaging/Containerfile "$out"
(cd "$out" && sha256sum -- * >SHA256SUMS)
ls -l "$out"
