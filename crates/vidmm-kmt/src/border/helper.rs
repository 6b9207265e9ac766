//! `libwsl_compute_helper.so`: the client gives tokens, and gets the struct that the kernel-mode driver wants. Here the struct has the
//! tokens in it.

use super::blobs::TOKENS;
use super::client::settings;
use super::tokens::Tokens;

/// Bytes that each struct and each stream of tokens has room for.
const ROOM: usize = 32 << 10;

/// The number of the struct that says what the adapter is.
const ADAPTER_INFO: u32 = 1;

/// The size of a struct of the kernel-mode driver, in bytes.
#[unsafe(no_mangle)]
extern "C" fn getSizeRequiredForStruct(_structure: u32) -> usize {
    ROOM
}

/// The size of the tokens of a struct, in bytes.
#[unsafe(no_mangle)]
extern "C" fn getSizeRequiredForTokens(_structure: u32) -> usize {
    ROOM
}

/// The version of the helper.
#[unsafe(no_mangle)]
extern "C" fn getVersion() -> u64 {
    0
}

/// A struct needs no end.
#[unsafe(no_mangle)]
extern "C" fn destroyStructRepresentation(_structure: u32, _data: *mut u8, _size: usize) {}

/// Puts tokens into a struct of `size` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn tokensToStruct(
    _structure: u32,
    data: *mut u32,
    size: usize,
    begin: *const u32,
    end: *const u32,
) -> bool {
    // SAFETY: the client says where its tokens begin and end.
    let tokens = unsafe { std::slice::from_raw_parts(begin, end.offset_from_unsigned(begin)) };
    if tokens.len() * 4 + 16 > size {
        return false;
    }
    let number = tokens.len() as u64;
    let head = [TOKENS as u32, (TOKENS >> 32) as u32, number as u32, (number >> 32) as u32];
    for (at, &word) in head.iter().chain(tokens).enumerate() {
        // SAFETY: there is room for the head and the tokens, as was just looked at.
        unsafe { data.add(at).write_unaligned(word) };
    }
    true
}

/// Takes the tokens out of a struct. The tokens of the adapter's struct are made here.
#[unsafe(no_mangle)]
unsafe extern "C" fn structToTokens(
    structure: u32,
    tokens: *mut u32,
    size: usize,
    data: *const u32,
    data_size: usize,
) -> bool {
    let words = if structure == ADAPTER_INFO {
        adapter_info()
    } else {
        // SAFETY: the client says how large the struct is.
        let words = unsafe { super::blobs::words(data.cast(), u32::try_from(data_size).unwrap_or(u32::MAX)) };
        super::blobs::tokens_of(&words).unwrap_or_default().to_vec()
    };
    if words.len() * 4 > size {
        return false;
    }
    // SAFETY: the client says how much room there is, which was just looked at.
    unsafe {
        tokens.write_bytes(0, size / 4);
        tokens.copy_from_nonoverlapping(words.as_ptr(), words.len());
    }
    true
}

/// Slices, subslices of each, and EUs of each half of a subslice, of a part.
struct Shape {
    family: u32,
    core_family: u32,
    slices: u32,
    subslices: u32,
    has_local_memory: bool,
}

/// The description of the adapter: a platform, sizes of memory, the shape of the engines, and the ranges of GPU virtual addresses.
fn adapter_info() -> Vec<u32> {
    let settings = settings();
    let shape = match settings.device_id {
        0x9A49 => Shape { family: 33, core_family: 18, slices: 1, subslices: 6, has_local_memory: false },
        _ => Shape { family: 1270, core_family: 0x0c07, slices: 8, subslices: 4, has_local_memory: true },
    };
    let mut tokens = Tokens::default();
    tokens.nested(3551, |platform| {
        platform.number(3475, shape.family);
        platform.number(3478, shape.core_family);
        platform.number(3477, shape.core_family);
        platform.number(3480, settings.device_id);
        platform.number(3481, 1);
    });
    // Local memory, and what the client may have of system memory.
    tokens.quad(3577, if shape.has_local_memory { settings.local_memory } else { 0 });
    tokens.quad(3578, 4 << 30);
    tokens.quad(3569, 4 << 30);
    // Ticks a second of the timer, and the frequencies in MHz.
    tokens.number(3555, 19_200_000);
    tokens.number(3559, 1300);
    tokens.number(3556, 1300);
    if shape.has_local_memory {
        tokens.nested(3552, |features| {
            features.number(640, 1);
            features.number(598, 1);
        });
    }
    tokens.nested(3585, |engines| {
        let subslices = shape.slices * shape.subslices;
        let eus = subslices * 16;
        let of_part = [(299, eus), (300, eus * 8), (301, shape.slices), (302, subslices), (303, subslices)];
        of_part.into_iter().for_each(|(id, value)| engines.number(id, value));
        engines.quad(304, 3840);
        let most = [(308, 8), (319, 16), (320, shape.slices), (321, subslices), (322, subslices), (336, 8), (361, 64)];
        most.into_iter().for_each(|(id, value)| engines.number(id, value));
        for slice in 0..shape.slices {
            engines.element(324, slice, |of_slice| {
                of_slice.is_true(200);
                of_slice.number(203, shape.subslices);
                of_slice.number(204, shape.subslices);
                for subslice in 0..shape.subslices {
                    of_slice.element(202, subslice, |of_subslice| {
                        of_subslice.is_true(198);
                        for half in 0..2 {
                            of_subslice.element(199, half, |of_half| {
                                of_half.is_true(195);
                                of_half.number(196, 8);
                                of_half.number(197, 255);
                            });
                        }
                    });
                }
            });
        }
    });
    tokens.nested(3588, |addresses| {
        let range = |tokens: &mut Tokens, first: u64, last: u64| {
            tokens.quad(3532, first);
            tokens.quad(3533, last);
        };
        addresses.nested(3534, |of| range(of, 0x1000_0000_0000, 0x1fff_ffff_ffff));
        addresses.nested(3535, |of| range(of, 0x2000_0000_0000, 0x2fff_ffff_ffff));
        addresses.nested(3538, |of| range(of, 0, 0x7fff_ffff_ffff));
        for heap in 0..4 {
            let first = 0x8000_0000_0000 + (u64::from(heap) << 32);
            addresses.element(3540, heap, |of| range(of, first, first + 0xffff_ffff));
        }
    });
    tokens.0
}
