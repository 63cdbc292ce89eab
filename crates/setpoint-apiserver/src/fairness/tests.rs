//! Seats among tasks: nobody is forgotten, whatever ends first.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::*;

fn fairness(pieces: usize, queued: usize) -> Fairness {
    Fairness::new(Limits { pieces, queued, writes: 1, ..Limits::default() })
}

fn standing(seated: usize, queued: usize) -> Standing {
    Standing { seated, queued }
}

fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test]
async fn a_seat_goes_round_between_users() {
    let fairness = fairness(1, 10);
    let first = fairness.seat("hog", Work::Piece).await.expect("it is free");
    let (mut second, mut third) = (pin!(fairness.seat("hog", Work::Piece)), pin!(fairness.seat("hog", Work::Piece)));
    let mut other = pin!(fairness.seat("other", Work::Piece));
    assert!(poll(second.as_mut()).is_pending() && poll(third.as_mut()).is_pending());
    assert!(poll(other.as_mut()).is_pending());
    assert!(poll(pin!(fairness.seat("hog", Work::Write)).as_mut()).is_ready(), "writes have seats of their own");
    drop(first);
    let Poll::Ready(Ok(seat)) = poll(second.as_mut()) else { panic!("who came first is first") };
    drop(seat);
    assert!(poll(third.as_mut()).is_pending());
    let Poll::Ready(Ok(seat)) = poll(other.as_mut()) else { panic!("then it is somebody else's turn") };
    drop(seat);
    assert!(poll(third.as_mut()).is_ready());
    assert_eq!(fairness.standing(Work::Piece), standing(0, 0));
}

#[tokio::test]
async fn in_company_one_user_cannot_have_all_seats() {
    let fairness = fairness(3, 10);
    drop(fairness.seat("other", Work::Piece).await);
    let held = [fairness.seat("hog", Work::Piece).await, fairness.seat("hog", Work::Piece).await];
    let mut third = pin!(fairness.seat("hog", Work::Piece));
    assert!(poll(third.as_mut()).is_pending(), "one is left for somebody else");
    let Poll::Ready(Ok(seat)) = poll(pin!(fairness.seat("other", Work::Piece)).as_mut()) else { panic!("it is free") };
    drop(seat);
    assert!(poll(third.as_mut()).is_pending(), "and again");
    drop(held);
    assert!(poll(third.as_mut()).is_ready());
}

#[tokio::test]
async fn whoever_goes_away_leaves_no_trace() {
    let fairness = fairness(1, 10);
    let seat = fairness.seat("a", Work::Piece).await.expect("it is free");
    {
        let mut waits = pin!(fairness.seat("b", Work::Piece));
        assert!(poll(waits.as_mut()).is_pending());
        assert_eq!(fairness.standing(Work::Piece), standing(1, 1));
    }
    assert_eq!(fairness.standing(Work::Piece), standing(1, 0), "one who gave up waiting");
    {
        let mut given = pin!(fairness.seat("b", Work::Piece));
        assert!(poll(given.as_mut()).is_pending());
        drop(seat);
        assert_eq!(fairness.standing(Work::Piece), standing(1, 0), "the seat is on its way");
    }
    assert_eq!(fairness.standing(Work::Piece), standing(0, 0), "one who left before the seat arrived");
    let panicked = tokio::spawn({
        let fairness = fairness.clone();
        async move {
            let _seat = fairness.seat("a", Work::Piece).await;
            panic!("in a seat");
        }
    });
    assert!(panicked.await.is_err());
    assert_eq!(fairness.standing(Work::Piece), standing(0, 0), "one who panicked");
}

