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

# The micro-questions.
bench *FILTER:
    cargo bench --workspace -- {{FILTER}}

# txgen beside wrk, oha and k6 on one sink.
peers-generate:
    bash benches/peers/generate/run
