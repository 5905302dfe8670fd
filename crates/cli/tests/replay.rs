//! `flowgate replay` as it is run.

mod common;

use common::{Ran, file, flowgate};
use serde_json::{Value, json};

/// Lines of one client, at these seconds after 10:00:00.
fn log(lines: &[(u32, &str)]) -> String {
    let line = |(second, request): &(u32, &str)| {
        let (minute, second) = (second / 60, second % 60);
        format!("10.0.0.1 - - [17/May/2015:10:{minute:02}:{second:02} +0000] \"{request}\" 200 5\n")
    };
    lines.iter().map(line).collect()
}

/// Replays a log from standard input; the result as JSON.
fn replay(rules: &str, log: impl AsRef<[u8]>, options: &[&str]) -> Value {
    let args = ["replay", "--rules", rules, "--log", "-", "--json"];
    let ran = flowgate(&[&args, options].concat(), log.as_ref());
    assert_eq!((ran.code, &*ran.err), (0, ""));
    serde_json::from_str(&ran.out).expect("the output is JSON")
}

fn rules(name: &str, flow: Value) -> String {
    file(name, json!({ "flow": flow }).to_string())
}

/// Offered, passed, blocked, queued.
fn counts(row: &Value) -> [u64; 4] {
    ["offered", "passed", "blocked", "queued"].map(|field| row[field].as_u64().expect("a count"))
}

#[test]
fn a_window_lets_pass_what_the_rule_says() {
    let rules = rules("reject.json", json!([{"resource": "GET:/a", "count": 2}]));
    // Five in one second, then one each in the next two.
    let lines = [(0, "GET /a?x=1 HTTP/1.1"); 5];
    let lines = [
        &lines[..],
        &[(1, "GET /a HTTP/1.1"), (2, "GET /b HTTP/1.1")],
    ]
    .concat();
    let result = replay(&rules, log(&lines), &[]);
    // They ask at 0, 0.2, ... 0.8 s, and the first two pass; the one at 1 s
    // finds these gone.
    assert_eq!(counts(&result["totals"]), [7, 4, 3, 0]);
    let expected = json!([
        {
            "resource": "GET:/a", "offered": 6, "passed": 3, "blocked": 3, "queued": 0,
            "waitMsMax": 0.0,
            "busiestSecond": {
                "replaySecond": 0, "logTime": "2015-05-17T10:00:00Z", "offered": 5, "passed": 2,
            },
        },
        {
            "resource": "GET:/b", "offered": 1, "passed": 1, "blocked": 0, "queued": 0,
            "waitMsMax": 0.0,
            "busiestSecond": {
                "replaySecond": 2, "logTime": "2015-05-17T10:00:02Z", "offered": 1, "passed": 1,
            },
        },
    ]);
    assert_eq!(result["resources"], expected);
}

#[test]
fn queued_calls_go_ahead_after_their_wait() {
    let queue = json!([{
        "resource": "GET:/a", "count": 2, "controlBehavior": 2, "maxQueueingTimeMs": 1000,
    }]);
    let rules = rules("queue.json", queue);
    // They ask at 0, 250, 500, 750 ms and go ahead at 0, 500, 1000, 1500 ms.
    let result = replay(&rules, log(&[(0, "GET /a HTTP/1.1"); 4]), &[]);
    let row = &result["resources"][0];
    assert_eq!(counts(row), [4, 4, 0, 3]);
    assert_eq!(row["waitMsMax"], json!(750.0));
    // Two of them go ahead in the next second.
    assert_eq!(row["busiestSecond"]["offered"], json!(4));
    assert_eq!(row["busiestSecond"]["passed"], json!(2));
    // One each 125 ms: the fourth, and those from the sixth on, would wait for
    // more than a second.
    let result = replay(&rules, log(&[(0, "GET /a HTTP/1.1"); 8]), &[]);
    assert_eq!(counts(&result["resources"][0]), [8, 4, 4, 3]);
}

#[test]
fn a_call_is_in_flight_for_the_service_time() {
    let two = json!([{"resource": "GET:/a", "grade": 0, "count": 2}]);
    let rules = rules("concurrency.json", two);
    let lines = log(&[(0, "GET /a HTTP/1.1"); 10]);
    // One each 100 ms; each takes 200 ms, so the third comes as the first ends.
    let result = replay(&rules, &lines, &["--service-time-ms", "200"]);
    assert_eq!(counts(&result["totals"]), [10, 10, 0, 0]);
    let result = replay(&rules, &lines, &["--service-time-ms", "201"]);
    assert_eq!(counts(&result["totals"]), [10, 7, 3, 0]);
    let result = replay(&rules, &lines, &["--service-time-ms", "10000"]);
    assert_eq!(counts(&result["totals"]), [10, 2, 8, 0]);
}

