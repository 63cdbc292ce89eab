//! Named formats: `format.dns1123Label().validate(text)`.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use setpoint_api::names;

use crate::cel::function::{Function, global, member};
use crate::cel::time;
use crate::cel::value::{Fault, Value};

use super::url::Url;

/// A format and the rule that says what is wrong with a text.
pub(in crate::cel) struct Format {
    name: &'static str,
    problems: fn(&str) -> Vec<String>,
}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

static FORMATS: [Format; 13] = [
    Format { name: "dns1123Label", problems: names::dns1123_label },
    Format { name: "dns1123Subdomain", problems: names::dns1123_subdomain },
    Format { name: "dns1035Label", problems: dns1035_label },
    Format { name: "qualifiedName", problems: names::qualified_name },
    Format { name: "dns1123LabelPrefix", problems: |text| names::object_name(names::dns1123_label, text, true) },
    Format {
        name: "dns1123SubdomainPrefix",
        problems: |text| names::object_name(names::dns1123_subdomain, text, true),
    },
    Format { name: "dns1035LabelPrefix", problems: |text| names::object_name(dns1035_label, text, true) },
    Format { name: "labelValue", problems: names::label_value },
    Format { name: "uri", problems: |text| Url::parse_request(text).err().into_iter().collect() },
    Format { name: "uuid", problems: |text| unless(is_uuid(text), "does not match the UUID format") },
    Format {
        name: "byte",
        problems: |text| unless(!text.is_empty() && STANDARD.decode(text).is_ok(), "invalid base64"),
    },
    Format { name: "date", problems: |text| unless(time::date(text).is_some(), "invalid date") },
    Format { name: "datetime", problems: |text| unless(time::timestamp(text).is_ok(), "invalid datetime") },
];

fn unless(good: bool, problem: &str) -> Vec<String> {
    if good { Vec::new() } else { vec![problem.to_owned()] }
}

fn dns1035_label(text: &str) -> Vec<String> {
    let mut problems = unless(text.len() <= 63, "must be no more than 63 characters");
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let good = text.starts_with(|c: char| c.is_ascii_lowercase()) && !text.ends_with('-') && text.bytes().all(inner);
    problems.extend(unless(
        good,
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
         character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation \
         is '[a-z]([-a-z0-9]*[a-z0-9])?')",
    ));
    problems
}

/// 32 hexadecimal digits, in groups of 8, 4, 4, 4 and 12 that dashes may part.
fn is_uuid(text: &str) -> bool {
    let mut digits = 0;
    let mut after_dash = true;
    for byte in text.bytes() {
        match byte {
            b'-' if !after_dash && [8, 12, 16, 20].contains(&digits) => after_dash = true,
            _ if byte.is_ascii_hexdigit() => {
                digits += 1;
                after_dash = false;
            }
            _ => return false,
        }
    }
    digits == 32 && !after_dash
}

macro_rules! constant {
    ($place:literal, $name:literal) => {
        global($name, &["() -> kubernetes.NamedFormat"], |_, _| Ok(Value::Format(&FORMATS[$place])))
    };
}

pub(super) const FUNCTIONS: &[Function] = &[
    constant!(0, "format.dns1123Label"),
    constant!(1, "format.dns1123Subdomain"),
    constant!(2, "format.dns1035Label"),
    constant!(3, "format.qualifiedName"),
    constant!(4, "format.dns1123LabelPrefix"),
    constant!(5, "format.dns1123SubdomainPrefix"),
    constant!(6, "format.dns1035LabelPrefix"),
    constant!(7, "format.labelValue"),
    constant!(8, "format.uri"),
    constant!(9, "format.uuid"),
    constant!(10, "format.byte"),
    constant!(11, "format.date"),
    constant!(12, "format.datetime"),
    global("format.named", &["(string) -> optional(kubernetes.NamedFormat)"], |_, arguments| match arguments {
        [Value::String(name)] => {
            let found = FORMATS.iter().find(|format| format.name == &**name);
            Ok(found.map_or(Value::Optional(None), |format| Value::some(Value::Format(format))))
        }
        _ => Err(Fault::no_such_overload()),
    }),
    member("validate", &["(kubernetes.NamedFormat, string) -> optional(list(string))"], |context, arguments| {
        match arguments {
            [Value::Format(format), Value::String(text)] => {
                context.meter.charge(1 + text.len() as u64)?;
                let problems = (format.problems)(text);
                if problems.is_empty() {
                    return Ok(Value::Optional(None));
                }
                Ok(Value::some(Value::list(problems.into_iter().map(Value::text).collect())))
            }
            _ => Err(Fault::no_such_overload()),
        }
    }),
];
