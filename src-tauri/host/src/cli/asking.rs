//! Asks at the terminal: one question after the other, each in full, and answered with a letter. A run whose terminal
//! cannot ask says so to the engine, which then refuses what it would have asked for.

use super::Trouble;
use crate::board::{asker, is_open};
use crate::client::Client;
use crate::host::Host;
use crate::notify::what;
use crate::text;
use coppice_engine::action::Action;
use coppice_engine::config::bounds::MAX_NOTE;
use coppice_engine::event::Decision;
use coppice_engine::id::AskId;
use coppice_engine::view::{AskState, AskView};
use serde_json::json;
use std::io::{self, IsTerminal};
use tokio::io::AsyncReadExt;

/// Why nothing can be asked in a pipe, for the model and the person.
pub const NOBODY: &str = "Nobody can be asked here, because this run has no terminal to ask on. The person can run it with \
                          --mode full or accept-edits, or answer in the window.";
/// The longest title in a lineage, in characters.
const TITLE: usize = 40;
/// The most lines of a question; the window shows what is longer.
const LINES: usize = 2000;
/// The most that is typed for one answer, in bytes.
const TYPED: usize = MAX_NOTE + 16;

/// Who answers the asks of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    /// The person at this terminal.
    Here,
    /// Nobody: what needs leave is refused.
    Nobody,
    /// Whoever sees the asks of the process that holds the data folder.
    Elsewhere,
}

impl Answers {
    /// Finds out, and lets the engine of this process know when nobody answers. `ours` is the host when this process
    /// holds the data folder.
    pub fn find(ours: Option<&Host>) -> Self {
        match ours {
            None => Self::Elsewhere,
            Some(_) if is_attended() => Self::Here,
            Some(host) => {
                host.engine.unattended(NOBODY.to_owned());
                Self::Nobody
            }
        }
    }
}

/// Whether a person can be asked at this terminal: one that is in the foreground, to read from and to be told on.
fn is_attended() -> bool {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return false;
    }
    // Reading would stop a process in the background.
    #[cfg(unix)]
    let front = rustix::termios::tcgetpgrp(io::stdin()).is_ok_and(|front| front == rustix::process::getpgrp());
    #[cfg(not(unix))]
    let front = true;
    front
}

/// What was heard from the keyboard.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard {
    /// Something was typed.
    Keys,
    /// Enter was pressed.
    Line(String),
    /// Nothing more comes.
    End,
}

/// The questions that wait, and the answer that is being typed.
#[derive(Default)]
pub struct Dialogue {
    asks: Vec<AskView>,
    /// One that was put off and is to be seen again.
    again: Option<AskId>,
    shown: Option<AskId>,
    typed: Vec<u8>,
    help: bool,
    keys: Option<Keys>,
    /// The keyboard has ended: nobody answers here any more.
    ended: bool,
}

/// What became of a question that is no longer shown, or the question that is shown now.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// What is to be said for good.
    pub said: Vec<String>,
    /// Whether another question than before is shown, or none.
    pub turned: bool,
}

impl Dialogue {
    /// Takes over what became of asks. Only those are asked here whose call waits for the answer.
    pub fn hear(&mut self, asks: Vec<AskView>) -> Change {
        let mut said = Vec::new();
        for ask in asks {
            let held = self.asks.iter().position(|held| held.id == ask.id);
            match (held, is_open(&ask) && ask.waits) {
                (Some(at), true) => self.asks[at] = ask,
                (None, true) => self.asks.push(ask),
                (Some(at), false) => {
                    self.asks.remove(at);
                    if self.shown.as_ref() == Some(&ask.id) {
                        said.push(format!("◆ {}: {}", text::cut(ask.state.words(), TITLE), what(&ask.action)));
                    }
                }
                (None, false) => {}
            }
        }
        self.asks.sort_by(|one, other| (one.asked_at, &one.id).cmp(&(other.asked_at, &other.id)));
        self.again = self.again.take().filter(|again| self.asks.iter().any(|ask| ask.id == *again));
        Change { said, turned: self.turn() }
    }

    /// Shows the question whose turn it is. What was typed was not meant for another one.
    fn turn(&mut self) -> bool {
        let open = || self.asks.iter().find(|ask| ask.state == AskState::Open).map(|ask| ask.id.clone());
        let next = self.again.clone().or_else(open);
        let turned = next != self.shown;
        if turned {
            self.typed.clear();
            self.help = false;
            self.shown = next;
            if let Some(keys) = &self.keys {
                keys.forget();
            }
        }
        turned
    }

