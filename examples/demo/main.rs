//! A small service under real traffic, guarded by rules that are swapped while
//! it runs: first calls beyond the limit are refused, then the limit warms up,
//! then calls queue for it.
//!
//! `cargo run --release --example demo` takes 15 seconds. On a terminal it
//! draws what passes, what is blocked and how long calls wait; into a pipe or
//! a file it writes a line for each second.
//!
//! ```text
//! main      sets up, and ends
//! traffic   the requests of testdata/access_10k.log, 20,000 times as fast
//! service   what is guarded: some milliseconds of work for each request
//! board     what became of the calls: by time, by phase, by part of the site
//! lines     the board as lines
//! plot      the board as a plot
//! ```

mod board;
mod lines;
mod plot;
mod service;
mod traffic;

use std::error::Error;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::Arc;

use flowgate::Engine;

use board::Board;
use service::Service;
use traffic::Traffic;

/// What the service is guarded by, one after the other.
const PHASES: [Phase; 3] = [
    Phase {
        name: "reject",
        rules: "reject.json",
    },
    Phase {
        name: "warm-up",
        rules: "warm_up.json",
    },
    Phase {
        name: "queueing",
        rules: "queueing.json",
    },
];

/// How long each lasts.
const PHASE_SECONDS: usize = 5;

const SECONDS: usize = PHASES.len() * PHASE_SECONDS;

/// A third of the run.
struct Phase {
    name: &'static str,
    /// A file in `testdata/rules/demo`.
    rules: &'static str,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let testdata = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata"));
    let traffic = Traffic::read(&testdata.join("access_10k.log"))?;
    let mut documents = Vec::new();
    for phase in &PHASES {
        let path = testdata.join("rules/demo").join(phase.rules);
        documents.push(std::fs::read_to_string(path)?);
    }

    let engine = Engine::new();
    engine.load_document(&documents[0])?;
    let limit = engine.flow_rules().entries()[0].rule().count;
    let start = service::next_whole_second(&engine).await;
    let board = Arc::new(Board::new(start, traffic.sections()));
    let service = Service::new(&engine, Arc::clone(&board));

    let view = tokio::task::spawn_blocking({
        let board = Arc::clone(&board);
        move || {
            let shown = match io::stdout().is_terminal() {
                true => plot::show(&board, limit),
                false => lines::show(&board),
            };
            // Nobody sees what would come now.
            shown.inspect_err(|_| board.close())
        }
    });
    let swap = |phase: usize| engine.load_document(&documents[phase]).map(drop);
    tokio::select! {
        fed = traffic.feed(&service, swap) => fed?,
        _ = tokio::signal::ctrl_c() => {}
        // The plot was closed: a terminal in raw mode sends no signal.
        _ = board.closed() => {}
    }
    board.close();
    view.await??;
    lines::summary(&board)?;
    Ok(())
}
