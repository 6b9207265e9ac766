//! Kinds of policies by their names, and the kinds that come with the manager.

use alloc::{
    boxed::Box,
    format,
    string::{String, ToString},
};
use core::{fmt, ops::RangeInclusive, str::FromStr};

use thiserror::Error;

use super::{
    Policy,
    clock::Clock,
    gdsf::Gdsf,
    lfu_da::LfuDa,
    lru_2::Lru2,
    predict::{EXPERTS, Predict},
    s3_fifo::S3Fifo,
    sieve::Sieve,
};

/// The most parameters of a kind.
const PARAMETERS_MAX: usize = 4;

/// The parameter from which all draws of a policy follow.
const SEED: &str = "seed";

/// A parameter of a kind of policies: a whole number.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// The name.
    pub key: &'static str,
    /// The value where none is given.
    pub default: u64,
    /// The values that are taken.
    pub range: RangeInclusive<u64>,
}

impl Parameter {
    /// The seed of a policy that draws. A study runs such a policy with many seeds.
    pub const SEED: Self = Self { key: SEED, default: 0, range: 0..=u64::MAX };
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.range.end() {
            &u64::MAX => write!(f, "{}=N", self.key),
            end => write!(f, "{}={}..{end}", self.key, self.range.start()),
        }
    }
}

/// Makes a policy from the values of the parameters, in the order of the parameters.
pub type MakePolicy = dyn Fn(&[u64]) -> Box<dyn Policy> + Sync;

/// A kind of policies.
#[derive(Clone, Copy)]
pub struct PolicyKind {
    /// The name, without `:` and `,`.
    pub name: &'static str,
    /// Four parameters at most.
    pub parameters: &'static [Parameter],
    /// None is the documented order, in which the number of the last submission is the rank.
    pub make: Option<&'static MakePolicy>,
    /// The decisions depend on the moment at which a destroyed allocation is gone.
    pub cares_when_gone: bool,
}

impl PolicyKind {
    /// A kind of your own without parameters. `make` makes a policy for each run.
    pub const fn new(name: &'static str, make: &'static MakePolicy) -> Self {
        Self { name, parameters: &[], make: Some(make), cares_when_gone: true }
    }

    /// The same with parameters.
    #[must_use]
    pub const fn with(self, parameters: &'static [Parameter]) -> Self {
        Self { parameters, ..self }
    }

    const fn built_in(name: &'static str, make: &'static MakePolicy) -> Self {
        Self { cares_when_gone: false, ..Self::new(name, make) }
    }
}

impl fmt::Debug for PolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PolicyKind({})", self.name)
    }
}

static LRU: PolicyKind = PolicyKind { name: "lru", parameters: &[], make: None, cares_when_gone: false };
static CLOCK: PolicyKind = PolicyKind::built_in("clock", &|_| Box::new(Clock::default()));
/// Ghosts, and newcomers before the first victim, depend on the moment.
static S3_FIFO: PolicyKind = PolicyKind::new("s3-fifo", &|_| Box::new(S3Fifo::default()));
static LFU_DA: PolicyKind = PolicyKind::built_in("lfu-da", &|_| Box::new(LfuDa::default()));
static SIEVE: PolicyKind = PolicyKind::built_in("sieve", &|_| Box::new(Sieve::default()));
static LRU_2: PolicyKind = PolicyKind::built_in("lru-2", &|_| Box::new(Lru2::default()));
static GDSF: PolicyKind = PolicyKind::built_in("gdsf", &|_| Box::new(Gdsf::default()));
/// So do the shadows.
static PREDICT: PolicyKind =
    PolicyKind::new("predict", &|values| Box::new(Predict::new(values[0] as u32, values[1], values[2] as usize))).with(
        &[
            Parameter { key: "sample", default: 64, range: 1..=4096 },
            Parameter::SEED,
            Parameter { key: "experts", default: EXPERTS as u64, range: 1..=EXPERTS as u64 },
        ],
    );

/// A kind of policies with the values of its parameters. Written as `NAME[:key=value]..`, such as `predict:sample=16:seed=7`.
#[derive(Clone, Copy)]
pub struct PolicyChoice {
    kind: &'static PolicyKind,
    values: [u64; PARAMETERS_MAX],
}

impl PolicyChoice {
    /// The least recently used goes first: the documented order (CRE-31a).
    pub const LRU: Self = Self::of(&LRU);
    /// Second chance.
    pub const CLOCK: Self = Self::of(&CLOCK);
    /// S3-FIFO.
    pub const S3_FIFO: Self = Self::of(&S3_FIFO);
    /// Least frequently used with dynamic aging.
    pub const LFU_DA: Self = Self::of(&LFU_DA);
    /// SIEVE.
    pub const SIEVE: Self = Self::of(&SIEVE);
    /// The allocation goes whose last use but one is oldest.
    pub const LRU_2: Self = Self::of(&LRU_2);
    /// Greedy dual with size and frequency.
    pub const GDSF: Self = Self::of(&GDSF);
    /// Three experts contend; with `experts=1` the forecast is alone, and with 2 S3-FIFO contends too. `sample` allocations are drawn for
    /// each victim, and the draws follow from `seed`.
    pub const PREDICT: Self = Self::of(&PREDICT);

