//! Reaching into an object: types by the schema, names that need escapes, lists that are sets or maps.

use serde_json::{Value as Json, json};

use super::Expect::{Fails, False, Refused, True};
use super::check_rows;

fn schema() -> Json {
    let keyed = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {
        "type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}},
    }});
    let set = json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}});
    json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "int": {"type": "integer"},
        "number": {"type": "number"},
        "text": {"type": "string"},
        "flag": {"type": "boolean"},
        "absent": {"type": "string"},
        "nothing": {"type": "string", "nullable": true},
        "when": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"},
        "wait": {"type": "string", "format": "duration"},
        "raw": {"type": "string", "format": "byte"},
        "port": {"x-kubernetes-int-or-string": true},
        "portName": {"x-kubernetes-int-or-string": true},
        "list": {"type": "array", "items": {"type": "integer"}},
        "nullableItems": {"type": "array", "items": {"type": "string", "nullable": true}},
        "set": set, "setTurned": set, "setOther": set,
        "keyed": keyed, "keyedTurned": keyed,
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "opaque": {"x-kubernetes-preserve-unknown-fields": true},
        "opaques": {"type": "array", "items": {"x-kubernetes-preserve-unknown-fields": true}},
        "namespace": {"type": "string"},
        "foo-bar": {"type": "string"},
        "a.b/c": {"type": "string"},
        "x__y": {"type": "string"},
        "$ref": {"type": "string"},
        "embedded": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
    }}}})
}

fn object() -> Json {
    json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "n", "labels": {"a": "b"}}, "spec": {
        "int": 5, "number": 2, "text": "hi", "flag": true, "nothing": null,
        "when": "2020-01-01T00:00:00Z", "day": "2020-01-01", "wait": "1h30m", "raw": "aGk=",
        "port": 80, "portName": "http", "list": [3, 1, 2], "nullableItems": ["a", null],
        "set": ["a", "b"], "setTurned": ["b", "a"], "setOther": ["a", "c"],
        "keyed": [{"k": "x", "v": 1}, {"k": "y", "v": 2}], "keyedTurned": [{"k": "y", "v": 2}, {"k": "x", "v": 1}],
        "labels": {"app": "web", "a-b": "c"}, "free": {"any": [1]}, "opaque": {"x": 1}, "opaques": [1, "a"],
        "namespace": "ns", "foo-bar": "fb", "a.b/c": "abc", "x__y": "xy", "$ref": "r",
        "embedded": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {}},
    }})
}

#[test]
fn fields_have_the_types_of_the_schema() {
    check_rows(
        &schema(),
        &object(),
        &[
            ("self.spec.int + 1 == 6", True),
            ("self.spec.number == 2.0 && type(self.spec.number) == double", True),
            ("self.spec.text + '!' == 'hi!' && self.spec.flag", True),
            ("self.spec.int == '5'", Refused("found no matching overload for '_==_' applied to '(int, string)'")),
            ("self.spec.when.getFullYear() == 2020 && self.spec.day == self.spec.when", True),
            ("self.spec.wait == duration('90m') && self.spec.wait.getMinutes() == 90", True),
            ("self.spec.raw == b'hi' && string(self.spec.raw) == 'hi'", True),
            ("type(self.spec.port) == int && self.spec.port == 80", True),
            ("type(self.spec.portName) == string && self.spec.portName.startsWith('h')", True),
            ("self.spec.port.startsWith('h')", Fails("no such overload: startsWith(int, string)")),
            ("self.spec.portName + 1 > 0", Fails("no such overload")),
            ("self.spec.list[0] == 3 && self.spec.list.sort() == [1, 2, 3]", True),
            ("self.spec.list == [3, 1, 2] && [3, 1, 2] == self.spec.list", True),
            ("self.spec.list + [4] == [3, 1, 2, 4]", True),
            ("2 in self.spec.list && self.spec.list.size() == 3 && self.spec.list.exists(x, x == 2)", True),
            ("self.spec.list[3] == 0", Fails("index out of bounds: 3")),
            (
                "self.spec.nullableItems[1] == null",
                Refused("found no matching overload for '_==_' applied to '(string, null)'"),
            ),
            ("self.spec.nullableItems.size() == 2 && self.spec.nullableItems[0] == 'a'", True),
            (
                "self.spec.labels['app'] == 'web' && self.spec.labels.app == 'web' && self.spec.labels['a-b'] == 'c'",
                True,
            ),
            ("self.spec.labels.all(k, self.spec.labels[k] != '') && 'app' in self.spec.labels", True),
            ("self.spec.labels == {'app': 'web', 'a-b': 'c'}", True),
            ("has(self.spec.labels.app) && !has(self.spec.labels.nope)", True),
            ("self.spec.labels['nope'] == ''", Fails("no such key: nope")),
            ("type(self) == map && type(self.spec.list) == list", True),
        ],
    );
}

