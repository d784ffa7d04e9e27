//! The rehearsal: a model without a model. It plays, so that Coppice can be tried without a key, and tested.
//!
//! It has no state of its own: what it does next follows from the history it is given, so a session that was stopped,
//! resumed or restarted goes on where it was. It calls only tools that it is offered, and everything it reports stands
//! in the results of its tools. It says that it is the rehearsal.
//!
//! # The tour
//!
//! Without a script it plays a tour: it starts three children in the background, which look at the folder with real
//! tools, take messages and can be stopped, and it reports what they found. A message to a child changes what it does
//! next: `stop after this`, a path, a pattern of names like `*.rs`, or `look for something`.
//!
//! # Scripts
//!
//! A script is a JSON document. It comes from a file (`script` in the model's configuration), or stands in a block of
//! the first message to a root, between a line that reads ```` ```rehearsal ```` and one that reads ```` ``` ````;
//! then it holds for the root's children too. A block in a child's own prompt comes before both.
//!
//! ```json
//! {"sessions": {
//!   "root": {"steps": [
//!     [{"say": "I start a look."},
//!      {"call": {"tool": "subagent", "args": {"description": "look", "prompt": "Look.", "run_in_background": true}}}],
//!     [{"say": "It is at work."}],
//!     [{"call": {"tool": "task_output", "args": {"task_id": "{{task:0}}"}}}],
//!     [{"say": "It found: "}, {"say_result": {"of": -1}}]
//!   ]},
//!   "look": {"steps": [[{"wait_ms": 500}, {"say": "Nothing."}]]},
//!   "*": {"steps": [[{"say": "I have no part."}]]}
//! }}
//! ```
//!
//! A session plays the part named like its label; a root plays `root`; who has none plays `*`. The first request of a
//! session plays the first step, and each reply in its history moves it one on. After the last step, and without a
//! part, it says `done`. A step is a list of actions:
//!
//! | action | effect |
//! |---|---|
//! | `{"say": "text"}` | streams prose, word by word |
//! | `{"think": "text"}` | streams reasoning |
//! | `{"call": {"tool": "name", "args": {…}}}` | calls a tool; `args` is an object, or a string that is sent as it stands |
//! | `{"say_result": {"of": -1}}` | streams what a tool answered: a position among all results of the session, from 0, or from the end when negative; or a tool's name for its last result |
//! | `{"wait_ms": 500}` | a pause of at most an hour, scaled by the pace |
//! | `{"until_file": "name"}` | waits until the file exists; relative to the session's folder; ten minutes at most |
//! | `{"hang": true}` | gives no sign of life until it is stopped |
//! | `{"fail": {"kind": "truncated", "message": "…"}}` | fails; the kind is `unreachable`, `auth`, `rate_limited`, `context_overflow`, `rejected`, `truncated`, `silent` or `nonsense` |
//! | `{"stop": "max_tokens"}` | ends the reply for this reason, or for `refusal`; calls of such a reply are dropped |
//! | `{"usage": {"input": 9, "output": 3, "cached": 0}}` | the tokens that are reported instead of an estimate |
//!
//! In words and arguments, `{{task:0}}` and `{{child:0}}` stand for the first id of a background task and of a child
//! session that a tool has answered, `{{task:1}}` for the second, and so on.

use super::{Delta, Failure, FailureKind, Message, Model, Reply, Request, Sink};
use crate::event::{Block, Stop, Usage};
use crate::id::{CallId, SessionId};
use crate::scope::Scope;
use async_trait::async_trait;
pub use script::Script;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, sleep};

mod facts;
mod history;
mod look;
mod orders;
mod result;
mod script;
mod titles;
mod tour;

/// How long a word takes at pace 1, and how long prose of any length takes at most.
const WORD: Duration = Duration::from_millis(45);
const LONGEST_SPEECH: Duration = Duration::from_secs(4);
/// How often a file that is waited for is looked for, and for how long.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
const WAIT_FOR_FILE: Duration = Duration::from_secs(600);

/// The model that plays.
pub struct Rehearsal {
    script: Option<Arc<Script>>,
    pace: f64,
    /// The scripts that stood in the first messages of roots, for their children.
    of_roots: Mutex<HashMap<SessionId, Arc<Script>>>,
}

/// One thing that it does within a reply.
#[derive(Clone, Debug, PartialEq)]
enum Act {
    Say(String),
    Think(String),
    Call {
        tool: String,
        args: String,
    },
    /// Scaled by the pace.
    Pause(Duration),
    UntilFile(PathBuf),
    Hang,
    Fail(Failure),
    Stop(Stop),
    Usage(Usage),
}

impl Rehearsal {
    /// Plays the tour. `pace` scales every pause: 1 for people, 0 for none; the configuration bounds it.
    pub fn tour(pace: f64) -> Self {
        Self { script: None, pace, of_roots: Mutex::default() }
    }

    /// Plays a script.
    pub fn script(script: Script, pace: f64) -> Self {
        Self { script: Some(Arc::new(script)), ..Self::tour(pace) }
    }

