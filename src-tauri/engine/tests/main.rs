//! The engine's tests: one binary, a module per suite. Only the model, the clock and the network are scripted.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod adversity;
mod bash;
mod bounds;
mod children;
mod config;
mod control;
mod delegation;
mod endpoint;
mod files;
mod floods;
mod folds;
mod lab;
mod notices;
mod openai;
mod output;
mod process;
mod quit;
mod rehearsal;
mod rows;
mod search;
mod store;
mod taken;
