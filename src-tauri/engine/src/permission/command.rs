//! What a command would do, told from its text as bash would read it. Whatever is not known to only read is held: a
//! construct, a program, an option, a word that is only known when it runs.

use crate::action::{Reason, Rule};
use crate::text::plain;
use rable::{Node, NodeKind};
use std::path::{Path, PathBuf};
use words::Word;

mod danger;
mod git;
mod tools;
mod words;

/// The longest command that is judged, in bytes.
const LONGEST: usize = 8 * 1024;

/// How many things that can nest, and how many commands, a command that is judged may hold. The parser goes down the
/// stack for each of them, so they are counted before it sees the text; marks inside of quotes count as well.
const NESTING: usize = 16;
const COMMANDS: usize = 256;

/// How deep a shell within a command (`sh -c ...`) is looked into for what is dangerous.
const SHELLS_WITHIN: usize = 2;

/// The words that begin something that nests.
const OPENING_WORDS: &[&str] = &[
    "if", "elif", "then", "else", "while", "until", "do", "for", "select", "case", "in", "function", "coproc", "time",
];

/// Special files that may be written: nothing is kept there.
const SINKS: &[&str] = &["/dev/null", "/dev/stdout", "/dev/stderr"];

/// Variables that may be set to a plain value: they change how output looks and no more.
const HARMLESS: &[&str] = &["LC_ALL", "LANG", "NO_COLOR"];

/// Tests that only look. Those that compare numbers compute in `[[ ]]`, and computing can run commands.
pub(super) const UNARY_TESTS: &[&str] =
    &["-a", "-b", "-c", "-d", "-e", "-f", "-h", "-L", "-n", "-p", "-r", "-s", "-S", "-w", "-x", "-z"];
const BINARY_TESTS: &[&str] = &["=", "==", "!=", "=~", "<", ">", "-nt", "-ot", "-ef"];

/// What was found in a command.
#[derive(Debug, Default)]
pub struct Found {
    /// What keeps it from counting as one that only reads. A danger comes before all else.
    pub held: Option<Reason>,
    words: Vec<String>,
    within: usize,
}

impl Found {
    /// The paths that its words may mean, `~` expanded, as far as they are known.
    pub fn paths(&self, home: Option<&Path>) -> Vec<PathBuf> {
        let whole = self.words.iter().map(String::as_str);
        let values = self.words.iter().filter_map(|word| word.split_once('=').map(|(_, value)| value));
        let path = |word: &str| match (word.strip_prefix('~'), home) {
            (Some(""), Some(home)) => home.to_owned(),
            (Some(below), Some(home)) if below.starts_with('/') => home.join(below.trim_start_matches('/')),
            _ => PathBuf::from(word),
        };
        whole.chain(values).filter(|word| !word.is_empty()).map(path).collect()
    }

    fn hold(&mut self, rule: Rule, text: impl Into<String>) {
        let held = self.held.as_ref().map(|held| held.rule);
        if held.is_none() || (rule == Rule::Danger && held != Some(Rule::Danger)) {
            self.held = Some(Reason { rule, text: text.into() });
        }
    }

    fn unclear(&mut self, what: &str) {
        self.hold(Rule::Unclear, format!("The command cannot be judged: {what}."));
    }
}

/// What the table says of a program with its arguments: nothing when it only reads, else the rule and a sentence.
type Checked = Result<(), (Rule, String)>;

/// Looks at a command. Takes any text, in time and stack that its bounds limit.
pub fn look(text: &str) -> Found {
    look_within(text, 0)
}

fn look_within(text: &str, within: usize) -> Found {
    let mut found = Found { within, ..Found::default() };
    if let Some(why) = beyond_bounds(text) {
        found.unclear(why);
        return found;
    }
    match rable::parse(text, false) {
        Ok(nodes) => nodes.iter().for_each(|node| found.node(node)),
        Err(_) => found.unclear("it is not complete, or not written as bash reads it"),
    }
    found
}

