//! What may be done without asking. A call's actions are judged before it runs: paths by where they really lead,
//! commands by what a shell would make of them.
//!
//! The judgement is not the defence. That a command only reads is told from a table of well-known programs, and a
//! program can be replaced, configured or mistaken; so what is let through for only reading runs confined, and where
//! nothing can hold a command it is asked about. The same goes for what no judgement of a text can see: a hard link to
//! a file out of reach, a bind mount, a command that removes a folder above one.

use crate::event::Mode;
use crate::text::plain;
use std::path::{Path, PathBuf};

pub use crate::action::{Action, Allowance, Allowed, Reason, Rule, Scope};
pub use place::{Place, keys, resolve};

mod command;
pub mod place;

/// How much of what the model wrote a reason quotes, in characters.
const QUOTED: usize = 120;

/// What is decided about a call before it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes ahead.
    Free,
    /// It goes ahead under the confinement that forbids writing and the network, and under no other.
    FreeConfined,
    /// The person is asked first.
    Ask(Reason),
    /// It does not go ahead, and nobody is asked.
    Refuse(Reason),
}

/// Where a call happens.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances<'a> {
    /// What the session may do.
    pub mode: Mode,
    /// The session's folder, absolute.
    pub cwd: &'a Path,
    /// The person's own folder, where keys are kept by convention.
    pub home: Option<&'a Path>,
    /// What no call may touch in any mode: where Coppice keeps its data, its keys and its configuration.
    pub out_of_reach: &'a [PathBuf],
    /// Whether a command can be held to reading here.
    pub confined: bool,
    /// What the person has allowed for more than one call, as far as it concerns this session.
    pub allowances: &'a [Allowance],
}

/// Decides about an action. It looks at the file system only to see where paths lead, and takes any text.
///
/// | | read-only | ask | accept-edits | full |
/// |-|-|-|-|-|
/// | reads in the folder | free | free | free | free |
/// | reads elsewhere, or of keys | refused | asked | asked | free |
/// | writes in the folder | refused | asked | free | free |
/// | writes elsewhere, into git's own folder, or of keys | refused | asked | asked | free |
/// | commands that only read | confined | confined | confined | free |
/// | other commands | refused | asked | asked | free |
/// | what is out of reach | refused | refused | refused | refused |
///
/// An allowance turns an ask into leave; it never turns a refusal. Where nothing can confine, commands that only read
/// are treated as the others.
pub fn judge(at: &Circumstances<'_>, action: &Action) -> Verdict {
    judge_place(at, action).0
}

/// The same, with the place that it holds for, where the action has one: its path may lead elsewhere by the time that it
/// is used.
pub fn judge_place(at: &Circumstances<'_>, action: &Action) -> (Verdict, Option<PathBuf>) {
    let (path, write) = match action {
        Action::Read { path } => (path, false),
        Action::Write { path, .. } => (path, true),
        Action::Command { text, .. } => return (judge_command(at, text), None),
    };
    let place = match resolve(at.cwd, path) {
        Ok(place) => place,
        Err(text) => return (Verdict::Refuse(Reason { rule: Rule::Unresolved, text }), None),
    };
    let verdict = match path_reason(at, path, &place, write) {
        None => Verdict::Free,
        Some(reason) if always(reason.rule) => Verdict::Refuse(reason),
        Some(reason) => by_mode(at, action, reason),
    };
    (verdict, Some(place.real))
}

/// What an answer for more than one call would allow, were it given for this action: none where no answer would help.
pub fn allowed(cwd: &Path, action: &Action) -> Option<Allowed> {
    let real = |path: &Path| resolve(cwd, path).ok().map(|place| place.real);
    match action {
        Action::Read { path } => real(path).map(|path| Allowed::Read { path }),
        Action::Write { path, .. } => real(path).map(|path| Allowed::Write { path }),
        Action::Command { text, .. } => Some(Allowed::Command { text: text.clone() }),
    }
}

