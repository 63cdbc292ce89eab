//! `planspec.io/v1alpha1`: Goal, Plan and Gate, with the fields of the published PlanSpec documents.
