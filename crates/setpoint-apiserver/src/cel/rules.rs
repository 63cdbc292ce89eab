//! All rules of a schema, compiled when its definition is admitted.

use serde_json::Value;
use setpoint_api::field::{Errors, Fault, Path};

use super::check::{Checked, check};
use super::data_type::{DataKind, DataType};
use super::field_path;
use super::issue::report;
use super::parse::parse;
use super::program::Node;
use super::types::Type;

const RULES: &str = "x-kubernetes-validations";

/// The rules of one version of a custom resource, ready to be evaluated.
#[derive(Debug)]
pub struct Rules {
    /// None if there are no rules.
    pub(super) root: Option<(RuleNode, DataType)>,
}

/// The rules at one place of the schema and below it. Its shape follows that of the data type.
#[derive(Debug, Default)]
pub(super) struct RuleNode {
    pub rules: Vec<Rule>,
    pub properties: Vec<(Box<str>, RuleNode)>,
    /// Of the values of a map.
    pub values: Option<Box<RuleNode>>,
    pub items: Option<Box<RuleNode>>,
    pub all_of: Vec<RuleNode>,
}

#[derive(Debug)]
pub(super) struct Rule {
    pub program: Node,
    /// Evaluated only if there is an old value to compare with.
    pub uses_old_self: bool,
    /// `oldSelf` is optional, and the rule is evaluated in any case.
    pub optional_old_self: bool,
    pub message_expression: Option<(Node, Box<str>)>,
    pub text: Box<str>,
    pub message: Box<str>,
    pub field_path: Option<Box<str>>,
    pub reason: Reason,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    Invalid,
    Forbidden,
    Required,
    Duplicate,
}

const REASONS: [(&str, Reason); 4] = [
    ("FieldValueDuplicate", Reason::Duplicate),
    ("FieldValueForbidden", Reason::Forbidden),
    ("FieldValueInvalid", Reason::Invalid),
    ("FieldValueRequired", Reason::Required),
];

impl Rules {
    /// Compiles the rules of a structural schema, the `openAPIV3Schema` of a version, which stands at `path`.
    pub fn compile(schema: &Value, path: &Path<'_>) -> Result<Rules, Errors> {
        Rules::compile_as(DataType::of_resource(schema), schema, path)
    }

    /// Compiles the rules of a part of a structural schema.
    pub fn compile_part(schema: &Value, path: &Path<'_>) -> Result<Rules, Errors> {
        Rules::compile_as(DataType::from_schema(schema), schema, path)
    }

    fn compile_as(data: DataType, schema: &Value, path: &Path<'_>) -> Result<Rules, Errors> {
        let mut compiler = Compiler { schema_errors: Errors::default(), rule_errors: Errors::default() };
        let root = compiler.node(schema, &data, path, None);
        let Compiler { schema_errors: mut errors, rule_errors } = compiler;
        errors.extend(rule_errors);
        if errors.is_empty() { Ok(Rules { root: root.map(|root| (root, data)) }) } else { Err(errors) }
    }

    pub fn is_empty(&self) -> bool {
        self.root.is_none()
    }
}

impl RuleNode {
    fn is_empty(&self) -> bool {
        self.rules.is_empty()
            && self.properties.is_empty()
            && self.values.is_none()
            && self.items.is_none()
            && self.all_of.is_empty()
    }
}

struct Compiler {
    /// What is wrong with the rules' form. Below and at such a place no rule is compiled.
    schema_errors: Errors,
    rule_errors: Errors,
}

