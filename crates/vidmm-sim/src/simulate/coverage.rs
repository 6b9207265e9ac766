//! The coverage of a campaign: how often each call, flag, answer and event was met, and each reason that an event gives.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde::de::value::Error;
use serde::de::{DeserializeOwned, Deserializer, Error as _, Visitor};
use serde_json::{Value, json};
use vidmm::event::{EvictReason, PreemptReason, ReclaimReason, ResumeReason, SuspendReason};
use vidmm::{
    DestroyFlags, DeviceErrorReason, DriverFinding, Event, EvictFlags, MakeResidentFlags, NoMemoryReason,
    NumberedEvent, OfferFlags, TrimFlags, Violation,
};

use super::unmet::UNMET;
use crate::run::Observer;
use crate::scenario::steps::{Action, Answer, Call};

/// How often each point was met. A point is a call by its verb, `call evict`; an answer, `answer no-memory`; an event,
/// `event evicted`; or something that an event says, `evicted reason replace`.
#[derive(Clone, Debug, Default)]
pub struct Coverage(BTreeMap<String, u64>);

impl Observer for Coverage {
    fn event(&mut self, event: &NumberedEvent) {
        let told = serde_json::to_value(&event.event).expect("an event has a form in JSON");
        let (kind, fields) = match &told {
            Value::Object(only) => only.iter().next().expect("an event has a name"),
            name => return self.meet(format!("event {}", name.as_str().unwrap_or_default())),
        };
        self.meet(format!("event {kind}"));
        for (field, value) in fields.as_object().into_iter().flatten() {
            let said = match (field.as_str(), value) {
                ("flags", Value::String(flags)) => flags.split(" | ").map(str::to_owned).collect(),
                (_, Value::Object(of)) => {
                    of.get("kind").and_then(Value::as_str).map(str::to_owned).into_iter().collect()
                }
                _ => Vec::new(),
            };
            for value in said.iter().filter(|value| !value.is_empty()) {
                self.meet(format!("{kind} {field} {value}"));
            }
            if let ("flags", [_, _, ..]) = (field.as_str(), &said[..]) {
                self.meet(format!("{kind} flags together"));
            }
        }
    }

    fn answered(&mut self, action: &Action, answer: Option<Answer>) {
        if let Action::Call(call) = action {
            self.meet(format!("call {}", call.verb()));
            answer.into_iter().for_each(|answer| self.meet(format!("answer {answer}")));
        }
    }
}

impl Coverage {
    fn meet(&mut self, point: String) {
        *self.0.entry(point).or_default() += 1;
    }

    /// Adds the points that another run has met.
    pub fn add(&mut self, other: &Self) {
        for (point, times) in &other.0 {
            *self.0.entry(point.clone()).or_default() += times;
        }
    }

    /// How often a point was met.
    pub fn times(&self, point: &str) -> u64 {
        self.0.get(point).copied().unwrap_or(0)
    }

    /// All points that there are, whether or not they were met.
    pub fn points() -> BTreeSet<String> {
        let mut points = BTreeSet::new();
        points.extend(Call::VERBS.iter().map(|(verb, _)| format!("call {verb}")));
        points.extend(variants::<Answer>().iter().map(|answer| format!("answer {answer}")));
        points.extend(variants::<Event>().iter().map(|event| format!("event {event}")));
        let mut say = |event: &str, field: &str, values: Vec<String>| {
            points.extend(values.iter().map(|value| format!("{event} {field} {value}")));
        };
        say("evicted", "reason", kinds::<EvictReason>());
        say("gpu_virtual_address_reclaimed", "reason", kinds::<ReclaimReason>());
        say("make_resident_refused", "reason", kinds::<NoMemoryReason>());
        say("device_in_error", "reason", kinds::<DeviceErrorReason>());
        say("device_yielded", "reason", kinds::<SuspendReason>());
        say("device_resumed", "reason", kinds::<ResumeReason>());
        say("preempt_requested", "reason", kinds::<PreemptReason>());
        say("driver_finding", "finding", kinds::<DriverFinding>());
        say("adapter_in_error", "violation", kinds::<Violation>());
        say("make_resident", "flags", names(MakeResidentFlags::all().iter_names()));
        say("evict", "flags", names(EvictFlags::all().iter_names()));
        say("offered", "flags", names(OfferFlags::all().iter_names()));
        say("trim_notified", "flags", names(TrimFlags::all().iter_names()));
        say("allocation_destroyed", "flags", names(DestroyFlags::all().iter_names()));
        points.insert("offered flags together".to_owned());
        points.insert("evict flags together".to_owned());
        points
    }

    /// The points that were not met, each with the reason why worlds do not get there; none if nobody gave one.
    pub fn unmet(&self) -> Vec<(String, Option<&'static str>)> {
        let reason = |point: &str| UNMET.iter().find(|(known, _)| *known == point).map(|&(_, reason)| reason);
        let unmet = Self::points().into_iter().filter(|point| self.times(point) == 0);
        unmet.map(|point| (point.clone(), reason(&point))).collect()
    }
}

fn names<F>(flags: impl Iterator<Item = (&'static str, F)>) -> Vec<String> {
    flags.map(|(name, _)| name.to_owned()).collect()
}

/// The names of an enum's variants.
fn variants<'de, T: Deserialize<'de>>() -> Vec<String> {
    let Err(error) = T::deserialize(NoVariant) else { panic!("no variant is read") };
    expected(&error)
}

/// The kinds of an enum that says its kind in a field: those that it expects in place of one that it does not have.
fn kinds<T: DeserializeOwned>() -> Vec<String> {
    let Err(error) = serde_json::from_value::<T>(json!({ "kind": "?" })) else { panic!("no kind is called `?`") };
    expected(&error)
}

/// The names in: unknown variant `?`, expected one of `a`, `b`
fn expected(error: &impl ToString) -> Vec<String> {
    error.to_string().split('`').skip(1).step_by(2).skip(1).map(str::to_owned).collect()
}

/// An input without a variant of any enum: no code is made that reads one, and events have many.
struct NoVariant;

impl<'de> Deserializer<'de> for NoVariant {
    type Error = Error;

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Error> {
        Err(Error::unknown_variant("?", variants))
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("it is no enum"))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_enum_tells_all_its_variants() {
        assert!(variants::<Answer>().contains(&"device-in-error".to_owned()));
        assert!(variants::<Event>().contains(&"adapter_restarted".to_owned()));
        assert!(kinds::<EvictReason>().contains(&"destroyed".to_owned()));
    }

    #[test]
    fn a_reason_is_given_only_for_a_point_that_there_is() {
        let points = Coverage::points();
        let unknown: Vec<_> = UNMET.iter().filter(|(point, _)| !points.contains(*point)).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }

    #[test]
    fn an_event_and_its_flags_are_counted() {
        let mut coverage = Coverage::default();
        let event = Event::Evict {
            device: vidmm::DeviceId::from_bits(1),
            allocations: Vec::new(),
            flags: EvictFlags::all(),
            after_submission: 0,
            num_bytes_to_trim: 0,
        };
        coverage.event(&NumberedEvent { number: 1, at: 0, occurred_at: None, event });
        let met =
            ["event evict", "evict flags NOT_WRITTEN_TO", "evict flags together"].map(|point| coverage.times(point));
        assert_eq!(met, [1, 1, 1]);
        assert!(coverage.unmet().iter().all(|(point, _)| point != "event evict"));
    }
}
