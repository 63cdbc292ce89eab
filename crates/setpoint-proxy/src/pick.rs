//! Which endpoint of a group gets a request: the less loaded of two that chance names.
//!
//! Two choices keep the load even without anybody knowing the whole group, and cost the same for three endpoints as for ten
//! thousand. Randomness is an argument.

/// What is known of an endpoint at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndpointLoad {
    pub in_flight: u32,
    /// Neither ejected nor already tried for this request.
    pub is_usable: bool,
}

/// How often two endpoints are drawn before all are looked at in turn.
const DRAWS: u32 = 4;

/// The endpoint for a request, by its place; none if no endpoint is usable.
pub fn pick(count: usize, random: u64, load: impl Fn(usize) -> EndpointLoad) -> Option<usize> {
    if count <= 1 {
        return (0..count).find(|index| load(*index).is_usable);
    }
    let mut random = random;
    for _ in 0..DRAWS {
        random = mix(random);
        let first = below(random as u32, count);
        // The second is another one: it is drawn from those that are left.
        let second = (first + 1 + below((random >> 32) as u32, count - 1)) % count;
        let (a, b) = (load(first), load(second));
        match (a.is_usable, b.is_usable) {
            (true, true) => return Some(if b.in_flight < a.in_flight { second } else { first }),
            (true, false) => return Some(first),
            (false, true) => return Some(second),
            (false, false) => {}
        }
    }
    let start = below(mix(random) as u32, count);
    (0..count).map(|step| (start + step) % count).find(|index| load(*index).is_usable)
}

/// The endpoint of a client that has none yet: the same in every proxy, and for most clients the same when endpoints come and go.
pub fn pick_for_client(
    client: u64,
    count: usize,
    key: impl Fn(usize) -> u64,
    is_usable: impl Fn(usize) -> bool,
) -> Option<usize> {
    (0..count).filter(|index| is_usable(*index)).max_by_key(|index| mix(client ^ mix(key(*index))))
}

/// A number below `count`, from 32 random bits.
fn below(bits: u32, count: usize) -> usize {
    ((u64::from(bits) * count as u64) >> 32) as usize
}

/// Spreads the bits of a number over all of it (the finalizer of SplitMix64).
pub(crate) fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FREE: EndpointLoad = EndpointLoad { in_flight: 0, is_usable: true };
    const OUT: EndpointLoad = EndpointLoad { in_flight: 0, is_usable: false };

    #[test]
    fn an_endpoint_is_picked_where_there_is_one() {
        let rows: [(&str, Vec<EndpointLoad>, Option<usize>); 5] = [
            ("none", vec![], None),
            ("one", vec![FREE], Some(0)),
            ("one that is out", vec![OUT], None),
            ("all are out", vec![OUT; 9], None),
            ("the less loaded of two", vec![EndpointLoad { in_flight: 9, is_usable: true }, FREE], Some(1)),
        ];
        for (what, loads, expected) in rows {
            assert_eq!(pick(loads.len(), 42, |index| loads[index]), expected, "{what}");
        }
    }

    #[test]
    fn requests_are_spread_evenly() {
        let mut load = vec![0_u32; 10];
        for number in 0..10_000 {
            let picked = pick(10, number, |index| EndpointLoad { in_flight: load[index], is_usable: true });
            load[picked.expect("all are usable")] += 1;
        }
        assert!(load.iter().all(|count| (990..=1_010).contains(count)), "{load:?}");
    }

    #[test]
    fn a_client_moves_only_when_its_endpoint_goes() {
        let clients: Vec<u64> = (0..1_000).map(mix).collect();
        let of = |client: u64, gone: Option<usize>| {
            pick_for_client(client, 10, |index| index as u64, |index| Some(index) != gone).expect("nine are left")
        };
        for client in clients {
            let before = of(client, None);
            let after = of(client, Some(3));
            assert!(before == after || before == 3);
        }
    }

    proptest! {
        #[test]
        fn a_usable_endpoint_is_found_if_there_is_one(usable in proptest::collection::vec(any::<bool>(), 0..40), random: u64) {
            let picked = pick(usable.len(), random, |index| EndpointLoad { in_flight: 0, is_usable: usable[index] });
            prop_assert_eq!(picked.is_some(), usable.contains(&true));
            prop_assert!(picked.is_none_or(|index| usable[index]));
        }
    }
}
