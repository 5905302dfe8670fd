//! What an authority rule says.

use serde::{Serialize, Serializer};

use crate::field::{Choice, Mode};
use crate::head::{Head, head_methods};

/// Who may call a resource, or who may not.
///
/// ```
/// use flowgate_rules::AuthorityRule;
///
/// let rule = AuthorityRule::white("orders", ["web", "batch"]);
/// assert!(rule.lets_in("web") && rule.lets_in(""));
/// assert!(!rule.lets_in("mobile"));
///
/// let rule = AuthorityRule::black("orders", ["crawler"]);
/// assert!(rule.lets_in("mobile") && !rule.lets_in("crawler"));
/// ```
///
/// Two rules are equal if they say the same: neither their ids nor the order of
/// names counts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuthorityRule {
    /// What it is called, which resources it is for, whether it is enforced.
    #[serde(flatten)]
    pub head: Head,
    /// Trimmed, sorted, each once: a caller is found by bisection, and rules
    /// for many resources need no set for each.
    #[serde(rename = "limitApp", serialize_with = "comma_list")]
    origins: Box<[String]>,
    /// What the list is for.
    pub strategy: ListStrategy,
}

head_methods!(AuthorityRule);

/// What a list of callers is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ListStrategy {
    /// Only these may call.
    #[default]
    White,
    /// These may not call.
    Black,
}

impl AuthorityRule {
    /// Only these callers may call `resource`.
    #[must_use]
    pub fn white<S: AsRef<str>>(
        resource: impl Into<String>,
        origins: impl IntoIterator<Item = S>,
    ) -> Self {
        Self::new(Head::of(resource), ListStrategy::White, origins)
    }

    /// These callers may not call `resource`.
    #[must_use]
    pub fn black<S: AsRef<str>>(
        resource: impl Into<String>,
        origins: impl IntoIterator<Item = S>,
    ) -> Self {
        Self::new(Head::of(resource), ListStrategy::Black, origins)
    }

    pub(super) fn new<S: AsRef<str>>(
        head: Head,
        strategy: ListStrategy,
        origins: impl IntoIterator<Item = S>,
    ) -> Self {
        // A name with a comma is as many as its commas part.
        let mut names: Vec<String> = Vec::new();
        for origins in origins {
            let parts = origins.as_ref().split(',').map(str::trim);
            names.extend(parts.filter(|name| !name.is_empty()).map(str::to_owned));
        }
        names.sort_unstable();
        names.dedup();
        Self {
            head,
            origins: names.into(),
            strategy,
        }
    }

    /// The callers it names, sorted.
    #[must_use]
    pub fn origins(&self) -> &[String] {
        &self.origins
    }

    /// Whether a call of this origin may pass. One that says none may.
    #[inline]
    #[must_use]
    pub fn lets_in(&self, origin: &str) -> bool {
        if origin.is_empty() {
            return true;
        }
        let found = self
            .origins
            .binary_search_by(|name| name.as_str().cmp(origin));
        found.is_ok() == (self.strategy == ListStrategy::White)
    }
}

impl Mode for ListStrategy {
    const ALL: &'static [Self] = &[Self::White, Self::Black];
    const CHOICES: &'static [Choice] = &[
        Choice::new("white", "only these may call").or(&["allow", "whiteList"]),
        Choice::new("black", "these may not call").or(&["deny", "blackList"]),
    ];
}

impl Serialize for ListStrategy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(*self as u32)
    }
}

fn comma_list<S: Serializer>(names: &[String], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&names.join(","))
}
