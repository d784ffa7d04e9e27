//! The engine's tests: one binary, a module per suite. Only the model, the clock and the network are scripted.

mod endpoint;
mod openai;
mod rehearsal;
