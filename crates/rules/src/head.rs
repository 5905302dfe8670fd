//! What every rule says, whatever its kind: what it is called, which resources
//! it is for, and whether it is enforced.

use std::hash::{Hash, Hasher};

use regex::{Regex, RegexBuilder};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::document::Fields;
use crate::field::{Choice, FieldKind, FieldSpec, Mode};
use crate::kind::Scope;

/// The resource that stands for all resources without a rule of their own.
pub const DEFAULT_RESOURCE: &str = "*";

/// Compiled size that a rule's pattern may have. Names of resources are
/// matched by a few kilobytes; a bomb like `(a{500}){500}` ends here.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// What every rule says.
///
/// Two heads are equal if they say the same; the id does not count.
#[derive(Debug, Clone, Default)]
pub struct Head {
    /// A name for reports and blocks; one is made up if there is none.
    pub id: Option<String>,
    /// The resource, or the pattern of resources, that the rule is for. `*`
    /// stands for every resource that no other rule of the kind names.
    pub resource: String,
    /// How `resource` is compared with the names of resources. Each resource
    /// that matches is limited by itself.
    pub matching: Matching,
    /// Whether the rule is enforced.
    pub mode: RuleMode,
}

/// How a rule's `resource` is compared with the names of resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Matching {
    /// The same text.
    #[default]
    Exact,
    /// The name begins with it.
    Prefix,
    /// `*` is any text without `/`, `**` any text, `?` one character but `/`.
    Glob,
    /// A regular expression for the whole name.
    Regex,
}

/// Whether a rule is enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum RuleMode {
    /// It decides.
    #[default]
    Enforce,
    /// It decides for itself alone, over the calls that are really admitted,
    /// and counts what it would have refused.
    Observe,
    /// It is kept and listed, and does nothing; its resource still counts as
    /// named, so the default rule `*` does not apply there.
    Off,
}

/// The fields of a head.
pub(crate) const FIELDS: &[FieldSpec] = &[
    ID,
    FieldSpec::new(
        "resource",
        FieldKind::Text,
        "the resource that the rule is for; `*`: all that no other rule of the kind names",
    )
    .advice("give the name of the resource that the rule limits")
    .required()
    .shared(),
    FieldSpec::new(
        "regex",
        FieldKind::Flag,
        "whether resource is a regular expression for the whole name, as in Sentinel",
    )
    .default("false")
    .shared(),
    FieldSpec::new(
        "match",
        FieldKind::Mode(Matching::CHOICES),
        "how resource is compared with names; each resource that matches is limited by itself",
    )
    .default("0")
    .advice("give exact, prefix, glob or regex")
    .added()
    .shared(),
    MODE,
    ENABLED,
];

/// The fields of the head of a rule that is for no resource.
pub(crate) const FIELDS_OF_ENGINE: &[FieldSpec] = &[ID, MODE, ENABLED];

const ID: FieldSpec = FieldSpec::new("id", FieldKind::Id, "names the rule in reports and blocks")
    .advice("give text or a whole number, or leave it out")
    .shared();

const MODE: FieldSpec = FieldSpec::new(
    "mode",
    FieldKind::Mode(RuleMode::CHOICES),
    "whether the rule is enforced",
)
.default("0")
.advice("give enforce, observe or off")
.added()
.shared();

const ENABLED: FieldSpec =
    FieldSpec::new("enabled", FieldKind::Flag, "false: the same as mode off")
        .default("true")
        .added()
        .shared();

impl Head {
    /// The head of a rule for this resource, enforced.
    #[must_use]
    pub fn of(resource: impl Into<String>) -> Self {
        Self {
            resource: resource.into(),
            ..Self::default()
        }
    }

    /// Whether the rule is for the resources that no other one names.
    #[must_use]
    pub fn is_default(&self) -> bool {
        self.matching == Matching::Exact && self.resource == DEFAULT_RESOURCE
    }

    /// Reads the head of a rule.
    pub(crate) fn parse(scope: Scope, fields: &mut Fields<'_>) -> Self {
        let mut head = Self {
            id: fields.id("id"),
            mode: fields.mode("mode").unwrap_or_default(),
            ..Self::default()
        };
        if fields.flag("enabled") == Some(false) {
            if head.mode == RuleMode::Observe {
                fields.warn(
                    "mode",
                    "not used: enabled is false, which is mode off; leave enabled out to observe",
                );
            }
            head.mode = RuleMode::Off;
        }
        if scope == Scope::Engine {
            return head;
        }
        head.resource = fields.text("resource").unwrap_or_default();
        head.matching = Matching::parse(fields);
        head
    }

