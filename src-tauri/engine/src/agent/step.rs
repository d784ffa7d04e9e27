//! One step: ask the model, run the calls that it asks for, and stay open for mail and a stop all the while.

use super::driver::Driver;
use super::{Offer, given};
use crate::error::Result;
use crate::event::{Block, Event};
use crate::id::CallId;
use crate::live::Live;
use crate::llm::{Delta, Model, Request, Sink, ToolSpec, read_args};
use crate::prompt;
use crate::tool::{Call, Kind, Leave, Outcome};
use crate::turn::{CallRequest, Effect, Input, Turn};
use futures::FutureExt;
use futures::future::BoxFuture;
use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// How often the partial text of a reply that streams is kept, as long as it is small.
const CHECKPOINT: Duration = Duration::from_secs(1);
/// How much partial text may be written in that time, in bytes. Of more, all of which is written anew each time, the
/// pauses grow.
const CHECKPOINT_BYTES: usize = 128 * 1024;
/// How many calls of a session run side by side. The others wait their turn in the order in which the model asked.
const SIDE_BY_SIDE: usize = 16;
/// How many calls of one reply are run. The others are answered with a word about it.
const MAX_CALLS: usize = 128;
/// How long a tool may take to end after it was told to, on top of the polite and the forced stop.
const CALL_MARGIN: Duration = Duration::from_secs(10);

