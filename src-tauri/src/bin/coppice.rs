//! `coppice`: does in the terminal what was asked there, or becomes the window's program.

use coppice_host::cli::{self, Asked, LINGER, told};
use std::fmt::Display;
use std::io;
use std::process::{Command, ExitCode};

/// The program that opens the window; it stands beside this one.
const WINDOW: &str = if cfg!(windows) { "coppice-window.exe" } else { "coppice-window" };

fn main() -> ExitCode {
    let terminal = match cli::parse() {
        Ok(Asked::Terminal(terminal)) => terminal,
        Ok(Asked::Window(_)) => return window(),
        Err(code) => return code,
    };
    let runtime = match cli::threads() {
        Ok(runtime) => runtime,
        Err(code) => return code,
    };
    let code = runtime.block_on(terminal.run());
    runtime.shutdown_timeout(LINGER);
    code
}

/// Opens the window, with the same arguments and in the place of this process.
fn window() -> ExitCode {
    let here = match std::env::current_exe() {
        Ok(here) => here,
        Err(error) => return told(&format!("Coppice cannot tell where its programs are ({error}).")),
    };
    let program = here.with_file_name(WINDOW);
    let lost = |why: &dyn Display| {
        told(&format!(
            "The window could not be opened: {} cannot be started ({why}). Install Coppice again to have it; \
             `coppice run` works in the terminal.",
            program.display()
        ))
    };
    // By whatever name it was called: it would start itself without end.
    if let (Ok(itself), Ok(other)) = (here.canonicalize(), program.canonicalize())
        && itself == other
    {
        return lost(&"it is the program for the terminal");
    }
    #[expect(clippy::disallowed_methods, reason = "this process becomes the window; it is nobody's command")]
    let mut window = Command::new(&program);
    window.args(std::env::args_os().skip(1));
    match put_in_place(&mut window) {
        Ok(code) => code,
        Err(error) => lost(&error),
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
