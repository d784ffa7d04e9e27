//! The bounds that nobody has to choose: how much is taken and waited for, which a person or a model may meet, and how
//! much is kept in memory and in the store, which shows only in that they do not grow. What can be chosen is in
//! [`crate::config::Limits`]; bounds that only one module could explain stand in that module.

use std::time::Duration;

/// The largest message or prompt that is taken, in bytes.
pub const MAX_MESSAGE: usize = 1024 * 1024;

/// The most bytes of text that a tool gives the model at once. What is left out is announced, with the way to read it.
pub const MAX_RESULT: usize = 32 * 1024;

/// The longest that a wait for a task or a session may take.
pub const MAX_WAIT: Duration = Duration::from_secs(600);

/// How long a wait takes when nothing is said.
pub const DEFAULT_WAIT: Duration = Duration::from_secs(30);

/// The longest that a command in the foreground may run.
pub const MAX_COMMAND: Duration = Duration::from_secs(600);

/// The longest time limit that a command in the background can be given; without one it may run on.
pub const MAX_TASK: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a command in the foreground may run when nothing is said.
pub const DEFAULT_COMMAND: Duration = Duration::from_secs(120);

/// How much of the output of a command in the background is kept on disk, its beginning and its end, in bytes.
pub const MAX_OUTPUT: u64 = 32 * 1024 * 1024;

/// How much of the outputs of all commands in the background is kept on disk; the oldest go first, in bytes.
pub const MAX_OUTPUTS: u64 = 2 * 1024 * 1024 * 1024;

/// How much of the disk is left free for the sessions and for others: below it no output of a command is kept, in bytes.
pub const DISK_RESERVE: u64 = 64 * 1024 * 1024;

/// How long a session without work stays in memory after it was last used.
pub const AGENT_REST: Duration = Duration::from_secs(600);

/// How many answers of commands are kept for those who ask again with the same key.
pub const KEPT_ANSWERS: i64 = 10_000;

/// How many deletions are remembered for followers that come back.
pub const KEPT_DELETIONS: usize = 10_000;

/// Of how many tasks it is remembered how far their owner has read.
pub const KEPT_CURSORS: usize = 10_000;

/// The longest word of a person to an agent whose ask is answered, in bytes.
pub const MAX_NOTE: usize = 4 * 1024;

/// How much is kept of what stood in files before agents changed them, in bytes. The oldest goes first.
pub const MAX_BEFORE: u64 = 512 * 1024 * 1024;

/// How long it is kept. After that a change cannot be taken back any more.
pub const KEPT_BEFORE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// How long after a session wrote a file another one that writes it is told of, and asked about.
pub const LATELY: Duration = Duration::from_secs(600);

/// How many results of tools are looked at to find what the sessions of a tree have seen of which files.
pub const RECALLED: usize = 4096;
