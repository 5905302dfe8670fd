//! The recorded decisions in `testdata/traces` are Flowgate's decisions.

use std::path::{Path, PathBuf};

/// All areas; `ideal` holds what is right where the reference is not.
const AREAS: [&str; 7] = [
    "leap_array",
    "flow",
    "degrade",
    "param_flow",
    "authority",
    "mixed",
    "ideal",
];

fn traces() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/traces")
}

#[test]
fn recorded_decisions_are_matched_step_by_step() {
    for area in AREAS {
        let files = flowgate_testkit::traces_below(&traces().join(area)).unwrap();
        assert!(!files.is_empty(), "no traces in {area}");
        for file in files {
            if let Err(failure) = flowgate_testkit::replay_file(&file) {
                panic!("{}: {failure}", file.display());
            }
        }
    }
}

#[test]
fn a_trace_that_differs_or_is_not_understood_fails() {
    let file = traces().join("flow/reject/qps_2.json");
    let right = std::fs::read_to_string(file).unwrap();
    let dir = std::env::temp_dir().join(format!("flowgate-traces-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let wrong = [
        (
            "other_result",
            right.replacen(r#""result":"pass""#, r#""result":"block""#, 1),
        ),
        (
            "other_figure",
            right.replacen(r#""total_pass":2"#, r#""total_pass":3"#, 1),
        ),
        (
            "unknown_op",
            right.replacen(r#""op":"entry""#, r#""op":"enter""#, 1),
        ),
        (
            "unknown_field",
            right.replacen(r#""op":"entry""#, r#""op":"entry","x":1"#, 1),
        ),
        (
            "unknown_setting",
            right.replacen(r#""rules":"#, r#""settings":{"x":1},"rules":"#, 1),
        ),
        ("no_json", "{".to_owned()),
    ];
    for (name, text) in wrong {
        assert_ne!(text, right, "{name} changes nothing");
        let file = dir.join(format!("{name}.json"));
        std::fs::write(&file, text).unwrap();
        assert!(
            flowgate_testkit::replay_file(&file).is_err(),
            "{name} passed"
        );
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_figure_is_compared_as_the_double_that_the_trace_writes() {
    // 55 passes in 600 ms: a parser that is off by one last place finds another.
    let text = r#"{"case": "x", "settings": {"second_interval_ms": 600},
        "rules": {"flow": []}, "steps": [
        {"t": 0, "op": "burst", "resource": "r", "n": 55, "expect": {"pass": 55, "block": 0}},
        {"t": 1, "op": "stat", "resource": "r", "expect": {"pass_qps": 91.66666666666667,
         "success_qps": 91.66666666666667, "min_rt": 1, "total_pass": 55, "total_success": 55,
         "total_request": 55}}]}"#;
    let file = std::env::temp_dir().join(format!("flowgate-double-{}.json", std::process::id()));
    std::fs::write(&file, text).unwrap();
    let replayed = flowgate_testkit::replay_file(&file).map_err(|failure| failure.to_string());
    std::fs::remove_file(&file).unwrap();
    assert_eq!(replayed, Ok(()));
}
