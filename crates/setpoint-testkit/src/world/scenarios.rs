//! Strategies for worlds and what is desired of them: mostly sound, with everything that happens to real ones.

use jiff::{SignedDuration, Timestamp};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use setpoint_api::price::Price;
use setpoint_api::step::{Action, Target};
use setpoint_core::desired::{Create, DeletionPolicy, Desired, Intent, Record, Run};
use setpoint_core::observation::Mark;
use setpoint_core::plan::{Orphans, Policy};
use setpoint_core::value::{Fields, Value};

use super::{Fault, Instance, Operator, World};
use crate::deployers::{GPU, RACK};

/// The control plane whose world it is.
pub const CLUSTER: &str = "ours";
/// Secrets begin like this and nothing else does.
pub const SECRET: &str = "hush-hush-";
const ANOTHER_CLUSTER: &str = "theirs";

/// A world and who keeps it.
#[derive(Debug, Clone)]
pub struct Scenario {
    pub world: World,
    pub operator: Operator,
}

/// What stands between an object and its guest at the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Situation {
    /// No guest yet.
    New,
    /// A guest made by us from just this desire.
    Made,
    /// A guest made by us that is not as desired any more.
    Drifted,
    /// A guest made by us from an earlier desire.
    Outdated,
    /// It had a guest that is gone.
    Gone,
    /// It insists on a guest that is nobody's.
    Adoptable,
    /// It insists on a guest that is not there.
    PinnedAbsent,
    /// It insists on a guest of another control plane.
    PinnedForeign,
    /// Its guest has lost the mark.
    Unmarked,
    Busy,
    Template,
    /// Its guest is on its way to another state.
    Passing,
    /// A create of it was answered by nobody, and it has no guest.
    CreateLost,
    /// A create of it was done twice.
    Duplicated,
}

#[derive(Debug, Clone)]
struct Object {
    situation: Situation,
    wanted: Fields,
    other: Fields,
    run: Option<Run>,
    is_running: bool,
    holds_data: bool,
    protected: bool,
    deletion: Option<DeletionPolicy>,
    create: Create,
    muted: Vec<Box<str>>,
    depends_on: Option<Index>,
}

/// A world that can be seen whole.
pub fn scenario() -> impl Strategy<Value = Scenario> {
    prop_oneof![scenario_of(true), scenario_of(false)]
}

/// What goes wrong, by the number of the call.
pub fn faults() -> impl Strategy<Value = std::collections::BTreeMap<u64, Fault>> {
    let fault = select(&[Fault::Refused, Fault::ResponseLost, Fault::HalfDone][..]);
    btree_map(1u64..25, fault, 0..8)
}

/// The same world, of which parts cannot be read.
pub fn blinded() -> impl Strategy<Value = Scenario> {
    (scenario(), vec((any::<Index>(), 0u8..6, any::<Index>()), 1..8)).prop_map(|(mut scenario, blindness)| {
        let ids: Vec<Box<str>> = scenario.world.guests.keys().cloned().collect();
        let fields = scenario.world.capabilities.fields;
        let sight = &mut scenario.world.sight;
        for (guest, what, field) in blindness {
            if what == 5 {
                sight.partial = Some("one node does not answer".to_owned());
            }
            if ids.is_empty() {
                continue;
            }
            let id = guest.get(&ids).clone();
            match what {
                0 => sight.unreadable.insert(id),
                1 | 2 => sight.unreadable_fields.insert((id, field.get(fields).name)),
                3 => sight.unknown_run.insert(id),
                4 => sight.unknown_data.insert(id),
                _ => sight.hidden.insert(id),
            };
        }
        scenario
    })
}

fn scenario_of(is_rack: bool) -> BoxedStrategy<Scenario> {
    let orphans = select(&[Orphans::Ignore, Orphans::Report, Orphans::Delete, Orphans::Delete][..]);
    let create = prop_oneof![9 => Just(Create::Always), 1 => Just(Create::Never)];
    let strangers = vec((0u8..3, fields(is_rack), any::<bool>(), any::<bool>()), 0..4);
    (vec(object(is_rack), 1..7), strangers, orphans, create)
        .prop_map(move |(objects, strangers, orphans, create)| {
            let mut world = World::new(if is_rack { &RACK } else { &GPU }, start());
            world.price = (!is_rack).then_some(gpu_price as fn(&Fields) -> _);
            let mut operator = Operator::new(CLUSTER, Vec::new(), Policy { create, orphans });
            let targets: Vec<Target> = (0..objects.len()).map(target).collect();
            for (number, object) in objects.iter().enumerate() {
                let desired = establish(&mut world, &operator, &targets, number, object);
                operator.desired.push(desired);
            }
            for (number, (kind, fields, is_running, holds_data)) in strangers.into_iter().enumerate() {
                let mark = |cluster: &str| made_mark(cluster, &format!("stranger-{number}"));
                let mark = [None, Some(mark(CLUSTER)), Some(mark(ANOTHER_CLUSTER))][usize::from(kind)].clone();
                let instance = Instance { mark, fields, is_running, holds_data, ..Instance::new(start()) };
                world.place(&format!("{}", 900 + number), instance);
            }
            Scenario { world, operator }
        })
        .boxed()
}

