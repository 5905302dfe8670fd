//! All rules in force: one table per kind.

use std::any::Any;
use std::sync::Arc;

use crate::Settings;
use crate::dialect::Dialect;
use crate::document::{
    Fault, Item, LoadOptions, LoadReport, Loading, OnInvalid, RuleError, Shape, Value, check_list,
    open, open_list, shorten,
};
use crate::field;
use crate::kind::{RuleKind, Scope};
use crate::kinds::{self, Change, Drafts, Kinds};
use crate::table::{AnyTable, RuleInfo, RuleTable, hash_of};
use crate::write::Written;

/// All rules, one table per kind. It never changes; loading makes another,
/// which shares what is still the same.
///
/// ```
/// use flowgate_rules::{Flow, OnInvalid, RuleSet, Settings};
///
/// let (rules, report) = RuleSet::default().with_list(
///     "flow",
///     r#"[{"resource": "orders", "count": 100}]"#,
///     &Settings::default(),
///     OnInvalid::Refuse,
/// )?;
/// assert_eq!(report.to_string(), "flow: 1 in force, 1 added, 0 changed, 0 kept, 0 removed");
/// assert_eq!(&**rules.table::<Flow>().matching("orders")[0].id(), "flow/orders#1");
/// # Ok::<(), flowgate_rules::RuleError>(())
/// ```
#[derive(Debug, Clone)]
pub struct RuleSet {
    kinds: Kinds,
    /// One for each kind, in the same order.
    tables: Box<[Arc<dyn AnyTable>]>,
    /// How many steps it is from a set without rules.
    revision: u64,
    /// Entries of the set before that are not in this one.
    left: Vec<Arc<dyn Any + Send + Sync>>,
}

/// Which rules act on one resource, told by a number: those of a revision of a
/// set. See [`RuleSet::still_acts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acting {
    revision: u64,
    /// Of which kinds there were rules that name the resource: a bit each.
    named: u64,
}

/// Of how many kinds [`Acting`] knows whether they name a resource; if there are
/// more, any change of those counts as one for all resources.
const KINDS_TOLD: usize = 64;

/// The kind that errors take for an example.
const DOCUMENTED: &str = "flow";

/// A list of a document, opened: index of its kind, the kind, its elements.
type List<'k, 'a> = (usize, &'k kinds::Kind, Vec<Item<'a>>);

impl RuleSet {
    /// No rules, of any of these kinds.
    #[must_use]
    pub fn new(kinds: &Kinds) -> Self {
        Self {
            tables: kinds.iter().map(|kind| (kind.empty)()).collect(),
            kinds: kinds.clone(),
            revision: 0,
            left: Vec::new(),
        }
    }

    /// A set of the same rules, to be changed, and what is said of the change.
    fn next(&self) -> Self {
        Self {
            kinds: self.kinds.clone(),
            tables: self.tables.clone(),
            revision: self.revision + 1,
            left: Vec::new(),
        }
    }

