"""What a user of Python's dynamic client does with a custom resource: define, apply in turns, watch, delete."""

import json
import sys
import threading

from kubernetes import client, config, dynamic
from kubernetes.dynamic.exceptions import (
    BadRequestError,
    ConflictError,
    NotFoundError,
    ResourceNotFoundError,
    UnprocessibleEntityError,
)

GROUP, NAMESPACE = "orchard.example.com", "default"
config.load_kube_config(sys.argv[1])
resources = dynamic.DynamicClient(client.ApiClient())

SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["sort"],
            "properties": {
                "sort": {"type": "string", "enum": ["apple", "pear"]},
                "height": {"type": "integer", "default": 2},
                "branches": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["side"],
                    "items": {
                        "type": "object",
                        "required": ["side"],
                        "properties": {"side": {"type": "string"}, "fruits": {"type": "integer"}},
                    },
                },
            },
            "x-kubernetes-validations": [
                {"rule": "self.height >= oldSelf.height", "message": "a tree does not shrink"}
            ],
        },
        "status": {"type": "object", "properties": {"ripe": {"type": "boolean"}}},
    },
}


def refused(error, words, call, *arguments, **options):
    try:
        call(*arguments, **options)
    except error as refusal:
        assert words in json.loads(refusal.body)["message"], refusal.body
        return
    raise AssertionError(f"{call} was not refused with {words}")


def tree(name, **spec):
    return {"apiVersion": f"{GROUP}/v1", "kind": "Tree", "metadata": {"name": name}, "spec": spec}


def define():
    definitions = resources.resources.get(api_version="apiextensions.k8s.io/v1", kind="CustomResourceDefinition")
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SCHEMA}}
    version["subresources"] = {"status": {}}
    names = {"plural": "trees", "singular": "tree", "kind": "Tree", "shortNames": ["tr"]}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"trees.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }
    definitions.create(body=definition)
    field = f"metadata.name=trees.{GROUP}"
    for event in definitions.watch(field_selector=field, timeout=30):
        conditions = event["raw_object"].get("status", {}).get("conditions", [])
        if any(c["type"] == "Established" and c["status"] == "True" for c in conditions):
            break
    else:
        raise AssertionError("the definition is not established")
    resources.resources.invalidate_cache()
    return definitions, resources.resources.get(api_version=f"{GROUP}/v1", kind="Tree")


def create_read_update_delete(trees):
    made = trees.create(body=tree("old", sort="apple"), namespace=NAMESPACE)
    assert made.spec.height == 2, made
    assert trees.get(name="old", namespace=NAMESPACE).spec.sort == "apple"
    refused(ConflictError, '"old" already exists', trees.create, body=tree("old", sort="pear"), namespace=NAMESPACE)
    refused(
        UnprocessibleEntityError,
        'spec.sort: Unsupported value: "plum": supported values: "apple", "pear"',
        trees.create,
        body=tree("bad", sort="plum"),
        namespace=NAMESPACE,
    )
    refused(NotFoundError, '"bad" not found', trees.get, name="bad", namespace=NAMESPACE)

    made.spec.height = 3
    assert trees.replace(body=made.to_dict(), namespace=NAMESPACE).metadata.generation == 2
    refused(ConflictError, "the object has been modified", trees.replace, body=made.to_dict(), namespace=NAMESPACE)
    merge = dict(name="old", namespace=NAMESPACE, content_type="application/merge-patch+json")
    refused(
        UnprocessibleEntityError, "a tree does not shrink", trees.patch, body={"spec": {"height": 1}}, **merge
    )
    status = trees.status.patch(body={"status": {"ripe": True}}, **merge)
    assert status.status.ripe and status.metadata.generation == 2, status
    assert [item.metadata.name for item in trees.get(namespace=NAMESPACE).items] == ["old"]
    trees.delete(name="old", namespace=NAMESPACE)
    refused(NotFoundError, '"old" not found', trees.get, name="old", namespace=NAMESPACE)


def watch(trees):
    start = trees.get(namespace=NAMESPACE).metadata.resourceVersion
    seen = []

    def listen():
        for event in trees.watch(namespace=NAMESPACE, resource_version=start, timeout=30):
            seen.append((event["type"], event["object"].metadata.name, event["object"].spec.height))
            if event["type"] == "DELETED":
                return

    listener = threading.Thread(target=listen)
    listener.start()
    trees.create(body=tree("seen", sort="pear"), namespace=NAMESPACE)
    merge = dict(namespace=NAMESPACE, content_type="application/merge-patch+json")
    trees.patch(name="seen", body={"spec": {"height": 5}}, **merge)
    trees.delete(name="seen", namespace=NAMESPACE)
    listener.join(timeout=60)
    assert seen == [("ADDED", "seen", 2), ("MODIFIED", "seen", 5), ("DELETED", "seen", 5)], seen


def apply(trees):
    def by(manager, body, **options):
        return trees.server_side_apply(body=body, namespace=NAMESPACE, field_manager=manager, **options)

    left, right = {"side": "left", "fruits": 3}, {"side": "right", "fruits": 4}
    made = by("gardener", tree("shared", sort="apple", height=4, branches=[left]))
    again = by("gardener", tree("shared", sort="apple", height=4, branches=[left]))
    assert again.metadata.resourceVersion == made.metadata.resourceVersion, "the same changes nothing"

    both = by("picker", tree("shared", branches=[right]))
    assert [branch.to_dict() for branch in both.spec.branches] == [left, right], both
    refused(ConflictError, 'conflict with "gardener": .spec.height', by, "picker", tree("shared", height=6))
    taken = by("picker", tree("shared", height=6, branches=[right]), force_conflicts=True)
    assert taken.spec.height == 6
    owners = {
        entry.manager: sorted(entry.fieldsV1.to_dict()["f:spec"]) for entry in taken.metadata.managedFields
    }
    assert owners == {"gardener": ["f:branches", "f:sort"], "picker": ["f:branches", "f:height"]}, owners

    left_alone = by("picker", tree("shared", height=6))
    assert [branch.to_dict() for branch in left_alone.spec.branches] == [left], left_alone
    refused(BadRequestError, ".spec.smell: field not declared in schema", by, "picker", tree("shared", smell="sweet"))
    refused(UnprocessibleEntityError, "fieldManager: Required value", by, "", tree("shared", sort="apple"))
    tried = by("rehearsal", tree("tried", sort="pear"), dry_run="All")
    assert tried.spec.sort == "pear"
    refused(NotFoundError, '"tried" not found', trees.get, name="tried", namespace=NAMESPACE)


def undefine(definitions, trees):
    start = definitions.get().metadata.resourceVersion
    definitions.delete(name=f"trees.{GROUP}")
    field = f"metadata.name=trees.{GROUP}"
    for event in definitions.watch(field_selector=field, resource_version=start, timeout=30):
        if event["type"] == "DELETED":
            break
    try:
        trees.get(namespace=NAMESPACE)
        raise AssertionError("the objects outlive their definition")
    except NotFoundError:
        pass
    resources.resources.invalidate_cache()
    try:
        resources.resources.get(api_version=f"{GROUP}/v1", kind="Tree")
        raise AssertionError("discovery still has it")
    except ResourceNotFoundError:
        pass


definitions, trees = define()
create_read_update_delete(trees)
watch(trees)
apply(trees)
undefine(definitions, trees)
