//! The names of a rule's fields: which are known, in which dialect, and what
//! to say of the others.

use super::Fields;
use crate::dialect::Dialect;
use crate::document::fault::Fault;
use crate::document::json::{Member, Shape, shorten};
use crate::field::{self, FieldKind};
use crate::kind::KindSpec;

/// Fields that Sentinel's dashboard, or Sentinel's cluster mode, puts into
/// rules and that decide nothing here.
const DASHBOARD: &[&str] = &[
    "app",
    "ip",
    "port",
    "gmtCreate",
    "gmtModified",
    "clusterConfig",
];

const CLUSTER_MODE: &str = "clusterMode";

/// Whether Sentinel's dashboard, or its cluster mode, adds this field.
pub(crate) fn is_dashboards(name: &str) -> bool {
    name == CLUSTER_MODE || DASHBOARD.contains(&name)
}

/// Fields that decide nothing and may stand in any rule.
pub(crate) fn dashboards() -> impl Iterator<Item = &'static str> {
    DASHBOARD.iter().copied().chain([CLUSTER_MODE])
}

impl Fields<'_> {
    pub(super) fn check_keys(&mut self) {
        for index in 0..self.members.len() {
            let member = &self.members[index];
            let key = &*member.key;
            let value = member.value;
            if self.members[..index]
                .iter()
                .any(|earlier| earlier.key == key)
            {
                self.fault_key(index, "given twice; keep one".to_owned());
            } else if self.spec(key).is_some() || is_absent(&self.kind, member) {
                // Read by its kind.
            } else if self.parent.is_some() {
                let message = self.unknown(key);
                self.fault_key(index, message);
            } else if key == CLUSTER_MODE {
                if self.flag(CLUSTER_MODE) == Some(true) {
                    self.warn(
                        CLUSTER_MODE,
                        "no cluster here; the rule limits this process alone",
                    );
                }
            } else if let Some(name) = DASHBOARD.iter().find(|name| **name == key) {
                if value.shape() != Shape::Null {
                    self.found.dashboard.push(name);
                }
            } else {
                let message = self.unknown(key);
                self.fault_key(index, message);
            }
        }
    }

    fn unknown(&self, key: &str) -> String {
        if let Some(golang) = &self.kind.golang {
            let (owner, here) = match self.dialect {
                Dialect::Sentinel => (Dialect::Golang, golang.names_here(key)),
                Dialect::Golang => {
                    let name = golang.name_there(key);
                    (Dialect::Sentinel, name.map(str::to_owned))
                }
            };
            if let Some(here) = here {
                return format!("this is {}'s field; here it is {here}", owner.owner());
            }
            if self.kind.told_by(key) == Some(owner) {
                let (owner, dialect) = (owner.owner(), self.dialect.owner());
                return format!(
                    "this is {owner}'s field, and {dialect} has none such; leave it out"
                );
            }
        }
        let names = || self.kind.fields_in(self.dialect).map(|spec| spec.name);
        match field::similar(key, names()) {
            Some(name) => format!("unknown field; did you mean `{name}`?"),
            None => format!(
                "unknown field; {} has {}",
                match self.parent {
                    Some(_) => format!("an object of {}", self.kind.name),
                    None => format!("a {} rule", self.kind.name),
                },
                names().collect::<Vec<_>>().join(", ")
            ),
        }
    }

    fn fault_key(&mut self, index: usize, message: String) {
        let member = &self.members[index];
        let key = shorten(&member.key.escape_debug().to_string());
        self.found.faults.push(Fault {
            path: format!("{}.{key}", self.path()),
            place: Some(member.key_place),
            message,
        });
    }

    /// That the rule means one thing as Sentinel writes and another as
    /// sentinel-golang does, and nothing tells which it is.
    pub(crate) fn two_meanings(&self) -> Fault {
        let modes = self.members.iter().find_map(|member| {
            let number: usize = member.value.text().parse().ok()?;
            let name = |dialect| match self.kind.field(dialect, &member.key)?.kind {
                FieldKind::Mode(choices) => Some(choices.get(number)?.name),
                _ => None,
            };
            let (here, there) = (name(Dialect::Sentinel)?, name(Dialect::Golang)?);
            (here != there).then_some((member, number, here, there))
        });
        let (path, place, means) = match modes {
            Some((member, number, here, there)) => (
                format!("{}.{}", self.path(), member.key),
                Some(member.value.place()),
                format!("{number} is {here} in Sentinel's rules and {there} in sentinel-golang's"),
            ),
            None => (
                self.path(),
                self.place,
                "means one thing in Sentinel's rules and another in sentinel-golang's".to_owned(),
            ),
        };
        let telling = self.kind.golang.as_ref().and_then(|golang| {
            let mut names = golang.names.iter();
            names.find(|(ours, _)| self.kind.told_by(ours).is_some())
        });
        let would_do = match telling {
            Some((ours, theirs)) => {
                format!("write {ours} (Sentinel) or {theirs} (sentinel-golang), or say the dialect")
            }
            None => "say the dialect".to_owned(),
        };
        Fault {
            path,
            place,
            message: format!("{means}, and no field tells whose these are; {would_do}"),
        }
    }
}

/// Whether it is a field of the other dialect, written out as absent.
fn is_absent(kind: &KindSpec, member: &Member<'_>) -> bool {
    member.value.shape() == Shape::Null && kind.told_by(&member.key).is_some()
}
