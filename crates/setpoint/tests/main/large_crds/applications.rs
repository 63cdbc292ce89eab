//! Kinds in the style of continuous delivery: what is deployed is generated from generators of generators.

use serde_json::json;

use super::pods::selector;
use super::schema::*;
use super::{Example, Family, Shared, Wrong};

const GROUP: &str = "delivery.example.com";

pub(super) fn family() -> Family {
    let definition = |kind, spec| {
        let versions = vec![version("v1alpha1", spec, object([("resources", list(anything()))]))];
        Definition { group: GROUP, kind, cluster: false, versions }
    };
    Family {
        definitions: vec![
            definition("Application", application()),
            definition("ApplicationSet", application_set()),
            definition("AppProject", project()),
        ],
        fields: 4_000,
        examples: vec![application_example(), set_example(), project_example()],
    }
}

fn source() -> Schema {
    let parameter = object([("name", text()), ("value", text()), ("forceString", boolean())]);
    let helm = object(texts(&["releaseName", "values", "version", "namespace"])).and([
        ("valueFiles", list(text())),
        ("parameters", keyed(&["name"], parameter)),
        ("fileParameters", list(object(texts(&["name", "path"])))),
        ("valuesObject", anything()),
        ("skipCrds", boolean()),
    ]);
    let image = text().pattern(r"^[a-z0-9./:@-]+(=.+)?$");
    let kustomize = object(texts(&["namePrefix", "nameSuffix", "namespace", "version"])).and([
        ("images", list(image)),
        ("commonLabels", map(text())),
        ("replicas", keyed(&["name"], object([("name", text()), ("count", int_or_text())]))),
        (
            "patches",
            list(object(texts(&["patch", "path"])).and([("target", object(texts(&["kind", "name", "group"])))])),
        ),
    ]);
    let variables = || keyed(&["name"], object(texts(&["name", "value"])));
    let plugin = object([("name", text()), ("env", variables()), ("parameters", list(anything()))]);
    let jsonnet = object([("extVars", variables()), ("tlas", variables()), ("libs", list(text()))]);
    let directory = object(texts(&["include", "exclude"])).and([("recurse", boolean()), ("jsonnet", jsonnet)]);
    object([
        ("repoURL", text().longest(1024)),
        ("path", text()),
        ("targetRevision", text().default("HEAD")),
        ("chart", text()),
        ("ref", text()),
        ("helm", helm),
        ("kustomize", kustomize),
        ("plugin", plugin),
        ("directory", directory),
    ])
    .required(&["repoURL"])
}

fn application() -> Schema {
    let backoff = object([("duration", text()), ("factor", integer()), ("maxDuration", text())]);
    let sync = object([
        ("automated", object([("prune", boolean()), ("selfHeal", boolean()), ("allowEmpty", boolean())])),
        ("retry", object([("limit", integer().default(5)), ("backoff", backoff)])),
        ("options", list(text())),
    ]);
    let difference = object(texts(&["group", "kind", "name", "namespace"]))
        .and([("jsonPointers", list(text())), ("managers", list(text()))]);
    object([
        ("project", text().default("default")),
        ("source", source()),
        ("sources", list(source()).at_most(16)),
        ("destination", object(texts(&["server", "name", "namespace"]))),
        ("syncPolicy", sync),
        ("ignoreDifferences", list(difference)),
        ("info", keyed(&["name"], object(texts(&["name", "value"])))),
        ("historyLimit", integer().between(0, 100)),
    ])
    .rule("has(self.source) != has(self.sources)", "an application has a source or sources")
}

fn template() -> Schema {
    let metadata = object(texts(&["name", "namespace"])).and([
        ("labels", map(text())),
        ("annotations", map(text())),
        ("finalizers", list(text())),
    ]);
    object([("metadata", metadata), ("spec", application())])
}

