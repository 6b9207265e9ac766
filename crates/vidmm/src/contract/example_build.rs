
// The core calls again, with a new buffer, until the operation is encoded.
let mut driver = ExampleDriver::default();
let operation = PagingOperation::VirtualFill(FillVirtual {
    allocation: driver.create_allocation(&(1u64 << 20).to_le_bytes()).unwrap().allocation,
    allocation_offset_in_bytes: 0,
    fill_size_in_bytes: 1 << 20,
    fill_pattern: 0,
    destination_virtual_address: vidmm::GpuVirtualAddress(0x20_0000),
});
let mut multipass_offset = 0;
let mut build = |size: usize| {
    let mut build = BuildPagingBuffer {
        operation: &operation,
        dma_buffer: &mut vec![0; size],
        dma_buffer_write_offset: 0,
        dma_buffer_private_data: &mut [],
        dma_bytes_written: 0,
        private_bytes_written: 0,
        multipass_offset: &mut multipass_offset,
        allocation_is_idle: false,
        system_context: KmdContextHandle(1),
    };
    (driver.build_paging_buffer(&mut build), build.dma_bytes_written)
};
assert_eq!(build(10), (BuildStatus::InsufficientDmaBuffer, 0));
assert_eq!(build(40), (BuildStatus::InsufficientDmaBuffer, 24));
assert_eq!(build(40), (BuildStatus::Success, 24));
