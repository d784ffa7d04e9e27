//! Taking secrets out of text: the keys that Coppice itself holds, and what has the shape of a key.
//!
//! A secret is found by how it begins; what follows the beginning has to fit before it counts, so that ordinary words
//! stay. What was taken out reads [`MASKED`]. Everything here costs time that grows with the text and no faster.

mod shapes;

use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

/// What stands where a secret stood.
pub const MASKED: &str = "[masked secret]";

/// The shortest key that is looked for by its value, in bytes: a shorter one could be an ordinary word.
pub const SHORTEST: usize = 8;

/// How much of what was passed on is remembered, to see what stands before a secret.
const CONTEXT: usize = 128;

/// The longest piece that a stream gives up before it is known whether it begins a secret, in bytes.
const BEGUN: usize = 8;

/// Takes secrets out. Clones share the keys that they know.
#[derive(Clone, Default)]
pub struct Mask {
    held: Arc<RwLock<Held>>,
}

/// The keys that are known by their value.
#[derive(Default)]
struct Held {
    keys: Vec<SecretString>,
    forms: Vec<Vec<u8>>,
    finder: Option<AhoCorasick>,
}

impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mask")
    }
}

impl Mask {
    /// Takes this key out from now on, also where it stands in base64. One of fewer than [`SHORTEST`] bytes is not taken
    /// out.
    pub fn hold(&self, key: &SecretString) {
        let text = key.expose_secret().trim();
        let mut held = self.held.write().unwrap_or_else(PoisonError::into_inner);
        if text.len() < SHORTEST || held.keys.iter().any(|known| known.expose_secret() == text) {
            return;
        }
        held.keys.push(SecretString::from(text));
        held.forms.extend(forms(text));
        held.finder = Some(finder(&held.forms));
    }

    /// The text without secrets, and how many were taken out.
    pub fn text<'a>(&self, text: &'a str) -> (Cow<'a, str>, u64) {
        self.replaced(text, true)
    }

    /// The text without the keys that are held: for what people write, whose words are their own.
    pub fn own<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.replaced(text, false).0
    }

    /// The text without the secrets that stand within one word of a shell, for what a person is asked to allow: who wrote
    /// it must not be able to hide a part of it behind the beginning of a secret.
    pub fn words(&self, text: &str) -> String {
        let parts = |c: char| c.is_whitespace() || "'\"`;|&()<>{}$\\".contains(c);
        text.split_inclusive(parts)
            .map(|part| {
                let word = part.trim_end_matches(parts);
                format!("{}{}", self.text(word).0, &part[word.len()..])
            })
            .collect()
    }

    /// Takes secrets out of a text in place, and tells how many.
    pub fn clean(&self, text: &mut String) -> u64 {
        match self.text(text) {
            (Cow::Owned(masked), count) => {
                *text = masked;
                count
            }
            (Cow::Borrowed(_), count) => count,
        }
    }

    /// Takes secrets out of every text in a JSON value, and tells how many.
    pub fn value(&self, value: &mut Value) -> u64 {
        match value {
            Value::String(text) => self.clean(text),
            Value::Array(items) => items.iter_mut().map(|item| self.value(item)).sum(),
            Value::Object(fields) => fields.values_mut().map(|field| self.value(field)).sum(),
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        }
    }

    /// Takes secrets out of what comes in pieces.
    pub fn stream(&self) -> Stream {
        Stream { mask: self.clone(), window: Vec::new(), done: 0, told: false, masked: 0 }
    }

    fn replaced<'a>(&self, text: &'a str, shapes: bool) -> (Cow<'a, str>, u64) {
        let found = self.found(text.as_bytes(), true, shapes).secrets;
        if found.is_empty() {
            return (Cow::Borrowed(text), 0);
        }
        let mut out = String::with_capacity(text.len());
        let mut from = 0;
        for secret in &found {
            // Secrets begin and end on characters.
            out.push_str(text.get(from..secret.start).unwrap_or_default());
            out.push_str(MASKED);
            from = secret.end;
        }
        out.push_str(text.get(from..).unwrap_or_default());
        (Cow::Owned(out), found.len() as u64)
    }

    /// The secrets in these bytes, in order and apart. With `end` nothing follows them.
    fn found(&self, bytes: &[u8], end: bool, shapes: bool) -> Found {
        let mut found = if shapes { shapes::found(bytes, end) } else { Found::default() };
        let held = self.held.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(finder) = &held.finder {
            found.secrets.extend(finder.find_iter(bytes).map(|hit| hit.range()));
            if !end {
                let open = held.forms.iter().filter_map(|form| begun(bytes, form)).min();
                found.open = found.open.into_iter().chain(open).min();
            }
        }
        found.join()
    }
}