impl Driver {
    /// Asks the model with the folded history.
    pub(super) async fn ask(&mut self, turn: &Turn, stop: &CancellationToken) -> Input {
        let request = self.request();
        let live = self.agent.live.clone();
        live.begin(turn.step());
        let (retried, mut retries) = mpsc::unbounded_channel();
        let sink = StepSink { live: live.clone(), retried };
        let model: Arc<dyn Model> = self.model.clone();
        let mut asking = model.ask(&request, &sink);
        let mut due = tokio::time::Instant::now() + CHECKPOINT;
        let mut kept = Vec::new();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return self.stopped(live.partial()),
                reply = &mut asking => {
                    while let Ok(retry) = retries.try_recv() {
                        self.note_retry(turn, retry).await;
                    }
                    return match reply {
                        Ok(reply) => Input::Replied(reply),
                        Err(failure) => Input::ModelFailed { failure, partial: live.partial() },
                    };
                }
                Some(mail) = self.inbox.recv() => self.take(mail).await,
                Some(retry) = retries.recv() => self.note_retry(turn, retry).await,
                () = tokio::time::sleep_until(due) => {
                    let partial = live.partial();
                    if !partial.is_empty() && partial != kept {
                        let log = &self.shared.log;
                        let kept_now = log.checkpoint(&self.place.session, turn.step(), partial.clone());
                        // The reply itself is worth more than its checkpoint: it goes on.
                        if let Some(Err(error)) = log.unless_troubled(kept_now).await {
                            tracing::warn!(session = %self.place.session, %error, "partial text cannot be kept");
                        }
                        kept = partial;
                    }
                    due = tokio::time::Instant::now() + pause_after(size_of(&kept));
                }
            }
        }
    }

    /// Notes that the model was asked again. A note that cannot be written does not spoil the reply.
    async fn note_retry(&mut self, turn: &Turn, (reason, waited_ms): (String, i64)) {
        let retried = Event::ModelRetried { step: turn.step(), reason, waited_ms };
        if let Err(error) = self.record_now(vec![retried]).await {
            tracing::warn!(session = %self.place.session, %error, "a retry cannot be noted");
        }
    }

    fn request(&self) -> Request {
        let offers = self.tools();
        let delegates = offers.iter().any(|offer| offer.tool.kind() == Kind::Delegation);
        let given = given(&offers);
        let tools: Vec<ToolSpec> = offers.iter().map(|offer| offer.tool.spec(&given)).collect();
        let cwd = self.place.cwd.to_string_lossy().into_owned();
        Request {
            session: self.place.session.clone(),
            root: self.place.root.clone(),
            label: self.place.label.clone(),
            depth: self.place.depth,
            system: prompt::system(
                &cwd,
                self.place.depth,
                self.place.mode,
                &given,
                delegates,
                self.role.persona.as_deref(),
            ),
            cwd,
            messages: self.transcript.messages(),
            tools,
        }
    }

    /// The tools of this session: those its filter admits, no delegation where a child could not start one, and no
    /// messages, which wake children as tasks, where tasks cannot be collected.
    pub(super) fn tools(&self) -> Vec<Arc<Offer>> {
        let limit = self.limits.depth;
        let deep = limit > 0 && self.place.depth >= limit;
        let all = self.shared.tools.get().map(Vec::as_slice).unwrap_or_default();
        let given = all.iter().filter(|offer| {
            let for_children = match offer.tool.kind() {
                Kind::Delegation | Kind::Children => true,
                Kind::Work => false,
            };
            let uncollected = offer.name == "send_message" && !self.role.tools.admits("task_output");
            self.role.tools.admits(&offer.name) && !(deep && for_children) && !uncollected
        });
        given.cloned().collect()
    }

    /// Runs the calls of a reply, at most [`SIDE_BY_SIDE`] at once, and records each result as it comes. Answers what is
    /// to be done next.
    pub(super) async fn run_calls(
        &mut self,
        turn: &mut Turn,
        calls: Vec<CallRequest>,
        stop: &CancellationToken,
    ) -> Result<Vec<Effect>> {
        let (ended, mut ends) = mpsc::unbounded_channel();
        let tools = self.tools();
        let mut open: Vec<CallId> = calls.iter().map(|call| call.id.clone()).collect();
        let mut queue = VecDeque::from(calls);
        let refused = format!(
            "Not run: one reply may ask for at most {MAX_CALLS} calls, and this one asked for {}. Ask again for what is \
             still needed, in smaller groups.",
            queue.len()
        );
        // Results that come of no work.
        let mut given: VecDeque<(CallId, Outcome, i64)> = VecDeque::new();
        given.extend(queue.drain(queue.len().min(MAX_CALLS)..).map(|call| (call.id, Outcome::fail(&refused), 0)));
        let mut running = 0;
        let mut previous: Option<CancellationToken> = None;
        let bound = self.shared.config.limits.stop_grace() * 2 + CALL_MARGIN;
        let overdue = async {
            stop.cancelled().await;
            tokio::time::sleep(bound).await;
        };
        tokio::pin!(overdue);
        let mut effects = Vec::new();
        while !open.is_empty() {
            if stop.is_cancelled() {
                let stopped = "Not run: the turn was stopped.";
                given.extend(queue.drain(..).map(|call| (call.id, Outcome::fail(stopped), 0)));
            }
            while running < SIDE_BY_SIDE
                && let Some(request) = queue.pop_front()
            {
                running += 1;
                let prepared = self.prepare(&tools, request, stop, &ended);
                self.begin_call(prepared, &mut previous);
            }
            let first = if let Some(end) = given.pop_front() {
                end
            } else {
                tokio::select! {
                    biased;
                    Some(end) = ends.recv() => {
                        running -= 1;
                        end
                    }
                    () = stop.cancelled(), if !queue.is_empty() => continue,
                    Some(mail) = self.inbox.recv() => {
                        self.take(mail).await;
                        continue;
                    }
                    () = &mut overdue => {
                        let gone = "It was told to stop and did not; Coppice no longer waits for it.";
                        given.extend(open.iter().map(|call| (call.clone(), Outcome::fail(gone).cut_off(), 0)));
                        continue;
                    }
                }
            };
            // What has ended meanwhile is recorded with it.
            let mut events = Vec::new();
            let more = std::iter::from_fn(|| {
                let end = ends.try_recv().ok()?;
                running -= 1;
                Some(end)
            });
            for (call, outcome, ms) in std::iter::once(first).chain(given.drain(..)).chain(more) {
                open.retain(|other| *other != call);
                self.agent.live.call_ended(&call);
                for effect in turn.on(Input::CallEnded { call, outcome, ms }) {
                    match effect {
                        Effect::Record(ended) => events.extend(ended),
                        other => effects.push(other),
                    }
                }
            }
            if events.is_empty() {
                continue;
            }
            if let Err(error) = self.record(events).await {
                // The results have no place to go: end what runs, and leave nothing behind.
                stop.cancel();
                let rest = async { while ends.recv().await.is_some() {} };
                drop(ended);
                if tokio::time::timeout(bound, rest).await.is_err() {
                    tracing::error!(session = %self.place.session, "a tool did not end");
                }
                return Err(error);
            }
        }
        Ok(effects)
    }

    /// Begins a call; one that keeps the order waits for the one before it.
    fn begin_call(&self, prepared: Prepared, previous: &mut Option<CancellationToken>) {
        if !prepared.in_order {
            self.agent.scope.spawn(prepared.run);
            return;
        }
        let before = previous.replace(prepared.numbered.clone());
        self.agent.scope.spawn(async move {
            if let Some(before) = before {
                before.cancelled().await;
            }
            prepared.run.await;
            // Also when it started nothing.
            prepared.numbered.cancel();
        });
    }
}

