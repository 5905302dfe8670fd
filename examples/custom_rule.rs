//! A kind of rules of your own: `minimumGap` keeps a resource's calls apart.
//!
//! ```json
//! {"minimumGap": [{"resource": "mail", "gapMs": 200}]}
//! ```
//!
//! All it takes is a rule, what the rule remembers, how it is read, and how it
//! decides. Errors with places, ids, patterns, the default rule `*`, observed
//! rules, counters and reloads come with it.
//!
//! `cargo run --example custom_rule`

#![expect(clippy::print_stdout, reason = "this program talks to people")]

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use flowgate::{
    BlockKind, BuiltIn, Call, Clock, Decide, Decision, Engine, FieldKind, FieldSpec, Fields, Head,
    InForce, ManualClock, Measure, Position, RuleKind, Settings,
};
use serde::Serialize;

/// The kind.
#[derive(Debug)]
struct MinimumGap;

/// What a rule says. Two rules are equal if they say the same, which `Head`
/// (id, resource, mode) sees to for its part: then the state lives through a
/// reload.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
struct GapRule {
    #[serde(flatten)]
    head: Head,
    gap_ms: u32,
}

/// What a rule remembers of one resource.
#[derive(Debug, Default)]
struct NextCall {
    /// From when on a call may come, in nanoseconds.
    at_ns: AtomicU64,
}

impl RuleKind for MinimumGap {
    const NAME: &'static str = "minimumGap";
    const ABOUT: &'static str = "keeps the calls of a resource apart";
    type Rule = GapRule;
    type State = NextCall;

    fn fields() -> &'static [FieldSpec] {
        const FIELDS: &[FieldSpec] = &[FieldSpec::new(
            "gapMs",
            FieldKind::Whole,
            "the least time from one call to the next",
        )
        .advice("give milliseconds, at least 1")
        .required()
        .min(1)];
        FIELDS
    }

    fn parse(head: Head, fields: &mut Fields<'_>) -> GapRule {
        GapRule {
            head,
            gap_ms: fields.u32("gapMs", true).unwrap_or_default(),
        }
    }

    /// What goes beyond the description of the fields: nothing.
    fn validate(_: &GapRule, _: &Settings, _: &mut Fields<'_>) {}

    fn head(rule: &GapRule) -> &Head {
        &rule.head
    }

    fn new_state(_: &GapRule, _: &Settings) -> NextCall {
        NextCall::default()
    }
}

impl Decide for MinimumGap {
    const BLOCK: BlockKind = BlockKind::Custom("minimumGap");
    const HEARS_EXITS: bool = false;

    fn decide(rule: &InForce<Self>, call: &mut Call<'_>) -> Decision {
        let gap = Duration::from_millis(u64::from(rule.rule().gap_ms));
        let (now_ns, gap_ns) = (call.now.as_nanos(), gap.as_nanos() as u64);
        let next_ns = now_ns.saturating_add(gap_ns);
        // One atomic step: two calls at once cannot both find the gap.
        let taken = rule
            .state
            .at_ns
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |at_ns| {
                (now_ns >= at_ns).then_some(next_ns)
            });
        match taken {
            Ok(before) => {
                rule.leave_ticket(call, [before, next_ns, 0]);
                Decision::Pass
            }
            Err(at_ns) => {
                let wait = Duration::from_nanos(at_ns - now_ns);
                let passed = gap.saturating_sub(wait);
                let ms = |span: Duration| span.as_secs_f64() * 1e3;
                let block = rule.block(Measure::Other, ms(gap), ms(passed));
                Decision::Block(block.retry_after_at(Some(wait)))
            }
        }
    }

    /// A later rule refused: the call was none, unless another came since.
    fn undo(rule: &InForce<Self>, [before, mine, _]: [u64; 3], _: &Call<'_>) {
        let _ =
            rule.state
                .at_ns
                .compare_exchange(mine, before, Ordering::Relaxed, Ordering::Relaxed);
    }
}

fn engine(time: &ManualClock) -> Engine {
    Engine::builder()
        .clock(Clock::manual(time.clone()))
        .kind::<MinimumGap>(Position::After(BuiltIn::Flow))
        .build()
}

