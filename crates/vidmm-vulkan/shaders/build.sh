#!/bin/sh
# Makes the SPIR-V of every shader, into the folder of the argument or beside the shaders.
set -eu
here="$(cd "$(dirname "$0")" && pwd)"
to="${1:-$here}"
for shader in "$here"/*.comp; do
    name="$(basename "$shader" .comp)"
    glslangValidator --quiet --target-env vulkan1.2 -V "$shader" -o "$to/$name.spv"
done
