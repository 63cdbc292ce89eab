//! Which Machines are taken, what they manage, and which drift they mute.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use setpoint_api::environment::Create;
use setpoint_api::machine::{
    DeletionPolicy, MUTE_DRIFT, Machine, MachineSpec, MachineStatus, Port, PortError, muted_fields,
};

use crate::fixture::{object, told, typed};

/// A sentence, the annotation, and the fields that it mutes or what is said of it.
type MuteRow = (&'static str, &'static str, Result<Vec<&'static str>, Vec<String>>);

fn machine(spec: &Value) -> Machine {
    typed(object("Machine", &json!({"environment": "rack"}), spec))
}

#[test]
fn what_is_wrong_is_said_with_its_field() {
    let subdomain = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and \
         must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
         '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    let bad_environment = format!(r#"spec.environment: Invalid value: "My Rack": {subdomain}"#);
    let rows: Vec<(&str, Value, Vec<&str>)> = vec![
        ("the least that is a machine", json!({}), vec![]),
        ("an environment must be named", json!({"environment": ""}), vec!["spec.environment: Required value"]),
        ("an environment has an object's name", json!({"environment": "My Rack"}), vec![&bad_environment]),
        (
            "a pin is not empty",
            json!({"providerId": ""}),
            vec!["spec.providerId: Required value: leave it out to insist on no guest"],
        ),
        (
            "no core is no machine",
            json!({"cores": 0}),
            vec!["spec.cores: Invalid value: 0: must be between 1 and 4096, inclusive"],
        ),
        (
            "memory is an amount of bytes",
            json!({"memory": "lots"}),
            vec![r#"spec.memory: Invalid value: "lots": must be an amount of bytes, such as "512Mi" or "4Gi""#],
        ),
        (
            "no memory is refused",
            json!({"memory": "0"}),
            vec![r#"spec.memory: Invalid value: "0": must be greater than zero"#],
        ),
        (
            "half a byte is refused",
            json!({"memory": "500m"}),
            vec![r#"spec.memory: Invalid value: "500m": must be whole bytes"#],
        ),
        (
            "a disk is above zero",
            json!({"disk": "-1Gi"}),
            vec![r#"spec.disk: Invalid value: "-1Gi": must be greater than zero"#],
        ),
        (
            "a GPU is said which",
            json!({"gpu": {"count": 1}}),
            vec!["spec.gpu.type: Required value: a type or minVram must say which GPU"],
        ),
        ("a GPU may be any that is large enough", json!({"gpu": {"minVram": "24Gi"}}), vec![]),
        (
            "no GPU is said by leaving it out",
            json!({"gpu": {"type": "A100", "count": 0}}),
            vec!["spec.gpu.count: Invalid value: 0: must be between 1 and 1024, inclusive"],
        ),
        (
            "a fallback falls back from something",
            json!({"gpu": {"minVram": "24Gi", "fallback": ["A40"]}}),
            vec!["spec.gpu.fallback: Forbidden: there is no type to fall back from"],
        ),
        (
            "a fallback is another type",
            json!({"gpu": {"type": "A100", "fallback": ["A40", "A100"]}}),
            vec![r#"spec.gpu.fallback[1]: Duplicate value: "A100""#],
        ),
        (
            "an image is not empty",
            json!({"image": ""}),
            vec!["spec.image: Required value: leave it out not to manage it"],
        ),
        (
            "a variable in an image would be sent literally",
            json!({"image": "registry/${TAG}"}),
            vec![
                r#"spec.image: Invalid value: "registry/${TAG}": variables are replaced in command, args and env of a Machine only"#,
            ],
        ),
        (
            "a variable has one value",
            json!({"env": [{"name": "A", "value": "x", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}),
            vec!["spec.env[0].valueFrom: Forbidden: may not be specified when `value` is not empty"],
        ),
        (
            "a source says where",
            json!({"env": [{"name": "A", "valueFrom": {}}]}),
            vec!["spec.env[0].valueFrom: Required value: must say where the value comes from"],
        ),
        (
            "a source is one place",
            json!({"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}, "configMapKeyRef": {"name": "s", "key": "k"}}}]}),
            vec!["spec.env[0].valueFrom: Forbidden: may not have more than one source"],
        ),
        (
            "a variable is named once",
            json!({"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}),
            vec![r#"spec.env[1].name: Duplicate value: "A""#],
        ),
        (
            "a variable has a name",
            json!({"env": [{"name": "", "value": "1"}]}),
            vec!["spec.env[0].name: Required value"],
        ),
        (
            "our marks cannot be forged",
            json!({"env": [{"name": "SETPOINT_OWNER", "value": "me"}]}),
            vec!["spec.env[0].name: Forbidden: variables that begin with SETPOINT_ mark what is ours"],
        ),
        (
            "variables come from a Secret or a ConfigMap",
            json!({"variablesFrom": [{}, {"secret": "s", "configMap": "c"}]}),
            vec![
                "spec.variablesFrom[0]: Required value: must say where the value comes from",
                "spec.variablesFrom[1]: Forbidden: may not have more than one source",
            ],
        ),
        (
            "a port is a port",
            json!({"ports": [{"port": 0}]}),
            vec!["spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive"],
        ),
        (
            "a port is offered once, whichever way it is written",
            json!({"ports": [{"port": 22}, {"port": 22, "protocol": "TCP"}]}),
            vec![r#"spec.ports[1]: Duplicate value: "22/tcp""#],
        ),
        (
            "a port may be offered in two protocols",
            json!({"ports": [{"port": 53}, {"port": 53, "protocol": "UDP"}]}),
            vec![],
        ),
        (
            "a volume is made with a size that was asked for, never with one that was not",
            json!({"volumes": [{"name": "data"}]}),
            vec!["spec.volumes[0].size: Required value: or the providerId of a volume that exists"],
        ),
        ("a volume that exists needs no size", json!({"volumes": [{"name": "data", "providerId": "vol-1"}]}), vec![]),
        (
            "volumes are told apart by name and place",
            json!({"volumes": [{"name": "a", "size": "1Gi", "mountPath": "/d"}, {"name": "a", "size": "1Gi", "mountPath": "/d"}]}),
            vec![
                r#"spec.volumes[1].name: Duplicate value: "a""#,
                r#"spec.volumes[1].mountPath: Duplicate value: "/d""#,
            ],
        ),
        (
            "a volume is mounted at an absolute path",
            json!({"volumes": [{"name": "a", "size": "1Gi", "mountPath": "../etc"}]}),
            vec![r#"spec.volumes[0].mountPath: Invalid value: "../etc": must be an absolute path without '..'"#],
        ),
        (
            "a machine does not wait for itself",
            json!({"dependsOn": ["web"]}),
            vec![r#"spec.dependsOn[0]: Invalid value: "web": must not be the Machine itself"#],
        ),
        (
            "a dependency is named once",
            json!({"dependsOn": ["db", "db"]}),
            vec![r#"spec.dependsOn[1]: Duplicate value: "db""#],
        ),
        (
            "a variable is refused wherever nobody would replace it",
            json!({
                "providerId": "${A}", "description": "${B}", "parameters": {"cpu": "${C}"}, "gpu": {"type": "${D}"},
                "env": [{"name": "${E}", "value": "${F}"}],
                "volumes": [{"name": "data", "providerId": "${G}", "mountPath": "/${H}"}],
            }),
            vec![
                r#"spec.providerId: Invalid value: "${A}": variables are replaced in command, args and env of a Machine only"#,
                r#"spec.gpu.type: Invalid value: "${D}": variables are replaced in command, args and env of a Machine only"#,
                r#"spec.env[0].name: Invalid value: "${E}": variables are replaced in command, args and env of a Machine only"#,
                r#"spec.description: Invalid value: "${B}": variables are replaced in command, args and env of a Machine only"#,
                r#"spec.parameters[cpu]: Invalid value: "${C}": variables are replaced in command, args and env of a Machine only"#,
                r#"spec.volumes[0].providerId: Invalid value: "${G}": variables are replaced in command, args and env of a Machine only"#,
                r#"spec.volumes[0].mountPath: Invalid value: "/${H}": variables are replaced in command, args and env of a Machine only"#,
            ],
        ),
        (
            "a parameter cannot name a disk",
            json!({"parameters": {"scsi0": "local:8"}}),
            vec!["spec.parameters[scsi0]: Forbidden: it names a disk: disks are the business of disk and volumes"],
        ),
        (
            "a parameter cannot make a write destructive",
            json!({"parameters": {"restore": "1", "Force": "1"}}),
            vec![
                "spec.parameters[Force]: Forbidden: it would make a write do more than is shown",
                "spec.parameters[restore]: Forbidden: it would make a write do more than is shown",
            ],
        ),
        (
            "everything is said at once",
            json!({"environment": "", "cores": 0, "memory": "0", "ports": [{"port": 0}]}),
            vec![
                "spec.environment: Required value",
                "spec.cores: Invalid value: 0: must be between 1 and 4096, inclusive",
                r#"spec.memory: Invalid value: "0": must be greater than zero"#,
                "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
            ],
        ),
    ];
    for (name, spec, says) in rows {
        assert_eq!(told(&machine(&spec).validate()), says, "{name}");
    }
}

#[test]
fn what_a_guest_is_pinned_to_stays() {
    let pin = "spec.providerId: Forbidden: cannot be changed once it is set";
    let rows: Vec<(&str, Value, Value, Vec<&str>)> = vec![
        ("a pin may come later", json!({}), json!({"providerId": "101"}), vec![]),
        ("a pin cannot change", json!({"providerId": "101"}), json!({"providerId": "102"}), vec![pin]),
        ("a pin cannot go", json!({"providerId": "101"}), json!({}), vec![pin]),
        (
            "a disk may be written smaller, for the planner to refuse",
            json!({"disk": "2Gi"}),
            json!({"disk": "1Gi"}),
            vec![],
        ),
        (
            "a guest cannot move",
            json!({}),
            json!({"environment": "cloud"}),
            vec![
                "spec.environment: Forbidden: a Machine cannot be moved to another environment: make another Machine there",
            ],
        ),
    ];
    for (name, old, new, says) in rows {
        assert_eq!(told(&machine(&new).validate_update(&machine(&old))), says, "{name}");
    }
}

/// Otherwise it could be neither changed back nor carried out.
#[test]
fn a_pin_that_comes_later_is_of_the_guest_that_is_there() {
    let other = "spec.providerId: Forbidden: is of another guest than the one that it has: make another Machine for it";
    let fixed = "spec.providerId: Forbidden: cannot be changed once it is set";
    type Row = (&'static str, Value, Option<&'static str>, Value, Vec<&'static str>);
    let rows: Vec<Row> = vec![
        ("there is no guest yet", json!({}), None, json!({"providerId": "102"}), vec![]),
        ("it is the guest", json!({}), Some("101"), json!({"providerId": "101"}), vec![]),
        ("it is another", json!({}), Some("101"), json!({"providerId": "102"}), vec![other]),
        ("no pin comes", json!({}), Some("101"), json!({"cores": 2}), vec![]),
        (
            "a pin from before, of another, lets all else change",
            json!({"providerId": "102"}),
            Some("101"),
            json!({"providerId": "102", "cores": 2}),
            vec![],
        ),
        ("a pin goes with its guest", json!({"providerId": "101"}), Some("101"), json!({}), vec![fixed]),
    ];
    for (name, old, guest, new, says) in rows {
        let mut old = machine(&old);
        old.status = guest.map(|guest| MachineStatus { provider_id: Some(guest.to_owned()), ..Default::default() });
        assert_eq!(told(&machine(&new).validate_update(&old)), says, "{name}");
    }
}

/// A 50 GB volume was once bought because none was asked for.
#[test]
fn what_is_not_set_is_not_managed() {
    let spec = machine(&json!({})).spec;
    let unmanaged = MachineSpec { environment: "rack".to_owned(), ..MachineSpec::default() };
    assert_eq!(spec, unmanaged);
    assert_eq!((spec.create, spec.deletion_policy), (Create::Always, DeletionPolicy::Delete));
    let written = serde_json::to_value(&spec).unwrap();
    assert_eq!(written, json!({"environment": "rack", "create": "Always", "deletionPolicy": "Delete"}));
}

#[test]
fn an_empty_list_is_none_and_not_unmanaged() {
    let spec = machine(&json!({"ports": [], "volumes": [], "env": [], "command": []})).spec;
    assert_eq!((spec.ports, spec.volumes), (Some(vec![]), Some(vec![])));
    assert_eq!((spec.env, spec.command, spec.args), (Some(vec![]), Some(vec![]), None));
}

#[test]
fn ports_are_read_as_they_are_written() {
    for text in ["8000/http", "22/tcp", "53/udp", "65535/tcp"] {
        assert_eq!(text.parse::<Port>().map(|port| port.to_string()), Ok(text.to_owned()), "{text}");
    }
    for text in ["", "8000", "8000/", "/http", "0/tcp", "65536/tcp", "8000/HTTP", "+80/tcp", "80/tcp/udp", "8000/ftp"] {
        assert_eq!(text.parse::<Port>(), Err(PortError), "{text}");
    }
}

#[test]
fn drift_is_muted_field_by_field() {
    let fields = "args, command, cores, description, disk, env, gpu, image, memory, parameters, ports, run, volumes";
    let unknown = |name: &str| format!("names {name:?}, which is no field of a guest; the fields are {fields}");
    let rows: Vec<MuteRow> = vec![
        ("nothing is muted by an empty annotation", "", Ok(vec![])),
        ("one field", "description", Ok(vec!["description"])),
        ("one variable beside a field", "description,env.MODEL", Ok(vec!["description", "env.MODEL"])),
        ("blanks do not matter", " memory , cores ", Ok(vec!["cores", "memory"])),
        ("a key may have dots", "parameters.net.ipv4", Ok(vec!["parameters.net.ipv4"])),
        ("a misspelt field mutes nothing", "descripton", Err(vec![unknown("descripton")])),
        ("a field in other case is another field", "Memory", Err(vec![unknown("Memory")])),
        ("everything cannot be muted", "*", Err(vec![unknown("*")])),
        ("a key must be named", "env.", Err(vec![unknown("env.")])),
        ("memory has no keys", "memory.limit", Err(vec![r#"names "memory.limit", but memory has no keys"#.to_owned()])),
        ("a comma too many", "cores,,memory", Err(vec!["names no field between two commas".to_owned()])),
        ("a field is named once", "run,run", Err(vec![r#"names "run" twice"#.to_owned()])),
        ("everything wrong is said", "x,env.,run", Err(vec![unknown("x"), unknown("env.")])),
    ];
    for (name, text, expected) in rows {
        let annotations = BTreeMap::from([(MUTE_DRIFT.to_owned(), text.to_owned())]);
        let muted = muted_fields(&annotations)
            .map(|fields| fields.into_iter().collect::<Vec<_>>())
            .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(muted, expected.map(|fields| fields.into_iter().map(str::to_owned).collect()), "{name}");
    }
    assert_eq!(muted_fields(&BTreeMap::new()), Ok(std::collections::BTreeSet::new()), "no annotation mutes nothing");
}

#[test]
fn a_bad_annotation_is_said_with_its_field() {
    let mut machine = machine(&json!({}));
    machine.metadata.annotations = Some(BTreeMap::from([(MUTE_DRIFT.to_owned(), "cpu,run".to_owned())]));
    let told = told(&machine.validate());
    let head =
        r#"metadata.annotations[setpoint.dev/mute-drift]: Invalid value: "cpu,run": names "cpu", which is no field"#;
    assert!(told.len() == 1 && told[0].starts_with(head), "{told:?}");
}
