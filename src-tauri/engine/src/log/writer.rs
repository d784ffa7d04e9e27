//! The one thread that writes. It takes everything that waits, puts each job in a savepoint of its own inside one
//! transaction, commits once, bumps the watch, and answers each job.

use super::fault::{Fault, LOCKED, Loss, lost};
use super::held::Held;
use super::open::{BUSY, WAL_KEPT, wal};
use crate::env::Env;
use crate::error::{Code, Error, Result};
use crate::mask::Mask;
use rusqlite::{Connection, ErrorCode};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

/// How long writes wait for another process that holds the store, before they are refused.
const PATIENCE: Duration = Duration::from_secs(60);

/// The most jobs of one commit.
const TOGETHER: usize = 512;

/// How long no job comes before the write-ahead log is folded back.
const QUIET: Duration = Duration::from_secs(2);

/// How often a writer that has nothing to do looks whether the store is still at its path.
const LOOK: Duration = Duration::from_secs(5);

/// The size from which the write-ahead log is folded back even while readers come and go, in bytes.
const WAL_BOUND: u64 = 16 * 1024 * 1024;

/// How long a reader of another process may hold up the jobs that wait.
const FOLD_WAIT: Duration = Duration::from_millis(500);

/// Held for reading by each snapshot, for writing while the write-ahead log is folded back.
pub(super) type Gate = Arc<RwLock<()>>;

/// What the writer is sent.
pub(super) enum Order {
    /// Do this.
    Do(Box<dyn Job>),
    /// Do what came before, fold the write-ahead log back, and end.
    Close(oneshot::Sender<()>),
}

/// The transaction that a job writes in.
pub(super) struct Writing<'a> {
    /// The connection, inside the transaction.
    pub(super) sql: &'a Connection,
    /// The time of this commit.
    pub(super) at: i64,
    /// Set by a job that changes what subscribers see without an event.
    pub(super) wake: &'a Cell<bool>,
    /// Takes secrets out of what is written.
    pub(super) mask: &'a Mask,
}

/// A piece of work that is answered once. It may run more than once, when the transaction around it fails: each run
/// starts from what is committed.
pub(super) trait Job: Send {
    /// Does the work and keeps what it came to.
    fn run(&mut self, writing: &Writing) -> Result<(), Fault>;
    /// Tells who waits.
    fn answer(self: Box<Self>, fate: Result<()>);
}

struct Work<T, F> {
    work: F,
    value: Option<T>,
    reply: oneshot::Sender<Result<T>>,
}

/// Makes a job of a function, with the place where its value is told.
pub(super) fn job<T, F>(work: F) -> (Box<dyn Job>, oneshot::Receiver<Result<T>>)
where
    T: Send + 'static,
    F: FnMut(&Writing) -> Result<T, Fault> + Send + 'static,
{
    let (reply, told) = oneshot::channel();
    (Box::new(Work { work, value: None, reply }), told)
}

impl<T, F> Job for Work<T, F>
where
    T: Send,
    F: FnMut(&Writing) -> Result<T, Fault> + Send,
{
    fn run(&mut self, writing: &Writing) -> Result<(), Fault> {
        self.value = Some((self.work)(writing)?);
        Ok(())
    }

    fn answer(self: Box<Self>, fate: Result<()>) {
        let unrun = || Error::new(Code::Internal, "A write was answered before it was done.");
        let Self { value, reply, .. } = *self;
        // Who asked may have gone away meanwhile; the write stands all the same.
        let _ = reply.send(fate.and_then(|()| value.ok_or_else(unrun)));
    }
}

/// The writer's own state.
pub(super) struct Writer {
    pub(super) sql: Connection,
    pub(super) mask: Mask,
    pub(super) path: PathBuf,
    pub(super) env: Env,
    pub(super) orders: Receiver<Order>,
    pub(super) seq: watch::Sender<i64>,
    /// Every reader of this process passes here; whoever holds it for writing is alone with the file.
    pub(super) gate: Gate,
    /// What has to be at its path for a write to be worth anything.
    pub(super) held: Held,
    pub(super) trouble: watch::Sender<Option<String>>,
    pub(super) lost: CancellationToken,
    pub(super) loss: Arc<OnceLock<Loss>>,
    /// The lease that this process has on the store: once another has a later one, nothing is written any more.
    pub(super) lease: Option<i64>,
    pub(super) closing: Arc<AtomicBool>,
}

