//! The schema of a custom resource as an apply and a patch see it, made from its structural schema.

use std::collections::HashMap;

use super::{Definition, Emission, Field, List, ListType, Schema, Schemas, Shape};
use crate::custom::structure::{Kind, ListKind, Structure};
use crate::schema_facts::Patch;

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

impl Schemas {
    /// The type of `metadata`.
    pub fn object_meta(&self) -> Schema {
        self.get(OBJECT_META).expect("ObjectMeta is among the built-in schemas")
    }

    /// The schema of a custom resource.
    pub(crate) fn structural(&self, structure: &Structure) -> Schema {
        let mut compiler = Compiler { definitions: Vec::new(), imported: HashMap::new() };
        let metadata = compiler.import(self, self.names[OBJECT_META]);
        let root = compiler.object(structure, Some(metadata));
        let definitions = compiler.definitions.into();
        Schema { definitions, root }
    }
}

struct Compiler {
    definitions: Vec<Definition>,
    /// Where the definitions taken from elsewhere went.
    imported: HashMap<usize, usize>,
}

impl Compiler {
    /// Takes over a built-in definition and all that it refers to.
    fn import(&mut self, schemas: &Schemas, index: usize) -> usize {
        if let Some(known) = self.imported.get(&index) {
            return *known;
        }
        let position = self.definitions.len();
        self.imported.insert(index, position);
        self.definitions.push(schemas.definitions[index].clone());
        for field in 0..self.definitions[position].fields.len() {
            let mut shape = self.definitions[position].fields[field].shape.clone();
            self.import_shape(schemas, &mut shape);
            self.definitions[position].fields[field].shape = shape;
        }
        position
    }

    fn import_shape(&mut self, schemas: &Schemas, shape: &mut Shape) {
        match shape {
            Shape::Object(index) => *index = self.import(schemas, *index),
            Shape::List(list) => self.import_shape(schemas, &mut list.element),
            Shape::Map(values) => self.import_shape(schemas, values),
            _ => {}
        }
    }

    fn shape(&mut self, structure: &Structure) -> Shape {
        match structure.kind {
            Kind::String => Shape::String,
            Kind::Integer => Shape::Int64,
            Kind::Number => Shape::Number,
            Kind::Boolean => Shape::Boolean,
            Kind::IntOrString => Shape::IntOrString,
            Kind::Array => {
                let element = structure.items.as_deref().map_or(Shape::Any, |items| self.shape(items));
                let list_type = match &structure.list {
                    ListKind::Atomic => ListType::Atomic,
                    ListKind::Set => ListType::Set,
                    ListKind::Map(keys) => ListType::Map(keys.clone()),
                };
                Shape::List(Box::new(List { element, list_type }))
            }
            Kind::Object => match &structure.values {
                Some(values) => Shape::Map(Box::new(self.shape(values))),
                None => self.object(structure, None),
            },
            Kind::Any => Shape::Any,
        }
    }

    /// The object at the root has `metadata`.
    fn object(&mut self, structure: &Structure, metadata: Option<usize>) -> Shape {
        let position = self.definitions.len();
        let (atomic, open) = (structure.atomic, structure.preserves_unknown);
        self.definitions.push(Definition { atomic, open, ..Definition::default() });
        let mut fields: Vec<Field> = structure
            .properties()
            .filter(|(name, _)| metadata.is_none() || !matches!(*name, "apiVersion" | "kind" | "metadata"))
            .map(|(name, property)| field(name, self.shape(property), property))
            .collect();
        if let Some(metadata) = metadata {
            let shapes =
                [("apiVersion", Shape::String), ("kind", Shape::String), ("metadata", Shape::Object(metadata))];
            fields.extend(shapes.map(|(name, shape)| field(name, shape, &Structure::default())));
            fields.sort_by(|a, b| a.name.cmp(&b.name));
        }
        // There may be many definitions, each with many fields, for as long as they are served.
        fields.shrink_to_fit();
        self.definitions[position].fields = fields;
        Shape::Object(position)
    }
}

fn field(name: &str, shape: Shape, structure: &Structure) -> Field {
    let key_default = structure.default.as_deref().filter(|default| !default.is_object() && !default.is_array());
    Field {
        name: name.into(),
        shape,
        patch: Patch::default(),
        atomic: structure.atomic,
        key_default: key_default.cloned().map(Box::new),
        emission: Emission::AsGiven,
    }
}
