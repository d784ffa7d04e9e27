// Made from the Rust types by the tests; change them there.

export type SessionId = string;
export type TaskId = string;
export type CallId = string;
export type AskId = string;
export type Code = "bad_request" | "unknown_session" | "unknown_task" | "not_yours" | "not_delivered" | "stale" | "conflict" | "not_resumable" | "busy" | "held_elsewhere" | "refused" | "limit" | "model" | "store" | "gone" | "too_large" | "shutting_down" | "internal";
export type Mode = "read-only" | "ask" | "accept-edits" | "full";
export type Decision = "once" | "branch" | "always" | "deny" | "later";
export type Action = { "kind": "read", 
/**
 * As the model wrote it.
 */
path: string, } | { "kind": "write", 
/**
 * As the model wrote it.
 */
path: string, 
/**
 * What the person is shown of the change. It does not weigh in the judgement.
 */
diff: string, } | { "kind": "command", 
/**
 * The exact text.
 */
text: string, 
/**
 * Whether the call ends before the command does. It does not weigh in the judgement.
 */
background: boolean, };
export type Allowed = { "kind": "read", 
/**
 * Where it really is.
 */
path: string, } | { "kind": "write", 
/**
 * Where it really is.
 */
path: string, } | { "kind": "command", 
/**
 * Its text.
 */
text: string, };
export type Reason = { 
/**
 * Which rule holds it.
 */
rule: Rule, 
/**
 * One or two sentences for the person and the model. They may quote what the model wrote, on one line and cut.
 */
text: string, };
export type Rule = "read_only" | "writes" | "shared" | "outside" | "repository" | "keys" | "own_data" | "processes" | "unresolved" | "unclear" | "unknown" | "usage" | "redirection" | "variable" | "danger" | "unconfined";
export type Party = "person" | "parent" | "owner" | "limit" | "runtime";
export type Stop = "complete" | "max_tokens" | "refusal" | "cut_off";
export type TurnEnd = "completed" | "stopped" | "failed" | "max_tokens" | "refusal" | "limit" | "interrupted";
export type TaskStatus = "running" | "stopping" | "completed" | "failed" | "killed" | "interrupted";
export type Route = "steered" | "started";
export type Receipt = { 
/**
 * What was asked: `turn`, `branch`, `task` or `everything`.
 */
what: string, 
/**
 * The name of what was stopped, for people.
 */
label: string, 
/**
 * Who asked.
 */
by: Party | null, 
/**
 * What ended (or, in a preview, would end).
 */
ended: Array<ReceiptItem>, 
/**
 * What lives on below what was stopped.
 */
kept: Array<ReceiptItem>, 
/**
 * Every process that was seen, and whether it was seen gone (or, in a preview, that lives and would end).
 */
processes: Array<ReceiptProcess>, 
/**
 * What could not be proven, in words.
 */
unconfirmed: Array<string>, 
/**
 * How long it took, in milliseconds.
 */
ms: number, };
export type ReceiptItem = { 
/**
 * `turn`, `task` or `child`.
 */
kind: string, 
/**
 * The session's id for a turn or child, the task's for a task.
 */
id: string, 
/**
 * Its name for people.
 */
label: string, };
export type ReceiptProcess = { 
/**
 * The process id.
 */
pid: number, 
/**
 * When it started, in milliseconds since the Unix epoch.
 */
started_at: number, 
/**
 * Whether it was seen gone.
 */
gone: boolean, };
export type Protocol = "anthropic" | "openai-chat" | "openai-responses" | "gemini" | "rehearsal";
export type Desktop = "tasks" | "roots" | "asks" | "off";
export type Limits = { 
/**
 * The deepest child; a root is 0.
 */
depth: number, 
/**
 * Live tasks of one owner.
 */
live_tasks_per_owner: number, 
/**
 * Children alive at once.
 */
live_children: number, 
/**
 * Children in all.
 */
children: number, 
/**
 * Tokens, read and written.
 */
tokens: number, 
/**
 * Money, in US dollars.
 */
money_usd: number, 
/**
 * Wall clock, in seconds.
 */
wall_clock_s: number, 
/**
 * Model requests in one turn.
 */
step_limit: number, 
/**
 * Steps of one turn in a row that make the same calls and get the same results.
 */
same_calls: number, 
/**
 * Steps of one turn in a row in which every call fails.
 */
failed_steps: number, 
/**
 * How long something may show no sign of life, in seconds.
 */
idle_s: number, 
/**
 * How long a stop stays polite, in milliseconds.
 */
stop_grace_ms: number, 
/**
 * How often in a row an idle owner is woken until a person speaks.
 */
wake_budget: number, };
export type TreeLimits = { 
/**
 * The deepest child; a root is 0.
 */
depth?: number, 
/**
 * Children alive at once.
 */
live_children?: number, 
/**
 * Children in all.
 */
children?: number, 
/**
 * Tokens, read and written.
 */
tokens?: number, 
/**
 * Time at work, in seconds.
 */
wall_clock_s?: number, 
/**
 * Model requests in one turn.
 */
step_limit?: number, };
export type Notices = { 
/**
 * Whether a task's end wakes an idle owner.
 */
wake: boolean, 
/**
 * Which ends reach the desktop.
 */
desktop: Desktop, };
export type ModelView = { 
/**
 * Its name in the configuration.
 */
name: string, 
/**
 * How it is spoken to.
 */
protocol: Protocol, 
/**
 * The name that its server knows it by.
 */
model: string | null, 
/**
 * Where it is.
 */
base_url: string | null, 
/**
 * The size of its context in tokens, where it is known.
 */
context: number | null, 
/**
 * Whether sessions that name no model use it.
 */
default: boolean, 
/**
 * Why it cannot be used now; none when it works.
 */
problem: string | null, };
export type Page = { 
/**
 * The rows, oldest first.
 */
rows: Array<Row>, 
/**
 * The `n` of the first event that gives rows in the session: nothing comes before it.
 */
first: number, 
/**
 * The `n` of the last event of the session.
 */
last: number, };
export type Sent = { 
/**
 * It joined the running turn, or started one.
 */
route: Route, 
/**
 * The activation that reads it.
 */
task: TaskId, };
export type SessionState = "idle" | "starting" | "running" | "waiting" | "stopping" | "completed" | "failed" | "killed" | "interrupted" | "unverified";
export type Tokens = { 
/**
 * Tokens read, cached ones included.
 */
input: number, 
/**
 * Tokens written.
 */
output: number, 
/**
 * The part of `input` that came from a cache.
 */
cached: number, 
/**
 * True when a part of the sum is an estimate.
 */
estimated: boolean, 
/**
 * How many requests were made.
 */
requests: number, };
export type SessionView = { 
/**
 * Its id.
 */
id: SessionId, 
/**
 * The session that delegated it; none for a root.
 */
parent: SessionId | null, 
/**
 * The root of its tree.
 */
root: SessionId, 
/**
 * 0 for a root.
 */
depth: number, 
/**
 * Its name for people.
 */
title: string, 
/**
 * The label that its parent gave it.
 */
label: string | null, 
/**
 * The subagent provider that runs it; none for a root.
 */
provider: string | null, 
/**
 * The name of its model in the configuration.
 */
model: string, 
/**
 * What it may do without asking.
 */
mode: Mode, 
/**
 * The folder it works in.
 */
cwd: string, 
/**
 * Its own state.
 */
state: SessionState, 
/**
 * What it does now, or how it ended, in a few words; empty when there is nothing to add to the state.
 */
detail: string, 
/**
 * How many sessions and commands run below it.
 */
live_below: number, 
/**
 * How many asks wait for the person, its own and those below it.
 */
needs_you: number, 
/**
 * Its last activation; none for a root.
 */
task: TaskId | null, 
/**
 * When an event last came for it.
 */
last_sign_at: number, 
/**
 * When it came to be.
 */
created_at: number, 
/**
 * When that was asked which its branch is at, or was at last: a message came while nothing of the branch was at work.
 * None before the first.
 */
asked_at: number | null, 
/**
 * When the last turn of its branch ended; none while something of it is at work, or before the first.
 */
rested_at: number | null, 
/**
 * How long its own turns since `asked_at` took, in milliseconds, without the one that runs.
 */
worked_ms: number, 
/**
 * When its running turn began, or its last one; none before the first.
 */
started_at: number | null, 
/**
 * When its last turn ended; none while one runs.
 */
ended_at: number | null, 
/**
 * Who stopped its last turn or activation, when it was stopped.
 */
stopped_by: Party | null, 
/**
 * The step that it is at, or was last at; 0 before the first.
 */
step: number, 
/**
 * Whether it was put into the archive, with all below it. What stands below an archived session is out of the way
 * with it, and says so only when it was archived by itself.
 */
archived: boolean, 
/**
 * What a steer would have to wait for: true while a turn runs and takes messages.
 */
steerable: boolean, 
/**
 * Its own tokens.
 */
tokens: Tokens, 
/**
 * Its own cost in US dollars; none when it cannot be told.
 */
cost: number | null, 
/**
 * The `n` of its last event.
 */
last_n: number, };
export type TaskView = { 
/**
 * Its id.
 */
id: TaskId, 
/**
 * `bash` or `subagent`.
 */
kind: string, 
/**
 * What it does, for people.
 */
label: string, 
/**
 * The session that owns it.
 */
owner: SessionId, 
/**
 * The child session that it activates; none for a command.
 */
child: SessionId | null, 
/**
 * Its status.
 */
status: TaskStatus, 
/**
 * How it ended, for people.
 */
detail: string | null, 
/**
 * Who stopped it, when it was killed.
 */
killed_by: Party | null, 
/**
 * When it began.
 */
started_at: number, 
/**
 * When it ended; none while it lives.
 */
settled_at: number | null, };
export type AskView = { 
/**
 * Its id.
 */
id: AskId, 
/**
 * The session that asks.
 */
session: SessionId, 
/**
 * From the root of its tree down to the session that asks.
 */
lineage: Array<Lineage>, 
/**
 * The folder of that session.
 */
cwd: string, 
/**
 * The call that asks.
 */
call: CallId, 
/**
 * Its tool.
 */
tool: string, 
/**
 * What it would do, exactly.
 */
action: Action, 
/**
 * What an answer for more than one call would allow; none where only this call can be allowed.
 */
allows: Allowed | null, 
/**
 * Why it is asked.
 */
reason: Reason, 
/**
 * What the model says that the call is for, in one line; none where it does not say so.
 */
said: string | null, 
/**
 * The `n` of its event.
 */
n: number, 
/**
 * When it was asked.
 */
asked_at: number, 
/**
 * What became of it.
 */
state: AskState, 
/**
 * The person's word to the agent, or why it was taken back.
 */
note: string | null, 
/**
 * When it was answered or taken back.
 */
decided_at: number | null, 
/**
 * Whether the call still waits for the answer. Otherwise an answer wakes the session, which may make the call again.
 */
waits: boolean, 
/**
 * Whether leave for one call was given and not made use of yet.
 */
owed: boolean, 
/**
 * How many calls an answer for more than one has let through since.
 */
used: number, };
export type AskState = "open" | "later" | "once" | "branch" | "always" | "denied" | "withdrawn";
export type Lineage = { 
/**
 * The session.
 */
id: SessionId, 
/**
 * Its name for people.
 */
title: string, };
export type AllowanceView = { 
/**
 * The ask whose answer allowed it.
 */
ask: AskId, 
/**
 * The session that it holds for, with all below it; none when it holds for every session in the folder.
 */
session: SessionId | null, 
/**
 * The folder.
 */
cwd: string, 
/**
 * What is allowed.
 */
what: Allowed, 
/**
 * Since when.
 */
since: number, 
/**
 * How many calls it has let through.
 */
used: number, };
export type MessageReceipt = { "is": "accepted" } | { "is": "admitted", 
/**
 * At this step.
 */
step: number, 
/**
 * By this way.
 */
route: Route, } | { "is": "deferred", 
/**
 * Why.
 */
reason: string, } | { "is": "not_delivered", 
/**
 * Why.
 */
reason: string, };
export type Row = { 
/**
 * The `n` of the event it shows.
 */
n: number, 
/**
 * Its position among the rows of that event.
 */
part: number, 
/**
 * When that event happened.
 */
at: number, 
/**
 * The step it belongs to, where it belongs to one.
 */
step: number | null, } & ({ "kind": "ask_text", 
/**
 * The session that asked.
 */
asker: SessionId, 
/**
 * The words.
 */
text: string, 
/**
 * What became of it.
 */
receipt: MessageReceipt, } | { "kind": "message", 
/**
 * The words.
 */
text: string, 
/**
 * What became of it.
 */
receipt: MessageReceipt, } | { "kind": "answer", 
/**
 * Markdown, at most 256 KiB and a word about what is left out.
 */
text: string, 
/**
 * Why the reply ended.
 */
stop: Stop, } | { "kind": "thinking", 
/**
 * The words.
 */
text: string, } | { "kind": "tool" } & ToolRow | { "kind": "delegation" } & ToolRow | { "kind": "notice", 
/**
 * The task.
 */
task: TaskId, 
/**
 * `bash` or `subagent`.
 */
task_kind: string, 
/**
 * Its label.
 */
label: string, 
/**
 * The child session; none for a command.
 */
child: SessionId | null, 
/**
 * How it ended.
 */
status: TaskStatus, 
/**
 * How it ended, for people.
 */
detail: string | null, 
/**
 * Who stopped it.
 */
killed_by: Party | null, 
/**
 * How long it ran, in milliseconds.
 */
ran_ms: number, 
/**
 * The step at which the owner was told; none while it is not.
 */
told_at_step: number | null, } | { "kind": "decision", 
/**
 * The receipt.
 */
receipt: Receipt, } | { "kind": "ask", 
/**
 * The question.
 */
ask: AskId, 
/**
 * The call.
 */
call: CallId, 
/**
 * Its tool.
 */
tool: string, 
/**
 * What it would do, exactly, and at most 8 KiB of each part.
 */
action: Action, 
/**
 * Why it is asked.
 */
reason: Reason, 
/**
 * What became of it.
 */
state: AskState, 
/**
 * The person's word to the agent, or why it was taken back.
 */
note: string | null, } | { "kind": "mode", 
/**
 * From here on.
 */
mode: Mode, } | { "kind": "fault", 
/**
 * What, for people.
 */
text: string, 
/**
 * True when it was mended and nothing is left to do.
 */
repaired: boolean, } | { "kind": "seed", 
/**
 * The parent.
 */
from: SessionId, 
/**
 * How many of its turns.
 */
turns: number, } | { "kind": "warning", 
/**
 * The limit's name in the configuration.
 */
limit: string, 
/**
 * What was used of it, in its unit.
 */
used: number, 
/**
 * What may be used.
 */
most: number, 
/**
 * What happened, for people.
 */
text: string, } | { "kind": "undone", 
/**
 * How many changes.
 */
edits: number, 
/**
 * The files, as people call them, at most 100.
 */
files: Array<string>, } | { "kind": "note", 
/**
 * The words.
 */
text: string, 
/**
 * The step at which it was told; none while it is not.
 */
told_at_step: number | null, } | { "kind": "clash", 
/**
 * The file.
 */
path: string, 
/**
 * Who wrote it first.
 */
first: SessionId, 
/**
 * The label of that one.
 */
first_label: string, 
/**
 * Who came later.
 */
later: SessionId, 
/**
 * The label of that one.
 */
later_label: string, } | { "kind": "turn_end", 
/**
 * How.
 */
end: TurnEnd, 
/**
 * Who stopped it, when it was stopped.
 */
by: Party | null, 
/**
 * Why.
 */
detail: string | null, } | { "kind": "unknown", 
/**
 * Its kind in the store.
 */
event: string, });
export type RowBody = { "kind": "ask_text", 
/**
 * The session that asked.
 */
asker: SessionId, 
/**
 * The words.
 */
text: string, 
/**
 * What became of it.
 */
receipt: MessageReceipt, } | { "kind": "message", 
/**
 * The words.
 */
text: string, 
/**
 * What became of it.
 */
receipt: MessageReceipt, } | { "kind": "answer", 
/**
 * Markdown, at most 256 KiB and a word about what is left out.
 */
text: string, 
/**
 * Why the reply ended.
 */
stop: Stop, } | { "kind": "thinking", 
/**
 * The words.
 */
text: string, } | { "kind": "tool" } & ToolRow | { "kind": "delegation" } & ToolRow | { "kind": "notice", 
/**
 * The task.
 */
task: TaskId, 
/**
 * `bash` or `subagent`.
 */
task_kind: string, 
/**
 * Its label.
 */
label: string, 
/**
 * The child session; none for a command.
 */
child: SessionId | null, 
/**
 * How it ended.
 */
status: TaskStatus, 
/**
 * How it ended, for people.
 */
detail: string | null, 
/**
 * Who stopped it.
 */
killed_by: Party | null, 
/**
 * How long it ran, in milliseconds.
 */
ran_ms: number, 
/**
 * The step at which the owner was told; none while it is not.
 */
told_at_step: number | null, } | { "kind": "decision", 
/**
 * The receipt.
 */
receipt: Receipt, } | { "kind": "ask", 
/**
 * The question.
 */
ask: AskId, 
/**
 * The call.
 */
call: CallId, 
/**
 * Its tool.
 */
tool: string, 
/**
 * What it would do, exactly, and at most 8 KiB of each part.
 */
action: Action, 
/**
 * Why it is asked.
 */
reason: Reason, 
/**
 * What became of it.
 */
state: AskState, 
/**
 * The person's word to the agent, or why it was taken back.
 */
note: string | null, } | { "kind": "mode", 
/**
 * From here on.
 */
mode: Mode, } | { "kind": "fault", 
/**
 * What, for people.
 */
text: string, 
/**
 * True when it was mended and nothing is left to do.
 */
repaired: boolean, } | { "kind": "seed", 
/**
 * The parent.
 */
from: SessionId, 
/**
 * How many of its turns.
 */
turns: number, } | { "kind": "warning", 
/**
 * The limit's name in the configuration.
 */
limit: string, 
/**
 * What was used of it, in its unit.
 */
used: number, 
/**
 * What may be used.
 */
most: number, 
/**
 * What happened, for people.
 */
text: string, } | { "kind": "undone", 
/**
 * How many changes.
 */
edits: number, 
/**
 * The files, as people call them, at most 100.
 */
files: Array<string>, } | { "kind": "note", 
/**
 * The words.
 */
text: string, 
/**
 * The step at which it was told; none while it is not.
 */
told_at_step: number | null, } | { "kind": "clash", 
/**
 * The file.
 */
path: string, 
/**
 * Who wrote it first.
 */
first: SessionId, 
/**
 * The label of that one.
 */
first_label: string, 
/**
 * Who came later.
 */
later: SessionId, 
/**
 * The label of that one.
 */
later_label: string, } | { "kind": "turn_end", 
/**
 * How.
 */
end: TurnEnd, 
/**
 * Who stopped it, when it was stopped.
 */
by: Party | null, 
/**
 * Why.
 */
detail: string | null, } | { "kind": "unknown", 
/**
 * Its kind in the store.
 */
event: string, };
export type ToolRow = { 
/**
 * The call.
 */
call: CallId, 
/**
 * The tool's name.
 */
tool: string, 
/**
 * What it works on, in a few words: a path, a pattern, a command, a label.
 */
target: string, 
/**
 * The arguments as the model wrote them, at most 4 KiB.
 */
args: string, 
/**
 * The result; none while it runs.
 */
result: ToolResultRow | null, };
export type ToolResultRow = { 
/**
 * Whether it did what was asked.
 */
ok: boolean, 
/**
 * The end of what the model read, at most 4 KiB.
 */
text: string, 
/**
 * How many bytes the whole text has.
 */
bytes: number, 
/**
 * How many lines the whole text has.
 */
lines: number, 
/**
 * Facts from the tool: `exit`, `task`, `child`, `added`, `removed`, `diff`, `can_undo`, `hits`, `cut_off`, ...; an
 * object, or null. A string in it has at most 8 KiB.
 */
detail: Record<string, unknown> | null, 
/**
 * How long it ran, in milliseconds.
 */
ms: number, };
export type LiveView = { 
/**
 * When it last changed. Whoever begins to follow is told all of it at once, so that this may be long ago.
 */
at: number, 
/**
 * The step.
 */
step: number, 
/**
 * The parts of the reply so far, in order.
 */
blocks: Array<LiveBlock>, 
/**
 * Output of the calls that run, its last lines.
 */
calls: Array<LiveCall>, };
export type LiveBlock = { 
/**
 * `text`, `thinking` or `tool_call`.
 */
type: LiveKind, 
/**
 * The tool's name, for a tool call.
 */
name: string | null, 
/**
 * Whether that tool gives work to a child.
 */
delegates: boolean, 
/**
 * Where `text` begins, in characters (UTF-16 units) from the start of the block: earlier text was sent before.
 */
from: number, 
/**
 * What came since.
 */
text: string, };
export type LiveKind = "text" | "thinking" | "tool_call";
export type LiveCall = { 
/**
 * The call.
 */
call: CallId, 
/**
 * The last lines of its output, at most 4 KiB.
 */
tail: string, };
export type Frame = { 
/**
 * The log position up to which this frame tells everything.
 */
seq: number, 
/**
 * Sessions that are new or changed.
 */
sessions: Array<SessionView>, 
/**
 * Sessions that were deleted.
 */
removed: Array<SessionId>, 
/**
 * Tasks that are new or changed.
 */
tasks: Array<TaskView>, 
/**
 * Asks that are new or changed.
 */
asks: Array<AskView>, 
/**
 * Rows of the open session that are new or changed, in order.
 */
rows: Array<Row>, 
/**
 * What the open session says now; none when nothing changed since the last frame.
 */
live: LiveView | null, 
/**
 * One line for the status line, when it changed: why nothing can be saved now; empty when all is well again.
 */
status: string | null, };
export type OpenArgs = { 
/**
 * The folder it works in, absolute.
 */
cwd: string, 
/**
 * A model of the configuration.
 */
model?: string, 
/**
 * What it may do without asking.
 */
mode?: Mode, 
/**
 * Its name for people.
 */
title?: string, 
/**
 * Limits of its tree, in place of those of the configuration; 0 means none.
 */
limits?: TreeLimits, 
/**
 * Client-minted: the same key twice opens once.
 */
key: string, };
export type Opened = { 
/**
 * The session.
 */
session: SessionId, };
export type PromptArgs = { 
/**
 * The root session.
 */
session: SessionId, 
/**
 * The words.
 */
text: string, 
/**
 * Client-minted.
 */
key: string, };
export type Prompted = { 
/**
 * The event that holds the prompt.
 */
n: number, };
export type SendArgs = { 
/**
 * The child session.
 */
child: SessionId, 
/**
 * The words.
 */
text: string, 
/**
 * The only way that it may take: with another one it is not delivered.
 */
expect?: Route, 
/**
 * Client-minted.
 */
key: string, };
export type StopWhat = "turn" | "branch" | "task" | "everything";
export type StopArgs = { 
/**
 * What it is aimed at.
 */
what: StopWhat, 
/**
 * The session or task; not with `everything`.
 */
id?: string, 
/**
 * Why, for people and the model.
 */
reason?: string, 
/**
 * Only tell what would end.
 */
preview?: boolean, 
/**
 * Client-minted.
 */
key: string, };
export type TreeArgs = { 
/**
 * Only the tree of this root.
 */
root?: SessionId, };
export type Tree = { 
/**
 * Sessions, oldest first.
 */
sessions: Array<SessionView>, 
/**
 * Tasks, oldest first.
 */
tasks: Array<TaskView>, };
export type TasksArgs = { 
/**
 * Only those that this session owns.
 */
owner?: SessionId, };
export type Tasks = { 
/**
 * Tasks, oldest first.
 */
tasks: Array<TaskView>, };
export type OutputArgs = { 
/**
 * The task.
 */
task: TaskId, 
/**
 * Where to begin, in bytes; 0 without one.
 */
offset?: number, 
/**
 * At most this many bytes.
 */
limit?: number, };
export type Output = { 
/**
 * The text; cuts fall on characters.
 */
text: string, 
/**
 * The offset to read from next.
 */
next: number, 
/**
 * The size so far, in bytes.
 */
size: number, 
/**
 * Whether nothing comes any more.
 */
done: boolean, };
export type WaitArgs = { 
/**
 * The task to wait for.
 */
task?: TaskId, 
/**
 * The session to wait for.
 */
session?: SessionId, 
/**
 * At most this long; 30 s without one, never more than 600 s.
 */
timeout_ms?: number, };
export type Waited = TaskView | SessionView;
export type PageArgs = { 
/**
 * The session.
 */
session: SessionId, 
/**
 * The newest rows before this `n`.
 */
before?: number, 
/**
 * The oldest rows after this `n`.
 */
after?: number, 
/**
 * Of at most this many events.
 */
limit?: number, };
export type EventsArgs = { 
/**
 * The session.
 */
session: SessionId, 
/**
 * Only after this `n`.
 */
after?: number, 
/**
 * At most this many.
 */
limit?: number, };
export type EventView = { 
/**
 * Its position in the session.
 */
n: number, 
/**
 * When.
 */
at: number, 
/**
 * Its kind.
 */
kind: string, 
/**
 * Its version.
 */
v: number, 
/**
 * Its body.
 */
body: Record<string, unknown>, };
export type Events = { 
/**
 * Oldest first.
 */
events: Array<EventView>, };
export type SubscribeArgs = { 
/**
 * The session whose rows and live text are wanted too.
 */
session?: SessionId, 
/**
 * Tell everything after this `seq`; only what is new without one.
 */
after?: number, };
export type Subscribed = { 
/**
 * Where the subscription starts.
 */
seq: number, };
export type SessionArgs = { 
/**
 * The session.
 */
session: SessionId, };
export type Usage = { 
/**
 * The session's own.
 */
own: Spent, 
/**
 * The session's with all below it.
 */
branch: Spent, };
export type Spent = { 
/**
 * US dollars; none when it cannot be told.
 */
cost: number | null, 
/**
 * Tokens read, cached ones included.
 */
input: number, 
/**
 * Tokens written.
 */
output: number, 
/**
 * The part of `input` that came from a cache.
 */
cached: number, 
/**
 * True when a part of the sum is an estimate.
 */
estimated: boolean, 
/**
 * How many requests were made.
 */
requests: number, };
export type Models = { 
/**
 * In the order of their names.
 */
models: Array<ModelView>, };
export type LimitsArgs = { 
/**
 * A session, for the limits of its tree; else those of a tree that has none of its own.
 */
session?: SessionId, };
export type LimitUse = { 
/**
 * Its name in the configuration.
 */
limit: string, 
/**
 * What was used, in its unit.
 */
used: number, 
/**
 * What may be used; never 0.
 */
most: number, };
export type LimitsView = { 
/**
 * The limits in force.
 */
limits: Limits, 
/**
 * How far those of the tree are used that can be used up.
 */
spent: Array<LimitUse>, 
/**
 * When an owner is woken and a person is notified.
 */
notices: Notices, };
export type SetLimitsArgs = { 
/**
 * The root of the tree.
 */
session: SessionId, 
/**
 * What is to change; 0 means none.
 */
limits: TreeLimits, 
/**
 * Client-minted.
 */
key: string, };
export type AsksArgs = { 
/**
 * Also those that were answered or taken back lately.
 */
all?: boolean, };
export type Asks = { 
/**
 * Those that wait, oldest first; then the others, newest first.
 */
asks: Array<AskView>, };
export type AnswerArgs = { 
/**
 * The ask.
 */
ask: AskId, 
/**
 * The answer.
 */
decision: Decision, 
/**
 * A word to the agent, at most 4 KiB.
 */
note?: string, 
/**
 * Client-minted.
 */
key: string, };
export type Answered = { 
/**
 * The ask as it stands now.
 */
ask: AskView, };
export type SetModeArgs = { 
/**
 * The session.
 */
session: SessionId, 
/**
 * What it may do without asking, from its next call on.
 */
mode: Mode, 
/**
 * Client-minted.
 */
key: string, };
export type Allowances = { 
/**
 * What is allowed for more than one call, oldest first.
 */
allowances: Array<AllowanceView>, };
export type DisallowArgs = { 
/**
 * The ask whose answer is taken back.
 */
ask: AskId, 
/**
 * Client-minted.
 */
key: string, };
export type KeyPlace = "environment" | "keyring" | "file" | "memory";
export type KeyView = { 
/**
 * Its name.
 */
name: string, 
/**
 * The models that use it.
 */
models: Array<string>, 
/**
 * Where it is; none when it is nowhere.
 */
place: KeyPlace | null, 
/**
 * Its last four characters; none of a short key.
 */
ending: string | null, 
/**
 * Why it could not be looked for everywhere.
 */
problem: string | null, };
export type KeysArgs = { 
/**
 * Whether to try the keyring: something is kept in it, read and removed. The system may ask the person to unlock it.
 */
probe?: boolean, };
export type Keys = { 
/**
 * The keys that the configuration names.
 */
keys: Array<KeyView>, 
/**
 * Whether the keyring works, for people; none when it was not tried.
 */
keyring: string | null, };
export type SetKeyArgs = { 
/**
 * The name of the key, as `key_env` gives it.
 */
name: string, 
/**
 * Where it is kept: `keyring`, `file`, which is a yes to a file that holds it unencrypted, or `memory`.
 */
where: KeyPlace, 
/**
 * The key itself. It is told to nobody.
 */
secret: string, 
/**
 * Minted by the client.
 */
key: string, };
export type RemoveKeyArgs = { 
/**
 * The name of the key.
 */
name: string, 
/**
 * Minted by the client.
 */
key: string, };
export type RemovedKey = { 
/**
 * Where it was.
 */
from: Array<KeyPlace>, };
export type Diagnostics = { 
/**
 * The report, to be shown to others: no keys, no words of sessions, no name of the person.
 */
text: string, };
export type About = { 
/**
 * The version of Coppice.
 */
version: string, 
/**
 * The process that holds the data folder.
 */
pid: number, 
/**
 * The data folder.
 */
data: string, 
/**
 * The configuration file, which need not exist.
 */
config: string, 
/**
 * The folder that a first session is offered.
 */
cwd: string, 
/**
 * One line for the status line: leftovers of a crash, no notification service; none when all is well.
 */
status: string | null, };
export type ArchiveArgs = { 
/**
 * The session; all below it goes with it.
 */
session: SessionId, 
/**
 * Into the archive, or out of it again; into it without one.
 */
archived?: boolean, 
/**
 * Stop what runs in it first; without, it is refused as `busy` when something does.
 */
stop?: boolean, 
/**
 * Client-minted.
 */
key: string, };
export type DeleteArgs = { 
/**
 * The session; all below it goes too.
 */
session: SessionId, 
/**
 * Stop what runs in it first; without, it is refused as `busy` when something does.
 */
stop?: boolean, 
/**
 * Only tell what would go, and what would be stopped.
 */
preview?: boolean, 
/**
 * Client-minted.
 */
key: string, };
export type Deleted = { 
/**
 * How many sessions went.
 */
sessions: number, 
/**
 * How many messages stood in them: those to a session, and the answers of its model.
 */
messages: number, 
/**
 * What was asked: `turn`, `branch`, `task` or `everything`.
 */
what: string, 
/**
 * The name of what was stopped, for people.
 */
label: string, 
/**
 * Who asked.
 */
by: Party | null, 
/**
 * What ended (or, in a preview, would end).
 */
ended: Array<ReceiptItem>, 
/**
 * What lives on below what was stopped.
 */
kept: Array<ReceiptItem>, 
/**
 * Every process that was seen, and whether it was seen gone (or, in a preview, that lives and would end).
 */
processes: Array<ReceiptProcess>, 
/**
 * What could not be proven, in words.
 */
unconfirmed: Array<string>, 
/**
 * How long it took, in milliseconds.
 */
ms: number, };
export type UndoArgs = { 
/**
 * Whose changes of files.
 */
session: SessionId, 
/**
 * Only those of this row: of its calls, or of what was taken back there, which is put back then.
 */
n?: number, 
/**
 * Only those of this call.
 */
call?: CallId, 
/**
 * Those of all sessions below it, too.
 */
branch?: boolean, 
/**
 * Only tell what would happen.
 */
preview?: boolean, 
/**
 * Client-minted.
 */
key: string, };
export type UndoHow = "restored" | "removed" | "merged" | "same" | "refused";
export type UndoneFile = { 
/**
 * The file, absolute.
 */
path: string, 
/**
 * How it is called.
 */
shown: string, 
/**
 * What becomes of it.
 */
how: UndoHow, 
/**
 * Why it is left alone; none when it is not.
 */
why: string | null, 
/**
 * How many changes of it are taken back.
 */
edits: number, 
/**
 * Lines that come.
 */
added: number, 
/**
 * Lines that go.
 */
removed: number, 
/**
 * What would change in it, as a unified diff of at most 4 KiB; only in a preview, for the first 100.
 */
diff: string, };
export type Undoing = { 
/**
 * The files, those that were changed last first.
 */
files: Array<UndoneFile>, 
/**
 * The `n` of the `Undone`: the row by which it can be taken back. None in a preview.
 */
n: number | null, };
export type RenameArgs = { 
/**
 * The session.
 */
session: SessionId, 
/**
 * Its new title.
 */
title: string, 
/**
 * Client-minted.
 */
key: string, };
export type RaiseArgs = { 
/**
 * The session to show; the one that is open without one.
 */
session?: SessionId, 
/**
 * An ask of that session to show.
 */
ask?: AskId, };
export type ShutdownArgs = { 
/**
 * How long it may take.
 */
deadline_ms?: number, };
export type Nothing = Record<symbol, never>;
export type Failed = { 
/**
 * What kind.
 */
code: Code, 
/**
 * What happened and what to do, for people.
 */
message: string, };
export type Push = { "frame": Frame } | { "show": { 
/**
 * The session.
 */
session: SessionId, 
/**
 * Its ask that the person is to see; none for the session as such.
 */
ask: AskId | null, } } | { "quitting": number };
export type Quit = "ask" | "keep" | "stop" | "cancel";

