#!/usr/bin/env bash
# Builds the packages, as .deb and as .rpm: `packaging/build.sh`. They are left in target/packages.
#
#   --programs DIR      package the programs in DIR, instead of building them with cargo's profile dist
#   --version VERSION   call it this version, instead of that of Cargo.toml
#   --output DIR        leave the packages there
#   --only NAME         build the packages of this name only
#   --format FORMAT     build deb or rpm only
#   --fast              compress less
#
# Needs cargo-deb, cargo-generate-rpm, dpkg-dev and binutils. Whoever publishes packages sets DEBFULLNAME and DEBEMAIL.
set -euo pipefail
cd "$(dirname "$0")/.."

programs='' version='' output=target/packages only='' format='' fast=''
while [ $# -gt 0 ]; do
    case $1 in
    --programs | --version | --output | --only | --format)
        declare "${1#--}=${2:?}"
        shift
        ;;
    --fast) fast=yes ;;
    *)
        echo "$0: there is no option $1" >&2
        exit 2
        ;;
    esac
    shift
done

# Where the metadata of the crates look for what is packaged.
stage=$PWD/target/packages/stage
version=${version:-$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
maintainer="${DEBFULLNAME:-The PSMC contributors} <${DEBEMAIL:-packages@psmc.example}>"
export SOURCE_DATE_EPOCH

build_programs() {
    local names=(psmc psmcd psmc-fetch psmc-relay psmc-dns psmc-coordinator psmc-guard psmc-shed psmc-front psmc-lab psmc-demo psmc-manual)
    cargo build --locked --profile dist "${names[@]/#/--bin=}"
    programs=${CARGO_TARGET_DIR:-target}/dist
}

# One package: its name, the crate that has its metadata, programs, units, their folders in /etc, /run and /var/lib, documents.
package() {
    local name=$1 crate=$2 commands=$3 units=$4 folders=$5 documents=$6
    local root=$stage/release/$name
    [ "${only:-$name}" = "$name" ] || return 0
    stage_programs
    stage_documents
    stage_scripts
    [ "$format" = deb ] || pack_rpm
    [ "$format" = rpm ] || pack_deb
}

stage_programs() {
    local file
    for file in $commands; do
        install -D -s -m 755 "$programs/$file" "$root/usr/bin/$file"
    done
    # shellcheck disable=SC2086 # a list
    "$programs/psmc-manual" "$root/usr/share" $commands
    find "$root/usr/share/man" -type f -exec gzip -9n {} +
    for file in $units; do
        install -D -m 644 "packaging/$file@.service" "$root/usr/lib/systemd/system/$file@.service"
    done
    if [ -e "packaging/$name.sysusers" ]; then
        install -D -m 644 "packaging/$name.sysusers" "$root/usr/lib/sysusers.d/$name.conf"
    fi
    if [ "$name" = psmc-coordinator ]; then
        install -D -m 755 packaging/fastnetmon-notify.sh "$root/usr/lib/psmc/fastnetmon-notify.sh"
    fi
}

stage_documents() {
    local folder=$root/usr/share/doc/$name
    mkdir -p "$folder"
    # shellcheck disable=SC2086 # a list
    cp -r README.md CHANGELOG.md $documents "$folder/"
    {
        cat packaging/debian/copyright
        sed 's/^/ /; s/^ $/ ./' LICENSE-MIT
    } >"$folder/copyright"
    gzip -9n >"$folder/changelog.gz" <<END
$name ($version) unstable; urgency=medium

  * What has changed is in CHANGELOG.md.

 -- $maintainer  $(date -R -u -d "@$SOURCE_DATE_EPOCH")
END
    chmod -R u=rwX,go=rX "$folder"
    find "$folder" -type f -exec chmod a-x {} +
}

# What runs when the package is installed and removed.
stage_scripts() {
    local file
    mkdir -p "$root/scripts/debian" "$root/scripts/rpm"
    for file in debian/postinst debian/prerm debian/postrm rpm/post rpm/preun rpm/postun; do
        sed "s|@PACKAGE@|$name|g; s|@UNITS@|$units|g; s|@FOLDERS@|$folders|g" "packaging/$file" >"$root/scripts/$file"
    done
}

pack_deb() {
    # Debian keeps /usr/share/zsh/site-functions for what zsh itself has.
    mv "$root/usr/share/zsh/site-functions" "$root/usr/share/zsh/vendor-completions"
    CARGO_TARGET_DIR=$stage cargo deb --quiet --no-build --no-strip --package "$crate" --output "$output/" \
        --deb-version "$version" --maintainer "$maintainer" --compress-system ${fast:+--fast}
}

pack_rpm() {
    local metadata=$root/scripts/rpm/package.toml compression=zstd
    [ -z "$fast" ] || compression=none
    {
        echo "version = \"${version//-/\~}\""
        echo 'assets = ['
        (cd "$root" && find usr -type f -printf "    { source = \"$root/%p\", dest = \"/%p\", mode = \"%m\" },\n")
        echo ']'
        echo "post_install_script = \"$root/scripts/rpm/post\""
        echo "pre_uninstall_script = \"$root/scripts/rpm/preun\""
        echo "post_uninstall_script = \"$root/scripts/rpm/postun\""
    } >"$metadata"
    cargo generate-rpm --package "crates/$crate" --target-dir "$stage" --output "$output/" \
        --payload-compress "$compression" --metadata-overwrite "$metadata"
}

rm -rf "$stage"
mkdir -p "$output"
output=$(realpath "$output")
[ -n "$programs" ] || build_programs
package psmc psmcd 'psmcd psmc psmc-fetch' 'psmcd psmc-dns-resolve' 'psmc psmc-dns' \
    'docs/CONFIGURATION.md docs/METRICS.md docs/TROUBLESHOOTING.md docs/FROM-WIREGUARD.md docs/SELECTION.md docs/PROTOCOL.md packaging/monitoring'
package psmc-relay psmc-relay psmc-relay psmc-relay psmc-relay docs/RELAY.md
package psmc-dns psmc-dns psmc-dns psmc-dns psmc-dns docs/DNS.md
package psmc-coordinator psmc-coordinator 'psmc-coordinator psmc-guard' 'psmc-coordinator psmc-guard' \
    'psmc-coordinator psmc-guard' 'docs/COORDINATOR.md docs/GUARD.md'
package psmc-shed psmc-shed psmc-shed psmc-shed psmc-shed docs/SHEDDING.md
package psmc-front psmc-front psmc-front psmc-front psmc-front docs/FRONT.md
package psmc-lab psmc-lab 'psmc-lab psmc-demo' '' '' 'docs/LAB.md docs/ROUTERS.md docs/SCENARIOS.md docs/TUTORIAL.md scenarios'
if [ ! -d "$stage" ]; then
    echo "$0: no package is called $only" >&2
    exit 2
fi
rm -rf "$stage"