/// How long a checkpoint of this many bytes is the last one.
fn pause_after(bytes: usize) -> Duration {
    let share = bytes.div_ceil(CHECKPOINT_BYTES).max(1);
    CHECKPOINT * u32::try_from(share).unwrap_or(u32::MAX)
}

fn size_of(blocks: &[Block]) -> usize {
    let size = |block: &Block| match block {
        Block::Text { text } | Block::Thinking { text } => text.len(),
        Block::ToolCall { name, args, .. } => name.len() + args.len(),
    };
    blocks.iter().map(size).sum()
}

struct Prepared {
    in_order: bool,
    numbered: CancellationToken,
    run: BoxFuture<'static, ()>,
}

type Ended = mpsc::UnboundedSender<(CallId, Outcome, i64)>;

impl Driver {
    /// A call, ready to run; it reports its outcome to `ended`, also when it could not begin or met a defect.
    fn prepare(&self, tools: &[Arc<Offer>], request: CallRequest, stop: &CancellationToken, ended: &Ended) -> Prepared {
        let CallRequest { id, name, args } = request;
        let mut call = Call {
            id: id.clone(),
            owner: self.agent.owner.clone(),
            cwd: self.place.cwd.clone(),
            leave: Leave::default(),
            judged: None,
            cancel: stop.child_token(),
            numbered: CancellationToken::new(),
            live: self.agent.live.output(&id),
            given: given(tools),
            env: self.shared.env.clone(),
        };
        let offer = tools.iter().find(|offer| offer.name == name);
        let tool = offer.map(|offer| offer.tool.clone()).ok_or_else(|| {
            let names: Vec<&str> = tools.iter().map(|offer| offer.name.as_str()).collect();
            let there =
                if names.is_empty() { "You have none".to_owned() } else { format!("There are: {}", names.join(", ")) };
            Outcome::fail(format!("There is no tool {name:?}. {there}."))
        });
        let ready = tool.and_then(|tool| Ok((tool, read_args(&args).map_err(Outcome::fail)?)));
        let in_order = ready.as_ref().is_ok_and(|(tool, args)| tool.in_order(args));
        let (ended, numbered, shared) = (ended.clone(), call.numbered.clone(), self.shared.clone());
        let run = async move {
            let mut began = Instant::now();
            let work = async {
                let (tool, args) = match ready {
                    Ok(ready) => ready,
                    Err(outcome) => return outcome,
                };
                let actions = tool.actions(&call, &args).await;
                if let Err(refused) = shared.gate.pass(&mut call, &name, &args, actions).await {
                    return refused;
                }
                // The time of the person is not the tool's.
                began = Instant::now();
                tool.run(&call, args).await
            };
            let outcome = AssertUnwindSafe(work).catch_unwind().await;
            let outcome =
                outcome.unwrap_or_else(|_| Outcome::fail(format!("{name} met a defect of Coppice and has no result.")));
            // What fails after it was told to end, fails by that.
            let cut_off = !outcome.ok && call.cancel.is_cancelled();
            let outcome = if cut_off { outcome.cut_off() } else { outcome };
            let ms = i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX);
            // The driver stops listening only after it has given this call up.
            drop(ended.send((id, outcome, ms)));
        };
        Prepared { in_order, numbered, run: run.boxed() }
    }
}

struct StepSink {
    live: Live,
    retried: mpsc::UnboundedSender<(String, i64)>,
}

impl Sink for StepSink {
    fn delta(&self, delta: Delta) {
        if let Delta::Retry { reason, wait } = &delta {
            let waited = i64::try_from(wait.as_millis()).unwrap_or(i64::MAX);
            // The receiver lives as long as the request.
            drop(self.retried.send((reason.clone(), waited)));
        }
        self.live.delta(delta);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_reply_is_kept_each_second_and_a_large_one_costs_no_more_to_keep() {
        assert_eq!([0, 1, CHECKPOINT_BYTES].map(pause_after), [CHECKPOINT; 3]);
        for bytes in [CHECKPOINT_BYTES + 1, 1024 * 1024, 4 * 1024 * 1024] {
            let per_second = bytes as f64 / pause_after(bytes).as_secs_f64();
            assert!(per_second <= CHECKPOINT_BYTES as f64, "{per_second}");
        }
    }
}
