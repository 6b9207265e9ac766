//! Standard allocations: surfaces that Dxgkrnl creates by itself. The driver says their private data, so that a driver is tried
//! without its user-mode half.

use std::cell::Cell;

use vidmm::PAGE_SIZE;
use vidmm::contract::AllocationFlags;

use crate::abi::*;
use crate::adapter::{Adapter, PASSIVE_LEVEL, Wanted};
use crate::bounce::Bounce;
use crate::progress::Entry;
use crate::reports::report;

/// Private data of more bytes no driver has.
pub(crate) const PRIVATE_DATA_BYTES: u32 = 4096;

/// The bytes of a row: 1,024 pixels of A8R8G8B8 are a page.
const ROW_BYTES: u64 = PAGE_SIZE;

/// A kind of surface.
#[derive(Clone, Copy, Debug)]
enum Surface {
    /// A texture of GDI's, from WDDM 1.1 on.
    Texture,
    /// A surface that applications draw to with the CPU.
    Shadow,
    /// A surface from which the CPU reads.
    Staging,
}

impl Surface {
    const ALL: [Self; 3] = [Self::Texture, Self::Shadow, Self::Staging];

    /// Whether the CPU draws to it or reads it.
    fn is_for_cpu(self) -> bool {
        !matches!(self, Self::Texture)
    }
}

/// The surfaces that a driver describes, each kind in turn.
#[derive(Default)]
pub(crate) struct StandardAllocations {
    next: Cell<usize>,
}

impl StandardAllocations {
    /// The private data of a surface of at least so many bytes, of a kind that the CPU accesses if it is to; none if the driver describes
    /// no such surface.
    pub fn describe(&self, adapter: &Adapter, size: u64, for_cpu: bool) -> Option<(Vec<u8>, Wanted)> {
        let first = self.next.replace(self.next.get() + 1);
        let kinds = Surface::ALL.into_iter().cycle().skip(first % Surface::ALL.len()).take(Surface::ALL.len());
        let mut kinds = kinds.filter(|surface| !for_cpu || surface.is_for_cpu());
        let (data, wanted) = kinds.find_map(|surface| describe(adapter, surface, size))?;
        let flags = if for_cpu { AllocationFlags::CPU_VISIBLE } else { AllocationFlags::empty() };
        Some((data, Wanted { flags, ..wanted }))
    }
}

/// The private data of a surface; none if the driver does not have surfaces of the kind. It is called for the sizes first, and then
/// with room.
fn describe(adapter: &Adapter, surface: Surface, size: u64) -> Option<(Vec<u8>, Wanted)> {
    let (width, height) = ((ROW_BYTES / 4) as u32, size.div_ceil(ROW_BYTES) as u32);
    let mut texture = D3DKMDT_GDISURFACEDATA {
        Width: width,
        Height: height,
        Format: D3DDDIFMT_A8R8G8B8,
        Type: D3DKMDT_GDISURFACE_TEXTURE,
        Flags: 0,
        Pitch: 0,
    };
    let mut shadow = D3DKMDT_SHADOWSURFACEDATA { Width: width, Height: height, Format: D3DDDIFMT_A8R8G8B8, Pitch: 0 };
    let mut staging = D3DKMDT_STAGINGSURFACEDATA { Width: width, Height: height, Pitch: 0 };
    let (kind, data) = match surface {
        Surface::Texture => (D3DKMDT_STANDARDALLOCATION_GDISURFACE, (&raw mut texture).cast()),
        Surface::Shadow => (D3DKMDT_STANDARDALLOCATION_SHADOWSURFACE, (&raw mut shadow).cast()),
        Surface::Staging => (D3DKMDT_STANDARDALLOCATION_STAGINGSURFACE, (&raw mut staging).cast()),
    };
    let mut args = DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA {
        StandardAllocationType: kind,
        pCreateGdiSurfaceData: data,
        ..DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA::zeroed()
    };
    if ask(adapter, &mut args) < 0 {
        return None;
    }
    let sizes = (args.AllocationPrivateDriverDataSize, args.ResourcePrivateDriverDataSize);
    if sizes.0 == 0 || sizes.0.max(sizes.1) > PRIVATE_DATA_BYTES {
        let message = "an allocation has 1 to 4096 bytes of private data, and a resource at most as many";
        report(
            "DDI-PRIVATE-DATA",
            format!("the sizes for a {surface:?} surface are {} and {}: {message}", sizes.0, sizes.1),
        );
        return None;
    }
    let (mut data, mut resource) = (Bounce::default(), Bounce::default());
    let data_start = data.start(0, sizes.0 as usize);
    args.pAllocationPrivateDriverData = data_start.cast();
    let resource_start = resource.start(0, sizes.1 as usize);
    if sizes.1 > 0 {
        args.pResourcePrivateDriverData = resource_start.cast();
    }
    let status = ask(adapter, &mut args);
    match status {
        0.. => {}
        STATUS_NO_MEMORY | STATUS_INSUFFICIENT_RESOURCES => return None,
        _ => {
            let message = "it has succeeded without room for the data";
            report("DDI-PRIVATE-DATA", format!("a {surface:?} surface fails with status {status:#x}, and {message}"));
            return None;
        }
    }
    if sizes != (args.AllocationPrivateDriverDataSize, args.ResourcePrivateDriverDataSize) {
        report("DDI-PRIVATE-DATA", format!("the sizes for a {surface:?} surface are others once there is room"));
    }
    let data = data.written(0, data_start.wrapping_add(sizes.0 as usize));
    let resource = resource.written(0, resource_start.wrapping_add(sizes.1 as usize));
    let (Some(data), Some(resource)) = (data, resource) else {
        let (data, resource) = sizes;
        let message = "bytes are written behind the private data of a";
        report(
            "DDI-PRIVATE-DATA",
            format!("{message} {surface:?} surface, which has {data}, and its resource {resource}"),
        );
        return None;
    };
    let pixels = (!matches!(surface, Surface::Staging)).then_some((width, height));
    Some((data.to_vec(), Wanted { size, resource: resource.to_vec(), pixels, ..Wanted::default() }))
}

fn ask(adapter: &Adapter, args: &mut DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA) -> NTSTATUS {
    let Some(function) = adapter.ddi().DxgkDdiGetStandardAllocationDriverData else { return STATUS_NO_MEMORY };
    // SAFETY: the struct, the surface and the rooms that it points to live for the call.
    adapter.call(Entry::DxgkDdiGetStandardAllocationDriverData, PASSIVE_LEVEL, || unsafe {
        function(adapter.handle(), args)
    })
}
