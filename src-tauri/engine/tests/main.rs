//! The engine's tests: one binary, a module per suite. Only the model, the clock and the network are scripted.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod endpoint;
mod openai;
mod rehearsal;
