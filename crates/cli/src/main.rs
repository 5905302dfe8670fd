//! The command `flowgate`.

use std::process::ExitCode;

fn main() -> ExitCode {
    flowgate_cli::main()
}
