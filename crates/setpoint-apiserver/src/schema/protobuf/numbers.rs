//! Which field of a type has which number.

use std::collections::HashMap;
use std::sync::LazyLock;

/// What stands under a number of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Member<'t> {
    /// The field of this name.
    Field(&'t str),
    /// A message of this type, whose fields are the object's own in JSON.
    Inlined(&'t str),
}

/// The members of all types, by the types' names.
#[derive(Debug)]
pub(super) struct Numbers<'t> {
    types: HashMap<&'t str, Box<[(u64, Member<'t>)]>>,
}

/// Parsed when the first protobuf body comes: most servers never see one.
static BUILT_IN: LazyLock<Numbers<'static>> = LazyLock::new(|| Numbers::parse(include_str!("field_numbers.txt")));

impl<'t> Numbers<'t> {
    pub(super) fn built_in() -> &'static Numbers<'static> {
        &BUILT_IN
    }

    /// Reads a table of lines such as `core.v1.Volume: name=1 ~core.v1.VolumeSource=2`.
    pub(super) fn parse(table: &'t str) -> Numbers<'t> {
        let lines = table.lines().filter(|line| !line.starts_with('#'));
        let types = lines.map(|line| {
            let (type_name, members) = line.split_once(':').expect("a line of the table starts with a type");
            (type_name, members.split_whitespace().map(member).collect())
        });
        Numbers { types: types.collect() }
    }

    /// The members of a type, in the order of their numbers.
    pub(super) fn members(&self, type_name: &str) -> Option<&[(u64, Member<'t>)]> {
        self.types.get(type_name).map(|members| &**members)
    }

    #[cfg(test)]
    pub(super) fn type_names(&self) -> impl Iterator<Item = &'t str> {
        self.types.keys().copied()
    }
}

fn member(text: &str) -> (u64, Member<'_>) {
    let (name, number) = text.split_once('=').expect("a field of the table has a number");
    let number = number.parse().expect("a field's number in the table is a number");
    (number, name.strip_prefix('~').map_or(Member::Field(name), Member::Inlined))
}
