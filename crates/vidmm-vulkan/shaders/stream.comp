// Checks words, and writes others in their place: what the example and the tests of real time run on buffers.
#version 460
#extension GL_EXT_buffer_reference : require

layout(local_size_x = 64) in;

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Words {
    uint word[];
};

layout(push_constant, std430) uniform Arguments {
    // The words that are checked and written.
    Words words;
    // The first word there counts those that are not as expected.
    Words wrong;
    uint count;
    // The words are expected to be those of this seed.
    uint expected;
    // The words of this seed are written.
    uint next;
    // Bit 0: zeros are expected, and no words of a seed. Bit 1: nothing is written.
    uint flags;
} arguments;

uint word_of(uint seed, uint index) {
    uint x = index * 0x9E3779B9u ^ seed;
    x = (x ^ x >> 16) * 0x85EBCA6Bu;
    x = (x ^ x >> 13) * 0xC2B2AE35u;
    return x ^ x >> 16;
}

void main() {
    uint step = gl_NumWorkGroups.x * gl_WorkGroupSize.x;
    uint wrong = 0u;
    for (uint i = gl_GlobalInvocationID.x; i < arguments.count; i += step) {
        uint expected = (arguments.flags & 1u) != 0u ? 0u : word_of(arguments.expected, i);
        wrong += arguments.words.word[i] != expected ? 1u : 0u;
        if ((arguments.flags & 2u) == 0u) {
            arguments.words.word[i] = word_of(arguments.next, i);
        }
    }
    if (wrong != 0u) {
        atomicAdd(arguments.wrong.word[0], wrong);
    }
}
