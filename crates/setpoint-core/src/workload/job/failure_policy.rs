//! What a Pod's failure means to its Job.

use k8s_openapi::api::batch::v1::{Job, PodFailurePolicyOnExitCodesRequirement as ExitCodes, PodFailurePolicyRule};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};

/// What a failure does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Consequence {
    /// It counts against the limit of retries, as it does where nothing is said.
    Counts,
    /// It does not count.
    Ignored,
    /// The index is not tried again.
    FailsIndex,
    /// The Job fails, for this reason.
    FailsJob(String),
}

/// What this Pod's failure does: the first rule that matches says.
pub fn consequence(job: &Job, pod: &Pod) -> Consequence {
    let policy = job.spec.as_ref().and_then(|spec| spec.pod_failure_policy.as_ref());
    let Some(status) = &pod.status else { return Consequence::Counts };
    let rules = policy.iter().flat_map(|policy| policy.rules.iter().enumerate());
    for (number, rule) in rules {
        let Some(what) = matched(rule, status) else { continue };
        let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
        let pod = format!("{}/{}", namespace.as_deref().unwrap_or_default(), name.as_deref().unwrap_or_default());
        return match rule.action.as_str() {
            "Ignore" => Consequence::Ignored,
            "FailIndex" => Consequence::FailsIndex,
            "FailJob" => Consequence::FailsJob(match what {
                Match::Exit { container, code } => {
                    format!(
                        "Container {container} for pod {pod} failed with exit code {code} matching FailJob rule at index {number}"
                    )
                }
                Match::Condition(condition) => {
                    format!("Pod {pod} has condition {condition} matching FailJob rule at index {number}")
                }
            }),
            _ => Consequence::Counts,
        };
    }
    Consequence::Counts
}

enum Match<'a> {
    Exit { container: &'a str, code: i32 },
    Condition(&'a str),
}

fn matched<'a>(rule: &PodFailurePolicyRule, status: &'a PodStatus) -> Option<Match<'a>> {
    if let Some(codes) = &rule.on_exit_codes {
        let main = status.container_statuses.iter().flatten();
        let mut all = main.chain(status.init_container_statuses.iter().flatten());
        return all.find_map(|container| exit(codes, container));
    }
    let patterns = rule.on_pod_conditions.as_deref().unwrap_or_default();
    let mut conditions = status.conditions.iter().flatten();
    let is_named = |type_: &str, is: &str| {
        patterns.iter().any(|pattern| pattern.type_ == type_ && pattern.status.as_deref().unwrap_or("True") == is)
    };
    conditions
        .find(|condition| is_named(&condition.type_, &condition.status))
        .map(|found| Match::Condition(&found.type_))
}

fn exit<'a>(codes: &ExitCodes, container: &'a ContainerStatus) -> Option<Match<'a>> {
    let code = container.state.as_ref()?.terminated.as_ref()?.exit_code;
    let is_meant = codes.container_name.as_ref().is_none_or(|name| *name == container.name);
    let is_listed = codes.values.contains(&code);
    let is_match = match codes.operator.as_str() {
        "In" => is_listed,
        "NotIn" => !is_listed,
        _ => false,
    };
    (code != 0 && is_meant && is_match).then_some(Match::Exit { container: &container.name, code })
}
