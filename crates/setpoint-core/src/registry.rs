//! What a deployer can do: which fields it knows, how it compares them, and what a change of each takes.

use setpoint_api::step::Effect;

use crate::value::Value;

/// What a deployer can do. It is data, so that the planner needs no deployer to plan for one.
#[derive(Debug, Clone)]
pub struct Capabilities {
    /// The deployer's name, for people.
    pub deployer: &'static str,
    /// The fields it knows, sorted by name. A desire for any other is refused.
    pub fields: &'static [Field],
    /// Whether guests can be made and removed here, or only configured.
    pub creates: bool,
    /// Whether an existing guest can be given our mark.
    pub adopts: bool,
    /// Whether guests can be started and stopped.
    pub has_run_state: bool,
    /// Whether a new guest can be given a provider id of our choice.
    pub chooses_ids: bool,
    /// Whether a replacement can be made while the guest that it replaces is still there.
    pub creates_before_delete: bool,
    /// Whether writing configuration restarts the guest at once.
    pub update_restarts: bool,
    /// Whether what runs costs money, even where a price is not known.
    pub bills: bool,
    /// How long a create may take to appear in what is observed.
    pub settle_seconds: i64,
    /// The state words of a guest that runs.
    pub running_words: &'static [&'static str],
    /// The state words of a guest that is stopped.
    pub stopped_words: &'static [&'static str],
    /// The state words of a guest on its way to another state.
    pub passing_words: &'static [&'static str],
}

impl Capabilities {
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.binary_search_by(|field| field.name.cmp(name)).ok().map(|at| &self.fields[at])
    }

    /// The field that a path begins with, and the key that follows: `env.MODEL`, `gpu.count`.
    pub fn field_of<'p>(&self, path: &'p str) -> Option<(&'static Field, Option<&'p str>)> {
        let whole = self.field(path).map(|field| (field, None));
        let parts = || path.match_indices('.').map(|(at, _)| (&path[..at], &path[at + 1..]));
        whole.or_else(|| parts().find_map(|(name, key)| Some((self.field(name)?, Some(key)))))
    }
}

/// One field that a deployer knows.
#[derive(Debug, Clone)]
pub struct Field {
    /// The field's name, such as `memory`.
    pub name: &'static str,
    /// What differences do not count.
    pub normalizers: &'static [Normalizer],
    /// What a change takes.
    pub effect: Effect,
    /// Whether the value must not be shown.
    pub sensitive: bool,
    /// The unit in which the provider keeps an amount.
    pub unit: Unit,
    /// The least amount the provider takes, in base units.
    pub min: Option<i64>,
    /// The greatest amount the provider takes, in base units.
    pub max: Option<i64>,
    /// For maps: whose the keys are that are not desired.
    pub other_keys: OtherKeys,
    /// Whether the value is too long to be shown: prose, scripts.
    pub is_prose: bool,
    /// Whether the value may come from a Secret, as variables, commands and arguments may. What is observed of it is shown
    /// only where it is on record that it did not.
    pub may_be_secret: bool,
    /// Whether data is kept in what the field describes, as in volumes: it is lost with a key, and nothing shrinks.
    pub holds_data: bool,
}

impl Field {
    /// A field without particulars; the rest with struct update syntax.
    pub const fn new(name: &'static str, effect: Effect) -> Field {
        Field {
            name,
            normalizers: &[],
            effect,
            sensitive: false,
            unit: Unit::One,
            min: None,
            max: None,
            other_keys: OtherKeys::Ours { except_prefixes: &[] },
            is_prose: false,
            may_be_secret: false,
            holds_data: false,
        }
    }
}

/// A difference that a provider makes and that does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Normalizer {
    /// A text gains or loses line ends at its end.
    TrailingNewline,
    /// A list comes back in another order.
    Order,
    /// A text comes back in another case.
    Case,
    /// What is absent counts as this.
    Default(Literal),
}

/// A value that can stand in a constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Literal {
    Bool(bool),
    Integer(i64),
    Text(&'static str),
    EmptyList,
    EmptyMap,
}

impl Literal {
    pub fn value(self) -> Value {
        match self {
            Literal::Bool(value) => Value::Bool(value),
            Literal::Integer(value) => Value::Integer(value),
            Literal::Text(text) => Value::Text(text.into()),
            Literal::EmptyList => Value::List(Vec::new()),
            Literal::EmptyMap => Value::Map(Default::default()),
        }
    }
}

/// The unit in which a provider keeps an amount; what is finer is floored away before amounts are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    One,
    /// To the byte. Each amount is shown in the largest unit that leaves nothing over.
    Bytes,
    Mebibytes,
    Gibibytes,
}

impl Unit {
    /// How many base units it has.
    pub const fn size(self) -> i64 {
        match self {
            Unit::One | Unit::Bytes => 1,
            Unit::Mebibytes => 1 << 20,
            Unit::Gibibytes => 1 << 30,
        }
    }

    /// An amount as a person reads it.
    pub fn show(self, amount: i64) -> String {
        let (size, suffix) = match self {
            Unit::One => (1, ""),
            Unit::Bytes if amount != 0 && amount % (1 << 30) == 0 => (1 << 30, "GiB"),
            Unit::Bytes if amount != 0 && amount % (1 << 20) == 0 => (1 << 20, "MiB"),
            Unit::Bytes => (1, " bytes"),
            Unit::Mebibytes => (self.size(), "MiB"),
            Unit::Gibibytes => (self.size(), "GiB"),
        };
        format!("{}{suffix}", amount.div_euclid(size))
    }
}

/// Whose the keys of a map are that are observed but not desired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtherKeys {
    /// Ours, so they are removed; but the provider's own keys begin like this and are left alone.
    Ours { except_prefixes: &'static [&'static str] },
    /// Somebody else's, so they are left alone.
    Foreign,
}
