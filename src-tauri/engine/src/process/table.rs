//! The system's table of processes: who lives, who belongs to whom, and signals that never reach a reused pid.
//!
//! On Linux it is `/proc`. Elsewhere only the process groups that are asked about can be seen: what left its group is
//! out of sight there.

use super::guard::{GUARD, MARKER};
use crate::event::ReceiptProcess;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

/// Whether single processes can be told apart, and the guard from the command.
pub(super) const SEES_PROCESSES: bool = cfg!(target_os = "linux");

/// Kernel ticks per second in `/proc`: part of Linux's interface to programs, the same on every current platform.
const TICK_MS: i64 = 10;

/// How far two readings of one start time may lie apart: the clock of the boot is corrected while the system runs.
const START_TOLERANCE_MS: i64 = 2000;

/// How often the line of a process is read while its parents end.
const LINE_READINGS: usize = 100;

/// How often the table is listed for one look, at most.
#[cfg(target_os = "linux")]
const LISTINGS: usize = 12;

/// How long the exchange of a program is waited out: looks, and the pause between them.
#[cfg(target_os = "linux")]
const EXCHANGE_LOOKS: usize = 20;
#[cfg(target_os = "linux")]
const EXCHANGE_PAUSE: std::time::Duration = std::time::Duration::from_millis(1);

/// A process beyond doubt: a pid alone is reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Identity {
    /// Start time in ticks since boot.
    pub started: u64,
    pub pid: u32,
}

/// A process as the table shows it.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub id: Identity,
    parent: u32,
    group: u32,
    /// It has ended and only waits for its parent to notice.
    dead: bool,
    /// The tree that its environment names.
    pub marker: Option<String>,
    /// Whether it is a guard rather than a command. Unknown while its environment is not there: it is exchanged when a
    /// program starts, and gone a moment before the process is.
    guard: Option<bool>,
}

impl Identity {
    pub fn receipt(self, gone: bool) -> ReceiptProcess {
        let started_at =
            boot_ms().saturating_add(i64::try_from(self.started).unwrap_or(i64::MAX).saturating_mul(TICK_MS));
        ReceiptProcess { pid: self.pid, started_at, gone }
    }
}

/// What counts as one tree, or as several that end together.
#[derive(Clone, Debug, Default)]
pub(super) struct Target {
    /// Markers, complete.
    pub markers: BTreeSet<String>,
    /// Beginnings of markers.
    pub prefixes: BTreeSet<String>,
    /// What started earlier, in ticks since boot, does not belong to it and is not looked into.
    pub since: u64,
    /// Process groups. A group counts only while a process in it is known otherwise: its number may be reused.
    pub groups: Vec<u32>,
    /// Processes that were seen in it, and whether each is a guard.
    pub seen: BTreeMap<Identity, bool>,
    /// The guards and their watchers of all these groups. Without it a process is taken for what its environment says it
    /// is, which a command can write as well.
    pub guards: Option<BTreeSet<Identity>>,
    /// Pipes into which nothing else writes.
    pub pipes: BTreeSet<String>,
}

impl Target {
    fn names(&self, marker: &str) -> bool {
        self.markers.contains(marker) || self.prefixes.iter().any(|prefix| marker.starts_with(prefix.as_str()))
    }

    /// Looks for everything of the target that lives now, and remembers it. Answers what lives, and of each whether it
    /// is a guard.
    pub fn look(&mut self) -> Vec<(Identity, bool)> {
        let rows = snapshot(&self.groups, self.since);
        if !self.pipes.is_empty() {
            let writers =
                rows.iter().filter(|row| !self.seen.contains_key(&row.id) && writes_into(row.id.pid, &self.pipes));
            let writers: Vec<Identity> = writers.map(|row| row.id).collect();
            self.seen.extend(writers.into_iter().map(|id| (id, false)));
        }
        // Trees that began when the target was made already: their leaders are children of this process, which no
        // command can be.
        let own = std::process::id();
        let young = rows.iter().filter(|row| row.parent == own && !self.groups.contains(&row.group));
        let young: BTreeSet<u32> = young.map(|row| row.group).collect();
        let mut living = Vec::new();
        for row in self.members(&rows) {
            let guard = self.seen.entry(row.id).or_insert(row.guard.unwrap_or(false));
            *guard = match &self.guards {
                Some(guards) => guards.contains(&row.id) || (young.contains(&row.group) && row.guard == Some(true)),
                // A child of the guard looks like the guard until it becomes the command.
                None => *guard && row.guard.unwrap_or(true),
            };
            living.push((row.id, *guard));
        }
        living
    }

