#!/usr/bin/env bash
# stamp-suite 1.0.0 (the library, without features) does not compile for targets with musl.
# It passes libc's constants SIOCETHTOOL and SIOCGIFMTU to ioctl() as they are. libc 0.2 declares both as unsigned long for every C
# library, which is what glibc's ioctl() takes; musl's takes an int. A cast (`as _`) at these two calls is all that is missing.
# What it means for a user: a program that uses the library cannot be built as one static file that runs on any Linux.
# What helps: build for glibc, and what does not need STAMP apart from what does.
# Needs Rust with rustup, which installs the target x86_64-unknown-linux-musl if it is missing; no linker. Fails if it compiles.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
rustup target add x86_64-unknown-linux-musl 2>&1 | grep -v 'up to date' || true
mkdir src
touch src/lib.rs
cat > Cargo.toml <<'MANIFEST'
[package]
name = "static"
version = "0.0.0"
edition = "2024"

[dependencies]
stamp-suite = "=1.0.0"
libc = "=0.2.191"
MANIFEST
check() {
    cargo check -q --lib --target "$1" --message-format short 2>&1 |
        grep -oE 'src/[a-z/]+\.rs:[0-9]+|error\[E[0-9]+\]|expected `i32`, found `u64`' | paste -sd' ' || true
}
{
    echo "glibc: $(check x86_64-unknown-linux-gnu)"
    echo "musl: $(check x86_64-unknown-linux-musl)"
} | tee output
diff output - <<'EXPECTED'
glibc: 
musl: src/hwtstamp.rs:134 error[E0308] expected `i32`, found `u64` src/receiver/mtu.rs:501 error[E0308] expected `i32`, found `u64`
EXPECTED
