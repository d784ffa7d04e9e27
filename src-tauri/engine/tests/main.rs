//! The engine's tests: one binary, a module per suite. Only the model, the clock and the network are scripted.
mod bash;
mod output;
mod process;