    /// The script that a request is played by; none for the tour.
    fn script_for(&self, request: &Request) -> Result<Option<Arc<Script>>, Failure> {
        if let Some(block) = history::first_message(request).and_then(script::block) {
            let script = Script::parse(block).map_err(|why| {
                Failure::new(FailureKind::Rejected, format!("The rehearsal cannot play the script, {why}"))
            })?;
            let script = Arc::new(script);
            if request.depth == 0 {
                self.of_roots().insert(request.root.clone(), script.clone());
            }
            return Ok(Some(script));
        }
        Ok(self.of_roots().get(&request.root).or(self.script.as_ref()).cloned())
    }

    fn of_roots(&self) -> std::sync::MutexGuard<'_, HashMap<SessionId, Arc<Script>>> {
        self.of_roots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn pause(&self, pause: Duration) {
        if self.pace > 0.0 {
            sleep(pause.mul_f64(self.pace)).await;
        }
    }

    /// Streams `text` in pieces that `cut` makes of it.
    async fn stream(&self, pieces: Vec<&str>, mut pass: impl FnMut(String) + Send) {
        let most = LONGEST_SPEECH / u32::try_from(pieces.len().max(1)).unwrap_or(u32::MAX);
        for piece in pieces {
            pass(piece.to_owned());
            self.pause(WORD.min(most)).await;
        }
    }
}

#[async_trait]
impl Model for Rehearsal {
    async fn ask(&self, request: &Request, sink: &dyn Sink) -> Result<Reply, Failure> {
        let acts = match self.script_for(request)? {
            Some(script) => script.acts(request)?,
            None => {
                // The tour looks whether paths in messages exist.
                let request = request.clone();
                Scope::blocking(move || if request.depth == 0 { tour::acts(&request) } else { look::acts(&request) })
                    .await
            }
        };
        let mut blocks: Vec<Block> = Vec::new();
        let mut stop = Stop::Complete;
        let mut told = None;
        for act in acts {
            match act {
                Act::Say(text) => {
                    if !matches!(blocks.last(), Some(Block::Text { .. })) {
                        blocks.push(Block::Text { text: String::new() });
                    }
                    let index = blocks.len() - 1;
                    self.stream(text.split_inclusive(char::is_whitespace).collect(), |text| {
                        sink.delta(Delta::Text { index, text });
                    })
                    .await;
                    if let Some(Block::Text { text: said }) = blocks.last_mut() {
                        said.push_str(&text);
                    }
                }
                Act::Think(text) => {
                    let index = blocks.len();
                    self.stream(text.split_inclusive(char::is_whitespace).collect(), |text| {
                        sink.delta(Delta::Thinking { index, text });
                    })
                    .await;
                    blocks.push(Block::Thinking { text });
                }
                Act::Call { tool, args } => {
                    let index = blocks.len();
                    sink.delta(Delta::ToolArgs { index, name: tool.clone(), text: String::new() });
                    self.stream(args.split_inclusive([' ', ',']).collect(), |text| {
                        sink.delta(Delta::ToolArgs { index, name: tool.clone(), text });
                    })
                    .await;
                    blocks.push(Block::ToolCall { id: CallId(String::new()), name: tool, args });
                }
                Act::Pause(pause) => self.pause(pause).await,
                Act::UntilFile(path) => until_file(path).await?,
                Act::Hang => std::future::pending().await,
                Act::Fail(failure) => return Err(failure),
                Act::Stop(reason) => stop = reason,
                Act::Usage(usage) => told = Some(usage),
            }
        }
        if stop != Stop::Complete {
            blocks.retain(|block| !matches!(block, Block::ToolCall { .. }));
        }
        let usage = told.unwrap_or_else(|| estimate(request, &blocks));
        Ok(Reply { blocks, stop, usage })
    }

    fn context(&self) -> Option<u64> {
        None
    }

    async fn check(&self) -> Result<(), Failure> {
        Ok(())
    }
}

async fn until_file(path: PathBuf) -> Result<(), Failure> {
    let since = Instant::now();
    while !tokio::fs::try_exists(&path).await.unwrap_or(false) {
        if since.elapsed() > WAIT_FOR_FILE {
            let message = format!("The rehearsal waited ten minutes for {}, which never came.", path.display());
            return Err(Failure::new(FailureKind::Silent, message));
        }
        sleep(LOOK_AGAIN).await;
    }
    Ok(())
}

/// What a model would have counted, about.
fn estimate(request: &Request, blocks: &[Block]) -> Usage {
    let size = |blocks: &[Block]| -> usize {
        let of = |block: &Block| match block {
            Block::Text { text } | Block::Thinking { text } => text.len(),
            Block::ToolCall { name, args, .. } => name.len() + args.len(),
        };
        blocks.iter().map(of).sum()
    };
    let message = |message: &Message| match message {
        Message::User(text) | Message::Tool { text, .. } => text.len(),
        Message::Assistant(blocks) => size(blocks),
    };
    let tools: usize =
        request.tools.iter().map(|tool| tool.description.len() + tool.parameters.to_string().len()).sum();
    let read = request.system.len() + tools + request.messages.iter().map(message).sum::<usize>();
    let tokens = |bytes: usize| i64::try_from(bytes.div_ceil(4)).unwrap_or(i64::MAX);
    Usage { input: tokens(read), output: tokens(size(blocks)), cached: 0, estimated: true }
}
