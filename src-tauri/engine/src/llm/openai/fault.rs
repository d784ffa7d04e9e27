//! What can go wrong on the way, in words for people and as what may be done about it. The key is never among the
//! words, also when the server repeats it.

use crate::keys::ending;
use crate::llm::{Failure, FailureKind};
use reqwest::StatusCode;
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use std::time::Duration;

/// How many characters of a server's own words are repeated.
const QUOTED: usize = 200;

/// The longest pause of a server that is taken at its word. Whoever asks for more asks for "not today".
pub const LONGEST_PAUSE: Duration = Duration::from_secs(24 * 60 * 60);

/// A failed try.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// What people read if it is final.
    pub failure: Failure,
    /// What may be done about it.
    pub again: Again,
}

/// What may be done about a failed try.
#[derive(Clone, Debug, PartialEq)]
pub enum Again {
    /// Nothing: the same request would fail again.
    Never,
    /// The same request later.
    Later {
        /// How long the server asks to wait.
        wait: Option<Duration>,
        /// Whether everybody who uses the model has to wait.
        everybody: bool,
    },
    /// Nobody was there: soon, and not often.
    Soon,
    /// The request in another form, if there is one; these are the server's words.
    Otherwise(String),
}

/// Whom failures speak about.
pub struct Place {
    /// The host and port, or the host.
    pub host: String,
    /// The name that the server knows the model by.
    pub model: String,
    /// The key.
    pub key: Option<SecretString>,
}

impl Fault {
    /// A fault that trying again does not heal.
    pub fn fatal(kind: FailureKind, message: String) -> Self {
        Self { failure: Failure::new(kind, message), again: Again::Never }
    }

    /// A fault that may be gone after a while.
    pub fn passing(kind: FailureKind, message: String) -> Self {
        let again = Again::Later { wait: None, everybody: false };
        Self { failure: Failure::new(kind, message), again }
    }
}

impl Place {
    /// The server could not be reached, or the connection broke.
    pub fn broken(&self, error: &reqwest::Error) -> Fault {
        let host = &self.host;
        let mut cause: &dyn std::error::Error = error;
        while let Some(deeper) = cause.source() {
            cause = deeper;
        }
        let cause = self.clean(&cause.to_string());
        if error.is_connect() {
            let refused = cause.contains("refused") || error.is_timeout();
            let why = if refused { String::new() } else { format!(" ({cause})") };
            let message = format!("{host} does not answer{why}. Nothing was sent.");
            return Fault { failure: Failure::new(FailureKind::Unreachable, message), again: Again::Soon };
        }
        Fault::passing(
            FailureKind::Unreachable,
            format!("The connection to {host} broke before it answered ({cause})."),
        )
    }

    /// No sign of life for too long.
    pub fn silent(&self, idle: Duration, came: bool) -> Fault {
        let kept = if came { " What came before is kept; nothing in it was run." } else { "" };
        let message = format!("{} gave no sign of life for {} s.{kept} Ask again.", self.host, idle.as_secs_f64());
        Fault::fatal(FailureKind::Silent, message)
    }

    /// The connection lived for too long without a word of the reply.
    pub fn wordless(&self, since: Duration, came: bool) -> Fault {
        let kept = if came { " What came before is kept; nothing in it was run." } else { "" };
        let message = format!(
            "{} kept the connection alive for {} s and said nothing.{kept} Ask again.",
            self.host,
            since.as_secs()
        );
        Fault::fatal(FailureKind::Silent, message)
    }

    /// The reply ended before it was finished.
    pub fn truncated(&self) -> Fault {
        let message = format!(
            "{} ended the reply before it was finished. What came before is kept; nothing in it was run. Ask again.",
            self.host
        );
        Fault::passing(FailureKind::Truncated, message)
    }

    /// What came was not a reply; `body` is its beginning.
    pub fn nonsense(&self, body: &str) -> Fault {
        let body = self.clean(body);
        let what =
            if body.is_empty() { "an empty answer".to_owned() } else { format!("no reply of a model: \"{body}\"") };
        Fault::fatal(FailureKind::Nonsense, format!("{} sent {what}. Check base_url.", self.host))
    }

