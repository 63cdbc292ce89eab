//! What is removed, what is left alone, and in which order, a sentence a row.

use jiff::Timestamp;
use setpoint_core::desired::{DeletionPolicy, Desired, Run};
use setpoint_core::observation::{Guest, Reading};
use setpoint_core::plan::Orphans;

use crate::fixture::{
    Scene, check, foreign, guest, key, known_web, limited, machine, marked, pinned, recorded, scene, small, target,
    wants, web, web_guest, with,
};

#[test]
fn removal() {
    let deleted = |machine: Desired| Desired { deletion: Some(DeletionPolicy::Delete), ..machine };
    let expired = |machine: Desired| Desired { expired_at: Some(Timestamp::UNIX_EPOCH), ..deleted(machine) };
    let needs_web = |name: &str| Desired { depends_on: vec![target("web")], ..machine(name) };
    let orphan = || guest("300", &machine("gone"), small());
    check(vec![
        (
            "the guest of a deleted machine is deleted",
            scene(vec![deleted(known_web())], vec![web_guest()]),
            &["web: delete"],
        ),
        (
            "a guest that another environment's need waits for them",
            scene(vec![Desired { needed_elsewhere: vec![target("page")], ..deleted(known_web()) }], vec![web_guest()]),
            &["web: waits on Dependency"],
        ),
        ("a guest that is gone already needs nothing", scene(vec![deleted(known_web())], vec![]), &[]),
        (
            "the guest of a machine that has had its time is deleted",
            scene(vec![expired(known_web())], vec![web_guest()]),
            &["web: delete"],
        ),
        ("nothing is made in its place", scene(vec![expired(known_web())], vec![]), &[]),
        (
            "a guest that cannot be seen is waited for",
            scene(vec![deleted(known_web())], vec![]).partial("timeout"),
            &["web: waits on Observation"],
        ),
        (
            "a retained guest is released",
            scene(vec![Desired { deletion: Some(DeletionPolicy::Retain), ..known_web() }], vec![web_guest()]),
            &["web: release"],
        ),
        (
            "a guest that was never adopted is not deleted",
            scene(vec![deleted(pinned("900"))], vec![foreign("900", small())]),
            &[],
        ),
        (
            "a protected guest is not deleted",
            scene(vec![Desired { protected: true, ..deleted(known_web()) }], vec![web_guest()]),
            &["web: waits on Policy"],
        ),
        (
            "what others depend on is not deleted",
            scene(
                vec![deleted(known_web()), needs_web("page")],
                vec![web_guest(), guest("102", &machine("page"), small())],
            ),
            &["web: waits on Dependency"],
        ),
        (
            "dependents are deleted first",
            scene(
                vec![deleted(known_web()), deleted(needs_web("page"))],
                vec![web_guest(), guest("102", &machine("page"), small())],
            ),
            &["page: delete", "web: delete"],
        ),
        (
            "a cycle of dependencies keeps nothing for ever",
            scene(
                vec![deleted(Desired { depends_on: vec![target("page")], ..known_web() }), deleted(needs_web("page"))],
                vec![web_guest(), guest("102", &machine("page"), small())],
            ),
            &["page: delete", "web: delete"],
        ),
        ("an orphan is reported", scene(vec![], vec![orphan()]), &["300: waits on Policy"]),
        (
            "an orphan is deleted where policy says so",
            scene(vec![], vec![orphan()]).orphans(Orphans::Delete),
            &["300: delete"],
        ),
        ("orphans are not looked for in a part", scene(vec![], vec![orphan()]).orphans(Orphans::Ignore), &[]),
        (
            "an orphan that is busy is waited for",
            scene(vec![], vec![Guest { busy: Some("locked".into()), ..orphan() }]).orphans(Orphans::Delete),
            &["300: waits on Provider"],
        ),
        (
            "creates come before deletes",
            scene(vec![web()], vec![orphan()]).orphans(Orphans::Delete),
            &["web: create", "300: delete"],
        ),
        (
            "of two guests the one on record stays",
            scene(vec![recorded(web(), "102")], vec![web_guest(), guest("102", &web(), small())])
                .orphans(Orphans::Delete),
            &["101: delete"],
        ),
        (
            "what was made twice by mistake is no orphan, and goes whatever the policy for orphans",
            scene(vec![recorded(web(), "102")], vec![web_guest(), guest("102", &web(), small())])
                .orphans(Orphans::Ignore),
            &["101: delete"],
        ),
        (
            "what was made twice goes only once the guest that stays is as desired",
            scene(
                vec![Desired { run: Some(Run::Running), ..recorded(web(), "102") }],
                vec![web_guest(), Guest { run: Reading::Unknown, ..guest("102", &web(), small()) }],
            ),
            &["web: waits on Observation", "101: waits on Dependency"],
        ),
        (
            "what was made twice for something protected stays",
            scene(
                vec![Desired { protected: true, ..recorded(web(), "102") }],
                vec![web_guest(), guest("102", &web(), small())],
            ),
            &["101: waits on Policy"],
        ),
        (
            "what was made twice for something that keeps its guest is released too",
            scene(
                vec![Desired { deletion: Some(DeletionPolicy::Retain), ..recorded(web(), "102") }],
                vec![web_guest(), guest("102", &web(), small())],
            ),
            &["web: release", "101: release"],
        ),
        (
            "a leftover is not taken for the guest on record while that one is out of sight",
            scene(vec![recorded(wants(with(small(), "cores", 4)), "102")], vec![web_guest()]).partial("timeout"),
            &["web: waits on Observation"],
        ),
        (
            "nothing that was made twice is deleted while not everything can be seen",
            scene(vec![recorded(web(), "102")], vec![web_guest(), guest("102", &web(), small())]).partial("timeout"),
            &["101: waits on Dependency"],
        ),
        (
            "a deployer that cannot take its mark off says so",
            Scene::new(
                limited(|capabilities| capabilities.adopts = false),
                vec![Desired { deletion: Some(DeletionPolicy::Retain), ..known_web() }],
                vec![web_guest()],
            ),
            &["web: waits on Policy"],
        ),
        (
            "of two guests the one made from just this stays: a replacement was under way",
            scene(
                vec![known_web()],
                vec![
                    web_guest(),
                    marked(guest("102", &web(), small()), |mark| {
                        mark.spec_digest = Some(web().spec_digest(&key()).into())
                    }),
                ],
            )
            .orphans(Orphans::Delete),
            &["101: delete"],
        ),
        (
            "of two guests without a record the first stays, as people count",
            scene(vec![web()], vec![guest("99", &web(), small()), web_guest()]).orphans(Orphans::Delete),
            &["101: delete"],
        ),
    ]);
}

