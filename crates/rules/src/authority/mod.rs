//! Authority rules: who may call a resource, and who may not.
//!
//! A white list lets in only the callers that it names, a black list all
//! others. Callers go by their origin; a call that does not say where it comes
//! from passes. Every rule of a resource is asked, and each must let the caller
//! in. Nothing is counted or remembered, so an observed rule is asked the same
//! question as an enforced one.

mod decide;
mod read;
mod rule;

pub use rule::{AuthorityRule, ListStrategy};

/// The kind `authority`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Authority;
