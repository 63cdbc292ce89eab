//! Tables and properties of finding routes.

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use proptest::prelude::*;

use super::*;
use crate::assignment::Assignment;

fn host(pattern: &str) -> Option<HostPattern> {
    match pattern {
        "" => None,
        _ => Some(match (pattern.strip_prefix("**."), pattern.strip_prefix("*.")) {
            (Some(name), _) => HostPattern::Below(name.to_owned()),
            (_, Some(name)) => HostPattern::OneLabelBelow(name.to_owned()),
            _ => HostPattern::Exact(pattern.to_owned()),
        }),
    }
}

fn path(pattern: &str) -> PathMatch {
    match pattern.strip_prefix('=') {
        Some(path) => PathMatch::Exact(path.to_owned()),
        None => PathMatch::Prefix(pattern.to_owned()),
    }
}

/// A route whose name says what it takes.
fn route(name: &str, hosts: &str, paths: &str) -> Route {
    let wanted = |pattern| RouteMatch { path: path(pattern), method: None, headers: vec![], query: vec![] };
    Route {
        name: name.to_owned(),
        hosts: host(hosts).into_iter().collect(),
        matches: vec![wanted(paths)],
        action: Action::Forward(Split { assignment: Assignment::whole("g"), ..Split::default() }),
        ..Route::default()
    }
}

fn spec(routes: Vec<Route>) -> TableSpec {
    TableSpec {
        listeners: vec![Listener {
            name: "web".to_owned(),
            address: ([127, 0, 0, 1], 0).into(),
            serves: Serves::Http { routes: "main".to_owned(), redirect_to_https_port: None },
        }],
        route_sets: [("main".to_owned(), routes)].into(),
        groups: [("g".to_owned(), Group::default())].into(),
        ..TableSpec::default()
    }
}

fn table(routes: Vec<Route>) -> Table {
    Table::compile(spec(routes)).expect("the table is sound")
}

fn set(table: &Table) -> SetId {
    match table.listener("web") {
        Some(CompiledListener::Http { set, .. }) => *set,
        other => panic!("the listener is {other:?}"),
    }
}

fn find<'a>(table: &'a Table, host: &str, path: &str) -> Result<&'a str, NotFound> {
    let head = RequestHead { host, path, query: None, method: &Method::GET, headers: &HeaderMap::new() };
    table.find(set(table), &head).map(|found| table.route(found.route).name.as_str())
}

#[test]
fn the_most_specific_route_takes_a_request() {
    let routes = [
        ("any", "", "/"),
        ("a", "a.test", "/"),
        ("a-shop", "a.test", "/shop"),
        ("a-cart", "a.test", "/shop/cart"),
        ("a-exact", "a.test", "=/shop/cart"),
        ("a-slash", "a.test", "=/shop/"),
        ("wild", "*.test", "/"),
        ("deep", "**.deep.test", "/"),
        ("deep-x", "**.x.deep.test", "/"),
        ("a-only", "only.test", "/only"),
    ];
    let table = table(routes.map(|(name, host, path)| route(name, host, path)).into());
    let rows = [
        ("an exact host", "a.test", "/", "a"),
        ("another path", "a.test", "/other", "a"),
        ("a prefix", "a.test", "/shop", "a-shop"),
        ("a prefix is by segment", "a.test", "/shopping", "a"),
        ("below a prefix", "a.test", "/shop/list", "a-shop"),
        ("a longer prefix", "a.test", "/shop/cart/1", "a-cart"),
        ("an exact path before a prefix", "a.test", "/shop/cart", "a-exact"),
        ("an exact path with a slash", "a.test", "/shop/", "a-slash"),
        ("a prefix with a slash", "a.test", "/shop/cart/", "a-cart"),
        ("a wildcard of one label", "b.test", "/", "wild"),
        ("which does not cover two", "c.b.test", "/", "any"),
        ("nor none", "test", "/", "any"),
        ("a wildcard of many labels", "c.b.deep.test", "/", "deep"),
        ("the longest wildcard", "c.x.deep.test", "/", "deep-x"),
        ("a wildcard does not cover its own name", "deep.test", "/", "wild"),
        ("an unknown host", "other.example", "/", "any"),
        ("no host", "", "/", "any"),
        ("a host whose paths do not fit goes on to the wildcard", "only.test", "/else", "wild"),
        ("doubled slashes are segments", "a.test", "/shop//cart", "a-shop"),
        ("an asterisk", "a.test", "*", "a"),
    ];
    for (what, host, path, expected) in rows {
        assert_eq!(find(&table, host, path), Ok(expected), "{what}");
    }
}

#[test]
fn what_no_route_takes_is_told_apart() {
    let table = table(vec![route("a", "a.test", "/shop"), route("b", "**.b.test", "/shop")]);
    assert_eq!(find(&table, "a.test", "/"), Err(NotFound::Path));
    assert_eq!(find(&table, "x.b.test", "/"), Err(NotFound::Path));
    assert_eq!(find(&table, "c.test", "/shop"), Err(NotFound::Host));
}

