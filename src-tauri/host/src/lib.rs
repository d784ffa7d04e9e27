//! One data folder's engine and every way to it but the window: the commands, the wire, the terminal.

pub mod board;
pub mod cli;
pub mod client;
pub mod commands;
pub mod desktop;
pub mod diagnostics;
pub mod display;
pub mod host;
pub mod notify;
pub mod push;
pub mod rpc;
pub mod single;
pub mod status;
pub mod stream;
pub mod text;