    /// The reply says more than `most` bytes.
    pub fn too_large(&self, most: usize) -> Fault {
        let message = format!(
            "The reply is larger than {} MB, so {} was not heard to its end. What came before is kept; nothing in it was \
             run. Ask for less at once.",
            most / (1024 * 1024),
            self.host
        );
        Fault::fatal(FailureKind::Nonsense, message)
    }

    /// The reply ended for a reason that means nothing here, so it cannot be told whether it is whole.
    pub fn unknown_end(&self, reason: &str) -> Fault {
        let message = format!(
            "{} ended the reply for a reason that is not known: \"{}\". What came is kept. Ask again.",
            self.host,
            self.clean(reason)
        );
        Fault::fatal(FailureKind::Nonsense, message)
    }

    /// A part of a reply cannot be read.
    pub fn garbled(&self, part: &str) -> Fault {
        let message = format!(
            "{} sent a part of a reply that cannot be read: \"{}\". What came before is kept; nothing in it was run.",
            self.host,
            self.clean(part)
        );
        Fault::fatal(FailureKind::Nonsense, message)
    }

    /// The server answered with an HTTP status that is no success.
    pub fn refused(&self, status: StatusCode, headers: &HeaderMap, body: &str) -> Fault {
        let parsed = serde_json::from_str::<Value>(body).ok();
        let error = parsed.as_ref().map_or(&Value::Null, |body| body.get("error").unwrap_or(body));
        let mut fault = self.classify(status.as_u16(), error, body);
        if let Again::Later { wait, .. } = &mut fault.again {
            *wait = asked_wait(headers);
        }
        fault
    }

    /// The server reported an error inside a reply.
    pub fn reported(&self, error: &Value) -> Fault {
        let code = |name: &str| {
            let code = error.get(name)?;
            code.as_u64().or_else(|| code.as_str()?.parse().ok()).and_then(|code| u16::try_from(code).ok())
        };
        let guess = match error.get("type").and_then(Value::as_str) {
            Some(kind) if kind.contains("rate_limit") => 429,
            Some(kind) if kind.contains("overloaded") => 503,
            _ => 500,
        };
        let body = if error.is_null() { String::new() } else { error.to_string() };
        self.classify(code("code").or_else(|| code("status")).unwrap_or(guess), error, &body)
    }

    fn classify(&self, status: u16, error: &Value, body: &str) -> Fault {
        let Self { host, model, .. } = self;
        let words = said(error).unwrap_or_else(|| body.to_owned());
        let said = match self.clean(&words) {
            clean if clean.is_empty() => String::new(),
            clean => format!(" It said: \"{clean}\""),
        };
        if matches!(status, 400 | 413 | 422 | 500) && is_overflow(status, error, &words) {
            return Fault::fatal(FailureKind::ContextOverflow, self.overflow(error, &said));
        }
        let kind = match status {
            401 | 403 => FailureKind::Auth,
            429 => FailureKind::RateLimited,
            _ => FailureKind::Rejected,
        };
        let message = match status {
            401 | 403 => format!("{} was refused ({status}) by {host}.{said}", self.key_words()),
            404 => format!("{host} knows no model \"{model}\" at this address (404). Check base_url and model.{said}"),
            429 => format!("{host} takes no more requests for now (429).{said}"),
            300..=399 => format!("{host} points to another address ({status}). Set base_url to that one."),
            408 | 500.. => format!("{host} failed ({status}).{said}"),
            _ => format!("{host} refused the request ({status}).{said}"),
        };
        let out_of_money = [error.get("code"), error.get("type")].contains(&Some(&Value::from("insufficient_quota")));
        let again = match status {
            400 | 422 => Again::Otherwise(words.to_lowercase()),
            429 if out_of_money => Again::Never,
            429 | 503 | 529 => Again::Later { wait: None, everybody: true },
            408 | 500.. => Again::Later { wait: None, everybody: false },
            _ => Again::Never,
        };
        Fault { failure: Failure::new(kind, message), again }
    }

