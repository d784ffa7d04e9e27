//! The engine's tests: one binary, a module per suite. Only the model, the clock and the network are scripted.

mod store;
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod config;
mod files;
mod rows;
mod search;
