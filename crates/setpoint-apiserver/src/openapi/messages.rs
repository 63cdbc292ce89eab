//! The messages of OpenAPI documents, as the packages `openapi.v2` and `openapi.v3` of gnostic number their fields. What
//! no document of this server has is left out.

use serde_json::Value;

use super::protobuf::Form::{Any, Boolean, Double, Each, Either, Entries, Integer, Message as Nested, Text, Within};
use super::protobuf::{Form, Message};

/// OpenAPI 2: the head of a document, and what stands in its paths and definitions.
pub(super) mod v2 {
    use super::*;

    pub(crate) static DOCUMENT: Message =
        Message { fields: &[("swagger", 1, Text), ("info", 2, Nested(&INFO))], extensions: 16 };

    static INFO: Message = Message { fields: &[("title", 1, Text), ("version", 2, Text)], extensions: 7 };

    pub(crate) static PATH_ITEM: Message = Message {
        fields: &[
            ("get", 2, Nested(&OPERATION)),
            ("put", 3, Nested(&OPERATION)),
            ("post", 4, Nested(&OPERATION)),
            ("delete", 5, Nested(&OPERATION)),
            ("patch", 8, Nested(&OPERATION)),
            ("parameters", 9, Each(&Either(parameter))),
        ],
        extensions: 10,
    };

    static OPERATION: Message = Message {
        fields: &[
            ("tags", 1, Each(&Text)),
            ("description", 3, Text),
            ("operationId", 5, Text),
            ("produces", 6, Each(&Text)),
            ("consumes", 7, Each(&Text)),
            ("parameters", 8, Each(&Either(parameter))),
            ("responses", 9, Entries(1, &Within(1, &Nested(&RESPONSE)))),
            ("schemes", 10, Each(&Text)),
        ],
        extensions: 13,
    };

    static RESPONSE: Message =
        Message { fields: &[("description", 1, Text), ("schema", 2, Within(1, &Nested(&SCHEMA)))], extensions: 5 };

    // A parameter is, one within the other, no reference; in the body or not; in the query or in the path.
    static IN_BODY: Form = Within(1, &Within(1, &Nested(&BODY_PARAMETER)));
    static IN_PATH: Form = Within(1, &Within(2, &Within(4, &Nested(&PATH_PARAMETER))));
    static IN_QUERY: Form = Within(1, &Within(2, &Within(3, &Nested(&QUERY_PARAMETER))));

    fn parameter(parameter: &Value) -> &'static Form {
        match parameter["in"].as_str() {
            Some("body") => &IN_BODY,
            Some("path") => &IN_PATH,
            _ => &IN_QUERY,
        }
    }

    static BODY_PARAMETER: Message = Message {
        fields: &[
            ("description", 1, Text),
            ("name", 2, Text),
            ("in", 3, Text),
            ("required", 4, Boolean),
            ("schema", 5, Nested(&SCHEMA)),
        ],
        extensions: 6,
    };

    static PATH_PARAMETER: Message = Message {
        fields: &[
            ("required", 1, Boolean),
            ("in", 2, Text),
            ("description", 3, Text),
            ("name", 4, Text),
            ("type", 5, Text),
            ("uniqueItems", 19, Boolean),
        ],
        extensions: 22,
    };

    static QUERY_PARAMETER: Message = Message {
        fields: &[
            ("required", 1, Boolean),
            ("in", 2, Text),
            ("description", 3, Text),
            ("name", 4, Text),
            ("type", 6, Text),
            ("uniqueItems", 20, Boolean),
        ],
        extensions: 23,
    };

    pub(crate) static SCHEMA: Message = Message {
        fields: &[
            ("$ref", 1, Text),
            ("format", 2, Text),
            ("title", 3, Text),
            ("description", 4, Text),
            ("default", 5, Any),
            ("multipleOf", 6, Double),
            ("maximum", 7, Double),
            ("exclusiveMaximum", 8, Boolean),
            ("minimum", 9, Double),
            ("exclusiveMinimum", 10, Boolean),
            ("maxLength", 11, Integer),
            ("minLength", 12, Integer),
            ("pattern", 13, Text),
            ("maxItems", 14, Integer),
            ("minItems", 15, Integer),
            ("uniqueItems", 16, Boolean),
            ("maxProperties", 17, Integer),
            ("minProperties", 18, Integer),
            ("required", 19, Each(&Text)),
            ("enum", 20, Each(&Any)),
            ("additionalProperties", 21, Either(additional)),
            ("type", 22, Within(1, &Text)),
            ("items", 23, Within(1, &Nested(&SCHEMA))),
            ("properties", 25, Entries(1, &Nested(&SCHEMA))),
            ("externalDocs", 29, Nested(&EXTERNAL_DOCS)),
            ("example", 30, Any),
        ],
        extensions: 31,
    };

    static ADDITIONAL: Form = Within(1, &Nested(&SCHEMA));

    fn additional(value: &Value) -> &'static Form {
        if value.is_boolean() { &ADDITIONAL_TRUTH } else { &ADDITIONAL }
    }
}

