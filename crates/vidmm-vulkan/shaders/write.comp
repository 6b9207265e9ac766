// Writes pages as a kernel does, one workgroup a page. Reads all fields: `first` is the kernel's state, or the seed.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "page.glsl"

layout(local_size_x = 32) in;

const uint64_t RAMP_STEP = 0x9E3779B97F4A7C15ul;

void main() {
    uint64_t page = uint64_t(gl_WorkGroupID.x);
    Words words = page_at(page);
    uint64_t seed = arguments.first;
    if ((arguments.flags & FLAG_SEED) == 0u) {
        seed = mix_words(mix_words(arguments.first, arguments.number + 1ul), arguments.page + page);
    }
    uint64_t step = (arguments.flags & FLAG_RAMP) != 0u ? RAMP_STEP : 0ul;
    uint64_t key = key_of(page);
    for (uint i = gl_LocalInvocationID.x; i < WORDS_PER_PAGE; i += gl_WorkGroupSize.x) {
        words.word[i] = (seed + uint64_t(i) * step) ^ key;
    }
}
