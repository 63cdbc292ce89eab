//! The capabilities that a container's processes keep of those that we have.

use k8s_openapi::api::core::v1::Capabilities;
use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set, remove_capability_from_bounding_set,
    set_capabilities, set_no_new_privs,
};

const ALL: &str = "ALL";

/// What a container keeps; `None` if it keeps all. An error is a name that is not known.
pub(super) fn kept(wanted: &Capabilities) -> Result<Option<CapabilitySet>, String> {
    let (add, add_all) = named(wanted.add.as_deref())?;
    let (drop, drop_all) = named(wanted.drop.as_deref())?;
    if !drop_all && drop.is_empty() {
        return Ok(None);
    }
    Ok(Some(match (add_all, drop_all) {
        (true, _) => CapabilitySet::all() - drop,
        (false, true) => add,
        (false, false) => (CapabilitySet::all() - drop) | add,
    }))
}

/// What a container is to have for sure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Added {
    /// All that there are here.
    All,
    These(CapabilitySet),
}

/// What a container is to have for sure. An error is a name that is not known.
pub(super) fn added(wanted: &Capabilities) -> Result<Added, String> {
    let (added, is_all) = named(wanted.add.as_deref())?;
    Ok(if is_all { Added::All } else { Added::These(added) })
}

impl Added {
    /// The names of those that are not among ours.
    pub(super) fn missing_in(self, ours: CapabilitySet) -> Option<String> {
        match self {
            Added::All => ours.is_empty().then(|| "capabilities".to_owned()),
            Added::These(added) => {
                let names: Vec<&str> = (added - ours).iter_names().map(|(name, _)| name).collect();
                (!names.is_empty()).then(|| names.join(", "))
            }
        }
    }
}

/// The capabilities of a list, and whether it names all.
fn named(names: Option<&[String]>) -> Result<(CapabilitySet, bool), String> {
    let (mut set, mut is_all) = (CapabilitySet::empty(), false);
    for name in names.unwrap_or_default() {
        let upper = name.to_ascii_uppercase();
        let short = upper.strip_prefix("CAP_").unwrap_or(&upper);
        if short == ALL {
            is_all = true;
        } else {
            set |= CapabilitySet::from_name(short).ok_or_else(|| name.clone())?;
        }
    }
    Ok((set, is_all))
}

/// Takes what is not kept out of the bounding set, so that no program brings it back. Who may not do that gives up all new
/// privileges instead, which comes to the same. To be called before the user is changed.
pub(super) fn bound(kept: CapabilitySet) -> rustix::io::Result<()> {
    for bit in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << bit);
        match capability_is_in_bounding_set(capability) {
            // The kernel knows no more.
            Err(Errno::INVAL) => break,
            Ok(true) if !kept.contains(capability) => match remove_capability_from_bounding_set(capability) {
                Err(Errno::PERM) => return set_no_new_privs(true),
                removed => removed?,
            },
            other => drop(other?),
        }
    }
    Ok(())
}

/// Gives up what is not kept. What is neither permitted nor inheritable leaves the ambient set by itself. To be called
/// after the user is changed.
pub(super) fn give_up(kept: CapabilitySet) -> rustix::io::Result<()> {
    let CapabilitySets { effective, permitted, inheritable } = capabilities(None)?;
    let sets =
        CapabilitySets { effective: effective & kept, permitted: permitted & kept, inheritable: inheritable & kept };
    set_capabilities(None, sets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_follows_from_what_is_dropped_and_added() {
        let all = CapabilitySet::all();
        let (bind, chown, raw) = (CapabilitySet::NET_BIND_SERVICE, CapabilitySet::CHOWN, CapabilitySet::NET_RAW);
        type Row<'r> = (&'r str, &'r [&'r str], &'r [&'r str], Option<CapabilitySet>);
        let rows: [Row<'_>; 9] = [
            ("nothing said", &[], &[], None),
            ("only added: all are there", &["NET_ADMIN"], &[], None),
            ("all dropped", &[], &["ALL"], Some(CapabilitySet::empty())),
            ("in small letters", &[], &["all"], Some(CapabilitySet::empty())),
            ("all but one", &["NET_BIND_SERVICE"], &["ALL"], Some(bind)),
            ("some", &[], &["CHOWN", "CAP_NET_RAW"], Some(all - chown - raw)),
            ("dropped and added", &["CHOWN"], &["CHOWN"], Some(all)),
            ("all added, one dropped", &["ALL"], &["CHOWN"], Some(all - chown)),
            ("all added and dropped", &["ALL"], &["ALL"], Some(all)),
        ];
        let texts = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
        for (name, add, drop, expected) in rows {
            let wanted = Capabilities { add: texts(add), drop: texts(drop) };
            assert_eq!(kept(&wanted), Ok(expected), "{name}");
        }
        let unknown = Capabilities { add: None, drop: texts(&["NET_RAW", "FLY"]) };
        assert_eq!(kept(&unknown), Err("FLY".to_owned()));
    }
}
