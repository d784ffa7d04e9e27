//! How long things take: figures of the real program, each beside a reference that was measured in the same run.
//!
//! `make bench` measures all of them, `cargo bench -- fan-out stop` the named ones. Nothing is judged: the process fails
//! only when something cannot be measured.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "whatever goes wrong here ends the measurement, and what it tells is printed"
)]

#[cfg(target_os = "linux")]
#[path = "bench/append.rs"]
mod append;
#[cfg(target_os = "linux")]
#[path = "bench/bare.rs"]
mod bare;
#[cfg(target_os = "linux")]
#[path = "bench/crash.rs"]
mod crash;
#[cfg(target_os = "linux")]
#[path = "bench/endpoint.rs"]
mod endpoint;
#[cfg(target_os = "linux")]
#[path = "bench/fan_out.rs"]
mod fan_out;
#[cfg(target_os = "linux")]
#[path = "bench/measure.rs"]
mod measure;
#[cfg(target_os = "linux")]
#[path = "bench/start.rs"]
mod start;
#[cfg(target_os = "linux")]
#[path = "bench/stock.rs"]
mod stock;
#[cfg(target_os = "linux")]
#[path = "bench/stop.rs"]
mod stop;
#[cfg(target_os = "linux")]
#[path = "bench/task.rs"]
mod task;
#[cfg(target_os = "linux")]
#[path = "bench/window.rs"]
mod window;

#[cfg(target_os = "linux")]
#[expect(dead_code, reason = "the tests need more of it")]
mod support;

#[cfg(target_os = "linux")]
fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    if args.first().is_some_and(|arg| arg == bare::NAME) {
        return bare::main(&args[1..]);
    }
    let all: [(&str, fn()); 7] = [
        ("append", append::run),
        ("start", start::run),
        ("window", window::run),
        ("stop", stop::run),
        ("task", task::run),
        ("fan-out", fan_out::run),
        ("crash", crash::run),
    ];
    let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
    if let Some(unknown) = args.iter().find(|arg| !names.contains(&arg.as_str())) {
        eprintln!("There is no figure {unknown:?}. There are: {}.", names.join(", "));
        std::process::exit(2);
    }
    measure::heading();
    for (name, run) in all {
        if args.is_empty() || args.iter().any(|arg| arg == name) {
            run();
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("The figures are measured on Linux, where the process table tells what they need.");
    std::process::exit(1);
}
