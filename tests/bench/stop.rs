//! From the stop of a background command with 50 processes to the proof that all are gone.

use crate::measure::{Line, Process, Sample, ms};
use crate::support::{PATIENCE, Place, until};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::json;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Instant;

const ROUNDS: usize = 10;
/// The processes of one tree, the shell included.
const PROCESSES: usize = 50;
/// A time that nothing else sleeps for.
const NAP: &str = "86417.5";

pub fn run() {
    let command = format!("for n in $(seq {}); do sleep {NAP} & done; wait", PROCESSES - 1);
    let call = json!({ "call": { "tool": "bash", "args": {
        "command": command, "description": "fifty", "run_in_background": true,
    } } });
    let place = Place::new(json!({ "sessions": { "root": { "steps": [[call], [{ "say": "It runs." }]] } } }));
    let mut rpc = place.rpc();
    let mut reference = Vec::new();
    let here = Sample::of(ROUNDS, |round| {
        reference.push(killed(&command));

        let key = |what: &str| format!("{what} {round}");
        let opened = rpc.call("open", json!({ "cwd": place.work(), "mode": "full", "key": key("open") }));
        let session = opened["session"].clone();
        rpc.call("prompt", json!({ "session": session, "text": "Run fifty.", "key": key("prompt") }));
        until("all run", || (sleepers().len() == PROCESSES - 1).then_some(()));
        let tasks = rpc.call("tasks", json!({ "owner": session }));
        let stop = json!({ "what": "task", "id": tasks["tasks"][0]["id"], "key": key("stop") });
        let began = Instant::now();
        let receipt = rpc.call("stop", stop);
        let took = ms(began);
        assert_eq!(sleepers(), [0; 0], "the receipt came too early: {receipt}");
        let seen = receipt["processes"].as_array().unwrap();
        let gone = seen.iter().filter(|process| process["gone"] == true).count();
        assert!(gone >= PROCESSES && gone == seen.len(), "{receipt}");
        rpc.rest(session.as_str().unwrap());
        took
    });
    let there = Sample::from_iter(reference);
    for (what, here, there) in [
        ("stop of 50 processes, to the proof, p50", here.median(), there.median()),
        ("stop of 50 processes, to the proof, p95", here.p95(), there.p95()),
    ] {
        let reference = "kill -9 of a bare process group of 50, until none is left";
        Line { what, unit: "ms", here, there, reference, rounds: ROUNDS }.print();
    }
}

/// How long a bare group lives after it was killed.
fn killed(command: &str) -> f64 {
    let mut child = Command::new("bash").args(["-c", command]).process_group(0).spawn().unwrap();
    let pids = until("all run", || {
        let pids = sleepers();
        (pids.len() == PROCESSES - 1).then_some(pids)
    });
    let began = Instant::now();
    kill_process_group(Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
    while pids.iter().any(|pid| Process::find(*pid).is_some_and(|process| !process.ended)) {
        assert!(began.elapsed() < PATIENCE, "they do not go");
        std::thread::yield_now();
    }
    ms(began)
}

/// The processes that sleep for that time.
fn sleepers() -> Vec<u32> {
    let sleeps = |pid: u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line == format!("sleep\0{NAP}\0").into_bytes()
    };
    let all = Process::all().into_iter();
    all.filter(|process| !process.ended && sleeps(process.pid)).map(|process| process.pid).collect()
}
