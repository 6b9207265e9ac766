//! Descriptors that name buffers, and sets of descriptors.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use ash::vk;

use crate::fault;
use crate::ranges::Access;

/// A range of a buffer, and what is done to the range. The number of the buffer is never used again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Use {
    pub buffer: u64,
    pub range: Range<u64>,
    pub access: Access,
}

/// The access of shaders through a descriptor of a type, if the type is of buffers.
pub fn access(of: vk::DescriptorType) -> Option<Access> {
    use vk::DescriptorType as Type;
    if fault::hides(of) {
        return None;
    }
    match of {
        Type::UNIFORM_BUFFER | Type::UNIFORM_BUFFER_DYNAMIC | Type::UNIFORM_TEXEL_BUFFER => Some(Access::Read),
        Type::STORAGE_BUFFER | Type::STORAGE_BUFFER_DYNAMIC | Type::STORAGE_TEXEL_BUFFER => Some(Access::Update),
        _ => None,
    }
}

/// Whether each bind of a set gives an offset for a descriptor of a type.
pub fn is_dynamic(of: vk::DescriptorType) -> bool {
    matches!(of, vk::DescriptorType::UNIFORM_BUFFER_DYNAMIC | vk::DescriptorType::STORAGE_BUFFER_DYNAMIC)
}

/// The bindings of a set: the type and the number of descriptors of each.
pub type Layout = BTreeMap<u32, (vk::DescriptorType, u32)>;

/// A binding, and an element of its array.
pub type Slot = (u32, u32);

/// A set of descriptors.
#[derive(Clone, Default)]
pub struct Set {
    layout: Arc<Layout>,
    /// The descriptors that name buffers.
    descriptors: BTreeMap<Slot, Use>,
}

impl Set {
    pub fn new(layout: Arc<Layout>) -> Self {
        Self { layout, descriptors: BTreeMap::new() }
    }

    /// Changes the descriptors from a slot on.
    pub fn write(&mut self, slot: Slot, descriptors: impl IntoIterator<Item = Option<Use>>) {
        for (slot, descriptor) in self.slots_from(slot).zip(descriptors) {
            match descriptor {
                Some(descriptor) => self.descriptors.insert(slot, descriptor),
                None => self.descriptors.remove(&slot),
            };
        }
    }

    /// The descriptors from a slot on.
    pub fn read(&self, slot: Slot, count: u32) -> Vec<Option<Use>> {
        let slots = self.slots_from(slot).take(count as usize);
        slots.map(|slot| self.descriptors.get(&slot).cloned()).collect()
    }

    /// The slots from one on. An array that ends goes on in the next binding.
    fn slots_from(&self, (mut binding, mut element): Slot) -> impl Iterator<Item = Slot> + use<> {
        let layout = Arc::clone(&self.layout);
        std::iter::repeat_with(move || {
            while let Some(&(_, count)) = layout.get(&binding)
                && element >= count
                && let Some((&next, _)) = layout.range(binding + 1..).next()
            {
                (binding, element) = (next, element - count);
            }
            let slot = (binding, element);
            element += 1;
            slot
        })
    }

    /// The number of dynamic offsets that a bind of the set gives.
    pub fn num_dynamic(&self) -> usize {
        self.layout.values().filter(|(of, _)| is_dynamic(*of)).map(|&(_, count)| count as usize).sum()
    }

    /// The ranges of the set under the offsets of a bind.
    pub fn uses<'a>(&'a self, offsets: &'a [u32]) -> impl Iterator<Item = Use> + 'a {
        let mut dynamic = BTreeMap::new();
        let mut at = 0;
        for (&binding, &(of, count)) in self.layout.iter() {
            if is_dynamic(of) {
                dynamic.insert(binding, at);
                at += count as usize;
            }
        }
        self.descriptors.iter().map(move |(&(binding, element), known)| {
            let first = dynamic.get(&binding).map(|first| first + element as usize);
            let offset = first.and_then(|at| offsets.get(at)).map_or(0, |&offset| u64::from(offset));
            let Range { start, end } = known.range;
            Use { range: start.saturating_add(offset)..end.saturating_add(offset), ..*known }
        })
    }
}