fn main() -> Result<(), Box<dyn Error>> {
    // On a clock that this program sets, so that it says the same every time.
    let time = ManualClock::default();
    let engine = engine(&time);
    let report = engine.load_document(
        r#"{
          "flow": [{"resource": "mail", "count": 100}],
          "minimumGap": [{"resource": "mail", "gapMs": 200, "id": "breathe"}]
        }"#,
    )?;
    println!("{report}");

    for _ in 0..6 {
        match engine.entry("mail") {
            Ok(entry) => {
                println!("{:>4} ms  sent", time.now().as_millis());
                entry.exit();
            }
            Err(block) => println!("{:>4} ms  {block}", time.now().as_millis()),
        }
        time.advance(Duration::from_millis(80));
    }

    let faulty = engine.load_json("minimumGap", r#"[{"resource": "mail", "gapMs": 0}]"#);
    if let Err(error) = faulty {
        println!("a faulty rule is told, and the old one stays in force:\n  {error}");
    }
    for rule in engine.rules() {
        println!("{} {}: {:?}", rule.kind, rule.id, rule.hits);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAIL: &str = r#"{"minimumGap": [{"resource": "mail", "gapMs": 200}]}"#;

    #[test]
    fn calls_are_kept_apart() {
        let time = ManualClock::default();
        let engine = engine(&time);
        engine.load_document(MAIL).unwrap();

        assert!(engine.entry("mail").is_ok());
        time.advance(Duration::from_millis(199));
        let block = engine.entry("mail").unwrap_err();
        assert_eq!(block.kind(), BlockKind::Custom("minimumGap"));
        assert_eq!(block.rule().as_str(), "minimumGap/mail#1");
        assert_eq!(block.retry_after(), Some(Duration::from_millis(1)));
        time.advance(Duration::from_millis(1));
        assert!(engine.entry("mail").is_ok());
        assert!(engine.entry("orders").is_ok(), "no rule is for it");
    }

    #[test]
    fn a_call_that_a_later_rule_refuses_leaves_no_gap() {
        let time = ManualClock::default();
        let engine = Engine::builder()
            .clock(Clock::manual(time.clone()))
            .kind::<MinimumGap>(Position::First)
            .build();
        engine
            .load_document(
                r#"{"flow": [{"resource": "mail", "count": 0, "id": "shut"}],
                    "minimumGap": [{"resource": "mail", "gapMs": 200}]}"#,
            )
            .unwrap();
        assert_eq!(engine.entry("mail").unwrap_err().rule().as_str(), "shut");
        engine.load_json("flow", "[]").unwrap();
        assert!(engine.entry("mail").is_ok());
    }

    #[test]
    fn what_all_kinds_have_comes_with_it() {
        let time = ManualClock::default();
        let engine = engine(&time);
        engine
            .load_json(
                "minimumGap",
                r#"[{"resource": "mail/*", "match": "glob", "gapMs": 200},
                    {"resource": "*", "gapMs": 1000, "mode": "observe", "id": "others"}]"#,
            )
            .unwrap();
        assert!(engine.entry("mail/a").is_ok());
        assert!(engine.entry("mail/a").is_err());
        assert!(engine.entry("mail/b").is_ok(), "each for itself");
        assert!(engine.entry("x").is_ok());
        assert!(engine.entry("x").is_ok(), "only observed");
        let hits = engine.rules()[1].hits;
        assert_eq!((hits.passed, hits.blocked, hits.would_block), (1, 0, 1));
    }

    #[test]
    fn its_state_lives_through_a_reload_of_the_same_rule() {
        let time = ManualClock::default();
        let engine = engine(&time);
        engine.load_document(MAIL).unwrap();
        assert!(engine.entry("mail").is_ok());
        engine.load_document(MAIL).unwrap();
        assert!(engine.entry("mail").is_err());
    }

    #[test]
    fn a_faulty_rule_is_refused_with_its_place() {
        let engine = engine(&ManualClock::default());
        let told = |text: &str| {
            engine
                .load_json("minimumGap", text)
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            told(r#"[{"resource": "mail", "gapMs": -1}]"#),
            "minimumGap[0].gapMs: -1 is negative; give milliseconds, at least 1 (line 1, column 32)"
        );
        assert_eq!(
            told(r#"[{"resource": "mail", "gapMs": 0}]"#),
            "minimumGap[0].gapMs: 0 is below 1; give milliseconds, at least 1 (line 1, column 32)"
        );
        assert_eq!(
            told(r#"[{"resource": "mail"}]"#),
            "minimumGap[0].gapMs: missing; give milliseconds, at least 1 (line 1, column 2)"
        );
        assert_eq!(
            told(r#"[{"resource": "mail", "gpaMs": 5, "gapMs": 5}]"#),
            "minimumGap[0].gpaMs: unknown field; did you mean `gapMs`? (line 1, column 23)"
        );
    }
}