#[tokio::test]
async fn a_queue_is_bounded_in_length_and_time() {
    let patience = Duration::from_millis(50);
    let fairness = Fairness::new(Limits { pieces: 1, queued: 1, patience, ..Limits::default() });
    let _seat = fairness.seat("a", Work::Piece).await.expect("it is free");
    let started = std::time::Instant::now();
    let mut waits = pin!(fairness.seat("a", Work::Piece));
    assert!(poll(waits.as_mut()).is_pending());
    assert_eq!(fairness.seat("a", Work::Piece).await.expect_err("the queue is full"), TooMany);
    assert_eq!(waits.await.expect_err("nobody leaves"), TooMany);
    assert!(started.elapsed() >= patience, "{:?}", started.elapsed());
    assert_eq!((fairness.refusals(), fairness.standing(Work::Piece)), (2, standing(1, 0)));
}

#[tokio::test]
async fn a_piece_is_worked_on_until_its_task_is_suspended() {
    let fairness = fairness(1, 1);
    let pace = fairness.pace("a");
    drop(pace.turn().await);
    assert_eq!(fairness.standing(Work::Piece).seated, 1, "it is being sent");
    tokio::task::yield_now().await;
    assert_eq!(fairness.standing(Work::Piece).seated, 0);
}

#[tokio::test]
async fn work_that_waits_has_no_seat() {
    let fairness = fairness(1, 1);
    let seat = fairness.seat("a", Work::Piece).await.expect("it is free");
    let mut work = pin!(until_it_waits(seat, async {
        let seated = fairness.standing(Work::Piece).seated;
        tokio::task::yield_now().await;
        (seated, fairness.standing(Work::Piece).seated)
    }));
    assert!(poll(work.as_mut()).is_pending());
    assert_eq!(work.await, (1, 0));
}

#[tokio::test]
async fn a_place_is_passed_on_between_pieces_of_work() {
    let fairness = fairness(1, 10);
    let mut place = fairness.place("hog").await.expect("it is free");
    place.pass().await;
    assert_eq!(fairness.standing(Work::Piece), standing(1, 0), "nobody else wants it");
    let mut other = pin!(fairness.seat("other", Work::Piece));
    assert!(poll(other.as_mut()).is_pending());
    let mut pass = pin!(place.pass());
    assert!(poll(pass.as_mut()).is_pending());
    let seat = tokio::time::timeout(Duration::from_secs(20), other).await.expect("the place was passed on");
    assert!(poll(pass.as_mut()).is_pending(), "until it is left");
    drop(seat);
    tokio::time::timeout(Duration::from_secs(20), pass).await.expect("it comes back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_tasks_share_few_seats_and_all_are_served() {
    const SEATS: usize = 3;
    let fairness = fairness(SEATS, usize::MAX);
    let inside = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = (0..64)
        .map(|number| {
            let (fairness, inside) = (fairness.clone(), inside.clone());
            tokio::spawn(async move {
                for turn in 0..200 {
                    let user = format!("user-{}", number % 7);
                    if (turn + number) % 5 == 0 {
                        // Comes and goes without waiting.
                        let _ = poll(pin!(fairness.seat(&user, Work::Piece)).as_mut());
                        continue;
                    }
                    let seat = fairness.seat(&user, Work::Piece).await.expect("the queue has no bound");
                    assert!(inside.fetch_add(1, Ordering::SeqCst) < SEATS as u64);
                    tokio::task::yield_now().await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    drop(seat);
                }
            })
        })
        .collect();
    let all = futures::future::join_all(tasks);
    let ended = tokio::time::timeout(Duration::from_secs(30), all).await.expect("no wake-up is lost");
    assert!(ended.iter().all(Result::is_ok));
    assert_eq!(fairness.standing(Work::Piece), standing(0, 0));
}

#[tokio::test]
async fn a_free_seat_costs_little() {
    const ROUNDS: u32 = 100_000;
    let fairness = fairness(4, 10);
    let started = std::time::Instant::now();
    for _ in 0..ROUNDS {
        drop(fairness.seat("a", Work::Piece).await);
    }
    let each = started.elapsed() / ROUNDS;
    println!("a free seat: {each:?}");
    assert!(each < Duration::from_micros(20), "{each:?} even without optimisation and beside other tests");
}