    /// The same without the guards.
    pub fn look_for_commands(&mut self) -> Vec<Identity> {
        self.look().into_iter().filter(|(_, guard)| !guard).map(|(id, _)| id).collect()
    }

    /// The living processes of the target: those that carry its marker, that were seen in it before, that share a
    /// group with one of these, and what descends from them. Never this process or what it descends from.
    fn members<'a>(&self, rows: &'a [Row]) -> Vec<&'a Row> {
        let spared = own_line(rows);
        let candidates: Vec<&Row> = rows.iter().filter(|row| !spared.contains(&row.id.pid)).collect();
        let mut pids: BTreeSet<u32> = candidates
            .iter()
            .filter(|row| {
                self.seen.contains_key(&row.id) || row.marker.as_deref().is_some_and(|marker| self.names(marker))
            })
            .map(|row| row.id.pid)
            .collect();
        loop {
            let groups: BTreeSet<u32> = candidates
                .iter()
                .filter(|row| pids.contains(&row.id.pid) && self.groups.contains(&row.group))
                .map(|row| row.group)
                .collect();
            let before = pids.len();
            for row in &candidates {
                if pids.contains(&row.parent) || groups.contains(&row.group) {
                    pids.insert(row.id.pid);
                }
            }
            if pids.len() == before {
                break;
            }
        }
        candidates.into_iter().filter(|row| pids.contains(&row.id.pid) && !row.dead).collect()
    }
}

/// This process and everything it descends from.
fn own_line(rows: &[Row]) -> BTreeSet<u32> {
    let parents: BTreeMap<u32, u32> = rows.iter().map(|row| (row.id.pid, row.parent)).collect();
    let mut line = BTreeSet::new();
    let mut next = Some(std::process::id());
    while let Some(pid) = next {
        next = if line.insert(pid) { parents.get(&pid).copied() } else { None };
    }
    line
}

/// A process and everything it descends from, nearest first. The kernel gives a process whose parent ends another one at
/// once, so a parent that is not there is one that ended since, and the line is read anew, or one that this user may not
/// see, with which the line ends. None when the process is not there, or its line does not keep still.
pub(super) fn line(pid: u32) -> Option<Vec<Row>> {
    'anew: for _ in 0..LINE_READINGS {
        let mut line = vec![row(pid, 0)?];
        while let Some(child) = line.last().filter(|row| row.parent != 0) {
            match row(child.parent, 0) {
                Some(parent) => line.push(parent),
                None if row(child.id.pid, u64::MAX).is_some_and(|again| again.parent == child.parent) => break,
                None => continue 'anew,
            }
        }
        return Some(line);
    }
    None
}

/// Looks again at a process that was told of earlier: it is gone when no process of this pid started then.
pub(super) fn look_again(process: ReceiptProcess) -> ReceiptProcess {
    let alive = row(process.pid, u64::MAX).is_some_and(|row| {
        !row.dead && row.id.receipt(false).started_at.abs_diff(process.started_at) <= START_TOLERANCE_MS.unsigned_abs()
    });
    ReceiptProcess { gone: !alive, ..process }
}

/// Whether exactly this process lives.
pub(super) fn lives(id: Identity) -> bool {
    row(id.pid, u64::MAX).is_some_and(|row| row.id == id && !row.dead)
}

/// The identity of the process that has this pid now.
pub(super) fn identify(pid: u32) -> Option<Identity> {
    row(pid, u64::MAX).map(|row| row.id)
}

#[cfg(target_os = "linux")]
pub(super) fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_owned()).unwrap_or_default()
}

#[cfg(not(target_os = "linux"))]
pub(super) fn boot() -> String {
    String::new()
}

/// When the system started, in milliseconds since the epoch; read once, so that one process always has one start time.
fn boot_ms() -> i64 {
    static BOOT: OnceLock<i64> = OnceLock::new();
    *BOOT.get_or_init(|| {
        let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let seconds =
            stat.lines().find_map(|line| line.strip_prefix("btime ")).and_then(|text| text.trim().parse().ok());
        seconds.map_or(0, |seconds: i64| seconds.saturating_mul(1000))
    })
}

