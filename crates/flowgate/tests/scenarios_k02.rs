//! Reported bugs of peers, kind K02: window boundaries. Those that need no
//! engine (b018, b021, b024, b025) are tests of the core.

mod common;

use common::{at, built, ms};
use flowgate::Engine;

// https://github.com/tower-rs/tower/issues/842. Waiting for a window is what
// prioritized calls do; with ten boxes the window slides by 100 ms.
#[test]
fn b020_a_waiting_call_is_released_when_the_sliding_window_has_room() {
    let builder = Engine::builder()
        .second_view(10, ms(1_000))
        .borrow_wait_max(ms(1_000));
    let (engine, time) = built(builder);
    engine
        .load_json("flow", r#"[{"resource": "r", "count": 3}]"#)
        .unwrap();
    let r = engine.resource("r");
    at(&time, 900);
    assert_eq!(common::passed(&r, 3), 3);
    at(&time, 1_100);
    let waits: Vec<_> = (0..4)
        .map(|_| {
            let pending = r.request().prioritized().reserve().ok()?;
            let wait = pending.wait();
            pending.begin().exit();
            Some(wait)
        })
        .collect();
    // At 1.9 s, not at 2.0 s and not before; the next three then fill a second.
    assert_eq!(waits, [Some(ms(800)), Some(ms(800)), Some(ms(800)), None]);
    at(&time, 1_900);
    assert!(r.try_entry().is_err());
    at(&time, 2_899);
    assert!(r.try_entry().is_err());
    at(&time, 2_900);
    assert_eq!(common::passed(&r, 5), 3);
}
