//! In which order driver, host and GPU did what they did.

use std::{
    cell::{Ref, RefCell},
    rc::Rc,
};

use vidmm::{
    GpuVirtualAddress, PhysicalAddress,
    contract::{EngineFence, IoMmuDomain},
};

/// One thing that driver, host or GPU did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Happened {
    /// The driver encoded an operation to its end; its number, counted from 0.
    Built(usize),
    /// The GPU executed it.
    Executed(usize),
    /// An engine has ended a packet.
    Completed(EngineFence),
    /// The host mapped a range in the IOMMU.
    Mapped {
        domain: IoMmuDomain,
        virtual_address: GpuVirtualAddress,
        system_address: PhysicalAddress,
        size: u64,
        read_only: bool,
    },
    /// The host unmapped what it had mapped there.
    Unmapped { domain: IoMmuDomain, virtual_address: GpuVirtualAddress, size: u64 },
    /// The host reset a backing store: it reads as zero.
    Reset { address: PhysicalAddress, size: u64 },
}

/// The journal that driver, host and world write together.
#[derive(Clone, Debug, Default)]
pub struct Journal(Rc<RefCell<Vec<Happened>>>);

impl Journal {
    pub fn push(&self, happened: Happened) {
        self.0.borrow_mut().push(happened);
    }

    pub fn len(&self) -> usize {
        self.0.borrow().len()
    }

    /// The lines since the journal had `since` of them.
    pub fn since(&self, since: usize) -> Ref<'_, [Happened]> {
        Ref::map(self.0.borrow(), |lines| &lines[since..])
    }
}
