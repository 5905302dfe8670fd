//! Replays every trace below the given files and folders.
//!
//! ```text
//! cargo run --release -q -p flowgate-testkit --bin conformance -- PATH…
//! ```
//!
//! Prints a line for each trace that fails, with its first step that differs,
//! and ends with `N passed, N failed`. Exit code 1 if any failed, 2 if there
//! was nothing to do.

#![expect(clippy::print_stdout, reason = "this program's output is its purpose")]

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let paths: Vec<_> = std::env::args_os().skip(1).collect();
    if paths.is_empty() {
        eprintln!("usage: conformance PATH…   (files, or folders of trace files)");
        return ExitCode::from(2);
    }
    let (mut passed, mut failed) = (0, 0);
    for path in &paths {
        let path = Path::new(path);
        let traces = match flowgate_testkit::traces_below(path) {
            Ok(traces) => traces,
            Err(error) => {
                println!("{}: {error}", path.display());
                failed += 1;
                continue;
            }
        };
        for trace in traces {
            match flowgate_testkit::replay_file(&trace) {
                Ok(()) => passed += 1,
                Err(failure) => {
                    println!("{}: {failure}", trace.display());
                    failed += 1;
                }
            }
        }
    }
    if passed + failed == 0 {
        eprintln!("no trace files there");
        return ExitCode::from(2);
    }
    println!("{passed} passed, {failed} failed");
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