/// What was found in some bytes.
#[derive(Default)]
struct Found {
    secrets: Vec<Range<usize>>,
    /// Where something begins that what follows may make a secret.
    open: Option<usize>,
}

impl Found {
    /// Puts the secrets in order, and makes one of those that overlap.
    fn join(mut self) -> Self {
        self.secrets.sort_by_key(|secret| (secret.start, secret.end));
        let mut joined: Vec<Range<usize>> = Vec::with_capacity(self.secrets.len());
        for secret in self.secrets {
            match joined.last_mut() {
                Some(last) if secret.start < last.end => last.end = last.end.max(secret.end),
                _ => joined.push(secret),
            }
        }
        Self { secrets: joined, open: self.open }
    }
}

/// Where at the end of these bytes this form of a key begins without ending.
fn begun(bytes: &[u8], form: &[u8]) -> Option<usize> {
    let from = bytes.len().saturating_sub(form.len().saturating_sub(1));
    (from..bytes.len()).find(|&at| form.starts_with(&bytes[at..]))
}

/// How a key may show: as it is, and in base64 wherever it stands in what was encoded.
fn forms(key: &str) -> Vec<Vec<u8>> {
    let mut forms = vec![key.as_bytes().to_vec()];
    for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
        for shift in 0..3 {
            let mut bytes = vec![0; shift];
            bytes.extend_from_slice(key.as_bytes());
            let encoded = engine.encode(&bytes);
            // What the neighbours have a part in is left out.
            let from = (shift * 8).div_ceil(6);
            let until = bytes.len() * 8 / 6;
            forms.extend(encoded.get(from..until).map(|form| form.as_bytes().to_vec()));
        }
    }
    for engine in [&STANDARD, &URL_SAFE] {
        forms.push(engine.encode(key).into_bytes());
    }
    forms.sort();
    forms.dedup();
    forms
}

fn finder<P: AsRef<[u8]>>(patterns: &[P]) -> AhoCorasick {
    AhoCorasick::builder()
        .match_kind(MatchKind::LeftmostLongest)
        .build(patterns)
        .unwrap_or_else(|error| unreachable!("a few short patterns always fit: {error}"))
}

/// Takes secrets out of what comes in pieces, also where a secret is cut by the end of a piece: what may be the beginning
/// of one is kept back until it is known.
pub struct Stream {
    mask: Mask,
    /// The end of what was passed on, and what was kept back.
    window: Vec<u8>,
    /// How much of the window was passed on or taken out.
    done: usize,
    /// Whether what was dealt with last was taken out: what belongs to the same secret is not told again.
    told: bool,
    masked: u64,
}

impl Stream {
    /// Takes a piece, and answers what can be passed on.
    pub fn push(&mut self, piece: &[u8]) -> Vec<u8> {
        self.window.extend_from_slice(piece);
        self.pass(false)
    }

    /// Whether something is kept back.
    pub fn waits(&self) -> bool {
        self.done < self.window.len()
    }

    /// Nothing came for a while: passes on what is too little to give a secret away, and takes out what is more.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        match self.window.len() - self.done {
            0 => {}
            1..=BEGUN => self.plain(self.window.len(), &mut out),
            _ => self.secret(self.window.len(), &mut out),
        }
        self.trim();
        out
    }

    /// Nothing comes any more: answers what is left.
    pub fn finish(&mut self) -> Vec<u8> {
        self.pass(true)
    }

    /// How many secrets were taken out so far.
    pub fn masked(&self) -> u64 {
        self.masked
    }

    fn pass(&mut self, end: bool) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.window.len() - self.done);
        let Found { secrets, open } = self.mask.found(&self.window, end, true);
        let limit = open.unwrap_or(self.window.len());
        for secret in secrets.into_iter().filter(|secret| secret.start < limit) {
            if secret.end > self.done {
                if secret.start > self.done {
                    self.plain(secret.start, &mut out);
                }
                self.secret(secret.end, &mut out);
            }
        }
        if limit > self.done {
            self.plain(limit, &mut out);
        }
        self.trim();
        out
    }

    fn plain(&mut self, until: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.window[self.done..until]);
        (self.done, self.told) = (until, false);
    }

    fn secret(&mut self, until: usize, out: &mut Vec<u8>) {
        if !self.told {
            out.extend_from_slice(MASKED.as_bytes());
            self.masked += 1;
        }
        (self.done, self.told) = (until, true);
    }

    fn trim(&mut self) {
        let from = self.done.saturating_sub(CONTEXT);
        self.window.drain(..from);
        self.done -= from;
    }
}
