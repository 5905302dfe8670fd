//! The first five minutes: rules from JSON, an entry around a piece of work,
//! and what a refusal says.
//!
//! `cargo run --example hello`

#![expect(clippy::print_stdout, reason = "this program talks to people")]

use flowgate::{Engine, RuleError};

fn main() -> Result<(), RuleError> {
    let engine = Engine::new();
    engine.load_document(r#"{"flow": [{"resource": "greet", "count": 3}]}"#)?;

    for name in ["Ada", "Grace", "Edsger", "Barbara", "Tony"] {
        match engine.entry("greet") {
            Ok(entry) => {
                println!("hello, {name}");
                entry.exit();
            }
            Err(block) => println!("{name}, another time: {block}"),
        }
    }
    Ok(())
}
