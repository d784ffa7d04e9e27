//! `coppice`: does in the terminal what was asked there, or becomes the window's program.

use coppice_host::cli::{self, Asked, LINGER, Out};
use std::io;
use std::process::{Command, ExitCode};
use tokio::runtime::Runtime;

/// The program that opens the window; it stands beside this one.
const WINDOW: &str = if cfg!(windows) { "coppice-window.exe" } else { "coppice-window" };

fn main() -> ExitCode {
    let terminal = match cli::parse() {
        Ok(Asked::Terminal(terminal)) => terminal,
        Ok(Asked::Window(_)) => return window(),
        Err(code) => return code,
    };
    let runtime = match Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return told(&format!("Coppice could not start its threads ({error}).")),
    };
    let code = runtime.block_on(terminal.run());
    runtime.shutdown_timeout(LINGER);
    code
}

/// Opens the window, with the same arguments and in the place of this process.
fn window() -> ExitCode {
    let program = match std::env::current_exe() {
        Ok(here) => here.with_file_name(WINDOW),
        Err(error) => return told(&format!("Coppice cannot tell where its programs are ({error}).")),
    };
    #[expect(clippy::disallowed_methods, reason = "this process becomes the window; it is nobody's command")]
    let mut window = Command::new(&program);
    window.args(std::env::args_os().skip(1));
    match put_in_place(&mut window) {
        Ok(code) => code,
        Err(error) => told(&format!(
            "The window could not be opened: {} cannot be started ({error}). Install Coppice again to have it; \
             `coppice run` works in the terminal.",
            program.display()
        )),
    }
}

#[cfg(unix)]
fn put_in_place(window: &mut Command) -> io::Result<ExitCode> {
    // It comes back only when it failed.
    Err(std::os::unix::process::CommandExt::exec(window))
}

#[cfg(not(unix))]
fn put_in_place(window: &mut Command) -> io::Result<ExitCode> {
    Ok(if window.status()?.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn told(message: &str) -> ExitCode {
    // Nobody is left to tell it to when standard error is gone too.
    let _ = Out::stderr().line(&coppice_host::text::plain(message));
    ExitCode::FAILURE
}
