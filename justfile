# The steps of .ci/run by name; everything also works with plain cargo.

# All that must pass before a commit, without the real node.
ci: fmt lint layers test

# Formatting, as rustfmt has it.
fmt:
    cargo fmt --all --check

# Clippy and the documentation, warnings denied.
lint:
    cargo clippy --workspace --all-targets -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items

# The pure crates must stay pure.
layers:
    bash .ci/layers

# The tests that need nothing but this repository.
test:
    cargo test --workspace

# The tests against a real CometBFT (installs it into .cache when it is missing).
test-real:
    bash .ci/cometbft
    cargo test --workspace -- --ignored

# The files for operators under config/.
operations:
    cargo build --bin txgen --bin sentinel
    bash .ci/operations

# The documents as a book in target/book; builds mdBook once, which takes minutes.
book:
    bash .ci/book "$(bash .ci/tool mdbook)"

# The pictures of the documents in docs/images, from runs that it records; needs Chromium. Takes about five minutes.
pictures:
    cargo build --release --bin txgen --bin sentinel
    .ci/pictures release

# An archive and a Debian package to install from, in target/dist-archives; static where rustup has the musl target.
dist:
    bash .ci/dist

# The micro-questions.
bench *FILTER:
    cargo bench --workspace -- {{FILTER}}

# txgen beside wrk, oha and k6 on one sink.
peers-generate:
    bash benches/peers/generate/run

# Five gossiping nodes of ours beside five on the Go library.
peers-mesh *ARGUMENTS:
    bash benches/peers/mesh/run {{ARGUMENTS}}

# BEP-10's loops beside Python and Go.
peers-bigchaindb:
    bash benches/peers/bigchaindb/run

# Flame graphs of our own hot paths, with perf: runs/profile-*/flame.svg.
profile:
    cargo build --release -p txgen
    rm -rf runs/profile-http runs/profile-ws runs/profile-signing runs/profile-bigchaindb
    "${CARGO_TARGET_DIR:-target}/release/txgen" flood --concurrency 16 --count 1000000 --profile-pid self --no-tui --out runs/profile-http
    "${CARGO_TARGET_DIR:-target}/release/txgen" flood --concurrency 256 --count 2000000 --transport ws --profile-pid self --no-tui --out runs/profile-ws
    "${CARGO_TARGET_DIR:-target}/release/txgen" constant --rate 10000/s --duration 30s --workload bigchaindb-create --profile-pid self --no-tui --out runs/profile-signing
    "${CARGO_TARGET_DIR:-target}/release/txgen" flood --concurrency 32 --count 200000 --target bigchaindb --profile-pid self --no-tui --out runs/profile-bigchaindb