/// A generator, and below it what it generates from. Below the last come generators as they come.
fn generator(depth: usize) -> Schema {
    let common = |schema: Schema| schema.and([("template", template()), ("values", map(text()))]);
    // The whole definition has to be no larger than a stored object may be.
    let above_the_last = |schema: Schema| match depth {
        0 => schema.and([("values", map(text()))]),
        _ => common(schema),
    };
    let elements = common(object([("elements", list(anything())), ("elementsYaml", text())]));
    let clusters = common(object([("selector", selector()), ("flatList", boolean())]));
    let file = object([("path", text()), ("exclude", boolean())]);
    let git = object(texts(&["repoURL", "revision", "pathParamPrefix"])).and([
        ("directories", list(file.clone())),
        ("files", list(file)),
        ("requeueAfterSeconds", integer()),
    ]);
    let token = || object(texts(&["secretName", "key"]));
    let forge = || object(texts(&["api", "owner", "repository", "group"])).and([("token", token())]);
    let pull_request = object([("github", forge()), ("gitlab", forge()), ("gitea", forge())]);
    let mut generator = object([
        ("list", elements),
        ("clusters", clusters),
        ("git", above_the_last(git)),
        ("pullRequest", above_the_last(pull_request)),
        ("selector", selector()),
    ]);
    let below = || if depth == 0 { list(anything()) } else { list(self::generator(depth - 1)) };
    let matrix = object([("generators", below())]).required(&["generators"]);
    let merge = object([("generators", below()), ("mergeKeys", list(text()))]).required(&["generators", "mergeKeys"]);
    generator = generator.and([("matrix", above_the_last(matrix)), ("merge", above_the_last(merge))]);
    generator
}

fn application_set() -> Schema {
    let strategy = object([
        ("type", choice(&["AllAtOnce", "RollingSync"]).default("AllAtOnce")),
        ("steps", list(object([("maxUpdate", int_or_text()), ("matchExpressions", list(anything()))]))),
    ]);
    object([
        ("generators", list(generator(2))),
        ("template", template()),
        ("goTemplate", boolean().default(false)),
        ("strategy", strategy.rule("self.type != 'RollingSync' || has(self.steps)", "a rolling sync has steps")),
    ])
    .required(&["generators", "template"])
}

fn project() -> Schema {
    let kinds = || list(object(texts(&["group", "kind"])).required(&["group", "kind"]));
    let role = object([
        ("name", text().longest(63)),
        ("description", text()),
        ("groups", set(text())),
        ("policies", list(text().pattern("^p, "))),
    ]);
    let window = object([
        ("kind", choice(&["allow", "deny"])),
        ("schedule", text()),
        ("duration", text().format("duration")),
        ("clusters", set(text())),
    ]);
    object([
        ("description", text().longest(255)),
        ("sourceRepos", set(text())),
        ("destinations", list(object(texts(&["server", "name", "namespace"])))),
        ("allowedKinds", kinds()),
        ("deniedKinds", kinds()),
        ("roles", keyed(&["name"], role)),
        ("syncWindows", list(window)),
        ("orphans", object([("warn", boolean()), ("ignore", list(object(texts(&["group", "kind", "name"]))))])),
    ])
}

fn application_example() -> Example {
    let helm = json!({"valuesObject": {"any": {"thing": [1, "two"]}}, "parameters": [{"name": "a", "value": "1"}]});
    Example {
        path: "/apis/delivery.example.com/v1alpha1/namespaces/default/applications",
        kind: "Application",
        spec: json!({
            "source": {"repoURL": "https://git.example.com/shop", "helm": helm}, "syncPolicy": {"retry": {}},
            "info": [{"name": "owner", "value": "shop"}],
        }),
        defaulted: vec![
            ("/spec/project", json!("default")),
            ("/spec/source/targetRevision", json!("HEAD")),
            ("/spec/syncPolicy/retry/limit", json!(5)),
        ],
        wrong: vec![
            Wrong::new(
                "both",
                "/spec/sources",
                json!([{"repoURL": "x"}]),
                "spec: Invalid value: an application has a source or sources",
            ),
            Wrong::new("no address", "/spec/source", json!({"path": "x"}), "spec.source.repoURL: Required value"),
            Wrong::new("too many", "/spec/historyLimit", json!(101), "should be less than or equal to 100"),
            Wrong::new(
                "no image",
                "/spec/source/kustomize",
                json!({"images": ["NO"]}),
                "spec.source.kustomize.images[0]: Invalid value: \"NO\"",
            ),
        ],
        shared: Shared {
            list: "/spec/source/helm/parameters",
            element: json!({"name": "b", "value": "2"}),
            conflicting: json!({"name": "a", "value": "9"}),
            conflict: r#"conflict with "one": .spec.source.helm.parameters[name="a"].value"#,
        },
    }
}

