#!/usr/bin/env bash
# Builds a relay that needs no library of the system, for any Linux: `packaging/static.sh`; `packaging/static.sh psmc-dns …` for other
# programs. They are left in target/packages, as a tar archive.
#
# psmcd and psmc cannot be built so: stamp-suite 1.0.0 does not compile for musl (the request of ioctl(2) has another type there).
#
# Needs Rust's target for musl (`rustup target add x86_64-unknown-linux-musl`) and musl's compiler (Debian: musl-tools).
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(uname -m)-unknown-linux-musl
names=("$@")
[ "${#names[@]}" -gt 0 ] || names=(psmc-relay)
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)

if ! [ -d "$(rustc --print sysroot)/lib/rustlib/$target" ]; then
    echo "$0: the target is missing: rustup target add $target" >&2
    exit 1
fi
if ! command -v musl-gcc >/dev/null; then
    echo "$0: musl-gcc is missing: apt install musl-tools" >&2
    exit 1
fi
cargo build --locked --profile dist --target "$target" "${names[@]/#/--bin=}"
programs=${CARGO_TARGET_DIR:-target}/$target/dist
for name in "${names[@]}"; do
    if ! ldd "$programs/$name" 2>&1 | grep -qE 'statically linked|not a dynamic executable'; then
        echo "$0: $name has been linked with libraries of this system" >&2
        exit 1
    fi
done
archive=target/packages/psmc-$version-$(uname -m)-static.tar.gz
mkdir -p target/packages
tar --create --gzip --file "$archive" --owner 0 --group 0 --numeric-owner --transform "s|^|psmc-$version/|" \
    --directory "$PWD" LICENSE-APACHE LICENSE-MIT README.md --directory "$(realpath "$programs")" "${names[@]}"
echo "$archive"
