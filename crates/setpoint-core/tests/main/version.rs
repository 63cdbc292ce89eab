//! The order of versions is total, whatever the texts.

use std::cmp::Ordering;

use proptest::prelude::*;
use setpoint_core::version::Version;

/// Texts that look like versions, nearly so, or not at all.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "v?[0-9]{1,3}(\\.[0-9]{1,2}){0,3}(-(alpha|beta|rc|[0-9]{1,2})(\\.[0-9]{1,2})?)?(\\+[a-z]{1,2})?",
        "[v0-9.+a-]{0,6}",
        "[0-9]{20,40}",
        any::<String>(),
    ]
}

proptest! {
    #[test]
    fn the_order_is_total(left in text(), middle in text(), right in text()) {
        let [a, b, c] = [&left, &middle, &right].map(|text| Version::new(text));
        prop_assert_eq!(a.cmp(&a), Ordering::Equal);
        prop_assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
        prop_assert_eq!(a.cmp(&b) == Ordering::Equal, a == b);
        if a <= b && b <= c {
            prop_assert!(a <= c);
        }
        if a == b {
            prop_assert_eq!(a.cmp(&c), b.cmp(&c));
        }
    }

    #[test]
    fn plain_numbers_are_ordered_as_numbers(left: u64, right: u64) {
        let (a, b) = (left.to_string(), right.to_string());
        prop_assert_eq!(Version::new(&a).cmp(&Version::new(&b)), left.cmp(&right));
    }

    #[test]
    fn a_release_is_higher_than_all_its_pre_releases(core in "[0-9]{1,3}(\\.[0-9]{1,3}){0,2}", stage in "[a-z0-9.-]{1,8}") {
        let early = format!("{core}-{stage}");
        prop_assert!(Version::new(&early) < Version::new(&core));
    }
}