/// OpenAPI 3: a whole document.
pub(super) mod v3 {
    use super::*;

    pub(crate) static DOCUMENT: Message = Message {
        fields: &[
            ("openapi", 1, Text),
            ("info", 2, Nested(&INFO)),
            ("paths", 4, Entries(1, &Nested(&PATH_ITEM))),
            ("components", 5, Nested(&COMPONENTS)),
        ],
        extensions: 9,
    };

    static INFO: Message = Message { fields: &[("title", 1, Text), ("version", 6, Text)], extensions: 7 };

    static COMPONENTS: Message = Message { fields: &[("schemas", 1, Entries(1, &Either(schema)))], extensions: 10 };

    static PATH_ITEM: Message = Message {
        fields: &[
            ("get", 4, Nested(&OPERATION)),
            ("put", 5, Nested(&OPERATION)),
            ("post", 6, Nested(&OPERATION)),
            ("delete", 7, Nested(&OPERATION)),
            ("patch", 10, Nested(&OPERATION)),
            ("parameters", 13, Each(&Within(1, &Nested(&PARAMETER)))),
        ],
        extensions: 14,
    };

    static OPERATION: Message = Message {
        fields: &[
            ("tags", 1, Each(&Text)),
            ("description", 3, Text),
            ("operationId", 5, Text),
            ("parameters", 6, Each(&Within(1, &Nested(&PARAMETER)))),
            ("requestBody", 7, Within(1, &Nested(&REQUEST_BODY))),
            ("responses", 8, Entries(2, &Within(1, &Nested(&RESPONSE)))),
        ],
        extensions: 13,
    };

    static PARAMETER: Message = Message {
        fields: &[
            ("name", 1, Text),
            ("in", 2, Text),
            ("description", 3, Text),
            ("required", 4, Boolean),
            ("schema", 10, Either(schema)),
        ],
        extensions: 14,
    };

    static REQUEST_BODY: Message = Message {
        fields: &[("content", 2, Entries(1, &Nested(&MEDIA_TYPE))), ("required", 3, Boolean)],
        extensions: 4,
    };

    static RESPONSE: Message = Message {
        fields: &[("description", 1, Text), ("content", 3, Entries(1, &Nested(&MEDIA_TYPE)))],
        extensions: 5,
    };

    static MEDIA_TYPE: Message = Message { fields: &[("schema", 1, Either(schema))], extensions: 5 };

    static REFERENCE: Message = Message { fields: &[("$ref", 1, Text), ("description", 3, Text)], extensions: 0 };

    static SCHEMA: Message = Message {
        fields: &[
            ("nullable", 1, Boolean),
            ("externalDocs", 6, Nested(&EXTERNAL_DOCS)),
            ("example", 7, Any),
            ("title", 9, Text),
            ("multipleOf", 10, Double),
            ("maximum", 11, Double),
            ("exclusiveMaximum", 12, Boolean),
            ("minimum", 13, Double),
            ("exclusiveMinimum", 14, Boolean),
            ("maxLength", 15, Integer),
            ("minLength", 16, Integer),
            ("pattern", 17, Text),
            ("maxItems", 18, Integer),
            ("minItems", 19, Integer),
            ("uniqueItems", 20, Boolean),
            ("maxProperties", 21, Integer),
            ("minProperties", 22, Integer),
            ("required", 23, Each(&Text)),
            ("enum", 24, Each(&Any)),
            ("type", 25, Text),
            ("allOf", 26, Each(&Either(schema))),
            ("oneOf", 27, Each(&Either(schema))),
            ("anyOf", 28, Each(&Either(schema))),
            ("not", 29, Nested(&SCHEMA)),
            ("items", 30, Within(1, &Either(schema))),
            ("properties", 31, Entries(1, &Either(schema))),
            ("additionalProperties", 32, Either(additional)),
            ("default", 33, Either(default)),
            ("description", 34, Text),
            ("format", 35, Text),
        ],
        extensions: 36,
    };

    static WHOLE: Form = Within(1, &Nested(&SCHEMA));
    static REFERRED: Form = Within(2, &Nested(&REFERENCE));

    fn schema(value: &Value) -> &'static Form {
        if value.get("$ref").is_some() { &REFERRED } else { &WHOLE }
    }

    static ADDITIONAL: Form = Within(1, &Either(schema));

    fn additional(value: &Value) -> &'static Form {
        if value.is_boolean() { &ADDITIONAL_TRUTH } else { &ADDITIONAL }
    }

    /// The message has no place for a default that is an object or a list.
    fn default(value: &Value) -> &'static Form {
        match value {
            Value::Number(_) => &Within(1, &Double),
            Value::Bool(_) => &Within(2, &Boolean),
            _ => &Within(3, &Text),
        }
    }
}

static ADDITIONAL_TRUTH: Form = Within(2, &Boolean);

static EXTERNAL_DOCS: Message = Message { fields: &[("description", 1, Text), ("url", 2, Text)], extensions: 3 };
