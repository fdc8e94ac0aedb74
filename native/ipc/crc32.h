// The CRC-32 of Ethernet, as zlib computes it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace isoverbs::ipc {

/** Continues a CRC, which begins with 0, over these bytes. */
uint32_t crc32(uint32_t before, const unsigned char* data, size_t bytes);

}  // namespace isoverbs::ipc
