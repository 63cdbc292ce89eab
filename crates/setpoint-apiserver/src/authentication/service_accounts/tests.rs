//! Which tokens are known, and which are not.

use base64::Engine as _;
use base64::engine::general_purpose::{URL_SAFE, URL_SAFE_NO_PAD};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const URL: &str = "https://setpoint.test";

fn now() -> Timestamp {
    "2030-01-01T00:00:00Z".parse().expect("a time")
}

fn holder() -> Holder {
    let reference = |name: &str, uid: &str| Reference { name: name.to_owned(), uid: uid.to_owned() };
    Holder {
        namespace: "shop".to_owned(),
        node: None,
        pod: Some(reference("web-1", "p-1")),
        secret: None,
        serviceaccount: reference("web", "u-1"),
    }
}

/// A key and the issuer that has it.
fn issuer() -> (Key, Issuer) {
    let pkcs8 = Issuer::new_key();
    let key = Key::read(&pkcs8).expect("a new key is a key");
    (key, Issuer::new(URL, [pkcs8]).expect("a new key is a key"))
}

fn encode(text: &str) -> String {
    URL_SAFE_NO_PAD.encode(text)
}

/// A token with any header and claims, well signed.
fn signed(key: &Key, header: &str, claims: &str) -> String {
    let message = format!("{}.{}", encode(header), encode(claims));
    let signature = URL_SAFE_NO_PAD.encode(key.sign(message.as_bytes()));
    format!("{message}.{signature}")
}

fn claims() -> Value {
    json!({
        "aud": [URL], "exp": 2_000_000_000, "iat": 0, "iss": URL, "jti": "j", "nbf": 0,
        "sub": "system:serviceaccount:shop:web",
        "kubernetes.io": {"namespace": "shop", "serviceaccount": {"name": "web", "uid": "u-1"}},
    })
}

#[test]
fn a_token_says_who_its_bearer_is() {
    let (_, issuer) = issuer();
    let token = issuer.issue(holder(), vec!["a".to_owned()], now(), 600);
    for _ in ["read", "remembered"] {
        let claims = issuer.read(&token).expect("its issuer knows it");
        assert_eq!((claims.issuer.as_str(), claims.expires_s), (URL, now().as_second() + 600));
        let identity = claims.identity();
        assert_eq!((identity.user.as_str(), identity.uid.as_str()), ("system:serviceaccount:shop:web", "u-1"));
        assert_eq!(identity.groups, ["system:serviceaccounts", "system:serviceaccounts:shop"]);
        let extra = |key: &str| identity.extra[&format!("authentication.kubernetes.io/{key}")].join(",");
        assert_eq!((extra("pod-name"), extra("pod-uid")), ("web-1".to_owned(), "p-1".to_owned()));
        assert_eq!(extra("credential-id"), format!("JTI={}", claims.id));
        assert_eq!(identity.extra.len(), 3, "and nothing of a node that there is not");
    }
}

