//! What keys look like: how each kind begins, and what has to follow.

use super::Found;
use aho_corasick::{AhoCorasick, Input, MatchKind};
use std::ops::Range;
use std::sync::LazyLock;

/// The longest token that is followed, in bytes, the longest web token, and the longest private key.
const LONGEST: usize = 512;
const LONGEST_WEB: usize = 8 * 1024;
const LONGEST_PEM: usize = 16 * 1024;

/// How many bytes may lie between a name and its value.
const GAP: usize = 64;

/// What has to follow a beginning.
#[derive(Clone, Copy)]
enum Shape {
    /// At least so many letters, digits, `-` and `_`, with a digit among them. The beginning counts in this case only.
    Token(usize),
    /// Exactly so many.
    Exactly(usize),
    /// The three parts of a JSON web token.
    WebToken,
    /// The value of the header.
    Authorization,
    /// A value that looks random, after `:` or `=`.
    Assigned,
    /// The secret half of a pair of keys: 40 characters.
    AccessSecret,
    /// A private key, to its end.
    Pem,
}

/// How secrets begin. What is written in capitals or not is the same for those that are names.
const BEGINNINGS: &[(&str, Shape)] = &[
    ("sk-", Shape::Token(20)),
    ("sk_live_", Shape::Token(16)),
    ("rk_live_", Shape::Token(16)),
    ("ghp_", Shape::Token(30)),
    ("gho_", Shape::Token(30)),
    ("ghu_", Shape::Token(30)),
    ("ghs_", Shape::Token(30)),
    ("ghr_", Shape::Token(30)),
    ("github_pat_", Shape::Token(40)),
    ("glpat-", Shape::Token(20)),
    ("xoxa-", Shape::Token(10)),
    ("xoxb-", Shape::Token(10)),
    ("xoxe-", Shape::Token(10)),
    ("xoxp-", Shape::Token(10)),
    ("xoxr-", Shape::Token(10)),
    ("xoxs-", Shape::Token(10)),
    ("xapp-", Shape::Token(20)),
    ("hf_", Shape::Token(30)),
    ("gsk_", Shape::Token(40)),
    ("xai-", Shape::Token(40)),
    ("nvapi-", Shape::Token(40)),
    ("npm_", Shape::Token(36)),
    ("AIza", Shape::Exactly(35)),
    ("AKIA", Shape::Exactly(16)),
    ("ASIA", Shape::Exactly(16)),
    ("eyJ", Shape::WebToken),
    ("-----BEGIN ", Shape::Pem),
    ("authorization", Shape::Authorization),
    ("bearer ", Shape::Authorization),
    ("secret_access_key", Shape::AccessSecret),
    ("secretaccesskey", Shape::AccessSecret),
    ("api_key", Shape::Assigned),
    ("api-key", Shape::Assigned),
    ("apikey", Shape::Assigned),
    ("access_key", Shape::Assigned),
    ("private_key", Shape::Assigned),
    ("secret", Shape::Assigned),
    ("token", Shape::Assigned),
    ("passw", Shape::Assigned),
];

static FINDER: LazyLock<AhoCorasick> = LazyLock::new(|| {
    AhoCorasick::builder()
        .match_kind(MatchKind::LeftmostLongest)
        .ascii_case_insensitive(true)
        .build(BEGINNINGS.iter().map(|(literal, _)| literal))
        .unwrap_or_else(|error| unreachable!("a few short patterns always fit: {error}"))
});

/// What a beginning came to.
enum Look {
    Nothing,
    /// What follows decides.
    Open,
    Secret(Range<usize>),
}

/// The secrets in these bytes that show by their shape. With `end` nothing follows them.
pub(super) fn found(bytes: &[u8], end: bool) -> Found {
    let mut found = Found::default();
    let mut from = 0;
    // How far a run of web tokens was followed already, and found to be none.
    let mut web = 0;
    while let Some(hit) = FINDER.find(Input::new(bytes).span(from..bytes.len())) {
        let (literal, shape) = BEGINNINGS[hit.pattern().as_usize()];
        if matches!(shape, Shape::WebToken) && hit.start() < web {
            from = hit.start() + 1;
            continue;
        }
        match look(bytes, hit.start(), literal, shape, end) {
            Look::Nothing if matches!(shape, Shape::WebToken) => {
                from = hit.start() + 1;
                web = run(bytes, hit.start(), LONGEST_WEB, in_web_token);
            }
            Look::Nothing => from = hit.start() + 1,
            Look::Secret(secret) => {
                from = secret.end;
                found.secrets.push(secret);
            }
            Look::Open => {
                found.open = Some(hit.start());
                break;
            }
        }
    }
    if !end && found.open.is_none() {
        let cut = |(literal, _): &(&str, Shape)| begun(bytes, literal.as_bytes());
        found.open = BEGINNINGS.iter().filter_map(cut).min();
    }
    found
}