#[test]
fn time_can_be_compressed() {
    let rules = rules("speed.json", json!([{"resource": "GET:/a", "count": 2}]));
    let lines: Vec<(u32, &str)> = (0..60).map(|second| (second, "GET /a HTTP/1.1")).collect();
    let at_once = |speed| counts(&replay(&rules, log(&lines), &["--speed", speed])["totals"]);
    assert_eq!(at_once("1"), [60, 60, 0, 0]);
    assert_eq!(at_once("0.5"), [60, 60, 0, 0]);
    // Ten calls in each of six seconds.
    let result = replay(&rules, log(&lines), &["--speed", "10"]);
    assert_eq!(counts(&result["totals"]), [60, 12, 48, 0]);
    let busiest = &result["totals"]["busiestSecond"];
    let expected = json!({
        "replaySecond": 0, "logTime": "2015-05-17T10:00:00Z", "offered": 10, "passed": 2,
    });
    assert_eq!(*busiest, expected);
    for speed in ["0", "-1", "inf", "NaN", "x"] {
        let args = [
            "replay",
            "--rules",
            &rules,
            "--log",
            "-",
            &format!("--speed={speed}"),
        ];
        assert_eq!(flowgate(&args, b"").code, 2, "{speed}");
    }
}

#[test]
fn a_replay_that_would_last_longer_than_time_is_shown_all_the_same() {
    let rules = rules("slow.json", json!([{"resource": "GET:/a", "count": 2}]));
    let lines = log(&[(0, "GET /a HTTP/1.1"), (5, "GET /a HTTP/1.1")]);
    for speed in ["1e-300", "1e300"] {
        let args = ["replay", "--rules", &rules, "--log", "-", "--speed", speed];
        let ran = flowgate(&args, lines.as_bytes());
        assert_eq!((ran.code, &*ran.err), (0, ""), "{speed}");
    }
}

#[test]
fn rules_see_who_calls() {
    let per_client = json!([{"resource": "GET:/a", "limitApp": "10.0.0.1", "count": 1}]);
    let rules = rules("origin.json", per_client);
    let mut lines = log(&[(0, "GET /a HTTP/1.1"); 4]);
    lines.push_str(&lines.replace("10.0.0.1", "10.0.0.2"));
    let result = replay(&rules, &lines, &[]);
    assert_eq!(counts(&result["totals"]), [8, 5, 3, 0]);
}

#[test]
fn lines_out_of_order_are_counted_and_sorted() {
    let rules = rules("order.json", json!([{"resource": "GET:/a", "count": 1}]));
    let a = "GET /a HTTP/1.1";
    // In the order of the file the second would come when the window is full.
    let result = replay(&rules, log(&[(3, a), (0, a), (5, a), (1, a), (1, a)]), &[]);
    assert_eq!(result["log"]["outOfOrder"], json!(2));
    assert_eq!(result["log"]["first"], json!("2015-05-17T10:00:00Z"));
    assert_eq!(result["log"]["last"], json!("2015-05-17T10:00:05Z"));
    assert_eq!(counts(&result["totals"]), [5, 4, 1, 0]);
}

