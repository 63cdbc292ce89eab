//! Who is let in.

use serde_json::json;

use crate::fixture::{Api, TOKEN};
use crate::objects::*;

#[tokio::test]
async fn nobody_unknown_is_let_in() {
    let api = Api::new().await;
    for path in [CONFIG_MAPS, "/api", "/apis", "/version", "/metrics", "/openapi/v3", "/nowhere"] {
        let answer = api.get(path).anonymous().await.refused(401, "Unauthorized", &["Unauthorized"]);
        assert_eq!(answer["status"], "Failure", "{path}");
        api.get(path).token("guess").await.refused(401, "Unauthorized", &[]);
    }
    api.post(CONFIG_MAPS, config_map("a")).anonymous().await.refused(401, "Unauthorized", &[]);
    assert!(api.names(CONFIG_MAPS).await.is_empty());
}

#[tokio::test]
async fn a_token_lets_its_bearer_in() {
    let api = Api::new().await;
    let created = api.post(CONFIG_MAPS, config_map("a")).token(TOKEN).await.expect(201);
    assert_eq!(created["data"], json!({"colour": "green"}));
}

#[tokio::test]
async fn a_connection_whose_request_was_not_read_is_closed() {
    let api = Api::new().await;
    let unread = api.post(CONFIG_MAPS, config_map("a")).anonymous().await.expect(401);
    assert_eq!(unread.header("connection"), "close");
    let read = api.post(CONFIG_MAPS, config_map("Bad_Name")).await.expect(422);
    assert_eq!(read.header("connection"), "");
    let multiplexed = api.post(CONFIG_MAPS, config_map("a")).version(http::Version::HTTP_2).anonymous().await;
    assert_eq!(multiplexed.expect(401).header("connection"), "", "HTTP/2 has no such header");
}
