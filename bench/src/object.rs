//! The object that every load writes: a ConfigMap with 1 KB of data.

use std::sync::LazyLock;

use bytes::Bytes;
use rand::distr::{Alphanumeric, SampleString};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// How many bytes of data a ConfigMap holds.
const SIZE: usize = 1024;

/// Text that no compression makes much smaller; every object holds another part of it.
static TEXT: LazyLock<String> =
    LazyLock::new(|| Alphanumeric.sample_string(&mut SmallRng::seed_from_u64(1), SIZE * 1024));

pub(crate) fn name(sequence: u64) -> String {
    format!("bench-{sequence:08}")
}

/// The number in the name of the object of a watch event.
pub(crate) fn sequence(event: &[u8]) -> Option<usize> {
    const NAME: &[u8] = b"\"name\":\"bench-";
    let start = memchr::memmem::find(event, NAME)? + NAME.len();
    std::str::from_utf8(event.get(start..start + 8)?).ok()?.parse().ok()
}

/// The object's JSON; the same bytes are put into etcd.
pub(crate) fn config_map(name: &str) -> Bytes {
    let start = rand::rng().random_range(0..TEXT.len() - SIZE);
    let data = &TEXT[start..start + SIZE];
    format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}},"data":{{"text":"{data}"}}}}"#)
        .into()
}

/// The data of objects that stay the same.
pub(crate) fn fixed_text() -> &'static str {
    &TEXT[..SIZE]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_events_number_is_found() {
        let event = config_map(&name(4711));
        assert_eq!(sequence(&event), Some(4711));
        assert_eq!(sequence(b"{\"name\":\"other\"}"), None);
        assert_eq!(sequence(b"{\"name\":\"bench-12"), None);
    }
}
