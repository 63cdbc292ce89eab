//! HTTP/1 through the proxy with curl and raw sockets.

use anyhow::{Result, ensure};
use setpoint_proxy::table::{
    Action, Group, HeaderChanges, HostPattern, Limits, NameValue, PathRewrite, Redirect, Rewrite, Serves, Table,
    Timeouts,
};

use crate::fixture::{Backend, address, curl, eventually, listener, raw, route, simple, start};

fn url(proxy: &setpoint_proxy::Proxy, path: &str) -> Result<String> {
    Ok(format!("http://{}{path}", address(proxy)?))
}

#[test]
fn a_request_is_carried_and_the_client_is_told_of() -> Result<()> {
    let backend = Backend::start("web")?;
    let proxy = start(simple(&[&backend]))?;
    let head = curl(&[
        "-H",
        "X-Forwarded-For: 10.9.9.9",
        "-H",
        "Connection: x-hop",
        "-H",
        "X-Hop: 1",
        "-H",
        "Host: shop.test",
        &url(&proxy, "/head?a=b")?,
    ])?;
    ensure!(head.starts_with("GET /head?a=b HTTP/1.1\n"), "{head}");
    for line in
        ["host: shop.test", "x-forwarded-for: 127.0.0.1", "x-forwarded-proto: http", "x-forwarded-host: shop.test"]
    {
        ensure!(head.lines().any(|it| it == line), "{line} is missing in {head}");
    }
    ensure!(head.contains("x-request-id: ") && head.contains("forwarded: for=127.0.0.1"), "{head}");
    ensure!(!head.contains("10.9.9.9") && !head.contains("x-hop") && !head.contains("connection:"), "{head}");
    Ok(())
}

#[test]
fn bodies_go_both_ways() -> Result<()> {
    let backend = Backend::start("web")?;
    let proxy = start(simple(&[&backend]))?;
    ensure!(curl(&["-d", "hello", &url(&proxy, "/echo")?])? == "hello");
    ensure!(curl(&["-d", "hello", "-H", "Transfer-Encoding: chunked", &url(&proxy, "/echo")?])? == "hello");
    ensure!(
        curl(&["-d", "hello", "-H", "Expect: 100-continue", "-i", &url(&proxy, "/echo")?])?.contains("100 Continue")
    );
    ensure!(curl(&["-X", "PUT", "-d", "", &url(&proxy, "/echo")?])?.is_empty());
    let head = curl(&["-I", &url(&proxy, "/download?1000")?])?;
    ensure!(head.contains("content-length: 1000"), "{head}");
    Ok(())
}

#[test]
fn http_1_0_is_served() -> Result<()> {
    let backend = Backend::start("web")?;
    let proxy = start(simple(&[&backend]))?;
    let answer = raw(address(&proxy)?, b"GET / HTTP/1.0\r\n\r\n")?;
    ensure!(answer.starts_with("HTTP/1.0 200 ") && answer.ends_with("web"), "{answer}");
    Ok(())
}

#[test]
fn unknown_hosts_and_empty_groups_say_what_is_wrong() -> Result<()> {
    let backend = Backend::start("web")?;
    let mut spec = simple(&[&backend]);
    let routes = spec.route_sets.get_mut("main").expect("the set");
    routes[0].hosts = vec![HostPattern::Exact("known.test".to_owned())];
    let mut empty = route("empty", "/empty", "empty");
    empty.hosts = routes[0].hosts.clone();
    routes.push(empty);
    let empty = Group {
        title: "App default/shop".to_owned(),
        unavailable: Some("0 of 3 Pods are ready".to_owned()),
        ..Group::default()
    };
    spec.groups.insert("empty".to_owned(), empty);
    let proxy = start(spec)?;
    let unknown = curl(&["-i", "-H", "Host: other.test", &url(&proxy, "/")?])?;
    ensure!(
        unknown.starts_with("HTTP/1.1 404 ") && unknown.contains("No route is for the host \"other.test\""),
        "{unknown}"
    );
    let empty = curl(&["-i", "-H", "Host: known.test", "-H", "Accept: text/html", &url(&proxy, "/empty")?])?;
    ensure!(empty.starts_with("HTTP/1.1 503 ") && empty.contains("retry-after: "), "{empty}");
    ensure!(empty.contains("App default/shop has nothing to answer with: 0 of 3 Pods are ready"), "{empty}");
    ensure!(empty.contains("<!doctype html>"), "{empty}");
    Ok(())
}

