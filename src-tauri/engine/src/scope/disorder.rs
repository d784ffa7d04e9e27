//! A seeded disorder: what may happen in any order happens in a random one, which its seed brings back. Only tests
//! live in one; outside it nothing here does anything.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

tokio::task_local! {
    /// What is spawned in a disorder is in it, too.
    static HERE: Disorder;
}

/// On a runtime of one thread, each poll of a future in it may come late by a random number of turns of the others,
/// blocking work is done in place and comes back late, and so do the answers of the store. So the others may do
/// anything between any two steps, and only the seed decides what.
#[derive(Clone, Debug)]
pub struct Disorder(Arc<AtomicU64>);

impl Disorder {
    /// The disorder of this seed.
    pub fn seeded(seed: u64) -> Self {
        Self(Arc::new(AtomicU64::new(seed)))
    }

    /// Runs `future` and all that it spawns in this disorder.
    pub async fn run<F: Future>(self, future: F) -> F::Output {
        let disorder = self.clone();
        let mut future = Box::pin(future);
        let mut late = None;
        let shaken = poll_fn(move |context| {
            let left = late.get_or_insert_with(|| disorder.turns());
            if *left > 0 {
                *left -= 1;
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            late = None;
            future.as_mut().poll(context)
        });
        HERE.scope(self, shaken).await
    }

    /// The disorder that the caller runs in.
    pub(super) fn here() -> Option<Self> {
        HERE.try_with(Clone::clone).ok()
    }

    /// Lets the others take a random number of turns.
    pub(super) async fn late(&self) {
        let mut left = self.turns();
        poll_fn(|context| {
            if left == 0 {
                return Poll::Ready(());
            }
            left -= 1;
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    /// Mostly none, often a few, seldom so many that the others come to their end meanwhile.
    fn turns(&self) -> u32 {
        let random = self.next();
        // Every second bit that is set doubles what is possible.
        let most = 1_u64 << random.trailing_ones().min(8);
        u32::try_from((random >> 32) % most).unwrap_or(0)
    }

    /// The next number of the generator splitmix64.
    fn next(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut z = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