    /// What makes `resource` one or many: `None` where it cannot be used,
    /// which is then recorded.
    pub(crate) fn compile(&self, fields: &mut Fields<'_>) -> Option<Matcher> {
        let resource = &*self.resource;
        if resource.trim().is_empty() {
            let found = if resource.is_empty() {
                "missing"
            } else {
                "blank"
            };
            fields.fault(
                "resource",
                format!("{found}; give the name of the resource that the rule limits"),
            );
            return None;
        }
        match self.matching {
            Matching::Exact if self.is_default() => Some(Matcher::Default),
            Matching::Exact => {
                if resource.contains('*') && fields.is_text() && !fields.has("match") {
                    fields.warn(
                        "resource",
                        "taken as a plain name; write \"match\": \"glob\" if it is a pattern, \
                         or \"match\": \"exact\" if it is none",
                    );
                }
                Some(Matcher::Exact)
            }
            Matching::Prefix => Some(Matcher::Prefix),
            Matching::Glob => {
                // What comes from a glob is escaped, so only its size can be
                // too much.
                let compiled = compile(&regex_of_glob(resource));
                match compiled {
                    Ok(regex) => Some(Matcher::Pattern(regex)),
                    Err(error) => {
                        let reason = last_line(&error);
                        fields.fault(
                            "resource",
                            format!("a glob too large ({reason}); write a shorter one"),
                        );
                        None
                    }
                }
            }
            Matching::Regex => {
                // By itself first: what it opens it has to close, so that the
                // anchors stay outside.
                let compiled =
                    compile(resource).and_then(|_| compile(&format!("^(?:{resource})$")));
                match compiled {
                    Ok(regex) => Some(Matcher::Pattern(regex)),
                    Err(error) => {
                        let is_match = fields.has("match") && fields.flag("regex") != Some(true);
                        let written = if is_match { "match" } else { "regex" };
                        fields.fault("resource", no_regex(resource, written, &error));
                        None
                    }
                }
            }
        }
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        let Self {
            id: _,
            resource,
            matching,
            mode,
        } = self;
        (resource, matching, mode) == (&other.resource, &other.matching, &other.mode)
    }
}

impl Eq for Head {}

impl Hash for Head {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.resource, self.matching, self.mode).hash(state);
    }
}

impl Serialize for Head {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if let Some(id) = &self.id {
            map.serialize_entry("id", id)?;
        }
        if !self.resource.is_empty() {
            map.serialize_entry("resource", &self.resource)?;
        }
        match self.matching {
            Matching::Exact => {}
            Matching::Regex => map.serialize_entry("regex", &true)?,
            Matching::Prefix => map.serialize_entry("match", "prefix")?,
            Matching::Glob => map.serialize_entry("match", "glob")?,
        }
        match self.mode {
            RuleMode::Enforce => {}
            RuleMode::Observe => map.serialize_entry("mode", "observe")?,
            RuleMode::Off => map.serialize_entry("mode", "off")?,
        }
        map.end()
    }
}

impl Matching {
    fn parse(fields: &mut Fields<'_>) -> Self {
        let matching: Option<Self> = fields.mode("match");
        match (fields.flag("regex"), matching) {
            (Some(true), None | Some(Self::Regex)) => Self::Regex,
            (Some(true), Some(_)) => {
                fields.fault(
                    "match",
                    "regex is true and match says otherwise; keep one of them",
                );
                Self::Regex
            }
            (_, matching) => matching.unwrap_or_default(),
        }
    }
}

impl Mode for Matching {
    const ALL: &'static [Self] = &[Self::Exact, Self::Prefix, Self::Glob, Self::Regex];
    const CHOICES: &'static [Choice] = &[
        Choice::new("exact", "the same name"),
        Choice::new("prefix", "names that begin with it"),
        Choice::new(
            "glob",
            "`*` is any text without `/`, `**` any text, `?` one character but `/`",
        ),
        Choice::new("regex", "a regular expression for the whole name"),
    ];
}

impl Mode for RuleMode {
    const ALL: &'static [Self] = &[Self::Enforce, Self::Observe, Self::Off];
    const CHOICES: &'static [Choice] = &[
        Choice::new("enforce", "the rule decides"),
        Choice::new(
            "observe",
            "it refuses nothing and counts what it would have refused",
        )
        .or(&["shadow", "dryRun"]),
        Choice::new("off", "it does nothing").or(&["disabled"]),
    ];
}

