//! Which Reviews are taken, and what of them is signed.

use serde_json::{Value, json};
use setpoint_api::review::{Review, ReviewSpec};

use crate::fixture::{object, told, typed};

const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn review(spec: &Value) -> Review {
    let least = json!({"gate": "rack-1", "decision": "Approve", "digests": [DIGEST], "reviewer": "alice"});
    typed(object("Review", &least, spec))
}

fn signed() -> Value {
    json!({
        "signature": "-----BEGIN SSH SIGNATURE-----\nU1NIU0lH\n-----END SSH SIGNATURE-----\n",
        "nonce": "0123456789abcdef", "expiresAt": "2026-01-02T03:04:05Z", "clusterUid": "7f9c",
        "changeSetUid": "51d2",
    })
}

#[test]
fn what_is_wrong_is_said_with_its_field() {
    let many: Vec<String> = (0..1_001).map(|number| format!("sha256:{number:064x}")).collect();
    let rows: Vec<(&str, Value, &[&str])> = vec![
        ("the least that is a verdict", json!({}), &[]),
        ("a signed verdict", signed(), &[]),
        ("a verdict is on a gate", json!({"gate": ""}), &["spec.gate: Required value"]),
        (
            "somebody gives it",
            json!({"reviewer": ""}),
            &["spec.reviewer: Required value: the user who gives the verdict"],
        ),
        (
            "nobody signs a line that is not theirs",
            json!({"reviewer": "alice\ndecision: Approve"}),
            &[
                r#"spec.reviewer: Invalid value: "alice\ndecision: Approve": must be one line without control characters"#,
            ],
        ),
        (
            "a verdict names its steps",
            json!({"digests": []}),
            &["spec.digests: Required value: a verdict names the steps it is about"],
        ),
        (
            "so does a rejection",
            json!({"decision": "Reject", "digests": []}),
            &["spec.digests: Required value: a verdict names the steps it is about"],
        ),
        ("a comment names none", json!({"decision": "Comment", "digests": [], "comment": "why?"}), &[]),
        (
            "a comment says something",
            json!({"decision": "Comment", "digests": []}),
            &["spec.comment: Required value: a comment needs a text"],
        ),
        (
            "a comment has a bound",
            json!({"comment": "x".repeat(4_097)}),
            &["spec.comment: Too long: may not be more than 4096 bytes"],
        ),
        (
            "a digest is a digest",
            json!({"digests": ["sha256:abc"]}),
            &[
                r#"spec.digests[0]: Invalid value: "sha256:abc": must be "sha256:" or "hmac-sha256:" and 64 lower-case hexadecimal digits"#,
            ],
        ),
        ("steps have keyed digests", json!({"digests": [format!("hmac-{DIGEST}")]}), &[]),
        (
            "a step is named once",
            json!({"digests": [DIGEST, DIGEST]}),
            &[
                r#"spec.digests[1]: Duplicate value: "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855""#,
            ],
        ),
        (
            "steps have a bound",
            json!({"digests": many}),
            &["spec.digests: Too many: 1001: must have at most 1000 items"],
        ),
        (
            "a nonce cannot be guessed",
            json!({"nonce": "short"}),
            &[r#"spec.nonce: Invalid value: "short": must be 16 to 128 letters, digits, '-' or '_'"#],
        ),
        (
            "a nonce is plain text",
            json!({"nonce": "0123456789abcde\n"}),
            &[r#"spec.nonce: Invalid value: "0123456789abcde\n": must be 16 to 128 letters, digits, '-' or '_'"#],
        ),
        (
            "a signature binds time, place and occasion",
            json!({"signature": signed()["signature"]}),
            &[
                "spec.nonce: Required value: a signature binds it",
                "spec.expiresAt: Required value: a signature binds it",
                "spec.clusterUid: Required value: a signature binds it",
                "spec.changeSetUid: Required value: a signature binds it",
            ],
        ),
        (
            "a signature is on the steps of one change set",
            json!({"changeSetUid": "51d2\ndecision: Approve"}),
            &[
                r#"spec.changeSetUid: Invalid value: "51d2\ndecision: Approve": must be one line without control characters"#,
            ],
        ),
        (
            "a signature is armored",
            {
                let mut spec = signed();
                spec["signature"] = json!("U1NIU0lH");
                spec
            },
            &[r#"spec.signature: Invalid value: "": must be armored, as `ssh-keygen -Y sign` writes it"#],
        ),
    ];
    for (name, spec, says) in rows {
        assert_eq!(told(&review(&spec).validate()), says, "{name}");
    }
}

#[test]
fn a_verdict_stays() {
    let old = review(&json!({}));
    assert!(review(&json!({})).validate_update(&old).is_empty());
    assert_eq!(
        told(&review(&json!({"decision": "Reject"})).validate_update(&old)),
        ["spec: Forbidden: a review cannot be changed"]
    );
}

#[test]
fn what_is_signed_says_everything_the_verdict_depends_on() {
    let spec = review(&signed()).spec;
    let statement = spec.statement("shop");
    assert_eq!(
        statement,
        format!(
            "setpoint review v1\ncluster: 7f9c\ngate: shop/rack-1\nchange set: 51d2\ndecision: Approve\n\
             reviewer: alice\nexpires: 2026-01-02T03:04:05Z\nnonce: 0123456789abcdef\ndigest: {DIGEST}\n"
        )
    );
    let rows = [
        ("the namespace", spec.clone(), "other"),
        ("the decision", review(&json!({"decision": "Reject"})).spec, "shop"),
        ("the gate", review(&json!({"gate": "rack-2"})).spec, "shop"),
        ("the reviewer", review(&json!({"reviewer": "bob"})).spec, "shop"),
        ("the change set", ReviewSpec { change_set_uid: Some("51d3".to_owned()), ..spec.clone() }, "shop"),
        ("the nonce", review(&json!({"nonce": "fedcba9876543210"})).spec, "shop"),
    ];
    for (what, spec, namespace) in rows {
        assert_ne!(spec.statement(namespace), statement, "another signature for another: {what}");
    }
}
