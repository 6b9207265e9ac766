//! The lists of names that steps have.

use super::call::{Action, Call, Look};

/// What a list of names is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Allocations,
    Mappings,
    Devices,
    /// Kernels and command buffers.
    Work,
    /// Work, or fences.
    WorkOrFences,
}

/// The list of names that a step is about, if it is about a list. Without any of them it does nothing.
pub(super) fn subject(action: &mut Action, is_physical: bool) -> Option<(Kind, &mut Vec<String>)> {
    let allocations = match action {
        Action::Call(call) => match call {
            Call::OpenAllocation(on) | Call::CloseAllocation(on) => &mut on.allocations,
            Call::Map(map) => &mut map.allocations,
            Call::MakeResident(make_resident) => &mut make_resident.allocations,
            Call::Evict(evict) => &mut evict.allocations,
            Call::Offer(offer) => &mut offer.allocations,
            Call::Reclaim(reclaim) => &mut reclaim.allocations,
            Call::Lock(allocations) | Call::Unlock(allocations) => allocations,
            Call::SetPriority(set) => &mut set.allocations,
            Call::UpdateProperty(update) => &mut update.allocations,
            Call::DestroyAllocation(destroy) => &mut destroy.allocations,
            Call::CheckContent(names) => {
                return Some((if is_physical { Kind::Allocations } else { Kind::Mappings }, names));
            }
            _ => return None,
        },
        Action::Look(look) => match look {
            Look::System(allocations)
            | Look::CpuWrite(allocations)
            | Look::CpuRead(allocations)
            | Look::Residency(allocations, _) => allocations,
            Look::Aperture(check) => &mut check.allocations,
            Look::Waiting(kernels) => return Some((Kind::Work, kernels)),
            Look::DeviceError(check) => return Some((Kind::Devices, &mut check.devices)),
            _ => return None,
        },
    };
    Some((Kind::Allocations, allocations))
}

/// The other lists of names of a step.
pub(super) fn objects(action: &mut Action) -> Vec<(Kind, &mut Vec<String>)> {
    match action {
        Action::Call(Call::Kernel(kernel)) => vec![
            (Kind::Mappings, &mut kernel.reads),
            (Kind::Mappings, &mut kernel.writes),
            (Kind::Allocations, &mut kernel.allocations),
            (Kind::WorkOrFences, &mut kernel.after),
        ],
        Action::Call(Call::Render(render)) => vec![(Kind::WorkOrFences, &mut render.after)],
        _ => Vec::new(),
    }
}
