//! A set of fields, as a tree: which fields somebody owns, or which a change touches.
//!
//! A path is in the set of its own right: its parents are not in it because of it. So a set can hold `.data` (the map as
//! such) without `.data.a`, and the other way round.

use std::fmt;

use serde::de::{Error, IgnoredAny, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::path_element::PathElement;
use crate::schema::{Shape, Type};

/// The fields on the way from an object to one of its values.
pub type Path = Vec<PathElement>;

#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldSet {
    /// In the order of their elements, each once. Every node is a member or has children.
    nodes: Vec<Node>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Node {
    element: PathElement,
    member: bool,
    children: FieldSet,
}

impl Node {
    fn is_empty(&self) -> bool {
        !self.member && self.children.is_empty()
    }
}

impl FieldSet {
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The set of elements in any order.
    pub(super) fn of_elements(elements: Vec<(PathElement, bool, FieldSet)>) -> FieldSet {
        let mut elements = elements;
        if !elements.is_sorted_by(|(a, ..), (b, ..)| a < b) {
            elements.sort_by(|(a, ..), (b, ..)| a.cmp(b));
        }
        let mut set = FieldSet { nodes: Vec::with_capacity(elements.len()) };
        for (element, member, children) in elements {
            set.add(element, member, children);
        }
        set
    }

    /// Adds what is known of one element. Cheap only where elements come in their order.
    pub fn add(&mut self, element: PathElement, member: bool, children: FieldSet) {
        let node = Node { element, member, children };
        if node.is_empty() {
            return;
        }
        if self.nodes.last().is_none_or(|last| last.element < node.element) {
            self.nodes.push(node);
            return;
        }
        match self.position(&node.element) {
            Ok(position) => {
                let known = &mut self.nodes[position];
                known.member |= node.member;
                known.children = std::mem::take(&mut known.children).union(node.children);
            }
            Err(position) => self.nodes.insert(position, node),
        }
    }

    /// The set of one field.
    pub fn of(path: &[&str]) -> FieldSet {
        let mut set = FieldSet::default();
        if let Some((first, rest)) = path.split_first() {
            set.add(PathElement::field(first), rest.is_empty(), FieldSet::of(rest));
        }
        set
    }

    pub fn has(&self, path: &[PathElement]) -> bool {
        match path {
            [] => false,
            [element] => self.has_member(element),
            [element, rest @ ..] => self.below(element).is_some_and(|children| children.has(rest)),
        }
    }

    /// Whether an element itself is in the set.
    pub fn has_member(&self, element: &PathElement) -> bool {
        self.node(element).is_some_and(|node| node.member)
    }

    /// What the set holds below an element; `None` if that is nothing.
    pub fn below(&self, element: &PathElement) -> Option<&FieldSet> {
        self.node(element).map(|node| &node.children).filter(|children| !children.is_empty())
    }

    fn position(&self, element: &PathElement) -> Result<usize, usize> {
        self.nodes.binary_search_by(|node| node.element.cmp(element))
    }

    fn node(&self, element: &PathElement) -> Option<&Node> {
        self.position(element).ok().map(|position| &self.nodes[position])
    }

    pub fn union(self, other: FieldSet) -> FieldSet {
        if self.is_empty() {
            return other;
        }
        if other.is_empty() {
            return self;
        }
        let mut nodes = Vec::with_capacity(self.nodes.len().max(other.nodes.len()));
        let mut others = other.nodes.into_iter().peekable();
        for mut node in self.nodes {
            while let Some(earlier) = others.next_if(|other| other.element < node.element) {
                nodes.push(earlier);
            }
            if let Some(same) = others.next_if(|other| other.element == node.element) {
                node.member |= same.member;
                node.children = node.children.union(same.children);
            }
            nodes.push(node);
        }
        nodes.extend(others);
        FieldSet { nodes }
    }

    /// The union of many. They are united in pairs, and the pairs again, so that nothing is copied for each of them.
    pub fn union_of(mut sets: Vec<FieldSet>) -> FieldSet {
        while sets.len() > 1 {
            let mut rest = sets.into_iter();
            let mut pairs = Vec::with_capacity(rest.len().div_ceil(2));
            while let Some(one) = rest.next() {
                pairs.push(one.union(rest.next().unwrap_or_default()));
            }
            sets = pairs;
        }
        sets.pop().unwrap_or_default()
    }

    pub fn intersection(&self, other: &FieldSet) -> FieldSet {
        let common = self.nodes.iter().filter_map(|node| {
            let other = other.node(&node.element)?;
            let (member, children) = (node.member && other.member, node.children.intersection(&other.children));
            Some(Node { element: node.element.clone(), member, children })
        });
        FieldSet { nodes: common.filter(|node| !node.is_empty()).collect() }
    }

    /// What is in this set and not in the other. A parent in the other takes no children away.
    pub fn difference(mut self, other: &FieldSet) -> FieldSet {
        if !other.is_empty() {
            self.subtract(other, false);
        }
        self
    }

    /// What is in this set and neither in the other nor below anything in it.
    pub fn recursive_difference(mut self, other: &FieldSet) -> FieldSet {
        if !other.is_empty() {
            self.subtract(other, true);
        }
        self
    }

    fn subtract(&mut self, other: &FieldSet, recursive: bool) {
        self.nodes.retain_mut(|node| {
            let Some(taken) = other.node(&node.element) else { return true };
            if taken.member && recursive {
                return false;
            }
            node.member &= !taken.member;
            node.children.subtract(&taken.children, recursive);
            !node.is_empty()
        });
    }

    /// What is in this set at or below one path.
    pub fn only(self, path: &[&str]) -> FieldSet {
        let Some((first, rest)) = path.split_first() else { return self };
        let wanted = PathElement::field(first);
        let found = self.nodes.into_iter().find(|node| node.element == wanted);
        let kept = found.map(|node| Node { children: node.children.only(rest), ..node });
        FieldSet { nodes: kept.filter(|node| !node.is_empty()).into_iter().collect() }
    }

    /// The set without the fields that have others below them in it.
    pub fn leaves(&self) -> FieldSet {
        let nodes = self.nodes.iter().map(|node| Node {
            element: node.element.clone(),
            member: node.children.is_empty(),
            children: node.children.leaves(),
        });
        FieldSet { nodes: nodes.collect() }
    }

    /// The set together with the named fields on the way to what is in it. Keys of maps and elements of lists come and go
    /// of their own; a named field is there for what is in it.
    pub fn with_named_fields(&self, object_type: Type<'_>) -> FieldSet {
        let nodes = self.nodes.iter().map(|node| {
            let (below, named) = match &node.element {
                PathElement::Field(name) => (object_type.entry(name), object_type.field(name).is_some()),
                _ => (object_type.element(), false),
            };
            let children = node.children.with_named_fields(below);
            Node { element: node.element.clone(), member: node.member || named, children }
        });
        FieldSet { nodes: nodes.collect() }
    }

    /// The set as the type has it now: what lies in a value that has become one whole is that whole.
    pub fn fitted(mut self, object_type: Type<'_>) -> FieldSet {
        for node in &mut self.nodes {
            let below = match &node.element {
                PathElement::Field(name) => object_type.entry(name),
                _ => object_type.element(),
            };
            if node.children.is_empty() {
                continue;
            }
            if below.is_atomic() && !matches!(below.shape(), Shape::Any) {
                node.member = true;
                node.children = FieldSet::default();
            } else {
                node.children = std::mem::take(&mut node.children).fitted(below);
            }
        }
        self
    }

    /// Every path in the set: first the members of an object, then what lies below.
    pub fn paths(&self) -> Vec<Path> {
        let mut paths = Vec::new();
        self.collect(&mut Vec::new(), &mut paths);
        paths
    }

    fn collect(&self, here: &mut Path, into: &mut Vec<Path>) {
        for node in self.nodes.iter().filter(|node| node.member) {
            into.push(here.iter().cloned().chain([node.element.clone()]).collect());
        }
        for node in self.nodes.iter().filter(|node| !node.children.is_empty()) {
            here.push(node.element.clone());
            node.children.collect(here, into);
            here.pop();
        }
    }
}

impl FromIterator<Path> for FieldSet {
    fn from_iter<I: IntoIterator<Item = Path>>(paths: I) -> FieldSet {
        let of_path = |path: Path| {
            let mut elements = path.into_iter().rev();
            let mut set = FieldSet::default();
            if let Some(last) = elements.next() {
                set.add(last, true, FieldSet::default());
            }
            elements.fold(set, |below, element| {
                let mut above = FieldSet::default();
                above.add(element, false, below);
                above
            })
        };
        FieldSet::union_of(paths.into_iter().map(of_path).collect())
    }
}

/// One path a line.
impl fmt::Display for FieldSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, path) in self.paths().iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            path.iter().try_for_each(|element| element.fmt(f))?;
        }
        Ok(())
    }
}