/// How long a process and those of its children that it has seen end have had a processor: nothing for one that is gone,
/// none where the system does not tell.
#[cfg(target_os = "linux")]
pub(super) fn worked(process: Identity) -> Option<std::time::Duration> {
    let Ok(stat) = std::fs::read(format!("/proc/{}/stat", process.pid)) else { return Some(std::time::Duration::ZERO) };
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let fields: Vec<&str> = std::str::from_utf8(stat.get(end + 1..)?).ok()?.split_ascii_whitespace().collect();
    // In user and in kernel mode, its own and its children's.
    let ticks = (11..=14).try_fold(0, |sum: u64, at| Some(sum + fields.get(at)?.parse::<u64>().ok()?))?;
    Some(std::time::Duration::from_millis(ticks.saturating_mul(TICK_MS.unsigned_abs())))
}

/// How long a process has had a processor: not told here.
#[cfg(not(target_os = "linux"))]
pub(super) fn worked(_process: Identity) -> Option<std::time::Duration> {
    None
}

/// Whether this process lives and has exactly this one child, which is its oldest. A parent of orphans then has nothing
/// else below it: while anything lived there, so would a child, living or not yet noticed dead. Where the kernel does not
/// list children, the answer is no.
pub(super) fn has_only(parent: Identity, child: Identity) -> bool {
    let pid = parent.pid;
    // The oldest comes first, and whether it has a younger is one question to the kernel: the list cannot skip one.
    let listed = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    listed.is_ok_and(|listed| listed.trim_ascii() == child.pid.to_string()) && lives(child) && lives(parent)
}

/// The command line of a process, for people.
pub(super) fn command_line(pid: u32) -> String {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<_> = bytes.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
    crate::text::cut(words.join(" ").trim(), 200).to_owned()
}

/// The table as it is now. The system lists pids many at a time, so what starts while the listed ones are read is listed
/// anew, until nothing new appears: else a process that hands over to the next all the time would never be met.
#[cfg(target_os = "linux")]
pub(super) fn snapshot(_groups: &[u32], since: u64) -> Vec<Row> {
    let mut known = BTreeSet::new();
    let mut rows = Vec::new();
    for _ in 0..LISTINGS {
        let Ok(folder) = std::fs::read_dir("/proc") else { break };
        let pids = folder.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let fresh: Vec<u32> = pids.filter(|pid| known.insert(*pid)).collect();
        if fresh.is_empty() {
            break;
        }
        rows.extend(fresh.into_iter().filter_map(|pid| row(pid, since)));
    }
    rows
}

/// The table's row of a pid, without what its environment tells when it started before `since`. None when there is no
/// such process: processes end while they are looked at.
#[cfg(target_os = "linux")]
fn row(pid: u32, since: u64) -> Option<Row> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in parentheses and may itself hold spaces and parentheses; what follows the last one is regular.
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(stat.get(end + 1..)?).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    let small = |index: usize| number(index).and_then(|number| u32::try_from(number).ok());
    let dead = matches!(*fields.first()?, "Z" | "X" | "x");
    let started = number(19)?;
    let environment = if dead || started < since { Vec::new() } else { environment(pid) };
    let variable = |name: &str| {
        environment.split(|byte| *byte == 0).find_map(|pair| pair.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
    };
    Some(Row {
        id: Identity { started, pid },
        parent: small(1)?,
        group: small(2).unwrap_or(0),
        dead,
        marker: variable(MARKER).map(|value| String::from_utf8_lossy(value).into_owned()),
        guard: (!environment.is_empty()).then(|| variable(GUARD).is_some()),
    })
}

/// Whether a process holds an end of one of these pipes that it can write into. What it only reads from is no sign: a
/// process that is just being made still has what its parent reads.
#[cfg(target_os = "linux")]
fn writes_into(pid: u32, pipes: &BTreeSet<String>) -> bool {
    // Other users' processes cannot be read, and are not ours.
    let Ok(open) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    open.flatten().any(|entry| {
        let named = std::fs::read_link(entry.path()).is_ok_and(|to| to.to_str().is_some_and(|to| pipes.contains(to)));
        let number = entry.file_name();
        let told = || std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{}", number.to_string_lossy()));
        // The last octal digit holds how it was opened: 0 is for reading only.
        named
            && told().is_ok_and(|told| {
                let flags = told.lines().find_map(|line| line.strip_prefix("flags:"));
                flags.is_some_and(|flags| matches!(flags.trim_end().as_bytes().last(), Some(b'1' | b'2')))
            })
    })
}

