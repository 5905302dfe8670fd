//! Reported bugs of peers, kind K11: what rule documents may hold. Watching
//! files (b132, b134, b136, b138, b144) is for the sources of rules.

mod common;

use common::{at, flow, passed};
use flowgate::{Engine, OnInvalid, RuleError};

/// Of each kind that has resources, what a sound rule says beside its resource.
const SOUND: &[(&str, &str)] = &[
    ("authority", r#""limitApp": "web""#),
    ("paramFlow", r#""paramIdx": 0, "count": 5"#),
    ("flow", r#""count": 5"#),
    ("isolation", r#""count": 5"#),
    ("degrade", r#""count": 5, "timeWindow": 5"#),
];

fn paths(faults: &[flowgate::Fault]) -> Vec<&str> {
    faults.iter().map(|fault| fault.path.as_str()).collect()
}

/// Where the first fault of a text is: line and column, if it has a place.
fn place(error: &RuleError) -> Option<(usize, usize)> {
    error.faults[0]
        .place
        .map(|place| (place.line, place.column))
}

// https://github.com/Kuadrant/limitador/pull/79,
// https://github.com/alibaba/Sentinel/issues/1333. Any fault refuses the text.
#[test]
fn b135_a_broken_text_leaves_the_rules_in_force_and_says_where_it_is_broken() {
    let good = r#"[{"resource": "r", "count": 5}]"#;
    let (engine, time) = flow(good);
    let r = engine.resource("r");
    let broken: &[(&[u8], Option<(usize, usize)>)] = &[
        (b"[\n{\"resource\": \"r\", \"count\": 7}", Some((2, 29))),
        (b"[{\"resource\": \"r\", \"cou", Some((1, 23))),
        (b"{\"resource\": \"r\", \"count\": 7}", Some((1, 1))),
        (
            b"[{\"resource\": \"r\", \"count\": 7},\n {\"resource\": \"s\", \"count\": -7}]",
            Some((2, 29)),
        ),
        (b"null", Some((1, 1))),
        (b"", None),
        (b"\xff\xfe", None),
    ];
    for (n, (text, expected)) in broken.iter().enumerate() {
        at(&time, 1_000 * n as u64);
        assert_eq!(passed(&r, 3), 3);
        let error = engine.load_json("flow", text).unwrap_err();
        assert_eq!(place(&error), *expected, "{error}");
        assert!(engine.load_document(text).is_err());
        // Nothing of the state is lost either: two of the five are left.
        assert_eq!(passed(&r, 10), 2);
        assert_eq!(engine.flow_rules().len(), 1);
    }
    let generation = engine.stats().generation;
    at(&time, 60_000);
    engine.load_json("flow", good.replace('5', "7")).unwrap();
    assert_eq!(passed(&r, 10), 7);
    assert_eq!(engine.stats().generation, generation + 1);
}

// https://github.com/alibaba/Sentinel/issues/684
#[test]
fn b139_a_rule_without_its_resource_is_named_and_neither_active_nor_dropped_in_silence() {
    for (kind, members) in SOUND {
        let list = format!(
            r#"[{{{members}}},
                {{"resource": null, {members}}},
                {{"resource": "", {members}}},
                {{"Resource": "r", {members}}},
                {{"resource": "r", {members}}}]"#
        );
        let engine = Engine::new();
        let error = engine.load_json(kind, &list).unwrap_err();
        let path = |n: usize, field: &str| format!("{kind}[{n}].{field}");
        let expected = [
            path(0, "resource"),
            path(1, "resource"),
            path(2, "resource"),
            path(3, "resource"),
            path(3, "Resource"),
        ];
        let mut named = paths(&error.faults);
        named.sort_unstable_by_key(|path| path.replace("Resource", "resource~"));
        assert_eq!(named, expected);
        assert!(
            error.to_string().contains("did you mean `resource`?"),
            "{error}"
        );
        assert_eq!(engine.rules(), []);

        let report = engine.load_json_with(kind, &list, OnInvalid::Skip).unwrap();
        assert_eq!(report.skipped, error.faults);
        let of_kind = report.kind(kind).unwrap();
        assert_eq!((of_kind.active, of_kind.skipped), (1, 4), "{kind}");
        let active: Vec<_> = engine
            .rules()
            .into_iter()
            .map(|rule| rule.resource)
            .collect();
        assert_eq!(active, ["r"]);
    }
}

// https://github.com/alibaba/spring-cloud-alibaba/issues/564. What a dashboard is
// known to add loads; other unknown fields are refused with the whole text.
#[test]
fn b140_fields_that_a_dashboard_adds_load_and_a_misspelt_one_is_refused_with_a_hint() {
    let added = r#""id": 13, "app": "shop", "ip": "10.0.0.1", "port": 8719,
                   "gmtCreate": 1700000000000, "gmtModified": null"#;
    for (kind, members) in SOUND {
        let engine = Engine::new();
        let list = format!(r#"[{{"resource": "r", {members}, {added}}}]"#);
        let report = engine.load_json(kind, list).unwrap();
        assert_eq!(
            (report.active(kind), report.warnings.len()),
            (1, 1),
            "{kind}"
        );
        assert_eq!(engine.rules()[0].id, "13");

        for (unknown, hint) in [
            (r#""resuorce": "s""#, "did you mean `resource`?"),
            (r#""rule": {"resource": "r"}"#, "unknown field"),
        ] {
            let list = format!(r#"[{{"resource": "r", {members}, {unknown}}}]"#);
            let error = engine.load_json(kind, list).unwrap_err();
            assert!(error.to_string().contains(hint), "{kind}: {error}");
        }
        assert_eq!(engine.rules()[0].id, "13", "the old rules stay");
    }
    let engine = Engine::new();
    for (kind, misspelt, field) in [
        ("flow", r#""cuont": 5"#, "count"),
        ("isolation", r#""treshold": 5"#, "threshold"),
        ("degrade", r#""count": 5, "timeWindwo": 5"#, "timeWindow"),
        (
            "paramFlow",
            r#""paramIdx": 0, "duratoinInSec": 5"#,
            "durationInSec",
        ),
    ] {
        let list = format!(r#"[{{"resource": "r", {misspelt}}}]"#);
        let error = engine.load_json(kind, list).unwrap_err();
        let hint = format!("did you mean `{field}`?");
        assert!(error.to_string().contains(&hint), "{error}");
    }
}

// https://github.com/IrosTheBeggar/mStream/pull/910
#[test]
fn b141_a_byte_order_mark_and_cr_lf_change_nothing_and_utf_16_is_a_clear_error() {
    let lists = SOUND
        .iter()
        .map(|(kind, members)| format!("\"{kind}\": [\n{{\"resource\": \"r\", {members}}}\n]"));
    let text = format!("{{\n{}\n}}\n", lists.collect::<Vec<_>>().join(",\n"));
    let utf16: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let with_mark = [&[0xff, 0xfe], &utf16[..]].concat();
    let same = [
        format!("\u{feff}{text}"),
        text.replace('\n', "\r\n"),
        format!("\u{feff}{}", text.replace('\n', "\r\n")),
    ];
    let plain = Engine::new();
    plain.load_document(&text).unwrap();
    for other in same {
        // At start, and on a reload.
        let engine = Engine::new();
        engine.load_document(&other).unwrap();
        assert_eq!(engine.rules(), plain.rules());
        assert!(plain.load_document(&other).unwrap().is_unchanged());
        for wrong in [&utf16, &with_mark] {
            let error = engine.load_document(wrong).unwrap_err();
            assert!(error.to_string().contains("save it as UTF-8"), "{error}");
            assert_eq!(engine.rules(), plain.rules());
        }
    }
}