#[test]
fn routes_change_what_they_pass_on() -> Result<()> {
    let backend = Backend::start("web")?;
    let mut spec = simple(&[&backend]);
    let pair = |name: &str, value: &str| NameValue { name: name.to_owned(), value: value.to_owned() };
    let mut api = route("api", "/api", "web");
    api.rewrite =
        Some(Rewrite { host: Some("inner.test".to_owned()), path: Some(PathRewrite::Prefix("/app".to_owned())) });
    api.request_headers = HeaderChanges {
        set: vec![pair("x-set", "1")],
        add: vec![pair("x-add", "2")],
        remove: vec!["user-agent".to_owned()],
    };
    api.response_headers = HeaderChanges { set: vec![pair("x-answer", "3")], ..HeaderChanges::default() };
    let mut old = route("old", "/old", "web");
    old.action = Action::Redirect(Redirect {
        scheme: Some("https".to_owned()),
        path: Some(PathRewrite::Prefix("/new".to_owned())),
        status: 301,
        ..Redirect::default()
    });
    spec.route_sets.get_mut("main").expect("the set").extend([api, old]);
    let proxy = start(spec)?;
    let head = curl(&["-i", &url(&proxy, "/api/head?q=1")?])?;
    for line in ["GET /app/head?q=1 HTTP/1.1", "host: inner.test", "x-set: 1", "x-add: 2", "x-answer: 3"] {
        ensure!(head.lines().any(|it| it.trim_end() == line), "{line} is missing in {head}");
    }
    ensure!(!head.contains("user-agent"), "{head}");
    let redirect = curl(&["-i", "-H", "Host: shop.test:8080", &url(&proxy, "/old/x?y")?])?;
    ensure!(redirect.contains("301 Moved") && redirect.contains("location: https://shop.test/new/x?y"), "{redirect}");
    Ok(())
}

#[test]
fn https_is_where_http_sends_everybody() -> Result<()> {
    let backend = Backend::start("web")?;
    let mut spec = simple(&[&backend]);
    spec.listeners =
        vec![listener("web", Serves::Http { routes: "main".to_owned(), redirect_to_https_port: Some(6443) })];
    let proxy = start(spec)?;
    let get = curl(&["-i", "-H", "Host: shop.test:6480", &url(&proxy, "/a?b")?])?;
    ensure!(get.contains("301 Moved") && get.contains("location: https://shop.test:6443/a?b"), "{get}");
    let post = curl(&["-i", "-d", "x", "-H", "Host: shop.test", &url(&proxy, "/")?])?;
    ensure!(post.contains("308 Permanent"), "{post}");
    Ok(())
}

#[test]
fn a_request_goes_to_another_endpoint_when_one_is_gone() -> Result<()> {
    let (good, gone) = (Backend::start("good")?, Backend::start("gone")?);
    let spec = simple(&[&good, &gone]);
    drop(gone);
    let proxy = start(spec)?;
    for _ in 0..20 {
        ensure!(curl(&[&url(&proxy, "/")?])? == "good");
        // Nothing of it was sent, so a POST may be repeated too.
        ensure!(curl(&["-d", "x", &url(&proxy, "/")?])? == "good");
    }
    Ok(())
}

#[test]
fn what_an_endpoint_may_have_done_is_repeated_only_if_that_is_harmless() -> Result<()> {
    let (good, broken) = (Backend::start("good")?, Backend::start("broken")?);
    broken.is_broken.store(true, std::sync::atomic::Ordering::SeqCst);
    let mut spec = simple(&[&good, &broken]);
    spec.groups.get_mut("web").expect("the group").ejection.failures = 0;
    let proxy = start(spec)?;
    let (mut posts, mut failures) = (0, 0);
    while posts < 40 {
        posts += 1;
        let answer = curl(&["-i", "-d", "x", &url(&proxy, "/")?])?;
        failures += u32::from(answer.starts_with("HTTP/1.1 502 "));
    }
    ensure!(failures > 0, "no POST met the broken endpoint");
    let gets = (0..20).map(|_| curl(&["-o", "/dev/null", "-w", "%{http_code}", &url(&proxy, "/")?]));
    let failed = gets.collect::<Result<Vec<_>>>()?.iter().filter(|status| *status != "200").count();
    ensure!(failed <= 10, "{failed} of 20 GETs failed although they may be repeated");
    let snapshot = proxy.snapshot();
    let sent = good.served() + broken.served();
    let requests = snapshot.groups["web"].total.requests();
    ensure!(sent <= requests + requests / 5 + 1, "{sent} attempts for {requests} requests");
    Ok(())
}

#[test]
fn an_endpoint_that_fails_is_left_out() -> Result<()> {
    let (good, broken) = (Backend::start("good")?, Backend::start("broken")?);
    broken.is_broken.store(true, std::sync::atomic::Ordering::SeqCst);
    let mut spec = simple(&[&good, &broken]);
    spec.groups.get_mut("web").expect("the group").ejection.base_ms = 600_000;
    let proxy = start(spec)?;
    let mut in_a_row = 0;
    eventually("twenty POSTs in a row succeed", || {
        let status = curl(&["-o", "/dev/null", "-w", "%{http_code}", "-d", "x", &url(&proxy, "/")?])?;
        in_a_row = if status == "200" { in_a_row + 1 } else { 0 };
        Ok(in_a_row >= 20)
    })
}

