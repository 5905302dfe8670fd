//! How an authority rule is written in JSON, and what makes it valid.

use super::{Authority, AuthorityRule, ListStrategy};
use crate::Settings;
use crate::document::Fields;
use crate::field::{FieldKind, FieldSpec, Mode};
use crate::head::Head;
use crate::idle::Idle;
use crate::kind::RuleKind;

const FIELDS: &[FieldSpec] = &[
    FieldSpec::new(
        "limitApp",
        FieldKind::Text,
        "the callers, parted by commas; blanks around a name do not count",
    )
    .advice("give names of callers, for example \"web, batch\"")
    .required(),
    FieldSpec::new(
        "strategy",
        FieldKind::Mode(ListStrategy::CHOICES),
        "what the list is for",
    )
    .default("0")
    .advice("give 0 (white) or 1 (black)"),
];

impl RuleKind for Authority {
    const NAME: &'static str = "authority";
    const ABOUT: &'static str = "says who may call a resource, or who may not";
    const GUIDE: &'static str = include_str!("guide.md");
    type Rule = AuthorityRule;
    /// A list remembers nothing.
    type State = ();

    fn fields() -> &'static [FieldSpec] {
        FIELDS
    }

    fn parse(head: Head, fields: &mut Fields<'_>) -> AuthorityRule {
        let origins = fields.text("limitApp");
        let strategy = fields.mode("strategy").unwrap_or_default();
        AuthorityRule::new(head, strategy, origins)
    }

    fn validate(rule: &AuthorityRule, _: &Settings, fields: &mut Fields<'_>) {
        let names = rule.origins();
        // One that is missing in a text is told by its description.
        if names.is_empty() && (fields.has("limitApp") || !fields.is_text()) {
            fields.fault(
                "limitApp",
                "names nobody; give names of callers, for example \"web, batch\"",
            );
        }
        for name in ["default", "other"] {
            if names.iter().any(|listed| listed == name) {
                let message = format!(
                    "{name} is taken as the name of a caller; a list knows no word for all others"
                );
                fields.warn("limitApp", message);
            }
        }
    }

    fn head(rule: &AuthorityRule) -> &Head {
        &rule.head
    }

    fn new_state(_: &AuthorityRule, _: &Settings) {}

    /// It remembers nothing.
    fn is_as_new(_: &AuthorityRule, _: &(), _: Idle) -> bool {
        true
    }
}
