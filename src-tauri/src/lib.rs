//! The desktop shell of Coppice: the window, the terminal, the notifications, around the engine.

pub mod commands;