#[cfg(not(target_os = "linux"))]
fn writes_into(_pid: u32, _pipes: &BTreeSet<String>) -> bool {
    false
}

/// The environment that a process was started with. It is not there for a moment while a program takes the place of
/// another; a process that starts programs without pause would be out of sight then, so the moment is waited out. Other
/// users' environments cannot be read, and are not ours.
#[cfg(target_os = "linux")]
fn environment(pid: u32) -> Vec<u8> {
    for _ in 0..EXCHANGE_LOOKS {
        let Ok(environment) = std::fs::read(format!("/proc/{pid}/environ")) else { return Vec::new() };
        let exchanged = environment.is_empty()
            && std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.is_empty())
            // A thread of the kernel has neither, ever, and no program.
            && std::fs::read_link(format!("/proc/{pid}/exe")).is_ok();
        if !exchanged {
            return environment;
        }
        std::thread::sleep(EXCHANGE_PAUSE);
    }
    Vec::new()
}

#[cfg(not(target_os = "linux"))]
pub(super) fn snapshot(groups: &[u32], since: u64) -> Vec<Row> {
    groups.iter().filter_map(|group| row(*group, since)).collect()
}

/// A group stands for all its processes, under the pid of its leader.
#[cfg(all(unix, not(target_os = "linux")))]
fn row(pid: u32, _since: u64) -> Option<Row> {
    rustix::process::test_kill_process_group(raw(pid)?).ok()?;
    Some(Row { id: Identity { started: 0, pid }, parent: 0, group: pid, dead: false, marker: None, guard: None })
}

#[cfg(not(unix))]
fn row(_pid: u32, _since: u64) -> Option<Row> {
    None
}

/// What is sent to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    /// It is asked to end.
    Ask,
    /// It stands still, so that it cannot make new ones.
    Freeze,
    /// It ends.
    Kill,
}

#[cfg(unix)]
fn raw(pid: u32) -> Option<rustix::process::Pid> {
    rustix::process::Pid::from_raw(i32::try_from(pid).ok()?)
}

/// Signals exactly this process: it is held by a descriptor first and looked at again then, so that a pid that was
/// reused in between is left alone. An error means that it is gone already or not ours to signal; the next look tells.
#[cfg(target_os = "linux")]
pub(super) fn signal(id: Identity, signal: Signal) {
    use rustix::process::{PidfdFlags, Signal as Raw, kill_process, pidfd_open, pidfd_send_signal};
    let Some(pid) = raw(id.pid) else { return };
    let held = pidfd_open(pid, PidfdFlags::empty());
    if !lives(id) {
        return;
    }
    let send = |raw| match &held {
        Ok(held) => pidfd_send_signal(held, raw),
        // A kernel before 5.3 has no such descriptors; the look just before is the guard then.
        Err(rustix::io::Errno::NOSYS) => kill_process(pid, raw),
        Err(error) => Err(*error),
    };
    let sent = match signal {
        // What stands still cannot hear: it is woken too.
        Signal::Ask => send(Raw::TERM).and_then(|()| send(Raw::CONT)),
        Signal::Freeze => send(Raw::STOP),
        Signal::Kill => send(Raw::KILL),
    };
    if let Err(error) = sent {
        tracing::debug!(pid = id.pid, %error, "a signal did not arrive");
    }
}

#[cfg(all(unix, not(target_os = "linux")))]
pub(super) fn signal(id: Identity, signal: Signal) {
    use rustix::process::{Signal as Raw, kill_process_group};
    let raw_signal = match signal {
        Signal::Ask => Raw::TERM,
        Signal::Freeze => Raw::STOP,
        Signal::Kill => Raw::KILL,
    };
    if let Some(Err(error)) = raw(id.pid).map(|group| kill_process_group(group, raw_signal)) {
        tracing::debug!(pid = id.pid, %error, "a signal did not arrive");
    }
}

#[cfg(not(unix))]
pub(super) fn signal(_id: Identity, _signal: Signal) {}