fn beyond_bounds(text: &str) -> Option<&'static str> {
    if text.len() > LONGEST {
        return Some("it is too long");
    }
    let hidden = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            || (!c.is_ascii() && c.is_whitespace())
            || (!c.is_whitespace() && plain(c.encode_utf8(&mut [0; 4]), 1).is_empty())
    };
    if text.chars().any(hidden) {
        return Some("it holds characters that cannot be seen");
    }
    let word = |word: &&str| OPENING_WORDS.contains(word);
    let marks = text.bytes().filter(|byte| matches!(byte, b'(' | b'{' | b'`')).count();
    let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(word).count();
    if marks + words > NESTING {
        return Some("it nests too deep");
    }
    let commands = text.bytes().filter(|byte| matches!(byte, b';' | b'&' | b'|' | b'\n' | b'!')).count();
    (commands > COMMANDS).then_some("it holds too many commands")
}

impl Found {
    fn nodes<'a>(&mut self, nodes: impl IntoIterator<Item = &'a Node>) {
        nodes.into_iter().for_each(|node| self.node(node));
    }

    fn node(&mut self, node: &Node) {
        match &node.kind {
            NodeKind::Command { assignments, words, redirects } => self.command(assignments, words, redirects),
            NodeKind::Pipeline { commands, .. } => self.pipeline(commands),
            NodeKind::List { items } => self.nodes(items.iter().map(|item| &item.command)),
            NodeKind::If { condition, then_body, else_body, redirects } => {
                self.nodes([&**condition, &**then_body].into_iter().chain(else_body.as_deref()).chain(redirects));
            }
            NodeKind::While { condition, body, redirects } | NodeKind::Until { condition, body, redirects } => {
                self.nodes([&**condition, &**body].into_iter().chain(redirects));
            }
            NodeKind::For { var, words, body, redirects } => {
                if !own_variable(var) {
                    self.hold(Rule::Variable, variable(var));
                }
                for word in words.iter().flatten() {
                    self.word(word);
                }
                self.nodes([&**body].into_iter().chain(redirects));
            }
            NodeKind::Case { word, patterns, redirects } => {
                self.word(word);
                for pattern in patterns {
                    for word in &pattern.patterns {
                        self.word(word);
                    }
                    self.nodes(&pattern.body);
                }
                self.nodes(redirects);
            }
            NodeKind::Subshell { body, redirects } | NodeKind::BraceGroup { body, redirects } => {
                self.nodes([&**body].into_iter().chain(redirects));
            }
            NodeKind::Negation { pipeline } | NodeKind::Time { pipeline, .. } => self.node(pipeline),
            NodeKind::ConditionalExpr { body, redirects } => self.nodes([&**body].into_iter().chain(redirects)),
            NodeKind::CondAnd { left, right } | NodeKind::CondOr { left, right } => self.nodes([&**left, &**right]),
            NodeKind::CondNot { operand: inner } | NodeKind::CondParen { inner } => self.node(inner),
            NodeKind::UnaryTest { op, operand } if UNARY_TESTS.contains(&&**op) => self.node(operand),
            NodeKind::BinaryTest { op, left, right } if BINARY_TESTS.contains(&&**op) => {
                self.nodes([&**left, &**right])
            }
            NodeKind::CondTerm { value, .. } if words::plain_term(value) => {}
            NodeKind::Redirect { op, target, varfd, .. } => self.redirect(op, target, varfd.is_some()),
            NodeKind::HereDoc { content, quoted, complete: true, .. } => {
                if !quoted && content.contains(['$', '`', '\\']) {
                    self.unclear("the text that it hands on is computed");
                }
            }
            NodeKind::Function { name, body } => {
                self.node(body);
                if danger::calls(body, name) {
                    self.hold(Rule::Danger, danger::ENDLESS);
                }
                self.unclear("it defines a command of its own");
            }
            NodeKind::Coproc { command, .. } => {
                self.node(command);
                self.unclear("it talks to a command in the background");
            }
            NodeKind::Select { body, .. } | NodeKind::ForArith { body, .. } => {
                self.node(body);
                self.unclear("it computes, and computing can run commands");
            }
            NodeKind::Empty | NodeKind::Comment { .. } => {}
            _ => self.unclear("a part of it is of a kind that is not known to only read"),
        }
    }

    /// A word, with what runs inside of it. What it is when it cannot be told counts as not known.
    fn word(&mut self, node: &Node) -> Word {
        let (word, inside) = match words::read(node) {
            Ok(read) => read,
            Err(why) => {
                self.unclear(why);
                return Word::anything();
            }
        };
        self.nodes(inside);
        if let Some(text) = word.known() {
            self.words.push(text.to_owned());
        }
        word
    }

    fn command(&mut self, assignments: &[Node], words: &[Node], redirects: &[Node]) {
        for assignment in assignments {
            self.assignment(assignment);
        }
        let words: Vec<Word> = words.iter().map(|word| self.word(word)).collect();
        self.nodes(redirects);
        let Some((name, args)) = words.split_first() else { return };
        if let Some(danger) = danger::of(&words) {
            self.hold(Rule::Danger, danger);
        }
        if danger::obeys_what_is_computed(&words) {
            self.hold(Rule::Danger, danger::COMPUTED);
        }
        if self.within < SHELLS_WITHIN
            && let Some(text) = danger::shell_text(&words)
        {
            let inner = look_within(&text, self.within + 1);
            self.words.extend(inner.words);
            if let Some(Reason { rule: Rule::Danger, text }) = inner.held {
                self.hold(Rule::Danger, text);
            }
        }
        let checked = match name.known() {
            Some(name) => tools::check(name, args),
            None => Err((Rule::Unclear, "The command cannot be judged: the name of a program is computed.".to_owned())),
        };
        if let Err((rule, text)) = checked {
            self.hold(rule, text);
        }
    }

    fn pipeline(&mut self, commands: &[Node]) {
        let feeds_a_shell = commands.iter().skip(1).any(|node| match &node.kind {
            NodeKind::Command { words, .. } => {
                let words: Vec<Word> = words.iter().flat_map(words::read).map(|(word, _)| word).collect();
                danger::obeys_its_input(&words)
            }
            _ => false,
        });
        if feeds_a_shell {
            self.hold(Rule::Danger, danger::FED);
        }
        self.nodes(commands);
    }

    fn assignment(&mut self, node: &Node) {
        let word = self.word(node);
        let Some((name, value)) = word.lead().split_once('=') else {
            return self.hold(Rule::Variable, variable(word.lead()));
        };
        let name = name.strip_suffix('+').unwrap_or(name);
        let plain_value =
            word.known().is_some() && value.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
        let harmless = HARMLESS.contains(&name) && plain_value;
        if !own_variable(name) && !harmless {
            self.hold(Rule::Variable, variable(name));
        }
    }

    fn redirect(&mut self, op: &str, target: &Node, names_a_variable: bool) {
        let word = self.word(target);
        let to = word.known();
        let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()) || text == "-";
        let only_reads = match op {
            "<<<" => true,
            "<" => to.is_some_and(|to| !to.starts_with("/dev/tcp") && !to.starts_with("/dev/udp")),
            "<&" => to.is_some_and(number),
            ">&" => to.is_some_and(|to| number(to) || SINKS.contains(&to)),
            ">" | ">>" | ">|" | "&>" | "&>>" => to.is_some_and(|to| SINKS.contains(&to)),
            _ => false,
        };
        if to.is_some_and(danger::is_a_disk) && op != "<" {
            self.hold(Rule::Danger, danger::RAW);
        }
        if !only_reads || names_a_variable {
            let what = plain(to.unwrap_or("a file whose name is computed"), super::QUOTED);
            self.hold(
                Rule::Redirection,
                format!("The command writes to {what}, or reads what may be more than a file."),
            );
        }
    }
}

/// Whether a variable is the command's own: programs and the shell obey those with capitals, and none without.
fn own_variable(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_lowercase() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

fn variable(name: &str) -> String {
    format!("The command sets {}, which programs or the shell may obey.", plain(name, super::QUOTED))
}
