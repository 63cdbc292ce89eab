"""What a user of the Python client does: list, watch and resume, patch, delete a collection."""

import sys

from kubernetes import client, config, dynamic, watch
from kubernetes.client.exceptions import ApiException

NAMESPACE = "python"
config.load_kube_config(sys.argv[1])
core, apps = client.CoreV1Api(), client.AppsV1Api()


def config_map(name, **data):
    metadata = client.V1ObjectMeta(name=name, labels={"from": "python"})
    return client.V1ConfigMap(metadata=metadata, data=data)


def refused(code, reason, call, *arguments, **options):
    try:
        call(*arguments, **options)
    except ApiException as error:
        assert error.status == code, error
        assert f'"reason":"{reason}"' in error.body.replace(" ", ""), error.body
        return
    raise AssertionError(f"{call} was not refused")


def create_and_list():
    core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=NAMESPACE)))
    for number in range(7):
        created = core.create_namespaced_config_map(NAMESPACE, config_map(f"map-{number}", number=str(number)))
        assert created.metadata.uid and created.metadata.resource_version
    refused(409, "AlreadyExists", core.create_namespaced_config_map, NAMESPACE, config_map("map-1"))
    refused(404, "NotFound", core.read_namespaced_config_map, "missing", NAMESPACE)

    names, token = [], None
    while True:
        page = core.list_namespaced_config_map(NAMESPACE, label_selector="from=python", limit=3, _continue=token)
        names += [item.metadata.name for item in page.items]
        token = page.metadata._continue
        if not token:
            break
    assert names == [f"map-{number}" for number in range(7)], names


def watch_and_resume():
    start = core.list_namespaced_config_map(NAMESPACE).metadata.resource_version
    for step in ("one", "two", "three"):
        core.patch_namespaced_config_map("map-0", NAMESPACE, {"data": {"step": step}})
    core.delete_namespaced_config_map("map-6", NAMESPACE)

    def events(revision, count):
        watcher, seen = watch.Watch(), []
        options = dict(resource_version=revision, timeout_seconds=30)
        for event in watcher.stream(core.list_namespaced_config_map, NAMESPACE, **options):
            data = event["object"].data or {}
            seen.append((event["type"], event["object"].metadata.name, data.get("step")))
            revision = event["object"].metadata.resource_version
            if len(seen) == count:
                watcher.stop()
        return seen, revision

    first, reached = events(start, 2)
    assert first == [("MODIFIED", "map-0", "one"), ("MODIFIED", "map-0", "two")], first
    rest, _ = events(reached, 2)
    assert rest == [("MODIFIED", "map-0", "three"), ("DELETED", "map-6", None)], rest


def patch():
    labels = {"app": "web"}
    container = client.V1Container(name="web", image="web:1", env=[client.V1EnvVar(name="A", value="1")])
    template = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels=labels), spec=client.V1PodSpec(containers=[container])
    )
    spec = client.V1DeploymentSpec(selector=client.V1LabelSelector(match_labels=labels), template=template)
    apps.create_namespaced_deployment(
        NAMESPACE, client.V1Deployment(metadata=client.V1ObjectMeta(name="web"), spec=spec)
    )

    # The client's default is a strategic merge patch: containers and variables are merged by name.
    change = {"spec": {"template": {"spec": {"containers": [{"name": "web", "env": [{"name": "B", "value": "2"}]}]}}}}
    merged = apps.patch_namespaced_deployment("web", NAMESPACE, change)
    (merged_container,) = merged.spec.template.spec.containers
    assert merged_container.image == "web:1"
    assert sorted(variable.name for variable in merged_container.env) == ["A", "B"]
    assert merged.metadata.generation == 2

    operations = [{"op": "replace", "path": "/spec/replicas", "value": 3}]
    assert apps.patch_namespaced_deployment("web", NAMESPACE, operations).spec.replicas == 3

    scale = apps.patch_namespaced_deployment_scale("web", NAMESPACE, {"spec": {"replicas": 5}})
    assert scale.spec.replicas == 5
    assert apps.read_namespaced_deployment("web", NAMESPACE).spec.replicas == 5

    stale = apps.read_namespaced_deployment("web", NAMESPACE)
    apps.patch_namespaced_deployment("web", NAMESPACE, {"metadata": {"labels": {"a": "b"}}})
    stale.spec.replicas = 1
    refused(409, "Conflict", apps.replace_namespaced_deployment, "web", NAMESPACE, stale)


def use_dynamic_client():
    resources = dynamic.DynamicClient(client.ApiClient())
    maps = resources.resources.get(api_version="v1", kind="ConfigMap")
    assert maps.get(name="map-1", namespace=NAMESPACE).data.number == "1"


def delete_collection():
    core.delete_collection_namespaced_config_map(NAMESPACE, label_selector="from=python", field_selector="metadata.name!=map-3")
    assert [item.metadata.name for item in core.list_namespaced_config_map(NAMESPACE, label_selector="from=python").items] == ["map-3"]
    core.delete_collection_namespaced_config_map(NAMESPACE)
    left = core.list_namespaced_config_map(NAMESPACE, label_selector="from=python").items
    assert left == [], left


create_and_list()
watch_and_resume()
patch()
use_dynamic_client()
delete_collection()
