//! What is measured and how it is told: samples, what the system knows of a process, and the lines of the table.

use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What Linux tells times of processes in, everywhere: hundredths of a second.
const TICK: Duration = Duration::from_millis(10);

/// The longest that a process may take to come to rest.
const PATIENCE: Duration = Duration::from_secs(60);

/// Measured values, in one unit.
#[derive(Clone, Debug, Default)]
pub struct Sample(Vec<f64>);

impl Sample {
    /// Measures `rounds` times what `measure` answers.
    pub fn of(rounds: usize, mut measure: impl FnMut(usize) -> f64) -> Self {
        (0..rounds).map(&mut measure).collect()
    }

    /// How many there are.
    pub fn rounds(&self) -> usize {
        self.0.len()
    }

    /// The one in the middle.
    pub fn median(&self) -> f64 {
        self.at(0.5)
    }

    /// The one that 19 of 20 are not above.
    pub fn p95(&self) -> f64 {
        self.at(0.95)
    }

    /// The greatest.
    pub fn worst(&self) -> f64 {
        self.at(1.0)
    }

    fn at(&self, part: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1).expect("nothing was measured");
        sorted[(part * last as f64).ceil() as usize]
    }
}

impl FromIterator<f64> for Sample {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

/// Milliseconds since `began`.
pub fn ms(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1e3
}

/// A line of the table: what is measured, what came out, what it is compared with and what came out there.
pub struct Line<'a> {
    pub what: &'a str,
    pub unit: &'a str,
    pub here: f64,
    pub there: f64,
    pub reference: &'a str,
    pub rounds: usize,
}

impl Line<'_> {
    pub fn print(&self) {
        let Self { what, unit, here, there, reference, rounds } = self;
        let ratio = if *there > 0.0 { format!("{:.2}", here / there) } else { "-".to_owned() };
        println!("{what:<46} {:>11} {:>11} {ratio:>7} {rounds:>6}  {reference}", told(*here, unit), told(*there, unit));
    }
}

/// The names of the columns.
pub fn heading() {
    println!("{:<46} {:>11} {:>11} {:>7} {:>6}  compared with", "medians", "here", "there", "ratio", "rounds");
}

fn told(value: f64, unit: &str) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$} {unit}")
}

/// Resident memory of a process, in MB.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    /// What is in memory for it.
    pub rss: f64,
    /// The same with its share only of what others have too.
    pub pss: f64,
}

impl std::ops::Add for Memory {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { rss: self.rss + other.rss, pss: self.pss + other.pss }
    }
}

/// The resident memory of a process now.
pub fn memory(pid: u32) -> Memory {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    Memory { rss: field(&text, "Rss:"), pss: field(&text, "Pss:") }
}

/// The most that was ever in memory for it, in MB.
pub fn peak(pid: u32) -> f64 {
    field(&std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap(), "VmHWM:")
}

fn field(text: &str, name: &str) -> f64 {
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name} in {text}"));
    let kilobytes: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kilobytes / 1024.0
}

/// A process as the process table has it.
#[derive(Clone, Debug)]
pub struct Process {
    pub pid: u32,
    pub parent: u32,
    pub name: String,
    /// Whether it has ended and only waits to be taken note of.
    pub ended: bool,
    /// The processor time that it has had.
    pub cpu: Duration,
}

impl Process {
    /// The process, if it is there.
    pub fn find(pid: u32) -> Option<Self> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (before, after) = text.rsplit_once(')')?;
        let fields: Vec<&str> = after.split_whitespace().collect();
        let ticks = |at: usize| fields.get(at)?.parse::<u32>().ok();
        Some(Self {
            pid,
            parent: ticks(1)?,
            name: before.split_once('(')?.1.to_owned(),
            ended: matches!(*fields.first()?, "Z" | "X"),
            cpu: TICK * (ticks(11)? + ticks(12)?),
        })
    }

    /// All processes.
    pub fn all() -> Vec<Self> {
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        entries.filter_map(|entry| Self::find(entry.file_name().to_str()?.parse().ok()?)).collect()
    }

    /// The process and all below it.
    pub fn family(pid: u32) -> Vec<Self> {
        let all = Self::all();
        let mut family: Vec<Self> = all.iter().filter(|process| process.pid == pid).cloned().collect();
        let mut next = 0;
        while let Some(parent) = family.get(next).map(|process| process.pid) {
            family.extend(all.iter().filter(|process| process.parent == parent).cloned());
            next += 1;
        }
        family
    }

    /// The program that it runs.
    pub fn program(&self) -> Option<PathBuf> {
        std::fs::read_link(format!("/proc/{}/exe", self.pid)).ok()
    }
}

/// Waits until a process and all below it have done next to nothing for a second.
pub fn rest(pid: u32) {
    let used = || Process::family(pid).iter().map(|process| process.cpu).sum::<Duration>();
    let end = Instant::now() + PATIENCE;
    let mut before = used();
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let now = used();
        if now.saturating_sub(before) <= 2 * TICK {
            return;
        }
        assert!(Instant::now() < end, "process {pid} does not come to rest");
        before = now;
    }
}