    /// Those that come with the manager.
    pub const ALL: [Self; 8] =
        [Self::LRU, Self::CLOCK, Self::S3_FIFO, Self::LFU_DA, Self::SIEVE, Self::LRU_2, Self::GDSF, Self::PREDICT];

    /// A kind without given values.
    ///
    /// # Panics
    ///
    /// If the kind has more than four parameters.
    pub const fn of(kind: &'static PolicyKind) -> Self {
        let (mut values, mut at) = ([0; PARAMETERS_MAX], 0);
        while at < kind.parameters.len() {
            values[at] = kind.parameters[at].default;
            at += 1;
        }
        Self { kind, values }
    }

    /// The choice that a text names, of those that come with the manager and of kinds of your own.
    ///
    /// # Errors
    ///
    /// If the text names none, or states a wrong parameter.
    pub fn parse(text: &str, own: &[&'static PolicyKind]) -> Result<Self, PolicyError> {
        let (name, parameters) = text.split_once(':').unwrap_or((text, ""));
        let all = || Self::ALL.into_iter().chain(own.iter().copied().map(Self::of));
        let Some(mut choice) = all().find(|choice| choice.kind.name == name) else {
            return Err(PolicyError::Name { name: name.into(), known: listed(all().map(|choice| choice.kind.name)) });
        };
        let known = choice.kind.parameters;
        for given in parameters.split(':').filter(|given| !given.is_empty()) {
            let taken = given.split_once('=').and_then(|(key, value)| {
                let at = known.iter().position(|parameter| parameter.key == key)?;
                let value = value.parse().ok().filter(|value| known[at].range.contains(value))?;
                Some((at, value))
            });
            let Some((at, value)) = taken else {
                let has = if known.is_empty() { "none".into() } else { listed(known) };
                return Err(PolicyError::Parameter { given: given.into(), name: name.into(), has });
            };
            choice.values[at] = value;
        }
        Ok(choice)
    }

    /// The kind.
    pub fn kind(self) -> &'static PolicyKind {
        self.kind
    }

    fn values(&self) -> &[u64] {
        &self.values[..self.kind.parameters.len()]
    }

    /// The policy; none is the documented order, in which the number of the last submission is the rank.
    pub fn policy(self) -> Option<Box<dyn Policy>> {
        self.kind.make.map(|make| make(self.values()))
    }

    fn place_of_seed(self) -> Option<usize> {
        self.kind.parameters.iter().position(|parameter| parameter.key == SEED)
    }

    /// The seed of its draws, if it draws.
    pub fn seed(self) -> Option<u64> {
        self.place_of_seed().map(|at| self.values[at])
    }

    /// The same with another seed, if it draws.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        if let Some(at) = self.place_of_seed() {
            self.values[at] = seed;
        }
        self
    }

    /// The same with the seed that it has without one.
    #[must_use]
    pub fn without_seed(self) -> Self {
        self.with_seed(Self::of(self.kind).seed().unwrap_or_default())
    }
}

/// Some things in a row: `a, b and c`.
fn listed<T: fmt::Display>(things: impl IntoIterator<Item = T>) -> String {
    let mut things = things.into_iter().peekable();
    let mut text = String::new();
    while let Some(thing) = things.next() {
        text += &match (text.is_empty(), things.peek()) {
            (true, _) => thing.to_string(),
            (false, Some(_)) => format!(", {thing}"),
            (false, None) => format!(" and {thing}"),
        };
    }
    text
}

impl Default for PolicyChoice {
    fn default() -> Self {
        Self::LRU
    }
}

impl PartialEq for PolicyChoice {
    fn eq(&self, other: &Self) -> bool {
        core::ptr::eq(self.kind, other.kind) && self.values() == other.values()
    }
}

impl Eq for PolicyChoice {}

impl fmt::Debug for PolicyChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for PolicyChoice {
    /// The name, and the values that are not the defaults.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::from(self.kind.name);
        for (parameter, value) in self.kind.parameters.iter().zip(self.values()) {
            if *value != parameter.default {
                text += &format!(":{}={value}", parameter.key);
            }
        }
        f.pad(&text)
    }
}

/// A text names no policy.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum PolicyError {
    /// No policy has that name.
    #[error("`{name}` is no policy; there are {known}")]
    Name {
        /// The name.
        name: String,
        /// All names.
        known: String,
    },
    /// It has no such parameter, or not such a value.
    #[error("`{given}` is no parameter of {name}, which has {has}")]
    Parameter {
        /// The given text.
        given: String,
        /// The name of the policy.
        name: String,
        /// All parameters.
        has: String,
    },
}

impl FromStr for PolicyChoice {
    type Err = PolicyError;

    /// One of those that come with the manager.
    fn from_str(text: &str) -> Result<Self, PolicyError> {
        Self::parse(text, &[])
    }
}