#[test]
fn presence_and_names() {
    check_rows(
        &schema(),
        &object(),
        &[
            ("has(self.spec.int) && !has(self.spec.absent)", True),
            ("has(self.spec.nothing)", False),
            ("self.spec.absent == ''", Fails("no such key: absent")),
            ("self.spec.?absent.orValue('x') == 'x' && self.spec.?int.orValue(0) == 5", True),
            ("self.?spec.int.value() == 5 && !self.?spec.absent.hasValue()", True),
            ("self.spec.__namespace__ == 'ns' && self.spec.foo__dash__bar == 'fb'", True),
            ("self.spec.a__dot__b__slash__c == 'abc' && self.spec.x__underscores__y == 'xy'", True),
            ("self.spec.namespace == 'ns'", True),
            ("has(self.spec.foo__dash__bar)", True),
            ("self.spec.nope == 1", Refused("undefined field 'nope'")),
            ("has(self.spec.nope)", Refused("undefined field 'nope'")),
            ("self.spec.foo__nope__bar == 1", Refused("undefined field 'foo__nope__bar'")),
            ("self.apiVersion == 'g/v1' && self.kind == 'K' && self.metadata.name == 'n'", True),
            ("has(self.metadata.generateName)", False),
            ("self.metadata.labels.a == 'b'", Refused("undefined field 'labels'")),
            ("self.spec.embedded.kind == 'Pod' && self.spec.embedded.metadata.name == 'p'", True),
            ("self.spec.embedded.spec == null", Refused("undefined field 'spec'")),
            ("self.spec.free.any == 1", Refused("undefined field 'any'")),
            ("self.spec.opaque == 1", Refused("undefined field 'opaque'")),
            ("self.spec.opaques.size() == 2", Refused("undefined field 'opaques'")),
            ("self.spec.text.size == 1", Refused("type 'string' does not support field selection")),
            ("nope == 1", Refused("undeclared reference to 'nope' (in container '')")),
            ("self == self && self.spec == self.spec && self.spec.free == self.spec.free", True),
            (
                "self.spec == self.metadata",
                Refused("found no matching overload for '_==_' applied to '(object, object)'"),
            ),
            ("dyn(self.spec).text == 'hi' && dyn(self.spec).foo__dash__bar == 'fb'", True),
            ("dyn(self.spec)['text'] == 'hi'", True),
            (
                "self.spec['text'] == 'hi'",
                Refused("found no matching overload for '_[_]' applied to '(object, string)'"),
            ),
            ("self.spec == null", False),
        ],
    );
}

#[test]
fn sets_and_maps_in_disguise() {
    check_rows(
        &schema(),
        &object(),
        &[
            ("self.spec.set == self.spec.setTurned && self.spec.set != self.spec.setOther", True),
            ("self.spec.set == ['b', 'a']", True),
            ("['b', 'a'] == self.spec.set", False),
            ("self.spec.set + self.spec.setOther == ['a', 'b', 'c']", True),
            ("(self.spec.set + ['d', 'a']).size() == 3", True),
            ("self.spec.keyed == self.spec.keyed", True),
            ("self.spec.keyed.map(e, e.k) == ['x', 'y'] && self.spec.keyedTurned.map(e, e.k) == ['y', 'x']", True),
            ("dyn(self.spec.keyed) == dyn(self.spec.keyedTurned)", True),
            ("(dyn(self.spec.keyed) + dyn(self.spec.keyedTurned)).size() == 2", True),
            ("self.spec.keyed.exists_one(e, e.v == 2)", True),
            ("sets.equivalent(self.spec.set, self.spec.setTurned)", True),
        ],
    );
}
