//! What models drive of a node, part by part: `node` as a whole is left out
//! under `--cfg loom`.

pub mod permits;
pub mod stripes;
pub mod sums;
pub mod views;