impl Compiler {
    /// `uncorrelatable` is the path of the list around whose elements have no identity, if there is one.
    fn node(
        &mut self,
        schema: &Value,
        data: &DataType,
        path: &Path<'_>,
        uncorrelatable: Option<&Path<'_>>,
    ) -> Option<RuleNode> {
        let errors_before = self.schema_errors.len();
        let mut node = RuleNode::default();
        if let (values, DataKind::Map(inner)) = (&schema["additionalProperties"], &data.kind) {
            let path = path.field("additionalProperties");
            node.values = self.node(values, inner, &path, uncorrelatable).map(Box::new);
        }
        if let (Some(properties), DataKind::Object(fields)) = (schema["properties"].as_object(), &data.kind) {
            let parent = path.field("properties");
            for (name, property) in properties {
                let Some(field) = fields.get(&**name) else { continue };
                let path = parent.key(name);
                let found = self.node(property, field, &path, uncorrelatable);
                node.properties.extend(found.map(|found| (name.as_str().into(), found)));
            }
        }
        let all_of = path.field("allOf");
        for (index, part) in schema["allOf"].as_array().into_iter().flatten().enumerate() {
            node.all_of.extend(self.node(part, data, &all_of.index(index), uncorrelatable));
        }
        if let (items, DataKind::List { items: inner, .. }) = (&schema["items"], &data.kind) {
            let has_identity = schema["x-kubernetes-list-type"] == "map";
            let uncorrelatable = if has_identity { uncorrelatable } else { uncorrelatable.or(Some(path)) };
            node.items = self.node(items, inner, &path.field("items"), uncorrelatable).map(Box::new);
        }
        if let Some(rules) = schema[RULES].as_array().filter(|rules| !rules.is_empty()) {
            let path = path.field(RULES);
            for (index, rule) in rules.iter().enumerate() {
                self.check_form(rule, schema, &path.index(index));
            }
            if self.schema_errors.len() == errors_before {
                node.rules = self.rules(rules, schema, data, &path, uncorrelatable);
            }
        }
        (!node.is_empty()).then_some(node)
    }

    /// Checks all of a rule but its expressions.
    fn check_form(&mut self, rule: &Value, schema: &Value, path: &Path<'_>) {
        let errors = &mut self.schema_errors;
        let text = |name: &str| rule[name].as_str().unwrap_or_default();
        let has_line_breaks = |text: &str| text.contains(['\n', '\r']);
        let (expression, message) = (text("rule").trim(), text("message"));
        if expression.is_empty() {
            errors.required(&path.field("rule"), "rule is not specified");
        } else if !message.is_empty() && message.trim().is_empty() {
            errors.invalid(&path.field("message"), message, "must be non-empty if specified");
        } else if has_line_breaks(message.trim()) {
            errors.invalid(&path.field("message"), message, "must not contain line breaks");
        } else if has_line_breaks(expression) && message.trim().is_empty() {
            errors.required(&path.field("message"), "message must be specified if rule contains line breaks");
        }
        let message_expression = text("messageExpression");
        if !message_expression.is_empty() && message_expression.trim().is_empty() {
            errors.required(&path.field("messageExpression"), "messageExpression must be non-empty if specified");
        }
        if let Some(reason) = rule["reason"].as_str()
            && !REASONS.iter().any(|(known, _)| *known == reason)
        {
            errors.unsupported(&path.field("reason"), reason, &REASONS.map(|(name, _)| name));
        }
        let field_path = text("fieldPath");
        if field_path.is_empty() {
            return;
        }
        let path = path.field("fieldPath");
        if field_path.trim().is_empty() {
            errors.invalid(&path, field_path, "must be non-empty if specified");
        }
        if has_line_breaks(field_path) {
            errors.invalid(&path, field_path, "must not contain line breaks");
        }
        if field_path::normalize(field_path, schema).is_none() {
            errors.invalid(&path, field_path, "must be a valid path");
        }
    }

    fn rules(
        &mut self,
        rules: &[Value],
        schema: &Value,
        data: &DataType,
        path: &Path<'_>,
        uncorrelatable: Option<&Path<'_>>,
    ) -> Vec<Rule> {
        if !data.is_exposed() {
            self.rule_errors.push(Fault::Invalid, path, || {
                "Internal error: internal error: failed to retrieve type information for x-kubernetes-validations"
                    .to_owned()
            });
            return Vec::new();
        }
        let compiled = rules.iter().enumerate();
        compiled.filter_map(|(index, rule)| self.rule(rule, schema, data, &path.index(index), uncorrelatable)).collect()
    }