/// The `seq` given last, also when its event was deleted since.
pub(super) fn last_seq(sql: &Connection) -> rusqlite::Result<i64> {
    sql.prepare_cached("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'event'")?
        .query_row([], |row| row.get(0))
}

/// The lease that was given last.
fn lease(sql: &Connection) -> rusqlite::Result<i64> {
    sql.prepare_cached("SELECT CAST(value AS INTEGER) FROM meta WHERE name = 'lease'")?.query_row([], |row| row.get(0))
}

/// Takes the lease: every earlier one is over with this.
pub(super) fn take_lease(sql: &Connection) -> rusqlite::Result<i64> {
    sql.query_row(
        "INSERT INTO meta (name, value) VALUES ('lease', '1')
         ON CONFLICT (name) DO UPDATE SET value = CAST(value AS INTEGER) + 1 RETURNING CAST(value AS INTEGER)",
        [],
        |row| row.get(0),
    )
}

/// What a commit came to.
struct Done {
    fates: Vec<Result<()>>,
    seq: i64,
    wake: bool,
}

impl Writer {
    /// Serves until it is closed or nobody is left to send.
    pub(super) fn serve(self) {
        let mut unfolded = false;
        let mut bound = WAL_BOUND;
        loop {
            let order = match self.orders.recv_timeout(if unfolded { QUIET } else { LOOK }) {
                Err(RecvTimeoutError::Timeout) => {
                    // Nothing presses, so nobody is made to wait for it.
                    self.look_at_lease();
                    if !self.is_lost()
                        && unfolded
                        && let Ok(_alone) = self.gate.try_write()
                    {
                        unfolded = false;
                        self.fold_wal();
                    }
                    continue;
                }
                order => order.ok(),
            };
            let closing = match order {
                None => return,
                Some(Order::Close(told)) => Some(told),
                Some(Order::Do(job)) => self.gather(job),
            };
            if let Some(told) = closing {
                if !self.is_lost() {
                    self.fold_wal_alone();
                }
                drop(self.sql);
                // Whoever closed may have gone away.
                let _ = told.send(());
                return;
            }
            unfolded = true;
            if self.wal_size() > bound {
                self.fold_wal_alone();
                // A foreign reader that stays would hold up every commit, so the next try comes some growth later.
                bound = WAL_BOUND.max(self.wal_size() + WAL_KEPT);
            }
        }
    }

    /// Commits the job and those that wait behind it. Answers who is to be told of the close, if one came.
    fn gather(&self, first: Box<dyn Job>) -> Option<oneshot::Sender<()>> {
        let begun = self.begin();
        let mut jobs = vec![first];
        let mut closing = None;
        // Gathered after the lock was got: what came during a long wait goes with this commit.
        while jobs.len() < TOGETHER && closing.is_none() {
            match self.orders.try_recv() {
                Ok(Order::Do(job)) => jobs.push(job),
                Ok(Order::Close(told)) => closing = Some(told),
                Err(_) => break,
            }
        }
        match begun {
            Ok(()) => self.settle(jobs),
            Err(error) => self.refuse(jobs, error),
        }
        closing
    }

    /// Commits the jobs in the transaction that has begun. When that fails as a whole, each is tried on its own, so
    /// that one that cannot succeed takes no other with it.
    fn settle(&self, mut jobs: Vec<Box<dyn Job>>) {
        match self.commit(&mut jobs) {
            Ok(done) => {
                // Before the answers, so that who was answered never finds the watch behind what it wrote.
                self.seq.send_if_modified(|seq| std::mem::replace(seq, done.seq) != done.seq || done.wake);
                for (job, fate) in jobs.into_iter().zip(done.fates) {
                    job.answer(fate);
                }
            }
            Err(fault) if jobs.len() <= 1 => {
                if let Some(job) = jobs.pop() {
                    job.answer(Err(fault.told(&self.path)));
                }
            }
            Err(_) => {
                let mut jobs = jobs.into_iter();
                while let Some(job) = jobs.next() {
                    match self.begin() {
                        Ok(()) => self.settle(vec![job]),
                        Err(error) => return self.refuse(std::iter::once(job).chain(jobs), error),
                    }
                }
            }
        }
    }

    fn refuse(&self, jobs: impl IntoIterator<Item = Box<dyn Job>>, fault: Fault) {
        let told = fault.told(&self.path);
        tracing::error!(error = %told, "the store took no writes");
        for job in jobs {
            job.answer(Err(Error::new(told.code(), told.message())));
        }
    }