#[test]
fn order() {
    let machines = ["web-101", "web-9", "db"].map(|name| Desired { fields: small(), ..machine(name) });
    let numbered = [("c", "9"), ("a", "101"), ("b", "30")]
        .map(|(name, id)| Desired { provider_id: Some(id.into()), ..machine(name) });
    let mut mixed = numbered.to_vec();
    mixed.extend(machines.clone());
    let chain = |name: &str, on: &str| Desired { depends_on: vec![target(on)], ..machine(name) };
    check(vec![
        (
            "names are ordered as people count",
            scene(machines.to_vec(), vec![]),
            &["db: create", "web-9: create", "web-101: create"],
        ),
        (
            "pinned guests are ordered by number",
            scene(numbered.to_vec(), vec![]),
            &["c: create", "b: create", "a: create"],
        ),
        (
            "pinned guests come before those without a number",
            scene(mixed, vec![]),
            &["c: create", "b: create", "a: create", "db: create", "web-9: create", "web-101: create"],
        ),
        (
            "what is depended on comes first",
            scene(vec![chain("a", "b"), chain("b", "c"), machine("c")], vec![]),
            &["c: create", "b: create", "a: create"],
        ),
        (
            "what is depended on and as desired does not matter",
            scene(vec![chain("a", "web"), known_web()], vec![web_guest()]),
            &["a: create"],
        ),
        (
            "what depends on something that is being deleted waits",
            scene(
                vec![chain("a", "web"), Desired { deletion: Some(DeletionPolicy::Delete), ..known_web() }],
                vec![web_guest()],
            ),
            &["a: waits on Dependency", "web: waits on Dependency"],
        ),
        ("what depends on itself is refused", scene(vec![chain("a", "a")], vec![]), &["a: refused spec.dependsOn"]),
        (
            "what depends on a cycle waits, and what does not goes on",
            scene(vec![chain("a", "b"), chain("b", "a"), chain("c", "a"), machine("d")], vec![]),
            &["d: create", "c: waits on Dependency", "a: refused spec.dependsOn", "b: refused spec.dependsOn"],
        ),
    ]);
}