#[test]
fn methods_headers_and_parameters_decide_between_equal_paths() {
    let with = |name: &str, method: Option<&str>, headers: &[(&str, &str)], query: &[(&str, &str)], created_s| {
        let pairs = |pairs: &[(&str, &str)]| {
            let pair = |(name, value): &(&str, &str)| NameValue { name: (*name).into(), value: (*value).into() };
            pairs.iter().map(pair).collect::<Vec<_>>()
        };
        let mut it = route(name, "a.test", "/");
        it.created_s = created_s;
        it.matches[0].method = method.map(str::to_owned);
        it.matches[0].headers = pairs(headers);
        it.matches[0].query = pairs(query);
        it
    };
    let table = table(vec![
        with("younger", None, &[], &[], 20),
        with("plain", None, &[], &[], 10),
        with("same-age", None, &[], &[], 10),
        with("post", Some("POST"), &[], &[], 30),
        with("canary", None, &[("x-canary", "yes")], &[], 30),
        with("canary-two", None, &[("x-canary", "yes"), ("x-user", "a,b")], &[], 30),
        with("page", None, &[], &[("page", "a b")], 30),
    ]);
    let rows = [
        ("nothing special: the older, then the lower name", Method::GET, None, vec![], "plain"),
        ("a method comes before headers", Method::POST, None, vec![("x-canary", "yes")], "post"),
        ("a header", Method::GET, None, vec![("x-canary", "yes")], "canary"),
        ("its value is compared exactly", Method::GET, None, vec![("x-canary", "YES")], "plain"),
        ("two headers before one", Method::GET, None, vec![("x-canary", "yes"), ("x-user", "a,b")], "canary-two"),
        (
            "lines of a header are one",
            Method::GET,
            None,
            vec![("x-canary", "yes"), ("x-user", "a"), ("x-user", "b")],
            "canary-two",
        ),
        ("a parameter", Method::GET, Some("x=1&page=a%20b"), vec![], "page"),
        ("a plus is a space", Method::GET, Some("page=a+b"), vec![], "page"),
        ("the first of a name counts", Method::GET, Some("page=z&page=a+b"), vec![], "plain"),
        ("headers come before parameters", Method::GET, Some("page=a+b"), vec![("x-canary", "yes")], "canary"),
    ];
    for (what, method, query, pairs, expected) in rows {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let head = RequestHead { host: "a.test", path: "/x", query, method: &method, headers: &headers };
        let found = table.find(set(&table), &head).expect(what);
        assert_eq!(table.route(found.route).name, expected, "{what}");
    }
}

#[test]
fn the_matched_part_of_the_path_is_told() {
    let table = table(vec![route("a", "", "/shop/"), route("b", "", "/"), route("c", "", "=/exact")]);
    for (path, bytes) in [("/shop", 5), ("/shop/x", 5), ("/other", 0), ("/exact", 6)] {
        let head = RequestHead { host: "h", path, query: None, method: &Method::GET, headers: &HeaderMap::new() };
        assert_eq!(table.find(set(&table), &head).expect(path).matched_path_bytes, bytes, "{path}");
    }
}

#[test]
fn a_table_with_faults_is_refused() {
    type Spoil = fn(&mut TableSpec);
    let rows: [(&str, Spoil, &str); 10] = [
        ("a time without end", |it| route_of(it).timeouts.request_ms = Some(u64::MAX), "a time is not between"),
        ("a listener without routes", |it| it.route_sets.clear(), "listeners[web]: there is no route set"),
        ("a split without its group", |it| it.groups.clear(), "routeSets[main][a].split: there is no group \"g\""),
        (
            "points that do not add up",
            |it| route_of(it).action = Action::Forward(Split::default()),
            "the runs have 0 points instead of 10000",
        ),
        ("a path without a slash", |it| route_of(it).matches[0].path = path("shop"), "does not begin with a slash"),
        ("a host in capitals", |it| route_of(it).hosts = vec![HostPattern::Exact("A".into())], "not a host name"),
        (
            "a header that says where a message ends",
            |it| route_of(it).request_headers.remove.push("Content-Length".into()),
            "may not be changed",
        ),
        (
            "two routes of one name",
            |it| it.route_sets.get_mut("main").expect("set").push(route("a", "", "/")),
            "this name",
        ),
        (
            "a redirect that is none",
            |it| route_of(it).action = Action::Redirect(Redirect::default()),
            "0 is not a redirect",
        ),
        (
            "two listeners of one name",
            |it| {
                let again = it.listeners[0].clone();
                it.listeners.push(again);
            },
            "another listener has this name",
        ),
    ];
    for (what, spoil, expected) in rows {
        let mut spec = spec(vec![route("a", "", "/")]);
        spoil(&mut spec);
        let error = Table::compile(spec).expect_err(what).to_string();
        assert!(error.contains(expected), "{what}: {error}");
    }
}

fn route_of(spec: &mut TableSpec) -> &mut Route {
    &mut spec.route_sets.get_mut("main").expect("the set")[0]
}