#[test]
fn malformed_lines_are_counted_and_shown_and_never_fatal() {
    let rules = rules("malformed.json", json!([]));
    let mut text = b"nonsense\n\n".to_vec();
    text.extend(log(&[(0, "GET /a HTTP/1.1")]).bytes());
    text.extend(b"\xff\xfe\x00\n10.0.0.1 - - [yesterday] \"GET / HTTP/1.1\" 200 1\n");
    text.extend(log(&[(0, "-"), (0, "\x1b[31m"), (1, "-"), (1, "-")]).bytes());
    text.extend(log(&[(0, "GET /\u{1b}[2J HTTP/1.1")]).bytes());
    let ran = flowgate(&["replay", "--rules", &rules, "--log", "-"], &text);
    assert_eq!(ran.code, 0);
    let expected = "\
<stdin>:1: no time in brackets after the client, as in `client - - [time] \"GET / HTTP/1.1\"`
<stdin>:4: no time in brackets after the client, as in `client - - [time] \"GET / HTTP/1.1\"`
<stdin>:5: `yesterday` is no time like 17/May/2015:10:05:03 +0000
<stdin>:6: `-` is no request like GET /path HTTP/1.1
<stdin>:7: `\\u{1b}[31m` is no request like GET /path HTTP/1.1
<stdin>: 2 more lines are no requests
";
    assert_eq!(ran.err, expected);
    let expected = "\
<stdin>: 9 lines, 2 requests, 7 malformed, 0 out of order
2015-05-17T10:00:00Z to 2015-05-17T10:00:00Z (0.0s)

                                                ---------- busiest second -----------
offered  passed  blocked  queued  longest wait                    at  offered  passed  resource
      1       1        0       0             -  2015-05-17T10:00:00Z        1       1  GET:/\\u{1b}[2J
      1       1        0       0             -  2015-05-17T10:00:00Z        1       1  GET:/a
      2       2        0       0             -  2015-05-17T10:00:00Z        2       2  total of 2 resources
";
    assert_eq!(ran.out, expected);
}

#[test]
fn a_log_may_be_empty() {
    let rules = rules("empty.json", json!([{"resource": "a", "count": 1}]));
    let result = replay(&rules, b"", &[]);
    assert_eq!(counts(&result["totals"]), [0, 0, 0, 0]);
    let ran = flowgate(&["replay", "--rules", &rules, "--log", "-"], b"");
    assert!(
        ran.out.contains("<stdin>: 0 lines, 0 requests"),
        "{}",
        ran.out
    );
}

#[test]
fn faulty_rules_are_shown_before_the_log_is_read() {
    let args = [
        "replay",
        "--rules",
        "testdata/rules/faulty.json",
        "--log",
        "no/such/log",
    ];
    let Ran { code, out, err } = flowgate(&args, b"");
    assert_eq!((code, &*out), (1, ""));
    assert!(err.contains("faulty.json:4:86"), "{err}");
    let args = [
        "replay",
        "--rules",
        "testdata/rules/access_log.json",
        "--log",
        "no/such/log",
    ];
    assert_eq!(flowgate(&args, b"").code, 2);
    assert_eq!(
        flowgate(&["replay", "--rules", "-", "--log", "-"], b"").code,
        2
    );
}

#[test]
fn resources_may_be_paths_or_methods() {
    let rules = rules("names.json", json!([{"resource": "/a", "count": 1}]));
    let lines = log(&[
        (0, "GET /a HTTP/1.1"),
        (0, "POST /a HTTP/1.1"),
        (0, "GET /b HTTP/1.1"),
    ]);
    let names = |resource| {
        let result = replay(&rules, &lines, &["--resource", resource]);
        let rows = result["resources"].as_array().expect("a list").iter();
        let name = |row: &Value| format!("{} {}", row["resource"].as_str().unwrap(), row["passed"]);
        rows.map(name).collect::<Vec<_>>()
    };
    assert_eq!(names("method-path"), ["GET:/a 1", "GET:/b 1", "POST:/a 1"]);
    assert_eq!(names("path"), ["/a 1", "/b 1"]);
    assert_eq!(names("method"), ["GET 2", "POST 1"]);
}

#[test]
fn the_real_log_gives_the_same_figures_each_time() {
    let args = [
        "replay",
        "--rules",
        "testdata/rules/access_log.json",
        "--log",
        "testdata/access_10k.log",
        "--speed",
        "2000",
        "--top",
        "3",
    ];
    let ran = flowgate(&args, b"");
    assert_eq!((ran.code, &*ran.err), (0, ""));
    // The figures of GET:/favicon.ico and GET:/ were found by another program.
    let expected = "\
testdata/access_10k.log: 10000 lines, 10000 requests, 0 malformed, 4915 out of order
2015-05-17T10:05:00Z to 2015-05-20T21:05:59Z (3d 11h), 2000 times as fast (2m 29s)

                                                ---------- busiest second -----------
offered  passed  blocked  queued  longest wait                    at  offered  passed  resource
    799     799        0       0             -  2015-05-20T03:05:00Z       19      19  GET:/favicon.ico
    572     572        0     489      774.0 ms  2015-05-18T11:05:00Z       17      17  GET:/
    546     546        0       0             -  2015-05-18T16:38:20Z       14      14  GET:/style2.css
  10000    9761      239     489      774.0 ms  2015-05-19T18:45:00Z      136     128  total of 1387 resources
";
    assert_eq!(ran.out, expected);
    assert_eq!(flowgate(&args, b"").out, expected);
}
