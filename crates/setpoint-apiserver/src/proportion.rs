//! Whether work grows with what it is done on and not faster, for tests of what clients can make long.
//!
//! Times are compared with each other and not with a limit, so that a busy machine does not make a test fail.

use std::time::{Duration, Instant};

use serde_json::Value;

/// Checks that what is done with an object grows as reading and copying it does. What looks otherwise is looked at again
/// in large, where a product of two lengths would drown everything else.
pub(crate) fn assert_in_proportion(what: &str, objects: impl Fn(usize) -> [Value; 2], run: impl Fn(&Value, &Value)) {
    if out_of_proportion(400, 1.8, &objects, &run).is_some()
        && let Some((read, done)) = out_of_proportion(6_000, 2.5, &objects, &run)
    {
        panic!("{what}: 6000 elements and eight times as many take {done:?}, but to be read only {read:?}");
    }
}

/// The times it takes to read some elements and eight times as many, and the times it takes to do something with them, if
/// those grow faster by more than a factor. Times are disturbed by what else runs, so the best of some tries count.
fn out_of_proportion(
    count: usize,
    factor: f64,
    objects: impl Fn(usize) -> [Value; 2],
    run: impl Fn(&Value, &Value),
) -> Option<([Duration; 2], [Duration; 2])> {
    let inputs = [objects(count), objects(8 * count)];
    let (mut read, mut done) = ([Duration::MAX; 2], [Duration::MAX; 2]);
    for _ in 0..4 {
        for (size, [first, second]) in inputs.iter().enumerate() {
            read[size] = read[size].min(timed(|| {
                for object in [first, second] {
                    let copy: Value = serde_json::from_str(&object.to_string()).expect("JSON");
                    drop(copy.clone());
                }
            }));
            done[size] = done[size].min(timed(|| run(first, second)));
        }
        let growth = |times: [Duration; 2]| times[1].as_secs_f64() / times[0].as_secs_f64();
        if growth(done) < factor * growth(read) {
            return None;
        }
    }
    Some((read, done))
}

fn timed(run: impl FnOnce()) -> Duration {
    let start = Instant::now();
    run();
    start.elapsed()
}

#[test]
fn a_product_of_lengths_is_noticed() {
    let objects = |count: usize| {
        let names: Value = (0..count).map(|n| format!("e{n}")).collect();
        [names.clone(), names]
    };
    let product = |first: &Value, second: &Value| {
        let (first, second) = (first.as_array().expect("a list"), second.as_array().expect("a list"));
        assert!(first.iter().all(|name| second.contains(name)));
    };
    assert!(out_of_proportion(400, 2.5, objects, product).is_some());
}