/// The desire of an object, and its guest in the world as its situation has it.
fn establish(world: &mut World, operator: &Operator, targets: &[Target], number: usize, object: &Object) -> Desired {
    let id = format!("{}", 9 + number * 46);
    let uid = format!("uid-{number}");
    let mut desired = Desired {
        fields: object.wanted.clone(),
        run: object.run,
        create: object.create,
        protected: object.protected,
        deletion: object.deletion,
        muted: object.muted.clone(),
        hourly_price: world.price.map(|price| price(&object.wanted)),
        depends_on: object
            .depends_on
            .iter()
            .filter(|_| number > 0)
            .map(|at| at.get(&targets[..number]).clone())
            .collect(),
        ..Desired::new(targets[number].clone(), &uid)
    };
    let digest = desired.spec_digest(&operator.key);
    let mut mark = made_mark(CLUSTER, &uid);
    mark.spec_digest = Some(digest.as_str().into());
    let made = Instance {
        mark: Some(mark.clone()),
        fields: object.wanted.clone(),
        is_running: object.run.map_or(object.is_running, |run| run == Run::Running),
        holds_data: object.holds_data,
        ..Instance::new(world.now)
    };
    let capabilities = world.capabilities;
    let differing = || {
        let mut fields = object.wanted.clone();
        for field in capabilities.fields {
            if let Some(value) = object.other.get(field.name) {
                fields.set(field.name, value.clone());
            }
        }
        Instance { fields, is_running: object.is_running, ..made.clone() }
    };
    let record =
        Record { provider_id: Some(id.as_str().into()), spec_digest: mark.spec_digest.clone(), ..Record::default() };
    let create = Intent {
        id: format!("made-{uid}").into(),
        action: Action::Create,
        provider_id: None,
        started_at: world.now - SignedDuration::from_secs(5),
        approved: false,
    };
    let (instance, record, pin) = match object.situation {
        Situation::New => (None, Record::default(), false),
        Situation::Made => (Some(made), record, false),
        Situation::Drifted => (Some(differing()), record, false),
        Situation::Outdated => {
            let old = Some("sha256:earlier".into());
            let instance = Instance { mark: Some(Mark { spec_digest: old.clone(), ..mark }), ..differing() };
            (Some(instance), Record { spec_digest: old, ..record }, false)
        }
        Situation::Gone => (None, record, false),
        Situation::Adoptable => (Some(Instance { mark: None, ..differing() }), Record::default(), true),
        Situation::PinnedAbsent => (None, Record::default(), true),
        Situation::PinnedForeign => {
            let mark = Some(made_mark(ANOTHER_CLUSTER, &uid));
            (Some(Instance { mark, ..differing() }), Record::default(), true)
        }
        Situation::Unmarked => (Some(Instance { mark: None, ..differing() }), record, false),
        Situation::Busy => (Some(Instance { busy: Some("locked (backup)".into()), ..differing() }), record, false),
        Situation::Template => {
            (Some(Instance { is_template: true, mark: None, ..differing() }), Record::default(), true)
        }
        Situation::Passing => {
            let word = world.capabilities.passing_words.first().map(|word| (*word).into());
            (Some(Instance { word, ..differing() }), record, false)
        }
        Situation::CreateLost => (None, Record { intents: vec![create], ..Record::default() }, false),
        Situation::Duplicated => {
            world.place(&format!("{id}1"), Instance { mark: Some(mark), ..made.clone() });
            (Some(differing()), Record { intents: vec![create], ..Record::default() }, false)
        }
    };
    if let Some(instance) = instance {
        world.place(&id, instance);
    }
    desired.record = record;
    desired.provider_id = pin.then(|| id.into());
    desired
}

