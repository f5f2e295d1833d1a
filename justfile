# The chores of this repository; `just` lists them. `just check` is what CI runs.

set shell := ["bash", "-euo", "pipefail", "-c"]

# Lists the recipes.
default:
    @just --list

# Everything that CI runs: subjects of commits, formatting, lints, licences, documentation, tests. Needs root, like the tests.
check: check-subjects check-fmt clippy deny doc test

# Fails where the subject of a commit is longer than 72 characters or not `area: imperative`.
check-subjects:
    .ci/subjects

# Formats all code.
fmt:
    cargo fmt --all
    cargo fmt --manifest-path fuzz/Cargo.toml

# Fails where the code is not formatted.
check-fmt:
    cargo fmt --all --check
    cargo fmt --manifest-path fuzz/Cargo.toml --check

# Lints everything, tests and benchmarks too; a warning is an error.
clippy:
    cargo clippy --workspace --all-targets -- -D warnings

# Checks what is linked: licences, banned and duplicate crates, where they come from. (`cargo deny check` adds the advisories, from the network.)
deny:
    cargo deny check bans licenses sources

# Builds the documentation of the workspace; a warning is an error.
doc:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items

# Runs all tests; the fuzzers' corpora are replayed among them; goes on after a failure. Needs root: the real programs run in network namespaces.
test *ARGS:
    cargo test --workspace --no-fail-fast {{ ARGS }}

# Shows it all on this machine: sites, paths, a transfer, a path cut while it runs. Needs root.
demo:
    cargo run --release --bin psmc-demo

# Goodput beside the competitors on the PATH, in alternating runs: `just bench --runs 3 --json`. Needs root.
bench *ARGS:
    cargo bench --bench throughput -- {{ ARGS }}

# Instructions that the engine executes for a packet as its state grows, and its memory. Needs valgrind.
instructions:
    cargo bench -p psmc-core --bench instructions

# The time that ciphers and parsers take: `just micro seal`.
micro *ARGS:
    cargo bench -p psmc-net --bench micro -- {{ ARGS }}

# What the name server answers beside BIND and Knot: `just bench-dns --runs 3`. Needs root and dnsperf.
bench-dns *ARGS:
    cargo bench -p psmc-dns --bench dnsperf -- {{ ARGS }}

# What the relay costs beside coturn and the kernel's forwarding: `just bench-relay --chains`. Needs root.
bench-relay *ARGS:
    cargo bench -p psmc-relay --bench relay -- {{ ARGS }}

# Instructions per datagram and memory per session of the relay, with limits. Needs valgrind.
relay-instructions:
    cargo bench -p psmc-relay --bench relay-instructions

# Fuzzes TARGET (fuzz/README.md lists them) for some seconds; needs cargo-fuzz. Finds go to fuzz/artifacts.
fuzz TARGET SECONDS="60":
    mkdir -p fuzz/target/corpus/{{ TARGET }}
    cargo fuzz run --sanitizer none {{ TARGET }} fuzz/target/corpus/{{ TARGET }} fuzz/corpus/{{ TARGET }} -- -max_total_time={{ SECONDS }} -timeout=10 -rss_limit_mb=1024

# Fuzzes every target for so many minutes, one after the other, and prints how often each was executed, and how many edges it reached.
fuzz-all MINUTES="1":
    cargo fuzz build --sanitizer none
    for target in $(cargo fuzz list); do \
        just fuzz $target $(({{ MINUTES }} * 60)) 2>&1 | tee fuzz/target/$target.log | grep -E '^Done|SUMMARY|panicked|Test unit' | sed "s/^/$target: /"; \
        [ "${PIPESTATUS[0]}" = 0 ] || exit 1; \
        echo "$target: $(grep -oE 'cov: [0-9]+' fuzz/target/$target.log | tail -1 | cut -c 6-) edges"; \
    done

# Adds what fuzzing has found to the corpus of TARGET: the fewest files that reach all edges it reaches, of at most a kilobyte each.
fuzz-minimise TARGET:
    mkdir -p fuzz/target/corpus/{{ TARGET }}
    cargo fuzz run --sanitizer none {{ TARGET }} fuzz/corpus/{{ TARGET }} fuzz/target/corpus/{{ TARGET }} -- -set_cover_merge=1 -use_counters=0 -max_len=1024

# Runs so many random scenarios in virtual time: links, losses, cuts and restarts by chance, up to eight paths.
scenarios COUNT="10000":
    PROPTEST_CASES={{ COUNT }} cargo test --release -p psmc-sim --test simulator scenarios

# Plays sequences of changes of the network by chance with the real programs, and captures all packets: `just upheavals 17`. Needs root.
upheavals SEEDS="1-60":
    PSMC_TEST_SEEDS={{ SEEDS }} cargo test --test e2e upheavals::traffic -- --nocapture

# Searches the model of the session in all its states: rekeying, restarts, replay, expulsion. Needs spin.
model:
    docs/model/check epochs
    docs/model/check session -DCONNECTIONS=2 -DRESTARTS=1 -DOFFERS=0 -DDATAGRAMS=3
    docs/model/check session -DCONNECTIONS=1 -DRESTARTS=0 -DOFFERS=2 -DDATAGRAMS=4
    docs/model/check session -DCONNECTIONS=2 -DRESTARTS=0 -DOFFERS=1 -DDATAGRAMS=4 -DENDS=0

# Writes the corpus seeds anew after a deliberate change of the wire format; read the diff.
seeds:
    UPDATE_SEEDS=1 cargo test --test corpus
