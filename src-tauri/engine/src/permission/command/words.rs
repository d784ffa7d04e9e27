//! Words as a shell would hand them to a program, as far as that can be told beforehand.

use rable::{Node, NodeKind};

/// One word of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Word {
    /// What is known of it, from its beginning on.
    lead: String,
    /// Whether something comes after that which is only known when the command runs.
    open: bool,
    /// Whether it may become several words, or none.
    splits: bool,
}

impl Word {
    /// A word of which nothing is known.
    pub fn anything() -> Self {
        Self { lead: String::new(), open: true, splits: true }
    }

    /// The word, when all of it is known.
    pub fn known(&self) -> Option<&str> {
        (!self.open).then_some(&*self.lead)
    }

    /// What is known of it, from its beginning on.
    pub fn lead(&self) -> &str {
        &self.lead
    }

    /// Whether it is exactly this.
    pub fn is(&self, text: &str) -> bool {
        self.known() == Some(text)
    }

    /// Whether it stays one word.
    pub fn is_one(&self) -> bool {
        !self.splits
    }

    /// Whether no program could take it for an option, whatever it becomes.
    pub fn is_no_option(&self) -> bool {
        match self.known() {
            Some(text) => !text.starts_with('-') || text == "-",
            None => self.is_one() && !self.lead.is_empty() && !self.lead.starts_with('-'),
        }
    }

    fn learn(&mut self, c: char) {
        if !self.open {
            self.lead.push(c);
        }
    }

    fn computed(&mut self, splits: bool) {
        self.open = true;
        self.splits |= splits;
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Quotes {
    None,
    Single,
    Double,
}

/// A word, and the commands that run to make it.
///
/// # Errors
/// What in it cannot be judged; it continues a sentence.
pub fn read(node: &Node) -> Result<(Word, Vec<&Node>), &'static str> {
    let NodeKind::Word { parts, .. } = &node.kind else { return Err("a list of values is assigned") };
    let mut word = Word::default();
    let mut inside = Vec::new();
    let mut quotes = Quotes::None;
    for (at, part) in parts.iter().enumerate() {
        let bare = quotes == Quotes::None;
        match &part.kind {
            NodeKind::WordLiteral { value } => {
                let last = at + 1 == parts.len();
                quotes = literal(value, quotes, last, &mut word)?;
            }
            _ if quotes == Quotes::Single => return Err("its quotes cannot be followed"),
            NodeKind::ParamExpansion { param, op, arg } => {
                parameter(param, op.as_deref(), arg.as_deref())?;
                word.computed(bare || matches!(&**param, "@" | "*"));
            }
            NodeKind::ParamLength { param } => {
                parameter(param, None, None)?;
                word.computed(bare);
            }
            NodeKind::CommandSubstitution { command, .. } => {
                inside.push(&**command);
                word.computed(bare);
            }
            NodeKind::ProcessSubstitution { command, .. } if bare => {
                inside.push(&**command);
                "/dev/fd/".chars().for_each(|c| word.learn(c));
                word.computed(false);
            }
            NodeKind::AnsiCQuote { .. } if bare => word.computed(false),
            NodeKind::BraceExpansion { content } if bare && !content.contains(['$', '`', '\'', '"', '\\']) => {
                word.computed(false);
            }
            NodeKind::ArithmeticExpansion { expression: Some(expression) } if numbers_only(expression) => {
                word.computed(bare);
            }
            NodeKind::ArithmeticExpansion { .. } => return Err("it computes, and computing can run commands"),
            _ => return Err("a word in it is of a kind that is not known"),
        }
    }
    if quotes == Quotes::None { Ok((word, inside)) } else { Err("its quotes cannot be followed") }
}

/// Takes the quotes off a piece of a word. `last` says that no other piece follows.
fn literal(text: &str, mut quotes: Quotes, last: bool, word: &mut Word) -> Result<Quotes, &'static str> {
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (quotes, c) {
            (Quotes::None, '\'') => quotes = Quotes::Single,
            (Quotes::Single, '\'') | (Quotes::Double, '"') => quotes = Quotes::None,
            (Quotes::Single, _) => word.learn(c),
            (Quotes::None, '"') => quotes = Quotes::Double,
            (Quotes::None | Quotes::Double, '`') => return Err("a command inside of it cannot be followed"),
            (Quotes::None | Quotes::Double, '$') => {
                let ends = match chars.peek() {
                    None => last,
                    Some('"') => quotes == Quotes::Double,
                    Some(next) => matches!(next, ' ' | '|' | ')' | '/' | '.' | ',' | '%'),
                };
                if !ends {
                    return Err("a variable in it cannot be followed");
                }
                word.learn(c);
            }
            (Quotes::None, '\\') => match chars.next() {
                None => return Err("it ends in a backslash"),
                Some('\n') => {}
                Some(next) => word.learn(next),
            },
            (Quotes::Double, '\\') => match chars.next() {
                None => return Err("its quotes cannot be followed"),
                Some('\n') => {}
                Some(next) => {
                    if !matches!(next, '$' | '`' | '"' | '\\') {
                        word.learn('\\');
                    }
                    word.learn(next);
                }
            },
            (Quotes::Double, _) => word.learn(c),
            // On its own it is the name of a test.
            (Quotes::None, '[') if last && chars.peek().is_none() && word.is("") => word.learn(c),
            (Quotes::None, '*' | '?' | '[') => word.computed(false),
            (Quotes::None, '{') if chars.peek() != Some(&'}') => word.computed(false),
            (Quotes::None, '<' | '>' | '|' | '&' | ';' | '(' | ')' | ' ' | '\t' | '\n') => {
                return Err("a word in it cannot be followed");
            }
            (Quotes::None, _) => word.learn(c),
        }
    }
    Ok(quotes)
}

/// Whether the value of a parameter is taken without computing or assigning anything.
fn parameter(name: &str, op: Option<&str>, arg: Option<&str>) -> Result<(), &'static str> {
    let special = matches!(name, "@" | "*" | "#" | "?" | "$" | "!" | "-");
    if !special && !is_name(name) {
        return Err("a variable in it is computed");
    }
    let plain = |arg: &str| !arg.contains(['$', '`', '\\', '\'', '"', '(', '<', '>']);
    match op {
        None if arg.is_none() => Ok(()),
        Some("-" | ":-" | "+" | ":+" | "#" | "##" | "%" | "%%") if arg.is_none_or(plain) => Ok(()),
        _ => Err("a variable in it is computed"),
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Whether an expression holds nothing but numbers: the value of a variable would be computed in its turn.
fn numbers_only(node: &Node) -> bool {
    match &node.kind {
        NodeKind::ArithNumber { value } => value.bytes().all(|byte| byte.is_ascii_alphanumeric()),
        NodeKind::ArithBinaryOp { left, right, .. } => numbers_only(left) && numbers_only(right),
        NodeKind::ArithUnaryOp { operand, .. } => numbers_only(operand),
        _ => false,
    }
}

/// Whether a word of `[[ ]]` is text and simple variables.
pub fn plain_term(text: &str) -> bool {
    let mut rest = text;
    if text.contains(['`', '\n']) || text.contains("<(") || text.contains(">(") {
        return false;
    }
    while let Some((_, after)) = rest.split_once('$') {
        rest = after;
        if let Some(inner) = after.strip_prefix('{') {
            match inner.split_once('}') {
                Some((name, after)) if is_name(name) => rest = after,
                _ => return false,
            }
        } else if after.starts_with(['(', '[', '\'', '"']) {
            return false;
        }
    }
    true
}
