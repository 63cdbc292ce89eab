//! kubectl reads what the server says of its kinds: it explains them, validates by them and merges by them.

use std::fs;
use std::path::PathBuf;
use std::process::Output;

use anyhow::{Context as _, Result, ensure};
use setpoint_testkit::kubectl::Version;
use setpoint_testkit::{Kubectl, Server};

use crate::SETPOINT;

/// The first kubectl that explains by OpenAPI 3, unless told otherwise.
const EXPLAINS_BY_V3: Version = Version { major: 1, minor: 27 };

const WIDGETS: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        description: A widget turns.
        properties:
          spec:
            type: object
            required: [size]
            properties:
              size: {type: integer, default: 1, description: How large it is.}
              port: {x-kubernetes-int-or-string: true}
              note: {type: string, nullable: true}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true}
              inner: {type: object, x-kubernetes-embedded-resource: true, properties: {teeth: {type: integer}}}
              parts: {type: array, items: {type: object, properties: {material: {type: string}}}}
"#;

const WIDGET: &str = r#"
apiVersion: example.com/v1
kind: Widget
metadata: {name: one}
spec: {size: 3, port: http, note: null, free: {any: [1]}, inner: {apiVersion: v1, kind: Gear, teeth: 9}}
"#;

const DEPLOYMENT: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: main, image: "registry.example/web:1", ports: [{containerPort: 80}]}
      - {name: side, image: "registry.example/side:1"}
"#;

/// A kubectl with a server, and files for it.
struct Session {
    server: Server,
    kubectl: Kubectl,
}

impl Session {
    async fn new(kubectl: Kubectl) -> Result<Session> {
        println!("kubectl is {}", kubectl.version);
        let server = Server::start_with(SETPOINT, &["--store", "memory"]).await?;
        Ok(Session { server, kubectl })
    }

    fn run(&self, arguments: &[&str]) -> Result<Output> {
        self.kubectl.run(&self.server.kubeconfig_path(), &self.server.folder().join("home"), arguments)
    }

    /// What a command prints that succeeds.
    fn output(&self, arguments: &[&str]) -> Result<String> {
        let output = self.run(arguments)?;
        ensure!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    }

    fn file(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.server.folder().join(name);
        fs::write(&path, text)?;
        Ok(path)
    }

    /// What `kubectl apply` says of this, and whether it succeeds.
    fn apply(&self, text: &str, options: &[&str]) -> Result<(bool, String)> {
        let file = self.file("applied.yaml", text)?;
        let arguments = [&["apply", "-f", file.to_str().context("a path of text")?], options].concat();
        let output = self.run(&arguments)?;
        let said = [output.stderr, output.stdout].concat();
        Ok((output.status.success(), String::from_utf8(said)?.trim().to_owned()))
    }
}

#[tokio::test]
async fn every_kind_is_explained() -> Result<()> {
    let session = Session::new(Kubectl::newest()?).await?;
    ensure!(session.apply(WIDGETS, &[])?.0);
    let served = session.output(&["api-resources", "--no-headers"])?;
    let resources: Vec<(&str, &str)> = served.lines().filter_map(name_and_version).collect();
    assert!(resources.len() > 15 && resources.contains(&("widgets", "example.com/v1")), "{served}");
    let mut forms: Vec<&[&str]> = vec![&[]];
    if session.kubectl.version >= EXPLAINS_BY_V3 {
        forms.push(&["--output=plaintext-openapiv2"]);
    }
    for (resource, version) in resources {
        let version = format!("--api-version={version}");
        for form in &forms {
            let said = session.output(&[&["explain", resource, &version, "--recursive"], *form].concat())?;
            for field in ["apiVersion", "kind", "metadata", "ownerReferences", "resourceVersion"] {
                assert!(said.contains(&format!("{field}\t<")), "{resource} {version} {form:?}: no {field} in\n{said}");
            }
        }
    }
    Ok(())
}

/// Of a line of `kubectl api-resources`, whose second column may be empty.
fn name_and_version(line: &str) -> Option<(&str, &str)> {
    let columns: Vec<&str> = line.split_whitespace().collect();
    Some((columns.first()?, columns.get(columns.len().checked_sub(3)?)?))
}

