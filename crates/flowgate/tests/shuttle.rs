//! The whole entry path under schedules taken at random: an engine on a manual
//! clock, tasks that call, wait, give up and leave, one that swaps the rules and
//! one that moves the clock. Whatever the order of their steps, no rule is ever
//! exceeded, nothing is left behind, and the statistics say what happened.
//!
//! Run with `RUSTFLAGS="--cfg shuttle" cargo test -p flowgate --test shuttle
//! --release`; `SCHEDULES=1000` sets how many schedules each test tries. Half of
//! them are random walks, half are by PCT, which finds orders that need few
//! switches at the right places.
//!
//! **A failure** prints the schedule that led to it. The same test with
//! `REPLAY=<that text>` runs this schedule alone: what a task does is drawn from
//! shuttle's own random numbers, so it is a part of the schedule.
//!
//! **What is assumed.** Under `--cfg shuttle` the atomics and locks of
//! `flowgate_core::sync` are shuttle's, and each use of one is a point where tasks
//! may switch. All atomics are sequentially consistent: what weaker orders may do
//! is the business of the models under loom. All tasks run on one thread of the
//! system, and what shuttle cannot see into counts as one step: a look-up or
//! change of a `papaya` table, a load or store of an `arc-swap` pointer, a race
//! for a `once_cell` box. A reference count is `std`'s.
//!
//! Where a comment says "fails if", the code was broken in that way and the test
//! was seen to fail.
#![cfg(shuttle)]

#[path = "shuttle/accounting.rs"]
mod accounting;
#[path = "shuttle/at_once.rs"]
mod at_once;
#[path = "shuttle/everything.rs"]
mod everything;
#[path = "shuttle/lines.rs"]
mod lines;
#[path = "shuttle/loads.rs"]
mod loads;
#[path = "shuttle/params.rs"]
mod params;
#[path = "shuttle/probes.rs"]
mod probes;
#[path = "shuttle/rates.rs"]
mod rates;
#[path = "shuttle/world.rs"]
mod world;