    /// Begins the transaction, however long another process holds the store, up to a bound.
    fn begin(&self) -> Result<(), Fault> {
        if self.is_lost() {
            return Err(self.loss());
        }
        if !self.sql.is_autocommit() {
            // An earlier roll-back failed; nothing of that transaction was answered as kept.
            self.sql.execute_batch("ROLLBACK")?;
        }
        let since = Instant::now();
        let mut tried = self.sql.execute_batch("BEGIN IMMEDIATE");
        if tried.as_ref().is_err_and(locked) {
            tracing::warn!(path = %self.path.display(), "another process holds the store; writes wait for it");
            self.trouble.send_replace(Some(LOCKED.to_owned()));
        }
        let goes_on = || since.elapsed() < PATIENCE && !self.closing.load(Ordering::Acquire);
        while tried.as_ref().is_err_and(locked) && goes_on() {
            tried = self.sql.execute_batch("BEGIN IMMEDIATE");
        }
        tried?;
        self.trouble.send_if_modified(|trouble| trouble.take_if(|told| told == LOCKED).is_some());
        // Inside the transaction, so that nobody takes the lease between this look and the commit.
        self.look_at_lease();
        if self.lost.is_cancelled() {
            self.sql.execute_batch("ROLLBACK")?;
            return Err(self.loss());
        }
        Ok(())
    }

    /// Whether another process has taken the lease. One that cannot be read is still our own.
    fn look_at_lease(&self) {
        if !self.lost.is_cancelled() && self.lease.is_some_and(|own| lease(&self.sql).is_ok_and(|now| now != own)) {
            self.lose(Loss::Taken);
        }
    }

    /// Whether the store is not this process's any more. What was lost once stays lost: somebody else may have written
    /// meanwhile.
    fn is_lost(&self) -> bool {
        if !self.lost.is_cancelled() && self.held.is_lost() {
            self.lose(Loss::Away);
        }
        self.lost.is_cancelled()
    }

    fn lose(&self, loss: Loss) {
        // The first loss is the one that is told.
        let loss = *self.loss.get_or_init(|| loss);
        let told = lost(&self.path, loss);
        tracing::error!(error = %told, "the store was lost");
        self.trouble.send_replace(Some(told.message().to_owned()));
        self.lost.cancel();
    }

    fn loss(&self) -> Fault {
        Fault::Lost(self.loss.get().copied().unwrap_or(Loss::Away))
    }

    /// Runs the jobs in the open transaction and commits, or keeps nothing.
    fn commit(&self, jobs: &mut [Box<dyn Job>]) -> Result<Done, Fault> {
        let done = self.run(jobs).and_then(|done| {
            self.sql.execute_batch("COMMIT")?;
            // Looked at afterwards as well: what went into a file without a name is not kept.
            if self.is_lost() { Err(self.loss()) } else { Ok(done) }
        });
        if done.is_err() && !self.sql.is_autocommit() {
            self.sql.execute_batch("ROLLBACK")?;
        }
        done
    }

    fn run(&self, jobs: &mut [Box<dyn Job>]) -> Result<Done, Fault> {
        let wake = Cell::new(false);
        let writing = Writing { sql: &self.sql, at: self.env.now_ms(), wake: &wake, mask: &self.mask };
        let mut fates = Vec::with_capacity(jobs.len());
        for job in jobs {
            self.sql.execute_batch("SAVEPOINT job")?;
            // A defect in one job must not take the store away from all others.
            let ran = catch_unwind(AssertUnwindSafe(|| job.run(&writing)))
                .unwrap_or_else(|_| Err(Error::new(Code::Internal, "A write failed by a defect of Coppice.").into()));
            match ran {
                Ok(()) => fates.push(Ok(())),
                // SQLite gave the whole transaction up, as it may when the disk is full.
                Err(fault) if self.sql.is_autocommit() => return Err(fault),
                Err(fault) => {
                    self.sql.execute_batch("ROLLBACK TO job")?;
                    fates.push(Err(fault.told(&self.path)));
                }
            }
            self.sql.execute_batch("RELEASE job")?;
        }
        Ok(Done { fates, seq: last_seq(&self.sql)?, wake: wake.get() })
    }

