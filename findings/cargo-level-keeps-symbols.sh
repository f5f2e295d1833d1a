#!/usr/bin/env bash
# cargo 1.95.0: a package that has an optimisation level of its own in a profile does not get that profile's `strip`.
# With `strip = "symbols"` in a custom profile a binary has no symbol table. With `opt-level` of the same package overridden in the
# same profile, and nothing else, rustc is told `strip=debuginfo`, what cargo does where a profile says nothing, and the table is
# there again. Nothing warns. The reference ("Profiles", "Overrides") says that an override changes what it names.
# What it means for a user: a release made smaller by a level grows by its symbols (15.0 for 12.0 MB in our case).
# What helps: to repeat `strip` in the override.
# Needs rustup's or another cargo 1.95.0, a linker and readelf. Fails if the output is another one than below.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
mkdir src
echo 'fn main() { println!("{}", std::env::args().count()); }' > src/main.rs
cargo=(cargo)
if command -v rustup >/dev/null; then cargo=(rustup run 1.95.0 cargo); fi
manifest() {
    printf '%s\n' '[package]' 'name = "finding"' 'version = "0.0.0"' 'edition = "2021"' '[workspace]' \
        '[profile.small]' 'inherits = "release"' 'strip = "symbols"' "$@" > Cargo.toml
}
tables() {
    CARGO_TARGET_DIR=target "${cargo[@]}" build --quiet --profile small
    echo "$1: $(readelf --sections --wide target/small/finding | grep --count ' \.symtab ' || true) symbol tables"
}
{
    "${cargo[@]}" --version | cut -d' ' -f1,2
    manifest
    tables 'strip = "symbols"'
    manifest '[profile.small.package.finding]' 'opt-level = 3'
    tables 'and an override of opt-level'
    manifest '[profile.small.package.finding]' 'opt-level = 3' 'strip = "symbols"'
    tables 'and of strip'
} > output
cat output
diff output - <<'EXPECTED'
cargo 1.95.0
strip = "symbols": 0 symbol tables
and an override of opt-level: 1 symbol tables
and of strip: 0 symbol tables
EXPECTED
