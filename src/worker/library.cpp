// SPDX-License-Identifier: Apache-2.0
#include "worker/library.hpp"

#include <map>
#include <utility>

#include "worker/library_steps.hpp"

namespace kernelforge::worker {

namespace library {

CUdeviceptr address_of(const Addresses& addresses, const std::string& name) {
    const auto at = addresses.find(name);
    if (at == addresses.end()) {
        throw Error(ErrorCode::internal, "library step: buffer " + name + " has no address");
    }
    return at->second;
}

}  // namespace library

namespace {

class AllLibraries final : public Libraries {
  public:
    explicit AllLibraries(const library::StepContext& context) {
        makers_.emplace("matmul", library::matmul_maker(context));
        makers_.emplace("sdpa", library::sdpa_maker(context));
        makers_.emplace("reduce", library::reduce_maker(context));
        makers_.emplace("sort", library::sort_maker(context));
    }

    [[nodiscard]] std::unique_ptr<LibraryStep> make(const plan::ResolvedCall& call) override {
        const auto maker = makers_.find(call.function);
        if (maker == makers_.end()) {
            throw Error(ErrorCode::unsupported, call.position,
                        "there is no library function '" + call.function + "'");
        }
        return maker->second->make(call);
    }

  private:
    std::map<std::string, std::unique_ptr<library::StepMaker>> makers_;
};

}  // namespace

std::unique_ptr<Libraries> open_libraries(const Driver& driver, const DeviceInfo& device,
                                          CUstream stream, LibraryOptions options) {
    return std::make_unique<AllLibraries>(library::StepContext{
        driver, device, stream, std::move(options), std::make_shared<library::Kernels>(driver)});
}

}  // namespace kernelforge::worker