    fn overflow(&self, error: &Value, said: &str) -> String {
        let host = &self.host;
        let figure = |name: &str| error.get(name).and_then(Value::as_u64);
        match (figure("n_prompt_tokens"), figure("n_ctx")) {
            (Some(have), Some(most)) => {
                format!("The conversation has {have} tokens, and {host} takes {most}. Nothing was answered.")
            }
            _ => format!("The conversation is longer than what {host} takes. Nothing was answered.{said}"),
        }
    }

    fn key_words(&self) -> String {
        match &self.key {
            Some(key) => ending(key).map_or_else(|| "The key".to_owned(), |end| format!("The key ending {end}")),
            None => "A request without a key".to_owned(),
        }
    }

    /// A server's words made fit to be shown: one line, no control characters, not long, without the key.
    fn clean(&self, text: &str) -> String {
        let text = match &self.key {
            Some(key) => text.replace(key.expose_secret(), "[key]"),
            None => text.to_owned(),
        };
        let text: String = text.chars().map(|c| if c.is_whitespace() { ' ' } else { c }).collect();
        text.trim().chars().filter(|c| !c.is_control()).take(QUOTED).collect()
    }
}

/// The words of an error, in the places where servers put them.
fn said(error: &Value) -> Option<String> {
    let words = [error.get("message"), error.get("detail"), error.get("error"), Some(error)];
    let words = words.into_iter().flatten().find(|words| !words.is_null())?;
    Some(words.as_str().map_or_else(|| words.to_string(), str::to_owned))
}

fn is_overflow(status: u16, error: &Value, words: &str) -> bool {
    let names = [error.get("type"), error.get("code")];
    let named = names.into_iter().flatten().filter_map(Value::as_str);
    let words = words.to_lowercase();
    let tells = ["context length", "context size", "context window", "maximum context", "prompt is too long"];
    status == 413
        || named.into_iter().any(|name| ["exceed_context_size_error", "context_length_exceeded"].contains(&name))
        || tells.iter().any(|tell| words.contains(tell))
}

/// How long a server asks to wait, at most [`LONGEST_PAUSE`]: milliseconds, seconds, or a date, which is read against
/// the server's own clock.
fn asked_wait(headers: &HeaderMap) -> Option<Duration> {
    told_wait(headers).map(|wait| wait.min(LONGEST_PAUSE))
}

fn told_wait(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let number = |text: &str, unit: f64| {
        let seconds = text.parse::<f64>().ok()? * unit;
        if seconds > LONGEST_PAUSE.as_secs_f64() {
            return Some(LONGEST_PAUSE);
        }
        Duration::try_from_secs_f64(seconds).ok()
    };
    if let Some(wait) = text("retry-after-ms").and_then(|text| number(text, 0.001)) {
        return Some(wait);
    }
    let after = text(RETRY_AFTER.as_str())?;
    if let Some(wait) = number(after, 1.0) {
        return Some(wait);
    }
    let date = |text| httpdate::parse_http_date(text).ok();
    let now = date(text(DATE.as_str())?)?;
    Some(date(after)?.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::{HeaderName, HeaderValue};

    #[test]
    fn a_pause_is_understood_in_every_form() {
        let wait = |pairs: &[(&'static str, &'static str)]| {
            let pairs = pairs.iter().map(|&(k, v)| (HeaderName::from_static(k), HeaderValue::from_static(v)));
            asked_wait(&pairs.collect())
        };
        let date = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(wait(&[]), None);
        assert_eq!(wait(&[("retry-after", "7")]), Some(Duration::from_secs(7)));
        assert_eq!(wait(&[("retry-after", "7"), ("retry-after-ms", "350")]), Some(Duration::from_millis(350)));
        assert_eq!(wait(&[("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT"), date]), Some(Duration::from_secs(30)));
        assert_eq!(wait(&[("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT"), date]), Some(Duration::ZERO));
        assert_eq!(wait(&[("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT")]), None);
        for huge in ["86401", "99999999999999999999", "1e99", "Fri, 31 Dec 9999 23:59:59 GMT"] {
            assert_eq!(wait(&[("retry-after", huge), date]), Some(LONGEST_PAUSE), "{huge}");
        }
        for odd in ["-3", "NaN", "soon"] {
            assert_eq!(wait(&[("retry-after", odd), date]), None, "{odd}");
        }
    }
}
