//! Lists a page at a time.

use std::collections::HashSet;

use serde_json::json;

use crate::fixture::{Answer, Api, METADATA_LIST, TABLE, escaped, names};
use crate::objects::*;

async fn with(count: usize) -> Api {
    let api = Api::new().await;
    for index in 0..count {
        let label = if index % 2 == 0 { "even" } else { "odd" };
        api.post(CONFIG_MAPS, labelled(config_map(&format!("m{index:03}")), "parity", label)).await.expect(201);
    }
    api
}

fn token(page: &Answer) -> Option<String> {
    page["metadata"]["continue"].as_str().map(escaped)
}

/// Every page of a list, with something done between pages.
async fn pages(api: &Api, query: &str, mut between: impl AsyncFnMut(usize)) -> Vec<Answer> {
    let mut pages = vec![api.get(format!("{CONFIG_MAPS}?{query}")).await.expect(200)];
    while let Some(next) = pages.last().and_then(token) {
        between(pages.len()).await;
        pages.push(api.get(format!("{CONFIG_MAPS}?{query}&continue={next}")).await.expect(200));
    }
    pages
}

#[tokio::test]
async fn pages_together_are_the_list() {
    let api = with(10).await;
    for limit in [1, 3, 5, 9, 10, 11] {
        let pages = pages(&api, &format!("limit={limit}"), async |_| {}).await;
        let found: Vec<String> = pages.iter().flat_map(|page| names(&page["items"])).collect();
        assert_eq!(found, api.names(CONFIG_MAPS).await, "limit {limit}");
        assert_eq!(pages.len(), 10_usize.div_ceil(limit), "limit {limit}: no page is empty");
    }
}

#[tokio::test]
async fn a_page_says_how_many_are_left() {
    let api = with(10).await;
    let left: Vec<_> = pages(&api, "limit=4", async |_| {})
        .await
        .iter()
        .map(|page| page["metadata"]["remainingItemCount"].clone())
        .collect();
    assert_eq!(left, [json!(6), json!(2), json!(null)]);
    let selected = api.get(format!("{CONFIG_MAPS}?limit=2&labelSelector=parity")).await.expect(200);
    assert!(token(&selected).is_some());
    assert!(selected["metadata"]["remainingItemCount"].is_null(), "nobody counts what a selector has not looked at");
}

#[tokio::test]
async fn all_pages_are_of_one_moment_whatever_is_written_meanwhile() {
    let api = with(9).await;
    let before = api.names(CONFIG_MAPS).await;
    let writer = api.clone();
    let pages = pages(&api, "limit=2", async |page| {
        writer.post(CONFIG_MAPS, config_map(&format!("m{page:03}-new"))).await.expect(201);
        writer.merge_patch(format!("{CONFIG_MAPS}/m008"), json!({"data": {"colour": page.to_string()}})).await.expect(200);
        writer.delete(format!("{CONFIG_MAPS}/m{:03}", 8 - page)).await.expect(200);
    })
    .await;
    let found: Vec<String> = pages.iter().flat_map(|page| names(&page["items"])).collect();
    assert_eq!(found, before);
    let revisions: HashSet<u64> = pages.iter().map(Answer::revision).collect();
    assert_eq!(revisions.len(), 1, "{revisions:?}");
    let last = pages.last().expect("a list has a page");
    assert_eq!(last["items"][0]["data"]["colour"], "green", "and so are the objects on them");
}

#[tokio::test]
async fn pages_of_a_selection_are_full() {
    let api = with(12).await;
    let query = format!("limit=4&labelSelector={}", escaped("parity=odd"));
    let sizes: Vec<usize> =
        pages(&api, &query, async |_| {}).await.iter().map(|page| names(&page["items"]).len()).collect();
    assert_eq!(sizes, [4, 2]);
}

#[tokio::test]
async fn tables_and_metadata_have_pages_too() {
    let api = with(3).await;
    for (accept, items) in [(TABLE, "rows"), (METADATA_LIST, "items")] {
        let first = api.get(format!("{CONFIG_MAPS}?limit=2")).accept(accept).await.expect(200);
        assert_eq!(first[items].as_array().map(Vec::len), Some(2));
        let next = token(&first).expect("there is a second page");
        let second = api.get(format!("{CONFIG_MAPS}?limit=2&continue={next}")).accept(accept).await.expect(200);
        assert_eq!(second[items].as_array().map(Vec::len), Some(1));
    }
}

#[tokio::test]
async fn a_limit_of_nothing_is_no_limit() {
    let api = with(3).await;
    for limit in ["0", "-1", ""] {
        let list = api.get(format!("{CONFIG_MAPS}?limit={limit}")).await.expect(200);
        assert_eq!(names(&list["items"]).len(), 3, "{limit:?}");
    }
    api.get(format!("{CONFIG_MAPS}?limit=many")).await.refused(400, "BadRequest", &["many"]);
}

#[tokio::test]
async fn a_token_is_taken_only_as_it_was_given() {
    let api = with(3).await;
    let first = api.get(format!("{CONFIG_MAPS}?limit=1")).await.expect(200);
    let next = token(&first).expect("there is a second page");
    let revision = first.revision();
    let both = api.get(format!("{CONFIG_MAPS}?limit=1&continue={next}&resourceVersion={revision}")).await;
    both.refused(400, "BadRequest", &["specifying resource version is not allowed when using continue"]);
    for bad in ["bogus", "e30", "bnVsbA", "%C3%A9"] {
        let answer = api.get(format!("{CONFIG_MAPS}?limit=1&continue={bad}")).await;
        answer.refused(400, "BadRequest", &["invalid continue token"]);
    }
}