/// A compiled `resource`.
#[derive(Debug, Clone)]
pub(crate) enum Matcher {
    Exact,
    Prefix,
    Pattern(Regex),
    Default,
}

impl Matcher {
    /// Whether it is for names that no rule names.
    pub(crate) fn is_default(&self) -> bool {
        matches!(self, Self::Default)
    }

    /// Whether it is for all names that it matches.
    pub(crate) fn is_pattern(&self) -> bool {
        matches!(self, Self::Prefix | Self::Pattern(_))
    }

    /// Whether a rule that writes `resource` is for the resource `name`, as far
    /// as that can be told without the other rules.
    pub(crate) fn matches(&self, resource: &str, name: &str) -> bool {
        match self {
            Self::Exact => resource == name,
            Self::Prefix => name.starts_with(resource),
            Self::Pattern(regex) => regex.is_match(name),
            Self::Default => true,
        }
    }
}

/// Builder methods of rules, written once: for a rule with a field `head`.
macro_rules! head_methods {
    ($Rule:ty) => {
        impl $Rule {
            /// Gives it an id.
            #[must_use]
            pub fn id(mut self, id: impl Into<String>) -> Self {
                self.head.id = Some(id.into());
                self
            }

            /// Takes `resource` as a regular expression for the whole name.
            #[must_use]
            pub fn regex(self) -> Self {
                self.matching($crate::Matching::Regex)
            }

            /// How `resource` is compared with the names of resources.
            #[must_use]
            pub fn matching(mut self, matching: $crate::Matching) -> Self {
                self.head.matching = matching;
                self
            }

            /// Only observes: it refuses nothing, and counts what it would
            /// have refused.
            #[must_use]
            pub fn observe(self) -> Self {
                self.mode($crate::RuleMode::Observe)
            }

            /// Whether it is enforced.
            #[must_use]
            pub fn mode(mut self, mode: $crate::RuleMode) -> Self {
                self.head.mode = mode;
                self
            }
        }
    };
}
pub(crate) use head_methods;

fn compile(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern)
        .size_limit(PATTERN_BYTES_MAX)
        .build()
}

/// The regular expression for the whole name that a glob stands for.
fn regex_of_glob(glob: &str) -> String {
    let mut pattern = String::from("(?s)^");
    let mut rest = glob;
    while let Some(at) = rest.find(['*', '?']) {
        pattern.push_str(&regex::escape(&rest[..at]));
        rest = &rest[at..];
        let (meaning, len) = if rest.starts_with("**") {
            (".*", 2)
        } else if rest.starts_with('*') {
            ("[^/]*", 1)
        } else {
            ("[^/]", 1)
        };
        pattern.push_str(meaning);
        rest = &rest[len..];
    }
    pattern.push_str(&regex::escape(rest));
    pattern.push('$');
    pattern
}

/// `written` is the field that makes it one.
fn no_regex(pattern: &str, written: &str, error: &regex::Error) -> String {
    let shown = crate::document::shorten(pattern);
    let would_do = match pattern {
        DEFAULT_RESOURCE => format!("leave out {written} to take it as the default rule"),
        _ => format!("correct it, or leave out {written} to take it as a plain name"),
    };
    format!(
        "{shown} is no regular expression ({}); {would_do}",
        last_line(error)
    )
}

/// `regex` draws a picture of several lines; the last says what is wrong.
fn last_line(error: &regex::Error) -> String {
    let text = error.to_string();
    let reason = text.lines().last().unwrap_or_default();
    reason.trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glob_star_stays_within_a_segment_and_two_do_not() {
        for (glob, name, matches) in [
            ("/orders/*", "/orders/7", true),
            ("/orders/*", "/orders/7/items", false),
            ("/orders/**", "/orders/7/items", true),
            ("/orders/*/items", "/orders//items", true),
            ("GET:/a.b", "GET:/a.b", true),
            ("GET:/a.b", "GET:/aXb", false),
            ("job-?", "job-1", true),
            ("job-?", "job-12", false),
            ("job-?", "job-/", false),
            ("**", "anything/at\nall", true),
            ("(a)[b]", "(a)[b]", true),
        ] {
            let regex = compile(&regex_of_glob(glob)).unwrap();
            assert_eq!(regex.is_match(name), matches, "{glob} {name}");
        }
    }
}
