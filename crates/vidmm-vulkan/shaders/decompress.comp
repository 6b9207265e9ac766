// Makes compressed pages plain where they are, one workgroup a page. Reads `pages`, `surface`, `surface_page` and `flags`.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "page.glsl"

layout(local_size_x = 32) in;

void main() {
    uint64_t page = uint64_t(gl_WorkGroupID.x);
    Words words = page_at(page);
    uint64_t key = key_of(page);
    for (uint i = gl_LocalInvocationID.x; i < WORDS_PER_PAGE; i += gl_WorkGroupSize.x) {
        words.word[i] ^= key;
    }
}
