//! What a session says at this moment, before it is an event: the reply that streams, the output of calls that run.
//!
//! It is shown and then forgotten; what counts is committed. Followers compare a version and take what is new to them.

use crate::env::Env;
use crate::event::Block;
use crate::id::CallId;
use crate::llm::{Delta, Sink};
use crate::mask::{Mask, Stream};
use crate::task::lock;
use crate::tool::LiveOutput;
use crate::view::{LiveBlock, LiveCall, LiveKind, LiveView};
use std::sync::{Arc, Mutex};
use tokio::sync::watch;

/// How much output of a running call is kept to be shown.
const TAIL: usize = 4 * 1024;

/// The live text of one session. Clones share it.
#[derive(Clone)]
pub struct Live {
    state: Arc<Mutex<State>>,
    pulse: watch::Sender<u64>,
    env: Env,
    mask: Mask,
}

#[derive(Default)]
struct State {
    version: u64,
    /// When it last changed.
    at: i64,
    /// Grows when what streamed before is void: a new step, a reply that is tried again or committed.
    epoch: u64,
    step: u32,
    blocks: Vec<Part>,
    calls: Vec<(CallId, String)>,
}

struct Part {
    kind: LiveKind,
    name: Option<String>,
    /// What came.
    text: String,
    /// The same without secrets, as far as it can be shown.
    shown: String,
    masking: Stream,
}

/// What a follower has seen of a session's live text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    live: usize,
    version: u64,
    epoch: u64,
    /// For every block the length in bytes.
    blocks: Vec<usize>,
}

impl Live {
    /// Live text that bumps `pulse` when it changes. What is shown of a reply has no secrets in it.
    pub fn new(env: Env, pulse: watch::Sender<u64>, mask: Mask) -> Self {
        Self { state: Arc::default(), pulse, env, mask }
    }

    /// A step begins: nothing was said in it.
    pub fn begin(&self, step: u32) {
        self.change(|state| {
            state.step = step;
            state.epoch += 1;
            state.blocks.clear();
            state.calls.clear();
        });
    }

    /// A reply is committed: what streamed is in the log now.
    pub fn committed(&self) {
        self.change(|state| {
            state.epoch += 1;
            state.blocks.clear();
        });
    }

    /// A call has ended: its output is in the log now.
    pub fn call_ended(&self, call: &CallId) {
        self.change(|state| state.calls.retain(|(id, _)| id != call));
    }

    /// Where a call's output goes.
    pub fn output(&self, call: &CallId) -> Arc<dyn LiveOutput> {
        Arc::new(CallOutput { live: self.clone(), call: call.clone() })
    }

    /// What streamed so far, as blocks of a reply that was cut off, to be kept: nothing is taken out of it yet.
    pub fn partial(&self) -> Vec<Block> {
        let state = lock(&self.state);
        let block = |part: &Part| match part.kind {
            LiveKind::Text => Some(Block::Text { text: part.text.clone() }),
            LiveKind::Thinking => Some(Block::Thinking { text: part.text.clone() }),
            LiveKind::ToolCall => None,
        };
        state.blocks.iter().filter_map(block).collect()
    }

    /// What is new since `seen`; none when nothing is. `delegates` tells whether a tool of this name gives work to a child.
    pub fn since(&self, seen: &mut Seen, delegates: impl Fn(&str) -> bool) -> Option<LiveView> {
        let state = lock(&self.state);
        // The address tells the live text of one agent from that of the next agent of the session.
        let live = Arc::as_ptr(&self.state) as usize;
        if (state.version, live) == (seen.version, seen.live) {
            return None;
        }
        if (state.epoch, live) != (seen.epoch, seen.live) {
            seen.blocks.clear();
        }
        let blocks = state.blocks.iter().enumerate().map(|(index, part)| {
            let from = seen.blocks.get(index).copied().unwrap_or(0);
            LiveBlock {
                kind: part.kind,
                name: part.name.clone(),
                delegates: part.name.as_deref().is_some_and(&delegates),
                from: part.shown[..from].encode_utf16().count(),
                text: part.shown[from..].to_owned(),
            }
        });
        let view = LiveView {
            at: state.at,
            step: state.step,
            blocks: blocks.collect(),
            calls: state.calls.iter().map(|(call, tail)| LiveCall { call: call.clone(), tail: tail.clone() }).collect(),
        };
        *seen = Seen {
            live,
            version: state.version,
            epoch: state.epoch,
            blocks: state.blocks.iter().map(|part| part.shown.len()).collect(),
        };
        Some(view)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        {
            let mut state = lock(&self.state);
            change(&mut state);
            state.version += 1;
            state.at = self.env.now_ms();
        }
        self.pulse.send_modify(|beat| *beat += 1);
    }

