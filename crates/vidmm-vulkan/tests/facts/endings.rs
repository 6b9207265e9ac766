//! Handles are dropped in any order, also while the GPU has work.

use ash::vk;
use vidmm::MakeResidentFlags;
use vidmm_vulkan::{Validation, take_validation_messages};

use crate::{MIB, alone};

/// All orders of `count` things.
fn orders(count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let shorter = orders(count - 1);
    let insert = |order: &Vec<usize>, at: usize| {
        let mut order = order.clone();
        order.insert(at, count - 1);
        order
    };
    shorter.iter().flat_map(|order| (0..count).map(move |at| insert(order, at))).collect()
}

#[test]
fn handles_are_dropped_in_any_order() {
    let _alone = alone();
    let all = orders(5);
    assert_eq!(all.len(), 120);
    // An adapter each is slow under validation: a part of the orders ends one, the others share one.
    let Some((shared, is_validated)) = crate::adapter(4 * MIB, Validation::On) else { return };
    for (number, order) in all.iter().enumerate() {
        let adapter = if number % 12 == 0 {
            crate::adapter(4 * MIB, Validation::On).expect("there was one before").0
        } else {
            shared.clone()
        };
        let process = adapter.create_process().expect("there is memory for a process");
        let device = process.create_device().expect("it is created");
        let buffer = device.create_buffer(MIB, vk::BufferUsageFlags::empty()).expect("there is memory");
        device.make_resident(&[&buffer], MakeResidentFlags::empty()).expect("there is room");
        device.write(&buffer, 0, &[7; 4096]).expect("it is resident");
        let download = device.read(&buffer, 0, 4096).expect("it is resident");
        let mut handles: [Option<Box<dyn std::any::Any>>; 5] =
            [Some(Box::new(adapter)), Some(Box::new(process)), Some(Box::new(device)), Some(Box::new(buffer)), None];
        let mut download = Some(download);
        for &index in order {
            match index {
                4 => {
                    let bytes = download.take().map(|download| download.wait());
                    assert_eq!(bytes, Some(Ok(vec![7; 4096])), "the bytes come, whatever was dropped before");
                }
                index => drop(handles[index].take()),
            }
        }
    }
    drop(shared);
    if is_validated {
        assert_eq!(take_validation_messages(), [""; 0]);
    }
}

#[test]
fn a_use_keeps_the_adapter_and_ends_with_it() {
    let _alone = alone();
    let Some((adapter, is_validated)) = crate::adapter(4 * MIB, Validation::On) else { return };
    let process = adapter.create_process().expect("there is memory for a process");
    let device = process.create_device().expect("it is created");
    let buffer = device.create_buffer(MIB, vk::BufferUsageFlags::empty()).expect("there is memory");
    device.make_resident(&[&buffer], MakeResidentFlags::empty()).expect("there is room");
    let used = device.begin_use(&[&buffer]).expect("it is resident");
    drop((buffer, device, process, adapter));
    drop(used);
    if is_validated {
        assert_eq!(take_validation_messages(), [""; 0]);
    }
}
