//! Client certificates: whose is let in, and until when.

use anyhow::{Context, Result, ensure};
use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, date_time_ymd};
use setpoint_testkit::Server;
use tokio::time::timeout;

use super::Outcome::{Known, NoConnection, Unknown};
use super::authority::{Change, forged, issued, self_signed};
use super::{PATH, SOON, client, create, outcome, printed, until_unknown, user};
use crate::SETPOINT;

#[tokio::test]
async fn only_sound_certificates_are_let_in() -> Result<()> {
    let server = Server::start(SETPOINT).await?;
    let rows: [(&str, Change, super::Outcome); 8] = [
        ("a sound one", |_| (), Known),
        ("one for both purposes", |c| c.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth), Known),
        ("an expired one", |c| c.not_after = date_time_ymd(2021, 1, 1), NoConnection),
        ("one that is not valid yet", |c| c.not_before = date_time_ymd(2099, 1, 1), NoConnection),
        ("one of a server", |c| c.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth], NoConnection),
        ("one of an authority", |c| c.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained), NoConnection),
        ("one that names nobody", nameless, Unknown),
        ("one that names nobody but a group", groups_only, Unknown),
    ];
    for (row, change, expected) in rows {
        let found = outcome(&mut client(&issued(&server, change)?)?).await;
        ensure!(found == expected, "{row}: {found:?}");
    }
    for (row, kubeconfig) in [("another authority", forged(&server)?), ("a self-signed one", self_signed(&server)?)] {
        let found = outcome(&mut client(&kubeconfig)?).await;
        ensure!(found == NoConnection, "{row}: {found:?}");
    }
    server.client()?.get(PATH).await?.success().context("a token is as good as before")?;
    Ok(())
}

fn nameless(certificate: &mut CertificateParams) {
    certificate.distinguished_name = DistinguishedName::new();
}

fn groups_only(certificate: &mut CertificateParams) {
    nameless(certificate);
    certificate.distinguished_name.push(DnType::OrganizationName, "system:masters");
}

#[tokio::test]
async fn a_certificate_decides_before_a_token_does() -> Result<()> {
    let server = Server::start(SETPOINT).await?;
    let mut jane = client(&create(&server, &["jane"])?)?;
    printed(user(&server, &["revoke", "jane"])?)?;
    let token = server.kubeconfig()?.token.context("the administrator has a token")?;
    let request = http::Request::get(PATH).header("authorization", format!("Bearer {token}"));
    let answer = jane.send(request.body(Default::default())?).await?;
    ensure!(answer.status == 401, "a revoked certificate is not overlooked: {}", answer.text());
    Ok(())
}

#[tokio::test]
async fn a_revoked_certificate_is_refused_on_open_and_new_connections() -> Result<()> {
    let mut server = Server::start(SETPOINT).await?;
    let kubeconfig = create(&server, &["jane", "--group", "dev", "--group", "ops"])?;
    let (mut open, mut joe) = (client(&kubeconfig)?, client(&create(&server, &["joe"])?)?);
    ensure!(outcome(&mut open).await == Known);

    printed(user(&server, &["revoke", "jane"])?)?;
    ensure!(outcome(&mut open).await == Unknown, "the connection was open");
    ensure!(outcome(&mut client(&kubeconfig)?).await == Unknown, "the connection is new");
    ensure!(outcome(&mut joe).await == Known, "others go on");

    server.terminate().await?;
    let moved = |server: &Server| -> Result<String> {
        let old = serde_json::from_str::<serde_json::Value>(&kubeconfig)?["clusters"][0]["cluster"]["server"].clone();
        Ok(kubeconfig.replace(old.as_str().context("an address")?, &server.kubeconfig()?.address()))
    };
    server.restart().await?;
    ensure!(outcome(&mut client(&moved(&server)?)?).await == Unknown, "a restart does not forget it");

    ensure!(outcome(&mut client(&create(&server, &["jane"])?)?).await == Known, "she can be given another");
    ensure!(outcome(&mut client(&moved(&server)?)?).await == Unknown, "and the first stays revoked");
    Ok(())
}

#[tokio::test]
async fn a_certificate_ends_while_its_connection_is_open() -> Result<()> {
    let server = Server::start(SETPOINT).await?;
    let mut jane = client(&create(&server, &["jane", "--expires", "5s"])?)?;
    ensure!(outcome(&mut jane).await == Known);
    until_unknown(&mut jane).await
}

#[tokio::test]
async fn the_watch_of_somebody_who_is_revoked_ends() -> Result<()> {
    let server = Server::start(SETPOINT).await?;
    let watch = format!(
        "{PATH}?watch=true&resourceVersion=0&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    );
    for (name, form) in [("jane", None), ("joe", Some("--token"))] {
        let mut arguments = vec![name, "--group", "system:masters"];
        arguments.extend(form);
        let mut events = client(&create(&server, &arguments)?)?.watch(&watch).await?;
        let mut admin = server.client()?.watch(&watch).await?;
        events.event().await?.context("a bookmark")?;
        admin.event().await?.context("a bookmark")?;

        printed(user(&server, &["revoke", name])?)?;
        while timeout(SOON, events.next()).await.context(name)??.is_some() {}
        let other = timeout(std::time::Duration::from_millis(50), admin.next()).await;
        ensure!(other.is_err(), "the watches of others go on: {other:?}");
    }
    Ok(())
}
