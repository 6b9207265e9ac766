//! The types of memory that a program sees.

use ash::vk::{MemoryHeap, MemoryHeapFlags, MemoryPropertyFlags as Flags, MemoryType, PhysicalDeviceMemoryProperties};

/// The types of memory of a physical device, and one more: memory of the virtual heap, which is the only device-local one.
#[derive(Clone, Copy)]
pub struct MemoryTypes {
    /// The types and heaps as the program sees them.
    pub shown: PhysicalDeviceMemoryProperties,
    /// The type of the virtual heap.
    pub of_homes: u32,
    /// The virtual heap.
    pub heap: u32,
    /// The real type of homes, which is system memory where the device has any.
    pub system: u32,
    /// The real type of local memory.
    pub local: u32,
    /// Bytes of the real heap of local memory.
    pub local_heap_bytes: u64,
    /// The real types, as bits, that are device-local and not for the host.
    hidden: u32,
}

impl MemoryTypes {
    /// The types of a real device with a virtual heap; `heap_bytes` gives the size of the heap from the sizes of the real heaps of homes and of
    /// local memory. None if there is no room for another type, or no local memory.
    pub fn new(real: &PhysicalDeviceMemoryProperties, heap_bytes: impl Fn(u64, u64) -> u64) -> Option<Self> {
        let (types, heaps) = (real.memory_types_as_slice(), real.memory_heaps_as_slice());
        let special = Flags::PROTECTED | Flags::LAZILY_ALLOCATED | Flags::DEVICE_COHERENT_AMD;
        let first = |is_right: &dyn Fn(Flags) -> bool| {
            (0..)
                .zip(types)
                .find(|(_, of)| !of.property_flags.intersects(special) && is_right(of.property_flags))
                .map(|(at, _)| at)
        };
        let is_local = |flags: Flags| flags.contains(Flags::DEVICE_LOCAL);
        let is_seen = |flags: Flags| flags.contains(Flags::HOST_VISIBLE);
        let local = first(&|flags| is_local(flags) && !is_seen(flags)).or_else(|| first(&is_local))?;
        let system = first(&|flags| !is_local(flags) && is_seen(flags)).unwrap_or(local);
        let of_homes = real.memory_type_count;
        let heap = real.memory_heap_count;
        if of_homes as usize >= real.memory_types.len() || heap as usize >= real.memory_heaps.len() {
            return None;
        }
        let heap_size = |at: u32| heaps[types[at as usize].heap_index as usize].size;
        let mut shown = *real;
        let mut hidden = 0;
        for (at, of) in shown.memory_types[..of_homes as usize].iter_mut().enumerate() {
            if is_local(of.property_flags) && !is_seen(of.property_flags) {
                hidden |= 1 << at;
            }
            of.property_flags &= !Flags::DEVICE_LOCAL;
        }
        shown.memory_heaps[..heap as usize].iter_mut().for_each(|heap| heap.flags &= !MemoryHeapFlags::DEVICE_LOCAL);
        shown.memory_types[of_homes as usize] = MemoryType { property_flags: Flags::DEVICE_LOCAL, heap_index: heap };
        let size = heap_bytes(heap_size(system), heap_size(local));
        shown.memory_heaps[heap as usize] = MemoryHeap { size, flags: MemoryHeapFlags::DEVICE_LOCAL };
        shown.memory_type_count += 1;
        shown.memory_heap_count += 1;
        Some(Self { shown, of_homes, heap, system, local, local_heap_bytes: heap_size(local), hidden })
    }

    /// Bytes of the virtual heap.
    pub fn heap_bytes(&self) -> u64 {
        self.shown.memory_heaps[self.heap as usize].size
    }

    /// The types that a resource may have, as the program sees them. A resource can be in a home if the real memory that the layer gives the
    /// resource there is of type `needed`.
    pub fn bits(&self, real: u32, needed: u32) -> u32 {
        if real & 1 << needed == 0 {
            return real;
        }
        let others = real & !self.hidden;
        others | 1 << self.of_homes
    }
}

#[cfg(test)]
mod tests {
    use super::{Flags, MemoryTypes};
    use ash::vk::{MemoryHeap, MemoryHeapFlags, MemoryType, PhysicalDeviceMemoryProperties};

    fn real(types: &[(Flags, u32)], heaps: &[u64]) -> PhysicalDeviceMemoryProperties {
        let mut real = PhysicalDeviceMemoryProperties::default();
        for (at, &(property_flags, heap_index)) in types.iter().enumerate() {
            real.memory_types[at] = MemoryType { property_flags, heap_index };
        }
        for (at, &size) in heaps.iter().enumerate() {
            real.memory_heaps[at] = MemoryHeap { size, flags: MemoryHeapFlags::DEVICE_LOCAL };
        }
        (real.memory_type_count, real.memory_heap_count) = (types.len() as u32, heaps.len() as u32);
        real
    }

    #[test]
    fn the_virtual_heap_is_the_only_device_local_one() {
        let seen = Flags::HOST_VISIBLE | Flags::HOST_COHERENT;
        let gpu = [(Flags::empty(), 1), (Flags::DEVICE_LOCAL, 0), (seen, 1), (Flags::DEVICE_LOCAL | seen, 0)];
        let types = MemoryTypes::new(&real(&gpu, &[8, 32]), |system, _| system / 2).unwrap();
        let local = |of: &MemoryType| of.property_flags.contains(Flags::DEVICE_LOCAL);
        assert_eq!(types.shown.memory_types_as_slice().iter().position(local), Some(4));
        assert_eq!((types.of_homes, types.system, types.local, types.heap_bytes()), (4, 2, 1, 16));
        // Memory that only the device sees comes from the virtual heap alone.
        assert_eq!([types.bits(0b1111, 1), types.bits(0b0101, 1)], [0b11101, 0b0101]);

        let cpu = MemoryTypes::new(&real(&[(Flags::DEVICE_LOCAL | seen, 0)], &[64]), |_, local| local).unwrap();
        assert_eq!((cpu.of_homes, cpu.system, cpu.local), (1, 0, 0));
        assert_eq!(cpu.bits(1, 0), 0b11);
        assert!(MemoryTypes::new(&real(&[(seen, 0)], &[64]), |_, local| local).is_none());
    }
}
