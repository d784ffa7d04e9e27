//! How fast a server may be asked. All sessions that use one model share this, so that a server that asks for a pause
//! gets one, and is not met by everybody on the same beat afterwards.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The shared pace of one model.
#[derive(Debug)]
pub struct Pace {
    gap: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    held_until: Option<Instant>,
    next: Option<Instant>,
}

impl Pace {
    /// After a pause, requests leave at least half of `gap` apart until one succeeds.
    pub fn new(gap: Duration) -> Self {
        Self { gap, state: Mutex::default() }
    }

    /// When a request may leave; nothing when it may leave now. Each call books a place of its own.
    pub fn place(&self) -> Option<Instant> {
        let mut state = self.lock();
        let held_until = state.held_until?;
        let now = Instant::now();
        let place = state.next.map_or(held_until, |next| next.max(held_until)).max(now);
        state.next = Some(place + self.gap.mul_f64(0.5 + chance()));
        (place > now).then_some(place)
    }

    /// Whether a pause was asked for that reaches past this moment.
    pub fn is_held(&self) -> bool {
        self.lock().held_until.is_some_and(|until| until > Instant::now())
    }

    /// The server asked for a pause: nobody asks it before `until`.
    pub fn hold(&self, until: Instant) {
        let mut state = self.lock();
        if state.held_until.is_none_or(|held| held < until) {
            state.held_until = Some(until);
        }
    }

    /// The server takes requests again.
    pub fn release(&self) {
        let mut state = self.lock();
        if state.held_until.is_some_and(|until| until <= Instant::now()) {
            *state = State::default();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The wait before try number `tries` + 1: doubling, capped, and not the same for everybody.
pub fn back_off(first: Duration, cap: Duration, tries: u32) -> Duration {
    let doubled = first.saturating_mul(1_u32.checked_shl(tries.saturating_sub(1)).unwrap_or(u32::MAX));
    doubled.min(cap).mul_f64(0.9 + 0.2 * chance())
}

/// A number from 0 to 1. The standard library's seeds for hash maps are random; no secret hangs on it.
fn chance() -> f64 {
    let random = RandomState::new().build_hasher().finish();
    f64::from(u32::try_from(random >> 32).unwrap_or(0)) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn nobody_asks_during_a_pause_and_not_all_at_once_after_it() {
        let gap = Duration::from_millis(200);
        let pace = Pace::new(gap);
        assert_eq!(pace.place(), None);
        let until = Instant::now() + Duration::from_secs(7);
        pace.hold(until);
        let places: Vec<Instant> = (0..8).map(|_| pace.place().unwrap()).collect();
        assert_eq!(places[0], until);
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= gap / 2), "{places:?}");
        tokio::time::advance(Duration::from_secs(60)).await;
        pace.release();
        assert_eq!(pace.place(), None);
    }

    #[test]
    fn the_wait_doubles_up_to_its_cap() {
        let wait = |tries| back_off(Duration::from_millis(500), Duration::from_secs(8), tries).as_secs_f64();
        for (tries, want) in [(1, 0.5), (2, 1.0), (3, 2.0), (5, 8.0), (40, 8.0)] {
            assert!((0.89 * want..=1.11 * want).contains(&wait(tries)), "{tries}: {}", wait(tries));
        }
    }
}
