//! One step: ask the model, run the calls that it asks for, and stay open for mail and a stop all the while.

use super::Offer;
use super::driver::Driver;
use crate::error::Result;
use crate::event::Event;
use crate::id::CallId;
use crate::live::Live;
use crate::llm::{Delta, Model, Request, Sink, ToolSpec, read_args};
use crate::prompt;
use crate::tool::{Call, Kind, Outcome};
use crate::turn::{CallRequest, Effect, Input, Turn};
use futures::FutureExt;
use futures::future::BoxFuture;
use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// How often the partial text of a reply that streams is kept.
const CHECKPOINT: Duration = Duration::from_secs(1);
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
        let mut tick = tokio::time::interval(CHECKPOINT);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
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
                _ = tick.tick() => {
                    let partial = live.partial();
                    if !partial.is_empty() && partial != kept {
                        let kept_now = self.shared.log.checkpoint(&self.place.session, turn.step(), partial.clone()).await;
                        // The reply itself is worth more than its checkpoint: it goes on.
                        if let Err(error) = kept_now {
                            tracing::warn!(session = %self.place.session, %error, "partial text cannot be kept");
                        }
                        kept = partial;
                    }
                }
            }
        }
    }

    /// Notes that the model was asked again. A note that cannot be written does not spoil the reply.
    async fn note_retry(&mut self, turn: &Turn, (reason, waited_ms): (String, i64)) {
        let retried = Event::ModelRetried { step: turn.step(), reason, waited_ms };
        if let Err(error) = self.record(vec![retried]).await {
            tracing::warn!(session = %self.place.session, %error, "a retry cannot be noted");
        }
    }

    fn request(&self) -> Request {
        let offers = self.tools();
        let delegates = offers.iter().any(|offer| offer.tool.kind() == Kind::Delegation);
        let tools: Vec<ToolSpec> = offers.iter().map(|offer| offer.spec.clone()).collect();
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        let cwd = self.place.cwd.to_string_lossy().into_owned();
        Request {
            session: self.place.session.clone(),
            root: self.place.root.clone(),
            label: self.place.label.clone(),
            depth: self.place.depth,
            system: prompt::system(&cwd, self.place.depth, &names, delegates, self.role.persona.as_deref()),
            cwd,
            messages: self.transcript.messages(),
            tools,
        }
    }

    /// The tools of this session: those its filter admits, and no delegation where a child could not start one.
    fn tools(&self) -> Vec<Arc<Offer>> {
        let limit = self.shared.config.limits.depth;
        let deep = limit > 0 && self.place.depth >= limit;
        let all = self.shared.tools.get().map(Vec::as_slice).unwrap_or_default();
        let given = all.iter().filter(|offer| {
            let for_children = match offer.tool.kind() {
                Kind::Delegation | Kind::Children => true,
                Kind::Work => false,
            };
            self.role.tools.admits(&offer.spec.name) && !(deep && for_children)
        });
        given.cloned().collect()
    }

    /// Runs the calls of a reply side by side and records each result as it comes. Answers what is to be done next.
    pub(super) async fn run_calls(
        &mut self,
        turn: &mut Turn,
        calls: Vec<CallRequest>,
        stop: &CancellationToken,
    ) -> Result<Vec<Effect>> {
        let (ended, mut ends) = mpsc::unbounded_channel();
        let tools = self.tools();
        let mut open: Vec<CallId> = Vec::new();
        let mut previous: Option<CancellationToken> = None;
        for request in calls {
            open.push(request.id.clone());
            let prepared = self.prepare(&tools, request, stop, &ended);
            if prepared.in_order {
                let before = previous.replace(prepared.numbered.clone());
                self.agent.scope.spawn(async move {
                    if let Some(before) = before {
                        before.cancelled().await;
                    }
                    prepared.run.await;
                    // Also when it started nothing.
                    prepared.numbered.cancel();
                });
            } else {
                self.agent.scope.spawn(prepared.run);
            }
        }
        let bound = self.shared.config.limits.stop_grace() * 2 + CALL_MARGIN;
        let overdue = async {
            stop.cancelled().await;
            tokio::time::sleep(bound).await;
        };
        tokio::pin!(overdue);
        let mut effects = Vec::new();
        let mut given_up = VecDeque::new();
        while !open.is_empty() {
            let first = if let Some(end) = given_up.pop_front() {
                end
            } else {
                tokio::select! {
                    biased;
                    Some(end) = ends.recv() => end,
                    Some(mail) = self.inbox.recv() => {
                        self.take(mail).await;
                        continue;
                    }
                    () = &mut overdue => {
                        let gone = "It was told to stop and did not; Coppice no longer waits for it.";
                        given_up.extend(open.iter().map(|call| (call.clone(), Outcome::fail(gone).cut_off(), 0)));
                        continue;
                    }
                }
            };
            // What has ended meanwhile is recorded with it.
            let mut events = Vec::new();
            for (call, outcome, ms) in std::iter::once(first).chain(std::iter::from_fn(|| ends.try_recv().ok())) {
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
        let call = Call {
            id: id.clone(),
            owner: self.agent.owner.clone(),
            cwd: self.place.cwd.clone(),
            mode: self.place.mode,
            cancel: stop.child_token(),
            numbered: CancellationToken::new(),
            live: self.agent.live.output(&id),
            env: self.shared.env.clone(),
        };
        let offer = tools.iter().find(|offer| offer.spec.name == name);
        let tool = offer.map(|offer| offer.tool.clone()).ok_or_else(|| {
            let names: Vec<&str> = tools.iter().map(|offer| offer.spec.name.as_str()).collect();
            Outcome::fail(format!("There is no tool {name:?}. There are: {}.", names.join(", ")))
        });
        let ready = tool.and_then(|tool| Ok((tool, read_args(&args).map_err(Outcome::fail)?)));
        let in_order = ready.as_ref().is_ok_and(|(tool, args)| tool.in_order(args));
        let (ended, numbered) = (ended.clone(), call.numbered.clone());
        let run = async move {
            let began = Instant::now();
            let work = async {
                match ready {
                    Ok((tool, args)) => tool.run(&call, args).await,
                    Err(outcome) => outcome,
                }
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