    fn rule(
        &mut self,
        rule: &Value,
        schema: &Value,
        data: &DataType,
        path: &Path<'_>,
        uncorrelatable: Option<&Path<'_>>,
    ) -> Option<Rule> {
        let text = |name: &str| rule[name].as_str().unwrap_or_default();
        let optional_old_self = rule["optionalOldSelf"] == true;
        let mut refuse = |field: &str, detail: &str| {
            self.rule_errors
                .push(Fault::Invalid, &path.field(field), || format!("Invalid value: {}: {detail}", shown(rule)));
        };
        let program = match compile(text("rule"), data, optional_old_self) {
            Err(report) => {
                refuse("rule", &format!("compilation failed: {report}"));
                None
            }
            Ok(Checked { ty: Type::Bool, node, uses_old_self }) => Some((node, uses_old_self)),
            Ok(_) => {
                refuse("rule", "cel expression must evaluate to a bool");
                None
            }
        };
        let expression = text("messageExpression");
        let mut message_expression = None;
        if program.is_some() && !expression.is_empty() {
            match compile(expression, data, optional_old_self) {
                Err(report) => refuse("messageExpression", &format!("messageExpression compilation failed: {report}")),
                Ok(Checked { ty: Type::String, node, .. }) => message_expression = Some((node, expression.into())),
                Ok(_) => refuse("messageExpression", "messageExpression must evaluate to a string"),
            }
        }
        let uses_old_self = program.as_ref().is_some_and(|(_, uses_old_self)| *uses_old_self);
        match uncorrelatable {
            Some(list) if uses_old_self => {
                let detail =
                    format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {list}");
                self.rule_errors.invalid(&path.field("rule"), text("rule"), &detail);
            }
            _ if !uses_old_self && rule["optionalOldSelf"].is_boolean() => {
                let detail = "may not be set if oldSelf is not used in rule";
                self.rule_errors.invalid(&path.field("optionalOldSelf"), &rule["optionalOldSelf"], detail);
            }
            _ => {}
        }
        let reason = REASONS.into_iter().find(|(name, _)| *name == text("reason"));
        let (program, uses_old_self) = program?;
        Some(Rule {
            program,
            uses_old_self,
            optional_old_self,
            message_expression,
            text: text("rule").trim().into(),
            message: text("message").trim().into(),
            field_path: field_path::normalize(text("fieldPath"), schema).filter(|p| !p.is_empty()).map(Into::into),
            reason: reason.map_or(Reason::Invalid, |(_, reason)| reason),
        })
    }
}

/// Compiles one expression; if that fails, says why and where.
pub(super) fn compile<'s>(source: &str, data: &'s DataType, optional_old_self: bool) -> Result<Checked<'s>, String> {
    let own = Type::of_data(data);
    let old = if optional_old_self { Type::optional(own.clone()) } else { own.clone() };
    parse(source).and_then(|tree| check(&tree, own, old)).map_err(|issues| report(source, issues))
}

/// A rule as Kubernetes shows it in messages.
fn shown(rule: &Value) -> String {
    let text = |name: &str| Value::from(rule[name].as_str().unwrap_or_default());
    let fields = [
        ("Rule", text("rule")),
        ("Message", text("message")),
        ("MessageExpression", text("messageExpression")),
        ("Reason", rule["reason"].clone()),
        ("FieldPath", text("fieldPath")),
        ("OptionalOldSelf", rule["optionalOldSelf"].clone()),
    ];
    let fields = fields.map(|(name, value)| format!("\"{name}\":{value}"));
    let escaped = fields.join(",").replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
    format!("{{{escaped}}}")
}
