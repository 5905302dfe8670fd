#!/usr/bin/env bash
# Runs the lock-free parts under ThreadSanitizer. Advice, no part of CI: it needs
# a nightly toolchain.
#
# The standard library of that toolchain is taken as it comes, uninstrumented, as
# its source need not be there (`-Zbuild-std` would instrument it). The sanitizer
# knows nothing then of what `std` orders by its own locks, one-time cells and
# fences. So the program that it judges keeps to atomics, which are instrumented
# where they are used, and to starting and joining threads, which the sanitizer
# intercepts. Wide words of `portable-atomic` are assembly and not seen.
#
# `unsafe` is forbidden in Flowgate, so a finding would be one of a dependency, or
# of the way that Flowgate orders what a dependency guards. Orderings between
# atomics are the business of the models under loom.
set -euo pipefail
cd "$(dirname "$0")/.."

TOOLCHAIN="${TOOLCHAIN:-nightly}"
TARGET="$(rustup run "$TOOLCHAIN" rustc -vV | sed -n 's/^host: //p')"
OUT="${CARGO_TARGET_DIR:-target}/tsan"

# With a target named, build scripts and macros stay uninstrumented.
RUSTFLAGS="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer" CARGO_TARGET_DIR="$OUT" \
    cargo "+$TOOLCHAIN" build --release -p flowgate-testkit --bin races --target "$TARGET"

TSAN_OPTIONS="exitcode=66" "$OUT/$TARGET/release/races"
echo "ThreadSanitizer has found nothing"
