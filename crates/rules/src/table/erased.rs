//! Tables of all kinds in one list.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use flowgate_core::Accounting;
use serde::Serialize;
use serde_json::Value;

use super::{RuleTable, hash_of};
use crate::accounting::by_name_if_any;
use crate::dialect::Dialect;
use crate::head::{Matcher, RuleMode};
use crate::hits::HitCounts;
use crate::idle::{Idle, Whose};
use crate::kind::{RuleKind, Scope};
use crate::write::{WrittenList, write_table};

/// A table whose kind is known at run time only.
pub(crate) trait AnyTable: Debug + Send + Sync {
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;

    fn as_any(&self) -> &dyn Any;

    /// The revision of all rules that it came with.
    fn revision(&self) -> u64;

    /// Since when what is said of resources by no name of theirs is as it is.
    fn wide_since(&self) -> u64;

    /// Since when the rules that name `resource` are as they are, if there are
    /// any; of a kind whose rules are for all calls: any.
    fn since(&self, hash: u64, resource: &str) -> Option<u64>;

    /// Whether a rule in force looks at this resource from another.
    fn looks_at(&self, resource: &str) -> bool;

    /// Whether a rule in force asks for the memory in use.
    fn needs_memory(&self) -> bool;

    /// Whether a rule names this resource, exactly.
    fn names(&self, resource: &str) -> bool;

    /// Whether a rule may be for resources that it does not name.
    fn has_patterns(&self) -> bool;

    /// The resources that rules name, each once.
    fn named(&self) -> Vec<&str>;

    /// Whether all that rules keep under `name` is as new.
    fn is_as_new(&self, name: &str, whose: Whose, idle: Idle) -> bool;

    /// Forgets all that rules keep under `name`.
    fn forget(&self, name: &str, whose: Whose);

    fn infos(&self) -> Vec<RuleInfo>;

    /// Its rules as JSON objects.
    fn write(&self, dialect: Dialect) -> WrittenList;
}

/// One rule in force, for people: what it says, and what it has done.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RuleInfo {
    /// Name of its kind.
    pub kind: &'static str,
    /// Its id, given or made up.
    pub id: String,
    /// Its index in the document, in which dropped rules count too.
    pub position: usize,
    /// The resource or pattern that it is for; empty if its kind has none.
    pub resource: String,
    /// Whether that is a pattern, or `*`.
    pub is_pattern: bool,
    /// Whether it is enforced.
    pub mode: &'static str,
    /// How its rate is accounted; `None`: it limits no rate, or its kind has no
    /// choice of accountings.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "by_name_if_any"
    )]
    pub accounting: Option<Accounting>,
    /// The rule as JSON.
    pub rule: Value,
    /// What it has done so far.
    pub hits: HitCounts,
}

impl<K: RuleKind> AnyTable for RuleTable<K> {
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn revision(&self) -> u64 {
        self.revision
    }

    fn wide_since(&self) -> u64 {
        self.wide_since
    }

    fn since(&self, hash: u64, resource: &str) -> Option<u64> {
        let group = match K::SCOPE {
            Scope::Resource => self.group(hash, resource),
            Scope::Engine => self.group(hash_of(""), ""),
        };
        group.map(|group| group.since)
    }

    fn looks_at(&self, resource: &str) -> bool {
        self.totals.looked_at.contains_key(resource)
    }

    fn needs_memory(&self) -> bool {
        self.totals.needing_memory > 0
    }

    fn names(&self, resource: &str) -> bool {
        let group = self.group(hash_of(resource), resource);
        K::SCOPE == Scope::Resource && group.is_some_and(|group| group.exact().next().is_some())
    }

    fn has_patterns(&self) -> bool {
        RuleTable::has_patterns(self)
    }

    fn named(&self) -> Vec<&str> {
        match K::SCOPE {
            Scope::Resource => RuleTable::names(self).collect(),
            Scope::Engine => Vec::new(),
        }
    }

    fn is_as_new(&self, name: &str, whose: Whose, idle: Idle) -> bool {
        let mut entries = self.acquainted(name, whose);
        entries.all(|entry| entry.is_as_new(name, idle))
    }

    fn forget(&self, name: &str, whose: Whose) {
        let entries = self.acquainted(name, whose);
        entries.for_each(|entry| entry.forget(name));
    }

    fn write(&self, dialect: Dialect) -> WrittenList {
        write_table(self, dialect)
    }

    fn infos(&self) -> Vec<RuleInfo> {
        self.positions()
            .map(|(position, entry)| RuleInfo {
                kind: K::NAME,
                id: entry.id.to_string(),
                position,
                is_pattern: !matches!(entry.matcher, Matcher::Exact),
                resource: entry.head().resource.clone(),
                mode: match entry.head().mode {
                    RuleMode::Enforce => "enforce",
                    RuleMode::Observe => "observe",
                    RuleMode::Off => "off",
                },
                accounting: K::accounting(&entry.rule),
                // A rule is a struct of plain values; should a kind fail to
                // write one, the rest of the list is still worth having.
                rule: serde_json::to_value(&entry.rule).unwrap_or_default(),
                hits: entry.hits().counts(),
            })
            .collect()
    }
}