export interface Commands {
  /** Opens a session in a folder. */
  open: { args: OpenArgs; ok: Opened };
  /** Gives a root session a prompt; durable when it answers. */
  prompt: { args: PromptArgs; ok: Prompted };
  /** Sends a message to a child: joins its running turn, or wakes it. */
  send: { args: SendArgs; ok: Sent };
  /** Stops a turn, a branch, a task or everything, with proof. */
  stop: { args: StopArgs; ok: Receipt };
  /** Sessions and tasks. */
  tree: { args: TreeArgs; ok: Tree };
  /** Background tasks. */
  tasks: { args: TasksArgs; ok: Tasks };
  /** A part of a task's output. */
  output: { args: OutputArgs; ok: Output };
  /** Waits for a task or a session. */
  wait: { args: WaitArgs; ok: Waited };
  /** Rows of a transcript, as people see it. */
  page: { args: PageArgs; ok: Page };
  /** The log of a session itself. */
  events: { args: EventsArgs; ok: Events };
  /** Pushes a frame whenever something changes. */
  subscribe: { args: SubscribeArgs; ok: Subscribed };
  /** Tokens, cost and requests of a session and its branch. */
  usage: { args: SessionArgs; ok: Usage };
  /** What is configured, and what works. */
  models: { args: Nothing; ok: Models };
  /** The limits in force, and how far they are used. */
  limits: { args: LimitsArgs; ok: LimitsView };
  /** Gives a tree limits of its own. */
  set_limits: { args: SetLimitsArgs; ok: Nothing };
  /** What waits for the person's leave, and with `all` what was decided lately. */
  asks: { args: AsksArgs; ok: Asks };
  /** Answers an ask. */
  answer: { args: AnswerArgs; ok: Answered };
  /** Changes what a session may do without asking. */
  set_mode: { args: SetModeArgs; ok: Nothing };
  /** What is allowed for more than one call. */
  allowances: { args: Nothing; ok: Allowances };
  /** Takes such an allowance back. */
  disallow: { args: DisallowArgs; ok: Nothing };
  /** Where the keys of models are; no secrets. */
  keys: { args: KeysArgs; ok: Keys };
  /** Keeps the key of a model server. */
  set_key: { args: SetKeyArgs; ok: Nothing };
  /** Removes such a key. */
  remove_key: { args: RemoveKeyArgs; ok: RemovedKey };
  /** A report about this machine and this process, without secrets. */
  diagnostics: { args: Nothing; ok: Diagnostics };
  /** Version, folders, and what is to be known at the start. */
  about: { args: Nothing; ok: About };
  /** Puts a session with all below it out of the way, or brings it back. */
  archive: { args: ArchiveArgs; ok: Receipt };
  /** Deletes a session with all below it. */
  delete: { args: DeleteArgs; ok: Deleted };
  /** Takes changes of files back, the latest first. */
  undo: { args: UndoArgs; ok: Undoing };
  /** Gives a session another title. */
  rename: { args: RenameArgs; ok: Nothing };
  /** Brings the window to the front, at a session. */
  raise: { args: RaiseArgs; ok: Nothing };
  /** Stops everything in order; then the process ends. */
  shutdown: { args: ShutdownArgs; ok: Receipt };
}
