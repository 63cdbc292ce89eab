//! Refuses writes of one who led and leads no longer.
//!
//! Whoever acts under a leadership says so in a header, as `namespace/name/epoch/holder` of its Lease. One that stood still
//! while another took over finds its writes refused here, whatever it believes; who does not send the header is not asked.

use setpoint_store::At;

use crate::failure::{Failure, Result};
use crate::object::Stored;
use crate::server::{Call, Shared};

const HEADER: &str = "setpoint-fence";

/// A leadership, as a request states it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stated<'a> {
    namespace: &'a str,
    lease: &'a str,
    epoch: i64,
    holder: &'a str,
}

pub(crate) async fn check(server: &Shared, call: &Call) -> Result<()> {
    let Some(header) = call.headers.get(HEADER) else { return Ok(()) };
    let stated = header.to_str().ok().and_then(parse).ok_or_else(|| {
        Failure::bad_request(format!("the header {HEADER} is not of the form namespace/name/epoch/holder"))
    })?;
    let leases = server.registry().built_in("coordination.k8s.io", "v1", "leases");
    let key = leases.key(Some(stated.namespace), stated.lease);
    let lease = server.store.get(&key, At::Now).await?.value;
    let spec = lease.map(|entry| Stored::from(&entry).value(b"{")["spec"].take()).unwrap_or_default();
    let is_leading = spec["holderIdentity"].as_str() == Some(stated.holder)
        && spec["leaseTransitions"].as_i64().unwrap_or_default() == stated.epoch;
    if is_leading {
        return Ok(());
    }
    Err(Failure::leads_no_longer(stated.namespace, stated.lease))
}

fn parse(header: &str) -> Option<Stated<'_>> {
    let mut parts = header.splitn(4, '/');
    let (namespace, lease) = (parts.next()?, parts.next()?);
    let (epoch, holder) = (parts.next()?.parse().ok()?, parts.next()?);
    let is_there = !namespace.is_empty() && !lease.is_empty() && !holder.is_empty();
    is_there.then_some(Stated { namespace, lease, epoch, holder })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leadership_is_stated_in_full_or_not_at_all() {
        let stated = |epoch, holder| Some(Stated { namespace: "kube-system", lease: "controllers", epoch, holder });
        let rows = [
            ("in full", "kube-system/controllers/3/a", stated(3, "a")),
            ("a holder with a slash", "kube-system/controllers/3/a/b", stated(3, "a/b")),
            ("nobody", "kube-system/controllers/3/", None),
            ("no epoch", "kube-system/controllers//a", None),
            ("no number", "kube-system/controllers/x/a", None),
            ("no Lease", "kube-system//3/a", None),
            ("nothing", "", None),
        ];
        for (name, header, expected) in rows {
            assert_eq!(parse(header), expected, "{name}");
        }
    }
}