#[test]
fn times_and_sizes_are_limited() -> Result<()> {
    let backend = Backend::start("web")?;
    let mut spec = simple(&[&backend]);
    let all = &mut spec.route_sets.get_mut("main").expect("the set")[0];
    all.timeouts = Timeouts { request_ms: Some(300), ..Timeouts::default() };
    all.limits = Limits { request_body_bytes: Some(100), concurrent_requests: Some(1), ..Limits::default() };
    let proxy = start(spec)?;
    let slow = curl(&["-i", &url(&proxy, "/hang")?])?;
    ensure!(slow.starts_with("HTTP/1.1 504 ") && slow.contains("did not answer in the time"), "{slow}");
    let large = "x".repeat(101);
    let declared = curl(&["-i", "-d", &large, &url(&proxy, "/echo")?])?;
    ensure!(declared.starts_with("HTTP/1.1 413 "), "{declared}");
    let chunked = curl(&["-i", "-H", "Transfer-Encoding: chunked", "-d", &large, &url(&proxy, "/count")?])?;
    ensure!(chunked.starts_with("HTTP/1.1 413 "), "{chunked}");
    ensure!(curl(&["-d", &large[..100], &url(&proxy, "/echo")?])?.len() == 100);
    let hanging = url(&proxy, "/hang")?;
    let first = std::thread::spawn(move || curl(&["-i", &hanging]));
    eventually("a request is in flight", || Ok(proxy.snapshot().routes["main/all"].in_flight == 1))?;
    let second = curl(&["-i", &url(&proxy, "/")?])?;
    ensure!(second.starts_with("HTTP/1.1 503 ") && second.contains("as many as it may"), "{second}");
    first.join().expect("the thread")?;
    Ok(())
}

#[test]
fn another_protocol_is_carried_both_ways() -> Result<()> {
    use std::io::{Read, Write};
    let backend = Backend::start("web")?;
    let proxy = start(simple(&[&backend]))?;
    let mut stream = std::net::TcpStream::connect(address(&proxy)?)?;
    stream.set_read_timeout(Some(crate::fixture::SOON))?;
    // The first bytes of the other protocol come along with the request.
    stream.write_all(b"GET /upgrade HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\nfirst")?;
    let mut seen = String::new();
    while !seen.ends_with("first") {
        let mut bytes = [0; 1024];
        let count = stream.read(&mut bytes)?;
        ensure!(count > 0, "it was closed after {seen}");
        seen.push_str(&String::from_utf8_lossy(&bytes[..count]));
    }
    ensure!(seen.starts_with("HTTP/1.1 101 ") && seen.to_lowercase().contains("upgrade: echo"), "{seen}");
    stream.write_all(b"\x00\xff not HTTP\n\n")?;
    let mut bytes = [0; 13];
    stream.read_exact(&mut bytes)?;
    ensure!(&bytes == b"\x00\xff not HTTP\n\n");
    drop(stream);
    eventually("it has ended", || Ok(proxy.in_flight_to(backend.address) == 0))?;
    // One that is not agreed to leaves the connection as it was.
    let declined = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n\
        GET /next HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let answer = raw(address(&proxy)?, declined)?;
    ensure!(answer.matches("HTTP/1.1 200 ").count() == 2, "{answer}");
    // Nor does one that asks in two ways hold up what follows.
    for upgrades in ["h2c\r\nUpgrade: echo", "echo\r\nUpgrade: h2c", "h2c"] {
        let asked = format!("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: {upgrades}\r\n\r\n");
        let next = "GET /next HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        let answer = raw(address(&proxy)?, format!("GET / HTTP/1.1\r\nHost: a\r\n\r\n{asked}{next}").as_bytes())?;
        ensure!(answer.matches("HTTP/1.1 200 ").count() == 3, "{upgrades}: {answer}");
    }
    Ok(())
}

#[test]
fn a_table_is_replaced_without_touching_what_is_under_way() -> Result<()> {
    let (old, new) = (Backend::start("old")?, Backend::start("new")?);
    let mut spec = simple(&[&old]);
    let proxy = start(spec.clone())?;
    let slow = url(&proxy, "/slow?400")?;
    let under_way = std::thread::spawn(move || curl(&[&slow]));
    eventually("it is under way", || Ok(proxy.in_flight_to(old.address) == 1))?;
    spec.version = 2;
    spec.groups.get_mut("web").expect("the group").endpoints = vec![new.endpoint()];
    let applied = proxy.apply(Table::compile(spec)?);
    ensure!((applied.version, proxy.version()) == (2, 2));
    ensure!(curl(&[&url(&proxy, "/")?])? == "new");
    ensure!(proxy.in_flight_to(old.address) == 1, "the old request goes on");
    ensure!(under_way.join().expect("the thread")? == "old");
    eventually("the old endpoint is released", || Ok(proxy.in_flight_to(old.address) == 0))?;
    ensure!(old.served() == 1);
    Ok(())
}
