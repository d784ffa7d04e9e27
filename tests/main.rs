//! The tests of the shell: commands, contract, tidiness, and journeys through the real window.

mod bindings;
mod cli;
mod rpc;
mod support;
mod tidy;
#[cfg(target_os = "linux")]
mod window;
