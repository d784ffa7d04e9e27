//! OpenAI Chat Completions, and the many servers that speak nearly the same.
//!
//! What a server takes and what it does not is learned from its refusals and remembered: whether it knows
//! `stream_options`, whether it wants its reasoning back with the calls that came of it. The rest is tolerance in
//! what is read (`reply`) and strictness in what is sent (`body`).

use super::{Delta, Failure, FailureKind, Model, Reply, Request, Sink};
use crate::error::{Code, Error};
use crate::event::Block;
use crate::keys::KeySource;
use crate::llm::Message;
use async_trait::async_trait;
use fault::{Again, Fault, LONGEST_PAUSE, Place};
use pace::Pace;
use reply::{Finished, Heard, Reading};
use reqwest::{Client, RequestBuilder, Response, Url};
use secrecy::ExposeSecret;
use serde_json::Value;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout};

mod body;
mod fault;
mod pace;
mod reply;

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(10);
/// How long [`Model::check`] looks.
const CHECK: Duration = Duration::from_secs(5);
/// How long figures may take to follow a finished reply.
const TAIL: Duration = Duration::from_secs(2);
/// For how many idle times a server may show that it is there and say nothing.
const BEATS: u32 = 4;
/// The most bytes that are read of a refusal, and of a list of models.
const MAX_SIDE_BODY: usize = 4 * 1024 * 1024;
/// How often a server that is not there is asked.
const CONNECT_TRIES: u32 = 3;
/// The field that most servers give their reasoning in.
const REASONING: &str = "reasoning_content";

/// How a server is spoken to.
#[derive(Clone)]
pub struct OpenAiSettings {
    /// Where it is: `http://127.0.0.1:8080/v1`.
    pub base_url: String,
    /// The name that it knows the model by.
    pub model: String,
    /// Where the key comes from; none for a server that wants none. Where it has none nothing is sent.
    pub key: Option<Arc<dyn KeySource>>,
    /// The name of the key, for people.
    pub key_name: Option<String>,
    /// The size of the context in tokens; asked of the server without one.
    pub context: Option<u64>,
    /// How long it may give no sign of life, before its answer and within it.
    pub idle: Duration,
    /// How often one request is sent at most.
    pub tries: u32,
    /// The wait before the second try; it doubles from try to try.
    pub first_wait: Duration,
    /// The longest wait that the adapter chooses by itself.
    pub longest_wait: Duration,
    /// How long one request waits for its tries in all. A server that asks for more is not waited for.
    pub patience: Duration,
    /// How far requests are spread after a pause that the server asked for.
    pub spread: Duration,
}

impl OpenAiSettings {
    /// The settings for a server without a key, with the usual bounds.
    pub fn new(base_url: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            model: model.into(),
            key: None,
            key_name: None,
            context: None,
            idle: Duration::from_secs(300),
            tries: 5,
            first_wait: Duration::from_millis(500),
            longest_wait: Duration::from_secs(30),
            patience: Duration::from_secs(120),
            spread: Duration::from_millis(500),
        }
    }
}

/// A model behind an OpenAI-compatible server. All sessions that use it share one of these.
pub struct OpenAi {
    settings: OpenAiSettings,
    base: Url,
    host: String,
    client: Client,
    pace: Pace,
    learned: Mutex<Learned>,
    /// The context that the server told; 0 for none.
    context: AtomicU64,
}

/// What a server has taught.
#[derive(Clone, Copy, Debug, Default)]
struct Learned {
    /// Whether it takes `stream_options`.
    usage: Option<bool>,
    reasoning: Reasoning,
}

/// What a server does about reasoning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Reasoning {
    #[default]
    Unknown,
    /// It gives some in this field.
    Given(&'static str),
    /// It takes it back in this field.
    Taken(&'static str),
    /// It takes none.
    Refused,
}

/// Which optional fields a request has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    usage: bool,
    reasoning: Option<&'static str>,
}