/// Where at the end of these bytes a beginning begins without ending.
fn begun(bytes: &[u8], literal: &[u8]) -> Option<usize> {
    let from = bytes.len().saturating_sub(literal.len() - 1);
    (from..bytes.len())
        .find(|&at| literal[..bytes.len() - at].eq_ignore_ascii_case(&bytes[at..]) && stands_alone(bytes, at))
}

fn look(bytes: &[u8], at: usize, literal: &str, shape: Shape, end: bool) -> Look {
    let after = at + literal.len();
    let exact = &bytes[at..after] == literal.as_bytes();
    let token = |fits: &dyn Fn(&[u8]) -> bool| {
        if !exact || !stands_alone(bytes, at) {
            return Look::Nothing;
        }
        match run(bytes, after, LONGEST, is_token) {
            until if until == bytes.len() && until < after + LONGEST && !end => Look::Open,
            until if fits(&bytes[after..until]) => Look::Secret(at..until),
            _ => Look::Nothing,
        }
    };
    match shape {
        Shape::Token(least) => token(&|tail| tail.len() >= least && tail.iter().any(u8::is_ascii_digit)),
        Shape::Exactly(count) => token(&|tail| tail.len() == count),
        Shape::WebToken => web_token(bytes, at, exact, end),
        Shape::Pem if exact => pem(bytes, at, after, end),
        Shape::Pem => Look::Nothing,
        Shape::Authorization => authorization(bytes, after, literal.ends_with(' '), end),
        Shape::Assigned => assigned(bytes, after, is_random, end),
        Shape::AccessSecret => assigned(bytes, after, |value| value.len() == 40, end),
    }
}

/// Whether a word may begin here: after no letter or digit, but after an escape that ends in one.
fn stands_alone(bytes: &[u8], at: usize) -> bool {
    let Some(&last) = at.checked_sub(1).and_then(|before| bytes.get(before)) else { return true };
    if !last.is_ascii_alphanumeric() {
        return true;
    }
    let before = &bytes[..at - 1];
    // "\n" as it is written in JSON, and the colours of a terminal.
    let written = matches!(last, b'n' | b't' | b'r') && before.last() == Some(&b'\\');
    let start = before.iter().rposition(|byte| !(byte.is_ascii_digit() || *byte == b';'));
    let coloured = last == b'm' && start.is_some_and(|at| at > 0 && before[at - 1..=at] == *b"\x1b[");
    written || coloured
}

