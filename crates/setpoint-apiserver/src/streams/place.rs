//! Which container of which Pod a request is about.

use serde_json::Value;

use super::PodRef;
use crate::failure::{Failure, Result};
use setpoint_api::field::Node;

/// The container of a Pod that is meant by this name, or by none; `None` if the Pod is on no node yet.
pub fn find(pod: &Value, container: &str) -> Result<Option<PodRef>> {
    let pod = Node::root(pod);
    let (metadata, spec) = (pod.field("metadata"), pod.field("spec"));
    let name = metadata.field("name").str();
    let container = choose(&spec, name, container)?.to_owned();
    let node = spec.field("nodeName").str();
    let text = |field: &str| metadata.field(field).str().to_owned();
    Ok((!node.is_empty()).then(|| PodRef {
        namespace: text("namespace"),
        name: text("name"),
        uid: text("uid"),
        node: node.to_owned(),
        container,
    }))
}

/// The one that was named, or the only one.
fn choose<'v>(spec: &Node<'v, '_>, pod: &str, container: &str) -> Result<&'v str> {
    let names = |list: &str| -> Vec<&'v str> {
        spec.field(list).items().map(|container| container.field("name").str()).collect()
    };
    let regular = names("containers");
    let all = [names("initContainers"), regular.clone(), names("ephemeralContainers")].concat();
    if !container.is_empty() {
        let not_there = || Failure::bad_request(format!("container {container} is not valid for pod {pod}"));
        return all.into_iter().find(|name| *name == container).ok_or_else(not_there);
    }
    match regular.as_slice() {
        [only] => Ok(only),
        [] => Err(Failure::bad_request(format!("a container name must be specified for pod {pod}"))),
        _ => {
            let all = all.join(" ");
            let message = format!("a container name must be specified for pod {pod}, choose one of: [{all}]");
            Err(Failure::bad_request(message))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(spec: Value) -> Value {
        json!({"metadata": {"name": "web", "namespace": "n", "uid": "u"}, "spec": spec})
    }

    #[test]
    fn a_container_is_named_or_is_the_only_one() {
        let one = json!({"nodeName": "local", "containers": [{"name": "a"}], "initContainers": [{"name": "i"}]});
        let two = json!({"nodeName": "local", "containers": [{"name": "a"}, {"name": "b"}],
            "initContainers": [{"name": "i"}], "ephemeralContainers": [{"name": "e"}]});
        let rows = [
            ("the only one", &one, "", Ok("a")),
            ("by its name", &two, "b", Ok("b")),
            ("an init container", &one, "i", Ok("i")),
            ("an ephemeral container", &two, "e", Ok("e")),
            (
                "one of several",
                &two,
                "",
                Err("a container name must be specified for pod web, choose one of: [i a b e]"),
            ),
            ("one that is not there", &two, "x", Err("container x is not valid for pod web")),
            ("of none", &json!({}), "", Err("a container name must be specified for pod web")),
        ];
        for (row, spec, name, expected) in rows {
            let found = find(&pod(spec.clone()), name);
            let found = found.map(|place| place.map(|place| place.container).unwrap_or_default());
            let found = found.map_err(|failure| (failure.code.as_u16(), failure.message().to_owned()));
            let expected = expected.map(str::to_owned).map_err(|message| (400, message.to_owned()));
            assert_eq!(found, expected, "{row}");
        }
    }

    #[test]
    fn a_pod_is_found_where_it_was_put() {
        let placed = find(&pod(json!({"nodeName": "local", "containers": [{"name": "a"}]})), "");
        let [namespace, name, uid, node, container] = ["n", "web", "u", "local", "a"].map(str::to_owned);
        assert_eq!(placed, Ok(Some(PodRef { namespace, name, uid, node, container })));
        assert_eq!(find(&pod(json!({"containers": [{"name": "a"}]})), ""), Ok(None), "on no node yet");
    }
}
