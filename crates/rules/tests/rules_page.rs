//! docs/rules.md is made from the kinds' own descriptions, and its examples
//! load.

use std::path::Path;

use flowgate_rules::{Kinds, OnInvalid, RuleSet, Settings};

#[test]
fn the_page_on_rules_is_what_the_kinds_say_of_themselves() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/rules.md");
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    let page = Kinds::standard().page();
    let differs = there.lines().zip(page.lines()).find(|(a, b)| a != b);
    assert!(
        there == page,
        "docs/rules.md is not up to date; renew it by `cargo run -q -p flowgate-cli -- docs > docs/rules.md`\n\
         first difference: {differs:#?}"
    );
}

#[test]
fn every_example_of_a_kind_loads() {
    for spec in Kinds::standard().specs() {
        let blocks: Vec<&str> = spec.guide.split("```json\n").skip(1).collect();
        assert!(!blocks.is_empty(), "{} has no example", spec.name);
        for block in blocks {
            let text = block.split("```").next().unwrap_or_default();
            let (none, settings) = (RuleSet::default(), Settings::default());
            let loaded = match text.starts_with('{') {
                true => none.with_document(text, &settings, OnInvalid::Refuse),
                false => none.with_list(spec.name, text, &settings, OnInvalid::Refuse),
            };
            let (_, report) = loaded.unwrap_or_else(|error| panic!("{text}{error}"));
            assert_eq!(report.warnings, [], "{text}");
        }
    }
}

#[test]
fn every_field_has_a_meaning_and_every_number_an_advice() {
    for spec in Kinds::standard().specs() {
        let golang = spec.golang.map_or(&[][..], |golang| golang.fields);
        for field in spec.all_fields().chain(golang) {
            assert!(!field.help.is_empty(), "{}.{}", spec.name, field.name);
            assert!(!field.help.contains('\n'), "{}.{}", spec.name, field.name);
        }
    }
}

#[test]
fn required_fields_are_marked_and_each_table_is_there_once() {
    let page = Kinds::standard().page();
    for row in [
        "| `timeWindow` | whole number | required, or `timeWindowMs` |",
        "| `paramIdx` | whole number | required, or `paramKey` |",
        "| `count` + | whole number 0 to 16777215 | required, or `threshold` |",
        "| `count` | number ≥ 0 | required | its limit |",
        "| `metricType` | mode |",
    ] {
        assert!(page.contains(row), "{row}");
    }
    assert_eq!(page.matches("| `classType` |").count(), 1);
}