/// Whether the rule holds in every mode, whatever the person answers.
fn always(rule: Rule) -> bool {
    matches!(rule, Rule::OwnData | Rule::Processes)
}

fn by_mode(at: &Circumstances<'_>, action: &Action, reason: Reason) -> Verdict {
    match at.mode {
        Mode::Full => Verdict::Free,
        Mode::ReadOnly => {
            let text = format!("This session may only look (read-only). {}", reason.text);
            Verdict::Refuse(Reason { rule: Rule::ReadOnly, text })
        }
        Mode::AcceptEdits if reason.rule == Rule::Writes => Verdict::Free,
        Mode::Ask | Mode::AcceptEdits if is_allowed(at, action) => Verdict::Free,
        Mode::Ask | Mode::AcceptEdits => Verdict::Ask(reason),
    }
}

fn is_allowed(at: &Circumstances<'_>, action: &Action) -> bool {
    let here = |allowance: &&Allowance| allowance.cwd == at.cwd;
    let mut allowances = at.allowances.iter().filter(here).peekable();
    if allowances.peek().is_none() {
        return false;
    }
    allowed(at.cwd, action).is_some_and(|what| allowances.any(|allowance| allowance.what == what))
}

/// What holds a read or a write, if anything does.
fn path_reason(at: &Circumstances<'_>, path: &Path, place: &Place, write: bool) -> Option<Reason> {
    let shown = plain(&path.to_string_lossy(), QUOTED);
    let because = |rule, text: String| Some(Reason { rule, text });
    if place.is_in(at.out_of_reach) {
        return because(Rule::OwnData, own_data(&shown));
    }
    if place.shows_a_process() {
        let text =
            format!("{shown} is the memory or the environment of a process, which is out of reach of every tool.");
        return because(Rule::Processes, text);
    }
    if at.home.is_some_and(|home| place.is_in(&keys(home))) {
        return because(Rule::Keys, format!("{shown} is where keys or passwords are kept."));
    }
    if !place.inside {
        let real = plain(&place.real.to_string_lossy(), QUOTED);
        let leads = if real == shown { String::new() } else { format!(" It leads to {real}.") };
        return because(Rule::Outside, format!("{shown} is outside of the session's folder.{leads}"));
    }
    if write && place.is_gits_own() {
        let text = format!("{shown} belongs to git's own folder, where a change can make git run programs.");
        return because(Rule::Repository, text);
    }
    if write { because(Rule::Writes, format!("It changes {shown}.")) } else { None }
}

fn own_data(shown: &str) -> String {
    format!("{shown} is where Coppice keeps its own data and keys, out of reach of every tool in every mode.")
}

fn judge_command(at: &Circumstances<'_>, text: &str) -> Verdict {
    let found = command::look(text);
    let keys = at.home.map(keys).unwrap_or_default();
    let mut held = found.held.clone();
    for path in found.paths(at.home) {
        let Ok(place) = resolve(at.cwd, &path) else { continue };
        let shown = plain(&path.to_string_lossy(), QUOTED);
        if place.is_in(at.out_of_reach) {
            return Verdict::Refuse(Reason { rule: Rule::OwnData, text: own_data(&shown) });
        }
        if held.is_none() && (place.is_in(&keys) || place.shows_a_process()) {
            let text = format!("The command names {shown}, where keys or passwords are kept.");
            held = Some(Reason { rule: Rule::Keys, text });
        }
    }
    let action = Action::Command { text: text.to_owned(), background: false };
    match held {
        Some(reason) => by_mode(at, &action, reason),
        None if at.mode == Mode::Full => Verdict::Free,
        None if at.confined => Verdict::FreeConfined,
        None => {
            let text = "The command looks as if it only reads, but this system cannot hold it to that.".to_owned();
            by_mode(at, &action, Reason { rule: Rule::Unconfined, text })
        }
    }
}
