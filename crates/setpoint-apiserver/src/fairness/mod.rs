//! One client in a loop does not starve the others.
//!
//! Work is done in a seat, and seats go round between users ([`lane`]). There are few seats at the processor: they keep it
//! busy, and more would only move the queue to where nobody looks after it. A write has one of them until it waits for the
//! disk, where many writes share one commit; so there are many seats for writes under way.
//!
//! A seat is held for as long as something is worked on, never while a client is awaited: not while a body arrives, and
//! for a long answer only while a piece of it is made and written ([`Pace`]). So neither a slow client nor one that does
//! not read what it asked for takes a seat from anybody. What such clients do take, memory, is counted ([`account`]).
//!
//! A user is who authenticated, whoever they act as. Health has no lane: it always answers.

mod account;
mod lane;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

pub use account::{Allowance, Holding};

use account::Accounts;
use lane::{Lane, Ticket};

/// How much is done and held at once.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Pieces of work at the processor.
    pub pieces: usize,
    /// Writes under way.
    pub writes: usize,
    /// Requests of one user that wait for a seat, in each lane.
    pub queued: usize,
    /// How long a request waits for a seat.
    pub patience: Duration,
    pub watches: Allowance,
    pub lists: Allowance,
    pub body_bytes: Allowance,
    pub streams: Allowance,
}

impl Default for Limits {
    fn default() -> Limits {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Limits {
            pieces: cores.max(2),
            writes: 128,
            queued: 500,
            patience: Duration::from_secs(15),
            watches: Allowance { each: 2_000, all: 20_000 },
            lists: Allowance { each: 500, all: 2_000 },
            body_bytes: Allowance { each: 128 << 20, all: 512 << 20 },
            streams: Allowance { each: 500, all: 2_000 },
        }
    }
}

/// What there are seats for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// A piece of work at the processor.
    Piece,
    /// A write under way, which mostly waits.
    Write,
}

/// The user has more waiting, or holds more, than it may; or waited in vain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many requests")]
pub struct TooMany;

/// Who is served, who waits and who holds what. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Fairness(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    lanes: [Mutex<Lane<oneshot::Sender<Seat>>>; 2],
    accounts: Mutex<Accounts>,
    refused: AtomicU64,
    queued: usize,
    patience: Duration,
}

/// How things stand in a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    pub seated: usize,
    pub queued: usize,
}

impl Fairness {
    pub fn new(limits: Limits) -> Fairness {
        let Limits { pieces, writes, queued, patience, watches, lists, body_bytes, streams } = limits;
        Fairness(Arc::new(Shared {
            lanes: [pieces, writes].map(|seats| Mutex::new(Lane::new(seats))),
            accounts: Mutex::new(Accounts::new([watches, lists, body_bytes, streams])),
            refused: AtomicU64::new(0),
            queued,
            patience,
        }))
    }

    /// A seat for a request, once it is the user's turn.
    pub async fn seat(&self, user: &str, work: Work) -> Result<Seat, TooMany> {
        let seated = tokio::time::timeout(self.0.patience, self.wait(user, work, self.0.queued)).await;
        seated.ok().flatten().ok_or_else(|| self.refused())
    }

    /// A seat for a request that reads much.
    pub async fn place(&self, user: &str) -> Result<Place, TooMany> {
        let seat = self.seat(user, Work::Piece).await?;
        Ok(Place { pace: self.pace(user), turn: Some(Turn(Some(seat))) })
    }

    /// Counts something as held by a user for as long as what this returns lives: nothing, if it is none.
    pub fn hold(&self, user: &str, what: Holding, amount: usize) -> Result<Option<Held>, TooMany> {
        let Some(amount) = NonZeroUsize::new(amount) else { return Ok(None) };
        let user = self.0.accounts.lock().take(user, what, amount).ok_or_else(|| self.refused())?;
        Ok(Some(Held { shared: self.0.clone(), user, what, amount }))
    }

    /// What paces a long answer to a user.
    pub fn pace(&self, user: &str) -> Pace {
        Pace { fairness: self.clone(), user: user.into() }
    }

    pub fn standing(&self, work: Work) -> Standing {
        let lane = self.0.lanes[work as usize].lock();
        Standing { seated: lane.taken(), queued: lane.queued() }
    }

    /// How many requests were refused so far.
    pub fn refusals(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }

    fn refused(&self) -> TooMany {
        self.0.refused.fetch_add(1, Ordering::Relaxed);
        TooMany
    }

    async fn wait(&self, user: &str, work: Work, limit: usize) -> Option<Seat> {
        let (_waiting, given) = {
            let mut lane = self.0.lanes[work as usize].lock();
            if let Some(user) = lane.sit(user, Instant::now()) {
                return Some(Seat::new(&self.0, work, user));
            }
            let (give, given) = oneshot::channel();
            let ticket = lane.wait(user, give, limit)?;
            (Waiting { shared: &self.0, work, user, ticket }, given)
        };
        Some(given.await.expect("who waits is given a seat or gives up"))
    }
}

/// Somebody in a queue, who is taken out of it when they go away with a seat or without.
struct Waiting<'a> {
    shared: &'a Shared,
    work: Work,
    user: &'a str,
    ticket: Ticket,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.shared.lanes[self.work as usize].lock().give_up(self.user, self.ticket);
    }
}

/// The right to work, for as long as it lives. A seat that was given to somebody who has just gone away is dropped with
/// their end of the channel, and goes on to the next.
#[derive(Debug)]
pub struct Seat {
    /// `None` once it was left.
    shared: Option<Arc<Shared>>,
    work: Work,
    user: Arc<str>,
}

impl Seat {
    fn new(shared: &Arc<Shared>, work: Work, user: Arc<str>) -> Seat {
        Seat { shared: Some(shared.clone()), work, user }
    }

    /// Keeps the seat until the task at hand is suspended, so that what it does on its way there, such as encrypting and
    /// sending what was made, counts as work too.
    pub fn leave_later(self) {
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(async move { drop(self) })),
            Err(_) => drop(self),
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let Some(shared) = self.shared.take() else { return };
        let lane = &shared.lanes[self.work as usize];
        lane.lock().leave(&self.user);
        // More than one may be given: somebody who was alone again may have those that were kept free.
        loop {
            let Some((user, next)) = lane.lock().next(Instant::now()) else { return };
            if let Err(mut seat) = next.send(Seat::new(&shared, self.work, user)) {
                // They went away while it was handed over; and a loop, unlike a drop within a drop, has no depth.
                seat.shared = None;
                lane.lock().leave(&seat.user);
            }
        }
    }
}

/// Something counted as held until it is dropped.
#[derive(Debug)]
pub struct Held {
    shared: Arc<Shared>,
    user: Arc<str>,
    what: Holding,
    amount: NonZeroUsize,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.shared.accounts.lock().give_back(&self.user, self.what, self.amount);
    }
}

/// Gives a long answer its turn for each of its pieces.
#[derive(Debug, Clone)]
pub struct Pace {
    fairness: Fairness,
    user: Arc<str>,
}

impl Pace {
    /// Waits for the turn to make the next piece; what is dropped with it is the turn.
    pub async fn turn(&self) -> Turn {
        let seat = self.fairness.wait(&self.user, Work::Piece, usize::MAX).await;
        Turn(seat)
    }

    /// Waits for the turn to do much work in pieces.
    pub async fn place(&self) -> Place {
        Place { turn: Some(self.turn().await), pace: self.clone() }
    }
}

/// A seat for much work, which is passed on between two pieces of it.
#[derive(Debug)]
pub struct Place {
    pace: Pace,
    /// `None` only while the next turn is awaited.
    turn: Option<Turn>,
}

impl Place {
    /// Lets others go first, if somebody waits.
    pub async fn pass(&mut self) {
        if self.pace.fairness.standing(Work::Piece).queued > 0 {
            self.turn = None;
            self.turn = Some(self.pace.turn().await);
        }
        // Those who have a seat want the thread too.
        tokio::task::yield_now().await;
    }
}

/// Does work in a seat until the work first has to wait for something.
pub async fn until_it_waits<F: Future>(seat: Seat, work: F) -> F::Output {
    let (mut seat, mut work) = (Some(seat), std::pin::pin!(work));
    std::future::poll_fn(|context| {
        let polled = work.as_mut().poll(context);
        seat = None;
        polled
    })
    .await
}

/// The right to make one piece of an answer, and to send it.
#[derive(Debug)]
pub struct Turn(Option<Seat>);

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(seat) = self.0.take() {
            seat.leave_later();
        }
    }
}

#[cfg(test)]
mod tests;
