//! Tables of fields, of their modes, and of sentinel-golang's names.

use std::fmt::Write as _;

use crate::field::{Choice, FieldKind, FieldSpec};
use crate::kind::KindSpec;

/// The kinds, with what each is for.
pub(super) fn of_kinds(specs: &[KindSpec]) -> String {
    let mut table = String::from("| kind | what its rules do |\n|---|---|\n");
    for spec in specs {
        let (name, about) = (spec.name, spec.about);
        let _ = writeln!(table, "| [`{name}`](#{}) | {about} |", name.to_lowercase());
    }
    table.trim_end().to_owned()
}

/// Fields, and below them the modes that some have.
pub(super) fn of_fields(fields: &[FieldSpec]) -> String {
    let mut table = String::from("| field | type | default | meaning |\n|---|---|---|---|\n");
    rows(&mut table, fields, |_| None);
    table.push('\n');
    parts(&mut table, fields);
    modes(&mut table, fields);
    table
}

/// What sentinel-golang writes instead, if anything.
pub(super) fn of_golang(spec: &KindSpec) -> String {
    let Some(golang) = &spec.golang else {
        return String::new();
    };
    let mut table = format!(
        "### `{}` in sentinel-golang's dialect\n\n| field | type | default | meaning | here |\n|---|---|---|---|---|\n",
        spec.name
    );
    rows(&mut table, golang.fields, |field| {
        let here = golang.names_here(field.name);
        let alike = spec.fields.iter().any(|ours| ours.name == field.name);
        Some(match here {
            Some(names) => format!(
                "`{}`",
                names.replace(", ", "`, `").replace(" or ", "` or `")
            ),
            None if alike => "the same name".to_owned(),
            None => String::new(),
        })
    });
    table.push('\n');
    parts(&mut table, golang.fields);
    modes(&mut table, golang.fields);
    table
}

fn rows(table: &mut String, fields: &[FieldSpec], last: impl Fn(&FieldSpec) -> Option<String>) {
    for field in fields {
        let FieldSpec { name, help, .. } = field;
        let mark = if field.added { " +" } else { "" };
        let default = match (field.default, field.instead) {
            (Some(json), _) => format!("`{}`", default(field, json)),
            (None, Some(other)) => format!("required, or `{other}`"),
            (None, None) if field.required => "required".to_owned(),
            (None, None) => String::new(),
        };
        let kind = type_of(field);
        let _ = write!(table, "| `{name}`{mark} | {kind} | {default} | {help} |");
        if let Some(last) = last(field) {
            let _ = write!(table, " {last} |");
        }
        table.push('\n');
    }
}

/// A mode by its name, which says more than its number.
fn default(field: &FieldSpec, json: &'static str) -> &'static str {
    match (field.kind, json.parse::<usize>()) {
        (FieldKind::Mode(choices), Ok(number)) => {
            choices.get(number).map_or(json, |choice| choice.name)
        }
        _ => json,
    }
}

fn type_of(field: &FieldSpec) -> String {
    let name = match field.kind {
        FieldKind::Id => "text or whole number",
        FieldKind::Text => "text",
        FieldKind::Number => "number",
        FieldKind::Whole => "whole number",
        FieldKind::Flag => "flag",
        FieldKind::Mode(_) => "mode",
        FieldKind::Objects(_) => "list of objects",
    };
    match (field.min, field.max) {
        (Some(min), Some(max)) => format!("{name} {min} to {max}"),
        (Some(min), None) => format!("{name} ≥ {min}"),
        (None, Some(max)) => format!("{name} ≤ {max}"),
        (None, None) => name.to_owned(),
    }
}

/// The fields of the objects in lists.
fn parts(table: &mut String, fields: &[FieldSpec]) {
    for field in fields {
        if let FieldKind::Objects(parts) = field.kind {
            let _ = writeln!(table, "| in `{}` | type | default | meaning |", field.name);
            table.push_str("|---|---|---|---|\n");
            rows(table, parts, |_| None);
            table.push('\n');
            modes(table, parts);
        }
    }
}

fn modes(table: &mut String, fields: &[FieldSpec]) {
    let modes = fields.iter().filter_map(|field| match field.kind {
        FieldKind::Mode(choices) => Some((field.name, choices)),
        _ => None,
    });
    let mut modes = modes.peekable();
    if modes.peek().is_none() {
        return;
    }
    table.push_str("| mode of | number | name | also called | |\n|---|---|---|---|---|\n");
    for (field, choices) in modes {
        for (number, choice) in choices.iter().enumerate() {
            mode(table, field, number, choice);
        }
    }
    table.push('\n');
}

fn mode(table: &mut String, field: &str, number: usize, choice: &Choice) {
    let of = match number {
        0 => format!("`{field}`"),
        _ => String::new(),
    };
    let number = match choice.by_name {
        true => String::new(),
        false => number.to_string(),
    };
    let also: Vec<String> = choice.aliases.iter().map(|it| format!("`{it}`")).collect();
    let (name, help) = (choice.name, choice.help);
    let _ = writeln!(
        table,
        "| {of} | {number} | `{name}` | {} | {help} |",
        also.join(", ")
    );
}
