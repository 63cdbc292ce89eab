//! Configurations and records that are made to be expensive.

use std::time::{Duration, Instant};

use super::*;
use crate::apply::{applied_fields, compare};

/// As many elements as a body has room for, roughly.
const MANY: usize = 200_000;
/// Much more than any of it takes, and much less than what grows with the square.
const PATIENCE: Duration = Duration::from_secs(5);

type Row<'r> = (&'static str, Box<dyn Fn() + 'r>);

#[test]
fn work_grows_with_what_is_sent_and_not_faster() {
    let object_type = schema("core.v1.Pod");
    let object_type = object_type.root();
    let backwards: Vec<String> = (0..MANY).rev().map(|index| format!("a/{index}")).collect();
    let finalizers = json!({"metadata": {"finalizers": backwards}});
    let record: Value =
        (0..MANY).map(|index| (format!("v:{index}"), json!({}))).collect::<serde_json::Map<_, _>>().into();
    let nested = |remainder: usize| -> Value {
        let entries = (0..MANY / 2).filter(|index| index % 2 == remainder || index % 3 == 0);
        entries.map(|index| (index.to_string(), json!({"a": remainder}))).collect::<serde_json::Map<_, _>>().into()
    };
    let rows: [Row<'_>; 4] = [
        ("elements in the wrong order", Box::new(|| drop(applied_fields(&finalizers, object_type).expect("good")))),
        ("a record in the wrong order", Box::new(|| drop(set(record.clone())))),
        (
            "entries that come and go in turns",
            Box::new(|| drop(compare(&nested(0), &nested(1), crate::schema::Type::ANY))),
        ),
        (
            "a list turned round",
            Box::new(|| {
                let mut world = World::new("core.v1.Pod");
                let forwards: Vec<&String> = backwards.iter().rev().collect();
                world.apply("one", finalizers.clone()).apply("one", json!({"metadata": {"finalizers": forwards}}));
            }),
        ),
    ];
    for (row, work) in rows {
        let start = Instant::now();
        work();
        assert!(start.elapsed() < PATIENCE, "{row} took {:?}", start.elapsed());
    }
}
