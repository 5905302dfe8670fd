//! What models drive of a node, part by part: `node` as a whole is left out
//! under `--cfg loom`.

pub mod counters;
pub mod permits;
pub mod views;
