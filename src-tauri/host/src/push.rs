//! What passes between the shell and the page beside the commands.

use coppice_engine::id::{AskId, SessionId};
use coppice_engine::view::Frame;
use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// What is to become of running work when the person quits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum Quit {
    /// Quit if nothing runs, else ask by [`Push::Quitting`].
    Ask,
    /// Keep it running without a window.
    Keep,
    /// Stop all of it and quit.
    Stop,
    /// Do not quit.
    Cancel,
}

/// What the window is pushed over its channel.
#[derive(Clone, Debug, Serialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum Push {
    /// What changed.
    Frame(Box<Frame>),
    /// Show this: a notification or a line of the tray was clicked, or a second start asked for it.
    Show {
        /// The session.
        session: SessionId,
        /// Its ask that the person is to see; none for the session as such.
        ask: Option<AskId>,
    },
    /// The person asked to quit while this many sessions and commands run: ask what is to become of them.
    Quitting(u32),
}
