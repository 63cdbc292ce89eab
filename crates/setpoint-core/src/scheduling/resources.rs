//! What a Pod asks for, and what a node has.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use setpoint_api::quantity;

pub const CPU: &str = "cpu";
pub const PODS: &str = "pods";

/// Amounts by resource: cpu in thousandths of a core, all others in whole units.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Amounts(BTreeMap<String, i64>);

impl Amounts {
    /// What cannot be read counts as nothing: the API lets no such thing in.
    pub fn read(quantities: Option<&BTreeMap<String, Quantity>>) -> Amounts {
        let amount = |(name, quantity): (&String, &Quantity)| {
            let quantity = quantity::Quantity::parse(&quantity.0).ok()?;
            Some((name.clone(), if name == CPU { quantity.milli_value() } else { quantity.value() }))
        };
        Amounts(quantities.into_iter().flatten().filter_map(amount).collect())
    }

    pub fn get(&self, name: &str) -> i64 {
        self.0.get(name).copied().unwrap_or_default()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, i64)> {
        self.0.iter().map(|(name, amount)| (name.as_str(), *amount))
    }

    pub fn set(&mut self, name: &str, amount: i64) {
        self.0.insert(name.to_owned(), amount);
    }

    pub(super) fn add(&mut self, other: &Amounts) {
        self.combine(other, i64::saturating_add);
    }

    pub(super) fn take(&mut self, other: &Amounts) {
        self.combine(other, i64::saturating_sub);
    }

    fn raise_to(&mut self, other: &Amounts) {
        self.combine(other, i64::max);
    }

    fn combine(&mut self, other: &Amounts, combine: fn(i64, i64) -> i64) {
        for (name, amount) in &other.0 {
            match self.0.get_mut(name) {
                Some(own) => *own = combine(*own, *amount),
                None => drop(self.0.insert(name.clone(), combine(0, *amount))),
            }
        }
    }
}

/// What a Pod takes up on its node, itself included.
///
/// Its containers run together, with those init containers that go on beside them. Before that, the other init containers
/// run one at a time, each beside those that were started before it and go on. The greater of the two has to fit.
pub fn requests(pod: &Pod) -> Amounts {
    let nothing = PodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&nothing);
    let mut together = Amounts::default();
    spec.containers.iter().for_each(|container| together.add(&of_container(container)));
    let (mut sidecars, mut first) = (Amounts::default(), Amounts::default());
    for container in spec.init_containers.iter().flatten() {
        let mut own = of_container(container);
        if container.restart_policy.as_deref() == Some("Always") {
            sidecars.add(&own);
            first.raise_to(&sidecars);
        } else {
            own.add(&sidecars);
            first.raise_to(&own);
        }
    }
    together.add(&sidecars);
    together.raise_to(&first);
    if let Some(resources) = &spec.resources {
        // What is said of the Pod as a whole counts in place of what its containers say.
        for (name, amount) in Amounts::read(resources.requests.as_ref()).0 {
            together.0.insert(name, amount);
        }
    }
    together.add(&Amounts::read(spec.overhead.as_ref()));
    together.set(PODS, 1);
    together
}

fn of_container(container: &Container) -> Amounts {
    Amounts::read(container.resources.as_ref().and_then(|resources| resources.requests.as_ref()))
}
