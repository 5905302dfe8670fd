//! What docs/rules.md says of documents, line by line.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, where a panic is the failure"
)]

use flowgate_rules::{
    Degrade, Duplicate, Flow, FlowRule, KindReport, LoadReport, OnInvalid, RuleError, RuleSet,
    Settings,
};

type Loaded = Result<(RuleSet, LoadReport), RuleError>;

fn list(text: &str) -> Loaded {
    RuleSet::default().with_list("flow", text, &Settings::default(), OnInvalid::Refuse)
}

fn list_skipping(text: &str) -> (RuleSet, LoadReport) {
    RuleSet::default()
        .with_list("flow", text, &Settings::default(), OnInvalid::Skip)
        .unwrap()
}

fn document(text: &str) -> Loaded {
    RuleSet::default().with_document(text, &Settings::default(), OnInvalid::Refuse)
}

fn lines(error: &RuleError) -> Vec<String> {
    error.faults.iter().map(ToString::to_string).collect()
}

fn refused(loaded: Loaded) -> Vec<String> {
    lines(&loaded.unwrap_err())
}

fn warnings(report: &LoadReport) -> Vec<String> {
    report.warnings.iter().map(ToString::to_string).collect()
}

fn ids(set: &RuleSet) -> Vec<String> {
    let table = set.table::<Flow>();
    let entries = table.entries().iter();
    entries.map(|entry| entry.id().to_string()).collect()
}

const FAULTY: &str = r#"{
  "flow": [
    {"resource": "a", "count": -1},
    {"resource": "b", "count": 1},
    {"resource": "", "count": "2", "grade": 7, "colour": 1},
    [],
    {"resource": "c", "cuont": 1, "count": 1e400, "count": 2}
  ],
  "degrade": [{"resource": "d", "grade": 1, "count": 1.5}]
}"#;

#[test]
fn a_document_with_any_fault_is_refused_whole_and_all_faults_are_listed() {
    assert_eq!(
        refused(document(FAULTY)),
        [
            "flow[0].count: -1 is negative; give calls per second or at once, 0 means none (line 3, column 32)",
            "flow[2].resource: missing; give the name of the resource that the rule limits (line 5, column 18)",
            "flow[2].count: \"2\" is text; write 2 without quotes (line 5, column 31)",
            "flow[2].grade: 7 is not known; write 0 (concurrency) or 1 (qps) (line 5, column 45)",
            "flow[2].colour: unknown field; a flow rule has id, resource, regex, match, mode, enabled, limitApp, grade, count, accounting, burstCount, strategy, refResource, statIntervalMs, statSlidingWindowBucketCount, lowMemUsageThreshold, highMemUsageThreshold, memLowWaterMarkBytes, memHighWaterMarkBytes, controlBehavior, warmUpPeriodSec, warmUpColdFactor, maxQueueingTimeMs (line 5, column 48)",
            "flow[3]: a list is not a rule; write an object {\"resource\": ..., ...} (line 6, column 5)",
            "flow[4].cuont: unknown field; did you mean `count`? (line 7, column 23)",
            "flow[4].count: 1e400 is too large for a number; give calls per second or at once, 0 means none (line 7, column 44)",
            "flow[4].count: given twice; keep one (line 7, column 51)",
            "degrade[0].timeWindow: missing; give the seconds that the breaker stays open, at least 1, or milliseconds as timeWindowMs (line 9, column 15)",
            "degrade[0].count: 1.5 is no ratio; give a number from 0 to 1 (line 9, column 54)",
        ]
    );
}

#[test]
fn skip_drops_each_faulty_rule_and_loads_the_rest() {
    let (set, report) = RuleSet::default()
        .with_document(FAULTY, &Settings::default(), OnInvalid::Skip)
        .unwrap();
    assert_eq!(ids(&set), ["flow/b#1"]);
    assert_eq!(set.table::<Flow>().entries()[0].position(), 1);
    assert_eq!(set.table::<Degrade>().len(), 0);
    assert_eq!(report.skipped, document(FAULTY).unwrap_err().faults);
    assert_eq!(
        report.kinds,
        [
            KindReport {
                kind: "flow",
                active: 1,
                added: vec!["flow/b#1".into()],
                skipped: 4,
                ..KindReport::default()
            },
            KindReport {
                kind: "degrade",
                skipped: 1,
                ..KindReport::default()
            }
        ]
    );
}