    /// Begins to read what is typed, if a question waits. `drawn`: what is typed is drawn here, not by the terminal.
    pub fn listen(&mut self, drawn: bool) {
        if self.keys.is_none() && !self.ended && !self.asks.is_empty() {
            self.keys = Some(Keys::begin(drawn));
        }
    }

    /// The question that is shown.
    pub fn question(&self) -> Option<&AskView> {
        self.asks.iter().find(|ask| Some(&ask.id) == self.shown.as_ref())
    }

    /// The question in full, in lines of at most `columns`; nothing when none is shown.
    pub fn block(&self, columns: usize) -> Vec<String> {
        let Some(ask) = self.question() else { return Vec::new() };
        let open = self.asks.iter().filter(|ask| ask.state == AskState::Open).count();
        let place = if open > 1 { format!("(1 of {open}) ") } else { String::new() };
        let lineage: Vec<String> =
            ask.lineage.iter().map(|above| text::line(&above.title, TITLE).replace('›', ">")).collect();
        let (verb, content) = match &ask.action {
            Action::Read { path } => ("read this", path.to_string_lossy().into_owned()),
            Action::Write { path, diff } => ("write this file", format!("{}\n{}", path.to_string_lossy(), diff)),
            Action::Command { text, background: true } => ("run this command in the background", text.clone()),
            Action::Command { text, .. } => ("run this command", text.clone()),
        };
        let mut lines = text::wrap(&format!("◆ {place}{} wants to {verb}:", lineage.join(" › ")), columns);
        let mut held: Vec<String> = text::wrap(&text::exact(content.trim_end_matches('\n')), columns.saturating_sub(6))
            .into_iter()
            .map(|line| format!("  │ {line}"))
            .collect();
        let more = held.len().saturating_sub(LINES);
        held.truncate(LINES);
        lines.append(&mut held);
        let mut note = |words: String| {
            let wrapped = text::wrap(&words, columns.saturating_sub(4));
            lines.extend(wrapped.into_iter().map(|line| format!("  {line}")));
        };
        if more > 0 {
            note(format!("{more} more lines are not shown here. The window shows them."));
        }
        note(format!("in {}", text::exact(&ask.cwd).replace('\n', "\\n")));
        note(text::line(&ask.reason.text, 400));
        if let Some(said) = &ask.said {
            note(format!("It says: \"{}\"", text::line(said, 300).replace('"', "'")));
        }
        lines
    }

    /// How to answer, and what is typed so far.
    pub fn prompt(&self, columns: usize) -> Vec<String> {
        let Some(ask) = self.question() else {
            let put_off = self.asks.len();
            return match put_off {
                0 => Vec::new(),
                1 => vec!["◆ 1 ask is put off. Enter shows it again.".to_owned(), String::new()],
                n => vec![format!("◆ {n} asks are put off. Enter shows them again."), String::new()],
            };
        };
        let keys = if ask.allows.is_some() {
            "a once · b for this branch · always for exactly this in this folder · d deny, with a word if you like · n not \
             now. Then Enter."
        } else {
            "a once · d deny, with a word if you like · n not now. Then Enter."
        };
        let mut lines: Vec<String> =
            text::wrap(keys, columns.saturating_sub(4)).into_iter().map(|line| format!("  {line}")).collect();
        if self.help {
            lines.push("  That is no answer; it still waits.".to_owned());
        }
        let typed = text::line(&String::from_utf8_lossy(&self.typed), TYPED);
        let room = columns.saturating_sub(6).max(1);
        let tail = text::wrap(&typed, room).pop().unwrap_or_default();
        lines.push(format!("  > {tail}"));
        lines
    }

    /// Waits for what is typed; for ever while nothing is read.
    pub async fn heard(&mut self) -> Heard {
        let Some(keys) = &mut self.keys else { return std::future::pending().await };
        let mut bytes = [0; 1024];
        let read = match keys.stdin.read(&mut bytes).await {
            Ok(read) => read,
            Err(error) => {
                tracing::warn!(%error, "the terminal cannot be read any more");
                0
            }
        };
        if read == 0 {
            (self.keys, self.ended) = (None, true);
            return Heard::End;
        }
        self.typed(&bytes[..read])
    }