impl OpenAi {
    /// A model behind the server of these settings. Nothing is sent yet.
    pub fn new(settings: OpenAiSettings) -> Result<Self, Error> {
        let bad = |why: String| Error::new(Code::BadRequest, why);
        let base = format!("{}/", settings.base_url.trim().trim_end_matches('/'));
        let base = Url::parse(&base).map_err(|error| bad(format!("base_url is no address: {error}.")))?;
        let Some(host) = base.host_str().filter(|_| matches!(base.scheme(), "http" | "https")) else {
            return Err(bad("base_url has to begin with http:// or https:// and name a host.".to_owned()));
        };
        let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
        let local = host == "localhost" || address.is_ok_and(|address| address.is_loopback());
        let host = base.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        // A server that points elsewhere is reported, not followed: the history and the key go where they were sent.
        let client = Client::builder()
            .connect_timeout(CONNECT)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("Coppice/", env!("CARGO_PKG_VERSION")));
        let client = if local { client.no_proxy() } else { client };
        let client = client.build().map_err(|error| {
            Error::new(Code::Internal, format!("The connection to {host} cannot be prepared.")).because(error)
        })?;
        let pace = Pace::new(settings.spread);
        Ok(Self { settings, base, host, client, pace, learned: Mutex::default(), context: AtomicU64::new(0) })
    }

    /// Whom a request goes to, with the key as it is now.
    async fn place(&self) -> Result<Place, Failure> {
        let Self { settings, host, .. } = self;
        let key = match &settings.key {
            Some(source) => {
                let name = settings.key_name.as_deref().unwrap_or("the key");
                let missing = |why: &str| {
                    let message = format!("The key for {host} is missing: {name} {why} Nothing was sent.");
                    Failure::new(FailureKind::Auth, message)
                };
                let set = format!("is not set. Set it with `coppice key set {name}`.");
                let found = source.key().await.map_err(|why| missing(&format!("was not found, and {why}")))?;
                Some(found.ok_or_else(|| missing(&set))?)
            }
            None => None,
        };
        Ok(Place { host: host.clone(), model: settings.model.clone(), key })
    }

    /// A request to `path` below the base address, with the key.
    fn call(&self, place: &Place, method: reqwest::Method, path: &str) -> Result<RequestBuilder, Failure> {
        let url = self.base.join(path).map_err(|error| {
            Failure::new(FailureKind::Rejected, format!("base_url of {} does not work: {error}.", place.host))
        })?;
        let request = self.client.request(method, url);
        Ok(match &place.key {
            Some(key) => request.bearer_auth(key.expose_secret()),
            None => request,
        })
    }

    /// Sends one request and reads its reply.
    async fn attempt(
        &self,
        place: &Place,
        body: Vec<u8>,
        heard: &Heard<'_>,
        sink: &dyn Sink,
    ) -> Result<Finished, Fault> {
        let settings = &self.settings;
        let sent = body.len();
        let request = self
            .call(place, reqwest::Method::POST, "chat/completions")
            .map_err(|failure| Fault { failure, again: Again::Never })?
            .header("content-type", "application/json")
            .header("accept", "text/event-stream, application/json")
            .body(body);
        let answer = timeout(settings.idle, request.send()).await.map_err(|_| place.silent(settings.idle, false))?;
        let mut answer = answer.map_err(|error| place.broken(&error))?;
        if !answer.status().is_success() {
            let (status, headers) = (answer.status(), answer.headers().clone());
            let words = side_body(answer, settings.idle.min(CHECK)).await;
            return Err(place.refused(status, &headers, &words));
        }
        let mut reading = Reading::new(place, heard);
        let mut said = Instant::now();
        loop {
            let limit = if reading.is_finished() { settings.idle.min(TAIL) } else { settings.idle };
            match timeout(limit, answer.chunk()).await {
                Ok(Ok(Some(bytes))) => {
                    let before = heard.passed();
                    reading.push(&bytes)?;
                    if heard.passed() != before {
                        said = Instant::now();
                    } else if said.elapsed() > settings.idle * BEATS && !reading.is_finished() {
                        return Err(place.wordless(said.elapsed(), before > 0));
                    } else {
                        sink.delta(Delta::Alive);
                    }
                    if reading.is_done() {
                        break;
                    }
                }
                Ok(Ok(None)) => break,
                // A finished reply stands, whatever becomes of the connection.
                Ok(Err(_)) | Err(_) if reading.is_finished() => break,
                Ok(Err(_)) => return Err(place.truncated()),
                Err(_) => return Err(place.silent(limit, heard.passed() > 0)),
            }
        }
        reading.end(sent)
    }

    /// A key that was refused may have been changed where it is kept.
    fn note_refusal(&self, failure: &Failure) {
        if let (FailureKind::Auth, Some(source)) = (failure.kind, &self.settings.key) {
            source.refused();
        }
    }

    fn learned(&self) -> Learned {
        *self.learned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers that the server took a request of this shape, and the field that it gave its reasoning in.
    fn learn(&self, shape: Shape, sent_reasoning: bool, came_in: Option<&'static str>) {
        let mut learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        learned.usage = Some(shape.usage);
        learned.reasoning = match (shape.reasoning, learned.reasoning) {
            (None, _) if sent_reasoning => Reasoning::Refused,
            (_, Reasoning::Refused) => Reasoning::Refused,
            (Some(field), _) if sent_reasoning && came_in.is_none_or(|came_in| came_in == field) => {
                Reasoning::Taken(field)
            }
            (_, before) => came_in.map_or(before, Reasoning::Given),
        };
    }

    /// The shape of the first try: what is known to work, and else what most servers take.
    fn shape(&self, request: &Request) -> Shape {
        let learned = self.learned();
        let reasoned = |message: &Message| match message {
            Message::Assistant(blocks) => blocks.iter().any(|block| matches!(block, Block::Thinking { .. })),
            Message::User(_) | Message::Tool { .. } => false,
        };
        let reasoning = match learned.reasoning {
            Reasoning::Given(field) | Reasoning::Taken(field) => Some(field),
            Reasoning::Refused => None,
            Reasoning::Unknown => request.messages.iter().any(reasoned).then_some(REASONING),
        };
        Shape { usage: learned.usage.unwrap_or(true), reasoning }
    }
}