#[test]
fn skip_does_not_skip_what_no_rule_is_responsible_for() {
    let skip =
        |text: &str| RuleSet::default().with_document(text, &Settings::default(), OnInvalid::Skip);
    assert_eq!(
        refused(skip(r#"{"flow": [], "flwo": [{}]}"#)),
        ["flwo: unknown kind of rules; did you mean `flow`? (line 1, column 14)"]
    );
    assert_eq!(
        refused(skip(r#"{"flow": [}"#)),
        ["document: expected value; the text has to be valid JSON (line 1, column 11)"]
    );
}

#[test]
fn exact_duplicates_load_once_with_a_warning() {
    let (set, report) = list(
        r#"[{"resource": "a", "count": 3},
 {"resource": "a", "count": 3.0, "limitApp": null, "grade": "qps"},
 {"resource": "a", "count": 4}]"#,
    )
    .unwrap();
    assert_eq!(ids(&set), ["flow/a#1", "flow/a#2"]);
    assert_eq!(set.table::<Flow>().entries()[1].position(), 2);
    assert_eq!(
        report.duplicates,
        [Duplicate {
            kind: "flow",
            position: 1,
            original: 0
        }]
    );
    assert_eq!(
        warnings(&report),
        ["flow[1]: says the same as flow[0] and was loaded once; remove one (line 2, column 2)"]
    );
}

#[test]
fn what_is_said_of_added_rules_names_their_place_in_the_text() {
    let (set, _) =
        list(r#"[{"id": "x", "resource": "a", "count": 1}, {"resource": "b", "count": 2}]"#)
            .unwrap();
    let more = |text| set.with_more("flow", text, &Settings::default(), OnInvalid::Refuse);
    assert_eq!(
        refused(more(r#"[{"id": "x", "resource": "c", "count": 1}]"#)),
        [
            "flow[0].id: x is the id of the rule x in force too; give each rule its own, or none (line 1, column 2)"
        ]
    );
    let (set, report) = more(
        r#"[{"resource": "c", "count": 1}, {"id": "y", "resource": "b", "count": 2}, {"resource": "c", "count": 1}]"#,
    )
    .unwrap();
    assert_eq!(ids(&set), ["x", "flow/b#1", "flow/c#1"]);
    let positions = report
        .duplicates
        .iter()
        .map(|it| (it.position, it.original));
    assert_eq!(positions.collect::<Vec<_>>(), [(1, 1), (2, 2)]);
    assert_eq!(
        warnings(&report),
        [
            "flow[1]: says the same as the rule flow/b#1 in force and was loaded once; remove one (line 1, column 33)",
            "flow[2]: says the same as flow[0] and was loaded once; remove one (line 1, column 75)",
        ]
    );
    // A rule that is put in front of one that stays does not take its id.
    let first = set.with_list_of(
        "flow",
        "x",
        r#"[{"id": "x", "resource": "x", "count": 1}]"#,
        &Settings::default(),
        OnInvalid::Refuse,
    );
    assert_eq!(
        refused(first),
        [
            "flow[0].id: x is the id of the rule x in force too; give each rule its own, or none (line 1, column 2)"
        ]
    );
}

#[test]
fn a_key_twice_and_an_id_twice_are_errors() {
    assert_eq!(
        refused(list(
            r#"[{"resource": "a", "count": 3, "r\u0065source": "b"}]"#
        )),
        ["flow[0].resource: given twice; keep one (line 1, column 32)"]
    );
    assert_eq!(
        refused(document(r#"{"flow": [], "flow": []}"#)),
        ["flow: given twice; keep one (line 1, column 14)"]
    );
    let twice = r#"[{"id": 7, "resource": "a", "count": 3},
{"id": "7", "resource": "b", "count": 3}]"#;
    assert_eq!(
        refused(list(twice)),
        [
            "flow[1].id: 7 is the id of flow[0] too; give each rule its own, or none (line 2, column 1)"
        ]
    );
    let (set, report) = list_skipping(twice);
    assert_eq!(ids(&set), ["7"]);
    assert_eq!((report.skipped.len(), report.kinds[0].skipped), (1, 1));
}

#[test]
fn a_rule_repeated_with_its_id_is_a_duplicate_not_a_clash() {
    let rule = r#"{"id": 7, "resource": "a", "count": 3}"#;
    let (set, report) = list(&format!("[{rule}, {rule}]")).unwrap();
    assert_eq!(ids(&set), ["7"]);
    assert_eq!(report.duplicates.len(), 1);
}

#[test]
fn bom_and_crlf_are_fine() {
    let text = "\u{FEFF}[\r\n{\"resource\": \"a\",\r\n\"count\": -3}]";
    let error = list(text).unwrap_err();
    assert_eq!(
        lines(&error),
        [
            "flow[0].count: -3 is negative; give calls per second or at once, 0 means none (line 3, column 10)"
        ]
    );
    let place = error.faults[0].place.unwrap();
    assert_eq!(&text[place.offset..place.offset + place.len], "-3");
    assert!(list("\u{FEFF}[]").is_ok());
}

#[test]
fn utf16_and_an_empty_file_are_errors() {
    let utf16: Vec<u8> = "[]".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let load = |bytes: &[u8]| {
        RuleSet::default().with_list("flow", bytes, &Settings::default(), OnInvalid::Skip)
    };
    assert_eq!(
        refused(load(&utf16)),
        ["flow: the text is UTF-16 (or has zero bytes); save it as UTF-8"]
    );
    assert_eq!(
        refused(load(b" \n")),
        ["flow: the text is empty; write [] to clear the rules"]
    );
    assert_eq!(
        refused(document("")),
        ["document: the text is empty; write {\"flow\": []} to clear the rules"]
    );
}

#[test]
fn ten_mebibytes_of_nesting_are_an_error() {
    let text = "[".repeat(10 << 20);
    assert_eq!(
        refused(list(&text)),
        ["flow: nested more than 32 deep; a list of rules is [{...}, {...}] (line 1, column 33)"]
    );
}

#[test]
fn dashboard_fields_are_accepted_and_mentioned_once() {
    let entity = |id: u32, resource: &str| {
        format!(
            r#"{{"id": {id}, "app": "shop", "ip": "10.0.0.1", "port": 8719, "limitApp": "default",
                "resource": "{resource}", "grade": 1, "count": 20.0, "strategy": 0, "refResource": null,
                "controlBehavior": 0, "warmUpPeriodSec": null, "maxQueueingTimeMs": null,
                "clusterMode": false, "clusterConfig": null, "gmtCreate": 1, "gmtModified": "x"}}"#
        )
    };
    let text = format!("[{}, {}]", entity(1, "a"), entity(2, "b"));
    let (set, report) = list(&text).unwrap();
    assert_eq!(ids(&set), ["1", "2"]);
    assert_eq!(
        set.table::<Flow>().entries()[0].rule(),
        &FlowRule::qps("a", 20.0)
    );
    assert_eq!(
        warnings(&report),
        [
            "document: fields that decide nothing here were ignored: app, gmtCreate, gmtModified, ip, port"
        ]
    );
}

#[test]
fn cluster_mode_loads_as_local_with_a_warning() {
    let (set, report) = list(
        r#"[{"resource": "a", "count": 1, "clusterMode": true, "clusterConfig": {"flowId": 1}}]"#,
    )
    .unwrap();
    assert_eq!(set.table::<Flow>().len(), 1);
    assert_eq!(
        warnings(&report),
        [
            "flow[0].clusterMode: no cluster here; the rule limits this process alone (line 1, column 47)",
            "document: fields that decide nothing here were ignored: clusterConfig",
        ]
    );
}

#[test]
fn other_unknown_fields_are_errors_with_a_hint() {
    for (field, hint) in [
        (
            "maxQueueTimeMs",
            "unknown field; did you mean `maxQueueingTimeMs`?",
        ),
        (
            "control_behavior",
            "unknown field; did you mean `controlBehavior`?",
        ),
    ] {
        assert_eq!(
            refused(list(&format!(
                r#"[{{"resource": "a", "count": 1, "{field}": 1}}]"#
            ))),
            [format!("flow[0].{field}: {hint} (line 1, column 32)")]
        );
    }
}

#[test]
fn a_missing_kind_stays_and_an_empty_list_clears() {
    let settings = Settings::default();
    let (both, _) = document(
        r#"{"flow": [{"resource": "a", "count": 1}],
            "degrade": [{"resource": "a", "count": 100, "timeWindow": 1}]}"#,
    )
    .unwrap();
    let (cleared, report) = both
        .with_document(r#"{"degrade": []}"#, &settings, OnInvalid::Refuse)
        .unwrap();
    assert_eq!(
        (
            cleared.table::<Flow>().len(),
            cleared.table::<Degrade>().len()
        ),
        (1, 0)
    );
    assert_eq!(
        report.kinds,
        [KindReport {
            kind: "degrade",
            removed: vec!["degrade/a#1".into()],
            ..KindReport::default()
        }]
    );
    let (untouched, report) = both
        .with_document("{}", &settings, OnInvalid::Refuse)
        .unwrap();
    assert_eq!(
        (
            untouched.table::<Flow>().len(),
            untouched.table::<Degrade>().len()
        ),
        (1, 1)
    );
    assert_eq!(report, LoadReport::default());
}

#[test]
fn the_wrong_call_is_an_error_that_names_the_other() {
    for (loaded, message) in [
        (
            list(r#" {"flow": []}"#),
            "flow: an object, not a list; write [...], or load a whole document {\"flow\": [...]} with load_document (line 1, column 2)",
        ),
        (
            list(r#"{"resource": "a"}"#),
            "flow: a single rule, not a list; write it in brackets: [{...}] (line 1, column 1)",
        ),
        (
            document("[]"),
            "document: a list, not an object; write {\"flow\": [...]}, or load the list of one kind with load_json (line 1, column 1)",
        ),
        (
            document(r#"{"flow": null}"#),
            "flow: null is not a list; write [] to clear the rules, or leave flow out (line 1, column 10)",
        ),
        (
            document(r#"{"resource": "a"}"#),
            "resource: a field of a rule, not a kind of rules; write {\"flow\": [{...}]} (line 1, column 2)",
        ),
        (
            RuleSet::default().with_list("flows", "[]", &Settings::default(), OnInvalid::Refuse),
            "flows: unknown kind of rules; did you mean `flow`?",
        ),
    ] {
        assert_eq!(refused(loaded), [message]);
    }
}

#[test]
fn the_id_is_given_or_made_of_kind_resource_and_number() {
    let (set, _) = list(
        r#"[{"resource": "a", "count": 1}, {"resource": "b", "count": 1, "id": 42},
            {"resource": "a", "count": 2, "id": "mine"}, {"resource": "a", "count": 3},
            {"resource": "b", "count": 2, "id": null}, {"resource": "b", "count": 3, "id": ""},
            {"resource": "c", "count": 3, "id": 5.0}]"#,
    )
    .unwrap();
    assert_eq!(
        ids(&set),
        [
            "flow/a#1", "42", "mine", "flow/a#3", "flow/b#2", "flow/b#3", "5"
        ]
    );
    assert_eq!(set.table::<Flow>().by_id("mine").unwrap().rule().count, 2.0);
}

#[test]
fn a_made_up_id_evades_a_given_one() {
    let (set, _) =
        list(r#"[{"resource": "a", "count": 1}, {"resource": "b", "count": 1, "id": "flow/a#1"}]"#)
            .unwrap();
    assert_eq!(ids(&set), ["flow/a#2", "flow/a#1"]);
}

#[test]
fn rules_built_in_code_are_checked_alike_without_a_place() {
    let rules = vec![
        FlowRule::qps("a", 1.0),
        FlowRule::qps("", f64::NAN),
        FlowRule::qps("(", 1.0).regex(),
    ];
    let settings = Settings::default();
    let error = RuleSet::default()
        .with_rules::<Flow>(rules.clone(), &settings, OnInvalid::Refuse)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "flow[1].resource: missing; give the name of the resource that the rule limits\n\
         flow[1].count: NaN is not a finite number; give calls per second or at once\n\
         flow[2].resource: ( is no regular expression (unclosed group); correct it, or leave out regex to take it as a plain name"
    );
    let (set, report) = RuleSet::default()
        .with_rules::<Flow>(rules, &settings, OnInvalid::Skip)
        .unwrap();
    assert_eq!(ids(&set), ["flow/a#1"]);
    assert_eq!(report.kinds[0].skipped, 2);
}

#[test]
fn a_report_reads_as_a_summary() {
    let (set, _) =
        list(r#"[{"resource": "a", "count": 1}, {"resource": "b", "count": 1}]"#).unwrap();
    let (_, report) = set
        .with_list(
            "flow",
            r#"[{"resource": "a", "count": 0.5}, {"resource": "c", "count": -1}]"#,
            &Settings::default(),
            OnInvalid::Skip,
        )
        .unwrap();
    assert_eq!(
        report.to_string(),
        "flow: 1 in force, 0 added, 1 changed, 0 kept, 1 removed, 1 skipped\n\
         skipped:\n\
         flow[1].count: -1 is negative; give calls per second or at once, 0 means none (line 1, column 62)\n\
         warnings:\n\
         flow[0].count: 0.5 per second allows no whole call in 1000 ms, so none can ever pass; \
         for one call each 2 s write accounting tokenBucket, controlBehavior 2 (rateLimiter) or count 1 with statIntervalMs, else give a larger count (line 1, column 29)"
    );
}

#[test]
fn millions_of_faults_are_counted_and_the_first_are_listed() {
    let text = format!("[{}0]", "{},".repeat(300_000));
    let error = list(&text).unwrap_err();
    assert_eq!(error.faults.len(), 10_001);
    assert_eq!(
        error.faults[10_000].to_string(),
        "document: 290001 more are not listed; begin with these"
    );
    assert_eq!(error.to_string().lines().count(), 101);
}

#[test]
fn an_object_of_a_million_keys_is_refused_at_once() {
    let members: Vec<String> = (0..500_000).map(|n| format!("\"k{n}\":0")).collect();
    let object = format!("{{{}}}", members.join(","));
    assert_eq!(
        refused(document(&object)),
        ["document: an object of 500000 fields; at most 64 are read (line 1, column 1)"]
    );
    assert_eq!(
        refused(list(&format!("[{object}]"))),
        ["flow[0]: an object of 500000 fields; at most 64 are read (line 1, column 2)"]
    );
}
