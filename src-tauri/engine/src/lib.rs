//! The agent runtime of Coppice: durable sessions, turns, background tasks, delegation and control.
//!
//! It knows nothing of windows, notifications or the terminal; those are built on [`Engine`]'s methods.

pub mod action;
pub mod agent;
pub mod asks;
pub mod budget;
pub mod config;
pub mod control;
pub mod engine;
pub mod env;
pub mod error;
pub mod event;
pub mod files;
pub mod id;
pub mod keys;
pub mod live;
pub mod llm;
pub mod log;
pub mod mask;
pub mod output;
pub mod permission;
pub mod process;
pub mod prompt;
pub mod scope;
pub mod subagent;
pub mod task;
pub mod text;
pub mod tool;
pub mod transcript;
pub mod turn;
pub mod view;

pub use engine::Engine;
