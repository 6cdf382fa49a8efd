// SPDX-License-Identifier: Apache-2.0
#include "worker/library_cudnn.hpp"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "kernelforge/error.hpp"

namespace kernelforge::worker::library::dnn {

namespace {

std::vector<std::string> search(const std::vector<std::string>& folders) {
    std::vector<std::string> all;
    for (const std::string& folder : folders) {
        for (std::string& each : wheel_folders(folder, "cudnn")) all.push_back(std::move(each));
    }
    return all;
}

}  // namespace

Api::Api(const std::vector<std::string>& folders)
    : library("cuDNN", {"libcudnn.so.9"}, search(folders)) {
    library.find(get_version, "cudnnGetVersion");
    library.find(error_string, "cudnnGetErrorString");
    library.find(last_error, "cudnnGetLastErrorString");
    library.find(create, "cudnnCreate");
    library.find(destroy, "cudnnDestroy");
    library.find(set_stream, "cudnnSetStream");
    library.find(descriptor_create, "cudnnBackendCreateDescriptor");
    library.find(descriptor_destroy, "cudnnBackendDestroyDescriptor");
    library.find(finalize, "cudnnBackendFinalize");
    library.find(set_attribute, "cudnnBackendSetAttribute");
    library.find(get_attribute, "cudnnBackendGetAttribute");
    library.find(execute, "cudnnBackendExecute");
}

std::string Api::version() const {
    const std::size_t version = get_version();
    return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

void Api::check(Status status, const std::string& what) const {
    if (status == 0) return;
    std::array<char, 1024> reason{};
    last_error(reason.data(), reason.size());
    reason.back() = '\0';
    const char* name = error_string(status);
    // CUDNN_STATUS_NOT_SUPPORTED and its kin are 3000 to 3999.
    constexpr int kind = 1000;
    throw Error(status / kind == 3 ? ErrorCode::unsupported : ErrorCode::device_unavailable,
                fmt::format("cudnn {}: {}: {} ({}){}{}", version(), what,
                            name == nullptr ? "unknown status" : name, status,
                            reason[0] == '\0' ? "" : ": ", reason.data()));
}

Session::Session(const std::vector<std::string>& folders) : api(folders) {
    api.check(api.create(&handle), "making a handle");
}

Session::~Session() {
    api.destroy(handle);
}

Descriptor::Descriptor(const Api& api, DescriptorType type, std::string name)
    : api_(api), name_(std::move(name)) {
    api.check(api.descriptor_create(type, &raw_), "making the descriptor of " + name_);
}

Descriptor::~Descriptor() {
    api_.descriptor_destroy(raw_);
}

void Descriptor::set(const Attribute& attribute, AttributeType type, std::int64_t count,
                     const void* values) {
    const Status status = api_.set_attribute(raw_, attribute.id, type, count, values);
    if (status == 0) return;
    api_.check(status, fmt::format("{}, attribute {} ({})", name_, attribute.name, attribute.id));
}

void Descriptor::set(const Attribute& attribute, AttributeType type, int value) {
    set(attribute, type, 1, &value);
}

void Descriptor::set(const Attribute& attribute, std::int64_t value) {
    set(attribute, type_int64, 1, &value);
}

void Descriptor::set(const Attribute& attribute, bool value) {
    set(attribute, type_boolean, 1, &value);
}

void Descriptor::set(const Attribute& attribute, const std::vector<std::int64_t>& values) {
    set(attribute, type_int64, static_cast<std::int64_t>(values.size()), values.data());
}

void Descriptor::set(const Attribute& attribute, const Descriptor& value) {
    RawDescriptor raw = value.raw();
    set(attribute, type_descriptor, 1, &raw);
}

void Descriptor::finalize() {
    api_.check(api_.finalize(raw_), "finalizing " + name_);
}

}  // namespace kernelforge::worker::library::dnn