/// The form that `fieldsV1` has: an object for each element, `.` in it where the element itself is a member although it
/// has children.
impl Serialize for FieldSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Below { set: self, member: false }.serialize(serializer)
    }
}

struct Below<'s> {
    set: &'s FieldSet,
    member: bool,
}

impl Serialize for Below<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let own = self.member && !self.set.is_empty();
        let mut map = serializer.serialize_map(Some(self.set.nodes.len() + usize::from(own)))?;
        if own {
            map.serialize_entry(".", &Below { set: &FieldSet::default(), member: false })?;
        }
        for node in &self.set.nodes {
            map.serialize_entry(&Key(&node.element), &Below { set: &node.children, member: node.member })?;
        }
        map.end()
    }
}

struct Key<'e>(&'e PathElement);

impl Serialize for Key<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0.encoded())
    }
}

impl<'de> Deserialize<'de> for FieldSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<FieldSet, D::Error> {
        deserializer.deserialize_any(SetVisitor).map(|(set, _)| set)
    }
}

/// Reads a set, and whether the element it stands below is a member.
struct SetVisitor;

impl<'de> Visitor<'de> for SetVisitor {
    type Value = (FieldSet, bool);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of fields")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok((FieldSet::default(), true))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let (mut elements, mut member) = (Vec::new(), false);
        while let Some(key) = entries.next_key::<String>()? {
            if key == "." {
                entries.next_value::<IgnoredAny>()?;
                member = true;
                continue;
            }
            match PathElement::parse(&key).map_err(A::Error::custom)? {
                Some(element) => {
                    let below: MemberSet = entries.next_value()?;
                    elements.push((element, below.member, below.set));
                }
                None => {
                    entries.next_value::<IgnoredAny>()?;
                }
            }
        }
        let set = FieldSet::of_elements(elements);
        member |= set.is_empty();
        Ok((set, member))
    }
}

struct MemberSet {
    set: FieldSet,
    member: bool,
}

impl<'de> Deserialize<'de> for MemberSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<MemberSet, D::Error> {
        deserializer.deserialize_any(SetVisitor).map(|(set, member)| MemberSet { set, member })
    }
}