#[tokio::test]
async fn explanations_have_the_fields_of_a_kind() -> Result<()> {
    for kubectl in [Kubectl::newest()?, Kubectl::oldest()?] {
        let session = Session::new(kubectl).await?;
        ensure!(session.apply(WIDGETS, &[])?.0);
        let rows: [(&str, &[&str]); 5] = [
            ("pods.spec.containers", &["configMapKeyRef\t<", "containerPort\t<integer>", "imagePullPolicy\t<string>"]),
            ("deployments", &["maxUnavailable\t<", "matchLabels\t<map[string]string>", "tolerations\t<[]"]),
            ("customresourcedefinitions.spec.versions", &["openAPIV3Schema\t<", "jsonPath\t<string>"]),
            ("widgets", &["size\t<integer>", "material\t<string>", "teeth\t<integer>", "free\t<", "port\t<"]),
            ("widgets.spec.inner", &["teeth\t<integer>", "finalizers\t<[]string>"]),
        ];
        for (path, fields) in rows {
            let said = session.output(&["explain", path, "--recursive"])?;
            for field in fields {
                assert!(said.contains(field), "{path}: no {field:?} in\n{said}");
            }
        }
        assert!(session.output(&["explain", "widgets"])?.contains("A widget turns."));
        assert!(session.output(&["explain", "widgets.spec.size"])?.contains("How large it is."));
        let unknown = session.run(&["explain", "widgets.spec.colour"])?;
        assert!(!unknown.status.success() && String::from_utf8(unknown.stderr)?.contains("colour"));
    }
    Ok(())
}

#[tokio::test]
async fn the_oldest_kubectl_validates_and_merges() -> Result<()> {
    let session = Session::new(Kubectl::oldest()?).await?;
    let changed = DEPLOYMENT.replace("side:1", "side:2");
    let rows = [
        ("a definition", WIDGETS, "customresourcedefinition.apiextensions.k8s.io/widgets.example.com created"),
        ("the same", WIDGETS, "customresourcedefinition.apiextensions.k8s.io/widgets.example.com unchanged"),
        ("a custom object", WIDGET, "widget.example.com/one created"),
        ("the same", WIDGET, "widget.example.com/one unchanged"),
        ("a Deployment", DEPLOYMENT, "deployment.apps/web created"),
        ("the same", DEPLOYMENT, "deployment.apps/web unchanged"),
        ("another image", &changed, "deployment.apps/web configured"),
    ];
    for (row, text, expected) in rows {
        assert_eq!(session.apply(text, &[])?, (true, expected.to_owned()), "{row}");
    }
    let containers = "jsonpath={.spec.template.spec.containers[*].image}";
    let images = session.output(&["get", "deployment/web", "-o", containers])?;
    assert_eq!(images, "registry.example/web:1 registry.example/side:2", "containers are merged by name");

    let refused = [
        ("of a built-in kind", DEPLOYMENT.replace("  selector:", "  sellector: {}\n  selector:")),
        ("of a custom kind", WIDGET.replace("size: 3", "sellector: 3")),
    ];
    for (row, text) in refused {
        let (success, said) = session.apply(&text, &[])?;
        assert!(!success && said.contains("unknown field") && said.contains("sellector"), "{row}: {said}");
    }
    Ok(())
}

#[tokio::test]
async fn kubectl_refuses_or_tells_unknown_fields_as_asked() -> Result<()> {
    let kubectl = Kubectl::newest()?;
    if kubectl.version < EXPLAINS_BY_V3 {
        println!("NOTE: kubectl {} validates by itself and cannot be told how", kubectl.version);
        return Ok(());
    }
    let session = Session::new(kubectl).await?;
    ensure!(session.apply(WIDGETS, &[])?.0);
    let settings = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: odd}\ndataa: {a: b}\n";
    let widget = WIDGET.replace("name: one", "name: odd").replace("size: 3", "size: 1, nope: 2") + "other: 1\n";
    let widget = widget.as_str();
    let strict = "cannot be handled as a";
    let rows = [
        ("strict", settings, false, vec![strict, r#"ConfigMap: strict decoding error: unknown field "dataa""#]),
        (
            "strict",
            widget,
            false,
            vec![strict, r#"strict decoding error: unknown field "other", unknown field "spec.nope""#],
        ),
        ("warn", settings, true, vec![r#"Warning: unknown field "dataa""#, "configmap/odd created"]),
        (
            "warn",
            widget,
            true,
            vec![
                r#"Warning: unknown field "other""#,
                r#"Warning: unknown field "spec.nope""#,
                "widget.example.com/odd created",
            ],
        ),
    ];
    for (mode, text, success, words) in rows {
        let (succeeded, said) = session.apply(text, &[&format!("--validate={mode}")])?;
        assert_eq!(succeeded, success, "{mode}: {said}");
        for word in words {
            assert!(said.contains(word), "{mode}: no {word:?} in {said}");
        }
    }
    for (text, kind) in [(settings, "configmap"), (widget, "widget.example.com")] {
        let other = text.replace("name: odd", "name: quiet");
        assert_eq!(session.apply(&other, &["--validate=ignore"])?, (true, format!("{kind}/quiet created")));
        let (success, said) = session.apply(text, &["--validate=ignore", "--server-side", "--force-conflicts"])?;
        assert!(!success && said.contains("field not declared in schema"), "an applier says what it knows: {said}");
    }
    Ok(())
}