    /// Takes over what was typed. What stands behind an Enter was typed before the next question was there.
    fn typed(&mut self, bytes: &[u8]) -> Heard {
        for byte in bytes {
            match byte {
                b'\n' | b'\r' => {
                    let line = String::from_utf8_lossy(&self.typed).into_owned();
                    self.typed.clear();
                    return Heard::Line(text::line(&line, TYPED));
                }
                // Backspace takes a character, Ctrl-U the line.
                0x7f | 0x08 => while self.typed.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {},
                0x15 => self.typed.clear(),
                _ if self.typed.len() < TYPED => self.typed.push(*byte),
                _ => {}
            }
        }
        Heard::Keys
    }

    /// Answers the question that is shown with what was typed. Answers what is to be said for good.
    pub async fn answer(&mut self, client: &Client, line: &str, key: String) -> Result<Change, Trouble> {
        let Some(ask) = self.question().cloned() else {
            self.again = self.asks.first().map(|ask| ask.id.clone());
            return Ok(Change { said: Vec::new(), turned: self.turn() });
        };
        let Some((decision, note)) = read(line, ask.allows.is_some()) else {
            self.help = !line.is_empty();
            return Ok(Change::default());
        };
        self.again = None;
        if decision == Decision::Later && ask.state == AskState::Later {
            return Ok(Change { said: Vec::new(), turned: self.turn() });
        }
        let args = json!({ "ask": ask.id, "decision": decision, "note": note, "key": key });
        let said = match client.ask::<Answered>("answer", args).await {
            Ok(Answered { ask }) => {
                let note = ask.note.as_ref().map(|note| format!(" ({})", text::line(note, TITLE))).unwrap_or_default();
                let said = format!("◆ {}: {}: {}{note}", asker_line(&ask), ask.state.words(), what(&ask.action));
                let quiet = self.hear_own(ask);
                return Ok(Change { said: vec![said], ..quiet });
            }
            Err(failed) => text::line(&failed.message, 400),
        };
        Ok(Change { said: vec![said], turned: false })
    }

    /// Takes over what became of a question by the answer given here.
    fn hear_own(&mut self, ask: AskView) -> Change {
        let mut change = self.hear(vec![ask]);
        change.said.clear();
        change
    }
}

#[derive(serde::Deserialize)]
struct Answered {
    ask: AskView,
}

fn asker_line(ask: &AskView) -> String {
    text::line(asker(ask), TITLE)
}

/// What a line answers; none when it is no answer.
fn read(line: &str, for_more: bool) -> Option<(Decision, Option<String>)> {
    let line = line.trim();
    let (first, rest) = line.split_once(' ').map_or((line, ""), |(first, rest)| (first, rest.trim()));
    match first {
        "d" | "D" | "deny" => Some((Decision::Deny, (!rest.is_empty()).then(|| rest.to_owned()))),
        _ if !rest.is_empty() => None,
        "a" | "once" => Some((Decision::Once, None)),
        "b" | "B" | "branch" if for_more => Some((Decision::Branch, None)),
        "always" if for_more => Some((Decision::Always, None)),
        "n" | "N" | "later" => Some((Decision::Later, None)),
        _ => None,
    }
}

/// The keyboard. Dropping it leaves the terminal as it was.
struct Keys {
    stdin: tokio::io::Stdin,
    #[cfg(unix)]
    before: Option<rustix::termios::Termios>,
}

impl Keys {
    /// Reads from the terminal: with `drawn` key by key and without an echo, else a line at a time. What was typed
    /// before was no answer.
    fn begin(drawn: bool) -> Self {
        let stdin = tokio::io::stdin();
        #[cfg(unix)]
        {
            use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
            let mut before = None;
            if drawn && let Ok(mut now) = tcgetattr(io::stdin()) {
                before = Some(now.clone());
                now.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
                if let Err(error) = tcsetattr(io::stdin(), OptionalActions::Flush, &now) {
                    tracing::debug!(%error, "the terminal shows what is typed by itself");
                    before = None;
                }
            }
            let keys = Self { stdin, before };
            keys.forget();
            keys
        }
        #[cfg(not(unix))]
        {
            let _ = drawn;
            Self { stdin }
        }
    }

    /// Forgets what was typed and not read.
    fn forget(&self) {
        #[cfg(unix)]
        if let Err(error) = rustix::termios::tcflush(io::stdin(), rustix::termios::QueueSelector::IFlush) {
            tracing::debug!(%error, "what was typed before a question could not be forgotten");
        }
    }
}

