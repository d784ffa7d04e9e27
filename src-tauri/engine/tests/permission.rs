//! What may be done without asking: one table for commands, one for paths, and what holds for any text at all.

mod commands;
mod paths;
mod wrapped;

use coppice_engine::event::Mode;
use coppice_engine::permission::{Action, Allowance, Circumstances, Reason, Verdict, judge};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A person's folder with a project, keys, and what Coppice keeps.
struct Home {
    /// Ends the folder with the test.
    _folder: TempDir,
    home: PathBuf,
    cwd: PathBuf,
    data: PathBuf,
}

impl Home {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().canonicalize().unwrap();
        let (cwd, data) = (home.join("project"), home.join(".local/share/coppice"));
        for made in [".ssh", "project/src", "project/.git/hooks", "other", "project-two", ".local/share/coppice"] {
            std::fs::create_dir_all(home.join(made)).unwrap();
        }
        let files = [
            ".ssh/id",
            "secret/netrc",
            "project/a.rs",
            "project/src/b.rs",
            "project/.git/config",
            "other/c",
            "project-two/d",
        ];
        std::fs::create_dir_all(home.join("secret")).unwrap();
        for file in files {
            std::fs::write(home.join(file), "x").unwrap();
        }
        std::fs::write(data.join("coppice.db"), "x").unwrap();
        Self { _folder: folder, home, cwd, data }
    }

    fn judge(&self, mode: Mode, confined: bool, allowances: &[Allowance], action: &Action) -> Verdict {
        let out_of_reach = [self.data.clone()];
        let circumstances = Circumstances {
            mode,
            cwd: &self.cwd,
            home: Some(&self.home),
            out_of_reach: &out_of_reach,
            confined,
            allowances,
        };
        judge(&circumstances, action)
    }

    fn command(&self, mode: Mode, text: &str) -> Verdict {
        self.judge(mode, true, &[], &command(text))
    }
}

fn command(text: &str) -> Action {
    Action::Command { text: text.to_owned(), background: false }
}

fn read(path: impl AsRef<Path>) -> Action {
    Action::Read { path: path.as_ref().to_owned() }
}

fn write(path: impl AsRef<Path>) -> Action {
    Action::Write { path: path.as_ref().to_owned(), diff: "-a\n+b".to_owned() }
}

/// A verdict in a word or two: `free`, `confined`, `asked RULE`, `refused RULE`.
fn word(verdict: &Verdict) -> String {
    let rule = |reason: &Reason| serde_json::to_value(reason.rule).unwrap().as_str().unwrap().to_owned();
    match verdict {
        Verdict::Free => "free".to_owned(),
        Verdict::FreeConfined => "confined".to_owned(),
        Verdict::Ask(reason) => format!("asked {}", rule(reason)),
        Verdict::Refuse(reason) => format!("refused {}", rule(reason)),
    }
}

/// Fails with every row of a table that is not as it says.
#[track_caller]
fn holds(rows: impl IntoIterator<Item = (String, String, Verdict)>) {
    let wrong: Vec<String> = rows
        .into_iter()
        .filter(|(expected, _, verdict)| word(verdict) != *expected)
        .map(|(expected, row, verdict)| format!("{row:?}: {expected} was expected, it is {verdict:?}"))
        .collect();
    assert!(wrong.is_empty(), "{} rows differ\n{}", wrong.len(), wrong.join("\n"));
}