#[test]
fn only_what_this_server_signed_is_known() {
    let (key, issuer) = issuer();
    let header = json!({"alg": "ES256", "kid": key.id}).to_string();
    let good = claims().to_string();
    let with = |field: &str, value: Value| {
        let mut changed = claims();
        changed[field] = value;
        signed(&key, &header, &changed.to_string())
    };
    let headed = |header: Value| signed(&key, &header.to_string(), &good);
    let token = signed(&key, &header, &good);
    let (message, signature) = token.rsplit_once('.').expect("a signature");
    let bytes = URL_SAFE_NO_PAD.decode(signature).expect("base64");
    let other = self::issuer().0;
    let rows: Vec<(&str, String, bool)> = vec![
        ("as it was made", token.clone(), true),
        ("nothing", String::new(), false),
        ("dots", "..".to_owned(), false),
        ("no token", "right".to_owned(), false),
        ("with something behind it", format!("{token}x"), false),
        ("with a fourth part", format!("{token}.x"), false),
        ("with a space before it", format!(" {token}"), false),
        ("without a signature", format!("{message}."), false),
        ("without any part of it", message.to_owned(), false),
        ("with a signature of zeros", format!("{message}.{}", URL_SAFE_NO_PAD.encode([0; 64])), false),
        (
            "with a longer signature",
            format!("{message}.{}", URL_SAFE_NO_PAD.encode([&bytes[..], &[0]].concat())),
            false,
        ),
        ("with padding", format!("{message}.{}", URL_SAFE.encode(&bytes)), false),
        ("signed by nobody", headed(json!({"alg": "none", "kid": key.id})), false),
        ("by another algorithm", headed(json!({"alg": "HS256", "kid": key.id})), false),
        ("by an algorithm in other letters", headed(json!({"alg": "es256", "kid": key.id})), false),
        ("by an unknown key", headed(json!({"alg": "ES256", "kid": "other"})), false),
        ("by a key without a name", headed(json!({"alg": "ES256"})), false),
        ("that brings its key", headed(json!({"alg": "ES256", "kid": key.id, "jku": "https://evil"})), false),
        ("that brings its certificate", headed(json!({"alg": "ES256", "kid": key.id, "x5u": "https://evil"})), false),
        ("with demands", headed(json!({"alg": "ES256", "kid": key.id, "crit": ["b64"], "b64": false})), false),
        ("with two algorithms", signed(&key, &format!(r#"{{"alg":"none",{}"#, &header[1..]), &good), false),
        ("by another's key", signed(&other, &header, &good), false),
        (
            "by another's key under its name",
            signed(&other, &json!({"alg": "ES256", "kid": other.id}).to_string(), &good),
            false,
        ),
        ("of another issuer", with("iss", json!("https://other")), false),
        ("about another account", with("sub", json!("system:serviceaccount:shop:admin")), false),
        ("that expires at no time", with("exp", json!("never")), false),
        ("that expires beyond all time", with("exp", json!(1e30)), false),
        ("with more to say", with("groups", json!(["system:masters"])), false),
        ("that says something twice", signed(&key, &header, &format!(r#"{{"exp":1,{}"#, &good[1..])), false),
        ("with something behind its claims", signed(&key, &header, &format!("{good} x")), false),
        ("whose claims are a list", signed(&key, &header, "[]"), false),
        ("that is too long", with("jti", json!("x".repeat(LIMIT_BYTES))), false),
    ];
    for (row, token, known) in rows {
        assert_eq!(issuer.read(&token).is_ok(), known, "{row}");
    }
    for end in 0..token.len() {
        assert_eq!(issuer.read(&token[..end]), Err(Invalid::Unknown), "cut at {end}");
    }
}

#[test]
fn no_bit_of_a_token_can_be_changed() {
    let (_, issuer) = issuer();
    let token = issuer.issue(holder(), vec![URL.to_owned()], now(), 600);
    issuer.read(&token).expect("it is good, and now remembered");
    for position in 0..token.len() {
        for bit in 0..7 {
            let mut bytes = token.clone().into_bytes();
            bytes[position] ^= 1 << bit;
            let changed = String::from_utf8(bytes).expect("ASCII stays ASCII");
            assert_eq!(issuer.read(&changed), Err(Invalid::Unknown), "bit {bit} at {position}");
        }
    }
}

#[test]
fn a_token_has_its_time() {
    let mut claims: Claims = serde_json::from_value(claims()).expect("claims");
    let now_s = now().as_second();
    let rows = [
        ("good", 0, 0, 600, Ok(())),
        ("about to end", 0, 0, 1, Ok(())),
        ("at its end", 0, 0, 0, Err(Invalid::Expired)),
        ("long over", -7200, -7200, -3600, Err(Invalid::Expired)),
        ("made by a clock a little ahead", 30, 30, 600, Ok(())),
        ("not yet begun", 0, 61, 600, Err(Invalid::NotYetValid)),
        ("of the future", 61, 0, 600, Err(Invalid::IssuedInFuture)),
    ];
    for (row, issued, not_before, expires, expected) in rows {
        (claims.issued_s, claims.not_before_s, claims.expires_s) =
            (now_s + issued, now_s + not_before, now_s + expires);
        assert_eq!(claims.check_time(now()), expected, "{row}");
    }
    (claims.issued_s, claims.not_before_s, claims.expires_s) = (i64::MAX, i64::MAX, i64::MAX);
    assert_eq!(claims.check_time(now()), Err(Invalid::NotYetValid), "the end of time is no overflow");
}

#[test]
fn a_token_is_for_its_audiences() {
    let mut claims: Claims = serde_json::from_value(claims()).expect("claims");
    let texts = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
    claims.audiences = texts(&["a", "b"]);
    type Row<'a> = (&'a str, &'a [&'a str], Result<&'a [&'a str], &'a str>);
    let rows: [Row<'_>; 4] = [
        ("one of them", &["b"], Ok(&["b"])),
        ("some of them", &["c", "b", "a"], Ok(&["a", "b"])),
        ("another", &["c"], Err(r#"token audiences ["a" "b"] is invalid for the target audiences ["c"]"#)),
        ("a part of one", &[""], Err(r#"token audiences ["a" "b"] is invalid for the target audiences [""]"#)),
    ];
    for (row, wanted, expected) in rows {
        let found = claims.audiences_among(&texts(wanted)).map_err(|invalid| invalid.to_string());
        assert_eq!(found, expected.map(texts).map_err(str::to_owned), "{row}");
    }
}

#[test]
fn a_key_can_be_replaced() {
    let (old, new) = (Issuer::new_key(), Issuer::new_key());
    let before = Issuer::new(URL, [&old]).expect("a key");
    let between = Issuer::new(URL, [&new, &old]).expect("two keys");
    let after = Issuer::new(URL, [&new]).expect("a key");
    let token = |issuer: &Issuer| issuer.issue(holder(), vec![URL.to_owned()], now(), 600);
    assert!(between.read(&token(&before)).is_ok(), "the old key is still known");
    assert!(after.read(&token(&between)).is_ok(), "the new key signs");
    assert!(after.read(&token(&before)).is_err(), "the old key is gone");
    assert!(Issuer::new(URL, [b"no key"]).is_err() && Issuer::new(URL, [[0; 0]; 0]).is_err());
}

#[test]
fn what_is_remembered_is_bounded() {
    let mut memory = Memory::default();
    let claims: Arc<Claims> = Arc::new(serde_json::from_value(claims()).expect("claims"));
    let used = memory::digest("used");
    memory.remember(used, claims.clone());
    for number in 0..10_000 {
        memory.remember(memory::digest(&number.to_string()), claims.clone());
        assert!(memory.recall(&used).is_some(), "what is in use is not forgotten");
        assert!(memory.len() <= 2_001);
    }
    assert!(memory.recall(&memory::digest("0")).is_none());
}

#[test]
fn neither_keys_nor_tokens_are_shown() {
    let (_, issuer) = issuer();
    assert_eq!(format!("{issuer:?}"), r#"Issuer { url: "https://setpoint.test", keys: 1 }"#);
}

proptest! {
    #[test]
    fn no_other_text_is_a_token(cuts in prop::collection::vec((any::<prop::sample::Index>(), "[A-Za-z0-9_.=-]{0,3}"), 1..4)) {
        let (_, issuer) = issuer();
        let token = issuer.issue(holder(), vec![URL.to_owned()], now(), 600);
        let mut changed = token.clone();
        for (at, text) in cuts {
            let at = at.index(changed.len());
            let end = (at + 1).min(changed.len());
            changed.replace_range(at..end, &text);
            prop_assume!(!changed.is_empty());
        }
        prop_assert_eq!(issuer.read(&changed).is_ok(), changed == token);
    }

    #[test]
    fn any_text_is_refused(text in ".{0,200}") {
        let (_, issuer) = issuer();
        prop_assert_eq!(issuer.read(&text), Err(Invalid::Unknown));
    }
}