    fn wal_size(&self) -> u64 {
        std::fs::metadata(wal(&self.path)).map_or(0, |metadata| metadata.len())
    }

    /// Lets the readers finish and keeps new ones waiting meanwhile: as long as they overlap, the log only grows.
    fn fold_wal_alone(&self) {
        let _alone = self.gate.write().unwrap_or_else(PoisonError::into_inner);
        self.fold_wal();
    }

    /// Folds the write-ahead log into the store and cuts it to nothing. Foreign readers may be in the way; then what
    /// was committed stays where it is, safe, until the next time.
    fn fold_wal(&self) {
        let fold = || -> rusqlite::Result<bool> {
            self.sql.busy_timeout(FOLD_WAIT)?;
            let busy = self.sql.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0));
            self.sql.busy_timeout(BUSY)?;
            busy
        };
        match fold() {
            Ok(false) => {}
            Ok(true) => tracing::debug!("a reader kept the write-ahead log from being folded back"),
            Err(error) => tracing::warn!(%error, "the write-ahead log could not be folded back"),
        }
    }
}

fn locked(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

#[cfg(test)]
mod tests {
    use crate::env::Env;
    use crate::error::{Code, Error};
    use crate::event::{Event, Mode, Party};
    use crate::id::SessionId;
    use crate::log::Log;

    fn opened() -> Event {
        Event::SessionOpened {
            parent: None,
            root: SessionId::from("s"),
            depth: 0,
            title: "t".to_owned(),
            label: None,
            provider: None,
            model: "m".to_owned(),
            mode: Mode::Ask,
            cwd: "/".to_owned(),
        }
    }

    fn message(text: String) -> Event {
        Event::MessageAccepted { from: Party::Person, text, task: None }
    }

    /// Bounds the store's size from here on, as a full disk does.
    async fn bound(log: &Log, more_pages: Option<i64>) {
        log.submit(move |writing| {
            let pages: i64 = writing.sql.pragma_query_value(None, "page_count", |row| row.get(0))?;
            let most = more_pages.map_or(1 << 30, |more| pages + more);
            writing.sql.pragma_update_and_check(None, "max_page_count", most, |_| Ok(()))?;
            Ok(())
        })
        .await
        .unwrap();
    }

    #[tokio::test]
    async fn a_full_disk_refuses_what_does_not_fit_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let log = Log::open(dir.path(), &Env::system()).unwrap();
        let s = SessionId::from("s");
        log.append(&s, vec![opened(), message("before".to_owned())]).await.unwrap();
        bound(&log, Some(10)).await;

        let large = || log.append(&s, vec![message("x".repeat(1 << 20))]);
        let small = |n: i64| log.append(&s, vec![message(format!("small {n}"))]);
        let told = large().await.unwrap_err();
        assert_eq!(
            (told.code(), told.message()),
            (Code::Store, "The disk is full. Free some space and try again; nothing of what was saved before is lost.")
        );
        // In one commit with others, it takes none of them with it.
        let (a, b, c, d, e) = tokio::join!(small(1), large(), small(2), large(), small(3));
        assert_eq!([&b, &d].map(|fate| fate.as_ref().map_err(Error::code)), [Err(Code::Store), Err(Code::Store)]);
        assert_eq!([a, c, e].map(|fate| fate.unwrap()[0].n), [3, 4, 5]);

        bound(&log, None).await;
        assert_eq!(large().await.unwrap()[0].n, 6);
        log.close().await.unwrap();
        let log = Log::open(dir.path(), &Env::system()).unwrap();
        assert_eq!(log.events(&s, 0, 100).await.unwrap().len(), 6);
        assert_eq!(log.session(&s).await.unwrap().last_n, 6);
    }

    #[tokio::test]
    async fn a_defect_in_one_write_does_not_end_the_writer() {
        let dir = tempfile::tempdir().unwrap();
        let log = Log::open(dir.path(), &Env::system()).unwrap();
        let s = SessionId::from("s");
        log.append(&s, vec![opened()]).await.unwrap();
        let broken = log.submit::<(), _>(|writing| {
            writing.sql.execute("DELETE FROM session", [])?;
            panic!("a defect")
        });
        let (broken, written) = tokio::join!(broken, log.append(&s, vec![message("after".to_owned())]));
        assert_eq!(broken.unwrap_err().code(), Code::Internal);
        assert_eq!(written.unwrap()[0].n, 2);
    }
}
