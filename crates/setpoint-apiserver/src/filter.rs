//! Which objects of a resource a list or a watch is about.

use crate::failure::{Failure, Result};
use crate::object::Stored;
use crate::query::ListOptions;
use crate::registry::Resource;
use crate::selector::field::FieldSelector;
use crate::selector::label::LabelSelector;

/// A label selector and a field selector, both of which an object must match.
#[derive(Debug, Clone)]
pub struct Filter {
    labels: LabelSelector,
    fields: FieldSelector,
}

impl Filter {
    pub fn parse(resource: &Resource, options: &ListOptions) -> Result<Filter> {
        let labels =
            options.label_selector.parse::<LabelSelector>().map_err(|e| Failure::bad_request(e.to_string()))?;
        let fields =
            options.field_selector.parse::<FieldSelector>().map_err(|e| Failure::bad_request(e.to_string()))?;
        fields.check(resource.behaviour.as_ref()).map_err(|e| Failure::bad_request(e.to_string()))?;
        Ok(Filter { labels, fields })
    }

    /// Whether it lets everything through.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// What of the store holds all that can match: one key where the selector names one object, else a directory.
    pub fn scope(&self, resource: &Resource, namespace: Option<&str>) -> String {
        match self.fields.exact("metadata.name") {
            Some(name) if !name.is_empty() && namespace.is_some() == resource.namespaced => {
                resource.key(namespace, name).to_string()
            }
            _ => resource.directory(namespace),
        }
    }

    pub fn matches(&self, resource: &Resource, stored: &Stored) -> bool {
        (self.labels.is_empty() || self.labels.matches(&stored.metadata()["labels"]))
            && (self.fields.is_empty() || self.fields.matches(&resource.value(stored), resource.behaviour.as_ref()))
    }
}