/// Where the bytes of this kind end, at most `most` further on.
fn run(bytes: &[u8], from: usize, most: usize, kind: fn(u8) -> bool) -> usize {
    let most = bytes.len().min(from + most);
    bytes[from..most].iter().position(|byte| !kind(*byte)).map_or(most, |count| from + count)
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

fn is_value(byte: u8) -> bool {
    is_token(byte) || matches!(byte, b'.' | b'~' | b'+' | b'/' | b'=')
}

fn in_web_token(byte: u8) -> bool {
    is_token(byte) || byte == b'.'
}

fn web_token(bytes: &[u8], at: usize, exact: bool, end: bool) -> Look {
    if !exact || !stands_alone(bytes, at) {
        return Look::Nothing;
    }
    let until = run(bytes, at, LONGEST_WEB, in_web_token);
    if until == bytes.len() && until < at + LONGEST_WEB && !end {
        return Look::Open;
    }
    let mut parts = bytes[at..until].split(|byte| *byte == b'.');
    let long = |part: Option<&[u8]>| part.is_some_and(|part| part.len() >= 8);
    let (head, body, rest) = (parts.next(), parts.next(), parts.next());
    if long(head) && long(body) && body.is_some_and(|body| body.starts_with(b"eyJ")) && long(rest) {
        Look::Secret(at..until)
    } else {
        Look::Nothing
    }
}

fn pem(bytes: &[u8], at: usize, after: usize, end: bool) -> Look {
    const KEY: &[u8] = b"PRIVATE KEY-----";
    const END: &[u8] = b"-----END ";
    let title = &bytes[after..bytes.len().min(after + GAP)];
    let Some(headed) = title.windows(KEY.len()).position(|window| window == KEY) else {
        let goes_on = title.iter().all(|byte| byte.is_ascii_uppercase() || matches!(byte, b' ' | b'-'));
        return if !end && title.len() < GAP && goes_on { Look::Open } else { Look::Nothing };
    };
    let most = bytes.len().min(at + LONGEST_PEM);
    let body = after + headed + KEY.len();
    let closed = bytes.get(body..most).unwrap_or_default().windows(END.len()).position(|window| window == END);
    let closing = closed.map(|closed| body + closed + END.len());
    let dashes = closing.and_then(|closing| {
        let line = &bytes[closing..bytes.len().min(closing + GAP)];
        line.windows(5).position(|window| window == b"-----").map(|dashes| closing + dashes + 5)
    });
    match dashes {
        Some(until) => Look::Secret(at..until),
        None if !end && most < at + LONGEST_PEM => Look::Open,
        None => Look::Secret(at..most),
    }
}

/// What may stand between a name and its value: a quote, spaces, `:` or `=`, spaces, a quote. Answers where the value
/// begins; `Err(true)` when the bytes end before.
fn value_at(bytes: &[u8], from: usize) -> Result<usize, bool> {
    let mut at = from;
    let mut sign = false;
    while at < from + GAP {
        match bytes.get(at) {
            None => return Err(true),
            Some(b':' | b'=') if !sign => sign = true,
            Some(b' ' | b'\t' | b'"' | b'\'' | b'\\' | b'`') => {}
            Some(_) if sign => return Ok(at),
            Some(_) => return Err(false),
        }
        at += 1;
    }
    Err(false)
}

fn open_or_nothing(open: bool, end: bool) -> Look {
    if open && !end { Look::Open } else { Look::Nothing }
}

fn authorization(bytes: &[u8], after: usize, schemed: bool, end: bool) -> Look {
    let mut at = after;
    let mut scheme = schemed;
    if !schemed {
        at = match value_at(bytes, after) {
            Ok(at) => at,
            Err(open) => return open_or_nothing(open, end),
        };
        let word = run(bytes, at, GAP, |byte| byte.is_ascii_alphabetic());
        if word == bytes.len() && !end {
            return Look::Open;
        }
        let known = [&b"bearer"[..], b"basic", b"token", b"digest", b"apikey", b"bot"];
        if bytes.get(word) == Some(&b' ') && known.iter().any(|known| known.eq_ignore_ascii_case(&bytes[at..word])) {
            (at, scheme) = (word + 1, true);
        }
    }
    while bytes.get(at) == Some(&b' ') && at < after + GAP {
        at += 1;
    }
    let until = run(bytes, at, LONGEST, is_value);
    if until == bytes.len() && until < at + LONGEST && !end {
        return Look::Open;
    }
    let value = &bytes[at..until];
    let has = |kind: fn(&u8) -> bool| value.iter().any(kind);
    let mixed = has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase);
    let fits = if scheme {
        value.len() >= 8 && (has(u8::is_ascii_digit) || mixed)
    } else {
        value.len() >= 20 && has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic)
    };
    if fits { Look::Secret(at..until) } else { Look::Nothing }
}

fn assigned(bytes: &[u8], after: usize, fits: fn(&[u8]) -> bool, end: bool) -> Look {
    // The rest of the name: TOKEN_OF_SOMETHING, tokens.
    let named = run(bytes, after, GAP, is_token);
    if named == bytes.len() {
        return open_or_nothing(true, end);
    }
    let at = match value_at(bytes, named) {
        Ok(at) => at,
        Err(open) => return open_or_nothing(open, end),
    };
    let until = run(bytes, at, LONGEST, is_value);
    if until == bytes.len() && until < at + LONGEST && !end {
        return Look::Open;
    }
    if fits(&bytes[at..until]) { Look::Secret(at..until) } else { Look::Nothing }
}

/// Whether a value looks as if it had been drawn by lot: long, and letters and digits mixed as no word mixes them.
fn is_random(value: &[u8]) -> bool {
    let count = |kind: fn(&u8) -> bool| value.iter().filter(|byte| kind(byte)).count();
    let digits = count(u8::is_ascii_digit);
    let hex = value.len() >= 32 && count(u8::is_ascii_hexdigit) == value.len() && digits < value.len();
    let mixed = digits >= 3 && count(u8::is_ascii_uppercase) >= 2 && count(u8::is_ascii_lowercase) >= 2;
    let path = value.contains(&b'/') || value.contains(&b'.');
    hex && digits > 0 || value.len() >= 24 && mixed && !path
}