/// The ways in which one request has been changed, each at most once.
#[derive(Default)]
struct Changed {
    usage: bool,
    reasoning: bool,
}

impl Changed {
    /// Another shape for a request that was refused with `words`, if there is one that may do better.
    fn next(&mut self, shape: Shape, learned: Learned, calls: bool, words: &str) -> Option<Shape> {
        let about_reasoning = words.contains("reasoning");
        let about_usage = words.contains("stream_options") || words.contains("include_usage");
        if about_reasoning && calls && !self.reasoning {
            self.reasoning = true;
            return Some(Shape { reasoning: shape.reasoning.is_none().then_some(REASONING), ..shape });
        }
        if shape.usage && !self.usage && (about_usage || (!about_reasoning && learned.usage.is_none())) {
            self.usage = true;
            return Some(Shape { usage: false, ..shape });
        }
        let doubtful = calls && shape.reasoning.is_some() && !matches!(learned.reasoning, Reasoning::Taken(_));
        if doubtful && !self.reasoning && !about_usage {
            self.reasoning = true;
            return Some(Shape { reasoning: None, ..shape });
        }
        None
    }
}

#[async_trait]
impl Model for OpenAi {
    async fn ask(&self, request: &Request, sink: &dyn Sink) -> Result<Reply, Failure> {
        let Self { settings, pace, .. } = self;
        let place = &self.place().await?;
        let heard = Heard::new(sink);
        let calls = request.messages.iter().any(|message| matches!(message, Message::Tool { .. }));
        let mut shape = self.shape(request);
        let mut changed = Changed::default();
        let mut sent_reasoning = false;
        let mut tries = 0;
        let mut waited = Duration::ZERO;
        // Why the next request has to wait; nothing of its own before it was sent.
        let mut reason = format!("{} asked for a pause.", place.host);
        let mut last: Option<Failure> = None;
        let mut own = Instant::now();
        loop {
            // Waits for its place: later again when somebody else was told to pause meanwhile.
            while let Some(until) = pace.place().max((own > Instant::now()).then_some(own)) {
                let wait = until - Instant::now();
                waited += wait;
                if waited > settings.patience {
                    let failure = last.unwrap_or_else(|| Failure::new(FailureKind::RateLimited, reason));
                    return Err(gave_up(failure, tries, Some(wait)));
                }
                sink.delta(Delta::Retry { reason: reason.clone(), wait });
                sleep_until(until).await;
                if !pace.is_held() {
                    break;
                }
            }
            sent_reasoning |= calls && shape.reasoning.is_some();
            let body = body::build(request, &settings.model, &shape).to_string().into_bytes();
            tries += 1;
            let fault = match self.attempt(place, body, &heard, sink).await {
                Ok(finished) => {
                    pace.release();
                    self.learn(shape, sent_reasoning, finished.reasoning);
                    return Ok(finished.reply);
                }
                Err(fault) => fault,
            };
            self.note_refusal(&fault.failure);
            if heard.passed() > 0 {
                return Err(fault.failure);
            }
            let (wait, everybody, most) = match fault.again {
                Again::Never => return Err(gave_up(fault.failure, tries, None)),
                Again::Otherwise(words) => match changed.next(shape, self.learned(), calls, &words) {
                    Some(next) => {
                        shape = next;
                        continue;
                    }
                    None => return Err(fault.failure),
                },
                Again::Soon => (None, false, settings.tries.min(CONNECT_TRIES)),
                Again::Later { wait, everybody } => (wait, everybody, settings.tries),
            };
            if tries >= most {
                return Err(gave_up(fault.failure, tries, None));
            }
            let wait = wait.unwrap_or_else(|| pace::back_off(settings.first_wait, settings.longest_wait, tries));
            own = Instant::now() + wait;
            if everybody {
                pace.hold(own);
            }
            reason = fault.failure.message.clone();
            last = Some(fault.failure);
        }
    }