fn set_example() -> Example {
    let template = json!({"metadata": {"name": "x"}, "spec": {"source": {"repoURL": "https://git.example.com/x"}}});
    let inner = json!({"merge": {"mergeKeys": ["server"], "generators": [
        {"clusters": {"values": {"tier": "front"}}}, {"list": {"elements": [{"server": "a", "deep": {"er": 1}}]}},
    ]}});
    let outer = json!({"matrix": {"generators": [{"git": {"repoURL": "r", "template": template}}, inner]}});
    let mut shared = template.clone();
    shared["spec"]["info"] = json!([{"name": "owner", "value": "shop"}]);
    Example {
        path: "/apis/delivery.example.com/v1alpha1/namespaces/default/applicationsets",
        kind: "ApplicationSet",
        spec: json!({"generators": [outer], "template": shared, "strategy": {}}),
        defaulted: vec![
            ("/spec/strategy/type", json!("AllAtOnce")),
            ("/spec/goTemplate", json!(false)),
            ("/spec/template/spec/project", json!("default")),
            ("/spec/generators/0/matrix/generators/0/git/template/spec/source/targetRevision", json!("HEAD")),
        ],
        wrong: vec![
            Wrong::new("no steps", "/spec/strategy/type", json!("RollingSync"), "a rolling sync has steps"),
            Wrong::new(
                "a rule, three generators below",
                "/spec/generators/0/matrix/generators/1/merge/generators/0/clusters/template",
                json!({"spec": {}}),
                "spec.generators[0].matrix.generators[1].merge.generators[0].clusters.template.spec",
            ),
            Wrong::new(
                "a type",
                "/spec/generators/0/git",
                json!({"requeueAfterSeconds": "x"}),
                "must be of type integer",
            ),
        ],
        shared: Shared {
            list: "/spec/template/spec/info",
            element: json!({"name": "url", "value": "u"}),
            conflicting: json!({"name": "owner", "value": "me"}),
            conflict: r#"conflict with "one": .spec.template.spec.info[name="owner"].value"#,
        },
    }
}

fn project_example() -> Example {
    Example {
        path: "/apis/delivery.example.com/v1alpha1/namespaces/default/appprojects",
        kind: "AppProject",
        spec: json!({"sourceRepos": ["*"], "roles": [{"name": "deployer", "description": "deploys"}]}),
        defaulted: vec![],
        wrong: vec![
            Wrong::new("twice", "/spec/sourceRepos", json!(["*", "*"]), "spec.sourceRepos[1]: Duplicate value: \"*\""),
            Wrong::new(
                "two of a name",
                "/spec/roles",
                json!([{"name": "a"}, {"name": "a"}]),
                r#"spec.roles[1]: Duplicate value: {"name":"a"}"#,
            ),
            Wrong::new("a policy", "/spec/roles/0/policies", json!(["x"]), "spec.roles[0].policies[0]: Invalid value"),
        ],
        shared: Shared {
            list: "/spec/roles",
            element: json!({"name": "reader", "groups": ["all"]}),
            conflicting: json!({"name": "deployer", "description": "another"}),
            conflict: r#"conflict with "one": .spec.roles[name="deployer"].description"#,
        },
    }
}
