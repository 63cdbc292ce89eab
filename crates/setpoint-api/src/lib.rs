//! The kinds of Setpoint and PlanSpec: types, defaults, rules, schemas. No I/O.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`environment`], [`machine`], [`app`], [`revision`], [`traffic_split`], [`change_set`], [`review`] | `setpoint.dev/v1alpha1`, a kind a file |
//! | [`planspec`] | `planspec.io/v1alpha1`: the published documents' own kinds |
//! | [`step`] | what a change set is made of, shared by the planner and the API |
//! | [`condition`], [`price`] | words that several kinds use |
//! | [`crds`] | the CustomResourceDefinitions of all kinds |
//! | [`interpolation`] | `${NAME}` in values, from Secrets and ConfigMaps only |
//! | [`documents`] | what a document says that its kind does not know |
//! | [`validation`] | the rules that no schema says, for objects as an API server holds them |
//! | [`protection`], [`requester`] | the marks on an object: what must not be removed; who asked |
//! | [`field`], [`names`], [`labels`], [`quantity`] | exact words for what is wrong with a field |

#![expect(clippy::duplicated_attributes, reason = "two columns of a kind may be of the same type")]
#![expect(unreachable_pub, reason = "KubeSchema copies the public types it is derived for into function bodies")]

pub mod app;
pub mod change_set;
pub mod condition;
pub mod crds;
pub mod documents;
pub mod environment;
pub mod field;
mod free_form;
pub mod interpolation;
pub mod labels;
pub mod machine;
pub mod names;
mod parameters;
pub mod planspec;
pub mod price;
pub mod protection;
pub mod quantity;
pub mod requester;
pub mod review;
pub mod revision;
mod rules;
pub mod step;
pub mod traffic_split;
pub mod validation;

/// The group of our own kinds.
pub const GROUP: &str = "setpoint.dev";
/// The one version of our own kinds.
pub const VERSION: &str = "v1alpha1";
