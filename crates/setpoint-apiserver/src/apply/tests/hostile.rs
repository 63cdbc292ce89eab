//! Configurations and records that are made to be expensive.

use super::*;
use crate::apply::{applied_fields, compare};
use crate::proportion::assert_in_proportion;
use crate::schema::Type;

/// What it is, a pair of values of some length, and what is done with them.
type Row = (&'static str, fn(usize) -> [Value; 2], fn(&Value, &Value));

#[test]
fn work_grows_with_what_is_sent_and_not_faster() {
    let rows: [Row; 7] = [
        (
            "elements in the wrong order",
            |count| [finalizers((0..count).rev()), finalizers((0..count).rev())],
            |config, _| drop(applied_fields(config, schema("core.v1.Pod").root()).expect("good")),
        ),
        (
            "a record in the wrong order",
            |count| {
                let record: Value = (0..count).map(|index| (format!("v:{index}"), json!({}))).collect();
                [record, Value::Null]
            },
            |record, _| drop(set(record.clone())),
        ),
        (
            "entries that come and go in turns",
            |count| {
                [0, 1].map(|remainder| {
                    let entries = (0..count).filter(|index| index % 2 == remainder || index % 3 == 0);
                    entries.map(|index| (index.to_string(), json!({"a": remainder}))).collect()
                })
            },
            |old, new| drop(compare(old, new, Type::ANY)),
        ),
        (
            "a list turned round",
            |count| [finalizers((0..count).rev()), finalizers(0..count)],
            |backwards, forwards| {
                World::new("core.v1.Pod").apply("one", backwards.clone()).apply("one", forwards.clone());
            },
        ),
        (
            "records that differ in one of many appliers",
            |count| {
                [record(count, "Apply", |index| index), record(count, "Apply", |index| index + index / (count - 1))]
            },
            |old, new| assert!(!managers(old).equals_but_for_time(&managers(new))),
        ),
        (
            "records of the same appliers in another order",
            |count| [record(count, "Apply", |index| index), record(count, "Apply", |index| count - 1 - index)],
            |old, new| assert!(managers(old).equals_but_for_time(&managers(new))),
        ),
        (
            "many updaters, of versions in turns",
            |count| [record(count, "Update", |index| index), Value::Null],
            |record, _| {
                let mut managers = managers(record);
                managers.merge_ancient();
                assert_eq!(managers.0.len(), 10);
            },
        ),
    ];
    for (row, values, work) in rows {
        assert_in_proportion(row, values, work);
    }
}

fn finalizers(numbers: impl Iterator<Item = usize>) -> Value {
    json!({"metadata": {"finalizers": numbers.map(|number| format!("a/{number}")).collect::<Vec<_>>()}})
}

/// A record with the entries of some numbers, each of a field of its own.
fn record(count: usize, operation: &str, number: impl Fn(usize) -> usize) -> Value {
    let entry = |number: usize| {
        let fields = json!({"f:data": {format!("f:k{number}"): {}}});
        json!({"manager": format!("m{number}"), "operation": operation, "apiVersion": format!("v{}", number % 3),
            "fieldsType": "FieldsV1", "fieldsV1": fields, "time": "2030-01-01T00:00:00Z"})
    };
    (0..count).map(|index| entry(number(index))).collect()
}

fn managers(record: &Value) -> Managers {
    Managers::from_client(record).expect("a record")
}