    fn context(&self) -> Option<u64> {
        let told = self.context.load(Ordering::Relaxed);
        self.settings.context.or((told > 0).then_some(told))
    }

    async fn check(&self) -> Result<(), Failure> {
        let place = &self.place().await?;
        let request = self.call(place, reqwest::Method::GET, "models")?;
        let answer = timeout(CHECK, request.send()).await.map_err(|_| place.silent(CHECK, false).failure)?;
        let answer = answer.map_err(|error| place.broken(&error).failure)?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        let words = side_body(answer, CHECK).await;
        // A server without a list of models is there all the same.
        if status.is_success() {
            if let Some(context) = told_context(&words, &self.settings.model) {
                self.context.store(context, Ordering::Relaxed);
            }
            return Ok(());
        }
        if matches!(status.as_u16(), 404 | 405 | 501) {
            Ok(())
        } else {
            let failure = place.refused(status, &headers, &words).failure;
            self.note_refusal(&failure);
            Err(failure)
        }
    }
}

/// The failure after the last try.
fn gave_up(mut failure: Failure, tries: u32, asked: Option<Duration>) -> Failure {
    if let Some(asked) = asked {
        // Time has passed since the server asked for the pause.
        let away = match asked.as_secs().div_ceil(60) {
            _ if asked + Duration::from_secs(60) > LONGEST_PAUSE => "a day or more".to_owned(),
            0 | 1 => format!("{} s", asked.as_secs()),
            minutes @ ..120 => format!("{minutes} min"),
            minutes => format!("{} h", minutes.div_ceil(60)),
        };
        failure.message.push_str(&format!(" The next try would be {away} away. Ask again later."));
    } else if tries > 1 {
        failure.message.push_str(&format!(" Tried {tries} times. Ask again later."));
    }
    failure
}

/// The text of a body that is no reply, as far as it comes in time and is not too long.
async fn side_body(mut answer: Response, limit: Duration) -> String {
    let mut body = Vec::new();
    let read = async {
        while let Ok(Some(bytes)) = answer.chunk().await {
            body.extend_from_slice(&bytes);
            if body.len() > MAX_SIDE_BODY {
                break;
            }
        }
    };
    // What came in time is what there is to show; the status has told the rest.
    let _ = timeout(limit, read).await;
    String::from_utf8_lossy(&body).into_owned()
}

/// The size of a model's context, in the places where servers put it in their list of models.
fn told_context(models: &str, model: &str) -> Option<u64> {
    let models: Value = serde_json::from_str(models).ok()?;
    let models = models.get("data")?.as_array()?;
    let entry = models.iter().find(|entry| entry["id"] == model).or(if let [only] = &models[..] {
        Some(only)
    } else {
        None
    })?;
    ["/meta/n_ctx", "/max_model_len", "/context_length", "/context_window", "/max_context_length"]
        .iter()
        .find_map(|path| entry.pointer(path)?.as_u64())
}
