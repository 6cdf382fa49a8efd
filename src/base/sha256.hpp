// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace kernelforge {

/// SHA-256 (FIPS 180-4), incremental.
class Sha256 {
  public:
    Sha256();
    void update(std::string_view bytes);
    /// Appends a length-prefixed field, so that ("ab", "c") and ("a", "bc") differ.
    void field(std::string_view bytes);
    /// 64 lower-case hexadecimal digits. The object must not be used afterwards.
    [[nodiscard]] std::string hex();

  private:
    void block(const std::uint8_t* data);
    std::array<std::uint32_t, 8> state_;
    std::array<std::uint8_t, 64> buffer_{};
    std::size_t buffered_ = 0;
    std::uint64_t length_ = 0;
};

[[nodiscard]] std::string sha256_hex(std::string_view bytes);

}  // namespace kernelforge
