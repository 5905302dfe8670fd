//! The page on rules (`docs/rules.md`), made from what the kinds say of
//! themselves.
//!
//! ```text
//! head.md, tail.md   what holds for all kinds
//! <kind>/guide.md    what there is to know of a kind beyond its fields
//! tables             fields, modes, and sentinel-golang's names
//! said               what the loader really says to faulty and odd rules
//! ```
//!
//! Lines `{{…}}` in the texts stand for parts that are made.

mod said;
mod tables;

use std::fmt::Write as _;

use crate::kind::{KindSpec, Scope};
use crate::kinds::Kinds;

const HEAD: &str = include_str!("head.md");
const TAIL: &str = include_str!("tail.md");
const FIELDS: &str = "{{fields}}";

impl Kinds {
    /// All about rules of these kinds, as Markdown.
    #[must_use]
    pub fn page(&self) -> String {
        let specs = self.specs();
        let head = specs.iter().find(|spec| spec.scope == Scope::Resource);
        let shared = head.map(|spec| tables::of_fields(spec.head));
        let mut page = HEAD
            .replace("{{kinds}}", &tables::of_kinds(&specs))
            .replace("{{head}}", shared.unwrap_or_default().trim_end());
        for spec in &specs {
            section(&mut page, spec);
        }
        let names: Vec<String> = specs
            .iter()
            .map(|spec| format!("`{}`", spec.name))
            .collect();
        let tail = TAIL
            .replace("{{order}}", &names.join(", "))
            .replace(
                "{{faults}}",
                &said::faults(self, last_json_before(TAIL, "{{faults}}")),
            )
            .replace("{{refused}}", &said::refused(self))
            .replace("{{warnings}}", &said::warnings(self));
        page.push_str(&tail);
        page
    }
}

fn section(page: &mut String, spec: &KindSpec) {
    let mut about = spec.about.to_owned();
    if let Some(first) = about.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    let _ = write!(page, "## `{}`\n\n{about}.\n\n", spec.name);
    let fields = tables::of_fields(spec.fields);
    let fields = fields.trim_end();
    match spec.guide.contains(FIELDS) {
        true => page.push_str(&spec.guide.replace(FIELDS, fields)),
        false => {
            let _ = write!(page, "{fields}\n\n{}", spec.guide);
        }
    }
    end_paragraph(page);
    page.push_str(&tables::of_golang(spec));
    end_paragraph(page);
}

fn end_paragraph(page: &mut String) {
    let end = page.trim_end().len();
    page.truncate(end);
    page.push_str("\n\n");
}

/// The block of JSON in front of a mark.
fn last_json_before<'t>(text: &'t str, mark: &str) -> &'t str {
    let before = text.split(mark).next().unwrap_or_default();
    let block = before.rsplit("```json\n").next().unwrap_or_default();
    block.split("```").next().unwrap_or_default()
}