fn object(is_rack: bool) -> impl Strategy<Value = Object> {
    use Situation::*;
    let situation = prop_oneof![
        6 => select(&[New, Made, Drifted, Drifted, Outdated, Gone][..]),
        3 => select(&[Adoptable, PinnedAbsent, PinnedForeign, Unmarked, Busy, Template, Passing, CreateLost, Duplicated][..]),
    ];
    let run = select(&[None, Some(Run::Running), Some(Run::Running), Some(Run::Stopped)][..]);
    let deletion =
        prop_oneof![8 => Just(None), 1 => Just(Some(DeletionPolicy::Delete)), 1 => Just(Some(DeletionPolicy::Retain))];
    let create = prop_oneof![9 => Just(Create::Always), 1 => Just(Create::Never)];
    let names: &'static [&'static str] =
        if is_rack { &["description", "memory", "tags"] } else { &["env.MODEL", "ports"] };
    let muted = prop_oneof![4 => Just(vec![]), 1 => select(names).prop_map(|name| vec![name.into()])];
    let switches = (any::<bool>(), any::<bool>(), prop::bool::weighted(0.15));
    let depends_on = prop_oneof![2 => Just(None), 1 => any::<Index>().prop_map(Some)];
    ((situation, fields(is_rack), fields(is_rack), run), switches, (deletion, create, muted, depends_on)).prop_map(
        |(
            (situation, wanted, other, run),
            (is_running, holds_data, protected),
            (deletion, create, muted, depends_on),
        )| {
            Object {
                situation,
                wanted,
                other,
                run,
                is_running,
                holds_data,
                protected,
                deletion,
                create,
                muted,
                depends_on,
            }
        },
    )
}

fn fields(is_rack: bool) -> BoxedStrategy<Fields> {
    let some = |strategy: BoxedStrategy<Value>| proptest::option::weighted(0.6, strategy);
    let all: Vec<(&'static str, BoxedStrategy<Value>)> = if is_rack {
        vec![
            // Out of bounds now and then.
            ("cores", prop_oneof![20 => 1i64..8, 1 => Just(0)].prop_map(Value::from).boxed()),
            ("description", text(&["", "the shop", "the shop\n", "two\nlines"])),
            ("disk", (1i64..5).prop_map(|size| Value::from(size << 30)).boxed()),
            ("env", environment()),
            ("hostname", text(&["Web", "web", "db"])),
            ("image", prop_oneof![4 => Just("debian-12"), 1 => Just("alpine-3")].prop_map(Value::from).boxed()),
            ("memory", (64i64..67, 0i64..2).prop_map(|(size, rest)| Value::from((size << 20) + rest)).boxed()),
            ("node", prop_oneof![9 => Just("one"), 1 => Just("two")].prop_map(Value::from).boxed()),
            ("onboot", any::<bool>().prop_map(Value::from).boxed()),
            ("password", (0u8..3).prop_map(|number| Value::secret(&format!("{SECRET}password-{number}"))).boxed()),
            ("tags", list(&["a", "b", "c"])),
        ]
    } else {
        vec![
            ("env", environment()),
            ("gpu.count", prop_oneof![20 => 1i64..3, 1 => Just(9)].prop_map(Value::from).boxed()),
            ("gpu.type", prop_oneof![4 => Just("A100"), 1 => Just("H100")].prop_map(Value::from).boxed()),
            ("image", text(&["vllm:1", "vllm:2"])),
            ("ports", list(&["8000/http", "22/tcp"])),
        ]
    };
    let (names, values): (Vec<_>, Vec<_>) = all.into_iter().map(|(name, value)| (name, some(value))).unzip();
    values
        .prop_map(move |values| {
            let set = names.iter().zip(values).filter_map(|(name, value)| Some((*name, value?)));
            set.collect()
        })
        .boxed()
}

fn environment() -> BoxedStrategy<Value> {
    let token = proptest::option::of((0u8..3).prop_map(|number| Value::secret(&format!("{SECRET}token-{number}"))));
    let model = proptest::option::of(select(&["llama", "qwen"][..]).prop_map(Value::from));
    let own = proptest::option::of(Just(Value::from("eu")));
    (token, model, own)
        .prop_map(|(token, model, own)| {
            let entries = [("TOKEN", token), ("MODEL", model), ("PROVIDER_REGION", own)];
            Value::Map(entries.into_iter().filter_map(|(key, value)| Some((key, value?))).collect())
        })
        .boxed()
}

fn text(texts: &'static [&'static str]) -> BoxedStrategy<Value> {
    select(texts).prop_map(Value::from).boxed()
}

fn list(items: &'static [&'static str]) -> BoxedStrategy<Value> {
    proptest::sample::subsequence(items, 0..=items.len())
        .prop_shuffle()
        .prop_map(|items| Value::from(items.to_vec()))
        .boxed()
}

/// What a GPU pod costs per hour: by its GPUs.
fn gpu_price(fields: &Fields) -> Price {
    let count = match fields.get("gpu.count") {
        Some(Value::Integer(count)) => *count,
        _ => 1,
    };
    Price::from_micros(340_000i64.saturating_mul(count))
}

fn made_mark(cluster: &str, uid: &str) -> Mark {
    let intent = Some(format!("made-{uid}").into());
    Mark { cluster: cluster.into(), owner_uid: uid.into(), intent, spec_digest: None }
}

fn target(number: usize) -> Target {
    Target { namespace: "lab".to_owned(), name: format!("machine-{number}"), kind: "Machine".to_owned() }
}

fn start() -> Timestamp {
    Timestamp::from_second(1_800_000_000).expect("it is a time")
}
