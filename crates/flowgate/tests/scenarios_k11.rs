//! Reported bugs of peers, kind K11: documents of rules. Those about watching
//! files (b132, b134, b136, b138, b144) wait for rule sources.

mod common;

use common::{at, flow, passed};
use flowgate::{Dialect, Engine, LoadOptions, OnInvalid, RuleError};

/// Faults as text, without places.
fn faults(faults: &[flowgate::Fault]) -> Vec<String> {
    let faults = faults.iter();
    faults
        .map(|f| format!("{}: {}", f.path, f.message))
        .collect()
}

// https://github.com/Kuadrant/limitador/pull/79,
// https://github.com/alibaba/Sentinel/issues/1333
#[test]
fn b135_a_broken_document_leaves_the_old_rules_in_force_and_says_where_it_is_broken() {
    let (engine, time) = flow(r#"[{"resource": "r", "count": 5}]"#);
    let r = engine.resource("r");
    let broken: [(&str, &str, (usize, usize)); 3] = [
        (
            "[\n  {\"resource\": \"r\", \"count\": 7",
            "flow: EOF while parsing an object; the text ends too early, see whether it was cut off",
            (2, 30),
        ),
        (
            r#"{"resource": "r", "count": 7}"#,
            "flow: a single rule, not a list; write it in brackets: [{...}]",
            (1, 1),
        ),
        (
            "[{\"resource\": \"r\", \"count\": 7},\n {\"resource\": \"r\", \"count\": -7}]",
            "flow[1].count: -7 is negative; give calls per second or at once, 0 means none",
            (2, 29),
        ),
    ];
    for (text, message, place) in broken {
        let error = engine.load_json("flow", text).unwrap_err();
        assert_eq!(faults(&error.faults), [message]);
        let found = error.faults[0].place.unwrap();
        assert_eq!((found.line, found.column), place, "{text}");
    }
    at(&time, 1_000);
    assert_eq!(passed(&r, 20), 5);
    engine
        .load_json("flow", r#"[{"resource": "r", "count": 7}]"#)
        .unwrap();
    at(&time, 2_000);
    assert_eq!(passed(&r, 20), 7);
}

// https://github.com/alibaba/Sentinel/issues/684,
// https://github.com/alibaba/Sentinel/issues/159,
// https://github.com/alibaba/Sentinel/issues/1824
#[test]
fn b139_a_rule_without_its_resource_is_named_and_the_good_one_is_active() {
    let text = r#"[
        {"count": 1},
        {"resource": null, "count": 1},
        {"resource": "", "count": 1},
        {"Resource": "d", "count": 1},
        {"resource": "good", "count": 2}
    ]"#;
    let (engine, time) = flow("[]");
    let report = engine
        .load_json_with("flow", text, OnInvalid::Skip)
        .unwrap();
    let missing = "missing; give the name of the resource that the rule limits";
    assert_eq!(
        faults(&report.skipped),
        [
            format!("flow[0].resource: {missing}"),
            format!("flow[1].resource: {missing}"),
            format!("flow[2].resource: {missing}"),
            format!("flow[3].resource: {missing}"),
            "flow[3].Resource: unknown field; did you mean `resource`?".to_owned(),
        ]
    );
    assert_eq!((report.active("flow"), report.kinds[0].skipped), (1, 4));
    at(&time, 1_000);
    assert_eq!(passed(&engine.resource("good"), 9), 2);
    assert_eq!(passed(&engine.resource("d"), 9), 9);
    assert_eq!(passed(&engine.resource(""), 9), 9);
    assert_eq!(passed(&engine.resource("null"), 9), 9);
    // By default nothing at all is loaded.
    assert_eq!(engine.load_json("flow", text).unwrap_err().faults.len(), 5);
}

// https://github.com/alibaba/spring-cloud-alibaba/issues/564
#[test]
fn b140_what_a_dashboard_adds_loads_with_one_warning_and_a_misspelt_field_does_not() {
    let rule = |resource: &str, more: &str| {
        format!(
            r#"{{"id": 13, "app": "shop", "ip": "10.0.0.1", "port": 8719, "gmtCreate": 1721000000000,
                "gmtModified": null, "clusterConfig": {{"flowId": 13, "rule": {{"count": 1}}}},
                "resource": "{resource}", {more}}}"#
        )
    };
    let (engine, time) = flow("[]");
    let report = engine
        .load_json("flow", format!("[{}]", rule("r", r#""count": 3"#)))
        .unwrap();
    assert_eq!(
        faults(&report.warnings),
        [
            "document: fields that decide nothing here were ignored: app, clusterConfig, gmtCreate, ip, port"
        ]
    );
    at(&time, 1_000);
    assert_eq!(passed(&engine.resource("r"), 9), 3);
    let misspelt = [
        (
            "flow",
            Dialect::Sentinel,
            r#""cuont": 3"#,
            "flow[0].cuont: unknown field; did you mean `count`?",
        ),
        (
            "flow",
            Dialect::Golang,
            r#""treshold": 3"#,
            "flow[0].treshold: unknown field; did you mean `threshold`?",
        ),
    ];
    for (kind, dialect, field, message) in misspelt {
        let text = format!("[{}]", rule("r", field));
        let error = engine.load_json_with(kind, text, dialect).unwrap_err();
        assert_eq!(faults(&error.faults), [message]);
    }
    // The old rules stay.
    at(&time, 2_000);
    assert_eq!(passed(&engine.resource("r"), 9), 3);
}

// https://github.com/IrosTheBeggar/mStream/pull/910,
// https://github.com/alvinunreal/oh-my-opencode-slim/issues/1028
#[test]
fn b141_a_byte_order_mark_and_crlf_change_nothing_and_utf_16_is_refused() {
    let text = "[\r\n{\"resource\": \"r\", \"count\": 3}\r\n]";
    let (engine, _) = flow("[]");
    let rules = || -> Vec<serde_json::Value> {
        let infos = engine.rules().into_iter();
        infos.map(|info| info.rule).collect()
    };
    let mut seen = Vec::new();
    for text in [
        text.replace('\r', ""),
        format!("\u{FEFF}{text}"),
        text.to_owned(),
    ] {
        engine.load_json("flow", text).unwrap();
        seen.push(rules());
    }
    assert_eq!(seen[0].len(), 1);
    assert!(seen.iter().all(|rules| *rules == seen[0]));
    let utf16: Vec<u8> = std::iter::once(0xFEFF)
        .chain(text.encode_utf16())
        .flat_map(u16::to_le_bytes)
        .collect();
    let error = engine.load_json("flow", &utf16).unwrap_err();
    assert_eq!(
        faults(&error.faults),
        ["flow: the text is UTF-16 (or has zero bytes); save it as UTF-8"]
    );
    assert_eq!(rules(), seen[0]);
}

/// The same rule in both dialects is one rule: nothing changes on the way.
#[test]
fn a_reload_in_the_other_dialect_keeps_what_rules_remember() {
    let (engine, time) =
        flow(r#"[{"resource": "r", "count": 10, "controlBehavior": 2, "maxQueueingTimeMs": 0}]"#);
    at(&time, 1_000);
    assert_eq!(passed(&engine.resource("r"), 5), 1);
    let options = LoadOptions {
        on_invalid: OnInvalid::Refuse,
        dialect: Some(Dialect::Golang),
    };
    let golang = r#"[{"resource": "r", "threshold": 10, "controlBehavior": 1}]"#;
    let report = engine.load_json_with("flow", golang, options).unwrap();
    assert!(report.is_unchanged(), "{report}");
    at(&time, 1_099);
    assert_eq!(passed(&engine.resource("r"), 5), 0);
    at(&time, 1_100);
    assert_eq!(passed(&engine.resource("r"), 5), 1);
}

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
/// Line and column.
type Place = Option<(usize, usize)>;

fn place(error: &RuleError) -> Place {
    error.faults[0]
        .place
        .map(|place| (place.line, place.column))
}

// https://github.com/Kuadrant/limitador/pull/79,
// https://github.com/alibaba/Sentinel/issues/1333. Any fault refuses the text.
#[test]
fn b135_no_broken_text_touches_what_the_rules_in_force_remember() {
    let good = r#"[{"resource": "r", "count": 5}]"#;
    let (engine, time) = flow(good);
    let r = engine.resource("r");
    let broken: &[(&[u8], Place)] = &[
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
fn b139_a_rule_of_any_kind_without_its_resource_is_neither_active_nor_dropped_in_silence() {
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
fn b140_what_a_dashboard_adds_to_a_rule_of_any_kind_loads_and_a_misspelt_field_does_not() {
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
fn b141_the_marks_and_line_ends_of_a_document_of_every_kind_change_nothing() {
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
