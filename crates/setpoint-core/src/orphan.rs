//! Which guests carry our mark and belong to nothing.

use crate::observation::{Guest, Observation};
use crate::order::natural;

/// The orphans of a look, in the order of their ids. `is_known` says whether an object with this uid is there.
///
/// What was made for a Pod is left to the one who runs Pods: the intent of it is the Pod itself.
pub fn orphans<'o>(look: &'o Observation, cluster: &str, is_known: impl Fn(&str) -> bool) -> Vec<&'o Guest> {
    let is_orphan = |guest: &&Guest| {
        let ours = guest.mark.as_ref().filter(|mark| *mark.cluster == *cluster);
        ours.is_some_and(|mark| mark.intent.as_ref() != Some(&mark.owner_uid) && !is_known(&mark.owner_uid))
    };
    let mut orphans: Vec<&Guest> = look.guests.iter().filter(is_orphan).filter(|guest| !guest.is_template).collect();
    orphans.sort_by(|one, other| natural(&one.id, &other.id));
    orphans
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::observation::{Completeness, Mark};

    #[test]
    fn only_what_is_ours_and_nobodys_is_an_orphan() {
        let rows = [
            ("what carries no mark", None, false),
            ("what another control plane made", Some(("theirs", "gone", Some("i"))), false),
            ("what belongs to an object that is there", Some(("ours", "known", Some("i"))), false),
            ("what was made for a Pod", Some(("ours", "pod", Some("pod"))), false),
            ("what was made for an object that is gone", Some(("ours", "gone", Some("i"))), true),
            ("what was adopted for an object that is gone", Some(("ours", "gone", None)), true),
        ];
        for (name, mark, expected) in rows {
            let mark = mark.map(|(cluster, owner, intent)| Mark::new(cluster, owner, intent));
            let (guests, observed_at) = (vec![Guest::new("1", mark)], Timestamp::UNIX_EPOCH);
            let look = Observation { completeness: Completeness::Complete, guests, observed_at };
            assert_eq!(orphans(&look, "ours", |uid| uid == "known").len(), usize::from(expected), "{name}");
        }
    }
}
