//! The mark on an object whose guest must not be removed, whoever asks.

use serde_json::Value;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// The label or annotation that protects an object and what it stands for.
pub const PROTECTED: &str = "setpoint.dev/protected";

/// Whether an object is protected, by a label or an annotation. Only `"true"` protects.
pub fn is_protected(metadata: &ObjectMeta) -> bool {
    let marks = [&metadata.labels, &metadata.annotations];
    marks
        .iter()
        .any(|marks| marks.as_ref().is_some_and(|marks| marks.get(PROTECTED).is_some_and(|mark| mark == "true")))
}

/// What protects an object whose metadata is given as JSON: its `label` or its `annotation`.
pub fn mark(metadata: &Value) -> Option<&'static str> {
    let marked =
        |marks: &str| metadata.get(marks).and_then(|marks| marks.get(PROTECTED)).is_some_and(|mark| mark == "true");
    [("labels", "label"), ("annotations", "annotation")]
        .into_iter()
        .find_map(|(marks, word)| marked(marks).then_some(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_protected_by_a_label_or_an_annotation() {
        let marked = |value: &str| Some([(PROTECTED.to_owned(), value.to_owned())].into());
        let rows = [
            ("no mark protects nothing", None, None, false),
            ("a label protects", marked("true"), None, true),
            ("an annotation protects", None, marked("true"), true),
            ("either is enough when the other says no", marked("false"), marked("true"), true),
            ("another word does not protect", marked("yes"), marked("True"), false),
        ];
        for (name, labels, annotations, protected) in rows {
            let metadata = ObjectMeta { labels, annotations, ..ObjectMeta::default() };
            assert_eq!(is_protected(&metadata), protected, "{name}");
            let metadata = serde_json::to_value(metadata).expect("metadata is JSON");
            assert_eq!(mark(&metadata).is_some(), protected, "{name}, as JSON");
        }
    }
}