    fn append(&self, index: usize, kind: LiveKind, name: Option<String>, text: &str) {
        self.change(|state| {
            while state.blocks.len() <= index {
                let (text, shown, masking) = (String::new(), String::new(), self.mask.stream());
                state.blocks.push(Part { kind, name: name.clone(), text, shown, masking });
            }
            if let Some(part) = state.blocks.get_mut(index) {
                part.kind = kind;
                part.name = name;
                part.text.push_str(text);
                // Cuts fall on characters: what may begin a secret begins with one.
                part.shown.push_str(&String::from_utf8_lossy(&part.masking.push(text.as_bytes())));
            }
        });
    }
}

impl Sink for Live {
    fn delta(&self, delta: Delta) {
        match delta {
            Delta::Text { index, text } => self.append(index, LiveKind::Text, None, &text),
            Delta::Thinking { index, text } => self.append(index, LiveKind::Thinking, None, &text),
            Delta::ToolArgs { index, name, text } => self.append(index, LiveKind::ToolCall, Some(name), &text),
            Delta::Retry { .. } => self.committed(),
            Delta::Alive => {}
        }
    }
}

struct CallOutput {
    live: Live,
    call: CallId,
}

impl LiveOutput for CallOutput {
    fn write(&self, text: &str) {
        self.live.change(|state| {
            let place = state.calls.iter().position(|(id, _)| *id == self.call);
            let place = place.unwrap_or_else(|| {
                state.calls.push((self.call.clone(), String::new()));
                state.calls.len() - 1
            });
            if let Some((_, tail)) = state.calls.get_mut(place) {
                tail.push_str(text);
                if tail.len() > 2 * TAIL {
                    let from = tail.ceil_char_boundary(tail.len() - TAIL);
                    tail.drain(..from);
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Clock;
    use std::sync::atomic::{AtomicI64, Ordering};

    #[derive(Default)]
    struct Hand(AtomicI64);

    impl Clock for Hand {
        fn now_ms(&self) -> i64 {
            self.0.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn whoever_begins_to_follow_late_is_told_when_something_last_came() {
        let hand = Arc::new(Hand::default());
        let live = Live::new(Env::with_clock(hand.clone()), watch::channel(0).0, Mask::default());
        let says = |at, text: &str| {
            hand.0.store(at, Ordering::Relaxed);
            live.delta(Delta::Text { index: 0, text: text.to_owned() });
        };
        let told = |seen: &mut Seen| live.since(seen, |_| false).map(|view| (view.at, view.blocks[0].text.clone()));
        let (mut early, mut late) = (Seen::default(), Seen::default());
        says(5, "one");
        assert_eq!(told(&mut early), Some((5, "one".to_owned())));
        says(7, " two");
        hand.0.store(600_000, Ordering::Relaxed);
        assert_eq!(told(&mut late), Some((7, "one two".to_owned())), "it has been silent since");
        assert_eq!(told(&mut early), Some((7, " two".to_owned())));
        assert_eq!(told(&mut early), None);
    }

    #[test]
    fn a_key_that_streams_in_pieces_is_never_shown_and_is_kept_for_the_log_to_mask() {
        let live = Live::new(Env::system(), watch::channel(0).0, Mask::default());
        let (mut seen, mut shown) = (Seen::default(), String::new());
        let text = "The key is sk-Ab3dEf6hIj9kLm2nOp5qRs8tUv1w, is it?";
        for piece in text.as_bytes().chunks(3) {
            live.delta(Delta::Text { index: 0, text: String::from_utf8(piece.to_vec()).unwrap() });
            shown.extend(live.since(&mut seen, |_| false).into_iter().map(|view| view.blocks[0].text.clone()));
            assert!(!shown.contains("Ab3"), "{shown}");
        }
        assert_eq!(shown, "The key is [masked secret], is it?");
        assert_eq!(live.partial(), [Block::Text { text: text.to_owned() }]);
    }
}
