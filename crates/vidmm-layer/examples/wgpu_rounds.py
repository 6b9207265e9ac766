"""Buffers under wgpu: each round checks all words of each buffer, and writes other words. Prints the number of wrong words.

Arguments: the number of buffers, the MiB of each, the number of rounds.
"""

import sys

import numpy as np
import wgpu

buffers, mib, rounds = map(int, sys.argv[1:4])
adapter = wgpu.gpu.request_adapter_sync(power_preference="high-performance")
assert adapter.info["backend_type"] == "Vulkan", "there is no Vulkan device"
limits = {"max-storage-buffer-binding-size": mib << 20, "max-buffer-size": 1 << 30}
device = adapter.request_device_sync(required_limits=limits)
shader = device.create_shader_module(
    code="""
struct Round { expected: u32, next: u32, x: u32, y: u32 };
@group(0) @binding(0) var<storage, read_write> words: array<u32>;
@group(0) @binding(1) var<storage, read_write> wrong: array<atomic<u32>>;
@group(0) @binding(2) var<uniform> values: Round;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    for (var i = id.x; i < arrayLength(&words); i += 16384u) {
        if (words[i] != values.expected * (i | 1u)) { atomicAdd(&wrong[0], 1u); }
        words[i] = values.next * (i | 1u);
    }
}"""
)
usage = wgpu.BufferUsage
everything = [device.create_buffer(size=mib << 20, usage=usage.STORAGE | usage.COPY_DST) for _ in range(buffers)]
wrong = device.create_buffer(size=256, usage=usage.STORAGE | usage.COPY_SRC)
pipeline = device.create_compute_pipeline(layout="auto", compute={"module": shader, "entry_point": "main"})
for number in range(rounds):
    for at, words in enumerate(everything):
        values = np.array([0 if number == 0 else number * 1000 + at, (number + 1) * 1000 + at, 0, 0], np.uint32)
        arguments = device.create_buffer_with_data(data=values, usage=usage.UNIFORM)
        entries = [{"binding": i, "resource": {"buffer": one}} for i, one in enumerate([words, wrong, arguments])]
        group = device.create_bind_group(layout=pipeline.get_bind_group_layout(0), entries=entries)
        encoder = device.create_command_encoder()
        work = encoder.begin_compute_pass()
        work.set_pipeline(pipeline)
        work.set_bind_group(0, group)
        work.dispatch_workgroups(256)
        work.end()
        device.queue.submit([encoder.finish()])
count = np.frombuffer(device.queue.read_buffer(wrong), np.uint32)[0]
print("wgpu", buffers, "x", mib, "MiB, rounds", rounds, "wrong", count)
