//! The segments where allocations may be, and the notifications that the driver asks for about them.

use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize, Serializer};
use vidmm_runtime::{AllocationSegments, MemoryKind, SegmentOrder};

/// A notification that the driver asks for when an allocation is created.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Notification {
    /// Before the allocation leaves the aperture or implicit system memory (NTF-02).
    Eviction,
    /// Before the allocation is unmapped from the IOMMU (NTF-04).
    IoMmuUnmap,
}

/// The names of [`AllocationSegments`]: a word, or a list of memory segments and system memory in order of preference.
#[derive(Deserialize, Serialize)]
#[serde(
    untagged,
    expecting = "`local`, `system`, `local-or-system`, or a list such as `[\"local\", \"memory-2\", \"system\"]`"
)]
enum Segments {
    Word(Word),
    List(Vec<String>),
}

#[derive(Clone, Copy, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Word {
    Local,
    System,
    LocalOrSystem,
}

impl Segments {
    fn read(self) -> Result<AllocationSegments, String> {
        let names = match self {
            Segments::Word(Word::Local) => return Ok(AllocationSegments::Local),
            Segments::Word(Word::System) => return Ok(AllocationSegments::System),
            Segments::Word(Word::LocalOrSystem) => return Ok(AllocationSegments::LocalOrSystem),
            Segments::List(names) => names,
        };
        let kinds: Option<Vec<MemoryKind>> = names.iter().map(|name| kind_of(name)).collect();
        kinds.and_then(SegmentOrder::new).map(AllocationSegments::Ordered).ok_or_else(|| {
            format!(
                "{names:?} are no segments; write one to five different ones of `local`, `memory-2` to `memory-10`, `system` and \
                 `aperture-2` to `aperture-5`"
            )
        })
    }

    fn of(segments: AllocationSegments) -> Self {
        match segments {
            AllocationSegments::Local => Segments::Word(Word::Local),
            AllocationSegments::System => Segments::Word(Word::System),
            AllocationSegments::LocalOrSystem => Segments::Word(Word::LocalOrSystem),
            AllocationSegments::Ordered(order) => Segments::List(order.kinds().map(name_of).collect()),
        }
    }
}

fn kind_of(name: &str) -> Option<MemoryKind> {
    match name {
        "local" => Some(MemoryKind::Memory(1)),
        "system" => Some(MemoryKind::System),
        other => {
            let number = |prefix| other.strip_prefix(prefix)?.parse().ok().filter(|&number: &u8| number > 1);
            number("memory-").map(MemoryKind::Memory).or_else(|| number("aperture-").map(MemoryKind::Aperture))
        }
    }
}

/// The name of a kind of memory in scenarios.
pub(crate) fn name_of(kind: MemoryKind) -> String {
    match kind {
        MemoryKind::Memory(1) => "local".to_owned(),
        MemoryKind::Memory(number) => format!("memory-{number}"),
        MemoryKind::System => "system".to_owned(),
        MemoryKind::Aperture(number) => format!("aperture-{number}"),
    }
}

/// Reads the segments where an allocation may be.
pub(super) fn optional_segments<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<AllocationSegments>, D::Error> {
    Segments::deserialize(deserializer)?.read().map(Some).map_err(D::Error::custom)
}

/// Writes the segments where an allocation may be, if any are given.
pub(super) fn write_segments<S: Serializer>(
    segments: &Option<AllocationSegments>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match segments {
        Some(segments) => Segments::of(*segments).serialize(serializer),
        None => serializer.serialize_none(),
    }
}
