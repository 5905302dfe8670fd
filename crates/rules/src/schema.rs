//! JSON Schema (draft 2020-12) of rule documents, made from the descriptions
//! of the kinds: for editors, and for those who check rules without Flowgate.
//!
//! A schema knows single fields. It is stricter than loading where a field is
//! out of range that its rule does not use, or a mode's name is written in
//! another case (such a rule loads); it says nothing of how fields depend on
//! each other, and nothing of resources that are no regular expression.

use serde_json::{Map, Value, json};

use crate::dialect::Dialect;
use crate::document::dashboards;
use crate::field::{Choice, FieldKind, FieldSpec};
use crate::kind::{KindSpec, Scope};
use crate::kinds::Kinds;

const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";

impl Kinds {
    /// The schema of a whole document in a dialect.
    ///
    /// ```
    /// use flowgate_rules::{Dialect, Kinds};
    ///
    /// let schema = Kinds::standard().schema(Dialect::Golang);
    /// let list = &schema["properties"]["flow"]["items"]["$ref"];
    /// assert_eq!(list, "#/$defs/flow");
    /// assert!(schema["$defs"]["flow"]["properties"]["threshold"].is_object());
    /// ```
    #[must_use]
    pub fn schema(&self, dialect: Dialect) -> Value {
        let specs = self.specs();
        let lists: Map<String, Value> = specs
            .iter()
            .map(|spec| {
                let rule = format!("#/$defs/{}", spec.name);
                let list = json!({
                    "description": spec.about,
                    "type": "array",
                    "items": {"$ref": rule},
                });
                (spec.name.to_owned(), list)
            })
            .collect();
        let rules: Map<String, Value> = specs
            .iter()
            .map(|spec| (spec.name.to_owned(), rule(spec, dialect)))
            .collect();
        json!({
            "$schema": DRAFT,
            "title": format!("Flowgate rules, as {} writes them", dialect.owner()),
            "description": "A list of rules for each kind. A kind that is left out stays as it is; [] clears it.",
            "type": "object",
            "properties": lists,
            "additionalProperties": false,
            "$defs": rules,
        })
    }
}

impl KindSpec {
    /// The schema of a list of rules of this kind in a dialect.
    #[must_use]
    pub fn schema(&self, dialect: Dialect) -> Value {
        json!({
            "$schema": DRAFT,
            "title": format!("Flowgate rules of kind {}, as {} writes them", self.name, dialect.owner()),
            "description": self.about,
            "type": "array",
            "items": {"$ref": "#/$defs/rule"},
            "$defs": {"rule": rule(self, dialect)},
        })
    }
}

fn rule(spec: &KindSpec, dialect: Dialect) -> Value {
    let fields = spec.fields_in(dialect);
    let mut rule = object(fields);
    if let Some(properties) = rule.get_mut("properties").and_then(Value::as_object_mut) {
        for name in dashboards() {
            let about = "added by Sentinel's dashboard; decides nothing";
            properties.insert(name.to_owned(), json!({"description": about}));
        }
    }
    if spec.scope == Scope::Engine {
        rule["description"] = json!("for all calls of the engine");
    }
    rule
}

/// An object of these fields.
fn object(fields: impl Iterator<Item = &'static FieldSpec>) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for field in fields {
        if field.required {
            required.push(field.name);
        }
        properties.insert(field.name.to_owned(), schema_of(field));
    }
    let mut object = json!({
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    });
    if !required.is_empty() {
        object["required"] = json!(required);
    }
    object
}

/// Null stands for an absent field, where it may be absent.
fn schema_of(field: &FieldSpec) -> Value {
    let or_null = |kind: &str| match field.required {
        true => json!([kind]),
        false => json!([kind, "null"]),
    };
    let mut schema = match field.kind {
        FieldKind::Id => json!({"type": ["string", "integer", "null"]}),
        FieldKind::Text => {
            let mut text = json!({"type": or_null("string")});
            if field.required {
                // Not blank.
                text["pattern"] = json!("\\S");
            }
            text
        }
        FieldKind::Number => json!({"type": or_null("number")}),
        FieldKind::Whole => json!({"type": or_null("integer")}),
        FieldKind::Flag => json!({"type": or_null("boolean")}),
        FieldKind::Mode(choices) => modes(choices, field.required),
        FieldKind::Objects(parts) => {
            json!({"type": or_null("array"), "items": object(parts.iter())})
        }
    };
    schema["description"] = json!(field.help);
    if let Some(min) = field.min {
        schema["minimum"] = json!(min);
    }
    if let Some(max) = field.max {
        schema["maximum"] = json!(max);
    }
    let default = field
        .default
        .and_then(|json| serde_json::from_str(json).ok());
    if let Some(default) = default {
        let default: Value = default;
        schema["default"] = default;
    }
    schema
}

fn modes(choices: &[Choice], required: bool) -> Value {
    let mut modes: Vec<Value> = choices
        .iter()
        .enumerate()
        .map(|(number, choice)| {
            let mut ways = vec![json!(choice.name)];
            if !choice.by_name {
                ways.insert(0, json!(number));
            }
            ways.extend(choice.aliases.iter().map(|alias| json!(alias)));
            json!({"enum": ways, "description": choice.help})
        })
        .collect();
    if !required {
        modes.push(json!({"type": "null"}));
    }
    json!({"anyOf": modes})
}
