#!/usr/bin/env bash
# Builds the images of relay, coordinator and name server: `packaging/containers/build.sh`.
#
#   --programs DIR      put the programs in DIR into them, instead of building them with cargo's profile dist
#   --version VERSION   tag them with this version, instead of that of Cargo.toml
#   --only NAME         build the image of this name only
#   --with COMMAND      build with this command, such as `docker build`; default: podman, buildah or docker, what is there
#
# Nothing is downloaded, and nothing runs while an image is built: there is no base image.
set -euo pipefail
cd "$(dirname "$0")/../.."
umask 022

programs='' version='' only='' with=''
while [ $# -gt 0 ]; do
    case $1 in
    --programs | --version | --only | --with)
        declare "${1#--}=${2:?}"
        shift
        ;;
    *)
        echo "$0: there is no option $1" >&2
        exit 2
        ;;
    esac
    shift
done
version=${version:-$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)}
names=(psmc-relay psmc-coordinator psmc-dns)

# Images have health checks in Docker's format only, which is that of `docker build` anyway.
builder() {
    if command -v podman >/dev/null; then
        echo podman build --format docker
    elif command -v buildah >/dev/null; then
        echo buildah build --format docker
    elif command -v docker >/dev/null; then
        echo docker build
    else
        echo "$0: install podman, buildah or docker" >&2
        return 1
    fi
}

build_programs() {
    cargo build --locked --profile dist "${names[@]/#/--bin=}"
    programs=${CARGO_TARGET_DIR:-target}/dist
}

# The libraries that a program loads, and what loads them; nothing for a program that is linked statically.
libraries() {
    ldd "$1" 2>/dev/null | grep -o '/[^ ]*' || true
}

# One image: the program, and folders of its user's.
image() {
    local name=$1 folders=$2 context file
    [ "${only:-$name}" = "$name" ] || return 0
    context=$(mktemp -d)
    install -D -s -m 755 "$programs/$name" "$context/root/usr/bin/$name"
    for file in $(libraries "$programs/$name"); do
        install -D -m 755 "$file" "$context/root$file"
    done
    install -D -m 644 LICENSE-APACHE LICENSE-MIT -t "$context/root/usr/share/doc/$name"
    mkdir "$context/root/etc"
    echo "$name:x:65532:65532:PSMC:/:/usr/sbin/nologin" >"$context/root/etc/passwd"
    echo "$name:x:65532:" >"$context/root/etc/group"
    for file in $folders; do
        install -d -m 750 "$context/own/$file/$name"
    done
    # shellcheck disable=SC2086 # a command with its arguments
    $with --tag "$name:$version" --file "packaging/containers/$name.Containerfile" "$context"
    rm -r "$context"
}

with=${with:-$(builder)}
[ -n "$programs" ] || build_programs
image psmc-relay 'etc run'
image psmc-coordinator 'etc run var/lib'
image psmc-dns 'etc run var/lib'