#[test]
fn a_table_survives_being_written_down() {
    let spec = spec(vec![route("a", "a.test", "/shop"), route("b", "*.test", "=/x")]);
    let text = serde_json::to_string(&spec).expect("it is data");
    assert_eq!(serde_json::from_str::<TableSpec>(&text).expect("it was written by us"), spec);
}

#[test]
fn keys_are_not_shown() {
    let certificate =
        Certificate { hosts: vec!["a.test".to_owned()], chain_pem: "PUBLIC".to_owned(), key_pem: "SECRET".to_owned() };
    assert!(!format!("{certificate:?}").contains("SECRET"));
}

#[test]
fn finding_does_not_cost_more_with_more_routes() {
    let time = |count: usize| {
        let routes = (0..count).map(|n| route(&format!("r{n}"), &format!("h{}.test", n % 100), &format!("/p{n}/x")));
        let table = table(routes.collect());
        let measure = || {
            let start = std::time::Instant::now();
            for n in 0..1_000 {
                let n = n % count;
                let _found = find(&table, &format!("h{}.test", n % 100), &format!("/p{n}/x/y")).expect("it is there");
            }
            start.elapsed()
        };
        (0..5).map(|_| measure()).min().expect("five")
    };
    let (few, many) = (time(100), time(10_000));
    assert!(many < few * 5, "100 routes: {few:?}, 10 000: {many:?}");
}

#[test]
fn an_empty_group_is_replaced_by_the_others_by_their_weights() {
    let assignment =
        crate::assignment::assign(None, &[("a".to_owned(), 5_000), ("b".to_owned(), 4_000), ("c".to_owned(), 1_000)]);
    let mut spec = spec(vec![route("a", "", "/")]);
    spec.groups = ["a", "b", "c"].map(|name| (name.to_owned(), Group::default())).into();
    let split = Split { assignment: assignment.expect("they add up"), ..Split::default() };
    route_of(&mut spec).action = Action::Forward(split);
    let table = Table::compile(spec).expect("sound");
    let CompiledAction::Forward(split) = &table.routes()[0].action else { panic!("it forwards") };
    let empty = table.group_named("a").expect("a");
    let mut counts = [0_u32; 3];
    for point in 0..10_000 {
        let choice = split.choose(point, |group| group != empty);
        assert_eq!(choice.instead_of, (split.group_at(point) == empty).then_some(empty));
        counts[choice.group.expect("two are left").index()] += 1;
    }
    assert_eq!(counts, [0, 8_000, 2_000]);
    assert_eq!(split.choose(3, |_| false), Choice { group: None, instead_of: Some(split.group_at(3)) });
}

/// A slow and obvious way to find the route.
fn find_slowly<'a>(routes: &'a [Route], host: &str, path: &str) -> Option<&'a str> {
    let host_rank = |route: &Route| {
        let below = |name: &str| host.strip_suffix(name).and_then(|rest| rest.strip_suffix('.'));
        let rank = |pattern: &HostPattern| match pattern {
            HostPattern::Exact(name) => (host == name).then_some((2, 0, 0)),
            HostPattern::Below(name) => below(name).map(|_| (1, name.len(), 0)),
            HostPattern::OneLabelBelow(name) => {
                below(name).filter(|rest| !rest.contains('.')).map(|_| (1, name.len(), 1))
            }
        };
        match route.hosts.is_empty() {
            true => Some((0, 0, 0)),
            false => route.hosts.iter().filter_map(rank).max(),
        }
    };
    let path_rank = |route: &Route| match &route.matches[0].path {
        PathMatch::Exact(wanted) => (path == wanted).then_some((1, wanted.len())),
        PathMatch::Prefix(wanted) => {
            let wanted = wanted.trim_end_matches('/');
            let rest = path.strip_prefix(wanted)?;
            (rest.is_empty() || rest.starts_with('/')).then_some((0, wanted.len()))
        }
    };
    let fitting = routes.iter().enumerate().filter_map(|(order, route)| {
        let (host_kind, host_bytes, one_label) = host_rank(route)?;
        let rank = (host_kind, host_bytes, path_rank(route)?, one_label);
        Some((rank, std::cmp::Reverse((&route.name, order)), route))
    });
    fitting.max_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1))).map(|(_, _, route)| route.name.as_str())
}

proptest! {
    #[test]
    fn precedence_is_as_the_slow_way_says(
        patterns in proptest::collection::vec(("(\\*{1,2}\\.)?[ab](\\.[ab]){0,2}|", "=?(/[ab]){1,3}/?|/"), 1..12),
        host in "[ab](\\.[ab]){0,3}",
        path in "(/[ab]?){1,4}",
    ) {
        let routes: Vec<Route> =
            patterns.iter().enumerate().map(|(n, (host, path))| route(&format!("r{n:02}"), host, path)).collect();
        let table = table(routes.clone());
        prop_assert_eq!(find(&table, &host, &path).ok(), find_slowly(&routes, &host, &path));
    }
}
