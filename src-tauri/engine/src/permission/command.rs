//! What a command would do, told from its text.

use crate::action::{Reason, Rule};
use std::path::{Path, PathBuf};

/// What was found in a command.
#[derive(Debug, Default)]
pub struct Found {
    /// What keeps it from counting as one that only reads.
    pub held: Option<Reason>,
    words: Vec<String>,
}

impl Found {
    /// The paths that it may mean, `~` expanded.
    pub fn paths(&self, _home: Option<&Path>) -> Vec<PathBuf> {
        self.words.iter().map(PathBuf::from).collect()
    }
}

/// Looks at a command.
pub fn look(_text: &str) -> Found {
    let reason = Reason { rule: Rule::Unclear, text: "The command was not judged.".to_owned() };
    Found { held: Some(reason), ..Found::default() }
}
