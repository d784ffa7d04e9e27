//! The tests of the shell: commands, contract, tidiness, and journeys through the real window.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod asks;
mod bindings;
mod cli;
#[cfg(target_os = "linux")]
mod crash;
#[cfg(target_os = "linux")]
mod peer;
#[cfg(unix)]
mod programs;
mod rpc;
mod support;
mod tidy;
#[cfg(target_os = "linux")]
mod window;
