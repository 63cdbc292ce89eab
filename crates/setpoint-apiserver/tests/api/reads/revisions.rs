//! Reading the state of a moment.

use serde_json::json;

use crate::fixture::{Api, escaped, names};
use crate::objects::*;

#[tokio::test]
async fn a_list_can_be_read_as_it_was() {
    let api = Api::new().await;
    let first = api.post(CONFIG_MAPS, config_map("a")).await.expect(201).revision();
    api.post(CONFIG_MAPS, config_map("b")).await.expect(201);
    api.delete(format!("{CONFIG_MAPS}/a")).await.expect(200);

    let exact = format!("{CONFIG_MAPS}?resourceVersion={first}&resourceVersionMatch=Exact");
    let then = api.get(&exact).await.expect(200);
    assert_eq!((names(&then["items"]), then.revision()), (vec!["a".to_owned()], first));

    for query in [
        format!("resourceVersion={first}&resourceVersionMatch=NotOlderThan"),
        format!("resourceVersion={first}"),
        "resourceVersion=0".to_owned(),
    ] {
        let now = api.get(format!("{CONFIG_MAPS}?{query}")).await.expect(200);
        assert_eq!(names(&now["items"]), ["b"], "{query}");
        assert!(now.revision() >= first, "{query}");
    }
}

#[tokio::test]
async fn a_page_that_names_a_revision_is_of_exactly_that() {
    let api = Api::new().await;
    for name in ["a", "b", "c"] {
        api.post(CONFIG_MAPS, config_map(name)).await.expect(201);
    }
    let then = api.store.revision();
    api.delete(format!("{CONFIG_MAPS}/a")).await.expect(200);
    let first = api.get(format!("{CONFIG_MAPS}?limit=2&resourceVersion={then}")).await.expect(200);
    assert_eq!((names(&first["items"]), first.revision()), (vec!["a".to_owned(), "b".to_owned()], then));
    let next = escaped(first["metadata"]["continue"].as_str().expect("there is a second page"));
    let second = api.get(format!("{CONFIG_MAPS}?limit=2&continue={next}")).await.expect(200);
    assert_eq!((names(&second["items"]), second.revision()), (vec!["c".to_owned()], then));
}

#[tokio::test]
async fn a_get_is_at_least_as_new_as_asked() {
    let api = Api::new().await;
    let created = api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let path = format!("{CONFIG_MAPS}/a");
    api.merge_patch(&path, json!({"data": {"colour": "red"}})).await.expect(200);
    for revision in [0, created.revision(), api.store.revision()] {
        let read = api.get(format!("{path}?resourceVersion={revision}")).await.expect(200);
        assert_eq!(read["data"]["colour"], "red", "{revision}");
    }
}

#[tokio::test]
async fn the_future_has_not_happened() {
    let api = Api::new().await;
    let future = api.store.revision() + 1000;
    for path in [
        format!("{CONFIG_MAPS}?resourceVersion={future}"),
        format!("{CONFIG_MAPS}?resourceVersion={future}&resourceVersionMatch=Exact"),
        format!("{CONFIG_MAPS}?resourceVersion={future}&resourceVersionMatch=NotOlderThan"),
        format!("{NAMESPACES}/default?resourceVersion={future}"),
    ] {
        let answer = api.get(&path).await.refused(504, "Timeout", &["Too large resource version"]);
        assert_eq!(answer["details"]["causes"][0]["reason"], "ResourceVersionTooLarge", "{path}");
        assert_eq!(answer.header("retry-after"), "1", "{path}");
    }
}

#[tokio::test]
async fn what_was_forgotten_is_gone() {
    let api = Api::forgetting_after(8).await;
    for index in 0..4 {
        api.post(CONFIG_MAPS, config_map(&format!("m{index}"))).await.expect(201);
    }
    let first = api.get(format!("{CONFIG_MAPS}?limit=1")).await.expect(200);
    for round in 0..40 {
        let patch = json!({"data": {"colour": round.to_string()}});
        api.merge_patch(format!("{CONFIG_MAPS}/m0"), patch).await.expect(200);
    }
    let old = first.revision();
    let exact = api.get(format!("{CONFIG_MAPS}?resourceVersion={old}&resourceVersionMatch=Exact")).await;
    exact.refused(410, "Expired", &["too old"]);
    let next = escaped(first["metadata"]["continue"].as_str().expect("there is a second page"));
    let page = api.get(format!("{CONFIG_MAPS}?limit=1&continue={next}")).await;
    page.refused(410, "Expired", &["continue parameter is too old"]);
    let newer = api.get(format!("{CONFIG_MAPS}?resourceVersion={old}&resourceVersionMatch=NotOlderThan")).await;
    assert_eq!(names(&newer.expect(200)["items"]).len(), 4, "what need not be old is still read");
}

#[tokio::test]
async fn revisions_and_their_matches_are_checked() {
    let api = Api::new().await;
    let rows = [
        ("a word", "resourceVersion=soon", 400, "soon"),
        ("below nothing", "resourceVersion=-1", 400, "-1"),
        ("a match of nothing", "resourceVersionMatch=Exact", 422, "unless resourceVersion is provided"),
        (
            "exactly anything",
            "resourceVersion=0&resourceVersionMatch=Exact",
            422,
            "forbidden for resourceVersion \"0\"",
        ),
        ("an unknown match", "resourceVersion=1&resourceVersionMatch=Roughly", 422, "Roughly"),
        (
            "a match of a page",
            "resourceVersion=1&resourceVersionMatch=Exact&continue=x",
            422,
            "when continue is provided",
        ),
        ("a watch of a moment", "watch=1&resourceVersion=1&resourceVersionMatch=Exact", 422, "forbidden for watch"),
        ("what only a watch has", "sendInitialEvents=true", 422, "sendInitialEvents is forbidden for list"),
    ];
    for (row, query, status, words) in rows {
        let answer = api.get(format!("{CONFIG_MAPS}?{query}")).await;
        assert_eq!(answer.status, status, "{row}: {}", answer.text());
        assert!(answer.message().contains(words), "{row}: {}", answer.message());
    }
}
