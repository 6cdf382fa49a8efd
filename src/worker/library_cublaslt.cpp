// SPDX-License-Identifier: Apache-2.0
#include "worker/library_cublaslt.hpp"

#include <fmt/format.h>

#include <utility>

#include "kernelforge/error.hpp"

namespace kernelforge::worker::library::lt {

namespace {

constexpr Status not_supported = 15;  // CUBLAS_STATUS_NOT_SUPPORTED
constexpr Status arch_mismatch = 8;   // CUBLAS_STATUS_ARCH_MISMATCH

std::vector<std::string> search(const std::vector<std::string>& folders) {
    std::vector<std::string> all;
    for (const std::string& folder : folders) {
        for (std::string& each : wheel_folders(folder, "cublas")) all.push_back(std::move(each));
    }
    return all;
}

}  // namespace

Api::Api(const std::vector<std::string>& folders)
    : library("cuBLASLt", {"libcublasLt.so.13", "libcublasLt.so.12"}, search(folders)) {
    library.find(create, "cublasLtCreate");
    library.find(destroy, "cublasLtDestroy");
    library.find(get_version, "cublasLtGetVersion");
    library.find(status_string, "cublasLtGetStatusString");
    library.find(layout_create, "cublasLtMatrixLayoutCreate");
    library.find(layout_destroy, "cublasLtMatrixLayoutDestroy");
    library.find(layout_set, "cublasLtMatrixLayoutSetAttribute");
    library.find(desc_create, "cublasLtMatmulDescCreate");
    library.find(desc_destroy, "cublasLtMatmulDescDestroy");
    library.find(desc_set, "cublasLtMatmulDescSetAttribute");
    library.find(preference_create, "cublasLtMatmulPreferenceCreate");
    library.find(preference_destroy, "cublasLtMatmulPreferenceDestroy");
    library.find(preference_set, "cublasLtMatmulPreferenceSetAttribute");
    library.find(heuristic, "cublasLtMatmulAlgoGetHeuristic");
    library.find(ids, "cublasLtMatmulAlgoGetIds");
    library.find(init, "cublasLtMatmulAlgoInit");
    library.find(check_algorithm, "cublasLtMatmulAlgoCheck");
    library.find(capability, "cublasLtMatmulAlgoCapGetAttribute");
    library.find(config_set, "cublasLtMatmulAlgoConfigSetAttribute");
    library.find(config_get, "cublasLtMatmulAlgoConfigGetAttribute");
    library.find(matmul, "cublasLtMatmul");
}

std::string version_text(std::size_t version) {
    return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::string Api::version() const {
    return version_text(get_version());
}

void Api::check(Status status, std::string_view what) const {
    if (status == 0) return;
    const char* text = status_string(status);
    throw Error(status == not_supported || status == arch_mismatch ? ErrorCode::unsupported
                                                                   : ErrorCode::device_unavailable,
                fmt::format("cublasLt {}: {}: {} ({})", version(), what,
                            text == nullptr ? "unknown status" : text, status));
}

DataType data_type(std::string_view dtype) {
    constexpr std::pair<std::string_view, DataType> types[] = {
        {"f32", r_32f},   {"f64", r_64f},      {"f16", r_16f},
        {"bf16", r_16bf}, {"e4m3", r_8f_e4m3}, {"e5m2", r_8f_e5m2}};
    for (const auto& [name, type] : types) {
        if (name == dtype) return type;
    }
    throw Error(ErrorCode::unsupported, "cublasLt: there is no matmul of " + std::string(dtype));
}

}  // namespace kernelforge::worker::library::lt
