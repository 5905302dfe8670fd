//! The kinds of rules that there are, known at run time: those that come with
//! Flowgate, and those that a service adds.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use crate::authority::Authority;
use crate::degrade::Degrade;
use crate::document::{Draft, Item, Loading, read_list};
use crate::flow::Flow;
use crate::isolation::Isolation;
use crate::kind::{KindSpec, RuleKind};
use crate::param_flow::ParamFlow;
use crate::system::System;
use crate::table::{AnyTable, RuleTable};

/// A list of kinds, in the order of their slots.
#[derive(Clone)]
pub struct Kinds(Arc<[Kind]>);

/// A kind, with what can be done without knowing which.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) spec: KindSpec,
    pub(crate) empty: fn() -> Arc<dyn AnyTable>,
    pub(crate) read: fn(Vec<Item<'_>>, &mut Loading<'_>) -> Drafts,
    pub(crate) replace: Replace,
}

/// Makes the table that follows another. What is read replaces all rules, or
/// those that a change names.
type Replace =
    fn(&Arc<dyn AnyTable>, Option<Change<'_>>, Drafts, &mut Loading<'_>) -> Arc<dyn AnyTable>;

/// Rules of one kind that were read, before they become a table.
pub(crate) struct Drafts {
    /// A `Vec<Draft<K>>`.
    list: Box<dyn Any>,
    faulty: usize,
}

/// Which rules of a kind are replaced by others.
#[derive(Clone, Copy)]
pub(crate) enum Change<'a> {
    /// None; the others follow behind.
    Append,
    /// Those whose `resource` is written so.
    Resource(&'a str),
    /// The one with this id.
    Id(&'a str),
}

impl Kinds {
    /// The kinds that come with Flowgate.
    #[must_use]
    pub fn standard() -> Self {
        Self(Arc::from([
            Kind::of::<Authority>(),
            Kind::of::<System>(),
            Kind::of::<ParamFlow>(),
            Kind::of::<Flow>(),
            Kind::of::<Isolation>(),
            Kind::of::<Degrade>(),
        ]))
    }

    /// These kinds and `K`; a kind of the same name is replaced.
    #[must_use]
    pub fn with<K: RuleKind>(&self) -> Self {
        let others = self.0.iter().filter(|kind| kind.spec.name != K::NAME);
        let kinds = others.copied().chain([Kind::of::<K>()]);
        Self(kinds.collect())
    }

    /// The kinds with their fields.
    #[must_use]
    pub fn specs(&self) -> Vec<KindSpec> {
        self.0.iter().map(|kind| kind.spec).collect()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Kind> {
        self.0.iter()
    }

    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|kind| kind.spec.name == name)
    }
}

impl Default for Kinds {
    fn default() -> Self {
        Self::standard()
    }
}

impl fmt::Debug for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.iter().map(|kind| kind.spec.name);
        f.debug_list().entries(names).finish()
    }
}

impl Kind {
    fn of<K: RuleKind>() -> Self {
        Self {
            spec: KindSpec::of::<K>(),
            empty: || Arc::new(RuleTable::<K>::default()),
            read: |items, loading| Drafts::of::<K>(read_list::<K>(items, loading)),
            replace: |old, change, drafts, loading| {
                let (old, (drafts, faulty)) = (table::<K>(old), drafts.into_list::<K>());
                Arc::new(match change {
                    None => old.replace(drafts, faulty, loading),
                    Some(change) => old.replace_some(change, drafts, faulty, loading),
                })
            },
        }
    }
}

impl Drafts {
    pub(crate) fn of<K: RuleKind>((list, faulty): (Vec<Draft<K>>, usize)) -> Self {
        Self {
            list: Box::new(list),
            faulty,
        }
    }

    fn into_list<K: RuleKind>(self) -> (Vec<Draft<K>>, usize) {
        // Read by the same `Kind` that asks here.
        let list = self.list.downcast::<Vec<Draft<K>>>();
        (list.map(|list| *list).unwrap_or_default(), self.faulty)
    }
}

/// The table as what it is. A table of another kind cannot stand there; it
/// would be read as empty.
pub(crate) fn table<K: RuleKind>(table: &Arc<dyn AnyTable>) -> Arc<RuleTable<K>> {
    let any = Arc::clone(table).into_any();
    any.downcast().unwrap_or_default()
}
