//! All lines, in the order of the table, with what they must and should reach.

use crate::line::Unit::{Bytes, Millis, More, PerSecond, Ratio, Times};
use crate::line::{Measure, Spec, Unit};
use crate::{
    acquire, callers, entries, kinds, memory, names, near_limit, others, params, swaps, threads,
};

const fn line(
    name: &'static str,
    work: &'static str,
    unit: Unit,
    target: [f64; 2],
    measure: Measure,
) -> Spec {
    Spec {
        name,
        work,
        unit,
        target: Some(target),
        measure,
    }
}

const fn told(name: &'static str, work: &'static str, unit: Unit, measure: Measure) -> Spec {
    Spec {
        name,
        work,
        unit,
        target: None,
        measure,
    }
}

/// The lines of the comparison.
#[rustfmt::skip]
pub(crate) const LINES: &[Spec] = &[
    line("entry_no_rule", "entry and exit by handle, no rule",
        Ratio, [1.8, 1.2], entries::no_rule),
    line("entry_one_rule", "the same under one exact QPS rule, far from its limit",
        Ratio, [2.3, 1.6], entries::one_rule),
    line("entry_no_rule_coarse", "no rule, on a clock that is renewed every millisecond",
        Ratio, [0.6, 0.3], entries::no_rule_coarse),
    line("entry_no_rule_vs_sentinel_core", "entry and exit, no rule",
        Ratio, [0.05, 0.04], entries::no_rule_vs_sentinel_core),
    line("entry_one_rule_vs_sentinel_core", "entry and exit, one QPS rule",
        Ratio, [0.055, 0.04], entries::one_rule_vs_sentinel_core),
    line("refused", "a call that a QPS rule refuses",
        Ratio, [1.5, 1.2], entries::refused),
    line("refused_vs_sentinel_core", "a call that a QPS rule refuses",
        Ratio, [0.012, 0.01], entries::refused_vs_sentinel_core),
    line("by_name_hot", "by name, always the same one",
        More, [25.0, 5.0], names::hot),
    line("by_name_10k_vs_sentinel_core", "by name, 10,000 at random, a QPS rule each",
        Ratio, [0.11, 0.08], names::ten_thousand_vs_sentinel_core),
    line("warm_up", "a QPS rule that warms up",
        More, [20.0, 10.0], kinds::warm_up),
    line("queueing", "a QPS rule that spaces calls evenly",
        More, [20.0, 10.0], kinds::queueing),
    line("breaker", "a circuit breaker on the error ratio",
        More, [20.0, 10.0], kinds::breaker),
    line("concurrency", "an isolation rule",
        More, [20.0, 10.0], kinds::concurrency),
    line("ten_rules", "ten rules of different sorts on one resource",
        Ratio, [6.0, 4.0], kinds::ten_rules),
    line("hot_param_1m", "a limit for each of 1,000,000 numbers, at random",
        Ratio, [1.2, 1.0], params::one_million),
    line("hot_param_bytes", "memory for each of those numbers",
        Bytes, [48.0, 36.0], memory::hot_param_bytes),
    line("two_threads_no_rule", "two threads on one resource, no rule",
        Times, [1.8, 2.0], threads::no_rule),
    line("two_threads_one_rule", "two threads under one exact QPS rule, far from its limit",
        Times, [1.7, 1.9], threads::one_rule),
    line("two_threads_near_limit", "two threads under one exact QPS rule, half of their calls refused",
        Times, [1.2, 1.6], near_limit::two_threads),
    line("two_threads_refused", "two threads, all calls refused",
        Times, [1.85, 2.0], threads::refused),
    line("acquire", "acquire().await that need not wait, one QPS rule",
        More, [15.0, 5.0], acquire::ready),
    line("resource_bytes", "memory for each of 1,000,000 idle resources",
        Bytes, [400.0, 300.0], memory::resource_bytes),
    line("resource_create", "making 1,000,000 resources",
        PerSecond, [500_000.0, 1_000_000.0], memory::resource_create),
    line("swap_10k", "10,000 parsed rules put in force",
        Millis, [5.0, 2.5], swaps::ten_thousand),
    line("swap_100k_json", "100,000 rules from text, put in force",
        Millis, [300.0, 150.0], swaps::hundred_thousand_of_text),
    line("swap_one", "the rules of one resource among 10,000",
        Millis, [0.1, 0.05], swaps::one),
    line("swap_callers", "callers' p99.99 while 10,000 rules are swapped every second",
        Ratio, [2.0, 1.2], callers::while_swapping),
    told("floor", "two readings of the counter and six plain additions",
        Ratio, others::floor),
    told("breaker_vs_failsafe", "a call under a circuit breaker",
        Ratio, others::breaker_vs_failsafe),
    told("breaker_vs_tower_resilience", "a call under a circuit breaker",
        Ratio, others::breaker_vs_tower_resilience),
    told("concurrency_vs_tower_resilience", "a call under a limit on calls in flight",
        Ratio, others::concurrency_vs_tower_resilience),
    told("one_rule_vs_leaky_bucket", "a call under one rate limit",
        Ratio, others::one_rule_vs_leaky_bucket),
    told("one_rule_vs_tower_resilience", "a call under one rate limit",
        Ratio, others::one_rule_vs_tower_resilience),
    told("two_threads_of_governor", "two threads on one limiter of governor",
        Times, others::two_threads_of_governor),
    told("called_resource_bytes", "memory for each resource that was called once",
        Bytes, memory::called_resource_bytes),
];
