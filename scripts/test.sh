#!/usr/bin/env bash
# All tests: units, properties, scenarios, recorded decisions, doc tests, the
# models of the lock-free parts, schedules of the whole entry path, and the
# oracle. Needs cargo and nothing else.
set -euo pipefail
cd "$(dirname "$0")/.."

# Everything with all features, then the facade on plain threads.
cargo test --workspace --all-features
cargo test -p flowgate --no-default-features

# Models, in a target folder of their own: `--cfg loom` rebuilds everything.
RUSTFLAGS="--cfg loom ${RUSTFLAGS:-}" CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/loom" \
    cargo test --release -p flowgate-core -p flowgate-rules \
    --test loom --test loom_breaker --test loom_flow --test loom_param --test loom_system

# The whole entry path under schedules taken at random, the same way.
RUSTFLAGS="--cfg shuttle ${RUSTFLAGS:-}" CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/shuttle" \
    cargo test --release -p flowgate --test shuttle

# Recorded decisions, by the command that anyone can run.
cargo run --release -q -p flowgate-testkit --bin conformance -- \
    testdata/traces/{leap_array,flow,degrade,param_flow,authority,mixed,ideal}

# Every way to limit under adversarial traffic: each decision, each span of time.
cargo run --release -q -p flowgate-testkit --bin oracle