    fn loading<'s>(&self, settings: &'s Settings, options: LoadOptions) -> Loading<'s> {
        let mut loading = Loading::new(settings, options);
        loading.revision = self.revision + 1;
        loading
    }

    /// The verdict on a set that was made of another.
    fn settled(
        mut self,
        mut loading: Loading<'_>,
        text: &str,
        base: usize,
    ) -> Result<(Self, LoadReport), RuleError> {
        self.left = std::mem::take(&mut loading.left);
        Ok((self, loading.finish(text, base)?))
    }

    /// The kinds there are.
    #[must_use]
    pub fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    /// The rules of kind `K`; none if there is no such kind.
    #[must_use]
    pub fn table<K: RuleKind>(&self) -> Arc<RuleTable<K>> {
        let position = self.kinds.position(K::NAME);
        let table = position.and_then(|at| self.tables.get(at));
        table.map(kinds::table::<K>).unwrap_or_default()
    }

    /// As [`table`](Self::table), lent; `None` if there is no such kind.
    #[must_use]
    pub fn table_ref<K: RuleKind>(&self) -> Option<&RuleTable<K>> {
        let table = self.tables.get(self.kinds.position(K::NAME)?)?;
        table.as_any().downcast_ref()
    }

    /// All rules, kind by kind, in the order of the document.
    #[must_use]
    pub fn infos(&self) -> Vec<RuleInfo> {
        let tables = self.tables.iter();
        tables.flat_map(|table| table.infos()).collect()
    }

    /// Whether a rule names this resource, exactly.
    #[must_use]
    pub fn names(&self, resource: &str) -> bool {
        self.tables.iter().any(|table| table.names(resource))
    }

    /// Whether a rule may be for resources that it does not name.
    #[must_use]
    pub fn has_patterns(&self) -> bool {
        self.tables.iter().any(|table| table.has_patterns())
    }

    /// Whether a rule in force looks at the figures of `resource` from another
    /// resource.
    #[must_use]
    pub fn looks_at(&self, resource: &str) -> bool {
        self.tables.iter().any(|table| table.looks_at(resource))
    }

    /// Whether a rule in force asks how much memory is in use.
    #[must_use]
    pub fn needs_memory(&self) -> bool {
        self.tables.iter().any(|table| table.needs_memory())
    }

    /// Which rules act on `resource`, to ask of a later set whether it is still
    /// these.
    #[must_use]
    pub fn acting_on(&self, resource: &str) -> Acting {
        let hash = hash_of(resource);
        let tables = self.tables.iter().enumerate().take(KINDS_TOLD);
        let named =
            tables.map(|(at, table)| u64::from(table.since(hash, resource).is_some()) << at);
        Acting {
            revision: self.revision,
            named: named.sum(),
        }
    }

    /// Whether the rules that act on `resource` are those that did when `acting`
    /// was asked for, with the same states, under the same ids and in the same
    /// order. It may say no where they are. `acting` has to come from this set,
    /// or from one that this has been made of in one or more steps.
    ///
    /// What acts on a resource are the rules that name it, and patterns and
    /// defaults. Each table knows since when each of these is as it is. What has
    /// been as it is since before `acting` was asked for was so then. There is
    /// one way to change what leaves no trace of when: that no rule of a kind
    /// names the resource any more. So `acting` knows whether one did.
    #[must_use]
    pub fn still_acts(&self, acting: Acting, resource: &str) -> bool {
        let Acting { revision, named } = acting;
        let hash = hash_of(resource);
        let mut tables = self.tables.iter().enumerate();
        tables.all(|(at, table)| {
            if table.revision() <= revision {
                return true;
            }
            let is_named_alike = match table.since(hash, resource) {
                Some(since) => since <= revision,
                None => named >> at & 1 == 0,
            };
            at < KINDS_TOLD && table.wide_since() <= revision && is_named_alike
        })
    }

    /// What rules were, and remembered, that are in force no longer since the set
    /// that this was made of: to be dropped where that may take its time.
    pub fn take_left(&mut self) -> Vec<Arc<dyn Any + Send + Sync>> {
        std::mem::take(&mut self.left)
    }

    /// The resources that rules name, once for each kind that does.
    pub fn named(&self) -> impl Iterator<Item = &str> {
        self.tables.iter().flat_map(|table| table.named())
    }

    pub(crate) fn tables(&self) -> impl Iterator<Item = &Arc<dyn AnyTable>> {
        self.tables.iter()
    }

    /// These rules, with those of `kind` replaced by a JSON list, for example
    /// `[{"resource": "orders", "count": 100}]`. `[]` clears them.
    ///
    /// # Errors
    ///
    /// All faults of the text; with [`OnInvalid::Skip`] only those that no
    /// rule can be made responsible for.
    pub fn with_list(
        &self,
        kind: &str,
        text: impl AsRef<[u8]>,
        settings: &Settings,
        options: impl Into<LoadOptions>,
    ) -> Result<(Self, LoadReport), RuleError> {
        self.with_list_as(None, kind, text.as_ref(), settings, options.into())
    }

    /// These rules and those of a JSON list of `kind`, behind the others.
    ///
    /// # Errors
    ///
    /// As [`with_list`](Self::with_list).
    pub fn with_more(
        &self,
        kind: &str,
        text: impl AsRef<[u8]>,
        settings: &Settings,
        options: impl Into<LoadOptions>,
    ) -> Result<(Self, LoadReport), RuleError> {
        let append = Some(Change::Append);
        self.with_list_as(append, kind, text.as_ref(), settings, options.into())
    }

    /// These rules, with those of `kind` whose `resource` is written exactly so
    /// replaced by a JSON list. `[]` removes them.
    ///
    /// # Errors
    ///
    /// As [`with_list`](Self::with_list); a rule for another resource is a
    /// fault.
    pub fn with_list_of(
        &self,
        kind: &str,
        resource: &str,
        text: impl AsRef<[u8]>,
        settings: &Settings,
        options: impl Into<LoadOptions>,
    ) -> Result<(Self, LoadReport), RuleError> {
        let change = Some(Change::Resource(resource));
        self.with_list_as(change, kind, text.as_ref(), settings, options.into())
    }

    /// These rules without the one of this kind and id, if there is one. Made-up
    /// ids of rules behind it on the same resource move up.
    ///
    /// # Errors
    ///
    /// There is no such kind.
    pub fn without(
        &self,
        kind: &str,
        id: &str,
        settings: &Settings,
    ) -> Result<(Self, LoadReport), RuleError> {
        let change = Some(Change::Id(id));
        self.with_list_as(change, kind, b"[]", settings, OnInvalid::Refuse.into())
    }

    fn with_list_as(
        &self,
        change: Option<Change<'_>>,
        name: &str,
        text: &[u8],
        settings: &Settings,
        options: LoadOptions,
    ) -> Result<(Self, LoadReport), RuleError> {
        let mut loading = self.loading(settings, options);
        if let Some(Change::Resource(resource)) = change {
            loading.only_for = Some(resource.to_owned());
        }
        let (text, base, value) = open(text, name, "[]")?;
        let Some((at, kind)) = self.kind(name) else {
            return Err(RuleError::one(Fault {
                path: shorten(name),
                place: None,
                message: self.unknown_kind(name),
            }));
        };
        if matches!(change, Some(Change::Resource(_))) && kind.spec.scope == Scope::Engine {
            return Err(RuleError::one(Fault {
                path: name.to_owned(),
                place: None,
                message: "rules of this kind are for no resource; load the whole list".to_owned(),
            }));
        }
        let items = open_list(&kind.spec, value, &mut loading);
        loading.recognise([(kind.spec, &*items)].into_iter());
        let drafts = (kind.read)(items, &mut loading);
        let mut set = self.next();
        if let Some(table) = set.tables.get_mut(at) {
            *table = (kind.replace)(table, change, drafts, &mut loading);
        }
        set.settled(loading, text, base)
    }

    /// These rules, with those kinds replaced that a document
    /// `{"flow": [...], "degrade": [...]}` has. Other kinds stay as they are.
    ///
    /// # Errors
    ///
    /// As [`with_list`](Self::with_list): the faults of all kinds at once, and
    /// then no kind changes.
    pub fn with_document(
        &self,
        text: impl AsRef<[u8]>,
        settings: &Settings,
        options: impl Into<LoadOptions>,
    ) -> Result<(Self, LoadReport), RuleError> {
        let mut loading = self.loading(settings, options.into());
        let clear = "{\"flow\": []}";
        let (text, base, value) = open(text.as_ref(), "document", clear)?;
        let mut lists = self.open_document(value, &mut loading);
        loading.recognise(lists.iter().map(|(_, kind, items)| (kind.spec, &**items)));
        lists.sort_by_key(|(at, ..)| *at);
        let mut set = self.next();
        for (at, kind, items) in lists {
            let drafts = (kind.read)(items, &mut loading);
            if let Some(table) = set.tables.get_mut(at) {
                *table = (kind.replace)(table, None, drafts, &mut loading);
            }
        }
        set.settled(loading, text, base)
    }

    /// These rules, with those of kind `K` replaced by rules that were built
    /// in code. They are checked as if they had been read.
    ///
    /// # Errors
    ///
    /// As [`with_list`](Self::with_list), and if there is no such kind.
    pub fn with_rules<K: RuleKind>(
        &self,
        rules: Vec<K::Rule>,
        settings: &Settings,
        options: impl Into<LoadOptions>,
    ) -> Result<(Self, LoadReport), RuleError> {
        let mut loading = self.loading(settings, options.into());
        let Some((at, kind)) = self.kind(K::NAME) else {
            return Err(RuleError::one(Fault {
                path: K::NAME.to_owned(),
                place: None,
                message: self.unknown_kind(K::NAME),
            }));
        };
        let drafts = Drafts::of::<K>(check_list::<K>(rules, &mut loading));
        let mut set = self.next();
        if let Some(table) = set.tables.get_mut(at) {
            *table = (kind.replace)(table, None, drafts, &mut loading);
        }
        set.settled(loading, "", 0)
    }

    /// The rules of these kinds as a document in `dialect`; names of no kind
    /// are passed over. A kind that sentinel-golang does not have is not in one
    /// of its documents.
    ///
    /// ```
    /// use flowgate_rules::{Dialect, OnInvalid, RuleSet, Settings};
    ///
    /// let text = r#"{"flow": [{"resource": "mail", "count": 10, "controlBehavior": 2}]}"#;
    /// let (rules, _) =
    ///     RuleSet::default().with_document(text, &Settings::default(), OnInvalid::Refuse)?;
    /// let written = rules.write(&["flow"], Dialect::Golang);
    /// assert_eq!(
    ///     written.text,
    ///     r#"{
    ///   "flow": [
    ///     {"resource": "mail", "tokenCalculateStrategy": 0, "controlBehavior": 1, "threshold": 10, "maxQueueingTimeMs": 500}
    ///   ]
    /// }
    /// "#
    /// );
    /// # Ok::<(), flowgate_rules::RuleError>(())
    /// ```
    #[must_use]
    pub fn write(&self, kinds: &[&str], dialect: Dialect) -> Written {
        let named = kinds.iter().filter_map(|name| self.kind(name));
        let lists = named.filter_map(|(at, kind)| {
            let list = self.tables.get(at)?.write(dialect);
            let is_theirs = dialect == Dialect::Sentinel || kind.spec.golang.is_some();
            Some((kind.spec.name, is_theirs, list))
        });
        Written::document(lists)
    }

    /// The rules of one kind as a list in `dialect`; an empty list if there is
    /// no such kind.
    #[must_use]
    pub fn write_list(&self, kind: &str, dialect: Dialect) -> Written {
        let table = self.kind(kind).and_then(|(at, _)| self.tables.get(at));
        Written::list(table.map(|table| table.write(dialect)).unwrap_or_default())
    }

    fn kind(&self, name: &str) -> Option<(usize, &kinds::Kind)> {
        let mut kinds = self.kinds.iter().enumerate();
        kinds.find(|(_, kind)| kind.spec.name == name)
    }

    /// The lists of a document, in its order.
    fn open_document<'a>(&self, value: Value<'a>, loading: &mut Loading<'_>) -> Vec<List<'_, 'a>> {
        let mut lists = Vec::new();
        let members = match value.shape() {
            Shape::Object => value.members(),
            Shape::List => Err(format!(
                "a list, not an object; write {{\"{DOCUMENTED}\": [...]}}, or load the list of one kind with load_json"
            )),
            _ => Err(format!(
                "{} is not an object; write {{\"{DOCUMENTED}\": [...]}}",
                value.shown()
            )),
        };
        let members = match members {
            Ok(members) => members,
            Err(message) => {
                loading.fatal.push(Fault {
                    path: "document".to_owned(),
                    place: Some(value.place()),
                    message,
                });
                return lists;
            }
        };
        for (index, member) in members.iter().enumerate() {
            let is_repeated = members[..index]
                .iter()
                .any(|earlier| earlier.key == member.key);
            let message = if is_repeated {
                "given twice; keep one".to_owned()
            } else if let Some((at, kind)) = self.kind(&member.key) {
                let items = open_list(&kind.spec, member.value, loading);
                lists.push((at, kind, items));
                continue;
            } else {
                self.unknown_kind(&member.key)
            };
            loading.fatal.push(Fault {
                path: shorten(&member.key.escape_debug().to_string()),
                place: Some(member.key_place),
                message,
            });
        }
        lists
    }

    fn unknown_kind(&self, name: &str) -> String {
        let kinds = self.kinds.specs();
        let names = || kinds.iter().map(|kind| kind.name);
        let theirs = kinds
            .iter()
            .find(|kind| kind.golang.is_some_and(|golang| golang.kind == name));
        if let Some(kind) = theirs {
            return format!("sentinel-golang's name of a kind; here it is {}", kind.name);
        }
        match field::similar(name, names()) {
            Some(meant) => format!("unknown kind of rules; did you mean `{meant}`?"),
            None if kinds
                .iter()
                .any(|kind| kind.all_fields().any(|f| f.name == name)) =>
            {
                "a field of a rule, not a kind of rules; write {\"flow\": [{...}]}".to_owned()
            }
            None => format!(
                "unknown kind of rules; known are {}",
                names().collect::<Vec<_>>().join(", ")
            ),
        }
    }
}

impl Default for RuleSet {
    fn default() -> Self {
        Self::new(&Kinds::default())
    }
}
