// The digest of each page, one workgroup a page. Reads `pages`, `surface`, `surface_page` and `flags`; writes the digests,
// words of 64 bits, from the address `first` on.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "page.glsl"

const uint WIDTH = 32u;
layout(local_size_x = 32) in;

shared uint64_t sums[WIDTH];

const uint64_t MULTIPLIER = 0xD6E8FEB86659FD93ul;

uint64_t power(uint64_t base, uint exponent) {
    uint64_t result = 1ul;
    for (; exponent != 0u; exponent >>= 1) {
        if ((exponent & 1u) != 0u) {
            result *= base;
        }
        base *= base;
    }
    return result;
}

void main() {
    uint64_t page = uint64_t(gl_WorkGroupID.x);
    uint lane = gl_LocalInvocationID.x;
    Words words = page_at(page);
    uint64_t key = key_of(page);
    // Horner's rule over every 32nd word, then the weight of the lane's last word.
    uint64_t step = power(MULTIPLIER, WIDTH);
    uint64_t sum = 0ul;
    for (uint i = lane; i < WORDS_PER_PAGE; i += WIDTH) {
        sum = sum * step + (words.word[i] ^ key);
    }
    sums[lane] = sum * power(MULTIPLIER, WIDTH - 1u - lane);
    barrier();
    if (lane == 0u) {
        uint64_t digest = 0ul;
        for (uint i = 0u; i < WIDTH; i++) {
            digest += sums[i];
        }
        Words(arguments.first).word[gl_WorkGroupID.x] = digest;
    }
}
