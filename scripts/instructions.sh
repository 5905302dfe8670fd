#!/usr/bin/env bash
# How many instructions a call takes, against what is noted in
# benches/instructions.txt: time varies on a busy machine, this hardly does.
#
#   scripts/instructions.sh                  before, after, and the difference
#   scripts/instructions.sh --threshold 5    ends with 1 if any grew by more than 5 %
#   scripts/instructions.sh --save           notes what is counted now
#
# The threshold is 2 % unless said otherwise. What varies between two runs of the
# same program is below 1 %: a window ends while calls are counted, or a table
# spreads its keys another way. Other compilers give other counts; the file says
# which one made it.
#
# Needs Valgrind, which is not installed from here. The runner of the benchmarks is,
# in the version of the library.
set -euo pipefail
cd "$(dirname "$0")/.."

noted=benches/instructions.txt
threshold=2
save=false
while [ $# -gt 0 ]; do
    case $1 in
        --threshold) threshold=${2:?--threshold PERCENT}; shift 2 ;;
        --save) save=true; shift ;;
        *) echo "unknown option: $1" >&2; exit 2 ;;
    esac
done

if ! command -v valgrind >/dev/null; then
    echo "valgrind is missing" >&2
    exit 2
fi
version=$(sed -n 's/^gungraun = "=\(.*\)"$/\1/p' benches/Cargo.toml)
if [ "$(gungraun-runner --version 2>/dev/null)" != "gungraun-runner $version" ]; then
    cargo install gungraun-runner --version "$version" --locked
fi

counted=$(mktemp)
trap 'rm -f "$counted"' EXIT

# Of each benchmark the line with its name (`file::group::function case:…`), and then
# the one with its count (`Instructions:  now|before`), for a thousand calls.
cargo bench -q -p flowgate-bench --no-default-features --bench instructions |
    awk '
        /^instructions::/ { split($1, path, "::"); split($2, id, ":"); name = path[3] "/" id[1] }
        $1 == "Instructions:" { split($2, count, "|"); printf "%-24s %9.1f\n", name, count[1] / 1000 }
    ' >"$counted"
if [ ! -s "$counted" ]; then
    echo "nothing was counted" >&2
    exit 2
fi

if $save; then
    {
        echo "# Instructions per call, by scripts/instructions.sh --save"
        echo "# $(rustc --version), $(uname -m), $(valgrind --version)"
        cat "$counted"
    } >"$noted"
    cat "$noted"
    exit 0
fi

awk -v threshold="$threshold" '
    BEGIN { printf "%-24s %9s %9s %9s\n", "instructions per call", "before", "after", "percent" }
    /^#/ { next }
    NR == FNR { before[$1] = $2; next }
    !($1 in before) { printf "%-24s %9s %9.1f %9s\n", $1, "-", $2, "new"; next }
    {
        percent = ($2 / before[$1] - 1) * 100
        grown = percent > threshold
        if (grown) bad = 1
        printf "%-24s %9.1f %9.1f %+8.2f%%%s\n", $1, before[$1], $2, percent, grown ? "  too many" : ""
        delete before[$1]
    }
    END {
        for (name in before) { printf "%-24s is no longer counted\n", name; bad = 1 }
        exit bad
    }
' "$noted" "$counted"
