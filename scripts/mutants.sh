#!/usr/bin/env bash
# Mutation tests of what decides admission: each function there is broken in
# small ways, one at a time, and some test has to notice.
#
#   scripts/mutants.sh              all groups: some hours
#   scripts/mutants.sh permits …    some of them
#   SHARD=0/8 scripts/mutants.sh    every eighth mutant of each
#
# Groups, in the order of what hangs on them:
#
#   leap_array   windows, reservation, borrowing
#   permits      calls in flight, and the line for permits
#   tokens       token buckets in exact time, and holes in a line
#   flow         pacing, rates, warm-up: the state of a flow rule
#   params       tokens, places and slots of hot parameters
#   breaker      the circuit
#   slots        the chain and its slots, flow rules; isolation rules
#   inbound      the budget of all inbound calls
#   views        views of a node over intervals of rules
#
# A mutant is judged in stages, and a later stage sees only what the ones before
# have let live: the tests of its own package, those of whole calls
# (crates/flowgate/tests), and the models of the lock-free parts.
#
# Results are in target/mutants/GROUP/mutants.out; `missed.txt` has the
# survivors, and the script ends with an error if there are any. A mutant that
# runs in circles (`timeout.txt`) counts as noticed. `.cargo/mutants.toml` lists
# those that change nothing, and why.
#
# Needs cargo-mutants, which is not installed from here:
#
#   cargo install cargo-mutants --locked
set -uo pipefail
cd "$(dirname "$0")/.."

if ! cargo mutants --version >/dev/null 2>&1; then
    echo "cargo-mutants is missing: cargo install cargo-mutants --locked" >&2
    exit 2
fi

# The same tree is built thousands of times with one small change: what is fast
# to build wins.
export CARGO_INCREMENTAL=1
export CARGO_PROFILE_DEV_DEBUG=0
export CARGO_PROFILE_TEST_DEBUG=0 CARGO_PROFILE_TEST_OPT_LEVEL=0
# A failing case is enough, it need not be the least.
export PROPTEST_MAX_SHRINK_ITERS=0

results=$(pwd)/target/mutants
survivors=()

# group NAME FILE…: the mutants that the following stages judge.
group() {
    name=$1
    shift
    files=("${@/#/--file=crates/}")
    local out="$results/$name/mutants.out" all
    rm -rf "${results:?}/$name"
    mkdir -p "$out"
    echo "== $name"
    [[ -z ${SHARD:-} ]] && return
    # The rest passes for caught: else a later stage would share out anew.
    all=$(cargo mutants --list "${files[@]}") || exit 1
    cargo mutants --list "${files[@]}" --shard "$SHARD" |
        grep -vxFf - <(echo "$all") >"$out/previously_caught.txt"
}

# stage SECONDS WORD… [-- ARGUMENT…]: shows the mutants that still live to tests,
# for so many seconds at most. A WORD is a package, an integration test of one,
# or `lib` for the units.
stage() {
    local seconds=$1 packages=() tests=() word
    shift
    while (($#)); do
        word=$1
        shift
        case $word in
            --) break ;;
            flowgate*) packages+=("--package=$word") ;;
            lib) tests+=(--lib) ;;
            *) tests+=("--test=$word") ;;
        esac
    done
    # Tests that fail by themselves would seem to notice everything.
    cargo test --quiet "${packages[@]}" "${tests[@]}" "$@" || exit 1
    cargo mutants "${files[@]}" --output "$results/$name" --iterate --no-shuffle \
        --baseline=skip --timeout "$seconds" \
        "${packages[@]/#--package/--test-package}" \
        "${tests[@]/#/--cargo-test-arg=}" "$@"
    # 0: none lives; 2: some do; 3: none, and some ran in circles.
    case $? in
        0 | 3) alive=no ;;
        2) alive=yes ;;
        *) exit 1 ;;
    esac
    local out="$results/$name/mutants.out"
    cat "$out/timeout.txt" >>"$out/previously_caught.txt"
}

# later SECONDS WORD…: a further stage, if any mutant lives.
later() {
    [[ $alive == no ]] || stage "$@"
}

# models TEST PACKAGE: a further stage under the model checker.
models() {
    RUSTFLAGS="--cfg loom ${RUSTFLAGS:-}" later 900 "$@" -- --profile=release
}

end() {
    [[ $alive == no ]] || survivors+=("$results/$name/mutants.out/missed.txt")
}

judge() {
    case $1 in
        leap_array)
            group leap_array 'core/src/leap_array/**/*.rs'
            stage 30 flowgate-core lib leap_array properties
            later 90 flowgate-core node scenarios stress strict
            models flowgate-core loom
            ;;
        permits)
            group permits 'core/src/node/permits/*.rs'
            stage 20 flowgate-core permits
            models flowgate-core loom
            ;;
        tokens)
            group tokens 'core/src/token_bucket/*.rs' 'core/src/holes.rs'
            stage 30 flowgate-core lib token_bucket token_bucket_scenarios
            later 60 flowgate-rules lib
            models flowgate-core loom
            ;;
        flow)
            group flow 'rules/src/flow/{pacing,rate,warm_up,state}.rs'
            stage 20 flowgate-rules lib flow_intervals
            later 60 flowgate intervals waiting combinations scenarios_k03 scenarios_k06
            ;;
        params)
            group params 'rules/src/param_flow/{bucket,limit,cells,table/slot}.rs'
            stage 60 flowgate-rules lib param_properties param_table param_stress
            models flowgate-rules loom_param
            ;;
        breaker)
            group breaker 'rules/src/degrade/circuit/*.rs'
            stage 20 flowgate-rules lib breaker_model breaker_rules
            models flowgate-rules loom_breaker
            ;;
        slots)
            group slots 'slots/src/flow/{rate,target,line}.rs' \
                'slots/src/{chain,rule}.rs' 'rules/src/isolation/decide.rs'
            stage 60 flowgate all_kinds combinations isolation properties shadow_flow \
                undone waiting
            later 120 flowgate custom_kinds custom_slots guard intervals isolation_properties \
                param_flow scenarios_k01 scenarios_k07 scenarios_k16
            ;;
        inbound)
            group inbound 'rules/src/system/inbound.rs'
            stage 20 flowgate-rules lib system_inbound
            later 60 flowgate system
            ;;
        views)
            group views 'core/src/node/views/*.rs'
            stage 20 flowgate-core views
            later 60 flowgate intervals
            ;;
        *)
            echo "no group: $1" >&2
            exit 2
            ;;
    esac
    end
}

(($#)) || set -- leap_array permits tokens flow params breaker slots inbound views
for each in "$@"; do
    judge "$each"
done

if ((${#survivors[@]})); then
    echo "survivors:"
    cat "${survivors[@]}"
    exit 1
fi
