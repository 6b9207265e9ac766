// The words of pages, and the functions of kernels, as `vidmm_runtime::kernel` defines them.

#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference2 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

const uint WORDS_PER_PAGE = 512u;
const uint64_t PAGE_BYTES = 4096ul;

layout(buffer_reference, std430, buffer_reference_align = 8) buffer Words {
    uint64_t word[];
};

// What a dispatch is told. Each shader says which fields it reads.
layout(push_constant, std430) uniform Arguments {
    // The address of the first page.
    uint64_t pages;
    // An address, a state or a seed.
    uint64_t first;
    // The number of the output.
    uint64_t number;
    // The first page of the output that is written.
    uint64_t page;
    // The number of the surface, and its page that is the first; or the key in place of the number.
    uint64_t surface;
    uint64_t surface_page;
    uint flags;
} arguments;

// The words of a page are combined with the key of the surface's page.
const uint FLAG_SURFACE = 1u;
// The words of a page are combined with the key in place of the number of a surface.
const uint FLAG_KEY = 2u;
// The content is a ramp, and not uniform.
const uint FLAG_RAMP = 4u;
// The state is the seed.
const uint FLAG_SEED = 8u;

uint64_t rotate_left_32(uint64_t x) {
    return (x << 32) | (x >> 32);
}

uint64_t mix_words(uint64_t a, uint64_t b) {
    uint64_t x = (a ^ rotate_left_32(b)) * 0x9E3779B97F4A7C15ul;
    x ^= x >> 29;
    x *= 0xBF58476D1CE4E5B9ul;
    x ^= x >> 32;
    return x + b;
}

// The key that the words of the page that is `page` pages from the first are combined with.
uint64_t key_of(uint64_t page) {
    if ((arguments.flags & FLAG_SURFACE) != 0u) {
        return mix_words(arguments.surface + 1ul, arguments.surface_page + page) | 1ul;
    }
    return (arguments.flags & FLAG_KEY) != 0u ? arguments.surface : 0ul;
}

Words page_at(uint64_t page) {
    return Words(arguments.pages + page * PAGE_BYTES);
}
