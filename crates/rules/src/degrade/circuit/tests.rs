//! Tests that look into a circuit.

use std::time::Duration;

use super::*;

/// It opens at the very result that is too much, though most are in a word that
/// is full by then.
#[test]
fn a_box_goes_on_counting_when_its_word_is_full() {
    let second = Duration::from_secs(1);
    let bad = (1 << 22) - 2;
    let circuit = Circuit::new(Limits {
        span: Span::Time {
            interval: second,
            boxes: 1,
        },
        threshold: Threshold::Number((bad + 3) as f64),
        results_min: 1,
        back_off: BackOff {
            base: second,
            multiplier: 1.0,
            max: second,
            jitter: 0.0,
            seed: 0,
        },
        probing: Probing {
            probes: 1,
            needed: 1,
            timeout: second,
        },
        forced: None,
    });
    let now = Timestamp::from_millis(5_100);
    let call = circuit.admit(now, |_| {}).expect("it is closed");
    circuit.report(call, true, now, |_| {});
    let tumbling = circuit.tumbling.as_ref().expect("it is a single box");
    tumbling.fill(Results { total: bad, bad });
    for more in 1..=4 {
        assert_eq!(circuit.state(), CircuitState::Closed, "{more}");
        circuit.report(call, true, now, |_| {});
        let Results { total, .. } = circuit.figures(now).results;
        assert!(more == 4 || total == bad + more, "{total}");
    }
    assert_eq!(circuit.state(), CircuitState::Open);
}