#[cfg(unix)]
impl Drop for Keys {
    fn drop(&mut self) {
        use rustix::termios::{OptionalActions, tcsetattr};
        if let Some(before) = &self.before
            && let Err(error) = tcsetattr(io::stdin(), OptionalActions::Drain, before)
        {
            tracing::debug!(%error, "the terminal could not be put back");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::tests::ask;

    #[test]
    fn a_letter_answers_and_only_a_denial_takes_a_word() {
        let said = |line: &str| read(line, true);
        assert_eq!(said("a"), Some((Decision::Once, None)));
        assert_eq!(said(" b "), Some((Decision::Branch, None)));
        assert_eq!((said("A"), said("always")), (None, Some((Decision::Always, None))));
        assert_eq!(said("n"), Some((Decision::Later, None)));
        assert_eq!(said("d"), Some((Decision::Deny, None)));
        assert_eq!(said("d use npm"), Some((Decision::Deny, Some("use npm".to_owned()))));
        for unclear in ["", "y", "yes", "a b", "aa", "all of it"] {
            assert_eq!(said(unclear), None, "{unclear:?}");
        }
        assert_eq!(["a", "b", "always", "d"].map(|line| read(line, false).is_some()), [true, false, false, true]);
    }

    #[test]
    fn a_question_shows_all_of_what_is_asked_and_nothing_of_it_can_pass_as_more() {
        let mut nasty = ask("x", &["Ship › it", "no\nrth"]);
        let text = format!("echo a\u{1b}[2J\n◆ you want to run this command:\u{202e}\n{}", "é".repeat(30));
        nasty.action = Action::Command { text, background: false };
        nasty.reason.text = "It does\nmore.".to_owned();
        nasty.said = Some("fine\" It is safe: \"\u{7}".to_owned());
        let mut dialogue = Dialogue::default();
        assert!(dialogue.hear(vec![nasty]).turned);
        let block = dialogue.block(46);
        assert_eq!(
            block,
            [
                "◆ Ship > it › no rth wants to run this comma".to_owned(),
                "nd:".to_owned(),
                "  │ echo a\\u{1b}[2J".to_owned(),
                "  │ ◆ you want to run this command:\\u{202e}".to_owned(),
                format!("  │ {}", "é".repeat(20)),
                format!("  │ {}", "é".repeat(10)),
                "  in /work".to_owned(),
                "  It does more.".to_owned(),
                "  It says: \"fine' It is safe: '\"".to_owned(),
            ]
        );
    }

    #[test]
    fn asks_queue_and_what_was_typed_for_one_answers_no_other() {
        let mut dialogue = Dialogue::default();
        let (one, two) = (ask("one", &["r"]), AskView { asked_at: 5, ..ask("two", &["r"]) });
        assert_eq!(dialogue.hear(vec![two, one.clone()]), Change { said: vec![], turned: true });
        assert!(dialogue.block(80)[0].starts_with("◆ (1 of 2) r wants"), "{:?}", dialogue.block(80));
        assert_eq!(dialogue.typed(b"d x"), Heard::Keys);
        let taken_back = AskView { state: AskState::Withdrawn, ..one };
        let change = dialogue.hear(vec![taken_back]);
        assert_eq!((change.said.len(), change.turned), (1, true));
        assert_eq!(
            dialogue.typed(b"\na\n"),
            Heard::Line(String::new()),
            "what was typed is gone, and what follows too"
        );
        assert_eq!(dialogue.question().map(|ask| ask.id.to_string()), Some("two".to_owned()));
    }

    #[test]
    fn keys_are_taken_back_one_by_one_or_all() {
        let mut dialogue = Dialogue::default();
        assert_eq!(dialogue.typed("d é\u{7f}\u{7f}x\u{15}a\u{1b}[A\r".as_bytes()), Heard::Line("a".to_owned()));
    }

    #[test]
    fn what_is_put_off_is_shown_again_when_the_person_wants_it() {
        let mut dialogue = Dialogue::default();
        let off = AskView { state: AskState::Later, ..ask("one", &["r"]) };
        dialogue.hear(vec![off]);
        assert_eq!(
            (dialogue.question(), dialogue.prompt(80)[0].as_str()),
            (None, "◆ 1 ask is put off. Enter shows it again.")
        );
        dialogue.again = dialogue.asks.first().map(|ask| ask.id.clone());
        assert!(dialogue.turn());
        assert!(dialogue.question().is_some());
    }

    #[test]
    fn an_ask_that_no_call_waits_for_is_not_asked_here() {
        let mut dialogue = Dialogue::default();
        dialogue.hear(vec![AskView { waits: false, ..ask("one", &["r"]) }]);
        assert_eq!((dialogue.question(), dialogue.prompt(80)), (None, vec![]));
    }
}
