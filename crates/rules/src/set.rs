//! All rules in force: one table per kind. A new kind is one folder, and one
//! line at the end of this file.

use std::sync::Arc;

use crate::Settings;
use crate::degrade::{Degrade, DegradeRule};
use crate::document::{
    Draft, Fault, LoadReport, Loading, OnInvalid, RuleError, Shape, Value, check_list, open,
    read_list, shorten,
};
use crate::field;
use crate::flow::{Flow, FlowRule};
use crate::kind::{KindSpec, RuleKind};
use crate::table::RuleTable;

macro_rules! rule_set {
    ($($(#[$doc:meta])* $field:ident: $Kind:ty,)+) => {
        /// All rules, one table per kind. It never changes; loading makes
        /// another, which shares what is still the same.
        ///
        /// ```
        /// use flowgate_rules::{OnInvalid, RuleSet, Settings};
        ///
        /// let (rules, report) = RuleSet::default().with_list(
        ///     "flow",
        ///     r#"[{"resource": "orders", "count": 100}]"#,
        ///     &Settings::default(),
        ///     OnInvalid::Refuse,
        /// )?;
        /// assert_eq!(report.to_string(), "flow: 1 in force, 1 added, 0 changed, 0 kept, 0 removed");
        /// assert_eq!(&**rules.flow.matching("orders")[0].id(), "flow/orders#1");
        /// # Ok::<(), flowgate_rules::RuleError>(())
        /// ```
        #[derive(Debug, Clone, Default)]
        pub struct RuleSet {
            $($(#[$doc])* pub $field: Arc<RuleTable<$Kind>>,)+
        }

        $(impl TableOf<$Kind> for RuleSet {
            fn table(&self) -> &Arc<RuleTable<$Kind>> {
                &self.$field
            }

            fn table_mut(&mut self) -> &mut Arc<RuleTable<$Kind>> {
                &mut self.$field
            }
        })+

        impl RuleSet {
            /// All kinds with the fields of their rules.
            #[must_use]
            pub fn kinds() -> Vec<KindSpec> {
                vec![$(KindSpec::of::<$Kind>()),+]
            }
        }

        /// Lists that were read, before they become tables.
        #[derive(Default)]
        struct Drafts {
            $($field: Option<(Vec<Draft<$Kind>>, usize)>,)+
        }

        impl Drafts {
            /// Reads the list of `kind`; false if there is no such kind.
            fn read(&mut self, kind: &str, value: Value<'_>, loading: &mut Loading<'_>) -> bool {
                $(if kind == <$Kind>::NAME {
                    self.$field = Some(read_list::<$Kind>(value, loading));
                    return true;
                })+
                false
            }

            /// The tables of what was read, the others as they are in `old`.
            fn into_set(self, old: &RuleSet, loading: &mut Loading<'_>) -> RuleSet {
                RuleSet {
                    $($field: match self.$field {
                        Some((drafts, faulty)) => {
                            Arc::new(old.$field.replace(drafts, faulty, loading))
                        }
                        None => Arc::clone(&old.$field),
                    },)+
                }
            }
        }
    };
}

/// Access to one table of a [`RuleSet`] by its kind.
pub trait TableOf<K: RuleKind> {
    /// The rules of kind `K`.
    fn table(&self) -> &Arc<RuleTable<K>>;

    /// The place of the rules of kind `K`.
    fn table_mut(&mut self) -> &mut Arc<RuleTable<K>>;
}

impl RuleSet {
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
        on_invalid: OnInvalid,
    ) -> Result<(Self, LoadReport), RuleError> {
        let mut loading = Loading::new(settings, on_invalid);
        let mut drafts = Drafts::default();
        let (text, base, value) = open(text.as_ref(), kind, "[]")?;
        if !drafts.read(kind, value, &mut loading) {
            return Err(RuleError::one(Fault {
                path: shorten(kind),
                place: None,
                message: unknown_kind(kind),
            }));
        }
        let set = drafts.into_set(self, &mut loading);
        Ok((set, loading.finish(text, base)?))
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
        on_invalid: OnInvalid,
    ) -> Result<(Self, LoadReport), RuleError> {
        let mut loading = Loading::new(settings, on_invalid);
        let mut drafts = Drafts::default();
        let clear = format!("{{\"{}\": []}}", Flow::NAME);
        let (text, base, value) = open(text.as_ref(), "document", &clear)?;
        read_document(value, &mut drafts, &mut loading);
        let set = drafts.into_set(self, &mut loading);
        Ok((set, loading.finish(text, base)?))
    }

    /// These rules, with those of kind `K` replaced by rules that were built
    /// in code. They are checked as if they had been read.
    ///
    /// # Errors
    ///
    /// As [`with_list`](Self::with_list).
    pub fn with_rules<K: RuleKind>(
        &self,
        rules: Vec<K::Rule>,
        settings: &Settings,
        on_invalid: OnInvalid,
    ) -> Result<(Self, LoadReport), RuleError>
    where
        Self: TableOf<K>,
    {
        let mut loading = Loading::new(settings, on_invalid);
        let (drafts, faulty) = check_list::<K>(rules, &mut loading);
        let mut set = self.clone();
        let table = self.table().replace(drafts, faulty, &mut loading);
        *set.table_mut() = Arc::new(table);
        Ok((set, loading.finish("", 0)?))
    }

    /// [`with_rules`](Self::with_rules) for flow rules.
    ///
    /// # Errors
    ///
    /// As [`with_list`](Self::with_list).
    pub fn with_flow(
        &self,
        rules: Vec<FlowRule>,
        settings: &Settings,
        on_invalid: OnInvalid,
    ) -> Result<(Self, LoadReport), RuleError> {
        self.with_rules::<Flow>(rules, settings, on_invalid)
    }

    /// [`with_rules`](Self::with_rules) for circuit breakers.
    ///
    /// # Errors
    ///
    /// As [`with_list`](Self::with_list).
    pub fn with_degrade(
        &self,
        rules: Vec<DegradeRule>,
        settings: &Settings,
        on_invalid: OnInvalid,
    ) -> Result<(Self, LoadReport), RuleError> {
        self.with_rules::<Degrade>(rules, settings, on_invalid)
    }
}

fn read_document(value: Value<'_>, drafts: &mut Drafts, loading: &mut Loading<'_>) {
    let members = match value.shape() {
        Shape::Object => value.members(),
        Shape::List => Err(format!(
            "a list, not an object; write {{\"{}\": [...]}}, or load the list of one kind with load_json",
            Flow::NAME
        )),
        _ => Err(format!(
            "{} is not an object; write {{\"{}\": [...]}}",
            value.shown(),
            Flow::NAME
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
            return;
        }
    };
    for (index, member) in members.iter().enumerate() {
        let is_repeated = members[..index]
            .iter()
            .any(|earlier| earlier.key == member.key);
        let message = if is_repeated {
            "given twice; keep one".to_owned()
        } else if drafts.read(&member.key, member.value, loading) {
            continue;
        } else {
            unknown_kind(&member.key)
        };
        loading.fatal.push(Fault {
            path: shorten(&member.key.escape_debug().to_string()),
            place: Some(member.key_place),
            message,
        });
    }
}

fn unknown_kind(name: &str) -> String {
    let kinds = RuleSet::kinds();
    let names = || kinds.iter().map(|kind| kind.name);
    match field::similar(name, names()) {
        Some(meant) => format!("unknown kind of rules; did you mean `{meant}`?"),
        None if kinds
            .iter()
            .any(|kind| kind.fields.iter().any(|f| f.name == name)) =>
        {
            "a field of a rule, not a kind of rules; write {\"flow\": [{...}]}".to_owned()
        }
        None => format!(
            "unknown kind of rules; known are {}",
            names().collect::<Vec<_>>().join(", ")
        ),
    }
}

rule_set! {
    /// Flow rules: how much may pass.
    flow: Flow,
    /// Circuit breakers: when to stop trying.
    degrade: Degrade,
}
