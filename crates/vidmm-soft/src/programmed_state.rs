//! The programmed state of an engine of an adapter without GPU virtual addresses, and when it is lost.

use std::collections::BTreeMap;

use vidmm::contract::KmdContextHandle;

use crate::encoding::Command;
use crate::translation::AddressSpace;

/// For which contexts the state of each engine is programmed.
///
/// A context's state is lost when a paging buffer has ended since, anywhere, and when a packet of another context begins on the
/// engine, unless engines save it. That shows when the context's next packet begins: what runs is not harmed. So a DMA buffer
/// that does not program state again after a split point is found out, whenever it is split there (SPL-06, SPL-07).
#[derive(Debug)]
pub struct ProgrammedState {
    /// Engines save the state of a context whose packet ends (SPL-07).
    saves: bool,
    /// For each engine and context, how many paging buffers had ended when the state was programmed.
    engines: Vec<BTreeMap<KmdContextHandle, u64>>,
    paging_buffers_ended: u64,
}

impl ProgrammedState {
    /// No engine of `num_engines` is programmed.
    pub fn new(num_engines: u32, saves: bool) -> Self {
        Self { saves, engines: (0..num_engines).map(|_| BTreeMap::new()).collect(), paging_buffers_ended: 0 }
    }

    /// `engine` begins `command` in `space`; `false` if it is a kernel, and the state is not programmed.
    pub fn begin(&mut self, engine: usize, space: Option<AddressSpace>, command: &Command) -> bool {
        let ended = self.paging_buffers_ended;
        let programmed = &mut self.engines[engine];
        match (command, space) {
            (Command::SetContext(next), _) => {
                programmed.retain(|&context, &mut at| at == ended && (self.saves || context == next.context));
            }
            (Command::SetState(_), Some(AddressSpace::Physical(current))) => {
                programmed.insert(current.context, ended);
            }
            (Command::Kernel(_), Some(AddressSpace::Physical(current))) => {
                return programmed.contains_key(&current.context);
            }
            _ => {}
        }
        true
    }

    /// A packet has ended that ran in `space`.
    pub fn packet_ended(&mut self, space: Option<AddressSpace>) {
        if matches!(space, Some(AddressSpace::Physical(context)) if context.is_system) {
            self.paging_buffers_ended += 1;
        }
    }

    /// `engine` was reset.
    pub fn forget(&mut self, engine: usize) {
        self.engines[engine].clear();
    }

    /// All engines were reset, or lost their power.
    pub fn forget_all(&mut self) {
        self.engines.iter_mut().for_each(BTreeMap::clear);
    }
}
