//! The two programs: `coppice` becomes the one that opens the window, or says why it cannot.
#![allow(clippy::disallowed_methods, reason = "tests start the programs")]

use crate::support::{Place, Ran, until};
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

const WINDOW: &str = env!("CARGO_BIN_EXE_coppice-window");

/// A folder that holds `coppice` and nothing else.
fn installed() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let coppice = dir.path().join("coppice");
    copy(Path::new(env!("CARGO_BIN_EXE_coppice")), &coppice);
    (dir, coppice)
}

/// Copies a program by another process: what this one has just written, the children of other tests may still hold
/// open, and then it cannot be started.
fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-p").args([from, to]).status().unwrap().success());
}

/// Puts a program for the window beside `coppice`.
fn put_window(coppice: &Path, script: &str, mode: u32) -> PathBuf {
    let window = coppice.with_file_name("coppice-window");
    let written = window.with_extension("new");
    std::fs::write(&written, script).unwrap();
    std::fs::set_permissions(&written, std::fs::Permissions::from_mode(mode)).unwrap();
    copy(&written, &window);
    window
}

/// Runs a program to its end. One that does not end by itself is ended, and fails the test.
fn run(program: &Path, args: &[&str]) -> Ran {
    let place = Place::new(json!({}));
    let mut child = place
        .at_home(Command::new(program))
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        until("the program ends", || child.try_wait().unwrap());
    }));
    if ended.is_err() {
        child.kill().unwrap();
    }
    let output = child.wait_with_output().unwrap();
    ended.unwrap_or_else(|_| panic!("it does not end by itself: {output:?}"));
    output.into()
}

fn lost(window: &Path, why: &str) -> (Option<i32>, String, String) {
    let told = format!(
        "The window could not be opened: {} cannot be started ({why}). Install Coppice again to have it; `coppice run` \
         works in the terminal.\n",
        window.display()
    );
    (Some(1), String::new(), told)
}

fn parts(ran: Ran) -> (Option<i32>, String, String) {
    (ran.code, ran.out, ran.err)
}

#[test]
fn a_window_that_is_not_installed_or_cannot_be_started_is_told_and_fails() {
    let (_dir, coppice) = installed();
    let window = coppice.with_file_name("coppice-window");
    assert_eq!(parts(run(&coppice, &[])), lost(&window, "No such file or directory (os error 2)"));
    put_window(&coppice, "", 0o644);
    assert_eq!(parts(run(&coppice, &[])), lost(&window, "Permission denied (os error 13)"));
}

#[test]
fn a_terminal_program_in_the_place_of_the_window_is_not_started_over_and_over() {
    let why = "it is the program for the terminal";
    let (_dir, coppice) = installed();
    let window = coppice.with_file_name("coppice-window");
    std::os::unix::fs::symlink(&coppice, &window).unwrap();
    assert_eq!(parts(run(&coppice, &[])), lost(&window, why));
    std::fs::remove_file(&window).unwrap();
    copy(&coppice, &window);
    assert_eq!(parts(run(&coppice, &[])), lost(&window, why));
}

#[test]
fn the_window_gets_the_arguments_and_answers_how_the_program_ends() {
    let (dir, coppice) = installed();
    put_window(&coppice, "#!/bin/sh\nprintf '%s|' \"$@\"\nexit 7\n", 0o755);
    let data = dir.path().join("a folder");
    let ran = run(&coppice, &["--data", data.to_str().unwrap(), "--log", "error"]);
    assert_eq!(parts(ran), (Some(7), format!("--data|{}|--log|error|", data.display()), String::new()));
}

#[test]
fn the_program_for_the_window_offers_and_takes_only_what_it_does() {
    let help = run(Path::new(WINDOW), &["--help"]);
    assert_eq!((help.code, help.err.as_str()), (Some(0), ""));
    assert!(help.out.contains("Usage: coppice-window [OPTIONS]\n") && !help.out.contains("Commands:"), "{}", help.out);
    assert!(help.out.contains("--data <DIR>") && help.out.contains("--config <FILE>"), "{}", help.out);
    for args in [&["run", "x"][..], &["doctor"], &["--frob"]] {
        let ran = run(Path::new(WINDOW), args);
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{args:?}");
        assert!(ran.err.starts_with("error: unexpected argument"), "{}", ran.err);
    }
}
