//! The engine's tests: one binary, a module per suite. Only the model, the clock and the network are scripted.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod adversity;
mod asks;
mod bash;
mod bounds;
mod budget;
mod children;
mod config;
mod confine;
mod control;
mod delegation;
mod endpoint;
mod files;
mod floods;
mod folds;
mod fork;
mod full;
mod keys;
mod lab;
mod laws;
mod mask;
mod model_facing;
mod notices;
mod offers;
mod openai;
mod output;
mod permission;
mod process;
mod props;
mod quit;
mod races;
mod refused;
mod rehearsal;
mod rows;
mod search;
mod store;
mod taken;
mod troubled;
mod undo;
mod upkeep;
